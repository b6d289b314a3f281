import pytest

from tidelake.errors import InvalidInputError
from tidelake.types.predicate import And, Compare, In, Not, Or, col, parse_filter

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
        ([("a", "like", "x")], "is no operator"),
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
