"""Looks into an expression over the rows of tables: its subqueries, and what it asks of them.

An expression is read as the condition of a query on these tables, whose head nobody wrote
(``SELECT 1 FROM t AS x WHERE``), so it is parsed, its tables found, and its filters told as those
of any query are. Its text stays as it was written, but for the places of tables in its subqueries
and for ``database.`` before columns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tidelake.errors import UnsupportedError
from tidelake.sql.query.pushdown import pushed, whole_filter
from tidelake.sql.query.query import BEFORE, ParsedQuery, Reference, read_query
from tidelake.sql.syntax.ast import Query
from tidelake.sql.syntax.name import TableName, quoted_name
from tidelake.sql.syntax.sqlglot_dialect import exp
from tidelake.sql.syntax.tokens import fault, words_of
from tidelake.types import DataField
from tidelake.types.predicate import Predicate

__all__ = ["Expression", "RowsOf", "RowsQualified", "names_in", "read_condition", "read_expression"]


@dataclass(frozen=True, slots=True)
class RowsOf:
    """Rows that an expression is over: of a table, under its name or an alias."""

    name: TableName
    alias: str | None = None

    @property
    def shown(self) -> str:
        """What stands before its columns."""
        return self.alias or self.name.parts[-1]

    @property
    def relation(self) -> str:
        """As a query names it."""
        said = ".".join(quoted_name(part) for part in self.name.parts)
        return said if self.alias is None else f"{said} AS {quoted_name(self.alias)}"


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression that was looked into.

    Parameters
    ----------
    parsed : ParsedQuery
        With its head.
    """

    parsed: ParsedQuery

    @property
    def tables(self) -> tuple[Reference, ...]:
        """The tables in its subqueries."""
        return tuple(r for r in self.parsed.references if r.start != BEFORE)

    def rewritten(
        self, relations: Mapping[Reference, str], *, qualified: RowsQualified = None
    ) -> str:
        """The text with other words for tables in subqueries.

        Parameters
        ----------
        relations : mapping of Reference to str
            What to write.
        qualified : (str, collection of str), optional
            Columns of these names, in small letters, get this alias where they have none and stand
            outside all subqueries.
        """
        before = {} if qualified is None else dict(self._qualifiers(*qualified))
        return self.parsed.rewritten(relations, before=before)

    def _qualifiers(self, alias: str, names: Collection[str]) -> Iterator[tuple[int, str]]:
        for column in self.node.find_all(exp.Column):
            is_ours = column.parent_select is self.parsed.tree and len(column.parts) == 1
            bound = any(  # the parameter of a function that is an argument
                column.name in {p.name for p in above.expressions}
                for above in _above(column, exp.Lambda)
            )
            if is_ours and not bound and column.name.casefold() in names:
                yield column.this.meta["start"], f"{quoted_name(alias)}."

    def outer(self, rows: RowsOf) -> Reference:
        """The rows that it is over, as a reference."""
        return next(
            r for r in self.parsed.references if r.start == BEFORE and r.alias == rows.shown
        )

    @property
    def node(self) -> exp.Expr:
        """The expression in the tree."""
        where = self.parsed.tree.args.get("where")
        assert isinstance(where, exp.Where), "the head of an expression ends with WHERE"
        found: exp.Expr = where.this
        return found


RowsQualified: TypeAlias = "tuple[str, Collection[str]] | None"


def _above(node: exp.Expr, kind: type[exp.Expr]) -> Iterator[exp.Expr]:
    above = node.parent
    while above is not None:
        if isinstance(above, kind):
            yield above
        above = above.parent


def names_in(*words: Query) -> frozenset[str]:
    """All names in expressions, in small letters: columns, and whatever else."""
    found: set[str] = set()
    for own in words:
        found.update(
            w.text.replace("``", "`").casefold()
            for w in words_of(own.text)
            if w.is_name and own.start <= w.start < own.end
        )
    return frozenset(found)


def read_expression(words: Query, *rows: RowsOf) -> Expression:
    """Look into an expression.

    Parameters
    ----------
    words : Query
        It.
    *rows : RowsOf
        What it is over; rows of several are joined.

    Raises
    ------
    InvalidInputError, UnsupportedError
        It is none; the place is shown.

    Examples
    --------
    >>> text = "t.id IN (SELECT id FROM gone WHERE n > 3)"
    >>> found = read_expression(Query(text, 0, len(text)), RowsOf(TableName(("t",))))
    >>> [(str(r.name), r.start) for r in found.tables]
    [('gone', 24)]
    """
    relations = " CROSS JOIN ".join(r.relation for r in rows)
    parsed = read_query(words, head=f"SELECT 1 FROM {relations} WHERE")
    tree = parsed.tree
    said = {key for key, value in tree.args.items() if value}
    if not isinstance(tree, exp.Select) or not said <= {
        "expressions",
        "from_",
        "joins",
        "where",
        "kind",
    }:
        message = "An expression must stand here, and nothing behind it."
        raise fault(words.text, words.start, message, error=UnsupportedError)
    return Expression(parsed)


def read_condition(
    words: Query, rows: RowsOf, fields: Sequence[DataField]
) -> tuple[Expression, Predicate | None, bool]:
    """Look into a condition on the rows of one table.

    Returns
    -------
    expression : Expression
    predicate : Predicate or None
        What of it is surely the same as a filter of the kernel, for all rows that satisfy it.
    is_whole : bool
        Whether that is all of it.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> fields = [DataField(0, "id", parse_type("INT"))]
    >>> for text in ("id > 3 AND id IS NOT NULL", "id > 3 AND abs(id) > 4"):
    ...     words = Query(text, 0, len(text))
    ...     _, predicate, is_whole = read_condition(words, RowsOf(TableName(("t",))), fields)
    ...     print(predicate, is_whole)
    id > 3 AND id IS NOT NULL True
    id > 3 False
    """
    found = read_expression(words, rows)
    outer = found.outer(rows)
    whole = whole_filter(found.parsed, outer, fields)
    if whole is not None:
        return found, whole, True
    return found, pushed(found.parsed, outer, fields), False
