"""Timestamps of an ORC stripe that nanoseconds in 64 bits cannot hold: the years up to 9999.

Arrow's reader gives timestamps as nanoseconds and refuses those before 1677 and after 2262,
including 9999-12-31, which means "for ever" in many tables. Such a column is decoded here from the
stripe's own streams:

- PRESENT: a bit per row, most significant first, in run-length encoded bytes: a byte ``n`` below
  128, then one byte that is repeated ``n + 3`` times; or ``256 - n`` literal bytes.
- DATA: seconds since 2015-01-01 in the writer's zone; SECONDARY: nanoseconds, with the number of
  removed decimal zeros in the last three bits. Both are integers in ORC's run-length encoding 2
  (:func:`_integers`).
- Before 1970 the seconds are truncated towards zero, which loses the last second before it
  (ORC-763). A reader cannot restore it, and Java's does not.

Source: Apache ORC specification v1, "Run Length Encoding" and "Timestamp Columns"; its
``TimestampTreeReader``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidelake.codec import varint
from tidelake.format.read_error import corrupt

PRESENT, DATA, SECONDARY = 0, 1, 5
"""Kinds of streams (on disk)."""

EPOCH_2015_S = 1_420_070_400
MILLIS_NS = 999_999
"""Times before 1970 with more nanoseconds are stored with the following second."""
_WIDTHS = (*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64)
"""Bits by their code of five bits."""

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Bytes:
    data: bytes
    path: str

    def at(self, place: int, length: int) -> bytes:
        part = self.data[place : place + length]
        if len(part) != length:
            raise corrupt(self.path, "a stream of a timestamp column is cut short")
        return part


def timestamps(
    streams: Mapping[int, bytes], *, rows: int, zone: str, unit: str, path: str
) -> pa.Array:
    """Decode a timestamp column of one stripe.

    Parameters
    ----------
    zone : str
        The zone of the seconds, for a TIMESTAMP of a writer that is not in UTC; empty for UTC.
    unit : str
        Arrow's unit of the result, ``ms`` or ``us``.

    Returns
    -------
    pyarrow.Array
        Timestamps without zone.

    Raises
    ------
    CorruptError
        The streams are damaged, or do not hold as many values as they should.
    """
    present = np.ones(rows, bool)
    if PRESENT in streams:
        packed = _byte_runs(_Bytes(streams[PRESENT], path))
        present = np.unpackbits(packed)[:rows].astype(bool)
        if len(present) != rows:
            raise corrupt(path, "a stream of a timestamp column is cut short")
    count = int(present.sum())
    seconds = _integers(_Bytes(streams.get(DATA, b""), path), count, signed=True)
    raw = _integers(_Bytes(streams.get(SECONDARY, b""), path), count, signed=False)
    zeros = raw & 7
    nanos = (raw >> 3) * np.where(zeros > 0, 10 ** (zeros + 1), 1)
    seconds = seconds + _base(zone)
    seconds = np.where((seconds < 0) & (nanos > MILLIS_NS), seconds - 1, seconds)
    if zone:
        instants = pa.array(seconds).cast(pa.timestamp("s", tz=zone))
        seconds = pc.local_timestamp(instants).cast(pa.int64()).to_numpy()
    per_second = 1_000 if unit == "ms" else 1_000_000
    values = np.zeros(rows, np.int64)
    values[present] = seconds * per_second + nanos // (10**9 // per_second)
    return pa.array(values, mask=~present).cast(pa.timestamp(unit))


def _base(zone: str) -> int:
    if not zone:
        return EPOCH_2015_S
    local = pa.scalar(EPOCH_2015_S, pa.timestamp("s"))
    return int(pc.assume_timezone(local, zone).cast(pa.int64()).as_py())


def _byte_runs(source: _Bytes) -> NDArray[np.uint8]:
    parts = []
    place = 0
    while place < len(source.data):
        control = source.data[place]
        if control < 0x80:
            parts.append(source.at(place + 1, 1) * (control + 3))
            place += 2
        else:
            parts.append(source.at(place + 1, 256 - control))
            place += 1 + 256 - control
    return np.frombuffer(b"".join(parts), np.uint8)


def _integers(source: _Bytes, count: int, *, signed: bool) -> Ints:
    """Decode runs of integers; two bits at the beginning of each give one of four kinds."""
    parts: list[Ints] = []
    found = place = 0
    while found < count:
        first = source.at(place, 1)[0]
        match first >> 6:
            case 0:
                values, place = _repeat(source, place, signed=signed)
            case 1:
                values, place = _direct(source, place, signed=signed)
            case 2:
                values, place = _patched(source, place)
            case _:
                values, place = _delta(source, place, signed=signed)
        parts.append(values)
        found += len(values)
    if found != count:
        raise corrupt(source.path, f"a timestamp column has {found} values, not {count}")
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def _header(source: _Bytes, place: int) -> tuple[int, int]:
    """Bits per value and length of a run."""
    first, second = source.at(place, 2)
    return _WIDTHS[(first >> 1) & 31], ((first & 1) << 8 | second) + 1


def _repeat(source: _Bytes, place: int, *, signed: bool) -> tuple[Ints, int]:
    first = source.at(place, 1)[0]
    width, length = ((first >> 3) & 7) + 1, (first & 7) + 3
    value = int.from_bytes(source.at(place + 1, width), "big")
    value = varint.unzigzag(value) if signed else _signed(value)
    return np.full(length, value, np.int64), place + 1 + width


def _direct(source: _Bytes, place: int, *, signed: bool) -> tuple[Ints, int]:
    bits, length = _header(source, place)
    size = (bits * length + 7) // 8
    values = _unpacked(source.at(place + 2, size), bits, length)
    if signed:
        values = (values >> np.uint64(1)) ^ (np.uint64(0) - (values & np.uint64(1)))
    return values.astype(np.int64), place + 2 + size


def _delta(source: _Bytes, place: int, *, signed: bool) -> tuple[Ints, int]:
    first, second = source.at(place, 2)
    code = (first >> 1) & 31
    bits = _WIDTHS[code] if code else 0
    length = ((first & 1) << 8 | second) + 1
    base, place = _varint(source, place + 2)
    start = varint.unzigzag(base) if signed else _signed(base)
    step, place = _varint(source, place)
    step = varint.unzigzag(step)
    deltas = np.full(length, step, np.int64)
    deltas[0] = start
    if bits and length > 2:
        size = (bits * (length - 2) + 7) // 8
        rest = _unpacked(source.at(place, size), bits, length - 2).astype(np.int64)
        deltas[2:] = rest if step >= 0 else -rest
        place += size
    return np.cumsum(deltas), place


def _patched(source: _Bytes, place: int) -> tuple[Ints, int]:
    bits, length = _header(source, place)
    third, fourth = source.at(place + 2, 2)
    base_bytes, patch_bits = (third >> 5) + 1, _WIDTHS[third & 31]
    gap_bits, patches = (fourth >> 5) + 1, fourth & 31
    place += 4
    base = int.from_bytes(source.at(place, base_bytes), "big")
    sign = 1 << (base_bytes * 8 - 1)
    base = -(base & ~sign) if base & sign else base
    place += base_bytes
    size = (bits * length + 7) // 8
    values = _unpacked(source.at(place, size), bits, length)
    place += size
    entry_bits = next(w for w in _WIDTHS if w >= gap_bits + patch_bits)
    size = (entry_bits * patches + 7) // 8
    position = 0
    for entry in _unpacked(source.at(place, size), entry_bits, patches).tolist():
        position += entry >> patch_bits
        patch = entry & ((1 << patch_bits) - 1)
        if patch:  # entries without a patch bridge a gap above 255
            if position >= length:
                raise corrupt(source.path, "a timestamp column has a patch outside of its run")
            values[position] |= np.uint64((patch << bits) & (2**64 - 1))
    return values.astype(np.int64) + base, place + size


def _unpacked(packed: bytes, bits: int, count: int) -> NDArray[np.uint64]:
    """Integers of some bits each, most significant bit first."""
    if bits == 64:
        return np.frombuffer(packed, ">u8")[:count].astype(np.uint64)
    rows = np.unpackbits(np.frombuffer(packed, np.uint8))[: bits * count].reshape(count, bits)
    padded = np.zeros((count, 64), np.uint8)
    padded[:, 64 - bits :] = rows
    return np.packbits(padded, axis=1).view(">u8").ravel().astype(np.uint64)


def _varint(source: _Bytes, place: int) -> tuple[int, int]:
    try:
        value, end = varint.decode(source.data, place)
    except ValueError as error:
        raise corrupt(source.path, f"in a timestamp column {error}") from error
    return value & (2**64 - 1), end


def _signed(value: int) -> int:
    """64 bits as a signed number: Arrow's writer stores nanoseconds before 1970 as negative."""
    return value - 2**64 if value >= 2**63 else value
