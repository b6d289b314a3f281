"""Nested columns: finds one by the path of names to it and replaces it.

Rows of a nested type are treated as columns (:class:`~tidelake.types.DataField`), the elements of
an array as a column ``element``, the values of a map as a column ``value``. These two have no id
and cannot be added or removed. Source: Paimon's ``SchemaManager.NestedColumnModifier`` (1.3.1),
which ignores the words ``element`` and ``value``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tidelake.errors import NotFoundError, near_names, shortened
from tidelake.types.data_type import DataType, TypeRoot
from tidelake.types.schema import DataField

UNNAMED_ID = -1
"""The id of unnamed children: elements and values."""

_PLACES = {TypeRoot.ARRAY: ("element", 0), TypeRoot.MAP: ("value", 1)}

Edit = Callable[[tuple[DataField, ...], str], tuple[DataField, ...]]
"""Returns the columns of one level with one of them, by name, changed or added."""


def path_text(path: Sequence[str]) -> str:
    """Show a path in a message."""
    return shortened(".".join(path))


def edited(
    fields: tuple[DataField, ...], path: tuple[str, ...], edit: Edit, *, table: str, depth: int = 0
) -> tuple[DataField, ...]:
    """Change the columns of the level that a path ends in.

    Parameters
    ----------
    path : tuple of str
        The names; the last one is passed to `edit`, and need not exist.
    edit : callable
        The change at that level.

    Raises
    ------
    NotFoundError
        A column on the path does not exist, or has no inner columns.
    """
    if depth == len(path) - 1:
        return edit(fields, path[depth])
    names = [f.name for f in fields]
    if path[depth] not in names:
        raise no_column(path[: depth + 1], names, table)
    at = names.index(path[depth])
    inside = _edited_type(fields[at].type, path, edit, table, depth + 1)
    return (*fields[:at], replace(fields[at], type=inside), *fields[at + 1 :])


def _edited_type(
    data_type: DataType, path: tuple[str, ...], edit: Edit, table: str, depth: int
) -> DataType:
    if data_type.root is TypeRoot.ROW:
        fields = edited(row_fields(data_type), path, edit, table=table, depth=depth)
        return row_of(fields, data_type)
    if data_type.root in _PLACES:
        name, place = _PLACES[data_type.root]
        child = DataField(UNNAMED_ID, name, data_type.children[place])
        (changed,) = edited((child,), path, edit, table=table, depth=depth)
        children = (*data_type.children[:place], changed.type, *data_type.children[place + 1 :])
        return replace(data_type, children=children)
    raise no_column(path[: depth + 1], [], table)


def no_column(path: Sequence[str], names: Sequence[str], table: str) -> NotFoundError:
    """The error for a missing column."""
    there = f" There are: {', '.join(names)}." if names else " Nothing can be named inside it."
    message = (
        f"Table '{table}' has no column '{path_text(path)}'.{near_names(path[-1], names)}{there}"
    )
    return NotFoundError(message, kind="column_not_found", table=table, column=path_text(path))


def row_fields(row: DataType) -> tuple[DataField, ...]:
    """Return the fields of a row as columns."""
    details = row.child_details or ((None, None),) * len(row.children)
    return tuple(
        DataField(field_id, name, child, description, default)
        for (field_id, name), child, (description, default) in zip(
            row.child_fields, row.children, details, strict=True
        )
    )


def row_of(fields: Sequence[DataField], like: DataType) -> DataType:
    """Return the row type of some columns, nullable like another."""
    details = tuple((f.description, f.default_value) for f in fields)
    return replace(
        like,
        children=tuple(f.type for f in fields),
        child_fields=tuple((f.id, f.name) for f in fields),
        child_details=details if any(map(any, details)) else (),
    )
