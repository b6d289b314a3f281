import itertools
import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.codec.golden_cases import cases, types_of, values_of
from unit.types.strategies import tables

from tidelake.codec.key_order import encode_keys, key_widths
from tidelake.errors import UnsupportedError
from tidelake.types import TypeRoot, parse_type
from tidelake.types.values import storage_to_arrow

GOLDEN = list(cases("key_order.txt"))
FLOATS = {TypeRoot.FLOAT, TypeRoot.DOUBLE}


def columns_of_rows(rows, types):
    return [storage_to_arrow([row[i] for row in rows], t) for i, t in enumerate(types)]


def rank(row):
    """A tuple that Python orders as Paimon's comparator orders rows."""
    return tuple(_rank_of_value(v) for v in row)


def _rank_of_value(value):
    if value is None:
        return (0,)
    if isinstance(value, float):
        number = float("nan") if value != value else value
        bits = struct.unpack(">q", struct.pack(">d", number))[0]
        return (1, bits if bits >= 0 else bits ^ 0x7FFFFFFFFFFFFFFF)
    return (1, value.encode() if isinstance(value, str) else value)


@pytest.mark.parametrize(("head", "lines", "answer"), GOLDEN)
def test_golden_keys(head, lines, answer):
    types = types_of(head)
    rows = [
        tuple(
            float(v) if t.root in FLOATS and isinstance(v, str) else v
            for v, t in zip(values_of(line), types, strict=True)
        )
        for line in lines
    ]
    columns = columns_of_rows(rows, types)
    keys = encode_keys(columns, types, key_widths(columns, types))
    assert [_shown(keys, i) for i in range(len(keys))] == answer
    assert bool((keys[1:] > keys[:-1]).all())


def _shown(keys, i):
    if keys.dtype.kind == "i":
        return str(keys[i])
    return f"{int(keys[i]):016x}" if keys.dtype.kind == "u" else keys[i : i + 1].tobytes().hex()


@given(tables(rows_max=30), st.data())
def test_keys_order_and_equal_as_the_rows_do(table, data):
    types, rows = table
    columns = columns_of_rows(rows, types)
    more = data.draw(st.sampled_from([0, 1, 9, 255, 65_536]))
    widths = (
        tuple(w + more for w in key_widths(columns, types)) if more else key_widths(columns, types)
    )
    keys = encode_keys(columns, types, widths)
    ranks = [rank(row) for row in rows]
    order = sorted(range(len(rows)), key=ranks.__getitem__)
    assert np.argsort(keys, kind="stable").tolist() == order
    equal = (keys[order][1:] == keys[order][:-1]).tolist()
    assert equal == [ranks[a] == ranks[b] for a, b in itertools.pairwise(order)]


@given(tables(rows_max=20, columns_max=3), st.data())
def test_batches_encoded_alike_compare_with_each_other(table, data):
    types, rows = table
    columns = columns_of_rows(rows, types)
    whole = encode_keys(columns, types, key_widths(columns, types))
    cut = data.draw(st.integers(0, len(rows)))
    halves = [[c.slice(0, cut) for c in columns], [c.slice(cut) for c in columns]]
    widths = [key_widths(h, types) for h in halves]
    common = tuple(map(max, *widths))
    assert common == key_widths(columns, types)
    parts = [encode_keys(h, types, common) for h in halves]
    assert all(p.dtype == whole.dtype for p in parts)
    assert np.concatenate(parts).tobytes() == whole.tobytes()


@given(tables(rows_max=20, columns_max=2), st.data())
def test_chunks_are_taken_as_one(table, data):
    types, rows = table
    columns = columns_of_rows(rows, types)
    cut = data.draw(st.integers(0, len(rows)))
    chunked = [pa.chunked_array([c.slice(0, cut), c.slice(cut)]) for c in columns]
    widths = key_widths(columns, types)
    assert key_widths(chunked, types) == widths
    assert (
        encode_keys(chunked, types, widths).tobytes()
        == encode_keys(columns, types, widths).tobytes()
    )


def test_search_finds_keys_that_end_in_zero_bytes():
    types = [parse_type("STRING NOT NULL"), parse_type("BIGINT NOT NULL")]
    texts = pa.array(["a", "a", "a\0", "a\0", "b" * 20])
    columns = [texts, pa.array([-1, 1 << 40, -(1 << 63), 0, 0])]
    keys = encode_keys(columns, types, key_widths(columns, types))
    assert np.searchsorted(keys, keys).tolist() == [0, 1, 2, 3, 4]


def test_one_integer_key_is_not_copied():
    numbers = np.arange(10, dtype=np.int64)
    keys = encode_keys([pa.array(numbers)], [parse_type("BIGINT NOT NULL")], (0,))
    assert keys.dtype == np.int64
    assert not keys.flags.owndata


@pytest.mark.parametrize(
    ("type_text", "dtype"),
    [
        ("INT NOT NULL", "int64"),
        ("TIMESTAMP(9) NOT NULL", "int64"),
        ("DECIMAL(18, 2) NOT NULL", "int64"),
        ("INT", "uint64"),
        ("DOUBLE NOT NULL", "uint64"),
        ("BIGINT", "S9"),
        ("DECIMAL(19, 2) NOT NULL", "S16"),
    ],
)
def test_the_narrowest_form_is_chosen_by_type(type_text, dtype):
    data_type = parse_type(type_text)
    assert encode_keys([storage_to_arrow([0, 1], data_type)], [data_type], (0,)).dtype == dtype


def test_a_null_in_a_not_null_key_is_a_mistake_of_the_caller():
    with pytest.raises(AssertionError, match="nulls in a key column"):
        encode_keys([pa.array([1, None])], [parse_type("BIGINT NOT NULL")], (0,))


def test_nested_columns_are_refused():
    nested = parse_type({"type": "ARRAY", "element": "INT"})
    with pytest.raises(UnsupportedError, match="no order"):
        encode_keys([pa.array([[1]], pa.list_(pa.int32()))], [nested], (0,))
