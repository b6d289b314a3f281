"""Session windows of a stream in a query: Spark makes them in GROUP BY.

``SELECT window_start, count(*) FROM TABLE(SESSION(...)) GROUP BY window_start, window_end`` groups
by the row's session instead, a struct of a start and an end that Spark merges with its neighbours.
The bounds elsewhere in the SELECT are fields of it.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidelake.errors import TidelakeError, UnsupportedError
from tidelake.sql.query.query import ParsedQuery
from tidelake.sql.query.reference import TableReference
from tidelake.sql.syntax.name import quoted_name
from tidelake.sql.syntax.sqlglot_dialect import exp
from tidelake.sql.syntax.tokens import error_at

START, END, TIME = "window_start", "window_end", "window_time"


def session_replacements(
    parsed: ParsedQuery, reference: TableReference, session: str
) -> list[tuple[int, int, str]]:
    """Return the texts that replace a session window's columns.

    Returns
    -------
    list of (int, int, str)
        Start, end and new text.

    Raises
    ------
    UnsupportedError
        The SELECT does not group by the window and the keys of its sessions alone.
    """
    select = reference.node.parent_select
    group = select.args.get("group") if isinstance(select, exp.Select) else None
    if not isinstance(select, exp.Select) or group is None:
        raise _ungrouped(parsed, reference)
    grouped = {part.name.casefold() for part in group.expressions if isinstance(part, exp.Column)}
    assert reference.function is not None
    assert reference.function.window is not None
    keys = {key.casefold() for key in reference.function.window.keys}
    if not keys:
        message = (
            "Spark makes the sessions of a stream separately for each key, and this SESSION has"
            " none: write SESSION(TABLE t PARTITION BY k, ...), and GROUP BY window_start,"
            " window_end, k."
        )
        text = parsed.query.text
        raise error_at(text, reference.start, message, kind="sql_streaming", error=UnsupportedError)
    if len(grouped) != len(group.expressions) or grouped - {TIME} != keys | {START, END}:
        raise _ungrouped(parsed, reference)
    column = quoted_name(session)
    pieces = []
    for node in _columns(select):
        name = node.name.casefold()
        if name not in {START, END, TIME}:
            continue
        start = node.parts[0].meta["start"]
        end = node.parts[-1].meta["end"] + 1
        alias = f"{quoted_name(node.table)}." if node.table else ""
        text = f"{alias}{column}"
        if node.find_ancestor(exp.Group) is not group:
            bound = "start" if name == START else "end"
            text = f"{text}.{bound}"
            if name == TIME:
                text = f"({text} - INTERVAL 1 MILLISECOND)"
            if node.parent is select:
                text = f"{text} AS {name}"
        pieces.append((start, end, text))
    return pieces


def _columns(select: exp.Select) -> Iterator[exp.Column]:
    """The columns of a SELECT, without those of its subqueries."""
    for node in select.find_all(exp.Column):
        if node.parent_select is select:
            yield node


def _ungrouped(parsed: ParsedQuery, reference: TableReference) -> TidelakeError:
    assert reference.function is not None
    assert reference.function.window is not None
    keys = ", ".join((START, END, *reference.function.window.keys))
    return error_at(
        parsed.query.text,
        reference.start,
        "Spark makes the sessions of a stream in GROUP BY, separately for each key: write GROUP"
        f" BY {keys}, with the columns of PARTITION BY and no others.",
        kind="sql_streaming",
        error=UnsupportedError,
    )
