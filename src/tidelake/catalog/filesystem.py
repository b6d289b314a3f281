"""The filesystem catalog: databases and tables are directories, ``<warehouse>/<db>.db/<table>``.

A table exists if its ``schema`` directory holds a schema. Creating a table publishes ``schema-0``
by put-if-absent, so one of two creators wins and the other gets an error. There are no other
files: every engine for Paimon sees the same catalog.

Names pass :func:`tidelake.fileio.validate_name`, and each path is checked to be inside the
warehouse.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tidelake.catalog.dropped_directories import DroppedDirectories
from tidelake.catalog.global_tables import GLOBAL_TABLES, SYSTEM_DATABASE, GlobalTable
from tidelake.catalog.table_definition import check_agrees, first_schema
from tidelake.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NotFoundError,
    TidelakeError,
    UnsupportedError,
    near_names,
    shortened,
)
from tidelake.fileio import FileIO, LocalFileIO
from tidelake.fileio.name import validate_name
from tidelake.metadata.log.schema_log import SchemaLog
from tidelake.metadata.manifest.manifest_cache import ManifestCache
from tidelake.metadata.paths import TablePaths
from tidelake.options import Options, declared, memory_bytes, table_defaults
from tidelake.table import SystemTable, Table, TableHandle
from tidelake.table.handle.arguments import check_location
from tidelake.table.handle.display import facts_html
from tidelake.telemetry import MEMORY_BYTES_MIN, Env, Memory
from tidelake.types import TableSchema
from tidelake.types.schema_change import SchemaChange

__all__ = ["Catalog", "open_catalog"]

DATABASE_SUFFIX = ".db"
NAMES_SHOWN_MAX = 20
NAME_REPEATED_MAX = 40  # characters of a name that a message says twice


def open_catalog(
    warehouse: str | Path,
    *,
    options: Mapping[str, object] | None = None,
    memory: int | str | None = None,
    env: Env | None = None,
    fileio: FileIO | None = None,
) -> Catalog:
    """Open a warehouse; the first table creates a missing directory.

    Parameters
    ----------
    warehouse : str or Path
        The directory, or its ``file:`` URI.
    options : mapping, optional
        Options of the catalog: ``{"table-default.bucket": 4}`` is the default of an option of new
        tables.
    memory : int or str, optional
        Bytes, or a size such as ``"256 mb"``, 64 mb or more. It limits what writes, reads,
        compactions and plans use in this process, without the interpreter and the caller's rows. By
        default only ``write-buffer-size`` limits memory. Shares are defined in
        :class:`tidelake.telemetry.Memory`: an eighth each for the rows of a writer (unless a table
        sets ``write-buffer-size``), for a row group being written and for decoded manifests; a
        sixteenth for the rows of a merge, and a quarter for the pages of its files. Rows that do
        not fit are spilled to the local disk. One task runs at a time per 512 mb, four at most.
    env : Env, optional
        Clock, ids, executor; the system's by default.
    fileio : FileIO, optional
        The storage; local files by default.

    Raises
    ------
    InvalidInputError
        The memory is no size, or too small.

    Examples
    --------
    >>> import tempfile, pyarrow as pa
    >>> catalog = open_catalog(tempfile.mkdtemp())
    >>> t = catalog.create_table("demo.t", pa.schema({"k": pa.int64(), "v": pa.string()}),
    ...                          primary_keys=["k"], options={"bucket": 1})
    >>> _ = t.write([{"k": 1, "v": "a"}, {"k": 1, "v": "b"}])
    >>> t.to_arrow().to_pylist()
    [{'k': 1, 'v': 'b'}]
    """
    world = env or Env.system()
    if memory is not None:
        world = world.with_memory(_memory(memory))
    return Catalog(
        _warehouse_path(warehouse),
        env=world,
        fileio=fileio,
        table_options=table_defaults(options or {}),
    )


def _memory(given: object) -> Memory:
    try:
        total_bytes = memory_bytes(given)
    except ValueError as error:
        message = f"memory is {shortened(repr(given))} but must be {error}."
        raise InvalidInputError(message, kind="memory") from error
    if total_bytes < MEMORY_BYTES_MIN:
        message = (
            f"memory is {shortened(repr(given))}, {total_bytes} bytes, too small for a row group"
            f" and the pages of a few files: give {MEMORY_BYTES_MIN >> 20} mb or more."
        )
        raise InvalidInputError(message, kind="memory")
    return Memory.of(total_bytes)


def _warehouse_path(warehouse: object) -> str:
    if not isinstance(warehouse, (str, Path)):
        message = f"Warehouse {shortened(repr(warehouse))} is not a path: give a local directory."
        raise InvalidInputError(message, kind="warehouse")
    text = str(warehouse)
    if text.startswith("file:"):
        text = "/" + text.removeprefix("file:").lstrip("/")
    elif "://" in text:
        message = f"Warehouse '{text}' is on an unsupported storage: give a local directory."
        raise InvalidInputError(message, kind="warehouse", warehouse=text)
    if not text:
        raise InvalidInputError(
            "The warehouse's path is empty: give a local directory.", kind="warehouse"
        )
    return Path(text).expanduser().absolute().as_posix()


class Catalog:
    """Databases and tables of one warehouse.

    Parameters
    ----------
    warehouse : str
        Absolute path.
    env : Env
        Clock, ids, executor.
    fileio : FileIO, optional
        The storage; local files by default.
    table_options : mapping, optional
        Default options of new tables.
    """

    def __init__(
        self,
        warehouse: str,
        *,
        env: Env,
        fileio: FileIO | None = None,
        table_options: Mapping[str, str] | None = None,
    ) -> None:
        self.warehouse = posixpath.normpath(warehouse)
        self.env = env
        self.fileio: FileIO = fileio if fileio is not None else LocalFileIO(env.ids)
        self._table_options = dict(table_options or {})
        self._manifests = ManifestCache(env.memory.manifest_cache_bytes)

    def __repr__(self) -> str:
        return f"Catalog({self.warehouse!r})"

    def _repr_html_(self) -> str:
        lines = []
        try:
            databases = self.list_databases()
            for name in databases[:NAMES_SHOWN_MAX]:
                tables = self.list_tables(name)
                more = f" and {len(tables) - NAMES_SHOWN_MAX:,} more" * (
                    len(tables) > NAMES_SHOWN_MAX
                )
                lines.append((name, (", ".join(tables[:NAMES_SHOWN_MAX]) or "no table") + more))
        except TidelakeError as error:  # a broken catalog still has a display
            lines.append(("cannot be read", error.message))
        else:
            if len(databases) > NAMES_SHOWN_MAX:
                lines.append(("...", f"and {len(databases) - NAMES_SHOWN_MAX:,} databases more"))
            elif not databases:
                lines.append(("", "no database yet"))
        return facts_html(f"Catalog {self.warehouse}", lines)

    def __reduce__(self) -> tuple[object, ...]:
        # the copy begins with an empty cache
        parts = (self.warehouse, self.env, self.fileio, self._table_options)
        return (_unpickled, parts)

    def create_database(self, name: str, *, if_exists: str = "error") -> None:
        """Create a database.

        Parameters
        ----------
        name : str
            Its name.
        if_exists : {'error', 'ignore'}
            What to do if it exists.
        """
        _check_choice(if_exists, "if_exists")
        path = self._database_path(name)
        if self.fileio.exists(path):
            if if_exists == "error":
                message = f"Database '{name}' exists; pass if_exists='ignore' to keep it."
                raise AlreadyExistsError(message, kind="database_exists", database=name)
            return
        self.fileio.make_dirs(path)

    def database_exists(self, name: str) -> bool:
        """Check if a database exists.

        Raises
        ------
        InvalidInputError
            The name is invalid.
        """
        return name == SYSTEM_DATABASE or self.fileio.exists(self._database_path(name))

    def table_exists(self, identifier: str) -> bool:
        """Check if a table ``"database.table"`` exists; lists one small directory.

        Raises
        ------
        InvalidInputError
            It is no name of a table.
        """
        database, name = _split(identifier)
        if database == SYSTEM_DATABASE:
            return name in GLOBAL_TABLES
        return self._holds_table(self._table_path(database, name))

    def list_databases(self) -> list[str]:
        """List the names of the databases, sorted."""
        return sorted(
            entry.name.removesuffix(DATABASE_SUFFIX)
            for entry in self.fileio.list_dir(self.warehouse)
            if entry.is_dir and entry.name.endswith(DATABASE_SUFFIX) and entry.name != ".db"
        )

    def list_tables(self, database: str) -> list[str]:
        """List the names of a database's tables, sorted; ``sys`` has the catalog's."""
        if database == SYSTEM_DATABASE:
            return sorted(GLOBAL_TABLES)
        return self._tables_in(self._existing_database(database))

    def _tables_in(self, path: str) -> list[str]:
        """Names of the tables in a database's directory, sorted."""
        return sorted(
            entry.name
            for entry in self.fileio.list_dir(path)
            if entry.is_dir and self._holds_table(f"{path}/{entry.name}")
        )

    def create_table(
        self,
        identifier: str,
        schema: object,
        *,
        primary_keys: Sequence[str] = (),
        partition_keys: Sequence[str] = (),
        options: Mapping[str, object] | None = None,
        comment: str | None = None,
        if_exists: str = "error",
    ) -> Table:
        """Create a table, and its database if missing.

        Parameters
        ----------
        identifier : str
            ``"database.table"``.
        schema : pyarrow.Schema or anything that has one
            The columns. Those of the primary key become NOT NULL.
        primary_keys, partition_keys : sequence of str
            Column names.
        options : mapping, optional
            Table options by Paimon's names, ``{"bucket": 4}``, on top of the catalog's defaults;
            None removes a default.
        comment : str, optional
            A comment.
        if_exists : {'error', 'ignore'}
            What to do if the table exists; ``'ignore'`` returns it if columns (in any order), keys
            and merge options are the same. Its other options and its comment stay.

        Returns
        -------
        Table

        Raises
        ------
        InvalidInputError, UnsupportedError
            Names, columns, keys or options are wrong, or the existing table differs; nothing was
            written.
        AlreadyExistsError
            The table exists.
        """
        _check_choice(if_exists, "if_exists")
        database, name = _split(identifier)
        path = self._table_path(database, name)

        def existing() -> Table:
            if if_exists == "error":
                raise self._exists(database, name)
            found = self._load(database, name)
            check_agrees(
                found.table_schema,
                schema,
                table=identifier,
                primary_keys=primary_keys,
                partition_keys=partition_keys,
                table_options=options or {},
            )
            return found

        if self._holds_table(path):
            return existing()
        if self.fileio.list_dir(f"{path}/snapshot"):
            message = (
                f"{path} has files of table '{identifier}', whose drop was interrupted: finish it"
                f" with drop_table('{identifier}') first."
            )
            raise AlreadyExistsError(message, kind="table_remains", table=identifier)
        new_schema = self.first_schema(
            identifier,
            schema,
            primary_keys=primary_keys,
            partition_keys=partition_keys,
            options=options,
            comment=comment,
        )
        self.create_database(database, if_exists="ignore")
        paths = TablePaths.of(path, new_schema)
        if not SchemaLog(self.fileio, paths).create(new_schema):
            return existing()
        return self._load(database, name)

    def first_schema(
        self,
        identifier: str,
        schema: object,
        *,
        primary_keys: Sequence[str] = (),
        partition_keys: Sequence[str] = (),
        options: Mapping[str, object] | None = None,
        comment: str | None = None,
    ) -> TableSchema:
        """Return the first schema of a new table; nothing is written.

        Parameters
        ----------
        identifier, schema, primary_keys, partition_keys, options, comment
            As for :meth:`create_table`.

        Raises
        ------
        InvalidInputError, UnsupportedError
            Names, columns, keys or options are wrong.
        """
        made = first_schema(
            schema,
            table=identifier,
            primary_keys=primary_keys,
            partition_keys=partition_keys,
            table_options={**self._table_options, **(options or {})},
            comment=comment,
            time_ms=self.env.clock.now_ms(),
        )
        parsed = Options.parse(made.options, table=identifier)
        check_location(parsed, self._table_path(*_split(identifier)), table=identifier)
        return made

    def table(self, identifier: str) -> Table | SystemTable:
        """Open a table, or a system table such as ``"db.t$snapshots"``.

        ``"sys.all_table_options"`` and ``"sys.catalog_options"`` describe the whole catalog.

        Raises
        ------
        NotFoundError
            There is no such database or table.
        """
        text = identifier if isinstance(identifier, str) else ""
        base, dollar, system = text.partition("$")
        database, name = _split(base if text else identifier)
        if database == SYSTEM_DATABASE:
            return self._global_table(name)
        table = self._load(database, name)
        return table.system_table(system) if dollar else table

    def _global_table(self, name: str) -> GlobalTable:
        if name == "all_table_options":
            return GlobalTable(name, self._all_table_options)
        if name == "catalog_options":
            return GlobalTable(name, self._catalog_options)
        message = (
            f"There is no system table '{SYSTEM_DATABASE}.{name}'.{near_names(name, GLOBAL_TABLES)}"
            f" System tables are: {', '.join(GLOBAL_TABLES)}."
        )
        raise NotFoundError(message, kind="system_table_not_found", name=name)

    def _all_table_options(self) -> Iterator[tuple[str, ...]]:
        for database in self.list_databases():
            for name in self.list_tables(database):
                options = self._load(database, name).table_schema.options
                yield from ((database, name, key, options[key]) for key in sorted(options))

    def _catalog_options(self) -> Iterator[tuple[str, ...]]:
        yield from ((f"table-default.{k}", v) for k, v in sorted(self._table_options.items()))
        yield ("warehouse", self.warehouse)

    def location(self, identifier: str) -> str:
        """Return the directory of a table, which may not exist.

        Raises
        ------
        InvalidInputError
            It is no name of a table.
        """
        return self._table_path(*_split(identifier))

    def alter_table(self, identifier: str, changes: Sequence[SchemaChange]) -> Table:
        """Change a table's schema: all of the changes, in order, or none.

        Parameters
        ----------
        identifier : str
            ``"database.table"``.
        changes : sequence of SchemaChange
            :class:`tidelake.AddColumn`, :class:`tidelake.RenameColumn`, ..., or one of them.

        Returns
        -------
        Table
            With the new schema. See :meth:`tidelake.Table.alter` for errors.
        """
        database, name = _split(identifier)
        given = changes if isinstance(changes, Sequence) else [changes]
        return self._load(database, name).alter(*given)

    def rename_table(
        self, identifier: str, new_identifier: str, *, if_missing: str = "error"
    ) -> Table | None:
        """Rename a table, within its database or into another one of the warehouse.

        Parameters
        ----------
        identifier, new_identifier : str
            ``"database.table"``; a missing new database is created.
        if_missing : {'error', 'ignore'}
            What to do if the table does not exist; ``'ignore'`` returns None.

        Returns
        -------
        Table or None
            The renamed table. Objects opened under the old name stop working: reads find no files,
            and writes are refused.

        Raises
        ------
        NotFoundError
            There is no such table.
        AlreadyExistsError
            The new name is taken.
        InvalidInputError, UnsupportedError
            A name is invalid, the table has an option ``path``, or the storage cannot rename a
            directory. Nothing was changed.

        Notes
        -----
        The table's directory is renamed once, so other processes see one name or the other. Later
        commits under the old name are refused. A commit that publishes at the same time is in the
        table; it succeeds or reports an unknown outcome.
        """
        _check_choice(if_missing, "if_missing")
        (database, name), (new_database, new_name) = _split(identifier), _split(new_identifier)
        place = self._table_path(database, name)
        target = self._table_path(new_database, new_name)
        if if_missing == "ignore" and not self._holds_table(place):
            return None
        options = self._load(database, name).options
        if options.get(declared.PATH) is not None:
            message = (
                f"Table '{identifier}' has the option 'path' and cannot be renamed: CREATE TABLE"
                f" {new_identifier} AS SELECT * FROM {identifier}."
            )
            raise UnsupportedError(message, kind="rename_table", table=identifier)
        if place == target or self.fileio.exists(target):
            raise self._taken(new_database, new_name)
        try:
            self.fileio.move_dir(place, target)
        except NotFoundError as error:  # another process was faster
            raise self._no_table(database, name) from error
        except AlreadyExistsError as error:
            raise self._taken(new_database, new_name) from error
        return self._load(new_database, new_name)

    def _taken(self, database: str, name: str) -> AlreadyExistsError:
        """Make the error for a new name that is taken."""
        message = (
            f"Table '{database}.{name}' exists, or some of its files do: choose another name, or"
            " drop it first."
        )
        return AlreadyExistsError(message, kind="table_exists", table=f"{database}.{name}")

    def drop_table(self, identifier: str, *, if_missing: str = "error") -> None:
        """Drop a table with all its data and history. This cannot be undone.

        If its directory is a symbolic link, the target is deleted too.

        Raises
        ------
        NotFoundError
            There is no such table.
        StorageError
            The storage failed: the table still exists, or it is dropped and some files are left, as
            the message says.
        """
        _check_choice(if_missing, "if_missing")
        database, name = _split(identifier)
        path = self._table_path(database, name)
        if not self._holds_table(path) and not self.fileio.list_dir(path):
            if if_missing == "ignore":
                return
            raise self._no_table(database, name)
        dropped = self._dropped()
        with suppress(NotFoundError):  # another dropped it at the same time
            moved = dropped.move(path)
            if moved is None:
                dropped.delete_in_place(path)
            else:
                dropped.delete(moved, what=f"Table '{identifier}'")

    def drop_database(self, name: str, *, cascade: bool = False, if_missing: str = "error") -> None:
        """Drop a database; with `cascade` also its tables."""
        _check_choice(if_missing, "if_missing")
        path = self._database_path(name)
        if not self.fileio.exists(path):
            if if_missing == "ignore":
                return
            raise self._no_database(name)
        self._check_droppable(name, path, cascade=cascade)
        dropped = self._dropped()
        with suppress(NotFoundError):  # another dropped it at the same time
            moved = dropped.move(path)
            if moved is None:
                for table in self._tables_in(path):
                    dropped.delete_in_place(f"{path}/{table}")
                self.fileio.delete_dir(path)
                return
            try:  # a table may have been created meanwhile
                self._check_droppable(name, moved, cascade=cascade)
            except InvalidInputError:
                dropped.restore(moved, path)
                raise
            dropped.delete(moved, what=f"Database '{name}'")

    def _check_droppable(self, name: str, path: str, *, cascade: bool) -> None:
        """Refuse to drop a database with tables, unless `cascade`."""
        tables = [] if cascade else self._tables_in(path)
        if tables:
            message = (
                f"Database '{name}' holds {len(tables)} tables ({', '.join(tables[:5])}):"
                " drop them first, or pass cascade=True."
            )
            raise InvalidInputError(message, kind="database_not_empty", database=name)

    def _dropped(self) -> DroppedDirectories:
        return DroppedDirectories(self.fileio, self.warehouse, self.env.ids)

    def _load(self, database: str, name: str) -> Table:
        location = self._table_path(database, name)
        schema = SchemaLog(self.fileio, TablePaths(location)).latest()
        if schema is None:
            raise self._no_table(database, name)
        identifier = f"{database}.{name}"
        return Table(
            TableHandle(
                identifier=identifier,
                fileio=self.fileio,
                paths=TablePaths.of(location, schema),
                schema=schema,
                options=Options.parse(schema.options, table=identifier),
                env=self.env,
                manifests=self._manifests,
            )
        )

    def _exists(self, database: str, name: str) -> AlreadyExistsError:
        message = (
            f"Table '{database}.{name}' exists; open it with table('{database}.{name}'), or pass"
            " if_exists='ignore'."
        )
        return AlreadyExistsError(message, kind="table_exists", table=f"{database}.{name}")

    def _holds_table(self, path: str) -> bool:
        return any(
            entry.name.startswith("schema-") for entry in self.fileio.list_dir(f"{path}/schema")
        )

    def _database_path(self, name: str) -> str:
        if name == SYSTEM_DATABASE:
            message = f"Database '{name}' is the catalog's own: choose another name."
            raise InvalidInputError(message, kind="bad_name", database=name)
        return self._inside(f"{validate_name(name, 'database')}{DATABASE_SUFFIX}")

    def _table_path(self, database: str, name: str) -> str:
        directory = posixpath.basename(self._database_path(database))
        return self._inside(f"{directory}/{validate_name(name, 'table')}")

    def _inside(self, relative: str) -> str:
        """Join a path below the warehouse; a second check after the names'."""
        path = posixpath.normpath(f"{self.warehouse}/{relative}")
        if path != f"{self.warehouse.rstrip('/')}/{relative}":
            message = f"'{relative}' leaves the warehouse {self.warehouse}: choose another name."
            raise InvalidInputError(message, kind="bad_name", path=path)
        return path

    def _existing_database(self, name: str) -> str:
        path = self._database_path(name)
        if not self.fileio.exists(path):
            raise self._no_database(name)
        return path

    def _no_database(self, name: str) -> NotFoundError:
        known = self.list_databases()
        message = (
            f"Database '{name}' does not exist in {self.warehouse}."
            f"{near_names(name, known)}{_listed(known)}"
        )
        return NotFoundError(message, kind="database_not_found", database=name)

    def _no_table(self, database: str, name: str) -> NotFoundError:
        self._existing_database(database)
        path = self._table_path(database, name)
        if self.fileio.list_dir(f"{path}/snapshot"):
            message = (
                f"Table '{database}.{name}' has snapshots, but no schema: {path}/schema/ is empty."
                f" Finish an interrupted drop by drop_table('{database}.{name}'); otherwise restore"
                " its schema files."
            )
            return NotFoundError(message, kind="schema_missing", table=f"{database}.{name}")
        known = self.list_tables(database)
        message = (
            f"Table '{name}' does not exist in database '{database}'."
            f"{near_names(name, known)}{_listed(known)}"
        )
        return NotFoundError(message, kind="table_not_found", table=f"{database}.{name}")


def _listed(names: Sequence[str]) -> str:
    if not names:
        return " There is none yet: create_table() creates a table and its database."
    more = ", ..." if len(names) > NAMES_SHOWN_MAX else ""
    return f" There are: {', '.join(names[:NAMES_SHOWN_MAX])}{more}."


def _split(identifier: str) -> tuple[str, str]:
    """Split ``"database.table"``."""
    if not isinstance(identifier, str) or identifier.count(".") != 1:
        shown = shortened(repr(identifier))
        simple = isinstance(identifier, str) and identifier.isidentifier()
        simple = simple and len(identifier) <= NAME_REPEATED_MAX
        such = f", such as 'default.{identifier}', SQL's default database" if simple else ""
        message = f"{shown} is not a table name: write it as 'database.table'{such}."
        raise InvalidInputError(message, kind="bad_identifier", table=identifier)
    database, _, name = identifier.partition(".")
    return validate_name(database, "database"), validate_name(name, "table")


def _check_choice(value: str, argument: str) -> None:
    if value not in {"error", "ignore"}:
        message = f"{argument}='{shortened(str(value))}' is unknown: use 'error' or 'ignore'."
        raise InvalidInputError(message, kind="bad_argument", argument=argument)


def _unpickled(
    warehouse: str, env: Env, fileio: FileIO, table_options: Mapping[str, str]
) -> Catalog:
    return Catalog(warehouse, env=env, fileio=fileio, table_options=table_options)
