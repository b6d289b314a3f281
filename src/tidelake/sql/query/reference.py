"""Tables in a query, and their aliases for Spark.

Spark gets a relation in place of each table. Its alias is the last part of the table's name, and
its columns lose ``catalog.`` and ``database.``. If another source has this alias (``a.t JOIN
b.t``), the alias is the whole name: ```a.t```.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tidelake.sql.syntax.name import TableName, quoted_name
from tidelake.sql.syntax.sqlglot_dialect import exp
from tidelake.sql.syntax.table_clause import Clause, TableFunction
from tidelake.sql.syntax.tokens import error_at


@dataclass(frozen=True, slots=True, eq=False)
class TableReference:
    """A table in a query.

    Parameters
    ----------
    start, end : int
        Offsets with its clauses, without its alias; :data:`HEAD_POSITION` in a generated head.
    has_alias : bool
        True if the query gives the alias.
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
        """Qualifier of its columns, case folded; the last part is enough."""
        parts = (self.alias,) if self.has_alias else self.name.parts
        return tuple(part.casefold() for part in parts)


def relation_aliases(
    tree: exp.Expr, references: Sequence[TableReference]
) -> dict[TableReference, str]:
    """Return aliases for the references whose alias is not unique."""
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


def requalify(
    text: str, tree: exp.Expr, aliases: Mapping[TableReference, str]
) -> Iterator[tuple[int, int, str]]:
    """Yield offsets and new text of column qualifiers.

    Raises
    ------
    InvalidInputError
        A qualifier is ambiguous.
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
    given: tuple[str, ...], aliases: Mapping[TableReference, str]
) -> tuple[TableReference, int] | None:
    """Find the table by at least the last two parts of its name."""
    for reference in aliases:
        name = reference.qualifier
        for depth in range(2, len(name) + 1):
            if given[:depth] == name[-depth:]:
                return reference, depth
    return None


def _by_last_part(
    text: str, start: int, column: exp.Expr, given: str, aliases: Mapping[TableReference, str]
) -> TableReference | None:
    """Find the table by its name alone, if it got another alias."""
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
                f"'{given}' is ambiguous ({', '.join(names)}): write the database too, or give the"
                " tables aliases."
            )
            raise error_at(text, start, message, kind="sql_ambiguous")
        if sources:
            return same.get(id(sources[0]))
        select = select.parent_select
    return None
