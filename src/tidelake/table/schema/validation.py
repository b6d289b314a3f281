"""The rules that every version of a table's schema obeys, new or altered.

1. Columns: names are valid, distinct and not reserved; this version covers their types. Names that
   differ only in case are not distinct, because SQL ignores case. A table that another engine made
   with such names stays as it is.
2. Keys: they exist and name no column twice; the primary key holds a column that is not a partition
   column. If it lacks a partition column, keys may change partition.
3. Options that name columns (``bucket-key``, ``sequence.field``, ``fields.*``) name existing ones,
   and the number of buckets fits the keys.

Source: Paimon's ``SchemaValidation`` and ``Schema`` (1.3.1). Nothing is written here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tidelake.codec.bucket import check_bucket_function
from tidelake.commit.iceberg import check_iceberg
from tidelake.errors import InvalidInputError, UnsupportedError, near_names, shortened
from tidelake.fileio.name import validate_name
from tidelake.format import check_timestamps
from tidelake.format.file_index import check_file_indexes
from tidelake.merge import MergeSpec
from tidelake.merge.spec import DEDUPLICATE, FIRST_ROW
from tidelake.metadata.partition_name import has_partition_text
from tidelake.options import Options, declared
from tidelake.options.file_index import file_index_settings
from tidelake.options.key_pattern import columns_in
from tidelake.options.option import Option
from tidelake.store import RecordExpiry
from tidelake.table.schema.constraints import Constraints
from tidelake.types import DataField, DataType, TableSchema, TypeRoot
from tidelake.types.arrow import child_types
from tidelake.types.data_type import fault_of
from tidelake.types.default_value import default_scalar

RESERVED_NAMES = frozenset(
    {"_SEQUENCE_NUMBER", "_VALUE_KIND", "_LEVEL", "rowkind", "_ROW_ID", "_row_kind"}
)
RESERVED_PREFIX = "_KEY_"

MERGE_SUFFIXES = (".sequence-group", ".aggregate-function")

SEQUENCE_ROOTS_REFUSED = frozenset(
    {TypeRoot.BOOLEAN, TypeRoot.BINARY, TypeRoot.VARBINARY, TypeRoot.VARIANT}
)


def check_columns(
    fields: Sequence[DataField],
    *,
    primary_keys: tuple[str, ...],
    partition_keys: tuple[str, ...],
    table: str,
    before: Sequence[DataField] = (),
) -> None:
    """Check names and keys.

    Parameters
    ----------
    before : sequence of DataField
        The columns before: names that differed only in case there may stay so.

    Raises
    ------
    InvalidInputError, UnsupportedError
        A name is a duplicate, reserved or invalid; a key does not exist or does not fit.
    """
    by_name = {f.name: f for f in fields}
    check_twice([f.name for f in fields], table)
    alike = names_alike([f.name for f in fields])
    if alike is not None and not set(alike) <= {f.name for f in before}:
        raise _names_alike(alike, table)
    for name in by_name:
        _check_column_name(name, table)
    for what, names in (("primary key", primary_keys), ("partition key", partition_keys)):
        for name in names:
            _check_exists(name, what, by_name, table)
    _check_keys(primary_keys, partition_keys, by_name, table)


def check_types(fields: Sequence[DataField], *, table: str) -> None:
    """Refuse invalid types, and those that cannot be stored.

    Raises
    ------
    InvalidInputError, UnsupportedError
        The message names the column.
    """
    for field in fields:
        _check_type(field.type, field.name, table)
        _check_default(field, table)
    check_timestamps(fields, what=f"Table '{table}'")


def check_keys_may_move(schema: TableSchema, options: Options, *, table: str) -> None:
    """Refuse what a table whose keys may change partition cannot have.

    Raises
    ------
    InvalidInputError, UnsupportedError
        An option or a key column, which the message names.
    """
    if not schema.keys_may_move:
        return
    outside = next(name for name in schema.partition_keys if name not in schema.primary_keys)
    begin = (
        f"Table '{table}' is partitioned by '{outside}', which is not part of its primary key"
        f" ({', '.join(schema.primary_keys)}), so a key may change its partition"
    )
    bucket = options.get(declared.BUCKET)
    if bucket != -1:
        message = (
            f"{begin}. That needs 'bucket' = '-1', not '{bucket}': leave the option out, or add"
            f" '{outside}' to the primary key."
        )
        raise InvalidInputError(message, kind="cross_partition", table=table, column=outside)
    if options.get(declared.SEQUENCE_FIELD):
        key = declared.SEQUENCE_FIELD.key
        message = (
            f"{begin}. With option '{key}' a row could lose to one of another partition that no"
            " merge sees. Paimon refuses it too: unset it, or order columns by sequence groups"
            " under 'merge-engine' = 'partial-update'."
        )
        raise UnsupportedError(message, kind="cross_partition", table=table, option=key)
    if options.get(declared.MERGE_ENGINE) == DEDUPLICATE and options.get(declared.IGNORE_DELETE):
        key = declared.IGNORE_DELETE.key
        message = (
            f"{begin}. With option '{key}' the delete in the old partition would have no effect,"
            " and the key would be in both: unset it, or let the option 'ignore-update-before'"
            " leave out the rows of kind -U."
        )
        raise UnsupportedError(message, kind="cross_partition", table=table, option=key)
    _check_partition_is_constant(schema, options, begin, table)
    for name in schema.primary_keys:
        if schema.field(name).type.root in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
            message = (
                f"{begin}. Its rows are found by comparing keys, which is not supported for column"
                f" '{name}' of type {schema.field(name).type}: use a key of another type."
            )
            raise UnsupportedError(message, kind="cross_partition", table=table, column=name)


def _check_partition_is_constant(
    schema: TableSchema, options: Options, begin: str, table: str
) -> None:
    """Refuse a function or a sequence group that would change a partition column."""
    for key, value in options.raw.items():
        columns = columns_in(key)
        if columns is None or not key.endswith(MERGE_SUFFIXES):
            continue
        members = value if key.endswith(MERGE_SUFFIXES[0]) else ""
        for name in (*columns.split(","), *members.split(",")):
            if name.strip() in schema.partition_keys:
                message = (
                    f"{begin}. Under 'merge-engine' = '{options.get(declared.MERGE_ENGINE)}' it"
                    f" stays in its first partition, so option '{shortened(key)}' cannot change"
                    f" '{name.strip()}': unset it, or leave the column out."
                )
                raise InvalidInputError(message, kind="cross_partition", table=table, option=key)


def _check_default(field: DataField, table: str) -> None:
    if field.default_value is None:
        return
    try:
        default_scalar(field.default_value, field.type, zone="UTC")
    except (InvalidInputError, UnsupportedError) as error:
        raise invalid_schema(
            f"has an invalid default of column '{shortened(field.name)}':"
            f" {error.message.removesuffix('.')}",
            "leave it out or give a text that is a value of the type",
            table,
            column=field.name,
        ) from error


def _check_type(data_type: DataType, place: str, table: str) -> None:
    fault = fault_of(data_type)
    if fault is None and data_type.root is TypeRoot.ROW:
        names = [name for _, name in data_type.child_fields]
        if not names:
            fault = "it has no fields: give it at least one"
        elif len(set(names)) != len(names) or "" in names:
            fault = "its fields need distinct names"
        elif (alike := names_alike(names)) is not None:
            raise _names_alike(alike, table, inside=place)
    if fault is not None:
        message = (
            f"Column '{shortened(place)}' of table '{table}' cannot have type {data_type}: {fault}."
        )
        raise InvalidInputError(message, kind="bad_schema", table=table, column=place)
    for name, child in child_types(data_type) if data_type.is_nested else ():
        _check_type(child, f"{place}.{name}", table)


def check_layout(schema: TableSchema, parsed: Options, *, table: str) -> None:
    """Check partitions, buckets and options against the columns.

    Parameters
    ----------
    schema : TableSchema
        The schema; its columns and keys are already checked.

    Raises
    ------
    InvalidInputError, UnsupportedError
        The message names the column or option.
    """
    by_name = {f.name: f for f in schema.fields}
    _check_key_types(schema, parsed, by_name, table)
    _check_partition_types(schema, parsed, table)
    _check_buckets(schema, parsed, by_name, table)
    check_keys_may_move(schema, parsed, table=table)
    _check_sequence(schema, parsed, by_name, table)
    _check_first_row(parsed, table)
    _check_producer(schema, parsed, table)
    check_marks(parsed, table=table)
    _check_ignored_changes(parsed, by_name, table)
    _check_row_kind_field(schema, parsed, by_name, table)
    _check_field_options(schema.options, by_name, table)
    Constraints.of(schema, parsed, table=table)
    check_row_tracking(schema, parsed, table=table)
    if schema.primary_keys:
        MergeSpec.of(schema, parsed)  # refuses what does not fit together
    RecordExpiry.of(schema, parsed, table=table)
    check_iceberg(schema, parsed, table=table)
    check_file_indexes(schema.fields, file_index_settings(replace(parsed, table=table)))


def invalid_schema(what: str, advice: str, table: str, **context: object) -> InvalidInputError:
    """The error for an invalid schema."""
    message = f"Table '{table}' {what}: {advice}."
    return InvalidInputError(message, kind="bad_schema", table=table, **context)


def check_twice(names: Sequence[str], table: str) -> None:
    """Refuse a duplicate name."""
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise invalid_schema(f"has column '{twice[0]}' twice", "name each column once", table)


def names_alike(names: Sequence[str]) -> tuple[str, str] | None:
    """The first two names that differ only in case.

    Examples
    --------
    >>> names_alike(["id", "v", "ID"]), names_alike(["id", "v"])
    (('id', 'ID'), None)
    """
    known: dict[str, str] = {}
    for name in names:
        other = known.setdefault(name.casefold(), name)
        if other != name:
            return other, name
    return None


def _names_alike(alike: tuple[str, str], table: str, *, inside: str = "") -> InvalidInputError:
    first, second = (shortened(f"{inside}.{name}" if inside else name) for name in alike)
    message = (
        f"Table '{table}' cannot have both columns '{first}' and '{second}', which differ only in"
        " case: SQL could not distinguish them. Choose another name for one of them."
    )
    return InvalidInputError(message, kind="column_case", table=table, column=second)


def _check_column_name(name: str, table: str) -> None:
    validate_name(name, "column")
    if name in RESERVED_NAMES or name.upper().startswith(RESERVED_PREFIX):
        raise invalid_schema(
            f"cannot have a column '{name}', a name that data files reserve",
            "choose another name",
            table,
            column=name,
        )


def _check_exists(name: str, what: str, by_name: Mapping[str, DataField], table: str) -> None:
    if name not in by_name:
        raise invalid_schema(
            f"has no column '{shortened(name)}', which its {what} names."
            f"{near_names(name, by_name)} Its columns are {', '.join(by_name)}",
            "name one of them",
            table,
            column=name,
            named_by=what,
        )


def _check_keys(
    keys: tuple[str, ...],
    partitions: tuple[str, ...],
    by_name: Mapping[str, DataField],
    table: str,
) -> None:
    if not keys:
        return
    if set(keys) <= set(partitions):
        raise invalid_schema(
            "has a primary key of partition columns only, so each partition would hold one row",
            "add another column to the primary key",
            table,
        )
    if len(by_name) == len(partitions):
        raise invalid_schema("has partition columns only", "add a column", table)


def _check_key_types(
    schema: TableSchema, parsed: Options, by_name: Mapping[str, DataField], table: str
) -> None:
    """Refuse nested columns and variants as key or order columns."""
    sequence = (parsed.get(declared.SEQUENCE_FIELD) or "").split(",")
    for what, names in (
        ("primary key", schema.primary_keys),
        ("partition key", schema.partition_keys),
        ("'bucket-key'", schema.bucket_keys),
        ("'sequence.field'", [name.strip() for name in sequence]),
    ):
        for name in names:
            data_type = by_name[name].type if name in by_name else None
            if data_type is not None and (
                data_type.is_nested or data_type.root is TypeRoot.VARIANT
            ):
                raise invalid_schema(
                    f"has column '{name}' of type {data_type.as_nullable()} in its {what}",
                    "take a column of a scalar type",
                    table,
                    column=name,
                )


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
    """Refuse options of missing columns."""
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
        raise invalid_schema(
            f"cannot have 'bucket' = {bucket}",
            "give a number above 0, or -1",
            table,
            option=declared.BUCKET.key,
        )
    if bucket != -1 and all(name in by_name for name in schema.bucket_keys):
        types = [by_name[name].type for name in schema.bucket_keys]
        check_bucket_function(parsed.get(declared.BUCKET_FUNCTION_TYPE), types)
    if not parsed.is_set(declared.BUCKET_KEY):
        if not schema.primary_keys and bucket > 0:
            raise invalid_schema(
                f"has 'bucket' = {bucket} without a primary key and without 'bucket-key'",
                "set 'bucket-key' to the columns whose hash decides the bucket, or 'bucket' = -1",
                table,
                option=declared.BUCKET_KEY.key,
            )
        return
    for name in schema.bucket_keys:
        _check_exists(name, "option 'bucket-key'", by_name, table)
        if name in schema.partition_keys:
            raise invalid_schema(
                f"has partition column '{name}' in 'bucket-key'",
                "leave it out: inside a partition it is constant",
                table,
                option=declared.BUCKET_KEY.key,
            )
        if schema.primary_keys and name not in schema.trimmed_primary_keys:
            raise invalid_schema(
                f"has '{name}' in 'bucket-key', which is not part of its primary key"
                f" ({', '.join(schema.primary_keys)})",
                "rows of one key would scatter; use columns of the primary key",
                table,
                option=declared.BUCKET_KEY.key,
            )
    if bucket == -1:
        raise invalid_schema(
            "has 'bucket-key' without buckets",
            "set 'bucket' to their number, or leave it out",
            table,
            option=declared.BUCKET_KEY.key,
        )


def _check_row_kind_field(
    schema: TableSchema, parsed: Options, by_name: Mapping[str, DataField], table: str
) -> None:
    name = parsed.get(declared.ROWKIND_FIELD)
    if not name or not schema.primary_keys:
        return
    _check_exists(name, "option 'rowkind.field'", by_name, table)
    if by_name[name].type.root not in (TypeRoot.CHAR, TypeRoot.VARCHAR):
        raise invalid_schema(
            f"cannot take row kinds from column '{name}' of type {by_name[name].type}",
            "take a text column as 'rowkind.field'",
            table,
            column=name,
        )


def _check_first_row(parsed: Options, table: str) -> None:
    """Refuse what contradicts the engine that keeps the oldest row."""
    if parsed.get(declared.MERGE_ENGINE) != FIRST_ROW:
        return
    why: dict[Option[Any], str] = {
        declared.SEQUENCE_FIELD: "which keeps the row that was written first",
        declared.DELETION_VECTORS_ENABLED: "which never deletes a row",
    }
    if parsed.get(declared.PK_CLUSTERING_OVERRIDE):  # Paimon 2 allows the option there
        del why[declared.DELETION_VECTORS_ENABLED]
    for option, reason in why.items():
        if parsed.get(option):
            raise invalid_schema(
                f"has '{option.key}' under 'merge-engine' = '{FIRST_ROW}', {reason}",
                "leave the option out, or take 'deduplicate'",
                table,
                option=option.key,
            )
    producer = parsed.get(declared.CHANGELOG_PRODUCER)
    if producer not in ("none", "lookup"):
        raise invalid_schema(
            f"has 'changelog-producer' = '{producer}' under 'merge-engine' = '{FIRST_ROW}'",
            "take 'lookup', which reports each first row once",
            table,
            option=declared.CHANGELOG_PRODUCER.key,
        )


def _check_producer(schema: TableSchema, parsed: Options, table: str) -> None:
    producer = parsed.get(declared.CHANGELOG_PRODUCER)
    if producer != "none" and not schema.primary_keys:
        raise invalid_schema(
            f"has 'changelog-producer' = '{producer}' without a primary key",
            "leave the option out: every row of an append table is an insert",
            table,
            option=declared.CHANGELOG_PRODUCER.key,
        )


def check_marks(parsed: Options, *, table: str) -> None:
    """Refuse a changelog producer that deletion vectors make useless.

    Raises
    ------
    InvalidInputError
        A full compaction would report changes, but each compaction deletes the older rows.
    """
    if not parsed.get(declared.DELETION_VECTORS_ENABLED):
        return
    producer = parsed.get(declared.CHANGELOG_PRODUCER)
    if producer == "full-compaction":
        key = declared.DELETION_VECTORS_ENABLED.key
        raise invalid_schema(
            f"has 'changelog-producer' = '{producer}' with '{key}' = 'true', whose compactions do"
            " not leave the older rows to a full one",
            "take 'lookup': with deletion vectors each write looks up the rows it replaces anyway",
            table,
            option=declared.CHANGELOG_PRODUCER.key,
        )


def check_row_tracking(schema: TableSchema, parsed: Options, *, table: str) -> None:
    """Refuse row tracking where rows have no place of their own, as Paimon does.

    Raises
    ------
    InvalidInputError
        The table has a primary key or buckets.
    """
    if not parsed.get(declared.ROW_TRACKING_ENABLED):
        return
    key = declared.ROW_TRACKING_ENABLED.key
    if schema.primary_keys:
        raise invalid_schema(
            f"has '{key}' = 'true' and a primary key",
            "leave the option out: the primary key identifies a row",
            table,
            option=key,
        )
    if parsed.get(declared.BUCKET) != -1:
        raise invalid_schema(
            f"has '{key}' = 'true' and 'bucket' = {parsed.get(declared.BUCKET)}",
            "leave 'bucket' and 'bucket-key' out",
            table,
            option=key,
        )


def _check_ignored_changes(parsed: Options, by_name: Mapping[str, DataField], table: str) -> None:
    option = declared.CHANGELOG_PRODUCER_ROW_DEDUPLICATE_IGNORE_FIELDS
    for name in filter(None, map(str.strip, (parsed.get(option) or "").split(","))):
        _check_exists(name, f"option '{option.key}'", by_name, table)


def _check_sequence(
    schema: TableSchema, parsed: Options, by_name: Mapping[str, DataField], table: str
) -> None:
    text = parsed.get(declared.SEQUENCE_FIELD)
    if not text:
        return
    names = [part.strip() for part in text.split(",")]
    if not schema.primary_keys:
        raise invalid_schema(
            "has 'sequence.field' without a primary key",
            "leave the option out",
            table,
            option=declared.SEQUENCE_FIELD.key,
        )
    for name in names:
        _check_exists(name, "option 'sequence.field'", by_name, table)
        if names.count(name) > 1:
            raise invalid_schema(f"names '{name}' twice in 'sequence.field'", "name it once", table)
        if by_name[name].type.root in SEQUENCE_ROOTS_REFUSED:
            raise invalid_schema(
                f"cannot order rows by '{name}' of type {by_name[name].type}",
                "take a number, text, date or time as 'sequence.field'",
                table,
                column=name,
            )
