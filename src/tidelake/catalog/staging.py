"""Staged tables: written in the staging directory, then moved to their location.

A file system cannot swap two directories at once. So the new table is written to the staging
directory. Then the old table's directory is moved beside it, the new one's to the table's location,
and the old one is deleted. Between the two moves the table does not exist: a reader gets an error,
and a process that dies leaves both tables, whole, below :data:`STAGING_DIRECTORY`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from tidelake.catalog.catalog import Catalog
from tidelake.catalog.dropped_directories import STAGING_DIRECTORY
from tidelake.catalog.identifier import Identifier
from tidelake.catalog.path_table import TableDefinition, table_at
from tidelake.commit.iceberg import sync_quietly
from tidelake.commit.shown_partitions import show_partitions_quietly
from tidelake.errors import TidelakeError, UnsupportedError
from tidelake.metadata.log.schema_log import SchemaLog
from tidelake.metadata.paths import TablePaths
from tidelake.table import Table


def staged_table(
    catalog: Catalog,
    identifier: str,
    schema: object,
    *,
    primary_keys: Sequence[str] = (),
    partition_keys: Sequence[str] = (),
    options: Mapping[str, object] | None = None,
    comment: str | None = None,
) -> Table:
    """Create a table in the staging directory.

    Returns
    -------
    Table
        Write to it, then call :func:`put_in_place` or :func:`discard`.

    Raises
    ------
    InvalidInputError, UnsupportedError
        Names, columns, keys or options are wrong; nothing was written.
    """
    if catalog.metastore.is_served:
        message = (
            f"Table '{identifier}' cannot be made beside its place: {catalog.metastore.shown} is"
            " kept by a server. Drop the table and create it again, or overwrite its rows."
        )
        raise UnsupportedError(message, kind="replace_table", table=identifier)
    made = catalog.first_schema(
        identifier,
        schema,
        primary_keys=primary_keys,
        partition_keys=partition_keys,
        options=options,
        comment=comment,
    )
    location = f"{catalog.warehouse.rstrip('/')}/{STAGING_DIRECTORY}/{catalog.env.ids.uuid()}"
    if catalog.fileio.is_remote:
        _check_moves(catalog, location, table=identifier)
    SchemaLog(catalog.fileio, TablePaths.of(location, made)).create(made)
    return table_at(
        location, TableDefinition(), name=identifier, env=catalog.env, fileio=catalog.fileio
    )


def _check_moves(catalog: Catalog, location: str, *, table: str) -> None:
    """Refuse a storage without moves before any row is written: it is asked to move nothing."""
    try:
        catalog.fileio.move_dir(location, f"{location}-moved")
    except UnsupportedError as error:
        message = (
            f"Table '{table}' cannot be made beside its place, because {catalog.uri} cannot move a"
            " directory. Drop the table and create it again, or overwrite its rows."
        )
        raise UnsupportedError(message, kind="replace_table", table=table) from error
    except TidelakeError:
        return  # there is no such directory


def put_in_place(catalog: Catalog, staged: Table) -> None:
    """Move a staged table to its location; an existing table is dropped.

    Its Iceberg metadata named files of the staging directory, so it is made again. Its commits
    there could not show their partitions in the catalog, so that is done now.

    Raises
    ------
    StorageError
        The storage failed. The old table is still there, unless the process dies between the two
        moves.
    """
    catalog.metastore.put_in_place(Identifier.of(staged.identifier), staged.paths.location)
    with suppress(TidelakeError):  # it is in place; another process may have dropped it already
        table = catalog.table(staged.identifier)
        if isinstance(table, Table):  # the name is no system table's
            context, log = table.handle.commit_context(), table.handle.snapshots
            sync_quietly(context)
            show_partitions_quietly(context, [log.load(number) for number in log.ids()])


def discard(catalog: Catalog, staged: Table) -> None:
    """Delete a staged table."""
    with suppress(TidelakeError):  # report the failure before
        catalog.fileio.delete_dir(staged.paths.location)
