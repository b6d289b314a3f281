"""Local dates and times as numbers: days since 1970 and nanoseconds of the day.

The text form is that of Paimon's ``DateTimeUtils.toLocalDateTime``: a date, perhaps with a time
after a space (with seconds) or a ``T`` (with or without). Like there, a day that the month does not
have becomes the month's last, and ``24:00:00`` is the next midnight. A month or day that is left
out (``2022--``), which Java reads as the first, is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidelake.types import DataType, TypeRoot
from tidelake.types.cast import cast_values

NANOS_PER_SECOND = 10**9
NANOS_PER_DAY = 86_400 * NANOS_PER_SECOND
_NONE = pa.scalar(None, pa.string())
YEAR_MAX = 999_999_999  # of Java's LocalDateTime

_TIME = r"(?P<{0}h>\d\d?):(?P<{0}m>\d\d?)"
_SECONDS = r":(?P<{0}s>\d\d?)(?:\.(?P<{0}f>\d{{0,9}}))?"
_PATTERN = (
    r"^(?:(?P<year>\d{4})|\+(?P<late>\d{5,9}))-(?P<month>\d\d?)-(?P<day>\d\d?)"
    rf"(?: {_TIME.format('a')}{_SECONDS.format('a')}"
    rf"|T{_TIME.format('b')}(?:{_SECONDS.format('b')})?)?$"
)
_EPOCH_UNITS = {0: 1, 3: 10**3, 6: 10**6, 9: 10**9}
"""Ticks in a second, by the digits of the second's fraction."""
EPOCH_PRECISIONS = tuple(_EPOCH_UNITS)


@dataclass(frozen=True, slots=True)
class LocalTimes:
    """Local times of a column.

    Parameters
    ----------
    days : numpy.ndarray
        int64, ``[n]``, days since 1970-01-01; 0 where there is no value.
    nanos : numpy.ndarray
        int64, ``[n]``, nanoseconds of the day.
    valid : numpy.ndarray
        bool, ``[n]``: whether there is a value.
    """

    days: NDArray[np.int64]
    nanos: NDArray[np.int64]
    valid: NDArray[np.bool_]


def of_epochs(values: pa.Array, precision: int) -> LocalTimes:
    """Read counts since 1970 in UTC.

    Counts before 1970 are read exactly; Paimon fails at most of those in micro- and nanoseconds.

    Parameters
    ----------
    values : pyarrow.Array
        Of an integer type.
    precision : int
        Unit of a count: 0 seconds, 3 milli-, 6 micro-, 9 nanoseconds.
    """
    valid = _valid(values)
    counts = pc.fill_null(values.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    per_second = _EPOCH_UNITS[precision]
    days, rest = np.divmod(counts, per_second * 86_400)
    # a count of seconds may lie beyond any calendar
    known = valid & (np.abs(days) <= YEAR_MAX * 365)
    return LocalTimes(np.where(known, days, 0), rest * (NANOS_PER_SECOND // per_second), known)


def of_values(values: pa.Array, data_type: DataType, *, zone: str) -> LocalTimes:
    """Read values of a type DATE, TIMESTAMP, TIMESTAMP_LTZ, CHAR or VARCHAR.

    Parameters
    ----------
    zone : str
        Where instants of TIMESTAMP_LTZ are read.
    """
    if data_type.root in {TypeRoot.CHAR, TypeRoot.VARCHAR}:
        return _of_texts(values)
    if data_type.root is TypeRoot.DATE:
        days = pc.fill_null(values.cast(pa.int32()), 0).to_numpy(zero_copy_only=False)
        return LocalTimes(days.astype(np.int64), np.zeros(len(days), np.int64), _valid(values))
    precision = data_type.precision or 0
    if data_type.root is TypeRoot.TIMESTAMP_LTZ:
        local = DataType(TypeRoot.TIMESTAMP, precision=precision)
        values = cast_values(values, data_type, local, zone=zone)
    digits = {"s": 0, "ms": 3, "us": 6, "ns": 9}[values.type.unit]
    return of_epochs(values.cast(pa.int64()), digits)


def _of_texts(texts: pa.Array) -> LocalTimes:
    found = pc.extract_regex(texts.cast(pa.string()), pattern=_PATTERN)
    matched = _valid(found)

    def number(*names: str) -> NDArray[np.int64]:
        """The first of these parts that is there, 0 without any."""
        parts = [pc.struct_field(found, name) for name in names]
        text = pc.coalesce(*[pc.if_else(pc.equal(p, ""), _NONE, p) for p in parts], "0")
        numbers: NDArray[np.int64] = text.cast(pa.int64()).to_numpy(zero_copy_only=False)
        return numbers

    year, month, day = number("year", "late"), number("month"), number("day")
    hour, minute, second = number("ah", "bh"), number("am", "bm"), number("as", "bs")
    fraction = _fraction(pc.struct_field(found, "af"), pc.struct_field(found, "bf"))
    nanos = ((hour * 60 + minute) * 60 + second) * NANOS_PER_SECOND + fraction
    valid = (
        matched
        & (year >= 1)
        & (month >= 1)
        & (month <= 12)
        & (day >= 1)
        & (day <= 31)
        & ((hour <= 23) | (nanos == NANOS_PER_DAY))
        & (minute <= 59)
        & (second <= 59)
    )
    months = np.where(valid, (year - 1970) * 12 + month - 1, 0)
    begin = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    after = (months + 1).astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    days = np.minimum(begin + day - 1, after - 1) + nanos // NANOS_PER_DAY
    return LocalTimes(np.where(valid, days, 0), np.where(valid, nanos % NANOS_PER_DAY, 0), valid)


def _fraction(one: pa.Array, other: pa.Array) -> NDArray[np.int64]:
    """Nanoseconds of the digits after the point."""
    digits = pc.binary_join_element_wise(
        pc.fill_null(one, ""), pc.fill_null(other, ""), pa.scalar("")
    )
    padded = pc.utf8_rpad(digits, width=9, padding="0")
    numbers: NDArray[np.int64] = padded.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return numbers


def _valid(values: pa.Array) -> NDArray[np.bool_]:
    valid: NDArray[np.bool_] = values.is_valid().to_numpy(zero_copy_only=False)
    return valid
