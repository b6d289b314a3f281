"""Rows of a table from its events: values in the lake's types, keys that changed, their order.

1. An update whose key changed, or another column that a target's key needs, becomes a -D of the old
   row and a +U. If a message does not say whether it did, its row is left out.
2. All images of a layout are read at once; a row with a value that does not fit is left out.
3. Rows are put into the order of the source, which messages of several partitions need not have.
4. A value that Debezium did not send, as PostgreSQL had it out of line and unchanged, is null and
   masked.

The columns of a table that messages do not describe are all that its rows have had so far.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.cdc.kafka.events import DELETE, INSERT, UPDATE, TableEvents
from tidelake.cdc.kafka.images import (
    Image,
    ImageRows,
    MakeColumn,
    RowLayout,
    json_of,
    read_images,
    samples_of,
)
from tidelake.cdc.kafka.messages import MessageBatch
from tidelake.cdc.kafka.wire import WireColumn, kind_column, text_column
from tidelake.cdc.source.changes import Rejected, SourceRows
from tidelake.cdc.source.source_table import (
    KeyColumns,
    OldRows,
    SourceName,
    SourceTable,
    no_key_columns,
)
from tidelake.types.arrow import to_arrow_type

UNAVAILABLE = "__debezium_unavailable_value"
"""What Debezium sends in place of a value that it does not have."""
_NULL = b"null"
Declared = Mapping[SourceName, Mapping[str, WireColumn]]


@dataclass(slots=True)
class Tables:
    """What is known of tables; it grows with what is read. For one thread.

    The rows of a range do not depend on it: a column that a range lacks is null.

    Parameters
    ----------
    keys : tuple of str
        The key of all tables, where the settings give one.
    declared : mapping
        By table: columns whose types are known from elsewhere.
    takes_kinds : bool
        Whether columns that messages do not describe have the type of their first value; else they
        are texts.
    """

    keys: tuple[str, ...] = ()
    declared: Declared = field(default_factory=dict)
    takes_kinds: bool = False
    open_layouts: dict[SourceName, RowLayout] = field(default_factory=dict)
    versions: dict[SourceName, SourceTable] = field(default_factory=dict)

    def layout(self, events: TableEvents) -> RowLayout:
        """Give the layout with which to read a table's images."""
        if not events.layout.is_open:
            return events.layout
        known = self.open_layouts.get(events.name)
        if known is not None:
            return known
        return events.layout.grown(samples_of(events.images), self.maker(events.name))

    def maker(self, name: SourceName) -> MakeColumn:
        """Give what makes the columns of a table that messages do not describe."""
        declared = self.declared.get(name, {})
        make = kind_column if self.takes_kinds else _text_column
        return lambda column, value: declared.get(column) or make(column, value)

    def keys_of(self, events: TableEvents) -> tuple[str, ...]:
        """Give the key of a table: a range without one has that of those before."""
        known = self.versions.get(events.name)
        return self.keys or events.keys or (() if known is None else known.keys)

    def version(self, events: TableEvents, layout: RowLayout) -> SourceTable:
        """Note and give the version of a table."""
        name = events.name
        names = {one.name for one in layout.columns}
        keys = self.keys_of(events)
        kept = keys if set(keys) <= names else ()
        made = SourceTable(name, tuple(one.source for one in layout.columns), kept, OldRows.SOME)
        if layout.is_open:
            self.open_layouts[name] = layout
        self.versions[name] = made
        return made


def _text_column(name: str, _: Any) -> WireColumn:
    return text_column(name)


def row_changes(
    events: TableEvents,
    batch: MessageBatch,
    tables: Tables,
    key_columns: KeyColumns = no_key_columns,
) -> SourceRows:
    """Make the rows of one table and layout.

    Parameters
    ----------
    key_columns : callable
        As of :meth:`tidelake.cdc.source.source.Source.read`.
    """
    keys = tables.keys_of(events)
    layout = tables.layout(events)
    described = SourceTable(events.name, tuple(one.source for one in layout.columns), keys)
    others = key_columns(described)
    moving = (*keys, *sorted(others - set(keys)))
    if not keys:
        # without a key an upsert is a row of its own
        for place in _without_old(events):
            events.kinds[place] = INSERT
    hidden: set[int] = set()
    if keys and not (events.moves_by_itself and set(moving) <= set(events.keys)):
        if events.hides_moves and events.keys and not set(moving) <= set(events.keys):
            hidden = {id(events.images[place]) for place in _without_old(events)}
        events = _with_moves(events, moving)
    read = read_images(
        events.images,
        layout,
        tables.maker(events.name),
        of_key=frozenset(moving),
        by_key=frozenset(p for p, kind in enumerate(events.kinds) if kind == DELETE and keys),
    )
    version = tables.version(events, read.layout)
    read = _without_keyless(read, version.keys)
    if hidden:
        reason = _HIDDEN.format(", ".join(n for n in moving if n not in events.keys))
        rows_hidden = [p for p, image in enumerate(events.images) if id(image) in hidden]
        read = replace(read, bad={**dict.fromkeys(rows_hidden, reason), **read.bad})
    rejected = tuple(_rejected(events, place, reason) for place, reason in sorted(read.bad.items()))
    kept = np.arange(len(events.kinds), dtype=np.int64)
    if read.bad:
        kept = np.delete(kept, list(read.bad))
    order = np.stack(
        [np.array(events.first, np.int64), np.array(events.second, np.int64)], axis=1
    ).reshape(-1, 2)[kept]
    if not (np.diff(order[:, 0]) > 0).all():
        places = np.lexsort((order[:, 1], order[:, 0]))
        order, kept = order[places], kept[places]
    names = [one.name for one in read.layout.columns]
    arrays = read.arrays
    if len(kept) != len(events.kinds) or not np.array_equal(kept, np.arange(len(kept))):
        taken = pa.array(kept)
        arrays = [array.take(taken) for array in arrays]
    rows = pa.RecordBatch.from_arrays(arrays, names=names)
    rows, unchanged = _unchanged(rows, version.keys)
    messages = np.array(events.messages, np.int64)[kept]
    return SourceRows(
        version,
        rows,
        np.array(events.kinds, np.int8)[kept],
        order,
        np.array(events.changed_ms, np.int64)[kept],
        unchanged,
        rows.select(list(version.keys)) if unchanged else None,
        rejected,
        batch.metadata(messages),
    )


_HIDDEN = (
    "the message has no old row, so that a change of the target's key ({}) does not show: let the"
    " source log whole old rows (PostgreSQL: REPLICA IDENTITY FULL), or take the source's key"
)


def _without_old(events: TableEvents) -> Iterator[int]:
    """The updates without an old row."""
    for place, (kind, old) in enumerate(zip(events.kinds, events.before, strict=True)):
        if kind == UPDATE and (old is None or (not isinstance(old, dict) and bytes(old) == _NULL)):
            yield place


def _rejected(events: TableEvents, place: int, reason: str) -> Rejected:
    return Rejected(
        events.name,
        (events.first[place], events.second[place]),
        events.kinds[place],
        reason,
        json_of(events.images[place]),
    )


def _without_keyless(read: ImageRows, keys: Sequence[str]) -> ImageRows:
    """Leave out rows whose key has a null."""
    bad = dict(read.bad)
    for place, one in enumerate(read.layout.columns):
        if one.name in keys and read.arrays[place].null_count:
            for row in np.flatnonzero(read.arrays[place].is_null()).tolist():
                bad.setdefault(row, f"column '{one.name}' of the key is null or missing")
    return replace(read, bad=bad) if len(bad) != len(read.bad) else read


# ---- keys that changed


def _with_moves(events: TableEvents, keys: Sequence[str]) -> TableEvents:
    """Put a -D of the old key before each update that changed it."""
    moved = set(_moved(events, keys))
    last = [second | 1 for second in events.second]
    if not moved:
        return replace_second(events, last)
    made = events.without_rows()
    for place, kind in enumerate(events.kinds):
        if place in moved:
            _append(made, events, place, DELETE, events.before[place], events.second[place])
        _append(made, events, place, kind, events.images[place], last[place])
    return made


def replace_second(events: TableEvents, second: list[int]) -> TableEvents:
    """Give the events with another order among those of one place."""
    events.second = second
    return events


def _append(
    made: TableEvents, events: TableEvents, place: int, kind: int, image: Image, second: int
) -> None:
    made.messages.append(events.messages[place])
    made.kinds.append(kind)
    made.images.append(image)
    made.before.append(None)
    made.first.append(events.first[place])
    made.second.append(second)
    made.changed_ms.append(events.changed_ms[place])


def _moved(events: TableEvents, keys: Sequence[str]) -> Iterator[int]:
    """The updates whose old row has another key."""
    decode: Any = None
    for place, (kind, old) in enumerate(zip(events.kinds, events.before, strict=True)):
        if kind != UPDATE or old is None:
            continue
        new = events.images[place]
        if isinstance(old, dict):
            before, after = old, new
        else:
            if bytes(old) == _NULL:
                continue
            decode = decode or _key_decoder(keys)
            try:
                before, after = decode(old), decode(new)
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue  # the row is found bad when it is read
        if any(name in before and before[name] != after.get(name) for name in keys):
            events.before[place] = _completed(old, new, before, keys)
            yield place


def _key_decoder(keys: Sequence[str]) -> Any:
    """Decode the key's columns of an image alone."""
    slots = [f"k{number}" for number in range(len(keys))]
    kind: Any = msgspec.defstruct(
        "Key",
        [(slot, Any, msgspec.UNSET) for slot in slots],
        rename=dict(zip(slots, keys, strict=True)),
        gc=False,
    )
    decode = msgspec.json.Decoder(kind).decode

    def names_to_values(image: Image) -> dict[str, Any]:
        found = decode(image)
        values = zip(keys, (getattr(found, slot) for slot in slots), strict=True)
        return {name: value for name, value in values if value is not msgspec.UNSET}

    return names_to_values


def _completed(old: Image, new: Image, before: Mapping[str, Any], keys: Sequence[str]) -> Image:
    """An old row with all columns of the key: some sources send only those that changed."""
    if all(name in before for name in keys):
        return old
    if isinstance(old, dict):
        return {**new, **old}
    whole = {**msgspec.json.decode(new), **msgspec.json.decode(old)}
    return msgspec.json.encode(whole)


# ---- values that were not sent


def _unchanged(rows: pa.RecordBatch, keys: Sequence[str]) -> tuple[pa.RecordBatch, dict[str, Any]]:
    """Find the texts and bytes that say that a value was not sent, and make them null."""
    masks: dict[str, Any] = {}
    arrays = list(rows.columns)
    for place, one in enumerate(rows.schema):
        if one.name in keys or not (pa.types.is_string(one.type) or pa.types.is_binary(one.type)):
            continue
        mark = UNAVAILABLE if pa.types.is_string(one.type) else UNAVAILABLE.encode()
        found = pc.fill_null(pc.equal(arrays[place], pa.scalar(mark, one.type)), fill_value=False)
        if found.true_count:
            masks[one.name] = found.to_numpy(zero_copy_only=False)
            arrays[place] = pc.if_else(found, pa.scalar(None, one.type), arrays[place])
    if not masks or not keys:
        return rows, {}
    return pa.RecordBatch.from_arrays(arrays, names=rows.schema.names), masks


def no_rows(version: SourceTable, rejected: Sequence[Rejected]) -> SourceRows:
    """Give a part of a table with nothing but what was left out."""
    arrays = [pa.nulls(0, to_arrow_type(f.type)) for f in version.fields]
    rows = pa.RecordBatch.from_arrays(arrays, names=[f.name for f in version.fields])
    none = np.zeros(0, np.int64)
    return SourceRows(
        version,
        rows,
        none.astype(np.int8),
        none.reshape(0, 2),
        none,
        rejected=tuple(rejected),
    )
