"""Paimon's schemas as Iceberg's: types, field ids, the partition spec.

Field ids are Paimon's: Parquet, ORC and Avro files carry them. Elements of lists, keys and values
of maps have the ids that data files derive (:mod:`tidelake.format.field_schema`). Partition fields
are identities and have ids from 1000 on.

Not every type fits. TINYINT and SMALLINT, TIME, MULTISET and VARIANT have no counterpart that reads
the files as they are; timestamps have 3 to 6 digits, with format version 3 up to 9. A column's type
may change only as Iceberg lets it: its readers cast nothing else.

Source: the Iceberg specification, "Schemas" and "Partition Specs"; Paimon's ``IcebergDataField``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tidelake.commit.iceberg.settings import VERSION_WITH_VECTORS
from tidelake.errors import UnsupportedError
from tidelake.format.field_schema import FIELD_ID_KEY, parquet_arrow_schema
from tidelake.types import DataField, DataType, TableSchema
from tidelake.types.data_type import TypeRoot

PARTITION_FIELD_ID_START = 1000  # on disk: never renumber
_TIMESTAMP_DIGITS_MIN, _MICROS_DIGITS_MAX = 3, 6
_PLAIN = {
    TypeRoot.BOOLEAN: "boolean",
    TypeRoot.INT: "int",
    TypeRoot.BIGINT: "long",
    TypeRoot.FLOAT: "float",
    TypeRoot.DOUBLE: "double",
    TypeRoot.DATE: "date",
    TypeRoot.CHAR: "string",
    TypeRoot.VARCHAR: "string",
    TypeRoot.BINARY: "binary",
    TypeRoot.VARBINARY: "binary",
}
_TIMESTAMPS = {TypeRoot.TIMESTAMP: "timestamp", TypeRoot.TIMESTAMP_LTZ: "timestamptz"}
_PROMOTIONS = frozenset({("int", "long"), ("float", "double")})
_CONTAINERS = frozenset({TypeRoot.ARRAY, TypeRoot.MAP, TypeRoot.ROW})


def schema_document(schema: TableSchema) -> dict[str, Any]:
    """The Iceberg form of a schema. Requires: :func:`fault_of_schema` found nothing."""
    # the ids inside nested types are those of the files
    arrow = parquet_arrow_schema(schema.fields)
    fields = [
        _field(field.name, field.type, arrow.field(i), field.description)
        for i, field in enumerate(schema.fields)
    ]
    return {"type": "struct", "schema-id": schema.id, "fields": fields}


def _field(name: str, data_type: DataType, origin: Any, doc: str | None = None) -> dict[str, Any]:
    document = {
        "id": _id(origin),
        "name": name,
        "required": not data_type.nullable,
        "type": _type(data_type, origin),
    }
    return document if doc is None else document | {"doc": doc}


def _id(origin: Any) -> int:
    return int(origin.metadata[FIELD_ID_KEY])


def _type(data_type: DataType, origin: Any) -> str | dict[str, Any]:
    """The Iceberg form of a type; `origin` is its Arrow field, with the ids."""
    match data_type.root:
        case TypeRoot.ARRAY:
            inner = origin.type.value_field
            (element,) = data_type.children
            return {
                "type": "list",
                "element-id": _id(inner),
                "element-required": not element.nullable,
                "element": _type(element, inner),
            }
        case TypeRoot.MAP:
            key, value = data_type.children
            key_origin, value_origin = origin.type.key_field, origin.type.item_field
            return {
                "type": "map",
                "key-id": _id(key_origin),
                "key": _type(key, key_origin),
                "value-id": _id(value_origin),
                "value-required": not value.nullable,
                "value": _type(value, value_origin),
            }
        case TypeRoot.ROW:
            names = [name for _, name in data_type.child_fields]
            fields = [
                _field(name, child, origin.type.field(i))
                for i, (name, child) in enumerate(zip(names, data_type.children, strict=True))
            ]
            return {"type": "struct", "fields": fields}
        case _:
            return _atomic(data_type)


def _atomic(data_type: DataType) -> str:
    if data_type.root is TypeRoot.DECIMAL:
        return f"decimal({data_type.precision}, {data_type.scale})"
    if data_type.root in _TIMESTAMPS:
        return _TIMESTAMPS[data_type.root] + ("_ns" if is_nanoseconds(data_type) else "")
    return _PLAIN[data_type.root]


def is_nanoseconds(data_type: DataType) -> bool:
    """Whether a timestamp has the unit of nanoseconds in Iceberg, and not microseconds."""
    return (
        data_type.root in _TIMESTAMPS
        and data_type.precision is not None
        and data_type.precision > _MICROS_DIGITS_MAX
    )


def is_atomic(data_type: DataType) -> bool:
    """Whether a type has bounds in Iceberg."""
    return data_type.root is TypeRoot.DECIMAL or _has_counterpart(data_type)


def fault_of_schema(fields: Iterable[DataField], *, format_version: int) -> str | None:
    """Describe a column that Iceberg cannot have, None if there is none.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> fault_of_schema([DataField(0, "n", parse_type("SMALLINT"))], format_version=2)
    "column 'n' is a SMALLINT, which Iceberg does not have: make it an INT"
    """
    for name, data_type in _atoms(fields):
        advice = _advice(data_type, format_version)
        if advice is not None:
            return f"column '{name}' is a {data_type.as_nullable()}, {advice}"
    return None


def _atoms(fields: Iterable[DataField]) -> Iterator[tuple[str, DataType]]:
    for field in fields:
        yield from _inside(field.name, field.type)


def _inside(name: str, data_type: DataType) -> Iterator[tuple[str, DataType]]:
    if data_type.root not in _CONTAINERS:
        yield name, data_type
        return
    for child in data_type.children:
        yield from _inside(name, child)


def _advice(data_type: DataType, format_version: int) -> str | None:
    if data_type.root in {TypeRoot.TINYINT, TypeRoot.SMALLINT}:
        return "which Iceberg does not have: make it an INT"
    if data_type.root in {TypeRoot.TIME, TypeRoot.MULTISET, TypeRoot.VARIANT}:
        return "which Iceberg's readers cannot read from these files: drop it or change its type"
    if data_type.root not in _TIMESTAMPS:
        return None
    digits = data_type.precision or 0
    if digits < _TIMESTAMP_DIGITS_MIN:
        return f"which Iceberg does not have: give it {_TIMESTAMP_DIGITS_MIN} digits or more"
    if digits > _MICROS_DIGITS_MAX and format_version < VERSION_WITH_VECTORS:
        return (
            "which only version 3 of Iceberg has: set"
            f" 'metadata.iceberg.format-version' = '{VERSION_WITH_VECTORS}'"
        )
    return None


def check_schema(fields: Sequence[DataField], *, format_version: int, table: str) -> None:
    """Refuse columns that Iceberg cannot have.

    Raises
    ------
    UnsupportedError
        The message names the column and says what to do.
    """
    fault = fault_of_schema(fields, format_version=format_version)
    if fault is not None:
        message = (
            f"Table '{table}' cannot have Iceberg metadata: {fault}, or unset"
            " 'metadata.iceberg.storage'."
        )
        raise UnsupportedError(message, kind="iceberg", table=table)


def check_type_changes(old: Iterable[DataField], new: Iterable[DataField], *, table: str) -> None:
    """Refuse a change of a column's type that Iceberg's readers cannot follow in older files.

    Raises
    ------
    UnsupportedError
        The message names the column.
    """
    before = {field.id: field for field in old}
    for field in new:
        known = before.get(field.id)
        if known is None or _may_become(known.type, field.type):
            continue
        message = (
            f"Table '{table}' has Iceberg metadata, and Iceberg cannot read column '{field.name}'"
            f" as {field.type.as_nullable()} from files where it is a"
            f" {known.type.as_nullable()}: add another column, or unset"
            " 'metadata.iceberg.storage'."
        )
        raise UnsupportedError(message, kind="iceberg", table=table, column=field.name)


def _may_become(old: DataType, new: DataType) -> bool:
    if old.root in _CONTAINERS or new.root in _CONTAINERS:
        return old.root is new.root and _children_may_become(old, new)
    if old.root is TypeRoot.DECIMAL and new.root is TypeRoot.DECIMAL:
        return old.scale == new.scale and (old.precision or 0) <= (new.precision or 0)
    if _has_counterpart(old) and _has_counterpart(new):
        kinds = _atomic(old), _atomic(new)
        return kinds[0] == kinds[1] or kinds in _PROMOTIONS
    return old.root is new.root


def _has_counterpart(data_type: DataType) -> bool:
    return data_type.root in _PLAIN or data_type.root in _TIMESTAMPS


def _children_may_become(old: DataType, new: DataType) -> bool:
    if old.root is not TypeRoot.ROW:
        return all(map(_may_become, old.children, new.children))
    before = dict(zip((i for i, _ in old.child_fields), old.children, strict=True))
    after = zip((i for i, _ in new.child_fields), new.children, strict=True)
    return all(i not in before or _may_become(before[i], child) for i, child in after)


def partition_fields(schema: TableSchema) -> list[dict[str, Any]]:
    """The fields of the partition spec."""
    return [
        {
            "name": key,
            "transform": "identity",
            "source-id": schema.field(key).id,
            "field-id": PARTITION_FIELD_ID_START + place,
        }
        for place, key in enumerate(schema.partition_keys)
    ]
