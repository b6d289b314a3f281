"""Paimon's columns as an ORC schema.

- Each column carries its field id as the type attribute ``paimon.id``. Java finds columns by the
  names that they have in the file's own schema, and so do we; the id tells files apart whose schema
  is not known.
- TIME is INT (milliseconds). CHAR and VARCHAR are STRING: Arrow writes no lengths, and Java reads
  a STRING as either. Java pads CHAR to its length in a file and cuts the spaces off on reading.
- TIMESTAMP is written in the zone GMT, TIMESTAMP WITH LOCAL TIME ZONE as TIMESTAMP_INSTANT: the
  true instant, which is what Java writes in the zone UTC, and in any zone with
  ``orc.timestamp-ltz.legacy.type`` = ``false``.
- All columns may be null in the file; NOT NULL is checked before.

Source: Paimon's ``OrcTypeUtil`` and ``FieldWriterFactory`` (1.3.1); ``docs/format/data-file.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import pyarrow as pa

from tidelake.errors import UnsupportedError
from tidelake.format.read_error import corrupt
from tidelake.types import DataField, TypeRoot
from tidelake.types.arrow import to_arrow_type

__all__ = ["FIELD_ID_KEY", "check_scalars", "check_type", "orc_arrow_schema"]

FIELD_ID_KEY = b"paimon.id"  # on disk: never rename
SCHEMAS_KEPT = 64
"""Schemas kept; all files of a table have the same."""


@lru_cache(maxsize=SCHEMAS_KEPT)
def orc_arrow_schema(fields: tuple[DataField, ...]) -> pa.Schema:
    """Give the Arrow schema from which Arrow makes Paimon's ORC schema.

    Raises
    ------
    UnsupportedError
        A nested column.
    """
    check_scalars(fields, file_format="ORC")
    return pa.schema(
        [pa.field(f.name, _arrow_type(f), metadata={FIELD_ID_KEY: str(f.id)}) for f in fields]
    )


def check_scalars(fields: Sequence[DataField], *, file_format: str) -> None:
    """Refuse columns of nested types.

    Raises
    ------
    UnsupportedError
        Names the column, and what to do.
    """
    for field in fields:
        if field.type.is_nested or field.type.root is TypeRoot.VARIANT:
            message = (
                f"Column '{field.name}' of type {field.type} is neither read from nor written to"
                f" {file_format} files by this version: set 'file.format' to 'parquet'."
            )
            raise UnsupportedError(message, kind="column_type", column=field.name)


def check_type(found: pa.DataType, own: DataField, *, path: str) -> None:
    """Refuse a column that is not in a file what Paimon makes of its type.

    Raises
    ------
    CorruptError
        Names the column.
    """
    expected = _arrow_type(own)
    if pa.types.is_timestamp(expected):  # shown in one unit; older writers leave the zone out
        expected = pa.timestamp("ns", tz=found.tz if pa.types.is_timestamp(found) else None)
    if found != expected:
        raise corrupt(path, f"its column '{own.name}' is {found}, where {own.type} is {expected}")


def _arrow_type(field: DataField) -> pa.DataType:
    return pa.int32() if field.type.root is TypeRoot.TIME else to_arrow_type(field.type)
