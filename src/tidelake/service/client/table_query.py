"""The client of the query service for threads: :class:`TableQuery`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import pyarrow as pa

from tidelake.engine.tables import Catalog
from tidelake.service.client.answers import Row
from tidelake.service.client.connection.thread_caller import ThreadCaller, finished
from tidelake.service.client.keys.key_columns import Key
from tidelake.service.client.query_client import QueryClient
from tidelake.service.client.settings import Settings


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
        self._client = QueryClient(catalog, identifier, settings, ThreadCaller(catalog.env.clock))

    def __reduce__(self) -> tuple[object, ...]:
        session = self._client.session
        return (type(self), (session.catalog, session.identifier, session.settings))

    def __repr__(self) -> str:
        return f"TableQuery({self._client.session.identifier!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def snapshot_id(self) -> int | None:
        """The newest snapshot that an answer of this client came from; None before the first."""
        return self._client.snapshot_id

    @property
    def schema(self) -> pa.Schema:
        """The table's columns, as they were when it was opened last."""
        return self._client.schema

    @property
    def is_local(self) -> bool:
        """Whether answers come from the table's files, because the service has stopped."""
        return self._client.is_local

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
        return finished(self._client.get(key, columns, min_snapshot))

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
        return finished(self._client.get_many(keys, columns, min_snapshot))

    def close(self) -> None:
        """Close the connections; may be called several times."""
        self._client.close()
