import pickle

import pytest

# ruff: noqa: SIM300 - which side the column stands on is what is tested here
from tidelake.errors import InvalidInputError
from tidelake.types.predicate import (
    Always,
    And,
    Compare,
    In,
    Not,
    Or,
    col,
    columns_of,
    conjoin,
    conjuncts,
)

A, B, C = col("a") == 1, col("b") > 2, col("c").is_null()


def test_operators_build_nodes():
    assert A == Compare("==", "a", 1)
    assert (col("a") != 1, col("a") < 1) == (Compare("!=", "a", 1), Compare("<", "a", 1))
    assert (col("a") <= 1, col("a") >= 1) == (Compare("<=", "a", 1), Compare(">=", "a", 1))
    assert (1 < col("a")) == Compare(">", "a", 1)
    assert col("a").isin(range(3)) == In("a", (0, 1, 2))
    assert col("a").between(1, 2) == And((Compare(">=", "a", 1), Compare("<=", "a", 2)))
    assert ~A == Not(A)


def test_chains_are_flat():
    assert (A & B) & C == And((A, B, C))
    assert A | (B | C) == Or((A, B, C))
    assert (A | B) & C == And((Or((A, B)), C))


def test_a_condition_has_no_truth_value():
    with pytest.raises(InvalidInputError, match="combine conditions with &"):
        _ = A and B
    with pytest.raises(InvalidInputError, match="a <= x <= b"):
        _ = 1 < col("a") < 3
    with pytest.raises(InvalidInputError, match="parentheses"):
        _ = A & 1


def test_parts_and_columns_are_found():
    nested = And((A, And((B, And(())))))
    assert conjuncts(nested) == (A, B)
    assert conjuncts(None) == ()
    assert conjuncts(A | B) == (A | B,)
    assert conjoin([A]) is A
    assert conjoin([A, B]) == And((A, B))
    assert conjoin([]) is None
    assert columns_of(~(A | (B & C)) & col("d").startswith("x") & col("e").isin([1])) == set(
        "abcde"
    )
    assert columns_of(Always(True)) == columns_of(None) == frozenset()


def test_text_shows_how_parts_bind():
    assert str((A | B) & ~C) == "(a == 1 OR b > 2) AND NOT (c IS NULL)"
    assert str(A | (B & Always(False))) == "a == 1 OR (b > 2 AND FALSE)"


def test_predicates_travel():
    predicate = ~((A | B) & col("d").startswith("x") & col("e").isin([1, None]))
    assert pickle.loads(pickle.dumps(predicate)) == predicate


@pytest.mark.parametrize("values", ["ab", b"ab", 3, None])
def test_isin_takes_a_list_and_no_text(values):
    with pytest.raises(InvalidInputError, match=r"write isin\(\["):
        col("v").isin(values)
