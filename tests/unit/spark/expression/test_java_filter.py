"""Filters of Spark's connector interfaces, as predicates of the kernel; no JVM is needed."""

from __future__ import annotations

from decimal import Decimal
from types import SimpleNamespace

import pytest

from tidelake import col
from tidelake.spark.expression.java_filter import column_of, from_java_filters
from tidelake.types import DataField, parse_type
from tidelake.types.predicate import Not

FIELDS = tuple(
    DataField(number, name, parse_type(text))
    for number, (name, text) in enumerate(
        {"k": "BIGINT", "v": "STRING", "m": "DECIMAL(10, 2)", "b": "BYTES"}.items()
    )
)


class JavaFilter:
    """A filter as py4j shows it: methods, and a class with a name."""

    def __init__(self, kind, **parts):
        self._kind = kind
        for name, part in parts.items():
            setattr(self, name, lambda part=part: part)

    def getClass(self):
        return SimpleNamespace(getSimpleName=lambda: self._kind)


def equal(name, value):
    return JavaFilter("EqualTo", attribute=name, value=value)


def null_safe(name, value):
    return JavaFilter("EqualNullSafe", attribute=name, value=value)


def is_in(name, *values):
    return JavaFilter("In", attribute=name, values=values)


def negated(child):
    return JavaFilter("Not", child=child)


def either(left, right):
    return JavaFilter("Or", left=left, right=right)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (equal("k", 1), col("k") == 1),
        (null_safe("m", Decimal(2)), col("m") == Decimal(2)),
        (null_safe("m", None), col("m").is_null()),
        (is_in("k", 1, None, 2), col("k").isin([1, 2])),
        (JavaFilter("StringStartsWith", attribute="v", value="a"), col("v").startswith("a")),
        (negated(equal("v", "x")), Not(col("v") == "x")),
        (either(equal("k", 1), equal("v", "x")), (col("k") == 1) | (col("v") == "x")),
        (JavaFilter("IsNotNull", attribute="`k`"), col("k").is_not_null()),
    ],
)
def test_a_filter_becomes_the_same_predicate(given, expected):
    assert from_java_filters([given], FIELDS) == expected


@pytest.mark.parametrize(
    "given",
    [
        negated(null_safe("m", Decimal(2))),  # true where m is null
        negated(is_in("k", 1, None)),  # never true
        either(equal("k", 1), is_in("k", 2, None)),
        either(equal("k", 1), JavaFilter("StringContains", attribute="v", value="a")),
        equal("b", b"x"),
        equal("inside.k", 1),
    ],
)
def test_what_may_mean_something_else_is_left_to_spark(given):
    assert from_java_filters([given], FIELDS) is None
    assert from_java_filters([given, equal("k", 3)], FIELDS) == (col("k") == 3)


@pytest.mark.parametrize(
    ("shown", "name"),
    [("k", "k"), ("`a.b`", "a.b"), ("`we``ird`", "we`ird"), ("a.b", None), ("`a.b`.c", None)],
)
def test_the_column_of_a_filter_is_told_by_its_quoted_name(shown, name):
    assert column_of(JavaFilter("IsNull", attribute=shown)) == name
