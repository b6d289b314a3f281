"""Statements of Delta, Iceberg and other databases, with what to write instead.

A user who types ``OPTIMIZE t`` by habit reads Paimon's name in the error.
"""

from __future__ import annotations

from tidelake.sql.syntax.cursor import Cursor

_HISTORY = "the history of a table is the table t$snapshots: SELECT * FROM t$snapshots."
_DETAIL = "DESCRIBE EXTENDED t describes a table, t$files lists its files."
_UPSERT = "INSERT INTO a table with a primary key is an upsert."
EACH_COMMITS = (
    "each statement is one commit, and there are no transactions of several statements. Write"
    " related changes in one MERGE or INSERT. Or create a tag first, ALTER TABLE t CREATE TAG"
    " before: CALL sys.rollback(table => 't', version => 'before') returns to it."
)
_NO_USERS = "there are no users: the file system decides who may read and write."

_DESCRIBES = {"DESCRIBE", "DESC"}
_HERE: dict[tuple[str, ...], str] = {
    ("OPTIMIZE",): "CALL sys.compact(table => 't') merges files; compact_strategy => 'minor' merges"
    " only small ones.",
    ("VACUUM",): "commits expire snapshots by the table's options;"
    " CALL sys.expire_snapshots(table => 't') does it now.",
    ("RESTORE",): "CALL sys.rollback(table => 't', version => '3') goes back to a snapshot or tag.",
    ("DESCRIBE", "HISTORY"): _HISTORY,
    ("DESC", "HISTORY"): _HISTORY,
    ("SHOW", "HISTORY"): _HISTORY,
    ("SHOW", "SNAPSHOTS"): _HISTORY,
    ("DESCRIBE", "DETAIL"): _DETAIL,
    ("DESC", "DETAIL"): _DETAIL,
    ("UPSERT",): _UPSERT,
    ("REPLACE", "INTO"): _UPSERT,
    ("CONVERT",): "CREATE TABLE t AS SELECT * FROM parquet.`/path` writes new files.",
    ("BEGIN", "TRANSACTION"): EACH_COMMITS,
    ("BEGIN", "WORK"): EACH_COMMITS,
    ("START", "TRANSACTION"): EACH_COMMITS,
    ("SAVEPOINT",): EACH_COMMITS,
    ("COMMIT",): EACH_COMMITS,
    ("ROLLBACK",): EACH_COMMITS,
    ("GRANT",): _NO_USERS,
    ("REVOKE",): _NO_USERS,
}


def refuse_other_dialects(cursor: Cursor) -> None:
    """Refuse a statement of another system, with what to write instead.

    ``DESCRIBE history id`` describes a column of a table; only HISTORY in capitals, without
    backticks, is the other statement.

    Raises
    ------
    UnsupportedError
        It is a statement of another system.
    """
    for tokens, here in _HERE.items():
        if cursor.peek(*tokens) and not (tokens[0] in _DESCRIBES and _is_name(cursor)):
            raise cursor.unsupported(f"{' '.join(tokens)} is not supported: {here}")


def _is_name(cursor: Cursor) -> bool:
    """True if the word after ``DESCRIBE`` is a table's name."""
    after = cursor.tokens[cursor.index + 1 :]
    return len(after) < 2 or after[0].text != after[0].upper
