"""A table's watermark: options under the keys that Paimon's Flink catalog uses.

Source: ``FlinkCatalogPropertiesUtil.serializeNewWatermarkSpec`` (1.3.1). The type of the expression
is its column's type, which Flink derives for a time minus an interval.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from tidelake.errors import InvalidInputError, UnsupportedError
from tidelake.types import DataType, TypeRoot
from tidelake.types.schema_change import DropColumn, RemoveOption, RenameColumn, SchemaChange

_QUOTED = re.compile(r"`((?:[^`]|``)+)`")
_DELAYED = re.compile(
    r"(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<plain>\w+))"
    r"(?:\s*-\s*INTERVAL\s*'(?P<number>\d+(?:\.\d+)?)'\s*"
    r"(?P<unit>SECOND|MINUTE|HOUR|DAY)S?(?:\s*\(\d+(?:\s*,\s*\d+)?\))?)?",
    re.IGNORECASE,
)
_UNITS_MS = {"SECOND": 1000, "MINUTE": 60_000, "HOUR": 3_600_000, "DAY": 86_400_000}

ROWTIME = "schema.watermark.0.rowtime"
EXPRESSION = "schema.watermark.0.strategy.expr"
DATA_TYPE = "schema.watermark.0.strategy.data-type"
WATERMARK_KEYS = (ROWTIME, EXPRESSION, DATA_TYPE)
"""On disk: never rename."""


def check_watermark(
    options: Mapping[str, str], changes: Sequence[SchemaChange], *, table: str
) -> None:
    """Refuse changes that remove a column which the watermark names.

    Raises
    ------
    InvalidInputError
        A change drops or renames its column before the watermark is dropped.
    """
    if ROWTIME not in options:
        return
    quoted = _QUOTED.findall(options.get(EXPRESSION, ""))
    named = {options[ROWTIME], *(name.replace("``", "`") for name in quoted)}
    for change in changes:
        if isinstance(change, RemoveOption) and change.key == ROWTIME:
            return
        if isinstance(change, (DropColumn, RenameColumn)) and change.column in named:
            message = (
                f"The watermark of table '{table}' names column '{change.column}': drop the"
                f" watermark first (ALTER TABLE {table} DROP WATERMARK)."
            )
            raise InvalidInputError(message, kind="watermark", table=table, column=change.column)


def check_event_time(data_type: DataType, *, column: str, table: str) -> None:
    """Refuse a watermark on a column that holds no time.

    Raises
    ------
    InvalidInputError
        Its type is another than TIMESTAMP and TIMESTAMP_LTZ.
    """
    if data_type.root not in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ):
        message = (
            f"Column '{column}' of table '{table}' has type {data_type}, but a watermark needs"
            " TIMESTAMP or TIMESTAMP_LTZ: name a column of that type, or cast it before it is"
            " written."
        )
        raise InvalidInputError(message, kind="watermark_type", table=table, column=column)


@dataclass(frozen=True, slots=True)
class EventTime:
    """A table's declared event time.

    Parameters
    ----------
    delay_ms : int
        How much later than others a row may come, in ms.
    """

    column: str
    delay_ms: int


def event_time(options: Mapping[str, str], *, table: str) -> EventTime | None:
    """Return the event time of ``WATERMARK FOR ts AS ts - INTERVAL '5' SECOND``; None without one.

    Raises
    ------
    UnsupportedError
        The expression is neither the column itself nor the column less a fixed interval.

    Examples
    --------
    >>> event_time({ROWTIME: "ts", EXPRESSION: "`ts` - INTERVAL '1.5' MINUTE"}, table="db.t")
    EventTime(column='ts', delay_ms=90000)
    """
    column, expression = options.get(ROWTIME), options.get(EXPRESSION)
    if column is None or expression is None:
        return None
    found = _DELAYED.fullmatch(expression.strip())
    name = "" if found is None else (found["quoted"] or found["plain"] or "").replace("``", "`")
    if found is None or name != column:
        message = (
            f"The watermark of table '{table}' is {expression}: a stream needs the column itself,"
            f" or the column less a fixed time, such as `{column}` - INTERVAL '5' SECOND. Alter it,"
            f" or drop it (ALTER TABLE {table} DROP WATERMARK)."
        )
        raise UnsupportedError(message, kind="watermark", table=table, column=column)
    delay_ms = 0
    if found["number"] is not None:
        delay_ms = int(Decimal(found["number"]) * _UNITS_MS[found["unit"].upper()])
    return EventTime(column, delay_ms)
