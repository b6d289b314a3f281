"""Finds a bucket's overlapping files, and stacks them into sorted runs, oldest run first.

Algorithm, for the key ranges of one bucket's files:

1. Sort by (min key, max key) and walk: where a range begins beyond every range so far, a new
   **section** starts. Keys of different sections never meet: each section is merged alone, and a
   section of one file is read as it is.
2. Inside a section lay the files down from the oldest to the newest. A file goes right above the
   highest **run** it overlaps. So files of one run are disjoint, and of two files that overlap the
   newer is always in the later run.

Step 2 differs from Paimon's ``IntervalPartition`` (1.3.1), which packs the same files by key alone.
Paimon merges by sequence number, so both give the same rows. Only if two rows of a key have the
same sequence number (two jobs wrote the bucket at the same time) does the run decide. By age every
reader and every compaction decides alike. Cost O(n (log n + r)) for n files in r runs.
"""

from __future__ import annotations

import bisect
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tidelake.types import DataType, TypeRoot

T = TypeVar("T")

KeyRank = tuple[tuple[int, object], ...]
"""A key as a tuple that Python compares in the order of the files: nulls first, then ascending."""

Section = tuple[tuple[int, ...], ...]
"""Runs from the oldest to the newest; each the positions of its files in key order."""

NAN_BITS = 1 << 64


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The keys of one file, and its age.

    Parameters
    ----------
    min_key, max_key : KeyRank
        First and last key, both inside.
    level : int
        Level 0 is newer than every other level, level 1 newer than level 2, and so on.
    max_sequence_number : int
        Among files of level 0 the larger is newer.
    creation_time_ms : int
        Decides between equal sequence numbers.
    """

    min_key: KeyRank
    max_key: KeyRank
    level: int = 0
    max_sequence_number: int = 0
    creation_time_ms: int = 0
    name: str = ""

    @property
    def age(self) -> tuple[int, int, int, str]:
        """Sorts ranges from the oldest to the newest."""
        return (-self.level, self.max_sequence_number, self.creation_time_ms, self.name)


def key_rank(values: Sequence[object], types: Sequence[DataType]) -> KeyRank:
    """Turn a key's storage values into a tuple that compares in key order.

    Parameters
    ----------
    values : sequence of storage values
        One per key column.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> types = [parse_type("DOUBLE")]
    >>> key_rank([None], types) < key_rank([-0.0], types) < key_rank([0.0], types)
    True
    """
    return tuple(
        (0, 0) if value is None else (1, _orderable(value, data_type))
        for value, data_type in zip(values, types, strict=True)
    )


def _orderable(value: object, data_type: DataType) -> object:
    if data_type.root in {TypeRoot.FLOAT, TypeRoot.DOUBLE}:
        # Java's Double.compare: -0.0 before 0.0, NaN last; a float widens without loss
        assert isinstance(value, float)
        if value != value:
            return NAN_BITS
        bits: int = struct.unpack(">q", struct.pack(">d", value))[0]
        return bits if bits >= 0 else ~(bits & 0x7FFF_FFFF_FFFF_FFFF)
    return value


def sections_of(ranges: Sequence[KeyRange]) -> tuple[Section, ...]:
    """Cut a bucket's files into sections and stack each section into sorted runs.

    Parameters
    ----------
    ranges : sequence of KeyRange
        The files of one bucket, in any order.

    Returns
    -------
    tuple of Section
        Sections in key order; positions point into `ranges`.

    Examples
    --------
    >>> r = lambda low, high, seq: KeyRange(((1, low),), ((1, high),), max_sequence_number=seq)
    >>> sections_of([r(1, 5, 1), r(4, 9, 2), r(1, 2, 3), r(20, 30, 4)])
    (((0,), (2, 1)), ((3,),))
    """
    by_key = sorted(range(len(ranges)), key=lambda i: (ranges[i].min_key, ranges[i].max_key))
    sections: list[list[int]] = []
    bound: KeyRank = ()
    for position in by_key:
        if not sections or ranges[position].min_key > bound:
            sections.append([])
            bound = ranges[position].max_key
        sections[-1].append(position)
        bound = max(bound, ranges[position].max_key)
    return tuple(_stack(section, ranges) for section in sections)


def meets_any(ranges: Sequence[KeyRange], others: Sequence[KeyRange]) -> list[bool]:
    """Whether each range shares keys with one of the others.

    Examples
    --------
    >>> r = lambda low, high: KeyRange(((1, low),), ((1, high),))
    >>> meets_any([r(1, 3), r(4, 6), r(9, 9)], [r(5, 8), r(0, 1), r(6, 7)])
    [True, True, False]
    """
    hulls: list[tuple[KeyRank, KeyRank, int]] = []
    for other in sorted(others, key=lambda r: (r.min_key, r.max_key)):
        if hulls and other.min_key <= hulls[-1][1]:
            low, high, _ = hulls.pop()
            hulls.append((low, max(high, other.max_key), 0))
        else:
            hulls.append((other.min_key, other.max_key, 0))
    return [_overlaps(hulls, own.min_key, own.max_key) for own in ranges]


def by_level(
    runs: Sequence[Sequence[T]], level_of: Callable[[T], int]
) -> tuple[tuple[int, tuple[T, ...]], ...]:
    """Cut runs so that the files of each are of one level.

    A run may hold files of several levels that do not overlap. If rows count by their level, the
    levels must be separate.

    Parameters
    ----------
    runs : sequence of runs
        A section, oldest first.
    level_of : callable
        A file's level.

    Returns
    -------
    tuple of (int, run)
        Levels and runs, from the oldest to the newest: levels fall.

    Examples
    --------
    >>> by_level([["5a"], ["4b", "0d", "4f"], ["0c"]], lambda f: int(f[0]))
    ((5, ('5a',)), (4, ('4b', '4f')), (0, ('0d',)), (0, ('0c',)))
    """
    cut = [
        (level, tuple(file for file in run if level_of(file) == level))
        for run in runs
        for level in sorted({level_of(file) for file in run}, reverse=True)
    ]
    return tuple(sorted(cut, key=lambda part: -part[0]))


def _stack(section: Sequence[int], ranges: Sequence[KeyRange]) -> Section:
    """Lay files down from the oldest, each right above the highest run it overlaps."""
    runs: list[list[tuple[KeyRank, KeyRank, int]]] = []
    for position in sorted(section, key=lambda i: ranges[i].age):
        low, high = ranges[position].min_key, ranges[position].max_key
        height = len(runs)
        while height and not _overlaps(runs[height - 1], low, high):
            height -= 1
        if height == len(runs):
            runs.append([])
        bisect.insort(runs[height], (low, high, position))
    return tuple(tuple(position for _, _, position in run) for run in runs)


def _overlaps(run: Sequence[tuple[KeyRank, KeyRank, int]], low: KeyRank, high: KeyRank) -> bool:
    """Whether [low, high] meets a range of a run (disjoint and in key order)."""
    after = bisect.bisect_right(run, high, key=lambda entry: entry[0])
    return after > 0 and run[after - 1][1] >= low
