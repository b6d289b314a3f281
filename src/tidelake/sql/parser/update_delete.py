"""Reads UPDATE and DELETE: expressions over the columns of one table.

An expression is Spark's and is kept as its place in the text; :mod:`tidelake.sql.query.expression`
looks into it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidelake.sql.syntax.ast import Delete, FieldValue, Query, Update
from tidelake.sql.syntax.cursor import Reader
from tidelake.sql.syntax.name import TableName

__all__ = [
    "Assignments",
    "assignments",
    "column_of",
    "delete",
    "expression",
    "table_options",
    "target",
    "update",
]

_BEHIND = frozenset(
    {
        "LIMIT", "OFFSET", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "GROUP", "HAVING", "QUALIFY",
        "WINDOW", "UNION", "EXCEPT", "MINUS", "INTERSECT", "TABLESAMPLE", "LATERAL", "JOIN",
        "USING", "RETURNING",
    }
)  # fmt: skip
"""What may stand behind the condition of a query, and would be passed over here."""
_OF_CASE = frozenset({"WHEN", "THEN"})


def delete(reader: Reader) -> Delete:
    """Read a statement that begins with ``DELETE``."""
    reader.need("DELETE", "FROM")
    name, alias, options = target(reader, "WHERE")
    where = expression(reader, "DELETE") if reader.take("WHERE") else None
    reader.finish()
    return Delete(name, where, options, alias)


def update(reader: Reader) -> Update:
    """Read a statement that begins with ``UPDATE``."""
    reader.need("UPDATE")
    name, alias, options = target(reader, "SET", "WHERE")
    reader.need("SET", why=" behind the table")
    given = assignments(reader, name, alias, "UPDATE", stop=("WHERE",))
    where = expression(reader, "UPDATE") if reader.take("WHERE") else None
    reader.finish()
    return Update(name, given.values, where, options, alias, given.inside, given.places)


@dataclass(frozen=True, slots=True)
class Assignments:
    """What SET says.

    Parameters
    ----------
    values : mapping of str to Query
        New values of columns.
    inside : mapping of str to tuple of FieldValue
        New values of fields, by their columns.
    places : mapping of str to int
        Where the columns first stand.
    """

    values: Mapping[str, Query]
    inside: Mapping[str, tuple[FieldValue, ...]]
    places: Mapping[str, int]


def assignments(
    reader: Reader, name: TableName, alias: str | None, what: str, *, stop: Sequence[str]
) -> Assignments:
    """Read ``column = expression, column.field = expression, ...`` up to a word of `stop`."""
    values: dict[str, Query] = {}
    inside: dict[str, list[FieldValue]] = {}
    places: dict[str, int] = {}
    names: dict[str, str] = {}
    taken: list[tuple[str, ...]] = []
    while True:
        start = reader.place
        column, *path = _target_of(reader, name, alias)
        key = tuple(part.casefold() for part in (column, *path))
        other = next((t for t in taken if t[: len(key)] == key or key[: len(t)] == t), None)
        if other == key:
            shown = ".".join((column, *path))
            what_it_is = "Field" if path else "Column"
            raise reader.fault(f"{what_it_is} '{shown}' is set twice.", start=start)
        if other is not None:
            message = (
                f"'{'.'.join(key)}' and '{'.'.join(other)}' are both set: one holds the other."
            )
            raise reader.fault(message, start=start)
        taken.append(key)
        column = names.setdefault(column.casefold(), column)
        places.setdefault(column, start)
        reader.need("=", why=" behind the column")
        value = expression(reader, what, stop=(",", *stop))
        if path:
            inside.setdefault(column, []).append(FieldValue(tuple(path), value))
        else:
            values[column] = value
        if not reader.take(","):
            return Assignments(values, {c: tuple(f) for c, f in inside.items()}, places)


def target(reader: Reader, *behind: str) -> tuple[TableName, str | None, dict[str, str]]:
    """Read a table with its options and its alias, if any, before a word of `behind`."""
    name = reader.table_name()
    options = table_options(reader)
    said = reader.take("AS")
    if said or not (reader.word is None or any(reader.sees(word) for word in behind)):
        return name, reader.name("alias"), options
    return name, None, options


def table_options(reader: Reader) -> dict[str, str]:
    """Read ``WITH ('key' = 'value')`` behind a table; ``WITH name AS`` begins a query."""
    if not reader.sees("WITH", "("):
        return {}
    reader.need("WITH")
    return reader.options()


def column_of(reader: Reader, name: TableName, alias: str | None) -> str:
    """Read a column of the table that is changed, with its qualifier or without."""
    start = reader.place
    column, *path = _target_of(reader, name, alias)
    if path:
        raise reader.refusal(
            "A row that is added has no field to be set alone: give the column, as with struct(...)"
            " or named_struct(...).",
            start=start,
        )
    return column


def _target_of(reader: Reader, name: TableName, alias: str | None) -> list[str]:
    """Read a column, and fields below it, behind the longest qualifier that is the table's."""
    parts = [reader.name("column")]
    while reader.take("."):
        parts.append(reader.name("column"))
    known = _qualifiers(name, alias)
    keys = tuple(p.casefold() for p in parts)
    depth = max((d for d in range(1, len(parts)) if keys[:d] in known), default=0)
    return parts[depth:]


def expression(
    reader: Reader, what: str, *, stop: Sequence[str] = (), is_query: bool = False
) -> Query:
    """Read up to a word of `stop` outside parentheses and CASE.

    Parameters
    ----------
    reader : Reader
        At its first word.
    what : str
        The statement, for messages.
    stop : sequence of str
        Words and signs.
    is_query : bool
        Whether it is a query in parentheses, where all words may stand.
    """
    start, first = reader.place, reader.index
    depth = cases = 0
    while (word := reader.word) is not None:
        is_plain = reader.index == first or reader.words[reader.index - 1].text != "."
        if depth == 0 and is_plain:
            if word.upper in stop and not (cases and word.upper in _OF_CASE):
                break
            if not is_query and (word.upper in _BEHIND or word.text.startswith("|>")):
                raise reader.refusal(
                    f"{what} takes nothing behind its condition: name the rows in WHERE. A column"
                    f" of that name is written `{word.text}`.",
                    kind="sql_row_level",
                )
            cases += (word.upper == "CASE") - (word.upper == "END" and cases > 0)
        depth += (word.upper in {"(", "["}) - (word.upper in {")", "]"})
        reader.index += 1
    if reader.index == first:
        raise reader.fault("An expression is missing here.", start=start)
    return Query(reader.text, start, reader.end)


def _qualifiers(name: TableName, alias: str | None) -> set[tuple[str, ...]]:
    """What may stand before a column: the alias, or the name's last parts."""
    if alias is not None:
        return {(alias.casefold(),)}
    parts = tuple(p.casefold() for p in name.parts)
    return {parts[number:] for number in range(len(parts))}
