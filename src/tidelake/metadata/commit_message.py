"""Commit messages as bytes, for the way from an executor to the driver.

The body is the fields of :class:`CommitMessage` by name, in the frame of
:mod:`tidelake.metadata.wire`.
"""

from __future__ import annotations

from tidelake.metadata.data_file import CommitMessage
from tidelake.metadata.wire import Wire

_WIRE = Wire(b"TLCM", 8, CommitMessage, what="commit message")


def to_bytes(message: CommitMessage) -> bytes:
    """Give a commit message as bytes.

    Examples
    --------
    >>> message = CommitMessage(bytes(12), bucket=3, total_buckets=4)
    >>> from_bytes(to_bytes(message)) == message
    True
    """
    return _WIRE.to_bytes(message)


def from_bytes(data: bytes) -> CommitMessage:
    """Take a commit message from bytes.

    Raises
    ------
    CorruptError
        The bytes are not a commit message, or are damaged.
    UnsupportedError
        They were written by a version with another layout.
    """
    message: CommitMessage = _WIRE.from_bytes(data)
    return message
