"""The fields of local dates and times, each as a vector of numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tidelake.cdc.columns.local_times import LocalTimes

Numbers = NDArray[np.int64]


def _dates(times: LocalTimes) -> NDArray[np.datetime64]:
    return times.days.astype("datetime64[D]")


def _months(times: LocalTimes) -> Numbers:
    """Months since year 0."""
    return _dates(times).astype("datetime64[M]").astype(np.int64) + 1970 * 12


def year(times: LocalTimes) -> Numbers:
    """The years, 0 the one before 1."""
    return _months(times) // 12


def year_of_era(times: LocalTimes) -> Numbers:
    """The years from 1, before and after it."""
    years = year(times)
    return np.where(years > 0, years, 1 - years)


def month(times: LocalTimes) -> Numbers:
    """The months, 1 to 12."""
    return _months(times) % 12 + 1


def day(times: LocalTimes) -> Numbers:
    """The days of the month, 1 to 31."""
    dates = _dates(times)
    begin = dates.astype("datetime64[M]").astype("datetime64[D]")
    return (dates - begin).astype(np.int64) + 1


def day_of_year(times: LocalTimes) -> Numbers:
    """The days of the year, 1 to 366."""
    dates = _dates(times)
    begin = dates.astype("datetime64[Y]").astype("datetime64[D]")
    return (dates - begin).astype(np.int64) + 1


def _second_of_day(times: LocalTimes) -> Numbers:
    return times.nanos // 10**9


def hour(times: LocalTimes) -> Numbers:
    """The hours, 0 to 23."""
    return _second_of_day(times) // 3_600


def minute(times: LocalTimes) -> Numbers:
    """The minutes, 0 to 59."""
    return _second_of_day(times) // 60 % 60


def second(times: LocalTimes) -> Numbers:
    """The seconds, 0 to 59."""
    return _second_of_day(times) % 60


def day_of_week(times: LocalTimes) -> Numbers:
    """The days of the week, 1 for Monday."""
    return (times.days + 3) % 7 + 1  # 1970 began on a Thursday


def quarter(times: LocalTimes) -> Numbers:
    """The quarters of the year, 1 to 4."""
    return (month(times) + 2) // 3


def half_of_day(times: LocalTimes) -> Numbers:
    """0 before noon, 1 from noon on."""
    return hour(times) // 12


def nanos_of_second(times: LocalTimes) -> Numbers:
    """The fraction of the second in nanoseconds."""
    return times.nanos % 10**9
