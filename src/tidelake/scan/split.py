"""A split: the files of one bucket that one task reads, and how.

A **raw** split's files are read one after the other, each row is a row of the answer. A **merge**
split holds whole sections (:mod:`tidelake.scan.sections`), each a set of sorted runs that are
merged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tidelake.metadata.data_file import DataFileMeta
from tidelake.metadata.file_list import rows_of, sizes_of

__all__ = ["Run", "Section", "Split"]

Run: TypeAlias = Sequence[DataFileMeta]
"""A tuple, or files that become objects when they are looked at."""
Section: TypeAlias = tuple[Run, ...]
"""Sorted runs, oldest first; the files of a run are in key order."""


@dataclass(frozen=True, slots=True)
class Split:
    """What one task reads.

    Parameters
    ----------
    snapshot_id : int
        The snapshot that was planned.
    partition : bytes
        Serialized BinaryRow of the partition.
    bucket, total_buckets : int
        The bucket, and of how many.
    sections : tuple of Section
        In key order. A raw split has one section of one run.
    raw : bool
        Whether the files can be read as they are: every row is live and of a key of its own.
    """

    snapshot_id: int
    partition: bytes
    bucket: int
    total_buckets: int
    sections: tuple[Section, ...]
    raw: bool

    @property
    def files(self) -> tuple[DataFileMeta, ...]:
        """All files, section by section."""
        return tuple(file for run in self._runs() for file in run)

    def _runs(self) -> Iterator[Run]:
        for section in self.sections:
            yield from section

    @property
    def files_count(self) -> int:
        """Number of files."""
        return sum(map(len, self._runs()))

    @property
    def row_count(self) -> int:
        """Physical rows: what a raw split gives, and the most that a merge split can give."""
        return sum(map(rows_of, self._runs()))

    @property
    def size_bytes(self) -> int:
        """Bytes of the files."""
        return sum(int(sizes_of(run).sum()) for run in self._runs())

    @property
    def runs_count_max(self) -> int:
        """The largest number of runs merged at once."""
        return max((len(section) for section in self.sections), default=0)
