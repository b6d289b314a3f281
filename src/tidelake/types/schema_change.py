"""Changes of a table's schema, as values.

A column is named by its name, or by a tuple of names if it is inside another: the field of a row by
its name, the elements of an array as ``"element"``, the values of a map as ``"value"``:
``("address", "city")``, ``("items", "element", "price")``.

The rules for applying them are in :mod:`tidelake.table.schema.evolution`. Source: Paimon's
``SchemaChange`` (1.3.1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import pyarrow as pa

from tidelake.types.data_type import DataType

__all__ = [
    "AddColumn",
    "ColumnPath",
    "ColumnType",
    "DropColumn",
    "Position",
    "RemoveOption",
    "RenameColumn",
    "SchemaChange",
    "SetOption",
    "UpdateColumnComment",
    "UpdateColumnDefaultValue",
    "UpdateColumnNullability",
    "UpdateColumnPosition",
    "UpdateColumnType",
    "UpdateComment",
]

ColumnPath = str | tuple[str, ...]
"""A column's name, or the path of names to one inside it."""

ColumnType: TypeAlias = "DataType | pa.DataType | str"
"""A Paimon type, an Arrow type, or a text: ``"DECIMAL(10, 2)"``, ``"ARRAY<STRING>"``."""


@dataclass(frozen=True, slots=True)
class Position:
    """A position among the columns.

    Examples
    --------
    >>> Position.after("id")
    Position(where='after', reference='id')
    """

    where: Literal["first", "last", "after", "before"]
    reference: str | None = None

    @classmethod
    def first(cls) -> Position:
        """Before all others."""
        return cls("first")

    @classmethod
    def last(cls) -> Position:
        """After all others."""
        return cls("last")

    @classmethod
    def after(cls, name: str) -> Position:
        """Right after a column."""
        return cls("after", name)

    @classmethod
    def before(cls, name: str) -> Position:
        """Right before a column."""
        return cls("before", name)


@dataclass(frozen=True, slots=True)
class AddColumn:
    """A new column, null in all existing rows.

    Parameters
    ----------
    column, type, comment, position
        Its definition and position; by default the last.
    default : str, optional
        The value of later rows that give none: text as in SQL.
    if_exists : {'error', 'ignore'}
        What to do if a column has this name, in any case: ``'ignore'`` leaves it as it is.
    """

    column: ColumnPath
    type: ColumnType
    comment: str | None = None
    position: Position | None = None
    default: str | None = None
    if_exists: Literal["error", "ignore"] = "error"


@dataclass(frozen=True, slots=True)
class DropColumn:
    """A column is dropped; a later one of its name is a different one.

    Parameters
    ----------
    column : str or tuple of str
        The column.
    if_missing : {'error', 'ignore'}
        What to do if no column has this name, in any case.
    """

    column: ColumnPath
    if_missing: Literal["error", "ignore"] = "error"


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """A column is renamed and keeps its values."""

    column: ColumnPath
    new_name: str


@dataclass(frozen=True, slots=True)
class UpdateColumnType:
    """A column gets another type; reads cast older values.

    Parameters
    ----------
    column : str or tuple of str
        The column; a tuple names a field of a nested type.
    type : str, DataType or pyarrow.DataType
        The new type.
    keep_nullability : bool
        Whether NOT NULL stays as it was, whatever the new type says.
    """

    column: ColumnPath
    type: ColumnType
    keep_nullability: bool = True


@dataclass(frozen=True, slots=True)
class UpdateColumnNullability:
    """A column allows nulls, or forbids them."""

    column: ColumnPath
    nullable: bool


@dataclass(frozen=True, slots=True)
class UpdateColumnComment:
    """A column gets another comment; None removes it."""

    column: ColumnPath
    comment: str | None


@dataclass(frozen=True, slots=True)
class UpdateColumnDefaultValue:
    """The value of later rows that give none: text as in SQL; None removes the default."""

    column: ColumnPath
    default: str | None


@dataclass(frozen=True, slots=True)
class UpdateColumnPosition:
    """A top-level column moves."""

    column: str
    position: Position


@dataclass(frozen=True, slots=True)
class SetOption:
    """An option of the table is set."""

    key: str
    value: object


@dataclass(frozen=True, slots=True)
class RemoveOption:
    """An option of the table is reset to its default."""

    key: str


@dataclass(frozen=True, slots=True)
class UpdateComment:
    """The table gets another comment; None removes it."""

    comment: str | None


SchemaChange = (
    AddColumn
    | DropColumn
    | RenameColumn
    | UpdateColumnType
    | UpdateColumnNullability
    | UpdateColumnComment
    | UpdateColumnDefaultValue
    | UpdateColumnPosition
    | SetOption
    | RemoveOption
    | UpdateComment
)
