"""Parses UPDATE and DELETE.

An expression stays text, by its position; :mod:`tidelake.sql.query.expression` analyses it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidelake.sql.syntax.ast import Delete, FieldAssignment, Query, Update
from tidelake.sql.syntax.cursor import Cursor
from tidelake.sql.syntax.name import TableName

_TRAILING_CLAUSES = frozenset(
    {
        "LIMIT", "OFFSET", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "GROUP", "HAVING", "QUALIFY",
        "WINDOW", "UNION", "EXCEPT", "MINUS", "INTERSECT", "TABLESAMPLE", "LATERAL", "JOIN",
        "USING", "RETURNING",
    }
)  # fmt: skip
"""Keywords that may follow the condition of a query; refused here."""
_CASE_KEYWORDS = frozenset({"WHEN", "THEN"})


def delete(cursor: Cursor) -> Delete:
    """Parse a statement that begins with ``DELETE``."""
    cursor.expect("DELETE", "FROM")
    name, alias, options = read_target(cursor, "WHERE")
    where = read_expression(cursor, "DELETE") if cursor.accept("WHERE") else None
    cursor.expect_end()
    return Delete(name, where, options, alias)


def update(cursor: Cursor) -> Update:
    """Parse a statement that begins with ``UPDATE``."""
    cursor.expect("UPDATE")
    name, alias, options = read_target(cursor, "SET", "WHERE")
    cursor.expect("SET", why=" after the table")
    given = read_assignments(cursor, name, alias, "UPDATE", stop=("WHERE",))
    where = read_expression(cursor, "UPDATE") if cursor.accept("WHERE") else None
    cursor.expect_end()
    return Update(name, given.values, where, options, alias, given.field_values, given.positions)


@dataclass(frozen=True, slots=True)
class SetClause:
    """The assignments of SET.

    Parameters
    ----------
    positions : mapping of str to int
        First offsets of the columns.
    """

    values: Mapping[str, Query]
    field_values: Mapping[str, tuple[FieldAssignment, ...]]
    positions: Mapping[str, int]


def read_assignments(
    cursor: Cursor, name: TableName, alias: str | None, what: str, *, stop: Sequence[str]
) -> SetClause:
    """Read ``column = value, column.field = value, ...`` up to a keyword of `stop`."""
    values: dict[str, Query] = {}
    field_values: dict[str, list[FieldAssignment]] = {}
    positions: dict[str, int] = {}
    names: dict[str, str] = {}
    taken: list[tuple[str, ...]] = []
    while True:
        start = cursor.position
        column, *path = _read_target_path(cursor, name, alias)
        key = tuple(part.casefold() for part in (column, *path))
        other = next((t for t in taken if t[: len(key)] == key or key[: len(t)] == t), None)
        if other == key:
            shown = ".".join((column, *path))
            what_it_is = "Field" if path else "Column"
            raise cursor.error(f"{what_it_is} '{shown}' is set twice.", start=start)
        if other is not None:
            message = f"'{'.'.join(key)}' and '{'.'.join(other)}' overlap: set one of them."
            raise cursor.error(message, start=start)
        taken.append(key)
        column = names.setdefault(column.casefold(), column)
        positions.setdefault(column, start)
        cursor.expect("=", why=" after the column")
        value = read_expression(cursor, what, stop=(",", *stop))
        if path:
            field_values.setdefault(column, []).append(FieldAssignment(tuple(path), value))
        else:
            values[column] = value
        if not cursor.accept(","):
            return SetClause(values, {c: tuple(f) for c, f in field_values.items()}, positions)


def read_target(cursor: Cursor, *after: str) -> tuple[TableName, str | None, dict[str, str]]:
    """Read a table with its options and its alias, before a keyword of `after`."""
    name = cursor.table_name()
    options = table_options(cursor)
    has_as = cursor.accept("AS")
    if has_as or not (cursor.token is None or any(cursor.peek(token) for token in after)):
        return name, cursor.name("alias"), options
    return name, None, options


def table_options(cursor: Cursor) -> dict[str, str]:
    """Read ``WITH ('key' = 'value')`` after a table; ``WITH name AS`` begins a query."""
    if not cursor.peek("WITH", "("):
        return {}
    cursor.expect("WITH")
    return cursor.options()


def read_target_column(cursor: Cursor, name: TableName, alias: str | None) -> str:
    """Read a column of the target table, with or without qualifier."""
    start = cursor.position
    column, *path = _read_target_path(cursor, name, alias)
    if path:
        raise cursor.unsupported(
            "A new row needs whole columns: give the column by struct(...) or named_struct(...).",
            start=start,
        )
    return column


def _read_target_path(cursor: Cursor, name: TableName, alias: str | None) -> list[str]:
    """Read a column and its nested fields; drop the table's qualifier."""
    parts = [cursor.name("column")]
    while cursor.accept("."):
        parts.append(cursor.name("column"))
    known = _qualifiers(name, alias)
    keys = tuple(p.casefold() for p in parts)
    depth = max((d for d in range(1, len(parts)) if keys[:d] in known), default=0)
    return parts[depth:]


def read_expression(
    cursor: Cursor, what: str, *, stop: Sequence[str] = (), is_query: bool = False
) -> Query:
    """Read an expression up to a keyword of `stop` outside parentheses and CASE.

    Parameters
    ----------
    cursor : Cursor
        At its first token.
    is_query : bool
        A query in parentheses: all keywords may occur in it.
    """
    start, first = cursor.position, cursor.index
    depth = cases = 0
    while (token := cursor.token) is not None:
        is_plain = cursor.index == first or cursor.tokens[cursor.index - 1].text != "."
        if depth == 0 and is_plain:
            if token.upper in stop and not (cases and token.upper in _CASE_KEYWORDS):
                break
            if not is_query and (token.upper in _TRAILING_CLAUSES or token.text.startswith("|>")):
                raise cursor.unsupported(
                    f"{what} takes nothing after its condition: select the rows by WHERE. Write a"
                    f" column of this name as `{token.text}`.",
                    kind="sql_row_level",
                )
            cases += (token.upper == "CASE") - (token.upper == "END" and cases > 0)
        depth += (token.upper in {"(", "["}) - (token.upper in {")", "]"})
        cursor.index += 1
    if cursor.index == first:
        raise cursor.error("An expression is missing here.", start=start)
    return Query(cursor.text, start, cursor.end)


def _qualifiers(name: TableName, alias: str | None) -> set[tuple[str, ...]]:
    """Qualifiers of a column: the alias, or the last parts of the table's name."""
    if alias is not None:
        return {(alias.casefold(),)}
    parts = tuple(p.casefold() for p in name.parts)
    return {parts[number:] for number in range(len(parts))}
