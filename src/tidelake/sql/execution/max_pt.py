"""Replaces ``sys.max_pt('t')`` by the largest value of a table's first partition column.

Metadata gives the value before the statement runs, so a literal replaces the call: ``WHERE dt =
sys.max_pt('t')`` reads one partition. The value is text, as in Paimon on Spark. The column's type
decides which is the largest: 10 is larger than 9. Partitions without data and the partition of
nulls do not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from decimal import Decimal

from tidelake.engine.tables import SystemTable, Table
from tidelake.errors import TidelakeError, UnsupportedError
from tidelake.sql.execution.session import SqlSession
from tidelake.sql.syntax.ast import Query
from tidelake.sql.syntax.name import TableName
from tidelake.sql.syntax.parameters import sql_literal
from tidelake.sql.syntax.tokens import Token, error_at, plain_text, tokenize
from tidelake.types.values import from_storage

_NAME = "MAX_PT"
_CALL = ("SYS", ".", _NAME, "(")


def replace_max_pt(query: Query, session: SqlSession) -> Query:
    """Replace the calls of ``sys.max_pt`` in a query."""
    text, end = _replaced(query.text, session, query.start, query.end)
    return query if text is None else Query(text, query.start, end, query.explain)


def replace_max_pt_in_text(text: str, session: SqlSession) -> str:
    """Replace the calls of ``sys.max_pt`` in a whole text."""
    made, _ = _replaced(text, session, 0, len(text))
    return text if made is None else made


def _replaced(text: str, session: SqlSession, start: int, end: int) -> tuple[str | None, int]:
    if _NAME not in text.upper():
        return None, end
    tokens = tokenize(text)
    pieces: list[str] = []
    at, plain, grown = 0, plain_text(text), 0
    for number in range(len(tokens) - len(_CALL)):
        seen = tuple(w.upper for w in tokens[number : number + len(_CALL)])
        if seen != _CALL or not start <= tokens[number].start < end:
            continue
        first = _start(tokens, number)
        argument = tokens[number + len(_CALL) : number + len(_CALL) + 2]
        if len(argument) < 2 or not argument[0].is_string or argument[1].text != ")":
            message = "sys.max_pt takes the name of a table as text: sys.max_pt('db.t')."
            raise error_at(text, tokens[number].start, message, kind="max_pt")
        try:
            value = _largest(argument[0].text, session)
        except TidelakeError as error:
            context = dict(error.context)
            raise error_at(
                text,
                argument[0].start,
                error.message,
                kind=error.kind,
                error=type(error),
                **context,
            ) from error
        literal = sql_literal(value, "sys.max_pt")
        pieces += (plain[at:first], literal)
        at = argument[1].end
        grown += len(literal) - (at - first)
    if not pieces:
        return None, end
    return "".join((*pieces, plain[at:])), end + grown


def _start(tokens: Sequence[Token], number: int) -> int:
    """Offset of a call, with its catalog."""
    has_catalog = number > 1 and tokens[number - 1].text == "." and tokens[number - 2].is_name
    return tokens[number - 2 if has_catalog else number].start


def _largest(name: str, session: SqlSession) -> str:
    parts = tuple(part.strip("`") for part in name.split("."))
    found = session.table(TableName(parts), use="read")
    if isinstance(found, SystemTable) or not found.partition_keys:
        message = f"Table '{name}' is not partitioned: sys.max_pt needs a partitioned table."
        raise UnsupportedError(message, kind="max_pt", table=name)
    values = _values(found)
    if not values:
        message = f"Table '{name}' has no partition with data: sys.max_pt has no value."
        raise UnsupportedError(message, kind="max_pt", table=name)
    largest = max(values)  # type: ignore[type-var] # of one type
    if isinstance(largest, bool):
        return str(largest).lower()
    if isinstance(largest, (str, int, Decimal)) or type(largest) is date:
        return str(largest)
    message = (
        f"sys.max_pt does not support the partition column '{found.partition_keys[0]}' of table"
        f" '{name}', which is {found.table_schema.field(found.partition_keys[0]).type}: use"
        f" SELECT max({found.partition_keys[0]}) FROM {name}."
    )
    raise UnsupportedError(message, kind="max_pt", table=name)


def _values(table: Table) -> set[object]:
    """Values of the first partition column in partitions with rows, without null."""
    field = table.table_schema.field(table.partition_keys[0])
    paths = table.paths
    with table.scan() as scan:
        splits = [split for part in scan.parts for split in part.plan.splits]
    firsts = {paths.partition_values(split.partition)[0] for split in splits}
    return {from_storage(value, field.type) for value in firsts if value is not None}
