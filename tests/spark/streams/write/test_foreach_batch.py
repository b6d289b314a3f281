"""Batches of a stream of Spark's, written and merged by ``foreachBatch``."""

from __future__ import annotations

from threading import Event

import pytest

import tidelake.spark

BATCHES, WAIT_S = 3, 120


@pytest.fixture
def run(spark, tmp_path):
    """Runs a function on each of three batches of the ids 0 to 3, 4 to 7, 8 to 11."""

    def start(work):
        stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 4)
        rows = stream.option("numPartitions", 1).load().selectExpr("value AS k")
        done, enough = [], Event()

        def counted(batch, number):
            if number < BATCHES:
                work(batch, number)
                done.append(number)
            else:
                enough.set()

        query = (
            rows.writeStream.foreachBatch(counted)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .start()
        )
        waits = (enough.wait(1) or not query.isActive for _ in range(WAIT_S))
        assert any(waits)
        error = query.exception()
        query.stop()
        assert error is None
        assert done == list(range(BATCHES))

    return start


@pytest.fixture
def lake(spark, tmp_path):
    lake = tidelake.spark.attach(spark, tmp_path / "lake", catalog="streamed")
    lake.sql(
        "CREATE TABLE t (k BIGINT, v BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('bucket' = '1');"
        "CREATE TABLE some (k BIGINT); INSERT INTO some VALUES (1), (2), (9)"
    )
    return lake


def rows(lake, below=12):
    return sorted(map(tuple, lake.table("default.t", where=f"k < {below}").collect()))


def test_a_batch_is_written_once(lake, run):
    def work(batch, number):
        frame = batch.selectExpr("k", "k * 10 AS v")
        for _ in range(2):  # as after a restart
            lake.write(frame, "default.t", commit_user="job", commit_identifier=number)

    run(work)
    assert rows(lake) == [(k, 10 * k) for k in range(12)]
    log = lake.catalog.table("default.t").system_table("snapshots").to_arrow()
    named = zip(log["commit_user"].to_pylist(), log["commit_identifier"].to_pylist(), strict=True)
    assert [number for user, number in named if user == "job"] == [0, 1, 2]


def test_a_batch_is_merged(lake, run):
    lake.sql("INSERT INTO t VALUES (2, 0), (5, 0), (9, 0)")

    def work(batch, _number):
        (
            lake.merge("default.t", batch.selectExpr("k", "k AS v"), "k")
            .when_matched_update({"v": "s.v + 100"})
            .when_not_matched_insert(condition="s.k IN (SELECT k FROM some)")
            .execute()
        )

    run(work)
    assert rows(lake) == [(1, 1), (2, 102), (5, 105), (9, 109)]


def test_a_batch_is_merged_by_plain_sql_in_its_own_session(spark, lake, run, tmp_path):
    lake.sql("INSERT INTO t VALUES (2, 0), (5, 0), (9, 0)")
    other = tidelake.spark.attach(spark.newSession(), tmp_path / "other", catalog="streamed")
    other.sql("CREATE TABLE t (k BIGINT)")

    def work(batch, number):
        batch.createOrReplaceTempView("changed")
        batch.sparkSession.sql(
            "MERGE INTO streamed.default.t t USING changed s ON t.k = s.k"
            " WHEN MATCHED THEN UPDATE SET v = s.k + 100"
            " WHEN NOT MATCHED AND s.k IN (SELECT k FROM streamed.default.some)"
            " THEN INSERT (k, v) VALUES (s.k, s.k)"
        )
        batch.sparkSession.sql(f"UPDATE streamed.default.t SET v = v + 1 WHERE k = {number}")
        batch.sparkSession.sql(f"DELETE FROM streamed.default.t WHERE k = {number} + 7")

    run(work)
    assert rows(lake) == [(1, 2), (2, 103), (5, 105)]
    assert rows(other) == []
