"""Streams one Avro data file as Arrow batches of the wanted columns.

1. The file's size must be the manifest's. Its header's schema is checked against Paimon's type of
   each wanted column; columns are found by their names in the file's own schema
   (:mod:`tidelake.format.schema_mapped_columns`).
2. Blocks are read one by one and decompressed with a bound. fastavro decodes some of them together
   as one Avro array (their bytes are the same). Unwanted columns are skipped.
3. Numbers become dates, times, decimals and timestamps, lists and dicts nested columns, column by
   column (:mod:`tidelake.format.avro.values`).
4. The file must hold as many rows as the manifest says: a file cut off between blocks looks whole.

Java's append tables have a union of null and the record instead of the record; null never occurs.

Source: Avro specification 1.11; Paimon's ``AvroBulkFormat`` and ``FieldReaderFactory`` (1.3.1).
Memory: blocks of :data:`PART_BYTES` as Python values, and one batch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import fastavro
import pyarrow as pa

from tidelake.codec.avro_block import DECOMPRESS, CompressionError, UnreadableAvroError
from tidelake.codec.avro_container import AvroSource, records_of, take_blocks, take_header
from tidelake.errors import UnsupportedError
from tidelake.format.avro.file_schema import has_same_shape, plain_schema, resolved_schema
from tidelake.format.avro.schema import slot_schema
from tidelake.format.avro.values import column_of
from tidelake.format.file_reader import (
    InputFiles,
    ReadRequest,
    asked_rows,
    null_batches,
    open_sized,
)
from tidelake.format.read_error import corrupt
from tidelake.format.schema_mapped_columns import OwnColumns, check_no_variant
from tidelake.types import DataField
from tidelake.types.arrow import to_arrow_schema

PART_BYTES = 1 << 20
"""Blocks are decoded together up to this size."""
BLOCK_BYTES_MAX = 256 << 20
"""A block holds at least one row, and a row may be wide."""
HEADER_BYTES_MAX = 16 << 20
HEADER_KEYS_MAX = 1_000

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
"""Errors of broken bytes besides Arrow's own and ``ValueError``, which the caller handles."""


def read_avro(
    stack: ExitStack, fileio: InputFiles, request: ReadRequest
) -> Iterator[pa.RecordBatch]:
    """Read an Avro file; see :data:`tidelake.format.file_reader.FileReader`."""
    path = request.path
    file = open_sized(stack, fileio, request)
    source = AvroSource(file, int(file.size()))
    try:
        header = take_header(source, keys_max=HEADER_KEYS_MAX, value_bytes_max=HEADER_BYTES_MAX)
        codec = header.codec
        schema = resolved_schema(json.loads(header.values["avro.schema"]))
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
        message = (
            f"File {path} is compressed with '{codec}'; this version reads {', '.join(DECOMPRESS)}."
        )
        raise UnsupportedError(message, kind="avro_codec", path=path)
    blocks = take_blocks(
        source,
        header.sync,
        DECOMPRESS[codec],
        packed_bytes_max=BLOCK_BYTES_MAX,
        block_bytes_max=BLOCK_BYTES_MAX,
    )
    rows = _read(_counted(blocks, request), array, wanted, columns, request)
    return asked_rows(rows, request.deleted, request.wanted)


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
            parts = _some(blocks)
            count = sum(rows for rows, _ in parts)
            if not count:
                return
            if not wanted:
                yield from null_batches(nothing, count, request.batch_rows)
                continue
            records = records_of(array, parts)
            if None in records:
                raise UnreadableAvroError(f"{count} rows do not fill their blocks")
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


def _some(blocks: Iterator[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """Blocks that are decoded together."""
    some: list[tuple[int, bytes]] = []
    size_bytes = 0
    for block in blocks:
        some.append(block)
        size_bytes += len(block[1])
        if size_bytes >= PART_BYTES:
            break
    return some


def _counted(
    blocks: Iterator[tuple[int, bytes]], request: ReadRequest
) -> Iterator[tuple[int, bytes]]:
    found = 0
    for block in blocks:
        found += block[0]
        yield block
    if request.row_count is not None and found != request.row_count:
        reason = f"it holds {found} rows, but the manifest says {request.row_count}"
        raise corrupt(request.path, reason)


def _check_type(found: Any, own: DataField, path: str) -> None:
    """Check that a column has Paimon's type in the file."""
    expected = slot_schema(own.type, own.name)
    if not has_same_shape(found, expected):
        raise corrupt(path, f"its column '{own.name}' is {found}, but {own.type} is {expected}")
