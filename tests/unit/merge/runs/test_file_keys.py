"""The range of keys that a file may hold."""

from dataclasses import replace

import pytest
from unit.store.lsm.lsm_text import data_file

from tidelake.codec.binary_row import serialize_row
from tidelake.merge import FileKeys
from tidelake.merge.runs.file_keys import BEHIND_ALL
from tidelake.metadata.data_file import SimpleStats
from tidelake.types import parse_type

KEY = tuple(map(parse_type, ("INT NOT NULL", "STRING NOT NULL")))
CITY = (parse_type("STRING"),)


def clustered_file(low, high, types=KEY, *, level=1):
    bounds = [serialize_row([city], CITY) for city in ("a", "b")]
    ends = serialize_row(low, types), serialize_row(high, types)
    stats = SimpleStats(ends[0], ends[1], (0,) * len(types))
    file = data_file("x", "y", number=3, level=level)
    return replace(file, min_key=bounds[0], max_key=bounds[1], key_stats=stats)


def test_bounds_of_files_in_key_order_are_their_first_and_last_key():
    file = replace(
        clustered_file([0, "a"], [9, "z"], level=0),
        min_key=serialize_row([3, "c"], KEY),
        max_key=serialize_row([4, "b"], KEY),
    )
    found = FileKeys(KEY, clustered=True).range_of(file)
    assert (found.min_key, found.max_key) == (((1, 3), (1, "c")), ((1, 4), (1, "b")))
    assert (found.level, found.max_sequence_number, found.name) == (0, 3, "data-3.parquet")


def test_statistics_bound_the_keys_of_clustered_files():
    keys = FileKeys(KEY, clustered=True)
    low, high = keys.ranks_of(clustered_file([1, "b"], [7, "d"]))
    assert (low, high) == (((1, 1), (1, "b")), ((1, 7), (1, "d")))


@pytest.mark.parametrize(
    ("types", "low", "high", "within", "without"),
    [
        (KEY, [1, None], [7, None], ((1, 7), (1, "zz")), ((1, 8), (1, ""))),
        (KEY, [None, "a"], [None, "b"], ((1, 10**9), (1, "zz")), None),
        # a writer may take 0.0 and -0.0 for equal, and say either
        ((parse_type("DOUBLE NOT NULL"),), [-0.0], [-0.0], ((1, 5),), None),
    ],
)
def test_a_range_is_open_from_the_first_column_that_statistics_do_not_bound(
    types, low, high, within, without
):
    first, last = FileKeys(types, clustered=True).ranks_of(clustered_file(low, high, types))
    assert first <= within <= last
    assert without is None or not first <= without <= last


def test_a_file_without_statistics_may_hold_every_key():
    file = data_file("x", "y", number=3, level=1)
    assert FileKeys(KEY, clustered=True).ranks_of(file) == ((), BEHIND_ALL)
