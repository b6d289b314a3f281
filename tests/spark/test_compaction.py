"""Compaction as a job on Spark: planned by the driver, done by tasks, committed once."""

from __future__ import annotations

from unittest import mock

import pytest
from proving.fsck import check_table
from pyspark.sql import functions as F

from tidelake.commit import Committer
from tidelake.errors import InvalidInputError, UnsupportedError
from tidelake.fileio import LocalFileIO
from tidelake.spark import compaction
from tidelake.table import WriteResult

KEYED = {"primary_keys": ["p", "k"], "partition_keys": ["p"]}
SCHEMA = "p string, k int, v bigint"


def rows(spark, keys, v, partitions="ab"):
    return spark.createDataFrame([(p, k, v) for p in partitions for k in keys], SCHEMA)


def state(lake, name="db.t"):
    return sorted(tuple(r) for r in lake.table(name).collect())


def levels(lake, name="db.t"):
    found = lake.catalog.table(f"{name}$files").to_arrow().to_pylist()
    return sorted((f["partition"], f["bucket"], f["level"]) for f in found)


def kinds(lake, name="db.t"):
    return lake.catalog.table(name).history()["commit_kind"].to_pylist()


def waiting(spark, lake, **options):
    """Three runs in each of two buckets of two partitions."""
    options = {"bucket": 2, "write-only": True, **options}
    lake.create_table("db.t", SCHEMA, **KEYED, options=options)
    table = lake.catalog.table("db.t")
    for v in range(1, 4):
        table.write(
            [{"p": p, "k": k, "v": v} for p in "ab" for k in range(v, v + 20)],
        )
    return table


FULL = [(p, bucket, 5) for p in ("{a}", "{b}") for bucket in (0, 1)]


def test_the_job_lets_snapshots_of_write_only_tables_expire(spark, lake):
    retained = {"snapshot.num-retained.min": 1, "snapshot.num-retained.max": 2}
    table = waiting(spark, lake, **retained)
    before = state(lake)
    assert lake.compact("db.t") == WriteResult()  # nothing to do, and it looks all the same
    assert table.handle.snapshots.ids() == [2, 3]
    lake.compact("db.t", full=True)
    assert table.handle.snapshots.ids() == [3, 4]
    lake.write(rows(spark, [99], 9), "db.t")
    assert table.handle.snapshots.ids() == [3, 4, 5]  # writers leave it
    answer = lake.sql("CALL sys.expire_snapshots(table => 'db.t', retain_max => 1)").collect()
    assert [row.deleted_snapshots_count for row in answer] == [2]
    assert [row for row in state(lake) if row[1] != 99] == before
    assert check_table(table.fileio, table.paths.location) == 6


def test_a_table_of_write_only_is_compacted_by_tasks_in_one_commit(spark, lake):
    table = waiting(spark, lake)
    before = state(lake)
    assert lake.compact("db.t") == WriteResult()  # three runs, and the trigger is five
    assert lake.compact("db.t", full=True, partitions="p = 'a'", buckets=[0]).files == 1
    assert levels(lake).count(("{a}", 0, 5)) == 1
    result = lake.compact("db.t", full=True, tasks=2)
    assert (len(result.snapshot_ids), result.files, result.compactions_dropped) == (1, 3, 0)
    assert levels(lake) == FULL
    assert kinds(lake) == ["APPEND"] * 3 + ["COMPACT"] * 2
    assert state(lake) == before
    assert lake.compact("db.t", full=True) == WriteResult()
    check_table(LocalFileIO(), table.paths.location)


@pytest.mark.parametrize(
    "options",
    [
        {"changelog-producer": "lookup"},
        {"changelog-producer": "full-compaction"},
        {"merge-engine": "first-row"},
    ],
    ids=lambda options: next(iter(options.values())),
)
def test_tasks_tell_the_changes_and_the_driver_commits_them(spark, lake, options):
    table = waiting(spark, lake, **options)
    lake.compact("db.t", full=True)
    first = "merge-engine" in options
    wanted = [(p, k, max(1, k - 19) if first else min(k, 3)) for p in "ab" for k in range(1, 23)]
    assert state(lake) == sorted(wanted)
    if first:
        return
    told = table.changes(0, mode="changelog").to_pylist()
    assert sorted((r["p"], r["k"], r["v"]) for r in told) == sorted(wanted)
    lake.write(rows(spark, [5, 99], 50), "db.t")
    lake.compact("db.t", full=True)
    told = table.changes(4, mode="changelog").to_pylist()
    assert sorted((r["_row_kind"], r["k"], r["v"]) for r in told if r["p"] == "a") == [
        ("+I", 99, 50),
        ("+U", 5, 50),
        ("-U", 5, 3),
    ]


def test_bins_of_an_append_table_are_tasks_of_their_own(spark, lake):
    lake.create_table("db.t", SCHEMA, partition_keys=["p"])
    for _ in range(6):
        lake.write(rows(spark, range(300), 1).coalesce(1), "db.t")
    before = state(lake)
    found = lake.catalog.table("db.t$files").to_arrow()["file_size_in_bytes"].to_pylist()
    three = {"target-file-size": f"{int(max(found) * 1.45)} b"}  # they make two of that size
    with mock.patch.object(compaction, "_shares", wraps=compaction._shares) as planned:
        result = lake.compact("db.t", full=True, options=three)
    (parts, _), _ = planned.call_args
    assert [len(part.names) for part in parts] == [3] * 4
    assert len(result.snapshot_ids) == 1
    assert state(lake) == before
    check_table(LocalFileIO(), lake.catalog.table("db.t").paths.location)


def test_deletion_vectors_of_an_append_table_go_with_the_rows(spark, lake):
    options = {"deletion-vectors.enabled": True, "compaction.min.file-num": 2}
    lake.create_table("db.t", SCHEMA, options=options)
    for v in range(3):
        lake.write(rows(spark, range(50), v).coalesce(1), "db.t")
    lake.catalog.table("db.t").delete("k < 20")
    before = state(lake)
    assert lake.compact("db.t").files == 1
    assert state(lake) == before
    assert lake.catalog.table("db.t$files").to_arrow()["record_count"].to_pylist() == [180]


def test_rows_of_the_postpone_bucket_move_and_old_buckets_are_compacted_too(spark, lake):
    lake.create_table("db.t", SCHEMA, **KEYED, options={"bucket": -2})
    for v in range(1, 4):
        lake.write(rows(spark, range(v, v + 20), v), "db.t")
        assert lake.compact("db.t").rows == 40
    assert max(level for *_, level in levels(lake)) == 0
    before = state(lake)
    assert lake.compact("db.t", full=True, partitions=[{"p": "a"}]).files == 1
    assert {level for p, _, level in levels(lake) if p == "{a}"} == {5}
    assert state(lake) == before
    with pytest.raises(UnsupportedError, match="no buckets yet"):
        lake.compact("db.t", buckets=[0])


def test_a_bucket_that_a_writer_changed_meanwhile_gives_way_alone(spark, lake):
    table = waiting(spark, lake)
    commit = Committer.commit

    def overtake(self, *arguments, **named):
        with mock.patch.object(Committer, "commit", commit):
            table.write([{"p": "a", "k": 1, "v": 7}])
            table.compact(full=True, partitions={"p": "b"})
            return commit(self, *arguments, **named)

    with mock.patch.object(Committer, "commit", overtake):
        result = lake.compact("db.t", full=True)
    assert (len(result.snapshot_ids), result.compactions_dropped) == (1, 2)
    assert ("a", 1, 7) in state(lake)
    assert len(state(lake)) == 2 * 22
    check_table(LocalFileIO(), table.paths.location)


def test_wrong_arguments_are_refused_on_the_driver(spark, lake):
    waiting(spark, lake)
    with pytest.raises(InvalidInputError, match="only partition columns"):
        lake.compact("db.t", partitions="v > 1")
    with pytest.raises(InvalidInputError, match="tasks must be"):
        lake.compact("db.t", tasks=0)
    assert "COMPACT" not in kinds(lake)


def test_a_refusal_in_a_task_is_raised_and_leaves_nothing(spark, lake, tmp_path):
    """A damaged file: the task says so once, and what other tasks made is deleted."""
    table = waiting(spark, lake)
    files = table.system_table("files").to_arrow().to_pylist()
    broken = next(f["file_path"] for f in files if f["partition"] == "{a}")
    made = sorted(tmp_path.rglob("*"))
    with open(broken, "r+b") as file:
        file.truncate(20)
    with pytest.raises(Exception, match=broken.rsplit("/", 1)[1]):
        lake.compact("db.t", full=True)
    assert sorted(tmp_path.rglob("*")) == made


def test_the_scan_after_a_compaction_merges_nothing(spark, lake):
    waiting(spark, lake)
    total = lake.table("db.t").agg(F.sum("v")).first()[0]
    lake.compact("db.t", full=True)
    assert all(split.raw for split in lake.catalog.table("db.t").plan().splits)
    assert lake.table("db.t").agg(F.sum("v")).first()[0] == total
