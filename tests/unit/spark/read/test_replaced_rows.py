from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelake.catalog import open_catalog
from tidelake.scan import Split
from tidelake.spark.read.replaced_rows import even_stretches, hidden_words
from tidelake.types import DataField, parse_type


@pytest.fixture
def table(tmp_path):
    fields = [
        DataField(0, "a", parse_type("STRING NOT NULL")),
        DataField(1, "b", parse_type("INT NOT NULL")),
        DataField(2, "v", parse_type("STRING")),
    ]
    return open_catalog(tmp_path).create_table(
        "db.t", fields, primary_keys=["a", "b"], options={"bucket": 1, "write-only": "true"}
    )


def write(table, keys, kinds=None):
    a, b = [k[0] for k in keys], pa.array([k[1] for k in keys], pa.int32())
    table.write(pa.table({"a": a, "b": b, "v": ["v"] * len(keys)}), row_kinds=kinds)


def masked_of(table):
    """The one section of the table, with its oldest run beneath the others."""
    scan = table.scan()
    (split,) = scan.plan.splits
    (section,) = split.sections
    oldest, *newer = section
    return scan.context, [
        Split(split.snapshot_id, split.partition, 0, 1, (((file,), *newer),), raw=False)
        for file in oldest
    ]


def positions(words):
    return np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little")).tolist()


def test_a_bit_stands_for_a_row_that_any_newer_run_names(table):
    keys = [("a" * (i // 20), i) for i in range(200)]
    write(table, keys)
    write(table, [keys[0], keys[63], keys[64], ("", 777), ("zzz" * 50, 1)])
    write(table, [keys[64], keys[199]], ["-D", "-U"])
    context, masked = masked_of(table)
    (words,) = hidden_words(context, masked)
    assert len(words) == 4
    assert positions(words) == [0, 63, 64, 199]


def test_nothing_is_hidden_where_no_key_is_named_twice(table):
    write(table, [("a", 1), ("a", 3), ("b", 1)])
    write(table, [("a", 2), ("a", 4)])
    context, masked = masked_of(table)
    assert [positions(words) for words in hidden_words(context, masked * 2)] == [[], []]


@given(st.lists(st.integers(0, 50), min_size=1, max_size=30), st.integers(1, 8))
def test_stretches_cover_all_and_none_is_empty(weights, count):
    stretches = even_stretches(weights, count=count)
    assert [i for stretch in stretches for i in stretch] == list(range(len(weights)))
    assert 1 <= len(stretches) <= count
    assert all(stretches)
