"""Checks the definition of a new table and makes its first schema, or compares it with a table.

1. Columns, keys and the options that name columns obey :mod:`tidelake.table.schema.validation`; the
   columns of the primary key become NOT NULL.
2. Options are known, valid and supported (``options.check_new_table``, ``check_supported``).

Source: Paimon's ``SchemaValidation`` and ``Schema`` (1.3.1). Nothing is written here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from tidelake.commit.partition_expiry import check_partition_expiry
from tidelake.commit.tags import check_automatic_tags
from tidelake.errors import CorruptError, InvalidInputError, shortened
from tidelake.format import check_file_formats
from tidelake.options import (
    Option,
    Options,
    check_new_table,
    check_supported,
    declared,
    option_texts,
    warn_of_promises,
)
from tidelake.table.conversion.inputs import frame_misfit
from tidelake.table.handle.time_travel import option_moment
from tidelake.table.schema.clustering_options import check_clustering
from tidelake.table.schema.merge_options import check_engine_options, check_function_settings
from tidelake.table.schema.partition_done_options import check_partition_done
from tidelake.table.schema.validation import (
    check_columns,
    check_layout,
    check_twice,
    check_types,
    invalid_schema,
)
from tidelake.types import DataField, DataType, TableSchema, parse_type
from tidelake.types.arrow import fields_from_arrow
from tidelake.types.data_type import parse_type_text
from tidelake.types.field_ids import highest_id, with_new_ids

_GIVE_SCHEMA = "give a pyarrow.Schema"

DECIDES_ROWS: tuple[Option[Any], ...] = (
    declared.MERGE_ENGINE,
    declared.SEQUENCE_FIELD,
    declared.SEQUENCE_FIELD_SORT_ORDER,
    declared.IGNORE_DELETE,
)
"""Options that change the rows of a table with the same columns and keys."""


def first_schema(
    columns: object,
    *,
    table: str,
    primary_keys: Sequence[str],
    partition_keys: Sequence[str],
    table_options: Mapping[str, object],
    comment: str | None,
    time_ms: int,
) -> TableSchema:
    """Make the schema of a new table.

    Parameters
    ----------
    columns : pyarrow.Schema, anything with one (``.schema``, ``__arrow_c_schema__``), or fields
        The columns. A mapping from names may give Arrow types and Paimon's, as text (``"CHAR(3)"``,
        ``"MAP<STRING, INT>"``) or, of nested ones, as the JSON object of the schema file. A name
        that Arrow knows (``"int64"``, ``"binary"`` in lower case) is Arrow's.
    table_options : mapping
        Options; values are written as text, None leaves an option unset.
    time_ms : int
        Current time, milliseconds since the epoch.

    Raises
    ------
    InvalidInputError, UnsupportedError
        A column, key or option is wrong.
    """
    keys = _names(primary_keys, "primary key", table)
    partitions = _names(partition_keys, "partition key", table)
    fields = _fields(columns, table=table)
    check_columns(fields, primary_keys=keys, partition_keys=partitions, table=table)
    text_options = option_texts(table_options)
    check_new_table(text_options, table=table)
    parsed = Options.parse(text_options, table=table)
    check_supported(parsed, table=table, has_primary_key=bool(keys), action="create")
    check_file_formats(parsed, fields, what=f"Table '{table}'")
    warn_of_promises(parsed, table=table)
    option_moment(parsed, table=table)  # refuses contradicting time travel options
    schema = TableSchema(
        id=0,
        fields=tuple(
            dataclasses.replace(f, type=f.type.not_null()) if f.name in keys else f for f in fields
        ),
        highest_field_id=highest_id(fields),
        partition_keys=partitions,
        primary_keys=keys,
        options=MappingProxyType(text_options),
        comment=comment,
        time_ms=time_ms,
    )
    check_layout(schema, parsed, table=table)
    check_clustering(schema, parsed, table=table)
    check_partition_expiry(schema, parsed, table=table)
    check_partition_done(schema, parsed, table=table)
    check_automatic_tags(parsed, table=table)
    check_engine_options(parsed, has_primary_key=bool(keys), table=table)
    check_function_settings(schema, parsed, table=table)
    return schema


def check_agrees(
    existing: TableSchema,
    columns: object,
    *,
    table: str,
    primary_keys: Sequence[str],
    partition_keys: Sequence[str],
    table_options: Mapping[str, object],
) -> None:
    """Refuse an existing table with another definition.

    Columns must agree by name and type in any order, and so must keys and the options of
    :data:`DECIDES_ROWS`. Other options do not change which rows the table has.

    Raises
    ------
    InvalidInputError
        The definitions differ; the message lists all differences.
    """
    keys = _names(primary_keys, "primary key", table)
    partitions = _names(partition_keys, "partition key", table)
    asked = {
        f.name: str(f.type.not_null() if f.name in keys else f.type)
        for f in _fields(columns, table=table)
    }
    found = {f.name: str(f.type) for f in existing.fields}
    differences = [
        _column_difference(name, found.get(name), asked.get(name))
        for name in asked | found
        if asked.get(name) != found.get(name)
    ]
    for what, own, wanted in (
        ("primary key", existing.primary_keys, keys),
        ("partition key", existing.partition_keys, partitions),
    ):
        if own != wanted:
            differences.append(f"its {what} is {_key_text(own)}, not {_key_text(wanted)}")
    new = Options.parse(option_texts(table_options), table=table)
    old = Options.parse(existing.options, table=table)
    differences += [
        f"option '{option.key}' is {old.get(option)!r}, not {new.get(option)!r}"
        for option in DECIDES_ROWS
        if old.get(option) != new.get(option)
    ]
    if differences:
        message = (
            f"Table '{table}' exists with another definition: {'; '.join(differences)}. Open it"
            f" with table('{table}'), or choose another name."
        )
        raise InvalidInputError(message, kind="table_differs", table=table)


def _column_difference(name: str, found: str | None, asked: str | None) -> str:
    shown = shortened(name)
    if found is None:
        return f"it has no column '{shown}'"
    if asked is None:
        return f"it has another column '{shown}'"
    return f"column '{shown}' is {found}, not {asked}"


def _key_text(names: Sequence[str]) -> str:
    return f"({', '.join(names)})" if names else "none"


def _names(names: Sequence[str], what: str, table: str) -> tuple[str, ...]:
    given = (names,) if isinstance(names, str) else tuple(names)
    for name in given:
        if given.count(name) > 1:
            raise invalid_schema(
                f"names '{shortened(name)}' twice in its {what}", "name it once", table
            )
    return given


def _fields(columns: object, *, table: str) -> tuple[DataField, ...]:
    if isinstance(columns, Sequence) and all(isinstance(c, DataField) for c in columns):
        fields = with_new_ids(columns)
    elif isinstance(columns, Mapping) and any(map(_is_paimon_type, columns.values())):
        fields = with_new_ids(
            DataField(0, n, _column_type(n, t, table)) for n, t in columns.items()
        )
    else:
        schema = _arrow_schema(columns, table)
        check_twice(schema.names, table)
        fields = fields_from_arrow(schema)
    if not fields:
        raise invalid_schema("has no columns", "give at least one", table)
    check_types(fields, table=table)
    return fields


def _is_paimon_type(given: object) -> bool:
    """True unless it is an Arrow type or its name, which is lower case."""
    if isinstance(given, str):
        try:
            pa.type_for_alias(given)
        except ValueError:
            return True
        return False
    return isinstance(given, (DataType, Mapping))


def _column_type(name: str, given: object, table: str) -> DataType:
    if isinstance(given, DataType):
        return given
    if not _is_paimon_type(given):
        return fields_from_arrow(_arrow_schema({name: given}, table))[0].type
    try:
        if isinstance(given, str):
            return parse_type_text(given)
        return parse_type(dict(given))  # type: ignore[call-overload]
    except CorruptError as error:
        raise invalid_schema(
            f"cannot have column '{shortened(name)}': {error.message.removesuffix('.')}",
            "give a type as text, such as 'MAP<STRING, INT>', or as Paimon's JSON object",
            table,
            column=name,
        ) from error


def _arrow_schema(columns: object, table: str) -> pa.Schema:
    if isinstance(columns, pa.Schema):
        return columns
    if isinstance(columns, (pa.Table, pa.RecordBatch, pa.RecordBatchReader)):
        return columns.schema
    if hasattr(columns, "__arrow_c_schema__"):
        return pa.schema(columns)
    if type(columns).__module__.partition(".")[0] == "pandas":
        try:
            return pa.Schema.from_pandas(columns, preserve_index=False)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise frame_misfit(columns, error, table=table) from error
    if hasattr(columns, "to_arrow"):
        return columns.to_arrow().schema
    if isinstance(columns, (Sequence, Mapping)):
        try:
            return pa.schema(columns)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise invalid_schema(
                f"cannot take its columns from {shortened(repr(columns))}: {error}",
                _GIVE_SCHEMA,
                table,
            ) from error
    raise invalid_schema(
        f"cannot take its columns from an object of type {type(columns).__name__}",
        _GIVE_SCHEMA,
        table,
    )
