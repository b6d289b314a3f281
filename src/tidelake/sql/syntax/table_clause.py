"""Clauses and functions of a table in a query that sqlglot or Spark would not parse.

- ``t WITH ('key' = 'value')``, and so the hint ``t /*+ OPTIONS('key' = 'value') */``
- ``t VERSION AS OF 3``, ``t TIMESTAMP AS OF '2026-11-22 10:00:00'``, with ``FOR`` or
  ``FOR SYSTEM_VERSION``, ``FOR SYSTEM_TIME`` before
- ``FROM STREAM t``, ``FROM STREAM(t)``: the table as a stream, whatever the mode of the session
- ``t FOR SYSTEM_TIME AS OF PROCTIME()``: a lookup, which reads the current rows in each batch
- ``TABLE(TUMBLE(TABLE t, DESCRIPTOR(time), INTERVAL '10' MINUTES))``, HOP, CUMULATE and SESSION
- ``paimon_incremental_query('t', 3, 7)``, ``paimon_incremental_between_timestamp``

They are found in the tokens. sqlglot gets the query without the clauses; it sees a function as one
name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation

from tidelake.sql.syntax.cursor import Cursor
from tidelake.sql.syntax.name import TableName
from tidelake.sql.syntax.tokens import Token

_WINDOWS = ("TUMBLE", "HOP", "CUMULATE", "SESSION")
INCREMENTAL = "paimon_incremental_query"
INCREMENTAL_TIMES = "paimon_incremental_between_timestamp"
INCREMENTAL_TAG = "paimon_incremental_to_auto_tag"
_HEADS = frozenset(
    {
        "STREAM", "WITH", "FOR", "VERSION", "SYSTEM_VERSION", "TIMESTAMP", "SYSTEM_TIME", "TABLE",
        INCREMENTAL.upper(), INCREMENTAL_TIMES.upper(), INCREMENTAL_TAG.upper(),
    }
)  # fmt: skip
"""First keywords of clauses and functions."""
SECONDS_MAX = 10**11
_AFTER_TABLES = frozenset(
    {
        "WHERE", "GROUP", "ORDER", "HAVING", "LIMIT", "OFFSET", "WINDOW", "QUALIFY", "CLUSTER",
        "SORT", "DISTRIBUTE", "UNION", "EXCEPT", "MINUS", "INTERSECT", "LATERAL", "JOIN", "INNER",
        "CROSS", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI", "NATURAL", "ON", "USING", "AS",
        "TABLESAMPLE", "PIVOT", "UNPIVOT", "FOR", "VERSION", "SYSTEM_VERSION", "TIMESTAMP",
        "SYSTEM_TIME", "WITH",
    }
)  # fmt: skip
"""Tokens that may follow a table with the name stream."""
_QUERIES = frozenset({"SELECT", "WITH", "VALUES", "FROM", "TABLE"})
"""With what a query begins."""
_NO_TABLE = (
    "STREAM takes the name of a table, as in STREAM t or STREAM(t): inside a query write it before"
    " each table."
)
_UNITS = {
    "MILLISECOND": 1,
    "SECOND": 1000,
    "MINUTE": 60_000,
    "HOUR": 3_600_000,
    "DAY": 86_400_000,
    "WEEK": 604_800_000,
}


@dataclass(frozen=True, slots=True)
class Clause:
    """The clauses after one table name.

    Parameters
    ----------
    timestamp : str or int, optional
        A time: text, or milliseconds since the epoch.
    lookup : tuple of str
        The time of a lookup as written: ``("o", "proc_time")``, ``("PROCTIME",)``; else empty.
    stream : int, optional
        Offset of the word STREAM before the name.
    """

    end: int
    options: Mapping[str, str] = field(default_factory=dict)
    version: str | int | None = None
    timestamp: str | int | None = None
    lookup: tuple[str, ...] = ()
    stream: int | None = None


@dataclass(frozen=True, slots=True)
class Window:
    """A window function over the rows of a table.

    Parameters
    ----------
    size_ms : int
        Window size; the largest for CUMULATE, the gap for SESSION.
    step_ms : int
        Slide of HOP, step of CUMULATE; `size_ms` for TUMBLE and SESSION.
    offset_ms : int
        Shift of all windows against the epoch.
    """

    kind: str
    column: str
    size_ms: int
    step_ms: int
    offset_ms: int = 0
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Incremental:
    """Changes of a table between two snapshots, tags or times."""

    start: object
    end: object
    times: bool = False


@dataclass(frozen=True, slots=True)
class TableFunction:
    """A function instead of a table.

    Parameters
    ----------
    clause : Clause
        The clauses after that table.
    """

    name: TableName
    clause: Clause
    start: int
    end: int
    window: Window | None = None
    incremental: Incremental | None = None


def find_table_clauses(
    text: str, tokens: Sequence[Token]
) -> tuple[dict[int, Clause], list[TableFunction], list[tuple[int, int]]]:
    """Find table clauses and table functions.

    Returns
    -------
    clauses : dict of int to Clause
        By the end offset of the table name.
    functions : list of TableFunction
        In the order of the text.
    taken : list of (int, int)
        Offsets of the clauses outside of functions.

    Raises
    ------
    InvalidInputError, UnsupportedError
        Shows the wrong token.
    """
    cursor = Cursor(text, tokens)
    clauses: dict[int, Clause] = {}
    functions: list[TableFunction] = []
    taken: list[tuple[int, int]] = []
    while (token := cursor.token) is not None:
        if token.upper not in _HEADS:  # VALUES may have many tokens
            cursor.index += 1
            continue
        if _is_stream(cursor):
            end, found, spans = _stream(cursor)
            clauses[end] = found
            taken += spans
            continue
        function = _function(cursor)
        if function is not None:
            functions.append(function)
            continue
        before, start = cursor.end, cursor.position
        clause = _clause(cursor) if cursor.index else None
        if clause is not None:
            clauses[before] = clause
            taken.append((start, clause.end))
        else:
            cursor.index += 1
    return clauses, functions, taken


def _is_stream(cursor: Cursor) -> bool:
    """Check if STREAM is the keyword before a table, and not a table's name."""
    token, index = cursor.token, cursor.index
    if token is None or token.upper != "STREAM" or token.is_quoted or not index:
        return False
    following = cursor.tokens[index + 1 : index + 2]
    if cursor.tokens[index - 1].upper not in {"FROM", "JOIN"} or not following:
        return False
    after = following[0]
    is_table = after.is_name and (after.is_quoted or after.upper not in _AFTER_TABLES)
    return is_table or after.text == "("


def _stream(cursor: Cursor) -> tuple[int, Clause, list[tuple[int, int]]]:
    """Read ``STREAM t`` and its clauses; return the name's end, the clause and removed offsets.

    The name may stand in parentheses, with its clauses or before them.
    """
    start = cursor.position
    cursor.index += 1
    is_enclosed = cursor.accept("(")
    spans = [(start, cursor.position)]
    if is_enclosed and not _is_name_of_table(cursor):
        raise cursor.error(_NO_TABLE)
    cursor.table_name()
    before, after = cursor.end, cursor.position
    clause = _clauses_after(cursor, Clause(before))
    if is_enclosed:
        if not cursor.accept(")"):
            raise cursor.error(_NO_TABLE)
        clause = _clauses_after(cursor, replace(clause, end=cursor.end))
    if cursor.end > before:
        spans.append((after, cursor.end))
    return before, replace(clause, stream=start), spans


def _is_name_of_table(cursor: Cursor) -> bool:
    """Check if a name comes next, and not a query."""
    token = cursor.token
    return token is not None and token.is_name and (token.is_quoted or token.upper not in _QUERIES)


def _clauses_after(cursor: Cursor, before: Clause) -> Clause:
    """Read all clauses after a name, beside those that it has."""
    found = _clause(cursor, before)
    return before if found is None else found


def _clause(cursor: Cursor, given: Clause | None = None) -> Clause | None:
    """Read all clauses after a name, beside those that are given; None where none comes."""
    clause = None
    while True:
        before = clause or given or Clause(0)
        index = cursor.index
        if cursor.peek("WITH", "("):
            cursor.index += 1
            clause = replace(before, options={**before.options, **cursor.options()})
        elif _accept_as_of(cursor, "VERSION", "SYSTEM_VERSION"):
            if cursor.token is None or not (cursor.token.is_string or cursor.token.is_number):
                raise cursor.unsupported("A version is a snapshot's id, or a tag's name in quotes.")
            is_number = cursor.token.is_number
            clause = replace(
                before,
                version=cursor.number("snapshot's id") if is_number else cursor.string("tag"),
            )
        elif _accept_as_of(cursor, "TIMESTAMP", "SYSTEM_TIME"):
            is_system_time = cursor.tokens[cursor.index - 3].upper == "SYSTEM_TIME"
            lookup = _lookup_time(cursor) if is_system_time else ()
            clause = (
                replace(before, lookup=lookup)
                if lookup
                else replace(before, timestamp=_time(cursor))
            )
        else:
            cursor.index = index
            return clause
        clause = replace(clause, end=cursor.end)


def _accept_as_of(cursor: Cursor, token: str, system_word: str) -> bool:
    for head in ((token,), ("FOR", token), ("FOR", system_word), (system_word,)):
        if cursor.accept(*head, "AS", "OF"):
            return True
    return False


def _time(cursor: Cursor) -> str | int:
    token = cursor.token
    if token is not None and token.is_number:
        # Spark's seconds have ten digits and a fraction; Paimon's milliseconds have thirteen
        start = cursor.position
        try:
            number = Decimal(cursor.option_value("time"))
        except InvalidOperation as error:
            raise cursor.error("A time is a number of seconds.", start=start) from error
        return int(number * 1000 if number < SECONDS_MAX else number)
    cursor.accept("TIMESTAMP")
    token = cursor.token
    if token is None or not token.is_string:
        raise cursor.unsupported(
            "The time must be a literal, such as '2026-11-22 10:00:00', or PROCTIME() to read the"
            " current rows in each batch."
        )
    return cursor.string("time")


def _lookup_time(cursor: Cursor) -> tuple[str, ...]:
    """Read the time of a lookup: PROCTIME(), CURRENT_TIMESTAMP or a column; empty for others."""
    for name in ("PROCTIME", "CURRENT_TIMESTAMP"):
        if cursor.accept(name):
            if cursor.accept("("):
                cursor.expect(")")
            return (name,)
    token = cursor.token
    if token is None or not token.is_name or token.upper == "TIMESTAMP":
        return ()
    following = cursor.tokens[cursor.index + 1 : cursor.index + 2]
    if following and following[0].upper == "(":
        return ()  # a function, which is refused
    return cursor.table_name("time column").parts


def _function(cursor: Cursor) -> TableFunction | None:
    start = cursor.position
    if cursor.peek("TABLE", "(") and any(
        cursor.peek("TABLE", "(", window, "(") for window in _WINDOWS
    ):
        cursor.index += 2
        kind = cursor.choice(_WINDOWS, "The function")
        return _window(cursor, kind, start)
    token = cursor.token
    following = cursor.tokens[cursor.index + 1 : cursor.index + 2]
    if token is None or token.is_quoted or not following or following[0].upper != "(":
        return None
    name = token.text.lower()
    if name == INCREMENTAL_TAG:
        raise cursor.unsupported(f"{INCREMENTAL_TAG} is not supported: use {INCREMENTAL}.")
    if name not in {INCREMENTAL, INCREMENTAL_TIMES}:
        return None
    cursor.index += 2
    table_start = cursor.position
    table = TableName(tuple(cursor.string("table").split(".")), table_start)
    cursor.expect(",", why=" after the table")
    first = _range_bound(cursor)
    cursor.expect(",", why=" after the start")
    last = _range_bound(cursor)
    cursor.expect(")", why=" after the end")
    changes = Incremental(first, last, times=name == INCREMENTAL_TIMES)
    return TableFunction(table, Clause(cursor.end), start, cursor.end, incremental=changes)


def _range_bound(cursor: Cursor) -> object:
    token = cursor.token
    if token is not None and token.is_number:
        return cursor.number("snapshot's id")
    return cursor.string("tag or time")


def _window(cursor: Cursor, kind: str, start: int) -> TableFunction:
    cursor.expect("(")
    _argument_name(cursor, "DATA")
    cursor.expect("TABLE", why=f" as the first argument of {kind}")
    name = cursor.table_name()
    clause = _clause(cursor) or Clause(cursor.end)
    keys = _session_keys(cursor, kind)
    cursor.expect(",", why=" after the table")
    _argument_name(cursor, "TIMECOL")
    cursor.expect("DESCRIPTOR", "(", why=" around the time's column")
    column = cursor.name("column")
    cursor.expect(")", why=" after the time's column")
    named: dict[str, int] = {}
    positional: list[int] = []
    while cursor.accept(","):
        argument = next(
            (a for a in ("SIZE", "SLIDE", "STEP", "OFFSET", "GAP") if cursor.peek(a, "=>")), ""
        )
        if argument:
            cursor.index += 2
            named[argument] = _interval_ms(cursor)
        else:
            positional.append(_interval_ms(cursor))
    cursor.expect(")", ")", why=f" after {kind}")
    window = replace(_sized_window(cursor, kind, column, positional, named), keys=keys)
    return TableFunction(name, clause, start, cursor.end, window=window)


def _session_keys(cursor: Cursor, kind: str) -> tuple[str, ...]:
    """Read ``PARTITION BY a, b`` or ``PARTITION BY (a, b)`` of a session window."""
    start = cursor.position
    if not cursor.accept("PARTITION", "BY"):
        return ()
    if kind != "SESSION":
        raise cursor.error(f"{kind} takes no PARTITION BY: only SESSION does.", start=start)

    def key() -> str:
        return cursor.name("key column")

    if cursor.peek("("):
        return tuple(cursor.parenthesized("the key columns", key))
    keys = [key()]
    while cursor.peek(",") and not _is_time_argument(cursor, 1):
        cursor.index += 1
        keys.append(key())
    return tuple(keys)


def _is_time_argument(cursor: Cursor, ahead: int) -> bool:
    words = [w.upper for w in cursor.tokens[cursor.index + ahead : cursor.index + ahead + 2]]
    return words in (["DESCRIPTOR", "("], ["TIMECOL", "=>"])


def _argument_name(cursor: Cursor, name: str) -> None:
    cursor.accept(name, "=>")


def _sized_window(
    cursor: Cursor, kind: str, column: str, positional: Sequence[int], named: Mapping[str, int]
) -> Window:
    order = {
        "TUMBLE": ("SIZE", "OFFSET"),
        "HOP": ("SLIDE", "SIZE", "OFFSET"),
        "CUMULATE": ("STEP", "SIZE", "OFFSET"),
        "SESSION": ("GAP",),
    }[kind]
    sizes = {**dict(zip(order, positional, strict=False)), **named}
    missing = [a for a in order if a not in sizes and a != "OFFSET"]
    if missing or len(positional) > len(order) or set(sizes) - set(order):
        optional = "; OFFSET is optional" if "OFFSET" in order else ""
        raise cursor.error(f"{kind} takes the intervals {', '.join(order)}{optional}.")
    size = sizes["GAP" if kind == "SESSION" else "SIZE"]
    step = sizes.get("SLIDE", sizes.get("STEP", size))
    if min(size, step) < 1 or (kind == "CUMULATE" and size % step):
        raise cursor.error(
            "Intervals must be positive, and the size of CUMULATE a multiple of its step."
        )
    return Window(kind, column, size, step, sizes.get("OFFSET", 0))


def _interval_ms(cursor: Cursor) -> int:
    cursor.expect("INTERVAL", why=" before a length of time")
    token = cursor.token
    text = (
        cursor.string("length")
        if token is not None and token.is_string
        else cursor.option_value("length")
    )
    if not text.strip().isdecimal():
        raise cursor.unsupported("Write an interval as a number and a unit: INTERVAL '10' MINUTES.")
    unit = cursor.name("unit").upper()
    singular = unit.removesuffix("S")
    if singular not in _UNITS:
        raise cursor.unsupported(f"The unit of a window is one of {', '.join(_UNITS)}, not {unit}.")
    return int(text) * _UNITS[singular]
