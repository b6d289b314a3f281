import contextlib
import datetime as dt
import math
import uuid
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelake.errors import CorruptError, InvalidInputError
from tidelake.types.variant.variant import decode_variant, encode_variant, variant_objects, variants

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(10**38) + 1, 10**38 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=80)
    | st.binary(max_size=80)
    | st.decimals(allow_nan=False, allow_infinity=False, places=3).filter(lambda d: abs(d) < 10**30)
    | st.dates()
    | st.datetimes()
    | st.datetimes(timezones=st.just(dt.UTC))
    | st.uuids()
)
objects = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(objects)
def test_an_object_comes_back(value):
    assert decode_variant(*encode_variant(value)) == value


@pytest.mark.parametrize(
    ("value", "value_bytes", "metadata"),
    [
        (None, "00", "010000"),
        (True, "04", "010000"),
        (7, "0c07", "010000"),
        (-129, "107fff", "010000"),
        (2**40, "18" + "0000000000010000", "010000"),
        (1.5, "1c000000000000f83f", "010000"),
        (Decimal("12.34"), "2002d2040000", "010000"),
        ("ab", "096162", "010000"),
        ([1], "030100020c01", "010000"),
        ({"b": [], "a": 1}, "020200010002050c01030000", "0102000102" + "6162"),
        (dt.date(2022, 1, 8), "2c384a0000", "010000"),
    ],
)
def test_the_bytes_are_those_of_the_public_encoding(value, value_bytes, metadata):
    encoded = encode_variant(value)
    assert decode_variant(*encoded) == value
    assert (encoded[0].hex(), encoded[1].hex()) == (value_bytes, metadata)


def test_large_arrays_objects_and_texts_are_encoded_wider():
    many = {f"key {i}": "x" * i for i in range(300)}
    assert decode_variant(*encode_variant(many)) == many
    assert decode_variant(*encode_variant(list(range(70_000)))) == list(range(70_000))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("380000c03f", 1.5),
        ("44" + "00ca9a3b00000000", dt.time(0, 16, 40)),
        ("48" + "0100000000000000", np.datetime64(1, "ns")),
    ],
)
def test_types_that_python_does_not_write_are_read(value, expected):
    assert decode_variant(bytes.fromhex(value), bytes.fromhex("010000")) == expected


def test_nan_stays_nan():
    assert math.isnan(decode_variant(*encode_variant(math.nan)))


@pytest.mark.parametrize(
    "value", [object(), {1: 2}, "\ud800", {"\ud800": 1}, 10**38, Decimal("NaN"), {1, 2}]
)
def test_what_has_no_variant_is_refused(value):
    with pytest.raises(InvalidInputError, match="VARIANT"):
        encode_variant(value)


def deep(levels):
    value = []
    for _ in range(levels):
        value = [value]
    return value


def test_depth_is_bounded():
    with pytest.raises(InvalidInputError, match="levels deep"):
        encode_variant(deep(300))


@given(st.binary(max_size=40), st.binary(max_size=20))
def test_any_bytes_are_a_variant_or_refused(value, metadata):
    with contextlib.suppress(CorruptError):
        decode_variant(value, metadata)


@given(objects, st.data())
def test_a_damaged_variant_is_another_or_refused(value, data):
    encoded, metadata = encode_variant(value)
    place = data.draw(st.integers(0, len(encoded) - 1))
    damaged = bytes([*encoded[:place], data.draw(st.integers(0, 255)), *encoded[place + 1 :]])
    with contextlib.suppress(CorruptError):
        decode_variant(damaged, metadata)


def test_columns_of_variants():
    column = variants([{"a": 1}, None, uuid.UUID(int=5)])
    assert column.null_count == 1
    assert variant_objects(pa.chunked_array([column])) == [{"a": 1}, None, uuid.UUID(int=5)]


def test_arrays_that_share_their_elements_do_not_grow_without_bound():
    value = bytes.fromhex("0c01")
    for _ in range(12):  # ten elements at one place, twelve times over: 10**12 values
        value = bytes([3, 10]) + bytes(11) + value
    with pytest.raises(CorruptError, match="more values than bytes"):
        decode_variant(value, bytes.fromhex("010000"))
