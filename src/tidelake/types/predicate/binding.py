"""Binds a predicate to a table's columns: names checked, literals as storage values.

A literal that the column's type cannot hold exactly is not rounded: the comparison becomes one that
keeps the same rows. ``n < 3.5`` on INT is ``n <= 3``; ``n < 10_000`` on TINYINT is true for every n
that is not null; ``t == '... 00:00:00.0000001'`` on TIMESTAMP(3) is never true. FLOAT literals are
rounded to FLOAT, as Paimon does, so that ``f == 0.1`` finds a written 0.1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from tidelake.errors import InvalidInputError, NotFoundError, near_names, shortened
from tidelake.types.data_type import DataType, TypeRoot
from tidelake.types.predicate.node import (
    Always,
    And,
    Compare,
    In,
    IsNull,
    Not,
    NotNull,
    Or,
    Predicate,
    StartsWith,
)
from tidelake.types.schema import DataField
from tidelake.types.values import exact_position, position_bounds, to_storage

_TEXT = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR})
_BYTES = frozenset({TypeRoot.BINARY, TypeRoot.VARBINARY})
_PLAIN = _TEXT | _BYTES | {TypeRoot.BOOLEAN, TypeRoot.FLOAT, TypeRoot.DOUBLE}


def bind(predicate: Predicate, fields: Sequence[DataField]) -> Predicate:
    """Bind an unbound predicate to columns.

    Parameters
    ----------
    predicate : Predicate
        With plain Python literals. Not a bound one: its literals would be converted again.

    Returns
    -------
    Predicate
        Keeps the same rows; literals are storage values of the columns' types.

    Raises
    ------
    NotFoundError
        A missing column.
    InvalidInputError
        A literal that cannot be compared with its column, or a comparison with null.
    UnsupportedError
        A column of a nested type or VARIANT, except for IS [NOT] NULL.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> from tidelake.types.predicate import col
    >>> bind(col("n") < 3.5, [DataField(0, "n", parse_type("INT"))])
    Compare(op='<=', column='n', literal=3)
    """
    return _bind(predicate, {f.name: f.type for f in fields})


def _bind(predicate: Predicate, types: Mapping[str, DataType]) -> Predicate:
    match predicate:
        case Always():
            return predicate
        case And(parts):
            return And(tuple(_bind(p, types) for p in parts))
        case Or(parts):
            return Or(tuple(_bind(p, types) for p in parts))
        case Not(part):
            return Not(_bind(part, types))
        case IsNull(name) | NotNull(name):
            _type_of(name, types)
            return predicate
        case Compare(op, name, literal):
            return _bind_compare(op, name, literal, _type_of(name, types))
        case In(name, literals):
            return _bind_in(name, literals, _type_of(name, types))
        case StartsWith(name, prefix):
            data_type = _type_of(name, types)
            if data_type.root not in _TEXT | _BYTES:
                message = (
                    f"Column '{name}' is {data_type}: only strings and binaries have a prefix."
                    " Use comparisons."
                )
                raise InvalidInputError(message, kind="literal_type", column=name)
            stored = _storage(name, prefix, data_type)
            assert isinstance(stored, (str, bytes)), "a prefix is a string or bytes"
            return StartsWith(name, stored)
    raise AssertionError(f"{predicate!r} is not a node")


def _type_of(name: str, types: Mapping[str, DataType]) -> DataType:
    try:
        return types[name]
    except KeyError:
        message = (
            f"The filter names the column '{shortened(name)}', which does not exist."
            f"{near_names(name, types)} The columns are: {', '.join(types)}."
        )
        raise NotFoundError(message, kind="column_not_found", column=name) from None


def _storage(name: str, literal: object, data_type: DataType) -> object:
    try:
        return to_storage(literal, data_type)
    except InvalidInputError as error:
        raise _wrong_literal(name, error) from error


def _wrong_literal(name: str, error: InvalidInputError) -> InvalidInputError:
    message = f"The filter on column '{name}' cannot be applied: {error.message}"
    return InvalidInputError(message, kind="literal_type", column=name)


def _bind_in(name: str, literals: Sequence[object], data_type: DataType) -> Predicate:
    stored: list[object] = []
    for literal in literals:
        if literal is None or data_type.root in _PLAIN:
            stored.append(_storage(name, literal, data_type))
            continue
        position = _position(name, literal, data_type)
        if _is_held(position, data_type):  # no row equals what the type cannot hold
            assert isinstance(position, Fraction)
            stored.append(position.numerator)
    return In(name, tuple(dict.fromkeys(stored)))


def _bind_compare(op: str, name: str, literal: object, data_type: DataType) -> Predicate:
    if literal is None:
        message = (
            f"The filter compares column '{name}' with null, which is never true."
            " Use IS NULL or IS NOT NULL."
        )
        raise InvalidInputError(message, kind="null_literal", column=name)
    if data_type.root in _PLAIN:
        return Compare(op, name, _storage(name, literal, data_type))
    position = _position(name, literal, data_type)
    if _is_held(position, data_type):
        assert isinstance(position, Fraction)
        return Compare(op, name, position.numerator)
    low, high, step = position_bounds(data_type)
    never = Compare("<", name, low)  # false, and unknown for null
    whenever_valid = Compare(">=", name, low)
    if op in {"==", "!="}:
        return never if op == "==" else whenever_valid
    if not isinstance(position, Fraction):
        return whenever_valid if (position > 0) == (op in {"<", "<="}) else never
    if op in {"<", "<="}:
        below = position // step * step
        if below < low:
            return never
        return whenever_valid if below >= high else Compare("<=", name, below)
    above = -(-position // step) * step
    if above > high:
        return never
    return whenever_valid if above <= low else Compare(">=", name, above)


def _position(name: str, literal: object, data_type: DataType) -> Fraction | float:
    try:
        return exact_position(literal, data_type)
    except InvalidInputError as error:
        raise _wrong_literal(name, error) from error


def _is_held(position: Fraction | float, data_type: DataType) -> bool:
    low, high, step = position_bounds(data_type)
    return (
        isinstance(position, Fraction)
        and position.denominator == 1
        and position.numerator % step == 0
        and low <= position <= high
    )
