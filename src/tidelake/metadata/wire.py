"""Bytes that travel between driver and executors: a checked frame around MessagePack.

::

    magic     4 bytes   says what it is, e.g. 54 4C 43 4D "TLCM" for a commit message
    version   u8        of the body's layout
    body      n bytes   MessagePack, checked against a type while it is read
    crc32     u32 LE    of everything before it

The bytes are private and live no longer than one read or commit. Reading them runs no code and
takes no more memory than they are long: hostile bytes give a :class:`CorruptError`.
"""

from __future__ import annotations

import operator
import struct
import zlib
from typing import Any

import msgspec

from tidelake.errors import CorruptError, UnsupportedError

_FRAME_BYTES = 4 + 1 + 4


class Wire:
    """Reads and writes one kind of message.

    Parameters
    ----------
    magic : bytes
        Four bytes that identify the kind of message.
    kind : type
        The type of the value, made of dataclasses, tuples, mappings, text, bytes and numbers.

    Examples
    --------
    >>> demo = Wire(b"DEMO", 1, tuple[int, str], what="demo")
    >>> demo.to_bytes((-2, "é")).hex()
    '44454d4f0192fea2c3a9c68b0773'
    >>> demo.from_bytes(demo.to_bytes((-2, "é")))
    (-2, 'é')
    """

    def __init__(self, magic: bytes, version: int, kind: Any, *, what: str) -> None:
        assert len(magic) == 4
        self._head = magic + bytes([version])
        self._what = what
        # NumPy's integers are written as plain ones
        self._encoder = msgspec.msgpack.Encoder(enc_hook=operator.index)
        self._decoder = msgspec.msgpack.Decoder(kind)

    def to_bytes(self, value: object) -> bytes:
        """Give a value of the type as bytes."""
        framed = self._head + self._encoder.encode(value)
        return framed + struct.pack("<I", zlib.crc32(framed))

    def from_bytes(self, data: bytes) -> Any:
        """Decode a value of the type.

        Raises
        ------
        CorruptError
            The bytes are damaged or are something else.
        UnsupportedError
            They were written by a version with another layout.
        """
        if len(data) < _FRAME_BYTES or data[:4] != self._head[:4]:
            raise self._broken("it has a wrong beginning")
        if zlib.crc32(data[:-4]) != struct.unpack("<I", data[-4:])[0]:
            raise self._broken("its checksum differs")
        if data[4] != self._head[4]:
            message = (
                f"The {self._what} has layout {data[4]}, but this version reads {self._head[4]}:"
                " use the same version of tidelake on driver and executors."
            )
            raise UnsupportedError(message, kind="wire_version")
        try:
            return self._decoder.decode(memoryview(data)[5:-4])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise self._broken(str(error)) from error

    def _broken(self, why: str) -> CorruptError:
        message = f"The {self._what} is damaged: {why}. Run the write or read again."
        return CorruptError(message, kind="wire")
