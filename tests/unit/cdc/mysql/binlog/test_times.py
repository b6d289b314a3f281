"""Dates and times of the log, against Python's."""

from __future__ import annotations

import datetime as dt
import struct

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tidelake.cdc.mysql.binlog import times
from tidelake.cdc.mysql.binlog.numbers import (
    padded,
)

AT = np.zeros(1, np.int64)


@given(st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31)), st.integers(0, 6))
def test_datetimes(value, digits):
    micros = value.microsecond // 10 ** (6 - digits) * 10 ** (6 - digits)
    value = value.replace(microsecond=micros)
    whole = ((value.year * 13 + value.month) << 5 | value.day) << 17
    whole |= value.hour << 12 | value.minute << 6 | value.second | 1 << 39
    more = (digits + 1) // 2
    raw = whole.to_bytes(5, "big") + (micros // 10 ** (6 - 2 * more)).to_bytes(more, "big")
    found = times.datetimes(padded([raw]), AT, digits)
    assert not found.is_wrong.any()
    assert dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=int(found.values[0])) == value
    old = struct.pack("<Q", int(value.strftime("%Y%m%d%H%M%S").zfill(14)))
    found = times.old_datetimes(padded([old]), AT)
    expected = value.replace(microsecond=0)
    assert dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=int(found.values[0])) == expected


@given(st.integers(-3_020_399_999_999, 3_020_399_999_999), st.integers(0, 6))
def test_times_below_zero_too(micros, digits):
    step = 10 ** (6 - digits)
    size = abs(micros) // step * step
    seconds, fraction = divmod(size, 1_000_000)
    packed = seconds // 3600 << 12 | seconds // 60 % 60 << 6 | seconds % 60
    more = (digits + 1) // 2
    whole = packed << (8 * more) | fraction // 10 ** (6 - 2 * more)
    whole = (0x800000 << (8 * more)) + (-whole if micros < 0 else whole)
    found = times.times(padded([whole.to_bytes(3 + more, "big")]), AT, digits)
    assert found.values.tolist() == [-size if micros < 0 else size]


def test_days_that_no_calendar_has():
    days = [
        (0, 0, 0),
        (2024, 0, 10),
        (2024, 2, 30),
        (2023, 2, 29),
        (2024, 2, 29),
        (0, 1, 1),
        (9999, 12, 31),
    ]
    raw = b"".join((y << 9 | m << 5 | d).to_bytes(3, "little") for y, m, d in days)
    found = times.dates(padded([raw]), np.arange(len(days)) * 3)
    assert found.is_zero.tolist() == [True] + [False] * 6
    assert found.is_wrong.tolist() == [False, True, True, True, False, False, False]
    assert found.texts[1:4] == ["2024-00-10", "2024-02-30", "2023-02-29"]
    assert found.values[4] == (dt.date(2024, 2, 29) - dt.date(1970, 1, 1)).days
