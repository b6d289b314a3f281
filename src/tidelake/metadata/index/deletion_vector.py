"""Deletion vectors: the deleted rows of a data file, as one framed bitmap of positions.

Layout of the frame (on disk: never renumber)::

    size      i32 big-endian      bytes of magic and bitmap
    magic     32-bit: 5e43f2d0    64-bit: d1d33964
    bitmap    32-bit: one roaring bitmap
              64-bit: i64 bitmaps, then for each: i32 high half of its positions (rising), a
              roaring bitmap of the low halves; all little-endian
    crc       u32 big-endian      CRC-32 of magic and bitmap

A position is the ordinal of a row in its data file, from 0. Roaring bitmaps are in their portable
form (:mod:`tidelake.codec.roaring`): of 32 bits without runs, of 64 bits with them, as
Java writes them. The magic number distinguishes them, so one index file may hold both.

The index manifest records where a vector's frame begins, its length and its cardinality; for 32
bits the length is `size`, for 64 bits that of the whole frame.

Source: Paimon's ``BitmapDeletionVector`` and ``Bitmap64DeletionVector`` (1.3.1), the latter also
Iceberg's; ``docs/format/deletion-vectors.md`` shows the bytes. Cost: as of the roaring bitmaps.
"""

from __future__ import annotations

import struct
import zlib

import numpy as np
import numpy.typing as npt

from tidelake.codec.roaring import ROWS_MAX, decode, encode_one

Positions = npt.NDArray[np.int64]
"""Ascending ordinals of rows."""

_SIZE = struct.Struct(">i")
_CRC = struct.Struct(">I")
_FRAMING_BYTES = _SIZE.size + _CRC.size
_MAGIC_BYTES = 4
_MAGIC_32 = (1581511376).to_bytes(4, "big")
_MAGIC_64 = (1681511377).to_bytes(4, "little")
_COUNT = struct.Struct("<q")
_KEY = struct.Struct("<i")
_HALF_BITS = 32
_CONTAINER_ROWS = 1 << 16
_CONTAINER_BYTES_MAX = 8192 + 16
"""A container that holds every second row, and its cardinality in the bitmap."""

POSITIONS_32_MAX = (1 << 31) - 1
"""The largest position that a vector of 32 bits may hold in Java."""


def encode_vector(positions: Positions, *, bitmap64: bool) -> bytes:
    """Give the frame of a vector.

    Requires: the positions rise strictly, from 0; without `bitmap64` to :data:`POSITIONS_32_MAX`.

    Examples
    --------
    >>> encode_vector(np.array([5, 7]), bitmap64=False).hex()
    '000000185e43f2d03a3000000100000000000100100000000500070031230b80'
    """
    if bitmap64:
        body = _MAGIC_64 + _encode_64(positions)
    else:
        assert not len(positions) or positions[-1] <= POSITIONS_32_MAX
        body = _MAGIC_32 + encode_one(positions, with_runs=False)
    return framed(body)


def framed(body: bytes) -> bytes:
    """Give the frame around magic and bitmap."""
    return _SIZE.pack(len(body)) + body + _CRC.pack(zlib.crc32(body))


def _encode_64(positions: Positions) -> bytes:
    high = positions >> _HALF_BITS
    count = int(high[-1]) + 1 if len(positions) else 0  # those without a position are there too
    parts = [_COUNT.pack(count)]
    for key in range(count):
        low = positions[high == key] & (ROWS_MAX - 1)
        parts += [_KEY.pack(key), encode_one(low)]
    return b"".join(parts)


def length_in_manifest(frame: bytes) -> int:
    """The length of a vector with this frame in the index manifest."""
    return len(frame) if is_64_bits(frame) else len(frame) - _FRAMING_BYTES


def is_64_bits(head: bytes) -> bool:
    """Whether a frame that begins with these bytes holds a bitmap of 64 bits, as Iceberg's do."""
    return head[_SIZE.size : _SIZE.size + _MAGIC_BYTES] == _MAGIC_64


def vector_bytes_max(row_count: int) -> int:
    """An upper bound for the frame of a data file with so many rows."""
    containers = row_count // _CONTAINER_ROWS + 1
    return 64 + containers * _CONTAINER_BYTES_MAX


def frame_of(data: bytes, *, length: int) -> bytes:
    """Cut a frame out of the bytes at its offset, and check it.

    Parameters
    ----------
    data : bytes
        From the frame's beginning; bytes behind it are ignored.

    Raises
    ------
    ValueError
        There is no such frame; the message is the reason.
    """
    if len(data) < _FRAMING_BYTES + _MAGIC_BYTES:
        message = f"only {len(data)} bytes are left for it"
        raise ValueError(message)
    (size,) = _SIZE.unpack_from(data)
    magic = data[_SIZE.size : _SIZE.size + _MAGIC_BYTES]
    if magic not in (_MAGIC_32, _MAGIC_64):
        message = f"it begins with {magic.hex()}"
        raise ValueError(message)
    expected = length if magic == _MAGIC_32 else length - _FRAMING_BYTES
    if size != expected:
        message = f"it claims {size} bytes, not {expected}"
        raise ValueError(message)
    if not _MAGIC_BYTES <= size <= len(data) - _FRAMING_BYTES:
        message = f"it should have {size} bytes but has {len(data) - _FRAMING_BYTES}"
        raise ValueError(message)
    end = _SIZE.size + size
    if zlib.crc32(data[_SIZE.size : end]) != _CRC.unpack_from(data, end)[0]:
        message = "its checksum does not match"
        raise ValueError(message)
    return data[: end + _CRC.size]


def decode_vector(frame: bytes, *, row_count: int) -> Positions:
    """Return the positions of a checked frame.

    Returns
    -------
    int64 array [cardinality]
        Ascending.

    Raises
    ------
    CorruptError, ValueError
        The bytes are not a bitmap, or name a row that the file does not have.

    Examples
    --------
    >>> frame = encode_vector(np.array([1, 5_000_000_000]), bitmap64=True)
    >>> decode_vector(frame, row_count=6_000_000_000).tolist()
    [1, 5000000000]
    """
    body = frame[_SIZE.size : -_CRC.size]
    if body[:_MAGIC_BYTES] == _MAGIC_64:
        return _decode_64(body, row_count)
    positions, end = decode(body, _MAGIC_BYTES, rows=min(row_count, POSITIONS_32_MAX + 1))
    _check_end(body, end)
    return positions


def _decode_64(body: bytes, row_count: int) -> Positions:
    start = _MAGIC_BYTES
    if len(body) < start + _COUNT.size:
        message = "it has no number of bitmaps"
        raise ValueError(message)
    (count,) = _COUNT.unpack_from(body, start)
    start += _COUNT.size
    if not 0 <= count <= (row_count >> _HALF_BITS) + 1:
        message = f"it has {count} bitmaps for {row_count} rows"
        raise ValueError(message)
    parts: list[Positions] = []
    last = -1
    for _ in range(count):  # one for four thousand million rows
        if len(body) < start + _KEY.size:
            message = "a bitmap is missing"
            raise ValueError(message)
        (key,) = _KEY.unpack_from(body, start)
        if key <= last:
            message = "its bitmaps are not in order"
            raise ValueError(message)
        before = key << _HALF_BITS
        low, start = decode(body, start + _KEY.size, rows=max(0, min(ROWS_MAX, row_count - before)))
        parts.append(low + before)
        last = key
    _check_end(body, start)
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def _check_end(body: bytes, end: int) -> None:
    if end != len(body):
        message = f"{len(body) - end} bytes follow it"
        raise ValueError(message)
