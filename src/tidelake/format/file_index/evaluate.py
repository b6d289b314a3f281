"""Finds the rows of a file that may match a predicate, by the file's indexes.

1. NOT is pushed down to the leaves. The result stays true for the same rows (three-valued logic, as
   in :mod:`tidelake.types.predicate.pruning`).
2. A leaf asks every index of its column and keeps the rows that none of them rules out. It keeps
   all rows if the column has no index, or its indexes do not answer.
3. AND keeps the rows that every part keeps, OR those that any part keeps. AND stops at the first
   part that keeps no row.

An index holds keys (:mod:`~tidelake.format.file_index.index_key`); a literal is an interval of
keys. The caller still tests the rows that are kept: an index only rules rows out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from tidelake.format.file_index.index_key import IndexKey, IndexKeyForm
from tidelake.format.file_index.rows import Mask, Rows, both, either, mask_of
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
)
from tidelake.types.predicate.node import NEGATED


class ColumnIndex(Protocol):
    """One index of one column. ``None`` means that it does not answer."""

    def equal(self, keys: Sequence[IndexKey]) -> Mask | bool | None:
        """Return the rows that may hold one of the keys."""
        ...

    def between(self, low: IndexKey | None, high: IndexKey | None) -> Mask | None:
        """Return the rows whose key may lie from `low` to `high`, both included; None is open."""
        ...

    def nulls(self) -> Mask | None:
        """Return exactly the rows that are null."""
        ...


IndexedColumn = tuple[IndexKeyForm, Sequence[ColumnIndex]]
"""The key form of a column, and its indexes."""


def matching_rows(predicate: Predicate, column: Callable[[str], IndexedColumn | None]) -> Rows:
    """Find the rows that may satisfy a predicate.

    Parameters
    ----------
    column : callable
        Returns the indexes of a column by name; None if it has none.

    Returns
    -------
    Rows
        No other row satisfies it.
    """
    return _rows(predicate, column, negated=False)


def _rows(
    predicate: Predicate, column: Callable[[str], IndexedColumn | None], *, negated: bool
) -> Rows:
    match predicate:
        case Always(value):
            return value != negated
        case Not(part):
            return _rows(part, column, negated=not negated)
        case And(parts) | Or(parts):
            if isinstance(predicate, And) != negated:
                left: Rows = True
                for part in parts:
                    left = both(left, _rows(part, column, negated=negated))
                    if left is False:
                        break
                return left
            left = False
            for part in parts:
                left = either(left, _rows(part, column, negated=negated))
                if left is True:
                    break
            return left
        case IsNull(name) | NotNull(name):
            null = isinstance(predicate, IsNull) != negated
            return _asked(column(name), lambda index, _: _null_rows(index, null=null))
        case Compare(op, name, literal):
            asked = NEGATED[op] if negated else op
            return _asked(column(name), lambda index, form: _compared(index, form, asked, literal))
        case In(name, literals):
            return _asked(
                column(name), lambda index, form: _listed(index, form, literals, negated=negated)
            )
        case StartsWith():
            return True
    raise AssertionError(f"{predicate!r} is not a node")


def _asked(
    indexed: IndexedColumn | None,
    question: Callable[[ColumnIndex, IndexKeyForm], Mask | bool | None],
) -> Rows:
    """Intersect the answers of all indexes of a column."""
    left: Rows = True
    if indexed is None:
        return left
    form, indexes = indexed
    for index in indexes:
        answer = question(index, form)
        if answer is not None:
            left = both(left, answer if isinstance(answer, bool) else mask_of(answer))
        if left is False:
            break
    return left


def _null_rows(index: ColumnIndex, *, null: bool) -> Mask | None:
    nulls = index.nulls()
    return nulls if nulls is None or null else ~nulls


def _compared(
    index: ColumnIndex, form: IndexKeyForm, op: str, literal: object
) -> Mask | bool | None:
    low, high = form.interval(literal)
    if op == "==":
        return index.equal(_between(low, high))
    if op == "!=":
        return _others(index, form, _between(low, high))
    if form.is_bytes:
        rows = index.between(None, low) if op in {"<", "<="} else index.between(low, None)
        if rows is None or op in {"<=", ">="}:
            return rows
        return rows & ~_exactly(index, [low])
    assert isinstance(low, int), "keys are numbers or byte strings"
    assert isinstance(high, int), "keys are numbers or byte strings"
    aside = 0 if form.coarse else 1  # rows with exactly this key may be on either side
    match op:
        case "<":
            return index.between(None, low - aside)
        case "<=":
            return index.between(None, high)
        case ">":
            return index.between(high + aside, None)
        case _:
            return index.between(low, None)


def _listed(
    index: ColumnIndex, form: IndexKeyForm, literals: Sequence[object], *, negated: bool
) -> Mask | bool | None:
    if negated and None in literals:
        return False  # NOT IN with a null among the literals is never true
    keys = [key for v in literals if v is not None for key in _between(*form.interval(v))]
    if negated:
        return _others(index, form, keys)
    return index.equal(keys) if keys else False


def _others(index: ColumnIndex, form: IndexKeyForm, keys: Sequence[IndexKey]) -> Mask | None:
    """Find the rows with another value: none of the keys, and not null."""
    nulls = index.nulls()
    if nulls is None:
        return None
    if form.coarse:
        return ~nulls
    return ~nulls & ~_exactly(index, keys)


def _exactly(index: ColumnIndex, keys: Sequence[IndexKey]) -> Mask:
    """Find the rows that hold one of the keys, by an exact index."""
    equal = index.equal(keys)
    assert not isinstance(equal, bool), "an index that knows nulls or ranges knows the rows"
    assert equal is not None, "an index that knows nulls or ranges knows the rows"
    return equal


def _between(low: IndexKey, high: IndexKey) -> list[IndexKey]:
    return [low] if low == high else [low, high]
