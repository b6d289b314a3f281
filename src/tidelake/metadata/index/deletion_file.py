"""Index files of deletion vectors: the vectors of several data files, one after the other.

Layout of ``index/index-<uuid>-<i>`` (on disk: never renumber)::

    version   u8    1
    frames          one per data file (:mod:`tidelake.metadata.index.deletion_vector`)

The index manifest records for each frame its data file, offset and length. A file is written once
and never changed: a writer that deletes rows writes a new file with all vectors of the old one, and
names both.

In a table without buckets a partition may have several files, of about
``deletion-vector.index-file.target-size`` each; elsewhere a bucket has one.

Source: Paimon's ``DeletionVectorsIndexFile`` (1.3.1); ``docs/format/deletion-vectors.md`` shows the
bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tidelake.errors import CorruptError, UnsupportedError
from tidelake.fileio import FileIO
from tidelake.metadata.index.deletion_vector import (
    Positions,
    decode_vector,
    frame_of,
    length_in_manifest,
    vector_bytes_max,
)
from tidelake.metadata.index_entry import DELETION_VECTORS, IndexEntry, IndexFile
from tidelake.metadata.paths import TablePaths
from tidelake.metadata.unique_file import write_unique

VERSION = 1
"""The first byte of a file."""
_VERSION_BYTES = 1
_FRAMING_BYTES = 8


@dataclass(frozen=True, slots=True)
class DeletionRange:
    """The position of a data file's deletion vector. Picklable.

    Parameters
    ----------
    cardinality : int or None
        How many rows are deleted; None if the writer did not record it.
    """

    path: str
    offset: int
    length: int
    cardinality: int | None
    file_size_bytes: int


@dataclass(frozen=True, slots=True)
class Frame:
    """A vector as in an index file."""

    data: bytes
    cardinality: int | None


def deletion_ranges(paths: TablePaths, entries: Iterable[IndexEntry]) -> dict[str, DeletionRange]:
    """The positions of the deletion vectors, by the name of their data file.

    Raises
    ------
    CorruptError
        A data file has two vectors, or the range of one is impossible.
    UnsupportedError
        An index file lies outside the table.
    """
    found: dict[str, DeletionRange] = {}
    for entry in entries:
        if entry.file.index_type != DELETION_VECTORS:
            continue
        path = paths.index_file_of(entry)
        size_bytes = entry.file.file_size_bytes
        for name, offset, length, cardinality in entry.file.ranges or ():
            if name in found:
                raise _damaged(path, name, f"it has another in {found[name].path}")
            if offset < _VERSION_BYTES or length < 0 or offset + length > size_bytes:
                where = f"bytes {offset} to {offset + length} of {size_bytes}"
                raise _damaged(path, name, f"it would be at {where}")
            found[name] = DeletionRange(path, offset, length, cardinality, size_bytes)
    return found


def read_deletions(
    fileio: FileIO, where: DeletionRange, *, file_name: str, row_count: int
) -> Positions:
    """Read the deleted rows of a data file.

    Returns
    -------
    int64 array [cardinality]
        Rising.

    Raises
    ------
    CorruptError
        The index file is damaged or does not match the index manifest; the message names it.
    UnsupportedError
        Its version is unknown.
    NotFoundError
        It is missing.

    Notes
    -----
    Runs on executors. Reads the bytes of this vector only.
    """
    if where.length > vector_bytes_max(row_count):
        reason = f"{where.length} bytes are too many for {row_count} rows"
        raise _damaged(where.path, file_name, reason)
    frame = read_frame(fileio, where, file_name=file_name)
    try:
        positions = decode_vector(frame.data, row_count=row_count)
    except (CorruptError, ValueError) as error:
        raise _damaged(where.path, file_name, str(error)) from error
    if where.cardinality is not None and len(positions) != where.cardinality:
        reason = f"it names {len(positions)} rows, but the manifest says {where.cardinality}"
        raise _damaged(where.path, file_name, reason)
    return positions


def read_frame(fileio: FileIO, where: DeletionRange, *, file_name: str) -> Frame:
    """Read the bytes of a vector, to write them again unchanged.

    Raises
    ------
    CorruptError, UnsupportedError, NotFoundError
        As :func:`read_deletions`; the bitmap itself is not checked.
    """
    begin = 0 if where.offset == _VERSION_BYTES else where.offset  # the first includes the version
    end = min(where.file_size_bytes, where.offset + where.length + _FRAMING_BYTES)
    data = fileio.read_range(where.path, begin, end - begin)
    if begin == 0 and data[:_VERSION_BYTES] != bytes([VERSION]):
        message = (
            f"Index file {where.path} has version {data[:_VERSION_BYTES].hex()}; this library"
            f" reads version {VERSION}. Upgrade tidelake, or restore the file from a backup."
        )
        raise UnsupportedError(message, kind="deletion_vector", path=where.path)
    try:
        frame = frame_of(data[where.offset - begin :], length=where.length)
        return Frame(frame, where.cardinality)
    except ValueError as error:
        raise _damaged(where.path, file_name, str(error)) from error


def write_deletion_files(
    fileio: FileIO,
    new_file: Iterator[tuple[str, str]],
    frames: Mapping[str, Frame],
    *,
    target_size_bytes: int | None,
) -> tuple[IndexFile, ...]:
    """Write deletion vectors under unique names.

    Parameters
    ----------
    frames : mapping of str to Frame
        The vectors by their data files; their order is that in the files.
    target_size_bytes : int or None
        A file that is larger than this is closed; with None there is exactly one, perhaps without
        a vector.

    Returns
    -------
    tuple of IndexFile
        Their descriptions for the index manifest.
    """
    files: list[IndexFile] = []
    data = bytearray([VERSION])
    ranges: list[tuple[str, int, int, int | None]] = []

    def close() -> None:
        name, path = next(new_file)
        write_unique(fileio, path, bytes(data))
        files.append(IndexFile(DELETION_VECTORS, name, len(data), len(ranges), tuple(ranges)))
        del data[_VERSION_BYTES:]
        ranges.clear()

    for name, frame in frames.items():
        ranges.append((name, len(data), length_in_manifest(frame.data), frame.cardinality))
        data += frame.data
        if target_size_bytes is not None and len(data) > target_size_bytes:
            close()
    if ranges or target_size_bytes is None:
        close()
    return tuple(files)


def _damaged(path: str, file_name: str, reason: str) -> CorruptError:
    message = (
        f"The deletion vector of data file '{file_name}' in index file {path} is damaged or"
        f" does not match the table: {reason.rstrip('. ')}. Restore it from a backup, or read a"
        " snapshot without it."
    )
    return CorruptError(message, kind="deletion_vector", path=path, file=file_name)
