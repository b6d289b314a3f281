"""Metadata columns in a query: available by name, not in a star.

The SELECT that reads a table sees its metadata columns, and so do subqueries that qualify them. An
outer query sees those that this SELECT names. Spark gets them as plain columns, so stars exclude
them: ``*`` becomes ``* EXCEPT (t.__paimon_bucket)``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tidelake.errors import UnsupportedError
from tidelake.sql.query.query import ParsedQuery
from tidelake.sql.query.reference import TableReference, relation_aliases
from tidelake.sql.syntax.name import quoted_name
from tidelake.sql.syntax.sqlglot_dialect import MADE_POSITION, exp
from tidelake.sql.syntax.tokens import error_at


def named_metadata_columns(
    parsed: ParsedQuery, reference: TableReference, hidden: Sequence[str]
) -> tuple[str, ...]:
    """Return the metadata columns of a table that its SELECT names.

    Raises
    ------
    UnsupportedError
        The SELECT has a NATURAL JOIN, which would join by them.

    Examples
    --------
    >>> from tidelake.sql.query.query import parse_query
    >>> from tidelake.sql.syntax.ast import Query
    >>> text = "SELECT *, t.__paimon_bucket FROM db.t"
    >>> parsed = parse_query(Query(text, 0, len(text)))
    >>> hidden = ["__paimon_row_index", "__paimon_bucket"]
    >>> named_metadata_columns(parsed, parsed.references[0], hidden)
    ('__paimon_bucket',)
    """
    select = reference.node.parent_select
    if not isinstance(select, exp.Select):
        return ()
    known = {name.casefold(): name for name in hidden}
    found: dict[str, exp.Column] = {}
    for column in select.find_all(exp.Column):
        parts = [p.name.casefold() for p in column.parts if isinstance(p, exp.Identifier)]
        depth = next((i for i, part in enumerate(parts) if part in known), None)
        if depth is None or tuple(parts[:depth]) != reference.qualifier[-depth:][:depth]:
            continue
        if depth > 0 or column.parent_select is select:
            found.setdefault(known[parts[depth]], column)
    for name, column in found.items():
        joins = select.args.get("joins") or ()
        if any(str(join.args.get("method") or "").upper() == "NATURAL" for join in joins):
            message = f"A NATURAL JOIN would join by {name} too: name the join columns by USING."
            start = column.parts[0].meta.get("start", parsed.query.start)
            raise error_at(
                parsed.query.text, start, message, kind="sql_clause", error=UnsupportedError
            )
    return tuple(name for name in hidden if name in found)


def metadata_column_exclusions(
    parsed: ParsedQuery, hidden: Mapping[TableReference, Sequence[str]]
) -> dict[int, str]:
    """Return the EXCEPT clauses for the stars of a query, by offset.

    Raises
    ------
    UnsupportedError
        A star has EXCEPT or the like itself.
    """
    aliases = relation_aliases(parsed.tree, parsed.references)
    after: dict[int, list[str]] = {}
    for reference, names in hidden.items():
        alias = quoted_name(aliases.get(reference, reference.alias))
        for star in _stars(parsed, reference) if names else ():
            if star.meta["end"] == MADE_POSITION:
                message = f"{names[0]} beside all columns by |> is not supported: write SELECT."
                raise error_at(
                    parsed.query.text,
                    reference.start,
                    message,
                    kind="sql_clause",
                    error=UnsupportedError,
                )
            end = star.meta["end"] + 1
            if any(value for value in star.args.values()):
                message = (
                    f"A star with EXCEPT beside {names[0]} is not supported: name the columns, or"
                    " write the star with EXCEPT in an outer SELECT."
                )
                raise error_at(
                    parsed.query.text, end - 1, message, kind="sql_clause", error=UnsupportedError
                )
            after.setdefault(end, []).extend(f"{alias}.{quoted_name(name)}" for name in names)
    return {end: f" EXCEPT ({', '.join(columns)})" for end, columns in after.items()}


def _stars(parsed: ParsedQuery, reference: TableReference) -> Iterator[exp.Star]:
    """The stars that stand for all columns of a table."""
    select = reference.node.parent_select
    key = reference.alias.casefold()
    for star in parsed.tree.find_all(exp.Star):
        parent = star.parent
        if star.parent_select is not select:
            continue  # the same alias may stand for another table there
        if isinstance(parent, exp.Column):
            if parent.table.casefold() == key:
                yield star
        elif not isinstance(parent, exp.Count):
            yield star
