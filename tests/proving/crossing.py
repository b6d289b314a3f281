"""Draws of several choices at once, so that a few draws meet many pairs of choices.

:class:`Crossing` makes a list that never changes: its first draws are the same however many are
asked for. Each next draw is the one of :data:`CANDIDATES` random ones whose pairs were met least
so far. So the first dozen draws cross what is rare, and hundreds meet each pair about as often.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

__all__ = ["Crossing", "Draw"]

CANDIDATES = 60
Draw: TypeAlias = Mapping[str, str]
"""A choice by the name of what is chosen."""
_Pair: TypeAlias = tuple[tuple[str, int], tuple[str, int]]


class Crossing:
    """Draws of one choice of each factor, by their number.

    Parameters
    ----------
    factors : mapping of str to sequence of str
        The choices; one that stands there twice is drawn twice as often.
    is_allowed : callable
        Whether choices go together.
    """

    def __init__(
        self, factors: Mapping[str, Sequence[str]], is_allowed: Callable[[Draw], bool]
    ) -> None:
        self._factors, self._is_allowed = factors, is_allowed
        self._rng = random.Random(0)
        self._met: Counter[_Pair] = Counter()
        self._draws: list[Draw] = []

    def __getitem__(self, number: int) -> Draw:
        """Return a draw; those before it are made first."""
        while len(self._draws) <= number:
            self._draws.append(self._next())
        return self._draws[number]

    def _next(self) -> Draw:
        places = max(itertools.islice(self._candidates(), CANDIDATES), key=self._worth)
        self._met.update(_pairs(places))
        return self._named(places)

    def _candidates(self) -> Iterator[Mapping[str, int]]:
        while True:
            places = {name: self._rng.randrange(len(of)) for name, of in self._factors.items()}
            if self._is_allowed(self._named(places)):
                yield places

    def _named(self, places: Mapping[str, int]) -> Draw:
        return {name: self._factors[name][place] for name, place in places.items()}

    def _worth(self, places: Mapping[str, int]) -> float:
        return sum(1 / (1 + self._met[pair]) ** 2 for pair in _pairs(places))


def _pairs(places: Mapping[str, int]) -> Iterator[_Pair]:
    return itertools.combinations(places.items(), 2)
