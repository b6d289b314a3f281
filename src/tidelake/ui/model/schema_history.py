"""The schemas of a table, each with what it changed."""

from __future__ import annotations

from dataclasses import dataclass

from tidelake.engine.tables import TableHandle
from tidelake.options.masked import masked
from tidelake.types.schema import DataField, TableSchema


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """One schema.

    Parameters
    ----------
    changes : tuple of str
        What differs from the schema before; of the first one, its columns.
    """

    id: int
    time_ms: int
    columns: int
    options: int
    changes: tuple[str, ...]


def schema_history(handle: TableHandle) -> tuple[SchemaVersion, ...]:
    """Read all schemas, the newest first."""
    schemas = handle.schemas
    found, before = [], None
    for number in sorted(schemas.ids()):
        schema = schemas.load(number)
        changes = _made(schema) if before is None else changes_between(before, schema)
        found.append(
            SchemaVersion(
                schema.id, schema.time_ms, len(schema.fields), len(schema.options), changes
            )
        )
        before = schema
    return tuple(reversed(found))


def _made(schema: TableSchema) -> tuple[str, ...]:
    lines = [f"table created with {', '.join(schema.field_names)}"]
    if schema.primary_keys:
        lines.append(f"primary key {', '.join(schema.primary_keys)}")
    if schema.partition_keys:
        lines.append(f"partitioned by {', '.join(schema.partition_keys)}")
    return tuple(lines)


def changes_between(before: TableSchema, after: TableSchema) -> tuple[str, ...]:
    """What a schema changed: columns by their ids, keys, options, the comment."""
    old = {field.id: field for field in before.fields}
    new = {field.id: field for field in after.fields}
    lines = [f"column {new[n].name} {new[n].type} added" for n in new if n not in old]
    lines += [f"column {old[n].name} dropped" for n in old if n not in new]
    for number in new:
        if number in old:
            lines += _field_changes(old[number], new[number])
    if not lines and before.field_names != after.field_names:
        lines.append(f"columns in another order: {', '.join(after.field_names)}")
    lines += _option_changes(before, after)
    if before.comment != after.comment:
        lines.append("comment removed" if not after.comment else f"comment: {after.comment}")
    return tuple(lines) or ("nothing that is shown here",)


def _field_changes(old: DataField, new: DataField) -> list[str]:
    lines = []
    if old.name != new.name:
        lines.append(f"column {old.name} renamed to {new.name}")
    if old.type != new.type:
        lines.append(f"column {new.name} from {old.type} to {new.type}")
    if old.description != new.description:
        lines.append(f"comment of column {new.name}: {new.description or 'removed'}")
    if old.default_value != new.default_value:
        lines.append(f"default of column {new.name}: {new.default_value or 'removed'}")
    return lines


def _option_changes(before: TableSchema, after: TableSchema) -> list[str]:
    lines = []
    for key in sorted({*before.options, *after.options}):
        old, new = before.options.get(key), after.options.get(key)
        if old == new:
            continue
        lines.append(f"option {key} unset" if new is None else f"option {key} = {masked(key, new)}")
    return lines
