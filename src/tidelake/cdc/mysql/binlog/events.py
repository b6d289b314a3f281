"""Events of a binlog: their header, and the bodies of all that are not rows.

Header, 19 bytes, little endian::

    timestamp u32 | type u8 | server_id u32 | size u32 | end position u32 | flags u16

Then the body, then four bytes of CRC-32 where the server has checksums on. A FORMAT_DESCRIPTION
says whether. Source: MySQL's internals manual, ``binlog_event.h`` of MySQL 8 and ``log_event.h`` of
MariaDB 10.11.
"""

from __future__ import annotations

import struct
import uuid
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from tidelake.engine.codec import ZstdDecompressor, ZstdError
from tidelake.errors import CorruptError, UnsupportedError

HEADER_SIZE = 19
CHECKSUM_SIZE = 4
ARTIFICIAL = 0x20
"""Flag of an event that the server made for this reader: it stands in no file."""
PAYLOAD_SIZE_MAX = 1 << 31
QUERY_SIZE_MAX = 1 << 27

HEADER = struct.Struct("<IBIIIH")


class EventType(IntEnum):
    """The types of events that are read (on the wire: never renumber)."""

    QUERY = 2
    STOP = 3
    ROTATE = 4
    FORMAT_DESCRIPTION = 15
    XID = 16
    TABLE_MAP = 19
    WRITE_ROWS_V1 = 23
    UPDATE_ROWS_V1 = 24
    DELETE_ROWS_V1 = 25
    INCIDENT = 26
    HEARTBEAT = 27
    WRITE_ROWS = 30
    UPDATE_ROWS = 31
    DELETE_ROWS = 32
    GTID = 33
    ANONYMOUS_GTID = 34
    PREVIOUS_GTIDS = 35
    XA_PREPARE = 38
    PARTIAL_UPDATE_ROWS = 39
    TRANSACTION_PAYLOAD = 40
    HEARTBEAT_V2 = 41
    GTID_TAGGED = 42
    MARIA_ANNOTATE_ROWS = 160
    MARIA_BINLOG_CHECKPOINT = 161
    MARIA_GTID = 162
    MARIA_GTID_LIST = 163
    MARIA_START_ENCRYPTION = 164
    MARIA_QUERY_COMPRESSED = 165
    MARIA_WRITE_ROWS_COMPRESSED_V1 = 166
    MARIA_UPDATE_ROWS_COMPRESSED_V1 = 167
    MARIA_DELETE_ROWS_COMPRESSED_V1 = 168
    MARIA_WRITE_ROWS_COMPRESSED = 169
    MARIA_UPDATE_ROWS_COMPRESSED = 170
    MARIA_DELETE_ROWS_COMPRESSED = 171


class BinlogEvent(NamedTuple):
    """One event; a tuple, because a log has millions.

    Parameters
    ----------
    type : int
        Number of its type, which may be one that is not known.
    end : int
        Low 32 bits of the position after it in its file; 0 where it stands in none.
    body : bytes
        Without header and checksum.
    """

    type: int
    timestamp: int
    server_id: int
    size: int
    end: int
    flags: int
    body: bytes

    @property
    def is_artificial(self) -> bool:
        """Whether the server made it for this reader."""
        return bool(self.flags & ARTIFICIAL) or self.end == 0


_FORMAT_DESCRIPTION = int(EventType.FORMAT_DESCRIPTION)  # a look into an enum costs more


def parse_event(data: bytes, at: int, end: int, *, has_checksum: bool) -> BinlogEvent:
    """Read the event in ``data[at:end]``, and check its checksum.

    Raises
    ------
    CorruptError
        It is cut short, or its checksum is not that of its bytes.
    """
    if end - at < HEADER_SIZE:
        message = f"An event of the binlog has {end - at} bytes; its header alone has 19."
        raise CorruptError(message, kind="cdc_binlog_event")
    timestamp, kind, server_id, size, position, flags = HEADER.unpack_from(data, at)
    stop = end
    # MySQL sets a flag in a FORMAT_DESCRIPTION after it took the checksum
    if has_checksum and kind != _FORMAT_DESCRIPTION:
        stop = end - CHECKSUM_SIZE
        found = int.from_bytes(data[stop:end], "little")
        if zlib.crc32(memoryview(data)[at:stop]) != found:
            message = (
                f"The checksum of an event of the binlog is wrong (type {kind}, end {position}):"
                " the server's disk or the network damaged it. See the server's error log."
            )
            raise CorruptError(message, kind="cdc_binlog_checksum")
    if size != end - at:
        message = f"An event of the binlog says {size} bytes and has {end - at}."
        raise CorruptError(message, kind="cdc_binlog_event")
    return BinlogEvent(
        kind, timestamp, server_id, size, position, flags, data[at + HEADER_SIZE : stop]
    )


def has_checksums(body: bytes) -> bool:
    """Whether the events after this FORMAT_DESCRIPTION carry a checksum.

    Its last five bytes are the algorithm and its own checksum, in servers since MySQL 5.6 and
    MariaDB 5.3; older ones are refused.
    """
    version = body[2:52].rstrip(b"\0").decode("latin1")
    numbers = [int("".join(c for c in part if c.isdigit()) or 0) for part in version.split(".")[:3]]
    if numbers < [5, 6]:
        message = f"The server wrote its log as MySQL {version}; 5.6 or later is needed."
        raise UnsupportedError(message, kind="cdc_server_version")
    return len(body) >= CHECKSUM_SIZE + 1 and body[-CHECKSUM_SIZE - 1] == 1


def parse_rotate(body: bytes) -> tuple[str, int]:
    """Read name and position of the next file."""
    return body[8:].decode(), int.from_bytes(body[:8], "little")


@dataclass(frozen=True, slots=True)
class MariaGtid:
    """MariaDB's mark of a group of events."""

    domain: int
    server_id: int
    number: int
    is_standalone: bool
    """Whether the group is one event without COMMIT."""
    is_xa: bool

    @classmethod
    def parse(cls, event: BinlogEvent) -> MariaGtid:
        """Read it."""
        number, domain, flags = struct.unpack_from("<QIB", event.body)
        return cls(domain, event.server_id, number, bool(flags & 1), bool(flags & (64 | 128)))


@dataclass(frozen=True, slots=True)
class MySqlGtid:
    """MySQL's mark of a transaction; its uuid is empty where GTIDs are off."""

    uuid: str
    number: int
    committed_us: int
    """When it was committed, 0 before MySQL 8."""

    @classmethod
    def parse(cls, event: BinlogEvent) -> MySqlGtid:
        """Read it."""
        body = event.body
        committed = 0
        if len(body) >= 49:
            committed = int.from_bytes(body[42:49], "little") & ((1 << 55) - 1)
        if event.type == EventType.ANONYMOUS_GTID:
            return cls("", 0, committed)
        return cls(
            str(uuid.UUID(bytes=body[1:17])), int.from_bytes(body[17:25], "little"), committed
        )


ANSI_QUOTES = 4
NO_BACKSLASH_ESCAPES = 1 << 20


@dataclass(frozen=True, slots=True)
class QueryEvent:
    """A statement in the log."""

    database: str
    text: str
    has_ansi_quotes: bool = False
    has_no_backslashes: bool = False

    @classmethod
    def parse(cls, body: bytes) -> QueryEvent:
        """Read it; its text is in the charset of the connection that sent it, else in UTF-8."""
        _, _, name_size, _, vars_size = struct.unpack_from("<IIBHH", body)
        at = 13 + vars_size
        mode = _sql_mode(body[13:at])
        name = body[at : at + name_size].decode("utf-8", "surrogateescape")
        text = body[at + name_size + 1 :].decode("utf-8", "surrogateescape")
        return cls(name, text, bool(mode & ANSI_QUOTES), bool(mode & NO_BACKSLASH_ESCAPES))


def _sql_mode(variables: bytes) -> int:
    """Find the SQL mode; the variables come in the order of their codes, it is the second."""
    at = 5 if variables[:1] == b"\0" else 0
    if variables[at : at + 1] == b"\1":
        return int.from_bytes(variables[at + 1 : at + 9], "little")
    return 0


def decompress_maria(body: bytes, size_max: int = QUERY_SIZE_MAX) -> bytes:
    """Expand a part that MariaDB compressed: ``0x80 | algorithm << 4 | n``, n bytes of size, zlib.

    Raises
    ------
    CorruptError
        The bytes are not what they say.
    """
    head = body[0] if body else 0
    width = head & 7
    size = int.from_bytes(body[1 : 1 + width], "big")
    if not head & 0x80 or (head >> 4) & 7 or size > size_max:
        message = "A compressed event of the binlog has a head that is not known."
        raise CorruptError(message, kind="cdc_binlog_event")
    try:
        plain = zlib.decompress(body[1 + width :])
    except zlib.error as error:
        message = f"A compressed event of the binlog is damaged: {error}."
        raise CorruptError(message, kind="cdc_binlog_event") from error
    if len(plain) != size:
        message = f"A compressed event of the binlog says {size} bytes and has {len(plain)}."
        raise CorruptError(message, kind="cdc_binlog_event")
    return plain


def payload_events(body: bytes) -> Iterator[BinlogEvent]:
    """Read the events inside a TRANSACTION_PAYLOAD; they have no checksums.

    Its head is fields of (type, length, value), each a length-encoded number: 0 ends it, 1 is the
    size of the payload, 2 the compression (0 zstd, 255 none), 3 the size before compression.
    """
    at, kind, size = 0, 255, 0
    while True:
        field, at = packed_int(body, at)
        if field == 0:
            break
        length, at = packed_int(body, at)
        value, _ = packed_int(body, at)
        at += length
        if field == 2:
            kind = value
        elif field == 3:
            size = value
    plain = body[at:]
    if kind == 0:
        if size > PAYLOAD_SIZE_MAX:
            message = f"A compressed transaction of {size} bytes is too large."
            raise UnsupportedError(message, kind="cdc_transaction_size")
        try:
            plain = ZstdDecompressor().decompress(plain, max_length=size or PAYLOAD_SIZE_MAX)
        except ZstdError as error:
            message = f"A compressed transaction of the binlog is damaged: {error}."
            raise CorruptError(message, kind="cdc_binlog_event") from error
    elif kind != 255:
        message = f"The binlog has a transaction with compression {kind}, which is not known."
        raise UnsupportedError(message, kind="cdc_compression")
    at = 0
    while at < len(plain):
        if len(plain) - at < HEADER_SIZE:
            message = "A compressed transaction of the binlog is cut short."
            raise CorruptError(message, kind="cdc_binlog_event")
        size = int.from_bytes(plain[at + 9 : at + 13], "little")
        yield parse_event(
            plain, at, min(len(plain), at + max(size, HEADER_SIZE)), has_checksum=False
        )
        at += max(size, HEADER_SIZE)


def packed_int(data: bytes, at: int) -> tuple[int, int]:
    """Read a length-encoded number; gives where the next byte is.

    Examples
    --------
    >>> packed_int(bytes([0xFC, 1, 1]), 0)
    (257, 3)
    """
    first = data[at]
    if first < 251:
        return first, at + 1
    width = {252: 2, 253: 3, 254: 8}[first]
    return int.from_bytes(data[at + 1 : at + 1 + width], "little"), at + 1 + width
