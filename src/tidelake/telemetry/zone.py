"""Time zones by their names."""

from __future__ import annotations

import re
from datetime import UTC, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d\d))?(?::?(\d\d))?")
_OFFSET_HOURS_MAX = 18


def zone_of(text: str) -> tzinfo | None:
    """The time zone of a name: of a region, or an offset as Spark's settings write it.

    Examples
    --------
    >>> zone_of("+08:00"), zone_of("GMT-1"), zone_of("Mars/Olympus")
    (datetime.timezone(datetime.timedelta(seconds=28800)), \
datetime.timezone(datetime.timedelta(days=-1, seconds=82800)), None)
    """
    if text in {"Z", "z", "UTC", "GMT", "UT"}:
        return UTC
    offset = _OFFSET.fullmatch(text)
    if offset is not None:
        hours, minutes, seconds = (int(part or 0) for part in offset.groups()[1:])
        if hours > _OFFSET_HOURS_MAX:
            return None
        length = timedelta(hours=hours, minutes=minutes, seconds=seconds)
        return timezone(-length if offset[1] == "-" else length)
    try:
        return ZoneInfo(text)
    except (KeyError, ValueError, OSError):
        return None
