"""A field of many rows at once is what each row gives alone."""

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from sizes import examples
from unit.metadata.made import UNHURRIED
from unit.types.strategies import tables

from tidelake.codec.binary_row import decode_row, is_wide_decimal, serialize_row
from tidelake.codec.binary_row_column import field_column
from tidelake.errors import CorruptError
from tidelake.types import parse_type
from tidelake.types.arrow import MS_PER_DAY

YEARS_292_NS = 292 * 365 * MS_PER_DAY * 10**6


def expected(value):
    return value.encode() if isinstance(value, str) else value


def shown(column, row):
    value = column.values[row]
    return value.as_py() if isinstance(value, pa.Scalar) else value.item()


def is_read(data_type):
    return not is_wide_decimal(data_type)


@settings(UNHURRIED, max_examples=examples(100))
@given(tables(), st.data())
def test_a_field_of_all_rows_is_that_of_each_damaged_or_not(table, data):
    types, rows = table
    whole = [serialize_row(row, types) for row in rows]
    some = []
    for raw in whole:
        broken = bytearray(raw)
        if data.draw(st.booleans()):
            for place in data.draw(st.lists(st.integers(0, len(raw) - 1), max_size=3)):
                broken[place] = data.draw(st.integers(0, 255))
            del broken[data.draw(st.sampled_from([len(raw), len(raw), 0, 4, 11, len(raw) - 1])) :]
        some.append(bytes(broken))
    # a slice, so that the array's offsets do not begin at 0
    array = pa.array([b"x", *some], type=pa.binary()).slice(1)
    for position, data_type in enumerate(types):
        column = field_column(array, position, fields_count=len(types), data_type=data_type)
        if column is None:
            assert not is_read(data_type)
            continue
        for place, raw in enumerate(some):
            try:
                value = decode_row(raw, types)[position]
            except CorruptError:
                continue  # of this field or of another
            if not column.sound[place]:
                # only times that no 64 bits of nanoseconds hold
                assert isinstance(value, int)
                assert abs(value) > YEARS_292_NS
                continue
            assert column.known[place] == (value is not None)
            if value is not None:
                assert repr(shown(column, place)) == repr(
                    int(value) if isinstance(value, bool) else expected(value)
                )


def test_rows_of_another_number_of_fields_are_not_sound():
    types = [parse_type("INT"), parse_type("STRING")]
    rows = [serialize_row((1, "a"), types), serialize_row((1,), types[:1]), b"", bytes(40)]
    column = field_column(pa.array(rows), 0, fields_count=2, data_type=types[0])
    assert column.sound.tolist() == [True, False, False, False]
    assert column.known.tolist() == [True, False, False, False]
    assert field_column(pa.array([b""]), 0, fields_count=2, data_type=types[0]).sound.sum() == 0
    assert (
        field_column(pa.array([], pa.binary()), 0, fields_count=1, data_type=types[0]) is not None
    )
