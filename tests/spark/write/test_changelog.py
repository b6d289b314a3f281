"""Changelogs written by Spark's executors, and views that they read."""

from __future__ import annotations

import pytest

from tidelake.errors import InvalidInputError, NotFoundError

KINDS = "SELECT id AS k, IF(id = 3, '-D', '+U') AS _row_kind, id * 10 AS v FROM range(2, 5)"


@pytest.fixture
def logged(spark, lake):
    """Rows 0 to 9, then 2 and 4 updated and 3 deleted."""
    lake.create_table(
        "db.t",
        "k bigint, v bigint",
        primary_keys=["k"],
        options={"bucket": 2, "changelog-producer": "input"},
    )
    lake.write(spark.sql("SELECT id AS k, id AS v FROM range(10)"), "db.t")
    lake.write(spark.sql(KINDS), "db.t")
    return lake.catalog.table("db.t")


def test_executors_write_changelog_files_that_the_commit_names(logged):
    counts = logged.history().column("changelog_record_count").to_pylist()
    assert [count for count in counts if count] == [10, 3]
    changes = logged.changes(1, mode="changelog").to_pylist()
    assert sorted(tuple(row.values()) for row in changes) == [
        ("+U", 2, 20),
        ("+U", 4, 40),
        ("-D", 3, 30),
    ]


def test_executors_read_the_views(lake, logged):
    state = {(row.k, row.v): row.rowkind for row in lake.table("db.t$audit_log").collect()}
    assert len(state) == 10
    assert (state[2, 20], state[3, 30], state[5, 5]) == ("+U", "-D", "+I")
    found = lake.table("db.t$audit_log", columns=["k"], where="rowkind = '-D'", snapshot_id=2)
    assert [tuple(row) for row in found.collect()] == [(3,)]
    binlog = lake.table("db.t$binlog", columns=["v", "rowkind"], where="rowkind = '+U'")
    assert sorted(tuple(row) for row in binlog.collect()) == [([20], "+U"), ([40], "+U")]
    assert lake.table("db.t$ro").count() == 0
    logged.compact(full=True)
    rows = [tuple(row) for row in lake.table("db.t$ro", where="v >= 9").collect()]
    assert sorted(rows) == [(2, 20), (4, 40), (9, 9)]


def test_what_a_view_has_not_is_refused(lake, logged):
    with pytest.raises(NotFoundError, match="Its columns are rowkind, k, v"):
        lake.table("db.t$audit_log", columns=["kind"])
    with pytest.raises(InvalidInputError, match="has no options"):
        lake.table("sys.catalog_options", options={"scan.snapshot-id": 1})


def test_a_view_is_read_at_the_moment_that_an_option_names(lake, logged):
    first = lake.table("db.t$audit_log", options={"scan.snapshot-id": 1})
    assert first.count() == lake.table("db.t$audit_log", snapshot_id=1).count() > 0
    assert {row.rowkind for row in first.collect()} == {"+I"}


@pytest.mark.parametrize("bucket", [2, -1])
def test_executors_look_up_what_keys_were(spark, lake, bucket):
    options = {"bucket": bucket, "changelog-producer": "lookup"}
    lake.create_table("db.l", "k bigint, v bigint", primary_keys=["k"], options=options)
    lake.write(spark.sql("SELECT id AS k, id AS v FROM range(1000)"), "db.l")
    start = lake.catalog.table("db.l").latest_snapshot_id
    changed = spark.sql(
        "SELECT id AS k, id * 10 AS v, IF(id = 990, '-D', '+U') AS _row_kind FROM range(990, 1002)"
    )
    lake.write(changed, "db.l")
    changes = lake.catalog.table("db.l").changes(start, mode="changelog").to_pylist()
    expected = [("-D", 990, 990), ("+I", 1000, 10_000), ("+I", 1001, 10_010)]
    for k in range(991, 1000):
        expected += [("-U", k, k), ("+U", k, 10 * k)]
    assert sorted(tuple(row.values()) for row in changes) == sorted(expected)


def test_executors_keep_first_rows_and_read_them_without_a_merge(spark, lake):
    options = {"bucket": 2, "merge-engine": "first-row"}
    lake.create_table("db.f", "k bigint, v bigint", primary_keys=["k"], options=options)
    for number in range(3):
        rows = spark.sql(f"SELECT id AS k, {number} AS v FROM range({50 * number}, 300, 3)")
        lake.write(rows, "db.f")
    first = {}
    for number in range(3):
        for k in range(50 * number, 300, 3):
            first.setdefault(k, number)
    found = lake.table("db.f")
    assert sorted(map(tuple, found.collect())) == sorted(first.items())
    assert found.where("v = 2").count() == sum(v == 2 for v in first.values())
    assert all(split.raw for split in lake.catalog.table("db.f").explain().plan.splits)


def test_full_compactions_that_are_due_go_with_the_commit(spark, lake):
    """Tasks compact the due buckets that they write; the driver the one that nobody writes."""
    lake.create_table(
        "db.t",
        "p string, k bigint, v bigint",
        primary_keys=["p", "k"],
        partition_keys=["p"],
        options={
            "bucket": 1,
            "changelog-producer": "full-compaction",
            "full-compaction.delta-commits": 2,
        },
    )
    table = lake.catalog.table("db.t")
    frame = spark.sql("SELECT IF(id < 2, 'a', 'b') AS p, id AS k, id AS v FROM range(4)")
    lake.write(frame, "db.t")
    assert table.changes(0, mode="changelog").num_rows == 0
    lake.write(frame.where("p = 'a'").selectExpr("p", "k", "v + 10 AS v"), "db.t")
    first = table.latest_snapshot_id
    found = [tuple(row.values()) for row in table.changes(0, mode="changelog").to_pylist()]
    assert sorted(found) == [
        ("+I", "a", 0, 10),
        ("+I", "a", 1, 11),
        ("+I", "b", 2, 2),
        ("+I", "b", 3, 3),
    ]
    for _ in range(2):
        lake.write(frame.where("k = 1"), "db.t")
    found = [tuple(row.values()) for row in table.changes(first, mode="changelog").to_pylist()]
    assert found == [("-U", "a", 1, 11), ("+U", "a", 1, 1)]
    assert lake.table("db.t$ro").count() == 4
