"""What a MERGE's expressions say that can be told from their text.

- which columns of target and source its condition equates: parts of it that AND joins and that
  compare one column with one column;
- what it says of the target alone, as a filter of the kernel;
- which values are a column of the source as it is;
- which names are mentioned at all: other columns need not be read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tidelake.errors import UnsupportedError
from tidelake.sql.query.expression import Expression, RowsOf, names_in, read_expression
from tidelake.sql.query.pushdown import pushed
from tidelake.sql.query.query import read_query
from tidelake.sql.syntax.ast import Query
from tidelake.sql.syntax.name import TableName
from tidelake.sql.syntax.sqlglot_dialect import exp
from tidelake.sql.syntax.tokens import fault
from tidelake.types import DataField
from tidelake.types.predicate import Predicate

__all__ = ["SOURCE_HEAD", "MergeTerms", "source_rows"]

SOURCE_HEAD = "SELECT * FROM "
"""What is put before a source, that it be a query."""
_NAMELESS = "__tidelake_source"


def source_rows(words: Query) -> RowsOf:
    """What columns of a source may be qualified with.

    Raises
    ------
    InvalidInputError, UnsupportedError
        It is no table, and no query in parentheses.

    Examples
    --------
    >>> text = "(SELECT 1 AS id) AS s"
    >>> source_rows(Query(text, 0, len(text))).shown
    's'
    """
    tree = read_query(words, head=SOURCE_HEAD).tree
    said = {key for key, value in tree.args.items() if value}
    if not isinstance(tree, exp.Select) or not said <= {"expressions", "from_", "kind"}:
        message = "One table stands here, or a query in parentheses: USING (SELECT ...) AS s."
        raise fault(words.text, words.start, message, error=UnsupportedError)
    node = tree.args["from_"].this
    if node.alias or not isinstance(node, exp.Table):
        name = node.alias or _NAMELESS
        return RowsOf(TableName((name,)), name)
    return RowsOf(TableName(tuple(p.name for p in node.parts)))


@dataclass(frozen=True, slots=True)
class MergeTerms:
    """The two sides of a merge, by which its expressions are understood.

    Parameters
    ----------
    target, source : RowsOf
        What qualifies their columns.
    fields : sequence of DataField
        The target's columns.
    columns : sequence of str
        The source's.
    """

    target: RowsOf
    source: RowsOf
    fields: Sequence[DataField]
    columns: Sequence[str]

    def read(self, words: Query) -> Expression:
        """Look into an expression over both sides."""
        return read_expression(words, self.target, self.source)

    def predicate(self, on: Expression) -> Predicate | None:
        """What a condition surely says of the target alone; not bound."""
        known = {on.outer(self.source): self.columns}
        return pushed(on.parsed, on.outer(self.target), self.fields, known)

    def equal(self, on: Expression) -> list[tuple[str, str]]:
        """The columns of target and source that a condition equates.

        Examples
        --------
        >>> from tidelake.types import parse_type
        >>> fields = [DataField(0, "id", parse_type("INT")), DataField(1, "n", parse_type("INT"))]
        >>> sides = [RowsOf(TableName((name,))) for name in ("t", "s")]
        >>> terms = MergeTerms(*sides, fields, ["key", "n"])
        >>> text = "t.id = s.key AND (s.n = n OR t.n > 3) AND n = 3"
        >>> terms.equal(terms.read(Query(text, 0, len(text))))
        [('id', 'key')]
        """
        found = []
        for part in _conjuncts(on.node):
            if not isinstance(part, exp.EQ):
                continue
            for left, right in ((part.left, part.right), (part.right, part.left)):
                own, other = self._of_target(left), self._of_source(right)
                if own is not None and other is not None:
                    found.append((own, other))
        return found

    def plain(self, values: Mapping[str, Expression]) -> dict[str, str]:
        """The values that are a column of the source as it is, by what they are given to."""
        found = {name: self._of_source(value.node) for name, value in values.items()}
        return {name: column for name, column in found.items() if column is not None}

    def _of_target(self, node: exp.Expr) -> str | None:
        names = {f.name.casefold(): f.name for f in self.fields}
        return _column(node, self.target, names, {c.casefold() for c in self.columns})

    def _of_source(self, node: exp.Expr) -> str | None:
        names = {c.casefold(): c for c in self.columns}
        return _column(node, self.source, names, {f.name.casefold() for f in self.fields})

    def looked_at(self, *words: Query) -> frozenset[str]:
        """The names that expressions mention."""
        return names_in(*words)

    def of_target_alone(self) -> tuple[str, frozenset[str]]:
        """The alias, and the columns that both sides have: to be told apart where one counts."""
        both = {f.name.casefold() for f in self.fields} & {c.casefold() for c in self.columns}
        return self.target.shown, frozenset(both)


def _conjuncts(condition: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(condition, exp.And):
        yield from _conjuncts(condition.left)
        yield from _conjuncts(condition.right)
    elif isinstance(condition, exp.Paren):
        yield from _conjuncts(condition.this)
    else:
        yield condition


def _column(node: exp.Expr, rows: RowsOf, names: Mapping[str, str], others: set[str]) -> str | None:
    """The column that a node is, by its name and what stands before it."""
    while isinstance(node, exp.Paren):
        node = node.this
    if not isinstance(node, exp.Column):
        return None
    *before, last = (part.name.casefold() for part in node.parts)
    if not before:
        return None if last in others else names.get(last)
    if before == [rows.shown.casefold()]:
        return names.get(last)
    whole = [part.casefold() for part in rows.name.parts]
    is_own = rows.alias is None and before == whole[len(whole) - len(before) :]
    return names.get(last) if is_own else None
