"""Days and times of Python as Spark literals, exact in all years and zones.

PySpark passes them as ``java.sql.Date`` and ``java.sql.Timestamp``: days before 1582-10-15 and
instants before 1900 then change, because these classes have the Julian calendar. So a literal is
made of a number or of text instead. A time without a zone is ``TIMESTAMP_NTZ``.
"""

from __future__ import annotations

import datetime as dt

from pyspark.sql import Column
from pyspark.sql import functions as F

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_DAY_ZERO = EPOCH.date()
EXACT_DAYS_FROM = (dt.date(1583, 1, 1) - _DAY_ZERO).days
"""From this day on, counted from 1970, ``java.sql.Date`` is the same day for sure."""
EXACT_SECONDS_FROM = int(dt.datetime(1901, 1, 1, tzinfo=dt.UTC).timestamp())
"""From this second on ``java.sql.Timestamp`` is the same instant; Spark's own limit is 1900."""
_MICRO = dt.timedelta(microseconds=1)


def moment_column(value: dt.date) -> Column:
    """A literal of DATE, TIMESTAMP or TIMESTAMP_NTZ."""
    if not isinstance(value, dt.datetime):
        return F.date_from_unix_date(F.lit((value - _DAY_ZERO).days))
    if value.tzinfo is None:
        return local_column(value)
    return instant_column((value - EPOCH) // _MICRO)


def instant_column(micros: int) -> Column:
    """An instant by its microseconds since 1970 in UTC."""
    return F.timestamp_micros(F.lit(micros).cast("bigint"))


def local_column(value: dt.datetime) -> Column:
    """A time without a zone."""
    text = value.replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")
    return F.expr(f"TIMESTAMP_NTZ '{text}'")
