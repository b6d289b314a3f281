"""The deletion vectors of one bucket: reads them, adds to them, and writes new index files.

1. The index manifest names the bucket's vectors; each is read on demand.
2. Rows are deleted by marking their positions; a removed file takes its vector along.
3. :meth:`BucketDeletions.write` writes new index files for the changes. Vectors that share an index
   file with a changed one are written again, with unchanged bytes. The commit gets the names of the
   replaced files, so that it notices if another commit replaced them meanwhile.

A bucket has one index file. Without buckets a partition has several, each with the vectors of some
data files, of about ``deletion-vector.index-file.target-size``.

A compaction of a primary-key table marks the older row of each new key; DELETE marks rows of append
tables.

Source: Paimon's ``BucketedDvMaintainer`` and ``AppendDeleteFileMaintainer`` (1.3.1).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from contextlib import suppress

import numpy as np

from tidelake.errors import InvalidInputError, StorageError
from tidelake.metadata.data_file import DataFileMeta
from tidelake.metadata.index.deletion_file import (
    Frame,
    deletion_ranges,
    read_deletions,
    read_frame,
    write_deletion_files,
)
from tidelake.metadata.index.deletion_vector import (
    POSITIONS_32_MAX,
    Positions,
    decode_vector,
    encode_vector,
)
from tidelake.metadata.index_entry import DeletionChange, IndexEntry, IndexFile
from tidelake.options.declared import (
    DELETION_VECTOR_INDEX_FILE_TARGET_SIZE,
    DELETION_VECTORS_BITMAP64,
)
from tidelake.store.context import StoreContext
from tidelake.telemetry import ProcessMark

NO_POSITIONS: Positions = np.zeros(0, np.int64)


class BucketDeletions:
    """Deletion vectors of one bucket; for one thread.

    Parameters
    ----------
    bucket : int
        The bucket; 0 in a table without buckets.
    files : sequence of IndexFile
        The bucket's index files of deletion vectors in the snapshot that the write builds on.
    one_file : bool
        Whether the bucket has one index file: everywhere but in a table without buckets.
    """

    def __init__(
        self,
        context: StoreContext,
        partition: bytes,
        bucket: int,
        *,
        files: Sequence[IndexFile],
        one_file: bool,
    ) -> None:
        self._context = context
        self._place = partition, bucket
        self._one_file = one_file
        self._bitmap64 = context.options.get(DELETION_VECTORS_BITMAP64)
        self._new_names = (f"index-{context.env.ids.uuid()}-{i}" for i in itertools.count())
        self._marked: dict[str, Frame] = {}  # as written: a bit per row or less, not eight bytes
        self._dropped: set[str] = set()
        self._unknown: list[str] = []
        self._mark = ProcessMark()
        self._take(files)

    def _take(self, files: Iterable[IndexFile]) -> None:
        self._files = {file.file_name: file for file in files}
        entries = (IndexEntry(*self._place, file) for file in self._files.values())
        self._ranges = deletion_ranges(self._context.paths, entries)
        self._owners = {
            name: file.file_name for file in self._files.values() for name, *_ in file.ranges or ()
        }

    @property
    def has_any(self) -> bool:
        """Whether any data file has a vector."""
        return bool(self._files or self._marked)

    @property
    def file_names(self) -> tuple[str, ...]:
        """The names of the bucket's index files, those written last included."""
        return tuple(self._files)

    def positions(self, file: DataFileMeta) -> Positions:
        """The deleted rows of a data file, including those marked since.

        Returns
        -------
        int64 array [n]
            Ascending ordinals; empty if the file has no vector.

        Raises
        ------
        CorruptError, UnsupportedError, NotFoundError
            As :func:`tidelake.metadata.index.deletion_file.read_deletions`.
        """
        name = file.file_name
        if name in self._marked:
            return decode_vector(self._marked[name].data, row_count=file.row_count)
        where = self._ranges.get(name)
        if where is None or name in self._dropped:
            return NO_POSITIONS
        return read_deletions(self._context.fileio, where, file_name=name, row_count=file.row_count)

    def count(self, file: DataFileMeta) -> int:
        """How many rows of a data file are deleted, usually from the metadata."""
        marked = self._marked.get(file.file_name)
        if marked is not None and marked.cardinality is not None:
            return marked.cardinality
        where = self._ranges.get(file.file_name)
        known = file.file_name not in self._dropped
        if known and where is None:
            return 0
        if known and where is not None and where.cardinality is not None:
            return where.cardinality
        return len(self.positions(file))

    def delete(self, file: DataFileMeta, positions: Positions) -> int:
        """Mark rows of a data file as deleted; see :meth:`delete_all`."""
        return self.delete_all([(file, positions)])

    def delete_all(self, marks: Iterable[tuple[DataFileMeta, Positions]]) -> int:
        """Mark rows of data files as deleted: all of them, or none if it fails.

        Parameters
        ----------
        marks : iterable of (DataFileMeta, int64 array [n])
            Live files of the bucket, and ordinals of rows, in any order; a file may occur again.

        Returns
        -------
        int
            How many of them were not deleted before.

        Raises
        ------
        InvalidInputError
            A position exceeds a vector of 32 bits.
        CorruptError, UnsupportedError, NotFoundError
            As :meth:`positions`.
        """
        marked: dict[str, Frame] = {}
        count = 0
        for file, positions in marks:
            earlier = marked.get(file.file_name)
            if earlier is None:
                before = self.positions(file)
            else:
                before = decode_vector(earlier.data, row_count=file.row_count)
            after = np.union1d(before, positions)
            assert not len(after) or (after[0] >= 0 and after[-1] < file.row_count), "no rows of it"
            if not self._bitmap64 and len(after) and after[-1] > POSITIONS_32_MAX:
                message = (
                    f"Data file '{file.file_name}' has more rows than a deletion vector of 32 bits"
                    " counts: make the table with 'deletion-vectors.bitmap64' = 'true'."
                )
                raise InvalidInputError(message, kind="deletion_vector", file=file.file_name)
            if len(after) > len(before):
                data = encode_vector(after, bitmap64=self._bitmap64)
                marked[file.file_name] = Frame(data, len(after))
                count += len(after) - len(before)
        self._marked |= marked
        self._dropped -= marked.keys()
        return count

    def drop(self, names: Iterable[str]) -> None:
        """Drop the vectors of data files that the commit removes."""
        for name in names:
            self._marked.pop(name, None)
            if name in self._ranges:
                self._dropped.add(name)

    def write(self) -> DeletionChange | None:
        """Write the changes since the last call.

        Returns
        -------
        DeletionChange or None
            For the commit message, which owns the files from now on; None if nothing has changed.

        Raises
        ------
        StorageError
            A file could not be written; :meth:`discard` deletes those that were.
        """
        changed = self._marked.keys() | self._dropped
        if not changed:
            return None
        owners = {self._owners[name] for name in changed if name in self._owners}
        replaced = [
            file for file in self._files.values() if self._one_file or file.file_name in owners
        ]
        frames: dict[str, Frame] = {}
        for file in replaced:
            for name, *_ in file.ranges or ():
                if name not in changed:
                    where = self._ranges[name]
                    frames[name] = read_frame(self._context.fileio, where, file_name=name)
        frames |= self._marked
        added = self._written(frames)
        gone = {file.file_name for file in replaced}
        self._take([*(f for f in self._files.values() if f.file_name not in gone), *added])
        self._marked.clear()
        self._dropped.clear()
        self._unknown.clear()
        return DeletionChange(tuple(file.file_name for file in replaced), added)

    def discard(self) -> None:
        """Delete the files of a failed :meth:`write`; one that cannot be deleted stays.

        A forked child leaves them to its parent.
        """
        for path in self._unknown if self._mark.is_here else ():
            with suppress(StorageError):
                self._context.fileio.delete(path)
        self._unknown.clear()

    def _written(self, frames: dict[str, Frame]) -> tuple[IndexFile, ...]:
        if not frames:
            return ()
        target = self._context.options.get(DELETION_VECTOR_INDEX_FILE_TARGET_SIZE)
        return write_deletion_files(
            self._context.fileio,
            map(self._named, self._new_names),
            frames,
            target_size_bytes=None if self._one_file else target,
        )

    def _named(self, name: str) -> tuple[str, str]:
        path = self._context.paths.index_file(*self._place, name)
        self._unknown.append(path)
        return name, path
