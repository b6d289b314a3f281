"""Casts to and from CHAR, VARCHAR, BINARY and VARBINARY.

A cast to a text of n characters cuts it, and for CHAR pads it with spaces; to n bytes likewise,
with zeros. A text that is not a number, date or time is an error, as in Java.

Source: Paimon's ``BinaryStringUtils`` and ``NumericToStringCastRule`` (1.3.1).
"""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.types.arrow import to_arrow_type
from tidelake.types.cast.float_text import float_text
from tidelake.types.cast.number import FLOAT_BITS, by_distinct, decimal_of
from tidelake.types.cast.rules import BINARIES, FLOATS
from tidelake.types.data_type import STRING_LENGTH_MAX, DataType, TypeRoot

_WHOLE_NUMBER = r"^[+-]?[0-9]*(\.[0-9]*)?$"
_SIGNS_ALONE = pa.array(["", "+", "-"])
_PLAIN_FLOAT = r"^[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?$"
# whitespace as Java's trim() removes it, U+0000 to U+0020
_FLOAT = re.compile(
    r"[\x00-\x20]*([+-]?)(?:(NaN)|(Infinity)|((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?"
    r"|(0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?)[\x00-\x20]*"
)
_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?(\d+))?")
_EXPONENT_DIGITS_MAX = 9
_TRUE = pa.array(["t", "true", "y", "yes", "1"])
_FALSE = pa.array(["f", "false", "n", "no", "0"])


def number_to_text(values: pa.Array, source: DataType) -> pa.Array:
    """BOOLEAN and numbers as Java prints them."""
    if source.root in FLOATS:
        digits = 32 if source.root is TypeRoot.FLOAT else 64
        signed, kind = (np.int32, np.float32) if digits == 32 else (np.int64, np.float64)

        def text(bits: int) -> str:
            return float_text(float(signed(bits).view(kind)), digits=digits)

        return by_distinct(values.view(FLOAT_BITS[source.root]), text, pa.string())
    if source.root is TypeRoot.DECIMAL:
        return by_distinct(values, lambda number: f"{number:f}", pa.string())
    return values.cast(pa.string())


def sized_text(values: pa.Array, target: DataType) -> pa.Array:
    """Texts cut or padded to the length of CHAR or VARCHAR."""
    assert target.length is not None
    if target.length == STRING_LENGTH_MAX:
        return values
    cut = pc.utf8_slice_codeunits(values, 0, target.length)
    return pc.utf8_rpad(cut, target.length) if target.root is TypeRoot.CHAR else cut


def sized_bytes(values: pa.Array, target: DataType) -> pa.Array:
    """Bytes cut or padded to the length of BINARY or VARBINARY."""
    assert target.length is not None
    if target.length == STRING_LENGTH_MAX:
        return values
    cut = pc.binary_slice(values, 0, target.length)
    if target.root is TypeRoot.VARBINARY:
        return cut
    missing = pc.subtract(pa.scalar(target.length, pa.int32()), pc.binary_length(cut))
    zeros = pc.binary_repeat(pa.scalar(b"\0"), missing)
    return pc.binary_join_element_wise(cut, zeros, b"")


def text_to_bytes(values: pa.Array, target: DataType) -> pa.Array:
    """Texts as their UTF-8 bytes: the inverse of :func:`sized_bytes` on texts."""
    return sized_bytes(values.cast(pa.binary()), target)


def text_to_number(values: pa.Array, target: DataType) -> pa.Array:
    """Texts as BOOLEAN or numbers.

    Raises
    ------
    ValueError
        A text is invalid; pyarrow's errors are ValueErrors too.
    """
    if target.root is TypeRoot.BOOLEAN:
        return _to_boolean(values)
    if target.root is TypeRoot.DECIMAL:
        return by_distinct(values, lambda text: _decimal(text, target), to_arrow_type(target))
    if target.root in FLOATS:
        return _to_float(values).cast(to_arrow_type(target))
    return _to_integer(values, target)


def _to_boolean(values: pa.Array) -> pa.Array:
    lower = pc.utf8_lower(values)
    true = pc.is_in(lower, _TRUE)
    wrong = pc.and_(pc.invert(pc.or_(true, pc.is_in(lower, _FALSE))), values.is_valid())
    _refuse_first(values, wrong)
    return pc.if_else(values.is_valid(), true, pa.scalar(None, pa.bool_()))


def _to_integer(values: pa.Array, target: DataType) -> pa.Array:
    """Digits with a sign; digits after a point are dropped."""
    good = pc.match_substring_regex(values, _WHOLE_NUMBER)
    good = pc.and_not(good, pc.is_in(values, _SIGNS_ALONE))
    _refuse_first(values, pc.fill_null(pc.invert(good), fill_value=False))
    whole = pc.replace_substring_regex(values, r"^\+?(-?)0*([0-9]*)(?:\..*)?$", r"\1\2")
    empty = pc.is_in(whole, _SIGNS_ALONE)
    return pc.if_else(empty, "0", whole).cast(to_arrow_type(target))


def _refuse_first(values: pa.Array, wrong: pa.Array) -> None:
    position = pc.index(wrong, value=True).as_py()
    if position >= 0:
        raise ValueError(values[position].as_py())


def _decimal(text: str, target: DataType) -> object:
    match = _DECIMAL.fullmatch(text)
    if match is None or len((match[1] or "").lstrip("0")) > _EXPONENT_DIGITS_MAX:
        raise ValueError(text)
    return decimal_of(text, target)


def _to_float(values: pa.Array) -> pa.Array:
    """Texts that Arrow's parser reads as Java does; it rounds once, to the wanted type."""
    plain = pc.match_substring_regex(values, _PLAIN_FLOAT)
    if pc.all(plain).as_py() is not False:
        return values
    return by_distinct(values, _plain_float, pa.string())


def _plain_float(text: str) -> str:
    match = _FLOAT.fullmatch(text)
    if match is None:
        raise ValueError(text)
    sign, nan, infinity, number, hexadecimal = match.groups()
    if nan:
        return "nan"
    if infinity:
        return f"{sign}inf"
    if hexadecimal:
        return sign + repr(float.fromhex(hexadecimal))
    mantissa, _, exponent = number.lower().partition("e")
    whole, _, fraction = mantissa.partition(".")
    power = max(-99_999, min(99_999, int(exponent or "0")))
    return f"{sign}{whole or '0'}.{fraction or '0'}e{power}"


def to_text(values: pa.Array, source: DataType, target: DataType) -> pa.Array:
    """BOOLEAN, numbers, texts and bytes as texts of the wanted length."""
    if source.root in BINARIES:
        return values.cast(pa.string())  # Java cuts nothing here, whatever the length
    if source.root in {TypeRoot.CHAR, TypeRoot.VARCHAR}:
        return sized_text(values, target)
    return sized_text(number_to_text(values, source), target)


def from_text(values: pa.Array, target: DataType) -> pa.Array:
    """Texts as BOOLEAN, numbers or bytes."""
    if target.root in BINARIES:
        return text_to_bytes(values, target)
    return text_to_number(values, target)
