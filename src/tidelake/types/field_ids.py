"""Field ids of new columns, inside nested types too.

A column takes the next id, then the fields of the rows inside its type take theirs: in a row, each
field comes after the rows inside it. Elements of arrays and multisets, keys and values of maps have
no id in the schema; data files derive theirs (:mod:`tidelake.format.field_schema`).

Source: Paimon's ``Schema.Builder`` and ``ReassignFieldId`` (1.3.1); ``docs/format/schema.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import count

from tidelake.types.data_type import DataType, TypeRoot
from tidelake.types.schema import DataField


def with_new_ids(fields: Iterable[DataField], *, after: int = -1) -> tuple[DataField, ...]:
    """Return columns with new ids, including the rows inside their types.

    Parameters
    ----------
    fields : iterable of DataField
        The columns; their current ids are ignored.
    after : int
        The largest id ever given in the table; -1 for a new table.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> row = {"type": "ROW", "fields": [{"id": 0, "name": "x", "type": "INT"}]}
    >>> fields = with_new_ids([DataField(0, n, parse_type(row)) for n in ("a", "b")])
    >>> [(f.id, f.type.child_fields) for f in fields]
    [(0, ((1, 'x'),)), (2, ((3, 'x'),))]
    """
    ids = count(after + 1)
    return tuple(replace(f, id=next(ids), type=_with_ids(f.type, ids)) for f in fields)


def with_new_type_ids(data_type: DataType, *, after: int) -> tuple[DataType, int]:
    """Return a type with new ids for the rows inside it, and the largest id then given."""
    ids = count(after + 1)
    renewed = _with_ids(data_type, ids)
    return renewed, next(ids) - 1


def _with_ids(data_type: DataType, ids: Iterator[int]) -> DataType:
    if not data_type.is_nested:
        return data_type
    children, child_fields = [], []
    for place, child in enumerate(data_type.children):
        children.append(_with_ids(child, ids))
        if data_type.root is TypeRoot.ROW:
            child_fields.append((next(ids), data_type.child_fields[place][1]))
    return replace(data_type, children=tuple(children), child_fields=tuple(child_fields))


def highest_id(fields: Iterable[DataField]) -> int:
    """Return the largest id of columns and of the rows inside their types; -1 if there is none."""
    return max(ids_inside(fields), default=-1)


def ids_inside(fields: Iterable[DataField]) -> Iterator[int]:
    """Yield the ids of columns and of the fields of rows inside their types."""
    for field in fields:
        yield field.id
        yield from _type_ids(field.type)


def _type_ids(data_type: DataType) -> Iterator[int]:
    for field_id, _ in data_type.child_fields:
        yield field_id
    for child in data_type.children:
        yield from _type_ids(child)


def paths_inside(fields: Iterable[DataField]) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield the names that lead to each column and each field of a row, and its id.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> row = {"type": "ROW", "fields": [{"id": 7, "name": "x", "type": "INT"}]}
    >>> list(paths_inside([DataField(1, "a", parse_type({"type": "ARRAY", "element": row}))]))
    [(('a',), 1), (('a', 'element', 'x'), 7)]
    """
    for field in fields:
        yield (field.name,), field.id
        yield from _type_paths((field.name,), field.type)


def _type_paths(
    above: tuple[str, ...], data_type: DataType
) -> Iterator[tuple[tuple[str, ...], int]]:
    for place, child in enumerate(data_type.children):
        path = (*above, _inner_name(data_type, place))
        if data_type.root is TypeRoot.ROW:
            yield path, data_type.child_fields[place][0]
        yield from _type_paths(path, child)


def _inner_name(data_type: DataType, place: int) -> str:
    if data_type.root is TypeRoot.ROW:
        return data_type.child_fields[place][1]
    return "element" if data_type.root is TypeRoot.ARRAY else ("key", "value")[place]


def with_ids_of(
    fields: Iterable[DataField], id_of: Callable[[tuple[str, ...]], int]
) -> tuple[DataField, ...]:
    """Return columns with the ids that a function gives their paths (:func:`paths_inside`)."""
    return tuple(
        replace(f, id=id_of((f.name,)), type=_with_ids_of(f.type, (f.name,), id_of)) for f in fields
    )


def _with_ids_of(
    data_type: DataType, above: tuple[str, ...], id_of: Callable[[tuple[str, ...]], int]
) -> DataType:
    if not data_type.is_nested:
        return data_type
    paths = [(*above, _inner_name(data_type, i)) for i in range(len(data_type.children))]
    pairs = zip(data_type.children, paths, strict=True)
    children = tuple(_with_ids_of(child, path, id_of) for child, path in pairs)
    ids = tuple(
        (id_of(path), name) for path, (_, name) in zip(paths, data_type.child_fields, strict=False)
    )
    return replace(data_type, children=children, child_fields=ids)
