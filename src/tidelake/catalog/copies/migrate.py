"""Makes a table of another format a table of the catalog, in place: its files stay as they are.

1. The format's reader finds the files, and the footers say what they hold. What does not fit is
   refused here, and a dry run ends.
2. The table is created and filled as by a copy (:mod:`tidelake.catalog.copies.new_table`): on one
   file system by hard links, so the source stays readable and no byte is moved.
3. With `delete_origin` the source's files are deleted last, one by one, if its directory holds what
   it held at the beginning. Whatever came meanwhile stays, and a new table below it, too.

Source: Paimon's ``MigrateTableProcedure`` and ``HiveMigrator`` (1.3.1), which ask a Hive metastore
and rename the files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

from tidelake.catalog.copies.new_table import create, fill, taken
from tidelake.catalog.identifier import Identifier
from tidelake.catalog.metastore import Metastore
from tidelake.errors import (
    InvalidInputError,
    TidelakeError,
    UnsupportedError,
    counted,
    near_names,
)
from tidelake.fileio import FileIO
from tidelake.metadata.paths import TablePaths
from tidelake.options import Options, declared
from tidelake.table.handle.handle import TableHandle
from tidelake.table.job.plan import Runner
from tidelake.table.migration.delta_log import delta_table
from tidelake.table.migration.foreign_table import IncomingTable
from tidelake.table.migration.iceberg_metadata import METADATA_SUFFIXES, iceberg_table
from tidelake.table.migration.moved_in import (
    ForeignRows,
    copies_of_rows,
    read_footers,
    schemas_of,
)
from tidelake.table.migration.parquet_directory import parquet_directory
from tidelake.telemetry import Env
from tidelake.types import TableSchema
from tidelake.types.field_ids import with_new_ids

PARQUET, HIVE, DELTA, ICEBERG = "parquet", "hive", "delta", "iceberg"
KINDS = (PARQUET, HIVE, DELTA, ICEBERG)
NO_BUCKETS = "-1"


@dataclass(frozen=True, slots=True)
class MigrateResult:
    """A table of another format that became one of Paimon's, or would.

    Parameters
    ----------
    source, table : str
        The source's directory, and the table's name.
    snapshot_id : int, optional
        The table's snapshot; None of an empty table and of a dry run.
    rows_count, files_count, size_bytes : int
        What the table has.
    linked_count : int
        Files that no byte was moved for by this process.
    schemas_count : int
        Versions of the columns: more than one where files differ.
    note : str
        Why the source stays, though it was to be deleted.
    not_null : tuple of str
        Columns that are NOT NULL as in the source: no file has a null there.
    not_carried : tuple of str
        What the source declares and the table does not have: ``"CHECK positive: k > 0"``.
    """

    source: str
    table: str
    snapshot_id: int | None = None
    rows_count: int = 0
    files_count: int = 0
    size_bytes: int = 0
    linked_count: int = 0
    schemas_count: int = 1
    partition_keys: tuple[str, ...] = ()
    origin_deleted: bool = False
    dry_run: bool = False
    note: str = ""
    not_null: tuple[str, ...] = ()
    not_carried: tuple[str, ...] = ()

    def __str__(self) -> str:
        verb = "would become" if self.dry_run else "is"
        text = (
            f"{self.source} {verb} table {self.table}: {self.rows_count:,} rows in"
            f" {counted(self.files_count, 'file')} ({self.size_bytes:,} bytes)"
        )
        if not self.dry_run:
            text += f", {self.linked_count} files without moving a byte"
        if self.note:
            text += f"; {self.note}"
        elif self.origin_deleted:
            text += "; the source is deleted"
        if self.not_null:
            text += f"; NOT NULL as there: {', '.join(self.not_null)}"
        if self.not_carried:
            text += f"; not carried: {', '.join(self.not_carried)}"
        return text


class MigrateRequest(NamedTuple):
    """Arguments of :meth:`tidelake.catalog.Catalog.migrate_table`."""

    kind: str
    location: str
    options: Mapping[str, object]
    partition_types: Mapping[str, str]
    delete_origin: bool


class TargetTable(NamedTuple):
    """How the catalog makes the table."""

    first_schema: Callable[..., TableSchema]
    open_target: Callable[[], TableHandle]


def migrate(
    metastore: Metastore,
    source: FileIO,
    name: Identifier,
    request: MigrateRequest,
    *,
    new: TargetTable,
    env: Env,
    runner: Runner,
    dry_run: bool,
) -> MigrateResult:
    """Make a table; see :meth:`tidelake.catalog.Catalog.migrate_table`."""
    if metastore.has_table(name):
        raise taken(name)
    if request.delete_origin and request.location.endswith(METADATA_SUFFIXES):
        message = (
            f"The source cannot be deleted: {request.location} may tell of an older state, and"
            " newer rows would go. Give the table's directory, or leave delete_origin out."
        )
        raise InvalidInputError(message, kind="migrate_nested", table=str(name))
    before = _all_files(source, request.location) if request.delete_origin else None
    found = _found(source, request)
    rows = read_footers(source, found, env)
    keys = tuple(field.name for field in rows.table.partition_fields)
    if request.options.get(declared.BUCKET.key, NO_BUCKETS) not in (NO_BUCKETS, -1):
        message = f"Table '{name}': files of others go into a table without buckets: bucket = -1."
        raise InvalidInputError(message, kind="migrate_bucket", table=str(name))
    made = new.first_schema(
        str(name), rows.fields, partition_keys=keys, options=_options(rows, request, name)
    )
    schemas = schemas_of(rows, made)
    if metastore.is_served and (len(schemas) > 1 or not _counts_from_zero(schemas[0])):
        message = (
            f"'{name}' is kept by a server, which numbers the columns itself, and files of"
            f" {request.location} have others. Move it into a catalog of directories first."
        )
        raise UnsupportedError(message, kind="migrate_server", table=str(name))
    options = Options.parse(made.options, table=str(name))
    result = MigrateResult(
        source.uri_of(rows.table.location),
        str(name),
        None,
        rows.rows_count,
        len(rows.footers),
        rows.size_bytes,
        schemas_count=len(schemas),
        partition_keys=keys,
        dry_run=dry_run,
        not_null=rows.not_null,
        not_carried=rows.not_carried,
    )
    # what cannot be told of a file is found here, before there is a table, and by a dry run too
    copies_of_rows(source, rows, TablePaths.of(rows.table.location, schemas[-1]), options, env)
    if request.delete_origin:
        _check_apart(metastore, source, name, rows.table.location)
    if dry_run:
        return result
    metastore.create_database(name.database)
    create(metastore, name, schemas)
    try:
        handle = new.open_target()
        plan = copies_of_rows(source, rows, handle.paths, options, env)
    except BaseException:
        with suppress(TidelakeError):  # the failure before is raised
            metastore.drop_table(name)
        raise
    done = fill(metastore, name, handle, plan, runner)
    result = replace(
        result,
        snapshot_id=done.snapshot_ids[0] if done.snapshot_ids else None,
        linked_count=done.files,
    )
    if before is None:
        return result
    if _delete_origin(source, rows.table.location, before):
        return replace(result, origin_deleted=True)
    return replace(result, note="the source stays: files came or went in it meanwhile")


def _options(rows: ForeignRows, request: MigrateRequest, name: Identifier) -> dict[str, object]:
    """The options that the source asks for, and those that were given."""
    options = {**rows.table.options, **request.options}
    if not rows.has_vectors:
        return options
    key = declared.DELETION_VECTORS_ENABLED.key
    given = str(options.setdefault(key, "true"))
    if given.strip().lower() != "true":
        message = (
            f"Table '{name}': rows of {rows.table.location} are deleted by deletion vectors, which"
            f" a table with {key} = {given} does not have. Leave the option out."
        )
        raise InvalidInputError(message, kind="migrate_vectors", table=str(name))
    return options


def _check_apart(metastore: Metastore, source: FileIO, name: Identifier, location: str) -> None:
    """Refuse to delete a directory that holds the warehouse's tables, or lies in the new one."""
    old = f"{source.uri_of(location)}/"
    made = f"{metastore.fileio.uri_of(metastore.location(name))}/"
    if old.startswith(made) or made.startswith(old):
        message = (
            f"The source {location} cannot be deleted: table '{name}' is to lie in"
            f" {metastore.location(name)}. Leave delete_origin out."
        )
        raise InvalidInputError(message, kind="migrate_nested", table=str(name))


def _all_files(fileio: FileIO, directory: str) -> frozenset[tuple[str, int]]:
    """Paths and sizes of all files below a directory, hidden ones too."""
    found: set[tuple[str, int]] = set()
    for status in fileio.list_dir(directory):
        path = f"{directory}/{status.name}"
        if status.is_dir:
            found |= _all_files(fileio, path)
        else:
            found.add((path, status.size_bytes))
    return frozenset(found)


def _delete_origin(fileio: FileIO, directory: str, before: frozenset[tuple[str, int]]) -> bool:
    """Delete the files that were there at the beginning; False if they are not the same now."""
    if _all_files(fileio, directory) != before:
        return False
    for path, _ in sorted(before):
        fileio.delete(path)
    if not _all_files(fileio, directory):
        fileio.delete_dir(directory)
    return True


def _found(source: FileIO, request: MigrateRequest) -> IncomingTable:
    if request.kind not in KINDS:
        message = (
            f"'{request.kind}' is no kind of source.{near_names(request.kind, KINDS)} Kinds are:"
            f" {', '.join(KINDS)}."
        )
        raise InvalidInputError(message, kind="bad_argument", argument="kind")
    if request.partition_types and request.kind != HIVE:
        message = f"partition_types are of a Hive-style table: one of {request.kind} has its own."
        raise InvalidInputError(message, kind="bad_argument", argument="partition_types")
    if request.kind == DELTA:
        return delta_table(source, request.location)
    if request.kind == ICEBERG:
        return iceberg_table(source, request.location)
    found = parquet_directory(source, request.location, partition_types=request.partition_types)
    if request.kind == PARQUET and found.partition_fields:
        message = f"{request.location} has directories of partitions: give the kind 'hive'."
        raise InvalidInputError(message, kind="hive_layout", path=request.location)
    return found


def _counts_from_zero(schema: TableSchema) -> bool:
    return with_new_ids(schema.fields) == schema.fields
