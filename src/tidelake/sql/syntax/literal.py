"""Reads literals of partitions and of procedure arguments."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from tidelake.sql.syntax.cursor import Cursor


@dataclass(frozen=True, slots=True)
class UnevaluatedExpression:
    """An argument that is not a literal, such as ``map('k', 'v')``; no procedure takes one."""

    text: str

    def __repr__(self) -> str:
        return self.text


def read_argument(cursor: Cursor, what: str) -> object:
    """Read a literal or a function call."""
    start, following = cursor.index, cursor.tokens[cursor.index + 1 : cursor.index + 2]
    token = cursor.token
    if token is None or not token.is_name or not following or following[0].upper != "(":
        return read_literal(cursor, what)
    depth = 0
    for ahead in cursor.tokens[start + 1 :]:
        depth += ahead.nesting
        cursor.index += 1
        if depth == 0:
            cursor.index += 1
            return UnevaluatedExpression(cursor.text[token.start : ahead.end])
    raise cursor.error("This parenthesis is not closed: add ).", start=following[0].start)


def read_literal(cursor: Cursor, what: str) -> object:
    """Read a string, a number, true, false, null, or the text of a typed string."""
    for token, value in (("NULL", None), ("TRUE", True), ("FALSE", False)):
        if cursor.accept(token):
            return value
    for token in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ"):
        if cursor.accept(token):
            return cursor.string(what)
    text = cursor.token
    if text is not None and text.is_string:
        return cursor.string(what)
    number = cursor.option_value(what)
    try:
        return int(number)
    except ValueError:
        return Decimal(number)


def read_partition(cursor: Cursor) -> dict[str, object]:
    """Read ``(column = literal, ...)``."""

    def item() -> tuple[str, object]:
        column = cursor.name("partition column")
        cursor.expect("=", why=" after the partition column")
        return column, read_literal(cursor, f"value of '{column}'")

    return dict(cursor.parenthesized("the partition", item))
