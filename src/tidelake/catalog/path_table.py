"""Tables at a path of their own, outside any warehouse: opened, and made where asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidelake.catalog.new_table import check_agrees, first_schema
from tidelake.errors import NotFoundError
from tidelake.fileio import FileIO
from tidelake.metadata.log.schema_log import SchemaLog
from tidelake.metadata.manifest.manifest_cache import ManifestCache
from tidelake.metadata.paths import TablePaths
from tidelake.options import Options
from tidelake.table import Table, TableHandle
from tidelake.telemetry import Env
from tidelake.types import DataField

__all__ = ["AskedTable", "table_at"]


@dataclass(frozen=True, slots=True)
class AskedTable:
    """What the table at a path is said to be.

    Parameters
    ----------
    fields : tuple of DataField
        Its columns; without any, whatever table is there will do.
    primary_keys, partition_keys, options
        As of :meth:`tidelake.Catalog.create_table`.
    auto_create : bool
        Whether to make it where there is none.
    """

    fields: tuple[DataField, ...] = ()
    primary_keys: tuple[str, ...] = ()
    partition_keys: tuple[str, ...] = ()
    options: Mapping[str, object] = field(default_factory=dict)
    auto_create: bool = False


def table_at(location: str, asked: AskedTable, *, name: str, env: Env, fileio: FileIO) -> Table:
    """Open the table at a path.

    Parameters
    ----------
    location : str
        An absolute path.
    asked : AskedTable
        What is expected there.
    name : str
        What messages call it.
    env, fileio
        As of :class:`tidelake.Catalog`.

    Returns
    -------
    Table

    Raises
    ------
    NotFoundError
        There is none.
    InvalidInputError
        The table that is there is another one.
    """
    log = SchemaLog(fileio, TablePaths(location))
    schema = log.latest()
    if schema is None:
        if not asked.auto_create:
            message = (
                f"There is no table at {location}: give the path of one, or make it with the option"
                " 'auto-create' = 'true'."
            )
            raise NotFoundError(message, kind="table_not_found", table=name, path=location)
        new_schema = first_schema(
            asked.fields,
            table=name,
            primary_keys=asked.primary_keys,
            partition_keys=asked.partition_keys,
            table_options=asked.options,
            comment=None,
            time_ms=env.clock.now_ms(),
        )
        log.create(new_schema)  # of two that make it at once, the second takes the first one's
        schema = log.latest()
        assert schema is not None, "the schema that was just published is there"
    if asked.fields:
        check_agrees(
            schema,
            asked.fields,
            table=name,
            primary_keys=asked.primary_keys,
            partition_keys=asked.partition_keys,
            table_options=asked.options,
        )
    return Table(
        TableHandle(
            identifier=name,
            fileio=fileio,
            paths=TablePaths.of(location, schema),
            schema=schema,
            options=Options.parse(schema.options, table=name),
            env=env,
            manifests=ManifestCache(env.memory.manifest_cache_bytes),
        )
    )
