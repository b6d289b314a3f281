"""The two tables of a feed: the target, and the changes that are kept for late ones.

Type 1 has the row of each key, ordered by ``sequence.field``. Type 2 has a row for each version,
under the key and its start. Neither shows deletes, and a full compaction forgets those of type 1,
so a change older than a delete would bring the key back. The second table,
``<table>__apply_changes``, keeps what the target does not show:

- the newest delete of each key (type 1), all deletes (type 2);
- all changes, where nulls leave values as they are or only some columns open a version: there the
  rows of the target do not say what each change was.

It is written before the target, with the same rows if a batch comes again. Its option
:data:`DEFINITION_OPTION` says for which target and which arguments it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import types as st

from tidelake.engine.tables import Catalog, SystemTable, Table
from tidelake.engine.write import DEDUPLICATE
from tidelake.errors import InvalidInputError
from tidelake.options import declared
from tidelake.spark.expression.types import fields_from_spark, to_spark_type
from tidelake.spark.streams.applychanges.definition import OPERATION, FeedDefinition

DEFINITION_OPTION = "apply-changes.definition"
TRUNCATED_OPTION = "apply-changes.truncated-at"
"""Options of the table of kept changes. On disk: never rename."""
_MICROSECONDS = 6
_POSTPONED = -2


@dataclass(frozen=True, slots=True)
class TargetTables:
    """The target and the kept changes."""

    target: Table
    kept: Table


def target_tables(
    catalog: Catalog,
    definition: FeedDefinition,
    columns: st.StructType,
    options: Mapping[str, object] | None,
) -> TargetTables:
    """Make the tables that are missing, and check those that are there.

    Parameters
    ----------
    columns : StructType
        Has the types of the definition's columns.
    options : mapping, optional
        Options of a target that is made.

    Raises
    ------
    InvalidInputError
        A table that is there has other columns, keys or options; nothing was made.
    """
    name = definition.table
    wanted = _target_columns(definition, columns)
    given = {key: str(value) for key, value in (options or {}).items()}
    if catalog.table_exists(name):
        target = _data_table(catalog, name)
        _check_target(target, definition, wanted)
    else:
        _check_options(given, definition)
        if catalog.table_exists(definition.kept_table):
            raise _of_a_dropped_table(definition)
        order = {} if definition.keeps_versions else {_SEQUENCE: _listed(definition)}
        target = catalog.create_table(
            name,
            fields_from_spark(wanted, table=name),
            primary_keys=definition.target_keys,
            options={**given, **order, **_bucket_key(given, definition)},
            if_exists="ignore",
        )
        _check_target(target, definition, wanted)
    return TargetTables(target, _kept_table(catalog, definition, columns, target))


_SEQUENCE = declared.SEQUENCE_FIELD.key


def _listed(definition: FeedDefinition) -> str:
    return ",".join(definition.target_sequence)


def _bucket_key(options: Mapping[str, str], definition: FeedDefinition) -> dict[str, str]:
    """Keep the versions of a key in one bucket."""
    is_fixed = options.get(declared.BUCKET.key, "-1").lstrip("+").isdecimal()
    if not is_fixed or not definition.keeps_versions or "bucket-key" in options:
        return {}
    return {"bucket-key": ",".join(definition.keys)}


def _target_columns(definition: FeedDefinition, columns: st.StructType) -> st.StructType:
    """The columns of a target that is made."""
    found = [st.StructField(name, columns[name].dataType) for name in definition.columns]
    known = set(definition.columns)
    for names in (definition.target_sequence, definition.target_ends):
        found += [
            st.StructField(name, data_type)
            for name, data_type in zip(names, definition.sequence_types, strict=False)
            if name not in known
        ]
    return st.StructType(found)


def _check_options(options: Mapping[str, str], definition: FeedDefinition) -> None:
    own = [key for key in (_SEQUENCE, declared.MERGE_ENGINE.key) if key in options]
    if own:
        message = (
            f"The options of table '{definition.table}' name '{own[0]}', which follows from"
            " sequence_by and scd_type: leave it out."
        )
        raise InvalidInputError(message, kind="apply_changes", table=definition.table)


def _check_target(target: Table, definition: FeedDefinition, wanted: st.StructType) -> None:
    found = list(_misfits(target, definition, wanted))
    if found:
        message = (
            f"Table '{definition.table}' does not fit these changes: {'; '.join(found)}. Give the"
            " arguments that it was made by, or another name."
        )
        raise InvalidInputError(message, kind="apply_changes", table=definition.table)


def _misfits(target: Table, definition: FeedDefinition, wanted: st.StructType) -> Iterator[str]:
    """Say what keeps a table from being the target, a clause each."""
    handle = target.handle
    schema, options = handle.schema, handle.options
    if set(schema.primary_keys) != set(definition.target_keys):
        keys = ", ".join(schema.primary_keys) or "none"
        yield f"its primary key is {keys}, not {', '.join(definition.target_keys)}"
    if schema.keys_may_move:
        yield "a key may change its partition: the partition columns are not among the key"
    if options.get(declared.MERGE_ENGINE) != DEDUPLICATE:
        yield f"its merge engine is '{options.get(declared.MERGE_ENGINE)}', not '{DEDUPLICATE}'"
    order = None if definition.keeps_versions else _listed(definition)
    own = options.get(declared.SEQUENCE_FIELD)
    if (own or None) != order:
        yield f"its '{_SEQUENCE}' is {own or 'not set'}, not {order or 'unset'}"
    if options.get(declared.SEQUENCE_FIELD_SORT_ORDER) == "descending":
        yield "its sequence is descending"
    if options.get(declared.IGNORE_DELETE):
        yield "it ignores deletes"
    if options.get(declared.BUCKET) == _POSTPONED:
        yield "its rows wait in the postpone bucket, where they are not read"
    yield from _misfits_of_columns(target, definition, wanted)


def _misfits_of_columns(
    target: Table, definition: FeedDefinition, wanted: st.StructType
) -> Iterator[str]:
    schema = target.handle.schema
    known = {field.name: field for field in schema.fields}
    sequence = {*definition.target_sequence, *definition.target_ends}
    for column in wanted.fields:
        field = known.get(column.name)
        if field is None:
            yield f"it has no column '{column.name}'"
            continue
        own_type = to_spark_type(field.type, column=field.name, table=definition.table)
        if own_type != column.dataType:
            text = f"{own_type.simpleString()}, not {column.dataType.simpleString()}"
            yield f"its column '{column.name}' is {text}"
        elif isinstance(own_type, st.TimestampType | st.TimestampNTZType) and (
            column.name in sequence and field.type.precision != _MICROSECONDS
        ):
            yield f"its column '{column.name}' is {field.type}: a sequence needs microseconds"
    given = set(wanted.fieldNames())
    for field in schema.fields:
        if field.name not in given:
            yield f"its column '{field.name}' is none of the changes"
        elif not field.type.nullable and field.name not in definition.target_keys:
            yield f"its column '{field.name}' is NOT NULL, and a delete has no value for it"


def _kept_table(
    catalog: Catalog, definition: FeedDefinition, columns: st.StructType, target: Table
) -> Table:
    """Make the table of kept changes, or check that it is the target's."""
    name = definition.kept_table
    created_ms = target.handle.schemas.load(0).time_ms
    text = definition.to_json(created_ms)
    if not catalog.table_exists(name):
        if definition.keeps_all and target.latest_snapshot_id is not None:
            message = (
                f"Table '{definition.table}' has rows, but there is no '{name}' with the changes"
                " that made them: with ignore_null_updates or track_history_columns begin with an"
                " empty table."
            )
            raise InvalidInputError(message, kind="apply_changes", table=definition.table)
        fields, keys = _kept_columns(definition, columns)
        order = {} if OPERATION in keys else {_SEQUENCE: ",".join(definition.kept_sequence)}
        bucket = target.handle.options.get(declared.BUCKET)
        fixed = {declared.BUCKET.key: bucket, "bucket-key": ",".join(definition.keys)}
        catalog.create_table(
            name,
            fields_from_spark(fields, table=name),
            primary_keys=keys,
            options={**order, **(fixed if bucket > 0 else {}), DEFINITION_OPTION: text},
            comment=f"Changes kept for late ones of {definition.table}: do not write to it",
            if_exists="ignore",
        )
    kept = _data_table(catalog, name)
    own = kept.handle.schema.options.get(DEFINITION_OPTION)
    if own != text:
        raise _of_another(definition, own, created_ms)
    return kept


def _kept_columns(
    definition: FeedDefinition, columns: st.StructType
) -> tuple[st.StructType, tuple[str, ...]]:
    """Columns and key of the kept changes."""
    fields = [st.StructField(name, columns[name].dataType) for name in definition.keys]
    sequence = zip(definition.kept_sequence, definition.sequence_types, strict=True)
    fields += [st.StructField(name, data_type) for name, data_type in sequence]
    fields.append(st.StructField(OPERATION, st.StringType()))
    if definition.keeps_all:
        fields += [st.StructField(name, columns[name].dataType) for name in definition.values]
    if not definition.keeps_versions and not definition.keeps_all:
        return st.StructType(fields), definition.keys
    return st.StructType(fields), (*definition.keys, *definition.kept_sequence, OPERATION)


def _of_another(definition: FeedDefinition, own: str | None, created_ms: int) -> InvalidInputError:
    found = _parsed(own)
    if found.get("target_created_ms") not in {None, created_ms}:
        return _of_a_dropped_table(definition)
    wanted = _parsed(definition.to_json(created_ms))
    differ = [key for key in wanted if found.get(key) != wanted[key]]
    message = (
        f"Table '{definition.kept_table}' keeps the changes of '{definition.table}' for other"
        f" arguments: {_differences(differ, found, wanted)}. Give those, or begin with other"
        " tables."
    )
    return InvalidInputError(message, kind="apply_changes", table=definition.table)


def _of_a_dropped_table(definition: FeedDefinition) -> InvalidInputError:
    name = definition.kept_table
    message = (
        f"Table '{name}' keeps changes of an earlier table '{definition.table}', which was dropped:"
        f" drop '{name}' too."
    )
    return InvalidInputError(message, kind="apply_changes", table=definition.table)


def _differences(
    names: Sequence[str], found: Mapping[str, object], wanted: Mapping[str, object]
) -> str:
    return ", ".join(f"{name} was {found.get(name)}, not {wanted[name]}" for name in names)


def _parsed(text: str | None) -> dict[str, object]:
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _data_table(catalog: Catalog, name: str) -> Table:
    found = catalog.table(name)
    if isinstance(found, SystemTable):
        message = f"'{name}' is a system table: changes are applied to the table that it describes."
        raise InvalidInputError(message, kind="system_table", table=name)
    return found
