"""Hash index files: the keys of a dynamic bucket, as hashes.

Layout of ``index/index-<uuid>-<i>``::

    hash   i32 big-endian, one after the other, no header

Each is the Murmur hash of a trimmed primary key's BinaryRow (:mod:`tidelake.codec.bucket`), once,
in no order. We write old hashes first, so that a commit finds the new ones at the end. A file is
written once and never changed: a bucket with more keys gets a new file.

Source: Paimon's ``HashIndexFile`` (1.3.1); ``docs/format/index-file.md`` shows the bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tidelake.errors import CorruptError
from tidelake.fileio import FileIO
from tidelake.metadata.index_entry import HASH, IndexEntry, IndexFile
from tidelake.metadata.paths import TablePaths
from tidelake.metadata.unique_file import WholeFiles, whole_bytes_max, write_unique

__all__ = ["HashIndexFile", "read_hash_index", "write_hash_index"]

HASH_BYTES = 4

CHUNK_HASHES = 1 << 18
"""Hashes that a search of a file holds at a time: 1 MiB."""


@dataclass(frozen=True, slots=True)
class HashIndexFile:
    """The index file of a bucket, read on demand.

    Parameters
    ----------
    fileio, paths
        The table.
    entry : IndexEntry
        The file.
    """

    fileio: FileIO
    paths: TablePaths
    entry: IndexEntry

    @property
    def count(self) -> int:
        """Number of hashes."""
        return self.entry.file.row_count

    def read(self) -> npt.NDArray[np.int32]:
        """All hashes, as :func:`read_hash_index`."""
        return read_hash_index(self.fileio, self.paths, self.entry)

    def chunks(self) -> Iterator[npt.NDArray[np.uint32]]:
        """The hashes in pieces, with the bytes of each in the order of the file.

        Raises
        ------
        CorruptError, UnsupportedError, NotFoundError
            As :func:`read_hash_index`.
        """
        path = self.paths.index_file_of(self.entry)
        _check_size(path, self.fileio.size(path), self.entry)
        for start in range(0, self.count, CHUNK_HASHES):
            length = HASH_BYTES * min(CHUNK_HASHES, self.count - start)
            data = self.fileio.read_range(path, HASH_BYTES * start, length)
            yield np.frombuffer(data, dtype=np.uint32)


def read_hash_index(fileio: FileIO, paths: TablePaths, entry: IndexEntry) -> npt.NDArray[np.int32]:
    """Read the hashes of a bucket's keys.

    Returns
    -------
    int32 array [row_count]
        In the order of the file.

    Raises
    ------
    CorruptError
        The file's size differs from the index manifest; the message names it.
    UnsupportedError
        It is outside the table.
    NotFoundError
        It is missing.
    """
    path = paths.index_file_of(entry)
    data = fileio.read_bytes(path, bytes_max=whole_bytes_max(entry.file.file_size_bytes))
    _check_size(path, len(data), entry)
    return np.frombuffer(data, dtype=">i4").astype(np.int32)


def write_hash_index(
    fileio: WholeFiles,
    paths: TablePaths,
    name: str,
    hashes: npt.NDArray[np.int32],
    *,
    partition: bytes,
    bucket: int,
) -> IndexFile:
    """Write the hashes of a bucket's keys under a unique name.

    Requires: the hashes are distinct.
    """
    data = hashes.astype(">i4").tobytes()
    write_unique(fileio, paths.index_file(partition, bucket, name), data)
    return IndexFile(HASH, name, len(data), len(hashes))


def _check_size(path: str, size_bytes: int, entry: IndexEntry) -> None:
    file = entry.file
    if size_bytes != file.file_size_bytes or size_bytes != HASH_BYTES * file.row_count:
        message = (
            f"Index file {path} has {size_bytes} bytes; the index manifest says"
            f" {file.file_size_bytes} bytes and {file.row_count} hashes of {HASH_BYTES} bytes. It"
            " was cut short or replaced: restore it from a backup."
        )
        raise CorruptError(message, kind="file_size", path=path)
