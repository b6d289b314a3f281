import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.types.strategies import any_types, assert_same_columns, columns

from tidelake.types.nested import (
    leaf_arrays,
    list_of,
    list_parts,
    map_of,
    settled,
    struct_children,
    struct_of,
)


@given(st.data())
def test_a_column_taken_apart_and_put_together_is_the_same(data):
    data_type = data.draw(any_types)
    column = data.draw(columns(data_type, 6))
    column = column.slice(data.draw(st.integers(0, 6)), data.draw(st.integers(0, 6)))
    if pa.types.is_struct(column.type):
        again = struct_of(struct_children(column), column.type, column)
    elif pa.types.is_map(column.type):
        again = map_of(list_parts(column), column.type)
    elif pa.types.is_list(column.type):
        again = list_of(list_parts(column), column.type)
    else:
        return
    assert_same_columns(column, again)


@given(st.data())
def test_a_settled_column_is_the_same_and_arrow_writes_it(data):
    data_type = data.draw(any_types)
    column = data.draw(columns(data_type, 4))
    done = settled(column)
    assert_same_columns(column, done)
    assert settled(pa.nulls(2, column.type)).null_count == 2
    for leaf in leaf_arrays(done):
        leaf.validate(full=True)


def required(name, arrow_type):
    return pa.field(name, arrow_type, nullable=False)


@pytest.mark.parametrize(
    "inner",
    [
        pa.string(),
        pa.binary(),
        pa.decimal128(3, 3),
        pa.time32("ms"),
        pa.timestamp("us", "UTC"),
        pa.bool_(),
        pa.list_(pa.int8()),
        pa.map_(pa.string(), pa.int8()),
        pa.struct([required("y", pa.date32())]),
    ],
)
def test_not_null_fields_of_null_rows_get_a_value(inner):
    kind = pa.struct([required("x", inner)])
    for outer in (kind, pa.struct([("s", kind)]), pa.list_(kind)):
        rows = (
            [[None], None]
            if pa.types.is_list(outer)
            else [None, {"s": None}][: 1 + (outer != kind)]
        )
        column = settled(pa.array(rows, outer))
        found = column
        while found.type != kind:
            found = found.values if pa.types.is_list(found.type) else found.field(0)
        assert found.field(0).null_count == 0
        assert column.to_pylist() == rows
