"""Reads literals: of partitions and of a procedure's arguments."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from tidelake.sql.syntax.cursor import Reader

__all__ = ["Expression", "argument_of", "literal_of", "partition_of"]


@dataclass(frozen=True, slots=True)
class Expression:
    """What is no literal, such as ``map('k', 'v')``: no procedure here takes one."""

    text: str

    def __repr__(self) -> str:
        return self.text


def argument_of(reader: Reader, what: str) -> object:
    """Read a literal, or a call of a function."""
    start, following = reader.index, reader.words[reader.index + 1 : reader.index + 2]
    word = reader.word
    if word is None or not word.is_name or not following or following[0].upper != "(":
        return literal_of(reader, what)
    depth = 0
    for ahead in reader.words[start + 1 :]:
        depth += (ahead.upper == "(") - (ahead.upper == ")")
        reader.index += 1
        if depth == 0:
            reader.index += 1
            return Expression(reader.text[word.start : ahead.end])
    raise reader.fault("This parenthesis has no end: close it with ).", start=following[0].start)


def literal_of(reader: Reader, what: str) -> object:
    """Read a literal: a string, a number, true, false, null, or a typed string's text."""
    for word, value in (("NULL", None), ("TRUE", True), ("FALSE", False)):
        if reader.take(word):
            return value
    for word in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ"):
        if reader.take(word):
            return reader.string(what)
    text = reader.word
    if text is not None and text.is_string:
        return reader.string(what)
    number = reader.value(what)
    try:
        return int(number)
    except ValueError:
        return Decimal(number)


def partition_of(reader: Reader) -> dict[str, object]:
    """Read ``(column = literal, ...)``."""

    def item() -> tuple[str, object]:
        column = reader.name("partition column")
        reader.need("=", why=" behind the partition column")
        return column, literal_of(reader, f"value of '{column}'")

    return dict(reader.within("the partition", item))
