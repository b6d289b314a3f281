"""Aligns streams of a process: none runs ahead in event time by more than the drift.

The members of a group are streams, each with the watermark of the last snapshot that it was given.
A stream joins before its first batch, so that the first batch is bounded, too. A member may read up
to the least watermark of the group plus the drift. Where its next snapshot lies beyond that, it
waits, unless it is the last one itself: then it takes that snapshot alone. A member that was given
nothing new for a while is *idle* and does not count: else a table without new rows would stop the
whole group.

Source: Flink's watermark alignment, by Paimon's ``scan.watermark.alignment.group`` and
``max-drift``, ``scan.watermark.idle-timeout`` (1.3.1). Groups span the streams of one process.
Memory: one number for each stream that runs.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from tidelake.errors import InvalidInputError
from tidelake.options import Options, declared

IDLE_MS = 60_000
"""Time without new rows after which a stream is idle, by default."""


@dataclass(frozen=True, slots=True)
class AlignmentRule:
    """The alignment of one stream.

    Parameters
    ----------
    drift_ms : int
        How far it may be ahead of the slowest stream of the group, ms.
    idle_ms : int
        Time without new rows after which a stream is idle, ms.
    """

    group: str
    drift_ms: int
    idle_ms: int

    @classmethod
    def of(cls, options: Options, *, table: str) -> AlignmentRule | None:
        """Read the rule from options; None without one.

        Raises
        ------
        InvalidInputError
            Only one of group and drift is set.
        """
        group = options.get(declared.SCAN_WATERMARK_ALIGNMENT_GROUP)
        drift_ms = options.get(declared.SCAN_WATERMARK_ALIGNMENT_MAX_DRIFT)
        if group is None and drift_ms is None:
            return None
        if group is None or drift_ms is None:
            keys = (
                declared.SCAN_WATERMARK_ALIGNMENT_GROUP,
                declared.SCAN_WATERMARK_ALIGNMENT_MAX_DRIFT,
            )
            names = " and ".join(f"'{option.key}'" for option in keys)
            message = f"Stream of table '{table}': set both or neither of {names}."
            raise InvalidInputError(message, kind="stream_alignment", table=table)
        idle_ms = options.get(declared.SCAN_WATERMARK_IDLE_TIMEOUT)
        return cls(group, drift_ms, IDLE_MS if idle_ms is None else idle_ms)


@dataclass(frozen=True, slots=True)
class Reach:
    """How far a member may read.

    Parameters
    ----------
    watermark : int, optional
        The latest watermark that it may read up to, ms since the epoch; None where the group has
        none yet.
    is_last : bool
        Whether it may take one snapshot beyond that: no other is further behind.
    """

    watermark: int | None
    is_last: bool


@dataclass(slots=True)
class _Member:
    watermark: int | None
    moved_ms: int
    is_asked: bool = False


class AlignmentGroups:
    """The groups of a process. Safe for threads."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[object, _Member]] = {}
        self._lock = threading.Lock()

    def join(self, rule: AlignmentRule, member: object, *, now_ms: int) -> None:
        """Add a member before its first batch."""
        with self._lock:
            self._groups.setdefault(rule.group, {})[member] = _Member(None, now_ms)

    def reach(
        self, rule: AlignmentRule, member: object, watermark: int | None, *, now_ms: int
    ) -> Reach | None:
        """Tell how far a member may read; None for as far as it likes.

        Parameters
        ----------
        watermark : int, optional
            Its watermark, ms since the epoch.
        now_ms : int
            The time, ms since the epoch.
        """
        with self._lock:
            group = self._groups[rule.group]
            own = group[member]
            if own.watermark != watermark or not own.is_asked:
                own.watermark, own.moved_ms, own.is_asked = watermark, now_ms, True
            others = [
                one
                for key, one in group.items()
                if key != member and now_ms - one.moved_ms < rule.idle_ms
            ]
            if not others:
                return None
            known = [one.watermark for one in others if one.watermark is not None]
            if len(known) < len(others):
                waits = any(one.is_asked and one.watermark is None for one in others)
                return Reach(watermark, is_last=watermark is None or not waits)
            least = min(known)
            return Reach(least + rule.drift_ms, is_last=watermark is None or watermark <= least)

    def note(
        self, rule: AlignmentRule, member: object, watermark: int | None, *, now_ms: int
    ) -> None:
        """Take the watermark of the batch that a member is given now."""
        with self._lock:
            own = self._groups[rule.group][member]
            if own.watermark != watermark:
                own.watermark, own.moved_ms = watermark, now_ms

    def wait(self, rule: AlignmentRule, member: object, *, now_ms: int) -> None:
        """Keep a member that has rows and waits for others from being idle."""
        with self._lock:
            self._groups[rule.group][member].moved_ms = now_ms

    def leave(self, rule: AlignmentRule, member: object) -> None:
        """Forget a member that has ended."""
        with self._lock:
            group = self._groups.get(rule.group, {})
            group.pop(member, None)
            if not group:
                self._groups.pop(rule.group, None)
