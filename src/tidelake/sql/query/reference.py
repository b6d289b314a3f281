"""Tables in a query, and the names under which Spark shall know them.

Where a table stood, Spark gets a relation with an alias: the last part of the table's name. Its
columns lose ``database.`` and ``catalog.`` before that. Where another source has this alias already
(``a.t JOIN b.t``), the relation's is the whole name in one: ```a.t```.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tidelake.sql.syntax.name import TableName, quoted_name
from tidelake.sql.syntax.sqlglot_dialect import exp
from tidelake.sql.syntax.table_clause import Clause, TableFunction
from tidelake.sql.syntax.tokens import fault

__all__ = ["Reference", "relation_aliases", "requalified"]


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """A table in a query.

    Parameters
    ----------
    name : TableName
        As it was written.
    start, end : int
        Its place, with its clauses, without its alias; before the text where it is not in it.
    alias : str
        Under which columns are qualified.
    has_alias : bool
        Whether the query says one.
    node : exp.Table
        In the tree.
    clause : Clause
        What is said behind it.
    function : TableFunction, optional
        That it is the table of.
    """

    name: TableName
    start: int
    end: int
    alias: str
    has_alias: bool
    node: exp.Table
    clause: Clause
    function: TableFunction | None = None

    @property
    def qualifier(self) -> tuple[str, ...]:
        """What columns may have before them, without regard to case; the last part is enough."""
        parts = (self.alias,) if self.has_alias else self.name.parts
        return tuple(part.casefold() for part in parts)


def relation_aliases(tree: exp.Expr, references: Sequence[Reference]) -> dict[Reference, str]:
    """Other aliases for the references whose own another source of the query has.

    Parameters
    ----------
    tree : exp.Expr
        The query.
    references : sequence of Reference
        All of it.
    """
    by_node = {id(r.node): r for r in references}
    known: dict[str, set[object]] = {}
    for node in tree.find_all(exp.Table, exp.Subquery, exp.CTE):
        reference = by_node.get(id(node))
        own = None if reference is None or reference.has_alias else reference.qualifier
        alias = node.alias_or_name if reference is None else reference.alias
        known.setdefault(alias.casefold(), set()).add(own or id(node))
    return {
        r: ".".join(r.name.parts)
        for r in references
        if not r.has_alias and len(r.name.parts) > 1 and len(known[r.alias.casefold()]) > 1
    }


def requalified(
    text: str, tree: exp.Expr, aliases: Mapping[Reference, str]
) -> Iterator[tuple[int, int, str]]:
    """What to write for the qualifiers of columns, with the places.

    Parameters
    ----------
    text : str
        The whole text that the user gave, for messages.
    tree : exp.Expr
        The query.
    aliases : mapping of Reference to str
        The relations' aliases.

    Raises
    ------
    InvalidInputError
        A qualifier may mean two tables.
    """
    if all(len(r.qualifier) == 1 for r in aliases):
        return
    for column in tree.find_all(exp.Column):
        qualifiers = column.parts[:-1]
        if not qualifiers or any("start" not in p.meta for p in qualifiers):
            continue
        given = tuple(p.name.casefold() for p in qualifiers)
        start = qualifiers[0].meta["start"]
        found = _by_long_name(given, aliases)
        if found is None:
            reference = _by_last_part(text, start, column, given[0], aliases)
            found = None if reference is None else (reference, 1)
        if found is not None:
            reference, depth = found
            last = qualifiers[depth - 1].meta
            alias = aliases[reference]
            if alias != reference.alias:
                yield start, last["end"] + 1, quoted_name(alias)
            elif depth > 1:
                yield start, last["start"], ""


def _by_long_name(
    given: tuple[str, ...], aliases: Mapping[Reference, str]
) -> tuple[Reference, int] | None:
    """The table whose name's last two parts, or more, a column is qualified with."""
    for reference in aliases:
        name = reference.qualifier
        for depth in range(2, len(name) + 1):
            if given[:depth] == name[-depth:]:
                return reference, depth
    return None


def _by_last_part(
    text: str, start: int, column: exp.Expr, given: str, aliases: Mapping[Reference, str]
) -> Reference | None:
    """The table with another alias that a column means by the table's name alone."""
    same = {id(r.node): r for r in aliases if r.alias.casefold() == given}
    if all(aliases[r] == r.alias for r in same.values()):
        return None
    select = column.parent_select
    while select is not None:
        sources = [
            node
            for node in select.find_all(exp.Table, exp.Subquery)
            if node.parent_select is select and node.alias_or_name.casefold() == given
        ]
        if len(sources) > 1:
            names = sorted({str(same[id(n)].name) for n in sources if id(n) in same})
            message = (
                f"'{given}' may be more than one table here ({', '.join(names)}): write the"
                " database too, or give the tables aliases."
            )
            raise fault(text, start, message, kind="sql_ambiguous")
        if sources:
            return same.get(id(sources[0]))
        select = select.parent_select
    return None
