"""Columns from a schema of Kafka Connect, as Debezium sends it with JSON.

The types are those of Paimon's ``DebeziumSchemaUtils``, with what it leaves as numbers made times:
``Time``, ``NanoTimestamp``, ``NanoTime`` and those of Kafka Connect itself. A decimal without a
precision has all that fits; one of variable scale is a text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidelake.cdc.kafka.images import RowLayout
from tidelake.cdc.kafka.wire import BYTES, STRING, WireColumn, WireForm, column
from tidelake.types import DataType, TypeRoot

DECIMAL = "org.apache.kafka.connect.data.Decimal"
VARIABLE_DECIMAL = "io.debezium.data.VariableScaleDecimal"
BITS = "io.debezium.data.Bits"
PRECISION = "connect.decimal.precision"
DECIMAL_DIGITS_MAX, WHOLE_DIGITS = 38, 20
"""Digits of a decimal, and of one that is an unsigned BIGINT."""


def _timestamp(precision: int) -> DataType:
    return DataType(TypeRoot.TIMESTAMP, precision=precision)


_PLAIN = {
    "int8": DataType(TypeRoot.TINYINT),
    "int16": DataType(TypeRoot.SMALLINT),
    "int32": DataType(TypeRoot.INT),
    "int64": DataType(TypeRoot.BIGINT),
    "float": DataType(TypeRoot.FLOAT),
    "float32": DataType(TypeRoot.FLOAT),
    "double": DataType(TypeRoot.DOUBLE),
    "float64": DataType(TypeRoot.DOUBLE),
    "boolean": DataType(TypeRoot.BOOLEAN),
    "string": STRING,
}
_DATE, _TIME = DataType(TypeRoot.DATE), DataType(TypeRoot.TIME, precision=3)
_LOGICAL = {
    "io.debezium.time.Date": (_DATE, WireForm.DAYS),
    "org.apache.kafka.connect.data.Date": (_DATE, WireForm.DAYS),
    "io.debezium.time.Timestamp": (_timestamp(3), WireForm.MILLIS),
    "org.apache.kafka.connect.data.Timestamp": (_timestamp(3), WireForm.MILLIS),
    "io.debezium.time.MicroTimestamp": (_timestamp(6), WireForm.MICROS),
    "io.debezium.time.NanoTimestamp": (_timestamp(9), WireForm.NANOS),
    "io.debezium.time.ZonedTimestamp": (_timestamp(6), WireForm.ZONED),
    "io.debezium.time.Time": (_TIME, WireForm.MILLIS),
    "org.apache.kafka.connect.data.Time": (_TIME, WireForm.MILLIS),
    "io.debezium.time.MicroTime": (_TIME, WireForm.MICROS),
    "io.debezium.time.NanoTime": (_TIME, WireForm.NANOS),
    VARIABLE_DECIMAL: (STRING, WireForm.VARIABLE_DECIMAL),
    "io.debezium.data.geometry.Point": (STRING, WireForm.GEOMETRY),
    "io.debezium.data.geometry.Geometry": (STRING, WireForm.GEOMETRY),
    "io.debezium.data.geometry.Geography": (STRING, WireForm.GEOMETRY),
}


def connect_column(
    name: str, kind: str, logical: str | None, parameters: Mapping[str, Any]
) -> WireColumn:
    """Make the column of a field.

    Parameters
    ----------
    kind : str
        Kafka Connect's type: ``int32``.
    logical : str, optional
        The name of its meaning: ``io.debezium.time.Date``.

    Examples
    --------
    >>> str(connect_column("a", "int64", "io.debezium.time.MicroTimestamp", {}).type)
    'TIMESTAMP(6)'
    >>> str(connect_column("a", "bytes", DECIMAL, {"scale": "2", PRECISION: "8"}).type)
    'DECIMAL(8, 2)'
    """
    native = logical or kind
    if logical == DECIMAL:
        return decimal_column(name, native, parameters.get(PRECISION), parameters.get("scale"))
    if logical == BITS:
        length = (int(parameters.get("length") or 64) + 7) // 8
        return column(name, native, DataType(TypeRoot.BINARY, length=length), WireForm.BITS)
    if logical in _LOGICAL:
        return column(name, native, *_LOGICAL[logical])
    if kind == "bytes":
        return column(name, native, BYTES, WireForm.BASE64)
    if kind in _PLAIN:
        return column(name, native, _PLAIN[kind], WireForm.PLAIN)
    return column(name, native, STRING, WireForm.TEXT)  # structs, arrays and maps: their JSON


def decimal_column(name: str, native: str, precision: Any, scale: Any) -> WireColumn:
    """Make the column of a decimal that is sent as bytes."""
    digits = int(scale or 0)
    if precision is None:
        whole = WHOLE_DIGITS if digits == 0 else DECIMAL_DIGITS_MAX
    else:
        whole = int(precision)
    if whole > DECIMAL_DIGITS_MAX or not 0 <= digits <= whole:
        return column(name, native, STRING, WireForm.DECIMAL_BYTES, digits)
    kind = DataType(TypeRoot.DECIMAL, precision=whole, scale=digits)
    return column(name, native, kind, WireForm.DECIMAL_BYTES, digits)


def connect_layout(schema: Mapping[str, Any]) -> RowLayout:
    """Read the columns of an envelope's schema: of ``after``, else of ``before``.

    Raises
    ------
    ValueError, KeyError, TypeError
        It is no schema of an envelope.
    """
    images = {one.get("field"): one for one in schema["fields"]}
    row = images.get("after") or images["before"]
    return RowLayout(
        tuple(
            connect_column(one["field"], one["type"], one.get("name"), one.get("parameters") or {})
            for one in row["fields"]
        )
    )
