"""Skipping row groups never changes which rows a predicate gives."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from sizes import examples
from unit.format.rows import PATH, SCALARS, batch_of, field, parquet_of, values_of, write

from tidelake.format import FormatOptions, read_batches
from tidelake.format.field_id_mapping import map_columns
from tidelake.format.parquet.row_groups import matching_row_groups
from tidelake.types.predicate import Compare, IsNull, bind, evaluate

THREE_GROUPS = FormatOptions(row_group_rows=2)


def groups_of(files, fields, predicate):
    file = parquet_of(files)
    sources = map_columns(file, fields, path=PATH)
    return matching_row_groups(file.metadata, sources, predicate)


@given(
    st.sampled_from([t for t in SCALARS if t != "BOOLEAN"]),
    st.sampled_from(["==", "!=", "<", "<=", ">", ">="]),
    st.data(),
)
@settings(max_examples=examples(400), deadline=None)
def test_rows_are_those_of_a_read_without_skipping(type_, op, data):
    fields = [field(0, "c", type_)]
    values = data.draw(st.lists(values_of(type_), min_size=6, max_size=6))
    candidates = [v for v in values if v is not None]
    literal = data.draw(
        st.sampled_from(candidates)
        if candidates
        else values_of(type_).filter(lambda v: v is not None)
    )
    predicate = bind(Compare(op, "c", literal), fields)
    batch = batch_of(fields, [values])
    files, _ = write(batch, fields, options=THREE_GROUPS)
    expected = batch.filter(evaluate(predicate, batch, fields)).column("c").to_pylist()
    got = [
        value
        for read in read_batches(files, PATH, fields, predicate=predicate)
        for value in read.column("c").to_pylist()
    ]
    assert str(got) == str(expected)


def test_only_groups_whose_bounds_match_are_kept():
    fields = [field(0, "c", "BIGINT"), field(1, "s", "STRING"), field(2, "d", "DECIMAL(30, 2)")]
    numbers = [1, 2, 3, 4, None, None]
    texts = ["a", "b", "c", "d", None, None]
    files, _ = write(batch_of(fields, [numbers, texts, numbers]), fields, options=THREE_GROUPS)
    assert groups_of(files, fields, None) == [0, 1, 2]
    assert groups_of(files, fields, bind(Compare(">", "c", 2), fields)) == [1]
    assert groups_of(files, fields, bind(Compare("<=", "s", "b"), fields)) == [0]
    assert groups_of(files, fields, bind(Compare("==", "d", 3), fields)) == [1]
    assert groups_of(files, fields, IsNull("c")) == [2]


def test_a_group_with_nan_is_kept_where_nan_may_match():
    """Arrow's writer leaves NaN out of the bounds, and NaN is greater than all numbers."""
    fields = [field(0, "c", "DOUBLE")]
    nan = float("nan")
    files, _ = write(batch_of(fields, [[1.0, nan, 2.0, 3.0]]), fields, options=THREE_GROUPS)
    predicate = bind(Compare(">", "c", 100.0), fields)
    batches = list(read_batches(files, PATH, fields, predicate=predicate))
    assert str(pa.Table.from_batches(batches)["c"].to_pylist()) == "[nan]"


def test_bounds_of_a_column_that_is_cast_are_not_used():
    written, wanted = [field(0, "c", "INT")], [field(0, "c", "DECIMAL(12, 2)")]
    files, _ = write(batch_of(written, [[1, 2, 3, 4]]), written, options=THREE_GROUPS)
    predicate = bind(Compare("==", "c", 3), wanted)
    assert groups_of(files, wanted, predicate) == [0, 1]
    batches = list(read_batches(files, PATH, wanted, predicate=predicate))
    assert [int(v) for b in batches for v in b.column("c").to_pylist()] == [3]


def test_dates_beyond_the_year_9999_do_not_hinder():
    fields = [field(0, "c", "DATE")]
    days = pa.array([0, 1, 10_000_000, 10_000_001], pa.int32()).cast(pa.date32())
    files, _ = write(pa.record_batch({"c": days}), fields, options=THREE_GROUPS)
    assert groups_of(files, fields, Compare(">", "c", 5_000_000)) == [1]
