"""The directories of a warehouse: ``<warehouse>/<database>.db/<table>``.

Each path is checked to be inside the warehouse. Which tables exist is the metastore's to say: a
directory with a schema is one only where there is no other register.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from contextlib import suppress

from tidelake.catalog.dropped_directories import DroppedDirectories
from tidelake.catalog.identifier import Identifier
from tidelake.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NotFoundError,
    TidelakeError,
)
from tidelake.fileio import FileIO
from tidelake.fileio.name import validate_name
from tidelake.fileio.object_store import DIRECTORY_MARKER
from tidelake.metadata.log.schema_log import SchemaLog
from tidelake.metadata.paths import TablePaths
from tidelake.telemetry import Ids
from tidelake.types import TableSchema

DATABASE_SUFFIX = ".db"
TABLES_NAMED_MAX = 5
_REPLACED = "-replaced"


class Warehouse:
    """Directories of databases and tables.

    Parameters
    ----------
    path : str
        Absolute path of the warehouse.
    """

    def __init__(self, path: str, fileio: FileIO, ids: Ids) -> None:
        self.path = posixpath.normpath(path)
        self.fileio = fileio
        self.ids = ids

    @property
    def uri(self) -> str:
        """The directory as users write it."""
        return self.fileio.uri_of(self.path).rstrip("/") or "/"

    def database_path(self, name: str) -> str:
        """Directory of a database."""
        return self._inside(f"{validate_name(name, 'database')}{DATABASE_SUFFIX}")

    def table_path(self, name: Identifier) -> str:
        """Directory of a table."""
        directory = posixpath.basename(self.database_path(name.database))
        return self._inside(f"{directory}/{validate_name(name.table, 'table')}")

    def _inside(self, relative: str) -> str:
        """Join a path below the warehouse; a second check after the names'."""
        root = self.path.rstrip("/")  # a bucket's root is "/"
        path = posixpath.normpath(f"{root}/{relative}")
        if path != f"{root}/{relative}":
            message = f"'{relative}' leaves the warehouse {self.path}: choose another name."
            raise InvalidInputError(message, kind="bad_name", path=path)
        return path

    def check_stands_alone(self) -> None:
        """Refuse a warehouse within a database of another: to drop that would delete this one.

        Raises
        ------
        InvalidInputError
            A directory above it is a database's.
        """
        parts = self.path.split("/")
        for count, part in enumerate(parts, start=1):
            if part.endswith(DATABASE_SUFFIX) and part != DATABASE_SUFFIX:
                outer = self.fileio.uri_of("/".join(parts[:count]))
                message = (
                    f"The warehouse {self.fileio.uri_of(self.path)} lies in {outer}, a database of"
                    " another warehouse, and would be deleted with it: choose another place."
                )
                raise InvalidInputError(message, kind="warehouse_inside", path=self.path)

    def check_holds_no_other(self, database_path: str) -> None:
        """Refuse to delete a database's directory that holds another warehouse.

        Raises
        ------
        InvalidInputError
            A directory in it is a database.
        """
        for entry in self.fileio.list_dir(database_path):
            if entry.is_dir and entry.name.endswith(DATABASE_SUFFIX):
                message = (
                    f"{self.fileio.uri_of(database_path)} holds {entry.name}, a database of another"
                    " warehouse: move that away first."
                )
                raise InvalidInputError(message, kind="warehouse_inside", path=database_path)

    def database_names(self) -> list[str]:
        """Names of the directories of databases, sorted.

        Raises
        ------
        InvalidInputError
            The directory is a table's or a database's.
        """
        directories = [entry.name for entry in self.fileio.list_dir(self.path) if entry.is_dir]
        found = sorted(
            name.removesuffix(DATABASE_SUFFIX)
            for name in directories
            if name.endswith(DATABASE_SUFFIX) and name != DATABASE_SUFFIX
        )
        if directories and not found:
            self._refuse_inner_directory(directories)
        return found

    def _refuse_inner_directory(self, directories: Sequence[str]) -> None:
        """Refuse the directory of a table or a database as a warehouse."""
        above, _, own = self.path.rpartition("/")
        if "schema" in directories and self.holds_table(self.path):
            what = "table"
            advice = "open the directory above its database"
            if above.endswith(DATABASE_SUFFIX):
                database = posixpath.basename(above).removesuffix(DATABASE_SUFFIX)
                where = self.fileio.uri_of(posixpath.dirname(above))
                advice = f"open {where}, and name the table {database}.{own}"
        elif own.endswith(DATABASE_SUFFIX):
            what, advice = "database", f"open {self.fileio.uri_of(above or '/')}"
        else:
            return
        message = f"{self.uri} is the directory of a {what}, not a warehouse: {advice}."
        raise InvalidInputError(message, kind="warehouse_inside", path=self.path)

    def table_names(self, database_path: str) -> list[str]:
        """Names of the tables in a database's directory, sorted."""
        return sorted(
            entry.name
            for entry in self.fileio.list_dir(database_path)
            if entry.is_dir and self.holds_table(f"{database_path}/{entry.name}")
        )

    def holds_table(self, path: str) -> bool:
        """Whether a directory has schema files."""
        return any(
            entry.name.startswith("schema-") for entry in self.fileio.list_dir(f"{path}/schema")
        )

    def has_snapshots(self, path: str) -> bool:
        """Whether a directory has snapshot files."""
        return bool(self.fileio.list_dir(f"{path}/snapshot"))

    def latest_schema(self, path: str) -> TableSchema | None:
        """Newest schema of the table in a directory."""
        return SchemaLog(self.fileio, TablePaths(path)).latest()

    def put_first_schema(self, path: str, schema: TableSchema) -> bool:
        """Write a table's first schema; False if there is one already."""
        return SchemaLog(self.fileio, TablePaths.of(path, schema)).create(schema)

    def refuse_dropping(self, name: Identifier, path: str | None = None) -> None:
        """Refuse to create a table while its files are deleted one by one.

        Parameters
        ----------
        path : str, optional
            Where the table lies, if a register put it elsewhere.

        Raises
        ------
        AlreadyExistsError
            A drop is deleting them, or was interrupted.
        """
        path = path or self.table_path(name)
        if self.fileio.is_remote and self.dropped().is_dropping(path):
            raise _being_dropped(name)

    def is_created(self, name: Identifier, schema: TableSchema, path: str | None = None) -> bool:
        """Whether the first schema that was put stays; a drop may have run beside the put.

        Parameters
        ----------
        path : str, optional
            Where the table lies, if a register put it elsewhere.

        Raises
        ------
        AlreadyExistsError
            A drop deletes the table's files, or deleted this one. It is gone.
        """
        if not self.fileio.is_remote:
            return True
        path, dropped = path or self.table_path(name), self.dropped()
        first = TablePaths.of(path, schema).schema(schema.id)
        if not dropped.is_dropping(path):
            is_ours = self._is_ours(first, schema)
            if is_ours is None:
                raise _being_dropped(name)
            return is_ours
        with dropped.sign(path):  # nobody creates the table between the look and the delete
            is_ours = self._is_ours(first, schema)
            if is_ours is False:
                return False
            if is_ours:
                self.fileio.delete(first)
        raise _being_dropped(name)

    def _is_ours(self, path: str, schema: TableSchema) -> bool | None:
        """Whether a file is the schema that was put; None if there is none."""
        try:
            return self.fileio.read_bytes(path) == schema.to_json().encode()
        except NotFoundError:
            return None

    def schema_missing(self, name: Identifier) -> NotFoundError | None:
        """Make the error for a directory that has snapshots, but no schema."""
        path = self.table_path(name)
        if not self.has_snapshots(path):
            return None
        message = (
            f"Table '{name}' has snapshots, but no schema: {path}/schema/ is empty. Finish an"
            f" interrupted drop by drop_table('{name}'); otherwise restore its schema files."
        )
        return NotFoundError(message, kind="schema_missing", table=str(name))

    def dropped(self) -> DroppedDirectories:
        """The directories of drops."""
        return DroppedDirectories(self.fileio, self.path, self.ids)

    def delete_empty_database(self, name: str) -> None:
        """Delete a database's directory where it cannot be moved; a table in it stays.

        Raises
        ------
        InvalidInputError
            There is a table, perhaps made meanwhile.
        """
        path = self.database_path(name)
        self.check_holds_no_other(path)
        for entry in self.fileio.list_dir(path):
            place = f"{path}/{entry.name}"
            if not entry.is_dir:
                self.fileio.delete(place)
            elif not self.dropped().delete_left(place):
                raise not_empty(name, [entry.name])
        left = [entry.name for entry in self.fileio.list_dir(path)]
        if left:
            raise not_empty(name, left)
        had_marker = self.fileio.delete(f"{path}/{DIRECTORY_MARKER}")
        if not had_marker and self.fileio.exists(path):  # a real directory
            self.fileio.delete_dir(path)

    def swap(self, staged: str, place: str) -> None:
        """Move a directory to a place; the one that was there is deleted.

        Raises
        ------
        StorageError
            The storage failed. The old directory is still there, unless the process dies between
            the two moves.
        """
        files, old = self.fileio, f"{staged}{_REPLACED}"
        there = files.exists(place)
        if there:
            files.move_dir(place, old)
        try:
            files.move_dir(staged, place)
        except TidelakeError:
            if there:
                with suppress(TidelakeError):  # report the first failure
                    files.move_dir(old, place)
            raise
        files.delete_dir(old)


def _being_dropped(name: Identifier) -> AlreadyExistsError:
    message = (
        f"Table '{name}' is being dropped, or its drop was interrupted: try again, or finish it"
        f" with drop_table('{name}') first. If a drop was killed, do so an hour after it began."
    )
    return AlreadyExistsError(message, kind="table_remains", table=str(name))


def not_empty(database: str, tables: list[str]) -> InvalidInputError:
    """Make the error for dropping a database that holds tables."""
    named = ", ".join(tables[:TABLES_NAMED_MAX])
    message = (
        f"Database '{database}' holds {len(tables)} tables ({named}): drop them first, or pass"
        " cascade=True."
    )
    return InvalidInputError(message, kind="database_not_empty", database=database)
