"""Whether rows with known column ranges may satisfy a predicate; a no is always right.

1. NOT is pushed down to the leaves. Under three-valued logic that keeps the rows for which the
   whole is true: NOT (a < 1) is true exactly where a >= 1 is, both are unknown for null.
2. A leaf says no only if no value within the column's range, and no null, makes it true. Ranges may
   be wider than the data: a string's minimum may be a prefix, its maximum a prefix whose last
   character was incremented.
3. AND may be true if each part may; OR if one part may.

Floating-point ranges ignore NaN (Parquet writers leave NaN out of the bounds, or drop the bounds).
NaN is the largest value here, so the maximum of a float column excludes nothing that NaN would
satisfy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidelake.types.predicate.node import (
    NEGATED,
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
)


@dataclass(frozen=True, slots=True)
class ColumnRange:
    """The known range of a column's values in some rows.

    Parameters
    ----------
    min, max : storage value or None
        No value is smaller, none larger; None if unknown.
    null_count : int or None
        Number of nulls; None if unknown.
    """

    min: object
    max: object
    null_count: int | None
    row_count: int


def may_match(predicate: Predicate, ranges: Mapping[str, ColumnRange]) -> bool:
    """Return whether some row may satisfy a bound predicate.

    Parameters
    ----------
    ranges : mapping of str to ColumnRange
        By column; a missing column may have any values.

    Returns
    -------
    bool
        False only if no row can satisfy it.

    Examples
    --------
    >>> from tidelake.types.predicate import col
    >>> ranges = {"a": ColumnRange(10, 20, 0, 100)}
    >>> may_match(col("a") > 20, ranges), may_match(~(col("a") > 20), ranges)
    (False, True)
    """
    return _may(predicate, ranges, negated=False)


def _may(predicate: Predicate, ranges: Mapping[str, ColumnRange], *, negated: bool) -> bool:
    match predicate:
        case Always(value):
            return value != negated
        case Not(part):
            return _may(part, ranges, negated=not negated)
        case And(parts) | Or(parts):
            each = (_may(p, ranges, negated=negated) for p in parts)
            return all(each) if isinstance(predicate, And) != negated else any(each)
        case IsNull(name) | NotNull(name):
            known = ranges.get(name)
            return known is None or _may_be_null(
                known, null=isinstance(predicate, IsNull) != negated
            )
        case Compare(column=name) | In(column=name) | StartsWith(column=name):
            known = ranges.get(name)
            if known is None:
                return True
            return _may_be_null(known, null=False) and _may_leaf(predicate, known, negated=negated)
    raise AssertionError(f"{predicate!r} is not a node")


def _may_be_null(known: ColumnRange, *, null: bool) -> bool:
    if known.null_count is None:
        return known.row_count > 0
    return known.null_count > 0 if null else known.null_count < known.row_count


def _may_leaf(leaf: Compare | In | StartsWith, known: ColumnRange, *, negated: bool) -> bool:
    if isinstance(leaf, Compare):
        return _may_compare(NEGATED[leaf.op] if negated else leaf.op, leaf.literal, known)
    if isinstance(leaf, StartsWith):
        return _may_start(leaf.prefix, known, negated=negated)
    if negated:
        if None in leaf.literals:
            return False  # NOT IN with a null among the literals is never true
        return all(_may_compare("!=", v, known) for v in leaf.literals)
    return any(_may_compare("==", v, known) for v in leaf.literals if v is not None)


def _may_compare(op: str, literal: Any, known: ColumnRange) -> bool:
    low: Any = known.min
    high: Any = known.max
    if isinstance(literal, float):
        return _may_compare_float(op, literal, low, high)
    match op:
        case "==":
            return (low is None or low <= literal) and (high is None or literal <= high)
        case "!=":
            return low is None or high is None or not low == high == literal
        case "<":
            return low is None or low < literal
        case "<=":
            return low is None or low <= literal
        case ">":
            return high is None or high > literal
        case _:
            return high is None or high >= literal


def _may_compare_float(op: str, literal: float, low: Any, high: Any) -> bool:
    if literal != literal:
        return (
            op != ">"
        )  # nothing is larger than NaN; NaN itself or any number satisfies the others
    low_known = low is not None and low == low
    high_known = high is not None and high == high
    match op:
        case "==":
            return (not low_known or low <= literal) and (not high_known or literal <= high)
        case "<":
            return not low_known or low < literal
        case "<=":
            return not low_known or low <= literal
        case _:
            return True  # NaN, which the range omits, is larger and not equal


def _may_start(prefix: Any, known: ColumnRange, *, negated: bool) -> bool:
    low: Any = known.min
    high: Any = known.max
    if negated:  # if both bounds begin with the prefix, then all between them do
        return not (
            low is not None
            and high is not None
            and low.startswith(prefix)
            and high.startswith(prefix)
        )
    return (high is None or high >= prefix) and (low is None or low[: len(prefix)] <= prefix)
