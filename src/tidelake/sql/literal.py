"""Reads literals: of partitions and of a procedure's arguments."""

from __future__ import annotations

from decimal import Decimal

from tidelake.sql.reader import Reader

__all__ = ["literal_of", "partition_of"]


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
