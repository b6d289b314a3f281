"""DECIMALs, integers and byte strings of any size, against Python."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tidelake.cdc.mysql.binlog.byte_strings import byte_strings
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
from tidelake.cdc.mysql.values.cells import decimal_array

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
