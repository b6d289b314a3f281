"""Small files of a stream are put together beside it, and the order of a queue is kept."""

from __future__ import annotations

import threading
import time
from collections import Counter

import pytest

import tidelake.scan
import tidelake.spark
from tidelake.errors import StorageError
from tidelake.spark.streams.write import sink_run, stream_compactor
from tidelake.spark.streams.write.stream_compactor import StreamCompactor

TABLE, WAIT_S = "default.t", 60
APPEND = "CREATE TABLE t (k BIGINT) WITH ('compaction.min.file-num' = '4')"


@pytest.fixture
def lake(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(stream_compactor, "ROUND_S", 0.1)
    monkeypatch.setattr(sink_run, "LOOK_S", 0.1)
    return tidelake.spark.attach(spark, tmp_path / "lake", catalog="beside")


@pytest.fixture
def start(spark, lake, tmp_path):
    """Starts a stream of four rows a batch; all end with the test."""
    queries = []

    def started(name=TABLE, **given):
        source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 4)
        rows = source.option("numPartitions", 1).load().selectExpr("value AS k")
        checkpoint = tmp_path / f"checkpoint-{len(queries)}"
        queries.append(lake.write_stream(rows, name, checkpoint=checkpoint, **given))
        return queries[-1]

    yield started
    for query in queries:
        query.stop()
    assert until(lambda: not stream_compactor._ALL)


def until(met):
    """Whether something comes true within a minute."""
    ends = time.monotonic() + WAIT_S
    while not (done := met()) and time.monotonic() < ends:
        time.sleep(0.05)
    return done


def kinds(lake):
    return lake.catalog.table(TABLE).history()["commit_kind"].to_pylist()


def batches(query):
    return -1 if query.lastProgress is None else query.lastProgress["batchId"]


def keys(lake):
    return sorted(row[0] for row in lake.table(TABLE).collect())


def test_the_files_of_a_stream_are_put_together_while_it_goes_on(lake, start):
    lake.sql(APPEND)
    query = start()
    assert until(lambda: kinds(lake).count("COMPACT") >= 2)
    seen = batches(query)
    assert until(lambda: batches(query) > seen + 2)
    query.stop()
    assert query.exception() is None
    assert until(lambda: not stream_compactor._ALL)
    found = keys(lake)
    assert found == list(range(len(found)))
    files = lake.catalog.table(TABLE).system_table("files").to_arrow().num_rows
    assert files < kinds(lake).count("APPEND")


def test_a_stream_goes_on_while_a_compaction_takes_long(lake, start, monkeypatch):
    lake.sql(APPEND)
    begun, go_on = threading.Event(), threading.Event()
    original = stream_compactor.SparkRunner.run

    def slow(*given):
        begun.set()
        assert go_on.wait(WAIT_S)
        return original(*given)

    monkeypatch.setattr(stream_compactor.SparkRunner, "run", slow)
    query = start()
    assert begun.wait(WAIT_S)
    seen = batches(query)
    assert until(lambda: batches(query) > seen + 3)
    assert "COMPACT" not in kinds(lake)
    go_on.set()
    assert until(lambda: "COMPACT" in kinds(lake))


def test_a_compaction_that_fails_is_tried_again_and_does_not_end_the_stream(
    lake, start, monkeypatch, caplog
):
    lake.sql(APPEND)
    original, failures = stream_compactor.SparkRunner.run, []

    def failing(*given):
        if not failures:
            failures.append(1)
            message = "the disk is away"
            raise StorageError(message)
        return original(*given)

    monkeypatch.setattr(stream_compactor.SparkRunner, "run", failing)
    query = start()
    assert until(lambda: "COMPACT" in kinds(lake))
    assert query.isActive
    assert "the disk is away" in caplog.text


def test_one_table_has_one_compactor_that_ends_with_its_last_stream(lake, start):
    lake.sql(APPEND)
    first, second = start(), start()
    assert until(lambda: min(batches(first), batches(second)) >= 1)
    (compactor,) = stream_compactor._ALL.values()
    threads = [t for t in threading.enumerate() if t.name.startswith("tidelake-compaction")]
    assert len(threads) == 1
    first.stop()
    seen = batches(second)
    assert until(lambda: batches(second) > seen + 2)
    assert list(stream_compactor._ALL.values()) == [compactor]
    second.stop()
    assert until(lambda: not stream_compactor._ALL)
    assert compactor.wait(WAIT_S)
    found = Counter(keys(lake))
    assert list(found) == list(range(len(found)))
    assert set(found.values()) == {1, 2}  # the second stream came further than the first


@pytest.mark.parametrize(
    ("definition", "options"),
    [
        (APPEND, {"write-only": True}),
        ("CREATE TABLE t (k BIGINT) WITH ('bucket' = '1', 'bucket-key' = 'k')", {}),
        ("CREATE TABLE t (k BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('bucket' = '1')", {}),
    ],
    ids=["write-only", "queue", "keyed"],
)
def test_other_tables_have_none(spark, lake, definition, options):
    lake.sql(definition)
    handle = lake.catalog.table(TABLE).with_options(options).handle
    assert StreamCompactor.join(spark, handle) is None


def test_a_queue_keeps_the_order_of_its_rows_through_compactions(spark, lake, tmp_path):
    lake.sql(
        "CREATE TABLE t (k BIGINT, g INT) WITH ('bucket' = '2', 'bucket-key' = 'g',"
        " 'compaction.min.file-num' = '3')"
    )
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10)
    rows = source.option("numPartitions", 1).load().selectExpr("value AS k", "int(value % 2) AS g")
    query = lake.write_stream(rows, TABLE, checkpoint=tmp_path / "checkpoint")
    assert until(lambda: batches(query) >= 12)
    query.stop()
    assert kinds(lake).count("COMPACT") >= 2
    table = lake.catalog.table(TABLE)
    buckets = {}
    for split in table.scan().plan.splits:
        context = table.handle.read_context()
        names = ["k", "g"]
        for batch in tidelake.scan.read_split(context, split, columns=names, predicate=None):
            buckets.setdefault(split.bucket, []).extend(batch["k"].to_pylist())
    assert sorted(k for own in buckets.values() for k in own) == list(range(len(keys(lake))))
    assert all(own == sorted(own) for own in buckets.values())
    lake.compact(TABLE, full=True)
    assert keys(lake) == sorted(k for own in buckets.values() for k in own)
