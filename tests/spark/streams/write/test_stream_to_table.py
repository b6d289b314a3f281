"""``writeStream.toTable`` and ``format(STREAM)``: Spark's own writer of streams finds tables."""

from __future__ import annotations

import contextlib
import os
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from proving.odd_names import odd_name
from pyspark.errors import (
    IllegalArgumentException,
    PySparkException,
    StreamingQueryException,
    UnsupportedOperationException,
)

import tidelake.spark
from tidelake.spark import STREAM
from tidelake.spark.streams.write import sink_run
from tidelake.table.stream.lease import StreamLease

FIRST_S = 1_700_000_000
KEYED = "CREATE TABLE t (k BIGINT, v BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('bucket' = '2')"


@pytest.fixture
def lake(spark, tmp_path):
    return tidelake.spark.attach(spark, tmp_path / "lake", catalog="streamed")


@pytest.fixture
def checkpoint(tmp_path, request):
    return tmp_path / odd_name(request.node.name)


@pytest.fixture
def feed(tmp_path):
    """Adds a file of rows ``k, v``, which is a batch of the stream."""
    folder = tmp_path / "in"
    folder.mkdir()

    def add(**columns):
        number = len(list(folder.iterdir()))
        path = folder / f"{number:03}.parquet"
        pq.write_table(pa.table({n: pa.array(v, pa.int64()) for n, v in columns.items()}), path)
        os.utime(path, (FIRST_S + number, FIRST_S + number))  # batches come in this order

    return add


@pytest.fixture
def frame(spark, tmp_path, feed):
    reader = spark.readStream.schema("k bigint, v bigint").option("maxFilesPerTrigger", 1)
    return reader.parquet(str(tmp_path / "in"))


@pytest.fixture
def writer(frame, checkpoint):
    """Of no format, for ``toTable``."""

    def made(rows=None, mode="append", **options):
        writer = (frame if rows is None else rows).writeStream.outputMode(mode)
        given = {"checkpointLocation": str(checkpoint)} | options
        return writer.options(**given).trigger(availableNow=True)

    return made


@pytest.fixture
def of_format(writer):
    """For ``start``."""
    return lambda *given, **options: writer(*given, **options).format(STREAM)


def ended(query):
    with contextlib.suppress(StreamingQueryException):
        query.awaitTermination(60)
    assert not query.isActive
    return query


def rows(lake, name="default.t"):
    return sorted(map(tuple, lake.table(name).collect()))


def commits(lake, name="default.t"):
    log = lake.catalog.table(name).system_table("snapshots").to_arrow().to_pylist()
    return [(s["commit_user"], s["commit_identifier"], s["commit_kind"]) for s in log]


@pytest.mark.parametrize("local", [0, 100], ids=["executors", "driver"])
def test_to_table_commits_a_batch_once_over_a_restart(lake, feed, writer, checkpoint, local):
    lake.sql(KEYED)
    for number in range(3):
        feed(k=[number, 10], v=[number, number])
    options = {"sink.local-rows": local}
    query = ended(writer(**options).toTable("streamed.default.t"))
    assert query.exception() is None
    assert query.lastProgress["sink"]["description"] == "tidelake[default.t]"
    before = commits(lake)
    assert [n for _, n, kind in before if kind == "APPEND"] == [0, 1, 2]
    assert {user for user, *_ in before} == {str(query.id)}
    for left in (checkpoint / "commits").glob("*2*"):
        left.unlink()  # as if the driver had died after the sink's commit and before Spark's
    feed(k=[7], v=[7])
    again = ended(writer(**options).format(STREAM).toTable("streamed.default.t"))
    assert [p["batchId"] for p in again.recentProgress] == [2, 3]
    assert [n for _, n, kind in commits(lake) if kind == "APPEND"] == [0, 1, 2, 3]
    assert rows(lake) == [(0, 0), (1, 1), (2, 2), (7, 7), (10, 2)]


def test_a_table_is_found_by_name_and_the_mode_is_sparks(lake, feed, frame, writer, of_format):
    lake.sql(KEYED)
    feed(k=[1, 2, 3], v=[0, 0, 0])
    feed(k=[1, 1], v=[0, 0])
    counts = frame.groupBy("k").count().toDF("k", "v")
    query = ended(of_format(counts, "update", table="streamed.default.t").start())
    assert query.exception() is None
    assert rows(lake) == [(1, 3), (2, 1), (3, 1)]
    feed(k=[2], v=[0])
    ended(writer(counts, "update").toTable("streamed.default.t"))
    assert rows(lake) == [(1, 3), (2, 2), (3, 1)]


def test_a_missing_table_is_made_and_replaced_in_mode_complete(
    lake, feed, frame, writer, checkpoint
):
    feed(k=[1, 2, 3], v=[0, 0, 1])
    feed(k=[1, 1], v=[0, 0])
    counts = frame.groupBy("v").count().toDF("p", "n")
    query = ended(writer(counts, "complete").partitionBy("p").toTable("streamed.default.made"))
    assert query.exception() is None
    assert lake.catalog.table("default.made").partition_keys == ("p",)
    assert rows(lake, "default.made") == [(0, 4), (1, 1)]


def test_issue_36_a_writer_of_another_format_leaves_no_table(spark, lake, frame, writer):
    name = "streamed.default.other"
    with pytest.raises(UnsupportedOperationException, match="cannot be created USING json"):
        writer().format("json").toTable(name)
    assert not spark.catalog.tableExists(name)
    spark.catalog.createTable(name, schema=frame.schema)
    assert rows(lake, "default.other") == []


def test_a_refused_stream_leaves_no_table_that_it_made(spark, lake, feed, frame, writer):
    name = "streamed.default.new"
    feed(k=[1], v=[1])
    for start, words in (
        (lambda: writer(mode="update").toTable(name), "no primary key"),
        (lambda: writer(checkpointLocation="").toTable(name), "needs checkpoint="),
        (lambda: writer(mode="complete").toTable(name), "omplete"),
        (lambda: writer(frame.groupBy("v").count()).toTable(name), "ppend"),
        (lambda: writer().format(STREAM).outputMode("update").toTable(name), "no primary key"),
    ):
        with pytest.raises(PySparkException, match=words):
            start()
        assert not spark.catalog.tableExists(name)
    assert ended(writer().toTable(name)).exception() is None
    with pytest.raises(PySparkException, match="no primary key"):
        writer(mode="update").toTable(name)
    assert rows(lake, "default.new") == [(1, 1)]
    lake.sql("CREATE TABLE old (k BIGINT, v BIGINT)")
    with pytest.raises(PySparkException, match="no primary key"):
        writer(mode="update", checkpointLocation="").toTable("streamed.default.old")
    assert rows(lake, "default.old") == []


def test_options_of_a_query_by_name_come_with_its_first_batch(lake, feed, writer, checkpoint):
    lake.sql(KEYED)
    feed(k=[1], v=[1])
    refused = ended(writer(**{"scan.mod": "1"}).toTable("streamed.default.t"))
    assert "Did you mean 'scan.mode'" in str(refused.exception())
    assert commits(lake) == []
    ended(writer(**{"write-only": "true"}).toTable("streamed.default.t"))
    for number in range(6):
        feed(k=[number], v=[number])
    assert ended(writer(**{"write-only": "true"}).toTable("streamed.default.t")).exception() is None
    assert rows(lake) == [(k, k) for k in range(6)]
    assert {kind for *_, kind in commits(lake)} == {"APPEND"}


def test_a_watermark_comes_into_the_snapshots(lake, feed, frame, writer):
    lake.sql("CREATE TABLE w (k BIGINT, ts TIMESTAMP_LTZ(3))")
    for k in (5, 9):
        feed(k=[k, k - 1], v=[0, 0])
    timed = frame.selectExpr("k", "timestamp_millis(1700000000000 + k * 1000) AS ts")
    timed = timed.withWatermark("ts", "2 seconds")
    ended(writer(timed).toTable("streamed.default.w"))
    log = lake.catalog.table("default.w").system_table("snapshots").to_arrow()
    assert log["watermark"].to_pylist() == [1_700_000_003_000, 1_700_000_007_000]


def test_a_second_live_copy_of_a_checkpoint_is_refused(
    lake, feed, writer, checkpoint, tmp_path, monkeypatch
):
    monkeypatch.setattr(sink_run, "OPEN_WAIT_MS", 1)
    lake.sql(KEYED)
    feed(k=[1], v=[1])
    query = ended(writer().toTable("streamed.default.t"))
    sink_run._RUNS[str(query.id)].end()
    before = commits(lake)
    copy = tmp_path / "copy"
    shutil.copytree(checkpoint, copy)
    feed(k=[2], v=[2])
    handle = lake.catalog.table("default.t").handle
    # as another process would hold it
    with StreamLease.open(handle, f"sink-{query.id}", 1, run_id="of another process"):
        second = ended(writer(checkpointLocation=str(copy)).toTable("streamed.default.t"))
    assert "already runs, perhaps with a copy of the checkpoint" in str(second.exception())
    assert commits(lake) == before


def test_the_checkpoint_of_another_table_is_refused(lake, feed, writer):
    lake.sql(KEYED)
    feed(k=[1], v=[1])
    ended(writer().toTable("streamed.default.t"))
    with pytest.raises(IllegalArgumentException, match=r"into table 'default.t', not 'default.u'"):
        writer().toTable("streamed.default.u")
    with pytest.raises(IllegalArgumentException, match="in mode 'append', not 'update'"):
        writer(mode="update").toTable("streamed.default.t")


def test_a_query_by_name_is_refused_before_it_starts(spark, lake, frame, writer, checkpoint):
    lake.sql("CREATE TABLE a (k BIGINT, v BIGINT)")
    name = "streamed.default.a"
    endless = frame.writeStream.option("checkpointLocation", str(checkpoint))
    for start, words in (
        (lambda: writer(mode="update").toTable(name), "no primary key"),
        (lambda: writer(checkpointLocation="").toTable(name), "needs checkpoint="),
        (lambda: writer(checkpointLocation=__file__).toTable(name), "is a file, or lies in one"),
        (lambda: endless.trigger(continuous="1 second").toTable(name), "trigger.availableNow=True"),
        (lambda: writer().toTable("streamed.default.`a$files`"), "streaming write"),
    ):
        with pytest.raises(PySparkException, match=words) as refused:
            start()
        assert "org.apache" not in str(refused.value)
    assert not spark.streams.active
    assert not checkpoint.exists()


def test_cached_rows_of_a_table_are_those_of_its_stream(spark, lake, feed, writer):
    lake.sql(KEYED)
    cached = spark.table("streamed.default.t").cache()
    assert cached.count() == 0
    feed(k=[1], v=[1])
    ended(writer().toTable("streamed.default.t"))
    assert spark.table("streamed.default.t").collect() == [(1, 1)]
    cached.unpersist()


def test_columns_that_do_not_fit_stop_the_first_batch(lake, feed, frame, writer):
    lake.sql(KEYED)
    feed(k=[1], v=[1])
    query = ended(writer(frame.select("k")).toTable("streamed.default.t"))
    assert "lacks the column 'v'" in str(query.exception())
    assert commits(lake) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"checkpointLocation": ""}, "needs checkpoint=, or the option 'checkpointLocation'"),
        ({"checkpointLocation": __file__}, "is a file, or lies in one"),
        ({"checkpointLocation": "s3://b/c"}, "is not supported"),
        ({"table": "streamed.default.a", "mode": "update"}, "no primary key"),
        ({"table": "streamed.default.t$files"}, "system table"),
        ({"table": "streamed.default.nowhere"}, "nowhere"),
        ({"table": None}, r"must name it once: toTable\("),
        ({"table": "default.t", "warehouse": "/of/nobody"}, "No warehouse /of/nobody is attached"),
        ({"table": None, "path": "/of/nobody/t"}, "not the directory of a table"),
        ({"table": None, "path": "file:/of/nobody.db/t"}, "No warehouse /of is attached"),
        ({"scan.mod": "1"}, "Did you mean 'scan.mode'"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_starts(
    spark, lake, of_format, checkpoint, change, words
):
    lake.sql(f"{KEYED}; CREATE TABLE a (k BIGINT, v BIGINT)")
    given = {"table": "streamed.default.t"} | change
    options = {key: value for key, value in given.items() if value is not None}
    with pytest.raises(PySparkException, match=words):
        of_format(**options).start()
    assert not spark.streams.active
    assert not (checkpoint / "offsets").exists()


def test_the_words_for_a_query_come_from_sparks_options(spark, lake, feed, frame, tmp_path):
    lake.sql(KEYED)
    feed(k=[1], v=[1])
    unnamed = frame.writeStream.format(STREAM).trigger(availableNow=True)
    with pytest.raises(IllegalArgumentException, match="needs checkpoint="):
        unnamed.toTable("streamed.default.t")
    with pytest.raises(IllegalArgumentException, match=r"partitionBy\(v\).*does not fit"):
        unnamed.partitionBy("v").option("table", "streamed.default.t").start()
    spark.conf.set("spark.sql.streaming.checkpointLocation", str(tmp_path / "shared"))
    try:
        named = frame.writeStream.trigger(availableNow=True).queryName("mine")
        assert ended(named.toTable("streamed.default.t")).exception() is None
    finally:
        spark.conf.unset("spark.sql.streaming.checkpointLocation")
    assert (tmp_path / "shared" / "mine" / "tidelake-sink.json").exists()
    assert rows(lake) == [(1, 1)]
