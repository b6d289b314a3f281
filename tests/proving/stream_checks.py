"""Streams in small: what a replay gives and refuses, who holds a consumer, what a sink commits.

Each check takes a fraction of a second and starts no Spark: the code of a source's cursor and of a
sink's batches is run, and what is Java's stands aside.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pyarrow as pa

import tidelake
from proving import filtered
from proving.aligned_streams import check_aligned_streams
from proving.expiring import ALL, Meanwhile, again
from proving.leases import FirstState
from proving.stream_histories import check_stream_histories
from tidelake import ConflictError, NotFoundError, UnsupportedError
from tidelake.commit.idempotence import last_commit
from tidelake.errors import InvalidInputError
from tidelake.fileio import MemoryFileIO
from tidelake.metadata.log.consumer import ConsumerLog
from tidelake.spark.streams.read.cursor import StreamCursor
from tidelake.spark.streams.write import batch_rows, batch_sink, sink_run
from tidelake.spark.streams.write.batch_claim import RETAINED_MS
from tidelake.spark.streams.write.checkpoint import Checkpoint, SinkMark
from tidelake.spark.streams.write.sink_run import SinkRun
from tidelake.table import Table
from tidelake.table.stream import NO_LIMITS, ReadLimits, StreamLease, StreamOffset, StreamPlan
from tidelake.table.stream.consumer_reset import clear_consumers, reset_consumer
from tidelake.table.stream.lease import LEASE_TIMEOUT_MS
from tidelake.telemetry import Env, ManualClock

BATCHES_MAX = 30
"""A stream that takes more batches than this stands still."""
BUCKETS, KEYS, COMMITS = 3, 9, 4


def _table(
    keys: tuple[str, ...] = ("k",), partitions: tuple[str, ...] = (), **options: object
) -> Table:
    env = replace(Env.seeded(5), clock=ManualClock(1_700_000_000_000))
    catalog = tidelake.open("/w", fileio=MemoryFileIO(), env=env)
    bucket = {"bucket": "1"} if keys else {}
    return catalog.create_table(
        "db.t",
        {"k": "INT NOT NULL", "v": "INT"},
        primary_keys=keys,
        partition_keys=partitions,
        options={**bucket, **{key.replace("_", "-"): str(v) for key, v in options.items()}},
    )


def _commits(table: Table, count: int = COMMITS) -> None:
    """Each commit has each key once; its number is the value."""
    for number in range(1, count + 1):
        table.write([{"k": k, "v": number} for k in range(KEYS)])


def _replayed(
    table: Table, options: dict[str, str], limits: ReadLimits = NO_LIMITS
) -> Iterator[list[tuple[object, ...]]]:
    """The batches of a stream that is begun again, from the text of its offset, behind each."""
    text = None
    for _ in range(BATCHES_MAX):
        plan = StreamPlan.of(table.handle, options)
        at = plan.initial() if text is None else plan.offset(text)
        assert at is not None
        end = plan.next(at, limits)
        if end == at:
            return
        rows = plan.parts(at, end).reader().read_all().to_pylist()
        yield [tuple(row.values()) for row in rows]
        text = end.to_json()
    raise AssertionError("the stream stands still")


def check_stream_replay() -> None:
    """The state, then each change, each once, wherever batches end and streams begin again."""
    table = _table(changelog_producer="input", bucket=BUCKETS)
    _commits(table)
    options = {"scan.mode": "from-snapshot-full", "scan.snapshot-id": "2"}
    expected = sorted(("+I", k, v) for v in range(2, COMMITS + 1) for k in range(KEYS))
    for limits in (NO_LIMITS, ReadLimits(files=1), ReadLimits(files=2), ReadLimits(rows=4)):
        given = [row for batch in _replayed(table, options, limits) for row in batch]
        assert sorted(given) == expected, limits
    counts = [len(batch) for batch in _replayed(table, options, ReadLimits(files=1))]
    assert len(counts) == BUCKETS * (COMMITS - 1)


def check_stream_cuts() -> None:
    """A batch ends between buckets, never inside one key's changes of a commit."""
    table = _table(write_only="true", write_buffer_size="32 kb", write_buffer_spillable="false")
    types = pa.schema([pa.field("k", pa.int32(), nullable=False), ("v", pa.int32())])
    rows = pa.table([[k % 1500 for k in range(6000)], range(6000)], schema=types)
    table.write(iter(rows.to_batches(max_chunksize=500)))  # each key's changes in several files
    plan = StreamPlan.of(table.handle, {"scan.snapshot-id": "1"})
    begin = plan.initial()
    assert begin is not None
    end = plan.next(begin, ReadLimits(files=1))
    parts = list(plan.parts(begin, end))
    assert sum(split.files_count for part in parts for split in part.splits) > 1
    assert (end.snapshot, end.index) == (2, 0)


def check_stream_moved_keys() -> None:
    """A key that moves to another partition stays, whichever of the two is read first."""
    table = _table(partitions=("v",), changelog_producer="input", bucket=-1)
    for number in range(COMMITS):
        table.write([{"k": k, "v": (k + number) % 3} for k in range(KEYS)])
    state: dict[int, int] = {}
    for batch in table.stream(start=1, timeout=0):
        for row in batch.data.to_pylist():
            if row["_row_kind"] in {"+I", "+U"}:
                state[row["k"]] = row["v"]
            else:
                state.pop(row["k"], None)
    assert state == {k: (k + COMMITS - 1) % 3 for k in range(KEYS)}


def check_stream_spans() -> None:
    """The tasks of a batch keep a key's changes together, in whichever buckets it was."""
    table = _table(bucket=1)
    options = {"streaming-read-overwrite": "skip"}
    _commits(table, 1)
    began = StreamPlan.of(table.handle, options).latest()
    assert began is not None

    def now() -> Table:
        return tidelake.open("/w", fileio=table.fileio, env=table.handle.env).table("db.t")

    def spans() -> bool:
        plan = StreamPlan.of(now().handle, options)
        end = plan.latest()
        assert end is not None
        changes = plan.parts(began, end).once()
        return changes.span_buckets(list(changes.parts()))

    now().write([{"k": 1, "v": 9}, {"k": 2, "v": 9}])
    assert not spans()
    now().rescale_bucket(3)
    now().write([{"k": k, "v": 7} for k in range(KEYS)])
    assert spans()


def check_stream_forced_deletes() -> None:
    """A delete of a partition is told row by row where that is asked for."""
    table = _table(
        ("k", "v"), ("v",), changelog_producer="input",
        **{"delete.force_produce_changelog": "true"},
    )  # fmt: skip
    table.write([{"k": k, "v": k % 2} for k in range(KEYS)])
    table.delete("v = 1")
    told = [row for b in table.stream(start=2, timeout=0) for row in b.data.to_pylist()]
    assert sorted(row["k"] for row in told if row["_row_kind"] == "-D") == [1, 3, 5, 7]


def check_stream_progress() -> None:
    """Progress is recorded when more is asked for, and what was given without is given again."""
    table = _table(keys=())
    _commits(table, 3)
    log = ConsumerLog(table.fileio, table.handle.paths)

    for expected in (1, 2, 3):
        stream = table.stream(start=1, consumer_id="c", timeout=0)
        assert next(stream).snapshot_id == log.next_id("c") == expected
        next(stream, None)
        stream.close()
        assert log.next_id("c") == expected + 1


def check_stream_leases() -> None:
    """One run at a time has a consumer, for as long as it says that it lives."""
    table = _table(changelog_producer="input", bucket=BUCKETS)
    _commits(table, 1)
    clock = table.handle.env.clock
    slow = table.stream(start=1, consumer_id="c", timeout=0)
    for _ in range(BUCKETS):  # each batch in time, all together not
        next(slow)
        clock.sleep_ms(LEASE_TIMEOUT_MS * 2 // 3)
    _refused(ConflictError, lambda: next(table.stream(consumer_id="c", timeout=0)))
    slow.close()


def check_stream_takeovers() -> None:
    """A run that was silent is refused, and a run that comes while its consumer goes is held."""
    table = _table(keys=())
    _commits(table, 3)
    clock = table.handle.env.clock
    silent = StreamLease.open(table.handle, "c", 1, run_id="a")
    clock.sleep_ms(LEASE_TIMEOUT_MS)
    ConsumerLog(table.fileio, table.handle.paths).delete("c")
    with StreamLease.open(table.handle, "c", 1, run_id="b"):
        _refused(ConflictError, lambda: silent.advance(3))
    silent = StreamLease.open(table.handle, "d", 1, run_id="a")
    clock.sleep_ms(LEASE_TIMEOUT_MS)
    clear_consumers(table.handle, "d")
    _refused(ConflictError, silent.renew)


def check_stream_beside_expiry() -> None:
    """A run that comes while an expiry forgets its consumer keeps what it was let in for."""
    table = _table(keys=())
    _commits(table, 3)
    table = table.with_options({"consumer.expiration-time": "1 h"})
    log, came = ConsumerLog(table.fileio, table.handle.paths), []
    log.record("c", 2)
    table.handle.env.clock.sleep_ms(7_200_000)

    def come() -> None:
        came.append(StreamLease.open(table.handle, "c", 2, run_id="a"))

    path = f"{table.handle.paths.consumer_dir}/consumer-c"
    files = Meanwhile(table.fileio, "read_bytes", path, come, after=True)
    beside = again(table, files).with_options({"consumer.expiration-time": "1 h"})
    beside.handle.env.clock.sleep_ms(7_200_000)
    beside.maintenance.expire_snapshots(**ALL)
    [lease] = came
    beside.maintenance.expire_snapshots(**ALL)
    assert set(table.to_arrow(snapshot_id=2)["v"].to_pylist()) == {1, 2}
    lease.close()


def check_stream_filters() -> None:
    """Whoever folds a filtered stream of changes has the filtered table."""
    for seed in range(0, 45, 6):
        filtered.run(seed)


def check_first_states() -> None:
    """A consumer is in use while its first full state is read, and begins again if cut off."""
    for seed in range(12):
        FirstState(seed).run()


def check_stream_refusals() -> None:
    """What was rolled back, expired or cannot be shown stops a stream, and is never passed over."""
    table = _table(keys=())
    _commits(table, 4)
    plan = StreamPlan.of(table.handle)
    at = plan.next(StreamOffset(plan.identity, 0, 1))
    table.rollback_to(snapshot_id=2)
    _commits(table, 3)
    _refused(NotFoundError, lambda: plan.next(at))
    table.write([{"k": 0, "v": 0}], mode="overwrite")
    newest = table.latest_snapshot_id
    _refused(UnsupportedError, lambda: plan.next(StreamOffset(plan.identity, 0, newest)))
    table.maintenance.expire_snapshots(**ALL)
    _refused(NotFoundError, lambda: plan.next(StreamOffset(plan.identity, 0, 2)))
    ConsumerLog(table.fileio, table.handle.paths).record("c", 2)
    _refused(NotFoundError, StreamPlan.of(table.handle, {"consumer-id": "c"}).initial)


def check_stream_marks() -> None:
    """An offset inside a snapshot means these parts, and no others."""
    table = _table(changelog_producer="input", bucket=BUCKETS)
    _commits(table, 1)
    plan = StreamPlan.of(table.handle, {"scan.snapshot-id": "1"})
    begin = plan.initial()
    assert begin is not None
    inside = plan.next(begin, ReadLimits(files=1))
    assert inside.index == 1
    _refused(InvalidInputError, lambda: plan.next(replace(inside, mark=inside.mark + 1)))


def check_stream_cursor() -> None:
    """A query goes on from its checkpoint, and its first batch comes again from where it began."""
    table = _table(keys=())
    _commits(table, 3)
    options = {"scan.mode": "from-snapshot", "scan.snapshot-id": "2"}

    def cursor() -> StreamCursor:
        return StreamCursor(StreamPlan.of(table.handle, options))

    def rows(start: str | None, end: str) -> list[int]:
        own = cursor()
        parts = own.plan.parts(*own.between(start, end))
        return sorted(set(parts.reader().read_all()["v"].to_pylist()))

    first = cursor().next(None)
    assert first is not None
    assert rows(None, first) == [2, 3]
    assert cursor().next(first) == first
    table.write([{"k": 0, "v": 7}])
    assert rows(first, str(cursor().next(first))) == [7]


def check_stream_sink() -> None:
    """A batch that comes again, to another run too, is found; the table's watermark never falls."""
    table = _table(keys=())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        (path / "offsets").mkdir()
        (path / "metadata").write_text('{"id": "query"}')
        for batch_id, watermark in enumerate((100, 50)):
            lines = ["v1", json.dumps({"batchWatermarkMs": watermark}), "{}"]
            (path / "offsets" / str(batch_id)).write_text("\n".join(lines))
        for run_id, batch_id in (("a", 0), ("b", 0), ("b", 1), ("c", 1)):
            # as where a kill came between the commit and its note in the checkpoint
            (path / "tidelake-commit.json").unlink(missing_ok=True)
            _write_batch(table, Checkpoint.of(path, table="db.t"), run_id, batch_id)
    assert sorted(table.to_arrow()["k"].to_pylist()) == [0, 1]
    newest = table.handle.snapshots.latest()
    assert newest is not None
    assert newest.watermark == 100


def check_sink_runs() -> None:
    """The last commit of a query outlives expiry: while it runs, and for 7 days from its end."""
    table = _table(keys=())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        (path / "metadata").write_text('{"id": "query"}')
        (path / "commits").mkdir()
        checkpoint = Checkpoint.of(path, table="db.t")
        run = _sink_run(table, checkpoint, "a", 0)
        run.begin(0, None)
        _write_batch(table, checkpoint, "a", 0)
        _expired(table)
        assert _is_found(table), "while the query runs"
        run.end()  # as by a kill: Spark has not noted the batch
        _expired(table)
        assert _is_found(table), "while the query rests"
        run = _sink_run(table, checkpoint, "b", 0)
        run.begin(0, None)
        _expired(table)
        assert _is_found(table), "while the batch comes again"
        with mock.patch.object(sink_run, "_RUNS", {}):  # as in another process
            _refused(ConflictError, lambda: _sink_run(table, checkpoint, "copy", 0))
        (path / "commits" / "0").write_text("v1\n{}")
        run.end()
        _expired(table)
        assert _is_found(table), "after a clean end, for Spark's note may be lost"
        table.handle.env.clock.sleep_ms(RETAINED_MS + 1)
        table.maintenance.expire_snapshots(**ALL)
        assert not _is_found(table), "it is held though nobody needs it"
        assert not ConsumerLog(table.fileio, table.handle.paths).next_ids()
        run = _sink_run(table, checkpoint, "c", 1)
        run.begin(1, None)
        (path / "commits" / "1").write_text("v1\n{}")
        run.end()
        assert not ConsumerLog(table.fileio, table.handle.paths).next_ids(), "it wrote nothing"


def check_consumer_rollbacks() -> None:
    """A consumer that has read what was rolled back is refused, however many commits came since."""
    for commits_count in (1, 2, 3):
        table = _table(keys=())
        _commits(table, 4)
        stream = table.stream(start=1, consumer_id="c", timeout=0)
        assert len(list(stream)) == 4
        table.rollback_to(snapshot_id=2)
        _commits(table, commits_count)
        _refused(NotFoundError, lambda t=table: list(t.stream(consumer_id="c", timeout=0)))
        reset_consumer(table.handle, "c", 3)
        assert len(list(table.stream(consumer_id="c", timeout=0))) == commits_count


def _sink_run(table: Table, checkpoint: Checkpoint, run_id: str, batch_id: int) -> SinkRun:
    """What lives beside a query; Spark and the compactor are stand-ins."""
    with (
        mock.patch.object(sink_run.StreamCompactor, "join", return_value=None),
        mock.patch.object(sink_run, "OPEN_TRIES_MAX", 1),
    ):
        return SinkRun(
            table.handle,
            checkpoint,
            "query",
            run_id=run_id,
            batch_id=batch_id,
            spark=None,
            batch_spark=None,
        )


def _is_found(table: Table) -> bool:
    """Whether the table's history tells that a batch of the query was committed."""
    handle = table.handle
    return last_commit(handle.snapshots, "query", handle.env.executor) is not None


def _expired(table: Table) -> None:
    """Others write, and all expires that nobody holds."""
    for _ in range(2):
        table.write([{"k": 9, "v": 9}])
    table.maintenance.expire_snapshots(**ALL)


def _write_batch(table: Table, checkpoint: Checkpoint, run_id: str, batch_id: int) -> None:
    """Write one row as a sink does; its run and its frame are stand-ins."""
    rows = pa.table({"k": pa.array([batch_id], pa.int32()), "v": pa.array([0], pa.int32())})
    frame = SimpleNamespace(sparkSession=None, rows=rows)
    mark = SinkMark(table.identifier, 0, "append", 0)
    sink = batch_sink.BatchSink(table.handle, checkpoint, mark, run_id)
    with (
        mock.patch.object(batch_sink, "SinkRun"),
        mock.patch.object(batch_sink, "check_columns"),
        mock.patch.object(
            batch_rows.BatchRows, "write", lambda _, writes, given: writes.write(given.rows)
        ),
    ):
        sink.write(frame, batch_id)


def _refused(kind: type[Exception], act: Callable[[], object]) -> None:
    """Whatever else it raises goes on; nothing raised is a fault."""
    try:
        act()
    except kind:
        return
    raise AssertionError("it was not refused")


CHECKS = (
    check_stream_replay,
    check_stream_cuts,
    check_stream_moved_keys,
    check_stream_spans,
    check_stream_forced_deletes,
    check_stream_progress,
    check_stream_leases,
    check_stream_takeovers,
    check_stream_beside_expiry,
    check_stream_refusals,
    check_stream_marks,
    check_stream_filters,
    check_first_states,
    check_stream_cursor,
    check_stream_sink,
    check_sink_runs,
    check_stream_histories,
    check_consumer_rollbacks,
    check_aligned_streams,
)
