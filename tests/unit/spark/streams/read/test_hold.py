"""What a source of a query still needs does not expire, while it runs and while it rests."""

from __future__ import annotations

import threading

import pytest
from proving.expiring import ALL, make

import tidelake
from tidelake import ConflictError, NotFoundError, StorageRefusedError
from tidelake.fileio import MemoryFileIO
from tidelake.metadata.log.consumer import ConsumerLog
from tidelake.spark.streams.read import hold
from tidelake.spark.streams.read.cursor import StreamCursor
from tidelake.spark.streams.read.hold import SOURCE_RETAINED_MS, HoldName, SourceHold
from tidelake.table.stream import StreamPlan
from tidelake.table.stream.lease import LEASE_TIMEOUT_MS

NAME = HoldName("query-0", is_lasting=True)
FROM_ONE = {"scan.mode": "from-snapshot", "scan.snapshot-id": "1"}


@pytest.fixture
def table():
    made = make(MemoryFileIO())
    for number in range(6):
        made.write([{"k": number, "v": number, "p": "a"}])
    return made


@pytest.fixture
def opened():
    """Opens a source as a run of a query does; all end with the test."""
    cursors = []

    def cursor(table, name=NAME, has_ended=lambda: False, **options):
        asked = {**FROM_ONE, "read.stream.maxFilesPerTrigger": "1", **options}
        plan = StreamPlan.of(table.handle, {k: v for k, v in asked.items() if v is not None})
        held = SourceHold(plan, name, has_ended)
        cursors.append(StreamCursor(plan, held))
        return cursors[-1]

    yield cursor
    for one in cursors:
        one.close()
        assert one._hold.wait(10)


def log_of(table):
    return ConsumerLog(table.fileio, table.handle.paths)


def batches(cursor, count, at=None):
    """As Spark calls: the end of each batch, and one batch late that the one before is done."""
    ends = [at]
    for _ in range(count):
        ends.append(cursor.next(ends[-1]))
        if ends[-2] is not None:
            cursor.done_before(ends[-2])
    return ends[-1]


def test_a_stopped_stream_keeps_its_snapshots_and_goes_on(table, opened):
    cursor = opened(table)
    at = batches(cursor, 3)  # the third may not be done yet: snapshot 3 comes again
    cursor.close()
    assert log_of(table).next_ids() == {"source-query-0": 3}
    assert log_of(table).lease("source-query-0").is_closed
    assert table.maintenance.expire_snapshots(**ALL).ids == (1, 2)
    again = opened(table)
    first, last = again.between(at, again.next(at))
    again.hold_from(first)
    assert (first.snapshot, last.snapshot) == (4, 5)
    assert table.maintenance.expire_snapshots(**ALL).ids == (3,)


def test_a_source_of_a_table_that_may_not_be_written_goes_on_without_a_hold(
    table, opened, monkeypatch, caplog
):
    def refuses(*_):
        raise StorageRefusedError("Read-only file system", kind="not_writable")

    monkeypatch.setattr(ConsumerLog, "open_dir", refuses)
    cursor = opened(table)
    at = batches(cursor, 3)
    assert [r.levelname for r in caplog.records] == ["WARNING"]  # once for all batches
    assert "without a hold" in caplog.text
    with pytest.raises(StorageRefusedError):
        opened(table, HoldName("query-1", is_lasting=True), **{"consumer-id": "c"}).next(None)
    monkeypatch.undo()
    cursor.close()
    assert log_of(table).states() == {}
    assert table.maintenance.expire_snapshots(**ALL).ids == (1, 2, 3, 4, 5)
    with pytest.raises(NotFoundError, match="expired"):
        opened(table).next(at)


def test_an_offset_of_another_table_is_refused_where_nothing_is_to_be_read(table, opened):
    at = batches(opened(table), 1)
    empty = opened(tidelake.open("/w", fileio=MemoryFileIO()).create_table("db.e", {"k": "INT"}))
    empty.fix_end()
    assert empty.next(None) is None
    with pytest.raises(NotFoundError, match="of another table"):
        empty.next(at)


def test_what_a_batch_reads_is_held_before_its_first_look(table, opened):
    cursor = opened(table)
    end = cursor.next(None)
    cursor.close()
    again = opened(table)  # Spark asks for the batch that was not done
    first, _ = again.between(None, end)
    again.hold_from(first)
    assert log_of(table).next_ids() == {"source-query-0": 1}
    assert table.maintenance.expire_snapshots(**ALL).ids == ()


def test_a_stopped_stream_is_forgotten_after_the_documented_time(table, opened):
    cursor = opened(table)
    at = cursor.next(None)
    cursor.close()
    clock = table.handle.env.clock
    clock.sleep_ms(SOURCE_RETAINED_MS - LEASE_TIMEOUT_MS)
    assert table.maintenance.expire_snapshots(**ALL).ids == ()
    clock.sleep_ms(2 * LEASE_TIMEOUT_MS)
    assert table.maintenance.expire_snapshots(**ALL).ids == (1, 2, 3, 4, 5)
    assert log_of(table).states() == {}
    with pytest.raises(NotFoundError, match="latest-full"):
        opened(table).next(at)
    assert log_of(table).states() == {}


def test_a_temporary_checkpoint_leaves_nothing(table, opened):
    folder = "file:/tmp/temporary-0aa71a2c-12ff-4e9b-8d5c-3a6d6e3f5b7a/sources/0"
    name = HoldName.of("q", folder, otherwise="x")
    assert name == HoldName("q-0", is_lasting=False)
    assert HoldName.of("q", "/data/temporary-1/sources/2", otherwise="x").is_lasting
    assert HoldName.of(None, folder, otherwise="x") == HoldName("x", is_lasting=False)
    cursor = opened(table, name)
    cursor.next(None)
    assert table.maintenance.expire_snapshots(**ALL).ids == ()
    cursor.close()
    assert log_of(table).states() == {}


def test_progress_of_a_consumer_is_recorded_when_a_batch_is_done(table, opened):
    cursor = opened(table, **{"consumer-id": "c"})
    at = cursor.next(None)
    assert log_of(table).next_ids() == {"c": 1}  # nothing was read
    cursor.done_before(at)
    assert log_of(table).next_ids() == {"c": 2}
    cursor.close()
    other = opened(table, HoldName("other-0", is_lasting=True), **{"consumer-id": "c"})
    first, _ = other.between(None, other.next(None))
    assert first.snapshot == 2
    with pytest.raises(ConflictError, match=r"Consumer 'c' .* in use"):
        opened(table, HoldName("third-0", is_lasting=True), **{"consumer-id": "c"}).next(None)


def test_a_consumer_whose_snapshot_expired_skips_nothing(table, opened):
    log = log_of(table)
    table.maintenance.expire_snapshots(**ALL)
    with log.open_dir() as place:
        log.record("c", 2, within=place)
    with pytest.raises(NotFoundError, match="at snapshot 2, which has expired"):
        opened(table, **{"consumer-id": "c"}).next(None)


def test_a_first_full_state_is_no_progress_until_it_was_read_whole(table, opened):
    full = {"scan.mode": "latest-full", "scan.snapshot-id": None, "consumer-id": "c"}
    cursor = opened(table, **full)
    at = cursor.next(None)
    inside = cursor.next(at)
    cursor.done_before(at)
    assert log_of(table).next_ids() == {"source-query-0": 6}
    at = inside
    while cursor.plan.offset(at).phase == "full":
        at = cursor.next(at)
    cursor.done_before(at)
    assert log_of(table).next_ids() == {"c": 7}
    assert list(log_of(table).states()) == ["c"]


def test_a_state_that_a_tag_keeps_is_given(table, opened):
    table.tags.create("v2", snapshot_id=2)
    log = log_of(table)
    with log.open_dir() as place:
        log.record("other", 3, within=place)
    table.maintenance.expire_snapshots(**ALL)
    options = {"scan.mode": "from-snapshot-full", "scan.snapshot-id": None, "scan.tag-name": "v2"}
    cursor = opened(table, **options)
    first, _ = cursor.between(None, cursor.next(None))
    assert (first.snapshot, first.phase) == (2, "full")
    assert log.next_ids() == {"other": 3, "source-query-0": 3}


def test_two_live_runs_of_one_checkpoint_are_refused(table, opened, monkeypatch):
    opened(table).next(None)
    monkeypatch.setattr(hold, "_HOLDS", {})  # as in another process
    with pytest.raises(ConflictError, match="copy of the checkpoint") as refused:
        opened(table).next(None)
    assert refused.value.kind == "stream_runs_already"


def test_a_run_that_was_followed_is_stopped(table, opened, monkeypatch):
    silent = opened(table)
    at = silent.next(None)
    table.handle.env.clock.sleep_ms(2 * LEASE_TIMEOUT_MS)
    monkeypatch.setattr(hold, "_HOLDS", {})
    opened(table).next(at)
    with pytest.raises(ConflictError, match="taken over"):
        silent.next(at)
    assert log_of(table).next_ids() == {"source-query-0": 2}


def test_a_run_ends_the_one_before_in_its_process(table, opened):
    at = opened(table).next(None)
    assert opened(table).next(at) is not None


def test_a_long_batch_is_no_silence(table, opened, monkeypatch):
    monkeypatch.setattr(hold, "LOOK_S", 0.001)
    looked, go_on = threading.Event(), threading.Event()

    def has_ended():
        looked.set()
        return go_on.is_set()

    cursor = opened(table, has_ended=has_ended)
    cursor.next(None)
    clock, log = table.handle.env.clock, log_of(table)
    for _ in range(3):
        clock.sleep_ms(LEASE_TIMEOUT_MS // 2)
        for _ in range(2):
            looked.clear()
            assert looked.wait(10)
    assert log.lease("source-query-0").is_live(clock.now_ms())
    go_on.set()  # Spark is gone
    assert cursor._hold.wait(10)
    assert log.lease("source-query-0").is_closed


def test_a_table_that_was_dropped_holds_nothing(table, opened):
    cursor = opened(table)
    at = cursor.next(cursor.next(None))
    catalog = tidelake.open("/w", fileio=table.fileio, env=table.handle.env)
    catalog.drop_table("db.t")
    with pytest.raises(NotFoundError):
        cursor.done_before(at)
    cursor.close()
    assert log_of(make(table.fileio)).states() == {}
