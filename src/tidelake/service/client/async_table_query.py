"""The client of the query service for coroutines: :class:`AsyncTableQuery`."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any, Self

import pyarrow as pa

from tidelake.engine.tables import Catalog
from tidelake.service.client.answers import Row
from tidelake.service.client.connection.coroutine_caller import CoroutineCaller
from tidelake.service.client.keys.key_columns import Key
from tidelake.service.client.query_client import QueryClient
from tidelake.service.client.settings import Settings


class AsyncTableQuery:
    """Rows of one table by key, awaited. Made by :func:`tidelake.lookup_client_async`.

    The methods, promises and errors of :class:`~tidelake.service.client.table_query.TableQuery`, as
    coroutines of one event loop. Gets that are begun together are answered by one call.
    """

    def __init__(self, catalog: Catalog, identifier: str, settings: Settings) -> None:
        self._client = QueryClient(catalog, identifier, settings, CoroutineCaller())

    def __reduce__(self) -> tuple[object, ...]:
        session = self._client.session
        return (type(self), (session.catalog, session.identifier, session.settings))

    def __repr__(self) -> str:
        return f"AsyncTableQuery({self._client.session.identifier!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

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
    ) -> Coroutine[Any, Any, Row | None]:
        """Give the row of a key, or None: ``TableQuery.get``."""
        return self._client.get(key, columns, min_snapshot)

    def get_many(
        self,
        keys: object,
        *,
        columns: Sequence[str] | None = None,
        min_snapshot: int | None = None,
    ) -> Coroutine[Any, Any, list[Row | None] | pa.Table]:
        """Give the rows of many keys: ``TableQuery.get_many``."""
        return self._client.get_many(keys, columns, min_snapshot)

    async def close(self) -> None:
        """Close the connections; may be called several times. Gets in flight fail."""
        self._client.close()
