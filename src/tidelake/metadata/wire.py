"""Bytes that travel between driver and executors: a framed, checked form of small values.

A message is a frame around a body of values without names or types; both ends know the order::

    magic     4 bytes   says what it is, e.g. 54 4C 43 4D "TLCM" for a commit message
    version   u8
    body      n bytes
    crc32     u32 LE    of everything before it

Values of the body:

=========  =====================================================================
integer    zigzag LEB128: (n << 1) ^ (n >> 63), 7 bits a byte, lowest first
bytes      integer length, then the bytes
text       bytes in UTF-8
optional   u8 0 or 1, then the value if 1
sequence   integer count, then the values
=========  =====================================================================

Nothing here can run code, and each length is checked against what is left before memory is taken:
hostile bytes give a :class:`CorruptError` and no more.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence
from typing import TypeVar

from tidelake.errors import CorruptError, UnsupportedError
from tidelake.metadata.data_file import DataFileMeta, SimpleStats

__all__ = ["WireReader", "WireWriter", "get_file", "put_file"]

T = TypeVar("T")

INTEGER_BYTES_MAX = 10
_LONG_MAX = 2**63
_FRAME_BYTES = 4 + 1 + 4


class WireWriter:
    """Builds one message.

    Parameters
    ----------
    magic : bytes
        Four bytes that say what the message is.
    version : int
        Version of the body's layout.

    Examples
    --------
    >>> out = WireWriter(b"DEMO", 1)
    >>> out.integer(-2); out.text("é")
    >>> out.finish().hex()
    '44454d4f010304c3a96f97d9b8'
    """

    def __init__(self, magic: bytes, version: int) -> None:
        assert len(magic) == 4
        self._out = bytearray(magic)
        self._out.append(version)

    def integer(self, value: int) -> None:
        """Put a signed number of at most 64 bits."""
        assert -_LONG_MAX <= value < _LONG_MAX, value
        rest = (value << 1) ^ (value >> 63)
        while rest > 0x7F:
            self._out.append(rest & 0x7F | 0x80)
            rest >>= 7
        self._out.append(rest)

    def blob(self, value: bytes) -> None:
        """Put bytes."""
        self.integer(len(value))
        self._out += value

    def text(self, value: str) -> None:
        """Put text."""
        self.blob(value.encode())

    def optional(self, value: T | None, put: Callable[[T], None]) -> None:
        """Put a value or its absence."""
        self._out.append(value is not None)
        if value is not None:
            put(value)

    def sequence(self, values: Sequence[T], put: Callable[[T], None]) -> None:
        """Put values one after the other."""
        self.integer(len(values))
        for value in values:
            put(value)

    def finish(self) -> bytes:
        """Close the frame."""
        return bytes(self._out) + struct.pack("<I", zlib.crc32(self._out))


class WireReader:
    """Takes one message apart.

    Parameters
    ----------
    data : bytes
        The message.
    magic : bytes
        What it must be.
    version : int
        The version of its body that the caller knows.
    what : str
        What it is, for messages.

    Raises
    ------
    CorruptError
        The frame is damaged or is something else.
    UnsupportedError
        It was written by a version with another layout.

    Examples
    --------
    >>> data = bytes.fromhex("44454d4f010304c3a96f97d9b8")
    >>> back = WireReader(data, magic=b"DEMO", version=1, what="demo")
    >>> back.integer(), back.text()
    (-2, 'é')
    >>> back.finish()
    """

    def __init__(self, data: bytes, *, magic: bytes, version: int, what: str) -> None:
        self._what = what
        if len(data) < _FRAME_BYTES or data[:4] != magic:
            raise self._broken("it does not begin as one")
        if zlib.crc32(data[:-4]) != struct.unpack("<I", data[-4:])[0]:
            raise self._broken("its checksum differs")
        if data[4] != version:
            message = (
                f"The {what} has layout {data[4]} and this version reads {version}: use the same"
                " version of tidelake on driver and executors."
            )
            raise UnsupportedError(message, kind="wire_version")
        self._data = data
        self._position = 5
        self._end = len(data) - 4

    def integer(self) -> int:
        """Take a number."""
        value = 0
        for shift in range(0, 7 * INTEGER_BYTES_MAX, 7):
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value >= 1 << 64:
                    break
                return (value >> 1) ^ -(value & 1)
        raise self._broken("a number is too long")

    def count(self) -> int:
        """Take a length: not negative, and not more than the bytes that are left."""
        value = self.integer()
        if not 0 <= value <= self._end - self._position:
            raise self._broken("a length goes beyond its end")
        return value

    def blob(self) -> bytes:
        """Take bytes."""
        length = self.count()
        start, self._position = self._position, self._position + length
        return self._data[start : self._position]

    def text(self) -> str:
        """Take text."""
        try:
            return self.blob().decode()
        except UnicodeDecodeError as error:
            raise self._broken("a text is not UTF-8") from error

    def optional(self, get: Callable[[], T]) -> T | None:
        """Take a value or its absence."""
        flag = self._byte()
        if flag > 1:
            raise self._broken("a flag is neither 0 nor 1")
        return get() if flag else None

    def sequence(self, get: Callable[[], T]) -> tuple[T, ...]:
        """Take values that follow each other; each takes at least one byte."""
        return tuple(get() for _ in range(self.count()))

    def finish(self) -> None:
        """Check that nothing is left."""
        if self._position != self._end:
            raise self._broken(f"{self._end - self._position} bytes are left over")

    def _byte(self) -> int:
        if self._position >= self._end:
            raise self._broken("it ends early")
        self._position += 1
        return self._data[self._position - 1]

    def _broken(self, why: str) -> CorruptError:
        message = f"The {self._what} is damaged: {why}. Run the write or read again."
        return CorruptError(message, kind="wire")


def put_file(out: WireWriter, file: DataFileMeta) -> None:
    """Put a data file's description, fields in the order of :class:`DataFileMeta`."""
    out.text(file.file_name)
    out.integer(file.file_size_bytes)
    out.integer(file.row_count)
    out.blob(file.min_key)
    out.blob(file.max_key)
    _put_stats(out, file.key_stats)
    _put_stats(out, file.value_stats)
    out.integer(file.min_sequence_number)
    out.integer(file.max_sequence_number)
    out.integer(file.schema_id)
    out.integer(file.level)
    out.sequence(file.extra_files, out.text)
    out.optional(file.creation_time_ms, out.integer)
    out.optional(file.delete_row_count, out.integer)
    out.optional(file.embedded_index, out.blob)
    out.optional(file.file_source, out.integer)
    out.optional(file.value_stats_cols, lambda names: out.sequence(names, out.text))
    out.optional(file.external_path, out.text)
    out.optional(file.first_row_id, out.integer)
    out.optional(file.write_cols, lambda names: out.sequence(names, out.text))
    out.optional(file.write_cols_sequences, lambda ids: out.sequence(ids, out.integer))


def get_file(source: WireReader) -> DataFileMeta:
    """Take a data file's description."""
    return DataFileMeta(
        file_name=source.text(),
        file_size_bytes=source.integer(),
        row_count=source.integer(),
        min_key=source.blob(),
        max_key=source.blob(),
        key_stats=_get_stats(source),
        value_stats=_get_stats(source),
        min_sequence_number=source.integer(),
        max_sequence_number=source.integer(),
        schema_id=source.integer(),
        level=source.integer(),
        extra_files=source.sequence(source.text),
        creation_time_ms=source.optional(source.integer),
        delete_row_count=source.optional(source.integer),
        embedded_index=source.optional(source.blob),
        file_source=source.optional(source.integer),
        value_stats_cols=source.optional(lambda: source.sequence(source.text)),
        external_path=source.optional(source.text),
        first_row_id=source.optional(source.integer),
        write_cols=source.optional(lambda: source.sequence(source.text)),
        write_cols_sequences=source.optional(lambda: source.sequence(source.integer)),
    )


def _put_stats(out: WireWriter, stats: SimpleStats) -> None:
    out.blob(stats.min_values)
    out.blob(stats.max_values)
    out.sequence(stats.null_counts, lambda count: out.optional(count, out.integer))


def _get_stats(source: WireReader) -> SimpleStats:
    return SimpleStats(
        source.blob(),
        source.blob(),
        source.sequence(lambda: source.optional(source.integer)),
    )
