"""Streams of an alignment group, in small: none is given more than the drift allows.

Two or three streams read tables whose snapshots carry watermarks, in a drawn order of looks and
steps, with and without an end, from their first batch on.
"""

from __future__ import annotations

import random
from dataclasses import replace

import tidelake
from tidelake.fileio import MemoryFileIO
from tidelake.spark.streams.read.alignment import IDLE_MS
from tidelake.spark.streams.read.cursor import StreamCursor
from tidelake.table import Table
from tidelake.table.stream import StreamPlan
from tidelake.table.write.transaction import WriteTransaction
from tidelake.telemetry import Env, ManualClock

__all__ = ["check_aligned_streams", "run_aligned_streams"]

SEEDS_IN_SMALL = 15
LOOKS_MAX = 400
SECOND_MS = 1_000


def check_aligned_streams() -> None:
    """Some drawn groups, for the planted bugs."""
    for seed in range(SEEDS_IN_SMALL):
        run_aligned_streams(seed)


def run_aligned_streams(seed: int) -> None:
    """Read the streams of one group to their ends.

    A batch ends at most the drift ahead of the least watermark that the others were given, or it is
    one snapshot of the stream that is last.
    """
    rng = random.Random(seed)
    env = replace(Env.seeded(seed), clock=ManualClock(1_700_000_000_000))
    catalog = tidelake.open("/w", fileio=MemoryFileIO(), env=env)
    drift_ms = rng.choice([1, 5, 20]) * SECOND_MS
    options = {
        "scan.mode": "from-snapshot",
        "scan.snapshot-id": "1",
        "scan.watermark.alignment.group": f"group {seed}",
        "scan.watermark.alignment.max-drift": f"{drift_ms} ms",
    }
    if rng.random() < 0.5:
        options["read.stream.maxRowsPerTrigger"] = "2"
    marks = [_marks(rng) for _ in range(rng.choice([2, 2, 3]))]
    tables = [_made(catalog, f"t{i}", own) for i, own in enumerate(marks)]
    cursors = [StreamCursor(StreamPlan.of(table.handle, options)) for table in tables]
    has_end = rng.random() < 0.5
    if has_end:
        for cursor in cursors:
            cursor.fix_end()
    at: list[str | None] = [None] * len(cursors)
    for _ in range(LOOKS_MAX):
        given = [_given(own, text) for own, text in zip(marks, at, strict=True)]
        if all(count == len(own) for count, own in zip(given, marks, strict=True)):
            break
        moved = False
        for i in rng.sample(range(len(cursors)), len(cursors)):
            end = cursors[i].next(at[i])
            assert end is not None
            moved |= end != at[i]
            at[i] = end
            now = [_given(m, t) for m, t in zip(marks, at, strict=True)]
            _check(i, given, now, marks, drift_ms)
        if not moved:  # without an end nobody knows that a stream has no more rows
            assert not has_end, "all wait for each other"
            env.clock.sleep_ms(IDLE_MS // 3)  # looks come often
    else:
        raise AssertionError("the streams stand still")
    for cursor in cursors:
        cursor.close()


def _check(
    which: int, before: list[int], now: list[int], marks: list[list[int]], drift_ms: int
) -> None:
    """Compare what a stream was given in a batch with what the others have."""
    own, count = marks[which], now[which]
    if count == before[which]:
        return
    others = [
        marks[i][now[i] - 1] if now[i] else None
        for i in range(len(marks))
        if i != which and now[i] < len(marks[i])
    ]
    if not others or count == before[which] + 1:  # alone, or one step, as the last one may
        return
    known = [mark for mark in others if mark is not None]
    assert len(known) == len(others), "it goes ahead of a stream that was given nothing yet"
    ahead_ms = own[count - 1] - min(known)
    assert ahead_ms <= drift_ms, f"stream {which} is {ahead_ms} ms ahead, {drift_ms} are allowed"


def _given(marks: list[int], text: str | None) -> int:
    """How many snapshots were given whole."""
    if text is None:
        return 0
    return min(int(text.split('"snapshot": ')[1].split(",")[0]) - 1, len(marks))


def _marks(rng: random.Random) -> list[int]:
    """The watermarks of a table's snapshots."""
    at_ms, marks = 1_700_000_000_000 + rng.randrange(10) * SECOND_MS, []
    for _ in range(rng.randrange(1, 9)):
        at_ms += rng.choice([0, 1, 1, 2, 4, 30]) * SECOND_MS
        marks.append(at_ms)
    return marks


def _made(catalog: tidelake.Catalog, name: str, marks: list[int]) -> Table:
    table = catalog.create_table(f"db.{name}", {"id": "BIGINT"}, options={"bucket": -1})
    for number, mark in enumerate(marks):
        WriteTransaction(table.handle, watermark=mark).write([{"id": number}])
    return table
