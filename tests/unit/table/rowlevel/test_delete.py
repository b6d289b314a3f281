"""A delete of whole partitions: in the metadata, or a row ``-D`` for each row that it deletes."""

from __future__ import annotations

import pytest

import tidelake
from tidelake import InvalidInputError
from tidelake.metadata.log.snapshot import CommitKind

FORCED = {"delete.force-produce-changelog": "true"}
PRODUCERS = ("none", "input", "lookup", "full-compaction")
WHOLE = {"a partition": ("p = 'a'", {1, 2}), "all": ("TRUE", {1, 2, 3})}


@pytest.fixture
def make(tmp_path):
    """Makes a table of three rows in two partitions."""

    def table(keys=("p", "k"), **options):
        made = tidelake.open(tmp_path).create_table(
            "db.t",
            {"p": "STRING NOT NULL", "k": "INT NOT NULL", "v": "INT"},
            primary_keys=keys,
            partition_keys=["p"],
            options={"bucket": "1" if keys else "-1", **options},
        )
        made.write([{"p": p, "k": k, "v": k} for p, k in (("a", 1), ("a", 2), ("b", 3))])
        return made

    return table


def deleted_keys(table, since):
    """The keys of the -D rows that a stream gets."""
    stream = table.stream(start=since + 1, timeout=0)
    rows = [row for batch in stream for row in batch.data.to_pylist()]
    assert all(row["_row_kind"] == "-D" for row in rows)
    return {row["k"] for row in rows}


@pytest.mark.parametrize("producer", PRODUCERS)
@pytest.mark.parametrize("whole", WHOLE)
def test_a_forced_changelog_has_each_row_of_a_deleted_partition(make, producer, whole):
    table = make(**FORCED, **{"changelog-producer": producer})
    table.compact(full=True)
    since = table.latest_snapshot_id
    where, gone = WHOLE[whole]
    assert table.delete(where).rows_deleted == len(gone)
    table.compact(full=True)
    assert set(table.to_arrow()["k"].to_pylist()) == {1, 2, 3} - gone
    assert deleted_keys(table, since) == gone


def test_a_delete_of_a_partition_is_an_overwrite_without_the_option(make):
    table = make(**{"changelog-producer": "input"})
    table.delete("p = 'a'")
    assert table.handle.snapshots.latest().commit_kind is CommitKind.OVERWRITE


def test_truncate_and_drop_partitions_are_overwrites_with_the_option(make):
    table = make(**FORCED, **{"changelog-producer": "input"})
    table.drop_partitions([{"p": "a"}])
    assert table.handle.snapshots.latest().commit_kind is CommitKind.OVERWRITE
    table.truncate()
    assert table.handle.snapshots.latest().commit_kind is CommitKind.OVERWRITE
    assert not table.to_arrow().num_rows


def test_an_append_table_deletes_partitions_in_the_metadata_with_the_option(make):
    table = make(keys=(), **FORCED)
    table.delete("p = 'a'")
    assert table.handle.snapshots.latest().commit_kind is CommitKind.OVERWRITE
    assert table.to_arrow()["k"].to_pylist() == [3]


def test_nothing_is_deleted_by_what_is_always_false_with_the_option(make):
    table = make(**FORCED)
    assert table.delete("FALSE").snapshot_ids == ()
    assert table.count() == 3


def test_a_forced_changelog_is_refused_where_a_delete_row_does_not_delete(make):
    table = make(**FORCED, **{"merge-engine": "first-row", "changelog-producer": "lookup"})
    with pytest.raises(InvalidInputError, match="Drop whole partitions") as caught:
        table.delete("p = 'a'")
    assert caught.value.kind == "no_delete"
    assert table.count() == 3
