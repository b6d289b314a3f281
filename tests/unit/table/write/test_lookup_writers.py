"""Two writers on one bucket whose compactions look keys up: neither hides what the other wrote."""

from __future__ import annotations

from unittest import mock

import pytest

import tidelake
import tidelake.table.write.transaction as table_write
from tidelake.commit import Committer

LOOKUP = {"bucket": "1", "changelog-producer": "lookup"}
SUM = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}


def rows(keys, v):
    return [{"k": k, "v": v} for k in keys]


def overtaken(table, own, theirs):
    """Write `own`; `theirs` are written, and compacted, between its compaction and its commit."""
    other = tidelake.open(table.paths.location.rsplit("/db.db/", 1)[0]).table("db.t")
    commit = Committer.commit

    def overtake(self, *arguments, **named):
        with mock.patch.object(Committer, "commit", commit):
            other.write(theirs)
            return commit(self, *arguments, **named)

    with (
        mock.patch.object(Committer, "commit", overtake),
        mock.patch.object(table_write, "COMPACTIONS_AGAIN_MAX", 0),
    ):
        return table.write(own)


@pytest.fixture
def make(catalog):
    def make_table(**options):
        table = catalog.create_table(
            "db.t", {"k": "INT", "v": "BIGINT"}, primary_keys=["k"], options=options
        )
        table.write(rows(range(20_000), 1))
        table.write(rows(range(3_000), 1))
        return table

    return make_table


def held(table, keys=(1, 90_000)):
    return sorted((r["k"], r["v"]) for r in table.to_arrow().to_pylist() if r["k"] in keys)


OWN, THEIRS = rows((1, 90_000), 10), [*rows((1, 90_000), 100), *rows(range(30_000, 33_000), 0)]


@pytest.mark.parametrize("more", [[], rows(range(40_000, 40_003), 0)], ids=["then", "after more"])
def test_values_of_both_writers_are_summed(make, more):
    table = make(**LOOKUP, **SUM)
    start = table.latest_snapshot_id
    result = overtaken(table, OWN, THEIRS)
    assert result.compactions_dropped == 1
    if more:
        table.write(more)
    else:
        table.compact()
    assert held(table) == [(1, 112), (90_000, 110)]
    changes = table.changes(start, mode="changelog").to_pylist()
    told = [(c["_row_kind"], c["v"]) for c in changes if c["k"] == 90_000]
    assert told == [("+I", 100), ("-U", 100), ("+U", 110)]


def test_a_first_row_is_there_once(make):
    table = make(bucket="1", **{"merge-engine": "first-row"})
    overtaken(table, OWN, THEIRS)
    assert held(table) == [(1, 1), (90_000, 100)]
    table.compact()
    assert held(table) == [(1, 1), (90_000, 100)]
    assert table.count() == 20_000 + 3_000 + 1


def test_a_compaction_never_changes_which_row_wins(make):
    """Both number their rows alike; a full compaction must not put one beneath the other."""
    table = make(bucket="1", **{"num-sorted-run.compaction-trigger": "2"})
    overtaken(table, OWN, THEIRS)
    before = held(table)
    table.compact(full=True)
    assert held(table) == before
