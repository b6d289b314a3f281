"""Whether a column may take another type: Paimon's ``canConvert``.

1. Equal types convert, but a column that allows nulls never becomes NOT NULL.
2. Within a family the larger type converts; the smaller is ignored, and the column keeps its own:
   text and bytes by length, whole numbers, FLOAT and DOUBLE, decimals, TIMESTAMP and TIME by
   precision. A decimal is smaller only if neither its precision nor its scale is larger.
3. Another type becomes text only with the switch ``allow-non-string-to-string``.
4. Arrays, multisets and the values of maps follow their elements; a key keeps its type. Of rows,
   all common fields must convert; new fields must allow nulls, and so must those that are gone.
5. Everything else is refused.

Source: ``UpdatedDataFieldsProcessFunctionBase``. Ids and comments inside nested types do not count.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum

from tidelake.cdc.source.type_mapping import Switch, TypeMapping
from tidelake.types import DataType, TypeRoot
from tidelake.types.schema_change import (
    AddColumn,
    SchemaChange,
    UpdateColumnNullability,
    UpdateColumnType,
)

TEXTS = (TypeRoot.CHAR, TypeRoot.VARCHAR)
_BYTES = (TypeRoot.BINARY, TypeRoot.VARBINARY)
_WHOLE = (TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT)
_FLOATS = (TypeRoot.FLOAT, TypeRoot.DOUBLE)
_BY_LENGTH: tuple[tuple[TypeRoot, ...], ...] = (TEXTS, _BYTES)
_BY_RANK: tuple[tuple[TypeRoot, ...], ...] = (_WHOLE, _FLOATS)
_BY_PRECISION = (TypeRoot.TIMESTAMP, TypeRoot.TIME)
_INSIDE = {TypeRoot.ARRAY: "element", TypeRoot.MULTISET: "element", TypeRoot.MAP: "value"}
_DEFAULT = TypeMapping()

Fields = dict[str, DataType]


class TypeChange(StrEnum):
    """What becomes of a column whose source has another type."""

    CONVERT = "convert"
    """It takes the new type."""
    IGNORE = "ignore"
    """It keeps its own, which is larger."""
    REFUSE = "refuse"
    """There is no way."""


def type_change(old: DataType, new: DataType, mapping: TypeMapping = _DEFAULT) -> TypeChange:
    """Say what becomes of a column.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> str(type_change(parse_type("INT"), parse_type("BIGINT")))
    'convert'
    >>> str(type_change(parse_type("VARCHAR(10)"), parse_type("VARCHAR(5)")))
    'ignore'
    """
    if is_same(old, new):
        return _converted(allowed=old.nullable <= new.nullable)
    if old.root is new.root and old.is_nested:
        return _nested_change(old, new, mapping)
    a, b = old.root, new.root
    if b in TEXTS and a not in TEXTS and Switch.ALLOW_NON_STRING_TO_STRING in mapping:
        return TypeChange.CONVERT
    larger = _is_larger(old, new)
    if larger is None:
        return TypeChange.REFUSE
    return TypeChange.CONVERT if larger else TypeChange.IGNORE


def _is_larger(old: DataType, new: DataType) -> bool | None:
    """Whether a plain type is at least as large; None in another family."""
    a, b = old.root, new.root
    for family in _BY_LENGTH:
        if a in family and b in family:
            return (old.length or 0) <= (new.length or 0)
    for family in _BY_RANK:
        if a in family and b in family:
            return family.index(a) <= family.index(b)
    old_digits, new_digits = old.precision or 0, new.precision or 0
    if a is TypeRoot.DECIMAL and b is a:
        return new_digits > old_digits or (new.scale or 0) > (old.scale or 0)
    return old_digits <= new_digits if a in _BY_PRECISION and b is a else None


def _nested_change(old: DataType, new: DataType, mapping: TypeMapping) -> TypeChange:
    if old.root is TypeRoot.ROW:
        return _row_change(fields_of(old), fields_of(new), mapping)
    if old.nullable and not new.nullable:
        return TypeChange.REFUSE
    if old.root is TypeRoot.MAP and _bare(old.children[0]) != _bare(new.children[0]):
        return TypeChange.REFUSE
    return type_change(old.children[-1], new.children[-1], mapping)


def _row_change(old: Fields, new: Fields, mapping: TypeMapping) -> TypeChange:
    gone = [data_type for name, data_type in old.items() if name not in new]
    added = [data_type for name, data_type in new.items() if name not in old]
    if not all(data_type.nullable for data_type in gone + added):
        return TypeChange.REFUSE
    common = {type_change(old[name], new[name], mapping) for name in new if name in old}
    if TypeChange.REFUSE in common:
        return TypeChange.REFUSE
    return _converted(allowed=True) if added or TypeChange.CONVERT in common else TypeChange.IGNORE


def _converted(*, allowed: bool) -> TypeChange:
    return TypeChange.CONVERT if allowed else TypeChange.REFUSE


def fields_of(row: DataType) -> Fields:
    """The fields of a row by name."""
    return {name: t for (_, name), t in zip(row.child_fields, row.children, strict=True)}


def is_same(one: DataType, other: DataType) -> bool:
    """Whether two types are equal but for NOT NULL of the whole."""
    return _bare(one.as_nullable()) == _bare(other.as_nullable())


def _bare(data_type: DataType) -> DataType:
    if not data_type.is_nested:
        return data_type
    return replace(
        data_type,
        children=tuple(map(_bare, data_type.children)),
        child_fields=tuple((0, name) for _, name in data_type.child_fields),
        child_details=(),
    )


def keeps_values(old: DataType, new: DataType) -> bool:
    """Whether a source that changes a column's type keeps each value as it is.

    It does where the new type has all values of the old. CHAR does not: some sources pad it.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> keeps_values(parse_type("DECIMAL(10, 4)"), parse_type("DECIMAL(12, 2)"))
    False
    """
    if is_same(old, new):
        return True
    if old.root is TypeRoot.ROW and new.root is TypeRoot.ROW:
        before, after = fields_of(old), fields_of(new)
        return all(keeps_values(before[name], after[name]) for name in after if name in before)
    if old.root is new.root and old.is_nested:
        return all(map(keeps_values, old.children, new.children))
    if old.root is TypeRoot.DECIMAL and new.root is TypeRoot.DECIMAL:
        scale, new_scale = old.scale or 0, new.scale or 0
        whole, new_whole = (old.precision or 0) - scale, (new.precision or 0) - new_scale
        return scale <= new_scale and whole <= new_whole
    return TypeRoot.CHAR not in {old.root, new.root} and _is_larger(old, new) is True


def type_changes(path: tuple[str, ...], old: DataType, new: DataType) -> Iterator[SchemaChange]:
    """Give the changes by which a column takes a type that it may take.

    What is smaller inside a nested type stays as it is, where Paimon shrinks it. Nothing is dropped
    and nothing becomes NOT NULL.

    Parameters
    ----------
    path : tuple of str
        The column, and the way to a type inside its own.
    """
    if old.root is TypeRoot.ROW and new.root is TypeRoot.ROW:
        before = fields_of(old)
        for name, data_type in fields_of(new).items():
            if name in before:
                yield from type_changes((*path, name), before[name], data_type)
            else:
                yield AddColumn((*path, name), data_type.as_nullable())
    elif old.root is new.root and old.root in _INSIDE:
        place = (*path, _INSIDE[old.root])
        yield from type_changes(place, old.children[-1], new.children[-1])
    elif not is_same(old, new) and _is_larger(old, new) is not False:
        yield UpdateColumnType(_named(path), new)
    if new.nullable and not old.nullable:
        yield UpdateColumnNullability(_named(path), nullable=True)


def _named(path: tuple[str, ...]) -> str | tuple[str, ...]:
    return path if len(path) > 1 else path[0]
