"""The client of the query service for threads: :class:`TableQuery`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Self

import pyarrow as pa

from tidelake.engine.tables import Catalog
from tidelake.errors import ClosedError
from tidelake.service.client.answers import Row, rows_as_dicts, rows_as_table
from tidelake.service.client.calling import carry_out
from tidelake.service.client.keys.key_columns import Key
from tidelake.service.client.keys.work import RowWork, ValueWork, Work
from tidelake.service.client.lanes import Lanes, Routed, work_of
from tidelake.service.client.local import LocalAnswers
from tidelake.service.client.session import Session
from tidelake.service.client.settings import ATTEMPT_SECONDS_MAX, Settings
from tidelake.service.client.short_way import rows_of, short_call
from tidelake.service.client.steps import Answer, Goal, GoneError, KeyChangedError, lookup
from tidelake.service.observe.spans import span
from tidelake.service.protocol import tidelake_query_v1_pb2 as pb


class TableQuery:
    """Rows of one table by key, from its query service. Made by :func:`tidelake.lookup_client`.

    Threads may share it: their single gets are joined into few calls. A pickled one connects again
    where it is opened. A forked child gets an error and opens its own.

    Notes
    -----
    No call shows an older snapshot than one that this client has shown before. What fails because a
    server has moved, restarts or is behind is repeated until the deadline.
    """

    def __init__(self, catalog: Catalog, identifier: str, settings: Settings) -> None:
        self._session = Session(catalog, identifier, settings)
        self._lanes = Lanes()
        self._local = LocalAnswers(self._session)
        self._is_closed = False

    def __reduce__(self) -> tuple[object, ...]:
        session = self._session
        return (type(self), (session.catalog, session.identifier, session.settings))

    def __repr__(self) -> str:
        return f"TableQuery({self._session.identifier!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

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

    def get(
        self,
        key: Key,
        *,
        columns: Sequence[str] | None = None,
        min_snapshot: int | None = None,
    ) -> Row | None:
        """Give the row of a key.

        Parameters
        ----------
        key : object
            Its value; a tuple of the primary key's columns in order; or a dict of them.
        columns : sequence of str, optional
            Which columns; all by default.
        min_snapshot : int, optional
            The least snapshot that may answer: ``WriteResult.snapshot_ids[0]`` of a write that must
            be seen.

        Returns
        -------
        dict or None
            None where the table has no such key.

        Raises
        ------
        InvalidInputError
            The key does not fit, or the token is refused.
        NotFoundError
            A column does not exist, or the table is not served.
        StorageError
            Nobody answered within the deadline.
        """
        try:
            return self._get(key, columns, min_snapshot)
        except KeyChangedError:
            return self._get(key, columns, min_snapshot)  # by the key that the table has now

    def _get(self, key: Key, columns: Sequence[str] | None, min_snapshot: int | None) -> Row | None:
        session = self._session
        self._check()
        min_snapshot = session.snapshot_number(min_snapshot)
        keys = session.keys
        values = keys.values(key)
        wanted = None if columns is None else self._columns(columns)
        end = session.now() + session.settings.deadline_seconds
        view = session.view
        alone = Goal(wanted, min_snapshot, consistent=True, end=end)
        if (
            view is None
            or view.keys is not keys
            or view.router.asks_all
            or self._local.is_on
            or (min_snapshot is not None and min_snapshot > session.shown.snapshot)
        ):
            # a caller that waits for a snapshot must not make others wait
            return self._dicts(ValueWork(keys, (values,)), alone)[0]
        router = view.router
        route = router.route(values)

        def fly(gets: Sequence[Routed]) -> list[Row | None]:
            rows = self._short_way(gets, alone)
            return self._dicts(work_of(gets, keys), alone) if rows is None else rows

        seconds = session.settings.deadline_seconds
        routed = (values, route, router)
        return self._lanes.get((route.executor, wanted), routed, fly, seconds=seconds)

    def get_many(
        self,
        keys: object,
        *,
        columns: Sequence[str] | None = None,
        min_snapshot: int | None = None,
    ) -> list[Row | None] | pa.Table:
        """Give the rows of many keys.

        Parameters
        ----------
        keys : object
            A list of keys; or an Arrow array, record batch or table of them.

        Returns
        -------
        list of (dict or None), or pyarrow.Table
            In the order of the keys. For Arrow a table, all null in the rows of keys that the table
            does not have.

        Raises
        ------
        TidelakeError
            As of :meth:`get`.
        """
        if isinstance(keys, Iterator):
            keys = list(keys)  # they may be sent twice
        try:
            return self._get_many(keys, columns, min_snapshot)
        except KeyChangedError:
            return self._get_many(keys, columns, min_snapshot)

    def _get_many(
        self, keys: object, columns: Sequence[str] | None, min_snapshot: int | None
    ) -> list[Row | None] | pa.Table:
        session = self._session
        self._check()
        min_snapshot = session.snapshot_number(min_snapshot)
        wanted = None if columns is None else self._columns(columns)
        own = session.keys
        work = RowWork(own, own.rows(keys))
        goal = Goal(
            wanted,
            min_snapshot,
            consistent=session.settings.consistent,
            end=session.now() + session.settings.deadline_seconds,
        )
        if isinstance(keys, (pa.Array, pa.ChunkedArray, pa.RecordBatch, pa.Table)):
            return self._table(work, goal)
        return self._dicts(work, goal)

    def close(self) -> None:
        """Close the connections; may be called several times."""
        self._is_closed = True
        if self._session.mark.is_here:
            self._session.close()
            self._local.close()

    # ---- how

    def _short_way(self, gets: Sequence[Routed], goal: Goal) -> list[Row | None] | None:
        """The rows of gets of one executor, if nothing is unusual."""
        call = short_call(self._session, gets, goal.columns)
        if call is None or call.connection.frames is None:
            return None
        seconds = min(goal.end - self._session.now(), ATTEMPT_SECONDS_MAX)
        reply = call.connection.frames.call(call.request, max(seconds, 0.001))
        if not isinstance(reply, pb.LookupReply):
            return None
        return rows_of(self._session, call, reply)

    def _dicts(self, work: Work, goal: Goal) -> list[Row | None]:
        if work.count == 0:
            return []
        answers = self._answers(work, goal)
        if answers is None:
            return self._local.dicts(work, goal)
        return rows_as_dicts(answers, work.count)

    def _table(self, work: Work, goal: Goal) -> pa.Table:
        if work.count == 0:
            return self._empty(goal)
        answers = self._answers(work, goal)
        if answers is None:
            return self._local.table(work, goal)
        return rows_as_table(answers, work.count)

    def _empty(self, goal: Goal) -> pa.Table:
        schema = self._session.table.schema
        names = goal.columns or schema.names
        return pa.schema([schema.field(n).with_nullable(True) for n in names]).empty_table()

    def _answers(self, work: Work, goal: Goal) -> list[Answer] | None:
        """Those of the service; None where the table's files are to be read instead."""
        if self._local.is_on and not self._local.may_ask_again(self._session.now()):
            return None
        try:
            with span("query.get", self._session.identifier, work.count):
                steps = lookup(self._session, work, goal, self._session.now)
                answers: list[Answer] = carry_out(self._session, steps)
        except GoneError:
            self._local.turn_on(self._session.now())
            return None
        self._local.turn_off()
        return answers

    def _columns(self, names: Sequence[str]) -> tuple[str, ...]:
        return self._session.columns(names)

    def _check(self) -> None:
        if self._is_closed:
            message = f"The query of table '{self._session.identifier}' is closed: open another."
            raise ClosedError(message, table=self._session.identifier)
        if not self._session.mark.is_here:
            self._session.mark.check(f"The query of table '{self._session.identifier}'")
