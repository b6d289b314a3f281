"""MySQL's binary JSON, made by an encoder of the test's own."""

from __future__ import annotations

import struct

import pytest

from tidelake.cdc.mysql.binlog.json_value import double_text, json_text
from tidelake.errors import CorruptError


def encoded(value, *, large=False):
    """Type and bytes of a value as MySQL has them."""
    if value is None or value is True or value is False:
        return 4, bytes([{None: 0, True: 1, False: 2}[value]])
    if isinstance(value, int):
        forms = ((5, "<h", -(2**15), 2**15), (7, "<i", -(2**31), 2**31))
        for kind, form, low, high in (*forms, (9, "<q", -(2**63), 2**63), (10, "<Q", 0, 2**64)):
            if low <= value < high:
                return kind, struct.pack(form, value)
    if isinstance(value, float):
        return 11, struct.pack("<d", value)
    if isinstance(value, str):
        raw = value.encode()
        size = len(raw)
        head = bytes([size]) if size < 128 else bytes([size & 127 | 128, size >> 7])
        return 12, head + raw
    is_object = isinstance(value, dict)
    items = list(value.values()) if is_object else value
    keys = [key.encode() for key in value] if is_object else []
    width, form = (4, "<I") if large else (2, "<H")
    inline = {4, 5, 6, 7, 8} if large else {4, 5, 6}
    at = 2 * width + len(keys) * (width + 2) + len(items) * (1 + width)
    key_entries = b""
    for key in keys:
        key_entries += struct.pack(form, at) + struct.pack("<H", len(key))
        at += len(key)
    entries, tail = b"", b""
    for item in items:
        kind, raw = encoded(item, large=large)
        if kind in inline:
            entries += bytes([kind]) + raw.ljust(width, b"\0")
        else:
            entries += bytes([kind]) + struct.pack(form, at + len(tail))
            tail += raw
    body = key_entries + entries + b"".join(keys) + tail
    size = struct.pack(form, len(items)) + struct.pack(form, 2 * width + len(body))
    return (0 if is_object else 2) + large, size + body


@pytest.mark.parametrize("large", [False, True])
def test_json_is_printed_as_mysql_does(large):
    value = {"": None, "a": [True, False, 1, -40_000, 2**40, 2**64 - 1, 2.5, 1e20],
             "ü\"": {"x": "é" * 90}, "e": [], "o": {}}  # fmt: skip
    kind, raw = encoded(value, large=large)
    assert json_text(bytes([kind]) + raw) == (
        '{"": null, "a": [true, false, 1, -40000, 1099511627776, 18446744073709551615, 2.5, 1e20],'
        ' "ü\\"": {"x": "' + "é" * 90 + '"}, "e": [], "o": {}}'
    )


def test_json_of_other_types():
    def opaque(kind, data):
        return bytes([15, kind, len(data)]) + data

    packed = ((2024 * 13 + 2) << 5 | 29) << 17 | 12 << 12 | 34 << 6 | 56
    moment = struct.pack("<q", packed << 24 | 5)
    assert json_text(opaque(12, moment)) == '"2024-02-29 12:34:56.000005"'
    assert json_text(opaque(10, moment)) == '"2024-02-29"'
    assert json_text(opaque(11, struct.pack("<q", -((1 << 12) << 24)))) == '"-01:00:00.000000"'
    assert json_text(opaque(246, b"\x03\x01" + b"\x7e\xfa")) == "-1.5"
    assert json_text(opaque(252, b"ab")) == '"base64:type252:YWI="'
    assert json_text(b"") == "null"
    assert double_text(-0.5) == "-0.5"


@pytest.mark.parametrize("raw", [b"\x0c\xff", b"\x00\xff\xff", b"\x20", b"\x04\x09", b"\x05\x01",
                                 b"\x02\x01\x00\x0c\x00\x02\x00\x00" + b"\x00" * 9])  # fmt: skip
def test_damaged_json_is_told(raw):
    with pytest.raises(CorruptError):
        json_text(raw)
