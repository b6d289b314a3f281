"""Iceberg tables as pyiceberg makes them, with a catalog in memory and files on disk."""

from __future__ import annotations

from typing import Any

from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER


class MemoryCatalog(MetastoreCatalog):
    """Tables by name; only creates, loads and commits."""

    def __init__(self, warehouse: str) -> None:
        super().__init__("memory", warehouse=warehouse)
        self._tables: dict[Any, Table] = {}
        self._warehouse = warehouse

    def create_table(
        self,
        identifier,
        schema,
        location=None,
        partition_spec=UNPARTITIONED_PARTITION_SPEC,
        sort_order=UNSORTED_SORT_ORDER,
        properties=None,
    ):
        location = f"{self._warehouse}/{identifier}"
        staged = self._create_staged_table(
            ("n", identifier), schema, location, partition_spec, sort_order, properties or {}
        )
        self._write_metadata(staged.metadata, staged.io, staged.metadata_location)
        table = Table(("n", identifier), staged.metadata, staged.metadata_location, staged.io, self)
        self._tables["n", identifier] = table
        return table

    def load_table(self, identifier):
        return self._tables[tuple(identifier)]

    def commit_table(self, table, requirements, updates):
        current = self._tables[tuple(table.name())]
        staged = self._update_and_stage_table(current, table.name(), requirements, updates)
        self._write_metadata(staged.metadata, staged.io, staged.metadata_location)
        self._tables[tuple(table.name())] = Table(
            table.name(), staged.metadata, staged.metadata_location, staged.io, self
        )
        made = {"metadata": staged.metadata, "metadata-location": staged.metadata_location}
        return CommitTableResponse(**made)


def memory_catalog(warehouse: str) -> Any:
    """A catalog; the methods that it lacks are not called."""
    MemoryCatalog.__abstractmethods__ = frozenset()
    made: Any = MemoryCatalog
    return made(warehouse)
