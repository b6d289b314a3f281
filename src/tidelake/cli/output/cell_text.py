"""Formats one value for JSON, CSV or display."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Mapping
from typing import Any

from tidelake.cli.output.cells import Number, TemporalText

_UNSEEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_NEEDS_QUOTES = re.compile('[",\r\n]|^\\s|\\s$')


def json_text(value: Any) -> str:
    r"""Format a value as JSON.

    Decimals keep all digits. NaN and infinities, which JSON lacks, are strings; binaries are
    base64; times are ISO 8601.

    Examples
    --------
    >>> json_text({"a": [1, None, True], "b": Number("1.50"), "c": b"\x00", "d": float("nan")})
    '{"a":[1,null,true],"b":1.50,"c":"AA==","d":"NaN"}'
    """
    match value:
        case Number():
            return str(value)
        case TemporalText():
            return json.dumps(value.replace(" ", "T"))
        case float():
            return repr(value) if math.isfinite(value) else f'"{_special(value)}"'
        case bytes():
            return f'"{base64.b64encode(value).decode()}"'
        case Mapping():
            pairs = (
                f"{json.dumps(str(key), ensure_ascii=False)}:{json_text(child)}"
                for key, child in value.items()
            )
            return "{" + ",".join(pairs) + "}"
        case list() | tuple():
            return "[" + ",".join(map(json_text, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def csv_field(value: Any) -> str:
    r"""Format a value as a CSV field: null is empty, the empty string is ``""``.

    Examples
    --------
    >>> [csv_field(v) for v in (None, "", 'the "a" key', True, [1, 2])]
    ['', '""', '"the ""a"" key"', 'true', '"[1,2]"']
    """
    if value is None:
        return ""
    text = value if isinstance(value, str) else _scalar(value)
    if text == "" or _NEEDS_QUOTES.search(text):
        doubled = text.replace('"', '""')
        return f'"{doubled}"'
    return text


def shown(value: Any, *, null: str = "NULL") -> str:
    r"""Format a value for display: escape control characters, keep lines.

    Examples
    --------
    >>> [shown(v) for v in (None, "a\x1b[31m", b"ab", 2.0, {"k": "v"})]
    ['NULL', 'a\\x1b[31m', "X'6162'", '2.0', '{"k":"v"}']
    """
    if value is None:
        return null
    if isinstance(value, bytes):
        return f"X'{value.hex().upper()}'"
    text = value if isinstance(value, str) else _scalar(value)
    return _UNSEEN.sub(_escaped, text)


def _scalar(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case float() if not math.isfinite(value):
            return _special(value)
        case bytes():
            return base64.b64encode(value).decode()
        case int() | float():
            return repr(value)
    return json_text(value)


def _special(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()
