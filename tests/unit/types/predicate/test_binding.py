import datetime as dt
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sizes import examples
from unit.types.predicate.strategies import OPERATORS
from unit.types.strategies import values

from tidelake.errors import InvalidInputError, NotFoundError, UnsupportedError
from tidelake.types import DataField, parse_type
from tidelake.types.predicate import (
    And,
    Compare,
    In,
    Not,
    StartsWith,
    bind,
    col,
    evaluate,
    parse_filter,
)
from tidelake.types.values import storage_to_arrow

FIELDS = [
    DataField(i, name, parse_type(text))
    for i, (name, text) in enumerate(
        {
            "id": "BIGINT",
            "tiny": "TINYINT",
            "price": "DECIMAL(10, 2)",
            "name": "STRING",
            "raw": "BYTES",
            "day": "DATE",
            "at": "TIMESTAMP(3)",
            "zoned": "TIMESTAMP_LTZ(6)",
            "ok": "BOOLEAN",
            "x": "DOUBLE",
            "f": "FLOAT",
        }.items()
    )
] + [DataField(99, "xs", parse_type({"type": "ARRAY", "element": "INT"}))]


def test_literals_become_storage_values():
    text = (
        "id = 5 AND price >= 1.5 AND name LIKE 'a%' AND day = DATE '2022-01-08' AND ok"
        " AND at < TIMESTAMP '1970-01-01 00:00:01' AND raw = X'00ff' AND x < 3 AND f = 0.1"
        " AND zoned >= '1970-01-01T01:00:00+01:00' AND id IN (1, 2, NULL) AND xs IS NULL"
    )
    bound = bind(parse_filter(text), FIELDS)
    assert isinstance(bound, And)
    literals = [getattr(p, "literal", None) for p in bound.parts]
    assert literals == [
        5, 150, None, 19000, True, 10**9, b"\0\xff", 3.0, 0.10000000149011612, 0, None, None,
    ]  # fmt: skip
    assert bound.parts[2] == StartsWith("name", "a")
    assert bound.parts[10] == In("id", (1, 2, None))


@pytest.mark.parametrize(
    ("condition", "bound"),
    [
        (col("id") < 3.5, Compare("<=", "id", 3)),
        (col("id") <= 3.5, Compare("<=", "id", 3)),
        (col("id") > 3.5, Compare(">=", "id", 4)),
        (col("id") > -3.5, Compare(">=", "id", -3)),
        (col("id") == 3.5, Compare("<", "id", -(1 << 63))),
        (col("id") != 3.5, Compare(">=", "id", -(1 << 63))),
        (col("id") == 3.0, Compare("==", "id", 3)),
        (col("id") < float("inf"), Compare(">=", "id", -(1 << 63))),
        (col("id") > float("inf"), Compare("<", "id", -(1 << 63))),
        (col("id") > float("-inf"), Compare(">=", "id", -(1 << 63))),
        (col("tiny") < 1000, Compare(">=", "tiny", -128)),
        (col("tiny") > 1000, Compare("<", "tiny", -128)),
        (col("tiny") > -1000, Compare(">=", "tiny", -128)),
        (col("tiny") >= 127.5, Compare("<", "tiny", -128)),
        (col("price") == 1.1, Compare("==", "price", 110)),
        (col("price") < Decimal("1.005"), Compare("<=", "price", 100)),
        (col("at") < "1970-01-01 00:00:00.0015", Compare("<=", "at", 10**6)),
        (col("at") >= dt.date(1970, 1, 2), Compare(">=", "at", 86_400 * 10**9)),
        (col("id").isin([1, 1.5, 1.0, 1 << 70]), In("id", (1,))),
        (~(col("id") < 3.5), Not(Compare("<=", "id", 3))),
    ],
)
def test_literals_that_the_type_cannot_hold_keep_the_same_rows(condition, bound):
    assert bind(condition, FIELDS) == bound


NUMBERS = (
    st.integers(-300, 300)
    | st.integers(-(10**12), 10**12)
    | st.decimals(allow_nan=False, allow_infinity=False, min_value=-300, max_value=300, places=3)
    | st.floats(-300, 300).map(lambda x: round(x, 4))
    | st.sampled_from([float("inf"), float("-inf"), -128.5, 127.5, 99999999.995])
)


@settings(max_examples=examples(300), deadline=None)
@given(st.data())
def test_numbers_compare_exactly_whatever_their_form(data):
    field = data.draw(st.sampled_from(FIELDS[:3]))
    stored = data.draw(values(field.type))
    literal = data.draw(NUMBERS)
    op = data.draw(st.sampled_from(OPERATORS))
    exact = Fraction(stored, 10 ** (field.type.scale or 0))
    if isinstance(literal, float) and literal not in {float("inf"), float("-inf")}:
        number = Fraction(repr(literal))
    else:
        number = literal if isinstance(literal, float) else Fraction(literal)
    expected = {
        "==": exact == number,
        "!=": exact != number,
        "<": exact < number,
        "<=": exact <= number,
        ">": exact > number,
        ">=": exact >= number,
    }[op]
    import pyarrow as pa

    batch = pa.record_batch({field.name: storage_to_arrow([stored, None], field.type)})
    bound = bind(Compare(op, field.name, literal), FIELDS)
    assert evaluate(bound, batch, FIELDS).to_pylist() == [expected, False]
    assert evaluate(Not(bound), batch, FIELDS).to_pylist() == [not expected, False]
    if op == "==":
        bound = bind(In(field.name, (literal,)), FIELDS)
        assert evaluate(bound, batch, FIELDS).to_pylist() == [expected, False]


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        (col("id") == "5", "column 'id'"),
        (col("id") == True, "BIGINT"),  # noqa: E712
        (col("id") == float("nan"), "not a number"),
        (col("name") == 5, "STRING"),
        (col("name").isin(["a", 5]), "STRING"),
        (col("name").startswith(b"a"), "STRING"),
        (col("id").startswith("1"), "only strings and binaries"),
        (col("day") == dt.datetime(2024, 1, 1), "DATE"),
        (col("zoned") > dt.datetime(2024, 1, 1), "no time zone"),
        (col("at") > "yesterday", "not a timestamp"),
        (col("ok") == 1, "BOOLEAN"),
        (col("id") == None, "Use IS NULL"),  # noqa: E711
    ],
)
def test_literals_of_another_type_are_refused_with_the_column(condition, words):
    with pytest.raises(InvalidInputError) as caught:
        bind(condition, FIELDS)
    assert words in caught.value.message
    assert caught.value.context["column"] in caught.value.message


@pytest.mark.parametrize(
    "condition",
    [col("names") == 1, ~col("names").is_null(), (col("id") == 1) | col("names").startswith("a")],
)
def test_an_unknown_column_is_refused_with_near_names(condition):
    with pytest.raises(NotFoundError, match="Did you mean 'name'"):
        bind(condition, FIELDS)


def test_nested_columns_know_only_null():
    assert bind(col("xs").is_not_null(), FIELDS) == col("xs").is_not_null()
    with pytest.raises((UnsupportedError, InvalidInputError), match="ARRAY"):
        bind(col("xs") == [1], FIELDS)
