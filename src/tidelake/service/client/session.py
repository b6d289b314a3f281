"""One client's knowledge of its table and service, and what it has shown its caller.

1. A :class:`ServiceView` is what a request is made of: the table's key, the layout of the service,
   the router. It is immutable; to locate the executors again gives a new one.
2. Of several threads that find a view outdated one replaces it, and the others take what it found.
3. :attr:`Session.shown` is the newest (generation, snapshot) that any caller of this client has
   seen. It is the least that each request asks for, so no caller ever sees an older one.

A generation grows from service to service. Where it has grown, the snapshot alone is compared,
unless the service says that the table has only older ones: then the table was rolled back, or
recreated.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import grpc

from tidelake.engine.env import ProcessMark
from tidelake.engine.tables import Catalog, Table, whole_number
from tidelake.errors import (
    CorruptError,
    InvalidInputError,
    NotFoundError,
    StorageError,
    TidelakeError,
    shortened,
)
from tidelake.service.client.connection.caller import ClientCaller
from tidelake.service.client.connection.connections import Connection, Connections
from tidelake.service.client.connection.failures import Failure, Remedy, failure_of_call
from tidelake.service.client.keys.key_columns import KeyColumns
from tidelake.service.client.keys.key_router import KeyRouter
from tidelake.service.client.open_table import opened_table
from tidelake.service.client.settings import LOCATE_SECONDS_MAX, Settings
from tidelake.service.observe.spans import carried
from tidelake.service.protocol import tidelake_query_v1_pb2 as pb
from tidelake.service.protocol.packed_columns import is_packable
from tidelake.service.protocol.packed_values import RowReader
from tidelake.service.protocol.reasons import PROTOCOL
from tidelake.service.protocol.service_file import read_service_file
from tidelake.types.schema import DataField, TableSchema

READERS_MAX = 256
"""Readers of rows that are kept: one for each schema and projection."""


class Floor(NamedTuple):
    """The least (generation, snapshot) of an answer."""

    generation: int
    snapshot: int


@dataclass(frozen=True, slots=True)
class ServiceView:
    """What the requests of one client are made of."""

    table: Table
    keys: KeyColumns
    router: KeyRouter
    layout: pb.Layout
    executors: Mapping[int, Connection]
    _bodies: dict[tuple[str, ...] | None, pb.Body] = field(default_factory=dict)

    def body(self, columns: tuple[str, ...] | None) -> pb.Body:
        """The form of answers that have these columns."""
        found = self._bodies.get(columns)
        if found is None:
            fields = self.table.table_schema.fields
            wanted = [f for f in fields if columns is None or f.name in columns]
            packed = all(is_packable(f.type) for f in wanted)
            found = pb.BODY_PACKED if packed else pb.BODY_ARROW
            self._bodies[columns] = found
        return found


class Session:
    """What the calls of one client share. Threads share it."""

    def __init__(
        self, catalog: Catalog, identifier: str, settings: Settings, caller: ClientCaller
    ) -> None:
        self.caller = caller
        self.catalog = catalog
        self.identifier = identifier
        self.settings = settings
        self.table = opened_table(catalog, identifier)
        self.keys = KeyColumns.of(self.table.handle)
        self.mark = ProcessMark()
        self.view: ServiceView | None = None
        self.shown = Floor(0, 0)
        clock = catalog.env.clock
        self.now = clock.monotonic_seconds
        self._connections = Connections(settings.tls, settings.token, clock, caller)
        self._token_metadata = self._connections.metadata
        self._schemas: dict[tuple[int, int], TableSchema] = {}
        self._readers: dict[tuple[int, int, tuple[str, ...] | None], RowReader] = {}
        self._lock = threading.Lock()
        self._locating = threading.Lock()
        self._address_server = ""

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """What each call says besides its message."""
        span = carried()
        return (*self._token_metadata, *span) if span else self._token_metadata

    def is_traced(self, metadata: tuple[tuple[str, str], ...]) -> bool:
        """Whether these of a call name a span."""
        return metadata is not self._token_metadata

    def has_service(self) -> bool:
        """Whether a service has registered for the table, and not taken its name back."""
        return read_service_file(self.table.fileio, self.table.paths.log_dir) is not None

    # ---- the view

    def locate(self, old: ServiceView | None, *, reopen: bool = False) -> Failure | None:
        """Replace a view that is not up to date, or the first one; tell why if that fails.

        Parameters
        ----------
        old : ServiceView, optional
            The view that was used; nothing is done where it has been replaced meanwhile.
        reopen : bool
            Whether to open the table again too.
        """
        with self._locating:
            if self.view is not old:
                return None
            try:
                table = self.table
                if reopen or old is None:
                    table = opened_table(self.catalog, self.identifier)
                self._take(table, self._asked(table), old)
            except grpc.RpcError as error:
                return failure_of_call(error, address=self._address_server)
            except NotFoundError as error:
                return Failure(Remedy.REOPEN, error, is_missing=True)
            except StorageError as error:
                gone = error.kind == "service_unavailable"
                return Failure(Remedy.WAIT_AND_LOCATE, error, is_unreachable=gone)
            except TidelakeError as error:
                return Failure(Remedy.NONE, error)
            return None

    def _asked(self, table: Table) -> tuple[pb.Layout, bool]:
        """The layout, and whether executors answer by TLS."""
        try:
            found = read_service_file(table.fileio, table.paths.log_dir)
        except CorruptError as error:  # a service that runs writes it anew
            raise StorageError(
                error.message, kind="service_unavailable", table=self.identifier
            ) from error
        if found is None:
            message = (
                f"No query service is registered for table '{self.identifier}'. Start one:"
                f" tidelake serve {self.identifier}."
            )
            raise StorageError(message, kind="service_unavailable", table=self.identifier)
        self._address_server = found.address
        server = self._connections.to(found.address, secure=found.tls)
        request = pb.LocateRequest(protocol=PROTOCOL, table=self.identifier)
        layout = server.address_server.Locate(
            request,
            timeout=min(LOCATE_SECONDS_MAX, self.settings.deadline_seconds),
            metadata=self.metadata,
        )
        if not layout.executors_count:
            message = f"The service at {found.address} has no executors yet."
            raise StorageError(message, kind="service_unavailable", table=self.identifier)
        self._connections.keep_only(
            {found.address, *(executor.address for executor in layout.executors)}
        )
        return layout, found.tls

    def _take(self, table: Table, asked: tuple[pb.Layout, bool], old: ServiceView | None) -> None:
        layout, secure = asked
        keys = KeyColumns.of(table.handle)
        counts: Mapping[bytes, int] = {}
        if old is not None and old.keys == keys:
            counts = old.router.bucket_counts
        executors = {
            e.index: self._connections.to(
                e.address, secure=secure, server_name=layout.server_name, frames=e.frames
            )
            for e in layout.executors
        }
        router = KeyRouter(keys, layout.executors_count, counts)
        self._rebase(layout, table)
        self.table, self.keys = table, keys
        self.view = ServiceView(table, keys, router, layout, executors)

    def recount(self, old: ServiceView, counts: Mapping[bytes, int]) -> None:
        """Learn how many buckets some partitions have."""
        with self._locating:
            view = self.view
            if view is not None and view.layout.epoch == old.layout.epoch:
                merged = {**view.router.bucket_counts, **counts}
                self.view = replace(view, router=replace(view.router, bucket_counts=merged))

    # ---- what was shown

    def _rebase(self, layout: pb.Layout, table: Table) -> None:
        """Compare with a service of a newer generation by snapshots.

        One that has fewer is of a table that was rolled back or recreated, or it has not looked at
        the table since this client read its files itself: the files tell.
        """
        version = layout.version
        if version.generation <= self.shown.generation:
            return
        newest = version.snapshot
        if newest < self.shown.snapshot:
            newest = max(newest, table.handle.snapshots.latest_id() or 0)
        with self._lock:
            if version.generation > self.shown.generation:
                snapshot = min(self.shown.snapshot, newest)
                self.shown = Floor(version.generation, snapshot)

    def show(self, floor: Floor) -> bool:
        """Say that an answer of a version is about to be shown; False if a newer one was."""
        with self._lock:
            if floor < self.shown:
                return False
            self.shown = floor
            return True

    def snapshot_number(self, given: object) -> int | None:
        """The snapshot that a caller waits for; None if it waits for none.

        Raises
        ------
        InvalidInputError
            It is no whole number.
        """
        number = None if given is None else whole_number(given)
        if number is None and given is not None:
            message = (
                f"min_snapshot is {shortened(repr(given))} for table '{self.identifier}', but must"
                " be the id of a snapshot, a whole number."
            )
            raise InvalidInputError(message, kind="bad_argument", table=self.identifier)
        return number

    def least(self, min_snapshot: int | None) -> Floor:
        """The least version of an answer now."""
        shown = self.shown
        if min_snapshot is None or min_snapshot <= shown.snapshot:
            return shown
        return Floor(shown.generation, min_snapshot)

    # ---- schemas of answers

    def columns(self, names: Sequence[str]) -> tuple[str, ...]:
        """Check the names of columns; a table that has changed is opened again.

        Raises
        ------
        NotFoundError
            One does not exist.
        InvalidInputError
            One is named twice, or none is.
        """
        wanted = tuple(names)
        if not wanted or len(set(wanted)) < len(wanted) or isinstance(names, str):
            message = f"columns is {names!r}: name at least one column, and each once."
            raise InvalidInputError(message, kind="columns", table=self.identifier)
        known = self.table.table_schema.field_names
        if not set(wanted) <= set(known):
            self.table = opened_table(self.catalog, self.identifier)
            for name in wanted:
                self.table.table_schema.field(name)
        return wanted

    def known_fields(
        self, version: pb.Version, columns: Sequence[str] | None
    ) -> list[DataField] | None:
        """The columns of an answer; None if its schema has not been read yet."""
        schema = self._schemas.get((version.generation, version.schema))
        if schema is None:
            return None
        return [schema.field(name) for name in columns] if columns else list(schema.fields)

    def row_reader(self, version: pb.Version, columns: tuple[str, ...] | None) -> RowReader | None:
        """Reads the rows of an answer; None if its schema has not been read yet."""
        key = (version.generation, version.schema, columns)
        found = self._readers.get(key)
        if found is None:
            fields = self.known_fields(version, columns)
            if fields is None:
                return None
            if len(self._readers) >= READERS_MAX:
                self._readers.clear()
            found = self._readers[key] = RowReader(fields)
        return found

    def read_schema(self, version: pb.Version) -> None:
        """Read the schema of an answer.

        Raises
        ------
        NotFoundError
            The schema was deleted: the table was dropped.
        """
        # not the schema that is open: a recreated table has other columns under its id
        found = self.table.handle.schemas.load(version.schema)
        self._schemas[version.generation, version.schema] = found

    def close(self) -> None:
        """Close the connections; calls under way fail."""
        self._connections.close()
