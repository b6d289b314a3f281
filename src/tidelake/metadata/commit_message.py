"""Commit messages as bytes, for their way from an executor to the driver.

Layout (version 1), inside the frame of :mod:`tidelake.metadata.wire` with magic ``TLCM``::

    partition        bytes      serialized BinaryRow
    bucket           integer
    total_buckets    integer
    new_files        sequence of data files
    compact_before   sequence of data files
    compact_after    sequence of data files

It is ours alone and lives no longer than one commit: driver and executors run the same version.
"""

from __future__ import annotations

from tidelake.metadata.data_file import CommitMessage
from tidelake.metadata.wire import WireReader, WireWriter, get_file, put_file

__all__ = ["from_bytes", "to_bytes"]

MAGIC = b"TLCM"
VERSION = 1


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
    )
    source.finish()
    return message
