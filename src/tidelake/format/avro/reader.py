"""Streams one Avro data file as Arrow batches of the wanted columns.

1. The file's size must be the manifest's. Its header's schema is checked against what Paimon makes
   of each wanted column's type; columns are found by their names in the file's own schema
   (:mod:`tidelake.format.schema_mapped_columns`).
2. Blocks are read one by one, decompressed with a bound, and some of them decoded together by
   fastavro as one Avro array (their bytes are the same). Columns that are not wanted are skipped.
3. Numbers become dates, times, decimals and timestamps, lists and dicts nested columns, column by
   column (:mod:`tidelake.format.avro.values`).
4. The file must hold as many rows as the manifest says: a file cut off between blocks looks whole.

Java's append tables have a union of null and the record in place of the record; null never occurs.

Source: Avro specification 1.11; Paimon's ``AvroBulkFormat`` and ``FieldReaderFactory`` (1.3.1).
Memory: blocks of :data:`PART_BYTES` as Python values, and one batch.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import fastavro
import pyarrow as pa

from tidelake.codec.avro_block import DECOMPRESS, CompressionError, UnreadableAvroError, varint
from tidelake.errors import UnsupportedError
from tidelake.fileio import FileIO
from tidelake.format.avro.file_schema import has_same_shape, plain_schema, resolved_schema
from tidelake.format.avro.schema import slot_schema
from tidelake.format.avro.values import column_of
from tidelake.format.file_reader import ReadRequest, null_batches, open_sized, without_rows
from tidelake.format.read_error import corrupt
from tidelake.format.schema_mapped_columns import OwnColumns, check_no_variant
from tidelake.types import DataField
from tidelake.types.arrow import to_arrow_schema

__all__ = ["read_avro"]

PART_BYTES = 1 << 20
"""Blocks are decoded together up to this size."""
BLOCK_BYTES_MAX = 256 << 20
"""A block holds at least one row, and a row may be wide."""
HEADER_BYTES_MAX = 16 << 20
HEADER_KEYS_MAX = 1_000
_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_VARINT_BYTES_MAX = 10

_UNREADABLE = (
    UnreadableAvroError,
    *CompressionError,
    fastavro.schema.SchemaParseException,
    fastavro.schema.UnknownType,
    LookupError,
    TypeError,
    AttributeError,
    EOFError,
    RecursionError,
)
"""What broken bytes raise beside Arrow's own errors and ``ValueError``, which the caller takes."""


def read_avro(stack: ExitStack, fileio: FileIO, request: ReadRequest) -> Iterator[pa.RecordBatch]:
    """Read an Avro file; see :data:`tidelake.format.file_reader.FileReader`."""
    path = request.path
    source = _Source(open_sized(stack, fileio, request), path)
    try:
        given, codec, sync = _header(source)
        schema = resolved_schema(given)
        record = schema[1] if isinstance(schema, list) else schema
        types = {f["name"]: f["type"] for f in record["fields"]}
        columns = OwnColumns(request, [f["name"] for f in record["fields"]])
        check_no_variant(columns.fields, file_format="Avro")
        for own in columns.fields:
            _check_type(types[own.name], own, path)
        wanted = [f.name for f in columns.fields]
        array = fastavro.parse_schema({"type": "array", "items": plain_schema(schema)})
    except _UNREADABLE as error:
        raise corrupt(path, str(error) or type(error).__name__) from error
    if codec not in DECOMPRESS:
        message = f"File {path} is compressed by '{codec}'; {', '.join(DECOMPRESS)} are read."
        raise UnsupportedError(message, kind="avro_codec", path=path)
    blocks = _blocks(source, sync, DECOMPRESS[codec])
    rows = _read(_counted(blocks, request), array, wanted, columns, request)
    return without_rows(rows, request.deleted)


def _read(
    blocks: Iterator[tuple[int, bytes]],
    array: Any,
    wanted: Sequence[str],
    columns: OwnColumns,
    request: ReadRequest,
) -> Iterator[pa.RecordBatch]:
    path = request.path
    nothing = to_arrow_schema(request.fields)
    while True:
        try:
            parts, count = _some(blocks)
            if not count:
                return
            if not wanted:
                yield from null_batches(nothing, count, request.batch_rows)
                continue
            records = _records(array, parts, count)
            values = {
                own.name: column_of([r[own.name] for r in records], own.type)
                for own in columns.fields
            }
        except _UNREADABLE as error:
            raise corrupt(path, str(error) or type(error).__name__) from error
        del records, parts
        batch = columns.wanted(values, count)
        for start in range(0, count, request.batch_rows):
            yield batch.slice(start, request.batch_rows)


def _some(blocks: Iterator[tuple[int, bytes]]) -> tuple[list[bytes], int]:
    """Blocks that are decoded together, each with its count in front, and how many rows."""
    parts: list[bytes] = []
    count = size_bytes = 0
    for rows, payload in blocks:
        parts += (varint(rows), payload)
        count += rows
        size_bytes += len(payload)
        if size_bytes >= PART_BYTES:
            break
    return parts, count


def _records(array: Any, parts: Sequence[bytes], count: int) -> list[dict[str, Any]]:
    items = b"".join((*parts, b"\0"))
    raw = io.BytesIO(items)
    records = fastavro.schemaless_reader(raw, array, None)
    if raw.tell() != len(items) or len(records) != count or None in records:
        raise UnreadableAvroError(f"{count} rows do not fill their blocks")
    return list(records)


def _counted(
    blocks: Iterator[tuple[int, bytes]], request: ReadRequest
) -> Iterator[tuple[int, bytes]]:
    found = 0
    for block in blocks:
        found += block[0]
        yield block
    if request.row_count is not None and found != request.row_count:
        reason = f"it holds {found} rows where the manifest says {request.row_count}"
        raise corrupt(request.path, reason)


def _check_type(found: Any, own: DataField, path: str) -> None:
    """A column must be in the file what Paimon makes of its type."""
    expected = slot_schema(own.type, own.name)
    if not has_same_shape(found, expected):
        raise corrupt(path, f"its column '{own.name}' is {found}, where {own.type} is {expected}")


class _Source:
    """A file read from its beginning to its end."""

    def __init__(self, file: pa.NativeFile, path: str) -> None:
        self._file = file
        self._rest = int(file.size())
        self._path = path

    @property
    def at_end(self) -> bool:
        return self._rest == 0

    def take(self, length: int, length_max: int) -> bytes:
        if not 0 <= length <= min(length_max, self._rest):
            raise UnreadableAvroError("it ends early, or a length in it is wrong")
        self._rest -= length
        taken: bytes = self._file.read(length)
        if len(taken) != length:
            raise UnreadableAvroError("it ends early")
        return taken

    def varint(self) -> int:
        value = 0
        for shift in range(0, 7 * _VARINT_BYTES_MAX, 7):
            byte = self.take(1, 1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
        raise UnreadableAvroError("a number is too long")


def _header(source: _Source) -> tuple[Any, str, bytes]:
    """Schema, codec and sync marker."""
    if source.take(len(_MAGIC), len(_MAGIC)) != _MAGIC:
        raise UnreadableAvroError("it does not begin with 'Obj'")
    header: dict[str, bytes] = {}
    while count := source.varint():
        if count < 0:  # a negative count is followed by the size in bytes
            count = -count
            source.varint()
        if count + len(header) > HEADER_KEYS_MAX:
            raise UnreadableAvroError("its header has too many keys")
        for _ in range(count):
            key = source.take(source.varint(), HEADER_BYTES_MAX).decode()
            header[key] = source.take(source.varint(), HEADER_BYTES_MAX)
    sync = source.take(_SYNC_BYTES, _SYNC_BYTES)
    return json.loads(header["avro.schema"]), header.get("avro.codec", b"null").decode(), sync


def _blocks(
    source: _Source, sync: bytes, decompress: Callable[[bytes, int], bytes]
) -> Iterator[tuple[int, bytes]]:
    """Rows and decompressed bytes of each block that has any."""
    while not source.at_end:
        count = source.varint()
        packed = source.take(source.varint(), BLOCK_BYTES_MAX)
        payload = decompress(packed, BLOCK_BYTES_MAX)
        if source.take(_SYNC_BYTES, _SYNC_BYTES) != sync:
            raise UnreadableAvroError("a block is not followed by the sync marker")
        if not 0 <= count <= len(payload):
            raise UnreadableAvroError(f"a block of {len(payload)} bytes says it holds {count} rows")
        if count:
            yield count, payload
