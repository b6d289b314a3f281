"""The instant of a time that a user gives: the one rule for times without a time zone.

1. A time with a zone is that instant. Milliseconds count from the epoch in UTC.
2. A read takes a time without a zone in the zone of the session, else in that of the environment
   (:attr:`tidelake.telemetry.Env.zone`), else as ``datetime.astimezone()`` does: in the machine's.
   Java's ``DateTimeUtils.parseTimestampData`` reads ``scan.timestamp`` so too.
3. Where clocks are set back, a time is there twice. The first is meant, as in Java and Spark; a
   datetime with ``fold=1`` means the second. One that clocks pass over is later by the step.
4. What changes a table refuses it: five hours more of rolled back commits are lost for ever. A
   statement of SQL has a session, whose zone SQL itself names.

A ``date`` means its midnight, and a ``numpy.datetime64`` never has a zone.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, tzinfo

import numpy as np

from tidelake.errors import InvalidInputError, shortened
from tidelake.table.handle.arguments import whole_number
from tidelake.telemetry.zone import zone_of

Time = int | str | date | np.datetime64
"""Milliseconds since the epoch, ISO 8601 text, a datetime, or a date, which means its midnight.

Text of digits alone is milliseconds, except eight digits, which are a date. A zone may follow a
time: ``+08:00``, ``UTC``, ``Asia/Shanghai``.
"""

_ISO_DATE_DIGITS = 8
_TIME_AND_ZONE = re.compile(r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d(?:\.\d+)?)?)\s*(\S+)")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def timestamp_ms(value: Time, *, zone: str | tzinfo | None) -> int:
    """Milliseconds since the epoch of a time that says what to read.

    Parameters
    ----------
    value : int, str, datetime, date or numpy.datetime64
        Milliseconds, as a number or as text; ISO 8601 text, perhaps followed by a zone's name; a
        datetime; or a date, which means its midnight.
    zone : str, tzinfo or None
        The zone of values that name none; None for the machine's.

    Raises
    ------
    InvalidInputError
        It is not a time.

    Examples
    --------
    >>> timestamp_ms("1970-01-01T00:00:01Z", zone=UTC)
    1000
    >>> timestamp_ms(datetime(1970, 1, 1, 1), zone="UTC")
    3600000
    >>> timestamp_ms(datetime(1970, 1, 1, 1), zone="Asia/Tokyo")
    -28800000
    >>> timestamp_ms("1970-01-01 08:00:01 Asia/Shanghai", zone=UTC)
    1000
    """
    given = _parsed(value)
    if isinstance(given, int):
        return given
    if given.tzinfo is None:
        given = _localized(given, zone)
    since = given - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000


def instant_ms(value: Time, *, what: str, table: str | None = None) -> int:
    """Milliseconds since the epoch of a time by which a table changes; it must have a zone.

    Parameters
    ----------
    what : str
        What takes the time, for the message: ``"older_than of expire_snapshots"``.

    Raises
    ------
    InvalidInputError
        It is not a time, or has no zone.

    Examples
    --------
    >>> instant_ms("1970-01-01T00:00:01Z", what="timestamp of rollback_to", table="db.t")
    1000
    """
    given = _parsed(value)
    if isinstance(given, int) or given.tzinfo is not None:
        return timestamp_ms(value, zone=UTC)
    shown = given.isoformat(sep=" ")
    of_table = "" if table is None else f" of table '{table}'"
    message = (
        f"'{shown}', {what}{of_table}, has no time zone, and hours too many cannot be undone."
        f" Write '{shown}Z' for UTC or '{shown} America/New_York', or give moment.astimezone(),"
        " which takes this machine's zone."
    )
    raise InvalidInputError(message, kind="naive_time", table=table)


def is_time(text: str) -> bool:
    """Whether a text is a time by its form; a number of milliseconds is not told from an id.

    Examples
    --------
    >>> is_time("2026-01-01"), is_time("2026-01-01 12:00 UTC"), is_time("v1"), is_time("12")
    (True, True, False, False)
    """
    try:
        _of_text(text)
    except InvalidInputError:
        return False
    return True


def instant(time_ms: int) -> datetime:
    """The moment of milliseconds since the epoch, in UTC."""
    return _EPOCH + timedelta(milliseconds=time_ms)


def shown_instant(time_ms: int, zone: tzinfo | None = UTC) -> str:
    """An instant as text with the offset of a zone.

    Examples
    --------
    >>> shown_instant(1000), shown_instant(1000, zone_of("Asia/Tokyo"))
    ('1970-01-01T00:00:01.000+00:00', '1970-01-01T09:00:01.000+09:00')
    """
    return instant(time_ms).astimezone(zone).isoformat(timespec="milliseconds")


def _parsed(value: Time) -> int | datetime:
    """Milliseconds, or a datetime with or without a zone."""
    number = whole_number(value)
    if number is not None:
        return number
    if isinstance(value, np.datetime64) and not np.isnat(value):
        since = timedelta(milliseconds=int(value.astype("datetime64[ms]").astype(np.int64)))
        return (_EPOCH + since).replace(tzinfo=None)
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day)  # noqa: DTZ001 - it has no zone yet
    if isinstance(value, datetime) and str(value) != "NaT":  # pandas' null is a datetime
        return value
    if not isinstance(value, str):
        message = (
            f"{shortened(repr(value))} is not a time: give a datetime, ISO 8601 text or ms since"
            " the epoch."
        )
        raise InvalidInputError(message, kind="bad_timestamp")
    text = value.strip()
    if text.isascii() and text.isdecimal() and len(text) != _ISO_DATE_DIGITS:
        return int(text)
    return _of_text(text)


def _of_text(text: str) -> datetime:
    """A time as text, with or without a zone."""
    refusal = f"'{shortened(text)}' is not a time: write it as 2024-03-01T12:00:00Z."
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        parts = _TIME_AND_ZONE.fullmatch(text)
        named = None if parts is None else zone_of(parts[2])
        if parts is None or named is None:
            raise InvalidInputError(refusal, kind="bad_timestamp") from error
    try:
        return datetime.fromisoformat(parts[1]).replace(tzinfo=named)
    except ValueError as error:
        raise InvalidInputError(refusal, kind="bad_timestamp") from error


def _localized(naive: datetime, zone: str | tzinfo | None) -> datetime:
    """A time of a zone, by its name or itself; of the machine's where it is None or unknown."""
    named = zone_of(zone) if isinstance(zone, str) else zone
    if named is not None:
        return naive.replace(tzinfo=named)
    try:
        return naive.astimezone()
    except (OverflowError, ValueError, OSError) as error:  # a year that the machine cannot tell
        message = f"{naive.isoformat(sep=' ')} is not a time of this machine's zone: add a zone."
        raise InvalidInputError(message, kind="bad_timestamp") from error
