"""How far a stream is behind its table, asked after every batch of it.

The changes of a snapshot never change, so they are counted once, and the sizes are kept until the
stream has passed the snapshot. After a rollback other commits get the numbers. Then the newest
snapshot that was counted has another identity, and all are counted again.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidelake.table.stream.follower import Follower
from tidelake.table.stream.offset import StreamOffset, snapshot_identity

LAG_SNAPSHOTS_MAX = 32
"""Number of snapshots whose entries are counted for the lag of a stream."""


@dataclass(frozen=True, slots=True)
class StreamLag:
    """How far a stream is behind its table.

    Parameters
    ----------
    snapshots : int
        Snapshots that were not given, or in part.
    rows, bytes : int
        Stored rows and bytes still to be read; an estimate where there are many snapshots.
    """

    snapshots: int
    rows: int
    bytes: int


class LagCounter:
    """Counts what a table has for a stream behind an offset; for one thread at a time."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self._counted: dict[int, tuple[int, int]] = {}
        """Rows and bytes of whole snapshots."""
        self._newest = ""
        """The identity of the newest snapshot that was counted."""

    def lag(self, offset: StreamOffset, latest_id: int | None) -> StreamLag:
        """Measure how far an offset is behind the newest snapshot.

        It counts the entries of the next ``LAG_SNAPSHOTS_MAX`` snapshots and takes the others to be
        as large.
        """
        if latest_id is None or offset.snapshot > latest_id:
            return StreamLag(0, 0, 0)
        self._forget(offset)
        count = latest_id - offset.snapshot + 1
        seen = rows = sizes = 0
        for number in range(offset.snapshot, latest_id + 1)[:LAG_SNAPSHOTS_MAX]:
            found = self._counted.get(number) or self._count(number, offset)
            if found is not None:
                seen += 1
                rows, sizes = rows + found[0], sizes + found[1]
        scale = count / max(1, seen)
        return StreamLag(count, round(rows * scale), round(sizes * scale))

    def _forget(self, offset: StreamOffset) -> None:
        """Drop what the stream has passed, and all after a rollback."""
        if not self._counted:
            return
        newest = self._follower.kept(max(self._counted))
        if newest is None or snapshot_identity(newest) != self._newest:
            self._counted.clear()
        is_begun = bool(offset.index) or offset.phase == "full"
        first = offset.snapshot + is_begun
        self._counted = {n: sizes for n, sizes in self._counted.items() if n >= first}

    def _count(self, number: int, offset: StreamOffset) -> tuple[int, int] | None:
        """Rows and bytes that a snapshot still has to give; None where it is not there."""
        is_first = number == offset.snapshot
        snapshot = self._follower.kept(number, phase=offset.phase if is_first else "delta")
        if snapshot is None:
            return None
        found = self._follower.sizes(snapshot, offset)
        if not is_first or not (offset.index or offset.phase == "full"):
            if number > max(self._counted, default=0):
                self._newest = snapshot_identity(snapshot)
            self._counted[number] = found
        return found
