"""The files that a plan leaves out, with the reason: names in columns, objects on demand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import overload

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidelake.metadata.data_file import DataFileMeta
from tidelake.metadata.manifest.entry_table import EntryTable
from tidelake.scan.pruning.file_index import UnusedIndex

BY_PARTITION = "partition"
BY_BUCKET = "bucket"
BY_CREATION_TIME = "creation time"
BY_POSTPONE = "postpone bucket, not readable before compaction"
BY_KEY_STATS = "key statistics"
BY_VALUE_STATS = "value statistics"
BY_FILE_INDEX = "file index"
BY_LEVEL_0 = "level 0, left out by deletion-vectors.merge-on-read"
BY_LIMIT = "limit"


@dataclass(frozen=True, slots=True)
class PrunedFile:
    """A live file that need not be read."""

    name: str
    reason: str


class PrunedFiles(Sequence[PrunedFile]):
    """The files that a plan leaves out, as objects on demand."""

    __slots__ = ("_parts",)

    def __init__(self, parts: Sequence[tuple[pa.Array, str]] = ()) -> None:
        self._parts = tuple(parts)

    @property
    def counts(self) -> Mapping[str, int]:
        """Number of files by reason."""
        counts: Counter[str] = Counter()
        for names, reason in self._parts:
            counts[reason] += len(names)
        return counts

    def __len__(self) -> int:
        return sum(len(names) for names, _ in self._parts)

    def __iter__(self) -> Iterator[PrunedFile]:
        for names, reason in self._parts:
            for name in names.to_pylist():
                yield PrunedFile(name, reason)

    @overload
    def __getitem__(self, index: int) -> PrunedFile: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[PrunedFile]: ...
    def __getitem__(self, index: int | slice) -> PrunedFile | Sequence[PrunedFile]:
        return tuple(self)[index]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (PrunedFiles, tuple)):
            return NotImplemented
        return tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))


@dataclass(slots=True)
class Tally:
    """Collects the files that are left out while a plan is made."""

    pruned: list[tuple[pa.Array, str]] = field(default_factory=list)
    other_partitions_files: int = 0
    other_partitions_bytes: int = 0
    unused_indexes: tuple[UnusedIndex, ...] = ()

    def add(self, names: pa.Array, reason: str) -> None:
        """Record files by their names."""
        if len(names):
            self.pruned.append((names, reason))

    def add_files(self, files: Iterable[DataFileMeta], reason: str) -> None:
        """Record files."""
        self.add(pa.array([f.file_name for f in files], type=pa.string()), reason)

    def dropped(self, entries: EntryTable, excluded: NDArray[np.bool_], reason: str) -> EntryTable:
        """The entries without the excluded ones, which are recorded."""
        if not excluded.any():
            return entries
        self.add(entries["file_name"].filter(pa.array(excluded)), reason)
        return entries.take(~excluded)
