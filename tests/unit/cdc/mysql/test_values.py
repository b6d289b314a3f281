"""Values of the log one type at a time, against Python's own arithmetic."""

from __future__ import annotations

import datetime as dt
import struct
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelake.cdc.mysql.binlog import times
from tidelake.cdc.mysql.binlog.byte_strings import byte_strings
from tidelake.cdc.mysql.binlog.json_value import double_text, json_text
from tidelake.cdc.mysql.binlog.numbers import (
    big,
    decimal128_words,
    decimal_limbs,
    decimal_text,
    little,
    padded,
    signed,
)
from tidelake.cdc.mysql.binlog.row_starts import DIGIT_BYTES, decimal_width
from tidelake.cdc.mysql.cells import decimal_array
from tidelake.cdc.mysql.charset import decode_texts, is_known
from tidelake.cdc.mysql.geometry import geo_json
from tidelake.cdc.mysql.lake_values import on_the_clock
from tidelake.cdc.mysql.native_type import NativeType, to_lake_type
from tidelake.cdc.source.type_mapping import TypeMapping
from tidelake.errors import CorruptError

AT = np.zeros(1, np.int64)


def encoded_decimal(size: int, precision: int, scale: int) -> bytes:
    """MySQL's bytes of a DECIMAL of this unscaled size."""
    digits = str(abs(size)).zfill(precision)
    whole, rest = digits[: precision - scale], digits[precision - scale :]
    first = len(whole) % 9
    groups = [whole[:first]] if first else []
    groups += [whole[i : i + 9] for i in range(first, len(whole), 9)]
    groups += [rest[i : i + 9] for i in range(0, len(rest), 9)]
    raw = b"".join(int(group).to_bytes(DIGIT_BYTES[len(group)], "big") for group in groups)
    raw = bytes([raw[0] ^ 0x80]) + raw[1:]
    return bytes(byte ^ 0xFF for byte in raw) if size < 0 else raw


@given(st.data())
def test_decimals_of_any_size(data):
    precision = data.draw(st.integers(1, 65))
    scale = data.draw(st.integers(0, min(precision, 30)))
    size = data.draw(st.integers(-(10**precision) + 1, 10**precision - 1))
    raw = encoded_decimal(size, precision, scale)
    assert len(raw) == decimal_width(precision, scale)
    value = Decimal((size < 0, tuple(map(int, str(abs(size)))), -scale))
    if precision <= 38:
        limbs = decimal_limbs(padded([raw]), AT, precision, scale)
        found = decimal_array(decimal128_words(*limbs), precision, scale, None)
        assert found.to_pylist() == [value]
    text = decimal_text(raw, precision, scale)
    assert text == f"{value:f}"
    assert Decimal(text) == value


@given(st.integers(0, 2**64 - 1), st.integers(1, 8), st.integers(0, 9))
def test_integers_of_any_width(value, size, offset):
    value &= (1 << (8 * size)) - 1
    at = np.array([offset])
    buffer = padded([bytes(offset) + value.to_bytes(size, "little") + b"\xff" * 9])
    assert little(buffer, at, size).tolist() == [value]
    half = 1 << (8 * size - 1)
    assert signed(little(buffer, at, size), size).tolist() == [(value ^ half) - half]
    buffer = padded([bytes(offset) + value.to_bytes(size, "big") + b"\xff" * 9])
    assert big(buffer, at, size).tolist() == [value]


@given(st.lists(st.one_of(st.none(), st.binary(max_size=40)), max_size=30))
def test_byte_strings(values):
    at, sizes, data = [], [], b""
    for value in values:
        at.append(len(data))
        sizes.append(len(value) if value is not None else 99)
        data += (value or b"") + b"\xee"
    ok = np.array([value is not None for value in values], np.bool_)
    found = byte_strings(
        padded([data]), np.array(at, np.int64), np.array(sizes, np.int64), None if ok.all() else ok
    )
    assert found.to_pylist() == values


@given(st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31)), st.integers(0, 6))
def test_datetimes(value, digits):
    micros = value.microsecond // 10 ** (6 - digits) * 10 ** (6 - digits)
    value = value.replace(microsecond=micros)
    whole = ((value.year * 13 + value.month) << 5 | value.day) << 17
    whole |= value.hour << 12 | value.minute << 6 | value.second | 1 << 39
    more = (digits + 1) // 2
    raw = whole.to_bytes(5, "big") + (micros // 10 ** (6 - 2 * more)).to_bytes(more, "big")
    found = times.datetimes(padded([raw]), AT, digits)
    assert not found.is_wrong.any()
    assert dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=int(found.values[0])) == value
    old = struct.pack("<Q", int(value.strftime("%Y%m%d%H%M%S").zfill(14)))
    found = times.old_datetimes(padded([old]), AT)
    expected = value.replace(microsecond=0)
    assert dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=int(found.values[0])) == expected


@given(st.integers(-3_020_399_999_999, 3_020_399_999_999), st.integers(0, 6))
def test_times_below_zero_too(micros, digits):
    step = 10 ** (6 - digits)
    size = abs(micros) // step * step
    seconds, fraction = divmod(size, 1_000_000)
    packed = seconds // 3600 << 12 | seconds // 60 % 60 << 6 | seconds % 60
    more = (digits + 1) // 2
    whole = packed << (8 * more) | fraction // 10 ** (6 - 2 * more)
    whole = (0x800000 << (8 * more)) + (-whole if micros < 0 else whole)
    found = times.times(padded([whole.to_bytes(3 + more, "big")]), AT, digits)
    assert found.values.tolist() == [-size if micros < 0 else size]


def test_days_that_no_calendar_has():
    days = [
        (0, 0, 0),
        (2024, 0, 10),
        (2024, 2, 30),
        (2023, 2, 29),
        (2024, 2, 29),
        (0, 1, 1),
        (9999, 12, 31),
    ]
    raw = b"".join((y << 9 | m << 5 | d).to_bytes(3, "little") for y, m, d in days)
    found = times.dates(padded([raw]), np.arange(len(days)) * 3)
    assert found.is_zero.tolist() == [True] + [False] * 6
    assert found.is_wrong.tolist() == [False, True, True, True, False, False, False]
    assert found.texts[1:4] == ["2024-00-10", "2024-02-30", "2023-02-29"]
    assert found.values[4] == (dt.date(2024, 2, 29) - dt.date(1970, 1, 1)).days


def test_the_clock_of_a_zone_with_summer_time():
    moments = [1_711_846_799, 1_711_846_800, None]  # the second when Berlin's summer begins
    micros = pa.array([None if one is None else one * 1_000_000 for one in moments])
    found = on_the_clock(micros, "Europe/Berlin").to_pylist()
    assert [None if one is None else one // 1_000_000 for one in found] == [
        moments[0] + 3600, moments[1] + 7200, None
    ]  # fmt: skip
    assert on_the_clock(micros, "-03:30").to_pylist()[0] == (moments[0] - 12_600) * 1_000_000


@pytest.mark.parametrize(
    ("charset", "raw", "text"),
    [
        ("latin1", b"\x80\x81\xe9", "€\x81é"), ("utf8mb4", "😀".encode(), "😀"),
        ("gbk", "中".encode("gbk"), "中"), ("utf16", "ü😀".encode("utf-16-be"), "ü😀"),
        ("cp1251", "я".encode("cp1251"), "я"), ("sjis", "表".encode("cp932"), "表"),
        ("ascii", b"a", "a"), ("utf32", "ü".encode("utf-32-be"), "ü"),
    ],
)  # fmt: skip
def test_charsets(charset, raw, text):
    assert is_known(charset)
    values, wrong = decode_texts(pa.array([raw, None], pa.binary()), charset)
    assert values.to_pylist() == [text, None]
    assert wrong is None


def test_bytes_that_are_no_text_are_told():
    values, wrong = decode_texts(pa.array([b"a", b"\xff", None], pa.binary()), "utf8mb4")
    assert wrong.tolist() == [False, True, False]
    assert values.to_pylist() == ["a", "\\xff", None]


# --- MySQL's binary JSON ---


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
    assert json_text(opaque(246, b"\x03\x01" + encoded_decimal(-15, 3, 1))) == "-1.5"
    assert json_text(opaque(252, b"ab")) == '"base64:type252:YWI="'
    assert json_text(b"") == "null"
    assert double_text(-0.5) == "-0.5"


@pytest.mark.parametrize("raw", [b"\x0c\xff", b"\x00\xff\xff", b"\x20", b"\x04\x09", b"\x05\x01",
                                 b"\x02\x01\x00\x0c\x00\x02\x00\x00" + b"\x00" * 9])  # fmt: skip
def test_damaged_json_is_told(raw):
    with pytest.raises(CorruptError):
        json_text(raw)


def test_damaged_geometries_are_told():
    for raw in (
        b"",
        bytes(4) + b"\1\x63\0\0\0",
        bytes(4) + struct.pack("<BIdd", 1, 1, 0, 0) + b"x",
    ):
        with pytest.raises(ValueError, match="well-known"):
            geo_json(raw)


@pytest.mark.parametrize(
    ("native", "switches", "lake"),
    [
        ("tinyint(1)", "", "BOOLEAN"), ("tinyint(1)", "tinyint1-not-bool", "TINYINT"),
        ("tinyint(4)", "", "TINYINT"), ("tinyint(1) unsigned", "", "SMALLINT"),
        ("tinyint(3) unsigned zerofill", "", "SMALLINT"), ("bool", "", "BOOLEAN"),
        ("smallint(6)", "", "SMALLINT"), ("smallint unsigned", "", "INT"),
        ("mediumint", "", "INT"), ("mediumint unsigned", "", "BIGINT"), ("int(11)", "", "INT"),
        ("integer unsigned", "", "BIGINT"), ("bigint", "", "BIGINT"), ("year(4)", "", "INT"),
        ("bigint unsigned", "", "DECIMAL(20, 0)"),
        ("bigint unsigned", "bigint-unsigned-to-bigint", "BIGINT"),
        ("float(7,3)", "", "FLOAT"), ("double unsigned", "", "DOUBLE"), ("real", "", "DOUBLE"),
        ("decimal(10,2) unsigned", "", "DECIMAL(10, 2)"), ("decimal", "", "DECIMAL(10, 0)"),
        ("decimal(38,0)", "", "DECIMAL(38, 0)"), ("decimal(39,0)", "", "STRING"),
        ("bit(1)", "", "BOOLEAN"), ("bit(9)", "", "BINARY(2)"), ("date", "", "DATE"),
        ("time(6)", "", "TIME(0)"), ("datetime", "", "TIMESTAMP(0)"),
        ("timestamp(6)", "", "TIMESTAMP(6)"), ("char(5)", "", "CHAR(5)"),
        ("varchar(9)", "", "VARCHAR(9)"), ("varchar(9)", "char-to-string", "STRING"),
        ("char(0)", "", "STRING"), ("tinytext", "", "STRING"), ("longtext", "", "STRING"),
        ("longtext", "longtext-to-bytes", "BYTES"), ("json", "", "STRING"),
        ("enum('a')", "", "STRING"),
        ("set('a')", "", "ARRAY<STRING>"), ("set('a')", "to-string", "STRING"),
        ("binary(4)", "", "VARBINARY(4)"), ("varbinary(4)", "", "VARBINARY(4)"),
        ("mediumblob", "", "BYTES"), ("blob", "to-string", "STRING"), ("point", "", "STRING"),
        ("geomcollection", "", "STRING"), ("inet6", "", None),
        ("inet6", "unknown-to-string", "STRING"),
        ("uuid", "unknown-to-string", None), ("vector(3)", "", None),
    ],
)  # fmt: skip
def test_types_of_the_lake(native, switches, lake):
    mapping = TypeMapping.of(filter(None, [switches]))
    found = to_lake_type(NativeType.parse(native), mapping)
    assert (None if found is None else str(found)) == lake
