"""Changes of a table's schema, as values.

A column is named by its name, or by a tuple of names where it lies inside another: the field of a
row by its name, the elements of an array as ``"element"``, the values of a map as ``"value"``:
``("address", "city")``, ``("items", "element", "price")``.

The rules by which they are carried out stand in :mod:`tidelake.table.schema.evolution`. Source:
Paimon's ``SchemaChange`` (1.3.1).
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
"""A column's name, or the names on the way to one inside it."""

ColumnType: TypeAlias = "DataType | pa.DataType | str"
"""A Paimon type, an Arrow type, or a text: ``"DECIMAL(10, 2)"``, ``"ARRAY<STRING>"``."""


@dataclass(frozen=True, slots=True)
class Position:
    """A place among the columns.

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
        """Behind all others."""
        return cls("last")

    @classmethod
    def after(cls, name: str) -> Position:
        """Right behind a column."""
        return cls("after", name)

    @classmethod
    def before(cls, name: str) -> Position:
        """Right before a column."""
        return cls("before", name)


@dataclass(frozen=True, slots=True)
class AddColumn:
    """A new column, null in all rows there are.

    Parameters
    ----------
    column, type, comment, position
        What it is and where it goes; by default behind the others.
    default : str, optional
        What later writes put where they have no value: a text as in SQL.
    if_exists : {'error', 'ignore'}
        What to do where a column has this name, in any case: ``'ignore'`` leaves it as it is.
    """

    column: ColumnPath
    type: ColumnType
    comment: str | None = None
    position: Position | None = None
    default: str | None = None
    if_exists: Literal["error", "ignore"] = "error"


@dataclass(frozen=True, slots=True)
class DropColumn:
    """A column goes; a later one of its name is another.

    Parameters
    ----------
    column : str or tuple of str
        It.
    if_missing : {'error', 'ignore'}
        What to do where no column has this name, in any case.
    """

    column: ColumnPath
    if_missing: Literal["error", "ignore"] = "error"


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """A column gets another name and keeps its values."""

    column: ColumnPath
    new_name: str


@dataclass(frozen=True, slots=True)
class UpdateColumnType:
    """A column gets another type; values are cast as they are read.

    Parameters
    ----------
    keep_nullability : bool
        Whether NOT NULL stays as it was, whatever the new type says.
    """

    column: ColumnPath
    type: ColumnType
    keep_nullability: bool = True


@dataclass(frozen=True, slots=True)
class UpdateColumnNullability:
    """A column takes nulls, or no more."""

    column: ColumnPath
    nullable: bool


@dataclass(frozen=True, slots=True)
class UpdateColumnComment:
    """A column gets another comment; None takes it away."""

    column: ColumnPath
    comment: str | None


@dataclass(frozen=True, slots=True)
class UpdateColumnDefaultValue:
    """What later writes put where they have no value: a text as in SQL; None takes it away."""

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
    """An option of the table goes back to its default."""

    key: str


@dataclass(frozen=True, slots=True)
class UpdateComment:
    """The table gets another comment; None takes it away."""

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
