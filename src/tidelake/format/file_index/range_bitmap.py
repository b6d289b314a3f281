"""The range bitmap index: a dictionary of the values, and the rows' codes as bit slices.

Layout, numbers BIG endian (on disk: never renumber)::

    head length      i32
    head             u8 version 1, i32 rows, i32 values, min, max (if any values), i32 dictionary
                     length
    dictionary       i32 head length; head: u8 version 1, i32 chunks, i32 length of the offsets,
                     i32 length of the chunks; offsets i32 per chunk; chunks; values
    chunk            u8 version 1, first value, i32 its code, i32 place of the others among the
                     values, i32 how many, then for numbers i32 their bytes, i32 width; for texts
                     i32 bytes of their offsets, i32 their bytes
    codes            i32 head length; head: u8 version 1, u8 slices, i32 length of the bitmap of
                     rows, i32 length of the index, index: (i32 offset, i32 length) per slice;
                     bitmap of the rows that are not null; slices

A code is the rank of a value by Java's ``compare``. A chunk takes values until its ``chunk-size``
is full; for a text its length and its offset count, too. The first value of a chunk is only in its
head.

Source: Paimon's ``RangeBitmap``, ``ChunkedDictionary`` and ``BitSliceIndexBitmap`` (1.3.1).
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np

from tidelake.codec.roaring import decode, encode_one
from tidelake.format.file_index.bit_slice import NumberedRows
from tidelake.format.file_index.byte_source import ByteSource, damaged
from tidelake.format.file_index.distinct import DistinctValues
from tidelake.format.file_index.index_key import IndexKey, IndexKeyForm
from tidelake.format.file_index.rows import Mask
from tidelake.types import TypeRoot

RANGE_BITMAP = "range-bitmap"
CHUNK_SIZE = 16 << 10

_VERSION = 1
_DIGITS_MAX = 31
_UNCHUNKED = frozenset({TypeRoot.BOOLEAN, TypeRoot.TINYINT, TypeRoot.SMALLINT})
_BYTES = frozenset({TypeRoot.BINARY, TypeRoot.VARBINARY})


def range_bitmap_covers(form: IndexKeyForm) -> bool:
    """Whether Paimon has a range bitmap of a type."""
    return form.root not in _BYTES and not form.coarse


def default_chunk_size(form: IndexKeyForm) -> int:
    """Return the default chunk size of a type."""
    return 0 if form.root in _UNCHUNKED else CHUNK_SIZE


def serialize_range_bitmap(form: IndexKeyForm, found: DistinctValues, *, chunk_size: int) -> bytes:
    """Write the index of a column. Requires: some row is not null."""
    keys = found.keys
    assert len(keys), "a range bitmap has values"
    dictionary = _dictionary(form, keys, chunk_size)
    head = struct.pack(">bii", _VERSION, found.row_count, len(keys))
    head += _on_disk(form, keys[0]) + _on_disk(form, keys[-1]) + struct.pack(">i", len(dictionary))
    codes, positions = found.codes()
    slices = []
    for digit in range(max(1, (len(keys) - 1).bit_length())):
        own = positions[(codes >> digit) & 1 == 1]
        slices.append(encode_one(own))
    rows = encode_one(positions)
    index = bytearray()
    offset = 0
    for own_bytes in slices:
        index += struct.pack(">ii", offset, len(own_bytes))
        offset += len(own_bytes)
    slice_head = struct.pack(">bbii", _VERSION, len(slices), len(rows), len(index)) + index
    return b"".join(
        [
            _sized(head),
            dictionary,
            _sized(slice_head),
            rows,
            *slices,
        ]
    )


def _sized(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def _on_disk(form: IndexKeyForm, key: Any) -> bytes:
    if form.is_bytes:
        return struct.pack(">i", len(key)) + key
    return form.to_disk(np.array([key], np.int64)).tobytes()


def _dictionary(form: IndexKeyForm, keys: Any, chunk_size: int) -> bytes:
    offsets, chunks, values = bytearray(), bytearray(), bytearray()
    first = count = 0
    while first < len(keys):
        if form.is_bytes:
            own, others, tail = _text_chunk(keys, first, chunk_size)
        else:
            own = min(len(keys) - first - 1, chunk_size // form.width)
            others = form.to_disk(keys[first + 1 : first + 1 + own]).tobytes()
            tail = struct.pack(">ii", len(others), form.width)
        offsets += struct.pack(">i", len(chunks))
        chunks += struct.pack(">b", _VERSION) + _on_disk(form, keys[first])
        chunks += struct.pack(">iii", first, len(values), own) + tail
        values += others
        first, count = first + 1 + own, count + 1
    head = struct.pack(">biii", _VERSION, count, len(offsets), len(chunks))
    return _sized(head) + bytes(offsets) + bytes(chunks) + bytes(values)


def _text_chunk(keys: Sequence[bytes], first: int, chunk_size: int) -> tuple[int, bytes, bytes]:
    """Choose the texts after the first that fit a chunk: their number, bytes and sizes."""
    places, texts = bytearray(), bytearray()
    own = 0
    for key in keys[first + 1 :]:
        if 4 + len(key) > chunk_size - len(texts) or chunk_size - len(places) < 4:
            break
        places += struct.pack(">i", len(texts))
        texts += struct.pack(">i", len(key)) + key
        own += 1
    return own, bytes(places + texts), struct.pack(">ii", len(places), len(texts))


class RangeBitmapReader:
    """Finds rows by the bytes of a range bitmap; exact.

    Raises
    ------
    CorruptError
        The bytes are not a range bitmap of `row_count` rows.
    """

    def __init__(self, form: IndexKeyForm, data: bytes, row_count: int) -> None:
        self._form = form
        self._data = data
        source = ByteSource(data)
        head_end = source.count() + source.at
        version, rows, self._count = source.integer(1), source.integer(), source.integer()
        if version != _VERSION or rows != row_count or not 0 <= self._count <= rows:
            message = f"it is a range bitmap of version {version}, {self._count} values and {rows}"
            message += f" rows, not {row_count}"
            raise damaged(message)
        if not self._count:
            self._rows = NumberedRows(np.zeros(rows, np.int64), np.zeros(rows, np.bool_))
            return
        self._key(source)
        self._key(source)
        length = source.count()
        if source.at != head_end:
            message = "the head of its range bitmap has another length"
            raise damaged(message)
        self._read_dictionary(ByteSource(data[: source.at + length], source.at))
        self._rows = _code_rows(ByteSource(data, source.at + length), row_count, self._count)

    def equal(self, keys: Sequence[IndexKey]) -> Mask:
        """Rows that hold one of the keys."""
        places = [self._position(key) for key in keys]
        return self._rows.equal([code for code, found in places if found])

    def between(self, low: IndexKey | None, high: IndexKey | None) -> Mask:
        """Rows from `low` to `high`, both included; None is open."""
        first = None if low is None else self._position(low)[0]
        last = None
        if high is not None:
            code, found = self._position(high)
            last = code if found else code - 1
        return self._rows.between(first, last)

    def nulls(self) -> Mask:
        """Rows that are null."""
        return self._rows.nulls()

    def _key(self, source: ByteSource) -> IndexKey:
        if self._form.is_bytes:
            return source.take(source.count())
        return int(self._form.from_disk(source.take(self._form.width), 1)[0])

    def _read_dictionary(self, source: ByteSource) -> None:
        head_end = source.count() + source.at
        version, chunks = source.integer(1), source.integer()
        offsets_length, chunks_length = source.integer(), source.integer()
        if version != _VERSION or source.at != head_end or offsets_length != 4 * chunks:
            message = f"the dictionary of its range bitmap has {chunks} chunks of version {version}"
            raise damaged(message)
        offsets = np.frombuffer(source.take(offsets_length), ">i4").tolist()
        chunks_at = source.at
        source.take(chunks_length)
        self._values_at = source.at
        self._values_end = len(source.data)
        self._first_keys: list[IndexKey] = []
        self._first_codes: list[int] = []
        self._chunk_sizes: list[tuple[int, int, int, int]] = []
        for offset in offsets:
            chunk = ByteSource(source.data, chunks_at + offset)
            if chunk.integer(1) != _VERSION:
                message = "a chunk of its range bitmap has a later version"
                raise damaged(message)
            self._first_keys.append(self._key(chunk))
            self._first_codes.append(chunk.integer())
            self._chunk_sizes.append(
                (chunk.integer(), chunk.integer(), chunk.integer(), chunk.integer())
            )
        ends = [*self._first_codes[1:], self._count]
        counted = [1 + sizes[1] for sizes in self._chunk_sizes]
        widths = [end - code for code, end in zip(self._first_codes, ends, strict=True)]
        if not self._first_codes or self._first_codes[0] != 0 or widths != counted:
            message = "the chunks of its range bitmap do not follow one another"
            raise damaged(message)

    def _position(self, key: IndexKey) -> tuple[int, bool]:
        """Find the code of the first value not below a key, and whether it equals the key."""
        if not self._count:
            return 0, False
        chunk = bisect_right(self._first_keys, key) - 1
        if chunk < 0:
            return 0, False
        if self._first_keys[chunk] == key:
            return self._first_codes[chunk], True
        others = self._others(chunk)
        at = bisect_left(others, key)
        found = at < len(others) and others[at] == key
        return self._first_codes[chunk] + 1 + at, bool(found)

    def _others(self, chunk: int) -> Any:
        """Read the values of a chunk after its first."""
        place, count, one, other = self._chunk_sizes[chunk]
        source = ByteSource(self._data[: self._values_end], self._values_at + place)
        if not self._form.is_bytes:
            if one != count * self._form.width or other != self._form.width:
                message = "a chunk of its range bitmap has another length"
                raise damaged(message)
            return self._form.from_disk(source.take(one), count)
        if one != 4 * count:
            message = "a chunk of its range bitmap has another length"
            raise damaged(message)
        source.take(one)
        texts = ByteSource(source.take(other))
        return [texts.take(texts.count()) for _ in range(count)]


def _code_rows(source: ByteSource, row_count: int, values: int) -> NumberedRows:
    """Read the code of every row."""
    head_end = source.count() + source.at
    version, digits = source.integer(1), source.integer(1)
    rows_length, index_length = source.integer(), source.integer()
    if (
        version != _VERSION
        or digits != max(1, (values - 1).bit_length())
        or digits > _DIGITS_MAX
        or index_length != 8 * digits
    ):
        message = f"its range bitmap has {digits} slices of version {version} for {values} values"
        raise damaged(message)
    places = np.frombuffer(source.take(index_length), ">i4").reshape(digits, 2).tolist()
    if source.at != head_end:
        message = "the slices of its range bitmap have a head of another length"
        raise damaged(message)
    valid = np.zeros(row_count, np.bool_)
    body = source.at
    _decode_bitmap(valid, source.data, body, rows_length)
    codes = np.zeros(row_count, np.int64)
    for digit, (offset, length) in enumerate(places):
        own = np.zeros(row_count, np.bool_)
        _decode_bitmap(own, source.data, body + rows_length + offset, length)
        codes += own.astype(np.int64) << digit
    return NumberedRows(codes, valid)


def _decode_bitmap(mask: Mask, data: bytes, at: int, length: int) -> None:
    positions, end = decode(data, at, rows=len(mask))
    if end != at + length:
        message = f"a slice of its range bitmap has {end - at} bytes but claims {length}"
        raise damaged(message)
    mask[positions] = True
