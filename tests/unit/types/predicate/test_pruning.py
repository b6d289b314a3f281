import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sizes import examples
from unit.types.predicate.strategies import (
    FEW_VALUES,
    few_valued_columns,
    filtered_tables,
    holds,
    raised,
    ranges_of,
)

from tidelake.types.predicate import (
    Always,
    And,
    ColumnRange,
    In,
    Not,
    Or,
    StartsWith,
    col,
    may_match,
    parse_filter,
)

RANGES = {
    "n": ColumnRange(10, 20, 2, 100),
    "s": ColumnRange("abc", "abe", 0, 100),
    "x": ColumnRange(1.0, 2.0, 0, 100),
    "nulls": ColumnRange(None, None, 100, 100),
    "open": ColumnRange(10, None, None, 100),
    "same": ColumnRange(5, 5, 0, 100),
}


@settings(max_examples=examples(150), deadline=None)
@given(st.data())
def test_no_file_with_a_matching_row_is_pruned(data):
    fields, columns, predicate = data.draw(filtered_tables())
    check_never_wrong(fields, columns, predicate, data.draw(ranges_of(fields, columns)))


@pytest.mark.parametrize("type_text", FEW_VALUES)
@settings(max_examples=examples(200), deadline=None)
@given(st.data())
def test_no_file_is_pruned_where_bounds_and_literals_meet(type_text, data):
    fields, columns, predicate = data.draw(few_valued_columns(type_text))
    check_never_wrong(fields, columns, predicate, data.draw(ranges_of(fields, columns)))


def check_never_wrong(fields, columns, predicate, ranges):
    for i in range(len(columns[fields[0].name])):
        row = {f.name: columns[f.name][i] for f in fields}
        if holds(predicate, row) is True:
            assert may_match(predicate, ranges), row
        if holds(predicate, row) is False:
            assert may_match(Not(predicate), ranges), row


@pytest.mark.parametrize(
    ("condition", "answer"),
    [
        (col("n") < 10, False),
        (col("n") <= 10, True),
        (col("n") > 20, False),
        (col("n") >= 20, True),
        (col("n") == 9, False),
        (col("n") == 15, True),
        (col("n") != 15, True),
        (~(col("n") >= 10), False),
        (~(col("n") <= 19), True),
        (~~(col("n") < 10), False),
        (~((col("n") < 10) | (col("n") >= 10)), False),
        (~((col("n") < 30) & (col("n") > 0)), False),
        (col("n").isin([1, 2, 30]), False),
        (col("n").isin([1, 12]), True),
        (col("n").isin([]), False),
        (~col("n").isin([15]), True),
        (~In("n", (15, None)), False),
        (col("n").is_null(), True),
        (col("n").is_not_null(), True),
        (col("same") != 5, False),
        (~col("same").isin([4, 5]), False),
        (col("same").is_null(), False),
        (~col("same").is_not_null(), False),
        (col("nulls") == 1, False),
        (~(col("nulls") == 1), False),
        (col("nulls").is_null(), True),
        (col("nulls").is_not_null(), False),
        (~col("nulls").is_null(), False),
        (col("open") < 10, False),
        (col("open") > 1000, True),
        (col("open").is_null(), True),
        (col("s").startswith("abda"), True),
        (col("s").startswith("b"), False),
        (col("s").startswith("aa"), False),
        (col("s").startswith("ab"), True),
        (~col("s").startswith("ab"), False),
        (~col("s").startswith("abc"), True),
        (col("x") < 1.0, False),
        (col("x") == 3.0, False),
        (col("x") > 2.0, True),  # NaN, which ranges do not show
        (col("x") > float("nan"), False),
        (col("x") == float("nan"), True),
        (col("unknown") == 1, True),
        ((col("unknown") == 1) & (col("n") == 1), False),
        (Always(False), False),
        (~Always(False), True),
        (And(()), True),
        (Or(()), False),
        (~And(()), False),
    ],
)
def test_answers_for_known_ranges(condition, answer):
    assert may_match(condition, RANGES) is answer


def test_bounds_that_are_nan_say_nothing():
    nan = float("nan")
    for known in (ColumnRange(1.0, nan, 0, 2), ColumnRange(nan, nan, 0, 2)):
        for condition in (col("x") == 5.0, col("x") >= 5.0, col("x") < 5.0, col("x") == nan):
            assert may_match(condition, {"x": known})


def test_an_empty_file_matches_nothing():
    empty = {"n": ColumnRange(None, None, 0, 0)}
    for condition in (col("n") == 1, col("n").is_null(), col("n").is_not_null()):
        assert not may_match(condition, empty)


def test_a_truncated_maximum_still_covers_its_values():
    assert raised("zz\U0010ffff\U0010ffff", 3) == "z{"
    assert raised("\U0010ffff" * 5, 3) is None
    ranges = {"s": ColumnRange("ab", raised("abzzz", 2), 0, 2)}
    assert may_match(StartsWith("s", "abzz"), ranges)
    assert may_match(parse_filter("s = 'abzzz'"), ranges)
    assert not may_match(parse_filter("s > 'ac'"), ranges)
