"""When two answers of a query are the same: of two ways of a Spark, and of Spark and DuckDB.

Imported in the virtualenvs of other engines too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from datetime import date
from decimal import Decimal

LIMIT = re.compile(r"\s*LIMIT\s+\d+\s*$", re.IGNORECASE)
DIGITS = 9
"""Of a double, whose last ones depend on the order of a sum."""
TOLERANCE = 1e-4
"""Between Spark and DuckDB, which divide decimals in other types."""
ROUNDED = 0.011
"""Of a quotient that a query rounds to two digits."""


def unlimited(text: str) -> str:
    """A query without its LIMIT, for rows that tie at its end."""
    return LIMIT.sub("", text)


def shown(value: object) -> object:
    """A value as two ways of one Spark must have it."""
    return f"{value:.{DIGITS}g}" if isinstance(value, float) else value


def rows_of(answer: Iterable[Iterable[object]]) -> list[str]:
    """The rows of an answer in an order of their own."""
    return sorted(repr([shown(value) for value in row]) for row in answer)


def as_judged(value: object) -> object:
    """A value as DuckDB's answers keep it: decimals and dates are text there, 0 / 0 is NaN."""
    if isinstance(value, (date, Decimal)):
        value = str(value)
    if isinstance(value, str):
        text = value.rstrip()
        try:
            return float(text)
        except ValueError:
            return text
    if isinstance(value, float) and math.isnan(value):
        return None
    return float(value) if isinstance(value, (int, float)) else value


def same_as_judged(found: Iterable[Iterable[object]], judged: Sequence[Sequence[object]]) -> bool:
    """Whether an answer is the one of DuckDB, in any order, numbers nearly so."""
    ours, theirs = ([[as_judged(v) for v in row] for row in rows] for rows in (found, judged))

    def key(row: list[object]) -> list[str]:
        return [f"{v:.3g}" if isinstance(v, float) else str(v) for v in row]

    def alike(a: object, b: object) -> bool:
        if isinstance(a, float) and isinstance(b, float):
            return math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=ROUNDED)
        return a == b

    pairs = zip(sorted(ours, key=key), sorted(theirs, key=key), strict=False)
    return len(ours) == len(theirs) and all(
        len(a) == len(b) and all(map(alike, a, b)) for a, b in pairs
    )
