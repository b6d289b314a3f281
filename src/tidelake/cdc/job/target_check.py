"""What a target would be, found out before anything is made in the source or in the lake.

1. The definition, with its options, as ``Catalog.create_table`` would take it.
2. Of a table that is there: the changes that make it follow its sources, what keeps it from that,
   and the options that a start sets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tidelake.cdc.evolution.existing_table import differs, misfits, option_changes
from tidelake.cdc.evolution.new_table import TargetDefinition
from tidelake.cdc.evolution.plan import EvolutionAction, plan_evolution
from tidelake.cdc.job.targets import Targets
from tidelake.cdc.source.source_table import SourceName, SourceTable
from tidelake.engine.schemas import evolved_schema
from tidelake.engine.tables import Table
from tidelake.types import TableSchema
from tidelake.types.schema_change import SchemaChange


@dataclass(frozen=True, slots=True)
class ExpectedTarget:
    """A target as it would be.

    Parameters
    ----------
    changes : tuple of SchemaChange
        Of a table that is there.
    notes : tuple of str
        What the job does by itself, and what was asked for and is not so, a sentence each.
    reasons : tuple of str
        Why it cannot be the target, a clause each.
    """

    definition: TargetDefinition
    is_new: bool = True
    changes: tuple[SchemaChange, ...] = ()
    notes: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()


def expected_target(
    targets: Targets,
    identifier: str,
    tables: Sequence[SourceTable],
    followed: Mapping[SourceName, SourceTable] | None = None,
) -> ExpectedTarget:
    """Find out what a target would be.

    Parameters
    ----------
    followed : mapping of SourceName to SourceTable, optional
        The versions of tables that the job follows already: where one changed so that it must be
        copied again, or cannot follow, the job copies or suspends it, and goes on.

    Raises
    ------
    InvalidInputError, UnsupportedError
        It cannot be defined, or an option is wrong.
    """
    wanted = targets.definition(identifier, tables)
    found = ExpectedTarget(wanted, notes=wanted.notes)
    if not targets.catalog.table_exists(identifier):
        targets.catalog.first_schema(
            identifier,
            wanted.fields,
            primary_keys=wanted.primary_keys,
            partition_keys=wanted.partition_keys,
            options=wanted.options,
        )
        return found
    existing = targets.catalog.table(identifier)
    assert isinstance(existing, Table), "no system table is a target"
    followed = followed or {}
    found = _followed(targets, existing.table_schema, tables, followed, found)
    if not found.reasons and any(table.name not in followed for table in tables):
        schema = _evolved(targets, existing, found.changes)
        found = replace(found, reasons=tuple(misfits(schema, wanted)))
    options = option_changes(existing.table_schema, targets.settings.options.table_conf)
    _evolved(targets, existing, options)  # refuses one that is wrong
    return found


def check_target(
    targets: Targets,
    identifier: str,
    tables: Sequence[SourceTable],
    followed: Mapping[SourceName, SourceTable] | None = None,
) -> None:
    """Refuse a target that could not be made, or that does not fit.

    Parameters
    ----------
    followed : mapping of SourceName to SourceTable, optional
        As of :func:`expected_target`.

    Raises
    ------
    InvalidInputError, UnsupportedError
        It cannot be made, or the table that is there does not fit.
    """
    found = expected_target(targets, identifier, tables, followed)
    if found.reasons:
        raise differs(identifier, found.reasons)


def _followed(
    targets: Targets,
    schema: TableSchema,
    tables: Sequence[SourceTable],
    followed: Mapping[SourceName, SourceTable],
    found: ExpectedTarget,
) -> ExpectedTarget:
    """What makes a table follow its sources, one after the other."""
    changes: list[SchemaChange] = []
    notes: list[str] = list(found.notes)
    reasons: list[str] = []
    for table in tables:
        rules = replace(
            targets.settings.evolution,
            shares_target=len(tables) > 1,
            computed_from=targets.maker(table).computed.sources,
        )
        before = followed.get(table.name)
        plan = plan_evolution(schema, table, before, rules)
        if plan.action is EvolutionAction.SUSPEND and before is None:
            reasons += plan.reasons
            continue
        if plan.action is EvolutionAction.SUSPEND:
            notes.append(f"The job will suspend {table.name}: {plan.reason}.")
            continue
        if plan.action is EvolutionAction.REREAD and before is not None:
            notes.append(f"The job will copy {table.name} again by itself: {plan.reason}.")
        notes += plan.warnings
        changes += plan.changes
        if plan.changes:
            schema = evolved_schema(
                schema,
                plan.changes,
                table=found.definition.identifier,
                has_snapshots=True,
                time_ms=targets.catalog.env.clock.now_ms(),
            )
    return ExpectedTarget(
        found.definition, False, tuple(changes), tuple(notes), tuple(dict.fromkeys(reasons))
    )


def _evolved(targets: Targets, table: Table, changes: Sequence[SchemaChange]) -> TableSchema:
    schema = table.table_schema
    if not changes:
        return schema
    return evolved_schema(
        schema,
        changes,
        table=table.identifier,
        has_snapshots=table.latest_snapshot_id is not None,
        time_ms=targets.catalog.env.clock.now_ms(),
    )
