"""Paimon's columns as an Avro schema.

- The record is ``org.apache.paimon.avro.generated.record``; a column that may be null is a union of
  null and its type, with the default null. There are no field ids: columns are found by the names
  that they have in the file's own schema.
- TINYINT, SMALLINT and INT are ``int``; DECIMAL is its unscaled value in the fewest bytes, most
  significant first; DATE ``date``, TIME ``time-millis``; TIMESTAMP is ``timestamp-millis`` up to
  precision 3, ``timestamp-micros`` up to 6; with local time zone the same behind ``local-``.
- Timestamps above precision 6, TIME above 3 and names that Avro does not allow cannot be written,
  by Java neither.

Source: Paimon's ``AvroSchemaConverter`` (1.3.1); ``docs/format/data-file.md``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tidelake.errors import UnsupportedError
from tidelake.format.orc_schema import check_scalars
from tidelake.types import DataField, DataType, TypeRoot

__all__ = ["avro_schema", "check_avro", "column_schema"]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PRIMITIVE = {
    TypeRoot.BOOLEAN: "boolean",
    TypeRoot.TINYINT: "int",
    TypeRoot.SMALLINT: "int",
    TypeRoot.INT: "int",
    TypeRoot.BIGINT: "long",
    TypeRoot.FLOAT: "float",
    TypeRoot.DOUBLE: "double",
    TypeRoot.CHAR: "string",
    TypeRoot.VARCHAR: "string",
    TypeRoot.BINARY: "bytes",
    TypeRoot.VARBINARY: "bytes",
}
_MILLIS_PRECISION_MAX, _MICROS_PRECISION_MAX = 3, 6


def check_avro(fields: Sequence[DataField]) -> None:
    """Refuse columns that an Avro file cannot hold.

    Raises
    ------
    UnsupportedError
        Names the column, and what to do.
    """
    check_scalars(fields, file_format="Avro")
    for field in fields:
        reason = ""
        precision = field.type.precision or 0
        if not _NAME.fullmatch(field.name):
            reason = "its name is none that Avro allows (letters, digits and _)"
        elif field.type.root in {TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ}:
            if precision > _MICROS_PRECISION_MAX:
                reason = f"{field.type} is finer than microseconds"
        elif field.type.root is TypeRoot.TIME and precision > _MILLIS_PRECISION_MAX:
            reason = f"{field.type} is finer than milliseconds"
        if reason:
            message = (
                f"Column '{field.name}' cannot be written into Avro files: {reason}. Set"
                " 'file.format' to 'parquet'."
            )
            raise UnsupportedError(message, kind="column_type", column=field.name)


def avro_schema(fields: Sequence[DataField]) -> dict[str, Any]:
    """Give the schema of a file's records.

    Requires: :func:`check_avro` takes the columns.
    """
    return {
        "type": "record",
        "name": "record",
        "namespace": "org.apache.paimon.avro.generated",
        "fields": [
            {"name": f.name, "type": ["null", column_schema(f.type)], "default": None}
            if f.type.nullable
            else {"name": f.name, "type": column_schema(f.type)}
            for f in fields
        ],
    }


def column_schema(data_type: DataType) -> str | dict[str, Any]:
    """Give the schema of the values of a type.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> column_schema(parse_type("TIMESTAMP(6)"))
    {'type': 'long', 'logicalType': 'timestamp-micros'}
    """
    known = _PRIMITIVE.get(data_type.root)
    if known is not None:
        return known
    precision = data_type.precision or 0
    unit = "millis" if precision <= _MILLIS_PRECISION_MAX else "micros"
    match data_type.root:
        case TypeRoot.DATE:
            return {"type": "int", "logicalType": "date"}
        case TypeRoot.TIME:
            return {"type": "int", "logicalType": "time-millis"}
        case TypeRoot.TIMESTAMP:
            return {"type": "long", "logicalType": f"timestamp-{unit}"}
        case TypeRoot.TIMESTAMP_LTZ:
            return {"type": "long", "logicalType": f"local-timestamp-{unit}"}
        case _:
            assert data_type.root is TypeRoot.DECIMAL, data_type
            return {
                "type": "bytes",
                "logicalType": "decimal",
                "precision": precision,
                "scale": data_type.scale,
            }
