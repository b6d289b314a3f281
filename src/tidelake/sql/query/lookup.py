"""Checks lookups, ``t FOR SYSTEM_TIME AS OF PROCTIME()``, and finds the event time of windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidelake.errors import InvalidInputError, UnsupportedError
from tidelake.sql.query.reference import TableReference
from tidelake.sql.syntax.ast import Query
from tidelake.sql.syntax.sqlglot_dialect import exp
from tidelake.sql.syntax.tokens import error_at

NOW = frozenset({"PROCTIME", "CURRENT_TIMESTAMP"})
NOW_COLUMNS = frozenset({"proc_time", "proctime"})
"""Column names that documentation uses for the processing time."""
WINDOW_TIME, WINDOW_END = "window_time", "window_end"


def check_lookups(query: Query, columns: Mapping[TableReference, Sequence[str]]) -> None:
    """Refuse a lookup at another time than the processing time.

    Raises
    ------
    UnsupportedError
        The time is a column, which would be an event time.
    InvalidInputError
        The column does not exist.
    """
    for reference in columns:
        lookup = reference.clause.lookup
        if not lookup or (len(lookup) == 1 and lookup[0] in NOW):
            continue
        name = lookup[-1].casefold()
        if any(name == c.casefold() for of_one in columns.values() for c in of_one):
            raise error_at(
                query.text,
                reference.start,
                f"'{'.'.join(lookup)}' is a column: a lookup cannot read the table at the time of"
                " each row. Write FOR SYSTEM_TIME AS OF PROCTIME() to read the current rows in"
                " each batch.",
                kind="sql_lookup",
                error=UnsupportedError,
            )
        if name not in NOW_COLUMNS:
            raise error_at(
                query.text,
                reference.start,
                f"There is no column '{'.'.join(lookup)}': write FOR SYSTEM_TIME AS OF PROCTIME().",
                kind="sql_lookup",
                error=InvalidInputError,
            )


def event_time_column(reference: TableReference) -> str:
    """Choose the event time of a window's rows: the window column that the query names.

    A stream has one event time: ``window_end``, unless the query names ``window_time``.
    """
    named = {c.name.casefold() for c in reference.node.root().find_all(exp.Column)}
    return WINDOW_TIME if WINDOW_TIME in named else WINDOW_END
