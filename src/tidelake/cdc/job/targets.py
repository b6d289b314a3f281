"""The targets of a job: which table goes where, how a target is made, and the open ones."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tidelake.cdc.evolution.existing_table import check_fits, option_changes
from tidelake.cdc.evolution.key_columns import key_columns
from tidelake.cdc.evolution.merged_table import merged_table
from tidelake.cdc.evolution.new_table import TargetDefinition, TargetOptions, new_table
from tidelake.cdc.evolution.plan import EvolutionRules
from tidelake.cdc.journal.job_state import JobState, Phase
from tidelake.cdc.routing.routing import Routing
from tidelake.cdc.source.source_table import OldRows, SourceName, SourceTable
from tidelake.cdc.target.row_maker import AddedColumns, RowMaker
from tidelake.cdc.target.target import Target
from tidelake.engine.tables import Catalog, Table

_LOG = logging.getLogger("tidelake")


@dataclass(frozen=True, slots=True)
class LakeSettings:
    """What a job asks of its targets.

    Parameters
    ----------
    job : str
        The job's name.
    options : TargetOptions
        Of new targets, but for partition keys, which the routing knows, and added columns.
    ignores_incompatible : bool
        Whether a table that does not fit its target is left out, in place of an error.
    quarantine_max : int
        Rows in the quarantine before the job stops.
    reread_max : int
        Rows of a target that is copied again by itself.
    """

    job: str
    routing: Routing
    columns: AddedColumns = field(default_factory=AddedColumns)
    options: TargetOptions = field(default_factory=TargetOptions)
    evolution: EvolutionRules = field(default_factory=EvolutionRules)
    ignores_incompatible: bool = False
    quarantine_max: int = 1_000
    reread_max: int = 10_000_000


class Targets:
    """The targets of one job. For one thread."""

    def __init__(self, catalog: Catalog, settings: LakeSettings) -> None:
        self.catalog = catalog
        self.settings = settings
        self._open: dict[str, Target] = {}
        self._makers: dict[SourceTable, RowMaker] = {}

    def routes(self, tables: Sequence[SourceTable]) -> dict[SourceName, str]:
        """Name the targets of the tables that the job takes.

        Raises
        ------
        InvalidInputError
            Two tables meet at one target by mistake.
        """
        routes = self.settings.routing.routes([table.name for table in tables])
        return {name: route.target for route in routes for name in route.sources}

    def takes(self, name: SourceName) -> bool:
        """Whether the patterns let a table through."""
        return self.settings.routing.filter.takes(name)

    def definition(self, identifier: str, tables: Sequence[SourceTable]) -> TargetDefinition:
        """Define the target of some tables.

        Raises
        ------
        InvalidInputError
            A type has no counterpart, a key is missing, or the tables do not merge.
        """
        settings = self.settings
        merged = merged_table(
            [_loose(table) for table in tables], case_sensitive=settings.columns.case_sensitive
        )
        maker = self.maker(tables[0])
        options = replace(
            settings.options,
            partition_keys=settings.routing.partition_keys_for(tables[0].name),
            added=(*maker.computed.fields, *settings.columns.metadata.fields),
            computed_from=maker.computed.sources,
        )
        return new_table(identifier, merged, options)

    def make(self, identifier: str, tables: Sequence[SourceTable]) -> None:
        """Create a target, or look that an existing one fits.

        Raises
        ------
        InvalidInputError
            It does not fit, or cannot be made.
        """
        wanted = self.definition(identifier, tables)
        for note in wanted.notes:
            _LOG.warning("Job '%s': %s", self.settings.job, note)
        if not self.catalog.table_exists(identifier):
            self.catalog.create_table(
                identifier,
                wanted.fields,
                primary_keys=wanted.primary_keys,
                partition_keys=wanted.partition_keys,
                options=wanted.options,
                comment=wanted.comment,
                if_exists="ignore",
            )
        table = self.catalog.table(identifier)
        assert isinstance(table, Table), "no system table is a target"
        check_fits(table.table_schema, wanted)
        changes = option_changes(table.table_schema, self.settings.options.table_conf)
        if changes:
            table.alter(*changes)
        self._open.pop(identifier, None)

    def target(self, identifier: str, state: JobState) -> Target:
        """Open a target, or give the open one."""
        found = self._open.get(identifier)
        if found is None:
            table = self.catalog.table(identifier)
            assert isinstance(table, Table), "no system table is a target"
            found = self._open[identifier] = Target(table, state.made.get(identifier))
        return found

    def key_columns(self, version: SourceTable, state: JobState) -> frozenset[str]:
        """Give the columns of a version, besides its key, of which its target's key is made.

        Parameters
        ----------
        version : SourceTable
            It may be newer than the one of the state: a renamed column is known by its number.
        """
        table = state.tables.get(version.name)
        if table is None or table.phase is not Phase.LIVE:
            return frozenset()
        name = self.settings.columns.name
        known = {name(column.name): column for column in table.version.columns}
        read = key_columns(
            self.target(table.target, state).handle.schema.primary_keys,
            self.maker(table.version).computed.sources,
            known,
        )
        numbers = {known[one].number for one in read} - {None}
        return frozenset(
            column.name
            for column in version.columns
            if column.name not in version.keys
            and (name(column.name) in read or column.number in numbers)
        )

    def maker(self, table: SourceTable) -> RowMaker:
        """Give the maker of rows of one version of a source table."""
        found = self._makers.get(table)
        if found is None:
            found = self._makers[table] = self.settings.columns.maker(table)
        return found


def _loose(table: SourceTable) -> SourceTable:
    """A table whose columns may be null where its source's deletes name keys alone."""
    if table.old_rows is OldRows.ALL:
        return table
    columns = tuple(
        column
        if column.type is None or column.name in table.keys
        else replace(column, type=column.type.as_nullable())
        for column in table.columns
    )
    return replace(table, columns=columns)
