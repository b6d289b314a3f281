"""PostgreSQL as a source: :class:`PostgresSource`.

What is read where:

=============  ==================================================================================
`tables`       the catalogue
`prepare`      the publication
`first_copy`   a snapshot that a new slot exports
`read`         the slot, by the replication protocol
`confirm`      the slot: what is confirmed the server may forget
=============  ==================================================================================

A position must be durable before it is confirmed, also one that a range without rows ends at: the
server no longer sends from an older one, and the source refuses to read on from there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tidelake.cdc import _optional
from tidelake.cdc.postgres.catalogue import Catalogue, CatalogueTable
from tidelake.cdc.postgres.checks import find_faults
from tidelake.cdc.postgres.connection import (
    connect,
    is_broken,
    position_lost,
    quote_name,
    quote_text,
    translated,
)
from tidelake.cdc.postgres.first_copy import PostgresCopy
from tidelake.cdc.postgres.log.decoder import Wanted, decode, relations_after, versions_sent
from tidelake.cdc.postgres.log.log_messages import LogMessages
from tidelake.cdc.postgres.log.relation import RelationVersion
from tidelake.cdc.postgres.log.slot_reader import LogRange, SlotReader
from tidelake.cdc.postgres.position import LogPosition, LogPositions, lsn_text
from tidelake.cdc.postgres.publication import (
    STORED_COLUMNS_VERSION,
    Publication,
    publication,
    quoted,
    statements,
)
from tidelake.cdc.postgres.settings import PostgresSettings, PostgresStartupMode
from tidelake.cdc.postgres.slot import make_slot, slot_state
from tidelake.cdc.postgres.slot_health import slot_health
from tidelake.cdc.source.changes import Changes, MustReread, Part, Vanished
from tidelake.cdc.source.finding import SourceFinding
from tidelake.cdc.source.lag import SourceLag
from tidelake.cdc.source.slot_status import SlotStatus
from tidelake.cdc.source.source import EpochLimits, NoCopy
from tidelake.cdc.source.source_table import (
    KeyColumns,
    OldRows,
    SourceName,
    SourceTable,
    no_key_columns,
)
from tidelake.cdc.source.type_mapping import TypeMapping
from tidelake.engine.env import Env
from tidelake.errors import InvalidInputError, StorageError, counted

_NEWEST = "SELECT pg_current_wal_flush_lsn() - '0/0'::pg_lsn"
_COMMITTED = """
SELECT (extract(epoch FROM (pg_last_committed_xact()).timestamp) * 1000)::int8
"""
_WRITTEN = """
SELECT (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END)
  - '0/0'::pg_lsn
"""
_ADVANCE = """
SELECT pg_replication_slot_advance(slot_name, %(lsn)s::pg_lsn) FROM pg_replication_slots
WHERE slot_name = %(slot)s AND confirmed_flush_lsn < %(lsn)s::pg_lsn
"""
_OIDS = """
SELECT c.oid::int8, n.nspname::text, c.relname::text
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND (n.nspname, c.relname) IN
  (SELECT * FROM unnest(%(schemas)s::text[], %(tables)s::text[]))
"""
_ASK_TRIES = 3
FREED_TRIES = 20
FREED_WAIT_MS = 50


class PostgresSource(LogPositions):
    """Implements :class:`~tidelake.cdc.source.source.Source`. Used by one thread.

    Parameters
    ----------
    settings : PostgresSettings
        Which server, and which of its tables.
    mapping : TypeMapping
        Switches of the types.
    env : Env
        Time and waits.
    """

    def __init__(
        self, settings: PostgresSettings, mapping: TypeMapping | None = None, env: Env | None = None
    ) -> None:
        self._settings = settings
        self._env = env or Env.system()
        self._query_connection: Any = None
        self._catalogue = Catalogue(settings.database, mapping or TypeMapping(), self._ask)
        self._reader = SlotReader(settings, self._env, self._check_position)
        self._versions: dict[RelationVersion, SourceTable] = {}
        self._oids: dict[SourceName, int] = {}
        self._told: set[tuple[SourceName, int]] = set()
        self._unpublished: set[SourceName] = set()

    @property
    def kind(self) -> str:
        """``postgres``."""
        return "postgres"

    def identity(self) -> str:
        """Identifier of the cluster, database, and timeline.

        A promoted standby, and a server that was restored to a moment, have the identifier of the
        cluster and a new timeline. With `slot.failover` a standby keeps the slot, so the timeline
        may change there; that the slot is there and not ahead of us is checked at each start.
        """
        with translated(self._settings), connect(self._settings, replication=True) as connection:
            # only this command knows the timeline before the first checkpoint of a promoted server
            result = connection.pgconn.exec_(b"IDENTIFY_SYSTEM")
            system, timeline = (result.get_value(0, column).decode() for column in (0, 1))
        parts = [system, self._settings.database]
        if not self._settings.failover:
            parts.append(timeline)
        return "/".join(parts)

    def tables(self) -> list[SourceTable]:
        """Give all tables that the settings name, as they are now."""
        found = [table for table in self._catalogue.read() if self.reads(table.name)]
        with_stored = self._has_stored()
        return [self._catalogue.source_table(table, with_stored=with_stored) for table in found]

    def reads(self, name: SourceName) -> bool:
        """Whether the settings name a table."""
        return self._settings.reads(name)

    def check(self, tables: Sequence[SourceTable]) -> list[SourceFinding]:
        """Look at the settings and rights that reading these tables needs."""
        found = self._catalogue.read([int(table.identity) for table in tables])
        catalogue = {str(table.oid): table for table in found}
        with self._connected() as connection:
            return find_faults(connection, self._settings, tables, catalogue)

    def prepare(self, tables: Sequence[SourceName]) -> None:
        """Make the publication of these tables, or add them to the one that is there. Repeatable.

        Raises
        ------
        InvalidInputError
            A table has no replica identity, or there are no tables.
        """
        if not tables:
            message = "There is no table to publish: correct 'schema-name' and 'table-name'."
            raise InvalidInputError(message, kind="cdc_no_table")
        self._refuse_without_identity(tables)
        with self._connected() as connection:
            now = publication(connection, self._settings.publication)
            if now is not None and now.is_for_all:
                return
            version = connection.info.server_version
            with connection.transaction():
                for statement in statements(now, self._settings.publication, tables, version):
                    connection.execute(statement)

    def first_copy(
        self, tables: Sequence[SourceName], *, is_start: bool = False
    ) -> PostgresCopy | NoCopy:
        """Begin to copy tables: by the job's slot, made now, or by a temporary one beside it.

        A slot whose log is gone serves nobody, and is made anew.
        """
        del tables  # the snapshot has all
        with self._connected() as connection:
            state = slot_state(connection, self._settings.slot)
            has_slot = state is not None and state.wal_status != "lost"
            if state is not None and not has_slot:
                self._reader.close()
                self._drop_slot(connection)
            # a name of its own, for two tables may join at once
            serial = connection.execute("SELECT pg_backend_pid()").fetchone()[0]
        name = self._settings.slot
        if has_slot:
            name = f"{name[:45]}_copy_{serial}"
        slot = make_slot(self._settings, name, is_temporary=has_slot)
        if is_start and self._settings.startup_mode is PostgresStartupMode.LATEST:
            slot.connection.close()
            return NoCopy(str(slot.position))
        return PostgresCopy(self._settings, slot)

    def newest(self) -> str:
        """Ask for the newest position that is committed."""
        [(lsn,)] = self._ask(_NEWEST, {})
        return str(LogPosition(int(lsn)))

    def read(
        self,
        start: str,
        tables: Sequence[SourceName],
        limits: EpochLimits,
        *,
        end: str | None = None,
        key_columns: KeyColumns = no_key_columns,
    ) -> Changes:
        """Read on from a position; see :meth:`tidelake.cdc.source.source.Source.read`."""
        self._learn_oids(tables)
        chosen = self._reader.read(
            LogPosition.parse(start),
            limits,
            lambda: [self._oids[table] for table in tables if table in self._oids],
            None if end is None else LogPosition.parse(end),
        )
        wanted = Wanted(self._settings.database, frozenset(tables), self._version, key_columns)
        parts = self._parts(chosen, wanted)
        newest = max(LogPosition.parse(self.newest()), chosen.end)
        if end is None and newest == chosen.end:
            parts += self._vanished(tables)
        messages = chosen.messages
        committed_ms = int(messages.committed_ms[-1]) if len(messages) else 0
        return Changes(start, str(chosen.end), tuple(parts), str(newest), committed_ms or None)

    def check_position(self, position: str) -> None:
        """Look that the server has had a position, and that the slot still serves it."""
        self._check_position(LogPosition.parse(position))

    def held(self, position: str) -> list[str]:
        """Say what the slot holds from now on, and how it is dropped."""
        del position  # the slot has its own
        slot = self._settings.slot
        state = None
        with self._connected() as connection:
            for _ in range(FREED_TRIES):  # a stream that was closed just now confirms first
                state = slot_state(connection, slot)
                if state is None or not state.is_active:
                    break
                self._env.clock.sleep_ms(FREED_WAIT_MS)
        if state is None:
            return [f"There is no slot '{slot}' yet."]
        confirmed = "nothing" if state.confirmed_lsn is None else lsn_text(state.confirmed_lsn)
        held = f"It holds {state.held_bytes or 0:,} bytes of WAL, and all that is written from now"
        if state.safe_bytes is None:
            held += " on, without a limit."
        else:
            held += f" on; after {state.safe_bytes:,} bytes more the server gives it up."
        return [
            f"The slot '{slot}' stays, confirmed to {confirmed}.",
            held,
            "To end the job for good, run tidelake cdc drop with its file or arguments; to drop the"
            f" slot alone, in PostgreSQL: SELECT pg_drop_replication_slot({quote_text(slot)})",
        ]

    def confirm(self, position: str) -> None:
        """Say that everything to a position is safe, so that the server may forget it."""
        parsed = LogPosition.parse(position)
        if self._reader.confirm(parsed):
            return
        values = {"slot": self._settings.slot, "lsn": lsn_text(parsed.lsn)}
        self._ask(_ADVANCE, values)

    def status(self) -> dict[str, object]:
        """Facts of the slot, and the newest position."""
        found: dict[str, object] = {"slot": self._settings.slot, "newest": self.newest()}
        with self._connected() as connection:
            state = slot_state(connection, self._settings.slot)
        if state is None:
            return {**found, "wal_status": "missing"}
        confirmed = state.confirmed_lsn
        return {
            **found,
            "wal_status": state.wal_status,
            "held_bytes": state.held_bytes,
            "safe_bytes": state.safe_bytes,
            "confirmed": None if confirmed is None else lsn_text(confirmed),
            "active_pid": state.active_pid,
        }

    def lag(self, position: str, newest: str) -> SourceLag:
        """Say how far a position is behind the newest one; the time by ``pg_last_committed_xact``.

        That function needs ``track_commit_timestamp``. It tells of all databases of the cluster, as
        the log does.
        """
        size = max(0, LogPosition.parse(newest).lsn - LogPosition.parse(position).lsn)
        [(tracked,)] = self._ask("SELECT current_setting('track_commit_timestamp')", {})
        if tracked != "on":
            note = (
                "PostgreSQL keeps no times of commits; ALTER SYSTEM SET track_commit_timestamp ="
                " on, then restart the server"
            )
            return SourceLag(size, note=note)
        [(newest_ms,)] = self._ask(_COMMITTED, {})
        if newest_ms is None:
            note = "PostgreSQL has committed nothing since it keeps times of commits"
            return SourceLag(size, note=note)
        return SourceLag(size, newest_ms=int(newest_ms))

    def slots(self) -> list[SlotStatus]:
        """Give all slots of the server."""
        with self._connected() as connection:
            return slot_health(connection, self._settings)

    def drop(self) -> list[str]:
        """Drop the slot, and the publication if it is ours."""
        self._reader.close()
        said = []
        slot, name = self._settings.slot, self._settings.publication
        with self._connected() as connection:
            if slot_state(connection, slot) is not None:
                self._drop_slot(connection)
                said.append(f"dropped the replication slot {slot}")
            found = publication(connection, name)
            if found is not None and found.is_ours:
                connection.execute(f"DROP PUBLICATION {quote_name(name)}")
                said.append(f"dropped the publication {name}")
            elif found is not None:
                said.append(f"left the publication {name}, which somebody else made")
        return said

    def close(self) -> None:
        """End all connections."""
        self._reader.close()
        if self._query_connection is not None:
            self._query_connection.close()
            self._query_connection = None

    def _drop_slot(self, connection: Any) -> None:
        # our own stream, closed just now, may hold it for a moment
        from_busy = _optional.psycopg().errors.ObjectInUse
        for attempt in range(10):
            try:
                connection.execute("SELECT pg_drop_replication_slot(%s)", (self._settings.slot,))
            except from_busy:
                if attempt == 9:
                    raise
                self._env.clock.sleep_ms(100)
            else:
                return

    def _refuse_without_identity(self, tables: Sequence[SourceName]) -> None:
        wanted = set(tables)
        found = {table.name: table for table in self._catalogue.read() if table.name in wanted}
        missing = [str(name) for name in tables if name not in found]
        if missing:
            message = f"PostgreSQL has no table {', '.join(missing)}."
            raise InvalidInputError(message, kind="cdc_no_table")
        bare = [table for table in found.values() if _has_no_identity(table)]
        if bare:
            names = ", ".join(str(table.name) for table in bare)
            message = (
                f"{counted(len(bare), 'table')} without a replica identity: {names}. Published,"
                " each UPDATE and DELETE of it would fail in the application. Run first: "
                f"ALTER TABLE {quoted(bare[0].name)} ADD PRIMARY KEY (...), or REPLICA IDENTITY"
                " FULL."
            )
            raise InvalidInputError(message, kind="cdc_no_replica_identity", tables=names)

    def _check_position(self, start: LogPosition) -> None:
        """Refuse a position that the slot has given up; the server would skip without a word."""
        with self._connected() as connection:
            state = slot_state(connection, self._settings.slot)
            newest = int(connection.execute(_WRITTEN).fetchone()[0])
        if start.lsn > newest:
            said = f"its log ends at {lsn_text(newest)}, we are at {start}: was it restored?"
            raise position_lost(self._settings, said)
        if state is None:
            said = f"there is no slot '{self._settings.slot}'."
            raise position_lost(self._settings, said)
        if state.wal_status == "lost":
            said = "the slot's wal_status is 'lost'."
            raise position_lost(self._settings, said)
        if state.confirmed_lsn is not None and state.confirmed_lsn > start.lsn:
            said = f"the slot is confirmed to {lsn_text(state.confirmed_lsn)}, we are at {start}."
            raise position_lost(self._settings, said)

    def _parts(self, chosen: LogRange, wanted: Wanted) -> list[Part]:
        # the server sends a version again when something of the table changed, be it its key only
        new = relations_after(chosen.messages, {})
        self._versions = {r: t for r, t in self._versions.items() if r.oid not in new}
        parts = decode(chosen.messages, chosen.known, wanted)
        return parts + self._renamed(chosen.messages, chosen.known, wanted.tables)

    def _version(self, relation: RelationVersion) -> SourceTable:
        found = self._versions.get(relation)
        if found is None:
            found = self._versions[relation] = self._catalogue.version(relation)
        return found

    def _renamed(
        self,
        messages: LogMessages,
        known: Mapping[int, RelationVersion],
        tables: Collection[SourceName],
    ) -> list[Part]:
        """Tables that the log calls by another name than before."""
        names = {oid: name for name, oid in self._oids.items()}
        found: list[Part] = []
        for before, after, order in versions_sent(messages, known):
            now = SourceName(self._settings.database, after.schema, after.name)
            if before is not None:
                was = SourceName(self._settings.database, before.schema, before.name)
            else:
                # the first version since we connected; the name in the catalogue may be a newer one
                was = names.get(after.oid, now)
                if was != now and self._oids_now([was]).get(was) == after.oid:
                    continue
            if was == now or was not in tables:
                continue
            self._told.add((was, after.oid))
            found.append(Vanished(was, f"it is called {now} now", order))
            if now in tables:
                reason = f"the table that was {was} took its name"
                found.append(MustReread(now, reason, order))
        return found

    def _unpublished_now(
        self, tables: Collection[SourceName], told: Collection[SourceName]
    ) -> list[Part]:
        """Tables that somebody took out of the publication: their changes are not sent."""
        with self._connected() as connection:
            found = publication(connection, self._settings.publication)
        if found is None or found.is_for_all or not found.is_by_root:
            return []
        missing = {name for name in tables if (name.schema, name.table) not in found.tables}
        new = missing - self._unpublished - set(told)
        self._unpublished = missing
        return [MustReread(name, "it is not in the publication") for name in sorted(new)]

    def _vanished(self, tables: Sequence[SourceName]) -> list[Part]:
        """Tables that are no longer there when all of the log has been read; each is told once."""
        now = self._oids_now(tables)
        found: list[MustReread | Vanished] = []
        for table in tables:
            oid = self._oids.get(table, 0)
            if now.get(table) == oid or (table, oid) in self._told:
                continue
            self._told.add((table, oid))
            if table in now:
                self._oids[table] = now[table]
                found.append(MustReread(table, "it was dropped and made again"))
            else:
                found.append(Vanished(table, "it was dropped or renamed"))
        return [*found, *self._unpublished_now(now, [part.table for part in found])]

    def _learn_oids(self, tables: Sequence[SourceName]) -> None:
        new = [table for table in tables if table not in self._oids]
        if new:
            self._oids.update(self._oids_now(new))

    def _oids_now(self, tables: Sequence[SourceName]) -> dict[SourceName, int]:
        wanted = {
            "schemas": [table.schema for table in tables],
            "tables": [table.table for table in tables],
        }
        rows = self._ask(_OIDS, wanted)
        database = self._settings.database
        return {SourceName(database, schema, table): oid for oid, schema, table in rows}

    def _has_stored(self) -> bool:
        with self._connected() as connection:
            found: Publication | None = publication(connection, self._settings.publication)
            if found is not None:
                return found.has_stored
            return bool(connection.info.server_version >= STORED_COLUMNS_VERSION)

    def _ask(self, query: str, values: Mapping[str, Any]) -> Sequence[tuple[Any, ...]]:
        for attempt in range(_ASK_TRIES):
            try:
                with self._connected() as connection:
                    rows: Sequence[tuple[Any, ...]] = connection.execute(query, values).fetchall()
                    return rows
            except StorageError as error:
                # the server was restarted: a query may be asked again
                if error.kind != "cdc_unreachable" or attempt == _ASK_TRIES - 1:
                    raise
                self._env.clock.sleep_ms(500 * (attempt + 1))
        raise AssertionError("unreachable")

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        """Lend the connection for queries; errors within the block are given as ours."""
        if self._query_connection is None or is_broken(self._query_connection):
            self._query_connection = connect(self._settings)
        with translated(self._settings):
            yield self._query_connection


def _has_no_identity(table: CatalogueTable) -> bool:
    """Whether publishing a table makes its UPDATEs fail."""
    if table.replica_identity == "i":
        return not table.identity_columns
    return table.old_rows is OldRows.NOTHING
