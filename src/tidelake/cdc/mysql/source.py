"""MySQL and MariaDB as a source of changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from tidelake.cdc.mysql.connection import ServerSession
from tidelake.cdc.mysql.first_copy import LogQuestions, MySqlFirstCopy, begin
from tidelake.cdc.mysql.log_reader import BinlogReader
from tidelake.cdc.mysql.log_stream import BinlogStream
from tidelake.cdc.mysql.position import BinlogPosition, BinlogPositions, MySqlGtids
from tidelake.cdc.mysql.server import ServerFacts, check_server, new_file, newest
from tidelake.cdc.mysql.settings import MySqlSettings
from tidelake.cdc.mysql.startup import startup_position
from tidelake.cdc.mysql.tables import is_named, list_tables, read_tables
from tidelake.cdc.mysql.values.columns import ReadableTable
from tidelake.cdc.source.changes import Changes
from tidelake.cdc.source.finding import SourceFinding
from tidelake.cdc.source.lag import SourceLag
from tidelake.cdc.source.slot_status import SlotStatus
from tidelake.cdc.source.source import EpochLimits, NoCopy
from tidelake.cdc.source.source_table import (
    KeyColumns,
    SourceName,
    SourceTable,
    no_key_columns,
)
from tidelake.cdc.source.type_mapping import TypeMapping
from tidelake.engine.env import Clock
from tidelake.errors import NotFoundError, StorageError, StorageRefusedError

RETRY_WAIT_MS = 500
RETRY_WAIT_MS_MAX = 10_000

Answer = TypeVar("Answer")


class MySqlSource(BinlogPositions):
    """A server of MySQL or MariaDB, whose binlog is read. Used by one thread.

    Parameters
    ----------
    clock : Clock
        For waits.
    """

    def __init__(self, settings: MySqlSettings, mapping: TypeMapping, clock: Clock) -> None:
        self._settings = settings
        self._mapping = mapping
        self._clock = clock
        self._session = ServerSession(settings)
        self._known_facts: ServerFacts | None = None
        self._known_reader: BinlogReader | None = None

    @property
    def kind(self) -> str:
        """The kind of this source."""
        return "mysql"

    @property
    def _facts(self) -> ServerFacts:
        if self._known_facts is None:
            self._known_facts = ServerFacts.ask(self._session)
        return self._known_facts

    def identity(self) -> str:
        """What tells this server from another.

        Of MySQL it is the server's uuid, of MariaDB its server id and GTID domain. After a failover
        another server answers, with files and offsets of its own. A job's rows are ordered by file
        and offset, so a job does not go on there: it refuses, and its tables are copied again. A
        server that was restored under its old id has a shorter history; then the position is lost.
        """
        return ServerFacts.ask(self._session).identity

    def check(self, tables: Sequence[SourceTable]) -> list[SourceFinding]:
        """Look at the settings and rights that reading these tables needs."""
        self._known_facts = None  # they may have been mended since
        return check_server(self._session, self._settings, self._facts, tables)

    def tables(self) -> list[SourceTable]:
        """Give all tables that the settings name, as they are now."""
        comments = list_tables(self._session, self._settings.databases, self._settings.tables)
        found = read_tables(self._session, list(comments), self._mapping)
        return [found[name].source for name in comments if name in found]

    def reads(self, name: SourceName) -> bool:
        """Whether the settings name a table."""
        return is_named(name, self._settings.databases, self._settings.tables)

    def prepare(self, tables: Sequence[SourceName]) -> None:
        """Nothing is made in the server: its log has all tables."""

    def _describe(self, name: SourceName) -> ReadableTable | None:
        return read_tables(self._session, [name], self._mapping).get(name)

    def first_copy(
        self, tables: Sequence[SourceName], *, is_start: bool = False
    ) -> MySqlFirstCopy | NoCopy:
        """Begin to copy tables, at a position of which the log goes on."""
        start = self.startup_position() if is_start else None
        if start is not None:
            return NoCopy(start)
        known = {} if self._facts.is_maria else read_tables(
            self._session, list(tables), self._mapping
        )  # fmt: skip
        return begin(
            self._settings,
            self._facts.zone(self._settings),
            self._describe,
            self._mapping,
            is_maria=self._facts.is_maria,
            log=LogQuestions(self._copy_start, self._newest, self._gtids_at),
            keyless=[name for name, table in known.items() if not table.keys],
        )

    def _copy_start(self) -> BinlogPosition:
        if self._facts.is_maria:
            return self._newest()
        return new_file(self._session, self._facts)

    def _gtids_at(self, file: str, offset: int) -> str:
        rows = self._session.rows("SELECT BINLOG_GTID_POS(%s, %s)", [file, offset])
        return str(rows[0][0] or "")

    def _newest(self) -> BinlogPosition:
        return newest(self._session, self._facts)

    def newest(self) -> str:
        """Ask for the newest position that is committed."""
        return str(self._newest())

    def startup_position(self) -> str | None:
        """Where a new job begins by ``scan.startup.mode``; None where it copies first.

        Raises
        ------
        NotFoundError
            The log no longer has it: kind ``cdc_position_lost``.
        InvalidInputError
            It is not the start of a transaction.
        """
        found = startup_position(self._settings, self._session, self._facts, self._open)
        return None if found is None else str(found)

    def read(
        self,
        start: str,
        tables: Sequence[SourceName],
        limits: EpochLimits,
        *,
        end: str | None = None,
        key_columns: KeyColumns = no_key_columns,
    ) -> Changes:
        """Read on from a position.

        A connection that is lost is opened again, `connect.max-retries` times, and the range is
        read once more from its start.

        Raises
        ------
        NotFoundError
            The log no longer has `start`: kind ``cdc_position_lost``.
        ConflictError
            Another reader took the server id: kind ``cdc_position_in_use``.
        StorageError
            The server does not answer.
        """
        first, last = BinlogPosition.parse(start), BinlogPosition.parse(end) if end else None
        found = self._with_retries(
            lambda: self._reader().read(first, tables, limits, last, key_columns)
        )
        known = self._with_retries(self._newest)
        seconds = found.seconds
        return Changes(
            start,
            end if end is not None else str(found.end),
            found.parts,
            str(known if known.rank > found.end.rank else found.end),
            None if seconds is None else seconds * 1000,
        )

    def _with_retries(self, ask: Callable[[], Answer]) -> Answer:
        wait_ms = RETRY_WAIT_MS
        for _ in range(self._settings.retries_max):
            try:
                return ask()
            except StorageRefusedError:
                raise
            except StorageError:
                self._clock.sleep_ms(wait_ms)
                wait_ms = min(2 * wait_ms, RETRY_WAIT_MS_MAX)
        return ask()

    def _reader(self) -> BinlogReader:
        if self._known_reader is None:
            facts = self._facts
            self._known_reader = BinlogReader(
                facts.flavour(self._session),
                self._mapping,
                facts.zone(self._settings),
                self._clock,
                open_stream=self._open,
                describe=self._describe,
            )
        return self._known_reader

    def _open(self, start: BinlogPosition) -> BinlogStream:
        self._check_history(start)
        return BinlogStream(self._settings, start, self._clock, is_maria=self._facts.is_maria)

    def _check_history(self, start: BinlogPosition) -> None:
        """Refuse a position that this server's log never had: it was reset, or restored."""
        now = self._newest()
        is_known = start.rank <= now.rank or start.rows > 0
        if is_known and start.gtids and not self._facts.is_maria:
            is_known = MySqlGtids.parse(now.gtids).covers(MySqlGtids.parse(start.gtids))
        if not is_known:
            message = (
                f"The log of {self._settings.hostname}:{self._settings.port} ends at {now}, before"
                f" the position {start} of this job: it was reset, or the server was restored."
                " Copy the tables again."
            )
            raise NotFoundError(message, kind="cdc_position_lost")

    def check_position(self, position: str) -> None:
        """Look that the log does not end before a position: it was reset, or restored."""
        self._with_retries(lambda: self._check_history(BinlogPosition.parse(position)))

    def held(self, position: str) -> list[str]:
        """Say for how long the server keeps its log: nothing is held for a reader."""
        del position
        seconds = self.status()["log_kept_seconds"]
        kept = f"for {seconds} s" if seconds else "until somebody purges it"
        return [
            f"The server holds nothing for the job: it keeps its log {kept}, whoever reads it."
            " Start the job again before."
        ]

    def confirm(self, position: str) -> None:
        """Nothing is kept for a reader: the server deletes its log by age alone."""

    def status(self) -> dict[str, object]:
        """Facts for people."""
        facts = self._facts
        files = self._session.rows("SHOW BINARY LOGS")
        seconds = facts["binlog_expire_logs_seconds"] or ""
        days = facts["expire_logs_days"]
        return {
            "server": facts["version"],
            "newest": self.newest(),
            "oldest_file": str(files[0][0]) if files else "",
            "log_bytes": sum(int(row[1]) for row in files),
            "log_kept_seconds": int(seconds) if seconds.isdigit() and int(seconds) else (
                int(float(days or 0) * 86_400)
            ),
            "server_id": self._settings.server_id,
        }  # fmt: skip

    def lag(self, position: str, newest: str) -> SourceLag:
        """Say how many bytes a position is behind the newest one; the server tells no time."""
        note = "MySQL does not say when it committed last"
        start, end = BinlogPosition.parse(position), BinlogPosition.parse(newest)
        sizes = {str(row[0]): int(row[1]) for row in self._session.rows("SHOW BINARY LOGS")}
        if start.file not in sizes:
            return SourceLag(note=note)
        between = [
            size
            for file, size in sizes.items()
            if start.number <= BinlogPosition(file, 0).number < end.number
        ]
        return SourceLag(max(0, sum(between) + end.offset - start.offset), note=note)

    def slots(self) -> list[SlotStatus]:
        """Nothing is kept for a reader."""
        return []

    def drop(self) -> list[str]:
        """Nothing was made in the server."""
        return []

    def close(self) -> None:
        """End all connections."""
        if self._known_reader is not None:
            self._known_reader.close()
        self._session.close()
