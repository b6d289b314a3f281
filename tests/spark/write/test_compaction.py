"""Compaction as a job on Spark: planned by the driver, done by tasks, committed once."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest
from proving.fsck import check_table
from pyspark.sql import functions as F

from tidelake.commit import Committer
from tidelake.errors import ConflictError, InvalidInputError, UnsupportedError
from tidelake.fileio import LocalFileIO
from tidelake.spark.write.runner import SparkRunner
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
    # frames of a table that keeps so few are held until Spark's garbage collector has them
    table = waiting(spark, lake, **retained, **{"read.hold": "never"})
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


SUMS = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
PARTS = {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"}
LOOKUP = {"changelog-producer": "lookup"}
FULL_COMPACTION = {"changelog-producer": "full-compaction"}


def values(k):
    """The values of a key of :func:`waiting`, in the order of their commits."""
    return [v for v in range(1, 4) if v <= k < v + 20]


def test_tasks_keep_first_rows(spark, lake):
    waiting(spark, lake, **{"merge-engine": "first-row"})
    lake.compact("db.t", full=True)
    assert state(lake) == sorted((p, k, values(k)[0]) for p in "ab" for k in range(1, 23))


@pytest.mark.share(2)
@pytest.mark.parametrize(
    "producer", [LOOKUP, FULL_COMPACTION], ids=lambda o: next(iter(o.values()))
)
@pytest.mark.parametrize("engine", [{}, SUMS, PARTS], ids=["deduplicate", "aggregation", "parts"])
def test_tasks_tell_the_changes_and_the_driver_commits_them(spark, lake, engine, producer):
    """The writers only write; each job looks up, or compares, what several commits came to."""
    table = waiting(spark, lake, **engine, **producer)
    assert table.changes(0, mode="changelog").num_rows == 0
    lake.compact("db.t", full=True, tasks=2)
    total = (lambda values: sum(values)) if engine is SUMS else (lambda values: values[-1])
    wanted = sorted((p, k, total(values(k))) for p in "ab" for k in range(1, 23))
    assert state(lake) == wanted
    told = table.changes(0, mode="changelog").to_pylist()
    assert {r["_row_kind"] for r in told} == {"+I"}
    assert sorted((r["p"], r["k"], r["v"]) for r in told) == wanted

    newest = table.latest_snapshot_id
    lake.write(rows(spark, [5, 99], 50).union(rows(spark, [7], None)), "db.t")
    gone = rows(spark, [9], 2).withColumn("_row_kind", F.lit("-D"))
    came = rows(spark, [5], 1).withColumn("_row_kind", F.lit("+I"))
    lake.write(gone.union(came), "db.t")
    assert table.changes(newest, mode="changelog").num_rows == 0
    lake.compact("db.t", full=True, tasks=2)
    if engine is SUMS:
        changed = {5: (6, 57), 7: (6, 6), 9: (6, 4), 99: (None, 50)}
    else:
        changed = {5: (3, 1), 7: (3, None if not engine else 3), 9: (3, None), 99: (None, 50)}
    wanted = []
    for k, (before, after) in changed.items():
        comes, goes = k == 99, k == 9 and engine is not SUMS
        wanted += [] if comes else [("-D" if goes else "-U", k, before)]
        wanted += [] if goes else [("+I" if comes else "+U", k, after)]
    told = table.changes(newest, mode="changelog").to_pylist()
    for p in "ab":
        found = [(r["_row_kind"], r["k"], r["v"]) for r in told if r["p"] == p]
        assert sorted(found, key=repr) == sorted(wanted, key=repr)
    left = {k: total(values(k)) for k in range(1, 23)} | {k: v for k, (_, v) in changed.items()}
    if engine is not SUMS:
        del left[9]
    assert state(lake) == sorted((p, k, v) for p in "ab" for k, v in left.items())
    check_table(LocalFileIO(), table.paths.location)


OLD, NEW = 1, 4_000_000_000  # seconds: long expired, and not for decades
EXPIRY = {"record-level.time-field": "t", "record-level.expire-time": "36500 d"}
EXPIRING = [
    *((engine, producer) for engine in ({}, SUMS, PARTS) for producer in (LOOKUP, FULL_COMPACTION)),
    ({"merge-engine": "first-row"}, LOOKUP),
    ({}, {}),
]


def of_one_key(engine, rows):
    """What the rows (v, t) of a key are together, in the order of their commits."""
    if engine.get("merge-engine") == "first-row":
        return rows[0]
    if not engine:
        return rows[-1]
    known = [[value for value in column if value is not None] for column in zip(*rows, strict=True)]
    v, t = known
    return (sum(v) if engine is SUMS else v[-1]) if v else None, t[-1] if t else None


@pytest.mark.share(2)
@pytest.mark.parametrize(
    ("engine", "producer"), EXPIRING, ids=lambda o: o.get("merge-engine", "-".join(o.values()))
)
def test_expired_rows_go_on_executors(spark, lake, engine, producer):
    """No row is too old at first; then the age is lowered, and the next job meets old rows."""
    lake.create_table(
        "db.t",
        "p string, k int, v bigint, t bigint",
        **KEYED,
        options={"bucket": 2, "write-only": True, **EXPIRY, **engine, **producer},
    )
    table = lake.catalog.table("db.t")
    times = [OLD, NEW, None]
    commits = [
        {k: (k, times[k % 3]) for k in range(18)},
        {k: (None if k % 4 else k + 100, times[(k // 3) % 3]) for k in range(9)},
        {k: (k + 1000, times[(k // 2) % 3]) for k in range(1, 22, 2)},
    ]

    def write(rows):
        frame = [(p, k, *row) for p in "ab" for k, row in rows.items()]
        lake.write(spark.createDataFrame(frame, "p string, k int, v bigint, t bigint"), "db.t")

    def checked(model):
        wanted = sorted(((p, k, *row) for p in "ab" for k, row in model.items()), key=repr)
        for frame in (lake.table("db.t"), lake.sql("SELECT * FROM db.t")):
            assert sorted(map(tuple, frame.collect()), key=repr) == wanted
        own = lake.catalog.table("db.t").to_arrow().to_pylist()
        assert sorted((tuple(row.values()) for row in own), key=repr) == wanted

    def after(model, rows):
        keys = model.keys() | rows.keys()
        own = {k: [of[k] for of in (model, rows) if k in of] for k in keys}
        return {k: of_one_key(engine, own[k]) for k in keys}

    def told_since(snapshot_id):
        return sorted(
            (tuple(r.values()) for r in table.changes(snapshot_id, mode="changelog").to_pylist()),
            key=repr,
        )

    write(commits[0])
    write(commits[1])
    lake.compact("db.t", full=True, tasks=2)
    before = after(after({}, commits[0]), commits[1])
    checked(before)
    assert {t for _, t in before.values()} == {OLD, NEW, None}
    if producer:
        came = [("+I", p, k, *row) for p in "ab" for k, row in before.items()]
        assert told_since(0) == sorted(came, key=repr)

    newest = table.latest_snapshot_id + 1
    lake.sql("ALTER TABLE db.t SET TBLPROPERTIES ('record-level.expire-time' = '1 d')")
    write(commits[2])
    checked(after(before, commits[2]))  # a read leaves nothing out
    lake.compact("db.t", full=True, tasks=2)
    kept = {k: row for k, row in before.items() if row[1] != OLD}
    left = after(kept, {k: row for k, row in commits[2].items() if row[1] != OLD})  # type: ignore[attr-defined]
    checked(left)
    assert len(before) > len(kept) < len(left)
    if producer:
        wanted = []
        for p in "ab":
            for k, row in left.items():
                if k not in kept:
                    wanted.append(("+I", p, k, *row))
                elif row != kept[k]:
                    wanted += [("-U", p, k, *kept[k]), ("+U", p, k, *row)]
        assert told_since(newest) == sorted(wanted, key=repr)
    assert lake.compact("db.t", full=True) == WriteResult()
    check_table(LocalFileIO(), table.paths.location)


def test_bins_of_an_append_table_are_tasks_of_their_own(spark, lake):
    lake.create_table("db.t", SCHEMA, partition_keys=["p"])
    for _ in range(6):
        lake.write(rows(spark, range(300), 1).coalesce(1), "db.t")
    before = state(lake)
    found = lake.catalog.table("db.t$files").to_arrow()["file_size_in_bytes"].to_pylist()
    three = {"target-file-size": f"{int(max(found) * 1.45)} b"}  # they make two of that size
    run = SparkRunner.run
    with mock.patch.object(SparkRunner, "run", autospec=True, side_effect=run) as ran:
        result = lake.compact("db.t", full=True, options=three)
    (_, plan, _), _ = ran.call_args
    assert [len(part.names) for part in plan.tasks] == [3] * 4
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


def test_of_two_jobs_on_the_same_buckets_the_later_one_fails_and_leaves_nothing(spark, lake):
    table = waiting(spark, lake)
    before, commit = state(lake), Committer.commit

    def overtake(self, *arguments, **named):
        with mock.patch.object(Committer, "commit", commit):
            table.compact(full=True)
            return commit(self, *arguments, **named)

    with (
        mock.patch.object(Committer, "commit", overtake),
        pytest.raises(ConflictError, match=r"rewrote 4 buckets .*Nothing was changed"),
    ):
        lake.compact("db.t", full=True)
    assert state(lake) == before
    check_table(LocalFileIO(), table.paths.location)
    assert len(list(Path(table.paths.location).rglob("data-*"))) == 3 * 4 + 4
    assert lake.compact("db.t", full=True).snapshot_ids == ()


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


def test_counted_commits_join_the_small_files_of_an_append_table(spark, lake):
    options = {"full-compaction.delta-commits": 3, "compaction.min.file-num": 50}
    lake.create_table("db.a", SCHEMA, partition_keys=["p"], options=options)
    sources = []
    for v in range(6):
        lake.write(rows(spark, range(v, v + 20), v).repartition(2), "db.a")
        found = lake.catalog.table("db.a$files").to_arrow()
        sources.append(sorted(set(found["file_source"].to_pylist())))
    assert sources[2] == sources[5] == ["COMPACT"]  # each task may write several files
    assert "APPEND" in sources[3] + sources[4]
    assert lake.table("db.a").count() == 6 * 2 * 20
    table = lake.catalog.table("db.a")
    check_table(table.fileio, table.paths.location)
