"""Shredded variants: whatever columns a value is taken apart into, it comes back as it was."""

from __future__ import annotations

import datetime as dt
import struct
import uuid
from decimal import Decimal
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.types.variant.test_variant import objects

from tidelake.errors import CorruptError, UnsupportedError
from tidelake.types.variant.variant import decode_variant, encode_variant, variant_objects, variants
from tidelake.types.variant.variant_bytes import container, metadata_keys, object_of
from tidelake.types.variant.variant_shredding import check_shredded, rebuilt_variants

EPOCH, EPOCH_UTC = dt.datetime(1970, 1, 1), dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
MICROSECOND = dt.timedelta(microseconds=1)


def is_number(value):
    return isinstance(value, int) and not isinstance(value, bool)


def moment(value, epoch):
    return (value - epoch) // MICROSECOND


def is_moment(value, *, zoned):
    return isinstance(value, dt.datetime) and (value.tzinfo is not None) == zoned


def is_day(value):
    return isinstance(value, dt.date) and not isinstance(value, dt.datetime)


def fits(value):
    return isinstance(value, Decimal) and abs(value) < 10**35


TYPED = {
    pa.int64(): (lambda v: is_number(v) and abs(v) < 2**63, lambda v: v),
    pa.int8(): (lambda v: is_number(v) and abs(v) < 2**7, lambda v: v),
    pa.bool_(): (lambda v: isinstance(v, bool), lambda v: v),
    pa.float64(): (lambda v: isinstance(v, float), lambda v: v),
    pa.string(): (lambda v: isinstance(v, str), lambda v: v),
    pa.binary(): (lambda v: isinstance(v, bytes), lambda v: v),
    pa.date32(): (is_day, lambda v: v),
    pa.decimal128(38, 3): (fits, lambda v: v),
    pa.timestamp("us"): (lambda v: is_moment(v, zoned=False), lambda v: moment(v, EPOCH)),
    pa.timestamp("us", "UTC"): (
        lambda v: is_moment(v, zoned=True),
        lambda v: moment(v, EPOCH_UTC),
    ),
    pa.binary(16): (lambda v: isinstance(v, uuid.UUID), lambda v: v.bytes),
}
"""Column types: which values go there, and as what."""

SHAPES = st.recursive(
    st.none() | st.sampled_from(list(TYPED)),
    lambda inner: (
        inner.map(lambda shape: [shape])
        | st.dictionaries(st.text(max_size=2), inner, min_size=1, max_size=3)
    ),
    max_leaves=6,
)
"""None: no column; a type; a list of a shape; the shapes of fields."""


def parts_type(shape, *, top=False):
    fields = [pa.field("metadata", pa.binary())] if top else []
    fields.append(pa.field("value", pa.binary()))
    if isinstance(shape, list):
        fields.append(pa.field("typed_value", pa.list_(parts_type(shape[0]))))
    elif isinstance(shape, dict):
        inside = [pa.field(n, parts_type(s), nullable=False) for n, s in shape.items()]
        fields.append(pa.field("typed_value", pa.struct(inside)))
    elif shape is not None:
        fields.append(pa.field("typed_value", shape))
    return pa.struct(fields)


def taken_apart(value, metadata, shape):
    """What a writer that shreds by a shape makes of a value's bytes."""
    plain = decode_variant(value, metadata)
    kind = value[0] & 3
    if isinstance(shape, list) and kind == 3:
        inside = container(memoryview(value))
        parts = [value[a:b] for a, b in pairwise([*inside.starts, len(value)])]
        return {"typed_value": [taken_apart(p, metadata, shape[0]) for p in parts]}
    if isinstance(shape, dict) and kind == 2:
        inside = container(memoryview(value))
        parts = [value[a:b] for a, b in pairwise([*inside.starts, len(value)])]
        keys = metadata_keys(memoryview(metadata))
        fields = [(keys[i], i, part) for i, part in zip(inside.ids, parts, strict=True)]
        typed = {n: {"value": None} for n in shape}
        typed |= {n: taken_apart(v, metadata, shape[n]) for n, _, v in fields if n in shape}
        rest = [f for f in fields if f[0] not in shape]
        return {"typed_value": typed, "value": object_of(rest) if rest else None}
    if shape in TYPED if isinstance(shape, pa.DataType) else False:
        takes, stored = TYPED[shape]
        if takes(plain):
            return {"typed_value": stored(plain)}
    return {"value": value}


def shredded(values, shape):
    rows = []
    for value in values:
        if value is None:
            rows.append(None)
            continue
        raw, metadata = encode_variant(value)
        rows.append({"metadata": metadata, **taken_apart(raw, metadata, shape)})
    return pa.array(rows, parts_type(shape, top=True))


@given(st.lists(st.none() | objects, max_size=5), SHAPES)
def test_a_shredded_variant_is_read_as_an_unshredded_one(values, shape):
    column = shredded(values, shape)
    check_shredded(column.type)
    found = rebuilt_variants(column)
    assert variant_objects(found) == variant_objects(variants(values))
    found.validate(full=True)
    tail = shredded([{"before": 1}, *values], shape).slice(1)
    assert rebuilt_variants(tail).equals(found)


KINDS = [
    (pa.float32(), 1.5, "38" + struct.pack("<f", 1.5).hex()),
    (pa.int32(), 7, "0c07"),
    (pa.decimal128(9, 2), Decimal("1.50"), "200296000000"),
    (pa.time64("us"), dt.time(0, 16, 40), "4400ca9a3b00000000"),
    (pa.timestamp("ns"), 1, "4c0100000000000000"),
    (pa.timestamp("ns", "UTC"), 1, "480100000000000000"),
    (pa.large_string(), "ab", "096162"),
    (pa.binary(16), bytes(16), "50" + "00" * 16),
]


@pytest.mark.parametrize(("kind", "value", "expected"), KINDS)
def test_the_bytes_are_those_of_the_typed_value(kind, value, expected):
    rows = [{"metadata": bytes.fromhex("010000"), "typed_value": value}]
    column = pa.array(rows, parts_type(kind, top=True))
    assert rebuilt_variants(column).to_pylist()[0]["value"].hex() == expected


def test_keys_are_written_anew_in_the_order_in_which_they_come():
    raw, metadata = encode_variant({"a": 1, "b": {"z": 2, "c": 3}, "d": 4})
    shape = {"d": pa.int64(), "b": {"z": pa.int64()}}
    rows = [{"metadata": metadata, **taken_apart(raw, metadata, shape)}]
    (row,) = rebuilt_variants(pa.array(rows, parts_type(shape, top=True))).to_pylist()
    assert metadata_keys(memoryview(row["metadata"])) == ["d", "b", "z", "c", "a"]
    assert decode_variant(row["value"], row["metadata"]) == {
        "a": 1,
        "b": {"z": 2, "c": 3},
        "d": 4,
    }


PLAIN = bytes.fromhex("010000")
KEY_A = encode_variant({"a": 1})
WITH_A = {"metadata": KEY_A[1], "typed_value": {"a": {"typed_value": 1}}}


@pytest.mark.parametrize(
    ("shape", "row", "words"),
    [
        (pa.int64(), {"metadata": PLAIN}, "missing"),
        (pa.int64(), {"metadata": None, "typed_value": 1}, "missing"),
        (pa.int64(), {"metadata": PLAIN, "typed_value": 1, "value": b"\x00"}, "beside"),
        ([pa.int64()], {"metadata": PLAIN, "typed_value": [None]}, "element"),
        ([pa.int64()], {"metadata": PLAIN, "typed_value": [{}]}, "element"),
        ({"a": pa.int64()}, {**WITH_A, "value": b"\x00"}, "not an object"),
        ({"a": pa.int64()}, {**WITH_A, "value": KEY_A[0]}, "also"),
        (None, {"metadata": PLAIN, "value": KEY_A[0]}, "range"),
        (None, {"metadata": PLAIN, "value": b"\x03\x05\x00"}, "early"),
        (None, {"metadata": PLAIN, "value": b"\x03\x01\x00\x01\xfc"}, "type number 63"),
    ],
)  # fmt: skip
def test_parts_that_do_not_make_a_variant_are_damage(shape, row, words):
    with pytest.raises(CorruptError, match=words):
        rebuilt_variants(pa.array([row], parts_type(shape, top=True)))


def test_a_field_that_is_null_is_damage():
    kind = pa.struct({"metadata": pa.binary(), "typed_value": pa.struct({"a": parts_type(None)})})
    with pytest.raises(CorruptError, match="a field of an object is null"):
        rebuilt_variants(pa.array([{"metadata": PLAIN, "typed_value": {"a": None}}], kind))


@pytest.mark.parametrize(
    "kind",
    [
        pa.struct({"typed_value": pa.int64(), "value": pa.binary()}),
        pa.struct({"metadata": pa.binary(), "typed_value": pa.uint8()}),
        pa.struct({"metadata": pa.binary(), "typed_value": pa.timestamp("ms")}),
        pa.struct({"metadata": pa.binary(), "typed_value": pa.list_(pa.int64())}),
        pa.struct({"metadata": pa.binary(), "typed_value": pa.struct({"a": pa.int64()})}),
        pa.struct({"metadata": pa.binary(), "typed_value": pa.map_(pa.string(), pa.int64())}),
        pa.struct({"metadata": pa.binary(), "value": pa.string(), "typed_value": pa.int64()}),
        pa.struct({"metadata": pa.binary(), "typed_value": pa.int64(), "more": pa.int64()}),
    ],
)
def test_columns_that_no_variant_has_are_refused(kind):
    with pytest.raises(UnsupportedError, match="not a shredded variant"):
        check_shredded(kind)
