"""The client of the query service for coroutines: :class:`AsyncTableQuery`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Self

import pyarrow as pa

from tidelake.engine.tables import Catalog
from tidelake.errors import ClosedError
from tidelake.service.client.answers import Row, rows_as_dicts, rows_as_table
from tidelake.service.client.async_lanes import AsyncLanes
from tidelake.service.client.calling import carry_out_async
from tidelake.service.client.keys.key_columns import Key
from tidelake.service.client.keys.work import RowWork, ValueWork, Work
from tidelake.service.client.lanes import Routed, work_of
from tidelake.service.client.local import LocalAnswers
from tidelake.service.client.session import Session
from tidelake.service.client.settings import ATTEMPT_SECONDS_MAX, Settings
from tidelake.service.client.short_way import rows_of, short_call
from tidelake.service.client.steps import Answer, Goal, GoneError, KeyChangedError, lookup
from tidelake.service.observe.spans import span
from tidelake.service.protocol import tidelake_query_v1_pb2 as pb


class AsyncTableQuery:
    """Rows of one table by key, awaited. Made by :func:`tidelake.lookup_client_async`.

    The methods, promises and errors of :class:`~tidelake.service.client.table_query.TableQuery`, as
    coroutines of one event loop. Gets that are begun together are answered by one call.
    """

    def __init__(self, catalog: Catalog, identifier: str, settings: Settings) -> None:
        self._session = Session(catalog, identifier, settings)
        self._lanes = AsyncLanes()
        self._local = LocalAnswers(self._session)
        self._is_closed = False

    def __reduce__(self) -> tuple[object, ...]:
        session = self._session
        return (type(self), (session.catalog, session.identifier, session.settings))

    def __repr__(self) -> str:
        return f"AsyncTableQuery({self._session.identifier!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    @property
    def snapshot_id(self) -> int | None:
        """The newest snapshot that an answer of this client came from; None before the first."""
        return self._session.shown.snapshot or None

    @property
    def schema(self) -> pa.Schema:
        """The table's columns, as they were when it was opened last."""
        return self._session.table.schema

    @property
    def is_local(self) -> bool:
        """Whether answers come from the table's files, because the service has stopped."""
        return self._local.is_on

    async def get(
        self,
        key: Key,
        *,
        columns: Sequence[str] | None = None,
        min_snapshot: int | None = None,
    ) -> Row | None:
        """Give the row of a key, or None: ``TableQuery.get``."""
        try:
            return await self._get(key, columns, min_snapshot)
        except KeyChangedError:
            return await self._get(key, columns, min_snapshot)  # by the key that it has now

    async def _get(
        self, key: Key, columns: Sequence[str] | None, min_snapshot: int | None
    ) -> Row | None:
        session = self._session
        self._check()
        min_snapshot = session.snapshot_number(min_snapshot)
        keys = session.keys
        values = keys.values(key)
        wanted = None if columns is None else await self._columns(columns)
        view = session.view
        if (
            view is None
            or view.keys is not keys
            or view.router.asks_all
            or self._local.is_on
            or (min_snapshot is not None and min_snapshot > session.shown.snapshot)
        ):
            # a caller that waits for a snapshot must not make others wait
            goal = self._goal(wanted, min_snapshot, consistent=True)
            return (await self._dicts(ValueWork(keys, (values,)), goal))[0]
        router = view.router
        route = router.route(values)

        async def fly(gets: Sequence[Routed]) -> list[Row | None]:
            goal = self._goal(wanted, None, consistent=True)
            rows = await self._short_way(gets, goal)
            return await self._dicts(work_of(gets, keys), goal) if rows is None else rows

        return await self._lanes.get((route.executor, wanted), (values, route, router), fly)

    async def get_many(
        self,
        keys: object,
        *,
        columns: Sequence[str] | None = None,
        min_snapshot: int | None = None,
    ) -> list[Row | None] | pa.Table:
        """Give the rows of many keys: ``TableQuery.get_many``."""
        if isinstance(keys, Iterator):
            keys = list(keys)  # they may be sent twice
        try:
            return await self._get_many(keys, columns, min_snapshot)
        except KeyChangedError:
            return await self._get_many(keys, columns, min_snapshot)

    async def _get_many(
        self, keys: object, columns: Sequence[str] | None, min_snapshot: int | None
    ) -> list[Row | None] | pa.Table:
        session = self._session
        self._check()
        min_snapshot = session.snapshot_number(min_snapshot)
        wanted = await self._columns(columns)
        own = session.keys
        work = RowWork(own, own.rows(keys))
        goal = self._goal(wanted, min_snapshot, consistent=session.settings.consistent)
        if not isinstance(keys, (pa.Array, pa.ChunkedArray, pa.RecordBatch, pa.Table)):
            return await self._dicts(work, goal)
        if work.count == 0:
            names = wanted or self.schema.names
            fields = [self.schema.field(name).with_nullable(True) for name in names]
            return pa.schema(fields).empty_table()
        answers = await self._answers(work, goal)
        if answers is None:
            return await asyncio.to_thread(self._local.table, work, goal)
        return rows_as_table(answers, work.count)

    async def close(self) -> None:
        """Close the connections; may be called several times."""
        self._is_closed = True
        await self._lanes.close()
        if self._session.mark.is_here:
            self._session.close()
            self._local.close()

    # ---- how

    def _goal(
        self, columns: tuple[str, ...] | None, min_snapshot: int | None, *, consistent: bool
    ) -> Goal:
        end = self._session.now() + self._session.settings.deadline_seconds
        return Goal(columns, min_snapshot, consistent, end)

    async def _short_way(self, gets: Sequence[Routed], goal: Goal) -> list[Row | None] | None:
        """The rows of gets of one executor, if nothing is unusual."""
        call = short_call(self._session, gets, goal.columns)
        if call is None or call.connection.async_frames is None:
            return None
        seconds = min(goal.end - self._session.now(), ATTEMPT_SECONDS_MAX)
        reply = await call.connection.async_frames.call(call.request, max(seconds, 0.001))
        if not isinstance(reply, pb.LookupReply):
            return None
        return rows_of(self._session, call, reply)

    async def _dicts(self, work: Work, goal: Goal) -> list[Row | None]:
        if work.count == 0:
            return []
        answers = await self._answers(work, goal)
        if answers is None:
            return await asyncio.to_thread(self._local.dicts, work, goal)
        return rows_as_dicts(answers, work.count)

    async def _answers(self, work: Work, goal: Goal) -> list[Answer] | None:
        """Those of the service; None where the table's files are to be read instead."""
        if self._local.is_on and not self._local.may_ask_again(self._session.now()):
            return None
        try:
            with span("query.get", self._session.identifier, work.count):
                steps = lookup(self._session, work, goal, self._session.now)
                answers: list[Answer] = await carry_out_async(self._session, steps)
        except GoneError:
            self._local.turn_on(self._session.now())
            return None
        self._local.turn_off()
        return answers

    async def _columns(self, names: Sequence[str] | None) -> tuple[str, ...] | None:
        if names is None:
            return None
        wanted = tuple(names)
        if set(wanted) <= set(self._session.table.table_schema.field_names):
            return self._session.columns(names)
        return await asyncio.to_thread(self._session.columns, names)

    def _check(self) -> None:
        if self._is_closed:
            message = f"The query of table '{self._session.identifier}' is closed: open another."
            raise ClosedError(message, table=self._session.identifier)
        if not self._session.mark.is_here:
            self._session.mark.check(f"The query of table '{self._session.identifier}'")
