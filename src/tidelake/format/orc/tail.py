"""Parts of an ORC file that Arrow's reader hides: its stripes, their streams and time zone.

An ORC file ends with protobuf messages, of which these fields are read::

    FileTail (as Arrow gives it)   1 PostScript   2 Footer
    PostScript                     2 compression: 0 none, 1 zlib, 2 snappy, 4 lz4, 5 zstd
                                   3 bytes compressed at once, at most
    Footer                         3 StripeInformation, repeated   4 Type, repeated, in preorder
    Type                           2 the places of its children
    StripeInformation              1 offset   2 index bytes   3 data bytes   4 footer bytes   5 rows
    StripeFooter (compressed)      1 Stream, repeated   3 time zone of the writer
    Stream                         1 kind   2 column   3 length; they lie one after the other

A compressed message is a sequence of chunks, each after three bytes, little endian: twice the
chunk's length, plus one for an uncompressed chunk.

Source: Apache ORC specification v1.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import orc

from tidelake.codec import varint, zstd
from tidelake.format.read_error import corrupt

DATA_STREAMS = frozenset({0, 1, 5})
"""Kinds of streams that hold a timestamp column: which rows are null, seconds, nanoseconds."""
STRIPES_COUNT_MAX = 100_000
STRIPE_FOOTER_BYTES_MAX = 16 << 20
CHUNK_BYTES_MAX = 8 << 20
_NONE, _ZLIB, _SNAPPY, _LZ4, _ZSTD = 0, 1, 2, 4, 5

_Value = int | bytes


@dataclass(frozen=True, slots=True)
class Stripe:
    """One stripe: its position, and its number of rows."""

    offset: int
    index_bytes: int
    data_bytes: int
    footer_bytes: int
    row_count: int

    @property
    def size_bytes(self) -> int:
        """Its length in the file."""
        return self.index_bytes + self.data_bytes + self.footer_bytes


@dataclass(frozen=True, slots=True)
class OrcTail:
    """The end of a file.

    Parameters
    ----------
    chunk_bytes_max : int
        Decompressed bytes of a chunk, at most.
    stripes : tuple of Stripe
        In order.
    """

    compression: int
    chunk_bytes_max: int
    stripes: tuple[Stripe, ...]
    column_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StripeFooter:
    """The end of a stripe.

    Parameters
    ----------
    zone : str
        Its writer's time zone; empty if not recorded.
    parts : tuple of bytes
        Its streams in order, a message each: dozens, and rarely needed.
    """

    stripe: Stripe
    zone: str
    parts: tuple[_Value, ...]

    def streams_of(
        self, source: pa.NativeFile, tail: OrcTail, column: int, *, path: str
    ) -> dict[int, bytes]:
        """Read the streams of a column, decompressed, by kind.

        Raises
        ------
        CorruptError
            A stream is outside the stripe, or cannot be decompressed.
        """
        streams = {}
        offset = self.stripe.offset
        end = offset + self.stripe.index_bytes + self.stripe.data_bytes
        for part in self.parts:
            stream = _message(part, path)
            kind, owner, length = (_number(stream, i) for i in (1, 2, 3))
            if offset + length > end:
                raise corrupt(path, "a stream reaches beyond its stripe")
            if owner == column and kind in DATA_STREAMS:
                streams[kind] = decompressed(source.read_at(length, offset), tail, path=path)
            offset += length
        return streams


def orc_tail(file: orc.ORCFile, *, path: str) -> OrcTail:
    """Read the end of a file that Arrow has opened.

    Raises
    ------
    CorruptError
        It contradicts itself.
    """
    tail = _message(file.reader.serialized_file_tail(), path)
    script = _message(_bytes(tail, 1), path)
    footer = _message(_bytes(tail, 2), path)
    parts = footer.get(3, [])
    if len(parts) > STRIPES_COUNT_MAX:
        raise corrupt(path, f"it has {len(parts)} stripes, over {STRIPES_COUNT_MAX}")
    stripes = []
    end = 0
    for part in parts:
        stripe = Stripe(*(_number(_message(part, path), i) for i in range(1, 6)))
        if stripe.offset < end or stripe.offset + stripe.size_bytes > file.file_length:
            raise corrupt(path, "its stripes overlap or lie outside of it")
        end = stripe.offset + stripe.size_bytes
        stripes.append(stripe)
    if sum(stripe.row_count for stripe in stripes) != file.nrows:
        raise corrupt(path, "its stripes do not add up to its row count")
    chunk_bytes = min(_number(script, 3) or CHUNK_BYTES_MAX, CHUNK_BYTES_MAX)
    root = _message(footer.get(4, [b""])[0], path)
    return OrcTail(_number(script, 2), chunk_bytes, tuple(stripes), _column_ids(root, path))


def _column_ids(root: dict[int, list[_Value]], path: str) -> tuple[int, ...]:
    """The numbers of the file's columns, a packed list of numbers or one number each."""
    ids: list[int] = []
    for value in root.get(2, []):
        if isinstance(value, int):
            ids.append(value)
            continue
        place = 0
        while place < len(value):
            number, place = _varint(value, place, path)
            ids.append(number)
    return tuple(ids)


def stripe_footer(
    source: pa.NativeFile, tail: OrcTail, stripe: Stripe, *, path: str
) -> StripeFooter:
    """Read the end of a stripe.

    Raises
    ------
    CorruptError
        It cannot be read.
    """
    if stripe.footer_bytes > STRIPE_FOOTER_BYTES_MAX:
        raise corrupt(path, f"a stripe's footer has {stripe.footer_bytes} bytes")
    place = stripe.offset + stripe.index_bytes + stripe.data_bytes
    packed = source.read_at(stripe.footer_bytes, place)
    footer = _message(decompressed(packed, tail, path=path), path)
    zone = _bytes(footer, 3).decode("ascii", "replace")
    return StripeFooter(stripe, zone, tuple(footer.get(1, [])))


def decompressed(packed: bytes, tail: OrcTail, *, path: str) -> bytes:
    """Decompress a message or stream.

    Raises
    ------
    CorruptError
        A chunk is cut short, too long or damaged.
    """
    if tail.compression == _NONE:
        return packed
    return b"".join(_chunks(packed, tail, path))


def _chunks(packed: bytes, tail: OrcTail, path: str) -> Iterator[bytes]:
    place = 0
    while place < len(packed):
        header = int.from_bytes(packed[place : place + 3], "little")
        chunk = packed[place + 3 : place + 3 + (header >> 1)]
        place += 3 + len(chunk)
        if len(chunk) != header >> 1:
            raise corrupt(path, "a compressed part is cut short")
        yield chunk if header & 1 else _decompress(chunk, tail, path)


def _decompress(chunk: bytes, tail: OrcTail, path: str) -> bytes:
    limit = tail.chunk_bytes_max
    try:
        if tail.compression == _ZLIB:
            raw = zlib.decompressobj(wbits=-15).decompress(chunk, limit + 1)
        elif tail.compression == _ZSTD:
            raw = zstd.ZstdDecompressor().decompress(chunk, limit + 1)
        elif tail.compression in {_SNAPPY, _LZ4}:
            name = "snappy" if tail.compression == _SNAPPY else "lz4_raw"
            has_length = name == "snappy"  # a snappy block begins with it
            length = _varint(chunk, 0, path)[0] if has_length else _lz4_length(chunk, path)
            # pyarrow returns as many bytes as requested, the last of them without meaning
            raw = pa.decompress(chunk, min(length, limit), codec=name, asbytes=True)
        else:
            raise corrupt(path, f"compression {tail.compression} is not known")
    except (zlib.error, zstd.ZstdError) as error:
        raise corrupt(path, str(error)) from error
    if len(raw) > limit:
        raise corrupt(path, f"a compressed part grows to more than {limit} bytes")
    return raw


def _lz4_length(chunk: bytes, path: str) -> int:
    """The length of an LZ4 block that does not record it: the sum of its literals and copies.

    A loop over copies; for blocks of at most the file's chunk size, in the ends of stripes.
    """
    length = place = 0
    try:
        while place < len(chunk):
            token = chunk[place]
            literals, place = _lz4_count(chunk, place + 1, token >> 4)
            length, place = length + literals, place + literals
            if place < len(chunk):  # no copy follows the last literals
                copied, place = _lz4_count(chunk, place + 2, token & 15)
                length += copied + 4
    except IndexError as error:
        raise corrupt(path, "a compressed part is cut short") from error
    return length


def _lz4_count(chunk: bytes, place: int, count: int) -> tuple[int, int]:
    """A count of four bits, plus the bytes added if these do not suffice."""
    if count == 15:
        while chunk[place] == 255:
            count, place = count + 255, place + 1
        count, place = count + chunk[place], place + 1
    return count, place


def _message(data: bytes | int, path: str) -> dict[int, list[_Value]]:
    """The fields of a protobuf message: numbers and bytes by the field's number."""
    if isinstance(data, int):
        raise corrupt(path, "a number stands for a part of its footer")
    fields: dict[int, list[_Value]] = {}
    place = 0
    while place < len(data):
        tag, place = _varint(data, place, path)
        value: _Value
        match tag & 7:
            case 0:
                value, place = _varint(data, place, path)
            case 1:
                value, place = data[place : place + 8], place + 8
            case 2:
                length, place = _varint(data, place, path)
                value, place = data[place : place + length], place + length
            case 5:
                value, place = data[place : place + 4], place + 4
            case _:
                raise corrupt(path, "a part of its footer is not protobuf")
        if place > len(data):
            raise corrupt(path, "a part of its footer is cut short")
        fields.setdefault(tag >> 3, []).append(value)
    return fields


def _varint(data: bytes, place: int, path: str) -> tuple[int, int]:
    try:
        return varint.decode(data, place)
    except ValueError as error:
        raise corrupt(path, "a number in its footer is cut short") from error


def _bytes(fields: dict[int, list[_Value]], number: int) -> bytes:
    value = fields.get(number, [b""])[-1]
    return value if isinstance(value, bytes) else b""


def _number(fields: dict[int, list[_Value]], number: int) -> int:
    value = fields.get(number, [0])[-1]
    return value if isinstance(value, int) else 0
