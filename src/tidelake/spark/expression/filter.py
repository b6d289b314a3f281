"""Predicates between Spark and the kernel.

To Spark (:func:`to_column`): Spark filters the native part of a read, and must keep exactly the
rows that :func:`tidelake.types.predicate.evaluate` keeps in the merged part. So literals have the
column's type and do not depend on the session's time zone; floats have the same order on both sides
(NaN is the largest). A predicate that Spark cannot express exactly gives None: the kernel then
reads the files.

From Spark (:func:`from_spark_filters`): the filters that the data source is offered. They only
reduce reading: Spark applies all of them again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta
from operator import and_, or_
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidelake.spark.expression.expression import quoted
from tidelake.spark.expression.moment import (
    EPOCH,
    EXACT_DAYS_FROM,
    EXACT_SECONDS_FROM,
    instant_column,
    local_column,
)
from tidelake.spark.expression.types import to_spark_type
from tidelake.types import DataField, DataType, TypeRoot
from tidelake.types.predicate import (
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
    conjoin,
)
from tidelake.types.values import from_storage

NANOS_PER_MICRO = 1000
_TIMESTAMPS = frozenset({TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})
_AS_THEY_ARE = frozenset({TypeRoot.INT, TypeRoot.BIGINT, TypeRoot.VARCHAR})
"""Types whose values become Spark literals without a cast."""
_OPERATORS = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}

_OFFERED = {
    "EqualTo": "==",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
}
"""Operators of Spark's filters, by the names of their classes: Spark 4.0 has none of them."""


class _InexpressibleError(Exception):
    """Spark has no expression that keeps the same rows."""


def to_column(predicate: Predicate, fields: Sequence[DataField]) -> Column | None:
    """Convert a bound predicate to a Spark condition over columns of the fields' names.

    Returns
    -------
    Column or None
        None if Spark would not keep exactly the same rows.
    """
    try:
        return _column(predicate, {f.name: f.type for f in fields})
    except _InexpressibleError:
        return None


def _column(predicate: Predicate, types: Mapping[str, DataType]) -> Column:
    match predicate:
        case Compare(op, name, value):
            return _compare(op, name, value, types[name])
        case In(name, values):
            if values and None not in values and types[name].root in _AS_THEY_ARE:
                return F.col(quoted(name)).isin(list(values))
            parts = [_compare("==", name, value, types[name]) for value in values]
            return _halved(parts, or_, empty=False)
        case IsNull(name):
            return F.col(quoted(name)).isNull()
        case NotNull(name):
            return F.col(quoted(name)).isNotNull()
        case StartsWith(name, prefix):
            return F.startswith(F.col(quoted(name)), F.lit(prefix))
        case And(parts):
            return _halved([_column(p, types) for p in parts], and_, empty=True)
        case Or(parts):
            return _halved([_column(p, types) for p in parts], or_, empty=False)
        case Not(part):
            return ~_column(part, types)
        case Always(value):
            return F.lit(value)
        case _:
            raise _InexpressibleError


def _halved(
    parts: Sequence[Column], join: Callable[[Column, Column], Column], *, empty: bool
) -> Column:
    """AND or OR as a balanced tree: Spark's stack is as deep as a condition."""
    if len(parts) <= 1:
        return parts[0] if parts else F.lit(empty)
    middle = len(parts) // 2
    left, right = (_halved(half, join, empty=empty) for half in (parts[:middle], parts[middle:]))
    return join(left, right)


def _compare(op: str, name: str, value: object, data_type: DataType) -> Column:
    column = F.col(quoted(name))
    compared: Column = _OPERATORS[op](column, _literal(value, data_type))
    return compared


def _literal(value: object, data_type: DataType) -> Column:
    """A storage value as a Spark literal of the column's type."""
    root = data_type.root
    if value is None:
        raise _InexpressibleError
    if root is TypeRoot.DATE:
        return F.date_from_unix_date(F.lit(value))
    if root in _TIMESTAMPS:
        micros, rest = divmod(_integer(value), NANOS_PER_MICRO)
        if rest:
            raise _InexpressibleError
        return _timestamp_literal(micros, root)
    if root is TypeRoot.DECIMAL:
        return F.lit(str(from_storage(value, data_type))).cast(to_spark_type(data_type))
    if root is TypeRoot.TIME:
        raise _InexpressibleError
    if root in _AS_THEY_ARE:
        return F.lit(value)  # a cast would be seven calls to the JVM
    return F.lit(value).cast(to_spark_type(data_type))


def _integer(value: object) -> int:
    assert isinstance(value, int), f"{value!r} is not a storage value of a timestamp"
    return value


def _timestamp_literal(micros: int, root: TypeRoot) -> Column:
    if root is TypeRoot.TIMESTAMP_LTZ:
        return instant_column(micros)
    try:
        moment = EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        raise _InexpressibleError from None
    return local_column(moment)


def from_spark_filters(filters: Sequence[Any], fields: Sequence[DataField]) -> Predicate | None:
    """Convert the filters that Spark offers a data source to one unbound predicate.

    Filters that the kernel would understand differently, or does not know, are left out: the
    predicate keeps at least the rows that Spark keeps.
    """
    types = {f.name: f.type for f in fields}
    parts = [p for p in (_from_spark(f, types) for f in filters) if p is not None]
    return conjoin(parts)


def _from_spark(offered: Any, types: Mapping[str, DataType]) -> Predicate | None:
    path: tuple[str, ...] = getattr(offered, "attribute", ())
    if len(path) != 1 or path[0] not in types:
        return None
    name = path[0]
    kind = type(offered).__name__
    match kind:
        case "IsNull":
            return IsNull(name)
        case "IsNotNull":
            return NotNull(name)
        case "StringStartsWith":
            return StartsWith(name, offered.value)
        case "In":
            known = tuple(v for v in offered.value if v is not None)
            alike = all(_same_meaning(v, types[name]) for v in known)
            return In(name, known) if alike else None
        case _ if kind in _OFFERED and _same_meaning(offered.value, types[name]):
            return Compare(_OFFERED[kind], name, offered.value)
        case _:
            return None


def _same_meaning(value: object, data_type: DataType) -> bool:
    """Whether the kernel gives a Spark literal the same value and order.

    Spark has sent days and instants through ``java.sql``, which old ones do not survive.
    """
    if isinstance(value, datetime) and value.tzinfo is None:
        return data_type.root is not TypeRoot.TIMESTAMP_LTZ
    if isinstance(value, datetime):
        is_exact = (value - EPOCH).total_seconds() >= EXACT_SECONDS_FROM
        return is_exact and data_type.root is TypeRoot.TIMESTAMP_LTZ
    if isinstance(value, date):
        return (value - EPOCH.date()).days >= EXACT_DAYS_FROM
    return value is not None
