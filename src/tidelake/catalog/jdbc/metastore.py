"""The JDBC catalog: a table exists if it has a row, and its files lie as in every warehouse.

Files and rows change one after the other, so a process that dies between them leaves one without
the other. The order is Java's, and what each crash leaves is this:

- **Create**: the first schema is put if absent, then the row is inserted; its primary key decides
  between two creators. A crash leaves files without a row: a creator of the same table takes them
  up if they hold no snapshot, and is refused otherwise.
- **Drop**: in one transaction the row is deleted and the directory moved away (from then on nobody
  writes to it); then the files are deleted. If the database refuses, the directory is moved back.
  Where a directory cannot be moved its files are deleted in place, then the row: while it is there
  nobody creates the table, nor while the sign of a drop is there. A crash before the commit leaves
  a row without files, which reads name; dropping the table again removes it.
- **Rename**: in one transaction the row is changed and the directory moved. A crash before the
  commit leaves the old row and the moved directory, which reads name.

Source: ``JdbcCatalog`` of paimon-core (1.3.1 and 2.0).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import repeat

from tidelake.catalog.filesystem import FilesystemMetastore
from tidelake.catalog.identifier import Identifier
from tidelake.catalog.jdbc import statements
from tidelake.catalog.jdbc.database import Database, RowExistsError
from tidelake.catalog.jdbc.lock import TableLock
from tidelake.catalog.jdbc.views import JdbcViews
from tidelake.catalog.metastore import CatalogEntry
from tidelake.catalog.warehouse import Warehouse, not_empty
from tidelake.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidInputError,
    NotFoundError,
    OutcomeUnknownError,
    TidelakeError,
)
from tidelake.fileio import FileIO
from tidelake.types import TableSchema

OF_PAIMON_2 = (statements.TABLE_PROPERTIES, statements.VIEWS)


class _NotMovedError(Exception):
    """Rolls a drop back: the storage cannot move a directory."""


@dataclass(frozen=True, slots=True)
class JdbcMetastore:
    """Rows as databases and tables. See :class:`tidelake.catalog.metastore.Metastore`."""

    directories: Warehouse
    database: Database
    catalog_key: str
    lock: TableLock

    def prepare(self, *, lock_key_length: int) -> JdbcMetastore:
        """Create the tables of the catalog that are missing.

        Raises
        ------
        StorageError
            The database cannot be reached, or refuses.
        """
        wanted = {
            statements.TABLES: statements.CREATE_TABLES,
            statements.DATABASE_PROPERTIES: statements.CREATE_DATABASE_PROPERTIES,
        }
        if self.lock.enabled:
            wanted[statements.LOCKS] = statements.CREATE_LOCKS.format(length=lock_key_length)
        found = self.database.tables(*wanted)
        for table in wanted.keys() - found:
            try:
                self.database.change(wanted[table])
            except TidelakeError:
                if not self.database.tables(table):  # else another process was faster
                    raise
        return self

    @property
    def warehouse(self) -> str:
        """Directory of the tables."""
        return self.directories.path

    @property
    def fileio(self) -> FileIO:
        """The storage of the files."""
        return self.directories.fileio

    @property
    def uri(self) -> str:
        """The directory, with its scheme."""
        return self.directories.uri

    @property
    def is_served(self) -> bool:
        """Files decide."""
        return False

    @property
    def listing_repair(self) -> None:
        """Java repairs none, either."""
        return None

    @property
    def view_store(self) -> JdbcViews:
        """Rows of the views, as Paimon 2.1 keeps them."""
        return JdbcViews(self.database, self.catalog_key, self.lock)

    def for_reading(self) -> FilesystemMetastore:
        """The directories, which need no database and no password."""
        ids = self.directories.ids
        return FilesystemMetastore(self.directories.path, fileio=self.fileio, ids=ids)

    @property
    def shown(self) -> str:
        """The warehouse and the database."""
        return f"{self._warehouse_shown} by {self.database.dialect.shown}"

    @property
    def _warehouse_shown(self) -> str:
        return self.fileio.uri_of(self.directories.path)

    def options(self) -> dict[str, str]:
        """Which catalog it is."""
        return {
            "catalog-key": self.catalog_key,
            "lock.enabled": "true" if self.lock.enabled else "false",
            "metastore": "jdbc",
            "uri": self.database.dialect.shown,
            "warehouse": self._warehouse_shown,
        }

    # ---- databases

    def databases(self) -> list[str]:
        """Those with a property, and those with a table."""
        names: set[str] = set()
        for table in self._naming_databases():
            asked = statements.DATABASES.format(table=table)
            names.update(str(name) for (name,) in self.database.rows(asked, self.catalog_key))
        return sorted(names)

    def has_database(self, name: str) -> bool:
        """Whether it has a property or a table."""
        return any(
            self.database.rows(
                statements.DATABASE_EXISTS.format(table=table), self.catalog_key, name
            )
            for table in self._naming_databases()
        )

    def _naming_databases(self) -> list[str]:
        more = self.database.tables(statements.VIEWS)
        return [statements.DATABASE_PROPERTIES, statements.TABLES, *more]

    def create_database(self, name: str) -> bool:
        """Insert its properties, as Java does."""
        if self.has_database(name):
            return False
        self.directories.check_stands_alone()
        try:
            self.database.change(statements.INSERT_DATABASE, *self._properties(name))
        except RowExistsError:
            return False
        return True

    def _properties(self, name: str) -> list[str]:
        """Values of the two rows of a database."""
        of = [self.catalog_key, name]
        location = self.fileio.uri_of(self.directories.database_path(name))
        return [*of, "exists", "true", *of, "location", location]

    def drop_database(self, name: str, *, cascade: bool) -> bool:
        """Delete its rows and directory; a table that is made meanwhile stays."""
        if not self.has_database(name):
            return False
        path, dropped = self.directories.database_path(name), self.directories.dropped()
        self.directories.check_holds_no_other(path)
        if not cascade:
            self._check_empty(name, path)
        moved = None
        try:
            with self.database.transaction():
                with suppress(NotFoundError):  # it has no directory yet
                    moved = dropped.move(path)
                if cascade:
                    self._delete_rows(name, has_moved=moved is not None)
                else:
                    self._check_empty(name, path if moved is None else moved)
                properties = statements.DELETE_OF_DATABASE
                self.database.change(properties, self.catalog_key, name)
        except BaseException:  # an interrupt too
            if moved is not None and self.has_database(name):
                dropped.restore(moved, path)
            raise
        if moved is not None:
            dropped.delete(moved, what=f"Database '{name}'")
        elif self.fileio.exists(path):
            self._delete_in_place(name, path, cascade=cascade)
        return True

    def _delete_rows(self, name: str, *, has_moved: bool) -> None:
        """Delete the rows of its tables and views; that of a table made after the move stays."""
        for table in map(Identifier, repeat(name), self.tables(name)):
            if not (has_moved and self.directories.holds_table(self.location(table))):
                self._delete_row(table)
        for view in self._views(name):
            self.database.change(statements.DELETE_VIEW, self.catalog_key, name, view)

    def _delete_in_place(self, name: str, path: str, *, cascade: bool) -> None:
        """Delete a directory that cannot be moved; tables that were made meanwhile stay."""
        try:
            if cascade:
                for table in self.directories.table_names(path):
                    if not self.has_table(Identifier(name, table)):
                        self.directories.dropped().delete_in_place(f"{path}/{table}")
            self.directories.delete_empty_database(name)
        except InvalidInputError:
            self.create_database(name)
            if not cascade:
                raise

    def _check_empty(self, name: str, *places: str) -> None:
        """Refuse a database with tables, or with files of tables.

        Parameters
        ----------
        *places : str
            Where its directory is or was moved to, beside where it belongs.
        """
        found = {*self.tables(name), *self._views(name)}
        for place in {self.directories.database_path(name), *places}:
            found.update(self.directories.table_names(place))
        if found:
            raise not_empty(name, sorted(found))

    def _views(self, database: str) -> list[str]:
        if not self.database.tables(statements.VIEWS):
            return []
        rows = self.database.rows(statements.VIEWS_OF_DATABASE, self.catalog_key, database)
        return [str(name) for (name,) in rows]

    def _of_paimon_2(self) -> set[str]:
        return self.database.tables(*OF_PAIMON_2)

    # ---- tables

    def tables(self, database: str) -> list[str]:
        """Rows of the database."""
        rows = self.database.rows(statements.TABLES_OF_DATABASE, self.catalog_key, database)
        return sorted(str(name) for (name,) in rows)

    def has_table(self, name: Identifier) -> bool:
        """Whether it has a row."""
        return bool(self.database.rows(statements.TABLE_EXISTS, self.catalog_key, *name))

    def location(self, name: Identifier) -> str:
        """Directory of a table."""
        return self.directories.table_path(name)

    def load_table(self, name: Identifier) -> CatalogEntry | None:
        """Read the newest schema of a table that has a row."""
        if not self.has_table(name):
            return None
        location = self.location(name)
        schema = self.directories.latest_schema(location)
        if schema is None:
            return None
        return CatalogEntry(location, schema, self.fileio, guard=partial(self.lock.hold, name))

    def why_missing(self, name: Identifier) -> NotFoundError | None:
        """A row without files, or files without a row."""
        path = self.location(name)
        listed, has_files = self.has_table(name), self.directories.holds_table(path)
        if listed and not has_files:
            message = (
                f"The catalog lists table '{name}', but {path} has no schema: a drop or a rename"
                f" was interrupted. Move its directory back to {path} if it is elsewhere; otherwise"
                f" remove the entry by drop_table('{name}')."
            )
            return NotFoundError(message, kind="schema_missing", table=str(name))
        if has_files and not listed:
            message = (
                f"The catalog does not list table '{name}', but {path} has files of one: a create,"
                " a drop or a rename was interrupted, or the table was made without this catalog."
                " Move the directory back if a rename took it from a table that is still listed."
                " Otherwise create it again if it is empty, delete it by"
                f" drop_table('{name}'), or insert its row into {statements.TABLES}."
            )
            return NotFoundError(message, kind="table_unlisted", table=str(name))
        return None

    def create_table(self, name: Identifier, schema: TableSchema) -> bool:
        """Put the first schema, then insert the row."""
        path = self.location(name)
        with self.lock.hold(name):
            if self.has_table(name):
                return False
            self._refuse_view(name)
            self.directories.refuse_dropping(name)
            is_ours = not self._has_files(path) and self.directories.put_first_schema(path, schema)
            if not is_ours:
                self._check_adoptable(name, path, schema)
            try:
                self.database.change(statements.INSERT_TABLE, self.catalog_key, *name)
            except RowExistsError:
                return False
            except OutcomeUnknownError:
                if not (is_ours and self.has_table(name)):
                    raise
            try:
                return self._is_created(name, schema, is_ours=is_ours)
            except (AlreadyExistsError, ConflictError):
                with self.database.transaction():
                    self._delete_row(name)
                raise

    def _is_created(self, name: Identifier, schema: TableSchema, *, is_ours: bool) -> bool:
        """Whether the files of a new row stay; another may have dropped them meanwhile."""
        if not is_ours:
            self.directories.refuse_dropping(name)
        elif not self.directories.is_created(name, schema):
            return False
        if not self.directories.holds_table(self.location(name)):
            message = f"Table '{name}' was dropped while it was created: create it again."
            raise ConflictError(message, kind="table_dropped", table=str(name))
        return True

    def _has_files(self, path: str) -> bool:
        return self.directories.holds_table(path) or self.directories.has_snapshots(path)

    def _check_adoptable(self, name: Identifier, path: str, schema: TableSchema) -> None:
        """Refuse files without a row unless they are an empty table of the same definition."""
        found = self.directories.latest_schema(path)
        same = found is not None and replace(found, time_ms=schema.time_ms) == schema
        if same and not self.directories.has_snapshots(path):
            return
        message = (
            f"{path} has files of a table '{name}' that the catalog does not list: a create, a drop"
            " or a rename was interrupted, or the table was made without this catalog. Move the"
            " directory back if a rename took it from a table that is still listed. Otherwise"
            f" delete it by drop_table('{name}'), or insert its row into {statements.TABLES}."
        )
        raise AlreadyExistsError(message, kind="table_remains", table=str(name))

    def _refuse_view(self, name: Identifier) -> None:
        if name.table in self._views(name.database):
            message = f"'{name}' is a view of this catalog: choose another name."
            raise AlreadyExistsError(message, kind="view_exists", table=str(name))

    def rename_table(self, source: Identifier, target: Identifier) -> None:
        """Change the row and move the directory in one transaction."""
        place, new_place = self.location(source), self.location(target)
        first, second = sorted((source, target))  # two renames must not wait for each other
        with self.lock.hold(first), self.lock.hold(second):
            self._refuse_view(target)
            if self.fileio.exists(new_place):
                message = f"{new_place} exists."
                raise AlreadyExistsError(message, kind="table_exists", table=str(target))
            is_new = not self.has_database(target.database)
            more = self._of_paimon_2() - {statements.VIEWS}
            moved = False
            try:
                with self.database.transaction():
                    if is_new:  # a rename that is refused leaves no database
                        made = self._properties(target.database)
                        self.database.change(statements.INSERT_DATABASE_IF_NEW, *made)
                    self._rename_rows(statements.TABLES, source, target)
                    for table in more:
                        self._rename_rows(table, source, target, needed=False)
                    self.fileio.move_dir(place, new_place)
                    moved = True
            except TidelakeError:
                if not moved or self._moved_back(target, place):
                    raise  # else the answer to the commit was lost
            except BaseException:  # an interrupt too rolls the row back
                if moved:
                    self._moved_back(target, place)
                raise

    def _moved_back(self, target: Identifier, place: str) -> bool:
        """Move a renamed directory back, unless its row has the new name."""
        if self.has_table(target):
            return False
        self.fileio.move_dir(self.location(target), place)
        return True

    def _rename_rows(
        self, table: str, source: Identifier, target: Identifier, *, needed: bool = True
    ) -> None:
        renamed = statements.RENAME_TABLE.format(table=table)
        changed = self.database.change(renamed, *target, self.catalog_key, *source)
        if needed and not changed:
            message = f"Table '{source}' does not exist."
            raise NotFoundError(message, kind="table_not_found", table=str(source))

    def drop_table(self, name: Identifier) -> bool:
        """Delete the row and move the directory away in one transaction, then delete the files."""
        with self.lock.hold(name):
            return self._drop_table(name)

    def _drop_table(self, name: Identifier) -> bool:
        path, dropped = self.location(name), self.directories.dropped()
        if not self.has_table(name) and not self.fileio.list_dir(path):
            if self.fileio.is_remote and dropped.is_dropping(path):
                dropped.delete_in_place(path)  # what was interrupted at its end
                return True
            return False
        moved = None
        try:
            with self.database.transaction():
                self._delete_row(name)
                with suppress(NotFoundError):  # it has no files, or another dropped it
                    moved = dropped.move(path)
                    if moved is None:
                        raise _NotMovedError
        except _NotMovedError:  # so the database lets the row go, and has it still
            self._drop_in_place(name, path)
            return True
        except BaseException:  # an interrupt too
            if moved is not None and self.has_table(name):
                dropped.restore(moved, path)
            raise
        if moved is not None:
            dropped.delete(moved, what=f"Table '{name}'")
        return True

    def _drop_in_place(self, name: Identifier, path: str) -> None:
        with self.directories.dropped().deleted_in_place(path) as is_ours:
            if is_ours:  # else the row may be that of a table that was created again
                with self.database.transaction():
                    self._delete_row(name)

    def _delete_row(self, name: Identifier) -> None:
        more = self._of_paimon_2() - {statements.VIEWS}
        for table in (statements.TABLES, *more):
            deleted = statements.DELETE_TABLE.format(table=table)
            self.database.change(deleted, self.catalog_key, *name)

    def dropped_left(self, *, delete: bool) -> int:
        """Count the directories that killed drops have left, and delete them where asked."""
        dropped = self.directories.dropped()
        return dropped.clear() if delete else len(dropped.left())

    def put_in_place(self, name: Identifier, staged: str) -> None:
        """Swap the directories, and insert the row of a new table."""
        self.create_database(name.database)
        with self.lock.hold(name):
            self.directories.swap(staged, self.location(name))
            if not self.has_table(name):
                with suppress(RowExistsError):
                    self.database.change(statements.INSERT_TABLE, self.catalog_key, *name)
