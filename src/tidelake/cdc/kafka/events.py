"""What messages say of tables, before values are looked at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tidelake.cdc.kafka.images import Image, RowLayout
from tidelake.cdc.kafka.messages import MessageBatch
from tidelake.cdc.source.source_table import SourceName
from tidelake.types import RowKind

INSERT, UPDATE, DELETE = int(RowKind.INSERT), int(RowKind.UPDATE_AFTER), int(RowKind.DELETE)


@dataclass(slots=True)
class TableEvents:
    """Changed rows of one table whose messages have one layout, in the order of the messages.

    Parameters
    ----------
    keys : tuple of str
        The key that messages name; empty if they name none.
    moves_by_itself : bool
        Whether the format sends a change of the key as a delete and an insert, so that the old row
        of an update need not be looked at.
    hides_moves : bool
        Whether an update without an old row may have changed a column outside of `keys`.
    messages : list of int
        Index of each row's message.
    kinds : list of int
        Row kinds: +I, +U and -D.
    images : list
        The row; of a -D the old one.
    before : list
        Of a +U the old row or a part of it, else None.
    first, second : list of int
        The order, as of :attr:`tidelake.cdc.source.changes.SourceRows.order`; the last bit of the
        second is free.
    changed_ms : list of int
        When the source made the change.
    """

    name: SourceName
    layout: RowLayout
    keys: tuple[str, ...]
    moves_by_itself: bool = False
    hides_moves: bool = False
    messages: list[int] = field(default_factory=list)
    kinds: list[int] = field(default_factory=list)
    images: list[Image] = field(default_factory=list)
    before: list[Image | None] = field(default_factory=list)
    first: list[int] = field(default_factory=list)
    second: list[int] = field(default_factory=list)
    changed_ms: list[int] = field(default_factory=list)

    def without_rows(self) -> TableEvents:
        """The same table, and no row."""
        return TableEvents(
            self.name, self.layout, self.keys, self.moves_by_itself, self.hides_moves
        )

    def taken(self, places: Sequence[int]) -> TableEvents:
        """Some of the rows."""
        made = self.without_rows()
        for name in ("messages", "kinds", "images", "before", "first", "second", "changed_ms"):
            values: list[Any] = getattr(self, name)
            setattr(made, name, [values[place] for place in places])
        return made


@dataclass(frozen=True, slots=True)
class MessageEvents:
    """What some messages say.

    Parameters
    ----------
    truncated : mapping of int to SourceName
        By message: the table of which all rows went.
    bad : mapping of int to str
        By message: why it cannot be read.
    """

    tables: tuple[TableEvents, ...]
    truncated: Mapping[int, SourceName] = field(default_factory=dict)
    bad: Mapping[int, str] = field(default_factory=dict)


class EventFormat(Protocol):
    """Reads the messages of one format. Not picklable: make it again where it runs."""

    def events(self, batch: MessageBatch) -> MessageEvents:
        """Say what messages say. Those without a value are passed over."""
        ...
