r"""The frame of an Avro container file: its header, and its blocks decompressed with a bound.

::

    magic    4 bytes   4F 62 6A 01 "Obj\x01"
    header   map       avro.schema (JSON), avro.codec, what a writer adds
    sync     16 bytes
    blocks   each: record count (zigzag varint), byte count (zigzag varint), payload, sync

Each length is checked against the remaining bytes before memory is taken. Wrong bytes raise an
:class:`UnreadableAvroError`; the caller, who knows the file, makes a CorruptError of it.

Source: Avro specification 1.11, "Object Container Files".
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import fastavro

from tidelake.codec.avro_block import UnreadableAvroError, avro_long
from tidelake.codec.varint import BYTES_MAX, unzigzag

MAGIC = b"Obj\x01"
SYNC_BYTES = 16


class ByteFile(Protocol):
    """A source of bytes, read one after the other."""

    def read(self, nbytes: int, /) -> bytes:
        """Give the next bytes, fewer at the end."""
        ...


class AvroSource:
    """A file read from its beginning to its end.

    Parameters
    ----------
    size_bytes : int
        How many bytes it has.
    """

    def __init__(self, file: ByteFile, size_bytes: int) -> None:
        self._file = file
        self._rest = size_bytes

    @property
    def at_end(self) -> bool:
        """Whether no bytes remain."""
        return self._rest == 0

    @property
    def rest_bytes(self) -> int:
        """How many bytes remain."""
        return self._rest

    def take(self, length: int, length_max: int) -> bytes:
        """Take `length` bytes; raise if they are more than `length_max`."""
        if not 0 <= length <= min(length_max, self._rest):
            raise UnreadableAvroError("it ends early, or a length in it is wrong")
        self._rest -= length
        taken = self._file.read(length)
        if len(taken) != length:
            raise UnreadableAvroError("it ends early")
        return taken

    def number(self) -> int:
        """Take a number."""
        value = 0
        for at in range(BYTES_MAX):
            byte = self.take(1, 1)[0]
            value |= (byte & 0x7F) << (7 * at)
            if byte < 0x80:
                return unzigzag(value)
        raise UnreadableAvroError("a number is too long")


@dataclass(frozen=True, slots=True)
class AvroHeader:
    """The header of a file: its keys, and the marker that follows each block."""

    values: Mapping[str, bytes]
    sync: bytes

    @property
    def codec(self) -> str:
        """The compression of the blocks."""
        return self.values.get("avro.codec", b"null").decode()


def take_header(source: AvroSource, *, keys_max: int, value_bytes_max: int) -> AvroHeader:
    """Take the header at the beginning of a file."""
    if source.take(len(MAGIC), len(MAGIC)) != MAGIC:
        raise UnreadableAvroError("it does not begin with 'Obj'")
    values: dict[str, bytes] = {}
    while count := source.number():
        if count < 0:  # a negative count is followed by the size in bytes
            count = -count
            source.number()
        if count + len(values) > keys_max:
            raise UnreadableAvroError("its header has too many keys")
        for _ in range(count):
            key = source.take(source.number(), value_bytes_max).decode()
            values[key] = source.take(source.number(), value_bytes_max)
    if "avro.schema" not in values:
        raise UnreadableAvroError("its header has no schema")
    return AvroHeader(values, source.take(SYNC_BYTES, SYNC_BYTES))


def take_blocks(
    source: AvroSource,
    sync: bytes,
    decompress: Callable[[bytes, int], bytes],
    *,
    packed_bytes_max: int,
    block_bytes_max: int,
    bytes_max: int | None = None,
) -> Iterator[tuple[int, bytes]]:
    """Yield the number of records and the decompressed bytes of each nonempty block.

    Parameters
    ----------
    sync : bytes
        The marker behind each block.
    decompress : callable
        One of :data:`tidelake.codec.avro_block.DECOMPRESS`.
    """
    left = block_bytes_max if bytes_max is None else bytes_max
    while not source.at_end:
        count = source.number()
        packed = source.take(source.number(), packed_bytes_max)
        payload = decompress(
            packed, block_bytes_max if left is None else min(block_bytes_max, left)
        )
        if source.take(SYNC_BYTES, SYNC_BYTES) != sync:
            raise UnreadableAvroError("a block is not followed by the sync marker")
        if not 0 <= count <= len(payload) or (payload and not count):
            raise UnreadableAvroError(
                f"a block of {len(payload)} bytes says it holds {count} records"
            )
        if bytes_max is not None:
            left -= len(payload)
        if count:
            yield count, payload


def records_of(array: Any, blocks: Iterable[tuple[int, bytes]]) -> list[Any]:
    """Decode blocks in one call, as one Avro array: the bytes of a block are the same in both."""
    parts: list[bytes] = []
    count = 0
    for records, payload in blocks:
        parts += (avro_long(records), payload)
        count += records
    items = b"".join((*parts, b"\0"))
    raw = io.BytesIO(items)
    found = fastavro.schemaless_reader(raw, array, None)
    if raw.tell() != len(items) or not isinstance(found, list) or len(found) != count:
        raise UnreadableAvroError(f"{count} records do not fill their blocks")
    return found
