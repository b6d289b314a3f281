"""Parameters of statements, ``:name`` and ``?``, and the literals that replace them.

Spark binds the parameters of a query itself. UPDATE, DELETE and MERGE hand their expressions to
Spark one by one; so literals replace the parameters before such a statement is parsed, and filters
on them prune files as usual.

No session setting and no preceding text changes the meaning of a literal. Text with a quote, a
backslash, a dollar (Spark substitutes ``${...}``) or an unprintable character is written as its
bytes. A negative number is written in parentheses (two minuses begin a comment).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

import numpy as np

from tidelake.errors import InvalidInputError, UnsupportedError, near_names, shortened
from tidelake.sql.syntax.tokens import Token, error_at, plain_text, tokenize

_INT_MAX = 2**31
_LONG_MAX = 2**63
_OPERAND_ENDS = frozenset({")", "]"})


def bind_parameters(text: str, args: Mapping[str, object] | Sequence[object]) -> str:
    """Replace the parameters of a text by literals.

    Parameters
    ----------
    args : mapping or sequence
        Values by name for ``:name``, in their order for ``?``.

    Raises
    ------
    InvalidInputError
        A parameter has no value, or a value has no ``?``.
    UnsupportedError
        A value has no literal.

    Examples
    --------
    >>> bind_parameters("UPDATE t SET v = :v WHERE day = :day", {"v": "a", "day": date(2026, 1, 2)})
    "UPDATE t SET v = 'a' WHERE day = DATE '2026-01-02'"
    >>> bind_parameters("DELETE FROM t WHERE k IN (?, ?)", [1, None])
    'DELETE FROM t WHERE k IN (1, NULL)'
    """
    found = list(_parameters(tokenize(text)))
    pieces: list[str] = []
    at = used = 0
    plain = plain_text(text)
    for start, end, name in found:
        if isinstance(args, Mapping):
            if name is None:
                message = "This ? has no value: args= is a mapping, which gives values to :name."
                raise error_at(text, start, message, kind="sql_args")
            if name not in args:
                message = f":{name} has no value in args=.{near_names(name, list(args))}"
                raise error_at(text, start, message, kind="sql_args")
            value = args[name]
        else:
            if name is not None:
                message = f":{name} has no value: args= is a list, which gives values to ?."
                raise error_at(text, start, message, kind="sql_args")
            if used == len(args):
                message = f"This ? has no value: args= has {len(args)}."
                raise error_at(text, start, message, kind="sql_args")
            value = args[used]
            used += 1
        pieces += (plain[at:start], sql_literal(value, f":{name}" if name else f"? {used}"))
        at = end
    if not isinstance(args, Mapping) and used < len(args):
        message = f"args= has {len(args)} values, the statement {used} ?."
        raise InvalidInputError(message, kind="sql_args")
    return "".join((*pieces, plain[at:]))


def _parameters(tokens: Sequence[Token]) -> Iterator[tuple[int, int, str | None]]:
    """Offsets and names of the parameters."""
    for number, token in enumerate(tokens):
        if token.is_quoted:
            continue
        if token.text == "?":
            yield token.start, token.end, None
        following = tokens[number + 1] if number + 1 < len(tokens) else None
        if token.text != ":" or following is None:
            continue
        before = tokens[number - 1] if number else None
        is_operand = before is not None and (before.is_name or before.text in _OPERAND_ENDS)
        if is_operand and before is not None and before.end == token.start:
            continue  # ``column:field`` of a variant
        if following.is_name and following.start == token.end:
            yield token.start, following.end, following.text


def sql_literal(value: object, what: str) -> str:
    r"""Write a value as a literal of Spark SQL.

    Parameters
    ----------
    value : object
        None, a bool, a number, text, bytes, a date, a time, or a list or dict of these.

    Examples
    --------
    >>> [sql_literal(v, "v") for v in (True, 3, 2**40, 0.5, Decimal("1.20"), b"\x01", [1, 2])]
    ['TRUE', '3', '1099511627776L', '0.5D', '1.20BD', "X'01'", 'array(1, 2)']
    >>> sql_literal("it's", "v")
    "CAST(X'69742773' AS STRING)"
    """
    if isinstance(value, (np.datetime64, np.timedelta64)) and _is_fine(value):
        value = value.astype(f"{value.dtype.kind}8[us]")  # item() would give an integer
    if isinstance(value, np.generic):
        value = value.item()
    if hasattr(value, "to_pydatetime"):  # pandas stores zones in another way
        value = value.to_pydatetime(warn=False)
    if isinstance(value, datetime) and str(value) == "NaT":  # pandas' null
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
        inside = [sql_literal(v, what) for pair in value.items() for v in pair]
        return f"map({', '.join(inside)})"
    if isinstance(value, (list, tuple, np.ndarray)):
        return f"array({', '.join(sql_literal(v, what) for v in value)})"
    message = (
        f"{what} is {shortened(repr(value))}, which has no literal: give None, a bool, a number,"
        " text, bytes, a date, a time, or a list or dict of them."
    )
    raise UnsupportedError(message, kind="sql_args")


def _is_fine(value: np.datetime64 | np.timedelta64) -> bool:
    """True for nanoseconds and finer units."""
    return np.datetime_data(value.dtype)[0] in {"ns", "ps", "fs", "as"}


def _number(value: float | Decimal, what: str) -> str:
    if isinstance(value, int):
        if -_INT_MAX <= value < _INT_MAX:
            return str(value)
        if -_LONG_MAX <= value < _LONG_MAX:
            return f"{value}L"
        message = f"{what} is {shortened(str(value))}, too large for a BIGINT: give a Decimal."
        raise InvalidInputError(message, kind="sql_args")
    if isinstance(value, float):
        return f"{value!r}D" if math.isfinite(value) else f"double('{value}')"
    if not value.is_finite():
        message = f"{what} is {value}, which no DECIMAL holds."
        raise InvalidInputError(message, kind="sql_args")
    return f"{value:f}BD"


def _time(value: date | time | timedelta) -> str:
    if isinstance(value, datetime):
        # without a zone: the machine's, as in Spark
        at = value.astimezone(UTC).replace(tzinfo=None)
        return f"TIMESTAMP_LTZ '{at.isoformat(' ')}Z'"
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, time):
        return f"TIME '{value.isoformat()}'"
    micros = value // timedelta(microseconds=1)
    return f"make_dt_interval(0, 0, 0, CAST({micros} AS DECIMAL(18, 0)) / 1000000)"
