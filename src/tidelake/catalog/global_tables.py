"""System tables of a catalog: ``cat.table("sys.all_table_options")``.

- ``sys.all_table_options``: one row per option that a table sets.
- ``sys.catalog_options``: one row per option of the catalog, with the warehouse.

Names and columns are those of Paimon (1.3.1). The database ``sys`` is not on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa

from tidelake.table import SystemTable
from tidelake.table.handle.time_travel import Time

SYSTEM_DATABASE = "sys"

_TEXT = pa.string()

GLOBAL_TABLES = {
    "all_table_options": pa.schema(
        [(name, _TEXT) for name in ("database_name", "table_name", "key", "value")]
    ),
    "catalog_options": pa.schema(
        [pa.field("key", _TEXT, nullable=False), pa.field("value", _TEXT, nullable=False)]
    ),
}
"""Columns by name."""


class GlobalTable(SystemTable):
    """One system table of a catalog.

    Parameters
    ----------
    name : str
        Its name in the database ``sys``.
    rows : callable
        Returns the rows as tuples.
    """

    __slots__ = ("_name", "_rows")

    def __init__(self, name: str, rows: Callable[[], Iterable[tuple[str, ...]]]) -> None:
        self._name = name
        self._rows = rows

    @property
    def identifier(self) -> str:
        """``"sys.name"``."""
        return f"{SYSTEM_DATABASE}.{self._name}"

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return GLOBAL_TABLES[self._name]

    def _read(self, snapshot_id: int | None, timestamp: Time | None, tag: str | None) -> pa.Table:
        self._check_no_moment(snapshot_id, timestamp, tag)
        schema = self.schema
        rows = [dict(zip(schema.names, row, strict=True)) for row in self._rows()]
        return pa.Table.from_pylist(rows, schema=schema)
