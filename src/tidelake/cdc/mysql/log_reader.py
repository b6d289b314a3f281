"""Reads ranges of the log: transactions from one position to another, as parts by table.

1. Events come from a stream that stays open between ranges, and is opened again at a position
   where it was lost.
2. A transaction begins with a GTID or BEGIN and ends with XID, COMMIT or a statement of its own.
   Only there a range ends, unless a transaction is larger than a whole range: then it is cut
   behind one of its row events, and the position says how many of them are done. A transaction
   that MySQL compressed is one event, which `max_allowed_packet` bounds; it is not cut.
3. A statement that truncates, drops or renames a table ends the range before it where the table
   has rows in it, and else behind it. So nothing else of a truncated table is in its range.
4. With an `end` nothing of this is decided again: the range goes just to there.

What cannot be told row by row makes the table be read again: rows logged as statements, images
without all columns, partial JSON, transactions that were rolled back after they changed tables
without transactions. XA transactions are refused: the log has their rows before it is known
whether they count.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from tidelake.cdc.mysql.binlog.events import (
    BinlogEvent,
    EventType,
    MariaGtid,
    MySqlGtid,
    QueryEvent,
    decompress_maria,
    parse_rotate,
    payload_events,
)
from tidelake.cdc.mysql.binlog.table_map import names_of, parse_table_map
from tidelake.cdc.mysql.log_stream import BinlogStream
from tidelake.cdc.mysql.position import BinlogPosition, MariaGtids, MySqlGtids, gtids_of
from tidelake.cdc.mysql.row_batch import EVENT_SHIFT, ImageLayout, LoggedVersion, RowBatch
from tidelake.cdc.mysql.statements import (
    LoggedStatement,
    TableAction,
    TableEffect,
    mentioned,
    read_statement,
)
from tidelake.cdc.mysql.values.columns import ReadableTable, UnnamedColumns, table_of
from tidelake.cdc.source.changes import MustReread, Part, TableEvent, Truncated, Vanished
from tidelake.cdc.source.source import EpochLimits
from tidelake.cdc.source.source_table import KeyColumns, SourceName, no_key_columns
from tidelake.cdc.source.type_mapping import TypeMapping
from tidelake.engine.env import Clock
from tidelake.errors import CorruptError, StorageError, UnsupportedError
from tidelake.types import RowKind

STALL_MS = 60_000
"""How long an event of a transaction that has begun may keep us waiting."""
TEXT_SHOWN_MAX = 120
IDLE_MAX = 3
"""Signs of life after each other, without an event, after which the log has no more to give."""

_T = EventType
_ROWS = {
    _T.WRITE_ROWS_V1: RowKind.INSERT, _T.UPDATE_ROWS_V1: RowKind.UPDATE_AFTER,
    _T.DELETE_ROWS_V1: RowKind.DELETE, _T.WRITE_ROWS: RowKind.INSERT,
    _T.UPDATE_ROWS: RowKind.UPDATE_AFTER, _T.DELETE_ROWS: RowKind.DELETE,
    _T.PARTIAL_UPDATE_ROWS: RowKind.UPDATE_AFTER,
    _T.MARIA_WRITE_ROWS_COMPRESSED_V1: RowKind.INSERT,
    _T.MARIA_UPDATE_ROWS_COMPRESSED_V1: RowKind.UPDATE_AFTER,
    _T.MARIA_DELETE_ROWS_COMPRESSED_V1: RowKind.DELETE,
    _T.MARIA_WRITE_ROWS_COMPRESSED: RowKind.INSERT,
    _T.MARIA_UPDATE_ROWS_COMPRESSED: RowKind.UPDATE_AFTER,
    _T.MARIA_DELETE_ROWS_COMPRESSED: RowKind.DELETE,
}  # fmt: skip
_HAVE_EXTRA = frozenset({
    _T.WRITE_ROWS, _T.UPDATE_ROWS, _T.DELETE_ROWS, _T.PARTIAL_UPDATE_ROWS,
    _T.MARIA_WRITE_ROWS_COMPRESSED, _T.MARIA_UPDATE_ROWS_COMPRESSED,
    _T.MARIA_DELETE_ROWS_COMPRESSED,
})  # fmt: skip
_HEARTBEATS = frozenset({_T.HEARTBEAT, _T.HEARTBEAT_V2})
# looks into an enum at each event would cost a tenth of the time of small transactions
_ROTATE, _PAYLOAD, _TABLE_MAP, _XID = map(
    int, (_T.ROTATE, _T.TRANSACTION_PAYLOAD, _T.TABLE_MAP, _T.XID)
)
_GTIDS = frozenset({_T.GTID, _T.ANONYMOUS_GTID, _T.MARIA_GTID})
_OWN = frozenset({
    _T.STOP, _T.FORMAT_DESCRIPTION, _T.PREVIOUS_GTIDS, _T.MARIA_BINLOG_CHECKPOINT,
    _T.MARIA_GTID_LIST, _T.MARIA_START_ENCRYPTION,
})  # fmt: skip
"""What the server writes between transactions: the log of an idle server ends behind them."""
_COMPRESSED = frozenset(kind for kind in _ROWS if kind >= _T.MARIA_WRITE_ROWS_COMPRESSED_V1)


@dataclass(frozen=True, slots=True)
class ServerFlavour:
    """What the reader must know of the server.

    Parameters
    ----------
    has_names : bool
        Whether the server can log names of columns: then tables without them are refused.
    folds_names : bool
        Whether names of tables have no case.
    charsets : mapping of int to str
        Charset of each collation.
    """

    is_maria: bool
    has_names: bool
    folds_names: bool
    charsets: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class BinlogRange:
    """What was read.

    Parameters
    ----------
    seconds : int or None
        When the last transaction was committed, since 1970.
    """

    end: BinlogPosition
    parts: tuple[Part, ...]
    seconds: int | None


@dataclass
class _Gathered:
    """What a range has so far."""

    batches: dict[SourceName, list[RowBatch]] = field(default_factory=dict)
    others: dict[tuple[type, SourceName], Part] = field(default_factory=dict)
    named: list[MustReread] = field(default_factory=list)
    rows_count: int = 0
    bytes_count: int = 0
    seconds: int | None = None

    def note(self, part: TableEvent) -> None:
        """Take a part that is no rows, once for a table."""
        self.others.setdefault((type(part), part.table), part)


class BinlogReader:
    """The state of reading one log.

    Parameters
    ----------
    open_stream : callable
        Opens the log at a position between transactions.
    describe : callable
        Gives a table as it is now; None if it is gone.
    """

    def __init__(
        self, flavour: ServerFlavour, mapping: TypeMapping, zone: str, clock: Clock, *,
        open_stream: Callable[[BinlogPosition], BinlogStream],
        describe: Callable[[SourceName], ReadableTable | None],
    ) -> None:  # fmt: skip
        self._flavour = flavour
        self._mapping = mapping
        self._zone = zone
        self._clock = clock
        self._open_stream = open_stream
        self._describe = describe
        self._stream: BinlogStream | None = None
        self._versions: dict[bytes, LoggedVersion | UnnamedColumns] = {}
        self._position = self._group = BinlogPosition("", 0)
        self._forget()

    def _forget(self) -> None:
        self._maps: dict[int, tuple[SourceName, bytes]] = {}
        self._held: BinlogEvent | None = None
        self._pending: MariaGtid | MySqlGtid | None = None
        self._is_open = False
        self._has_begun = False
        self._skipped = self._events = self._cut_rows = self._cut_bytes = 0
        self._touched: set[SourceName] = set()

    def close(self) -> None:
        """End the stream; the next range opens it again."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _seek(self, start: BinlogPosition) -> None:
        """Stand at a position; nothing to do where the last range ended there."""
        if self._stream is not None and self._position == start:
            return
        self.close()
        self._forget()
        self._position = self._group = start
        self._file, self._offset = start.file, start.offset
        self._gtids: MariaGtids | MySqlGtids = gtids_of(
            start.gtids, is_maria=self._flavour.is_maria
        )
        self._has_gtids = bool(start.gtids)
        self._skipped = start.rows
        self._stream = self._open_stream(start)

    def read(
        self, start: BinlogPosition, tables: Collection[SourceName], limits: EpochLimits,
        end: BinlogPosition | None, key_columns: KeyColumns = no_key_columns,
    ) -> BinlogRange:  # fmt: skip
        """Read one range.

        Raises
        ------
        StorageError
            The connection was lost; the range may be read again.
        """
        try:
            self._seek(start)
            got = self._gather(frozenset(tables), limits, end)
        except BaseException:
            self.close()
            raise
        batches = [batch for one in got.batches.values() for batch in one]
        parts: Sequence[Part] = [
            batch.decode(self._zone, key_columns(batch.version.table.source)) for batch in batches
        ]
        if got.named:
            parts = _in_order(batches, parts, got)
        return BinlogRange(self._position, (*parts, *got.others.values()), got.seconds)

    def _gather(
        self, tables: frozenset[SourceName], limits: EpochLimits, end: BinlogPosition | None
    ) -> _Gathered:
        got = _Gathered()
        self._tables, self._is_replay = tables, end is not None
        self._originals = {self._folded(name): name for name in tables}
        deadline = self._clock.monotonic_seconds() + limits.wait_ms / 1000
        has_rows, idle = False, 0
        while end is None or self._position.rank < end.rank:
            now = self._clock.monotonic_seconds()
            if end is None and self._is_enough(got, limits, is_late=now >= deadline):
                break
            event = self._next(deadline - now if end is None else None)
            if event is None:
                break
            idle = idle + 1 if event.type in _HEARTBEATS else 0
            if end is not None and idle > IDLE_MAX:
                message = f"The log ends at {self._position}, before the end {end} of the range."
                raise CorruptError(message, kind="cdc_position")
            if self._take(event, got) and end is None:
                break
            if end is not None and end.rows and self._is_at(end):
                self._stand_within()
            if not has_rows and (got.rows_count or got.others):
                has_rows = True
                deadline = self._clock.monotonic_seconds() + limits.gather_ms / 1000
        self._check_end(end)
        return got

    @property
    def _gtid_text(self) -> str:
        return str(self._gtids) if self._has_gtids else ""

    def _is_at(self, end: BinlogPosition) -> bool:
        return self._is_open and (self._group.number, self._group.offset, self._events) == end.rank

    def _check_end(self, end: BinlogPosition | None) -> None:
        if end is None or self._position.rank == end.rank or not end.rows:
            return
        message = f"The log has no position {end}: the range ended at {self._position}."
        raise CorruptError(message, kind="cdc_position")

    def _is_enough(self, got: _Gathered, limits: EpochLimits, *, is_late: bool) -> bool:
        """Whether the range ends here: between transactions, or where one is too large."""
        is_full = got.rows_count >= limits.rows_max or got.bytes_count >= limits.bytes_max
        if not self._is_open:
            return is_full or is_late
        if not self._cut_bytes and not self._cut_rows:
            return False
        is_large = self._cut_rows >= limits.rows_max or self._cut_bytes >= limits.bytes_max
        if is_large and self._skipped < self._events:
            self._stand_within()
            return True
        return False

    def _stand_within(self) -> None:
        """Stand behind the row events of an open transaction that are taken."""
        group = self._group
        self._position = BinlogPosition(group.file, group.offset, self._events, self._gtid_text)
        self._cut_rows = self._cut_bytes = 0

    def _next(self, wait_seconds: float | None) -> BinlogEvent | None:
        """Give the next event; None if none came in time between transactions."""
        if self._held is not None:
            held, self._held = self._held, None
            return held
        assert self._stream is not None
        is_due = self._is_open or wait_seconds is None
        wait_ms = STALL_MS if is_due else max(0.0, (wait_seconds or 0) * 1000)
        event = self._stream.next_event(wait_ms)
        if event is None and is_due:
            message = "The server's log stopped in the middle of a transaction."
            raise StorageError(message, kind="cdc_unreachable")
        return event

    # --- one event ---

    def _take(self, event: BinlogEvent, got: _Gathered) -> bool:
        """Take one event; gives whether the range ends here."""
        kind = event.type
        if kind == _ROTATE:
            self._file, self._offset = parse_rotate(event.body)
            if not self._is_open:
                self._stand()
            return False
        if not event.is_artificial and kind not in _HEARTBEATS:
            self._started = self._offset
            # the header has the low 32 bits of the end alone
            self._offset += (event.end - self._offset) & 0xFFFF_FFFF
            self._started = self._offset - event.size
        if kind in _HEARTBEATS:
            return False
        if kind == _PAYLOAD:
            return any(self._take_inner(inner, got, event) for inner in payload_events(event.body))
        return self._take_inner(event, got, event)

    def _take_inner(self, event: BinlogEvent, got: _Gathered, outer: BinlogEvent) -> bool:
        kind = event.type
        if kind == _TABLE_MAP:
            database, table, _ = names_of(event.body)
            number = int.from_bytes(event.body[:6], "little")
            self._maps[number] = (self._name(database, table), event.body)
        elif kind in _ROWS:
            self._take_rows(event, got)
        elif kind in _GTIDS:
            self._take_gtid(event)
        elif kind == _T.GTID_TAGGED:
            message = "The log has a GTID with a tag, which is not read: unset gtid_next's tag."
            raise UnsupportedError(message, kind="cdc_gtid_tag")
        elif kind == _XID:
            self._end_group(got, outer)
        elif kind in {_T.QUERY, _T.MARIA_QUERY_COMPRESSED}:
            return self._take_query(event, got, outer)
        elif kind == _T.XA_PREPARE:
            if event.body[:1] != b"\1":  # COMMIT ... ONE PHASE is logged as one, too
                self._refuse_xa()
            self._end_group(got, outer)
        elif kind == _T.INCIDENT:
            for name in sorted(self._tables):
                reason = "the server says that events of its log were lost"
                got.note(MustReread(name, reason, self._order))
        elif kind in _OWN and not self._is_open and not event.is_artificial:
            self._stand()
        return False

    @property
    def _order(self) -> tuple[int, int]:
        """Where the event that is read stands among rows."""
        if not self._is_open:
            return (self._position.order, 0)
        return (self._group.order, self._events << EVENT_SHIFT)

    def _name(self, database: str, table: str) -> SourceName:
        return self._wanted(SourceName(database, "", table))

    def _folded(self, name: SourceName) -> SourceName:
        if not self._flavour.folds_names:
            return name
        return SourceName(name.database.lower(), "", name.table.lower())

    def _wanted(self, name: SourceName) -> SourceName:
        """The name as the job writes it: where names have no case, the log may write another."""
        folded = self._folded(name)
        return self._originals.get(folded, folded)

    def _open_group(self, *, has_begun: bool) -> None:
        if not self._is_open:
            self._is_open = True
            self._group = BinlogPosition(self._file, self._started)
            self._events = self._cut_rows = self._cut_bytes = 0
            self._touched = set()
        self._has_begun = has_begun

    def _take_gtid(self, event: BinlogEvent) -> None:
        if event.type == _T.MARIA_GTID:
            gtid = MariaGtid.parse(event)
            self._pending = gtid
            self._open_group(has_begun=not gtid.is_standalone)
        else:
            self._pending = MySqlGtid.parse(event)
            self._open_group(has_begun=False)

    def _end_group(self, got: _Gathered, event: BinlogEvent) -> None:
        pending, self._pending = self._pending, None
        if isinstance(pending, MariaGtid) and isinstance(self._gtids, MariaGtids):
            self._gtids.add(pending.domain, pending.server_id, pending.number)
        elif isinstance(pending, MySqlGtid) and pending.uuid:
            assert isinstance(self._gtids, MySqlGtids)
            self._gtids.add(pending.uuid, pending.number)
        self._is_open = self._has_begun = False
        self._skipped = 0
        got.seconds = event.timestamp
        self._stand()

    def _stand(self) -> None:
        here = BinlogPosition(self._file, self._offset, 0, self._gtid_text)
        if here.rank > self._position.rank:  # GTIDs may start in a file before
            self._position = here

    # --- rows ---

    def _take_rows(self, event: BinlogEvent, got: _Gathered) -> None:
        self._events += 1
        body = event.body
        number = int.from_bytes(body[:6], "little")
        self._cut_bytes += len(body)
        if number not in self._maps:
            if self._events <= self._skipped:
                return
            message = f"The log has rows of table number {number}, and no map of it."
            raise CorruptError(message, kind="cdc_binlog_event")
        name, map_body = self._maps[number]
        if name not in self._tables or self._events <= self._skipped:
            if self._events <= self._skipped:
                self._cut_bytes = self._cut_rows = 0
            return
        self._touched.add(name)
        version = self._version(map_body)
        if isinstance(version, UnnamedColumns):
            got.note(MustReread(name, version.reason, self._order))
            return
        if event.type == _T.PARTIAL_UPDATE_ROWS:
            reason = "an update has parts of JSON alone; SET binlog_row_value_options = ''"
            got.note(MustReread(name, reason, self._order))
            return
        at = 8
        if event.type in _HAVE_EXTRA:
            at += int.from_bytes(body[8:10], "little")
        count, at = len(version.mapped), at + (1 if len(version.mapped) < 251 else 3)
        bits = (count + 7) // 8
        kind = _ROWS[_T(event.type)]
        images = [body[at : at + bits]]
        at += bits
        if kind is RowKind.UPDATE_AFTER:
            images.append(body[at : at + bits])
            at += bits
        layout = version.layout(images[0])
        if layout is None or images[0] != images[-1]:
            reason = "a session logged parts of rows; SET GLOBAL binlog_row_image = 'FULL'"
            got.note(MustReread(name, reason, self._order))
            return
        if event.type in _COMPRESSED:
            body, at = decompress_maria(body[at:]), 0
        batch = self._batch(got, name, version, layout)
        order = (self._group.order, self._events)
        rows = batch.add(body, at, kind, order, event.timestamp)
        got.rows_count += rows
        got.bytes_count += len(body)
        self._cut_rows += rows

    def _batch(
        self, got: _Gathered, name: SourceName, version: LoggedVersion, layout: ImageLayout
    ) -> RowBatch:
        batches = got.batches.setdefault(name, [])
        if batches:
            last = batches[-1]
            if last.layout.places == layout.places and (
                last.version is version or last.version == version
            ):
                return last
        batches.append(RowBatch(version, layout))
        return batches[-1]

    def _version(self, body: bytes) -> LoggedVersion | UnnamedColumns:
        key = body[8:]
        found = self._versions.get(key)
        if found is None:
            mapped = parse_table_map(body, is_maria=self._flavour.is_maria)
            name = self._name(mapped.database, mapped.table)
            if not mapped.has_names and self._flavour.has_names:
                message = (
                    f"The log has rows of {name} without the names of columns: run"
                    " SET GLOBAL binlog_row_metadata = 'FULL', and copy the table again."
                )
                raise UnsupportedError(message, kind="cdc_row_metadata", table=str(name))
            table = table_of(mapped, self._describe(name), self._flavour.charsets, self._mapping)
            found = (
                table if isinstance(table, UnnamedColumns) else LoggedVersion(table, mapped.columns)
            )
            self._versions[key] = found
        return found

    # --- statements ---

    def _take_query(self, event: BinlogEvent, got: _Gathered, outer: BinlogEvent) -> bool:
        """Take a statement; gives whether the range ends here."""
        body = event.body
        if event.type == _T.MARIA_QUERY_COMPRESSED:
            body = _plain_query(body)
        query = QueryEvent.parse(body)
        word = query.text[:8].strip().upper()
        if word == "BEGIN":
            self._open_group(has_begun=True)
            return False
        if word == "COMMIT":
            self._end_group(got, outer)
            return False
        statement = read_statement(query, folds=self._flavour.folds_names)
        if statement.head == "XA":
            self._take_xa(query.text, got, outer)
            return False
        if statement.head == "ROLLBACK":
            self._reread(got, self._touched, "a transaction that changed it was rolled back")
            if query.text.strip().upper() == "ROLLBACK":
                self._end_group(got, outer)
            return False
        if not self._is_open:
            self._open_group(has_begun=False)
        is_alone = not self._has_begun
        if self._events_are_before(statement, got):
            # the range ends before this statement, and the next one begins with it
            self._held = event if event is outer else None
            if self._held is not None:
                self._offset -= event.size  # taken again with the event
                return True
        has_parts = self._apply(statement, query.text, got)
        if is_alone:
            self._end_group(got, outer)
        return has_parts and is_alone

    def _events_are_before(self, statement: LoggedStatement, got: _Gathered) -> bool:
        """Whether the range has rows of a table that the statement removes or makes anew."""
        if self._is_replay or self._has_begun:
            return False
        names = {part.table for part in self._parts_of(statement, "")}
        return any(name in got.batches for name in names) or bool(names and got.others)

    def _apply(self, statement: LoggedStatement, text: str, got: _Gathered) -> bool:
        for effect in statement.effects:
            self._forget_versions(self._wanted(effect.table))
            if effect.new_name is not None:
                self._forget_versions(self._wanted(effect.new_name))
            if effect.action is TableAction.NAME and self._flavour.has_names:
                self._note_names(effect, text, got)
        parts = self._parts_of(statement, text)
        for part in parts:
            got.note(part)
        return bool(parts)

    def _note_names(self, effect: TableEffect, text: str, got: _Gathered) -> None:
        """Note the names that columns got; to versions that lack them it is nothing."""
        name = self._wanted(effect.table)
        if name in self._tables:
            columns = tuple(column.lower() for column in effect.columns)
            reason = f"columns have other values than before: {_shown(text)}"
            got.named.append(MustReread(name, reason, self._order, columns))

    def _parts_of(self, statement: LoggedStatement, text: str) -> Sequence[TableEvent]:
        """What a statement means for the tables that are kept equal."""
        found: dict[SourceName, TableEvent] = {}
        shown = _shown(text)
        if statement.dropped_database is not None:
            for folded, name in self._originals.items():
                if folded.database == statement.dropped_database:
                    found[name] = Vanished(name, shown, self._order)
        for effect in statement.effects:
            name = self._wanted(effect.table)
            match effect.action:
                case TableAction.TRUNCATE:
                    found[name] = Truncated(name, self._order)
                case TableAction.DROP:
                    found[name] = Vanished(name, shown, self._order)
                case TableAction.CREATE:
                    found[name] = MustReread(name, "it was created anew", self._order)
                case TableAction.REREAD:
                    found[name] = MustReread(name, effect.reason, self._order)
                case TableAction.ALTER if not self._flavour.has_names:
                    reason = "it was altered, and the server's log has no names of columns"
                    found[name] = MustReread(name, reason, self._order)
            if effect.new_name is not None:
                name = self._wanted(effect.new_name)
                found[name] = MustReread(name, "another table was renamed to it", self._order)
        for folded in mentioned(statement, self._originals):
            name = self._originals[folded]
            reason = f"a statement was logged that may change it: {shown}"
            found[name] = MustReread(name, reason, self._order)
        return [part for name, part in sorted(found.items()) if name in self._tables]

    def _forget_versions(self, name: SourceName) -> None:
        """Ask for the table again: what the log does not say may have changed."""
        for key in list(self._versions):
            database, table, _ = names_of(bytes(8) + key)
            if self._name(database, table) == name:
                del self._versions[key]

    def _reread(self, got: _Gathered, names: Collection[SourceName], reason: str) -> None:
        for name in sorted(names):
            got.note(MustReread(name, reason, self._order))

    def _take_xa(self, text: str, got: _Gathered, outer: BinlogEvent) -> None:
        word = text.split()[1].upper() if len(text.split()) > 1 else ""
        if word in {"START", "BEGIN"}:
            self._open_group(has_begun=True)
        elif word in {"COMMIT", "ROLLBACK"}:
            self._end_group(got, outer)

    def _refuse_xa(self) -> None:
        if self._touched:
            names = ", ".join(str(name) for name in sorted(self._touched))
            message = (
                f"An XA transaction changed {names}. The log has its rows before it is known"
                " whether it commits, so they cannot be applied: keep these tables out of XA."
            )
            raise UnsupportedError(message, kind="cdc_xa", table=names)


def _in_order(batches: Sequence[RowBatch], parts: Sequence[Part], got: _Gathered) -> list[Part]:
    """Put names that columns got between the rows before and behind their statements."""
    firsts = [(first, event << EVENT_SHIFT) for first, event in (b.orders[0] for b in batches)]
    placed = [*zip(firsts, parts, strict=True)]
    placed += [(part.order, part) for part in got.named if part.order is not None]
    placed.sort(key=lambda one: one[0])
    return [part for _, part in placed]


def _shown(text: str) -> str:
    return text if len(text) <= TEXT_SHOWN_MAX else text[:TEXT_SHOWN_MAX] + "..."


def _plain_query(body: bytes) -> bytes:
    """Expand the statement of a compressed QUERY, which begins behind the database's name."""
    at = 13 + int.from_bytes(body[11:13], "little") + body[8] + 1
    return body[:at] + decompress_maria(body[at:])
