"""INSERT INTO of literals, which the kernel does without Spark.

1. The query is VALUES of literals (:mod:`tidelake.sql.syntax.values_rows`); the statement says
   neither
   OVERWRITE nor PARTITION, and the rows bring no new columns.
2. Each column of values has one type, which goes into the table's column by the rules of SQL's
   store assignment, as on Spark. What these rules refuse is refused here, in the same words.
3. A value becomes one of the column where that is the same value to the last digit, or where only
   a fraction is cut off; a row that would be rounded or shifted is Spark's.
4. The table writes the rows, in one commit.

Whatever else an INSERT says is Spark's to do.
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
    out_of_range,
    target_columns,
    with_defaults,
    wrong_type,
)
from tidelake.sql.syntax.values_rows import Cell, Sort, fits_decimal, read_rows
from tidelake.types import DataField, TypeRoot

__all__ = ["kernel_insert"]

OF_SPARK = ("spark.sql.", "spark.paimon.")

_WHOLE_BITS = {TypeRoot.TINYINT: 8, TypeRoot.SMALLINT: 16, TypeRoot.INT: 32, TypeRoot.BIGINT: 64}
_WHOLE = (Sort.TINYINT, Sort.SMALLINT, Sort.INT, Sort.BIGINT)
_NUMBERS = frozenset({*_WHOLE, Sort.DECIMAL, Sort.DOUBLE})
_TIMES = frozenset({Sort.DATE, Sort.TIMESTAMP, Sort.TIMESTAMP_NTZ})
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
"""The columns that values are read for, and what Spark calls them."""
_FIT = {
    Sort.BOOLEAN: frozenset({"BOOLEAN", "STRING"}),
    Sort.STRING: frozenset({"STRING"}),
}
_NUMBER_COLUMNS = frozenset(
    {"TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL", "STRING"}
)
_TIME_COLUMNS = frozenset({"DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "STRING"})
DOUBLE_DIGITS_MAX, FLOAT_DIGITS_MAX = 15, 6
"""A number of so many digits is rounded once, whichever way it goes."""
FLOAT_POWER_MAX = 30
YEARS_KNOWN = range(1970, 2100)
"""In these both sides have the same rules of a zone."""


class _NotPlainError(Exception):
    """Spark has rules for this value that are not known here."""


def kernel_insert(
    statement: Insert, session: SqlSession, *, conf: Mapping[str, str], zone: tzinfo
) -> bool:
    """Carry out an INSERT without Spark, where that is known to be the same.

    Parameters
    ----------
    statement : Insert
        The statement.
    session : SqlSession
        What its names mean.
    conf : mapping of str to str
        Settings that Spark's session would have.
    zone : tzinfo
        Of that session.

    Returns
    -------
    bool
        Whether it was done; where not, nothing was.

    Raises
    ------
    NotFoundError, InvalidInputError, UnsupportedError
        As :meth:`tidelake.spark.Lake.sql` raises them; nothing is visible.
    """
    if statement.overwrite or statement.partition or statement.dynamic or statement.by_name:
        return False
    if any(key.startswith(OF_SPARK) and key != TIME_ZONE for key in conf):
        return False  # it may change what a literal or the table means
    name = str(statement.name)
    if read_rows(statement.query.sql, defaults=True) is None:
        return False
    table = session.data_table(statement.name, use="written")
    fields, own_zone = table.table_schema.fields, table.handle.env.zone
    rows = read_rows(with_defaults(statement, fields, table=name, zone=own_zone).query.sql)
    if rows is None:
        return False
    own = session_options(conf, prefix=SESSION_PREFIX, table=table.identifier)
    options = {**own, **statement.options}
    if options:
        table = table.with_options(options)
    if table.handle.options.get(declared.WRITE_MERGE_SCHEMA):
        return False
    targets = target_columns(statement.columns, fields, (), table=name)
    check_count(len(rows[0]), targets, table=name)
    try:
        columns = {
            field.name: _column(field, [row[place] for row in rows], zone, table=name)
            for place, field in enumerate(targets)
        }
    except _NotPlainError:
        return False
    nulls = pa.nulls(len(rows))
    given = [columns.get(field.name, nulls) for field in fields]
    table.write(pa.table(given, names=[field.name for field in fields]))
    return True


def _column(field: DataField, cells: Sequence[Cell], zone: tzinfo, *, table: str) -> pa.Array:
    """The values of one column; an error where their type does not go into it."""
    sorts = {cell.sort for cell in cells} - {Sort.VOID}
    if not sorts:
        return pa.nulls(len(cells))
    wanted = _SPARK_NAMES.get(field.type.root)
    if wanted is None:
        raise _NotPlainError
    if not sorts <= _accepted(sorts, wanted):
        sort = _common(sorts)
        cast_to = wanted
        if field.type.root is TypeRoot.DECIMAL:
            cast_to = f"DECIMAL({field.type.precision},{field.type.scale})"
        raise wrong_type(field, given=sort.value, cast_to=cast_to, table=table)
    root = field.type.root
    if root is TypeRoot.TIMESTAMP_LTZ:
        values = [_instant(cell, zone) for cell in cells]
        return pa.array(values, pa.timestamp("us", "UTC"))
    if root is TypeRoot.TIMESTAMP:
        return pa.array([_local(cell, zone) for cell in cells], pa.timestamp("us"))
    if root in _WHOLE_BITS:
        return pa.array([_whole(cell, field, table) for cell in cells], pa.int64())
    if root is TypeRoot.DECIMAL:
        arrow = pa.decimal128(field.type.precision or 10, field.type.scale or 0)
        return pa.array([_decimal(cell, field) for cell in cells], arrow)
    make, arrow = _PLAIN[wanted]
    return pa.array([None if c.value is None else make(c) for c in cells], arrow)


def _accepted(sorts: set[Sort], wanted: str) -> frozenset[Sort]:
    """What may stand together in a column, and go into the table's."""
    for family, into in ((_NUMBERS, _NUMBER_COLUMNS), (_TIMES, _TIME_COLUMNS)):
        if sorts <= family:
            return family if wanted in into else frozenset()
    if len(sorts) > 1:
        raise _NotPlainError
    (sort,) = sorts
    return frozenset({sort}) if wanted in _FIT[sort] else frozenset()


def _common(sorts: set[Sort]) -> Sort:
    """The type that all values have together, for messages."""
    whole = [sort for sort in _WHOLE if sort in sorts]
    if len(sorts) == 1 and Sort.DECIMAL not in sorts:
        return next(iter(sorts))
    if whole and len(whole) == len(sorts):
        return whole[-1]
    raise _NotPlainError


def _whole(cell: Cell, field: DataField, table: str) -> int | None:
    if cell.value is None:
        return None
    if cell.sort is Sort.DOUBLE:
        raise _NotPlainError  # Spark has words of its own for such a number
    number = int(cell.value)  # type: ignore[call-overload] # of these sorts; a fraction is cut off
    half = 1 << (_WHOLE_BITS[field.type.root] - 1)
    if not -half <= number < half:
        raise out_of_range(field, cell.value, table=table)
    return number


def _decimal(cell: Cell, field: DataField) -> Decimal | None:
    if cell.value is None:
        return None
    if cell.sort is Sort.DOUBLE:
        raise _NotPlainError
    value = Decimal(cell.value)  # type: ignore[arg-type] # of a whole number or a decimal
    if not fits_decimal(value, field.type.precision or 10, field.type.scale or 0):
        raise _NotPlainError
    return value


def _double(cell: Cell) -> float:
    value = cell.value
    if isinstance(value, Decimal) and len(value.as_tuple().digits) > DOUBLE_DIGITS_MAX:
        raise _NotPlainError
    return float(value)  # type: ignore[arg-type] # of a number


def _float(cell: Cell) -> float:
    value = Decimal(str(cell.value))
    digits = len(value.normalize().as_tuple().digits)
    if digits > FLOAT_DIGITS_MAX or abs(value.adjusted()) > FLOAT_POWER_MAX:
        raise _NotPlainError
    return float(value)


def _text(cell: Cell) -> str:
    if not isinstance(cell.value, str):
        raise _NotPlainError
    return cell.value


def _boolean(cell: Cell) -> bool:
    return bool(cell.value)


def _day(cell: Cell) -> date:
    value = cell.value
    return value.date() if isinstance(value, datetime) else value  # type: ignore[return-value]


def _local(cell: Cell, zone: tzinfo) -> datetime | None:
    """What a clock shows; an instant is first what the session's clock shows then."""
    value = cell.value
    if value is None:
        return None
    if not isinstance(value, datetime):
        assert isinstance(value, date), "a date or a timestamp"
        return datetime.combine(value, time())
    if cell.sort is Sort.TIMESTAMP:
        _in_zone(value, zone)
    return value


def _instant(cell: Cell, zone: tzinfo) -> datetime | None:
    local = _local(Cell(Sort.TIMESTAMP_NTZ, cell.value), zone)
    return None if local is None else _in_zone(local, zone)


def _in_zone(local: datetime, zone: tzinfo) -> datetime:
    """The instant at which the zone's clocks show that."""
    instant = local.replace(tzinfo=zone).astimezone(UTC)
    shown = instant.astimezone(zone).replace(tzinfo=None)
    if local.year not in YEARS_KNOWN or shown != local:
        raise _NotPlainError  # an hour that the zone leaves out
    return instant


_PLAIN: Mapping[str, tuple[Callable[[Cell], object], pa.DataType]] = {
    "BOOLEAN": (_boolean, pa.bool_()),
    "STRING": (_text, pa.string()),
    "FLOAT": (_float, pa.float32()),
    "DOUBLE": (_double, pa.float64()),
    "DATE": (_day, pa.date32()),
}
