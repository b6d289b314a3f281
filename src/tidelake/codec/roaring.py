"""Roaring bitmaps of 32-bit positions in their portable format, written many at a time.

Layout, all numbers LITTLE endian (on disk: never renumber)::

    cookie      u32   12346, or 12347 | (containers - 1) << 16 where a container holds runs
    containers  u32   only after 12346
    run flags   bit per container, ceil(containers / 8) bytes; only after 12347
    per container:    u16 high half of its positions, u16 cardinality - 1
    offsets     u32 per container, from the cookie; left out after 12347 if fewer than 4
    containers: array u16 per position (to 4096) | bitset 8192 bytes | u16 runs, (u16 start, u16
                length - 1) per run

1. Encoding takes (group, position) pairs sorted by both and gives one bitmap per group: containers,
   runs and places of all groups are found at once, so that an index of a million distinct values
   costs no loop over them. A container is written in its smallest form, as Java does; or, where
   Java does not look for runs (``runOptimize`` is not called), in the smaller of the other two.
2. Decoding checks what there is to check - order, counts, ends - because the bytes come from files:
   libraries that map such bytes into memory leave that to their callers.

Source: the RoaringBitmap format specification; Java's ``RoaringBitmap.runOptimize`` and
``serialize`` (the bytes are equal). Cost: encoding O(n) in numpy; decoding a loop over containers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tidelake.errors import CorruptError

__all__ = ["EMPTY_BITMAP", "ROWS_MAX", "decode", "encode_groups", "encode_one"]

_PLAIN_COOKIE = 12346
_RUN_COOKIE = 12347
_ARRAY_MAX = 4096
_BITSET_BYTES = 8192
_OFFSETS_FROM = 4
_CONTAINERS_MAX = 1 << 16

ROWS_MAX = 1 << 32
EMPTY_BITMAP = _PLAIN_COOKIE.to_bytes(4, "little") + bytes(4)

Positions = npt.NDArray[np.int64]


def encode_one(positions: Positions, *, with_runs: bool = True) -> bytes:
    """Give the bitmap of rising positions; see :func:`encode_groups`.

    Examples
    --------
    >>> encode_one(np.array([1, 5])).hex()
    '3a30000001000000000001001000000001000500'
    """
    if not len(positions):
        return EMPTY_BITMAP
    groups = np.zeros(len(positions), np.int64)
    return encode_groups(groups, positions, with_runs=with_runs)[0]


def encode_groups(
    groups: Positions, positions: Positions, *, with_runs: bool = True
) -> tuple[bytes, npt.NDArray[np.int64]]:
    """Give the bitmaps of groups of positions, one after the other.

    Parameters
    ----------
    groups : int64 array [n]
        Requires: 0, 1, 2 ... without a gap, rising.
    positions : int64 array [n]
        Requires: within a group strictly rising, from 0 to below 2**32.
    with_runs : bool
        Whether a container may hold runs, where that is smallest.

    Returns
    -------
    (bytes, int64 array [groups])
        The bitmaps, and the length of each.
    """
    if not len(positions):
        return b"", np.zeros(0, np.int64)
    high = positions >> 16
    begins = np.r_[True, (groups[1:] != groups[:-1]) | (high[1:] != high[:-1])]
    run_begins = begins | np.r_[True, positions[1:] != positions[:-1] + 1]
    first = np.flatnonzero(begins)  # of each container
    cardinality = np.diff(np.r_[first, len(positions)])
    runs = np.add.reduceat(run_begins.astype(np.int64), first)
    plain_size = np.where(cardinality <= _ARRAY_MAX, 2 * cardinality, _BITSET_BYTES)
    run_size = 2 + 4 * runs
    is_run = (run_size < plain_size) & with_runs
    is_bitset = ~is_run & (cardinality > _ARRAY_MAX)
    size = np.where(is_run, run_size, plain_size)

    owner = groups[first]  # the group of each container
    count = int(groups[-1]) + 1
    containers = np.bincount(owner, minlength=count)
    has_runs = np.bincount(owner, weights=is_run, minlength=count) > 0
    flags_size = np.where(has_runs, (containers + 7) // 8, 4)  # or the number of containers
    has_offsets = ~has_runs | (containers >= _OFFSETS_FROM)
    header_size = 4 + flags_size + 4 * containers + np.where(has_offsets, 4 * containers, 0)
    body_size = np.bincount(owner, weights=size, minlength=count).astype(np.int64)
    lengths = header_size + body_size
    start = np.cumsum(lengths) - lengths  # of each group's bitmap
    first_container = np.cumsum(containers) - containers
    nth = np.arange(len(first)) - first_container[owner]  # of each container in its group
    body_before = np.cumsum(size) - size
    body = header_size[owner] + body_before - body_before[first_container][owner]
    at = start[owner] + body  # of each container's body

    out = np.zeros(int(lengths.sum()), np.uint8)
    cookie = np.where(has_runs, _RUN_COOKIE | (containers - 1) << 16, _PLAIN_COOKIE)
    _put(out, start, cookie, 4)
    _put(out, start[~has_runs] + 4, containers[~has_runs], 4)
    np.bitwise_or.at(
        out, start[owner[is_run]] + 4 + nth[is_run] // 8, (1 << nth[is_run] % 8).astype(np.uint8)
    )
    described = start[owner] + 4 + flags_size[owner] + 4 * nth
    _put(out, described, high[first], 2)
    _put(out, described + 2, cardinality - 1, 2)
    with_offset = has_offsets[owner]
    offset_at = (start + 4 + flags_size + 4 * containers)[owner] + 4 * nth
    _put(out, offset_at[with_offset], body[with_offset], 4)

    _put_bodies(out, at, positions, _Containers(begins, run_begins, is_run, is_bitset))
    return out.tobytes(), lengths


@dataclass(frozen=True, slots=True)
class _Containers:
    """Where containers and runs begin among the positions, and what containers are."""

    begins: npt.NDArray[np.bool_]
    run_begins: npt.NDArray[np.bool_]
    is_run: npt.NDArray[np.bool_]
    is_bitset: npt.NDArray[np.bool_]


def _put_bodies(
    out: npt.NDArray[np.uint8], at: Positions, positions: Positions, kinds: _Containers
) -> None:
    """Write the containers' bodies; `at` has the place of each."""
    low = positions & 0xFFFF
    first, run_first = np.flatnonzero(kinds.begins), np.flatnonzero(kinds.run_begins)
    container = np.cumsum(kinds.begins) - 1  # of each position
    in_array = ~kinds.is_run[container] & ~kinds.is_bitset[container]
    own = container[in_array]
    _put(out, at[own] + 2 * (np.flatnonzero(in_array) - first[own]), low[in_array], 2)
    ends = np.r_[first[1:], len(positions)]
    for i in np.flatnonzero(kinds.is_bitset).tolist():
        bits = np.zeros(1 << 16, np.uint8)
        bits[low[first[i] : ends[i]]] = 1
        out[at[i] : at[i] + _BITSET_BYTES] = np.packbits(bits, bitorder="little")
    run_container = container[run_first]
    runs = np.bincount(run_container, minlength=len(first))
    _put(out, at[kinds.is_run], runs[kinds.is_run], 2)
    run_length = np.diff(np.r_[run_first, len(positions)])
    written = kinds.is_run[run_container]
    nth_run = np.arange(len(run_first)) - (np.cumsum(runs) - runs)[run_container]
    run_at = (at[run_container] + 2 + 4 * nth_run)[written]
    _put(out, run_at, low[run_first][written], 2)
    _put(out, run_at + 2, run_length[written] - 1, 2)


def _put(
    out: npt.NDArray[np.uint8], at: npt.NDArray[np.int64], values: npt.NDArray[np.int64], width: int
) -> None:
    for byte in range(width):
        out[at + byte] = (values >> 8 * byte) & 0xFF


def decode(data: bytes, start: int = 0, *, rows: int = ROWS_MAX) -> tuple[Positions, int]:
    """Give a bitmap's positions and where it ends.

    Parameters
    ----------
    data : bytes
        Holds the bitmap.
    start : int
        Where it begins.
    rows : int
        All positions are below; a few bytes could name many millions of others.

    Returns
    -------
    (int64 array [cardinality], int)
        Rising.

    Raises
    ------
    CorruptError
        The bytes are no roaring bitmap.

    Examples
    --------
    >>> decode(encode_one(np.array([1, 5, 70_000])))[0].tolist()
    [1, 5, 70000]
    """
    source = _Source(data, start)
    cookie = source.number(4)
    if cookie == _PLAIN_COOKIE:
        count = source.number(4)
        flags = np.zeros(0, np.uint8)
    elif cookie & 0xFFFF == _RUN_COOKIE:
        count = (cookie >> 16) + 1
        flags = np.unpackbits(source.octets((count + 7) // 8), bitorder="little")
    else:
        message = f"it begins with {cookie}"
        raise _damaged(message)
    if count > _CONTAINERS_MAX:
        message = f"it has {count} containers"
        raise _damaged(message)
    described = source.array(2 * count, np.dtype("<u2")).astype(np.int64).reshape(count, 2)
    keys, cardinalities = described[:, 0], described[:, 1] + 1
    if (np.diff(keys) <= 0).any():
        message = "its containers are not in order"
        raise _damaged(message)
    if count and int(keys[-1]) << 16 >= rows:
        message = f"it names rows from {int(keys[-1]) << 16} on, of {rows}"
        raise _damaged(message)
    if not len(flags) or count >= _OFFSETS_FROM:
        offsets = source.array(count, np.dtype("<u4")).astype(np.int64)
    else:
        offsets = None
    parts = []
    for i, (key, cardinality) in enumerate(zip(keys.tolist(), cardinalities.tolist(), strict=True)):
        if offsets is not None and start + int(offsets[i]) != source.at:
            message = f"container {i} is not where its offset says"
            raise _damaged(message)
        is_run = bool(len(flags)) and bool(flags[i])
        parts.append(_container(source, cardinality, is_run=is_run) + (key << 16))
    positions = np.concatenate(parts) if parts else np.zeros(0, np.int64)
    if len(positions) and positions[-1] >= rows:
        message = f"it names row {positions[-1]} of {rows}"
        raise _damaged(message)
    return positions, source.at


class _Source:
    """Reads numbers one after the other, and never beyond the end."""

    def __init__(self, data: bytes, start: int) -> None:
        self.data = data
        self.at = start
        self.end = len(data)

    def array(self, count: int, dtype: npt.DTypeLike) -> npt.NDArray[np.generic]:
        size = count * np.dtype(dtype).itemsize
        if self.at < 0 or size > self.end - self.at:
            message = f"it needs {size} more bytes at {self.at}, where only"
            message += f" {max(0, self.end - self.at)} are left"
            raise _damaged(message)
        values = np.frombuffer(self.data, dtype, count, self.at)
        self.at += size
        return values

    def octets(self, count: int) -> npt.NDArray[np.uint8]:
        return self.array(count, np.uint8).view(np.uint8)

    def number(self, width: int) -> int:
        return int.from_bytes(self.octets(width).tobytes(), "little")


def _container(source: _Source, cardinality: int, *, is_run: bool) -> Positions:
    if is_run:
        pairs = source.array(2 * source.number(2), np.dtype("<u2")).astype(np.int64).reshape(-1, 2)
        starts, lengths = pairs[:, 0], pairs[:, 1] + 1
        ends = starts + lengths
        if (starts[1:] < ends[:-1]).any() or (ends > 1 << 16).any():
            message = "its runs are not in order"
            raise _damaged(message)
        before = np.cumsum(lengths) - lengths
        found = np.arange(int(lengths.sum())) + np.repeat(starts - before, lengths)
    elif cardinality <= _ARRAY_MAX:
        found = source.array(cardinality, np.dtype("<u2")).astype(np.int64)
        if (np.diff(found) <= 0).any():
            message = "its positions are not in order"
            raise _damaged(message)
    else:
        bits = np.unpackbits(source.octets(_BITSET_BYTES), bitorder="little")
        found = np.flatnonzero(bits)
    if len(found) != cardinality:
        message = f"a container holds {len(found)} positions and says {cardinality}"
        raise _damaged(message)
    return found


def _damaged(reason: str) -> CorruptError:
    message = f"A roaring bitmap is damaged: {reason}."
    return CorruptError(message, kind="file_index")
