"""Chooses the writers that release memory when all together hold too much.

The budget is Paimon's ``write-buffer-size``. A router adds up what its writers hold. When the sum
exceeds the budget, the writers named here spill or flush. The largest go first: this disturbs the
fewest writers and makes the longest runs on disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

__all__ = ["MemoryBudget", "Orderable"]


class Orderable(Protocol):
    """A key that decides between writers that hold equally much."""

    def __lt__(self, other: Any, /) -> bool: ...


K = TypeVar("K", bound=Orderable)

RELIEF = 2
"""A full budget is relieved down to one part in this many, so that relief is rare."""


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """A limit on what several writers hold together.

    Parameters
    ----------
    limit_bytes : int
        The most they may hold.

    Examples
    --------
    >>> MemoryBudget(100).victims({"a": 10, "b": 60, "c": 45})
    ('b', 'c')
    >>> MemoryBudget(100).victims({"a": 10, "b": 60})
    ()
    """

    limit_bytes: int

    def victims(self, held_bytes: Mapping[K, int]) -> tuple[K, ...]:
        """Name the writers that must release their memory, largest first.

        Parameters
        ----------
        held_bytes : mapping
            What each writer holds.

        Returns
        -------
        tuple
            Empty if the budget is kept; else as many as bring the sum down to half of it.
        """
        held = sum(held_bytes.values())
        if held <= self.limit_bytes:
            return ()
        chosen: list[K] = []
        for key in sorted(held_bytes, key=lambda k: (-held_bytes[k], k)):
            if held <= self.limit_bytes // RELIEF or held_bytes[key] == 0:
                break
            chosen.append(key)
            held -= held_bytes[key]
        return tuple(chosen)
