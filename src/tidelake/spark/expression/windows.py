"""Window functions of Flink's SQL on a DataFrame: TUMBLE, HOP and CUMULATE.

Each adds three columns: ``window_start`` and ``window_end``, the bounds of the row's window, and
``window_time``, a millisecond before its end. HOP and CUMULATE repeat a row for each of its
windows; a row without a time is dropped.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as st

from tidelake.errors import InvalidInputError, near_names
from tidelake.spark.expression.expression import quoted
from tidelake.sql.syntax.table_clause import Window

__all__ = ["windowed"]

WINDOW_COLUMNS = ("window_start", "window_end", "window_time")
_LARGEST, _SMALLEST = "__tidelake_largest", "__tidelake_smallest"


def windowed(frame: DataFrame, window: Window, *, table: str) -> DataFrame:
    """Add the windows of each row.

    Parameters
    ----------
    frame : DataFrame
        Has the window's time column.
    window : Window
        The window function.
    table : str
        For messages.

    Raises
    ------
    InvalidInputError
        There is no such column, or it is no timestamp.
    """
    by_key = {field.name.casefold(): field for field in frame.schema.fields}
    field = by_key.get(window.column.casefold())
    if field is None:
        message = (
            f"'{table}' has no column '{window.column}' for {window.kind}."
            f"{near_names(window.column, frame.columns)}"
        )
        raise InvalidInputError(message, kind="column_not_found", column=window.column)
    if not isinstance(field.dataType, (st.TimestampType, st.TimestampNTZType)):
        message = (
            f"{window.kind} needs a TIMESTAMP, but column '{window.column}' of '{table}' is"
            f" {field.dataType.simpleString()}."
        )
        raise InvalidInputError(message, kind="column_type", column=window.column)
    taken = set(by_key) & set(WINDOW_COLUMNS)
    if taken:
        message = (
            f"{window.kind} would add the column '{min(taken)}', which '{table}' has: rename it in"
            " a subquery."
        )
        raise InvalidInputError(message, kind="column_twice", column=min(taken))
    time = F.col(quoted(field.name))
    columns = [F.col(quoted(c)) for c in frame.columns]
    offset = _length(window.offset_ms % window.step_ms)
    if window.kind == "CUMULATE":
        largest = F.window(
            time, _length(window.size_ms), startTime=_length(window.offset_ms % window.size_ms)
        )
        smallest = F.window(time, _length(window.step_ms), startTime=offset)
        # two windows in one SELECT would be a product of both
        outer = frame.select("*", largest.alias(_LARGEST)).select("*", smallest.alias(_SMALLEST))
        ends = F.sequence(
            F.col(f"{_SMALLEST}.end"),
            F.col(f"{_LARGEST}.end"),
            F.expr(f"INTERVAL {window.step_ms} MILLISECONDS"),
        )
        rows = outer.select(
            *columns,
            F.col(f"{_LARGEST}.start").alias("window_start"),
            F.explode(ends).alias("window_end"),
        )
    else:
        each = F.window(time, _length(window.size_ms), _length(window.step_ms), offset)
        rows = frame.select("*", each.alias(_LARGEST)).select(
            *columns,
            F.col(f"{_LARGEST}.start").alias("window_start"),
            F.col(f"{_LARGEST}.end").alias("window_end"),
        )
    last = F.col("window_end") - F.expr("INTERVAL 1 MILLISECOND")
    return rows.select("*", last.alias("window_time"))


def _length(length_ms: int) -> str:
    return f"{length_ms} milliseconds"
