"""Keeps the kinds of changes in a query over streams, and their order.

The rows of a stream of changes have a column ``_row_kind``. A query with one row for each change
keeps the kinds: ``SELECT id FROM t WHERE n > 1`` becomes
``SELECT id, t._row_kind FROM t WHERE n > 1``. A query that counts or groups would count both the
old and the new row of an update. It is refused, unless the SELECT that reads the changes names
``_row_kind`` and so decides what each kind counts.

1. A SELECT keeps kinds if one source of its FROM has them: a table, a subquery or a CTE. It may
   where, compute columns and join tables that are not streams.
2. A star over that source shows the kind; else it is added as the last column.
3. A SELECT that names the kind of its source may group. Its rows have kinds only if it shows the
   column ``_row_kind``; then rule 1 applies to it, too. The exception holds for this SELECT only.
4. UNION ALL keeps kinds if one side has them; rows of the other are ``+I``.
5. The last change of a key wins at the target, so the order of changes must stay. A join that
   shuffles rows loses the order, so every table that is joined to changes gets a broadcast hint;
   a table that is looked up by its key is not joined. A join with another stream, or a user's hint
   that shuffles, is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tidelake.errors import TidelakeError, UnsupportedError
from tidelake.sql.query.query import ParsedQuery
from tidelake.sql.query.reference import TableReference, relation_aliases
from tidelake.sql.query.select_lists import SelectList, select_lists
from tidelake.sql.syntax.name import quoted_name
from tidelake.sql.syntax.sqlglot_dialect import exp, used_args
from tidelake.sql.syntax.tokens import error_at

ROW_KIND = "_row_kind"
INSERTED = "'+I'"
_PER_ROW = frozenset({"expressions", "from_", "where", "with_", "hint", "joins", "laterals"})
_OF_UNION = frozenset({"this", "expression", "with_", "by_name"})
_OF_SUBQUERY = frozenset({"this", "alias", "with_"})
_OF_TABLE = frozenset({"this", "db", "catalog", "alias", "when"})
_KEPT_BY = frozenset({"", "INNER", "CROSS", "LEFT", "SEMI", "ANTI", "OUTER"})
_HINTS_IN_ORDER = frozenset({"BROADCAST", "BROADCASTJOIN", "MAPJOIN", "COALESCE", "LOOKUP"})
"""Hints that keep the order of rows in a partition."""


@dataclass(frozen=True, slots=True)
class KeptKinds:
    """The edits of a query that make it keep the kinds of changes.

    Parameters
    ----------
    hidden : collection of TableReference
        Tables whose kinds the query names itself: stars leave the column out.
    needs_broadcast : bool
        Whether a hint to broadcast keeps the order of changes that are joined.
    """

    insertions: Mapping[int, str]
    hidden: Collection[TableReference] = ()
    needs_broadcast: bool = False


def kept_kinds(
    parsed: ParsedQuery,
    changing: Collection[TableReference],
    *,
    streaming: Collection[TableReference] = (),
    looked_up: Collection[TableReference] = (),
) -> KeptKinds:
    """Find the edits of a query that make it keep the kinds.

    Parameters
    ----------
    looked_up : collection of TableReference
        Tables that are not joined: each row looks its own up.

    Raises
    ------
    UnsupportedError
        The query does not give one row for each change, or loses their order; the message shows
        where.

    Examples
    --------
    >>> from tidelake.sql.query.query import parse_query
    >>> from tidelake.sql.syntax.ast import Query
    >>> text = "SELECT id FROM t"
    >>> parsed = parse_query(Query(text, 0, len(text)))
    >>> dict(kept_kinds(parsed, parsed.references).insertions)
    {9: ', `t`.`_row_kind`'}
    """
    if not changing:
        return KeptKinds({})
    kinds = _Kinds(
        parsed,
        references={id(r.node): r for r in parsed.references},
        aliases=relation_aliases(parsed.tree, parsed.references),
        changing=changing,
        streaming=streaming,
        looked_up={id(r.node) for r in looked_up},
    )
    kinds.follow(parsed.tree, {})
    unseen = [r for r in changing if id(r.node) not in kinds.seen]
    if unseen:  # in a part of the query that is not analysed
        raise kinds.uncounted(unseen[0].start, "This part of the query")
    hidden = [r for r in changing if id(r.node) in kinds.named]
    return KeptKinds(kinds.texts, hidden, kinds.needs_broadcast)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Properties of the rows of a part of the query.

    Parameters
    ----------
    is_last : bool
        The kind is the last column.
    """

    kinds: bool = False
    is_stream: bool = False
    is_last: bool = True


@dataclass(frozen=True, slots=True)
class _Source:
    """A source of a FROM."""

    node: exp.Expr
    alias: str
    qualifier: tuple[str, ...]
    rows: _Rows
    is_table: bool = False


@dataclass
class _Kinds:
    """The texts found so far.

    Parameters
    ----------
    changing, streaming : collection of TableReference
        Streams with kinds, and streams without.
    looked_up : collection of int
        The ids of the nodes of tables that are not joined.
    """

    parsed: ParsedQuery
    references: Mapping[int, TableReference]
    aliases: Mapping[TableReference, str]
    changing: Collection[TableReference]
    streaming: Collection[TableReference]
    looked_up: Collection[int]
    texts: dict[int, str] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)
    named: set[int] = field(default_factory=set)
    needs_broadcast: bool = False
    _lists: dict[int, SelectList] = field(default_factory=dict)

    def follow(self, node: exp.Expr, ctes: Mapping[str, _Rows]) -> _Rows:
        """Add the edits of a query; return the properties of its rows."""
        ctes = {**ctes, **self._ctes(node, ctes)}
        if isinstance(node, exp.Subquery):
            rows = self.follow(node.this, ctes)
            if rows.kinds and not used_args(node) <= _OF_SUBQUERY:
                raise self.uncounted(_start(node), "A query that sorts, limits or samples")
            return rows
        if isinstance(node, exp.Select):
            return self._select(node, ctes)
        if isinstance(node, exp.SetOperation):
            return self._set_operation(node, ctes)
        return _Rows()

    def uncounted(self, start: int, what: str) -> TidelakeError:
        """Make the error for a query that loses the kinds."""
        return self._refusal(
            start,
            f"{what} ignores the kinds of changes: an updated row comes as -U and +U and would"
            f" count twice. Name {ROW_KIND} in the SELECT that reads the changes, as in sum(CASE"
            f" WHEN {ROW_KIND} IN ('-U', '-D') THEN -n ELSE n END), or WHERE {ROW_KIND} IN ('+I',"
            " '+U').",
        )

    def _disordered(self, start: int, what: str, remedy: str) -> TidelakeError:
        """Make the error for a query that loses the order of changes."""
        return self._refusal(
            start,
            f"{what} loses the order of changes: -U and +U of one update may change places, and the"
            f" last one wins. {remedy}",
        )

    def _refusal(self, start: int, message: str) -> TidelakeError:
        text = self.parsed.query.text
        return error_at(text, start, message, kind="sql_row_kinds", error=UnsupportedError)

    def _ctes(self, node: exp.Expr, ctes: Mapping[str, _Rows]) -> dict[str, _Rows]:
        clause = node.args.get("with_")
        found: dict[str, _Rows] = {}
        for cte in clause.expressions if clause is not None else ():
            rows = self.follow(cte.this, {**ctes, **found})
            found[cte.alias.casefold()] = rows
            if rows.kinds and cte.args["alias"].args.get("columns"):
                raise self.uncounted(_start(cte), "A list of columns after WITH")
        return found

    def _select(self, node: exp.Select, ctes: Mapping[str, _Rows]) -> _Rows:
        from_ = node.args.get("from_")
        joins = node.args.get("joins") or []
        relations = [*([from_.this] if from_ is not None else []), *(j.this for j in joins)]
        sources = [self._source(relation, ctes) for relation in relations]
        inner = [self.follow(one, ctes) for one in _subqueries(node)]
        if any(rows.kinds for rows in inner):
            raise self.uncounted(_start(node), "A subquery in an expression")
        is_stream = any(source.rows.is_stream for source in sources)
        changing = [source for source in sources if source.rows.kinds]
        if not changing:
            return _Rows(is_stream=is_stream)
        named = [s for s in changing if _names_kind(node, s, is_only=len(changing) == 1)]
        self.named.update(id(source.node) for source in named)
        shown = [n for n, i in enumerate(node.expressions) if self._shows_kind(i, changing, named)]
        if len(named) == len(changing) and not shown:
            return _Rows(is_stream=is_stream)
        if len(changing) > 1:
            raise self.uncounted(_start(changing[1].node), "A join of two streams of changes")
        if shown and not named and not _is_star(node.expressions[shown[0]]):
            raise self.uncounted(_start(node), f"A computed column {ROW_KIND}")
        if len(shown) > 1:
            raise self.uncounted(_start(node), f"A query with two columns {ROW_KIND}")
        self._check_rows(node, changing[0])
        self._keep_order(node, sources, sources.index(changing[0]))
        if not shown:
            kind = f"{quoted_name(changing[0].alias)}.{quoted_name(ROW_KIND)}"
            self._insert(self._list(node).end, f", {kind}")
            return _Rows(kinds=True, is_stream=True)
        is_last = shown[0] == len(node.expressions) - 1
        is_whole = isinstance(node.expressions[shown[0]], exp.Star) and len(sources) > 1
        return _Rows(kinds=True, is_stream=True, is_last=is_last and not is_whole)

    def _source(self, node: exp.Expr, ctes: Mapping[str, _Rows]) -> _Source:
        reference = self.references.get(id(node))
        if reference is not None:
            self.seen.add(id(node))
            kinds = reference in self.changing
            rows = _Rows(kinds=kinds, is_stream=kinds or reference in self.streaming)
            alias = self.aliases.get(reference, reference.alias)
            return _Source(node, alias, reference.qualifier, rows, is_table=True)
        alias = str(node.alias_or_name)
        rows = _Rows()
        if isinstance(node, exp.Subquery):
            rows = self.follow(node, ctes)
            if rows.kinds and not alias:
                raise self.uncounted(_start(node), "A subquery without an alias")
        elif isinstance(node, exp.Table) and node.args.get("db") is None:
            rows = ctes.get(node.name.casefold(), rows)
        return _Source(node, alias, (alias.casefold(),), rows)

    def _shows_kind(
        self, item: exp.Expr, changing: Sequence[_Source], named: Sequence[_Source]
    ) -> bool:
        """Check if an item of a SELECT is or has the column of the kinds."""
        if _is_star(item):
            # the star of a table leaves kinds out if the query names them
            starred = [s for s in changing if not (s.is_table and s in named)]
            return any(_is_star_of(item, source.qualifier) for source in starred)
        return bool(item.alias_or_name.casefold() == ROW_KIND)

    def _check_rows(self, node: exp.Select, source: _Source) -> None:
        """Refuse clauses that do not give one row for each change."""
        start = _start(source.node)
        if not used_args(node) <= _PER_ROW or _aggregates(node):
            raise self.uncounted(start, "A query that groups, sorts or limits")
        if source.is_table and not used_args(source.node) <= _OF_TABLE:
            raise self.uncounted(start, "A sample, a pivot or a FROM without SELECT")
        alias = source.node.args.get("alias")
        if alias is not None and alias.args.get("columns"):
            raise self.uncounted(start, "A list of columns after an alias")

    def _keep_order(self, node: exp.Select, sources: Sequence[_Source], number: int) -> None:
        """Broadcast joined tables; refuse joins that lose rows or their order."""
        start = _start(sources[number].node)
        joins: list[exp.Join] = node.args.get("joins") or []
        if number and not _keeps(joins[number - 1], right=True):
            raise self.uncounted(start, "This join")
        if not all(_keeps(join, right=False) for join in joins[number:]):
            raise self.uncounted(start, "This join")
        hints = [_hint_name(h) for h in getattr(node.args.get("hint"), "expressions", ())]
        wrong = next((name for name in hints if name not in _HINTS_IN_ORDER), None)
        if wrong is not None:
            raise self._disordered(_start(node), f"The hint {wrong}", "Leave it out.")
        if next(_subqueries(node), None) is not None:
            remedy = "Join its table instead: LEFT SEMI JOIN, LEFT ANTI JOIN."
            raise self._disordered(_start(node), "A subquery in an expression", remedy)
        others = [source for source in sources if source is not sources[number]]
        for source in others:
            if source.rows.is_stream:
                remedy = (
                    "Read the other one as a table, FOR SYSTEM_TIME AS OF PROCTIME(), or select"
                    f" the rows that count: WHERE {ROW_KIND} IN ('+I', '+U')."
                )
                raise self._disordered(_start(source.node), "A join with another stream", remedy)
            if not source.alias or isinstance(source.node, exp.Lateral):
                remedy = "Give it an alias, or use LATERAL VIEW."
                raise self._disordered(start, "A join with a source that has no name", remedy)
        if number > 1:
            remedy = "Name the changes first in FROM."
            raise self._disordered(start, "A join with tables that were joined before", remedy)
        joined = [source for source in others if id(source.node) not in self.looked_up]
        if joined:
            names = ", ".join(quoted_name(source.alias) for source in joined)
            self._insert(self._list(node).start, f" /*+ BROADCAST({names}) */")
            self.needs_broadcast = True

    def _set_operation(self, node: exp.SetOperation, ctes: Mapping[str, _Rows]) -> _Rows:
        sides = (node.left, node.right)
        rows = [self.follow(side, ctes) for side in sides]
        is_stream = any(one.is_stream for one in rows)
        if not any(one.kinds for one in rows):
            return _Rows(is_stream=is_stream)
        if not isinstance(node, exp.Union) or node.args.get("distinct"):
            raise self.uncounted(_start(node), "A set operation other than UNION ALL")
        if not used_args(node) <= _OF_UNION:
            raise self.uncounted(_start(node), "A query that sorts or limits")
        for side, one in zip(sides, rows, strict=True):
            select = side.this if isinstance(side, exp.Subquery) else side
            if not one.kinds and isinstance(select, exp.Select):
                column = f"{INSERTED} AS {quoted_name(ROW_KIND)}"
                self._insert(self._list(select).end, f", {column}")
            elif not one.kinds or not isinstance(select, (exp.Select, exp.SetOperation)):
                raise self.uncounted(_start(side), "This side of the UNION")
            elif not one.is_last:
                what = f"A side of the UNION whose last column is not {ROW_KIND}"
                raise self.uncounted(_start(side), what)
        return _Rows(kinds=True, is_stream=is_stream)

    def _list(self, node: exp.Select) -> SelectList:
        if not self._lists:
            self._lists = select_lists(self.parsed)
        return self._lists[id(node)]

    def _insert(self, at: int, text: str) -> None:
        self.texts[at] = self.texts.get(at, "") + text


def _keeps(join: exp.Join, *, right: bool) -> bool:
    """Check if a join keeps the rows of one of its sides, and only them, with their kinds."""
    words = {str(join.args.get(k) or "").upper() for k in ("side", "kind", "method")}
    if right:
        return words <= {"", "INNER", "CROSS", "RIGHT", "OUTER"}
    return words <= _KEPT_BY


def _aggregates(node: exp.Select) -> bool:
    found = node.find_all(exp.AggFunc, exp.Window)
    return any(one.parent_select is node for one in found)


def _names_kind(node: exp.Select, source: _Source, *, is_only: bool) -> bool:
    """Check if a SELECT itself, and no query inside it, names the kind of a source."""
    for column in node.find_all(exp.Column):
        if column.name.casefold() != ROW_KIND or column.parent_select is not node:
            continue
        given = tuple(part.name.casefold() for part in column.parts[:-1])
        if is_only if not given else given == source.qualifier[-len(given) :]:
            return True
    return False


def _subqueries(node: exp.Select) -> Iterator[exp.Expr]:
    """Yield the queries in the expressions of a SELECT, but not those inside them."""
    parts = [*node.expressions, node.args.get("where"), node.args.get("having")]
    parts += [join.args.get("on") for join in node.args.get("joins") or ()]
    for part in parts:
        if part is not None:
            yield from filter(_is_query, part.walk(prune=_is_query))


def _is_query(node: exp.Expr) -> bool:
    return isinstance(node, (exp.Select, exp.SetOperation))


def _hint_name(hint: exp.Expr) -> str:
    return str(hint.sql().partition("(")[0].strip().upper())


def _is_star(item: exp.Expr) -> bool:
    inner = item.this if isinstance(item, exp.Column) else item
    return isinstance(inner, exp.Star)


def _is_star_of(item: exp.Expr, qualifier: Sequence[str]) -> bool:
    """Check if a star stands for all columns of a source."""
    parts = item.parts[:-1] if isinstance(item, exp.Column) else []
    given = [part.name.casefold() for part in parts]
    return not given or given == list(qualifier[-len(given) :])


def _start(node: exp.Expr) -> int:
    starts = [n.meta["start"] for n in node.walk() if "start" in n.meta]
    return min(starts, default=0)
