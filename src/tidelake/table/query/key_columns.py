"""Refuses tables without a primary key, before anything is read."""

from __future__ import annotations

from tidelake.errors import InvalidInputError
from tidelake.types import TableSchema


def check_keyed(schema: TableSchema, *, table: str) -> None:
    """Refuse a table without a primary key.

    Raises
    ------
    InvalidInputError
        Its rows have no key.
    """
    if not schema.primary_keys:
        message = (
            f"Table '{table}' has no primary key, so its rows cannot be looked up by key: read it"
            " with a filter."
        )
        raise InvalidInputError(message, kind="no_primary_key", table=table)
