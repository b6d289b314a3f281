"""Finds the position of each SELECT's list in the text of a query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tidelake.errors import UnsupportedError
from tidelake.sql.query.query import ParsedQuery
from tidelake.sql.syntax.sqlglot_dialect import exp
from tidelake.sql.syntax.tokens import Token, error_at

_AFTER_ITEMS = frozenset(
    {"FROM", "WHERE", "UNION", "EXCEPT", "INTERSECT", "MINUS", "LATERAL", "GROUP", "HAVING"}
    | {"ORDER", "LIMIT", "WINDOW", "QUALIFY", "CLUSTER", "DISTRIBUTE", "SORT"}
)
"""Keywords that may follow the list of a SELECT."""


@dataclass(frozen=True, slots=True)
class SelectList:
    """Offsets of one SELECT.

    Parameters
    ----------
    start : int
        Behind the word SELECT, where hints may stand.
    end : int
        Behind the last item.
    """

    start: int
    end: int


def select_lists(parsed: ParsedQuery) -> dict[int, SelectList]:
    """Return the offsets of the SELECTs of a query, by the ids of their nodes.

    Raises
    ------
    UnsupportedError
        A part of the query does not begin with SELECT.

    Examples
    --------
    >>> from tidelake.sql.query.query import parse_query
    >>> from tidelake.sql.syntax.ast import Query
    >>> text = "SELECT id FROM t"
    >>> list(select_lists(parse_query(Query(text, 0, len(text)))).values())
    [SelectList(start=6, end=9)]
    """
    # words and nodes come in the order of the text
    nodes = list(_selects(parsed.tree))
    found = _lists_by_words(parsed.tokens)
    has_pipes = any(token.text == "|>" and not token.is_quoted for token in parsed.tokens)
    if has_pipes or len(nodes) != len(found):
        raise error_at(
            parsed.query.text,
            parsed.query.start,
            "A query over a stream of changes begins each of its parts with SELECT.",
            kind="sql_row_kinds",
            error=UnsupportedError,
        )
    return {id(node): one for node, one in zip(nodes, found, strict=True)}


def _selects(node: exp.Expr) -> Iterator[exp.Select]:
    """Yield the SELECTs in the order of the text."""
    clause = node.args.get("with_")
    if clause is not None:
        yield from _selects(clause)
    if isinstance(node, exp.Select):
        yield node
    for key, value in node.args.items():
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, exp.Expr) and key != "with_":
                yield from _selects(child)


def _lists_by_words(tokens: Sequence[Token]) -> list[SelectList]:
    starts: list[int] = []
    ends: list[int] = []
    waiting: list[tuple[int, int]] = []  # number and depth of SELECTs whose list has not ended
    depth, last, before = 0, 0, ""
    for token in tokens:
        is_star = token.upper == "EXCEPT" and before == "*"  # inside the list, not the query's own
        is_end = (token.upper in _AFTER_ITEMS or token.upper == ")") and not is_star
        if waiting and is_end and waiting[-1][1] == depth:
            ends[waiting.pop()[0]] = last
        depth += token.nesting
        if token.upper == "SELECT":
            waiting.append((len(ends), depth))
            starts.append(token.end)
            ends.append(0)
        last, before = token.end, token.upper
    for number, _ in waiting:
        ends[number] = last
    return [SelectList(start, end) for start, end in zip(starts, ends, strict=True)]
