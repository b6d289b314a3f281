"""Numbers, sizes and times as a page writes them."""

from __future__ import annotations

from datetime import UTC, datetime

KB = 1024
UNITS = ("B", "KB", "MB", "GB", "TB", "PB")
THREE_DIGITS = 100


def number_text(value: float) -> str:
    """A number with commas.

    Examples
    --------
    >>> number_text(1234567), number_text(2.5)
    ('1,234,567', '2.5')
    """
    return f"{value:,.10g}" if isinstance(value, float) else f"{value:,}"


def bytes_text(value: float) -> str:
    """A size in a unit that suits it.

    Examples
    --------
    >>> bytes_text(0), bytes_text(1536), bytes_text(300 << 20)
    ('0 B', '1.5 KB', '300 MB')
    """
    size, unit = float(value), 0
    while size >= KB and unit < len(UNITS) - 1:
        size, unit = size / KB, unit + 1
    digits = 0 if size >= THREE_DIGITS or unit == 0 else 1
    return f"{size:.{digits}f} {UNITS[unit]}".replace(".0 ", " ")


def time_text(ms: int) -> str:
    """A time in UTC.

    Examples
    --------
    >>> time_text(1_700_000_000_000), time_text(1 << 62)
    ('2023-11-14 22:13:20 UTC', 'no time (4611686018427387904 ms)')
    """
    moment = _moment(ms)
    return f"no time ({ms} ms)" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def iso_text(ms: int) -> str:
    """A time for machines; empty where there is no such time."""
    moment = _moment(ms)
    return "" if moment is None else f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def _moment(ms: int) -> datetime | None:
    """A time, unless it is beyond the year 9999 or before the first."""
    try:
        return datetime.fromtimestamp(ms // 1000, tz=UTC)
    except (ValueError, OverflowError, OSError):
        return None
