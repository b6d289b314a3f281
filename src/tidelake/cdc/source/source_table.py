"""One version of a table of the source: its columns in the source's words and in ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from tidelake.types import DataField, DataType


@dataclass(frozen=True, slots=True, order=True)
class SourceName:
    """A table's name in its source.

    Parameters
    ----------
    database : str
        Of MySQL the schema, which is the same there; of Kafka what the messages name.
    schema : str
        Of PostgreSQL; empty where the source has none.
    """

    database: str
    schema: str
    table: str

    def __str__(self) -> str:
        return ".".join(part for part in (self.database, self.schema, self.table) if part)


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """A column of one version of a table.

    Parameters
    ----------
    native_type : str
        As the source prints it: ``numeric(12,2)``, ``int unsigned``.
    type : DataType or None
        Its type in the lake by the type mapping, nullable as in the source; None where the mapping
        has none, and then a table with it is refused.
    number : int or None
        The source's number of the column, which a rename keeps; None where it has none. It tells a
        rename from a drop and an add.
    has_default : bool
        Whether the column was declared with a default: adding one changes old rows without events.
    """

    name: str
    native_type: str
    type: DataType | None
    number: int | None = None
    has_default: bool = False
    comment: str | None = None


class OldRows(StrEnum):
    """How much of the old row the source sends with an update or delete."""

    ALL = "all"
    SOME = "some"
    """All or the key, as each message has it."""
    KEYS = "keys"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class SourceTable:
    """One version of a table.

    Parameters
    ----------
    columns : tuple of SourceColumn
        In the source's order.
    keys : tuple of str
        The primary key; empty without one.
    identity : str
        What stays when the table is renamed, and changes when it is dropped and made again: an oid
        or a table id; empty where the source has none.
    """

    name: SourceName
    columns: tuple[SourceColumn, ...]
    keys: tuple[str, ...] = ()
    old_rows: OldRows = OldRows.ALL
    identity: str = ""
    comment: str | None = None

    @property
    def fields(self) -> tuple[DataField, ...]:
        """The columns that have a type in the lake, numbered from 0."""
        typed = [(c.name, c.type, c.comment) for c in self.columns if c.type is not None]
        return tuple(DataField(i, name, kind, note) for i, (name, kind, note) in enumerate(typed))


KeyColumns = Callable[[SourceTable], frozenset[str]]
"""Gives columns of a version besides its key: a change of one moves the row to another key of its
target."""


def no_key_columns(table: SourceTable) -> frozenset[str]:  # noqa: ARG001
    """Of a target whose key is the source's."""
    return frozenset()
