"""Carries the kinds of changes through a query over streams.

The rows of a stream of changes have a column ``_row_kind``. A query that makes one row of each
change keeps the kinds: ``SELECT id FROM t WHERE n > 1`` becomes ``SELECT id, t._row_kind FROM t
WHERE n > 1``. A query that counts or groups would count an old row and its new one both; it is
refused, unless it names ``_row_kind`` itself and says what each change counts.

1. A SELECT keeps kinds if one source of its FROM has them: a table, a subquery or a CTE. It may
   filter, compute columns and join tables that are no streams of changes.
2. A star over that source shows the kind; else it is added as the last column.
3. UNION ALL keeps kinds if one side has them; rows of the other are ``+I``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tidelake.errors import TidelakeError, UnsupportedError
from tidelake.sql.query.query import ParsedQuery
from tidelake.sql.query.reference import TableReference, relation_aliases
from tidelake.sql.syntax.name import quoted_name
from tidelake.sql.syntax.sqlglot_dialect import exp, used_args
from tidelake.sql.syntax.tokens import Token, error_at

__all__ = ["ROW_KIND", "names_row_kind", "row_kind_columns"]

ROW_KIND = "_row_kind"
INSERTED = "'+I'"
_PER_ROW = frozenset({"expressions", "from_", "where", "with_", "hint", "joins", "laterals"})
_AFTER_ITEMS = frozenset(
    {"FROM", "WHERE", "UNION", "EXCEPT", "INTERSECT", "MINUS", "LATERAL", "GROUP", "HAVING"}
    | {"ORDER", "LIMIT", "WINDOW", "QUALIFY", "CLUSTER", "DISTRIBUTE", "SORT"}
)
"""What may stand after the list of a SELECT."""
_KEPT_BY = frozenset({"", "INNER", "CROSS", "LEFT", "SEMI", "ANTI", "OUTER"})


def names_row_kind(parsed: ParsedQuery) -> bool:
    """Check if a query names the kinds itself.

    Examples
    --------
    >>> from tidelake.sql.query.query import parse_query
    >>> from tidelake.sql.syntax.ast import Query
    >>> text = "SELECT sum(CASE _row_kind WHEN '-U' THEN -n ELSE n END) FROM t"
    >>> names_row_kind(parse_query(Query(text, 0, len(text))))
    True
    """
    return any(c.name.casefold() == ROW_KIND for c in parsed.tree.find_all(exp.Column))


def row_kind_columns(parsed: ParsedQuery, changing: Collection[TableReference]) -> dict[int, str]:
    """Return the columns to add so that a query keeps the kinds, by offset.

    Parameters
    ----------
    parsed : ParsedQuery
        The query, which does not name the kinds itself.
    changing : collection of TableReference
        Those of its tables whose rows have kinds.

    Raises
    ------
    UnsupportedError
        The query does not make one row of each change; the message shows where.

    Examples
    --------
    >>> from tidelake.sql.query.query import parse_query
    >>> from tidelake.sql.syntax.ast import Query
    >>> text = "SELECT id FROM t"
    >>> parsed = parse_query(Query(text, 0, len(text)))
    >>> row_kind_columns(parsed, parsed.references)
    {9: ', `t`.`_row_kind`'}
    """
    if not changing:
        return {}
    aliases = relation_aliases(parsed.tree, parsed.references)
    by_node = {id(r.node): aliases.get(r, r.alias) for r in changing}
    kinds = _Kinds(parsed, by_node, _ends_of_items(parsed))
    kinds.follow(parsed.tree, {})
    unseen = [r for r in changing if id(r.node) not in kinds.seen]
    if unseen:  # in a subquery of an expression
        raise kinds.refusal(unseen[0].start, "A subquery in an expression")
    return kinds.columns


@dataclass
class _Kinds:
    """The columns found so far.

    Parameters
    ----------
    parsed : ParsedQuery
        The query.
    changing : mapping of int to str
        Alias by the id of each table's node with kinds.
    ends : mapping of int to int
        End offset of the list after SELECT by the id of the SELECT's node.
    """

    parsed: ParsedQuery
    changing: Mapping[int, str]
    ends: Mapping[int, int]
    columns: dict[int, str] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)

    def follow(self, node: exp.Expr, ctes: Mapping[str, bool]) -> bool:
        """Add the columns of a query; return True if its rows have kinds."""
        ctes = {**ctes, **self._ctes(node, ctes)}
        if isinstance(node, exp.Subquery):
            return self.follow(node.this, ctes)
        if isinstance(node, exp.Select):
            return self._select(node, ctes)
        if isinstance(node, exp.SetOperation):
            return self._set_operation(node, ctes)
        return False

    def refusal(self, start: int, what: str) -> TidelakeError:
        """Make the error for a query that loses the kinds."""
        return error_at(
            self.parsed.query.text,
            start,
            f"{what} does not show what each change does: an updated row comes as -U and +U, and"
            f" would count twice. Name {ROW_KIND} in the query to say what a kind counts, as in"
            f" sum(CASE WHEN {ROW_KIND} IN ('-U', '-D') THEN -n ELSE n END), or WHERE {ROW_KIND}"
            " IN ('+I', '+U').",
            kind="sql_row_kinds",
            error=UnsupportedError,
        )

    def _ctes(self, node: exp.Expr, ctes: Mapping[str, bool]) -> dict[str, bool]:
        clause = node.args.get("with_")
        found: dict[str, bool] = {}
        for cte in clause.expressions if clause is not None else ():
            found[cte.alias.casefold()] = self.follow(cte.this, {**ctes, **found})
            if found[cte.alias.casefold()] and cte.args["alias"].args.get("columns"):
                raise self.refusal(_start(cte), "A list of columns after WITH")
        return found

    def _select(self, node: exp.Select, ctes: Mapping[str, bool]) -> bool:
        source = node.args.get("from_")
        joins = node.args.get("joins") or ()
        relations = [*([source.this] if source is not None else []), *(j.this for j in joins)]
        alias = None
        for number, relation in enumerate(relations):
            found = self._relation(relation, ctes)
            if found is None:
                continue
            if alias is not None:
                raise self.refusal(_start(relation), "A join of two streams of changes")
            if number and not _keeps(joins[number - 1], right=True):
                raise self.refusal(_start(relation), "This join")
            alias = found
            later = joins[number:]
            if not all(_keeps(join, right=False) for join in later):
                raise self.refusal(_start(relation), "This join")
        if alias is None:
            return False
        if not used_args(node) <= _PER_ROW or _aggregates(node):
            raise self.refusal(_start(relations[0]), "A query that groups, sorts or limits")
        if not any(_is_star_of(item, alias) for item in node.expressions):
            column = f"{quoted_name(alias)}.{quoted_name(ROW_KIND)}"
            self.columns[self.ends[id(node)]] = f", {column}"
        return True

    def _relation(self, node: exp.Expr, ctes: Mapping[str, bool]) -> str | None:
        """Alias of a source of FROM if its rows have kinds."""
        if id(node) in self.changing:
            self.seen.add(id(node))
            return self.changing[id(node)]
        if isinstance(node, exp.Subquery) and self.follow(node.this, ctes):
            if not node.alias:
                raise self.refusal(_start(node), "A subquery without an alias")
            return str(node.alias)
        is_cte = isinstance(node, exp.Table) and node.args.get("db") is None
        if is_cte and ctes.get(node.name.casefold()):
            return str(node.alias_or_name)
        return None

    def _set_operation(self, node: exp.SetOperation, ctes: Mapping[str, bool]) -> bool:
        sides = (node.left, node.right)
        have = [self.follow(side, ctes) for side in sides]
        if not any(have):
            return False
        if not isinstance(node, exp.Union) or node.args.get("distinct"):
            raise self.refusal(_start(node), "A set operation other than UNION ALL")
        for side, has in zip(sides, have, strict=True):
            select = side.this if isinstance(side, exp.Subquery) else side
            if not has and isinstance(select, exp.Select):
                column = f"{INSERTED} AS {quoted_name(ROW_KIND)}"
                self.columns[self.ends[id(select)]] = f", {column}"
            elif not has or not isinstance(select, (exp.Select, exp.SetOperation)):
                raise self.refusal(_start(side), "This side of the UNION")
        return True


def _keeps(join: exp.Join, *, right: bool) -> bool:
    """Check if a join keeps the rows of one of its sides, and only them, with their kinds."""
    words = {str(join.args.get(k) or "").upper() for k in ("side", "kind", "method")}
    if right:
        return words <= {"", "INNER", "CROSS", "RIGHT", "OUTER"}
    return words <= _KEPT_BY


def _aggregates(node: exp.Select) -> bool:
    found = node.find_all(exp.AggFunc, exp.Window)
    return any(one.parent_select is node for one in found)


def _is_star_of(item: exp.Expr, alias: str) -> bool:
    if isinstance(item, exp.Star):
        return True
    if not isinstance(item, exp.Column) or not isinstance(item.this, exp.Star):
        return False
    return bool(item.table.casefold() == alias.casefold())


def _start(node: exp.Expr) -> int:
    starts = [n.meta["start"] for n in node.walk() if "start" in n.meta]
    return min(starts, default=0)


def _ends_of_items(parsed: ParsedQuery) -> dict[int, int]:
    """End offsets of the lists after SELECT; words and nodes come in the order of the text."""
    nodes = list(_selects(parsed.tree))
    ends = _ends_by_words(parsed.tokens)
    if len(nodes) != len(ends):
        raise error_at(
            parsed.query.text,
            parsed.query.start,
            "A query over a stream of changes begins each of its parts with SELECT.",
            kind="sql_row_kinds",
            error=UnsupportedError,
        )
    return {id(node): end for node, end in zip(nodes, ends, strict=True)}


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


def _ends_by_words(tokens: Sequence[Token]) -> list[int]:
    """End offset of the list after each word SELECT."""
    ends: list[int] = []
    waiting: list[tuple[int, int]] = []  # number and depth of SELECTs whose list goes on
    depth, last, before = 0, 0, ""
    for token in tokens:
        is_star = token.upper == "EXCEPT" and before == "*"  # of the list, not of the query
        is_end = (token.upper in _AFTER_ITEMS or token.upper == ")") and not is_star
        if waiting and is_end and waiting[-1][1] == depth:
            ends[waiting.pop()[0]] = last
        depth += token.nesting
        if token.upper == "SELECT":
            waiting.append((len(ends), depth))
            ends.append(0)
        last, before = token.end, token.upper
    for number, _ in waiting:
        ends[number] = last
    return ends
