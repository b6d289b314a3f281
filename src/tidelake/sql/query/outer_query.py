"""Follows the columns of a table through subqueries and CTEs, for filters of the outer query.

``SELECT * FROM (SELECT id AS n FROM t) x WHERE x.n = 1`` filters t by id. A subquery is followed if
it only selects and renames columns, perhaps with WHERE: no join, group, DISTINCT, LIMIT, window or
expression; and if nothing else reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tidelake.sql.query.reference import TableReference
from tidelake.sql.syntax.sqlglot_dialect import exp, used_args
from tidelake.types import DataField

_PLAIN = frozenset({"expressions", "from_", "where", "with_", "hint"})
_CONSTANT = (exp.Literal, exp.Boolean, exp.Null)


@dataclass(frozen=True, slots=True)
class Scope:
    """A source in a SELECT, with the table column behind each of its columns.

    Parameters
    ----------
    fields : mapping of str to DataField or None
        The table's columns by their folded names here; None for any other column.
    """

    node: exp.Expr
    alias: str
    select: exp.Select
    fields: Mapping[str, DataField | None]

    def field(self, column: exp.Column) -> DataField | None:
        """Return the table's column that a column of this SELECT is."""
        if column.args.get("db") is not None:
            return None
        if column.table and column.table.casefold() != self.alias.casefold():
            return None
        return self.fields.get(column.name.casefold())


def enclosing_scopes(
    reference: TableReference, fields: Sequence[DataField], tree: exp.Expr
) -> Iterator[Scope]:
    """Yield the SELECT that reads a table, then the outer ones with the same rows."""
    select = reference.node.parent_select
    by_key = {f.name.casefold(): f for f in fields}
    if not isinstance(select, exp.Select) or len(by_key) < len(fields):
        return  # names that differ only in case
    scope: Scope | None = Scope(reference.node, reference.alias, select, by_key)
    while scope is not None:
        if not _is_whole(scope.node) or scope.alias.casefold() in scope.fields:
            return  # a qualifier might be a struct's name
        yield scope
        scope = _around(scope, tree)


def _is_whole(node: exp.Expr) -> bool:
    """True if a source keeps all its rows and column names."""
    alias = node.args.get("alias")
    return (
        node.args.get("sample") is None
        and not node.args.get("pivots")
        and not node.args.get("joins")
        and not (alias is not None and alias.args.get("columns"))
    )


def _around(scope: Scope, tree: exp.Expr) -> Scope | None:
    select = scope.select
    source = select.args.get("from_")
    used = used_args(select)
    if not used <= _PLAIN or source is None or source.this is not scope.node:
        return None
    fields = _outputs(scope)
    node = _user(select.parent, tree)
    outer = None if node is None else node.parent_select
    if fields is None or node is None or not isinstance(outer, exp.Select):
        return None
    return Scope(node, node.alias_or_name, outer, fields)


def _outputs(scope: Scope) -> dict[str, DataField | None] | None:
    """The columns of the SELECT; None if it does more than select columns."""
    outputs: dict[str, DataField | None] = {}

    def add(name: str, field: DataField | None) -> None:
        key = name.casefold()
        outputs[key] = None if key in outputs else field  # a duplicate name is ambiguous

    for given in scope.select.expressions:
        column = given.this if isinstance(given, exp.Alias) else given
        star = column.this if isinstance(column, exp.Column) else column
        if isinstance(star, exp.Star):
            if any(star.args.values()) or (star is not column and column.table != scope.alias):
                return None
            for name, field in scope.fields.items():
                add(name, field)
        elif isinstance(column, exp.Column):
            add(given.alias_or_name, scope.field(column))
        elif isinstance(given, exp.Alias) and isinstance(column, _CONSTANT):
            add(given.alias, None)
        else:
            return None
    return outputs


def _user(holder: exp.Expr | None, tree: exp.Expr) -> exp.Expr | None:
    """The only source that a subquery or CTE is; None otherwise."""
    if isinstance(holder, exp.Subquery):
        stands_alone = isinstance(holder.parent, (exp.From, exp.Join)) and holder.alias
        return holder if stands_alone else None
    if not isinstance(holder, exp.CTE) or holder.args["alias"].args.get("columns"):
        return None
    clause = holder.parent
    if clause is None or clause.args.get("recursive"):
        return None
    name = holder.alias.casefold()
    if sum(cte.alias.casefold() == name for cte in tree.find_all(exp.CTE)) > 1:
        return None
    uses = [
        table
        for table in tree.find_all(exp.Table)
        if table.name.casefold() == name and table.find_ancestor(exp.Hint) is None
    ]
    if len(uses) != 1 or uses[0].args.get("db") is not None:
        return None
    return uses[0]
