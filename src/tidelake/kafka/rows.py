"""Decodes messages to rows: columns of value and key, metadata, kinds.

A column that the value has comes from the value. The key is decoded only for columns that the value
lacks, and for the deletes of ``upsert-kafka``. Only the columns wanted are decoded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidelake.engine.messages import BadMessage, Decoded, Decoder, batch_of
from tidelake.kafka.definition import METADATA, KafkaTable
from tidelake.kafka.slice_reader import MessageBlock
from tidelake.types import DataField, RowKind
from tidelake.types.arrow import to_arrow_type
from tidelake.types.cast import cast_values

KIND, OFFSET, INDEX = "_row_kind", "_offset", "_index"
"""Columns that every table has on request: the kind as text, the message's offset, and the row's
number in its message."""
_OWN = {KIND: pa.string(), OFFSET: pa.int64(), INDEX: pa.int32()}
NO_TIME, CREATED, APPENDED = 0, 1, 2
_TIMES = {CREATED: "CreateTime", APPENDED: "LogAppendTime"}
_KIND_TEXTS = pa.array([str(kind) for kind in RowKind])


@dataclass(frozen=True, slots=True)
class BlockRows:
    """The rows of a block.

    Parameters
    ----------
    rows : pyarrow.RecordBatch
        The columns wanted, in order.
    bad : tuple of BadMessage
        Messages that the format cannot decode, by position in the block.
    """

    rows: pa.RecordBatch
    bad: tuple[BadMessage, ...]


class RowDecoder:
    """Decodes the blocks of one table to rows.

    Parameters
    ----------
    columns : sequence of str
        The columns wanted, perhaps with those named above.
    zone : str, optional
        The zone in which a TIMESTAMP column shows Kafka's times.
    """

    def __init__(self, table: KafkaTable, columns: Sequence[str], *, zone: str | None) -> None:
        self._table = table
        self._columns = list(columns)
        self._zone = zone
        wanted = [c for c in columns if c not in _OWN and c not in table.metadata]
        in_value = set(table.value.names)
        self._value_columns = [c for c in wanted if c in in_value]
        self._value = table.value.decoder(self._value_columns, table=table.name)
        key_names = () if table.key is None else table.key.names
        # a delete has no value, only a key
        self._key_columns = [
            c for c in wanted if c in key_names and (table.is_upsert or c not in in_value)
        ]
        self._key: Decoder | None = None
        if table.key is not None and (self._key_columns or table.is_upsert):
            self._key = table.key.decoder(self._key_columns, table=table.name)

    def rows(self, block: MessageBlock) -> BlockRows:
        """Decode a block."""
        decoded = self._value.decode(block.values)
        bad = {one.position: one for one in decoded.bad}
        found = {name: decoded.rows.column(n) for n, name in enumerate(self._value_columns)}
        at, kinds = decoded.messages, decoded.kinds
        if self._table.is_upsert:
            kinds = np.full(len(at), int(RowKind.UPDATE_AFTER), np.int8)
        if self._key is not None:
            keys = self._key.decode([message.key() for message in block.messages])
            wrong = {
                one.position: BadMessage(one.position, f"key: {one.reason}") for one in keys.bad
            }
            if self._table.is_upsert:
                wrong |= self._keyless(block, wrong)
                found, at, kinds = self._with_deletes(block, found, at, kinds, keys)
            else:
                found |= self._of_keys(keys, at)
            bad = {**wrong, **bad}
            if wrong:
                kept = ~np.isin(at, list(bad))
                found = {name: column.filter(pa.array(kept)) for name, column in found.items()}
                at, kinds = at[kept], kinds[kept]
        columns = [
            found[name] if name in found else self._known(name, block, at, kinds)
            for name in self._columns
        ]
        rows = batch_of(columns, self._columns, len(at))
        return BlockRows(rows, tuple(bad[n] for n in sorted(bad)))

    def _keyless(self, block: MessageBlock, wrong: dict[int, BadMessage]) -> dict[int, BadMessage]:
        """Find the messages of an upsert table without a key."""
        return {
            n: BadMessage(n, "key: it is null, and 'upsert-kafka' needs one")
            for n, message in enumerate(block.messages)
            if message.key() is None and n not in wrong
        }

    def _of_keys(self, keys: Decoded, at: NDArray[np.int64]) -> dict[str, pa.Array]:
        """Decode the key's columns for the rows of the value; null if a message has no key."""
        places = np.searchsorted(keys.messages, at)
        there = places < len(keys.messages)
        there[there] = keys.messages[places[there]] == at[there]
        taken = pa.array(places, mask=~there)
        return {name: keys.rows.column(n).take(taken) for n, name in enumerate(self._key_columns)}

    def _with_deletes(
        self,
        block: MessageBlock,
        found: dict[str, pa.Array],
        at: NDArray[np.int64],
        kinds: NDArray[np.int8],
        keys: Decoded,
    ) -> tuple[dict[str, pa.Array], NDArray[np.int64], NDArray[np.int8]]:
        """Merge the deletes into the rows, in the order of their messages."""
        gone = np.array([n for n, value in enumerate(block.values) if value is None], np.int64)
        every = np.concatenate([at, gone])
        order = np.argsort(every, kind="stable")
        every_kind = np.concatenate([kinds, np.full(len(gone), int(RowKind.DELETE), np.int8)])
        of_keys = self._of_keys(keys, np.concatenate([at, gone]))
        columns: dict[str, pa.Array] = {}
        for name, column in found.items():
            nulls = pa.nulls(len(gone), column.type)
            columns[name] = pa.concat_arrays([column, nulls])
        for name, column in of_keys.items():
            in_value = columns.get(name)
            columns[name] = column if in_value is None else pc.coalesce(in_value, column)
        taken = pa.array(order)
        return (
            {name: column.take(taken) for name, column in columns.items()},
            every[order],
            every_kind[order],
        )

    def _known(
        self, name: str, block: MessageBlock, at: NDArray[np.int64], kinds: NDArray[np.int8]
    ) -> pa.Array:
        """Make a column of Kafka's metadata, or one of our own."""
        if name == KIND:
            return _KIND_TEXTS.take(pa.array(kinds))
        if name == INDEX:
            first = np.searchsorted(at, at)
            return pa.array(np.arange(len(at)) - first, pa.int32())
        if name == OFFSET:
            return pa.array(block.offsets(), pa.int64()).take(pa.array(at))
        field = self._table.field(name)
        column = _metadata(self._table.metadata[name].key, block).take(pa.array(at))
        return self._as(column, self._table.metadata[name].key, field)

    def _as(self, column: pa.Array, key: str, field: DataField) -> pa.Array:
        known = METADATA[key]
        if field.type.as_nullable() == known:
            return column
        return cast_values(column, known, field.type.as_nullable(), zone=self._zone)


def _metadata(key: str, block: MessageBlock) -> pa.Array:
    target = to_arrow_type(METADATA[key])
    messages, count = block.messages, len(block.messages)
    if key == "topic":
        return pa.array([block.part.topic] * count, target)
    if key == "partition":
        return pa.array([block.part.partition] * count, target)
    if key == "offset":
        return pa.array(block.offsets(), target)
    if key == "leader-epoch":
        return pa.array([m.leader_epoch() for m in messages], target)
    if key == "headers":
        return pa.array([[(k, v) for k, v in (m.headers() or [])] for m in messages], target)
    times = [m.timestamp() for m in messages]
    if key == "timestamp":
        return pa.array([None if kind == NO_TIME else ms for kind, ms in times], target)
    return pa.array([_TIMES.get(kind, "NoTimestampType") for kind, _ in times], target)
