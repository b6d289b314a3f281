"""Values for the parameters of statements, as literals in their text."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from tidelake.errors import InvalidInputError, TidelakeError, UnsupportedError
from tidelake.sql.syntax.parameters import bind_parameters, sql_literal


@pytest.mark.parametrize(
    ("text", "args", "wanted"),
    [
        ("UPDATE t SET a = :a, b=-:b", {"a": 1, "b": 2}, "UPDATE t SET a = 1, b=-2"),
        # without parentheses the minuses would begin a comment, and the condition be gone
        (
            "UPDATE t SET b=-:b WHERE a=1-:a",
            {"a": Decimal("-1"), "b": -2},
            "UPDATE t SET b=-(-2) WHERE a=1-(-1BD)",
        ),
        (
            "DELETE FROM t WHERE a BETWEEN :x AND :x",
            {"x": 1},
            "DELETE FROM t WHERE a BETWEEN 1 AND 1",
        ),
        ("DELETE FROM t WHERE a = ':a' -- :a", {}, "DELETE FROM t WHERE a = ':a' -- :a"),
        ("UPDATE t SET v = d:x.y, w = z[1]:x", {"x": 1}, "UPDATE t SET v = d:x.y, w = z[1]:x"),
        ("UPDATE t SET v = d::int", {}, "UPDATE t SET v = d::int"),
        (
            "UPDATE t SET v = CASE WHEN ? THEN ? END",
            [True, "?"],
            "UPDATE t SET v = CASE WHEN TRUE THEN '?' END",
        ),
        ("UPDATE t SET v = `:a` WHERE x = '?'", {"a": 1}, "UPDATE t SET v = `:a` WHERE x = '?'"),
        ("UPDATE t SET v = :a", {"a": ":b", "b": 2}, "UPDATE t SET v = ':b'"),
    ],
)
def test_values_stand_where_the_parameters_stood(text, args, wanted):
    assert bind_parameters(text, args) == wanted


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (-(2**31), "(-2147483648)"),
        (-(2**63), "(-9223372036854775808L)"),
        (-0.5, "(-0.5D)"),
        ("${env:HOME}", "CAST(X'247b656e763a484f4d457d' AS STRING)"),
        (np.datetime64("2026-01-02T03:04:05", "D"), "DATE '2026-01-02'"),
        (2**31, "2147483648L"),
        (np.int16(7), "7"),
        (float("nan"), "double('nan')"),
        (1e300, "1e+300D"),
        (Decimal("1E+3"), "1000BD"),
        ("a\\b", "CAST(X'615c62' AS STRING)"),
        ("\n", "CAST(X'0a' AS STRING)"),
        ("ä", "'ä'"),
        (date(2026, 1, 2), "DATE '2026-01-02'"),
        (
            datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
            "TIMESTAMP_LTZ '2026-01-02 03:04:05.000006Z'",
        ),
        (
            datetime(2026, 1, 2, tzinfo=timezone(timedelta(hours=2))),
            "TIMESTAMP_LTZ '2026-01-01 22:00:00Z'",
        ),
        (time(1, 2), "TIME '01:02:00'"),
        ({"a": [None]}, "map('a', array(NULL))"),
    ],
)
def test_literals(value, wanted):
    assert sql_literal(value, "v") == wanted


@pytest.mark.parametrize(
    ("text", "args", "error", "message"),
    [
        ("UPDATE t SET a = :count", {"cuont": 1}, InvalidInputError, "Did you mean 'cuont'"),
        ("UPDATE t SET a = ?", {"a": 1}, InvalidInputError, "is a mapping"),
        ("UPDATE t SET a = :a", [1], InvalidInputError, "is a list"),
        ("UPDATE t SET a = ? + ?", [1], InvalidInputError, "args= has 1"),
        ("UPDATE t SET a = ?", [1, 2], InvalidInputError, "2 values, the statement 1"),
        ("UPDATE t SET a = :a", {"a": object()}, UnsupportedError, "has no literal"),
        ("UPDATE t SET a = :a", {"a": 2**63}, InvalidInputError, "too large for a BIGINT"),
        ("UPDATE t SET a = :a", {"a": Decimal("NaN")}, InvalidInputError, "no DECIMAL"),
    ],
)
def test_what_has_no_value_is_refused(text, args, error, message):
    with pytest.raises(error, match=message) as caught:
        bind_parameters(text, args)
    assert isinstance(caught.value, TidelakeError)


def test_times_of_numpy_and_pandas_are_times():
    wanted = sql_literal(datetime(2026, 1, 2, 3, 4, 5), "v")
    assert wanted.startswith("TIMESTAMP_LTZ '2026-01-0")
    for value in (
        np.datetime64("2026-01-02T03:04:05", "ns"),
        np.datetime64("2026-01-02T03:04:05", "s"),
        pd.Timestamp("2026-01-02T03:04:05"),
    ):
        assert sql_literal(value, "v") == wanted
    assert sql_literal(pd.NaT, "v") == sql_literal(np.datetime64("NaT", "ns"), "v") == "NULL"
    interval = sql_literal(timedelta(seconds=3), "v")
    assert sql_literal(np.timedelta64(3_000_000_000, "ns"), "v") == interval
