"""The columns that stars, natural joins and the like use.

``SELECT * FROM t`` uses all. In ``SELECT x.id FROM (SELECT * FROM t) x`` the star uses only the
columns that the outer query names. It uses all if the inner query is a side of UNION, has DISTINCT,
renames its columns or is compared as a whole.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator

from tidelake.sql.syntax.sqlglot_dialect import exp, used_args


class StarUse(enum.Enum):
    """Columns of a table that a query may use."""

    NAMED = "those that its SELECT names"
    NAMED_ANYWHERE = "those that the whole query names"
    ALL = "all"


def star_use(
    node: exp.Expr, alias: str, tree: exp.Expr, *, above: frozenset[int] = frozenset()
) -> StarUse:
    """Return the columns of a source that a query uses.

    Parameters
    ----------
    above : frozenset of int
        SELECTs visited before; a name that leads back to them means another source.

    Returns
    -------
    Taken
    """
    select = node.parent_select
    if not isinstance(select, exp.Select) or not _is_plain(node, select):
        return StarUse.ALL
    key = alias.casefold()
    taken = StarUse.NAMED
    for star in tree.find_all(exp.Star):
        parent = star.parent
        holder = parent if isinstance(parent, exp.Column) else star
        if isinstance(parent, exp.Column):
            if parent.table.casefold() != key:
                continue
        elif isinstance(parent, exp.Count) or star.parent_select is not select:
            continue
        in_list = holder.parent is select and not _says_more(star)
        if not in_list or holder.parent_select is not select or _shows(select, tree, above):
            return StarUse.ALL
        taken = StarUse.NAMED_ANYWHERE
    # a name alone is the whole row
    whole = any(not c.table and c.name.casefold() == key for c in tree.find_all(exp.Column))
    return StarUse.ALL if whole else taken


def _says_more(star: exp.Star) -> bool:
    """True for ``* EXCEPT (...)`` and the like."""
    return bool(used_args(star))


def _is_plain(node: exp.Expr, select: exp.Select) -> bool:
    """True if nothing around a source uses columns without naming them."""
    alias = node.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        return False
    if node.args.get("pivots") or any(True for _ in select.find_all(exp.Pivot)):
        return False
    joins = select.args.get("joins") or ()
    return not any(str(j.args.get("method") or "").upper() == "NATURAL" for j in joins)


def _shows(select: exp.Select, tree: exp.Expr, above: frozenset[int]) -> bool:
    """True if the number or order of a SELECT's columns matters."""
    if id(select) in above:
        return True
    if select.args.get("distinct") or select.args.get("group") or _is_ordered_by_number(select):
        return True
    parent = select.parent
    if isinstance(parent, exp.Exists):
        return False
    users = list(_users(parent, tree))
    if not users:
        return True
    asked = above | {id(select)}
    return any(star_use(node, alias, tree, above=asked) is StarUse.ALL for node, alias in users)


def _is_ordered_by_number(select: exp.Select) -> bool:
    """True for ORDER BY a column number or ALL."""
    for key in ("order", "sort", "cluster", "distribute"):
        for item in getattr(select.args.get(key), "expressions", ()):
            column = item.this if isinstance(item, exp.Ordered) else item
            is_all = isinstance(column, exp.Column) and column.sql().upper() == "ALL"
            if is_all or isinstance(column, (exp.Literal, exp.Var)):
                return True
    return False


def _users(holder: exp.Expr | None, tree: exp.Expr) -> Iterator[tuple[exp.Expr, str]]:
    """The sources that a subquery or CTE is; none if it is used in another way."""
    if isinstance(holder, exp.Subquery):
        if isinstance(holder.parent, (exp.From, exp.Join)) and holder.alias:
            yield holder, holder.alias
    elif isinstance(holder, exp.CTE):
        alias = holder.args.get("alias")
        if alias is None or alias.args.get("columns"):
            return
        for table in tree.find_all(exp.Table):
            if table.name.casefold() == holder.alias.casefold() and not table.args.get("db"):
                yield table, table.alias or table.name
