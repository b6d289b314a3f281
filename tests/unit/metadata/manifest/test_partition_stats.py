"""A manifest's statistics over partitions bound what is in it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.metadata.made import UNHURRIED, added

from tidelake.codec.binary_row import decode_row, serialize_row
from tidelake.metadata import EntryTable
from tidelake.metadata.data_file import EMPTY_STATS
from tidelake.metadata.manifest.partition_stats import partition_stats
from tidelake.types import parse_type

TYPES = (parse_type("STRING"), parse_type("BIGINT"))


def stats_of(rows, types=TYPES):
    entries = [added(f"f{i}", place=(serialize_row(row, types), 0)) for i, row in enumerate(rows)]
    stats = partition_stats(EntryTable.of(entries), types)
    low, high = (decode_row(b, types) for b in (stats.min_values, stats.max_values))
    return low, high, stats.null_counts


@UNHURRIED
@given(
    st.lists(st.tuples(st.none() | st.text(max_size=3), st.none() | st.integers(-9, 9)), min_size=1)
)
def test_bounds_and_nulls_are_those_of_the_rows(rows):
    low, high, nulls = stats_of(rows)
    for i in range(2):
        values = [row[i] for row in rows if row[i] is not None]
        key = (lambda v: v.encode()) if i == 0 else (lambda v: v)
        assert low[i] == min(values, key=key, default=None)
        assert high[i] == max(values, key=key, default=None)
        assert nulls[i] == len(rows) - len(values)


def test_nan_is_the_largest_and_minus_zero_below_zero():
    types = (parse_type("DOUBLE"),)
    low, high, _ = stats_of([(0.0,), (float("nan"),), (-0.0,)], types)
    assert str(low[0]) == "-0.0"
    assert high[0] != high[0]
    low, high, _ = stats_of([(0.0,), (-0.0,)], types)
    assert (str(low[0]), str(high[0])) == ("-0.0", "0.0")


@pytest.mark.parametrize("rows", [[()], [(), ()]])
def test_a_table_without_partitions_has_empty_statistics(rows):
    assert partition_stats(EntryTable.of([added()] * len(rows)), ()) == EMPTY_STATS
