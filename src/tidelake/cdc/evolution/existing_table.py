"""Whether a table that is there can be the target of a source, and its options.

Each column of the definition must be in the table, with a type that converts into the other's in
one direction; the table may have more that allow nulls. Source: Paimon's ``schemaCompatible``,
``checkConstraints`` and ``alterTableOptions``. Two rules go further: the keys must be those of the
definition, since deletes name rows by them, and so must ``sequence.field``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tidelake.cdc.evolution.new_table import SEQUENCE_FIELD, TargetDefinition
from tidelake.cdc.evolution.target_engine import engine_problem
from tidelake.cdc.evolution.type_change import TypeChange, type_change
from tidelake.errors import InvalidInputError
from tidelake.options import declared
from tidelake.types import TableSchema
from tidelake.types.schema_change import SetOption


def misfits(schema: TableSchema, wanted: TargetDefinition) -> Iterator[str]:
    """Say what keeps a table from being the target, a clause each; nothing if it fits."""
    known = {f.name: f.type for f in schema.fields}
    for column in wanted.fields:
        own = known.get(column.name)
        if own is None:
            yield f"it has no column '{column.name}' of type {column.type.as_nullable()}"
        elif TypeChange.CONVERT not in {
            type_change(column.type, own),
            type_change(own, column.type),
        }:
            yield f"its column '{column.name}' is {own}, the source's {column.type}"
    given = {f.name for f in wanted.fields}
    for own_field in schema.fields:
        if own_field.name not in given and not own_field.type.nullable:
            yield f"its column '{own_field.name}' is NOT NULL, and the source has none"
        elif own_field.name not in given and own_field.name in schema.partition_keys:
            yield f"its partition key '{own_field.name}' is no column of the source"
    for what, own_keys, asked in (
        ("primary key", schema.primary_keys, wanted.primary_keys),
        ("partition keys", schema.partition_keys, wanted.partition_keys),
    ):
        # a table that was made with partitions keeps them where none are asked for
        if set(own_keys) != set(asked) and (asked or what == "primary key"):
            yield f"its {what} ({', '.join(own_keys)}) would be ({', '.join(asked)})"
    if schema.primary_keys:
        problem = engine_problem(schema.options, sends_whole_rows=wanted.sends_whole_rows)
        if problem is not None:
            yield problem
    own_order, order = schema.options.get(SEQUENCE_FIELD), wanted.options.get(SEQUENCE_FIELD)
    if order is not None and own_order != order:
        yield f"its '{SEQUENCE_FIELD}' is {own_order or 'not set'}, not {order}"


def check_fits(schema: TableSchema, wanted: TargetDefinition) -> None:
    """Refuse a table that cannot be the target.

    Raises
    ------
    InvalidInputError
        With all reasons: kind ``cdc_table_differs``.
    """
    found = list(misfits(schema, wanted))
    if found:
        raise differs(wanted.identifier, found)


def differs(identifier: str, reasons: Sequence[str]) -> InvalidInputError:
    """Make the error of a table that cannot be the target."""
    advice = "Choose another name, make the table again, or leave its source out"
    if any(SEQUENCE_FIELD in reason or "_cdc_" in reason for reason in reasons):
        advice += "; without order columns (--sequence none) it needs none"
    message = f"Table '{identifier}' does not fit its source: {'; '.join(reasons)}. {advice}."
    return InvalidInputError(message, kind="cdc_table_differs", table=identifier)


def option_changes(schema: TableSchema, table_conf: Mapping[str, str]) -> tuple[SetOption, ...]:
    """Give the options of a table that a job sets at its start: those that may change.

    Not the number of buckets, as in Paimon.
    """
    return tuple(
        SetOption(key, value)
        for key, value in table_conf.items()
        if schema.options.get(key) != value and key != declared.BUCKET.key and _may_change(key)
    )


def _may_change(key: str) -> bool:
    option = declared.BY_KEY.get(key)
    return option is None or option.mutable
