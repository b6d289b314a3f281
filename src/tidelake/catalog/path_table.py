"""Tables at a path, outside of any warehouse."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidelake.catalog.table_definition import check_agrees, first_schema
from tidelake.errors import NotFoundError
from tidelake.fileio import FileIO
from tidelake.metadata.log.schema_log import SchemaLog
from tidelake.metadata.manifest.manifest_cache import ManifestCache
from tidelake.metadata.paths import TablePaths
from tidelake.options import Options
from tidelake.table import Table, TableHandle
from tidelake.telemetry import Env
from tidelake.types import DataField


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """Expected definition of the table at a path.

    Parameters
    ----------
    fields : tuple of DataField
        Its columns; empty accepts any table.
    auto_create : bool
        Create a missing table.
    """

    fields: tuple[DataField, ...] = ()
    primary_keys: tuple[str, ...] = ()
    partition_keys: tuple[str, ...] = ()
    options: Mapping[str, object] = field(default_factory=dict)
    auto_create: bool = False


def table_at(
    location: str, definition: TableDefinition, *, name: str, env: Env, fileio: FileIO
) -> Table:
    """Open the table at a path.

    Parameters
    ----------
    location : str
        An absolute path.

    Returns
    -------
    Table

    Raises
    ------
    NotFoundError
        There is no table.
    InvalidInputError
        The table has another definition.
    """
    log = SchemaLog(fileio, TablePaths(location))
    schema = log.latest()
    if schema is None:
        if not definition.auto_create:
            message = (
                f"There is no table at {location}: give the path of a table, or create it with the"
                " option 'auto-create' = 'true'."
            )
            raise NotFoundError(message, kind="table_not_found", table=name, path=location)
        new_schema = first_schema(
            definition.fields,
            table=name,
            primary_keys=definition.primary_keys,
            partition_keys=definition.partition_keys,
            table_options=definition.options,
            comment=None,
            time_ms=env.clock.now_ms(),
        )
        log.create(new_schema)  # of two concurrent creators, the second uses the first one's
        schema = log.latest()
        assert schema is not None, "the schema that was just published is there"
    if definition.fields:
        check_agrees(
            schema,
            definition.fields,
            table=name,
            primary_keys=definition.primary_keys,
            partition_keys=definition.partition_keys,
            table_options=definition.options,
        )
    return Table(
        TableHandle(
            identifier=name,
            fileio=fileio,
            paths=TablePaths.of(location, schema),
            schema=schema,
            options=Options.parse(schema.options, table=name),
            env=env,
            manifests=ManifestCache(env.memory.manifest_cache_bytes, reads=env.reads.ranges),
        )
    )
