"""Parses an expression over the rows of tables.

The expression is parsed as the condition of a query with a generated head (``SELECT 1 FROM t AS x
WHERE``). So its tables and filters are found as in any query. Its text stays as written, except for
tables in its subqueries and for ``database.`` before columns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tidelake.errors import UnsupportedError
from tidelake.sql.query.pushdown import complete_filter, pushed_filter
from tidelake.sql.query.query import HEAD_POSITION, ParsedQuery, TableReference, parse_query
from tidelake.sql.syntax.ast import Query
from tidelake.sql.syntax.name import TableName, quoted_name
from tidelake.sql.syntax.sqlglot_dialect import exp, used_args
from tidelake.sql.syntax.tokens import error_at, tokenize
from tidelake.types import DataField
from tidelake.types.predicate import Predicate


@dataclass(frozen=True, slots=True)
class RowSource:
    """A table that an expression refers to, by its name or an alias."""

    name: TableName
    alias: str | None = None

    @property
    def shown(self) -> str:
        """Qualifier of its columns."""
        return self.alias or self.name.parts[-1]

    @property
    def relation(self) -> str:
        """Its text in FROM."""
        name = ".".join(quoted_name(part) for part in self.name.parts)
        return name if self.alias is None else f"{name} AS {quoted_name(self.alias)}"


@dataclass(frozen=True, slots=True)
class ParsedExpression:
    """A parsed expression."""

    parsed: ParsedQuery

    @property
    def tables(self) -> tuple[TableReference, ...]:
        """The tables in its subqueries."""
        return tuple(r for r in self.parsed.references if r.start != HEAD_POSITION)

    def rewrite(
        self, relations: Mapping[TableReference, str], *, qualified: Qualification = None
    ) -> str:
        """Return the text with other text for tables in subqueries.

        Parameters
        ----------
        qualified : (str, collection of str), optional
            An alias, and folded names of columns that get it, if they have none and are outside of
            subqueries.
        """
        before = {} if qualified is None else dict(self._qualifiers(*qualified))
        return self.parsed.rewrite(relations, before=before)

    def _qualifiers(self, alias: str, names: Collection[str]) -> Iterator[tuple[int, str]]:
        for column in self.node.find_all(exp.Column):
            is_ours = column.parent_select is self.parsed.tree and len(column.parts) == 1
            bound = any(  # a parameter of a lambda
                column.name in {p.name for p in above.expressions}
                for above in _above(column, exp.Lambda)
            )
            if is_ours and not bound and column.name.casefold() in names:
                yield column.this.meta["start"], f"{quoted_name(alias)}."

    def outer(self, rows: RowSource) -> TableReference:
        """The reference of a table in the head."""
        return next(
            r for r in self.parsed.references if r.start == HEAD_POSITION and r.alias == rows.shown
        )

    @property
    def node(self) -> exp.Expr:
        """The expression's node."""
        where = self.parsed.tree.args.get("where")
        assert isinstance(where, exp.Where), "the head of an expression ends with WHERE"
        found: exp.Expr = where.this
        return found


Qualification: TypeAlias = "tuple[str, Collection[str]] | None"


def _above(node: exp.Expr, kind: type[exp.Expr]) -> Iterator[exp.Expr]:
    above = node.parent
    while above is not None:
        if isinstance(above, kind):
            yield above
        above = above.parent


def names_in(*words: Query) -> frozenset[str]:
    """All names in expressions, folded: columns and others."""
    found: set[str] = set()
    for own in words:
        found.update(
            w.text.replace("``", "`").casefold()
            for w in tokenize(own.text)
            if w.is_name and own.start <= w.start < own.end
        )
    return frozenset(found)


def parse_expression(words: Query, *rows: RowSource) -> ParsedExpression:
    """Parse an expression.

    Raises
    ------
    InvalidInputError, UnsupportedError
        The text is not an expression; the message shows the position.

    Examples
    --------
    >>> text = "t.id IN (SELECT id FROM gone WHERE n > 3)"
    >>> found = parse_expression(Query(text, 0, len(text)), RowSource(TableName(("t",))))
    >>> [(str(r.name), r.start) for r in found.tables]
    [('gone', 24)]
    """
    relations = " CROSS JOIN ".join(r.relation for r in rows)
    parsed = parse_query(words, head=f"SELECT 1 FROM {relations} WHERE")
    tree = parsed.tree
    used = used_args(tree)
    if not isinstance(tree, exp.Select) or not used <= {
        "expressions",
        "from_",
        "joins",
        "where",
        "kind",
    }:
        message = "One expression is expected here."
        raise error_at(words.text, words.start, message, error=UnsupportedError)
    return ParsedExpression(parsed)


def parse_condition(
    words: Query, rows: RowSource, fields: Sequence[DataField]
) -> tuple[ParsedExpression, Predicate | None, bool]:
    """Parse a condition on the rows of one table.

    Returns
    -------
    expression : ParsedExpression
    predicate : Predicate or None
        A filter of the kernel that keeps all rows of the condition.
    is_whole : bool
        True if the filter is the whole condition.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> fields = [DataField(0, "id", parse_type("INT"))]
    >>> for text in ("id > 3 AND id IS NOT NULL", "id > 3 AND abs(id) > 4"):
    ...     words = Query(text, 0, len(text))
    ...     _, predicate, is_whole = parse_condition(words, RowSource(TableName(("t",))), fields)
    ...     print(predicate, is_whole)
    id > 3 AND id IS NOT NULL True
    id > 3 False
    """
    found = parse_expression(words, rows)
    outer = found.outer(rows)
    whole = complete_filter(found.parsed, outer, fields)
    if whole is not None:
        return found, whole, True
    return found, pushed_filter(found.parsed, outer, fields), False
