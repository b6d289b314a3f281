"""The bitmap index: the rows that hold each value of a column.

Layout, numbers BIG endian (on disk: never renumber)::

    version           u8    1 or 2
    rows              i32
    values            i32   distinct ones without null
    has null          u8
    null offset       i32   if it has null
    null length       i32   version 2, if it has null
    version 1:  values * (value, i32 offset)
    version 2:  i32 blocks, blocks * (first value, i32 place), i32 size of the blocks,
                blocks * (i32 values, values * (value, i32 offset, i32 length))
    bitmaps           in :mod:`~tidelake.codec.roaring` format

A value is a big-endian number of its type's width, or an i32 of its length and its bytes. A place
counts from the first block, an offset from the first bitmap. A negative offset is no bitmap but
``-1 - position`` of the one row that holds the value; its length is -1. Values rise by Java's
``compare``; a block holds as many as fit ``index-block-size``.

Source: Paimon's ``BitmapFileIndex``, ``BitmapFileIndexMeta`` and ``BitmapFileIndexMetaV2`` (1.3.1).
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tidelake.codec.roaring import decode, encode_groups, encode_one
from tidelake.format.file_index.byte_source import ByteSource, damaged
from tidelake.format.file_index.distinct import DistinctValues
from tidelake.format.file_index.index_key import IndexKey, IndexKeyForm
from tidelake.format.file_index.rows import Mask
from tidelake.types import TypeRoot

BITMAP = "bitmap"
BLOCK_SIZE = 16 << 10

_PLAIN, _BLOCKED = 1, 2
_UNMAPPED = frozenset({TypeRoot.BINARY, TypeRoot.VARBINARY, TypeRoot.DECIMAL})


def bitmap_covers(form: IndexKeyForm) -> bool:
    """Whether Paimon has bitmaps of a type."""
    return form.root not in _UNMAPPED


def serialize_bitmap(
    form: IndexKeyForm,
    found: DistinctValues,
    *,
    version: int = _BLOCKED,
    block_size: int = BLOCK_SIZE,
) -> bytes:
    """Write the index of a column."""
    counts = np.bincount(found.groups, minlength=len(found.keys))
    single = counts == 1
    of_single = single[found.groups]
    shared = np.cumsum(~single) - 1  # number of the bitmap of each value that has one
    blob, lengths = encode_groups(shared[found.groups[~of_single]], found.positions[~of_single])
    nulls = encode_one(found.nulls) if len(found.nulls) else b""
    null_body = nulls if len(found.nulls) > 1 else b""
    offset = np.empty(len(found.keys), np.int64)
    offset[~single] = len(null_body) + np.cumsum(lengths) - lengths
    offset[found.groups[of_single]] = -1 - found.positions[of_single]
    length = np.full(len(found.keys), -1, np.int64)
    length[~single] = lengths
    out = bytearray(struct.pack(">bii?", version, found.row_count, len(found.keys), bool(nulls)))
    if nulls:
        out += struct.pack(">i", -1 - int(found.nulls[0]) if not null_body else 0)
    if version == _PLAIN:
        out += b"".join(_entries(form, found.keys, (offset,)))
    else:
        if nulls:
            out += struct.pack(">i", len(nulls))
        out += _blocks(form, found.keys, offset, length, block_size)
    return bytes(out) + null_body + blob


def _blocks(form: IndexKeyForm, keys: Any, offset: Any, length: Any, block_size: int) -> bytes:
    """Write the blocks of values, with the list of blocks in front."""
    if form.is_bytes:
        sizes = np.array([12 + len(key) for key in keys], np.int64)
    else:
        sizes = np.full(len(keys), 8 + form.width, np.int64)
    ends = np.cumsum(sizes)
    entries = _entries(form, keys, (offset, length))
    listed, blocks = bytearray(), bytearray()
    first = count = 0
    while first < len(keys):
        room = block_size - 4 + (int(ends[first - 1]) if first else 0)
        # a value larger than a block has a block of its own
        end = max(first + 1, int(np.searchsorted(ends, room, side="right")))
        listed += _entries(form, keys[first : first + 1], (np.array([len(blocks)]),))[0]
        blocks += struct.pack(">i", end - first) + b"".join(entries[first:end])
        first, count = end, count + 1
    return struct.pack(">i", count) + listed + struct.pack(">i", len(blocks)) + blocks


def _entries(
    form: IndexKeyForm, keys: Any, numbers: Sequence[npt.NDArray[np.int64]]
) -> Sequence[bytes]:
    """Write each key, with the numbers that follow it."""
    if not len(keys):
        return []
    tails = np.stack(numbers, axis=1).astype(">i4")
    if form.is_bytes:
        return [
            struct.pack(">i", len(key)) + key + tail.tobytes()
            for key, tail in zip(keys, tails, strict=True)
        ]
    heads = form.to_disk(keys).view(np.uint8).reshape(len(keys), form.width)
    joined = np.concatenate([heads, tails.view(np.uint8).reshape(len(keys), -1)], axis=1)
    size = joined.shape[1]
    data = joined.tobytes()
    return [data[at : at + size] for at in range(0, len(data), size)]


class BitmapReader:
    """Finds rows by the bytes of a bitmap index; exact.

    Raises
    ------
    CorruptError
        The bytes are not a bitmap index of `row_count` rows.
    UnsupportedError
        The index is of a later version.
    """

    def __init__(self, form: IndexKeyForm, data: bytes, row_count: int) -> None:
        self._form = form
        self._data = data
        self._row_count = row_count
        source = ByteSource(data)
        self._version = source.integer(1)
        if self._version not in (_PLAIN, _BLOCKED):
            message = f"its bitmaps have version {self._version}"
            raise damaged(message)
        rows, values = source.integer(), source.count()
        if rows != row_count:
            message = f"it covers {rows} rows, but its file has {row_count}"
            raise damaged(message)
        self._null: tuple[int, int] | None = None
        if source.truth():
            offset = source.integer()
            self._null = offset, source.integer() if self._version == _BLOCKED else -1
        if self._version == _PLAIN:
            self._first_keys: Sequence[IndexKey] = ()
            self._keys, numbers = self._read(source, values, 1)
            self._offsets = numbers[:, 0]
            self._body_at = source.at
            return
        self._first_keys, numbers = self._read(source, source.count(), 1)
        self._places = numbers[:, 0]
        size = source.count()
        self._blocks_at = source.at
        self._body_at = source.at + size

    def equal(self, keys: Sequence[IndexKey]) -> Mask:
        """Rows that hold one of the keys."""
        mask = np.zeros(self._row_count, np.bool_)
        for key in keys:
            place = self._find(key)
            if place is not None:
                mask[self._positions(*place)] = True
        return mask

    def between(self, low: IndexKey | None, high: IndexKey | None) -> None:
        """Return None: a range may have as many values as the file has rows."""

    def nulls(self) -> Mask:
        """Rows that are null."""
        mask = np.zeros(self._row_count, np.bool_)
        if self._null is not None:
            mask[self._positions(*self._null)] = True
        return mask

    def _find(self, key: IndexKey) -> tuple[int, int] | None:
        if self._version == _PLAIN:
            return next(
                ((int(self._offsets[i]), -1) for i in self._matching(self._keys, key)),
                None,
            )
        block = bisect_right(self._first_keys, key) - 1
        if block < 0:
            return None
        source = ByteSource(self._data, self._blocks_at + int(self._places[block]))
        keys, numbers = self._read(source, source.count(), 2)
        at = bisect_left(keys, key)
        if at == len(keys) or keys[at] != key:
            return None
        return int(numbers[at, 0]), int(numbers[at, 1])

    @staticmethod
    def _matching(keys: Any, key: IndexKey) -> list[int]:
        if isinstance(keys, list):
            return [i for i, other in enumerate(keys) if other == key]
        return np.flatnonzero(keys == key).tolist()

    def _read(self, source: ByteSource, count: int, numbers: int) -> tuple[Any, Any]:
        """Read keys, each followed by some numbers."""
        if self._form.is_bytes:
            keys, tails = [], []
            for _ in range(count):
                keys.append(source.take(source.count()))
                tails.append([source.integer() for _ in range(numbers)])
            return keys, np.array(tails, np.int64).reshape(count, numbers)
        width = self._form.width
        size = width + 4 * numbers
        data = np.frombuffer(source.take(count * size), np.uint8).reshape(count, size)
        read = self._form.from_disk(data[:, :width].tobytes(), count)
        tail_bytes = data[:, width:].tobytes()
        return read, np.frombuffer(tail_bytes, ">i4").astype(np.int64).reshape(count, numbers)

    def _positions(self, offset: int, length: int) -> npt.NDArray[np.int64]:
        if offset < 0:
            positions = np.array([-1 - offset], np.int64)
        else:
            start = self._body_at + offset
            positions, end = decode(self._data, start, rows=self._row_count)
            if length >= 0 and end != start + length:
                message = f"a bitmap has {end - start} bytes but claims {length}"
                raise damaged(message)
        if len(positions) and positions[-1] >= self._row_count:
            message = f"it names row {positions[-1]} of {self._row_count}"
            raise damaged(message)
        return positions
