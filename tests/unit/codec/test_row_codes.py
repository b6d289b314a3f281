import re

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.types.strategies import any_types, columns

from tidelake.codec.row_codes import column_codes


def shown(column):
    """Each value as a text that tells it from others."""
    bare = without_hidden(column)
    return [bare.slice(i, 1).to_string() for i in range(len(bare))]


def without_hidden(column):
    """The same column, with nothing in the fields of structs that are null: Arrow shows it."""
    if pa.types.is_struct(column.type):
        fields = [without_hidden(c) for c in column.flatten()]  # it hides what lies under a null
        return pa.StructArray.from_arrays(fields, fields=list(column.type), mask=column.is_null())
    if pa.types.is_list(column.type):
        values = without_hidden(column.values)
        mask = column.is_null()
        return pa.ListArray.from_arrays(column.offsets, values, type=column.type, mask=mask)
    return column


@settings(max_examples=25)
@given(st.data())
def test_equal_values_have_equal_codes_and_others_not(data):
    data_type = data.draw(any_types)
    column = data.draw(columns(data_type, 4))
    column = pa.concat_arrays([column, column.slice(1, 2)])
    codes = column_codes(column).tolist()
    assert codes[1:3] == codes[4:]
    texts = shown(column)
    if not any("nan" in t for t in texts) and not re.search("MAP|MULTISET", str(data_type)):
        for i, a in enumerate(codes):
            for j, b in enumerate(codes):
                assert (a == b) == (texts[i] == texts[j])


def test_what_lies_under_a_null_struct_does_not_count():
    hidden = pa.StructArray.from_arrays(
        [pa.array([True, False, None])], names=["a"], mask=pa.array([True, True, False])
    )
    first, second, third = column_codes(hidden)
    assert first == second != third
    assert shown(hidden)[0] == shown(hidden)[1] != shown(hidden)[2]


def test_null_empty_and_null_inside_are_three():
    column = pa.array([None, [], [None], [[]], [[None]]], pa.list_(pa.list_(pa.int32())))
    assert len(set(column_codes(column).tolist())) == 5


def test_the_order_of_a_map_does_not_count():
    column = pa.array(
        [[("a", 1), ("b", 2)], [("b", 2), ("a", 1)], [("a", 2), ("b", 1)]],
        pa.map_(pa.string(), pa.int64()),
    )
    first, second, third = column_codes(column)
    assert first == second != third
