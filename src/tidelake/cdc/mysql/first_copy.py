"""The first copy of tables: a position of the log, and their rows in parts by key.

The position comes first, without a lock, and the rows are read after it. What is before the
position must show in the rows. On MariaDB it does: the position is that of a consistent snapshot,
and commits become visible in the log's order. On MySQL a transaction is in the log before InnoDB
has committed it, so the position is the begin of a new file of the log: the server ends a file only
when all transactions in it are committed.

Each part is read at a
moment of its own, so a row may be newer than the position. That is no fault: the log goes on from
the position and has every change since, each with the whole row. What it says of a row that was
copied later is said again, in order, up to the row's last state; a row that was deleted before its
part was read is deleted once more. So a table with a key *converges*: it equals the source when the
log has been read to where the source stood when the last part was read.

On MariaDB the position is that of a consistent snapshot, which stays open. An InnoDB table without
a key, for which nothing converges, is read in it, in one part. On MySQL it needs a quiet moment.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa

from tidelake.cdc._optional import pymysql
from tidelake.cdc.mysql.connection import ServerSession, close_quietly, connect, our_errors
from tidelake.cdc.mysql.position import BinlogPosition
from tidelake.cdc.mysql.row_batch import columns_of, convert_all, row_schema
from tidelake.cdc.mysql.server import quoted_name
from tidelake.cdc.mysql.settings import MySqlSettings
from tidelake.cdc.mysql.tables import read_tables
from tidelake.cdc.mysql.text_rows import expression, read_columns, select
from tidelake.cdc.mysql.values.columns import ReadableTable
from tidelake.cdc.mysql.values.lake_values import reason
from tidelake.cdc.mysql.values.rejected_row import payload
from tidelake.cdc.source.changes import Rejected
from tidelake.cdc.source.source import Chunk, CopiedRows
from tidelake.cdc.source.source_table import SourceName, SourceTable
from tidelake.cdc.source.type_mapping import TypeMapping
from tidelake.engine.storage import SentSecrets
from tidelake.errors import ConflictError, NotFoundError, UnsupportedError
from tidelake.types import RowKind

CHUNKS_MAX = 100_000
EVEN_RATIO_MAX = 4
"""A range of numbers is cut evenly while it has at most so many places for each row."""
_INTEGERS = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint"})
_ORDERED = _INTEGERS | {"decimal", "char", "varchar", "date", "datetime", "timestamp", "binary",
                        "varbinary", "year"}  # fmt: skip
LOCK_SECONDS = 60
LOCKED_OUT = frozenset({1205, 1213})
"""A wait for a lock was too long, or two waited for each other."""
SNAPSHOT = "held"
_PASSWORD = "password"


@dataclass(frozen=True, slots=True)
class LogQuestions:
    """What a copy asks of the log.

    Parameters
    ----------
    start : callable
        Gives a position behind which all is seen that a reader of rows sees then.
    newest : callable
        Gives where the log ends.
    gtids_at : callable
        Gives the GTIDs up to a file and offset.
    """

    start: Callable[[], BinlogPosition]
    newest: Callable[[], BinlogPosition]
    gtids_at: Callable[[str, int], str]


class MySqlFirstCopy:
    """A first copy of some tables.

    The rows *converge*: see the module. Its chunks may be read in any process; a chunk with a
    `snapshot`, of a table without a key on MariaDB, only in the process of this object.

    Parameters
    ----------
    describe : callable
        Gives a table as it is now; None if it is gone.
    held : connection or None
        On which a consistent snapshot is open, at the position.
    ask_newest : callable, optional
        Gives where the log ends; not for what reads parts of a copy.
    """

    def __init__(
        self, settings: MySqlSettings, position: BinlogPosition, zone: str,
        describe: Callable[[SourceName], ReadableTable | None], mapping: TypeMapping, held: Any,
        ask_newest: Callable[[], BinlogPosition] | None = None,
    ) -> None:  # fmt: skip
        self._settings = settings
        self._position = position
        self._zone = zone
        self._describe = describe
        self._mapping = mapping
        self._held = held
        self._ask_newest = ask_newest
        self._lock = threading.Lock()
        self._session = ServerSession(settings)

    @property
    def position(self) -> str:
        """Where the log goes on from the copy."""
        return str(self._position)

    def whole_at(self) -> str:
        """Give the log's end: parts are read one after the other."""
        assert self._ask_newest is not None, "asked of the copy itself"
        return str(self._ask_newest())

    @property
    def keeps_rows(self) -> bool:
        """Whether rows that a target has stay: never, as all are copied."""
        return False

    @property
    def order(self) -> tuple[int, int]:
        """The order of the copied rows: row events of a transaction count from 1."""
        return (self._position.order, 0)

    def _table(self, name: SourceName) -> ReadableTable:
        found = self._describe(name)
        if found is None:
            message = f"The table {name} is gone from the source."
            raise NotFoundError(message, kind="cdc_table_not_found", table=str(name))
        return found

    def chunks(self, table: SourceTable, *, rows_max: int) -> Sequence[Chunk]:
        """Cut a table into parts by the first column of its key."""
        rows_max = self._settings.chunk_rows or rows_max
        found = self._table(table.name)
        name = quoted_name(table.name.database, table.name.table)
        count = self._rows_count(table.name)
        source = found.source
        if not found.keys:
            return [Chunk(source, "", count, SNAPSHOT if self._held is not None else "")]
        key = next(c for c in found.columns if c.name == found.keys[0])
        if count <= rows_max or key.native.name not in _ORDERED:
            return [Chunk(source, "", count)]
        column = quoted_name(key.name)
        bounds = None
        if key.native.name in _INTEGERS:
            bounds = self._even_bounds(name, column, count, rows_max)
        if bounds is None:
            bounds = self._found_bounds(name, column, rows_max)
        edges = [None, *bounds, None]
        return [
            Chunk(source, _between(column, low, high), min(rows_max, count))
            for low, high in pairwise(edges)
        ]

    def _rows_count(self, name: SourceName) -> int:
        rows = self._session.rows(
            "SELECT TABLE_ROWS FROM information_schema.TABLES"
            " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s",
            [name.database, name.table],
        )
        return int(rows[0][0] or 0) if rows else 0

    def _even_bounds(self, name: str, column: str, count: int, rows_max: int) -> list[str] | None:
        low, high = self._session.rows(f"SELECT MIN({column}), MAX({column}) FROM {name}")[0]
        if low is None or (high - low + 1) / max(count, 1) > EVEN_RATIO_MAX:
            return None
        step = max(1, (high - low + 1) * rows_max // max(count, 1))
        return [str(edge) for edge in range(low + step, high + 1, step)][:CHUNKS_MAX]

    def _found_bounds(self, name: str, column: str, rows_max: int) -> list[str]:
        """Ask the index for the key behind each `rows_max` rows."""
        bounds: list[str] = []
        while len(bounds) < CHUNKS_MAX:
            condition = f" WHERE {column} > {bounds[-1]}" if bounds else ""
            rows = self._session.rows(
                f"SELECT {column} FROM {name}{condition} ORDER BY {column} LIMIT 1"
                f" OFFSET {rows_max - 1}"
            )
            if not rows:
                break
            bounds.append(_literal(rows[0][0]))
        return bounds

    def read(self, chunk: Chunk) -> Iterator[CopiedRows]:
        """Read one chunk, in batches. Thread-safe: each call has its own connection."""
        if chunk.snapshot:
            if self._held is None:
                message = "A part of a table without a key is read where its copy was begun."
                raise UnsupportedError(message, kind="cdc_snapshot")
            with self._lock:
                yield from self._read(self._held, chunk)
            return
        connection = connect(self._settings)
        try:
            yield from self._read(connection, chunk)
        finally:
            close_quietly(connection)

    def reader(self, chunks: Sequence[Chunk]) -> MySqlChunkReader | None:
        """Give what reads these chunks in another process; None if one is read here alone."""
        if any(chunk.snapshot for chunk in chunks):
            return None
        settings = replace(self._settings, password="")
        secrets = SentSecrets({_PASSWORD: self._settings.password})
        return MySqlChunkReader(settings, secrets, self._position, self._zone, self._mapping)

    def _read(self, connection: Any, chunk: Chunk) -> Iterator[CopiedRows]:
        table = self._table(chunk.table.name)
        columns = columns_of(table)
        name = quoted_name(table.name.database, table.name.table)
        statement = f"SELECT {', '.join(map(expression, columns))} FROM {name}"
        if chunk.condition:
            statement += f" WHERE {chunk.condition}"
        typed = ReadableTable(table.name, tuple(columns), table.keys)
        with our_errors(self._settings):
            for buffer, starts in select(connection, statement):
                cells = read_columns(buffer, starts, columns)
                found = convert_all(typed, cells, self._zone, len(starts))
                rows = pa.RecordBatch.from_arrays(
                    [found.arrays[place] for place in range(len(columns))], schema=row_schema(typed)
                )
                bad: dict[int, list[str]] = {}
                for place, wrong in found.wrong.items():
                    for row in np.flatnonzero(wrong):
                        bad.setdefault(int(row), []).append(reason(columns[place]))
                if bad:
                    kept = np.ones(len(starts), np.bool_)
                    kept[list(bad)] = False
                    rows = rows.filter(pa.array(kept))
                yield CopiedRows(
                    rows,
                    tuple(
                        Rejected(table.name, self.order, int(RowKind.INSERT), "; ".join(reasons),
                                 payload(columns, cells, row))
                        for row, reasons in sorted(bad.items())
                    ),
                )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._session.close()
        if self._held is not None:
            close_quietly(self._held)
            self._held = None


@dataclass(frozen=True, slots=True)
class MySqlChunkReader:
    """Reads parts of a copy in another process, at moments of their own. Picklable.

    Parameters
    ----------
    settings : MySqlSettings
        Without the password.
    secrets : SentSecrets
        The password.
    position : BinlogPosition
        The copy's.
    zone : str
        The server's.
    """

    settings: MySqlSettings
    secrets: SentSecrets
    position: BinlogPosition
    zone: str
    mapping: TypeMapping

    def read(self, chunk: Chunk) -> Iterator[CopiedRows]:
        """Read one chunk, in batches."""
        settings = replace(self.settings, password=self.secrets.reveal()[_PASSWORD])
        session = ServerSession(settings)

        def describe(name: SourceName) -> ReadableTable | None:
            return read_tables(session, [name], self.mapping).get(name)

        place, zone, mapping = self.position, self.zone, self.mapping
        try:
            with MySqlFirstCopy(settings, place, zone, describe, mapping, None) as copy:
                yield from copy.read(chunk)
        finally:
            session.close()


def begin(
    settings: MySqlSettings, zone: str, describe: Callable[[SourceName], ReadableTable | None],
    mapping: TypeMapping, *,
    is_maria: bool, log: LogQuestions, keyless: Sequence[SourceName] = (),
) -> MySqlFirstCopy:  # fmt: skip
    """Begin a first copy: take the position, without a lock.

    Parameters
    ----------
    keyless : sequence of SourceName
        Tables without a key among the copied ones. A row that is both in the copy and in the log
        behind it would be there twice. MySQL cannot say the position of a snapshot, so these tables
        are locked for writers while both are taken: for a moment.
    """
    if not is_maria:
        if not keyless:
            start = log.start()
            return MySqlFirstCopy(settings, start, zone, describe, mapping, None, log.newest)
        position, held = _locked_snapshot(settings, keyless, log.start)
        return MySqlFirstCopy(settings, position, zone, describe, mapping, held, log.newest)
    held = connect(settings)
    try:
        with our_errors(settings), held.cursor() as cursor:
            cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            cursor.execute("SHOW STATUS LIKE 'binlog_snapshot_%'")
            status = {name.lower(): value for name, value in cursor.fetchall()}
        if not status.get("binlog_snapshot_file"):
            log.start()  # says why there is none
        file, offset = status["binlog_snapshot_file"], int(status["binlog_snapshot_position"])
        position = BinlogPosition(file, offset, 0, log.gtids_at(file, offset))
    except BaseException:
        close_quietly(held)
        raise
    return MySqlFirstCopy(settings, position, zone, describe, mapping, held, log.newest)


def _locked_snapshot(
    settings: MySqlSettings, tables: Sequence[SourceName], ask_newest: Callable[[], BinlogPosition]
) -> tuple[BinlogPosition, Any]:
    """A position, and a connection with a snapshot of it, of tables that nobody writes meanwhile.

    A transaction is in the log before its rows are seen. The lock waits for it, as only with
    autocommit off it is InnoDB's own.
    """
    names = ", ".join(f"{quoted_name(name.database, name.table)} READ" for name in tables)
    held, locker = connect(settings), connect(settings)
    try:
        with our_errors(settings), held.cursor() as cursor, locker.cursor() as lock:
            lock.execute(f"SET SESSION autocommit = 0, lock_wait_timeout = {LOCK_SECONDS}")
            lock.execute(f"LOCK TABLES {names}")
            cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            position = ask_newest()
    except BaseException as error:
        close_quietly(held)
        cause = error.__cause__
        if isinstance(cause, pymysql().err.MySQLError) and cause.args[0] in LOCKED_OUT:
            message = f"Others hold the tables without a key: {cause.args[1]}. Copy them again."
            raise ConflictError(message, kind="cdc_copy_disturbed") from error
        raise
    finally:
        close_quietly(locker)
    return position, held


def _between(column: str, low: str | None, high: str | None) -> str:
    """A range that has `high` and not `low`."""
    parts = [f"{column} > {low}" if low else "", f"{column} <= {high}" if high else ""]
    return " AND ".join(filter(None, parts))


def _literal(value: object) -> str:
    """A value of a key as SQL has it."""
    if isinstance(value, int | Decimal):
        return str(value)
    if isinstance(value, bytes):
        return "X'" + value.hex() + "'"
    if isinstance(value, datetime):
        return f"'{value.isoformat(' ')}'"
    if isinstance(value, date | timedelta):
        return f"'{value}'"
    with suppress(UnicodeEncodeError):
        return f"_utf8mb4 X'{str(value).encode().hex()}'"
    message = "A key of the table cannot be written in SQL."
    raise UnsupportedError(message, kind="cdc_key")
