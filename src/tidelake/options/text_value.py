"""Parses an option's text to its value, by the rules of Java Paimon 1.3.1.

A text that Java cannot parse is refused, too: Java could not open the table. Source:
``MemorySize.parse``, ``TimeUtils.parseDuration``, ``OptionsUtils`` of the 1.3.1 jar, checked by
running them (``tests/unit/options/test_text_value.py`` holds the results).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tidelake.options.option import LONG_MAX, Kind, Option

BYTES_OF_UNIT = {
    **dict.fromkeys(("", "b", "bytes"), 1),
    **dict.fromkeys(("k", "kb", "kibibytes"), 1 << 10),
    **dict.fromkeys(("m", "mb", "mebibytes"), 1 << 20),
    **dict.fromkeys(("g", "gb", "gibibytes"), 1 << 30),
    **dict.fromkeys(("t", "tb", "tebibytes"), 1 << 40),
}

NANOSECONDS_OF_UNIT = {
    **dict.fromkeys(("d", "day", "days"), 86_400_000_000_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000_000_000),
    **dict.fromkeys(("min", "m", "minute", "minutes"), 60_000_000_000),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1_000_000_000),
    **dict.fromkeys(("", "ms", "milli", "millis", "millisecond", "milliseconds"), 1_000_000),
    **dict.fromkeys(("µs", "micro", "micros", "microsecond", "microseconds"), 1_000),
    **dict.fromkeys(("ns", "nano", "nanos", "nanosecond", "nanoseconds"), 1),
}

_NUMBER_AND_UNIT = re.compile(r"([0-9]+)\s*(.*)", re.DOTALL)
_INTEGER = re.compile(r"[+-]?[0-9]+")


def parse_value(option: Option[Any], given: str) -> object:
    """Parse an option's text.

    Returns
    -------
    object
        bool, int (bytes, ms), float, str or dict.

    Raises
    ------
    ValueError
        The text has the wrong form or is out of bounds; the message is a clause that follows "must
        be".

    Examples
    --------
    >>> from tidelake.options import declared
    >>> parse_value(declared.WRITE_BUFFER_SIZE, "64 mb")
    67108864
    >>> parse_value(declared.SNAPSHOT_TIME_RETAINED, "2 h")
    7200000
    """
    value = _PARSERS[option.kind](option, given)
    if option.minimum is not None and isinstance(value, (int, float)):
        too_small = value < option.minimum
        too_large = option.maximum is not None and value > option.maximum
        if too_small or too_large:
            raise ValueError(_bounds(option))
    return value


def _bounds(option: Option[Any]) -> str:
    unit = {Kind.MEMORY_SIZE: " bytes", Kind.DURATION: " ms"}.get(option.kind, "")
    huge = option.maximum is None or option.maximum >= LONG_MAX
    if huge:
        return f"at least {option.minimum}{unit}"
    return f"between {option.minimum} and {option.maximum}{unit}"


def _boolean(_: Option[Any], given: str) -> bool:
    lowered = given.lower()
    if lowered not in ("true", "false"):
        message = "true or false"
        raise ValueError(message)
    return lowered == "true"


def _integer(option: Option[Any], given: str) -> int:
    if not _INTEGER.fullmatch(given):
        bits = 64 if option.kind is Kind.LONG else 32
        message = f"a whole number of {bits} bits"
        raise ValueError(message)
    return int(given)


def _floating(_: Option[Any], given: str) -> float:
    try:
        return float(given)
    except ValueError as error:
        message = "a number"
        raise ValueError(message) from error


def _string(option: Option[Any], given: str) -> str:
    if option.pattern and not re.fullmatch(option.pattern, given, re.IGNORECASE):
        words = re.fullmatch(r"[\w|-]+", option.pattern)
        message = (
            "one of " + ", ".join(option.pattern.split("|"))
            if words
            else f"of the form {option.pattern}"
        )
        raise ValueError(message)
    return given


def _enumeration(option: Option[Any], given: str) -> str:
    for choice in option.choices:
        if choice.upper() == given.upper():
            return choice
    message = "one of " + ", ".join(option.choices)
    raise ValueError(message)


def bytes_of_text(given: str) -> int:
    """Parse a size such as ``16 kb`` to bytes; raises ``ValueError``.

    Examples
    --------
    >>> bytes_of_text("16 kb")
    16384
    """
    message = "a size such as '128 mb' (units b, kb, mb, gb, tb; whole numbers)"
    matched = _NUMBER_AND_UNIT.fullmatch(given.strip())
    if not matched or matched[2].lower() not in BYTES_OF_UNIT:
        raise ValueError(message)
    size = int(matched[1]) * BYTES_OF_UNIT[matched[2].lower()]
    if size > LONG_MAX:
        message = "a size that fits 64 bits"
        raise ValueError(message)
    return size


def memory_bytes(given: object) -> int:
    """Convert a number or a text to bytes; raises ``ValueError``.

    Examples
    --------
    >>> memory_bytes("256MB") == memory_bytes(268435456)
    True
    """
    if isinstance(given, str):
        return bytes_of_text(given)
    if isinstance(given, bool) or not isinstance(given, int) or given < 0:
        message = "bytes, or a size such as '256 mb'"
        raise ValueError(message)
    return given


def _memory_size(_: Option[Any], given: str) -> int:
    return bytes_of_text(given)


def _duration(_: Option[Any], given: str) -> int:
    matched = _NUMBER_AND_UNIT.fullmatch(given.strip())
    if not matched or matched[2].lower() not in NANOSECONDS_OF_UNIT:
        # Java Paimon prints its defaults as PT1H but does not parse that form
        message = "a duration such as '1 h', '30 min', '10 s' or '500 ms' (whole numbers)"
        raise ValueError(message)
    return int(matched[1]) * NANOSECONDS_OF_UNIT[matched[2].lower()] // 1_000_000


def _mapping(_: Option[Any], given: str) -> Mapping[str, str]:
    pairs = {}
    for part in filter(None, (p.strip() for p in given.split(","))):
        name, colon, value = part.partition(":")
        if not colon:
            message = "pairs such as '0:lz4,1:zstd'"
            raise ValueError(message)
        pairs[name.strip()] = value.strip()
    return pairs


_PARSERS = {
    Kind.BOOLEAN: _boolean,
    Kind.INTEGER: _integer,
    Kind.LONG: _integer,
    Kind.FLOAT: _floating,
    Kind.DOUBLE: _floating,
    Kind.STRING: _string,
    Kind.ENUM: _enumeration,
    Kind.MEMORY_SIZE: _memory_size,
    Kind.DURATION: _duration,
    Kind.MAP: _mapping,
}


def to_text(option: Option[Any], value: object) -> str:
    """Write a value as a text that Java parses, in the largest exact unit.

    Examples
    --------
    >>> from tidelake.options import declared
    >>> to_text(declared.WRITE_BUFFER_SIZE, 268435456)
    '256 mb'
    >>> to_text(declared.SNAPSHOT_TIME_RETAINED, 3_600_000)
    '1 h'
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return ",".join(f"{name}:{item}" for name, item in value.items())
    if isinstance(value, int) and option.kind is Kind.MEMORY_SIZE:
        return _in_largest_unit(value, (("tb", 40), ("gb", 30), ("mb", 20), ("kb", 10)))
    if isinstance(value, int) and option.kind is Kind.DURATION:
        for unit in ("d", "h", "min", "s"):
            unit_ms = NANOSECONDS_OF_UNIT[unit] // 1_000_000
            if value and value % unit_ms == 0:
                return f"{value // unit_ms} {unit}"
        return f"{value} ms"
    return str(value)


def _in_largest_unit(size_bytes: int, units: tuple[tuple[str, int], ...]) -> str:
    for unit, bits in units:
        if size_bytes and size_bytes % (1 << bits) == 0:
            return f"{size_bytes >> bits} {unit}"
    return f"{size_bytes} bytes"
