"""Lookups that go by the primary key: each row looks its own up, and no table is read whole.

``JOIN dim FOR SYSTEM_TIME AS OF PROCTIME() AS d ON o.id = d.id`` is such a join if

1. it is inner or left, without USING, and its side is the table with no more than an alias;
2. its condition compares each column of the primary key with a column of a table joined before,
   joined by AND, and says nothing else;
3. no other join follows it: what replaces it, ``LATERAL VIEW``, stands behind all joins.

Any other lookup stays a join, for which the table is broadcast.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidelake.sql.query.query import ParsedQuery
from tidelake.sql.query.reference import TableReference
from tidelake.sql.syntax.sqlglot_dialect import conjuncts, exp, used_args
from tidelake.sql.syntax.tokens import Token

_JOIN_WORDS = frozenset({"INNER", "LEFT", "OUTER"})
_OF_JOIN = frozenset({"this", "side", "kind", "on"})
_OF_TABLE = frozenset({"this", "db", "catalog", "alias"})


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A column that a column of a primary key is compared with."""

    source: TableReference
    name: str


@dataclass(frozen=True, slots=True)
class KeyedLookup:
    """A lookup by the whole primary key.

    Parameters
    ----------
    start, end : int
        Offsets of the join, from its first word to the end of its condition.
    is_outer : bool
        A left join.
    """

    reference: TableReference
    start: int
    end: int
    is_outer: bool
    keys: Mapping[str, KeyColumn]


def keyed_lookups(
    parsed: ParsedQuery,
    primary_keys: Mapping[TableReference, Sequence[str]],
    columns: Mapping[TableReference, Sequence[str]],
) -> dict[TableReference, KeyedLookup]:
    """Return the lookups of a query that go by the primary key, in the order of the text.

    Parameters
    ----------
    columns : mapping of TableReference to sequence of str
        The columns of its tables; tables that are not in it take part in no key.

    Examples
    --------
    >>> from tidelake.sql.query.query import parse_query
    >>> from tidelake.sql.syntax.ast import Query
    >>> text = "SELECT * FROM o LEFT JOIN d FOR SYSTEM_TIME AS OF PROCTIME() ON (o.k = d.id)"
    >>> parsed = parse_query(Query(text, 0, len(text)))
    >>> o, d = parsed.references
    >>> (found,) = keyed_lookups(parsed, {d: ["id"]}, {o: ["k"], d: ["id", "v"]}).values()
    >>> text[found.start : found.end], found.is_outer, found.keys["id"].name
    ('LEFT JOIN d FOR SYSTEM_TIME AS OF PROCTIME() ON (o.k = d.id)', True, 'k')
    """
    by_node = {id(r.node): r for r in parsed.references}
    found: list[KeyedLookup] = []
    for select in parsed.tree.find_all(exp.Select):
        joins: list[exp.Join] = select.args.get("joins") or []
        before = _sources(select, by_node)
        for join in reversed(joins):
            reference = before.pop()
            if reference is None or reference not in primary_keys or None in before:
                break
            sources = {r: columns[r] for r in before if r is not None and r in columns}
            one = _keyed(parsed, join, reference, primary_keys[reference], sources, columns)
            if one is None or len(sources) < len(before):
                break
            found.append(one)
    return {one.reference: one for one in sorted(found, key=lambda one: one.start)}


def _sources(
    select: exp.Select, by_node: Mapping[int, TableReference]
) -> list[TableReference | None]:
    """The tables of a FROM, in order; None for what is none, as a subquery."""
    from_ = select.args.get("from_")
    joins = select.args.get("joins") or []
    nodes = [*([from_.this] if from_ is not None else []), *(join.this for join in joins)]
    return [by_node.get(id(node)) for node in nodes]


def _keyed(
    parsed: ParsedQuery,
    join: exp.Join,
    reference: TableReference,
    primary_key: Sequence[str],
    sources: Mapping[TableReference, Sequence[str]],
    columns: Mapping[TableReference, Sequence[str]],
) -> KeyedLookup | None:
    side, kind = (str(join.args.get(k) or "").upper() for k in ("side", "kind"))
    condition = join.args.get("on")
    is_outer = side == "LEFT"
    if side not in {"", "LEFT"} or kind not in ({"", "OUTER"} if is_outer else {"", "INNER"}):
        return None
    if condition is None or not used_args(join) <= _OF_JOIN:
        return None
    alias = reference.node.args.get("alias")
    if not used_args(reference.node) <= _OF_TABLE or (alias and alias.args.get("columns")):
        return None
    every = {**sources, reference: columns[reference]}
    keys: dict[str, KeyColumn] = {}
    for term in conjuncts(condition):
        pair = _pair(term, reference, every)
        if pair is None or pair[0] in keys:
            return None
        keys[pair[0]] = pair[1]
    if {k.casefold() for k in primary_key} != set(keys):
        return None
    span = _span(parsed.tokens, reference, condition)
    if span is None:
        return None
    return KeyedLookup(
        reference, *span, is_outer, {name: keys[name.casefold()] for name in primary_key}
    )


def _pair(
    term: exp.Expr,
    reference: TableReference,
    every: Mapping[TableReference, Sequence[str]],
) -> tuple[str, KeyColumn] | None:
    """A column of the key, folded, and the column that it is compared with."""
    if not isinstance(term, exp.EQ):
        return None
    sides = [_column(side.unnest(), every) for side in (term.left, term.right)]
    own = [s for s in sides if s is not None and s.source is reference]
    other = [s for s in sides if s is not None and s.source is not reference]
    if len(own) != 1 or len(other) != 1:
        return None
    return own[0].name.casefold(), other[0]


def _column(node: exp.Expr, every: Mapping[TableReference, Sequence[str]]) -> KeyColumn | None:
    """The table of a column, if there is exactly one that it may be of."""
    if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
        return None
    given = tuple(part.name.casefold() for part in node.parts[:-1])
    found = [
        reference
        for reference, names in every.items()
        if given == (reference.qualifier[-len(given) :] if given else ())
        and sum(node.name.casefold() == n.casefold() for n in names) == 1
    ]
    return KeyColumn(found[0], node.name) if len(found) == 1 else None


def _span(
    tokens: Sequence[Token], reference: TableReference, condition: exp.Expr
) -> tuple[int, int] | None:
    """Offsets of a join in the text."""
    before = [t for t in tokens if t.end <= reference.start]
    if not before or before[-1].upper != "JOIN":
        return None
    start = before.pop().start
    while before and before[-1].upper in _JOIN_WORDS:
        start = before.pop().start
    last = max(n.meta["end"] for n in condition.walk() if "end" in n.meta)
    inside = [t for t in tokens if reference.end <= t.start <= last]
    depth, end = sum(t.nesting for t in inside), last + 1
    for token in (t for t in tokens if t.start > last):
        if depth <= 0 or token.upper != ")":
            break
        depth += token.nesting
        end = token.end
    return (start, end) if depth == 0 else None
