"""Streams of Spark's written to tables: each batch is in a table once, whatever happened."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from proving.odd_names import odd_name
from pyspark.errors import StreamingQueryException

import tidelake.spark
from tidelake.errors import ConflictError, InvalidInputError, TidelakeError
from tidelake.metadata.log.consumer import ConsumerLog
from tidelake.spark.streams.write import batch_rows, sink_run
from tidelake.table.stream.lease import StreamLease

TABLE, FIRST_S = "default.t", 1_700_000_000
KEYED = "CREATE TABLE t (k BIGINT, v BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('bucket' = '2')"
APPEND = "CREATE TABLE t (k BIGINT, v BIGINT)"
ON_EXECUTORS, ON_DRIVER = {"sink.local-rows": 0}, {}


class Stream:
    """A folder of Parquet files; a batch is a file."""

    def __init__(self, spark, folder):
        self.spark, self.folder, self.count = spark, folder, 0
        folder.mkdir()

    def feed(self, *columns, names=("k", "v")):
        arrays = [pa.array(values, pa.int64()) for values in columns]
        path = self.folder / f"{self.count:03}.parquet"
        pq.write_table(pa.table(dict(zip(names, arrays, strict=True))), path)
        self.count += 1
        os.utime(path, (FIRST_S + self.count, FIRST_S + self.count))  # batches come in this order

    def frame(self, schema="k bigint, v bigint"):
        reader = self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(self.folder))


@pytest.fixture
def stream(spark, tmp_path):
    return Stream(spark, tmp_path / "in")


@pytest.fixture
def lake(spark, tmp_path):
    return tidelake.spark.attach(spark, tmp_path / "lake", catalog="sunk")


@pytest.fixture
def checkpoint(tmp_path, request):
    return tmp_path / odd_name(request.node.name)


@pytest.fixture
def run(lake, stream, checkpoint):
    """Runs a stream over all that is there, with the checkpoint of this test."""

    def started(frame=None, **given):
        frame = stream.frame() if frame is None else frame
        given = {"checkpoint": checkpoint, "trigger": "availableNow"} | given
        query = lake.write_stream(frame, TABLE, **given)
        with contextlib.suppress(StreamingQueryException, TidelakeError):
            query.awaitTermination(60)
        assert not query.isActive
        return query

    return started


def rows(lake):
    return sorted(map(tuple, lake.table(TABLE).collect()))


def snapshots(lake):
    """Commits that are there: who, which batch, how."""
    log = lake.catalog.table(TABLE).system_table("snapshots").to_arrow().to_pylist()
    return [(s["commit_user"], s["commit_identifier"], s["commit_kind"]) for s in log]


def forget_last(checkpoint):
    """As if the driver had died after the sink's commit and before Spark's."""
    done = checkpoint / "commits"
    last = max(int(p.name) for p in done.iterdir() if p.name.isdecimal())
    (done / str(last)).unlink()
    (done / f".{last}.crc").unlink(missing_ok=True)
    return last


def test_as_many_tasks_write_as_sink_parallelism_says(lake, stream, run):
    lake.sql(APPEND)
    stream.feed(range(60), range(60))
    run(options={**ON_EXECUTORS, "sink.parallelism": 3})
    files = lake.catalog.table(TABLE).system_table("files").to_arrow()
    assert sum(files["record_count"].to_pylist()) == 60
    assert files.num_rows == 3


def test_a_run_that_died_before_its_first_batch_can_be_started_again(lake, stream, run, checkpoint):
    lake.sql(APPEND)
    stream.feed([1], [10])
    (checkpoint / "offsets").mkdir(parents=True)
    (checkpoint / "commits").mkdir()
    for name in (".0.7299b178.tmp", "..0.7299b178.tmp.crc"):  # what a kill leaves of Spark's
        (checkpoint / "offsets" / name).write_bytes(b"v1")
    run()
    assert [tuple(row) for row in lake.table(TABLE).collect()] == [(1, 10)]


def test_a_batch_of_a_query_with_state_that_comes_again_keeps_its_state(
    lake, stream, run, checkpoint
):
    """Spark refuses a batch whose state was not written again."""
    lake.sql(KEYED)
    for value in (1, 10):
        stream.feed([1, 2], [value, value])
        frame = stream.frame().groupBy("k").sum("v").toDF("k", "v")
        assert run(frame, mode="update").exception() is None
    before = snapshots(lake)
    assert forget_last(checkpoint) == 1
    for value in (100, None):
        query = run(stream.frame().groupBy("k").sum("v").toDF("k", "v"), mode="update")
        assert query.exception() is None
        assert (snapshots(lake) == before) == (value is not None)
        if value is not None:
            assert rows(lake) == [(1, 11), (2, 11)]
            stream.feed([1], [value])
    assert rows(lake) == [(1, 111), (2, 11)]


@pytest.mark.share(2)
@pytest.mark.parametrize("options", [ON_EXECUTORS, ON_DRIVER], ids=["executors", "driver"])
@pytest.mark.parametrize("definition", [KEYED, APPEND], ids=["keyed", "append"])
def test_a_batch_that_comes_again_is_committed_already(
    lake, stream, run, checkpoint, definition, options
):
    lake.sql(definition)
    for number in range(3):
        stream.feed([number, 10], [number, number])
    query = run(options=options)
    assert query.exception() is None
    known, before = rows(lake), snapshots(lake)
    assert [n for user, n, kind in before if kind == "APPEND"] == [0, 1, 2]
    assert {user for user, *_ in before} == {str(query.id)}
    assert forget_last(checkpoint) == 2
    again = run(options=options)
    assert (again.exception(), again.lastProgress["batchId"]) == (None, 2)
    assert (rows(lake), snapshots(lake)) == (known, before)
    stream.feed([7], [7])
    run(options=options)
    assert rows(lake) == sorted([*known, (7, 7)])


def test_rows_are_written_where_their_number_says(lake, stream, run, monkeypatch):
    lake.sql(APPEND)
    seen = []
    for name in ("write_batch", "rows_up_to"):
        original = getattr(batch_rows, name)

        def noted(*given, _name=name, _original=original, **named):
            seen.append(_name)
            return _original(*given, **named)

        monkeypatch.setattr(batch_rows, name, noted)
    for count in (2, 9, 9, 2, 2):
        stream.feed(range(count), range(count))
    run(options={"sink.local-rows": 4})
    # kept while it is counted, and more than four; known to be many; few; few and likely to be so
    assert seen == [
        *("rows_up_to",),
        *("rows_up_to", "write_batch"),
        *("write_batch",),
        *("write_batch",),
        *("rows_up_to",),
    ]
    assert len(rows(lake)) == 24


@pytest.mark.parametrize("options", [ON_EXECUTORS, ON_DRIVER], ids=["executors", "driver"])
def test_no_row_is_computed_twice(spark, lake, stream, run, options):
    lake.sql(APPEND)
    counted = spark.sparkContext.accumulator(0)

    def counting(batches):
        for batch in batches:
            counted.add(batch.num_rows)
            yield batch

    for count in (2, 9, 9, 2):
        stream.feed(range(count), range(count))
    frame = stream.frame().mapInArrow(counting, "k bigint, v bigint")
    run(frame, options=options or {"sink.local-rows": 4})
    assert (counted.value, len(rows(lake))) == (22, 22)


@pytest.mark.share(2)
@pytest.mark.parametrize(
    ("definition", "options"),
    [
        (KEYED, {"write-only": True}),
        (KEYED, {"full-compaction.delta-commits": 1}),
        (KEYED.replace("'2'", "'-1'"), {"dynamic-bucket.target-row-num": 2}),
        (KEYED.replace("'2'", "'-2'"), {}),
        (
            "CREATE TABLE t (k BIGINT, v BIGINT, PRIMARY KEY (k) NOT ENFORCED) PARTITIONED BY (v)"
            " WITH ('bucket' = '-1')",
            {},
        ),
        ("CREATE TABLE t (k BIGINT, v BIGINT) WITH ('bucket' = '2', 'bucket-key' = 'k')", {}),
    ],
    ids=["write-only", "full compaction", "dynamic", "postpone", "moving keys", "queue"],
)
@pytest.mark.parametrize("local", [0, 100], ids=["executors", "driver"])
def test_every_kind_of_table_has_each_batch_once_in_two_snapshots_at_most(
    lake, stream, run, checkpoint, definition, options, local
):
    lake.sql(definition)
    for number in range(4):
        stream.feed([1, 2, 10 + number], [number, 5, number])
    given = options | {"sink.local-rows": local}
    assert run(options=given).exception() is None
    forget_last(checkpoint)
    run(options=given)
    if "'-2'" in definition:
        assert rows(lake) == []
        lake.compact(TABLE)
    if "PRIMARY KEY" in definition:
        assert rows(lake) == [(1, 3), (2, 5), (10, 0), (11, 1), (12, 2), (13, 3)]
    else:
        assert len(rows(lake)) == 12
    made = [(n, kind) for user, n, kind in snapshots(lake) if n < 4]
    assert [n for n, kind in made if kind == "APPEND"] == [0, 1, 2, 3]
    assert len(set(made)) == len(made)
    assert all(kind in {"APPEND", "COMPACT"} for _, kind in made)


def test_what_is_due_in_other_buckets_goes_with_the_batch(lake, stream, run):
    lake.sql(KEYED.replace("'bucket' = '2'", "'bucket' = '2', 'num-levels' = '3'"))
    stream.feed(range(20), range(20))
    for _ in range(3):
        stream.feed([1], [1])  # one bucket
    run(options=ON_EXECUTORS | {"full-compaction.delta-commits": 2})
    made = [(n, kind) for _, n, kind in snapshots(lake)]
    assert len(set(made)) == len(made)
    files = lake.catalog.table(TABLE).system_table("files").to_arrow()
    assert set(files["level"].to_pylist()) <= {0, 2}
    found = set(zip(files["bucket"].to_pylist(), files["level"].to_pylist(), strict=True))
    assert {bucket for bucket, level in found if level == 2} == {0, 1}


def test_all_rows_replace_the_table_in_mode_complete(lake, stream, run):
    lake.sql("CREATE TABLE t (g BIGINT, n BIGINT) PARTITIONED BY (g)")
    lake.sql("INSERT INTO t VALUES (99, 1)")
    stream.feed([1, 2, 3], [0, 0, 0])
    stream.feed([1, 1], [0, 0])
    frame = stream.frame().groupBy("k").count().toDF("g", "n")
    assert run(frame, mode="complete").exception() is None
    assert rows(lake) == [(1, 3), (2, 1), (3, 1)]


def test_changed_rows_are_upserted_in_mode_update(lake, stream, run):
    lake.sql(KEYED)
    stream.feed([1, 2, 3], [0, 0, 0])
    stream.feed([1, 1], [0, 0])
    frame = stream.frame().groupBy("k").count().toDF("k", "v")
    assert run(frame, mode="update").exception() is None
    assert rows(lake) == [(1, 3), (2, 1), (3, 1)]


def test_row_kinds_delete(lake, stream, run):
    lake.sql(KEYED)
    stream.feed([1, 2, 3], [1, 1, 1])
    stream.feed([2], [0])
    frame = stream.frame().selectExpr("k", "v", "if(v = 0, '-D', '+I') AS _row_kind")
    run(frame)
    assert rows(lake) == [(1, 1), (3, 1)]


@pytest.mark.share(2)
@pytest.mark.parametrize("options", [ON_EXECUTORS, ON_DRIVER], ids=["executors", "driver"])
def test_snapshots_carry_the_watermark_that_spark_notes(lake, stream, run, checkpoint, options):
    lake.sql("CREATE TABLE t (k BIGINT, ts TIMESTAMP_LTZ(3))")
    for k in (5, 2, 9):
        stream.feed([k, k - 1], [0, 0])
    frame = stream.frame().selectExpr("k", "timestamp_millis(1700000000000 + k * 1000) AS ts")
    run(frame.withWatermark("ts", "2 seconds"), options=options)
    log = lake.catalog.table(TABLE).system_table("snapshots").to_arrow()
    noted = [
        json.loads((checkpoint / "commits" / str(n)).read_text().splitlines()[1]) for n in range(3)
    ]
    expected = [1_700_000_000_000 + s * 1000 for s in (3, 3, 7)]
    assert [n["nextBatchWatermarkMs"] for n in noted] == expected
    assert log["watermark"].to_pylist() == expected


@pytest.mark.share(2)
@pytest.mark.parametrize("wanted", [False, True])
@pytest.mark.parametrize("options", [ON_EXECUTORS, ON_DRIVER], ids=["executors", "driver"])
def test_a_batch_without_rows_makes_no_snapshot_unless_asked(lake, stream, run, options, wanted):
    lake.sql(APPEND)
    for _ in range(2):
        stream.feed([1], [1])
    run(stream.frame().where("k > 1"), options=options | {"commit.force-create-snapshot": wanted})
    assert [n for _, n, _ in snapshots(lake)] == ([0, 1] if wanted else [])
    assert rows(lake) == []


def test_new_columns_come_with_the_rows_where_the_option_says_so(lake, stream, run):
    lake.sql(APPEND)
    stream.feed([1], [1])
    frame = stream.frame().selectExpr("k", "v", "k + 1 AS w")
    with pytest.raises(InvalidInputError, match="'w'"):
        run(frame)
    assert run(frame, options={"write.merge-schema": True}).exception() is None
    assert rows(lake) == [(1, 1, 2)]


def test_columns_that_the_table_got_since_are_null(lake, stream, run, checkpoint):
    lake.sql(APPEND)
    stream.feed([1], [1])
    run()
    lake.sql("ALTER TABLE t ADD COLUMNS (w INT)")
    stream.feed([2], [2])
    assert run().exception() is None
    assert rows(lake) == [(1, 1, None), (2, 2, None)]
    with pytest.raises(InvalidInputError, match="lacks the column 'w'"):
        run(checkpoint=checkpoint.with_name("of a new query"))


def test_a_table_made_anew_is_another(lake, stream, run):
    lake.sql(APPEND)
    stream.feed([1], [1])
    run()
    lake.sql(f"DROP TABLE t; {APPEND}")
    with pytest.raises(InvalidInputError, match="dropped and has been created again") as refused:
        run()
    assert refused.value.kind == "checkpoint_of_another"


def other(lake, stream, checkpoint):
    return {
        "no checkpoint": lambda: lake.write_stream(stream.frame(), TABLE),
        "a file": lambda: lake.write_stream(stream.frame(), TABLE, checkpoint=Path(__file__)),
        "written as a batch": lambda: lake.write(stream.frame(), TABLE),
        "merged": lambda: lake.merge(TABLE, stream.frame(), "k"),
        "not a stream": lambda: lake.write_stream(lake.table(TABLE), TABLE, checkpoint=checkpoint),
        "lacks a column": lambda: lake.write_stream(
            stream.frame().select("k"), TABLE, checkpoint=checkpoint
        ),
        "wrong type": lambda: lake.write_stream(
            stream.frame().selectExpr("k", "map(k, v) AS v"), TABLE, checkpoint=checkpoint
        ),
        "mode": lambda: lake.write_stream(
            stream.frame(), TABLE, checkpoint=checkpoint, mode="updates"
        ),
        "update": lambda: lake.write_stream(
            stream.frame(), TABLE, checkpoint=checkpoint, mode="update"
        ),
        "complete": lambda: lake.write_stream(
            stream.frame(), TABLE, checkpoint=checkpoint, mode="complete"
        ),
        "trigger": lambda: lake.write_stream(
            stream.frame(), TABLE, checkpoint=checkpoint, trigger="soon"
        ),
        "no trigger": lambda: lake.write_stream(
            stream.frame(), TABLE, checkpoint=checkpoint, trigger=3
        ),
        "system table": lambda: lake.write_stream(
            stream.frame(), f"{TABLE}$files", checkpoint=checkpoint
        ),
    }


@pytest.mark.parametrize(
    ("what", "kind", "words"),
    [
        ("no checkpoint", "no_checkpoint", "needs checkpoint="),
        ("a file", "no_checkpoint", "is a file, or lies in one: give a folder"),
        ("written as a batch", "is_stream", "write it with tl.write_stream"),
        ("merged", "is_stream", "in foreachBatch"),
        ("not a stream", "no_stream", "are not a stream"),
        ("lacks a column", "column_missing", "lacks the column 'v'"),
        ("wrong type", "column_type", "'v'"),
        ("mode", "bad_mode", "Did you mean 'update'"),
        ("update", "bad_mode", "no primary key"),
        ("complete", "stream_refused", "Invalid streaming output mode: complete"),
        ("trigger", "stream_refused", "Error parsing 'soon' to interval"),
        ("no trigger", "bad_trigger", "trigger=3"),
        ("system table", "system_table", "system table"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_starts(
    spark, lake, stream, checkpoint, what, kind, words
):
    lake.sql(APPEND)
    with pytest.raises(TidelakeError, match=words) as refused:
        other(lake, stream, checkpoint)[what]()
    assert refused.value.kind == kind
    assert "\n" not in refused.value.message
    assert not spark.streams.active
    assert not (checkpoint / "offsets").exists()


def test_the_checkpoint_of_another_stream_is_refused(lake, stream, run, checkpoint):
    lake.sql(f"{APPEND}; CREATE TABLE u (k BIGINT, v BIGINT)")
    stream.feed([1], [1])
    run()
    with pytest.raises(InvalidInputError, match=r"into table 'default\.t', not 'default\.u'"):
        lake.write_stream(stream.frame(), "default.u", checkpoint=checkpoint)
    rate = stream.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    with pytest.raises(InvalidInputError, match="reads FileSource"):
        run(rate.selectExpr("value AS k", "value AS v"))


@pytest.mark.parametrize(("gathers", "files"), [(False, 4), (True, 2)])
@pytest.mark.usefixtures("production_conf")
def test_a_batch_leaves_a_file_for_each_partition_where_rows_are_gathered(
    lake, stream, run, gathers, files
):
    lake.sql("CREATE TABLE t (k BIGINT, v BIGINT) PARTITIONED BY (v)")
    stream.feed(range(100), [k % 2 for k in range(100)])
    options = ON_EXECUTORS | {"precommit-compact": gathers}
    frame = stream.frame().repartition(2)
    assert run(frame, options=options).exception() is None
    table = lake.catalog.table(TABLE)
    assert table.system_table("files").to_arrow().num_rows == files
    assert len(rows(lake)) == 100


def test_many_buckets_for_each_task_are_warned_of_once(lake, stream, run, caplog):
    lake.sql("CREATE TABLE t (k BIGINT, v BIGINT) PARTITIONED BY (v)")
    for _ in range(2):
        stream.feed(range(210), range(210))
    run()
    (said,) = [r.getMessage() for r in caplog.records if "buckets" in r.getMessage()]
    assert "table 'default.t' has rows for 210 buckets and 2 tasks, 105 for each" in said


def test_a_batch_of_which_a_task_fails_leaves_nothing_and_comes_again(lake, stream, run):
    lake.sql(KEYED)

    def failing(batches):
        yield from batches
        message = "the worker is lost"
        raise OSError(message)

    stream.feed(range(20), range(20))
    failed = run(stream.frame().mapInArrow(failing, "k bigint, v bigint"), options=ON_EXECUTORS)
    assert "the worker is lost" in str(failed.exception())
    assert snapshots(lake) == []
    assert run(options=ON_EXECUTORS).exception() is None
    assert rows(lake) == [(k, k) for k in range(20)]


@pytest.mark.share(2)
@pytest.mark.parametrize("options", [ON_EXECUTORS, ON_DRIVER], ids=["executors", "driver"])
def test_what_stops_a_stream_is_said_in_our_words(lake, stream, checkpoint, options):
    lake.sql("CREATE TABLE t (k BIGINT, v BIGINT NOT NULL)")
    stream.feed([1, 2], [1, None])
    query = lake.write_stream(
        stream.frame(), TABLE, checkpoint=checkpoint, trigger="availableNow", options=options
    )
    with pytest.raises(InvalidInputError, match=r"Column 'v'.*NOT NULL") as refused:
        query.awaitTermination(60)
    assert refused.value.kind == "null_value"
    assert query.exception() is refused.value
    assert snapshots(lake) == []


@pytest.fixture
def run_format(stream, checkpoint, tmp_path):
    """Runs a stream by the data source's name."""

    def started(mode="append", frame=None, folder=checkpoint, **options):
        frame = stream.frame() if frame is None else frame
        writer = frame.writeStream.format("tidelake").outputMode(mode)
        writer = writer.option("checkpointLocation", str(folder)).trigger(availableNow=True)
        place = str(tmp_path / "lake" / "default.db" / "t")
        query = writer.options(**options).option("path", place).start()
        with contextlib.suppress(StreamingQueryException):
            query.awaitTermination(60)
        return query

    return started


@pytest.mark.share(2)
@pytest.mark.parametrize(
    "definition", [KEYED.replace("'2'", "'1'"), APPEND], ids=["keyed", "append"]
)
def test_the_data_source_writes_a_batch_once(
    lake, stream, run_format, checkpoint, definition, tmp_path
):
    lake.sql(definition)
    for number in range(6):
        stream.feed([number, 10], [number, number])
    assert run_format().exception() is None
    known, before = rows(lake), snapshots(lake)
    appended = [n for _, n, kind in before if kind == "APPEND"]
    assert appended == list(range(6))
    assert ("COMPACT" in {kind for *_, kind in before}) == ("PRIMARY" in definition)
    folder = lake.catalog.table(TABLE).handle.paths.location
    files = sorted(p.name for p in Path(folder).rglob("data-*"))
    forget_last(checkpoint)
    assert run_format().exception() is None
    assert (rows(lake), snapshots(lake)) == (known, before)
    assert sorted(p.name for p in Path(folder).rglob("data-*")) == files
    if "PRIMARY" in definition:
        assert known == [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (10, 5)]
        return
    assert len(known) == 12
    copy = shutil.copytree(checkpoint, tmp_path / "copy")
    stream.feed([9], [9])
    assert "copy of the checkpoint" in str(run_format(folder=copy).exception())
    assert snapshots(lake) == before
    assert run_format().exception() is None
    assert rows(lake) == sorted([*known, (9, 9)])


def test_the_data_source_refuses_tables_whose_rows_must_be_clustered(lake, stream, run_format):
    lake.sql(KEYED)
    stream.feed([1], [1])
    error = str(run_format().exception())
    assert "must be clustered by bucket before the write" in error
    assert "tl.write_stream(frame, 'default.t', checkpoint=...)" in error
    assert snapshots(lake) == []


def test_the_data_source_replaces_the_table_in_mode_complete(lake, stream, run_format):
    lake.sql(APPEND)
    stream.feed([1, 2, 3], [0, 0, 0])
    stream.feed([1, 1], [0, 0])
    frame = stream.frame().groupBy("k").count().toDF("k", "v")
    assert run_format("complete", frame).exception() is None
    assert rows(lake) == [(1, 3), (2, 1), (3, 1)]


def test_a_second_live_run_of_one_checkpoint_is_refused(
    lake, stream, run, checkpoint, monkeypatch, tmp_path
):
    monkeypatch.setattr(sink_run, "OPEN_WAIT_MS", 1)
    lake.sql(APPEND)
    stream.feed([1], [1])
    query = run()
    until_ended(query)
    before = snapshots(lake)
    copy = tmp_path / "copy"
    shutil.copytree(checkpoint, copy)
    handle = lake.catalog.table(TABLE).handle
    # as another process would hold it
    with StreamLease.open(handle, f"sink-{query.id}", 1, run_id="of another process"):
        stream.feed([2], [2])
        refused = run(checkpoint=copy).exception()
        assert isinstance(refused, ConflictError)
        assert str(query.id) in refused.message
        assert refused.kind == "stream_runs_already"
        assert snapshots(lake) == before
    assert run().exception() is None
    assert rows(lake) == [(1, 1), (2, 2)]


def test_the_last_commit_is_held_against_expiry_and_no_other(lake, stream, run, checkpoint):
    lake.sql(APPEND)
    table = lake.catalog.table(TABLE)
    consumers = ConsumerLog(table.handle.fileio, table.handle.paths)
    for number in (1, 2):
        stream.feed([number], [number])
        query = run()
        until_ended(query)
        assert consumers.next_ids() == {f"sink-{query.id}": number}, "and after a clean end"
    for k in range(3, 15):
        table.write([{"k": k, "v": k}])
    expired = table.maintenance.expire_snapshots(
        retain_max=1, retain_min=1, older_than="2100-01-01 00:00:00Z"
    )
    assert expired.ids == (1,)
    forget_last(checkpoint)
    before = rows(lake)
    assert run().exception() is None
    assert rows(lake) == before


@pytest.mark.share(2)
@pytest.mark.parametrize("by_format", [False, True], ids=["sink", "data source"])
def test_a_checkpoint_that_was_restored_loses_no_rows(
    lake, stream, run, run_format, checkpoint, tmp_path, by_format
):
    again = run_format if by_format else run
    lake.sql(APPEND)
    stream.feed([1], [1])
    again(frame=all_at_once(stream))
    shutil.copytree(checkpoint, tmp_path / "copy")
    stream.feed([2], [2])
    again(frame=all_at_once(stream))
    shutil.move(checkpoint, tmp_path / "newest")
    shutil.move(tmp_path / "copy", checkpoint)
    stream.feed([3], [3])
    error = again(frame=all_at_once(stream)).exception()  # batch 1 again, with one more row
    assert "the checkpoint is older than the table" in str(error)
    if not by_format:
        assert error.kind == "checkpoint_behind"
    assert rows(lake) == [(1, 1), (2, 2)]
    shutil.rmtree(checkpoint)
    shutil.move(tmp_path / "newest", checkpoint)
    assert again(frame=all_at_once(stream)).exception() is None
    assert rows(lake) == [(1, 1), (2, 2), (3, 3)]


def all_at_once(stream):
    return stream.spark.readStream.schema("k bigint, v bigint").parquet(str(stream.folder))


def test_a_target_that_was_rolled_back_is_refused(lake, stream, run):
    lake.sql(APPEND)
    for number in (1, 2):
        stream.feed([number], [number])
        run()
    table = lake.catalog.table(TABLE)
    table.rollback_to(snapshot_id=1)
    table.write([{"k": 9, "v": 9}])  # it takes the number of the commit that went
    stream.feed([3], [3])
    assert run().exception().kind == "target_rolled_back"
    assert rows(lake) == [(1, 1), (9, 9)]


def until_ended(query):
    """Wait until nothing lives beside a query."""
    assert query._sink.run.wait(60)
