"""Chooses the writers that release memory when all together hold too much.

The budget is Paimon's ``write-buffer-size``. A router adds up what its writers hold. When the sum
exceeds the budget, the writers named here spill or flush. The largest go first: this disturbs the
fewest writers and makes the longest runs on disk. The first runs are short, because each row that
is spilled is written, read and merged once more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar


class Orderable(Protocol):
    """A key that decides between writers that hold equally much."""

    def __lt__(self, other: Any, /) -> bool: ...


K = TypeVar("K", bound=Orderable)

RELIEF = 2
"""A full budget is relieved down to one part in this many, so that relief is rare."""
FIRST_RELIEFS = (8, 4, 2)
"""The first times it gives up one part in this many, so that a write may spill little."""


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """A limit on what several writers hold together.

    Parameters
    ----------
    limit_bytes : int
        The most they may hold.

    Examples
    --------
    >>> MemoryBudget(100).victims({"a": 10, "b": 60, "c": 45}, reliefs=0)
    (('b', 27),)
    >>> MemoryBudget(100).victims({"a": 10, "b": 60, "c": 45}, reliefs=3)
    (('b', 60), ('c', 45))
    >>> MemoryBudget(100).victims({"a": 10, "b": 60}, reliefs=3)
    ()
    """

    limit_bytes: int

    def victims(self, held_bytes: Mapping[K, int], *, reliefs: int) -> tuple[tuple[K, int], ...]:
        """Name the writers that must release memory, largest first, and how much.

        Returns
        -------
        tuple of (key, bytes)
            Empty if the budget is kept. The first times the last writer releases only a part of
            what it holds; later as many writers release all as bring the sum down to half.
        """
        held = sum(held_bytes.values())
        if held <= self.limit_bytes:
            return ()
        target = self.limit_bytes // RELIEF
        is_partial = reliefs < len(FIRST_RELIEFS)
        if is_partial:
            target = self.limit_bytes - self.limit_bytes // FIRST_RELIEFS[reliefs]
        chosen: list[tuple[K, int]] = []
        for key in sorted(held_bytes, key=lambda k: (-held_bytes[k], k)):
            if held <= target or held_bytes[key] == 0:
                break
            given = min(held_bytes[key], held - target) if is_partial else held_bytes[key]
            chosen.append((key, given))
            held -= given
        return tuple(chosen)
