"""The changes that let a table's schema hold rows of other columns and types.

1. A column that the table lacks is added as the last, nullable; so is a field that a nested column
   lacks.
2. If rows have another type for a column, the column keeps its type as long as their values fit
   without a lossy cast. Otherwise it gets the wider type, if its own values fit into that: numbers
   wider numbers, decimals the digits of both, dates timestamps. Lengths of texts and digits of
   seconds stay: engines such as Spark cannot express shorter ones.
3. With explicit casts a column may also get a type that needs a lossy cast of its values.
4. Anything else does not fit; the write reports it.

Names are compared without regard to case. Source: Paimon's ``SchemaMergingUtils`` (1.3.1), which
refuses rows of a narrower type.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tidelake.types import DataField, DataType, TypeRoot
from tidelake.types.cast import can_cast
from tidelake.types.schema_change import AddColumn, SchemaChange, UpdateColumnType

_TEXTS = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR})
_BYTES = frozenset({TypeRoot.BINARY, TypeRoot.VARBINARY})
_DIGITS_MAX = 38
_INSIDE = {TypeRoot.ARRAY: ("element",), TypeRoot.MAP: ("key", "value")}


def merging_changes(
    fields: Sequence[DataField], given: Sequence[DataField], *, explicit: bool
) -> tuple[SchemaChange, ...]:
    """Return the changes that make rows fit; none if they already do.

    Parameters
    ----------
    explicit : bool
        Whether a column may get a type that its values can only be cast to, perhaps with
        loss.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> def columns(**types):
    ...     return [DataField(n, k, parse_type(t)) for n, (k, t) in enumerate(types.items())]
    >>> fields = columns(id="INT NOT NULL", n="INT")
    >>> given = columns(ID="SMALLINT", n="BIGINT", new="STRING NOT NULL")
    >>> for change in merging_changes(fields, given, explicit=False):
    ...     print(change.column, change.type)
    n BIGINT
    new STRING
    """
    types = {f.name.casefold(): (f.name, f.type) for f in fields}
    return tuple(_merged(types, ((f.name, f.type) for f in given), (), explicit=explicit))


def _merged(
    types: dict[str, tuple[str, DataType]],
    given: Iterator[tuple[str, DataType]],
    path: tuple[str, ...],
    *,
    explicit: bool,
) -> Iterator[SchemaChange]:
    for name, new in given:
        known = types.get(name.casefold())
        if known is None:
            place = (*path, name)
            yield AddColumn(place if path else name, new.as_nullable())
        else:
            yield from _retyped(known[1], new, (*path, known[0]), explicit=explicit)


def _retyped(
    old: DataType, new: DataType, path: tuple[str, ...], *, explicit: bool
) -> Iterator[SchemaChange]:
    if old.root is TypeRoot.ROW and new.root is TypeRoot.ROW:
        inside = {
            name.casefold(): (name, child)
            for (_, name), child in zip(old.child_fields, old.children, strict=True)
        }
        names = (name for _, name in new.child_fields)
        given = zip(names, new.children, strict=True)
        yield from _merged(inside, given, path, explicit=explicit)
        return
    if old.root is new.root and old.root in _INSIDE:
        for part, a, b in zip(_INSIDE[old.root], old.children, new.children, strict=True):
            yield from _retyped(a, b, (*path, part), explicit=explicit)
        return
    wanted = _wider(old, new, explicit=explicit)
    if wanted is not None:
        yield UpdateColumnType(path if len(path) > 1 else path[0], wanted.as_nullable())


def _wider(old: DataType, new: DataType, *, explicit: bool) -> DataType | None:
    """The new type of a column; None if it keeps its own."""
    if old.is_nested or new.is_nested:
        return None
    if old.root is TypeRoot.DECIMAL and new.root is TypeRoot.DECIMAL:
        return _decimal_of_both(old, new)
    if old.root is new.root or {old.root, new.root} <= _TEXTS or {old.root, new.root} <= _BYTES:
        return None
    if can_cast(new, old, explicit=False):
        return None
    return new if can_cast(old, new, explicit=explicit) else None


def _decimal_of_both(old: DataType, new: DataType) -> DataType | None:
    assert old.precision is not None
    assert old.scale is not None
    assert new.precision is not None
    assert new.scale is not None
    scale = max(old.scale, new.scale)
    digits = max(old.precision - old.scale, new.precision - new.scale) + scale
    if digits > _DIGITS_MAX or (digits, scale) == (old.precision, old.scale):
        return None
    return replace(old, precision=digits, scale=scale)
