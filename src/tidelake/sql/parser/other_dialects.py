"""Statements of Delta, Iceberg and of databases that go by another name here.

They are refused with that name: whoever types ``OPTIMIZE t`` by habit should not have to look for
what Paimon calls it.
"""

from __future__ import annotations

from tidelake.sql.syntax.cursor import Reader

__all__ = ["EACH_COMMITS", "refuse_foreign"]

_HISTORY = "a table's history is a table, SELECT * FROM t$snapshots."
_UPSERT = "INSERT INTO a table with a primary key is an upsert."
EACH_COMMITS = (
    "there are no transactions of several statements, each statement is one commit. Write what"
    " belongs together by one MERGE or INSERT. Or tag the table first, ALTER TABLE t CREATE TAG"
    " before: CALL sys.rollback(table => 't', version => 'before') goes back to it."
)
_NO_USERS = "there are no users: who may read and write is said by the file system."

_DESCRIBES = {"DESCRIBE", "DESC"}
_HERE: dict[tuple[str, ...], str] = {
    ("OPTIMIZE",): "CALL sys.compact(table => 't') merges files; compact_strategy => 'minor' only"
    " small ones.",
    ("VACUUM",): "snapshots expire with the commits, as the table's options say;"
    " CALL sys.expire_snapshots(table => 't') does it now.",
    ("RESTORE",): "CALL sys.rollback(table => 't', version => '3') goes back to a snapshot or tag.",
    ("DESCRIBE", "HISTORY"): _HISTORY,
    ("DESC", "HISTORY"): _HISTORY,
    ("SHOW", "HISTORY"): _HISTORY,
    ("SHOW", "SNAPSHOTS"): _HISTORY,
    ("DESCRIBE", "DETAIL"): "DESCRIBE EXTENDED t tells of a table, t$files of its files.",
    ("DESC", "DETAIL"): "DESCRIBE EXTENDED t tells of a table, t$files of its files.",
    ("UPSERT",): _UPSERT,
    ("REPLACE", "INTO"): _UPSERT,
    ("CONVERT",): "CREATE TABLE t AS SELECT * FROM parquet.`/path` writes rows anew.",
    ("BEGIN", "TRANSACTION"): EACH_COMMITS,
    ("BEGIN", "WORK"): EACH_COMMITS,
    ("START", "TRANSACTION"): EACH_COMMITS,
    ("SAVEPOINT",): EACH_COMMITS,
    ("COMMIT",): EACH_COMMITS,
    ("ROLLBACK",): EACH_COMMITS,
    ("GRANT",): _NO_USERS,
    ("REVOKE",): _NO_USERS,
}


def refuse_foreign(reader: Reader) -> None:
    """Refuse a statement that has another name here, and say which.

    ``DESCRIBE history id`` asks for a column of a table: it is taken for the other statement in
    capitals only, and not in backticks.

    Raises
    ------
    UnsupportedError
        The statement begins as one of another system does.
    """
    for words, here in _HERE.items():
        if reader.sees(*words) and not (words[0] in _DESCRIBES and _is_name(reader)):
            raise reader.refusal(f"{' '.join(words)} is not known here: {here}")


def _is_name(reader: Reader) -> bool:
    """Whether the word behind ``DESCRIBE`` is a table's name."""
    behind = reader.words[reader.index + 1 :]
    return len(behind) < 2 or behind[0].text != behind[0].upper
