"""DELETE and UPDATE on the executors: by filters and by conditions of Spark, on all tables."""

from __future__ import annotations

import pytest
from proving.fsck import check_table
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from tidelake.errors import InvalidInputError, UnsupportedError
from tidelake.fileio import LocalFileIO
from tidelake.metadata.log.snapshot import CommitKind
from tidelake.spark.rowlevel import append_delta, delete_update
from tidelake.table.write.result import CommitIdentity
from tidelake.table.write.transaction import WriteTransaction

DV = {"deletion-vectors.enabled": "true"}
APPENDED = {
    "append": ([], {}),
    "bucketed": ([], {"bucket": "2", "bucket-key": "k"}),
    "partitioned": (["p"], {}),
    "marked": ([], DV),
    "marked, 64 bit": ([], DV | {"deletion-vectors.bitmap64": "true"}),
    "marked, one index file each": ([], DV | {"deletion-vector.index-file.target-size": "1 b"}),
    "marked, bucketed": (["p"], DV | {"bucket": "2", "bucket-key": "k"}),
}
KEYED = {
    "fixed": (["p"], ["p", "k"], {"bucket": "2"}),
    "dynamic": ([], ["k"], {}),
    "keys that move": (["p"], ["k"], {}),
    "marked": ([], ["k"], DV | {"bucket": "1", "changelog-producer": "lookup"}),
}
ROWS = 60


def make(spark, lake, partition_keys, keys, options):
    frame = spark.sql(
        f"SELECT id % 3 AS p, id AS k, id AS n, concat('s', id % 5) AS s FROM range({ROWS})"
    )
    lake.create_table(
        "db.t", frame, primary_keys=keys, partition_keys=partition_keys, options=options
    )
    for part in range(3):
        lake.write(frame.where(f"k DIV {ROWS // 3} = {part}"), "db.t")
    return {k: (k % 3, k, f"s{k % 5}") for k in range(ROWS)}


def state(lake):
    rows = lake.table("db.t").collect()
    found = {row.k: (row.p, row.n, row.s) for row in rows}
    table = lake.catalog.table("db.t")
    assert len(found) == len(rows) == table.count() == table.to_arrow().num_rows
    check_table(LocalFileIO(), table.paths.location)
    return found


def history(lake):
    snapshots = lake.catalog.table("db.t").handle.snapshots
    return [snapshots.load(n) for n in range(1, snapshots.latest_id() + 1)]


@pytest.mark.share(2)
@pytest.mark.parametrize("layout", APPENDED)
def test_rows_of_append_tables_are_deleted_and_updated_in_one_commit_each(spark, lake, layout):
    partition_keys, options = APPENDED[layout]
    model = make(spark, lake, partition_keys, [], options)
    before = len(history(lake))
    assert lake.delete("db.t", "s = 's3' and k < 30").rows == 6
    model = {k: row for k, row in model.items() if not (row[2] == "s3" and k < 30)}
    assert state(lake) == model
    set_ = {"n": "n * 2 + length(s)", "s": F.upper("s"), "p": 7}
    assert lake.update("db.t", set_, F.expr("pmod(k, 7) = 1 AND s LIKE 's%'")).rows == 8
    changed = {k for k in model if k % 7 == 1}
    for k in changed:
        model[k] = (7, k * 2 + 2, f"S{k % 5}")
    assert state(lake) == model
    assert lake.delete("db.t", F.col("k") % 11 == 0).rows == len([k for k in model if k % 11 == 0])
    model = {k: row for k, row in model.items() if k % 11}
    assert state(lake) == model
    done = history(lake)[before:]
    assert [s.commit_kind for s in done] == [CommitKind.OVERWRITE] * 3
    assert lake.delete("db.t", "k < 0").snapshot_ids == ()
    assert lake.update("db.t", {"n": 0}, F.expr("k < 0")).snapshot_ids == ()
    lake.compact("db.t", full=True)
    assert state(lake) == model


@pytest.mark.parametrize("layout", KEYED)
def test_rows_of_primary_key_tables_are_deleted_and_updated(spark, lake, layout):
    model = make(spark, lake, *KEYED[layout])
    assert lake.update("db.t", {"n": "n + 100", "s": "'new'"}, "k > 5 and s = 's1'").rows == 11
    assert lake.update("db.t", {"n": F.col("n") + 1}, F.expr("pmod(k, 7) = 1")).rows == 9
    for k, (p, n, s) in model.items():
        is_new = k > 5 and s == "s1"
        n = n + 100 if is_new else n
        model[k] = (p, n + 1 if k % 7 == 1 else n, "new" if is_new else s)
    assert state(lake) == model
    lake.delete("db.t", "k > 50")
    lake.delete("db.t", F.expr("pmod(k, 13) = 0"))
    assert state(lake) == {k: row for k, row in model.items() if k <= 50 and k % 13}
    if layout == "keys that move":
        lake.update("db.t", {"p": "p + 10"}, "k = 1")
        assert state(lake)[1] == (11, *model[1][1:])


def test_rows_that_wait_on_level_0_are_deleted_too(spark, lake):
    make(spark, lake, [], ["k"], DV | {"bucket": "1"})
    table = lake.catalog.table("db.t")
    later = [{"p": 0, "k": 5, "n": 1000, "s": "x"}, {"p": 0, "k": 99, "n": 1000, "s": "x"}]
    table.write(later, options={"write-only": "true"})
    lake.delete("db.t", "n >= 40")
    table.compact()
    assert state(lake).keys() == set(range(40)) - {5}


def test_a_condition_may_look_into_other_tables(spark, lake):
    model = make(spark, lake, *APPENDED["marked"][:1], [], DV)
    spark.sql(f"SELECT id AS k FROM range(0, {ROWS}, 4)").createOrReplaceTempView("gone")
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    try:
        assert lake.delete("db.t", F.expr("k IN (SELECT k FROM gone)")).rows == 15
        lake.update("db.t", {"n": "-1"}, F.expr("k > (SELECT max(k) - 10 FROM gone)"))
    finally:
        spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")
    expected = {k: row for k, row in model.items() if k % 4}
    expected |= {k: (row[0], -1, row[2]) for k, row in expected.items() if k > 46}
    assert state(lake) == expected


def test_whole_partitions_go_by_metadata_alone(spark, lake, monkeypatch):
    monkeypatch.setattr(delete_update, "change_on_spark", None)
    model = make(spark, lake, ["p"], [], {})
    assert lake.delete("db.t", "p = 1").files == 0
    assert state(lake) == {k: row for k, row in model.items() if row[0] != 1}
    assert lake.delete("db.t", "FALSE").snapshot_ids == ()
    lake.delete("db.t", "TRUE")
    assert state(lake) == {}


@pytest.mark.share(2)
@pytest.mark.parametrize("layout", ["append", "marked", "keyed"])
def test_another_commit_in_between_is_not_undone(spark, lake, layout, monkeypatch):
    keys = ["k"] if layout == "keyed" else []
    options = {"bucket": "1"} if keys else APPENDED[layout][1]
    model = make(spark, lake, [], keys, options)
    committer = type(lake.catalog.table("db.t").handle.committer())
    real = committer.commit
    tries = []

    def commit(self, messages, **rest):
        tries.append(1)
        if len(tries) == 1:
            lake.catalog.table("db.t").update({"n": 1000}, "k in (1, 2)")
        return real(self, messages, **rest)

    monkeypatch.setattr(committer, "commit", commit)
    assert lake.update("db.t", {"n": "n + 1"}, "k in (2, 3)").rows == 2
    assert len(tries) == 3  # the other's, and ours twice
    model |= {1: (1, 1000, "s1"), 2: (2, 1001, "s2"), 3: (0, 4, "s3")}
    assert state(lake) == model


def test_what_is_wrong_is_said_before_anything_runs(spark, lake):
    make(spark, lake, [], ["k"], {"bucket": "1"})
    newest = lake.catalog.table("db.t").latest_snapshot_id
    for values, kind in [
        ({}, "bad_argument"),
        ({"k": "1"}, "update_key"),
        ({"m": "1"}, "column_unknown"),
        ({"n": "concat(s, 'x')"}, "column_type"),
        ({"n": lambda rows: rows}, "update_expression"),
        ({"n": object()}, "bad_value"),
    ]:
        with pytest.raises((InvalidInputError, UnsupportedError)) as caught:
            lake.update("db.t", values)
        assert caught.value.kind == kind
    for text in ("nn + 1", "tea", "two words", "it's"):
        with pytest.raises(
            InvalidInputError, match=r"text is an SQL expression .* write"
        ) as caught:
            lake.update("db.t", {"s": text})
        assert caught.value.kind == "update_expression"
    with pytest.raises(AnalysisException, match="nn"):
        lake.update("db.t", {"n": F.col("nn") + 1})
    with pytest.raises(InvalidInputError, match="condition"):
        lake.delete("db.t", None)
    with pytest.raises(InvalidInputError):
        lake.delete("db.t$files", "k = 1")
    assert lake.catalog.table("db.t").latest_snapshot_id == newest


def test_values_that_do_not_fit_and_updates_that_would_be_lost_change_nothing(spark, lake):
    columns = "k bigint, n int NOT NULL, s string"
    lake.create_table("db.a", columns)
    lake.create_table(
        "db.s", columns, primary_keys=["k"], options={"bucket": "1", "sequence.field": "n"}
    )
    options = {"bucket": "1", "merge-engine": "partial-update"}
    lake.create_table("db.p", "k bigint, n int, s string", primary_keys=["k"], options=options)
    rows = spark.sql("SELECT id AS k, int(id) AS n, 'x' AS s FROM range(5)")
    for name in ("db.a", "db.s", "db.p"):
        lake.write(rows, name)
    for name, values, kind in [
        ("db.a", {"n": "bigint(3000000000)"}, "value_range"),
        ("db.a", {"n": "if(k = 1, NULL, n)"}, "null_value"),
        ("db.s", {"n": "n - 1"}, "update_lost"),
        ("db.p", {"s": None}, "update_lost"),
    ]:
        with pytest.raises(InvalidInputError) as caught:
            lake.update(name, values)
        assert caught.value.kind == kind
        assert lake.table(name).where("s = 'x'").selectExpr("sum(n)").first()[0] == 10
    lake.update("db.s", {"n": "n + 1", "s": "'y'"}, F.expr("k = 1"))
    lake.update("db.p", {"s": "'y'"}, "k = 1")
    lake.update("db.a", {"s": None}, "k = 1")
    for name, n, s in [("db.s", 2, "y"), ("db.p", 1, "y"), ("db.a", 1, None)]:
        assert lake.table(name, where="k = 1").select("n", "s").first() == (n, s)


def test_a_change_that_gives_a_row_twice_is_refused(spark, lake):
    make(spark, lake, [], [], {})
    table = lake.catalog.table("db.t")
    with pytest.raises(InvalidInputError, match="more than once") as caught:
        append_delta.change_on_spark(
            spark,
            WriteTransaction(table.handle, CommitIdentity.of(table.handle, None, None)),
            None,
            lambda rows: (
                rows.select(append_delta.FILE_COLUMN, append_delta.POSITION_COLUMN)
                .where("_tidelake_position = 3")
                .withColumn("twice", F.explode(F.array(F.lit(1), F.lit(2))))
                .drop("twice")
            ),
            columns=("k",),
        )
    assert caught.value.kind == "row_twice"
    assert table.count() == ROWS


def test_an_identity_is_committed_once(spark, lake):
    make(spark, lake, [], [], DV)
    identity = {"commit_user": "u", "commit_identifier": 1}
    assert lake.update("db.t", {"n": "n + 1"}, "k = 1", **identity).rows == 1
    assert lake.update("db.t", {"n": "n + 1"}, "k = 1", **identity).already_committed
    assert lake.delete("db.t", "k = 1", **identity).already_committed
    assert state(lake)[1][1] == 2


FORCED = {"delete.force-produce-changelog": "true", "changelog-producer": "input", "bucket": "2"}
DOORS = {
    "tl.delete": lambda lake: lake.delete("db.t", "p = 1"),
    "tl.sql": lambda lake: lake.sql("DELETE FROM db.t WHERE p = 1"),
    "tl.sql, all": lambda lake: lake.sql("DELETE FROM db.t"),
    "spark.sql, all": lambda lake: lake.spark.sql("DELETE FROM tidelake.db.t"),
}


@pytest.mark.parametrize("door", DOORS)
def test_a_forced_changelog_has_each_row_that_a_delete_of_partitions_removes(spark, lake, door):
    make(spark, lake, ["p"], ["p", "k"], FORCED)
    since = lake.catalog.table("db.t").latest_snapshot_id
    DOORS[door](lake)
    gone = {k for k in range(ROWS) if door.endswith("all") or k % 3 == 1}
    assert state(lake).keys() == set(range(ROWS)) - gone
    stream = lake.catalog.table("db.t").stream(start=since + 1, timeout=0)
    told = [(row["_row_kind"], row["k"]) for batch in stream for row in batch.data.to_pylist()]
    assert sorted(told) == [("-D", k) for k in sorted(gone)]
