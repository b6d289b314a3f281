"""What stars, natural joins and the like take of a table's columns.

``SELECT * FROM t`` takes all. In ``SELECT x.id FROM (SELECT * FROM t) x`` the star takes what the
outer query names, for the order and number of the columns between do not show. They do show where
the inner query is a side of UNION, says DISTINCT, renames its columns or is compared as a whole.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator

from tidelake.sql.syntax.sqlglot_dialect import exp

__all__ = ["Taken", "stars_of"]


class Taken(enum.Enum):
    """Which columns of a table a query may look at."""

    NAMED = "those that its SELECT names"
    NAMED_ANYWHERE = "those that the whole query names"
    ALL = "all"


def stars_of(
    node: exp.Expr, alias: str, tree: exp.Expr, *, above: frozenset[int] = frozenset()
) -> Taken:
    """What of a source's columns is taken beside those that are named.

    Parameters
    ----------
    node : exp.Expr
        A table, or a subquery with a name, in FROM or JOIN.
    alias : str
        Its name there.
    tree : exp.Expr
        The whole query.
    above : frozenset of int
        SELECTs that were asked already: names that lead back to them are another thing's.

    Returns
    -------
    Taken
    """
    select = node.parent_select
    if not isinstance(select, exp.Select) or not _is_plain(node, select):
        return Taken.ALL
    key = alias.casefold()
    taken = Taken.NAMED
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
            return Taken.ALL
        taken = Taken.NAMED_ANYWHERE
    # a name alone is the whole row
    whole = any(not c.table and c.name.casefold() == key for c in tree.find_all(exp.Column))
    return Taken.ALL if whole else taken


def _says_more(star: exp.Star) -> bool:
    """Whether it is ``* EXCEPT (...)`` or the like."""
    return any(value for value in star.args.values())


def _is_plain(node: exp.Expr, select: exp.Select) -> bool:
    """Whether nothing around a source takes columns without a name."""
    alias = node.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        return False
    if node.args.get("pivots") or any(True for _ in select.find_all(exp.Pivot)):
        return False
    joins = select.args.get("joins") or ()
    return not any(str(j.args.get("method") or "").upper() == "NATURAL" for j in joins)


def _shows(select: exp.Select, tree: exp.Expr, above: frozenset[int]) -> bool:
    """Whether number or order of a SELECT's columns matter to the answer."""
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
    return any(stars_of(node, alias, tree, above=asked) is Taken.ALL for node, alias in users)


def _is_ordered_by_number(select: exp.Select) -> bool:
    """Whether rows are ordered by columns that are named by their place, or by all."""
    for key in ("order", "sort", "cluster", "distribute"):
        for item in getattr(select.args.get(key), "expressions", ()):
            column = item.this if isinstance(item, exp.Ordered) else item
            is_all = isinstance(column, exp.Column) and column.sql().upper() == "ALL"
            if is_all or isinstance(column, (exp.Literal, exp.Var)):
                return True
    return False


def _users(holder: exp.Expr | None, tree: exp.Expr) -> Iterator[tuple[exp.Expr, str]]:
    """The sources that a subquery or a CTE is; none where it is used in another way."""
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
