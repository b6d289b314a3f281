"""Where a job begins that copies nothing first: ``scan.startup.mode``.

A file and offset, or a time, is looked for in one file of the log, from its start on: so that the
GTIDs up to there are known, and that a transaction begins there.
"""

from __future__ import annotations

from collections.abc import Callable

from tidelake.cdc.mysql.binlog.events import BinlogEvent, EventType, MySqlGtid, QueryEvent
from tidelake.cdc.mysql.connection import ServerSession
from tidelake.cdc.mysql.log_stream import BinlogStream
from tidelake.cdc.mysql.position import BinlogPosition, MySqlGtids
from tidelake.cdc.mysql.server import ServerFacts, newest
from tidelake.cdc.mysql.settings import MySqlSettings, StartupMode
from tidelake.errors import InvalidInputError, NotFoundError, StorageError

EVENT_WAIT_MS = 60_000
FILE_START = 4

_SERVERS_OWN = frozenset({
    EventType.MARIA_BINLOG_CHECKPOINT, EventType.MARIA_GTID_LIST, EventType.ROTATE, EventType.STOP,
    EventType.PREVIOUS_GTIDS,
})  # fmt: skip
"""Events between transactions."""
_BEGINS = frozenset({EventType.GTID, EventType.ANONYMOUS_GTID, EventType.MARIA_GTID})


def startup_position(
    settings: MySqlSettings,
    session: ServerSession,
    facts: ServerFacts,
    open_stream: Callable[[BinlogPosition], BinlogStream],
) -> BinlogPosition | None:
    """Give the position that the settings ask for; None where a first copy comes first.

    Raises
    ------
    NotFoundError
        The log no longer has it: kind ``cdc_position_lost``.
    InvalidInputError
        It is not the start of a transaction, or not said.
    """
    if settings.startup is StartupMode.INITIAL:
        return None
    now = newest(session, facts)
    files = [str(row[0]) for row in session.rows("SHOW BINARY LOGS")]
    search = _Search(session, facts, open_stream, now)
    match settings.startup:
        case StartupMode.LATEST:
            return now
        case StartupMode.EARLIEST:
            return search.behind(files[0], lambda _offset, _event: True)
        case StartupMode.TIMESTAMP:
            seconds = settings.startup_ms / 1000
            for file in reversed(files):
                if file == files[0] or search.begun(file) <= seconds:
                    return search.behind(file, lambda _offset, event: event.timestamp >= seconds)
        case StartupMode.SPECIFIC if settings.startup_gtids:
            return BinlogPosition(files[0], FILE_START, 0, settings.startup_gtids)
        case StartupMode.SPECIFIC:
            return _at(settings.startup_file, settings.startup_pos, files, search)
    raise AssertionError(settings.startup)


def _at(file: str, offset: int, files: list[str], search: _Search) -> BinlogPosition:
    if not file:
        message = (
            "'specific-offset' needs scan.startup.specific-offset.file and .pos, or .gtid-set."
        )
        raise InvalidInputError(message, kind="option_missing", option="scan.startup.mode")
    if file not in files:
        message = f"The server's log no longer has the file '{file}'; it has {', '.join(files)}."
        raise NotFoundError(message, kind="cdc_position_lost")
    if (file, offset) == (search.now.file, search.now.offset):
        return search.now
    search.mark = offset
    found = search.behind(file, lambda start, _event: start >= offset)
    # the server writes events of its own between transactions, such as a checkpoint of MariaDB
    if found.offset != offset and offset != FILE_START and not search.is_mark_between:
        message = (
            f"No transaction begins at {file}:{offset}; the next one begins at {found.offset}."
        )
        raise InvalidInputError(message, kind="cdc_position")
    return found


class _Search:
    """Looks into single files of the log."""

    def __init__(
        self,
        session: ServerSession,
        facts: ServerFacts,
        open_stream: Callable[[BinlogPosition], BinlogStream],
        now: BinlogPosition,
    ) -> None:
        self._session = session
        self._facts = facts
        self._open_stream = open_stream
        self.now = now
        self.mark = -1
        """An offset, of which `behind` finds out whether it lies between transactions."""
        self.is_mark_between = False

    def begun(self, file: str) -> int:
        """When a file was begun, in seconds since 1970."""
        stream = self._open_stream(BinlogPosition(file, FILE_START))
        try:
            while True:
                event = self._next(stream)
                if event.type == EventType.FORMAT_DESCRIPTION:
                    return event.timestamp
        finally:
            stream.close()

    def _next(self, stream: BinlogStream) -> BinlogEvent:
        event = stream.next_event(EVENT_WAIT_MS)
        if event is None:
            message = "The server sends nothing of its log."
            raise StorageError(message, kind="cdc_unreachable")
        return event

    def behind(self, file: str, wanted: Callable[[int, BinlogEvent], bool]) -> BinlogPosition:
        """Give where the first transaction begins that is wanted, else where the log ends."""
        if (self.now.file, self.now.offset) == (file, FILE_START):
            return self.now
        stream = self._open_stream(BinlogPosition(file, FILE_START))
        known, is_within, pending = MySqlGtids(), False, None
        try:
            while True:
                event = self._next(stream)
                if event.is_artificial or event.type == EventType.HEARTBEAT:
                    continue
                start = event.end - event.size
                if event.type == EventType.PREVIOUS_GTIDS:
                    known = MySqlGtids.unpacked(event.body)
                self.is_mark_between |= start == self.mark and event.type in _SERVERS_OWN
                is_query = event.type == EventType.QUERY
                begins = event.type in _BEGINS or (is_query and not is_within)
                if begins and wanted(start, event):
                    return self._position(file, start, known)
                if event.type in {EventType.GTID, EventType.ANONYMOUS_GTID}:
                    pending = MySqlGtid.parse(event)
                is_within = event.type in _BEGINS or (
                    is_within and event.type != EventType.XID
                    if not is_query
                    else QueryEvent.parse(event.body).text == "BEGIN"
                )
                if pending is not None and pending.uuid and not is_within:
                    known.add(pending.uuid, pending.number)
                    pending = None
                if event.type == EventType.ROTATE or (
                    event.end >= self.now.offset and (file == self.now.file)
                ):
                    return self._position(file, event.end, known)
        finally:
            stream.close()

    def _position(self, file: str, offset: int, known: MySqlGtids) -> BinlogPosition:
        if self._facts.is_maria:
            rows = self._session.rows("SELECT BINLOG_GTID_POS(%s, %s)", [file, offset])
            return BinlogPosition(file, offset, 0, str(rows[0][0] or ""))
        return BinlogPosition(file, offset, 0, str(known) if self._facts.has_gtids else "")
