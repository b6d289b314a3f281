"""The client of the query service, for threads and coroutines alike: their faces only wait.

A get whose executor is known joins the queue of that executor
(:mod:`tidelake.service.client.request_queue`). All else is looked up by itself
(:mod:`tidelake.service.client.full_lookup`).
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterator, Sequence
from typing import Any

import pyarrow as pa

from tidelake.engine.tables import Catalog
from tidelake.errors import ClosedError
from tidelake.service.client.answers import Row
from tidelake.service.client.connection.caller import ClientCaller
from tidelake.service.client.fast_path import FastPath
from tidelake.service.client.full_lookup import FullLookup
from tidelake.service.client.keys.key_batch import ArrowKeys, SingleKeys
from tidelake.service.client.keys.key_columns import Key
from tidelake.service.client.lookup import KeyChangedError, LookupOptions
from tidelake.service.client.request_queue import RequestQueue
from tidelake.service.client.session import Session
from tidelake.service.client.settings import Settings

Columns = tuple[str, ...] | None
"""The names of columns; None for all."""


class QueryClient:
    """What :class:`TableQuery` and :class:`AsyncTableQuery` do, by a caller of either kind."""

    def __init__(
        self, catalog: Catalog, identifier: str, settings: Settings, caller: ClientCaller
    ) -> None:
        self.session = Session(catalog, identifier, settings, caller)
        self._full = FullLookup(self.session)
        self._fast = FastPath(self.session, self._full)
        self._queues: dict[tuple[int, Columns], RequestQueue] = {}
        self._is_closed = False

    @property
    def snapshot_id(self) -> int | None:
        """The newest snapshot that an answer of this client came from; None before the first."""
        return self.session.shown.snapshot or None

    @property
    def schema(self) -> pa.Schema:
        """The table's columns, as they were when it was opened last."""
        return self.session.table.schema

    @property
    def is_local(self) -> bool:
        """Whether answers come from the table's files, because the service has stopped."""
        return self._full.local.is_on

    async def get(
        self, key: Key, columns: Sequence[str] | None, min_snapshot: int | None
    ) -> Row | None:
        """Give the row of a key: :meth:`TableQuery.get`."""
        try:
            wanted = None if columns is None else await self._columns(columns)
            return await self._begun(key, wanted, min_snapshot)
        except KeyChangedError:  # ask by the key that it has now
            wanted = None if wanted is None else await self._columns(wanted)
            return await self._begun(key, wanted, min_snapshot)

    def _begun(
        self, key: Key, columns: Columns, min_snapshot: int | None
    ) -> Coroutine[Any, Any, Row | None]:
        """Begin a get: in the queue of its executor, or by itself where anything is unusual."""
        session = self.session
        self._check()
        if min_snapshot is not None:
            min_snapshot = session.snapshot_number(min_snapshot)
        keys = session.keys
        values = keys.values(key)
        end = session.now() + session.settings.deadline_seconds
        view = session.view
        if (
            view is None
            or view.keys is not keys
            or view.router.asks_all
            or self._full.local.is_on
            or (min_snapshot is not None and min_snapshot > session.shown.snapshot)
        ):
            # a caller that waits for a snapshot must not make others wait
            options = LookupOptions(columns, min_snapshot, consistent=True, end=end)
            return self._alone(SingleKeys(keys, (values,)), options)
        router = view.router
        route = router.route(values)
        queue = self._queues.get((route.executor, columns)) or self._queue(route.executor, columns)
        return queue.get((values, route, router), end)

    async def _alone(self, key: SingleKeys, options: LookupOptions) -> Row | None:
        return (await self._full.dicts(key, options))[0]

    def _queue(self, executor: int, columns: Columns) -> RequestQueue:
        session = self.session
        seconds = session.settings.deadline_seconds
        made = RequestQueue(self._fast, columns, session.caller, seconds, session.now)
        return self._queues.setdefault((executor, columns), made)

    async def get_many(
        self, keys: object, columns: Sequence[str] | None, min_snapshot: int | None
    ) -> list[Row | None] | pa.Table:
        """Give the rows of many keys: :meth:`TableQuery.get_many`."""
        if isinstance(keys, Iterator):
            keys = list(keys)  # they may be sent twice
        try:
            return await self._get_many(keys, columns, min_snapshot)
        except KeyChangedError:
            return await self._get_many(keys, columns, min_snapshot)

    async def _get_many(
        self, keys: object, columns: Sequence[str] | None, min_snapshot: int | None
    ) -> list[Row | None] | pa.Table:
        session = self.session
        self._check()
        min_snapshot = session.snapshot_number(min_snapshot)
        wanted = None if columns is None else await self._columns(columns)
        own, settings = session.keys, session.settings
        batch = ArrowKeys(own, own.rows(keys))
        end = session.now() + settings.deadline_seconds
        options = LookupOptions(wanted, min_snapshot, consistent=settings.consistent, end=end)
        if isinstance(keys, (pa.Array, pa.ChunkedArray, pa.RecordBatch, pa.Table)):
            return await self._full.table(batch, options)
        return await self._full.dicts(batch, options)

    async def _columns(self, names: Sequence[str]) -> tuple[str, ...]:
        """Check the names of columns; for one that is not known the table is opened again."""
        self._check()
        session = self.session
        names = names if isinstance(names, str) else tuple(names)
        if set(names) <= set(session.table.table_schema.field_names):
            return session.columns(names)
        return await session.caller.aside(session.columns, names)

    def close(self) -> None:
        """Close the connections; may be called several times."""
        self._is_closed = True
        if self.session.mark.is_here:
            self.session.close()
            self._full.close()

    def _check(self) -> None:
        session = self.session
        if self._is_closed:
            message = f"The query of table '{session.identifier}' is closed: open another."
            raise ClosedError(message, table=session.identifier)
        if not session.mark.is_here:
            session.mark.check(f"The query of table '{session.identifier}'")
