import datetime as dt
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelake.errors import InvalidInputError
from tidelake.types.predicate import (
    Always,
    And,
    Compare,
    In,
    IsNull,
    Not,
    NotNull,
    Or,
    Predicate,
    StartsWith,
    parse_filter,
)

A, B, C = Compare("==", "a", 1), Compare("==", "b", 2), Compare("==", "c", 3)


@pytest.mark.parametrize(
    ("text", "predicate"),
    [
        ("a = 1", A),
        ("a == 1", A),
        ("1 = a", A),
        ("a=1 and b=2 Or c=3", Or((And((A, B)), C))),
        ("a=1 AND (b=2 OR c=3)", And((A, Or((B, C))))),
        ("(a=1 AND b=2) AND c=3", And((A, B, C))),
        ("NOT a=1 AND b=2", And((Not(A), B))),
        ("NOT NOT (a=1)", Not(Not(A))),
        ("3 < a", Compare(">", "a", 3)),
        ("3 >= a", Compare("<=", "a", 3)),
        ("a <> -1.50", Compare("!=", "a", Decimal("-1.50"))),
        ("a != +.5", Compare("!=", "a", Decimal("0.5"))),
        ("a < 1e3", Compare("<", "a", 1000.0)),
        ("a = 'it''s'", Compare("==", "a", "it's")),
        ("a = TRUE", Compare("==", "a", True)),
        ("a = X'00fF'", Compare("==", "a", b"\0\xff")),
        ("a = DATE '2024-02-29'", Compare("==", "a", dt.date(2024, 2, 29))),
        ("a = time '12:30:00.5'", Compare("==", "a", dt.time(12, 30, 0, 500_000))),
        (
            "a = TIMESTAMP '2024-02-29 12:30'",
            Compare("==", "a", dt.datetime(2024, 2, 29, 12, 30)),
        ),
        (
            "a = TIMESTAMP '2024-02-29T12:30:00+02:00'",
            Compare("==", "a", dt.datetime(2024, 2, 29, 10, 30, tzinfo=dt.UTC)),
        ),
        (
            "a = TIMESTAMP '1970-01-01 00:00:00.000000001'",
            Compare("==", "a", np.datetime64(1, "ns")),
        ),
        ("date = 5", Compare("==", "date", 5)),
        ("`a b` = 1", Compare("==", "a b", 1)),
        ('"a ""b""" = 1', Compare("==", 'a "b"', 1)),
        ("größe = 1", Compare("==", "größe", 1)),
        ("`select` IS NULL", IsNull("select")),
        ("a IS NOT NULL", NotNull("a")),
        ("a IS TRUE", And((NotNull("a"), Compare("==", "a", True)))),
        ("a IS NOT FALSE", Not(And((NotNull("a"), Compare("==", "a", False))))),
        ("a IN (1, 'x', NULL)", In("a", (1, "x", None))),
        ("a NOT IN (-1)", Not(In("a", (-1,)))),
        ("a BETWEEN 1 AND 2 AND b=2", And((Compare(">=", "a", 1), Compare("<=", "a", 2), B))),
        ("a NOT BETWEEN 1 AND 2", Not(And((Compare(">=", "a", 1), Compare("<=", "a", 2))))),
        ("a LIKE 'x%'", StartsWith("a", "x")),
        ("a NOT LIKE 'x%'", Not(StartsWith("a", "x"))),
        (r"a LIKE '10\%\_\\%'", StartsWith("a", "10%_\\")),
        ("a LIKE 'x'", Compare("==", "a", "x")),
        ("a LIKE '%'", StartsWith("a", "")),
        ("a", Compare("==", "a", True)),
        ("NOT a OR b", Or((Not(Compare("==", "a", True)), Compare("==", "b", True)))),
        ("TRUE", Always(True)),
        ("a=1 AND FALSE", And((A, Always(False)))),
    ],
)
def test_text_is_read(text, predicate):
    assert parse_filter(text) == predicate


@pytest.mark.parametrize(
    ("text", "position", "words"),
    [
        ("", 0, "ends where a column is expected"),
        ("a =", 3, "ends where a value is expected"),
        ("a = b", 4, "not with columns"),
        ("a = NULL", 4, "write IS NULL"),
        ("NULL = a", 0, "write IS NULL"),
        ("a BETWEEN 1 AND NULL", 16, "write IS NULL"),
        ("a = 1 b = 2", 6, "b where AND, OR or the end is expected"),
        ("(a = 1", 6, "ends where ')' is expected"),
        ("a = 1)", 5, "where AND, OR or the end"),
        ("a IN ()", 6, ") where a value is expected"),
        ("a IN (1 2)", 8, "2 where ',' or ')' is expected"),
        ("a IN 1", 5, "1 where '(' is expected"),
        ("a BETWEEN 1 OR 2", 12, "OR where AND is expected"),
        ("a NOT 5", 6, "5 where IN, BETWEEN or LIKE is expected"),
        ("a IS 5", 5, "NULL, TRUE or FALSE"),
        ("a LIKE '%x'", 7, "only a prefix"),
        ("a LIKE 'x_'", 7, "only a prefix"),
        (r"a LIKE 'x\y'", 7, "backslash"),
        ("a LIKE 5", 7, "pattern in quotes"),
        ("1 = 2", 4, "a column is expected"),
        ("5", 1, "a comparison is expected"),
        ("a = 'x", 4, "a quote that is not closed"),
        ("a = 1; DROP", 5, "';', which cannot be read"),
        ("a = 12x", 4, "'12x', which cannot be read"),
        ("a = DATE '2024-02-30'", 9, "not a DATE literal"),
        ("a = TIMESTAMP 'now'", 14, "not a TIMESTAMP literal"),
        ("a = TIMESTAMP '9999-12-31 23:00:00-10:00'", 14, "not a TIMESTAMP literal"),
        ("a = X'0'", 5, "not a X literal"),
        ("a = -'x'", 5, "a number is expected"),
        ("and = 1", 0, "and where a column is expected"),
        ("(" * 101 + "a" + ")" * 101, 101, "nested more than"),
        ("a = " + "9" * 401, 4, "more than 400 digits"),
        ("a = 1 AND\n  b >> 2", 15, "a value is expected"),
    ],
)
def test_errors_point_at_the_place(text, position, words):
    with pytest.raises(InvalidInputError) as caught:
        parse_filter(text)
    assert words in caught.value.message
    assert caught.value.context["position"] == position
    line, pointer = caught.value.message.splitlines()[1:]
    line_start = text.rfind("\n", 0, position) + 1
    whole = text[line_start:].splitlines()[0] if text else ""
    if len(whole) <= 200:
        assert line == f"  {whole}"
        assert pointer.index("^") - 2 == position - line_start


NAMES = st.sampled_from(["a", "b c", "or", 'q"`x', "größe"])
LITERALS = (
    st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.decimals(-1000, 1000, allow_nan=False, places=3)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.binary()
    | st.dates()
    | st.times()
    | st.datetimes()
)
PREDICATES = st.recursive(
    st.builds(Compare, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), NAMES, LITERALS)
    | st.builds(In, NAMES, st.lists(LITERALS | st.none(), min_size=1, max_size=3).map(tuple))
    | NAMES.map(IsNull)
    | NAMES.map(NotNull)
    | st.builds(StartsWith, NAMES, st.text(st.characters(exclude_categories=["Cs"])))
    | st.booleans().map(Always),
    lambda inner: (
        st.lists(inner, min_size=2, max_size=3).map(lambda p: Or(tuple(p)))
        | st.lists(inner.filter(lambda p: not isinstance(p, And)), min_size=2, max_size=3).map(
            lambda p: And(tuple(p))
        )
        | inner.map(Not)
    ),
    max_leaves=8,
)


@given(PREDICATES)
def test_written_out_conditions_come_back(predicate):
    assert parse_filter(sql(predicate)) == predicate


@given(st.text("aN=<'()1 -.,%`\nIONTR\\", max_size=30) | st.text(max_size=30))
def test_any_text_is_read_or_refused(text):
    try:
        assert isinstance(parse_filter(text), Predicate)
    except InvalidInputError:
        return


def sql(predicate):
    match predicate:
        case And(parts):
            return " AND ".join(f"({sql(p)})" for p in parts)
        case Or(parts):
            return " OR ".join(f"({sql(p)})" for p in parts)
        case Not(part):
            return f"NOT ({sql(part)})"
        case Always(value):
            return str(value)
        case Compare(op, name, literal):
            return f"{quoted(name)} {op} {written(literal)}"
        case In(name, literals):
            return f"{quoted(name)} IN ({', '.join(written(v) for v in literals)})"
        case IsNull(name):
            return f"{quoted(name)} IS NULL"
        case NotNull(name):
            return f"{quoted(name)} IS NOT NULL"
        case StartsWith(name, prefix):
            plain = prefix.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
            return f"{quoted(name)} LIKE {written(plain + '%')}"


def quoted(name):
    return "`" + name.replace("`", "``") + "`"


def written(value):
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value)
        case float():
            return f"{value:.17e}"
        case str():
            return "'" + value.replace("'", "''") + "'"
        case bytes():
            return f"X'{value.hex()}'"
        case dt.datetime():
            return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
        case dt.date():
            return f"DATE '{value.isoformat()}'"
        case dt.time():
            return f"TIME '{value.isoformat()}'"
        case Decimal():
            return f"{value:f}"
        case _:
            return str(value)


def test_a_long_filter_is_shown_around_the_place_only():
    values = ", ".join(map(str, range(5_000)))
    for text, place in (
        (f"a IN ({values}) AND b >", None),
        (f"b ! AND a IN ({values})", "!"),
        (f"a IN ({values}) AND b ! 3 AND a IN ({values})", "!"),
    ):
        with pytest.raises(InvalidInputError) as caught:
            parse_filter(text)
        problem, line, pointer = str(caught.value).splitlines()
        assert len(problem) < 100
        assert len(line) <= 210
        assert "..." in line
        at = pointer.index("^")
        assert line[at:].startswith(place) if place else at == len(line)
    with pytest.raises(InvalidInputError) as caught:
        parse_filter(f"a = 1 '{'x' * 10_000}'")
    assert len(str(caught.value)) < 700
