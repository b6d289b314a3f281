"""The table's own files as the answer, where the service has stopped and the caller allowed it.

From then on a caller looks for the service every five seconds. Answers from files obey the rule of
the client too: none is older than one that was shown.
"""

from __future__ import annotations

import threading

import pyarrow as pa

from tidelake.engine.lookup import LocalTableQuery, LookupResult
from tidelake.errors import InvalidInputError, NotFoundError, StorageError
from tidelake.service.client.answers import Row
from tidelake.service.client.keys.key_batch import KeyBatch
from tidelake.service.client.lookup import LookupOptions
from tidelake.service.client.open_table import opened_table
from tidelake.service.client.session import Floor, Session
from tidelake.service.client.settings import LOOK_AGAIN_SECONDS


class LocalAnswers:
    """Reads a table's files where its service has stopped. Threads share it."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._query: LocalTableQuery | None = None
        self._asked_at: float | None = None
        self._lock = threading.Lock()

    @property
    def is_on(self) -> bool:
        """Whether the service did not answer when it was asked last."""
        return self._asked_at is not None

    def may_ask_again(self, now: float) -> bool:
        """Whether it is time to look for the service; if so, for this caller only."""
        with self._lock:
            asked_at = self._asked_at
            if asked_at is not None and now - asked_at < LOOK_AGAIN_SECONDS:
                return False
            self._asked_at = now
            return True

    def turn_on(self, now: float) -> None:
        """Say that the service has stopped."""
        self._asked_at = now

    def turn_off(self) -> None:
        """Say that the service has answered."""
        self._asked_at = None

    def dicts(self, keys: KeyBatch, options: LookupOptions) -> list[Row | None]:
        """The rows as dicts."""
        return self._lookup(keys, options).dicts()

    def table(self, keys: KeyBatch, options: LookupOptions) -> pa.Table:
        """The rows as Arrow, all null where a key has none."""
        return self._lookup(keys, options).table()

    def _lookup(self, keys: KeyBatch, options: LookupOptions) -> LookupResult:
        session = self._session
        with self._lock:
            query = self._refreshed()
            wanted = None if options.columns is None else list(options.columns)
            result = query.lookup(keys.rows(), columns=wanted)
            found = result.snapshot_id or 0
            if options.min_snapshot is not None and found < options.min_snapshot:
                message = (
                    f"Table '{session.identifier}' has no snapshot {options.min_snapshot} yet: its"
                    f" newest is {found}."
                )
                raise StorageError(message, kind="snapshot_awaited", table=session.identifier)
            session.show(Floor(session.shown.generation, found))
            return result

    def _refreshed(self) -> LocalTableQuery:
        """The open query at the newest snapshot; opened again where the table has changed."""
        if self._query is not None:
            try:
                self._query.refresh()
            except (NotFoundError, InvalidInputError):  # recreated, or a column has another type
                self._query.close()
            else:
                return self._query
        table = opened_table(self._session.catalog, self._session.identifier)
        self._query = table.local_query()
        self._query.refresh()
        return self._query

    def close(self) -> None:
        """Close the files."""
        with self._lock:
            if self._query is not None:
                self._query.close()
                self._query = None
