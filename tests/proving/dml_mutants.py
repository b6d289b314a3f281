"""Planted bugs of plain ``spark.sql`` that changes tables: each has a statement that notices it."""

from __future__ import annotations

import contextlib
import warnings
from dataclasses import dataclass, replace
from unittest import mock

from py4j.protocol import Py4JError

from proving import doors
from proving.planting import edited, passed_over, replaced, together
from tidelake.errors import TidelakeError
from tidelake.spark.callbacks.gateway import Gateway
from tidelake.spark.catalog import partitions, row_changes, table, table_catalog, writing
from tidelake.spark.jvm import slower
from tidelake.spark.rowlevel import merge_by_join
from tidelake.types.predicate import Not

COLUMNS = {"k": "BIGINT", "v": "STRING", "p": "INT", "q": "INT"}
ROWS = {k: (f"v{k}", k % 2, k // 3) for k in range(6)}
"""By `k`, the other columns."""
KEYED = {"primary_keys": ["k"], "options": {"bucket": 1}}
PARTITIONED = {"partition_keys": ["p", "q"]}


@dataclass(frozen=True)
class Case:
    """A statement on a table of :data:`ROWS`.

    Parameters
    ----------
    left : callable
        From `k` and the other columns to the columns that are left, or None.
    refused : str, optional
        The kind of the error, after which all is as it was.
    definition : dict, optional
        Keys and options of the table.
    between : str, optional
        What another writer does before the first attempt commits: a filter of rows that become 'w'.
    """

    text: str
    left: object = lambda _, rest: rest
    refused: str | None = None
    definition: dict | None = None
    between: str | None = None

    def check(self, lake, name):
        """Run it on a new table; an AssertionError tells what is wrong."""
        made = lake.catalog.create_table(f"default.{name}", COLUMNS, **(self.definition or {}))
        made = made.set_default("v", "'d'")
        made.write([dict(zip(COLUMNS, (k, *rest), strict=True)) for k, rest in ROWS.items()])
        kind = None
        try:
            with self._other_writer(lake, name):
                doors.run(lake, self.text.format(t=name), "spark.sql")
        except TidelakeError as error:
            kind = error.kind
        assert kind == self.refused, f"{self.text}: {kind}"
        found = {r["k"]: tuple(r.values())[1:] for r in made.to_arrow().to_pylist()}
        wanted = {k: self.left(k, rest) for k, rest in ROWS.items()}
        assert found == {k: rest for k, rest in wanted.items() if rest}, self.text

    def _other_writer(self, lake, name):
        if self.between is None:
            return contextlib.nullcontext()
        other = lake.catalog.table(f"default.{name}")
        committer = type(other.handle.committer())
        real, tries = committer.commit, []

        def commit(own, messages, **rest):
            tries.append(1)
            if len(tries) == 1:
                other.update({"v": "w"}, self.between)
            return real(own, messages, **rest)

        return mock.patch.object(committer, "commit", commit)


def said_once(lake, _name):
    """A session that takes no class of ours says that it takes no DML."""

    def refuses(*_):
        raise Py4JError("no such compiler")

    own = Gateway(lake.spark)
    with (
        mock.patch.object(row_changes, "defined_class", refuses),
        mock.patch.object(slower, "_SAID", set()),
        warnings.catch_warnings(record=True) as said,
    ):
        warnings.simplefilter("always")
        row_changes.install_row_changes(own)
    assert [str(one.message).partition(",")[0] for one in said] == ["DELETE"], said
    assert not own.changes_rows


def key_is_declared(lake, name):
    """A capability that this Spark has is used: a key in CREATE TABLE."""
    text = f"CREATE TABLE {name} (k INT NOT NULL, PRIMARY KEY (k) NOT ENFORCED)"
    with contextlib.suppress(TidelakeError):
        doors.run(lake, text, "spark.sql")
    made = lake.catalog.list_tables("default")
    assert name in made, made
    assert lake.catalog.table(f"default.{name}").primary_keys == ("k",)


PLANTED = {
    "clauses of MERGE change places": (
        replaced(row_changes, "_merge", edited("zip(actions[::2],", "zip(actions[::2][::-1],")),
        Case(
            "MERGE INTO {t} t USING (SELECT 1L AS k) s ON t.k = s.k"
            " WHEN MATCHED THEN UPDATE SET v = 'm'"
            " WHEN NOT MATCHED BY SOURCE AND t.k < 3 THEN UPDATE SET v = 's'",
            lambda k, rest: ("m" if k == 1 else "s" if k < 3 else rest[0], *rest[1:]),
        ).check,
    ),
    "what is no filter is left out of WHERE": (
        replaced(row_changes._Statement, "matching", edited("None if is_whole else", "None and")),
        Case(
            "DELETE FROM {t} WHERE k > 1 AND reverse(v) = '3v'",
            lambda k, rest: None if k == 3 else rest,
        ).check,
    ),
    "the last of two values counts": (
        replaced(row_changes, "_overlap", lambda _: lambda *_: False),
        Case("UPDATE {t} SET v = 'a', v = 'b'", refused="column_twice").check,
    ),
    "MERGE matches a row twice": (
        together(
            replaced(merge_by_join, "by_bucket", lambda _: lambda *_, **__: None),
            replaced(merge_by_join._Merge, "_check_once", passed_over),
        ),
        Case(
            "MERGE INTO {t} t USING (SELECT 3L AS k, 'a' AS v UNION ALL SELECT 3L, 'b') s"
            " ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = s.v",
            refused="merge_row_twice",
            definition=KEYED,
        ).check,
    ),
    "DEFAULT is null": (
        replaced(table, "with_column_defaults", lambda _: lambda struct, *_, **__: struct),
        Case("UPDATE {t} SET v = DEFAULT", lambda _, rest: ("d", *rest[1:])).check,
    ),
    "the source is read once for all attempts": (
        replaced(
            row_changes,
            "_merge",
            edited(
                "source=lambda: DataFrame(given.sourceRows(), spark),",
                "source=lambda kept=DataFrame(given.sourceRows(), spark).localCheckpoint(): kept,",
            ),
        ),
        Case(
            "MERGE INTO {t} t USING (SELECT k, v || '+' AS v FROM {t}) s ON t.k = s.k AND t.k = 2"
            " WHEN MATCHED THEN UPDATE SET v = s.v",
            lambda k, rest: ("w+" if k == 2 else rest[0], *rest[1:]),
            between="k = 2",
        ).check,
    ),
    "a partition is dropped by its first column": (
        replaced(
            partitions.TablePartitions,
            "_drop",
            edited("self._given(one, fields)", "self._given(one, fields[:1])"),
        ),
        Case(
            "ALTER TABLE {t} DROP PARTITION (p = 0, q = 1)",
            lambda _, rest: None if rest[1:] == (0, 1) else rest,
            definition=PARTITIONED,
        ).check,
    ),
    "an overwrite takes the other partitions": (
        replaced(writing, "bind", lambda bind: lambda one, fields: bind(Not(one), fields)),
        Case(
            "INSERT INTO {t} REPLACE WHERE p > 0 SELECT * FROM {t} WHERE k = 1",
            lambda k, rest: None if rest[1] and k != 1 else rest,
            definition=PARTITIONED,
        ).check,
    ),
    "what runs by tl.sql only is not said": (
        replaced(row_changes, "warn_slower", passed_over),
        said_once,
    ),
    "the table of versions has a capability too late": (
        replaced(table_catalog, "CONSTRAINTS", lambda one: replace(one, since="4.4")),
        key_is_declared,
    ),
}
"""What is planted, and what notices it."""
