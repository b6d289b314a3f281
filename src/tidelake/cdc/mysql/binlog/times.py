"""Dates and times of all rows of a column at once.

==========  =====================================================================================
DATE        3 bytes little endian: day 5 bits, month 4, year 15
TIME        3 bytes little endian, signed: HHMMSS as a number
TIME2       3 bytes big endian, minus 0x800000: hour 10 bits, minute 6, second 6; then the fraction
DATETIME    8 bytes little endian: YYYYMMDDHHMMSS as a number
DATETIME2   5 bytes big endian: sign 1 bit, year * 13 + month 17, day 5, hour 5, minute 6, second 6;
            then the fraction
TIMESTAMP   4 bytes little endian: seconds since 1970 in UTC
TIMESTAMP2  4 bytes big endian: the same; then the fraction
fraction    (digits + 1) // 2 bytes big endian
==========  =====================================================================================

MySQL also stores days that no calendar has: ``0000-00-00``, its own sign for "no date", and others
such as ``2024-00-10``. Each function says which rows have the first and which the second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tidelake.cdc.mysql.binlog.numbers import Bytes, Places, big, little, signed

MICROS = 1_000_000
MICROS_PER_DAY = 86_400 * MICROS


@dataclass(frozen=True, slots=True)
class Moments:
    """Days, or microseconds, of a column's rows.

    Parameters
    ----------
    values : numpy.ndarray
        int64: days since 1970, or microseconds since then or since midnight.
    is_zero : numpy.ndarray
        Rows with ``0000-00-00``; their value has no meaning.
    is_wrong : numpy.ndarray
        Rows with a day that no calendar has.
    texts : sequence of str or None
        The source's text of those rows; None if there are none.
    """

    values: NDArray[np.int64]
    is_zero: NDArray[np.bool_]
    is_wrong: NDArray[np.bool_]
    texts: Sequence[str | None] | None = None


def days_of(
    year: NDArray[np.int64],
    month: NDArray[np.int64],
    day: NDArray[np.int64],
    ok: NDArray[np.bool_] | None = None,
) -> Moments:
    """Days since 1970 of dates; what stands in rows that are not `ok` is not looked at."""
    is_zero = (year == 0) & (month == 0) & (day == 0)
    inside = (month >= 1) & (month <= 12)
    months = np.where(inside, (year - 1970) * 12 + month - 1, 0).astype("M8[M]")
    first = months.astype("M8[D]").astype(np.int64)
    next_first = (months + 1).astype("M8[D]").astype(np.int64)
    values = first + day - 1
    is_wrong = (~inside | (day < 1) | (values >= next_first)) & ~is_zero
    if ok is not None:
        is_wrong &= ok
    texts = None
    if is_wrong.any():
        parts = zip(year, month, day, is_wrong, strict=True)
        texts = [f"{y:04}-{m:02}-{d:02}" if wrong else None for y, m, d, wrong in parts]
    return Moments(values, is_zero, is_wrong, texts)


def dates(buffer: Bytes, at: Places, ok: NDArray[np.bool_] | None = None) -> Moments:
    """DATE: days since 1970."""
    raw = little(buffer, at, 3).view(np.int64)
    return days_of(raw >> 9, raw >> 5 & 15, raw & 31, ok)


def old_times(buffer: Bytes, at: Places) -> Moments:
    """TIME before MySQL 5.6: microseconds, which may be below 0."""
    raw = signed(little(buffer, at, 3), 3)
    size = np.abs(raw)
    seconds = size // 10_000 * 3600 + size // 100 % 100 * 60 + size % 100
    return _sure(np.where(raw < 0, -seconds, seconds) * MICROS)


def times(buffer: Bytes, at: Places, digits: int) -> Moments:
    """TIME: microseconds, which may be below 0."""
    more = (digits + 1) // 2
    # sign, hour, minute, second and fraction are one number, which is negated as a whole
    raw = big(buffer, at, 3 + more).view(np.int64) - (0x800000 << (8 * more))
    size = np.abs(raw)
    whole = size >> (8 * more)
    seconds = (whole >> 12 & 1023) * 3600 + (whole >> 6 & 63) * 60 + (whole & 63)
    micros = seconds * MICROS + _fraction(size & ((1 << (8 * more)) - 1), more)
    return _sure(np.where(raw < 0, -micros, micros))


def old_datetimes(buffer: Bytes, at: Places, ok: NDArray[np.bool_] | None = None) -> Moments:
    """DATETIME before MySQL 5.6: microseconds since 1970 on the clock's face."""
    raw = little(buffer, at, 8).view(np.int64)
    day, clock = raw // 1_000_000, raw % 1_000_000
    found = days_of(day // 10_000, day // 100 % 100, day % 100, ok)
    seconds = clock // 10_000 * 3600 + clock // 100 % 100 * 60 + clock % 100
    values = found.values * MICROS_PER_DAY + seconds * MICROS
    return Moments(values, found.is_zero, found.is_wrong, found.texts)


def datetimes(
    buffer: Bytes, at: Places, digits: int, ok: NDArray[np.bool_] | None = None
) -> Moments:
    """DATETIME: microseconds since 1970 on the clock's face."""
    more = (digits + 1) // 2
    raw = big(buffer, at, 5).view(np.int64) & 0x7F_FFFF_FFFF
    months = raw >> 22
    found = days_of(months // 13, months % 13, raw >> 17 & 31, ok)
    seconds = (raw >> 12 & 31) * 3600 + (raw >> 6 & 63) * 60 + (raw & 63)
    fraction = _fraction(big(buffer, at + 5, more).view(np.int64), more) if more else 0
    values = found.values * MICROS_PER_DAY + seconds * MICROS + fraction
    return Moments(values, found.is_zero, found.is_wrong, found.texts)


def old_timestamps(buffer: Bytes, at: Places) -> Moments:
    """TIMESTAMP before MySQL 5.6: microseconds since 1970 in UTC."""
    seconds = little(buffer, at, 4).view(np.int64)
    return Moments(seconds * MICROS, seconds == 0, np.zeros(len(at), np.bool_))


def timestamps(buffer: Bytes, at: Places, digits: int) -> Moments:
    """TIMESTAMP: microseconds since 1970 in UTC."""
    more = (digits + 1) // 2
    seconds = big(buffer, at, 4).view(np.int64)
    fraction = _fraction(big(buffer, at + 4, more).view(np.int64), more) if more else 0
    values = seconds * MICROS + fraction
    return Moments(values, values == 0, np.zeros(len(at), np.bool_))


def _fraction(raw: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    return raw * 10 ** (6 - 2 * size)


def _sure(values: NDArray[np.int64]) -> Moments:
    none = np.zeros(len(values), np.bool_)
    return Moments(values, none, none)
