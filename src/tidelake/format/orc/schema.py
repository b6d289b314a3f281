"""Paimon's columns as an ORC schema.

- Each column carries its field id as the type attribute ``paimon.id``, and so do its inner columns,
  whose ids are those of Parquet files (:mod:`tidelake.format.field_schema`). Like Java, we find
  columns by their names in the file's own schema; the id identifies columns of files with an
  unknown schema.
- ARRAY is a list, ROW a struct, MAP and MULTISET a map. ORC cannot hold VARIANT, in Java neither.
- TIME is INT (milliseconds). CHAR and VARCHAR are STRING: Arrow writes no lengths, and Java reads
  a STRING as either. Java pads CHAR to its length in a file and removes the spaces when it reads.
- TIMESTAMP is written in the zone GMT, TIMESTAMP WITH LOCAL TIME ZONE as TIMESTAMP_INSTANT: the
  true instant, which Java writes in the zone UTC, and in any zone with
  ``orc.timestamp-ltz.legacy.type`` = ``false``.
- All columns are nullable in the file; NOT NULL is checked before.

Source: Paimon's ``OrcTypeUtil`` and ``FieldWriterFactory`` (1.3.1); ``docs/format/data-file.md``.
"""

from __future__ import annotations

from functools import lru_cache

import pyarrow as pa

from tidelake.format import field_schema
from tidelake.format.read_error import corrupt
from tidelake.format.schema_mapped_columns import check_no_variant
from tidelake.types import DataField
from tidelake.types.nested import is_list_like

FIELD_ID_KEY = b"paimon.id"  # on disk: never rename
SCHEMAS_KEPT = 64
"""Schemas kept; all files of a table have the same."""


@lru_cache(maxsize=SCHEMAS_KEPT)
def orc_arrow_schema(fields: tuple[DataField, ...]) -> pa.Schema:
    """Return the Arrow schema from which Arrow makes Paimon's ORC schema.

    Raises
    ------
    UnsupportedError
        A variant.
    """
    check_no_variant(fields, file_format="ORC")
    return pa.schema([_orc_field(f) for f in field_schema.parquet_arrow_schema(fields)])


def _orc_field(field: pa.Field) -> pa.Field:
    """The ORC form of a Parquet field: with the same id, and nullable."""
    field_id = field.metadata[field_schema.FIELD_ID_KEY]
    return pa.field(field.name, _orc_type(field.type), metadata={FIELD_ID_KEY: field_id})


def _orc_type(arrow_type: pa.DataType) -> pa.DataType:
    if pa.types.is_time(arrow_type):
        return pa.int32()
    if pa.types.is_struct(arrow_type):
        return pa.struct([_orc_field(f) for f in arrow_type])
    if pa.types.is_map(arrow_type):
        key = _orc_field(arrow_type.key_field).with_nullable(False)  # Arrow requires it
        return pa.map_(key, _orc_field(arrow_type.item_field))
    if pa.types.is_list(arrow_type):
        return pa.list_(_orc_field(arrow_type.value_field))
    return arrow_type


def check_type(found: pa.DataType, own: DataField, *, path: str) -> None:
    """Refuse a column that does not have Paimon's type in a file.

    Raises
    ------
    CorruptError
        Names the column.
    """
    (expected,) = orc_arrow_schema((own,))
    if not _has_same_shape(found, expected.type):
        reason = f"its column '{own.name}' is {found}, but {own.type} is {expected.type}"
        raise corrupt(path, reason)


def _has_same_shape(found: pa.DataType, expected: pa.DataType) -> bool:
    if pa.types.is_timestamp(expected):  # read in one unit; older writers omit the zone
        return bool(pa.types.is_timestamp(found) and found.unit == "ns")
    if pa.types.is_struct(expected):
        return (
            pa.types.is_struct(found)
            and [f.name for f in found] == [f.name for f in expected]
            and all(_has_same_shape(a.type, b.type) for a, b in zip(found, expected, strict=True))
        )
    if pa.types.is_map(expected):
        return (
            pa.types.is_map(found)
            and _has_same_shape(found.key_type, expected.key_type)
            and _has_same_shape(found.item_type, expected.item_type)
        )
    if is_list_like(expected):
        return is_list_like(found) and _has_same_shape(found.value_type, expected.value_type)
    return bool(found == expected)
