"""The forms of a filter: a predicate, SQL text, or tuples as in pyarrow."""

from __future__ import annotations

from collections.abc import Sequence

from tidelake.errors import InvalidInputError, shortened
from tidelake.types.predicate.node import (
    And,
    Compare,
    In,
    Not,
    Or,
    Predicate,
    check_nesting,
    conjoin,
)
from tidelake.types.predicate.text import parse_text

_COMPARISONS = {
    "=": "==",
    "==": "==",
    "!=": "!=",
    "<>": "!=",
    "<": "<",
    "<=": "<=",
    ">": ">",
    ">=": ">=",
}


def parse_filter(given: object) -> Predicate | None:
    """Return the unbound predicate of a filter in any of its forms.

    Parameters
    ----------
    given : Predicate, str, tuple, list or None
        SQL text (see :mod:`tidelake.types.predicate.text`); ``(column, op, value)``; a list of
        these, which must all hold; or a list of such lists, one of which must hold. Operators:
        ``= == != <> < <= > >= in``, ``not in``.

    Raises
    ------
    InvalidInputError
        Not a filter, or nested too deep; for text the message points to the position.

    Examples
    --------
    >>> print(parse_filter([("a", ">", 1), ("b", "in", ["x"])]))
    a > 1 AND b IN ('x')
    >>> print(parse_filter("a > 1 OR b IS NULL"))
    a > 1 OR b IS NULL
    """
    if given is None:
        return None
    if isinstance(given, (Predicate, str)):
        predicate = parse_text(given) if isinstance(given, str) else given
        check_nesting(predicate)
        return predicate
    if _is_condition(given):
        return _condition(given)
    if not isinstance(given, (list, tuple)) or not given:
        raise _refused(given)
    if all(_is_condition(part) for part in given):
        return conjoin(_condition(part) for part in given)
    alternatives = []
    for group in given:
        if not isinstance(group, (list, tuple)) or not group or not all(map(_is_condition, group)):
            raise _refused(group)
        alternatives.append(And(tuple(_condition(part) for part in group)))
    return alternatives[0] if len(alternatives) == 1 else Or(tuple(alternatives))


def _is_condition(part: object) -> bool:
    return (
        isinstance(part, (tuple, list))
        and len(part) == 3
        and isinstance(part[0], str)
        and isinstance(part[1], str)
    )


def _condition(part: object) -> Predicate:
    assert isinstance(part, Sequence), "checked by the caller"
    name, op, value = part
    word = " ".join(op.lower().split())
    if word in _COMPARISONS:
        return Compare(_COMPARISONS[word], name, value)
    if word in {"in", "not in"}:
        if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
            message = f"The filter {shortened(repr(part))} needs a list of values after '{op}'."
            raise InvalidInputError(message, kind="filter_form", column=name)
        choice = In(name, tuple(value))
        return choice if word == "in" else Not(choice)
    message = (
        f"'{shortened(op)}' in the filter {shortened(repr(part))} is not an operator. Use one of: ="
        " != < <= > >= in, 'not in'."
    )
    raise InvalidInputError(message, kind="filter_form", column=name)


def _refused(given: object) -> InvalidInputError:
    message = (
        f"{shortened(repr(given))} is not a filter. Give SQL text (\"a > 1 AND b = 'x'\"), a"
        " condition (col('a') > 1), or tuples ([('a', '>', 1), ('b', '=', 'x')])."
    )
    return InvalidInputError(message, kind="filter_form")
