"""The log as the server sends it: packets of the replication protocol, read by our own loop.

1. PyMySQL makes the connection and logs in; then this loop has its socket to itself.
2. The session says that it knows checksums, how often it wants a sign of life, and MariaDB's
   capability to take GTID events.
3. COM_REGISTER_SLAVE puts the reader into ``SHOW SLAVE HOSTS``, so that others see its server id.
4. A dump starts at GTIDs where the position has some, else at file and offset; then each packet is
   a byte 0 and an event, or an error, or the end.

Source of the bytes: MySQL's internals manual, "Replication Protocol"; for MariaDB its knowledge
base, "Replica registration".
"""

from __future__ import annotations

import struct
import uuid
from typing import Any

from tidelake.cdc.mysql.binlog.events import BinlogEvent, EventType, has_checksums, parse_event
from tidelake.cdc.mysql.connection import close_quietly, connect, error_of, our_errors
from tidelake.cdc.mysql.position import BinlogPosition, MySqlGtids
from tidelake.cdc.mysql.settings import MySqlSettings
from tidelake.engine.env import Clock
from tidelake.errors import CorruptError, StorageError

COM_REGISTER_SLAVE, COM_BINLOG_DUMP, COM_BINLOG_DUMP_GTID = 0x15, 0x12, 0x1E
PACKET_PART_MAX = 0xFF_FFFF
"""A packet of this size goes on in the next one."""
RECEIVED_MAX = 1 << 18
OFFSET_MAX = 2**32 - 1
WRITE_SECONDS = 3_600
"""How long the server waits for a job that writes; then we connect again."""
MARIA_CAPABILITY = 4


class BinlogStream:
    """One dump of the log, from a position on.

    Parameters
    ----------
    start : BinlogPosition
        Between transactions: its `rows` have no meaning here.

    Raises
    ------
    NotFoundError
        The server no longer has the position: kind ``cdc_position_lost``.
    """

    def __init__(
        self, settings: MySqlSettings, start: BinlogPosition, clock: Clock, *, is_maria: bool
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._connection = connect(settings)
        self._data, self._at = b"", 0
        self._has_checksum = False
        try:
            with our_errors(settings):
                self._prepare(start, is_maria=is_maria)
                self._register()
                self._dump(start, is_maria=is_maria)
        except BaseException:
            self.close()
            raise
        self._socket: Any = self._connection._sock

    def _prepare(self, start: BinlogPosition, *, is_maria: bool) -> None:
        period = self._settings.heartbeat_ms * 1_000_000
        words = [
            "SET @master_binlog_checksum = @@global.binlog_checksum",
            "SET @source_binlog_checksum = @@global.binlog_checksum",
            f"SET @master_heartbeat_period = {period}, @source_heartbeat_period = {period}",
            f"SET SESSION net_write_timeout = {WRITE_SECONDS}",
        ]
        if is_maria:
            words.append(f"SET @mariadb_slave_capability = {MARIA_CAPABILITY}")
            if start.gtids:
                state = start.gtids
                assert all(c in "0123456789,-" for c in state), state
                words.append(f"SET @slave_connect_state = '{state}', @slave_gtid_strict_mode = 1")
        else:
            # MySQL ends an older dump of the same uuid; without one, two readers would not notice
            name = uuid.UUID(int=self._settings.server_id)
            words.append(f"SET @slave_uuid = '{name}', @replica_uuid = '{name}'")
        with self._connection.cursor() as cursor:
            for word in words:
                cursor.execute(word)
            # the first event, which names the file, comes before the one that says it
            cursor.execute("SELECT @@global.binlog_checksum")
            self._has_checksum = cursor.fetchone()[0] == "CRC32"

    def _register(self) -> None:
        name = b"tidelake"
        body = struct.pack("<IB", self._settings.server_id, len(name)) + name
        body += bytes(2) + struct.pack("<HII", 0, 0, 0)
        self._connection._execute_command(COM_REGISTER_SLAVE, body)
        self._connection._read_packet()

    def _dump(self, start: BinlogPosition, *, is_maria: bool) -> None:
        server = self._settings.server_id
        if start.gtids and not is_maria:
            known = MySqlGtids.parse(start.gtids).packed()
            body = struct.pack("<HIIQI", 0, server, 0, 4, len(known)) + known
            self._connection._execute_command(COM_BINLOG_DUMP_GTID, body)
            return
        file, offset = ("", 4) if start.gtids else (start.file, start.offset)
        body = struct.pack("<IHI", min(offset, OFFSET_MAX), 0, server) + file.encode()
        self._connection._execute_command(COM_BINLOG_DUMP, body)

    def next_event(self, wait_ms: float) -> BinlogEvent | None:
        """Give the next event; None if none came in time.

        Raises
        ------
        StorageError
            The connection was lost: kind ``cdc_unreachable``.
        """
        found = self._packet(wait_ms)
        if found is None:
            return None
        data, at, end = found
        head = data[at] if at < end else 0xFE
        if head == 0xFF:
            raise self._error(data[at:end])
        if head == 0xFE and end - at < 9:
            message = (
                "The server ended the dump of its log: it shuts down, or the reader was killed."
            )
            raise StorageError(message, kind="cdc_unreachable")
        if head:
            message = f"A packet of the log begins with {head}."
            raise CorruptError(message, kind="cdc_binlog_event")
        event = parse_event(data, at + 1, end, has_checksum=self._has_checksum)
        if event.type == EventType.FORMAT_DESCRIPTION:
            self._has_checksum = has_checksums(event.body)
        return event

    def _packet(self, wait_ms: float) -> tuple[bytes, int, int] | None:
        """Give the bytes of a whole packet and where it stands in them."""
        at = self._at + 4
        if at <= len(self._data):  # mostly the whole packet is there: a log has millions
            size = int.from_bytes(self._data[at - 4 : at - 1], "little")
            if at + size <= len(self._data) and size < PACKET_PART_MAX:
                self._at = at + size
                return self._data, at, at + size
        if not self._fill(4, wait_ms):
            return None
        size = int.from_bytes(self._data[self._at : self._at + 3], "little")
        if size < PACKET_PART_MAX:
            # once a packet has begun, its rest is on the way
            self._fill_rest(4 + size)
            at = self._at + 4
            self._at = at + size
            return self._data, at, at + size
        parts = []
        while True:
            self._fill_rest(4)
            size = int.from_bytes(self._data[self._at : self._at + 3], "little")
            self._fill_rest(4 + size)
            parts.append(self._data[self._at + 4 : self._at + 4 + size])
            self._at += 4 + size
            if size < PACKET_PART_MAX:
                whole = b"".join(parts)
                return whole, 0, len(whole)

    def _fill_rest(self, size: int) -> None:
        if not self._fill(size, self._stall_ms):
            message = "The server stopped in the middle of an event of its log."
            raise StorageError(message, kind="cdc_unreachable")

    @property
    def _stall_ms(self) -> int:
        return max(60_000, 3 * self._settings.heartbeat_ms)

    def _fill(self, size: int, wait_ms: float) -> bool:
        """Receive until so many bytes are there; False if they did not come in time."""
        missing = size - (len(self._data) - self._at)
        if missing <= 0:
            return True
        parts = [self._data[self._at :]]
        deadline = self._clock.monotonic_seconds() + wait_ms / 1000
        try:
            while missing > 0:
                waiting = deadline - self._clock.monotonic_seconds()
                more = self._receive(max(waiting, 0.0001), max(RECEIVED_MAX, min(missing, 1 << 22)))
                if more is None:
                    return False
                parts.append(more)
                missing -= len(more)
        finally:
            self._data, self._at = b"".join(parts), 0
        return True

    def _receive(self, seconds: float, size: int) -> bytes | None:
        try:
            self._socket.settimeout(seconds)
            more: bytes = self._socket.recv(size)
        except TimeoutError:
            return None
        except OSError as error:
            raise error_of(error, self._settings) from error
        if not more:
            message = "The server ended the connection on which its log is read."
            raise StorageError(message, kind="cdc_unreachable")
        return more

    def _error(self, data: bytes) -> Exception:
        code = int.from_bytes(data[1:3], "little")
        text = data[9:] if data[3:4] == b"#" else data[3:]
        return error_of(OSError(code, text.decode("utf-8", "replace")), self._settings)

    def close(self) -> None:
        """End the connection; the server notices."""
        close_quietly(self._connection)
