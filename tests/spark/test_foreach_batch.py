"""Batches of a stream of Spark's, written and merged by ``foreachBatch``."""

from __future__ import annotations

import pytest

import tidelake.spark


@pytest.fixture
def run(spark, tmp_path):
    """Runs a function on each of three batches of the ids 0 to 3, 4 to 7, 8 to 11."""

    def start(work):
        stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 4)
        rows = stream.option("numPartitions", 1).load().selectExpr("value AS k")
        query = (
            rows.writeStream.foreachBatch(work)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .start()
        )
        while query.isActive and (query.lastProgress or {"batchId": 0})["batchId"] < 2:
            query.awaitTermination(1)
        query.stop()
        query.exception()

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
    return sorted(map(tuple, lake.table("default.t", filter=f"k < {below}").collect()))


def test_a_batch_is_written_once(lake, run):
    def work(batch, number):
        frame = batch.selectExpr("k", "k * 10 AS v")
        for _ in range(2):  # as after a restart
            lake.write(frame, "default.t", commit_user="job", commit_identifier=number)

    run(work)
    assert rows(lake) == [(k, 10 * k) for k in range(12)]
    assert lake.catalog.table("default.t").history().num_rows >= 3


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
