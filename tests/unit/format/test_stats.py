"""Statistics bound every value, are cut as Paimon cuts them, and never lie."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sizes import examples
from unit.format.rows import SCALARS, batch_of, field, values_of, write

from tidelake.errors import InvalidInputError
from tidelake.format import FormatOptions
from tidelake.format.stats import ColumnStats, truncated_max
from tidelake.format.stats_mode import StatsMode
from tidelake.types.values import to_storage


def stats_of(type_, values, *, mode="truncate(16)", name="c", row_group_rows=1_000_000):
    f = field(0, name, type_)
    options = FormatOptions(stats_mode=mode, row_group_rows=row_group_rows)
    _, footer = write(batch_of([f], [values]), [f], options=options)
    return footer.stats[0]


@given(st.sampled_from(SCALARS), st.data())
@settings(max_examples=examples(300), deadline=None)
def test_bounds_are_the_least_and_greatest_stored_value(type_, data):
    values = data.draw(st.lists(values_of(type_), min_size=1, max_size=20))
    f = field(0, "c", type_)
    stats = stats_of(type_, values, mode="full", row_group_rows=7)
    stored = [to_storage(v, f.type) for v in values if v is not None]
    assert stats.null_count == values.count(None)
    nan = any(isinstance(v, float) and math.isnan(v) for v in stored)
    if not stored or nan or type_ == "BYTES":
        assert (stats.min, stats.max) == (None, None)
    else:
        assert (stats.min, stats.max) == (min(stored), max(stored))


@given(st.lists(st.text(max_size=30), min_size=1, max_size=10), st.integers(1, 20))
@settings(max_examples=examples(300), deadline=None)
def test_cut_text_bounds_hold_every_value(values, length):
    stats = stats_of("STRING", values, mode=f"truncate({length})")
    assert all(stats.min.encode() <= v.encode() for v in values)
    assert stats.max is None or all(stats.max.encode() >= v.encode() for v in values)
    assert len(stats.min) <= length
    assert stats.max is None or len(stats.max) <= length


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("abcdefghijklmnopqrstuvwxyz", "abcdefghijklmnoq"),
        ("zzzzzzzzzzzzzzz\uffffz", "zzzzzzzzzzzzzzz\U00010000"),
        ("exactly sixteen!", "exactly sixteen!"),
        ("a" * 15 + "\U0010ffff" + "b", "a" * 14 + "b"),
        ("a" * 15 + "\ud7ff" + "b", "a" * 15 + "\ue000"),
        ("\U0010ffff" * 17, None),
    ],
)
def test_a_cut_greatest_text_is_incremented_by_code_point(text, expected):
    assert truncated_max(text, 16) == expected
    assert stats_of("STRING", [text]).max == expected


def test_key_and_system_columns_keep_128_characters_in_every_mode():
    long = "k" * 200
    for mode in ("none", "counts", "truncate(16)"):
        assert stats_of("STRING NOT NULL", [long], mode=mode, name="_KEY_k").min == "k" * 128


def test_modes_keep_less():
    assert stats_of("INT", [1, None], mode="none") == ColumnStats(None, None, None)
    assert stats_of("INT", [1, None], mode="counts") == ColumnStats(None, None, 1)
    assert stats_of("STRING", ["a" * 40], mode="full") == ColumnStats("a" * 40, "a" * 40, 0)


def test_columns_not_asked_for_are_unknown():
    f = field(0, "c", "INT")
    _, footer = write(batch_of([f], [[1]]), [f], stats=frozenset())
    assert footer.stats == (ColumnStats(None, None, None),)


def test_a_nan_in_any_row_group_leaves_the_bounds_out():
    values = [1.0, 2.0, 3.0, float("nan")]
    assert stats_of("DOUBLE", values, row_group_rows=2) == ColumnStats(None, None, 0)


def test_zero_bounds_hold_both_zeros():
    stats = stats_of("DOUBLE", [0.0])
    assert math.copysign(1, stats.min) == -1
    assert math.copysign(1, stats.max) == 1


def test_text_too_long_for_the_footer_has_no_bounds():
    assert stats_of("STRING", ["x" * 5000, "y"]) == ColumnStats(None, None, 0)


def test_an_empty_file_has_no_bounds():
    assert stats_of("INT", []) == ColumnStats(None, None, 0)


@pytest.mark.parametrize("mode", ["", "truncate", "truncate(0)", "truncate(-1)", "all"])
def test_a_bad_mode_is_refused(mode):
    with pytest.raises(InvalidInputError, match="stats-mode"):
        StatsMode.parse(mode)
