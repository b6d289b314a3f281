"""Commit messages as bytes, for their way from an executor to the driver.

Layout (version 6), inside the frame of :mod:`tidelake.metadata.wire` with magic ``TLCM``::

    partition        bytes      serialized BinaryRow
    bucket           integer
    total_buckets    integer
    new_files        sequence of data files
    compact_before   sequence of data files
    compact_after    sequence of data files
    index            optional: base_snapshot_id integer, known_count integer, then optional hash
                     index file: name text, size integer, row_count integer
    changelog        sequence of data files
    compact_changelog  sequence of data files
    deletions        optional: sequence of names of index files removed, then sequence of index
                     files added: name text, size integer, sequence of vectors: data file text,
                     offset integer, length integer, cardinality optional integer
    compact_seen     optional bytes: digest of files above level 0 and vectors that a lookup saw
    removed_files    sequence of data files

It is ours alone and lives no longer than one commit: driver and executors run the same version.
"""

from __future__ import annotations

from tidelake.metadata.data_file import CommitMessage
from tidelake.metadata.index_entry import (
    DELETION_VECTORS,
    HASH,
    DeletionChange,
    IndexChange,
    IndexFile,
)
from tidelake.metadata.wire import WireReader, WireWriter, get_file, put_file

__all__ = ["from_bytes", "to_bytes"]

MAGIC = b"TLCM"
VERSION = 6


def to_bytes(message: CommitMessage) -> bytes:
    """Give a commit message as bytes.

    Examples
    --------
    >>> message = CommitMessage(bytes(12), bucket=3, total_buckets=4)
    >>> from_bytes(to_bytes(message)) == message
    True
    """
    out = WireWriter(MAGIC, VERSION)
    out.blob(message.partition)
    out.integer(message.bucket)
    out.integer(message.total_buckets)
    for files in (message.new_files, message.compact_before, message.compact_after):
        out.sequence(files, lambda file: put_file(out, file))
    out.optional(message.index, lambda change: _put_index(out, change))
    for files in (message.changelog, message.compact_changelog):
        out.sequence(files, lambda file: put_file(out, file))
    out.optional(message.deletions, lambda change: _put_deletions(out, change))
    out.optional(message.compact_seen, out.blob)
    out.sequence(message.removed_files, lambda file: put_file(out, file))
    return out.finish()


def from_bytes(data: bytes) -> CommitMessage:
    """Take a commit message from bytes.

    Raises
    ------
    CorruptError
        The bytes are no commit message, or damaged.
    UnsupportedError
        They were written by a version with another layout.
    """
    source = WireReader(data, magic=MAGIC, version=VERSION, what="commit message")
    message = CommitMessage(
        partition=source.blob(),
        bucket=source.integer(),
        total_buckets=source.integer(),
        new_files=source.sequence(lambda: get_file(source)),
        compact_before=source.sequence(lambda: get_file(source)),
        compact_after=source.sequence(lambda: get_file(source)),
        index=source.optional(lambda: _get_index(source)),
        changelog=source.sequence(lambda: get_file(source)),
        compact_changelog=source.sequence(lambda: get_file(source)),
        deletions=source.optional(lambda: _get_deletions(source)),
        compact_seen=source.optional(source.blob),
        removed_files=source.sequence(lambda: get_file(source)),
    )
    source.finish()
    return message


def _put_index(out: WireWriter, change: IndexChange) -> None:
    def put_index_file(file: IndexFile) -> None:
        assert file.index_type == HASH, "writers make no other index files"
        out.text(file.file_name)
        out.integer(file.file_size_bytes)
        out.integer(file.row_count)

    out.integer(change.base_snapshot_id)
    out.integer(change.known_count)
    out.optional(change.file, put_index_file)


def _get_index(source: WireReader) -> IndexChange:
    base_snapshot_id, known_count = source.integer(), source.integer()
    file = source.optional(
        lambda: IndexFile(HASH, source.text(), source.integer(), source.integer())
    )
    return IndexChange(base_snapshot_id, file, known_count)


def _put_deletions(out: WireWriter, change: DeletionChange) -> None:
    def put_vector(vector: tuple[str, int, int, int | None]) -> None:
        name, offset, length, cardinality = vector
        out.text(name)
        out.integer(offset)
        out.integer(length)
        out.optional(cardinality, out.integer)

    def put_file(file: IndexFile) -> None:
        assert file.index_type == DELETION_VECTORS
        out.text(file.file_name)
        out.integer(file.file_size_bytes)
        out.sequence(file.ranges or (), put_vector)

    out.sequence(change.removed, out.text)
    out.sequence(change.added, put_file)


def _get_deletions(source: WireReader) -> DeletionChange:
    def get_vector() -> tuple[str, int, int, int | None]:
        name, offset, length = source.text(), source.integer(), source.integer()
        return name, offset, length, source.optional(source.integer)

    def get_file() -> IndexFile:
        name, size_bytes = source.text(), source.integer()
        vectors = source.sequence(get_vector)
        return IndexFile(DELETION_VECTORS, name, size_bytes, len(vectors), vectors)

    return DeletionChange(source.sequence(source.text), source.sequence(get_file))
