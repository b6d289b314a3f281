"""INSERT INTO of literals, without Spark.

1. The query is VALUES of literals (:mod:`tidelake.sql.syntax.values_rows`), without OVERWRITE,
   PARTITION and new columns.
2. Each column of values has one type. It must go into the table's column by SQL's store
   assignment, as on Spark; otherwise the same error is raised.
3. A value is converted if it stays exact, or if only a fraction is cut off. Spark does anything
   that rounds or shifts.
4. The table writes the rows in one commit.

Spark runs any other INSERT.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, time, tzinfo
from decimal import Decimal

import pyarrow as pa

from tidelake.options import declared, session_options
from tidelake.sql.execution.kernel_query import SESSION_PREFIX
from tidelake.sql.execution.session import SqlSession
from tidelake.sql.execution.time_travel_clause import TIME_ZONE
from tidelake.sql.syntax.ast import Insert
from tidelake.sql.syntax.insert_columns import (
    check_count,
    out_of_range_error,
    target_columns,
    with_defaults,
    wrong_type_error,
)
from tidelake.sql.syntax.tokens import plain_text
from tidelake.sql.syntax.values_rows import LiteralType, LiteralValue, fits_decimal, parse_values
from tidelake.types import DataField, TypeRoot

OF_SPARK = ("spark.sql.", "spark.paimon.")

_WHOLE_BITS = {TypeRoot.TINYINT: 8, TypeRoot.SMALLINT: 16, TypeRoot.INT: 32, TypeRoot.BIGINT: 64}
_WHOLE = (LiteralType.TINYINT, LiteralType.SMALLINT, LiteralType.INT, LiteralType.BIGINT)
_NUMBERS = frozenset({*_WHOLE, LiteralType.DECIMAL, LiteralType.DOUBLE})
_TIMES = frozenset({LiteralType.DATE, LiteralType.TIMESTAMP, LiteralType.TIMESTAMP_NTZ})
_SPARK_NAMES = {
    TypeRoot.BOOLEAN: "BOOLEAN",
    TypeRoot.FLOAT: "FLOAT",
    TypeRoot.DOUBLE: "DOUBLE",
    TypeRoot.DECIMAL: "DECIMAL",
    TypeRoot.CHAR: "STRING",
    TypeRoot.VARCHAR: "STRING",
    TypeRoot.DATE: "DATE",
    TypeRoot.TIMESTAMP: "TIMESTAMP_NTZ",
    TypeRoot.TIMESTAMP_LTZ: "TIMESTAMP",
    **{root: root.value for root in _WHOLE_BITS},
}
"""Supported column types, with Spark's names."""
_FIT = {
    LiteralType.BOOLEAN: frozenset({"BOOLEAN", "STRING"}),
    LiteralType.STRING: frozenset({"STRING"}),
}
_NUMBER_COLUMNS = frozenset(
    {"TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL", "STRING"}
)
_TIME_COLUMNS = frozenset({"DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "STRING"})
DOUBLE_DIGITS_MAX, FLOAT_DIGITS_MAX = 15, 6
"""Up to this many digits a number is rounded only once, here and on Spark."""
FLOAT_POWER_MAX = 30
YEARS_KNOWN = range(1970, 2100)
"""Python and Java have the same time zone rules in these years."""


class _NotPlainError(Exception):
    """Only Spark can convert this value."""


def kernel_insert(
    statement: Insert, session: SqlSession, *, conf: Mapping[str, str], zone: tzinfo
) -> bool:
    """Run an INSERT without Spark, if the result is the same.

    Returns
    -------
    bool
        True if it was done; False leaves the table unchanged.

    Raises
    ------
    NotFoundError, InvalidInputError, UnsupportedError
        As :meth:`tidelake.spark.Lake.sql`; nothing is written.
    """
    if statement.overwrite or statement.partition or statement.dynamic or statement.by_name:
        return False
    if any(key.startswith(OF_SPARK) and key != TIME_ZONE for key in conf):
        return False  # it may change the meaning of a literal or of the table
    name = str(statement.name)
    # a hint at the end would lose its end with the last token's
    query = plain_text(statement.query.text)[statement.query.start : statement.query.end]
    if parse_values(query, defaults=True) is None:
        return False
    table = session.data_table(statement.name, use="written")
    own = session_options(conf, prefix=SESSION_PREFIX, table=table.identifier)
    options = {**own, **statement.options}
    if options:
        table = table.with_options(options)  # before its columns: the option `branch` may say them
    fields, own_zone = table.table_schema.fields, table.handle.env.zone
    rows = parse_values(with_defaults(statement, fields, table=name, zone=own_zone).query.sql)
    if rows is None:
        return False
    if table.handle.options.get(declared.WRITE_MERGE_SCHEMA):
        return False
    targets = target_columns(statement.columns, fields, (), table=name)
    check_count(len(rows[0]), targets, table=name)
    try:
        columns = {
            field.name: _column(field, [row[index] for row in rows], zone, table=name)
            for index, field in enumerate(targets)
        }
    except _NotPlainError:
        return False
    nulls = pa.nulls(len(rows))
    given = [columns.get(field.name, nulls) for field in fields]
    table.write(pa.table(given, names=[field.name for field in fields]))
    return True


def _column(
    field: DataField, literals: Sequence[LiteralValue], zone: tzinfo, *, table: str
) -> pa.Array:
    """Convert the values of one column; refuse a type that it does not take."""
    types = {literal.type for literal in literals} - {LiteralType.VOID}
    if not types:
        return pa.nulls(len(literals))
    wanted = _SPARK_NAMES.get(field.type.root)
    if wanted is None:
        raise _NotPlainError
    if not types <= _accepted(types, wanted):
        type = _common(types)
        cast_to = wanted
        if field.type.root is TypeRoot.DECIMAL:
            cast_to = f"DECIMAL({field.type.precision},{field.type.scale})"
        raise wrong_type_error(field, given=type.value, cast_to=cast_to, table=table)
    root = field.type.root
    if root is TypeRoot.TIMESTAMP_LTZ:
        values = [_instant(literal, zone) for literal in literals]
        return pa.array(values, pa.timestamp("us", "UTC"))
    if root is TypeRoot.TIMESTAMP:
        return pa.array([_local(literal, zone) for literal in literals], pa.timestamp("us"))
    if root in _WHOLE_BITS:
        return pa.array([_whole(literal, field, table) for literal in literals], pa.int64())
    if root is TypeRoot.DECIMAL:
        arrow = pa.decimal128(field.type.precision or 10, field.type.scale or 0)
        return pa.array([_decimal(literal, field) for literal in literals], arrow)
    make, arrow = _PLAIN[wanted]
    return pa.array([None if c.value is None else make(c) for c in literals], arrow)


def _accepted(types: set[LiteralType], wanted: str) -> frozenset[LiteralType]:
    """Types that may be mixed with these and go into the table's column."""
    for family, into in ((_NUMBERS, _NUMBER_COLUMNS), (_TIMES, _TIME_COLUMNS)):
        if types <= family:
            return family if wanted in into else frozenset()
    if len(types) > 1:
        raise _NotPlainError
    (type,) = types
    return frozenset({type}) if wanted in _FIT[type] else frozenset()


def _common(types: set[LiteralType]) -> LiteralType:
    """Common type of the values, for messages."""
    whole = [type for type in _WHOLE if type in types]
    if len(types) == 1 and LiteralType.DECIMAL not in types:
        return next(iter(types))
    if whole and len(whole) == len(types):
        return whole[-1]
    raise _NotPlainError


def _whole(literal: LiteralValue, field: DataField, table: str) -> int | None:
    if literal.value is None:
        return None
    if literal.type is LiteralType.DOUBLE:
        raise _NotPlainError  # Spark has its own error for such a number
    number = int(literal.value)  # type: ignore[call-overload] # of these sorts; a fraction is cut off
    half = 1 << (_WHOLE_BITS[field.type.root] - 1)
    if not -half <= number < half:
        raise out_of_range_error(field, literal.value, table=table)
    return number


def _decimal(literal: LiteralValue, field: DataField) -> Decimal | None:
    if literal.value is None:
        return None
    if literal.type is LiteralType.DOUBLE:
        raise _NotPlainError
    value = Decimal(literal.value)  # type: ignore[arg-type] # of a whole number or a decimal
    if not fits_decimal(value, field.type.precision or 10, field.type.scale or 0):
        raise _NotPlainError
    return value


def _double(literal: LiteralValue) -> float:
    value = literal.value
    if isinstance(value, Decimal) and len(value.as_tuple().digits) > DOUBLE_DIGITS_MAX:
        raise _NotPlainError
    return float(value)  # type: ignore[arg-type] # of a number


def _float(literal: LiteralValue) -> float:
    value = Decimal(str(literal.value))
    digits = len(value.normalize().as_tuple().digits)
    if digits > FLOAT_DIGITS_MAX or abs(value.adjusted()) > FLOAT_POWER_MAX:
        raise _NotPlainError
    return float(value)


def _text(literal: LiteralValue) -> str:
    if not isinstance(literal.value, str):
        raise _NotPlainError
    return literal.value


def _boolean(literal: LiteralValue) -> bool:
    return bool(literal.value)


def _day(literal: LiteralValue) -> date:
    value = literal.value
    return value.date() if isinstance(value, datetime) else value  # type: ignore[return-value]


def _local(literal: LiteralValue, zone: tzinfo) -> datetime | None:
    """Convert to a local time; an instant in the session's zone."""
    value = literal.value
    if value is None:
        return None
    if not isinstance(value, datetime):
        assert isinstance(value, date), "a date or a timestamp"
        return datetime.combine(value, time())
    if literal.type is LiteralType.TIMESTAMP:
        _in_zone(value, zone)
    return value


def _instant(literal: LiteralValue, zone: tzinfo) -> datetime | None:
    local = _local(LiteralValue(LiteralType.TIMESTAMP_NTZ, literal.value), zone)
    return None if local is None else _in_zone(local, zone)


def _in_zone(local: datetime, zone: tzinfo) -> datetime:
    """Find the instant of a local time in a zone."""
    instant = local.replace(tzinfo=zone).astimezone(UTC)
    shown = instant.astimezone(zone).replace(tzinfo=None)
    if local.year not in YEARS_KNOWN or shown != local:
        raise _NotPlainError  # the zone skips this hour
    return instant


_PLAIN: Mapping[str, tuple[Callable[[LiteralValue], object], pa.DataType]] = {
    "BOOLEAN": (_boolean, pa.bool_()),
    "STRING": (_text, pa.string()),
    "FLOAT": (_float, pa.float32()),
    "DOUBLE": (_double, pa.float64()),
    "DATE": (_day, pa.date32()),
}
