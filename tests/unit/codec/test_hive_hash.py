"""Hive's hash: the vectors of Java, whole columns against single values, slices and blocks."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.codec.golden_cases import cases, types_of, values_of

from tidelake.codec import hive_hash
from tidelake.codec.bucket import buckets_of
from tidelake.codec.hive_hash import hive_hashes
from tidelake.errors import InvalidInputError
from tidelake.types import parse_type
from tidelake.types.values import storage_to_arrow

GOLDEN = list(cases("bucket_hive.txt"))


def columns_of(row, types):
    numbers = [float("nan") if v == "NaN" else v for v in row]
    return [storage_to_arrow([v], t) for v, t in zip(numbers, types, strict=True)]


@pytest.mark.parametrize(("head", "lines", "answer"), GOLDEN)
def test_golden_buckets_of_java(head, lines, answer):
    types = types_of(head)
    columns = columns_of(values_of(lines[0]), types)
    words = answer[0].split()
    for count, bucket in zip(words[::2], words[1::2], strict=True):
        found = buckets_of(columns, types, int(count[2:]), function="hive")
        assert found.tolist() == [int(bucket)], count


def test_golden_holds_all_vectors():
    assert len(GOLDEN) == 40


def by_hand(values):
    out = []
    for value in values:
        h = 0
        for byte in value or b"":
            h = (h * 31 + (byte - 256 if byte > 127 else byte)) & 0xFFFFFFFF
        out.append(h - (1 << 32) if h >> 31 else h)
    return out


@given(st.lists(st.none() | st.binary(max_size=40), max_size=30), st.integers(0, 5))
def test_a_column_of_bytes_hashes_as_its_values_do(values, cut):
    types = [parse_type("BYTES")]
    column = pa.array(values, pa.binary()).slice(cut)
    if len(column):
        assert hive_hashes([column], types).tolist() == by_hand(values[cut:])


def test_blocks_make_no_difference(monkeypatch):
    values = [bytes(np.arange(i % 37, dtype=np.uint8) * 7) for i in range(500)] + [b"x" * 5_000]
    monkeypatch.setattr(hive_hash, "BLOCK_BYTES", 100)
    assert hive_hashes([pa.array(values)], [parse_type("BYTES")]).tolist() == by_hand(values)


@given(st.lists(st.none() | st.integers(-(10**38) + 1, 10**38 - 1), min_size=1, max_size=20))
def test_decimals_of_any_width_hash_alike(values):
    types = [parse_type("DECIMAL(38, 6)")]
    whole = hive_hashes([storage_to_arrow(values, types[0])], types)
    wide = [
        0 if v is None else np.uint32(hive_hash._wide_hash(v, 6) if v else 0).view(np.int32)
        for v in values
    ]
    assert whole.tolist() == wide


def test_a_key_that_hive_does_not_hash_is_refused():
    with pytest.raises(InvalidInputError, match="no timestamps"):
        buckets_of([pa.array([1])], [parse_type("TIMESTAMP(3)")], 2, function="hive")
