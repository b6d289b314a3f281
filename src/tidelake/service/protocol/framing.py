"""Frames: the messages of a session on a plain socket, the short way for callers without TLS.

gRPC in Python costs each side 0.2 ms of CPU and several hand-overs between threads for a call; a
frame costs 10 us and none. So an executor without TLS listens at a second port for the same
messages. gRPC stays the contract: a client that does not know frames loses nothing but time, and
one that finds no port for them, or no place left there, uses gRPC.

On the wire, all numbers little-endian::

    client, once   4 bytes "TLQ1", u32 length, the token (nothing without one)
    client         u32 length, LookupRequest
    server         u32 length, LookupReply, in the order of the requests; failures in `problem`

After a problem that is not about one request (a wrong token, no place, bytes that are no message)
the server closes. On the wire: never change.
"""

from __future__ import annotations

import socket
import struct

__all__ = ["HEAD", "MAGIC", "TOKEN_BYTES_MAX", "framed", "read_exactly", "read_frame"]

MAGIC = b"TLQ1"
HEAD = struct.Struct("<I")
TOKEN_BYTES_MAX = 4_096
READ_AT_ONCE_BYTES = 1 << 20


def framed(message: bytes) -> bytes:
    r"""A message with its length.

    Examples
    --------
    >>> framed(b"ab")
    b'\x02\x00\x00\x00ab'
    """
    return HEAD.pack(len(message)) + message


def read_frame(connection: socket.socket, size_max: int) -> bytes | None:
    """Read one frame; None where the other side has closed before it.

    Raises
    ------
    ValueError
        It is longer than `size_max`; nothing of it was read.
    EOFError
        The other side closed within it.
    OSError
        The connection failed, or its timeout is over.
    """
    head = connection.recv(HEAD.size)
    if not head:
        return None
    if len(head) < HEAD.size:
        head += read_exactly(connection, HEAD.size - len(head))
    (size,) = HEAD.unpack(head)
    if size > size_max:
        message = f"a message of {size} bytes, and one has {size_max} at most"
        raise ValueError(message)
    return read_exactly(connection, size)


def read_exactly(connection: socket.socket, size: int) -> bytes:
    """Read so many bytes; memory grows with what arrives, not with what is announced.

    Raises
    ------
    EOFError
        The other side closed before.
    """
    found = connection.recv(min(size, READ_AT_ONCE_BYTES)) if size else b""
    if len(found) == size:
        return found
    parts = bytearray(found)
    while len(parts) < size:
        part = connection.recv(min(size - len(parts), READ_AT_ONCE_BYTES))
        if not part:
            message = f"closed after {len(parts)} of {size} bytes"
            raise EOFError(message)
        parts += part
    return bytes(parts)
