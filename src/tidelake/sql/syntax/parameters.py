"""Parameters of statements: ``:name`` and ``?`` in a text, and literals for them.

Spark takes the parameters of a query itself. Statements that change rows are carried out here, and
their expressions in pieces; so literals are put where the parameters stand before the statement is
read, and filters on them prune files as any others.

A literal is written so that neither a setting of the session nor what stands before it gives it
another meaning: text with a quote, a backslash, a dollar (Spark replaces ``${...}`` in what it is
given) or a sign that cannot be seen goes as its bytes, and a negative number in parentheses (two
minuses begin a comment).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

import numpy as np

from tidelake.errors import InvalidInputError, UnsupportedError, near_names, shortened
from tidelake.sql.syntax.tokens import Word, fault, plain_text, words_of

__all__ = ["literal_text", "with_literals"]

_INT_MAX = 2**31
_LONG_MAX = 2**63
_OPERAND_ENDS = frozenset({")", "]"})


def with_literals(text: str, args: Mapping[str, object] | Sequence[object]) -> str:
    """Give a text in which the values stand where its parameters stood.

    Parameters
    ----------
    text : str
        One statement.
    args : mapping or sequence
        Values by name for ``:name``, in their order for ``?``.

    Raises
    ------
    InvalidInputError
        A parameter has no value, or a value no ``?``; the place is shown.
    UnsupportedError
        A value has no literal.

    Examples
    --------
    >>> with_literals("UPDATE t SET v = :v WHERE day = :day", {"v": "a", "day": date(2026, 1, 2)})
    "UPDATE t SET v = 'a' WHERE day = DATE '2026-01-02'"
    >>> with_literals("DELETE FROM t WHERE k IN (?, ?)", [1, None])
    'DELETE FROM t WHERE k IN (1, NULL)'
    """
    found = list(_parameters(words_of(text)))
    pieces: list[str] = []
    at = used = 0
    plain = plain_text(text)
    for start, end, name in found:
        if isinstance(args, Mapping):
            if name is None:
                message = "This ? has no value: args= is a mapping, which gives values to :name."
                raise fault(text, start, message, kind="sql_args")
            if name not in args:
                message = f":{name} has no value in args=.{near_names(name, list(args))}"
                raise fault(text, start, message, kind="sql_args")
            value = args[name]
        else:
            if name is not None:
                message = f":{name} has no value: args= is a list, which gives values to ?."
                raise fault(text, start, message, kind="sql_args")
            if used == len(args):
                message = f"This ? has no value: args= has {len(args)}."
                raise fault(text, start, message, kind="sql_args")
            value = args[used]
            used += 1
        pieces += (plain[at:start], literal_text(value, f":{name}" if name else f"? {used}"))
        at = end
    if not isinstance(args, Mapping) and used < len(args):
        message = f"args= has {len(args)} values, the statement {used} ?."
        raise InvalidInputError(message, kind="sql_args")
    return "".join((*pieces, plain[at:]))


def _parameters(words: Sequence[Word]) -> Iterator[tuple[int, int, str | None]]:
    """Where parameters stand, and their names."""
    for number, word in enumerate(words):
        if word.is_quoted:
            continue
        if word.text == "?":
            yield word.start, word.end, None
        following = words[number + 1] if number + 1 < len(words) else None
        if word.text != ":" or following is None:
            continue
        before = words[number - 1] if number else None
        is_operand = before is not None and (before.is_name or before.text in _OPERAND_ENDS)
        if is_operand and before is not None and before.end == word.start:
            continue  # ``column:field`` of a variant
        if following.is_name and following.start == word.end:
            yield word.start, following.end, following.text


def literal_text(value: object, what: str) -> str:
    r"""Write a value as a literal of Spark's SQL.

    Parameters
    ----------
    value : object
        None, a truth, a number, text, bytes, a date, a time, a list or a dict of them.
    what : str
        What messages call it.

    Examples
    --------
    >>> [literal_text(v, "v") for v in (True, 3, 2**40, 0.5, Decimal("1.20"), b"\x01", [1, 2])]
    ['TRUE', '3', '1099511627776L', '0.5D', '1.20BD', "X'01'", 'array(1, 2)']
    >>> literal_text("it's", "v")
    "CAST(X'69742773' AS STRING)"
    """
    if isinstance(value, (np.datetime64, np.timedelta64)) and _is_fine(value):
        value = value.astype(f"{value.dtype.kind}8[us]")  # Python would make a whole number of it
    if isinstance(value, np.generic):
        value = value.item()
    if hasattr(value, "to_pydatetime"):  # pandas' own times know zones otherwise
        value = value.to_pydatetime(warn=False)
    if isinstance(value, datetime) and str(value) == "NaT":  # how pandas says that there is none
        value = None
    if value is None or isinstance(value, bool):
        return "NULL" if value is None else str(value).upper()
    if isinstance(value, (int, float, Decimal)):
        text = _number(value, what)
        return f"({text})" if text.startswith("-") else text
    if isinstance(value, str):
        is_plain = value.isprintable() and not any(sign in value for sign in "'\\$")
        return f"'{value}'" if is_plain else f"CAST(X'{value.encode().hex()}' AS STRING)"
    if isinstance(value, (bytes, bytearray)):
        return f"X'{bytes(value).hex()}'"
    if isinstance(value, (date, time, timedelta)):
        return _time(value)
    if isinstance(value, Mapping):
        inside = [literal_text(v, what) for pair in value.items() for v in pair]
        return f"map({', '.join(inside)})"
    if isinstance(value, (list, tuple, np.ndarray)):
        return f"array({', '.join(literal_text(v, what) for v in value)})"
    message = (
        f"{what} is {shortened(repr(value))}, which has no literal: give None, a truth, a number,"
        " text, bytes, a date, a time, or a list or dict of them."
    )
    raise UnsupportedError(message, kind="sql_args")


def _is_fine(value: np.datetime64 | np.timedelta64) -> bool:
    """Whether a time is of nanoseconds, or finer."""
    return np.datetime_data(value.dtype)[0] in {"ns", "ps", "fs", "as"}


def _number(value: float | Decimal, what: str) -> str:
    if isinstance(value, int):
        if -_INT_MAX <= value < _INT_MAX:
            return str(value)
        if -_LONG_MAX <= value < _LONG_MAX:
            return f"{value}L"
        message = f"{what} is {shortened(str(value))}, more than a BIGINT: give a Decimal."
        raise InvalidInputError(message, kind="sql_args")
    if isinstance(value, float):
        return f"{value!r}D" if math.isfinite(value) else f"double('{value}')"
    if not value.is_finite():
        message = f"{what} is {value}, which no DECIMAL holds."
        raise InvalidInputError(message, kind="sql_args")
    return f"{value:f}BD"


def _time(value: date | time | timedelta) -> str:
    if isinstance(value, datetime):
        # without a zone it is the machine's, as for Spark
        at = value.astimezone(UTC).replace(tzinfo=None)
        return f"TIMESTAMP_LTZ '{at.isoformat(' ')}Z'"
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, time):
        return f"TIME '{value.isoformat()}'"
    micros = value // timedelta(microseconds=1)
    return f"make_dt_interval(0, 0, 0, CAST({micros} AS DECIMAL(18, 0)) / 1000000)"
