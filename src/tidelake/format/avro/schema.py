"""Paimon's columns as an Avro schema.

- The record is ``org.apache.paimon.avro.generated.record``; a nullable column is a union of null
  and its type, with the default null. There are no field ids: columns are found by their names in
  the file's own schema.
- TINYINT, SMALLINT and INT are ``int``; DECIMAL is its unscaled value in the fewest bytes, most
  significant first; DATE ``date``, TIME ``time-millis``; TIMESTAMP is ``timestamp-millis`` up to
  precision 3, ``timestamp-micros`` up to 6; with local time zone the same behind ``local-``.
- ARRAY is ``array``, ROW ``record``. A map with keys of text is ``map``; another map is an array of
  records of ``key`` and ``value`` with the logical type ``map``. MULTISET is the map of its values
  to INT; one of values other than text cannot be written, neither by Java, which treats it as an
  array.
- A record inside a column is named ``record_<column>``, one inside that ``record_<column>_<field>``
  and so on; those of keys and values ``.._key`` and ``.._value``. A repeated name stands for the
  same record; if it would be a different one, Java cannot read the file.
- Timestamps above precision 6, TIME above 3, VARIANT and names that Avro does not allow cannot be
  written, neither by Java.

Source: Paimon's ``AvroSchemaConverter`` (1.3.1); ``docs/format/data-file.md``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tidelake.errors import UnsupportedError
from tidelake.format.schema_mapped_columns import check_no_variant
from tidelake.types import DataField, DataType, TypeRoot
from tidelake.types.arrow import child_types

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RECORD, _NAMESPACE = "record", "org.apache.paimon.avro.generated"  # on disk: never rename
_TEXT = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR})
_MAPS = frozenset({TypeRoot.MAP, TypeRoot.MULTISET})
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


def is_text(data_type: DataType) -> bool:
    """Whether values are texts, which can be keys of an Avro map."""
    return data_type.root in _TEXT


def entry_types(data_type: DataType) -> tuple[DataType, DataType]:
    """Return the key and the value of a MAP or MULTISET in an Avro file."""
    if data_type.root is TypeRoot.MULTISET:
        return data_type.children[0], DataType(TypeRoot.INT)
    key, value = data_type.children
    return key, value


def check_avro(fields: Sequence[DataField]) -> None:
    """Refuse columns that an Avro file cannot hold.

    Raises
    ------
    UnsupportedError
        Names the column, and what to do.
    """
    check_no_variant(fields, file_format="Avro")
    for field in fields:
        _check_name(field.name, field)
        _check_type(field.type, field)
    records: dict[str, Any] = {}
    for field in fields:
        _find_records(slot_schema(field.type, f"{_RECORD}_{field.name}"), records, field)


def _check_name(name: str, column: DataField) -> None:
    if not _NAME.fullmatch(name):
        what = "its name" if name == column.name else f"the name '{name}' inside it"
        raise _cannot(column, f"{what} is not allowed in Avro (letters, digits and _)")


def _check_type(data_type: DataType, column: DataField) -> None:
    precision = data_type.precision or 0
    if data_type.root in {TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ}:
        if precision > _MICROS_PRECISION_MAX:
            raise _cannot(column, f"{data_type} is finer than microseconds")
    elif data_type.root is TypeRoot.TIME:
        if precision > _MILLIS_PRECISION_MAX:
            raise _cannot(column, f"{data_type} is finer than milliseconds")
    elif data_type.root is TypeRoot.MULTISET and not is_text(data_type.children[0]):
        raise _cannot(column, f"{data_type} is a multiset of values other than text")
    if not data_type.is_nested:
        return
    children = child_types(data_type)
    if not children:
        raise _cannot(column, "a ROW without fields has no bytes")
    for name, child in children:
        if data_type.root is TypeRoot.ROW:
            _check_name(name, column)
        _check_type(child, column)


def _find_records(schema: Any, records: dict[str, Any], column: DataField) -> None:
    """Refuse two different records of the same name."""
    if isinstance(schema, list):
        for branch in schema:
            _find_records(branch, records, column)
    elif isinstance(schema, dict):
        if schema["type"] == "record":
            if records.setdefault(schema["name"], schema) != schema:
                raise _cannot(column, f"two different rows would be named '{schema['name']}'")
            for field in schema["fields"]:
                _find_records(field["type"], records, column)
        for key in ("items", "values"):
            _find_records(schema.get(key), records, column)


def _cannot(column: DataField, reason: str) -> UnsupportedError:
    message = (
        f"Column '{column.name}' cannot be written into Avro files: {reason}. Set"
        " 'file.format' to 'parquet'."
    )
    return UnsupportedError(message, kind="column_type", column=column.name)


def avro_schema(fields: Sequence[DataField]) -> dict[str, Any]:
    """Return the schema of a file's records.

    Requires: :func:`check_avro` accepts the columns.
    """
    known: set[str] = set()
    record = _record([(f.name, f.type) for f in fields], _RECORD)
    parts = [{**part, "type": _named_once(part["type"], known)} for part in record["fields"]]
    return {"type": "record", "name": _RECORD, "namespace": _NAMESPACE, "fields": parts}


def _named_once(schema: Any, known: set[str]) -> Any:
    """The schema with the name instead of a repeated record."""
    if isinstance(schema, list):
        return [_named_once(branch, known) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    if schema["type"] == "record":
        if schema["name"] in known:
            return schema["name"]
        known.add(schema["name"])
        parts = [{**part, "type": _named_once(part["type"], known)} for part in schema["fields"]]
        return {**schema, "fields": parts}
    inside = {key: _named_once(schema[key], known) for key in ("items", "values") if key in schema}
    return {**schema, **inside}


def _record(columns: Sequence[tuple[str, DataType]], name: str) -> dict[str, Any]:
    parts = []
    for column, data_type in columns:
        part = {"name": column, "type": slot_schema(data_type, f"{name}_{column}")}
        parts.append({**part, "default": None} if data_type.nullable else part)
    return {"type": "record", "name": name, "fields": parts}


def slot_schema(data_type: DataType, name: str) -> Any:
    """Return the schema of nullable values of a type.

    Parameters
    ----------
    data_type : DataType
        Requires: :func:`check_avro` accepts it.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> slot_schema(parse_type("TIMESTAMP(6)"), "record_t")
    ['null', {'type': 'long', 'logicalType': 'timestamp-micros'}]
    """
    schema = _value_schema(data_type, name)
    return ["null", schema] if data_type.nullable else schema


def _value_schema(data_type: DataType, name: str) -> str | dict[str, Any]:
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
        case TypeRoot.DECIMAL:
            decimal = {"logicalType": "decimal", "precision": precision, "scale": data_type.scale}
            return {"type": "bytes", **decimal}
    return _nested_schema(data_type, name)


def _nested_schema(data_type: DataType, name: str) -> dict[str, Any]:
    if data_type.root is TypeRoot.ARRAY:
        return {"type": "array", "items": slot_schema(data_type.children[0], name)}
    if data_type.root is TypeRoot.ROW:
        return _record(child_types(data_type), name)
    assert data_type.root in _MAPS, data_type
    key, value = entry_types(data_type)
    if is_text(key):
        return {"type": "map", "values": slot_schema(value, name)}
    entry = _record([("key", key), ("value", value)], name)
    entry["fields"][0].pop("default", None)
    return {"type": "array", "items": entry, "logicalType": "map"}
