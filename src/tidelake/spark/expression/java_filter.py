"""Filters of Spark's connector interfaces as predicates of the kernel.

Those on rows only reduce reading: Spark applies them again. So at the top level a part without a
counterpart may be left out. Below NOT and OR nothing may be: the conversion there is exact or
fails.

Filters on partition columns alone are **not** applied again
(:mod:`tidelake.spark.catalog.scans.scan_builder`). So each predicate that is made here keeps the
same rows as its filter, neither more nor fewer; what has no such predicate is not made.

Filters hold days and instants as ``java.sql.Date`` and ``java.sql.Timestamp``. Spark has moved
these to the Julian calendar, in the zone of the JVM, and days from 1582-10-05 to 14 are lost. So
old ones (:mod:`tidelake.spark.expression.moment`) have no predicate here, and no
Parquet reader may have their filters either (:func:`without_old_times`). An overwrite gets the
values as Spark holds them itself (:func:`replaced_value`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from py4j.java_gateway import JavaObject

from tidelake.spark.expression.moment import EPOCH, EXACT_DAYS_FROM, EXACT_SECONDS_FROM
from tidelake.types import DataField, DataType, TypeRoot
from tidelake.types.predicate import (
    And,
    Compare,
    In,
    IsNull,
    Not,
    NotNull,
    Or,
    Predicate,
    StartsWith,
    conjoin,
)

_COMPARED = {
    "EqualTo": "==",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
}
_QUOTED = re.compile(r"`(?:[^`]|``)+`")
_PLAIN = (bool, int, float, str)
# Spark and the kernel compare these alike, whatever the session's settings
_COMPARABLE = frozenset(
    {
        TypeRoot.BOOLEAN,
        TypeRoot.TINYINT,
        TypeRoot.SMALLINT,
        TypeRoot.INT,
        TypeRoot.BIGINT,
        TypeRoot.FLOAT,
        TypeRoot.DOUBLE,
        TypeRoot.DECIMAL,
        TypeRoot.CHAR,
        TypeRoot.VARCHAR,
        TypeRoot.DATE,
        TypeRoot.TIMESTAMP,
        TypeRoot.TIMESTAMP_LTZ,
    }
)


class _InexpressibleError(Exception):
    """The kernel has no predicate that keeps the same rows."""


def from_java_filters(filters: Sequence[Any], fields: Sequence[DataField]) -> Predicate | None:
    """Convert filters to one unbound predicate; it keeps at least the rows that they keep.

    A filter without a counterpart is left out; one alone gives its exact predicate, or None.

    Parameters
    ----------
    filters : sequence of JavaObject
        Of ``org.apache.spark.sql.sources``; all must hold.
    """
    types = {f.name: f.type for f in fields}
    parts = []
    for one in filters:
        try:
            parts.append(_predicate(one, types, exact=False))
        except _InexpressibleError:
            continue
    return conjoin(parts)


def _predicate(given: Any, types: Mapping[str, DataType], *, exact: bool) -> Predicate:
    """Exact: nulls count, because NOT or OR depends on the result."""
    kind = given.getClass().getSimpleName()
    if kind in {"And", "Or"}:
        sides = (
            _predicate(given.left(), types, exact=True),
            _predicate(given.right(), types, exact=True),
        )
        return And(sides) if kind == "And" else Or(sides)
    if kind == "Not":
        return Not(_predicate(given.child(), types, exact=True))
    make = _MAKERS.get(kind)
    if make is None:
        raise _InexpressibleError
    name = column_of(given)
    if name is None or name not in types or types[name].root not in _COMPARABLE:
        raise _InexpressibleError
    return make(given, kind, name, types[name], exact)


def _compare(given: Any, kind: str, name: str, data_type: DataType, _exact: bool) -> Predicate:  # noqa: FBT001
    return Compare(_COMPARED[kind], name, _literal_of(given.value(), data_type))


def _null_safe(given: Any, _kind: str, name: str, data_type: DataType, exact: bool) -> Predicate:  # noqa: FBT001
    if given.value() is None:
        return IsNull(name)
    if exact:  # false if the column is null, but an equality gives null there
        raise _InexpressibleError
    return Compare("==", name, _literal_of(given.value(), data_type))


def _is_in(given: Any, _kind: str, name: str, data_type: DataType, exact: bool) -> Predicate:  # noqa: FBT001
    values = list(given.values())
    if exact and None in values:
        raise _InexpressibleError
    return In(name, tuple(_literal_of(v, data_type) for v in values if v is not None))


def _starts(given: Any, _kind: str, name: str, _type: DataType, _exact: bool) -> Predicate:  # noqa: FBT001
    return StartsWith(name, given.value())


def _null(_given: Any, kind: str, name: str, _type: DataType, _exact: bool) -> Predicate:  # noqa: FBT001
    return IsNull(name) if kind == "IsNull" else NotNull(name)


_MAKERS: Mapping[str, Callable[[Any, str, str, DataType, bool], Predicate]] = {
    **dict.fromkeys(_COMPARED, _compare),
    "EqualNullSafe": _null_safe,
    "In": _is_in,
    "StringStartsWith": _starts,
    "IsNull": _null,
    "IsNotNull": _null,
}


def column_of(given: Any) -> str | None:
    """The column of a filter on one column; None if it is inside another column."""
    name = str(given.attribute())  # names joined by dots, in backticks if needed
    if _QUOTED.fullmatch(name):
        return name[1:-1].replace("``", "`")
    return None if "`" in name or "." in name else name


def without_old_times(filters: Sequence[Any]) -> list[Any]:
    """The filters that mean the same to Spark's Parquet reader as to Spark."""
    return [one for one in filters if not _has_old_time(one)]


def _has_old_time(given: Any) -> bool:
    kind = given.getClass().getSimpleName()
    if kind in {"And", "Or"}:
        return _has_old_time(given.left()) or _has_old_time(given.right())
    if kind == "Not":
        return _has_old_time(given.child())
    if kind == "In":
        values = list(given.values())
    else:
        values = [given.value()] if kind in _WITH_VALUE else []
    return any(_is_old(value) for value in values)


_WITH_VALUE = frozenset({*_COMPARED, "EqualNullSafe"})


def _is_old(value: Any) -> bool:
    if not isinstance(value, JavaObject):
        return False
    kind = value.getClass().getName()
    try:
        return _moment(value, kind) is None and kind in _JULIAN
    except _InexpressibleError:
        return False  # a year far ahead


_JULIAN = frozenset({"java.sql.Date", "java.sql.Timestamp"})


def replaced_value(given: Any, types: Mapping[str, DataType]) -> tuple[str, object] | None:
    """The column that a predicate equates with a value, and that value; None for any other.

    Parameters
    ----------
    given : JavaObject
        Of ``org.apache.spark.sql.connector.expressions.filter``.
    """
    kind, parts = str(given.name()), list(given.children())
    if kind not in {"=", "<=>", "IS_NULL"} or _class_of(parts[0]) != "FieldReference":
        return None
    names = list(parts[0].fieldNames())
    if len(names) != 1 or names[0] not in types:
        return None
    if kind == "IS_NULL":
        return names[0], None
    if _class_of(parts[1]) != "LiteralValue":
        return None
    try:
        return names[0], held_value(parts[1].value(), types[names[0]])
    except OverflowError:  # a year that Python cannot represent
        return None


def _class_of(value: Any) -> str:
    return str(value.getClass().getSimpleName())


def held_value(value: Any, data_type: DataType) -> object:
    """A value as Spark's own rows hold it."""
    root = data_type.root
    if value is None or isinstance(value, bool):
        return value
    if root is TypeRoot.DATE:
        return EPOCH.date() + timedelta(days=value)
    if root in {TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ}:
        moment = EPOCH + timedelta(microseconds=value)
        return moment if root is TypeRoot.TIMESTAMP_LTZ else moment.replace(tzinfo=None)
    if root is TypeRoot.DECIMAL:
        return Decimal(value.toString())
    return value if isinstance(value, _PLAIN) else value.toString()


def _literal_of(value: Any, data_type: DataType) -> object:
    """A Java literal as a Python value, of the column's type."""
    root = data_type.root
    if isinstance(value, _PLAIN):
        return value
    if root is TypeRoot.DECIMAL and isinstance(value, Decimal):
        return value
    if not isinstance(value, JavaObject):
        raise _InexpressibleError
    made = _moment(value, value.getClass().getName())
    wanted = {
        TypeRoot.DATE: type(made) is date,
        TypeRoot.TIMESTAMP: isinstance(made, datetime) and made.tzinfo is None,
        TypeRoot.TIMESTAMP_LTZ: isinstance(made, datetime) and made.tzinfo is not None,
    }
    if not wanted.get(root, False):
        raise _InexpressibleError
    return made


def _moment(value: Any, kind: str) -> date | datetime | None:
    """A day or time; None for an old one that Spark has moved, and for anything else."""
    try:
        if kind == "java.sql.Date":
            day = date.fromisoformat(value.toLocalDate().toString())
            return None if (day - EPOCH.date()).days < EXACT_DAYS_FROM else day
        if kind == "java.time.LocalDate":
            return date.fromisoformat(value.toString())
        if kind == "java.time.LocalDateTime":
            return datetime.fromisoformat(value.toString())
        if kind == "java.sql.Timestamp":
            seconds = value.getTime() // 1000
            return None if seconds < EXACT_SECONDS_FROM else _instant(seconds, value.getNanos())
        if kind == "java.time.Instant":
            return _instant(value.getEpochSecond(), value.getNano())
    except (ValueError, OverflowError) as error:  # a year that Python cannot represent
        raise _InexpressibleError from error
    return None


def _instant(seconds: int, nanos: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=nanos // 1000)
