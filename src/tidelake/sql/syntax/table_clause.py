"""What a query says of a table behind its name, which sqlglot or Spark would not read.

- ``t WITH ('key' = 'value')``, and so the hint ``t /*+ OPTIONS('key' = 'value') */``
- ``t VERSION AS OF 3``, ``t TIMESTAMP AS OF '2026-11-22 10:00:00'``, with ``FOR`` or
  ``FOR SYSTEM_VERSION``, ``FOR SYSTEM_TIME`` before
- ``TABLE(TUMBLE(TABLE t, DESCRIPTOR(time), INTERVAL '10' MINUTES))``, HOP and CUMULATE
- ``paimon_incremental_query('t', 3, 7)``, ``paimon_incremental_between_timestamp``

They are found among the words. A clause is taken out before sqlglot sees the query, a function is
seen by it as one name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation

from tidelake.sql.syntax.cursor import Reader
from tidelake.sql.syntax.name import TableName
from tidelake.sql.syntax.tokens import Word

__all__ = ["Clause", "Incremental", "TableFunction", "Window", "found_clauses"]

_WINDOWS = ("TUMBLE", "HOP", "CUMULATE", "SESSION")
INCREMENTAL = "paimon_incremental_query"
INCREMENTAL_TIMES = "paimon_incremental_between_timestamp"
INCREMENTAL_TAG = "paimon_incremental_to_auto_tag"
_HEADS = frozenset(
    {
        "WITH", "FOR", "VERSION", "SYSTEM_VERSION", "TIMESTAMP", "SYSTEM_TIME", "TABLE",
        INCREMENTAL.upper(), INCREMENTAL_TIMES.upper(), INCREMENTAL_TAG.upper(),
    }
)  # fmt: skip
"""What clauses and functions begin with."""
SECONDS_MAX = 10**11
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
    """What is said behind one name.

    Parameters
    ----------
    end : int
        Where it ends in the text.
    options : mapping
        Of this use of the table.
    version : str or int, optional
        A snapshot's id, or a tag's name.
    timestamp : str or int, optional
        A time: text, or milliseconds since the epoch.
    """

    end: int
    options: Mapping[str, str] = field(default_factory=dict)
    version: str | int | None = None
    timestamp: str | int | None = None


@dataclass(frozen=True, slots=True)
class Window:
    """A windowing function over the rows of a table.

    Parameters
    ----------
    kind : str
        TUMBLE, HOP or CUMULATE.
    column : str
        The time.
    size_ms : int
        Of a window; of CUMULATE the largest.
    step_ms : int
        Between windows: the slide of HOP, the step of CUMULATE; `size_ms` of TUMBLE.
    offset_ms : int
        By which windows are moved from the epoch.
    """

    kind: str
    column: str
    size_ms: int
    step_ms: int
    offset_ms: int = 0


@dataclass(frozen=True, slots=True)
class Incremental:
    """What changed in a table between two moments."""

    start: object
    end: object
    times: bool = False


@dataclass(frozen=True, slots=True)
class TableFunction:
    """A function that stands where a table does.

    Parameters
    ----------
    name : TableName
        The table inside.
    clause : Clause
        Said behind that table.
    start, end : int
        The whole function's place.
    """

    name: TableName
    clause: Clause
    start: int
    end: int
    window: Window | None = None
    incremental: Incremental | None = None


def found_clauses(
    text: str, words: Sequence[Word]
) -> tuple[dict[int, Clause], list[TableFunction], list[tuple[int, int]]]:
    """Find clauses and functions.

    Parameters
    ----------
    text : str
        The whole text, for messages.
    words : sequence of Word
        Those of the query.

    Returns
    -------
    clauses : dict of int to Clause
        By the end of the name before.
    functions : list of TableFunction
        In order.
    taken : list of (int, int)
        The places of the clauses that are not inside a function.

    Raises
    ------
    InvalidInputError, UnsupportedError
        At the word that is wrong.
    """
    reader = Reader(text, words)
    clauses: dict[int, Clause] = {}
    functions: list[TableFunction] = []
    taken: list[tuple[int, int]] = []
    while (word := reader.word) is not None:
        if word.upper not in _HEADS:  # a VALUES has many words
            reader.index += 1
            continue
        function = _function(reader)
        if function is not None:
            functions.append(function)
            continue
        before, start = reader.end, reader.place
        clause = _clause(reader) if reader.index else None
        if clause is not None:
            clauses[before] = clause
            taken.append((start, clause.end))
        else:
            reader.index += 1
    return clauses, functions, taken


def _clause(reader: Reader) -> Clause | None:
    """The clauses behind a name, one after the other; None where there is none."""
    clause = None
    while True:
        now = clause or Clause(0)
        index = reader.index
        if reader.sees("WITH", "("):
            reader.index += 1
            clause = replace(now, options={**now.options, **reader.options()})
        elif _moment_head(reader, "VERSION", "SYSTEM_VERSION"):
            if reader.word is None or not (reader.word.is_string or reader.word.is_number):
                raise reader.refusal("A version is a snapshot's id, or a tag's name in quotes.")
            is_number = reader.word.is_number
            clause = replace(
                now,
                version=reader.number("snapshot's id") if is_number else reader.string("tag"),
            )
        elif _moment_head(reader, "TIMESTAMP", "SYSTEM_TIME"):
            clause = replace(now, timestamp=_time(reader))
        else:
            reader.index = index
            return clause
        clause = replace(clause, end=reader.end)


def _moment_head(reader: Reader, word: str, system_word: str) -> bool:
    for head in ((word,), ("FOR", word), ("FOR", system_word), (system_word,)):
        if reader.take(*head, "AS", "OF"):
            return True
    return False


def _time(reader: Reader) -> str | int:
    word = reader.word
    if word is not None and word.is_number:
        # Spark's seconds, of ten digits and a fraction; Paimon's milliseconds have thirteen
        start = reader.place
        try:
            number = Decimal(reader.value("time"))
        except InvalidOperation as error:
            raise reader.fault("A time is a number of seconds.", start=start) from error
        return int(number * 1000 if number < SECONDS_MAX else number)
    reader.take("TIMESTAMP")
    word = reader.word
    if word is None or not word.is_string:
        raise reader.refusal(
            "The time must be a literal, such as '2026-11-22 10:00:00': a lookup join at each row's"
            " own time comes with streams."
        )
    return reader.string("time")


def _function(reader: Reader) -> TableFunction | None:
    start = reader.place
    if reader.sees("TABLE", "(") and any(
        reader.sees("TABLE", "(", window, "(") for window in _WINDOWS
    ):
        reader.index += 2
        kind = reader.choice(_WINDOWS, "The function")
        return _window(reader, kind, start)
    word = reader.word
    following = reader.words[reader.index + 1 : reader.index + 2]
    if word is None or word.is_quoted or not following or following[0].upper != "(":
        return None
    name = word.text.lower()
    if name == INCREMENTAL_TAG:
        raise reader.refusal(
            f"{INCREMENTAL_TAG} is not covered, as tags are not made by themselves yet: use"
            f" {INCREMENTAL}."
        )
    if name not in {INCREMENTAL, INCREMENTAL_TIMES}:
        return None
    reader.index += 2
    table_start = reader.place
    table = TableName(tuple(reader.string("table").split(".")), table_start)
    reader.need(",", why=" behind the table")
    first = _end_of_range(reader)
    reader.need(",", why=" behind the start")
    last = _end_of_range(reader)
    reader.need(")", why=" behind the end")
    changes = Incremental(first, last, times=name == INCREMENTAL_TIMES)
    return TableFunction(table, Clause(reader.end), start, reader.end, incremental=changes)


def _end_of_range(reader: Reader) -> object:
    word = reader.word
    if word is not None and word.is_number:
        return reader.number("snapshot's id")
    return reader.string("tag or time")


def _window(reader: Reader, kind: str, start: int) -> TableFunction:
    if kind == "SESSION":
        raise reader.refusal(
            "SESSION windows are those of Spark: GROUP BY session_window(time, '10 minutes').",
            start=start,
        )
    reader.need("(")
    _argument_name(reader, "DATA")
    reader.need("TABLE", why=f" as the first argument of {kind}")
    name = reader.table_name()
    clause = _clause(reader) or Clause(reader.end)
    reader.need(",", why=" behind the table")
    _argument_name(reader, "TIMECOL")
    reader.need("DESCRIPTOR", "(", why=" around the time's column")
    column = reader.name("column")
    reader.need(")", why=" behind the time's column")
    named: dict[str, int] = {}
    positional: list[int] = []
    while reader.take(","):
        argument = next(
            (a for a in ("SIZE", "SLIDE", "STEP", "OFFSET") if reader.sees(a, "=>")), ""
        )
        if argument:
            reader.index += 2
            named[argument] = _interval_ms(reader)
        else:
            positional.append(_interval_ms(reader))
    reader.need(")", ")", why=f" behind {kind}")
    window = _sized(reader, kind, column, positional, named)
    return TableFunction(name, clause, start, reader.end, window=window)


def _argument_name(reader: Reader, name: str) -> None:
    reader.take(name, "=>")


def _sized(
    reader: Reader, kind: str, column: str, positional: Sequence[int], named: Mapping[str, int]
) -> Window:
    order = {
        "TUMBLE": ("SIZE", "OFFSET"),
        "HOP": ("SLIDE", "SIZE", "OFFSET"),
        "CUMULATE": ("STEP", "SIZE", "OFFSET"),
    }[kind]
    sizes = {**dict(zip(order, positional, strict=False)), **named}
    missing = [a for a in order if a not in sizes and a != "OFFSET"]
    if missing or len(positional) > len(order) or set(sizes) - set(order):
        raise reader.fault(
            f"{kind} takes the intervals {', '.join(order)}, the last of which may be left out."
        )
    size = sizes["SIZE"]
    step = sizes.get("SLIDE", sizes.get("STEP", size))
    if min(size, step) < 1 or (kind == "CUMULATE" and size % step):
        raise reader.fault(
            "The size of CUMULATE is a multiple of its step, and intervals are positive."
        )
    return Window(kind, column, size, step, sizes.get("OFFSET", 0))


def _interval_ms(reader: Reader) -> int:
    reader.need("INTERVAL", why=" before a length of time")
    word = reader.word
    text = (
        reader.string("length") if word is not None and word.is_string else reader.value("length")
    )
    if not text.strip().isdecimal():
        raise reader.refusal("A length is a whole number and its unit: INTERVAL '10' MINUTES.")
    unit = reader.name("unit").upper()
    singular = unit.removesuffix("S")
    if singular not in _UNITS:
        raise reader.refusal(f"The unit of a window is one of {', '.join(_UNITS)}, not {unit}.")
    return int(text) * _UNITS[singular]
