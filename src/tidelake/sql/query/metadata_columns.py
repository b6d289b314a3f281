"""Metadata columns in a query: named, they are there; no star shows them.

A table's metadata columns are seen in the SELECT whose FROM names the table, and in subqueries
there that qualify them. A query around it sees those that the SELECT names, as columns like others.
Spark is given them as plain columns of the table's rows, so the stars beside them leave them out:
``*`` becomes ``* EXCEPT (t.__paimon_bucket)``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tidelake.errors import UnsupportedError
from tidelake.sql.query.query import ParsedQuery
from tidelake.sql.query.reference import Reference, relation_aliases
from tidelake.sql.syntax.name import quoted_name
from tidelake.sql.syntax.sqlglot_dialect import exp
from tidelake.sql.syntax.tokens import fault

__all__ = ["hidden_named", "without_hidden"]


def hidden_named(
    parsed: ParsedQuery, reference: Reference, hidden: Sequence[str]
) -> tuple[str, ...]:
    """The metadata columns of a table that its SELECT names.

    Parameters
    ----------
    parsed : ParsedQuery
        The query.
    reference : Reference
        The table in it.
    hidden : sequence of str
        Its metadata columns.

    Raises
    ------
    UnsupportedError
        It stands in a NATURAL JOIN, which would join by them.

    Examples
    --------
    >>> from tidelake.sql.query.query import read_query
    >>> from tidelake.sql.syntax.ast import Query
    >>> text = "SELECT *, t.__paimon_bucket FROM db.t"
    >>> parsed = read_query(Query(text, 0, len(text)))
    >>> hidden_named(parsed, parsed.references[0], ["__paimon_row_index", "__paimon_bucket"])
    ('__paimon_bucket',)
    """
    select = reference.node.parent_select
    if not isinstance(select, exp.Select):
        return ()
    known = {name.casefold(): name for name in hidden}
    found: dict[str, exp.Column] = {}
    for column in select.find_all(exp.Column):
        parts = [p.name.casefold() for p in column.parts if isinstance(p, exp.Identifier)]
        place = next((i for i, part in enumerate(parts) if part in known), None)
        if place is None or tuple(parts[:place]) != reference.qualifier[-place:][:place]:
            continue
        if place > 0 or column.parent_select is select:
            found.setdefault(known[parts[place]], column)
    for name, column in found.items():
        joins = select.args.get("joins") or ()
        if any(str(join.args.get("method") or "").upper() == "NATURAL" for join in joins):
            message = f"A NATURAL JOIN would join by {name} too: say its columns by USING."
            place = column.parts[0].meta.get("start", parsed.query.start)
            raise fault(
                parsed.query.text, place, message, kind="sql_clause", error=UnsupportedError
            )
    return tuple(name for name in hidden if name in found)


def without_hidden(
    parsed: ParsedQuery, hidden: Mapping[Reference, Sequence[str]]
) -> dict[int, str]:
    """What to write behind the stars of a query, by the places where it goes.

    Parameters
    ----------
    parsed : ParsedQuery
        The query.
    hidden : mapping of Reference to sequence of str
        The metadata columns that the tables' rows come with.

    Raises
    ------
    UnsupportedError
        A star says EXCEPT, or the like, itself.
    """
    aliases = relation_aliases(parsed.tree, parsed.references)
    behind: dict[int, list[str]] = {}
    for reference, names in hidden.items():
        alias = quoted_name(aliases.get(reference, reference.alias))
        for star in _stars(parsed, reference) if names else ():
            end = star.meta["end"] + 1
            if any(value for value in star.args.values()):
                message = (
                    f"A star with EXCEPT beside {names[0]} is not covered: name the columns, or say"
                    " the star in a SELECT around this one."
                )
                raise fault(
                    parsed.query.text, end - 1, message, kind="sql_clause", error=UnsupportedError
                )
            behind.setdefault(end, []).extend(f"{alias}.{quoted_name(name)}" for name in names)
    return {end: f" EXCEPT ({', '.join(columns)})" for end, columns in behind.items()}


def _stars(parsed: ParsedQuery, reference: Reference) -> Iterator[exp.Star]:
    """The stars that mean all columns of a table."""
    select = reference.node.parent_select
    key = reference.alias.casefold()
    for star in parsed.tree.find_all(exp.Star):
        parent = star.parent
        if isinstance(parent, exp.Column):
            if parent.table.casefold() == key:
                yield star
        elif not isinstance(parent, exp.Count) and star.parent_select is select:
            yield star
