"""Answers of DESCRIBE, SHOW CREATE TABLE and SHOW PARTITIONS."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo

import pyarrow as pa

from tidelake.engine.metadata import escape_name, partition_text
from tidelake.engine.schemas import WATERMARK_KEYS
from tidelake.engine.tables import SystemTable, Table, live_partitions
from tidelake.errors import InvalidInputError, near_names
from tidelake.sql.syntax.name import quoted_name
from tidelake.sql.syntax.watermark import stored_watermark
from tidelake.types import DataField, DataType, TableSchema, TypeRoot, parse_type
from tidelake.types.cast import cast_values
from tidelake.types.values import arrow_to_storage

Row = tuple[str, str, str | None]
_MOMENT_ZERO = datetime(1970, 1, 1, tzinfo=UTC)
_NANOS = 1_000_000_000
_TEXT = parse_type("STRING")
_PLAIN_LITERAL = re.compile(r"-?\d+(\.\d+)?|true|false", re.IGNORECASE)


def describe_rows(table: Table | SystemTable, *, extended: bool) -> list[Row]:
    """Return the rows of DESCRIBE: columns, partition columns, details."""
    if not isinstance(table, Table):
        return [(f.name, str(f.type), None) for f in table.schema]
    schema = table.table_schema
    rows: list[Row] = [(f.name, type_text(f.type), f.description) for f in schema.fields]
    if schema.partition_keys:
        types = {f.name: type_text(f.type) for f in schema.fields}
        rows += [("# Partition Information", "", ""), ("# col_name", "data_type", "comment")]
        rows += [(name, types[name], None) for name in schema.partition_keys]
    if extended:
        rows += [("", "", ""), ("# Detailed Table Information", "", "")]
        rows.append(("Name", table.identifier, ""))
        if schema.comment:
            rows.append(("Comment", schema.comment, ""))
        rows.append(("Location", table.paths.location, ""))
        if schema.primary_keys:
            rows.append(("Primary Key", ", ".join(schema.primary_keys), ""))
        pairs = ", ".join(f"{k}={v}" for k, v in sorted(schema.options.items()))
        rows.append(("Table Properties", f"[{pairs}]", ""))
    return rows


def type_text(data_type: DataType) -> str:
    """Write a type in Flink's form; :func:`read_type` reads it back.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> type_text(parse_type("TIMESTAMP(3) WITH LOCAL TIME ZONE NOT NULL"))
    'TIMESTAMP_LTZ(3) NOT NULL'
    """
    suffix = "" if data_type.nullable else " NOT NULL"
    if data_type.root is TypeRoot.TIMESTAMP_LTZ:
        return f"TIMESTAMP_LTZ({data_type.precision}){suffix}"
    if data_type.root is TypeRoot.ROW:
        details = data_type.child_details or ((None, None),) * len(data_type.children)
        parts = [
            f"{quoted_name(name)} {type_text(child)}" + (f" {_string(d)}" if d else "")
            for (_, name), child, (d, _) in zip(
                data_type.child_fields, data_type.children, details, strict=True
            )
        ]
        return f"ROW<{', '.join(parts)}>{suffix}"
    if data_type.is_nested:
        return f"{data_type.root.value}<{', '.join(map(type_text, data_type.children))}>{suffix}"
    return str(data_type)


def create_table_text(schema: TableSchema, identifier: str) -> str:
    """Write CREATE TABLE in Flink's form, which has a spelling for every type."""
    lines = [_column_text(f) for f in schema.fields]
    watermark = stored_watermark(schema.options)
    if watermark is not None:
        lines.append(watermark)
    if schema.primary_keys:
        lines.append(f"PRIMARY KEY ({_list(schema.primary_keys)}) NOT ENFORCED")
    text = f"CREATE TABLE {'.'.join(map(quoted_name, identifier.split('.', 1)))} (\n  "
    text += ",\n  ".join(lines) + "\n)"
    if schema.comment:
        text += f" COMMENT {_string(schema.comment)}"
    if schema.partition_keys:
        text += f" PARTITIONED BY ({_list(schema.partition_keys)})"
    options = {k: v for k, v in sorted(schema.options.items()) if k not in WATERMARK_KEYS}
    pairs = ",\n  ".join(f"{_string(k)} = {_string(v)}" for k, v in options.items())
    return f"{text} WITH (\n  {pairs}\n)" if pairs else f"{text} WITH ()"


def _column_text(field: DataField) -> str:
    text = f"{quoted_name(field.name)} {type_text(field.type)}"
    if field.default_value is not None:
        text += f" DEFAULT {_default_text(field.default_value)}"
    return text if field.description is None else f"{text} COMMENT {_string(field.description)}"


def _default_text(default: str) -> str:
    """Write a default as a literal: numbers and booleans plain, other values in quotes."""
    if _PLAIN_LITERAL.fullmatch(default):
        return default
    is_quoted = len(default) > 1 and default[0] == default[-1] == "'"
    return _string(default[1:-1] if is_quoted else default)


def _list(names: tuple[str, ...]) -> str:
    return ", ".join(map(quoted_name, names))


def _string(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"


def list_partition_names(
    table: Table, wanted: Mapping[str, object], *, zone: tzinfo | None
) -> list[str]:
    """List names ``dt=2026-11-22/hour=3`` of the partitions with rows.

    A value is shown as Spark casts it to text, whatever the table's directories are called, with
    ``%XX`` for what means something in a path. Null, empty and blank texts share the directory
    ``partition.default-name``, but they are different partitions. That name means null; the texts
    are shown in quotes: ``dt=''``.

    Parameters
    ----------
    zone : tzinfo, optional
        The zone of instants, as they are shown and given; UTC if unknown.
    """
    for name in wanted:
        if name not in table.partition_keys:
            message = (
                f"'{name}' is not a partition column of table '{table.identifier}', which has"
                f" {', '.join(table.partition_keys)}.{near_names(name, table.partition_keys)}"
            )
            raise InvalidInputError(message, kind="bad_partition", column=name)
    types = {name: table.table_schema.field(name).type for name in table.partition_keys}
    null = table.paths.default_partition_name

    def shown(value: object, data_type: DataType) -> str:
        return _partition_value(value, data_type, null, zone or UTC)

    values = {
        name: shown(_stored(value, types[name], null, zone or UTC), types[name])
        for name, value in wanted.items()
    }
    names = []
    snapshot = table.handle.time_travel.resolve(default=table.options)
    for partition in live_partitions(table.handle, snapshot):
        stored = table.paths.partition_values(partition)
        parts = {
            name: shown(value, data_type)
            for (name, data_type), value in zip(types.items(), stored, strict=True)
        }
        if all(parts[name] == value for name, value in values.items()):
            names.append("/".join(f"{escape_name(name)}={text}" for name, text in parts.items()))
    return sorted(names)


def _stored(value: object, data_type: DataType, null: str, zone: tzinfo) -> object:
    """A value of PARTITION as the table stores it."""
    if value is None or value == null:
        return None
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if data_type.root is TypeRoot.TIMESTAMP_LTZ:
        nanos = _nanos_of_zoned(text)
        if nanos is not None:
            return nanos
    found = cast_values(pa.array([text]), _TEXT, data_type, zone=str(zone))
    return arrow_to_storage(found, data_type)[0]


def _nanos_of_zoned(text: str) -> int | None:
    """Nanoseconds from 1970 of a time with an offset, which a cast does not take; None without."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        return None
    return (moment - _MOMENT_ZERO) // timedelta(microseconds=1) * 1000


def _partition_value(value: object, data_type: DataType, null: str, zone: tzinfo) -> str:
    if isinstance(value, int) and data_type.root is TypeRoot.TIMESTAMP_LTZ:
        value, data_type = _local(value, zone), replace(data_type, root=TypeRoot.TIMESTAMP)
    if data_type.root is TypeRoot.TIMESTAMP:
        data_type = replace(data_type, precision=0)  # as Spark, no zeros at the end
    text = partition_text(value, data_type, default_name=null, legacy=False)
    return _string(str(value)) if text == null and value is not None else escape_name(text)


def _local(nanos: int, zone: tzinfo) -> int:
    """Nanoseconds of an instant on the clock of a zone; in UTC where Python has no such year."""
    try:
        offset = (_MOMENT_ZERO + timedelta(seconds=nanos // _NANOS)).astimezone(zone).utcoffset()
    except OverflowError:
        return nanos
    assert offset is not None, "it has a zone"
    return nanos + int(offset.total_seconds()) * _NANOS
