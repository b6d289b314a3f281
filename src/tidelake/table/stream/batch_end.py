"""Finds the end of a batch of a stream.

The search goes from snapshot to snapshot. It stops before a snapshot that does not exist yet, is
not due, or ends the stream. It also stops before a snapshot that the stream must refuse: this batch
gives the snapshots before it, and the next batch raises the error. Under limits it stops before the
unit that would exceed one.

A snapshot without changes (a compaction) makes no batch by itself. After ``QUIET_SNAPSHOTS_MAX``
such snapshots the stream gives an empty batch, so that they can expire.
"""

from __future__ import annotations

from dataclasses import replace

from tidelake.errors import UnsupportedError
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.table.stream.follower import Follower
from tidelake.table.stream.limits import Admission, ReadLimits
from tidelake.table.stream.offset import StreamOffset
from tidelake.table.stream.snapshot_units import ChangeSource

QUIET_SNAPSHOTS_MAX = 16
"""So many snapshots without changes make an empty batch."""


def batch_end(
    follower: Follower, start: StreamOffset, limits: ReadLimits, until: StreamOffset | None
) -> StreamOffset:
    """Find the end of a batch; `start` itself while there are no rows to give.

    Parameters
    ----------
    limits : ReadLimits
        The most that the batch may hold, and the least that it waits for.
    until : StreamOffset, optional
        The end may not lie behind this offset; the batch then waits for nothing.
    """
    walk = _Walk(follower, limits, until)
    end = walk.run(start)
    if until is None and walk.has_too_little(end):
        return start
    return end


class _Walk:
    """The search for the end of one batch."""

    def __init__(self, follower: Follower, limits: ReadLimits, until: StreamOffset | None) -> None:
        self._follower = follower
        self._limits = limits
        self._until = until
        self._admission = Admission(limits)
        self._start: StreamOffset | None = None
        self._first: Snapshot | None = None
        """The first snapshot with rows to give."""
        self._passed = 0
        """Number of snapshots without rows to give."""

    def run(self, start: StreamOffset) -> StreamOffset:
        """Move from snapshot to snapshot until one stops the batch."""
        at = self._start = start
        if self._until is not None and at.position >= self._until.position:
            self._follower.load(at, is_begin=True)  # refuses it if the table was rolled back
        while self._until is None or at.position < self._until.position:
            step = self._step(at)
            if step is None:
                break
            at = step
            if at.index:  # the batch is full
                break
        return at

    def has_too_little(self, end: StreamOffset) -> bool:
        """Whether the batch must wait for more rows."""
        first, limits = self._first, self._limits
        if first is None:
            return self._passed < QUIET_SNAPSHOTS_MAX and not self._follower.is_ended(end)
        if limits.min_rows is None or self._admission.rows >= limits.min_rows:
            return False
        delay_ms = limits.max_delay_ms
        return delay_ms is None or self._follower.waited_ms(first) < delay_ms

    def _step(self, at: StreamOffset) -> StreamOffset | None:
        """Give the offset behind or inside the next snapshot; None where the batch ends here."""
        follower, full = self._follower, at.phase == "full"
        snapshot = follower.load(at, is_begin=at is self._start)
        if snapshot is None or (
            not full and (follower.ends_before(snapshot) or not follower.is_due(snapshot))
        ):
            return None
        behind = follower.behind(snapshot)
        try:
            has_some = full or follower.source(snapshot) is not ChangeSource.NOTHING
        except UnsupportedError:
            if self._first is None:
                raise
            return None  # give the snapshots before it first
        if not has_some:
            self._passed += 1
            return behind
        if not self._limits.needs_sizes and not at.index:
            self._first = self._first or snapshot
            return behind
        return self._admitted(at, snapshot, behind)

    def _admitted(
        self, at: StreamOffset, snapshot: Snapshot, behind: StreamOffset
    ) -> StreamOffset | None:
        """Give the last offset in a snapshot within the limits; None where the batch is full."""
        follower, until = self._follower, self._until
        units = follower.units(snapshot, phase=at.phase, created_ms=at.created_ms)
        first, last = follower.inside(at, units), units.count
        if until is not None and (until.snapshot, until.phase) == (at.snapshot, at.phase):
            last = follower.inside(until, units)
        if first == last:
            self._passed += 1
            return behind
        taken = self._admission.take(
            units.files[first:last], units.bytes[first:last], units.rows[first:last]
        )
        if not taken:
            return None
        self._first = self._first or snapshot
        if first + taken == units.count:
            return behind
        return replace(at, schema=behind.schema, index=first + taken, mark=units.mark)
