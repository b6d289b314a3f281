"""Casts among DATE, TIME, timestamps, and texts and numbers of them.

Java's behaviour is kept, even if it looks odd:

- A TIMESTAMP before 1970 becomes the DATE nearer to 1970 (the division truncates towards zero). A
  TIME would be negative: such a value is refused here.
- A cast to fewer digits of the second rounds towards the past below milliseconds, and towards 1970
  from milliseconds on. A fraction with no more digits than the type keeps, leading zeros not
  counted, is unchanged.
- A number becomes a timestamp as seconds; a text of digits as milliseconds, microseconds or
  nanoseconds by the type's precision.
- A local time in a clock change's gap moves on by the gap; of an ambiguous one the first counts.

Source: Paimon's ``DateTimeUtils``, ``BinaryStringUtils`` and ``Timestamp*CastRule`` (1.3.1).
"""

from __future__ import annotations

import calendar
import datetime as dt
import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidelake.types.arrow import MS_PER_DAY, NANOS_PER_UNIT, timestamp_unit, to_arrow_type
from tidelake.types.cast.number import by_distinct, from_numpy, numpy_values
from tidelake.types.data_type import DataType, TypeRoot

_NANOS_PER_SECOND = 1_000_000_000
_NUMERIC = re.compile(r"-?[0-9]+")
_DATE_NUMBERS = re.compile(r"[0-9]+")
_ISO_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_TIMESTAMP = re.compile(
    r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})"
    r"(?: ([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?:\.([0-9]{0,9}))?)?"
)
_INT_MAX = 2**31 - 1
_LONG_MAX = 2**63 - 1
_DAY_ZERO = dt.date(1970, 1, 1).toordinal()
_YEAR_ZERO_DAY = -719_528
_DAY_MAX = 2_932_896
_WRITTEN_UNITS = {0: 1_000_000_000, 3: 1_000_000, 6: 1_000, 9: 1}


def _number(values: pa.Array) -> NDArray[np.int64]:
    return numpy_values(values.cast(pa.int64()))


def _truncated(numbers: NDArray[np.int64], by: int) -> NDArray[np.int64]:
    """Java's division: towards zero."""
    return np.where(numbers < 0, -(-numbers // by), numbers // by)


def _unit(data_type: DataType) -> int:
    return NANOS_PER_UNIT[timestamp_unit(data_type)]


def _millis(values: pa.Array, source: DataType) -> NDArray[np.int64]:
    """Milliseconds since the epoch, towards the past."""
    return _number(values) // (1_000_000 // _unit(source))


def _in_unit(numbers: NDArray[np.int64], unit: int, values: pa.Array, target: DataType) -> pa.Array:
    """Counts of `unit` nanoseconds as the target's timestamps. Raises where they do not fit."""
    arrow_type = to_arrow_type(target)
    wanted = _unit(target)
    if wanted > unit:
        numbers = numbers // (wanted // unit)
    elif wanted < unit:
        factor = unit // wanted
        limit = _LONG_MAX // factor
        beyond = np.flatnonzero(np.abs(numbers) > limit)
        if len(beyond):
            raise ValueError(f"{numbers[beyond[0]]} x {unit} ns")
        numbers = numbers * factor
    return from_numpy(numbers, values, pa.int64()).cast(arrow_type)


def _local(values: pa.Array, zone: str) -> pa.Array:
    """Instants as local times of the zone."""
    unit = values.type.unit
    return pc.local_timestamp(values.cast(pa.timestamp(unit)).cast(pa.timestamp(unit, zone)))


def _instant(values: pa.Array, zone: str) -> pa.Array:
    """Local times of the zone as instants, with Java's answer for those in a gap."""
    unit = values.type.unit
    found = pc.assume_timezone(values, zone, ambiguous="earliest", nonexistent="latest")
    missing = pc.not_equal(pc.local_timestamp(found), values)
    plain = found.cast(pa.timestamp(unit, "UTC"))
    if not pc.any(missing).as_py():
        return plain
    # `found` is the moment of the change; the offset before it holds
    before = pc.subtract(plain.cast(pa.int64()), 1)
    shown = pc.local_timestamp(before.cast(pa.timestamp(unit, "UTC")).cast(found.type))
    offset = pc.subtract(shown.cast(pa.int64()), before)
    moved = pc.subtract(values.cast(pa.int64()), offset)
    return pc.if_else(missing, moved.cast(plain.type), plain)


def from_time(values: pa.Array, source: DataType, target: DataType, zone: str) -> pa.Array:
    """Cast DATE, TIME or a timestamp to a number or a text."""
    if target.root in {TypeRoot.INT, TypeRoot.BIGINT}:
        seconds = _truncated(_millis(values, source), 1000)
        arrow_type = to_arrow_type(target)
        return from_numpy(seconds.astype(arrow_type.to_pandas_dtype()), values, arrow_type)
    if source.root is TypeRoot.DATE:
        return _date_text(values)
    if source.root is TypeRoot.TIME:
        assert source.precision is not None
        precision = source.precision
        return by_distinct(
            values.cast(pa.int32()), lambda ms: _time_text(ms, precision), pa.string()
        )
    return _timestamp_text(
        _local(values, zone) if source.root is TypeRoot.TIMESTAMP_LTZ else values, source
    )


def _date_text(values: pa.Array) -> pa.Array:
    days = numpy_values(values.cast(pa.int32())).astype(np.int64)
    wrong = np.flatnonzero(days < _YEAR_ZERO_DAY)
    if len(wrong):
        raise ValueError(f"day {days[wrong[0]]}, before the year 0")
    return from_numpy(_iso(days, "D", days), values, pa.string())


def _iso(numbers: NDArray[np.int64], unit: str, days: NDArray[np.int64]) -> NDArray[np.object_]:
    texts = np.datetime_as_string(numbers.view(f"datetime64[{unit}]")).astype(object)
    for late in np.flatnonzero(days > _DAY_MAX):
        year, dash, rest = texts[late].partition("-")
        texts[late] = f"{int(year) % 10_000:04}{dash}{rest}"  # Java prints four digits
    return texts


def _time_text(ms: int, precision: int) -> str:
    seconds, rest = divmod(ms, 1000)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    if precision == 0:
        return text
    fraction = f"{rest:03}".rstrip("0") or "0"
    return f"{text}.{fraction[:precision]}"


def _timestamp_text(values: pa.Array, source: DataType) -> pa.Array:
    """``2024-01-31 12:30:15.120``, with the digits of the type, or of the value if it has more."""
    unit = timestamp_unit(source)
    counts = _number(values)
    days = counts // (MS_PER_DAY * 1_000_000 // NANOS_PER_UNIT[unit])
    wrong = np.flatnonzero(days < _YEAR_ZERO_DAY)
    if len(wrong):
        raise ValueError(f"{counts[wrong[0]]} {unit}, before the year 0")
    texts = pc.replace_substring(pa.array(_iso(counts, unit, days), pa.string()), "T", " ")
    precision = source.precision or 0
    digits = {"ms": 3, "us": 6, "ns": 9}[unit]
    if precision == 0:
        texts = pc.replace_substring_regex(texts, r"^(.{19}.*?)\.?0*$", r"\1")
    elif precision < digits:
        texts = pc.replace_substring_regex(texts, f"^(.{{{20 + precision}}}.*?)0*$", r"\1")
    return pc.if_else(values.is_valid(), texts, pa.scalar(None, pa.string()))


def to_time(values: pa.Array, source: DataType, target: DataType, zone: str) -> pa.Array:
    """Cast DATE, TIME, a timestamp or a number to DATE, TIME or a timestamp."""
    if target.root is TypeRoot.DATE:
        return _to_date(values, source, zone)
    if target.root is TypeRoot.TIME:
        return _to_time_of_day(values, source, zone)
    if source.root is TypeRoot.DATE:
        if target.root is TypeRoot.TIMESTAMP_LTZ:
            return _instant(values.cast(pa.timestamp("ms")), zone).cast(to_arrow_type(target))
        return _in_unit(_number(values.cast(pa.int32())) * MS_PER_DAY, 1_000_000, values, target)
    if source.root is TypeRoot.TIME:
        return _in_unit(_number(values.cast(pa.int32())), 1_000_000, values, target)
    if source.root in {TypeRoot.INT, TypeRoot.BIGINT}:
        return _from_seconds(values, target, zone)
    return _to_timestamp(values, source, target, zone)


def _to_date(values: pa.Array, source: DataType, zone: str) -> pa.Array:
    if source.root is TypeRoot.TIMESTAMP_LTZ:
        days = _millis(_local(values, zone), source) // MS_PER_DAY
    else:
        days = _truncated(_millis(values, source), MS_PER_DAY)
    return from_numpy(days.astype(np.int32), values, pa.int32()).cast(pa.date32())


def _to_time_of_day(values: pa.Array, source: DataType, zone: str) -> pa.Array:
    if source.root is TypeRoot.TIMESTAMP_LTZ:
        millis = _millis(_local(values, zone), source) % MS_PER_DAY
    else:
        millis = np.fmod(_millis(values, source), MS_PER_DAY)
    wrong = np.flatnonzero(millis < 0)
    if len(wrong):
        raise ValueError(f"{millis[wrong[0]]} ms, a time of day that is negative in Paimon")
    return from_numpy(millis.astype(np.int32), values, pa.int32()).cast(pa.time32("ms"))


def _from_seconds(values: pa.Array, target: DataType, zone: str) -> pa.Array:
    with np.errstate(over="ignore"):  # Java multiplies longs: the low bits remain
        millis = _number(values) * np.int64(1000)
    if target.root is TypeRoot.TIMESTAMP_LTZ:
        instants = from_numpy(millis, values, pa.int64()).cast(pa.timestamp("ms", "UTC"))
        millis = _number(_local(instants, zone))
    return _in_unit(millis, 1_000_000, values, target)


def _to_timestamp(values: pa.Array, source: DataType, target: DataType, zone: str) -> pa.Array:
    if source.root is not target.root:
        to_instant = target.root is TypeRoot.TIMESTAMP_LTZ
        values = _instant(values, zone) if to_instant else _local(values, zone)
    counts, unit = _number(values), _unit(source)
    precision = target.precision or 0
    if (source.precision or 0) > precision:
        counts = _cut(counts, unit, precision)
    return _in_unit(counts, unit, values, target)


def _cut(counts: NDArray[np.int64], unit: int, precision: int) -> NDArray[np.int64]:
    """Drop digits of the second that a precision does not keep."""
    if precision <= 3:
        step = 10 ** (3 - precision)
        per_ms = 1_000_000 // unit
        return _truncated(counts // per_ms, step) * step * per_ms
    step = 10 ** (9 - precision) // unit
    fraction = counts % (_NANOS_PER_SECOND // unit) * unit
    # Java counts the digits of the fraction without its leading zeros
    return np.where(fraction < 10**precision, counts, counts // max(step, 1) * max(step, 1))


def text_to_time(values: pa.Array, target: DataType, zone: str) -> pa.Array:
    """Texts as DATE, TIME or timestamps.

    Raises
    ------
    ValueError
        A text is none.
    """
    arrow_type = to_arrow_type(target)
    if target.root is TypeRoot.DATE:
        if pc.all(pc.match_substring_regex(values, _ISO_DATE)).as_py() is not False:
            return values.cast(arrow_type)
        return by_distinct(values, _days_of, pa.int32()).cast(arrow_type)
    if target.root is TypeRoot.TIME:
        return by_distinct(values, _ms_of, pa.int32()).cast(arrow_type)
    unit = timestamp_unit(target)
    precision = target.precision or 0
    is_local = target.root is TypeRoot.TIMESTAMP_LTZ

    def count(text: str) -> int:
        nanos = _nanos_of(text, precision, numeric=not is_local)
        counted = nanos // NANOS_PER_UNIT[unit]
        if abs(counted) > _LONG_MAX:
            raise ValueError(text)
        return counted

    counted = by_distinct(values, count, pa.int64()).cast(pa.timestamp(unit))
    return _instant(counted, zone) if is_local else counted


def _int_of(text: str) -> int:
    number = int(text)
    if not -_INT_MAX - 1 <= number <= _INT_MAX:
        raise ValueError(text)
    return number


def _java_int(text: str) -> int:
    stripped = text.strip("".join(map(chr, range(33))))
    if not _DATE_NUMBERS.fullmatch(stripped):
        raise ValueError(text)
    return _int_of(stripped)


def _days_of(text: str) -> int:
    if _NUMERIC.fullmatch(text):
        return _int_of(text)
    day = text.partition(" ")[0] if text.find(" ") > 0 else text
    parts = day.split("-", 2)
    year = _java_int(parts[0])
    month = _java_int(parts[1]) if len(parts) > 1 else 1
    date = _java_int(parts[2]) if len(parts) > 2 else 1
    if year == 0 and 1 <= month <= 12 and 1 <= date <= calendar.monthrange(4, month)[1]:
        return _YEAR_ZERO_DAY + (dt.date(4, month, date) - dt.date(4, 1, 1)).days
    return dt.date(year, month, date).toordinal() - _DAY_ZERO


def _ms_of(text: str) -> int:
    if _NUMERIC.fullmatch(text):
        return _in_day(_int_of(text), text)
    clock, sign, zone = text, 1, ""
    for mark, factor in (("-", -1), ("+", 1)):
        if mark in text:
            clock, _, zone = text.partition(mark)
            sign = factor
            break
    zone_hour, _, zone_minute = zone.partition(":")
    hours = sign * _java_int(zone_hour) if zone else 0
    minutes = sign * _java_int(zone_minute) if ":" in zone else 0
    if text != clock and not zone:
        raise ValueError(text)
    parts = clock.split(":", 2)
    hours += _java_int(parts[0])
    minutes += _java_int(parts[1]) if len(parts) > 1 else 0
    second, dot, fraction = (parts[2] if len(parts) > 2 else "0").partition(".")
    millis = _fraction_ms(fraction.strip()) if dot else 0
    total = ((hours * 60 + minutes) * 60 + _java_int(second)) * 1000 + millis
    return _in_day(total, text)


def _fraction_ms(digits: str) -> int:
    known = [int(d) if d in "0123456789" else 0 for d in digits[:3].ljust(3, "0")]
    rounded = len(digits) > 3 and digits[3] >= "5"
    return known[0] * 100 + known[1] * 10 + known[2] + rounded


def _in_day(ms: int, text: str) -> int:
    if not 0 <= ms < MS_PER_DAY:
        raise ValueError(text)  # Java keeps a time beyond the day
    return ms


def _nanos_of(text: str, precision: int, *, numeric: bool) -> int:
    if numeric and _NUMERIC.fullmatch(text):
        number = int(text)
        if precision not in _WRITTEN_UNITS or not -_LONG_MAX - 1 <= number <= _LONG_MAX:
            raise ValueError(text)
        return number * _WRITTEN_UNITS[precision]
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        raise ValueError(text)
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
    fraction = (match[7] or "").ljust(9, "0")
    nanos = int(fraction[:precision].ljust(9, "0"))
    if not (year >= 1 and 1 <= month <= 12 and 1 <= day <= 31):
        raise ValueError(text)
    midnight = hour == 24 and not (minute or second or int(fraction))
    if not midnight and (hour > 23 or minute > 59 or second > 59):
        raise ValueError(text)
    # Java takes the last day of a shorter month
    day = min(day, calendar.monthrange(year, month)[1])
    days = dt.date(year, month, day).toordinal() - _DAY_ZERO
    seconds = days * 86_400 + (hour * 60 + minute) * 60 + second
    return seconds * _NANOS_PER_SECOND + nanos
