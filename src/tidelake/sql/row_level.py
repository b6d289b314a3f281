"""Reads UPDATE and DELETE: expressions over the columns of one table.

An expression is Spark's and is kept as it was written, but for the table's alias or name before its
columns, which is taken off: the rows that it is evaluated on have only columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from tidelake.sql.name import TableName
from tidelake.sql.pushdown import whole_filter
from tidelake.sql.query import read_query
from tidelake.sql.reader import Reader
from tidelake.sql.statement import Delete, Query, Update
from tidelake.sql.words import Word
from tidelake.types import DataField
from tidelake.types.predicate import Predicate

__all__ = ["condition_filter", "delete", "merge", "update"]

_SUBQUERIES = (
    "A subquery in {} is not covered: read what it gives first, or write rows with a column"
    " _row_kind by tl.write."
)

_BEHIND = frozenset(
    {
        "LIMIT", "OFFSET", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "GROUP", "HAVING", "QUALIFY",
        "WINDOW", "UNION", "EXCEPT", "MINUS", "INTERSECT", "TABLESAMPLE", "LATERAL", "JOIN",
        "USING", "RETURNING",
    }
)  # fmt: skip
"""What may stand behind the condition of a query, and would be passed over here."""


def delete(reader: Reader) -> Delete:
    """Read a statement that begins with ``DELETE``."""
    reader.need("DELETE", "FROM")
    name, alias, options = _target(reader)
    where = _where(reader, name, alias, "DELETE")
    reader.finish()
    return Delete(name, where, options)


def update(reader: Reader) -> Update:
    """Read a statement that begins with ``UPDATE``."""
    reader.need("UPDATE")
    name, alias, options = _target(reader)
    reader.need("SET", why=" behind the table")
    values: dict[str, str] = {}
    while True:
        start = reader.place
        column = _column(reader, name, alias)
        if column in values:
            raise reader.fault(f"Column '{column}' is set twice.", start=start)
        reader.need("=", why=" behind the column")
        values[column] = _expression(reader, name, alias, "UPDATE", stop=(",", "WHERE"))
        if not reader.take(","):
            break
    where = _where(reader, name, alias, "UPDATE")
    reader.finish()
    return Update(name, values, where, options)


def merge(reader: Reader) -> NoReturn:
    """Refuse MERGE."""
    raise reader.refusal(
        "MERGE is not covered yet: INSERT INTO a table with a primary key replaces rows by their"
        " key, UPDATE and DELETE change those that match.",
        kind="sql_row_level",
    )


def _target(reader: Reader) -> tuple[TableName, str, dict[str, str]]:
    name = reader.table_name()
    options = reader.options() if reader.take("WITH") else {}
    alias = name.parts[-1]
    said = reader.take("AS")
    if said or not (reader.word is None or reader.sees("WHERE") or reader.sees("SET")):
        alias = reader.name("alias")
    return name, alias, options


def _column(reader: Reader, name: TableName, alias: str) -> str:
    start = reader.place
    parts = [reader.name("column")]
    while reader.take("."):
        parts.append(reader.name("column"))
    qualifier = tuple(p.casefold() for p in parts[:-1])
    if qualifier and qualifier not in _qualifiers(name, alias):
        raise reader.refusal(
            "A field inside a column is not set alone: set the column, as with struct(...) or"
            " named_struct(...).",
            start=start,
        )
    return parts[-1]


def _where(reader: Reader, name: TableName, alias: str, what: str) -> str | None:
    return _expression(reader, name, alias, what, stop=()) if reader.take("WHERE") else None


def _expression(
    reader: Reader, name: TableName, alias: str, what: str, *, stop: Sequence[str]
) -> str:
    """What stands before a word of `stop` outside parentheses, without qualifiers."""
    start, first = reader.place, reader.index
    depth = 0
    while (word := reader.word) is not None:
        if depth == 0 and word.upper in stop:
            break
        if depth == 0 and (word.upper in _BEHIND or word.text.startswith("|>")):
            raise reader.refusal(
                f"{what} takes nothing behind its condition: name the rows in WHERE. A column of"
                f" that name is written `{word.text}`.",
                kind="sql_row_level",
            )
        if word.upper in {"SELECT", "WITH"} and reader.index > first:
            before = reader.words[reader.index - 1]
            if before.upper == "(":
                raise reader.refusal(_SUBQUERIES.format(what), kind="sql_row_level")
        depth += (word.upper in {"(", "["}) - (word.upper in {")", "]"})
        reader.index += 1
    words = reader.words[first : reader.index]
    if not words:
        raise reader.fault("An expression is missing here.", start=start)
    return _without_qualifiers(reader.text, words, _qualifiers(name, alias))


def _qualifiers(name: TableName, alias: str) -> set[tuple[str, ...]]:
    """What may stand before a column: the alias, or the name's last parts."""
    if alias != name.parts[-1]:
        return {(alias.casefold(),)}
    parts = tuple(p.casefold() for p in name.parts)
    return {parts[number:] for number in range(len(parts))}


def _without_qualifiers(text: str, words: Sequence[Word], qualifiers: set[tuple[str, ...]]) -> str:
    pieces: list[str] = []
    at = words[0].start
    number = 0
    while number < len(words):
        behind_dot = number > 0 and words[number - 1].upper == "."
        length = 0 if behind_dot else _qualifier_length(words[number:], qualifiers)
        if length:
            pieces.append(text[at : words[number].start])
            number += length
            at = words[number].start
        else:
            number += 1
    return "".join((*pieces, text[at : words[-1].end]))


def _qualifier_length(words: Sequence[Word], qualifiers: set[tuple[str, ...]]) -> int:
    """How many words a qualifier takes with its dots; 0 where there is none."""
    for qualifier in qualifiers:
        length = 2 * len(qualifier)
        if len(words) <= length:
            continue
        names, dots = words[0:length:2], words[1:length:2]
        if all(d.upper == "." for d in dots) and qualifier == tuple(
            n.text.casefold() if n.is_name else "" for n in names
        ):
            return length
    return 0


def condition_filter(condition: str, fields: Sequence[DataField]) -> Predicate | None:
    """A condition as a filter of the kernel, where that is surely the same; None otherwise.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> fields = [DataField(0, "id", parse_type("INT"))]
    >>> print(condition_filter("id > 3 AND id IS NOT NULL", fields))
    id > 3 AND id IS NOT NULL
    >>> condition_filter("abs(id) > 3", fields) is None
    True
    """
    text = f"SELECT 1 FROM rows_of_one_table WHERE {condition}"
    parsed = read_query(Query(text, 0, len(text)))
    return whole_filter(parsed, parsed.references[0], fields)
