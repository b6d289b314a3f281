"""Checks what a user asks of a new table and makes its first schema of it, or compares it with one.

1. Columns: names valid, distinct and not reserved; types that this version covers.
2. Keys: they exist, hold no column twice; the primary key holds every partition column and at least
   one other; its columns become NOT NULL.
3. Options: known, well-formed, covered (``options.check_new_table``, ``check_supported``), and
   their columns (``bucket-key``, ``sequence.field``) exist and fit.

Source: Paimon's ``SchemaValidation`` and ``Schema`` (1.3.1). Nothing is written here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from tidelake.errors import InvalidInputError, UnsupportedError, near_names, shortened
from tidelake.fileio.name import validate_name
from tidelake.format import check_timestamps
from tidelake.metadata.partition_name import has_partition_text
from tidelake.options import (
    Option,
    Options,
    check_new_table,
    check_supported,
    declared,
    option_texts,
)
from tidelake.options.key_pattern import columns_in
from tidelake.table.time_travel import option_moment
from tidelake.types import DataField, TableSchema, TypeRoot
from tidelake.types.arrow import fields_from_arrow, to_arrow_type

__all__ = ["check_agrees", "first_schema"]

RESERVED_NAMES = frozenset(
    {"_SEQUENCE_NUMBER", "_VALUE_KIND", "_LEVEL", "rowkind", "_ROW_ID", "_row_kind"}
)
RESERVED_PREFIX = "_KEY_"

_GIVE_SCHEMA = "give a pyarrow.Schema"

SEQUENCE_ROOTS_REFUSED = frozenset(
    {TypeRoot.BOOLEAN, TypeRoot.BINARY, TypeRoot.VARBINARY, TypeRoot.VARIANT}
)

DECIDES_ROWS: tuple[Option[Any], ...] = (
    declared.MERGE_ENGINE,
    declared.SEQUENCE_FIELD,
    declared.SEQUENCE_FIELD_SORT_ORDER,
    declared.IGNORE_DELETE,
)
"""Options with which a table of the same columns and keys holds other rows."""


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
        The columns.
    table : str
        Full name, for messages.
    primary_keys, partition_keys : sequence of str
        Column names.
    table_options : mapping
        Options; values that are not text are written as text, None is not set.
    comment : str, optional
        The table's comment.
    time_ms : int
        Now.

    Raises
    ------
    InvalidInputError, UnsupportedError
        What is wrong, in which column or option, and what to do.
    """
    keys = _names(primary_keys, "primary key", table)
    partitions = _names(partition_keys, "partition key", table)
    fields = _fields(columns, table=table)
    by_name = {f.name: f for f in fields}
    _check_twice([f.name for f in fields], table)
    for name in by_name:
        _check_column_name(name, table)
    for what, names in (("primary key", keys), ("partition key", partitions)):
        for name in names:
            _check_exists(name, what, by_name, table)
    _check_keys(keys, partitions, by_name, table)
    text_options = option_texts(table_options)
    check_new_table(text_options, table=table)
    parsed = Options.parse(text_options, table=table)
    check_supported(parsed, table=table, has_primary_key=bool(keys), action="create")
    option_moment(parsed, table=table)  # refuses moments that contradict each other
    schema = TableSchema(
        id=0,
        fields=tuple(
            dataclasses.replace(f, type=f.type.not_null()) if f.name in keys else f for f in fields
        ),
        highest_field_id=max((f.id for f in fields), default=-1),
        partition_keys=partitions,
        primary_keys=keys,
        options=MappingProxyType(text_options),
        comment=comment,
        time_ms=time_ms,
    )
    _check_partition_types(schema, parsed, table)
    _check_buckets(schema, parsed, by_name, table)
    _check_sequence(schema, parsed, by_name, table)
    _check_field_options(text_options, by_name, table)
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
    """Refuse to take a table for the one that was asked for, where it is another.

    Columns must agree by name and type, whatever their order; keys; and the options of
    :data:`DECIDES_ROWS`. Other options change how rows are kept and not which.

    Parameters
    ----------
    existing : TableSchema
        The table that is there.
    columns, table, primary_keys, partition_keys, table_options
        As of :func:`first_schema`.

    Raises
    ------
    InvalidInputError
        All that differs is named.
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
            f"Table '{table}' exists and is not the one asked for: {'; '.join(differences)}. Open"
            f" it as it is with table('{table}'), or choose another name."
        )
        raise InvalidInputError(message, kind="table_differs", table=table)


def _column_difference(name: str, found: str | None, asked: str | None) -> str:
    shown = shortened(name)
    if found is None:
        return f"it has no column '{shown}'"
    if asked is None:
        return f"it has a column '{shown}' more"
    return f"column '{shown}' is {found}, not {asked}"


def _key_text(names: Sequence[str]) -> str:
    return f"({', '.join(names)})" if names else "none"


def _invalid(what: str, advice: str, table: str, **context: object) -> InvalidInputError:
    message = f"Table '{table}' {what}: {advice}."
    return InvalidInputError(message, kind="bad_schema", table=table, **context)


def _names(names: Sequence[str], what: str, table: str) -> tuple[str, ...]:
    given = (names,) if isinstance(names, str) else tuple(names)
    for name in given:
        if given.count(name) > 1:
            raise _invalid(f"names '{shortened(name)}' twice in its {what}", "name it once", table)
    return given


def _fields(columns: object, *, table: str) -> tuple[DataField, ...]:
    if isinstance(columns, Sequence) and all(isinstance(c, DataField) for c in columns):
        fields = tuple(columns)
    else:
        schema = _arrow_schema(columns, table)
        _check_twice(schema.names, table)
        fields = fields_from_arrow(schema)
    if not fields:
        raise _invalid("has no columns", "give at least one", table)
    for field in fields:
        to_arrow_type(field.type)  # refuses the types that are not covered
        if field.type.is_nested or field.type.root is TypeRoot.VARIANT:
            message = (
                f"Column '{field.name}' of table '{table}' has type {field.type}, which this"
                " version cannot store yet: use scalar columns."
            )
            raise UnsupportedError(message, kind="type", table=table, column=field.name)
    check_timestamps(fields, what=f"Table '{table}'")
    return fields


def _check_twice(names: Sequence[str], table: str) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise _invalid(f"has column '{twice[0]}' twice", "name each column once", table)


def _arrow_schema(columns: object, table: str) -> pa.Schema:
    if isinstance(columns, pa.Schema):
        return columns
    if isinstance(columns, (pa.Table, pa.RecordBatch, pa.RecordBatchReader)):
        return columns.schema
    if hasattr(columns, "__arrow_c_schema__"):
        return pa.schema(columns)
    if type(columns).__module__.partition(".")[0] == "pandas":
        return pa.Schema.from_pandas(columns, preserve_index=False)
    if hasattr(columns, "to_arrow"):
        return columns.to_arrow().schema
    if isinstance(columns, (Sequence, Mapping)):
        try:
            return pa.schema(columns)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise _invalid(
                f"cannot take its columns from {shortened(repr(columns))}: {error}",
                _GIVE_SCHEMA,
                table,
            ) from error
    raise _invalid(
        f"cannot take its columns from an object of type {type(columns).__name__}",
        _GIVE_SCHEMA,
        table,
    )


def _check_column_name(name: str, table: str) -> None:
    validate_name(name, "column")
    if name in RESERVED_NAMES or name.upper().startswith(RESERVED_PREFIX):
        raise _invalid(
            f"cannot have a column '{name}', a name that data files use themselves",
            "choose another name",
            table,
            column=name,
        )


def _check_exists(name: str, what: str, by_name: Mapping[str, DataField], table: str) -> None:
    if name not in by_name:
        raise _invalid(
            f"has no column '{shortened(name)}', which its {what} names."
            f"{near_names(name, by_name)} Its columns are {', '.join(by_name)}",
            "name one of them",
            table,
            column=name,
        )


def _check_keys(
    keys: tuple[str, ...],
    partitions: tuple[str, ...],
    by_name: Mapping[str, DataField],
    table: str,
) -> None:
    if not keys:
        return
    outside = [name for name in partitions if name not in keys]
    if outside:
        message = (
            f"Table '{table}' is partitioned by '{outside[0]}', which is not part of its primary"
            f" key ({', '.join(keys)}): a key could then move between partitions, which this"
            f" version does not cover. Add '{outside[0]}' to the primary key."
        )
        raise UnsupportedError(message, kind="cross_partition", table=table, column=outside[0])
    if set(keys) <= set(partitions):
        raise _invalid(
            "has a primary key of partition columns only, so each partition would hold one row",
            "add another column to the primary key",
            table,
        )
    if len(by_name) == len(partitions):
        raise _invalid("has partition columns only", "add a column", table)


def _check_partition_types(schema: TableSchema, parsed: Options, table: str) -> None:
    legacy = parsed.get(declared.PARTITION_LEGACY_NAME)
    for name in schema.partition_keys:
        data_type = schema.field(name).type
        if not has_partition_text(data_type, legacy=legacy):
            message = (
                f"Table '{table}' cannot be partitioned by '{name}' of type"
                f" {data_type.as_nullable()}: Paimon names such directories in a way that depends"
                " on the machine. Partition by a column of another type."
            )
            raise UnsupportedError(message, kind="partition_type", table=table, column=name)


def _check_field_options(
    text_options: Mapping[str, str], by_name: Mapping[str, DataField], table: str
) -> None:
    """Refuse options of columns that are not there."""
    for key, value in text_options.items():
        columns = columns_in(key)
        if columns is not None and columns not in by_name:
            for name in columns.split(","):
                _check_exists(name.strip(), f"option '{shortened(key)}'", by_name, table)
        if columns is not None and key.endswith(".sequence-group"):
            for name in value.split(","):
                _check_exists(name.strip(), f"option '{shortened(key)}'", by_name, table)


def _check_buckets(
    schema: TableSchema, parsed: Options, by_name: Mapping[str, DataField], table: str
) -> None:
    bucket = parsed.get(declared.BUCKET)
    if bucket == 0 or bucket < -2:
        raise _invalid(
            f"cannot have 'bucket' = {bucket}",
            "give a number above 0, or -1",
            table,
            option=declared.BUCKET.key,
        )
    if not parsed.is_set(declared.BUCKET_KEY):
        if not schema.primary_keys and bucket > 0:
            raise _invalid(
                f"has 'bucket' = {bucket} without a primary key and without 'bucket-key'",
                "set 'bucket-key' to the columns whose hash decides the bucket, or 'bucket' = -1",
                table,
                option=declared.BUCKET_KEY.key,
            )
        return
    for name in schema.bucket_keys:
        _check_exists(name, "option 'bucket-key'", by_name, table)
        if name in schema.partition_keys:
            raise _invalid(
                f"has partition column '{name}' in 'bucket-key'",
                "leave it out: inside a partition it is constant",
                table,
                option=declared.BUCKET_KEY.key,
            )
        if schema.primary_keys and name not in schema.trimmed_primary_keys:
            raise _invalid(
                f"has '{name}' in 'bucket-key', which is not part of its primary key"
                f" ({', '.join(schema.primary_keys)})",
                "rows of one key would scatter; use columns of the primary key",
                table,
                option=declared.BUCKET_KEY.key,
            )
    if bucket == -1:
        raise _invalid(
            "has 'bucket-key' without buckets",
            "set 'bucket' to their number, or leave it out",
            table,
            option=declared.BUCKET_KEY.key,
        )


def _check_sequence(
    schema: TableSchema, parsed: Options, by_name: Mapping[str, DataField], table: str
) -> None:
    text = parsed.get(declared.SEQUENCE_FIELD)
    if not text:
        return
    names = [part.strip() for part in text.split(",")]
    if not schema.primary_keys:
        raise _invalid(
            "has 'sequence.field' without a primary key",
            "leave the option out",
            table,
            option=declared.SEQUENCE_FIELD.key,
        )
    for name in names:
        _check_exists(name, "option 'sequence.field'", by_name, table)
        if names.count(name) > 1:
            raise _invalid(f"names '{name}' twice in 'sequence.field'", "name it once", table)
        if by_name[name].type.root in SEQUENCE_ROOTS_REFUSED:
            raise _invalid(
                f"cannot order rows by '{name}' of type {by_name[name].type}",
                "take a number, text, date or time as 'sequence.field'",
                table,
                column=name,
            )
