"""Reads INT96 timestamps of a Parquet file: nanoseconds of the day, and the day.

Arrow reads INT96 as one number of 64 bits, which wraps around outside the years 1677 to 2262. For
times before 1970 Java Paimon writes the day nearer to 1970 and nanoseconds that count backwards.
Arrow's number is right then, too, but looks like one that has wrapped around. The twelve bytes
decide:

1. A second footer declares each INT96 column as one of twelve plain bytes, which have the same
   encoding. Arrow reads the column's bytes with that footer.
2. Each value is its day and its nanoseconds, which may count backwards. A value that 64 bits of
   the wanted unit cannot hold is refused, and one finer than it.

Source: ``parquet.thrift`` of apache/parquet-format; Paimon's ``ParquetRowDataWriter`` (1.3.1).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidelake.errors import UnsupportedError
from tidelake.format.parquet.thrift import (
    inner_struct,
    inner_structs,
    read_struct,
    value_of,
    write_struct,
)
from tidelake.format.read_error import corrupt
from tidelake.types.arrow import NANOS_PER_UNIT
from tidelake.types.nested import (
    ListParts,
    list_of,
    list_parts,
    map_of,
    struct_children,
    struct_of,
)

_INT96, _FIXED = b"\x06", b"\x0e"  # 3 and 7, as zigzag varints
_WIDTH = b"\x18"  # 12
_I32 = 5
_JULIAN_DAY_1970 = 2_440_588
_DAY_NS = 86_400 * 10**9
_DAYS_MAX = 2**63 // _DAY_NS
_RECORD = np.dtype([("nanos", "<i8"), ("day", "<u4")])


def bytes_metadata(source: pa.NativeFile) -> pq.FileMetaData:
    """Make a file's metadata with each INT96 column as twelve bytes.

    Raises
    ------
    ValueError
        The footer is not Thrift.
    """
    size = source.size()
    length = int.from_bytes(source.read_at(8, size - 8)[:4], "little")
    footer = read_struct(source.read_at(length, size - 8 - length))
    for element in inner_structs(footer, 2):
        if value_of(element, 1) == _INT96:
            element[:] = [(1, _I32, _FIXED), (2, _I32, _WIDTH), *(f for f in element if f[0] > 2)]
    for group in inner_structs(footer, 4):
        for chunk in inner_structs(group, 1):
            column = inner_struct(chunk, 3)
            if column is not None and value_of(column, 1) == _INT96:
                column[:] = [(1, _I32, _FIXED), *(f for f in column if f[0] > 1)]
    out = write_struct(footer)
    tail = len(out).to_bytes(4, "little") + b"PAR1"
    return pq.read_metadata(pa.BufferReader(b"PAR1" + out + tail))


def moments(raw: pa.Array, like: pa.DataType, *, name: str, path: str) -> pa.Array:
    """Convert twelve-byte timestamps to nanoseconds, inside nested columns too.

    Parameters
    ----------
    raw : pyarrow.Array
        A column that was read with :func:`bytes_metadata`.
    like : pyarrow.DataType
        The type that Arrow gives the column with the file's own footer, or :func:`with_micros` of
        it.

    Raises
    ------
    UnsupportedError
        A time does not fit: in nanoseconds it is outside the years 1677 to 2262.
    CorruptError
        Nanoseconds reach beyond a day.
    """
    if pa.types.is_fixed_size_binary(raw.type) and pa.types.is_timestamp(like):
        return _moments(raw, like, name, path)
    if pa.types.is_struct(raw.type):
        inside = zip(struct_children(raw), like, strict=True)
        children = [moments(c, f.type, name=name, path=path) for c, f in inside]
        return struct_of(children, like, raw)
    if not pa.types.is_nested(raw.type):
        return raw
    parts = list_parts(raw)
    is_map = pa.types.is_map(like)
    types = [like.key_type, like.item_type] if is_map else [like.value_type]
    inside = zip(parts.children, types, strict=True)
    flat = tuple(moments(c, t, name=name, path=path) for c, t in inside)
    parts = ListParts(parts.offsets, parts.nulls, flat)
    return map_of(parts, like) if is_map else list_of(parts, like)


def _moments(raw: pa.Array, like: pa.DataType, name: str, path: str) -> pa.Array:
    valid = raw.is_valid().to_numpy(zero_copy_only=False)
    memory = raw.buffers()[1]
    values = np.frombuffer(memory, _RECORD, count=raw.offset + len(raw))[raw.offset :]
    nanos = np.where(valid, values["nanos"], 0)
    days = np.where(valid, values["day"].astype(np.int64) - _JULIAN_DAY_1970, 0)
    if np.any(np.abs(nanos) >= _DAY_NS):
        raise corrupt(path, f"a timestamp in column '{name}' has more nanoseconds than a day")
    unit_ns = NANOS_PER_UNIT[like.unit]
    if np.any(nanos % unit_ns):
        message = (
            f"Column '{name}' of file {path} holds a timestamp that is finer than a microsecond:"
            " read the other columns."
        )
        raise UnsupportedError(message, kind="value_range", path=path, column=name)
    if np.any(np.abs(days) >= _DAYS_MAX * unit_ns):
        message = (
            f"Column '{name}' of file {path} holds a timestamp outside the years 1677 to 2262,"
            " which nanoseconds in 64 bits cannot hold: read the other columns."
        )
        raise UnsupportedError(message, kind="value_range", path=path, column=name)
    values = days * (_DAY_NS // unit_ns) + nanos // unit_ns
    return pa.array(values, mask=~valid).cast(like)


def with_micros(like: pa.DataType) -> pa.DataType:
    """A type of a column with microseconds where it has timestamps in nanoseconds."""
    if pa.types.is_timestamp(like):
        return pa.timestamp("us", like.tz) if like.unit == "ns" else like
    if pa.types.is_struct(like):
        return pa.struct([f.with_type(with_micros(f.type)) for f in like])
    if pa.types.is_map(like):
        key, value = like.key_field, like.item_field
        return pa.map_(
            key.with_type(with_micros(key.type)), value.with_type(with_micros(value.type))
        )
    if pa.types.is_list(like):
        return pa.list_(like.value_field.with_type(with_micros(like.value_type)))
    return like
