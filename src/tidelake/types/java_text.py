"""Values as Java prints them: keys and statistics in Paimon's system tables.

``$files`` shows the smallest and largest key and values as texts, made by ``toString`` of a row's
value: a DATE is a number of days, a TIME of milliseconds, a TIMESTAMP a ``LocalDateTime``. For a
binary value, Java prints its address in memory; we show it in hex. Source: ``FilesTable``
of Java Paimon 1.3.1, compared by ``make interop-fuzz``.
"""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np

from tidelake.types import DataType, TypeRoot

SCIENTIFIC_FROM, PLAIN_FROM = 1e7, 1e-3
"""Between these Java prints a fraction without an exponent."""
NS_PER_S = 10**9


def java_text(value: object, data_type: DataType) -> str:
    """Print a storage value of a type.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> java_text(19_000, parse_type("DATE")), java_text(-1, parse_type("TIMESTAMP(3)"))
    ('19000', '1969-12-31T23:59:59.999999999')
    >>> [java_text(v, parse_type("DOUBLE")) for v in (1.0, 1e-4, 12345678.9)]
    ['1.0', '1.0E-4', '1.23456789E7']
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float):
        return _float_text(value, is_single=data_type.root is TypeRoot.FLOAT)
    if isinstance(value, int):
        if data_type.root is TypeRoot.DECIMAL:
            digits = tuple(map(int, str(abs(value))))
            return f"{Decimal((int(value < 0), digits, -(data_type.scale or 0))):f}"
        if data_type.root in {TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ}:
            return _time_text(value)
    return str(value)


def _float_text(value: float, *, is_single: bool) -> str:
    if math.isnan(value):
        return "NaN"
    sign = "-" if math.copysign(1, value) < 0 else ""
    if math.isinf(value):
        return f"{sign}Infinity"
    if value == 0:
        return f"{sign}0.0"
    # the fewest digits that distinguish the value from its neighbours, as in Java
    shown = str(np.float32(abs(value)) if is_single else abs(value))
    exact = Decimal(shown)
    if PLAIN_FROM <= abs(value) < SCIENTIFIC_FROM:
        text = f"{exact.normalize():f}"
        return sign + (text if "." in text else f"{text}.0")
    digits = "".join(map(str, exact.normalize().as_tuple().digits))
    if len(digits) == 1:  # Java prints at least two digits: 4.9E-324 although one suffices
        digits = f"{abs(value):.1e}"[:3].replace(".", "")
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exact.adjusted()}"


def _time_text(nanos: int) -> str:
    """As ``LocalDateTime``: no seconds if they are zero, and of the fraction 3, 6 or 9 digits."""
    seconds, fraction = divmod(nanos, NS_PER_S)
    text = str(np.datetime64(seconds, "s"))
    if not fraction:
        return text.removesuffix(":00")
    digits = f"{fraction:09d}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return f"{text}.{digits}"


def java_duration(duration_ms: int | None) -> str | None:
    """Print a duration as Java's ``Duration`` does: hours are the largest unit.

    Examples
    --------
    >>> java_duration(86_400_000), java_duration(61_500), java_duration(0)
    ('PT24H', 'PT1M1.5S', 'PT0S')
    """
    if duration_ms is None:
        return None
    seconds, ms = divmod(duration_ms, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    text = f"{hours}H" if hours else ""
    text += f"{minutes}M" if minutes else ""
    if seconds or ms or not text:
        text += f"{seconds}{f'.{ms:03d}'.rstrip('0') if ms else ''}S"
    return f"PT{text}"
