"""Three hours of a table on a manual clock: commits, expiry, consumers, watermarks, readers."""

from __future__ import annotations

import pytest

from tidelake import NotFoundError
from tidelake.metadata.log.consumer import ConsumerLog
from tidelake.table.stream.lease import READ_RETAINED_MS
from tidelake.table.write.transaction import WriteTransaction

MINUTE_MS = 60_000
MINUTES = 180
RETAINED_MINUTES = 10
FORGOTTEN_MINUTES = 30
GONE_AT, BOUND = 20, 100
LIVE_EVERY = 3
SLOW_EVERY = 24
"""Minutes between two looks of a reader that has no consumer, well within its hour."""
OPTIONS = {
    "snapshot.time-retained": f"{RETAINED_MINUTES} min",
    "snapshot.num-retained.min": "1",
    "consumer.expiration-time": f"{FORGOTTEN_MINUTES} min",
    "changelog-producer": "lookup",
    "num-sorted-run.compaction-trigger": "3",
}


class Board:
    """A table that a reader keeps by the changes it is given."""

    def __init__(self):
        self.rows, self.watermarks, self.snapshot_ids = {}, [], []

    def take(self, batch):
        self.snapshot_ids.append(batch.snapshot_id)
        if batch.watermark is not None:
            self.watermarks.append(batch.watermark)
        for row in batch.data.to_pylist():
            kind, k, v = row.values()
            if kind in ("+I", "+U"):
                assert (k in self.rows) == (kind == "+U"), "a change comes once"
                self.rows[k] = v
            else:
                assert self.rows[k] == v, "what goes is what was there"
                if kind == "-D":
                    del self.rows[k]


@pytest.fixture
def world(make, clock):
    """The table, what it holds, and one minute of it: a commit, whose event time is a minute late.

    Snapshots that a lookup makes beside the rows have the watermark of the rows.
    """
    table, model = make(options=OPTIONS), {}

    def minute(number):
        clock.sleep_ms(MINUTE_MS)
        watermark = (number - 1) * MINUTE_MS
        if number % 7 == 0 and model:
            gone = min(model)
            WriteTransaction(table.handle, watermark=watermark).write(
                [{"k": gone, "v": model.pop(gone)}], row_kinds=["-D"]
            )
            return
        rows = {number % 13: number, number % 5: number}
        model.update(rows)
        WriteTransaction(table.handle, watermark=watermark).write(
            [{"k": k, "v": v} for k, v in rows.items()]
        )

    return table, model, minute


def given(stream, board):
    for batch in stream:
        board.take(batch)


def test_three_hours_with_readers_that_come_go_and_die(world, clock):
    table, model, minute = world
    log = ConsumerLog(table.fileio, table.handle.paths)
    live, gone, slow, bounded = Board(), Board(), Board(), Board()
    minute(1)
    slow_stream = table.stream(start=1, options={"read.stream.maxFilesPerTrigger": 1})
    slow.take(next(slow_stream))  # only now it holds what comes
    end = {"scan.bounded.watermark": BOUND * MINUTE_MS, "consumer-id": "bounded"}
    held_by_gone, counts = [], []
    for number in range(2, MINUTES + 1):
        minute(number)
        if number % LIVE_EVERY == 0:
            given(table.stream(start=1, consumer_id="live", timeout=0), live)
            assert live.rows == model
        if number == GONE_AT:
            given(table.stream(start=1, consumer_id="gone", timeout=0), gone)
        if number in (BOUND - 5, BOUND, BOUND + 5):
            given(table.stream(options=end, timeout=0), bounded)
        if number % SLOW_EVERY == 0:
            while slow.snapshot_ids[-1] < live.snapshot_ids[-1]:
                slow.take(next(slow_stream))
            assert slow.rows == model
        earliest = table.handle.snapshots.earliest_id()
        states = log.states()
        assert earliest <= min(s.next_snapshot_id for s in states.values())
        if "gone" in states:
            held_by_gone.append(number)
        counts.append(len(list(table.handle.snapshots.ids())))
    assert held_by_gone[-1] in range(
        GONE_AT + FORGOTTEN_MINUTES - 1, GONE_AT + FORGOTTEN_MINUTES + 3
    )
    for board in (live, slow, bounded):
        assert board.watermarks == sorted(board.watermarks), "event time never goes back"
        assert board.snapshot_ids == sorted(board.snapshot_ids)
    assert live.watermarks[-1] == (MINUTES - 1) * MINUTE_MS
    assert bounded.watermarks[-1] == BOUND * MINUTE_MS
    # the slow reader holds as much as it has not read, everybody else nothing
    assert max(counts[-SLOW_EVERY:]) <= 2 * (SLOW_EVERY + RETAINED_MINUTES) + 4
    slow_stream.close()
    minute(MINUTES + 1)
    assert len(list(table.handle.snapshots.ids())) <= 2 * (RETAINED_MINUTES + LIVE_EVERY) + 4
    names = list(log.states())
    assert names == ["live"], names


def test_a_reader_that_rests_for_more_than_an_hour_is_told(world, clock):
    table, _, minute = world
    minute(1)
    stream = table.stream(start=1)
    next(stream)
    for number in range(2, 12):
        minute(number)
        clock.sleep_ms(READ_RETAINED_MS // 8)
    with pytest.raises(NotFoundError, match="expired"):
        list(stream)
