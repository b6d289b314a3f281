"""Tables that are written out of sight, and then put in the place of others.

A warehouse of files has no change of two directories at once. So the new table is written whole in
a directory of the warehouse where nobody looks for tables; then the old table's directory is moved
beside it, the new one's to the old one's place, and the old one is deleted. Between the two moves
there is no table under the name: a reader that opens it then is told so, and a process that dies
then leaves both, whole, below :data:`STAGING_DIRECTORY`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from tidelake.catalog.aside import STAGING_DIRECTORY
from tidelake.catalog.filesystem import Catalog
from tidelake.catalog.path_table import AskedTable, table_at
from tidelake.errors import TidelakeError
from tidelake.metadata.log.schema_log import SchemaLog
from tidelake.metadata.paths import TablePaths
from tidelake.table import Table

__all__ = ["STAGING_DIRECTORY", "discard", "put_in_place", "staged_table"]

_REPLACED = "-replaced"


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
    """Make a table out of sight.

    Parameters
    ----------
    catalog : Catalog
        Whose table it shall become.
    identifier, schema, primary_keys, partition_keys, options, comment
        As of :meth:`tidelake.Catalog.create_table`.

    Returns
    -------
    Table
        To be written, and given to :func:`put_in_place` or :func:`discard`.

    Raises
    ------
    InvalidInputError, UnsupportedError
        What is wrong with names, columns, keys or options; nothing was written.
    """
    made = catalog.first_schema(
        identifier,
        schema,
        primary_keys=primary_keys,
        partition_keys=partition_keys,
        options=options,
        comment=comment,
    )
    location = f"{catalog.warehouse.rstrip('/')}/{STAGING_DIRECTORY}/{catalog.env.ids.uuid()}"
    SchemaLog(catalog.fileio, TablePaths.of(location, made)).create(made)
    return table_at(location, AskedTable(), name=identifier, env=catalog.env, fileio=catalog.fileio)


def put_in_place(catalog: Catalog, staged: Table) -> None:
    """Put a staged table in the place of the one of its name, which is dropped, if there is one.

    Raises
    ------
    StorageError
        The storage failed; the table that was there is there, or the message of a crash between the
        moves is the module's.
    """
    database = staged.identifier.partition(".")[0]
    catalog.create_database(database, if_exists="ignore")
    files, place, new = catalog.fileio, catalog.location(staged.identifier), staged.paths.location
    old = f"{new}{_REPLACED}"
    there = files.exists(place)
    if there:
        files.move_dir(place, old)
    try:
        files.move_dir(new, place)
    except TidelakeError:
        if there:
            with suppress(TidelakeError):  # the first failure is the one to tell of
                files.move_dir(old, place)
        raise
    files.delete_dir(old)


def discard(catalog: Catalog, staged: Table) -> None:
    """Delete a staged table."""
    with suppress(TidelakeError):  # what failed before is the thing to tell of
        catalog.fileio.delete_dir(staged.paths.location)
