"""Binlogs without a server: files as streams, and events made by hand."""

from __future__ import annotations

import struct
import zlib

from tidelake.cdc.mysql.binlog.events import (
    HEADER_SIZE,
    EventType,
    has_checksums,
    parse_event,
)
from tidelake.cdc.mysql.log_reader import BinlogReader, ServerFlavour
from tidelake.cdc.mysql.position import BinlogPosition
from tidelake.cdc.source.source import EpochLimits
from tidelake.cdc.source.type_mapping import TypeMapping
from tidelake.engine.env import SystemClock

OTHER = "ffffffff-0000-0000-0000-000000000000"
"""A server whose transactions were read before."""
MAGIC = b"\xfebin"
COLLATIONS = {8: "latin1", 28: "gbk", 33: "utf8mb3", 45: "utf8mb4", 54: "utf16", 63: "binary",
              192: "utf8mb3", 224: "utf8mb4", 255: "utf8mb4"}  # fmt: skip
MARIA = ServerFlavour(is_maria=True, has_names=True, folds_names=False, charsets=COLLATIONS)
MYSQL8 = ServerFlavour(is_maria=False, has_names=True, folds_names=False, charsets=COLLATIONS)
MYSQL56 = ServerFlavour(is_maria=False, has_names=False, folds_names=False, charsets=COLLATIONS)
NOW = EpochLimits(wait_ms=60_000, gather_ms=60_000)


class FileStream:
    """The events of a file, as a server sends them."""

    def __init__(self, data, offset=4):
        assert data.startswith(MAGIC)
        self.data, self.at = data, 4
        self.has_checksum = False
        self.offset = offset

    def next_event(self, wait_ms):
        while self.at < len(self.data):
            size = int.from_bytes(self.data[self.at + 9 : self.at + 13], "little")
            start, self.at = self.at, self.at + size
            event = parse_event(self.data, start, self.at, has_checksum=self.has_checksum)
            if event.type == EventType.FORMAT_DESCRIPTION:
                self.has_checksum = has_checksums(event.body)
            if start >= self.offset:
                return event
        return None

    def close(self):
        pass


def reader_of(data, flavour, *switches, describe=lambda name: None, zone="UTC"):
    """A reader of the log on a file."""
    return BinlogReader(
        flavour, TypeMapping.of(switches), zone, SystemClock(),
        open_stream=lambda start: FileStream(data, start.offset), describe=describe,
    )  # fmt: skip


def read_file(data, flavour, tables, *switches, limits=NOW, **more):
    """All parts of a file, range by range; replay of each range is checked."""
    reader = reader_of(data, flavour, *switches, **more)
    gtids = "7-7-7" if flavour.is_maria else f"{OTHER}:1-5"
    found, position = [], BinlogPosition("bin.000001", 4, 0, gtids)
    while True:
        got = reader.read(position, tables, limits, None)
        if got.end == position:
            return found
        found.append(got)
        position = got.end


class FileMaker:
    """Makes a file of events."""

    def __init__(self, version=b"8.4.0"):
        self.data = MAGIC
        body = struct.pack("<H50sIB", 4, version, 1, HEADER_SIZE) + bytes(40) + b"\1"
        self.add(EventType.FORMAT_DESCRIPTION, body)

    def add(self, kind, body, *, checksum=True):
        """Add an event, and give its bytes."""
        raw = event_bytes(kind, body, len(self.data) + HEADER_SIZE + len(body) + 4)
        raw += struct.pack("<I", zlib.crc32(raw))
        self.data += raw

    def transaction(self, number, *events, uuid=bytes(range(16))):
        """Add a GTID, BEGIN, events and XID."""
        self.gtid(number, uuid)
        self.add(EventType.QUERY, query("BEGIN"))
        for kind, body in events:
            self.add(kind, body)
        self.add(EventType.XID, struct.pack("<Q", number))

    def gtid(self, number, uuid=bytes(range(16))):
        """Add MySQL 8's GTID, with its times."""
        times = (1_700_000_000_000_000).to_bytes(7, "little") + b"\xfc\x10\0"
        body = b"\1" + uuid + struct.pack("<QBQQ", number, 2, number - 1, number) + times
        self.add(EventType.GTID, body)


def event_bytes(kind, body, end=0):
    """An event without a checksum."""
    size = HEADER_SIZE + len(body) + (4 if end else 0)
    return struct.pack("<IBIIIH", 1_700_000_000, kind, 1, size, end, 0) + body


def query(text, database="shop", mode=0):
    """Body of a QUERY."""
    variables = b"\0" + bytes(4) + b"\1" + struct.pack("<Q", mode)
    head = struct.pack("<IIBHH", 1, 0, len(database), 0, len(variables))
    return head + variables + database.encode() + b"\0" + text.encode()


def packed(number):
    """A length-encoded number."""
    return bytes([number]) if number < 251 else b"\xfc" + struct.pack("<H", number)


def table_map(number, table, kinds, meta, metadata=b"", *, nullable=b"\xff"):
    """Body of a TABLE_MAP."""
    head = number.to_bytes(6, "little") + b"\1\0" + b"\4shop\0"
    head += bytes([len(table)]) + table.encode() + b"\0"
    bits = (nullable * ((len(kinds) + 7) // 8))[: (len(kinds) + 7) // 8]
    return head + packed(len(kinds)) + bytes(kinds) + packed(len(meta)) + meta + bits + metadata


def field(kind, data):
    """A field of a TABLE_MAP's metadata."""
    return bytes([kind]) + packed(len(data)) + data


def texts(*values):
    """Texts with their lengths."""
    return b"".join(packed(len(one)) + one for one in map(str.encode, values))


def rows(number, columns, images, *, is_update=False):
    """Body of a WRITE_ROWS, UPDATE_ROWS or DELETE_ROWS of version 2."""
    present = bytes([255] * ((columns + 7) // 8))
    head = number.to_bytes(6, "little") + b"\1\0" + struct.pack("<H", 2) + packed(columns)
    return head + present * (2 if is_update else 1) + b"".join(images)


def payload(events, *, compress=None):
    """Body of a TRANSACTION_PAYLOAD."""
    plain = b"".join(event_bytes(kind, body) for kind, body in events)
    data = compress(plain) if compress else plain
    sizes = [(2, 0 if compress else 255), (3, len(plain)), (1, len(data))]
    head = b""
    for kind, value in sizes:
        number = packed(value)
        head += packed(kind) + packed(len(number)) + number
    return head + b"\0" + data
