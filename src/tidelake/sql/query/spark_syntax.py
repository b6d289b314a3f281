"""Spellings of Spark that sqlglot does not parse, respelled in its tokens.

Spark gets the query as it is written; sqlglot gets what has the same tables, columns and filters:

- ``TABLE t`` as ``SELECT * FROM t``, and a chain of ``|>`` as nested queries
  (:mod:`tidelake.sql.query.pipes`);
- ``v:a.b[0]``, a path in a variant, as ``v``;
- ``a >>> b`` as ``a >> b``;
- ``corr(DISTINCT a, b)`` as ``corr(a, b)``;
- ``shuffle(x, seed)``, and after a failure any other call with arguments that sqlglot does not
  expect, as the call of a function that it does not know;
- ``WITH RECURSIVE r MAX RECURSION LEVEL 5 AS (...)`` without the limit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from tidelake.sql.query.pipes import without_pipes
from tidelake.sql.syntax.sqlglot_dialect import (
    PLAIN_FUNCTIONS,
    SqlglotToken,
    TokenType,
    keyword,
    made_token,
)

_OF_TWO = frozenset({"CORR", "COVAR_POP", "COVAR_SAMP"})
"""Aggregates of two columns."""
_MORE_ARGUMENTS = frozenset({"SHUFFLE"})
_NESTED_TYPES = frozenset({TokenType.STRUCT, TokenType.ARRAY, TokenType.MAP})
_VALUE_ENDS = frozenset(
    {TokenType.VAR, TokenType.IDENTIFIER, TokenType.R_PAREN, TokenType.R_BRACKET}
)
_LIMIT = ("MAX", "RECURSION", "LEVEL")
_BEFORE_QUERIES = frozenset(
    {"", "(", ")", "AS", "UNION", "EXCEPT", "MINUS", "INTERSECT", "ALL", "DISTINCT"}
)
_BEFORE_PARENTHESIS = frozenset(
    {"", "(", ",", "FROM", "JOIN", "LATERAL", "IN", "EXISTS", "ANY", "ALL", "SOME", "AS", "NOT"}
    | {"UNION", "EXCEPT", "MINUS", "INTERSECT", "DISTINCT", "USING", "SELECT", "WHERE", "ON"}
    | {"AND", "OR", "=", "<", ">", "<=", ">=", "<>", "!=", "+", "-", "*", "/", "WHEN", "THEN"}
)
"""What stands before a parenthesis around a query; a function's arguments follow its name."""


def for_sqlglot(stream: Sequence[SqlglotToken]) -> list[SqlglotToken]:
    """Return the tokens of a query as sqlglot can parse them."""
    tokens = list(_without_signs(with_unknown_calls(stream, _MORE_ARGUMENTS)))
    return without_pipes(list(_selects(tokens)))


def with_unknown_calls(
    tokens: Sequence[SqlglotToken], names: Collection[str] = PLAIN_FUNCTIONS
) -> list[SqlglotToken]:
    """Rename functions, so that sqlglot takes any arguments; never an aggregate."""
    kept: list[SqlglotToken] = []
    for number, token in enumerate(tokens):
        after = tokens[number + 1].token_type if number + 1 < len(tokens) else None
        if after is TokenType.L_PAREN and keyword(token) in names:
            renamed = f"{token.text}_"
            kept.append(
                SqlglotToken(TokenType.VAR, renamed, token.line, token.col, token.start, token.end)
            )
        else:
            kept.append(token)
    return kept


def is_table_query(words: Sequence[str], number: int) -> bool:
    """True if the word TABLE at a position begins a query.

    Examples
    --------
    >>> [is_table_query(text.split(), 2) for text in ("A UNION TABLE T", "TUMBLE ( TABLE T")]
    [True, False]
    >>> is_table_query("IN ( TABLE T )".split(), 2)
    True
    """
    if words[number] != "TABLE" or number + 1 == len(words) or words[number + 1] == "(":
        return False
    before = words[number - 1] if number else ""
    if before != "(":
        return before in _BEFORE_QUERIES
    return (words[number - 2] if number > 1 else "") in _BEFORE_PARENTHESIS


def _selects(tokens: Sequence[SqlglotToken]) -> Iterator[SqlglotToken]:
    """Respell ``TABLE t``."""
    words = [keyword(token) for token in tokens]
    for number, token in enumerate(tokens):
        if token.token_type is TokenType.TABLE and is_table_query(words, number):
            yield made_token(TokenType.SELECT, "SELECT", token)
            yield made_token(TokenType.STAR, "*", token)
            yield made_token(TokenType.FROM, "FROM", token)
        else:
            yield token


def _without_signs(tokens: Sequence[SqlglotToken]) -> Iterator[SqlglotToken]:
    """Leave out what sqlglot refuses: paths, the third ``>``, limits of recursion, DISTINCT."""
    in_type, skip_to = 0, 0
    for number, token in enumerate(tokens):
        before = tokens[number - 1] if number else None
        if token.token_type is TokenType.LT:
            opens = before is not None and before.token_type in _NESTED_TYPES
            in_type += bool(in_type or opens)
        if number < skip_to:
            continue
        skip_to = number
        if not in_type:
            skip_to = number + _left_out(tokens, number)
        elif token.token_type is TokenType.GT:
            in_type -= 1
        if skip_to == number:
            yield token


def _left_out(tokens: Sequence[SqlglotToken], number: int) -> int:
    """Number of tokens to leave out here."""
    token = tokens[number]
    if token.token_type is TokenType.COLON:
        return _path_length(tokens, number)
    if token.token_type is TokenType.GT and number > 1:
        shift = tokens[number - 2 : number + 1]
        is_shift = all(one.token_type is TokenType.GT for one in shift)
        return int(is_shift and shift[0].start + 2 == token.start)
    if token.token_type is TokenType.DISTINCT and number > 1:
        return int(keyword(tokens[number - 2]) in _OF_TWO and tokens[number - 1].text == "(")
    words = tuple(keyword(one) for one in tokens[number : number + len(_LIMIT)])
    return len(_LIMIT) + 1 if words == _LIMIT else 0


def _path_length(tokens: Sequence[SqlglotToken], colon: int) -> int:
    """Number of tokens of a path with its colon; 0 if the colon begins a parameter."""
    before = tokens[colon - 1] if colon else None
    is_path = before is not None and before.token_type in _VALUE_ENDS
    if not is_path or before is None or before.end + 1 != tokens[colon].start:
        return 0
    end = colon + 1
    while end < len(tokens) and tokens[end].start == tokens[end - 1].end + 1:
        kind = tokens[end].token_type
        if kind is TokenType.L_BRACKET:
            while end < len(tokens) and tokens[end].token_type is not TokenType.R_BRACKET:
                end += 1
        elif tokens[end - 1].token_type not in {TokenType.COLON, TokenType.DOT} and (
            kind is not TokenType.DOT
        ):
            break  # after a colon or a dot comes a field's name, whatever keyword it is
        end += 1
    return end - colon
