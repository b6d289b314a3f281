import pickle

import pyarrow as pa
import pytest

from tidelake.errors import InvalidInputError
from tidelake.types import DataField, parse_type
from tidelake.types.predicate import (
    And,
    Compare,
    In,
    Not,
    Or,
    bind,
    col,
    columns_of,
    evaluate,
    parse_filter,
)
from tidelake.types.predicate.node import NESTING_MAX

A, B = Compare("==", "a", 1), Compare(">", "b", 2)


@pytest.mark.parametrize(
    ("given_form", "predicate"),
    [
        (None, None),
        (A, A),
        ("a = 1", A),
        (("a", "=", 1), A),
        ([("a", "=", 1)], A),
        ([("a", "==", 1), ("b", ">", 2)], And((A, B))),
        ([["a", "=", 1], ["b", ">", 2]], And((A, B))),
        ([[("a", "=", 1)], [("b", ">", 2)]], Or((And((A,)), And((B,))))),
        ([[("a", "=", 1), ("b", ">", 2)]], And((A, B))),
        ([("a", "in", {1})], In("a", (1,))),
        ([("a", "NOT  IN", [1, 2])], Not(In("a", (1, 2)))),
        ([("a", "<>", "x")], col("a") != "x"),
    ],
)
def test_forms_of_a_filter(given_form, predicate):
    assert parse_filter(given_form) == predicate


@pytest.mark.parametrize(
    ("given_form", "words"),
    [
        ([], "is not a filter"),
        ([[]], "is not a filter"),
        (5, "is not a filter"),
        ([("a", "=")], "is not a filter"),
        ([("a", "=", 1), 5], "is not a filter"),
        ([("a", "like", "x")], "is not an operator"),
        ([("a", "in", "xy")], "needs a list"),
        ([("a", "in", 5)], "needs a list"),
    ],
)
def test_what_is_no_filter_is_refused(given_form, words):
    with pytest.raises(InvalidInputError, match=words):
        parse_filter(given_form)


@pytest.mark.parametrize(
    "given_form",
    [
        [("a", "in", list(range(10_000))), 3],
        [("a", "is", list(range(10_000)))],
        [("a", "x" * 10_000, 1)],
        ["x" * 10_000],
    ],
)
def test_a_long_form_is_not_echoed_whole(given_form):
    with pytest.raises(InvalidInputError) as caught:
        parse_filter(given_form)
    assert len(str(caught.value)) < 600


def nested(levels):
    """Each level an AND of an OR, or an OR of an AND."""
    predicate = col("a") > 0
    for level in range(levels):
        predicate = predicate & (col("a") > 1) if level % 2 else predicate | (col("a") < 1)
    return predicate


def test_the_deepest_condition_that_is_taken_can_be_used():
    predicate = parse_filter(nested(NESTING_MAX))
    fields = [DataField(0, "a", parse_type("INT"))]
    rows = pa.record_batch({"a": pa.array([0, 2], pa.int32())})
    assert evaluate(bind(predicate, fields), rows, fields) is not None
    assert columns_of(predicate) == {"a"}
    assert str(predicate)
    assert repr(predicate)
    assert pickle.loads(pickle.dumps(predicate)) == predicate


@pytest.mark.parametrize("levels", [NESTING_MAX + 1, 3000])
def test_a_condition_that_is_nested_too_deep_is_refused(levels):
    turned = col("a") > 0
    for _ in range(levels):
        turned = ~turned
    for predicate in (nested(levels), turned):
        with pytest.raises(InvalidInputError, match="nested more than"):
            parse_filter(predicate)


def test_parts_that_are_shared_are_looked_at_once():
    predicate = col("a") > 0
    for _ in range(NESTING_MAX // 2 + 1):
        predicate = ~And((predicate, predicate))
    with pytest.raises(InvalidInputError, match="nested more than"):
        parse_filter(predicate)
