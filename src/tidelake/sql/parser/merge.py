"""Parses MERGE INTO.

``MERGE INTO t [AS x] USING source [AS s] ON condition`` and one or more of

- ``WHEN MATCHED [AND c] THEN UPDATE SET *``, ``UPDATE SET a = e, ...``, ``DELETE``
- ``WHEN NOT MATCHED [BY TARGET] [AND c] THEN INSERT *``, ``INSERT (a, ...) VALUES (e, ...)``
- ``WHEN NOT MATCHED BY SOURCE [AND c] THEN UPDATE SET a = e, ...``, ``DELETE``

The grammar is Spark's ``MERGE INTO`` (4.x), as in Paimon. The three kinds of clause may be mixed.
Only the last clause of each kind may have no condition: a later one would never apply.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from tidelake.errors import counted
from tidelake.sql.parser.update_delete import (
    read_assignments,
    read_expression,
    read_target,
    read_target_column,
)
from tidelake.sql.syntax.ast import Merge, Query, WhenClause
from tidelake.sql.syntax.cursor import Cursor
from tidelake.sql.syntax.name import TableName

When: TypeAlias = Literal["matched", "not_matched", "not_matched_by_source"]

_WHEN = ("WHEN",)
_NO_SOURCE = frozenset({"JOIN", ",", "WHERE", "LATERAL", "UNION"})
_WHEN_TEXT = {
    "matched": "WHEN MATCHED",
    "not_matched": "WHEN NOT MATCHED",
    "not_matched_by_source": "WHEN NOT MATCHED BY SOURCE",
}


def merge(cursor: Cursor) -> Merge:
    """Parse a statement that begins with ``MERGE``."""
    cursor.expect("MERGE")
    evolves = cursor.accept("WITH", "SCHEMA", "EVOLUTION")
    cursor.expect("INTO")
    name, alias, options = read_target(cursor, "USING")
    cursor.expect("USING", why=" after the table")
    source = _source(cursor)
    cursor.expect("ON", why=" after the source")
    on = read_expression(cursor, "MERGE", stop=_WHEN)
    clauses: list[WhenClause] = []
    starts: list[int] = []
    while cursor.token is not None:
        starts.append(cursor.position)
        cursor.expect("WHEN")
        clauses.append(_clause(cursor, _when(cursor), name, alias))
    if not clauses:
        raise cursor.error("MERGE needs a clause: WHEN [NOT] MATCHED [AND ...] THEN ....")
    _check_all_count(cursor, clauses, starts)
    return Merge(name, source, on, tuple(clauses), options, alias, evolves)


def _source(cursor: Cursor) -> Query:
    """Read the source, between USING and ON."""
    start, first, depth = cursor.position, cursor.index, 0
    while (token := cursor.token) is not None:
        if depth == 0 and token.upper in {"ON", "WHEN"}:
            break
        if depth == 0 and (token.upper in _NO_SOURCE or token.text.startswith("|>")):
            raise cursor.error(
                "Write one table, or a query in parentheses: USING (SELECT ...) AS s."
            )
        depth += token.nesting
        cursor.index += 1
    if cursor.index == first:
        raise cursor.error("The source is missing here: a table, or (SELECT ...) AS s.")
    return Query(cursor.text, start, cursor.end)


def _when(cursor: Cursor) -> When:
    if cursor.accept("MATCHED"):
        return "matched"
    cursor.expect("NOT", "MATCHED", why=" after WHEN")
    if not cursor.accept("BY"):
        return "not_matched"
    by = cursor.choice(("SOURCE", "TARGET"), "The word after BY")
    return "not_matched_by_source" if by == "SOURCE" else "not_matched"


def _clause(cursor: Cursor, when: When, name: TableName, alias: str | None) -> WhenClause:
    condition = read_expression(cursor, "MERGE", stop=("THEN",)) if cursor.accept("AND") else None
    cursor.expect("THEN", why=" before the action")
    start = cursor.position
    if when == "not_matched":
        if not cursor.accept("INSERT"):
            raise cursor.error(f"{_WHEN_TEXT[when]} takes INSERT: only the source has these rows.")
        return _insert(cursor, condition, start, name, alias)
    if cursor.accept("DELETE"):
        return WhenClause(when, "delete", condition, None, start)
    if not cursor.accept("UPDATE"):
        raise cursor.error(f"{_WHEN_TEXT[when]} takes UPDATE SET or DELETE.")
    cursor.expect("SET", why=" after UPDATE")
    if cursor.peek("*"):
        if when == "not_matched_by_source":
            raise cursor.error("The source has no such rows: write columns and values, not *.")
        cursor.accept("*")
        return WhenClause(when, "update", condition, None, start)
    given = read_assignments(cursor, name, alias, "MERGE", stop=_WHEN)
    return WhenClause(
        when, "update", condition, given.values, start, given.positions, given.field_values
    )


def _insert(
    cursor: Cursor, condition: Query | None, start: int, name: TableName, alias: str | None
) -> WhenClause:
    if cursor.accept("*"):
        return WhenClause("not_matched", "insert", condition, None, start)
    if cursor.peek("VALUES"):
        raise cursor.error("Name the columns: INSERT (a, b) VALUES (...), or INSERT *.")
    positions: dict[str, int] = {}

    def column() -> str:
        position = cursor.position
        found = read_target_column(cursor, name, alias)
        if found.casefold() in {c.casefold() for c in positions}:
            raise cursor.error(f"Column '{found}' is listed twice.", start=position)
        positions[found] = position
        return found

    columns = cursor.parenthesized("the columns", column)
    cursor.expect("VALUES", why=" after the columns")
    position = cursor.position
    values = cursor.parenthesized(
        "the values", lambda: read_expression(cursor, "MERGE", stop=(",", ")"))
    )
    if len(values) != len(columns):
        found, wanted = counted(len(values), "value"), counted(len(columns), "column")
        raise cursor.error(f"The list has {found} for {wanted}.", start=position)
    given = dict(zip(columns, values, strict=True))
    return WhenClause("not_matched", "insert", condition, given, start, positions)


def _check_all_count(cursor: Cursor, clauses: Sequence[WhenClause], starts: Sequence[int]) -> None:
    for number, clause in enumerate(clauses):
        after = [i for i in range(number + 1, len(clauses)) if clauses[i].when == clause.when]
        if clause.condition is None and after:
            raise cursor.error(
                f"This clause would never apply: the {_WHEN_TEXT[clause.when]} before it has no"
                " condition. Only the last clause of a kind may have no condition.",
                start=starts[after[0]],
            )
