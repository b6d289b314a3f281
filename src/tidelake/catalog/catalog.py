"""The catalog that users hold: databases and tables of one warehouse by name.

It checks names, definitions and arguments, opens tables, and words the errors that all kinds of
catalogs share. What exists is the business of its metastore (:mod:`tidelake.catalog.metastore`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tidelake.catalog.copies.copy_methods import CopyMethods
from tidelake.catalog.global_tables import GLOBAL_TABLES, SYSTEM_DATABASE, GlobalTable
from tidelake.catalog.identifier import Identifier
from tidelake.catalog.metastore import Metastore
from tidelake.catalog.repair_methods import RepairMethods
from tidelake.catalog.table_definition import check_agrees, first_schema
from tidelake.catalog.upkeep.maintain_methods import MaintainMethods
from tidelake.catalog.upkeep.orphan_files import ALL, OrphansOfTables
from tidelake.catalog.view_methods import ViewMethods
from tidelake.commit.iceberg import sync_quietly
from tidelake.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NotFoundError,
    TidelakeError,
    UnsupportedError,
    near_names,
    shortened,
)
from tidelake.fileio import FileIO
from tidelake.fileio.name import validate_name
from tidelake.foreign_names import OF_CATALOG, AnswersForeignNames
from tidelake.metadata.manifest.manifest_cache import ManifestCache
from tidelake.metadata.paths import TablePaths
from tidelake.options import Options, declared
from tidelake.scan.masks import MaskCache
from tidelake.scan.merged_orders import MergedOrders
from tidelake.table import SystemTable, Table, TableHandle
from tidelake.table.handle.arguments import check_location
from tidelake.table.handle.branch import other_branch_name
from tidelake.table.handle.display import facts_html
from tidelake.table.handle.instant import Time, instant_ms
from tidelake.table.handle.read_hold import ReadHolds
from tidelake.table.jobs.orphans import HERE, Lister, OrphanFiles, remove_orphans
from tidelake.telemetry import Env
from tidelake.types import TableSchema
from tidelake.types.schema_change import SchemaChange

NAMES_SHOWN_MAX = 20


class Catalog(AnswersForeignNames, CopyMethods, MaintainMethods, RepairMethods, ViewMethods):
    """Databases and tables of one warehouse; made by :func:`tidelake.open`.

    Parameters
    ----------
    metastore : Metastore
        Knows which databases and tables there are.
    env : Env
        Clock, ids, executor.
    table_options : mapping, optional
        Default options of new tables.
    """

    _foreign_names = OF_CATALOG
    _inner_names = frozenset({"first_schema", "for_reading", "metastore", "fileio"})

    def __init__(
        self, metastore: Metastore, *, env: Env, table_options: Mapping[str, str] | None = None
    ) -> None:
        self._metastore = metastore
        self.env = env
        self._table_options = dict(table_options or {})
        self._manifests = ManifestCache(env.memory.manifest_cache_bytes, reads=env.reads.ranges)
        self._masks = MaskCache()
        self._orders = MergedOrders()
        self._holds = ReadHolds()

    @property
    def warehouse(self) -> str:
        """The directory of the tables."""
        return self._metastore.warehouse

    @property
    def uri(self) -> str:
        """The warehouse as users write it: with its scheme, where it has one.

        Of a REST catalog it is the server's address and the warehouse's name.
        """
        return self._metastore.uri

    @property
    def fileio(self) -> FileIO:
        """The storage of the warehouse."""
        return self._metastore.fileio

    @property
    def metastore(self) -> Metastore:
        """Knows which databases and tables there are."""
        return self._metastore

    def __repr__(self) -> str:
        return f"Catalog({self._metastore.shown!r})"

    def for_reading(self) -> Catalog:
        """Make a catalog to send to other processes that read: it needs no database there.

        It has a clock, names and threads of its own.
        """
        env = Env(zone=self.env.zone).with_memory(self.env.memory)
        return Catalog(self._metastore.for_reading(), env=env)

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
        return facts_html(f"Catalog {self._metastore.shown}", lines)

    def __reduce__(self) -> tuple[object, ...]:
        # the copy begins with an empty cache
        return (_unpickled, (self._metastore, self.env, self._table_options))

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
        if not self._metastore.create_database(_database(name)) and if_exists == "error":
            message = f"Database '{name}' exists; pass if_exists='ignore' to keep it."
            raise AlreadyExistsError(message, kind="database_exists", database=name)

    def database_exists(self, name: str) -> bool:
        """Check if a database exists.

        Raises
        ------
        InvalidInputError
            The name is invalid.
        """
        return name == SYSTEM_DATABASE or self._metastore.has_database(_database(name))

    def table_exists(self, identifier: str) -> bool:
        """Check if a table ``"database.table"`` exists; lists one small directory.

        A branch, ``"db.t$branch_b"``, or a system table of it is looked for by opening it.

        Raises
        ------
        InvalidInputError
            It is no name of a table.
        """
        if isinstance(identifier, str) and "$" in identifier:
            try:
                self.table(identifier)
            except NotFoundError:
                return False
            return True
        name = Identifier.of(identifier)
        if name.database == SYSTEM_DATABASE:
            return name.table in GLOBAL_TABLES
        return self._metastore.has_table(name)

    def list_databases(self) -> list[str]:
        """List the names of the databases, sorted."""
        return self._metastore.databases()

    def list_tables(self, database: str) -> list[str]:
        """List the names of a database's tables, sorted; ``sys`` has the catalog's."""
        if database == SYSTEM_DATABASE:
            return sorted(GLOBAL_TABLES)
        if not self._metastore.has_database(_database(database)):
            raise self._no_database(database)
        return self._metastore.tables(database)

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
        name = _table_name(identifier)

        def existing() -> Table:
            if if_exists == "error":
                raise _exists(name)
            found = self._load(name)
            check_agrees(
                found.table_schema,
                schema,
                table=identifier,
                primary_keys=primary_keys,
                partition_keys=partition_keys,
                table_options=options or {},
            )
            return found

        if self._metastore.has_table(name):
            return existing()
        new_schema = self.first_schema(
            identifier,
            schema,
            primary_keys=primary_keys,
            partition_keys=partition_keys,
            options=options,
            comment=comment,
        )
        self.create_database(name.database, if_exists="ignore")
        if not self._metastore.create_table(name, new_schema):
            return existing()
        return self._load(name)

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
        check_location(parsed, self.location(identifier), table=identifier)
        named = other_branch_name(parsed, table=identifier)
        if named is not None:
            message = (
                f"Table '{identifier}' is new and has no branch '{named[0]}' to read from: create"
                " the branch first, then set the option."
            )
            raise InvalidInputError(message, kind="fallback_branch", table=identifier)
        return made

    def table(self, identifier: str) -> Table | SystemTable:
        """Open a table, or a system table such as ``"db.t$snapshots"``.

        ``"db.t$branch_b"`` is the branch ``b`` of a table, ``"db.t$branch_b$files"`` its files.
        ``"sys.all_table_options"`` and ``"sys.catalog_options"`` describe the whole catalog.

        Raises
        ------
        NotFoundError
            There is no such database, table, branch or system table.
        """
        text = identifier if isinstance(identifier, str) else ""
        base, dollar, rest = text.partition("$")
        name = Identifier.of(base if text else identifier)
        if name.database == SYSTEM_DATABASE:
            return self._global_table(name.table)
        table = self._load(name)
        return table.named(rest) if dollar else table

    def load_table(self, identifier: str) -> Table | SystemTable:
        """Open a table: the same as :meth:`table`."""
        return self.table(identifier)

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
                options = self._load(Identifier(database, name)).table_schema.options
                yield from ((database, name, key, options[key]) for key in sorted(options))

    def _catalog_options(self) -> Iterator[tuple[str, ...]]:
        yield from ((f"table-default.{k}", v) for k, v in sorted(self._table_options.items()))
        yield from sorted(self._metastore.options().items())

    def location(self, identifier: str) -> str:
        """Return the directory of a table, which may not exist.

        Raises
        ------
        InvalidInputError
            It is no name of a table.
        """
        return self._metastore.location(_table_name(identifier))

    def alter_table(self, identifier: str, changes: Sequence[SchemaChange]) -> Table:
        """Change a table's schema: all of the changes, in order, or none.

        Parameters
        ----------
        identifier : str
            ``"database.table"``, or one of its branches.
        changes : sequence of SchemaChange
            :class:`tidelake.AddColumn`, :class:`tidelake.RenameColumn`, ..., or one of them.

        Returns
        -------
        Table
            With the new schema. See :meth:`tidelake.Table.alter` for errors.
        """
        given = changes if isinstance(changes, Sequence) else [changes]
        found = self.table(identifier)
        table = found if isinstance(found, Table) else self._load(_table_name(identifier))
        return table.alter(*given)

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
        name, new_name = _table_name(identifier), _table_name(new_identifier)
        if if_missing == "ignore" and not self._metastore.has_table(name):
            return None
        options = self._load(name).options
        if options.get(declared.PATH) is not None:
            message = (
                f"Table '{identifier}' has the option 'path' and cannot be renamed: CREATE TABLE"
                f" {new_identifier} AS SELECT * FROM {identifier}."
            )
            raise UnsupportedError(message, kind="rename_table", table=identifier)
        if name == new_name:
            raise _taken(new_name)
        try:
            self._metastore.rename_table(name, new_name)
        except NotFoundError as error:  # another process was faster
            raise self._no_table(name) from error
        except AlreadyExistsError as error:
            raise _taken(new_name) from error
        table = self._load(new_name)
        sync_quietly(table.handle.commit_context())  # Iceberg metadata names files by their paths
        return table

    def drop_table(self, identifier: str, *, if_missing: str = "error") -> None:
        """Drop a table with all its data and history. This cannot be undone.

        If its directory is a symbolic link, the target is deleted too.

        Raises
        ------
        NotFoundError
            There is no such table. With `if_missing` ``ignore`` only if the catalog does not list
            it, but its files are there: an interrupted rename may have moved them.
        StorageError
            The storage failed: the table still exists, or it is dropped and some files are left, as
            the message says.
        """
        _check_choice(if_missing, "if_missing")
        name = _table_name(identifier)
        if if_missing == "ignore":
            self._refuse_unlisted(name)
        if not self._metastore.drop_table(name) and if_missing == "error":
            raise self._no_table(name)

    def _refuse_unlisted(self, name: Identifier) -> None:
        """Refuse files without an entry: the caller thinks that no table may be there."""
        left = None if self._metastore.has_table(name) else self._metastore.why_missing(name)
        if left is not None and left.kind == "table_unlisted":
            raise left

    def drop_database(self, name: str, *, cascade: bool = False, if_missing: str = "error") -> None:
        """Drop a database; with `cascade` also its tables."""
        _check_choice(if_missing, "if_missing")
        dropped = self._metastore.drop_database(_database(name), cascade=cascade)
        if not dropped and if_missing == "error":
            raise self._no_database(name)

    def remove_orphan_files(
        self,
        name: str,
        *,
        older_than: Time | None = None,
        dry_run: bool = False,
        parallelism: int | None = None,
        lister: Lister = HERE,
    ) -> OrphansOfTables:
        """Remove the orphan files of a table, of all tables of a database, or of all databases.

        See :meth:`tidelake.table.Maintenance.remove_orphan_files`, which this calls for each table.
        A call for more than one table also ends the drops that were killed, of all databases and
        whatever `older_than`: their directories are of no table any more.

        Parameters
        ----------
        name : str
            ``"database.table"``, ``"database.*"`` or ``"*.*"``. Of a table's branch the whole table
            is searched.
        older_than, dry_run, parallelism
            As for one table.
        lister : Lister
            What lists directories: this process, or executors.

        Returns
        -------
        OrphansOfTables
            ``tables``, one of each; and ``failed``, the errors of those that could not be searched.

        Raises
        ------
        NotFoundError
            There is no such table or database.
        InvalidInputError
            `older_than` is not in the past, or has no zone; or it is a system table.
        """
        older_than_ms = None
        if older_than is not None:
            older_than_ms = instant_ms(older_than, what="older_than of remove_orphan_files")
        database, _, table = str(name).rpartition(".")
        names, left = [str(name)], 0
        if table == ALL:
            databases = self.list_databases() if database == ALL else [database]
            names = [f"{one}.{t}" for one in databases for t in self.list_tables(one)]
            left = self._metastore.dropped_left(delete=not dry_run)
        found: list[OrphanFiles] = []
        failed: dict[str, TidelakeError] = {}
        for one in names:
            try:
                opened = self.table(one)
                if not isinstance(opened, Table):
                    message = f"'{one}' is a system table: name the table itself."
                    raise InvalidInputError(message, kind="system_table", table=one)
                found.append(
                    remove_orphans(
                        opened.handle,
                        older_than_ms=older_than_ms,
                        dry_run=dry_run,
                        parallelism=parallelism,
                        lister=lister,
                    )
                )
            except InvalidInputError:
                raise
            except TidelakeError as error:
                if table != ALL:
                    raise
                if error.kind != "table_not_found":  # dropped meanwhile
                    failed[one] = error
        return OrphansOfTables(tuple(found), failed, left)

    def _load(self, name: Identifier) -> Table:
        found = self._metastore.load_table(name)
        if found is None:
            raise self._no_table(name)
        return Table(
            TableHandle(
                identifier=str(name),
                fileio=found.fileio,
                paths=TablePaths.of(found.location, found.schema),
                schema=found.schema,
                options=Options.parse(found.schema.options, table=str(name)),
                env=self.env,
                manifests=self._manifests,
                guard=found.guard,
                served=found.served,
                listing=found.listing,
                masks=self._masks,
                orders=self._orders,
                holds=self._holds,
            )
        )

    def _no_database(self, name: str) -> NotFoundError:
        known = self.list_databases()
        message = (
            f"Database '{name}' does not exist in {self._metastore.shown}."
            f"{near_names(name, known)}{_listed(known)}"
        )
        return NotFoundError(message, kind="database_not_found", database=name)

    def _no_table(self, name: Identifier) -> NotFoundError:
        known = self.list_tables(name.database)  # raises if there is no such database
        closer = self._metastore.why_missing(name)
        if closer is not None:
            return closer
        message = (
            f"Table '{name.table}' does not exist in database '{name.database}'."
            f"{near_names(name.table, known)}{_listed(known)}"
        )
        return NotFoundError(message, kind="table_not_found", table=str(name))


def _database(name: str) -> str:
    """Check the name of a database that is used as one on disk."""
    if name == SYSTEM_DATABASE:
        raise _reserved(name)
    return validate_name(name, "database")


def _table_name(identifier: str) -> Identifier:
    """Split the name of a table that is no system table."""
    name = Identifier.of(identifier)
    _database(name.database)
    return name


def _reserved(database: str) -> InvalidInputError:
    message = f"Database '{database}' is the catalog's own: choose another name."
    return InvalidInputError(message, kind="bad_name", database=database)


def _exists(name: Identifier) -> AlreadyExistsError:
    message = f"Table '{name}' exists; open it with table('{name}'), or pass if_exists='ignore'."
    return AlreadyExistsError(message, kind="table_exists", table=str(name))


def _taken(name: Identifier) -> AlreadyExistsError:
    """Make the error for a new name that is taken."""
    message = (
        f"Table '{name}' exists, or some of its files do: choose another name, or drop it first."
    )
    return AlreadyExistsError(message, kind="table_exists", table=str(name))


def _listed(names: Sequence[str]) -> str:
    if not names:
        return " There is none yet: create_table() creates a table and its database."
    more = ", ..." if len(names) > NAMES_SHOWN_MAX else ""
    return f" There are: {', '.join(names[:NAMES_SHOWN_MAX])}{more}."


def _check_choice(value: str, argument: str) -> None:
    if value not in {"error", "ignore"}:
        message = f"{argument}='{shortened(str(value))}' is unknown: use 'error' or 'ignore'."
        raise InvalidInputError(message, kind="bad_argument", argument=argument)


def _unpickled(metastore: Metastore, env: Env, table_options: Mapping[str, str]) -> Catalog:
    return Catalog(metastore, env=env, table_options=table_options)
