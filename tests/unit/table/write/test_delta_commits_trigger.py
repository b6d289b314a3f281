"""``full-compaction.delta-commits``: no row waits for the last level longer than that."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

import tidelake
from tidelake import InvalidInputError
from tidelake.table.write.delta_commits_trigger import full_compactions

SCHEMA = pa.schema(
    [pa.field("p", pa.string(), nullable=False), pa.field("k", pa.int64(), nullable=False)]
)


@pytest.fixture
def make(tmp_path):
    catalog = tidelake.open(tmp_path)

    def make_table(**options):
        return catalog.create_table(
            "db.t",
            SCHEMA,
            primary_keys=["p", "k"],
            partition_keys=["p"],
            options={"bucket": "1", "num-sorted-run.compaction-trigger": "9", **options},
        )

    return make_table


def waiting(table):
    """Number of files above the last level, by partition."""
    files = table.system_table("files").to_arrow(columns=["partition", "level"]).to_pylist()
    last = 9
    counts = {}
    for file in files:
        counts.setdefault(file["partition"][1:-1], 0)
        counts[file["partition"][1:-1]] += file["level"] < last
    return counts


def write(table, *partitions, k=0, **options):
    table.write([{"p": p, "k": k} for p in partitions], options=options or None)


@pytest.mark.parametrize("commits", [1, 2, 3, 5])
def test_rows_wait_for_so_many_commits_and_no_longer(make, commits):
    table = make(**{"full-compaction.delta-commits": str(commits)})
    seen = []
    for k in range(11):
        write(table, "a", k=k)
        seen.append(waiting(table)["a"])
    assert seen == [(k + 1) % commits for k in range(11)]


def test_a_bucket_that_nobody_writes_to_is_compacted_when_its_time_has_come(make):
    table = make(**{"full-compaction.delta-commits": "3"})
    write(table, "a")
    write(table, "b")
    assert waiting(table) == {"a": 1, "b": 1}
    write(table, "c")
    assert waiting(table) == {"a": 0, "b": 1, "c": 1}
    write(table, "c", k=1)
    assert waiting(table) == {"a": 0, "b": 0, "c": 2}
    write(table, "a", k=1)
    assert waiting(table) == {"a": 1, "b": 0, "c": 0}


def test_an_explicit_compaction_counts(make):
    table = make(**{"full-compaction.delta-commits": "3"})
    write(table, "a")
    write(table, "a", k=1)
    table.compact(full=True)
    assert waiting(table) == {"a": 0}
    write(table, "a", k=2)
    assert waiting(table) == {"a": 1}


def test_a_writer_that_leaves_compaction_to_others_leaves_this_too(make):
    table = make(**{"full-compaction.delta-commits": "1"})
    write(table, "a", **{"write-only": "true"})
    assert waiting(table) == {"a": 1}
    write(table, "b")
    assert waiting(table) == {"a": 0, "b": 0}


def test_snapshots_that_have_expired_count_as_commits(make, tmp_path):
    table = make()
    for k in range(3):
        write(table, "a", k=k)
    for gone in ("snapshot-1", "snapshot-2"):
        next(tmp_path.rglob(gone)).unlink()
    next(tmp_path.rglob("EARLIEST")).write_text("3")
    write(table, "b", **{"full-compaction.delta-commits": "4"})
    assert waiting(table) == {"a": 0, "b": 1}


def test_no_commits_at_all_are_no_interval(make):
    with pytest.raises(InvalidInputError, match=r"full-compaction\.delta-commits"):
        make(**{"full-compaction.delta-commits": "0"})


@pytest.mark.parametrize("force_lookup", ["true", "false"])
@pytest.mark.parametrize(
    ("engine", "now"), [("aggregation", 7), ("partial-update", 3), ("deduplicate", 3)]
)
def test_what_was_merged_on_the_way_is_told_as_an_update(tmp_path, engine, now, force_lookup):
    """With lookups a level in between holds rows that the last level's are part of already."""
    numbers = random.Random(1)
    options = {
        "bucket": 1,
        "merge-engine": engine,
        "changelog-producer": "full-compaction",
        "force-lookup": force_lookup,
    }
    if engine == "aggregation":
        options["fields.v.aggregate-function"] = "sum"
    columns = {"k": "INT", "v": "INT"}
    catalog = tidelake.open(tmp_path)
    table = catalog.create_table("db.t", columns, primary_keys=["k"], options=options)
    others = [{"k": k, "v": numbers.randrange(2**30)} for k in range(2, 4_000)]
    table.write([{"k": 1, "v": 1}, *others])
    table.compact(full=True)
    start = table.latest_snapshot_id
    for v in (1, 2, 3):
        table.write([{"k": 1, "v": v}])
    levels = set(table.system_table("files").to_arrow()["level"].to_pylist())
    assert levels == ({4, 5} if force_lookup == "true" else {0, 5})
    table.compact(full=True)
    changes = [tuple(row.values()) for row in table.changes(start, mode="changelog").to_pylist()]
    assert changes == [("-U", 1, 1), ("+U", 1, now)]


# ---- append tables


@pytest.fixture
def make_append(tmp_path):
    catalog = tidelake.open(tmp_path)

    def make_table(**options):
        return catalog.create_table(
            "db.a",
            SCHEMA,
            partition_keys=["p"],
            options={"compaction.min.file-num": "50", **options},
        )

    return make_table


def files_of(table):
    """The number of files by partition, and whether each was joined."""
    found = {}
    for file in (
        table.system_table("files").to_arrow(columns=["partition", "file_source"]).to_pylist()
    ):
        joined, appended = found.setdefault(file["partition"][1:-1], [0, 0])
        is_joined = file["file_source"] == "COMPACT"
        found[file["partition"][1:-1]] = [joined + is_joined, appended + (not is_joined)]
    return found


@pytest.mark.parametrize("commits", [2, 3, 5])
def test_small_files_of_an_append_table_wait_for_so_many_commits(make_append, commits):
    table = make_append(**{"full-compaction.delta-commits": str(commits)})
    appended = []
    for k in range(11):
        write(table, "a", k=k)
        appended.append(files_of(table)["a"][1])
    assert appended == [(k + 1) % commits for k in range(11)]
    assert sorted(table.to_arrow()["k"].to_pylist()) == list(range(11))


def test_each_commit_of_an_append_table_may_join(make_append):
    table = make_append(**{"full-compaction.delta-commits": "1"})
    for k in range(4):
        write(table, "a", k=k)
        assert files_of(table)["a"] == ([0, 1] if k == 0 else [1, 0])


def test_buckets_of_an_append_table_are_joined_from_three_files_on_as_in_java(make_append):
    options = {"bucket": "1", "bucket-key": "k", "full-compaction.delta-commits": "2"}
    table = make_append(**options)
    seen = []
    for k in range(6):
        write(table, "a", k=k)
        seen.append(sum(files_of(table)["a"]))
    assert max(seen) <= 3
    assert seen[-1] < 6
    assert table.to_arrow()["k"].to_pylist() == list(range(6))  # in order


def test_a_partition_of_an_append_table_that_nobody_writes_to_is_joined_in_its_turn(make_append):
    table = make_append(**{"full-compaction.delta-commits": "3"})
    write(table, "a", "b", k=0)
    write(table, "b", k=1)
    assert files_of(table) == {"a": [0, 1], "b": [0, 2]}
    write(table, "a", k=2)
    assert files_of(table) == {"a": [1, 0], "b": [1, 0]}


def test_one_file_is_left_alone(make_append):
    table = make_append(**{"full-compaction.delta-commits": "2"})
    for p in "abc":
        write(table, p)
    assert files_of(table) == {p: [0, 1] for p in "abc"}
    due = full_compactions(table.handle)
    assert due.due == frozenset()
    assert len(due.due_if_written) == 3


def test_a_write_only_append_table_joins_nothing(make_append):
    table = make_append(**{"full-compaction.delta-commits": "1", "write-only": "true"})
    for k in range(3):
        write(table, "a", k=k)
    assert files_of(table)["a"] == [0, 3]


def test_another_writer_of_an_append_table_counts_too(make_append, tmp_path):
    table = make_append(**{"full-compaction.delta-commits": "4"})
    for k in range(3):
        write(tidelake.open(tmp_path).table("db.a"), "a", k=k)
    write(table, "a", k=3)
    assert files_of(table)["a"] == [1, 0]
