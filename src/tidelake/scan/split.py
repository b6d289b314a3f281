"""A split: the files of one bucket that one task reads, and how.

A **raw** split's files are read one after the other, each row is a row of the answer. A **merge**
split holds whole sections (:mod:`tidelake.scan.sections`), each a set of sorted runs to merge. In
both a file may have a deletion vector: deleted rows are left out.

A split of changes may ask for the changes of some keys alone: see :data:`OfKeys`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from tidelake.metadata.bucket_id import InBucket
from tidelake.metadata.data_file import DataFileMeta
from tidelake.metadata.index.deletion_file import DeletionRange
from tidelake.metadata.manifest.lazy_file_list import rows_of, sizes_of

OfKeys: TypeAlias = Literal["all", "gone", "kept"]
"""The keys whose changes are wanted: all; those that the changes leave without a row in this
bucket; those that they leave with one."""

Run: TypeAlias = Sequence[DataFileMeta]
"""A tuple, or files that become objects on demand."""
Section: TypeAlias = tuple[Run, ...]
"""Sorted runs, oldest first; the files of a run are in key order."""


@dataclass(frozen=True, slots=True)
class Split(InBucket):
    """The files that one task reads.

    Parameters
    ----------
    sections : tuple of Section
        In key order. A raw split has one section of one run.
    raw : bool
        Whether the files can be read unmerged: every row that no vector deletes is live, and no
        other has its key.
    of_keys : {'all', 'gone', 'kept'}
        The keys whose changes are wanted; a read of rows takes all.
    """

    snapshot_id: int
    partition: bytes
    bucket: int
    total_buckets: int
    sections: tuple[Section, ...]
    raw: bool
    deletions: Mapping[str, DeletionRange] = field(default_factory=dict)
    of_keys: OfKeys = "all"

    @property
    def files(self) -> tuple[DataFileMeta, ...]:
        """All files, section by section."""
        return tuple(file for run in self._runs() for file in run)

    def part(self, sections: tuple[Section, ...]) -> Split:
        """A split of some of the files."""
        own: dict[str, DeletionRange] = {}
        if self.deletions:
            names = {f.file_name for section in sections for run in section for f in run}
            own = {name: where for name, where in self.deletions.items() if name in names}
        return replace(self, sections=sections, deletions=own)

    def _runs(self) -> Iterator[Run]:
        for section in self.sections:
            yield from section

    @property
    def files_count(self) -> int:
        """Number of files."""
        return sum(map(len, self._runs()))

    @property
    def row_count(self) -> int:
        """Physical rows, including deleted ones: the most that a split can give."""
        return sum(map(rows_of, self._runs()))

    @property
    def live_row_count(self) -> int | None:
        """Physical rows that no vector deletes: the rows of a raw split.

        None if a vector's writer did not record how many rows it deletes.
        """
        rows = self.row_count
        for where in self.deletions.values():
            if where.cardinality is None:
                return None
            rows -= where.cardinality
        return rows

    @property
    def size_bytes(self) -> int:
        """Bytes of the files."""
        return sum(int(sizes_of(run).sum()) for run in self._runs())

    @property
    def runs_count_max(self) -> int:
        """The largest number of runs merged at once."""
        return max((len(section) for section in self.sections), default=0)
