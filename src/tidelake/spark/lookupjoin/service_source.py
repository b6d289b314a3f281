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
from pyspark.sql.utils import is_remote

from tidelake.engine.env import PerProcess
from tidelake.engine.storage import SentSecrets
from tidelake.engine.tables import Catalog, Table
from tidelake.service.client.opening import lookup_client
from tidelake.service.protocol.service_file import read_service_file
from tidelake.spark.lookupjoin.task import Found

if TYPE_CHECKING:
    from tidelake.service.client.table_query import TableQuery

TOKEN = "token"
CALLS_MAX = 4
"""Batches of one task that are under way at a time."""
_CLIENTS: PerProcess[dict[tuple[str, str, str], TableQuery]] = PerProcess(dict)


def is_served(table: Table) -> bool:
    """Whether a query service has registered for a table."""
    return read_service_file(table.fileio, table.paths.log_dir) is not None


@dataclass(frozen=True, slots=True)
class ServiceLookup:
    """Looks keys up by the service. Picklable; threads may share it.

    Parameters
    ----------
    key : str
        A column of its primary key, which is null in no row that is found.
    settings : mapping
        Further arguments of :func:`tidelake.lookup_client`.
    """

    catalog: Catalog
    identifier: str
    key: str
    columns: tuple[str, ...]
    settings: Mapping[str, Any]
    secrets: SentSecrets | None = None

    @classmethod
    def of(
        cls, catalog: Catalog, table: Table, columns: tuple[str, ...], settings: Mapping[str, Any]
    ) -> ServiceLookup:
        """Part the token from the other arguments: it is in no pickle.

        Through Spark Connect nothing else could carry it.
        """
        rest, token = dict(settings), settings.get(TOKEN)
        secrets = None
        if token is not None and not is_remote():
            secrets = SentSecrets({TOKEN: rest.pop(TOKEN)})
        found, key = catalog.for_reading(), table.primary_keys[0]
        return cls(found, table.identifier, key, columns, rest, secrets)

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
        number = "" if self.secrets is None else self.secrets.number
        settings = json.dumps(dict(self.settings), default=str)
        key = (self.catalog.uri, self.identifier, f"{settings} {number}")
        client = clients.get(key)
        if client is None:
            secrets: dict[str, Any] = {} if self.secrets is None else self.secrets.reveal()
            client = lookup_client(self.catalog, self.identifier, **self.settings, **secrets)
            client = clients.setdefault(key, client)
        return client
