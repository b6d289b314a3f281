"""Opens a table with rows of its own by name."""

from __future__ import annotations

from tidelake.engine.tables import Catalog, Table
from tidelake.errors import UnsupportedError


def opened_table(catalog: Catalog, identifier: str) -> Table:
    """Open a table.

    Raises
    ------
    NotFoundError
        It does not exist.
    UnsupportedError
        It is a system table, which has no keys.
    """
    table = catalog.table(identifier)
    if not isinstance(table, Table):
        message = f"'{identifier}' is a system table and has no keys to look up: scan it."
        raise UnsupportedError(message, kind="lookup_without_key", table=identifier)
    return table
