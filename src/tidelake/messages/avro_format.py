"""The format ``avro``: a message is one record in Avro's binary form, without a schema.

The columns give the schema, as in Flink's ``avro`` format; a message holds no id of a registry.
TIMESTAMP and TIMESTAMP with local time zone are counts of milliseconds to precision 3. Flink's
older mapping, its default, has no type for higher precisions; ``avro.timestamp_mapping.legacy`` =
false gives microseconds to precision 6.

Source: ``AvroSchemaConverter`` of Flink 2.1. :mod:`tidelake.format.avro` makes the bytes.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidelake.errors import UnsupportedError
from tidelake.format.avro.encoding import encode_rows
from tidelake.format.avro.file_schema import plain_schema
from tidelake.format.avro.schema import avro_schema, check_avro
from tidelake.format.avro.values import column_of
from tidelake.messages.columns import ColumnReader
from tidelake.messages.decoded import BadMessage, Decoded, kept_rows
from tidelake.messages.format_options import GivenOptions
from tidelake.messages.json_format import refuse_changes, wanted_fields
from tidelake.messages.json_values import check_json
from tidelake.options.option import boolean, enumeration, text
from tidelake.types import DataField, DataType, TypeRoot
from tidelake.types.arrow import child_types

BINARY = "binary"
LEGACY = boolean(
    "avro.timestamp_mapping.legacy",
    True,
    "Whether timestamps are Flink's older ones: TIMESTAMP to milliseconds only.",
)
ENCODING = enumeration("avro.encoding", BINARY, (BINARY,), "How records are written.")
CODEC = text("avro.codec", None, "Used for files; no effect on messages.")
AVRO_OPTIONS = (LEGACY, ENCODING, CODEC)
MILLIS_DIGITS = 3

# errors that the decoder raises at a damaged record
_DAMAGE = (EOFError, ValueError, IndexError, KeyError, TypeError, OverflowError, MemoryError)


def _checked(fields: Sequence[DataField], options: GivenOptions) -> None:
    check_avro(fields)
    check_json(fields, what="messages of Avro")  # the same maps
    for field in fields:
        if options[LEGACY] and _is_beyond_legacy(field.type):
            message = (
                f"Column '{field.name}' of type {field.type} cannot be in messages of Avro with"
                " Flink's older timestamps, which have milliseconds and no time zone: set"
                " 'avro.timestamp_mapping.legacy' = 'false', or make it a TIMESTAMP(3)."
            )
            raise UnsupportedError(message, kind="column_type", column=field.name)


def _is_beyond_legacy(data_type: DataType) -> bool:
    if data_type.is_nested:
        return any(_is_beyond_legacy(child) for _, child in child_types(data_type))
    if data_type.root is TypeRoot.TIMESTAMP:
        return (data_type.precision or 0) > MILLIS_DIGITS
    return data_type.root is TypeRoot.TIMESTAMP_LTZ


class AvroDecoder:
    """Reads messages of the format ``avro``."""

    def __init__(
        self, fields: Sequence[DataField], columns: Sequence[str], options: GivenOptions
    ) -> None:
        _checked(fields, options)
        self._readers = [_reader(f) for f in wanted_fields(fields, columns)]
        self._schema: Any = fastavro.parse_schema(plain_schema(avro_schema(fields)))

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """Read messages."""
        records: list[dict[str, Any]] = []
        at: list[int] = []
        bad: list[BadMessage] = []
        # one call for each message: the end of a record is known only after it was read
        for position, value in enumerate(values):
            if value is None:
                continue
            stream = io.BytesIO(value)
            try:
                record: Any = fastavro.schemaless_reader(stream, self._schema, None)
            except _DAMAGE as error:
                bad.append(BadMessage(position, f"not a record of these columns: {error}"))
                continue
            if stream.tell() != len(value):
                rest = len(value) - stream.tell()
                bad.append(BadMessage(position, f"{rest} bytes follow the record"))
                continue
            records.append(record)
            at.append(position)
        columns: list[pa.Array] = []
        misfits: dict[int, str] = {}
        for reader in self._readers:
            column, wrong = reader.read([record[reader.name] for record in records])
            columns.append(column)
            misfits |= wrong
        return kept_rows(columns, [r.name for r in self._readers], at, bad, misfits)


def _reader(field: DataField) -> ColumnReader:
    def checked(value: Any) -> Any:
        column_of([value], field.type)  # raises if a number is out of the type's range
        return value

    return ColumnReader(
        field.name, field.type, lambda values: column_of(values, field.type), checked
    )


class AvroEncoder:
    """Writes messages of the format ``avro``."""

    def __init__(self, fields: Sequence[DataField], options: GivenOptions) -> None:
        _checked(fields, options)
        self._fields = tuple(fields)

    def encode(self, rows: pa.RecordBatch, kinds: NDArray[np.int8] | None) -> list[bytes]:
        """Write one message per row."""
        refuse_changes(kinds, what="avro")
        encoded: list[bytes] = encode_rows(rows, self._fields).to_pylist()
        return encoded
