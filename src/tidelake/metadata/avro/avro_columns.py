"""Decodes Avro records in parallel into columns: a field of all records, then the next field.

A record of a manifest has some forty numbers and a dozen texts. Decoded one by one, each costs a
call; decoded in lockstep, each costs its share of a few NumPy operations:

1. The caller names where records may begin, by a pattern that each has; some positions may be
   wrong.
2. The fields are read in the order of the schema from all these positions at once, one NumPy step
   for each: a position per record advances by the length of its field.
3. The next record begins where one ends. The chain from the first byte to the last is followed;
   wrong positions are not on it. So each record was read from its exact position.
4. Numbers become Arrow integers; one ``take`` copies texts out of the payload.

This module does not judge the bytes: anything unusual (a type that manifests do not have, arrays in
blocks, a number of more than 64 bits, a broken chain) gives None. The caller then decodes record by
record, which finds the error or the rows.

Source of the encoding: Avro specification 1.11, "Binary Encoding". Cost: O(bytes of the payload)
for step 1, O(records x fields) NumPy element operations for step 2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

ITEMS_MAX = 4_096
"""Items of an array; longer ones are decoded record by record."""
ITEMS_FREE = 100_000
PLACES_FACTOR_MAX = 4
PLACES_FREE = 1_000
"""The most positions per record, and a fixed number more; above that they are not tried."""

_PAD = bytes(16)
"""Padding behind the payload, so that no read from inside leaves it."""
_VARINT_BYTES_MAX = 10

Positions: TypeAlias = NDArray[np.int64]
Columns: TypeAlias = Mapping[tuple[str, ...], pa.Array]
"""From a field's path to its values: int64, binary or string, or lists of these."""
FindStarts: TypeAlias = Callable[[NDArray[np.uint8]], Positions]
"""Gives the positions in a payload where records may begin, ascending."""


class _Unusual(Exception):
    """These bytes must be decoded record by record."""


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A field without inner fields.

    Parameters
    ----------
    path : tuple of str
        Names of the records around it, then its own.
    kind : str
        ``"long"``, ``"bytes"`` or ``"string"``; for an array the kind of its items.
    null_branch : int or None
        Which branch of its union is null; None for a field without a union.
    """

    path: tuple[str, ...]
    kind: str
    null_branch: int | None
    is_array: bool = False
    item_null_branch: int | None = None


def decode_columns(
    schema: Mapping[str, Any], blocks: Sequence[tuple[int, bytes]], *, find_starts: FindStarts
) -> Columns | None:
    """Decode blocks of a container.

    Parameters
    ----------
    schema : mapping
        Plain schema of a record: without references and logical types.
    blocks : sequence of (int, bytes)
        Number of records and decompressed bytes of each.
    find_starts : callable
        Names the positions where records may begin.

    Returns
    -------
    mapping or None
        The columns; None where the records must be decoded one by one.
    """
    try:
        leaves = list(_leaves(schema))
        payload = b"".join((*(part for _, part in blocks), _PAD))
        return _decode(leaves, payload, blocks, find_starts)
    except (_Unusual, pa.ArrowInvalid):
        return None


def _leaves(schema: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[_Leaf]:
    """Fields of a record schema, in the order of the bytes."""
    for field in schema["fields"]:
        own = (*path, field["name"])
        kind = field["type"]
        if isinstance(kind, dict) and kind["type"] == "record":
            yield from _leaves(kind, own)
            continue
        kind, null_branch = _optional(kind)
        if isinstance(kind, dict) and kind["type"] == "array":
            items, item_null_branch = _optional(kind["items"])
            yield _Leaf(own, _primitive(items), null_branch, True, item_null_branch)
        else:
            yield _Leaf(own, _primitive(kind), null_branch)


def _optional(kind: Any) -> tuple[Any, int | None]:
    if not isinstance(kind, list):
        return kind, None
    if len(kind) != 2 or kind.count("null") != 1:
        raise _Unusual
    null_branch = kind.index("null")
    return kind[1 - null_branch], null_branch


def _primitive(kind: Any) -> str:
    if kind in ("int", "long"):
        return "long"
    if kind in ("bytes", "string"):
        return str(kind)
    raise _Unusual


def _decode(
    leaves: Sequence[_Leaf],
    payload: bytes,
    blocks: Sequence[tuple[int, bytes]],
    find_starts: FindStarts,
) -> Columns:
    cursor = _Cursor(payload)
    counts = [count for count, _ in blocks]
    count = sum(counts)
    starts = find_starts(cursor.bytes[: cursor.end])
    if not 0 < count <= len(starts) <= PLACES_FACTOR_MAX * count + PLACES_FREE:
        raise _Unusual
    fields, ends = _read(cursor, leaves, starts)
    chain = _chain(starts, ends, count, cursor.end)
    if len(chain) != len(starts):
        starts = starts[chain]
        fields, ends = _read(cursor, leaves, starts)
    # a block's records fill it: none continues in the next
    firsts = np.cumsum([0, *counts[:-1]])
    begins = np.cumsum([0, *(len(part) for _, part in blocks[:-1])])
    if not np.array_equal(starts[firsts], begins):
        raise _Unusual
    return {
        leaf.path: field.array(cursor, leaf) for leaf, field in zip(leaves, fields, strict=True)
    }


def _read(
    cursor: _Cursor, leaves: Sequence[_Leaf], starts: Positions
) -> tuple[list[_Field], Positions]:
    """Read all fields from some positions; returns where each record ends, -1 for a failure."""
    cursor.begin(starts)
    fields = [_Field.read(cursor, leaf) for leaf in leaves]
    ends = cursor.at.copy()
    ends[cursor.wrong] = -1
    return fields, ends


def _chain(starts: Positions, ends: Positions, count: int, end: int) -> NDArray[np.intp]:
    """Find the positions of the records, which follow each other from first to last byte."""
    if (
        len(starts) == count
        and starts[0] == 0
        and ends[-1] == end
        and np.array_equal(ends[:-1], starts[1:])
    ):
        return np.arange(count)
    following = np.searchsorted(starts, ends)
    at = np.minimum(following, len(starts) - 1)
    following[(starts[at] != ends) | (following == len(starts))] = -1
    steps, place = following.tolist(), 0
    chain = []
    # a Python loop over the records: 0.05 us each
    for _ in range(count):
        chain.append(place)
        place = steps[place]
        if place < 0:
            break
    if starts[0] != 0 or len(chain) != count or ends[chain[-1]] != end:
        raise _Unusual
    return np.array(chain)


class _Cursor:
    """A position in the payload for each record, all advanced together.

    `wrong` marks those with impossible bytes; they continue anywhere inside, and do not count.
    """

    def __init__(self, payload: bytes) -> None:
        self.payload = payload
        self.bytes = np.frombuffer(payload, dtype=np.uint8)
        self.end = len(payload) - len(_PAD)
        self.begin(np.zeros(0, dtype=np.int64))

    def begin(self, starts: Positions) -> None:
        """Go to the positions where records may begin."""
        self.at = starts.astype(np.int64)
        self.wrong = np.zeros(len(starts), dtype=bool)

    def varint(self, rows: NDArray[np.intp] | None = None) -> Positions:
        """Read a number (zigzag) of all records, or of some."""
        at = self.at if rows is None else self.at[rows]
        byte = self.bytes[at]
        if not (byte & 0x80).any():
            self._move(at + 1, rows)
            return (byte >> 1).astype(np.int64) ^ -(byte & 1).astype(np.int64)
        value = (byte & 0x7F).astype(np.uint64)
        more = byte >= 0x80
        length = np.ones(len(at), dtype=np.int64)
        for place in range(1, _VARINT_BYTES_MAX):
            byte = np.where(more, self.bytes[at + place], 0)
            value |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * place)
            length += more
            more = byte >= 0x80
            if not more.any():
                break
        # the tenth byte has room for one bit
        bad = more | (byte > 1) if place == _VARINT_BYTES_MAX - 1 else more
        self._mark(bad, rows)
        self._move(at + length, rows)
        signs: NDArray[np.uint64] = value & np.uint64(1)
        return (value >> np.uint64(1)).astype(np.int64) ^ -signs.astype(np.int64)

    def skip(self, length: Positions, rows: NDArray[np.intp] | None = None) -> Positions:
        """Skip as many bytes; returns where they began."""
        at = self.at if rows is None else self.at[rows]
        bad = (length < 0) | (length > self.end - at)
        self._mark(bad, rows)
        self._move(at + np.where(bad, 0, length), rows)
        return at

    def _mark(self, bad: NDArray[np.bool_], rows: NDArray[np.intp] | None) -> None:
        if rows is None:
            self.wrong |= bad
        else:
            self.wrong[rows[bad]] = True

    def _move(self, to: Positions, rows: NDArray[np.intp] | None) -> None:
        if len(to) and to.max() > self.end:
            self._mark(to > self.end, rows)
            to = np.minimum(to, self.end)
        if rows is None:
            self.at = to
        else:
            self.at[rows] = to


@dataclass(frozen=True, slots=True)
class _Field:
    """The values of a field, or their positions.

    Parameters
    ----------
    values : ndarray of int64, shape [values]
        Numbers; for texts, where each begins.
    lengths : ndarray of int64, shape [values], or None
        The lengths of texts.
    present : ndarray of bool, shape [records], or None
        Whether a record has the value (an array: as a whole); None if all have.
    item_counts : ndarray of int64, shape [records], or None
        Of arrays; 0 for a missing one.
    items_present : ndarray of bool, shape [items], or None
        Whether an item is not null; None if all are present.
    """

    values: Positions
    lengths: Positions | None
    present: NDArray[np.bool_] | None
    item_counts: Positions | None = None
    items_present: NDArray[np.bool_] | None = None

    @classmethod
    def read(cls, cursor: _Cursor, leaf: _Leaf) -> _Field:
        """Read the field of all records."""
        present, rows = _branch(cursor, leaf.null_branch, None)
        if leaf.is_array:
            return cls._array(cursor, leaf, present, rows)
        values, lengths = _value(cursor, leaf.kind, rows)
        return cls(values, lengths, present)

    @classmethod
    def _array(
        cls,
        cursor: _Cursor,
        leaf: _Leaf,
        present: NDArray[np.bool_] | None,
        rows: NDArray[np.intp] | None,
    ) -> _Field:
        counts = np.zeros(len(cursor.at), dtype=np.int64)
        own = cursor.varint(rows)
        # each item takes a byte at least
        rest = cursor.end - (cursor.at if rows is None else cursor.at[rows])
        bad = (own < 0) | (own > np.minimum(rest, ITEMS_MAX))
        cursor.wrong[np.flatnonzero(bad) if rows is None else rows[bad]] = True
        counts[slice(None) if rows is None else rows] = np.where(bad, 0, own)
        firsts = np.cumsum(counts) - counts
        total = int(counts.sum())
        if total > len(cursor.payload) + ITEMS_FREE:  # wrong positions may claim some
            raise _Unusual
        values = np.zeros(total, dtype=np.int64)
        lengths = None if leaf.kind == "long" else np.zeros(total, dtype=np.int64)
        there = None if leaf.item_null_branch is None else np.ones(total, dtype=bool)
        for item in range(int(counts.max(initial=0))):
            active = np.flatnonzero(counts > item)
            places = firsts[active] + item
            item_present, item_rows = _branch(cursor, leaf.item_null_branch, active)
            own_values, own_lengths = _value(cursor, leaf.kind, item_rows)
            if item_present is not None and there is not None:
                there[places] = item_present
                places = places[item_present]
            values[places] = own_values
            if lengths is not None and own_lengths is not None:
                lengths[places] = own_lengths
        filled = np.flatnonzero(counts)
        more_blocks = cursor.varint(filled) != 0
        cursor.wrong[filled[more_blocks]] = True
        return cls(values, lengths, present, counts, there)

    def array(self, cursor: _Cursor, leaf: _Leaf) -> pa.Array:
        """The values as an Arrow array."""
        present = self.present if self.item_counts is None else self.items_present
        if self.lengths is None:
            values = _numbers(self.values, present, is_dense=self.item_counts is not None)
        else:
            dense = self.item_counts is not None and present is not None
            begins = self.values[present] if dense else self.values
            lengths = self.lengths[present] if dense else self.lengths
            values = _texts(cursor.payload, begins, lengths, present)
            if leaf.kind == "string":
                values = values.cast(pa.string())
        if self.item_counts is None:
            return values
        offsets = np.zeros(len(self.item_counts) + 1, dtype=np.int32)
        np.cumsum(self.item_counts, out=offsets[1:])
        mask = None if self.present is None else pa.array(~self.present)
        return pa.ListArray.from_arrays(pa.array(offsets), values, mask=mask)


def _branch(
    cursor: _Cursor, null_branch: int | None, rows: NDArray[np.intp] | None
) -> tuple[NDArray[np.bool_] | None, NDArray[np.intp] | None]:
    """Read which branch of a union is present: whether one of `rows` is not null; and which."""
    if null_branch is None:
        return None, rows
    branch = cursor.varint(rows)
    bad = (branch != 0) & (branch != 1)
    if bad.any():
        cursor.wrong[np.flatnonzero(bad) if rows is None else rows[bad]] = True
    present = branch != null_branch
    if present.all():
        return None, rows
    return present, np.flatnonzero(present) if rows is None else rows[present]


def _value(
    cursor: _Cursor, kind: str, rows: NDArray[np.intp] | None
) -> tuple[Positions, Positions | None]:
    number = cursor.varint(rows)
    if kind == "long":
        return number, None
    return cursor.skip(number, rows), number


def _numbers(values: Positions, present: NDArray[np.bool_] | None, *, is_dense: bool) -> pa.Array:
    if present is None:
        return pa.array(values)
    if is_dense:
        return pa.array(values, mask=~present)
    spread = np.zeros(len(present), dtype=np.int64)
    spread[present] = values
    return pa.array(spread, mask=~present)


def _texts(
    payload: bytes, begins: Positions, lengths: Positions, present: NDArray[np.bool_] | None
) -> pa.Array:
    """Copy texts out of the payload; null where `present` is not."""
    # the bytes between two texts form an element too: every second element is one of ours
    offsets = np.empty(2 * len(begins), dtype=np.int32)
    offsets[0::2] = begins
    offsets[1::2] = begins + lengths
    if not len(begins):
        return pa.nulls(0 if present is None else len(present), pa.binary())
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(payload)]
    elements = pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)
    if present is None:
        return elements.take(pa.array(np.arange(0, len(offsets), 2)))
    places = np.zeros(len(present), dtype=np.int64)
    places[present] = np.arange(0, len(offsets), 2)
    return elements.take(pa.array(places, mask=~present))
