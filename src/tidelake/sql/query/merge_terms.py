"""Analysis of the expressions of a MERGE.

- the columns of target and source that the condition equates, in parts joined by AND;
- the part of the condition on the target alone, as a filter of the kernel;
- the values that are plain columns of the source;
- the names that occur at all: other columns need not be read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidelake.errors import UnsupportedError
from tidelake.sql.query.expression import ParsedExpression, RowSource, names_in, parse_expression
from tidelake.sql.query.pushdown import pushed_filter
from tidelake.sql.query.query import parse_query
from tidelake.sql.syntax.ast import Query
from tidelake.sql.syntax.name import TableName
from tidelake.sql.syntax.sqlglot_dialect import conjuncts, exp, used_args
from tidelake.sql.syntax.tokens import error_at
from tidelake.types import DataField
from tidelake.types.predicate import Predicate

SOURCE_HEAD = "SELECT * FROM "
"""Makes a query of a source."""
_NAMELESS = "__tidelake_source"


def source_rows(words: Query) -> RowSource:
    """Return the qualifiers of a source's columns.

    Raises
    ------
    InvalidInputError, UnsupportedError
        It is neither a table nor a query in parentheses.

    Examples
    --------
    >>> text = "(SELECT 1 AS id) AS s"
    >>> source_rows(Query(text, 0, len(text))).shown
    's'
    """
    tree = parse_query(words, head=SOURCE_HEAD).tree
    used = used_args(tree)
    if not isinstance(tree, exp.Select) or not used <= {"expressions", "from_", "kind"}:
        message = "Write one table, or a query in parentheses: USING (SELECT ...) AS s."
        raise error_at(words.text, words.start, message, error=UnsupportedError)
    node = tree.args["from_"].this
    if node.alias or not isinstance(node, exp.Table):
        name = node.alias or _NAMELESS
        return RowSource(TableName((name,)), name)
    return RowSource(TableName(tuple(p.name for p in node.parts)))


@dataclass(frozen=True, slots=True)
class MergeTerms:
    """Target and source of a merge, to resolve its expressions."""

    target: RowSource
    source: RowSource
    fields: Sequence[DataField]
    columns: Sequence[str]

    def read(self, words: Query) -> ParsedExpression:
        """Parse an expression over both sides."""
        return parse_expression(words, self.target, self.source)

    def predicate(self, on: ParsedExpression) -> Predicate | None:
        """Return the part of a condition on the target alone, as a filter; not bound."""
        known = {on.outer(self.source): self.columns}
        return pushed_filter(on.parsed, on.outer(self.target), self.fields, known)

    def equal(self, on: ParsedExpression) -> list[tuple[str, str]]:
        """Return the pairs of target and source columns that a condition equates.

        Examples
        --------
        >>> from tidelake.types import parse_type
        >>> fields = [DataField(0, "id", parse_type("INT")), DataField(1, "n", parse_type("INT"))]
        >>> sides = [RowSource(TableName((name,))) for name in ("t", "s")]
        >>> terms = MergeTerms(*sides, fields, ["key", "n"])
        >>> text = "t.id = s.key AND (s.n = n OR t.n > 3) AND n = 3"
        >>> terms.equal(terms.read(Query(text, 0, len(text))))
        [('id', 'key')]
        """
        found = []
        for part in conjuncts(on.node):
            if not isinstance(part, exp.EQ):
                continue
            for left, right in ((part.left, part.right), (part.right, part.left)):
                own, other = self._of_target(left), self._of_source(right)
                if own is not None and other is not None:
                    found.append((own, other))
        return found

    def plain(self, values: Mapping[str, ParsedExpression]) -> dict[str, str]:
        """Return the values that are plain columns of the source, by target column."""
        found = {name: self._of_source(value.node) for name, value in values.items()}
        return {name: column for name, column in found.items() if column is not None}

    def _of_target(self, node: exp.Expr) -> str | None:
        names = {f.name.casefold(): f.name for f in self.fields}
        return _column(node, self.target, names, {c.casefold() for c in self.columns})

    def _of_source(self, node: exp.Expr) -> str | None:
        names = {c.casefold(): c for c in self.columns}
        return _column(node, self.source, names, {f.name.casefold() for f in self.fields})

    def mentioned_names(self, *words: Query) -> frozenset[str]:
        """The names that expressions mention."""
        return names_in(*words)

    def target_qualifier(self) -> tuple[str, frozenset[str]]:
        """Return the target's alias, and the columns of both sides that need it."""
        both = {f.name.casefold() for f in self.fields} & {c.casefold() for c in self.columns}
        return self.target.shown, frozenset(both)


def _column(
    node: exp.Expr, rows: RowSource, names: Mapping[str, str], others: set[str]
) -> str | None:
    """Resolve a column by name and qualifier."""
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
