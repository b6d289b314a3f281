"""Aligns streams of a process: none runs ahead in event time by more than the drift.

The members of a group are streams, each with the watermark of the last snapshot that it gave. A
member may read up to the least watermark of the group plus the drift. A member that has given
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

__all__ = ["AlignmentGroups", "AlignmentRule"]

IDLE_MS = 60_000
"""Time without new rows after which a stream is idle, by default."""


@dataclass(frozen=True, slots=True)
class AlignmentRule:
    """The alignment of one stream.

    Parameters
    ----------
    group : str
        Name of the group of streams.
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


@dataclass(slots=True)
class _Member:
    watermark: int | None
    moved_ms: int


class AlignmentGroups:
    """The groups of a process. Safe for threads."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[object, _Member]] = {}
        self._lock = threading.Lock()

    def allowed(
        self, rule: AlignmentRule, member: object, watermark: int | None, *, now_ms: int
    ) -> int | None:
        """Give the latest watermark that a member may read up to; None for any.

        Parameters
        ----------
        rule : AlignmentRule
            The member's.
        member : hashable
            The member.
        watermark : int, optional
            Its watermark, ms since the epoch.
        now_ms : int
            The time, ms since the epoch.
        """
        with self._lock:
            group = self._groups.setdefault(rule.group, {})
            own = group.get(member)
            if own is None:
                own = group[member] = _Member(watermark, now_ms)
            if own.watermark != watermark:
                own.watermark, own.moved_ms = watermark, now_ms
            others = [
                one
                for key, one in group.items()
                if key != member and now_ms - one.moved_ms < rule.idle_ms
            ]
            if not others:
                return None
            if watermark is None:  # without a watermark it cannot be ahead
                return None
            if any(one.watermark is None for one in others):
                return watermark
            return min(one.watermark for one in others if one.watermark is not None) + rule.drift_ms

    def leave(self, rule: AlignmentRule, member: object) -> None:
        """Forget a member that has ended."""
        with self._lock:
            group = self._groups.get(rule.group, {})
            group.pop(member, None)
            if not group:
                self._groups.pop(rule.group, None)
