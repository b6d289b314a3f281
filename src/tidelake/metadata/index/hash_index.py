"""Hash index files: the keys of a dynamic bucket, as hashes.

Layout of ``index/index-<uuid>-<i>``::

    hash   i32 big-endian, one after the other, no header

Each is the Murmur hash of a trimmed primary key's BinaryRow (:mod:`tidelake.codec.bucket`), once,
in no order that other engines look at. A file is written once and never changed: a bucket with more
keys gets a new file.

The name of a file of ours may end in ``-sorted-<n>``: its first ``n`` hashes are in ascending order
as signed numbers, so a few hashes are found without a look at all. Other engines take the name as
it is.

Source: Paimon's ``HashIndexFile`` (1.3.1); ``docs/format/index-file.md`` shows the bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelake.errors import CorruptError
from tidelake.fileio import FileIO
from tidelake.metadata.index_entry import HASH, IndexEntry, IndexFile
from tidelake.metadata.paths import TablePaths
from tidelake.metadata.unique_file import WholeFiles, whole_bytes_max, write_unique

HASH_BYTES = 4

CHUNK_HASHES = 1 << 18
"""Hashes that a search of a file holds at a time: 1 MiB."""

SORTED_CHUNK_HASHES = 1 << 20
"""The same where hashes are sorted: a search costs time for each chunk."""

REMOTE_CHUNKS = 8
"""Chunks that a remote storage is asked for at once."""

_SORTED_NAME = re.compile(r"-sorted-([0-9]{1,18})$")


@dataclass(frozen=True, slots=True)
class HashIndexFile:
    """The index file of a bucket, read on demand."""

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

    @property
    def sorted_count(self) -> int:
        """How many hashes at the beginning are sorted; 0 where the name does not say."""
        found = _SORTED_NAME.search(self.entry.file.file_name)
        count = int(found[1]) if found else 0
        return count if count <= self.count else 0

    def chunks(self, first: int = 0) -> Iterator[npt.NDArray[np.uint32]]:
        """The hashes in pieces, with the bytes of each in the order of the file.

        Each piece is valid until the next one.

        Parameters
        ----------
        first : int
            The number of the first hash wanted.

        Raises
        ------
        CorruptError, UnsupportedError, NotFoundError
            As :func:`read_hash_index`.
        """
        return self._chunks(first, self.count, CHUNK_HASHES)

    def sorted_chunks(self) -> Iterator[npt.NDArray[np.uint32]]:
        """The sorted hashes, as :meth:`chunks`."""
        return self._chunks(0, self.sorted_count, SORTED_CHUNK_HASHES)

    def _chunks(self, first: int, last: int, size: int) -> Iterator[npt.NDArray[np.uint32]]:
        path = self.paths.index_file_of(self.entry)
        _check_size(path, self.fileio.size(path), self.entry)
        if self.fileio.is_remote:
            yield from self._remote_chunks(path, first, last, size)
            return
        buffer = np.empty(min(size, last - first), np.uint32)
        with self.fileio.open_input(path) as file:
            file.seek(HASH_BYTES * first)
            for start in range(first, last, size):
                chunk = buffer[: last - start]
                if file.readinto(chunk.data.cast("B")) != chunk.nbytes:
                    raise _cut_short(path, file.tell(), self.entry)
                yield chunk

    def _remote_chunks(
        self, path: str, first: int, last: int, size: int
    ) -> Iterator[npt.NDArray[np.uint32]]:
        """Several at once: each request waits for the network."""
        ranges = [
            (HASH_BYTES * start, HASH_BYTES * min(size, last - start))
            for start in range(first, last, size)
        ]
        for start in range(0, len(ranges), REMOTE_CHUNKS):
            found: list[pa.Buffer] = self.fileio.read_ranges(
                path, ranges[start : start + REMOTE_CHUNKS]
            )
            yield from (np.frombuffer(data, dtype=np.uint32) for data in found)


def hash_index_name(name: str, sorted_count: int) -> str:
    """The name of a file whose first hashes are sorted.

    Examples
    --------
    >>> hash_index_name("index-a-0", 100_000)
    'index-a-0-sorted-100000'
    >>> hash_index_name("index-a-0", 0)
    'index-a-0'
    """
    return f"{name}-sorted-{sorted_count}" if sorted_count else name


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

    Requires: the hashes are distinct; the first ones are sorted if the name says so.
    """
    data = hashes.astype(">i4").tobytes()
    write_unique(fileio, paths.index_file(partition, bucket, name), data)
    return IndexFile(HASH, name, len(data), len(hashes))


def _check_size(path: str, size_bytes: int, entry: IndexEntry) -> None:
    file = entry.file
    if size_bytes != file.file_size_bytes or size_bytes != HASH_BYTES * file.row_count:
        raise _cut_short(path, size_bytes, entry)


def _cut_short(path: str, size_bytes: int, entry: IndexEntry) -> CorruptError:
    file = entry.file
    message = (
        f"Index file {path} has {size_bytes} bytes; the index manifest says"
        f" {file.file_size_bytes} bytes and {file.row_count} hashes of {HASH_BYTES} bytes. It was"
        " cut short or replaced: restore it from a backup."
    )
    return CorruptError(message, kind="file_size", path=path)
