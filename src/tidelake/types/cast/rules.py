"""The allowed changes of a column's type, and their effect on order.

An **implicit** cast generalises (INT to BIGINT, but also DECIMAL to FLOAT); an **explicit** one may
lose (BIGINT to INT, STRING to DATE). Besides the rule there must be code for the cast: Paimon
allows DATE to CHAR(10) by rule but has no code for it, so it is refused.

Source: Paimon's ``DataTypeCasts`` and ``CastExecutors`` (1.3.1); ``tests/golden/casts.jsonl`` holds
Java's answer for every pair.
"""

from __future__ import annotations

from tidelake.types.data_type import STRING_LENGTH_MAX, DataType, TypeRoot

INTEGERS = (TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT)
FLOATS = (TypeRoot.FLOAT, TypeRoot.DOUBLE)
NUMBERS = frozenset({*INTEGERS, *FLOATS, TypeRoot.DECIMAL})
TEXTS = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR})
BINARIES = frozenset({TypeRoot.BINARY, TypeRoot.VARBINARY})
TIMESTAMPS = frozenset({TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})
DAY_TIMES = frozenset({TypeRoot.DATE, TypeRoot.TIME})

_IMPLICIT = {
    TypeRoot.CHAR: frozenset({TypeRoot.CHAR}),
    TypeRoot.VARCHAR: TEXTS,
    TypeRoot.BINARY: frozenset({TypeRoot.BINARY}),
    TypeRoot.VARBINARY: BINARIES,
    TypeRoot.DECIMAL: NUMBERS,
    TypeRoot.TINYINT: frozenset(INTEGERS[:1]),
    TypeRoot.SMALLINT: frozenset(INTEGERS[:2]),
    TypeRoot.INT: frozenset(INTEGERS[:3]),
    TypeRoot.BIGINT: frozenset(INTEGERS),
    TypeRoot.FLOAT: NUMBERS - {TypeRoot.DOUBLE},
    TypeRoot.DOUBLE: NUMBERS,
    TypeRoot.DATE: frozenset({TypeRoot.TIMESTAMP}),
    TypeRoot.TIME: frozenset({TypeRoot.TIMESTAMP}),
    TypeRoot.TIMESTAMP: TIMESTAMPS,
    TypeRoot.TIMESTAMP_LTZ: TIMESTAMPS,
}


def can_cast(source: DataType, target: DataType, *, explicit: bool) -> bool:
    """Whether a column of one type may become another; nullability is ignored.

    Parameters
    ----------
    explicit : bool
        Whether lossy casts count.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> can_cast(parse_type("BIGINT"), parse_type("INT"), explicit=False)
    False
    >>> can_cast(parse_type("BIGINT"), parse_type("INT"), explicit=True)
    True
    """
    if source.as_nullable() == target.as_nullable():
        return True
    implicit = source.root in _IMPLICIT.get(target.root, frozenset())
    return (explicit or implicit) and _is_covered(source, target)


def _is_covered(source: DataType, target: DataType) -> bool:
    """Whether there is code for the pair."""
    a, b = source.root, target.root
    if a in TEXTS:
        return b in NUMBERS | TEXTS | BINARIES | TIMESTAMPS | DAY_TIMES | {TypeRoot.BOOLEAN}
    if b in TEXTS:
        whole = b is TypeRoot.VARCHAR and target.length == STRING_LENGTH_MAX
        return a in NUMBERS | BINARIES | {TypeRoot.BOOLEAN} or (
            whole and a in TIMESTAMPS | DAY_TIMES
        )
    if a in NUMBERS and b in NUMBERS:
        return True
    pairs = {
        TypeRoot.BOOLEAN: NUMBERS,
        TypeRoot.DATE: TIMESTAMPS,
        TypeRoot.TIME: TIMESTAMPS,
        TypeRoot.BINARY: BINARIES,
        TypeRoot.VARBINARY: BINARIES,
    }
    if a in INTEGERS and b is TypeRoot.BOOLEAN:
        return True
    seconds = {TypeRoot.INT, TypeRoot.BIGINT}
    if a in TIMESTAMPS:
        return b in TIMESTAMPS | DAY_TIMES | seconds
    if a in seconds and b in TIMESTAMPS:
        return True
    return b in pairs.get(a, frozenset())


def needs_zone(source: DataType, target: DataType) -> bool:
    """Whether the cast depends on the local time zone besides the values.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> ltz = parse_type("TIMESTAMP(3) WITH LOCAL TIME ZONE")
    >>> needs_zone(ltz, parse_type("DATE")), needs_zone(ltz, parse_type("BIGINT"))
    (True, False)
    """
    ltz = TypeRoot.TIMESTAMP_LTZ
    if source.root is ltz:
        return target.root in TEXTS | DAY_TIMES | {TypeRoot.TIMESTAMP}
    return target.root is ltz and source.root is not TypeRoot.TIME


def keeps_order(source: DataType, target: DataType) -> bool:
    """Whether a cast of the smallest and the largest value bounds the cast of all between.

    True only if every value keeps its order: equal types, wider integers and decimals, longer
    texts and bytes, FLOAT to DOUBLE, finer timestamps. Then a file's statistics may be cast;
    otherwise they have no meaning for the new type.
    others they say nothing.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> keeps_order(parse_type("INT"), parse_type("BIGINT"))
    True
    >>> keeps_order(parse_type("INT"), parse_type("STRING"))
    False
    """
    if source.as_nullable() == target.as_nullable():
        return True
    a, b = source.root, target.root
    if b in {TypeRoot.VARCHAR, TypeRoot.VARBINARY}:
        same = a in (TEXTS if b is TypeRoot.VARCHAR else BINARIES)
        return same and (source.length or 0) <= (target.length or 0)
    if a in INTEGERS and b in INTEGERS:
        return INTEGERS.index(a) <= INTEGERS.index(b)
    if a is TypeRoot.DECIMAL and b is TypeRoot.DECIMAL:
        fraction, more_fraction = source.scale or 0, target.scale or 0
        whole, more_whole = (
            (source.precision or 0) - fraction,
            (target.precision or 0) - more_fraction,
        )
        return fraction <= more_fraction and whole <= more_whole
    if a in TIMESTAMPS and b is a:
        return (source.precision or 0) <= (target.precision or 0)
    return (a, b) == (TypeRoot.FLOAT, TypeRoot.DOUBLE)
