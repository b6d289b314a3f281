"""The session's time zone, and options of a table whose times are in it.

Spark's default is the zone of the driver's JVM. The rule for times without a zone is
:mod:`tidelake.table.handle.instant`'s.
"""

from __future__ import annotations

from datetime import tzinfo

from pyspark.sql import SparkSession

from tidelake.engine.tables import Table, Time, instant, timestamp_ms
from tidelake.options import Option, declared
from tidelake.sql.execution.time_travel_clause import TIME_ZONE, named_zone

_TIMES: tuple[Option[str | None], ...] = (
    declared.SCAN_TIMESTAMP,
    declared.INCREMENTAL_BETWEEN_TIMESTAMP,
)
"""Options that hold times, with commas between."""


def session_zone(spark: SparkSession) -> tzinfo:
    """The time zone of a session.

    Raises
    ------
    InvalidInputError
        Python does not know it.
    """
    return named_zone(str(spark.conf.get(TIME_ZONE)))


def session_ms(spark: SparkSession, time: Time | None) -> int | None:
    """Milliseconds since the epoch of a time to read; the session is asked only if there is one."""
    return None if time is None else timestamp_ms(time, zone=session_zone(spark))


def with_session_times(spark: SparkSession, table: Table) -> Table:
    """The table; times without a zone among its options get that of the session.

    The session is asked only if there is such an option.
    """
    given = {o.key: text for o in _TIMES if (text := table.options.get(o)) is not None}
    if not given:
        return table
    zone = session_zone(spark)
    return table.with_options({key: _in_zone(text, zone) for key, text in given.items()})


def _in_zone(text: str, zone: tzinfo) -> str:
    times = [part.strip() for part in text.split(",")]
    return ",".join(
        instant(timestamp_ms(time, zone=zone)).isoformat() if time else time for time in times
    )
