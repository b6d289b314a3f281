"""Alters a table whose rows must fulfil what is new: a constraint, or a column without nulls.

1. The changes are applied to the newest schema, without publishing it; so a wrong one is refused
   before any row is read.
2. The live rows are read, only of files that may hold a violation by their statistics. One that
   violates is an error with the count of them and the first.
3. The schema is published. If other commits came since the read, the new state is read too; where a
   row violates, the constraint is taken back.

A writer that opened the table before goes on by the schema that it knows. Cost: a read of the
constraint's columns; memory: a batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tidelake.errors import InvalidInputError, counted, shortened
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.options import CONSTRAINT_PREFIX, Options
from tidelake.table.handle.handle import TableHandle
from tidelake.table.read.table_scan import scan_all_rows
from tidelake.table.schema.alter import alter_table
from tidelake.table.schema.constraints import Constraint, Constraints
from tidelake.table.schema.evolution import evolved_schema
from tidelake.types import TableSchema
from tidelake.types.predicate import IsNull
from tidelake.types.schema_change import (
    RemoveOption,
    SchemaChange,
    SetOption,
    UpdateColumnNullability,
)

UNCHANGED = "Nothing was changed."


def alter_checked(handle: TableHandle, changes: Sequence[SchemaChange]) -> TableHandle:
    """Change a table's schema; see :func:`tidelake.table.schema.alter.alter_table`.

    Raises
    ------
    InvalidInputError
        Rows of the table violate a constraint that is added, or have nulls in a column that becomes
        NOT NULL; nothing was changed.
    """
    if not any(map(_may_exclude_rows, changes)):
        return alter_table(handle, changes)
    latest = handle.schemas.latest()
    if latest is None:  # it was dropped: the error is alter's
        return alter_table(handle, changes)
    new = evolved_schema(
        latest,
        changes,
        table=handle.identifier,
        has_snapshots=handle.snapshots.latest_id() is not None,
        time_ms=handle.env.clock.now_ms(),
    )
    added = tuple(_added(latest, new, table=handle.identifier))
    if not added:
        return alter_table(handle, changes)
    draft = replace(handle, schema=latest)
    snapshot = handle.snapshots.latest()
    if snapshot is not None:
        _check_columns(latest, new, added, table=handle.identifier)
        _check_rows(draft, snapshot, added)
    altered = alter_table(handle, changes)
    newest = handle.snapshots.latest()
    if newest is not None and (snapshot is None or newest.id != snapshot.id):
        _check_again(draft, altered, newest, added)
    return altered


def _may_exclude_rows(change: SchemaChange) -> bool:
    if isinstance(change, SetOption):
        return str(change.key).startswith(CONSTRAINT_PREFIX)
    return isinstance(change, UpdateColumnNullability) and not change.nullable


def _added(old: TableSchema, new: TableSchema, *, table: str) -> Iterator[Constraint]:
    """What rows must fulfil that the old schema did not ask for."""
    options = Options.parse(new.options, table=table)
    for constraint in Constraints.of(new, options, table=table).every:
        if old.options.get(constraint.option) != constraint.text:
            yield constraint
    nullable = {f.id for f in old.fields if f.type.nullable}
    for field in new.fields:
        if field.id in nullable and not field.type.nullable:
            text = f"{field.name} IS NOT NULL"
            yield Constraint("NOT NULL", text, (field.name,), IsNull(field.name))


def _check_columns(
    old: TableSchema, new: TableSchema, added: Sequence[Constraint], *, table: str
) -> None:
    """Refuse a constraint on a column that the same statement adds, renames or retypes."""
    known = {(f.name, f.type.as_nullable()) for f in old.fields}
    for constraint in added:
        for name in constraint.columns:
            if (name, new.field(name).type.as_nullable()) not in known:
                message = (
                    f"Constraint '{constraint.name}' of table '{table}' names the column '{name}',"
                    " which the same statement changes: change the column first, and add the"
                    " constraint in a statement of its own."
                )
                raise InvalidInputError(message, kind="bad_constraint", table=table, column=name)


def _check_rows(draft: TableHandle, snapshot: Snapshot | None, added: Sequence[Constraint]) -> None:
    table = draft.identifier
    for constraint in added:
        count, shown = 0, ""
        columns = tuple(dict.fromkeys((*draft.schema.primary_keys, *constraint.columns)))
        scan = scan_all_rows(draft, snapshot, constraint.violated, columns=columns)
        every = Constraints(table, draft.schema.fields, draft.schema.primary_keys)
        for rows in scan.batches():
            if rows.num_rows and not count:
                shown = every.shown(constraint, rows.slice(0, 1))
            count += rows.num_rows
        if count:
            verb = "violates" if count == 1 else "violate"
            message = (
                f"Constraint '{constraint.name}' ({shortened(constraint.text)}) cannot be added to"
                f" table '{table}': {counted(count, 'row')} of it {verb} it, such as {shown}."
                f" Correct or delete these rows first. {UNCHANGED}"
            )
            raise InvalidInputError(
                message,
                kind="constraint",
                table=table,
                constraint=constraint.name,
                column=", ".join(constraint.columns),
                rows=count,
            )


def _check_again(
    draft: TableHandle, altered: TableHandle, newest: Snapshot, added: Sequence[Constraint]
) -> None:
    """Take the constraints back if rows came meanwhile that violate them."""
    try:
        _check_rows(draft, newest, added)
    except InvalidInputError as refusal:
        back: list[SchemaChange] = []
        for constraint in added:
            before = draft.schema.options.get(constraint.option)
            if constraint.option not in altered.schema.options:
                back.append(UpdateColumnNullability(constraint.columns[0], nullable=True))
            elif before is None:
                back.append(RemoveOption(constraint.option))
            else:
                back.append(SetOption(constraint.option, before))
        alter_table(altered, back)
        message = (
            f"{refusal.message.removesuffix(UNCHANGED)}They came while the table was altered, so"
            " what excludes them was taken back; other changes of the statement stay."
        )
        raise InvalidInputError(message, kind="constraint", **refusal.context) from refusal
