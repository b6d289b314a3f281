"""Opens the table of a command, and reads how a version is written there."""

from __future__ import annotations

from collections.abc import Mapping

from tidelake.engine.tables import Moment, Table, open_catalog
from tidelake.errors import InvalidInputError


def opened(
    warehouse: str, name: str, catalog_options: Mapping[str, str], memory: str | None = None
) -> Table:
    """Open a table.

    Raises
    ------
    InvalidInputError
        It is a system table.
    NotFoundError
        There is no such table.
    """
    table = open_catalog(warehouse, catalog=catalog_options, memory=memory).table(name)
    if not isinstance(table, Table):
        message = f"'{name}' is a system table: name the table itself."
        raise InvalidInputError(message, kind="system_table", table=name)
    return table


def version_of(table: Table, text: str | None) -> Moment | None:
    """Read a version: a snapshot's id, unless a tag has that name; else its text."""
    if text is None or not (text.isascii() and text.isdecimal()):
        return text
    return text if text in {tag.name for tag in table.tags.list()} else int(text)
