"""The nodes of a condition on rows, as frozen values, and :func:`col` to write them in Python.

SQL's three-valued logic holds: a comparison with a null is unknown, NOT of unknown is unknown, and
a row is kept only where the whole is true. A predicate is first written with plain Python values
(*unbound*), then bound to a table's columns (:func:`~tidelake.types.predicate.bind`), after which
its literals are storage values.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidelake.errors import InvalidInputError, shortened

NEGATED = {"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
OPERATORS = frozenset(NEGATED)
NESTING_MAX = 128
"""Levels of AND, OR and NOT in a condition; pickling and printing recurse several times a level."""


class Predicate:
    """A condition on rows; combine with ``&``, ``|`` and ``~``. Picklable."""

    __slots__ = ()

    def __and__(self, other: Predicate) -> Predicate:
        return And((*conjuncts(self), *conjuncts(_checked(other))))

    def __or__(self, other: Predicate) -> Predicate:
        return Or((*_disjuncts(self), *_disjuncts(_checked(other))))

    def __invert__(self) -> Predicate:
        return Not(self)

    def __bool__(self) -> bool:
        message = (
            "A condition has no truth value of its own: combine conditions with &, | and"
            " ~ (not with and, or, not), each in parentheses, and write a <= x <= b as two"
            " conditions."
        )
        raise InvalidInputError(message, kind="predicate_truth")


@dataclass(frozen=True, slots=True)
class Compare(Predicate):
    """``column op literal``; floats are totally ordered: NaN equals itself and is largest."""

    op: str
    column: str
    literal: object

    def __post_init__(self) -> None:
        assert self.op in OPERATORS, f"'{self.op}' is not a comparison"

    def __str__(self) -> str:
        return f"{self.column} {self.op} {self.literal!r}"


@dataclass(frozen=True, slots=True)
class In(Predicate):
    """``column IN (literals)``; unknown where nothing is equal and a literal is null."""

    column: str
    literals: tuple[object, ...]

    def __str__(self) -> str:
        return f"{self.column} IN ({', '.join(repr(v) for v in self.literals)})"


@dataclass(frozen=True, slots=True)
class IsNull(Predicate):
    """``column IS NULL``."""

    column: str

    def __str__(self) -> str:
        return f"{self.column} IS NULL"


@dataclass(frozen=True, slots=True)
class NotNull(Predicate):
    """``column IS NOT NULL``."""

    column: str

    def __str__(self) -> str:
        return f"{self.column} IS NOT NULL"


@dataclass(frozen=True, slots=True)
class StartsWith(Predicate):
    """``column LIKE 'prefix%'``, for strings and binaries."""

    column: str
    prefix: str | bytes

    def __str__(self) -> str:
        return f"{self.column} STARTS WITH {self.prefix!r}"


@dataclass(frozen=True, slots=True)
class And(Predicate):
    """All parts hold; true without parts."""

    parts: tuple[Predicate, ...]

    def __str__(self) -> str:
        return " AND ".join(f"({p})" if isinstance(p, Or) else str(p) for p in self.parts)


@dataclass(frozen=True, slots=True)
class Or(Predicate):
    """At least one part holds; false without parts."""

    parts: tuple[Predicate, ...]

    def __str__(self) -> str:
        return " OR ".join(f"({p})" if isinstance(p, And) else str(p) for p in self.parts)


@dataclass(frozen=True, slots=True)
class Not(Predicate):
    """The part is false (not: unknown)."""

    part: Predicate

    def __str__(self) -> str:
        return f"NOT ({self.part})"


@dataclass(frozen=True, slots=True)
class Always(Predicate):
    """The same for every row."""

    value: bool

    def __str__(self) -> str:
        return "TRUE" if self.value else "FALSE"


class col:
    """A column in a condition.

    Examples
    --------
    >>> print((col("a") >= 3) & ~col("b").isin(["x", "y"]))
    a >= 3 AND NOT (b IN ('x', 'y'))
    """

    __slots__ = ("name",)
    __hash__ = None  # type: ignore[assignment] # == makes a condition, so it cannot find equals

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"col({self.name!r})"

    def __eq__(self, other: object) -> Predicate:  # type: ignore[override]
        return Compare("==", self.name, other)

    def __ne__(self, other: object) -> Predicate:  # type: ignore[override]
        return Compare("!=", self.name, other)

    def __lt__(self, other: object) -> Predicate:
        return Compare("<", self.name, other)

    def __le__(self, other: object) -> Predicate:
        return Compare("<=", self.name, other)

    def __gt__(self, other: object) -> Predicate:
        return Compare(">", self.name, other)

    def __ge__(self, other: object) -> Predicate:
        return Compare(">=", self.name, other)

    def isin(self, values: Iterable[object]) -> Predicate:
        """Equal to one of the values, which are a list or another iterable, and no text."""
        if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
            message = (
                f"isin({shortened(repr(values))}) of column '{shortened(self.name)}' needs a list:"
                f" write isin([{shortened(repr(values))}])."
            )
            raise InvalidInputError(message, kind="predicate_values", column=self.name)
        return In(self.name, tuple(values))

    def is_null(self) -> Predicate:
        """Without a value."""
        return IsNull(self.name)

    def is_not_null(self) -> Predicate:
        """With a value."""
        return NotNull(self.name)

    def startswith(self, prefix: str | bytes) -> Predicate:
        """Begins with a prefix."""
        return StartsWith(self.name, prefix)

    def between(self, low: object, high: object) -> Predicate:
        """From `low` to `high`, both included."""
        return (self >= low) & (self <= high)


def _checked(other: object) -> Predicate:
    if not isinstance(other, Predicate):
        message = (
            f"{shortened(repr(other))} is not a condition. Put each comparison in parentheses:"
            " (col('a') > 1) & (col('b') == 2)."
        )
        raise InvalidInputError(message, kind="predicate_part")
    return other


def _disjuncts(predicate: Predicate) -> tuple[Predicate, ...]:
    return predicate.parts if isinstance(predicate, Or) else (predicate,)


def check_nesting(predicate: Predicate) -> None:
    """Refuse a condition that is nested too deep for the functions that recurse over it.

    Raises
    ------
    InvalidInputError
        More than :data:`NESTING_MAX` levels.
    """
    level: list[Predicate] = [predicate]
    for _ in range(NESTING_MAX + 1):
        below: dict[int, Predicate] = {}  # a part that is shared counts once
        for node in level:
            match node:
                case And(parts) | Or(parts):
                    below.update((id(part), part) for part in parts)
                case Not(part):
                    below[id(part)] = part
        if not below:
            return
        level = list(below.values())
    message = (
        f"The condition is nested more than {NESTING_MAX} levels deep. Join alternatives of one"
        " column by isin([...]), and parts of one kind without other kinds between them."
    )
    raise InvalidInputError(message, kind="predicate_nested")


def columns_of(predicate: Predicate | None) -> frozenset[str]:
    """Give the columns that a condition names.

    Examples
    --------
    >>> sorted(columns_of((col("a") == 1) | col("b").is_null()))
    ['a', 'b']
    """
    match predicate:
        case And(parts) | Or(parts):
            return frozenset[str]().union(*(columns_of(p) for p in parts))
        case Not(part):
            return columns_of(part)
        case Compare(column=name) | In(column=name) | StartsWith(column=name):
            return frozenset({name})
        case IsNull(name) | NotNull(name):
            return frozenset({name})
    return frozenset()


def conjuncts(predicate: Predicate | None) -> tuple[Predicate, ...]:
    """Give the conditions that must all hold; none for None.

    Examples
    --------
    >>> len(conjuncts((col("a") == 1) & (col("b") == 2) & (col("c") == 3)))
    3
    """
    if predicate is None:
        return ()
    if isinstance(predicate, And):
        return tuple(c for part in predicate.parts for c in conjuncts(part))
    return (predicate,)


def conjoin(parts: Iterable[Predicate]) -> Predicate | None:
    """Give the condition that all of `parts` hold; None without parts.

    Examples
    --------
    >>> conjoin([]) is None, conjoin([col("a") == 1])
    (True, Compare(op='==', column='a', literal=1))
    """
    together = tuple(parts)
    if not together:
        return None
    return together[0] if len(together) == 1 else And(together)
