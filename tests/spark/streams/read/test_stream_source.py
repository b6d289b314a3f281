"""Tables as streams of Spark: by name, in SQL, by ``tl.read_stream``."""

from __future__ import annotations

import json
import time
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from pyspark.errors import (
    IllegalArgumentException,
    StreamingQueryException,
    UnsupportedOperationException,
)
from pyspark.sql import functions as F

from tidelake import (
    AddColumn,
    InvalidInputError,
    NotFoundError,
    RenameColumn,
    UnsupportedError,
)
from tidelake.spark.streams.connector import provider
from tidelake.spark.streams.read import source  # noqa: F401 - the test of interfaces looks at it
from tidelake.spark.versions import minor_of
from tidelake.table.write.transaction import WriteTransaction

KINDS = "_row_kind"


@pytest.fixture
def run(spark, tmp_path):
    """Runs a stream until it has read what is there; gives the batches as lists of tuples."""
    numbers = iter(range(1000))

    def drain(frame, checkpoint=None, progress=None):
        batches = []
        place = tmp_path / (checkpoint or f"checkpoint-{next(numbers)}")
        query = (
            frame.writeStream.foreachBatch(
                lambda batch, _: batches.append(sorted(map(tuple, batch.collect())))
            )
            .option("checkpointLocation", str(place))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(60)
        assert not query.isActive
        if progress is not None:
            progress += query.recentProgress
        return batches

    return drain


@pytest.fixture
def plan_of(spark, tmp_path):
    """The plan of a stream's last batch, and that of the rows under it."""

    def explained(frame):
        query = (
            frame.writeStream.format("noop")
            .option("checkpointLocation", str(tmp_path / "explained"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(60)
        execution = query._jsq
        inner = execution.streamingQuery() if hasattr(execution, "streamingQuery") else execution
        plan = inner.lastExecution().executedPlan()
        scans, todo = [], [plan]
        while todo:
            node = todo.pop()
            if node.getClass().getSimpleName() == "RowDataSourceScanExec":
                scans.append(node.rdd().toDebugString())
            children = node.children().iterator()
            while children.hasNext():
                todo.append(children.next())
        return plan.toString(), "\n".join(scans)

    return explained


def rows_of(first, count):
    return [{"id": i, "qty": i % 10, "name": f"n{i}"} for i in range(first, first + count)]


@pytest.fixture
def queue(lake):
    """An append table of three commits of 10 rows."""
    table = lake.catalog.create_table("db.q", {"id": "BIGINT", "qty": "INT", "name": "STRING"})
    for number in range(3):
        table.write(rows_of(number * 10, 10))
    return table


@pytest.fixture
def keyed(lake):
    """A primary-key table with a changelog: inserts, updates, a delete."""
    table = lake.catalog.create_table(
        "db.k",
        {"id": "BIGINT", "qty": "INT"},
        primary_keys=["id"],
        options={"bucket": 2, "changelog-producer": "lookup"},
    )
    table.write([{"id": i, "qty": i} for i in range(6)])
    table.write([{"id": i, "qty": i + 100} for i in range(3)])
    table.delete("id = 1")
    return table


FROM_ONE = {"scan.mode": "from-snapshot", "scan.snapshot-id": 1}


def test_a_stream_gives_the_state_and_then_every_commit(lake, queue, run):
    frame = lake.read_stream("db.q")
    assert [len(batch) for batch in run(frame, "c")] == [30]
    queue.write(rows_of(100, 5))
    queue.write(rows_of(200, 5))
    (batch,) = run(frame, "c")
    assert [row[0] for row in batch] == [*range(100, 105), *range(200, 205)]
    assert run(frame, "c") == []


def test_streams_are_found_by_name_and_in_sql(spark, lake, queue, run):
    by_name = spark.readStream.table("tidelake.db.q")
    assert by_name.isStreaming
    assert run(by_name) == [sorted(map(tuple, lake.table("db.q").collect()))]
    late = spark.readStream.option("scan.mode", "from-snapshot").option("scan.snapshot-id", "3")
    assert [row[0] for row in run(late.table("tidelake.db.q"))[0]] == list(range(20, 30))
    text = "SELECT name FROM STREAM tidelake.db.q WITH ('scan.mode' = 'from-snapshot',"
    text += " 'scan.snapshot-id' = '2') WHERE qty = 7"
    assert run(spark.sql(text)) == [[("n17",), ("n27",)]]


def test_batch_ways_of_the_same_table_still_work(spark, lake, queue):
    spark.range(1000, 1002).selectExpr("id", "int(1) AS qty", "'x' AS name").writeTo(
        "tidelake.db.q"
    ).append()
    assert spark.table("tidelake.db.q").count() == 32
    assert spark.sql("SELECT count(*) FROM tidelake.db.q").collect()[0][0] == 32


def test_columns_and_filters_reach_the_files(production_conf, lake, queue, plan_of):
    frame = lake.read_stream("db.q").where("qty > 7").select("id")
    plan, scans = plan_of(frame)
    assert "ReadSchema: struct<id:bigint,qty:int>" in plan
    assert "GreaterThan(qty,7)" in plan
    assert "PythonRDD" not in scans, scans
    assert "FileScanRDD" in scans, scans


def test_changes_in_order_are_read_by_spark(lake, keyed, plan_of):
    _, scans = plan_of(lake.read_stream("db.k", options=FROM_ONE))
    assert "FileScanRDD" in scans, scans
    assert "Python" not in scans, scans


def test_columns_and_filter_may_be_said_at_once(lake, queue, run):
    frame = lake.read_stream("db.q", columns=["name"], where="id >= 8 AND qty IN (8, 9)")
    assert frame.columns == ["name"]
    assert run(frame) == [[("n18",), ("n19",), ("n28",), ("n29",), ("n8",), ("n9",)]]
    with pytest.raises(NotFoundError, match="namen"):
        lake.read_stream("db.q", columns=["namen"])
    with pytest.raises(NotFoundError, match="qyt"):
        lake.read_stream("db.q", where="qyt = 1")


def test_rows_of_a_keyed_table_say_their_kind(lake, keyed, run):
    frame = lake.read_stream("db.k", options=FROM_ONE)
    assert frame.columns == [KINDS, "id", "qty"]
    (batch,) = run(frame)
    assert batch == sorted(
        [("+I", i, i) for i in range(6)]
        + [(kind, i, qty) for i in range(3) for kind, qty in (("-U", i), ("+U", i + 100))]
        + [("-D", 1, 101)]
    )
    kept = sorted((kind,) for kind, _, qty in batch if kind != "-D" and qty > 4)
    assert run(frame.where(f"{KINDS} <> '-D' AND qty > 4").select(KINDS)) == [kept]
    (state,) = run(lake.read_stream("db.k"))
    assert state == sorted(("+I", *row) for row in map(tuple, lake.table("db.k").collect()))


def test_the_changes_of_a_key_come_from_one_task_in_order(spark, lake, keyed):
    for number in range(5):
        keyed.write([{"id": 4, "qty": 1000 + number}])
    found = []

    def read(**options):
        frame = lake.read_stream("db.k", options={**FROM_ONE, **options})
        query = (
            frame.withColumn("task", F.spark_partition_id())
            .writeStream.foreachBatch(lambda batch, _: found.extend(batch.collect()))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(60)

    read(**{"scan.parallelism": 1})
    assert len({row.task for row in found}) == 1
    found.clear()
    read()
    assert len({row.task for row in found}) == 2
    found = [row for row in found if row.id == 4]
    assert len({row.task for row in found}) == 1
    assert [row.qty for row in found if row[KINDS] in ("+I", "+U")] == [4, *range(1000, 1005)]


def test_a_stream_without_kinds_leaves_deletes_out_if_told_so(spark, lake, keyed, run):
    upserts = lake.read_stream("db.k", options={**FROM_ONE, "read.changelog": "false"})
    assert upserts.columns == ["id", "qty"]
    expected = sorted([(i, i) for i in range(6)] + [(i, i + 100) for i in range(3)])
    assert run(upserts) == [expected]
    by_name = spark.readStream.option("scan.mode", "from-snapshot").option("scan.snapshot-id", "1")
    assert run(by_name.option("read.changelog", "false").table("tidelake.db.k")) == [expected]


def test_a_delete_stops_a_stream_that_cannot_show_it(spark, lake, keyed, run):
    assert len(run(spark.readStream.table("tidelake.db.k"), "c")[0]) == 5
    keyed.delete("id = 2")
    with pytest.raises(StreamingQueryException, match=r"'read\.changelog' = 'true'"):
        run(spark.readStream.table("tidelake.db.k"), "c")


def test_kinds_by_name_are_an_option(spark, lake, keyed, run):
    frame = spark.readStream.option("read.changelog", "true").table("tidelake.db.k")
    assert frame.columns == [KINDS, "id", "qty"]
    assert {row[0] for row in run(frame)[0]} == {"+I"}
    with pytest.raises((IllegalArgumentException, InvalidInputError), match="is for streams"):
        spark.read.option("read.changelog", "true").table("tidelake.db.k").collect()


def test_limits_cut_batches_with_every_trigger(lake, queue, run):
    one_file = {"read.stream.maxFilesPerTrigger": 1}
    assert [len(b) for b in run(lake.read_stream("db.q", options=one_file))] == [10, 10, 10]
    rows = {**FROM_ONE, "read.stream.maxRowsPerTrigger": 20}
    assert [len(batch) for batch in run(lake.read_stream("db.q", options=rows))] == [20, 10]


def test_progress_says_how_far_behind_a_stream_is(lake, queue, run):
    seen = []
    options = {**FROM_ONE, "read.stream.maxFilesPerTrigger": 1}
    run(lake.read_stream("db.q", options=options), progress=seen)
    progress = [p.sources[0] for p in seen if p.numInputRows]
    assert [p.numInputRows for p in progress] == [10, 10, 10]
    assert [p.metrics["snapshotsBehind"] for p in progress] == ["2", "1", "0"]
    assert [p.metrics["rowsBehind"] for p in progress] == ["20", "10", "0"]
    assert int(progress[0].metrics["bytesBehind"]) > 0


def test_start_options_do_not_beat_a_checkpoint(lake, queue, run):
    assert len(run(lake.read_stream("db.q", options={"scan.mode": "latest"}), "c")) <= 1
    queue.write(rows_of(100, 3))
    (batch,) = run(lake.read_stream("db.q", options={"scan.mode": "latest"}), "c")
    assert [row[0] for row in batch] == [100, 101, 102]
    queue.write(rows_of(200, 3))
    late = lake.read_stream("db.q", options=FROM_ONE)
    assert [row[0] for row in run(late, "c")[0]] == [200, 201, 202]


def test_a_stream_that_begins_at_the_end_misses_no_row_before_its_first_batch(lake, queue, run):
    frame = lake.read_stream("db.q", options={"scan.mode": "latest"})
    assert sum(map(len, run(frame, "c"))) == 0
    queue.write(rows_of(100, 2))
    assert [row[0] for row in run(frame, "c")[0]] == [100, 101]


def test_an_empty_table_gives_its_first_rows(lake, run):
    table = lake.catalog.create_table("db.e", {"id": "INT"})
    frame = lake.read_stream("db.e")
    assert run(frame, "c") == []
    table.write([{"id": 1}])
    assert run(frame, "c") == [[(1,)]]


def test_two_queries_of_one_frame_have_sources_of_their_own(lake, queue, run):
    frame = lake.read_stream("db.q", options={"read.stream.maxFilesPerTrigger": 2})
    first, second = run(frame, "one"), run(frame.select("id"), "two")
    assert [len(b) for b in first] == [len(b) for b in second] == [20, 10]


def test_a_union_of_streams_joined_with_a_table(spark, lake, queue, keyed, run):
    changed = lake.read_stream("db.k").select("id")
    fixed = lake.table("db.q", columns=["id", "name"])
    both = lake.read_stream("db.q").where("id < 3").select("id").union(changed)
    (batch,) = run(both.join(fixed, "id"))
    assert batch == sorted([(i, f"n{i}") for i in (0, 1, 2, 0, 2, 3, 4, 5)])


def test_three_streams_at_once(spark, lake, queue, tmp_path):
    found = [[], [], []]
    queries = [
        lake.read_stream("db.q")
        .writeStream.foreachBatch(lambda batch, _, own=own: own.extend(batch.collect()))
        .option("checkpointLocation", str(tmp_path / f"three-{number}"))
        .trigger(processingTime="100 milliseconds")
        .start()
        for number, own in enumerate(found)
    ]
    try:
        queue.write(rows_of(100, 5))
        for query in queries:
            query.processAllAvailable()
    finally:
        for query in queries:
            query.stop()
    assert [len(own) for own in found] == [35, 35, 35]


def test_a_restart_needs_no_snapshot_of_a_batch_that_is_committed(lake, queue, run):
    frame = lake.read_stream("db.q")
    run(frame, "c")
    queue.write(rows_of(100, 1))
    lake.sql("CALL sys.clear_consumers(table => 'db.q')")
    assert queue.maintenance.expire_snapshots(retain_max=1, retain_min=1).ids == (1, 2, 3)
    assert [row[0] for row in run(frame, "c")[0]] == [100]


def test_what_a_stopped_stream_reads_next_outlives_expiry(lake, queue, run, tmp_path):
    frame = lake.read_stream("db.q", options={**FROM_ONE, "read.stream.maxFilesPerTrigger": 1})
    assert len(run(frame, "c")) == 3
    metadata = json.loads((tmp_path / "c" / "metadata").read_text())
    name = f"source-{metadata['id']}-0"
    consumers = queue.system_table("consumers").to_arrow().to_pylist()
    assert consumers == [{"consumer_id": name, "next_snapshot_id": 3}]
    for number in range(3):
        queue.write(rows_of(100 + number, 1))
    assert queue.maintenance.expire_snapshots(retain_max=1, retain_min=1).ids == (1, 2)
    assert [[row[0] for row in batch] for batch in run(frame, "c")] == [[100], [101], [102]]
    assert queue.maintenance.expire_snapshots(retain_max=1, retain_min=1).ids == (3, 4, 5)
    leases = list(Path(queue.handle.paths.consumer_dir).glob("lease-*"))
    assert len(leases) == 1  # of the last run alone


def test_a_query_without_a_checkpoint_of_its_own_holds_nothing_after_it(lake, queue):
    found = []
    query = (
        lake.read_stream("db.q", options={"consumer-id": "board"})
        .writeStream.foreachBatch(lambda batch, _: found.extend(batch.collect()))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(60)
    assert len(found) == 30
    assert list(Path(queue.handle.paths.consumer_dir).iterdir()) == []


def test_an_expired_offset_is_refused_with_the_range(lake, queue, run):
    frame = lake.read_stream("db.q")
    run(frame, "c")
    for number in range(4):
        queue.write(rows_of(100 + number, 1))
    lake.sql("CALL sys.clear_consumers(table => 'db.q')")
    queue.maintenance.expire_snapshots(retain_max=1, retain_min=1)
    with pytest.raises(StreamingQueryException, match=r"expired; snapshots 7 to 7") as error:
        run(frame, "c")
    assert "Py4J" not in str(error.value)
    assert "Traceback" not in str(error.value)


def test_added_columns_stop_a_stream_until_its_frame_is_made_again(spark, lake, queue, run):
    frame = lake.read_stream("db.q")
    run(frame, "c")
    queue.write(rows_of(100, 1))
    lake.catalog.table("db.q").alter(AddColumn("more", "INT"))
    lake.catalog.table("db.q").write([{"id": 200, "qty": 0, "name": "x", "more": 7}])
    (batch,) = run(frame, "c")  # its columns are still there
    assert batch == [(100, 0, "n100"), (200, 0, "x")]
    lake.catalog.table("db.q").write([{"id": 201, "qty": 0, "name": "y", "more": 8}])
    assert run(lake.read_stream("db.q"), "c") == [[(201, 0, "y", 8)]]


def test_a_renamed_column_stops_a_stream(lake, queue, run):
    frame = lake.read_stream("db.q")
    run(frame, "c")
    lake.catalog.table("db.q").alter(RenameColumn("qty", "quantity"))
    with pytest.raises(StreamingQueryException, match="was renamed to 'quantity'"):
        run(frame, "c")
    lake.catalog.table("db.q").write([{"id": 200, "quantity": 0, "name": "x"}])
    with pytest.raises(StreamingQueryException, match="was renamed to 'quantity'"):
        run(lake.read_stream("db.q"), "c")


def test_a_schema_change_stops_a_running_stream_before_the_batch(lake, queue, tmp_path):
    found = []
    query = (
        lake.read_stream("db.q")
        .writeStream.foreachBatch(lambda batch, _: found.extend(batch.collect()))
        .option("checkpointLocation", str(tmp_path / "running"))
        .trigger(processingTime="100 milliseconds")
        .start()
    )
    query.processAllAvailable()
    table = lake.catalog.table("db.q")
    table.alter(AddColumn("more", "INT"))
    table.write([{"id": 200, "qty": 0, "name": "x", "more": 7}])
    with pytest.raises(StreamingQueryException, match="columns were added: 'more'"):
        query.awaitTermination(30)
    assert len(found) == 30


def test_an_overwrite_is_refused_unless_told_otherwise(lake, queue, run):
    frame = lake.read_stream("db.q")
    run(frame, "c")
    queue.write(rows_of(500, 2), mode="overwrite")
    with pytest.raises(StreamingQueryException, match="streaming-read-overwrite"):
        run(frame, "c")
    skipping = lake.read_stream("db.q", options={"streaming-read-overwrite": "skip"})
    assert sum(map(len, run(skipping, "c"))) == 0
    queue.write(rows_of(600, 1))
    assert run(skipping, "c") == [[(600, 0, "n600")]]


def test_a_table_made_anew_is_refused(lake, queue, run):
    frame = lake.read_stream("db.q")
    run(frame, "c")
    lake.catalog.drop_table("db.q")
    lake.catalog.create_table("db.q", {"id": "BIGINT", "qty": "INT", "name": "STRING"}).write(
        rows_of(0, 1)
    )
    with pytest.raises(StreamingQueryException, match="dropped and recreated"):
        run(lake.read_stream("db.q"), "c")


def test_a_checkpoint_of_another_table_is_refused(lake, queue, keyed, run):
    run(lake.read_stream("db.q").select("id"), "c")
    with pytest.raises(StreamingQueryException, match="another table"):
        run(lake.read_stream("db.k").select("id"), "c")


def test_what_a_source_refuses_is_raised_as_it_was(lake, queue, tmp_path):
    lake.create_table("db.copies", "id bigint")
    lake.create_table("db.empty", "id bigint")

    def copy(name, **options):
        frame = lake.read_stream(name, columns=["id"], options=options)
        query = lake.write_stream(
            frame, "db.copies", checkpoint=tmp_path / "c", trigger="availableNow"
        )
        query.awaitTermination(60)
        return query

    with pytest.raises(NotFoundError, match=r"no snapshot 99 yet.*Begin at 4, the next one"):
        copy("db.q", **{"scan.snapshot-id": 99})
    copy("db.q")
    with pytest.raises(NotFoundError, match="another table"):  # which has no snapshot
        copy("db.empty")


def test_wrong_options_are_refused_before_a_query_starts(spark, lake, queue):
    with pytest.raises(InvalidInputError, match=r"scan\.mode"):
        lake.read_stream("db.q", options={"scan.mod": "latest"})
    with pytest.raises(NotFoundError, match="'nothing' does not exist"):
        lake.read_stream("db.nothing")
    with pytest.raises(InvalidInputError, match="system table"):
        lake.read_stream("db.q$files")


def test_a_table_whose_rows_are_parts_of_rows_has_no_stream(lake):
    lake.catalog.create_table(
        "db.p",
        {"id": "INT", "a": "INT"},
        primary_keys=["id"],
        options={"bucket": 1, "merge-engine": "partial-update"},
    )
    with pytest.raises(UnsupportedError, match="changelog-producer"):
        lake.read_stream("db.p")


def test_offsets_in_the_checkpoint_say_where_the_stream_began(lake, queue, run, tmp_path):
    run(lake.read_stream("db.q", options=FROM_ONE), "c")
    text = Path(tmp_path / "c" / "offsets" / "0").read_text().splitlines()[-1]
    offset = json.loads(text)
    assert (offset["v"], offset["snapshot"], offset["phase"]) == (1, 4, "delta")
    assert offset["from"]["snapshot"] == 1


def test_changes_are_scanned_by_spark_where_files_need_no_merge(production_conf, lake, keyed):
    frame = lake.changes("db.k", 1, 3, mode="changelog")
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert "FileScan parquet" in plan
    assert "MapInArrow" not in plan
    local = lake.catalog.table("db.k").changes(1, 3, mode="changelog").to_pylist()
    expected = sorted((row[KINDS], row["id"], row["qty"]) for row in local)
    assert sorted(map(tuple, frame.collect())) == expected


def test_a_net_change_is_read_by_the_kernel(lake, keyed):
    frame = lake.changes("db.k", 1)
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert "MapInArrow" in plan
    assert sorted(map(tuple, frame.collect())) == [
        ("+U", 0, 100),
        ("+U", 2, 102),
        ("-D", 1, 1),
        ("-U", 0, 0),
        ("-U", 2, 2),
    ]


def test_unsupported_spark_is_named(spark, lake, queue, monkeypatch):
    needed = (*provider.needed_names(minor_of(spark.version)), "org.apache.spark.sql.Gone")
    monkeypatch.setattr(provider, "needed_names", lambda _: needed)
    with pytest.raises(UnsupportedError, match=r"has no org\.apache\.spark\.sql\.Gone"):
        lake.read_stream("db.q")
    with pytest.raises(UnsupportedOperationException, match="later patch version"):
        spark.readStream.table("tidelake.db.q")


# ---- event time


@pytest.fixture
def clicks(lake):
    """A table that declares its event time; its snapshots have watermarks of their own."""
    lake.sql(
        "CREATE TABLE db.w (id INT, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '5' SECOND)"
    )
    table = lake.catalog.table("db.w")

    def write(*seconds):
        two = datetime(2026, 3, 8, 2)
        rows = [{"id": s, "at": two + timedelta(seconds=s)} for s in seconds]
        WriteTransaction(table.handle, watermark=max(seconds) * 1000).write(rows)

    return table, write


def test_windows_close_by_the_declared_watermark_in_the_datas_own_time(
    spark, lake, clicks, tmp_path
):
    _, write = clicks
    write(1, 3, 12)
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")  # 02:00 is not there that day
    found = []
    try:
        frame = lake.read_stream("db.w")
        assert frame.schema["at"].dataType.simpleString() == "timestamp_ntz"
        frame.createOrReplaceTempView("clicks")
        counted = spark.sql(
            "SELECT window.start AS s, window.end AS e, count(*) AS n FROM clicks"
            " GROUP BY window(at, '10 seconds')"
        )
        query = (
            counted.writeStream.foreachBatch(lambda batch, _: found.extend(batch.collect()))
            .option("checkpointLocation", str(tmp_path / "windows"))
            .outputMode("append")
            .start()
        )
        query.processAllAvailable()
        write(17)  # the watermark is 12 s: the first window closes
        query.processAllAvailable()
        write(2)  # too late
        query.processAllAvailable()
        query.stop()
    finally:
        spark.catalog.dropTempView("clicks")  # or it hides other tests' table
        spark.conf.set("spark.sql.session.timeZone", zone)
    assert [tuple(row) for row in found] == [
        (datetime(2026, 3, 8, 2, 0, 0), datetime(2026, 3, 8, 2, 0, 10), 2)
    ]


def test_a_stream_ends_before_the_snapshot_whose_watermark_is_beyond_the_bound(
    lake, clicks, run, tmp_path
):
    _, write = clicks
    for seconds in (1, 2, 3):
        write(seconds)
    options = {**FROM_ONE, "scan.bounded.watermark": 2000}
    frame = lake.read_stream("db.w", options=options).select("id")
    assert run(frame) == [[(1,), (2,)]]
    found = []
    query = (
        frame.writeStream.foreachBatch(lambda batch, _: found.extend(batch.collect()))
        .option("checkpointLocation", str(tmp_path / "bounded"))
        .trigger(processingTime="100 milliseconds")
        .start()
    )
    assert query.awaitTermination(30), "it ends by itself"
    assert sorted(row.id for row in found) == [1, 2]


def test_a_query_ends_when_all_of_its_bounded_streams_have(spark, lake, clicks, tmp_path):
    _, write = clicks
    for seconds in (1, 2, 3):
        write(seconds)
    later = lake.catalog.create_table("db.later", {"id": "INT"})
    WriteTransaction(later.handle, watermark=1000).write([{"id": 10}])
    soon = lake.read_stream("db.w", options={**FROM_ONE, "scan.bounded.watermark": 2000})
    late = lake.read_stream("db.later", options={**FROM_ONE, "scan.bounded.watermark": 4000})
    found = {"both": [], "endless": []}

    def start(name, frame):
        writer = frame.writeStream.foreachBatch(
            lambda batch, _: found[name].extend(batch.collect())
        ).trigger(processingTime="50 milliseconds")
        return writer.option("checkpointLocation", str(tmp_path / name)).start()

    def until(name, ids):
        for _ in range(2_400):
            if sorted(row.id for row in found[name]) == ids:
                return
            time.sleep(0.05)
        pytest.fail(str(found[name]))

    both = soon.select("id").union(late)
    endless = both.union(
        spark.readStream.format("rate").load().selectExpr("-1 AS id").where("id > 0")
    )
    queries = [start("both", both), start("endless", endless)]
    for name in found:
        until(name, [1, 2, 10])
    for ids in ([1, 2, 10, 11], [1, 2, 10, 11, 12]):
        WriteTransaction(later.handle, watermark=ids[-1] * 100).write([{"id": ids[-1]}])
        until("both", ids)
        until("endless", ids)
    assert queries[0].isActive
    WriteTransaction(later.handle, watermark=5000).write([{"id": 99}])
    assert queries[0].awaitTermination(30), "it ends by itself"
    time.sleep(0.5)
    assert queries[1].isActive, "the rate goes on for ever"
    queries[1].stop()
    for name in found:
        until(name, [1, 2, 10, 11, 12])


def test_a_stream_waits_for_others_of_its_group(lake, clicks, queue, tmp_path):
    _, write = clicks
    lake.catalog.create_table("db.slow", {"id": "INT"})
    slow = lake.catalog.table("db.slow")

    def slow_to(seconds):
        WriteTransaction(slow.handle, watermark=seconds * 1000).write([{"id": seconds}])

    aligned = {
        **FROM_ONE,
        "scan.watermark.alignment.group": "both",
        "scan.watermark.alignment.max-drift": "2 s",
        "read.stream.maxFilesPerTrigger": 1,  # without buckets a batch of two has no order
    }
    found = []

    def start(name, own):
        return (
            lake.read_stream(name, options=aligned)
            .select("id")
            .writeStream.foreachBatch(lambda batch, _: own.extend(r.id for r in batch.collect()))
            .option("checkpointLocation", str(tmp_path / name))
            .start()
        )

    slow_to(1)
    behind = []
    queries = [start("db.slow", behind)]
    try:
        queries[0].processAllAvailable()
        write(1)
        queries.append(start("db.w", found))
        queries[1].processAllAvailable()
        for seconds in (2, 3, 9, 10):
            write(seconds)
        wait_for(lambda: len(found) >= 3)
        queries[1].processAllAvailable()
        assert 10 not in found, "9 s is beyond 1 s + 2 s: it goes no further"
        slow_to(9)
        wait_for(lambda: 10 in found)
    finally:
        for query in queries:
            query.stop()
    assert found == [1, 2, 3, 9, 10]


def wait_for(is_true, seconds=120):
    end = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.05)


def test_a_drift_without_a_group_is_refused(lake, queue):
    options = {"scan.watermark.alignment.max-drift": "2 s"}
    with pytest.raises(InvalidInputError, match=r"scan\.watermark\.alignment\.group"):
        lake.read_stream("db.q", options=options)


# ---- format("tidelake"): Python's data source API


@pytest.fixture
def by_format(spark, lake):
    """The reader of a stream by format, with options."""

    def reader(name, **options):
        made = spark.readStream.format("tidelake").option("warehouse", str(lake.catalog.warehouse))
        return made.option("table", name).options(**options).load()

    return reader


def test_a_stream_by_format_gives_the_state_and_then_every_commit(lake, queue, by_format, run):
    frame = by_format("db.q", columns="id,name", where="qty = 3")
    assert run(frame, "c") == [[(3, "n3"), (13, "n13"), (23, "n23")]]
    queue.write(rows_of(100, 5))
    assert run(frame, "c") == [[(103, "n103")]]
    assert run(frame, "c") == []


def test_kinds_and_limits_of_a_stream_by_format(lake, keyed, by_format, run):
    options = {
        "scan.mode": "from-snapshot",
        "scan.snapshot-id": "1",
        "read.changelog": "true",
        "read.stream.maxRowsPerTrigger": "6",
    }
    batches = run(by_format("db.k", **options))
    assert len(batches) > 1
    local = lake.catalog.table("db.k").changes(0, mode="changelog").to_pylist()
    expected = sorted((row[KINDS], row["id"], row["qty"]) for row in local)
    assert sorted(row for batch in batches for row in batch) == expected
    with pytest.raises(StreamingQueryException, match=r"'read\.changelog' = 'true'"):
        run(by_format("db.k", **FROM_ONE))
