"""Frames: the messages of a session on a socket of their own, the short way of callers in Python.

gRPC in Python costs each side 0.2 ms of CPU and several hand-overs between threads for a call; a
frame costs 10 us and none, and 7 us more by TLS. So an executor listens at a second port for the
same messages. gRPC stays the contract: a client that does not know frames loses nothing but time,
and one that finds no port for them, or no place left there, uses gRPC.

Where the service has TLS, a connection begins with its handshake, by TLS 1.2 or later. Then, all
numbers little-endian::

    client, once   4 bytes "TLQ1", u32 length, the token (nothing without one)
    client         u32 length, LookupRequest
    server         u32 length, LookupReply, in the order of the requests; failures in `problem`

After a problem that is not about one request (a wrong token, no place, bytes that are no message)
the server closes. On the wire: never change.
"""

from __future__ import annotations

import socket
import ssl
import struct

MAGIC = b"TLQ1"
HEAD = struct.Struct("<I")
TOKEN_BYTES_MAX = 4_096
READ_AT_ONCE_BYTES = 1 << 20
READ_FIRST_BYTES = 1 << 16
WAITED_TOO_LONG = (BlockingIOError, TimeoutError)
"""What is raised by a wait that :func:`limit_waits` ended: by the system, and by TLS."""
_SECONDS = struct.Struct("@ll")


def framed(message: bytes) -> bytes:
    r"""A message with its length.

    Examples
    --------
    >>> framed(b"ab")
    b'\x02\x00\x00\x00ab'
    """
    return HEAD.pack(len(message)) + message


def limit_waits(connection: socket.socket, receive_seconds: float, send_seconds: float) -> None:
    """End what waits longer on a socket by one of :data:`WAITED_TOO_LONG`.

    On a plain socket the system itself does: a timeout of Python's costs two more calls of the
    system for each that may wait. Python's TLS asks again what the system ended, so it needs its
    own timeout, which is one for both directions: the longer one.
    """
    if isinstance(connection, ssl.SSLSocket):
        connection.settimeout(max(receive_seconds, send_seconds))
        return
    connection.settimeout(None)
    for option, seconds in (
        (socket.SO_RCVTIMEO, receive_seconds),
        (socket.SO_SNDTIMEO, send_seconds),
    ):
        whole = int(seconds)
        limit = _SECONDS.pack(whole, int((seconds - whole) * 1e6))
        connection.setsockopt(socket.SOL_SOCKET, option, limit)


class FrameReader:
    """Reads the frames that arrive on one socket, small ones by one call of the system.

    Parameters
    ----------
    connection : socket
        What may wait is limited by :func:`limit_waits`.
    size_max : int
        The most bytes of a frame.
    """

    __slots__ = ("_connection", "_rest", "_size_max")

    def __init__(self, connection: socket.socket, size_max: int) -> None:
        self._connection = connection
        self._size_max = size_max
        self._rest = b""

    @property
    def is_within(self) -> bool:
        """Whether a part of a frame has arrived, and not all of it."""
        return bool(self._rest)

    def read(self) -> bytes | None:
        """Read the next frame; None where the other side has closed before it.

        Raises
        ------
        ValueError
            It is longer than the most.
        EOFError
            The other side closed within it.
        BlockingIOError, TimeoutError
            Nothing more came in time; what came is kept.
        OSError
            The connection failed.
        """
        while True:
            found = self._rest
            if len(found) >= HEAD.size:
                (size,) = HEAD.unpack_from(found)
                if size > self._size_max:
                    message = f"a message of {size} bytes, and one has {self._size_max} at most"
                    raise ValueError(message)
                end = HEAD.size + size
                if len(found) >= end:
                    self._rest = found[end:]
                    return found[HEAD.size : end]
                if not self._filled(end):
                    message = f"closed after {len(self._rest)} of {end} bytes"
                    raise EOFError(message)
                continue
            part = self._connection.recv(READ_FIRST_BYTES)
            if not part:
                if found:
                    message = f"closed after {len(found)} bytes of a length"
                    raise EOFError(message)
                return None
            self._rest = found + part if found else part

    def _filled(self, end: int) -> bool:
        """Read until so many bytes have come; memory grows with what arrives."""
        parts = bytearray(self._rest)
        try:
            while len(parts) < end:
                part = self._connection.recv(min(end - len(parts), READ_AT_ONCE_BYTES))
                if not part:
                    return False
                parts += part
            return True
        finally:
            self._rest = bytes(parts)


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
