"""Window functions of Flink's SQL on a DataFrame: TUMBLE, HOP, CUMULATE and SESSION.

Each adds three columns: ``window_start`` and ``window_end``, the bounds of the row's window, and
``window_time``, a millisecond before its end. HOP and CUMULATE repeat a row for each of its
windows; a row without a time is dropped. A session continues while its rows are no further apart
than the gap, and ends a gap after its last row.

Over a stream one of the three columns is the event time (:func:`windowed`): Spark allows only one,
and drops a group once the watermark has passed it. The sessions of a stream are made by its GROUP
BY: each row gets only the column :data:`SESSION`, by which the query groups.

Spark marks the event time in the column's metadata, and its operators use the first marked column
of their rows. A column computed from the event time has no mark unless it gets one here.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as Over
from pyspark.sql import functions as F
from pyspark.sql import types as st

from tidelake.errors import InvalidInputError, near_names
from tidelake.spark.expression.expression import quoted
from tidelake.sql.syntax.table_clause import Window

WINDOW_COLUMNS = ("window_start", "window_end", "window_time")
SESSION = "__tidelake_session"
"""The session of one row of a stream, which Spark merges in GROUP BY."""
_LARGEST, _SMALLEST, _BEGINS = "__tidelake_largest", "__tidelake_smallest", "__tidelake_begins"
DELAY_KEY = "spark.watermarkDelayMs"
"""Spark's mark, ``EventTimeWatermark.delayKey``: the watermark's delay, in ms."""


def windowed(
    frame: DataFrame, window: Window, *, table: str, event_time: str = "window_end"
) -> DataFrame:
    """Add the windows of each row.

    Raises
    ------
    InvalidInputError
        The column is missing or not a timestamp, or the time of a stream has no watermark.
    """
    time = _time_field(frame, window, table=table)
    _check_new_columns(frame, window, table=table)
    is_stream = frame.isStreaming
    if is_stream and not is_event_time(time):
        message = (
            f"{window.kind} over the stream of '{table}' needs a watermark on '{window.column}': a"
            " window ends when the watermark has passed it. Declare it in CREATE TABLE, or ALTER"
            f" TABLE ... ADD WATERMARK FOR `{window.column}` AS `{window.column}` - INTERVAL '5'"
            " SECOND."
        )
        raise InvalidInputError(message, kind="no_watermark", table=table, column=window.column)
    columns = [F.col(quoted(c)) for c in frame.columns]
    if is_stream:  # the window's time becomes the event time
        columns = [
            with_delay(column, name, None) if name == time.name else column
            for name, column in zip(frame.columns, columns, strict=True)
        ]
    if window.kind == "SESSION" and is_stream:
        session = F.session_window(F.col(quoted(time.name)), _length(window.size_ms))
        return frame.select(*columns, session.alias(SESSION))
    if window.kind == "SESSION":
        rows = _sessions(frame, F.col(quoted(time.name)), window, columns)
    elif window.kind == "CUMULATE":
        rows = _cumulated(frame, F.col(quoted(time.name)), window, columns)
    else:
        rows = _regular(frame, F.col(quoted(time.name)), window, columns)
    last = F.col("window_end") - F.expr("INTERVAL 1 MILLISECOND")
    rows = rows.select("*", last.alias("window_time"))
    if not is_stream:
        return rows
    return rows.select(
        *(
            with_delay(F.col(quoted(c)), c, time) if c == event_time else F.col(quoted(c))
            for c in rows.columns
        )
    )


def _time_field(frame: DataFrame, window: Window, *, table: str) -> st.StructField:
    by_key = {field.name.casefold(): field for field in frame.schema.fields}
    for name in (window.column, *window.keys):
        if name.casefold() not in by_key:
            message = (
                f"'{table}' has no column '{name}' for {window.kind}."
                f"{near_names(name, frame.columns)}"
            )
            raise InvalidInputError(message, kind="column_not_found", column=name)
    field = by_key[window.column.casefold()]
    if not isinstance(field.dataType, (st.TimestampType, st.TimestampNTZType)):
        message = (
            f"{window.kind} needs a TIMESTAMP, but column '{window.column}' of '{table}' is"
            f" {field.dataType.simpleString()}."
        )
        raise InvalidInputError(message, kind="column_type", column=window.column)
    return field


def _check_new_columns(frame: DataFrame, window: Window, *, table: str) -> None:
    taken = {name.casefold() for name in frame.columns} & set(WINDOW_COLUMNS)
    if taken:
        message = (
            f"{window.kind} would add the column '{min(taken)}', which '{table}' has: rename it in"
            " a subquery."
        )
        raise InvalidInputError(message, kind="column_twice", column=min(taken))


def _regular(frame: DataFrame, time: Column, window: Window, columns: list[Column]) -> DataFrame:
    """Windows of one size: TUMBLE and HOP."""
    offset = _length(window.offset_ms % window.step_ms)
    each = F.window(time, _length(window.size_ms), _length(window.step_ms), offset)
    return frame.select("*", each.alias(_LARGEST)).select(
        *columns,
        F.col(f"{_LARGEST}.start").alias("window_start"),
        F.col(f"{_LARGEST}.end").alias("window_end"),
    )


def _cumulated(frame: DataFrame, time: Column, window: Window, columns: list[Column]) -> DataFrame:
    """Windows that grow by a step up to a size."""
    largest = F.window(
        time, _length(window.size_ms), startTime=_length(window.offset_ms % window.size_ms)
    )
    smallest = F.window(
        time, _length(window.step_ms), startTime=_length(window.offset_ms % window.step_ms)
    )
    # two windows in one SELECT would multiply each other
    outer = frame.select("*", largest.alias(_LARGEST)).select("*", smallest.alias(_SMALLEST))
    ends = F.sequence(
        F.col(f"{_SMALLEST}.end"),
        F.col(f"{_LARGEST}.end"),
        F.expr(f"INTERVAL {window.step_ms} MILLISECONDS"),
    )
    return outer.select(
        *columns,
        F.col(f"{_LARGEST}.start").alias("window_start"),
        F.explode(ends).alias("window_end"),
    )


def _sessions(frame: DataFrame, time: Column, window: Window, columns: list[Column]) -> DataFrame:
    """Sessions of a batch: a row begins one if the row before it is more than a gap earlier."""
    keys = [F.col(quoted(key)) for key in window.keys]
    gap = F.expr(f"INTERVAL {window.size_ms} MILLISECONDS")
    in_time = Over.partitionBy(*keys).orderBy(time)
    before = F.lag(time).over(in_time)
    begins = F.when(before.isNull() | (before + gap < time), time)
    rows = frame.where(time.isNotNull()).select("*", begins.alias(_BEGINS))
    start = F.last(F.col(_BEGINS), ignorenulls=True).over(in_time)
    rows = rows.select("*", start.alias(_SMALLEST))
    end = F.max(time).over(Over.partitionBy(*keys, F.col(_SMALLEST))) + gap
    return rows.select(*columns, F.col(_SMALLEST).alias("window_start"), end.alias("window_end"))


def _length(length_ms: int) -> str:
    return f"{length_ms} milliseconds"


def is_event_time(field: st.StructField) -> bool:
    """Whether a column is the event time."""
    return DELAY_KEY in field.metadata


def with_delay(column: Column, name: str, time: st.StructField | None) -> Column:
    """Make a column the event time, with another's delay; with None no event time."""
    metadata = {} if time is None else {DELAY_KEY: time.metadata[DELAY_KEY]}
    return column.alias(name, metadata=metadata)
