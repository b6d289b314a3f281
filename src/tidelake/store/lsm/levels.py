"""The sorted runs of one bucket: level 0 holds one run per file, every other level one run.

Runs are ordered from the newest to the oldest: files of level 0 by their age, then level 1, 2 and
so on. Files of one run do not overlap. Source: Paimon's ``Levels`` (1.3.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidelake.codec.binary_row import decode_row
from tidelake.merge import FileKeys, KeyRange
from tidelake.metadata.data_file import DataFileMeta
from tidelake.types import DataType


def key_range(file: DataFileMeta, key_types: Sequence[DataType]) -> KeyRange:
    """Return a file's keys and age, for finding overlaps. Requires: it is in key order."""
    return FileKeys(tuple(key_types)).range_of(file)


@dataclass(frozen=True, slots=True)
class SortedRun:
    """Files of one level that do not overlap."""

    level: int
    files: tuple[DataFileMeta, ...]

    @property
    def size_bytes(self) -> int:
        """Bytes of the files."""
        return sum(file.file_size_bytes for file in self.files)


@dataclass(frozen=True, slots=True)
class Levels:
    """The files of one bucket.

    Parameters
    ----------
    files : tuple of DataFileMeta
        In any order.
    count : int
        Number of levels, level 0 included.
    """

    files: tuple[DataFileMeta, ...]
    count: int

    @classmethod
    def of(cls, files: Iterable[DataFileMeta], *, count: int) -> Levels:
        """Take a bucket's files; levels in use stay, even if `count` is lower."""
        present = tuple(files)
        return cls(present, max(count, 1 + max((f.level for f in present), default=0)))

    @property
    def max_level(self) -> int:
        """The oldest possible level."""
        return self.count - 1

    @property
    def highest_level(self) -> int:
        """The oldest level that holds a file; -1 if there is none."""
        return max((file.level for file in self.files), default=-1)

    @property
    def runs(self) -> tuple[SortedRun, ...]:
        """The sorted runs from the newest to the oldest."""
        newest = sorted(
            (file for file in self.files if file.level == 0),
            key=lambda f: (f.max_sequence_number, f.creation_time_ms or 0, f.file_name),
            reverse=True,
        )
        runs = [SortedRun(0, (file,)) for file in newest]
        for level in range(1, self.count):
            files = tuple(file for file in self.files if file.level == level)
            if files:
                runs.append(SortedRun(level, files))
        return tuple(runs)

    def updated(self, before: Iterable[DataFileMeta], after: Iterable[DataFileMeta]) -> Levels:
        """Give the levels with some files replaced by others.

        Requires: `before` are files of these levels.
        """
        gone = {(file.level, file.file_name) for file in before}
        kept = [f for f in self.files if (f.level, f.file_name) not in gone]
        assert len(kept) == len(self.files) - len(gone), "a file to replace is not there"
        return Levels((*kept, *after), self.count)

    def describe(self, key_types: Sequence[DataType]) -> str:
        """Give the levels as text: key range, largest sequence number and bytes of each file.

        ``L0[a..k #7 100] L5[a..f #3 900 | g..z #2 800]`` is one run of level 0 over one of
        level 5 that has two files.
        """
        return " ".join(
            f"L{run.level}["
            + " | ".join(_describe(f, key_types) for f in _in_order(run, key_types))
            + "]"
            for run in self.runs
        )


def _in_order(run: SortedRun, key_types: Sequence[DataType]) -> list[DataFileMeta]:
    return sorted(run.files, key=lambda f: key_range(f, key_types).min_key)


def _describe(file: DataFileMeta, key_types: Sequence[DataType]) -> str:
    low, high = (
        ",".join(str(value) for value in decode_row(key, key_types))
        for key in (file.min_key, file.max_key)
    )
    return f"{low}..{high} #{file.max_sequence_number} {file.file_size_bytes}"
