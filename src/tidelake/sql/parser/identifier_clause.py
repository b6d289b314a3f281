"""``IDENTIFIER('db.t')``: a name given as text or as a parameter.

The name replaces the clause before the statement is parsed, so that it may stand wherever a name
may: of a table, column, function or database.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tidelake.errors import InvalidInputError, UnsupportedError, near_names, shortened
from tidelake.sql.syntax.name import quoted_name
from tidelake.sql.syntax.tokens import Token, error_at, plain_text, tokenize

_CLAUSE = "IDENTIFIER"
_NAMES = re.compile(r"(?:`(?:[^`]|``)+`|[\w$]+)(?:\.(?:`(?:[^`]|``)+`|[\w$]+))*")
_NAME = re.compile(r"`((?:[^`]|``)+)`|([\w$]+)")
_BEFORE_COLUMNS = frozenset({"TABLE", "INTO", "EXISTS"})
"""After these ``identifier (a, b)`` is a table of that name with its columns."""

Args = Mapping[str, object] | Sequence[object] | None


def with_plain_names(text: str, args: Args = None) -> tuple[str, Args]:
    """Replace the clauses IDENTIFIER(...) of a text by the names that they give.

    Returns
    -------
    text : str
        The text; unchanged without such a clause.
    args : mapping, sequence or None
        The values; those of ``?`` in clauses are left out.

    Raises
    ------
    InvalidInputError
        A parameter has no value, or the text is no name.
    UnsupportedError
        The clause holds another expression.

    Examples
    --------
    >>> with_plain_names("SELECT IDENTIFIER('o.' || 'id') FROM IDENTIFIER(:t) o", {"t": "db.t"})
    ('SELECT `o`.`id` FROM `db`.`t` o', {'t': 'db.t'})
    """
    if not isinstance(text, str) or _CLAUSE not in text.upper():
        return text, args
    tokens, plain = tokenize(text), plain_text(text)
    pieces: list[str] = []
    given = list(args) if isinstance(args, Sequence) else []
    taken: set[int] = set()
    at = number = marks = 0
    while number < len(tokens):
        marks += tokens[number].upper == "?"
        if not _is_clause(tokens, number):
            number += 1
            continue
        end = _end(text, tokens, number)
        parts: list[str] = []
        for token in _terms(text, tokens, number, end):
            if token.upper == "?":
                taken.add(marks)
                marks += 1
            parts.append(_value(text, token, args, given, marks - 1))
        pieces += (plain[at : tokens[number].start], _quoted(text, tokens[number], "".join(parts)))
        at = tokens[end].end
        number = end + 1
    if not pieces:
        return text, args
    left = [value for index, value in enumerate(given) if index not in taken]
    return "".join((*pieces, plain[at:])), left if given else args


def _is_clause(tokens: Sequence[Token], number: int) -> bool:
    following = tokens[number + 1 : number + 3]
    if tokens[number].upper != _CLAUSE or [w.text for w in following[:1]] != ["("]:
        return False
    before = tokens[number - 1].upper if number else ""
    is_text = len(following) > 1 and (following[1].is_string or following[1].upper in {":", "?"})
    return is_text or (before not in _BEFORE_COLUMNS and before != ".")


def _end(text: str, tokens: Sequence[Token], number: int) -> int:
    """Index of the closing parenthesis."""
    depth = 0
    for end in range(number + 1, len(tokens)):
        depth += tokens[end].nesting
        if depth == 0:
            return end
    raise error_at(text, tokens[number].start, "IDENTIFIER( has no end: close it with ).")


def _terms(text: str, tokens: Sequence[Token], number: int, end: int) -> list[Token]:
    """The strings and parameters of a clause: of ``:name`` its name."""
    terms: list[Token] = []
    index, is_term = number + 2, False
    while index < end:
        token = tokens[index]
        if is_term and token.upper == "||":
            is_term = False
        elif token.is_string or (token.upper == "?" and not is_term):
            terms.append(token)
            is_term = True
        elif token.upper == ":" and not is_term and tokens[index + 1].is_name:
            terms.append(tokens[index + 1])
            index, is_term = index + 1, True
        else:
            terms.clear()
            break
        index += 1
    if not terms or not is_term:
        message = "IDENTIFIER takes a string, a parameter, or several of them joined by ||."
        start = tokens[number].start
        raise error_at(text, start, message, kind="sql_clause", error=UnsupportedError)
    return terms


def _value(text: str, token: Token, args: Args, given: Sequence[object], mark: int) -> str:
    """The text of one term."""
    if token.is_string:
        return token.text
    if token.upper == "?" and not token.is_quoted:
        if mark >= len(given):
            raise error_at(text, token.start, "This ? has no value in args=.", kind="sql_args")
        value = given[mark]
    else:
        named = args if isinstance(args, Mapping) else {}
        if token.text not in named:
            near = near_names(token.text, list(named))
            message = f":{token.text} has no value in args=.{near}"
            raise error_at(text, token.start, message, kind="sql_args")
        value = named[token.text]
    if not isinstance(value, str):
        message = f"IDENTIFIER takes text, not {shortened(repr(value))}."
        raise error_at(text, token.start, message, kind="sql_args")
    return value


def _quoted(text: str, token: Token, name: str) -> str:
    if _NAMES.fullmatch(name) is None:
        message = f"'{shortened(name)}' is not a name: write special signs in backticks."
        raise error_at(text, token.start, message, kind="bad_name", error=InvalidInputError)
    parts = [
        found[1].replace("``", "`") if found[1] else found[2] for found in _NAME.finditer(name)
    ]
    return ".".join(quoted_name(part) for part in parts)
