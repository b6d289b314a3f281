"""``sys.max_pt('t')``: the largest value of a table's first partition column, put into a statement.

The value is known from metadata before the statement runs, so it stands in the text as a literal:
``WHERE dt = sys.max_pt('t')`` reads one partition. It is text, as by Paimon on Spark; which
partition is the largest the column's type says, so 10 comes behind 9. Partitions without data and
the one of nulls do not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from decimal import Decimal

from tidelake.errors import TidelakeError, UnsupportedError
from tidelake.sql.execution.session import SqlSession
from tidelake.sql.syntax.ast import Query
from tidelake.sql.syntax.name import TableName
from tidelake.sql.syntax.parameters import literal_text
from tidelake.sql.syntax.tokens import Word, fault, plain_text, words_of
from tidelake.table import SystemTable, Table
from tidelake.types.values import from_storage

__all__ = ["with_max_pt", "with_max_pt_text"]

_NAME = "MAX_PT"
_CALL = ("SYS", ".", _NAME, "(")


def with_max_pt(query: Query, session: SqlSession) -> Query:
    """Give a query with the values of its calls of ``sys.max_pt``."""
    text, end = _replaced(query.text, session, query.start, query.end)
    return query if text is None else Query(text, query.start, end, query.explain)


def with_max_pt_text(text: str, session: SqlSession) -> str:
    """Give a whole text with the values of its calls of ``sys.max_pt``."""
    made, _ = _replaced(text, session, 0, len(text))
    return text if made is None else made


def _replaced(text: str, session: SqlSession, start: int, end: int) -> tuple[str | None, int]:
    if _NAME not in text.upper():
        return None, end
    words = words_of(text)
    pieces: list[str] = []
    at, plain, grown = 0, plain_text(text), 0
    for number in range(len(words) - len(_CALL)):
        seen = tuple(w.upper for w in words[number : number + len(_CALL)])
        if seen != _CALL or not start <= words[number].start < end:
            continue
        first = _start(words, number)
        argument = words[number + len(_CALL) : number + len(_CALL) + 2]
        if len(argument) < 2 or not argument[0].is_string or argument[1].text != ")":
            message = "sys.max_pt takes the name of a table as text: sys.max_pt('db.t')."
            raise fault(text, words[number].start, message, kind="max_pt")
        try:
            value = _largest(argument[0].text, session)
        except TidelakeError as error:
            context = dict(error.context)
            raise fault(
                text,
                argument[0].start,
                error.message,
                kind=error.kind,
                error=type(error),
                **context,
            ) from error
        literal = literal_text(value, "sys.max_pt")
        pieces += (plain[at:first], literal)
        at = argument[1].end
        grown += len(literal) - (at - first)
    if not pieces:
        return None, end
    return "".join((*pieces, plain[at:])), end + grown


def _start(words: Sequence[Word], number: int) -> int:
    """Where a call begins, a catalog before it included."""
    has_catalog = number > 1 and words[number - 1].text == "." and words[number - 2].is_name
    return words[number - 2 if has_catalog else number].start


def _largest(name: str, session: SqlSession) -> str:
    parts = tuple(part.strip("`") for part in name.split("."))
    found = session.table(TableName(parts), use="read")
    if isinstance(found, SystemTable) or not found.partition_keys:
        message = f"Table '{name}' has no partitions: sys.max_pt asks for the largest of them."
        raise UnsupportedError(message, kind="max_pt", table=name)
    values = _values(found)
    if not values:
        message = f"Table '{name}' has no partition with data, so there is no largest."
        raise UnsupportedError(message, kind="max_pt", table=name)
    largest = max(values)  # type: ignore[type-var] # of one type
    if isinstance(largest, bool):
        return str(largest).lower()
    if isinstance(largest, (str, int, Decimal)) or type(largest) is date:
        return str(largest)
    message = (
        f"The partitions of table '{name}' are by a column of type"
        f" {found.table_schema.field(found.partition_keys[0]).type}, of which sys.max_pt gives no"
        f" text: SELECT max({found.partition_keys[0]}) FROM {name}."
    )
    raise UnsupportedError(message, kind="max_pt", table=name)


def _values(table: Table) -> set[object]:
    """The values of the first partition column that rows are in, null left out."""
    field = table.table_schema.field(table.partition_keys[0])
    paths = table.paths
    firsts = {paths.partition_values(split.partition)[0] for split in table.plan().splits}
    return {from_storage(value, field.type) for value in firsts if value is not None}
