"""A chain of ``|>`` as nested queries, for sqlglot.

Spark runs the chain as it is written. The nested queries have the same tables, names and filters:

1. A chain begins with a query: ``FROM t``, ``SELECT ...``, ``VALUES ...``. WITH before it stays
   before all.
2. ``WHERE`` and ``JOIN`` extend an open FROM, so that its filters may prune files.
3. ``SELECT``, ``EXTEND``, ``SET``, ``DROP`` and ``AGGREGATE`` become the list of a SELECT over what
   came before.
4. Any other step (``ORDER BY``, ``LIMIT``, ``UNION``, ``PIVOT``, ...) follows ``SELECT * FROM``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidelake.sql.syntax.sqlglot_dialect import SqlglotToken, TokenType, keyword, made_token

_JOINS = frozenset({"JOIN", "INNER", "CROSS", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI", "NATURAL"})
_CLOSES = frozenset(
    {"WHERE", "GROUP", "ORDER", "HAVING", "LIMIT", "OFFSET", "WINDOW", "QUALIFY", "CLUSTER"}
    | {"SORT", "DISTRIBUTE", "UNION", "EXCEPT", "MINUS", "INTERSECT", "SELECT", "LATERAL"}
    | {"TABLESAMPLE", "PIVOT", "UNPIVOT", "INSERT"}
)
"""Keywords after which FROM takes neither JOIN nor WHERE."""


@dataclass(frozen=True, slots=True)
class _Chain:
    """A query so far.

    Parameters
    ----------
    words : list of SqlglotToken
        The whole query, or from its FROM on if all columns are taken.
    is_from : bool
        True if `words` begin with FROM.
    takes_where : bool
        True if WHERE may follow.
    """

    words: list[SqlglotToken]
    is_from: bool
    takes_where: bool


def without_pipes(tokens: Sequence[SqlglotToken]) -> list[SqlglotToken]:
    """Return tokens without ``|>``; tokens that stay keep their offsets."""
    if not any(token.token_type is TokenType.PIPE_GT for token in tokens):
        return list(tokens)
    levels: list[list[SqlglotToken]] = [[]]
    for token in tokens:
        if token.token_type is TokenType.R_PAREN and len(levels) > 1:
            inner = _unchained(levels.pop())
            levels[-1] += inner
        levels[-1].append(token)
        if token.token_type is TokenType.L_PAREN:
            levels.append([])
    while len(levels) > 1:  # a parenthesis is missing: sqlglot says where
        inner = levels.pop()
        levels[-1] += inner
    return _unchained(levels[0])


def _unchained(tokens: list[SqlglotToken]) -> list[SqlglotToken]:
    """Nest the chain of one level of parentheses, without those inside."""
    steps: list[list[SqlglotToken]] = [[]]
    pipes: list[SqlglotToken] = []
    depth = 0
    for token in tokens:
        depth += _nesting(token)
        if depth == 0 and token.token_type is TokenType.PIPE_GT:
            steps.append([])
            pipes.append(token)
        else:
            steps[-1].append(token)
    if not pipes:
        return tokens
    head = _end_of_with(steps[0])
    first = steps[0][head:]
    chain = _Chain(first, is_from=False, takes_where=False)
    opened = _opened(first)
    if opened is not None:
        chain = _Chain(opened, is_from=True, takes_where=True)
    for pipe, step in zip(pipes, steps[1:], strict=True):
        chain = _with_step(chain, step, pipe) if step else chain
    return [*steps[0][:head], *_whole(chain, pipes[-1])]


def _opened(words: list[SqlglotToken]) -> list[SqlglotToken] | None:
    """The query from its FROM on, if it takes all columns and ends with its sources."""
    keywords = [keyword(token) for token in words]
    start = 2 if keywords[:3] == ["SELECT", "*", "FROM"] else 0
    depth = 0
    for token, word in zip(words[start:], keywords[start:], strict=True):
        depth += _nesting(token)
        if depth == 0 and word in _CLOSES:
            return None
    return words[start:] if keywords[start : start + 1] == ["FROM"] else None


def _with_step(chain: _Chain, step: list[SqlglotToken], pipe: SqlglotToken) -> _Chain:
    """Add one step to a chain."""
    select = made_token(TokenType.SELECT, "SELECT", pipe)
    star, comma = made_token(TokenType.STAR, "*", pipe), made_token(TokenType.COMMA, ",", pipe)
    head, rest = keyword(step[0]), step[1:]
    source = chain.words if chain.is_from else _nested(chain, pipe)
    if head == "WHERE" or head in _JOINS:
        if chain.is_from and not chain.takes_where:
            source = _nested(chain, pipe)
        return _Chain([*source, *step], is_from=True, takes_where=head != "WHERE")
    if head == "AS":
        return _Chain([*_nested(chain, pipe), *step], is_from=True, takes_where=True)
    listed = {
        "SELECT": rest,
        "AGGREGATE": _aggregated(rest, comma),
        "EXTEND": [star, comma, *rest],
        "SET": [star, comma, *rest],
        "DROP": _dropped(rest, star),
    }.get(head)
    if listed is not None:
        return _Chain([select, *listed, *source], is_from=False, takes_where=False)
    words = [select, star, *_nested(chain, pipe), *step]
    return _Chain(words, is_from=False, takes_where=False)


def _nested(chain: _Chain, pipe: SqlglotToken) -> list[SqlglotToken]:
    """``FROM (...)`` around a chain."""
    return [
        made_token(TokenType.FROM, "FROM", pipe),
        made_token(TokenType.L_PAREN, "(", pipe),
        *_whole(chain, pipe),
        made_token(TokenType.R_PAREN, ")", pipe),
    ]


def _whole(chain: _Chain, pipe: SqlglotToken) -> list[SqlglotToken]:
    if not chain.is_from:
        return chain.words
    select = made_token(TokenType.SELECT, "SELECT", pipe)
    return [select, made_token(TokenType.STAR, "*", pipe), *chain.words]


def _aggregated(words: list[SqlglotToken], comma: SqlglotToken) -> list[SqlglotToken]:
    """Aggregates and keys as one list; DISTINCT says that rows are not those of the table."""
    depth = 0
    for number, token in enumerate(words):
        depth += _nesting(token)
        if depth == 0 and token.token_type is TokenType.GROUP_BY:
            distinct = made_token(TokenType.DISTINCT, "DISTINCT", comma)
            before = [*words[:number], comma] if number else []
            return [distinct, *before, *words[number + 1 :]]
    return words


def _dropped(words: list[SqlglotToken], star: SqlglotToken) -> list[SqlglotToken]:
    """``* EXCEPT (...)``."""
    return [
        star,
        made_token(TokenType.EXCEPT, "EXCEPT", star),
        made_token(TokenType.L_PAREN, "(", star),
        *words,
        made_token(TokenType.R_PAREN, ")", star),
    ]


def _end_of_with(words: Sequence[SqlglotToken]) -> int:
    """Number of tokens of WITH before a query."""
    if not words or keyword(words[0]) != "WITH":
        return 0
    depth = 0
    for number, token in enumerate(words):
        depth += _nesting(token)
        following = keyword(words[number + 1]) if number + 1 < len(words) else ""
        is_end = depth == 0 and token.token_type is TokenType.R_PAREN
        if is_end and following not in {",", "AS", "("}:
            return number + 1
    return 0


def _nesting(token: SqlglotToken) -> int:
    return (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
