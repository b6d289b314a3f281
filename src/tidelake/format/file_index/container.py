"""The container of a data file's indexes: the indexes of each column, and their bytes.

Layout, all numbers BIG endian (on disk: never renumber)::

    magic i64 1493475289347502 version i32 1 head length i32 bytes from the magic to the end of the
    redundant bytes columns i32 per column: name, i32 number of indexes, and per index: kind, i32
    start, i32 length redundant length i32 redundant bytes for later versions: readers skip them
    body the indexes

Names are Java's modified UTF-8 after an u16 of their length. A start is an offset from the magic;
-1 is an index without bytes.

The format has no checksum, and a flipped bit in an index could hide rows. Our files have checksums
in the redundant bytes, which Java skips::

    crc per index     u32      CRC-32 of its bytes, in the order of the head
    crc of the head   u32      CRC-32 of all bytes before this one
    tag               4 bytes  "TLc1", the last of the head, so that it is found before anything
                               else is believed

Source: Paimon's ``FileIndexFormat`` (1.3.1).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from tidelake.errors import CorruptError, UnsupportedError

_MAGIC = 1493475289347502
_VERSION = 1
_NO_BYTES = -1
_TAG = b"TLc1"
_TRAILER_SIZE = 4 + len(_TAG)
_FIXED = struct.Struct(">qii")
_PLACE = struct.Struct(">ii")

FIXED_SIZE = _FIXED.size
"""The bytes that hold the length of the head."""
HEAD_SIZE_MAX = 16 << 20
_COLUMNS_MAX = 20_000
_NAME_SIZE_MAX = 65_535


@dataclass(frozen=True, slots=True)
class FileIndexEntry:
    """The location of one index of one column.

    Parameters
    ----------
    kind : str
        The kind of index, such as ``bloom-filter``.
    start, length : int
        Range of its bytes; a start of -1 is an index without bytes.
    crc : int, optional
        CRC-32 of the bytes, if the writer stored one.
    """

    column: str
    kind: str
    start: int
    length: int
    crc: int | None = None

    def check(self, body: bytes) -> bytes:
        """Return the index's bytes; raise ``CorruptError`` if they differ from the checksum."""
        if len(body) != self.length:
            message = f"the {self.kind} index of column '{self.column}' is cut off"
            raise _damaged(message)
        if self.crc is not None and zlib.crc32(body) != self.crc:
            message = f"the {self.kind} index of column '{self.column}' has another checksum"
            raise _damaged(message)
        return body


def serialize(indexes: Mapping[str, Mapping[str, bytes]]) -> bytes:
    """Write a container of indexes by column and kind.

    Examples
    --------
    >>> data = serialize({"a": {"bloom-filter": b"xyz"}})
    >>> [(e.column, e.kind, e.start, e.length) for e in parse_head(data[: head_size(data)])]
    [('a', 'bloom-filter', 65, 3)]
    """
    bodies = [body for kinds in indexes.values() for body in kinds.values()]
    names_size = sum(
        len(_utf(column)) + 4 + sum(len(_utf(kind)) + _PLACE.size for kind in kinds)
        for column, kinds in indexes.items()
    )
    redundant_size = 4 * len(bodies) + _TRAILER_SIZE
    size = FIXED_SIZE + 4 + names_size + 4 + redundant_size
    head = bytearray(_FIXED.pack(_MAGIC, _VERSION, size))
    head += struct.pack(">i", len(indexes))
    start = size
    for column, kinds in indexes.items():
        head += _utf(column) + struct.pack(">i", len(kinds))
        for kind, body in kinds.items():
            head += _utf(kind) + _PLACE.pack(start, len(body))
            start += len(body)
    head += struct.pack(">i", redundant_size)
    head += b"".join(_crc(body) for body in bodies)
    head += _crc(bytes(head)) + _TAG
    assert len(head) == size, "the head has the length that it states"
    return bytes(head) + b"".join(bodies)


def head_size(data: bytes) -> int:
    """Read the length of the head from its first :data:`FIXED_SIZE` bytes.

    Raises
    ------
    CorruptError
        The bytes are not a file index.
    UnsupportedError
        It is of a later version.
    """
    if len(data) < FIXED_SIZE:
        message = f"it is {len(data)} bytes long"
        raise _damaged(message)
    magic, version, size = _FIXED.unpack_from(data)
    if magic != _MAGIC:
        message = "it does not begin like a file index"
        raise _damaged(message)
    if version != _VERSION:
        text = f"A file index has version {version}; this version of Tidelake reads {_VERSION}."
        raise UnsupportedError(text, kind="file_index_version")
    if not FIXED_SIZE + 8 <= size <= HEAD_SIZE_MAX:
        message = f"its head claims {size} bytes"
        raise _damaged(message)
    return int(size)


def parse_head(head: bytes) -> tuple[FileIndexEntry, ...]:
    """Read the locations of all indexes.

    Parameters
    ----------
    head : bytes
        The first bytes, of the length :func:`head_size`.

    Raises
    ------
    CorruptError
        The head is damaged.
    """
    if len(head) != head_size(head):
        message = "its head is cut off"
        raise _damaged(message)
    has_crcs = head.endswith(_TAG)
    if has_crcs and head[-_TRAILER_SIZE : -len(_TAG)] != _crc(head[:-_TRAILER_SIZE]):
        message = "its head has another checksum"
        raise _damaged(message)
    source = _Head(head)
    entries: list[FileIndexEntry] = []
    columns = source.integer()
    if not 0 <= columns <= _COLUMNS_MAX:
        message = f"it claims {columns} columns"
        raise _damaged(message)
    for _ in range(columns):
        column = source.text()
        kinds = source.integer()
        if not 0 <= kinds <= _COLUMNS_MAX:
            message = f"it claims {kinds} indexes for column '{column}'"
            raise _damaged(message)
        entries.extend(
            FileIndexEntry(column, source.text(), source.integer(), source.integer())
            for _ in range(kinds)
        )
    for entry in entries:
        if entry.start != _NO_BYTES and (entry.start < len(head) or entry.length < 0):
            message = f"the {entry.kind} index of column '{entry.column}' has no position"
            raise _damaged(message)
    redundant = source.take(source.integer())
    if not has_crcs or len(redundant) != 4 * len(entries) + _TRAILER_SIZE:
        return tuple(entries)
    crcs = struct.unpack_from(f">{len(entries)}I", redundant)
    return tuple(
        FileIndexEntry(e.column, e.kind, e.start, e.length, crc)
        for e, crc in zip(entries, crcs, strict=True)
    )


def _crc(data: bytes) -> bytes:
    return zlib.crc32(data).to_bytes(4, "big")


class _Head:
    """Reads the head from front to end."""

    def __init__(self, head: bytes) -> None:
        self.head = head
        self.at = FIXED_SIZE

    def take(self, size: int) -> bytes:
        if not 0 <= size <= len(self.head) - self.at:
            message = "its head is cut off"
            raise _damaged(message)
        self.at += size
        return self.head[self.at - size : self.at]

    def integer(self) -> int:
        return int.from_bytes(self.take(4), "big", signed=True)

    def text(self) -> str:
        data = self.take(int.from_bytes(self.take(2), "big"))
        try:
            units = data.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
            return units.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        except UnicodeError as error:
            message = "a name in it is not text"
            raise _damaged(message) from error


def _utf(text: str) -> bytes:
    """Encode a text as Java's ``writeUTF`` does: per UTF-16 unit, NUL in two bytes."""
    units = text.encode("utf-16-le").decode("utf-16-le", "surrogatepass")
    wide = "".join(
        character if ord(character) < 0x10000 else _surrogates(ord(character))
        for character in units
    )
    data = wide.encode("utf-8", "surrogatepass").replace(b"\0", b"\xc0\x80")
    assert len(data) <= _NAME_SIZE_MAX, "names of columns are shorter"
    return len(data).to_bytes(2, "big") + data


def _surrogates(code_point: int) -> str:
    above = code_point - 0x10000
    return chr(0xD800 + (above >> 10)) + chr(0xDC00 + (above & 0x3FF))


def _damaged(reason: str) -> CorruptError:
    message = f"A file index is damaged: {reason}."
    return CorruptError(message, kind="file_index")
