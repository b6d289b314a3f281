"""Keys looked up by the query service of a table: nothing is copied to this machine.

A service answers from the newest snapshot that it has, which is that of the batch or a later one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from tidelake.catalog import Catalog
from tidelake.service.client.opening import query
from tidelake.service.protocol.service_file import read_service_file
from tidelake.spark.lookupjoin.task import Found
from tidelake.table import Table
from tidelake.telemetry import PerProcess

if TYPE_CHECKING:
    from tidelake.service.client.table_query import TableQuery

__all__ = ["CALLS_MAX", "ServiceLookup", "is_served"]

CALLS_MAX = 4
"""Batches of one task that are under way at a time."""
_CLIENTS: PerProcess[dict[tuple[str, str, str], TableQuery]] = PerProcess(dict)


def is_served(table: Table) -> bool:
    """Whether a query service has registered for a table."""
    return read_service_file(table.fileio, table.paths.location) is not None


@dataclass(frozen=True, slots=True)
class ServiceLookup:
    """Looks keys up by the service. Picklable; threads may share it.

    Parameters
    ----------
    catalog : Catalog
        Where the table is.
    identifier : str
        The table.
    key : str
        A column of its primary key, which is null in no row that is found.
    columns : tuple of str
        The columns wanted.
    settings : mapping
        Further arguments of :func:`tidelake.query`.
    """

    catalog: Catalog
    identifier: str
    key: str
    columns: tuple[str, ...]
    settings: Mapping[str, Any]

    def show(self, snapshot: int) -> None:
        """Nothing is prepared: each call says which snapshot it needs."""

    def at(self, keys: pa.RecordBatch, snapshot: int) -> Found:
        """Look keys up in this snapshot or a later one."""
        asked = list(dict.fromkeys([*self.columns, self.key]))
        client = self._client()
        found = cast(
            "pa.Table", client.get_many(keys, columns=asked, min_snapshot=snapshot or None)
        )
        hits = found.column(self.key).is_valid()
        rows = found.filter(hits).select(self.columns).combine_chunks()
        batches = rows.to_batches()
        batch = batches[0] if batches else pa.RecordBatch.from_pylist([], schema=rows.schema)
        return np.asarray(hits.to_numpy(), dtype=bool), batch

    def newest(self, keys: pa.RecordBatch) -> Found:
        """Look keys up as the service knows the table now."""
        return self.at(keys, 0)

    def _client(self) -> TableQuery:
        clients = _CLIENTS.value
        key = (
            self.catalog.uri,
            self.identifier,
            json.dumps(dict(self.settings), default=str),
        )
        client = clients.get(key)
        if client is None:
            client = query(self.catalog, self.identifier, **self.settings)
            client = clients.setdefault(key, client)
        return client
