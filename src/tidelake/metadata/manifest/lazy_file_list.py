"""Files of an entry table that become objects on demand.

A plan of 20,000 files consists of columns. As objects they take 5 us each, five times as long as
the rest of the plan. Columns answer questions about many files (how many, how long).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidelake.metadata.data_file import DataFileMeta
from tidelake.metadata.manifest.entry_table import EntryTable


class FileList(Sequence[DataFileMeta]):
    """Some rows of an entry table as a sequence of files; equal to a tuple of the same files.

    Parameters
    ----------
    rows : ndarray of int
        Positions, in the wanted order.

    Notes
    -----
    Thread-safe: two threads may make the objects once each. Pickled as a tuple.
    """

    __slots__ = ("_entries", "_files", "_rows")

    def __init__(self, entries: EntryTable, rows: NDArray[np.intp]) -> None:
        self._entries = entries
        self._rows = rows
        self._files: tuple[DataFileMeta, ...] | None = None

    @property
    def files(self) -> tuple[DataFileMeta, ...]:
        """The files as objects."""
        if self._files is None:
            self._files = tuple(self._entries.take(self._rows).files())
        return self._files

    @property
    def names(self) -> pa.Array:
        """Their names."""
        return self._entries["file_name"].take(pa.array(self._rows))

    @property
    def sizes_bytes(self) -> NDArray[np.int64]:
        """The length of each."""
        sizes: NDArray[np.int64] = self._entries["file_size_bytes"][self._rows]
        return sizes

    @property
    def row_counts(self) -> NDArray[np.int64]:
        """The rows of each."""
        counts: NDArray[np.int64] = self._entries["row_count"][self._rows]
        return counts

    @property
    def rows_count(self) -> int:
        """Rows of all files."""
        return int(self.row_counts.sum())

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[DataFileMeta]:
        return iter(self.files)

    @overload
    def __getitem__(self, index: int) -> DataFileMeta: ...
    @overload
    def __getitem__(self, index: slice) -> FileList: ...
    def __getitem__(self, index: int | slice) -> DataFileMeta | FileList:
        if isinstance(index, slice):
            return FileList(self._entries, self._rows[index])
        return self.files[index]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (FileList, tuple)):
            return NotImplemented
        return len(self) == len(other) and self.files == tuple(other)

    def __hash__(self) -> int:
        return hash(self.files)

    def __repr__(self) -> str:
        return repr(self.files)

    def __reduce__(self) -> tuple[object, ...]:
        return tuple, (self.files,)


def names_of(files: Sequence[DataFileMeta]) -> pa.Array:
    """The files' names."""
    if isinstance(files, FileList):
        return files.names
    return pa.array([f.file_name for f in files], type=pa.string())


def rows_of(files: Sequence[DataFileMeta]) -> int:
    """Rows of all files."""
    return files.rows_count if isinstance(files, FileList) else sum(f.row_count for f in files)


def sizes_of(files: Sequence[DataFileMeta]) -> NDArray[np.int64]:
    """The length of each file."""
    if isinstance(files, FileList):
        return files.sizes_bytes
    return np.array([f.file_size_bytes for f in files], dtype=np.int64)
