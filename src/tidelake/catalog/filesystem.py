"""The filesystem catalog: databases and tables are directories, ``<warehouse>/<db>.db/<table>``.

A table exists if its ``schema`` directory holds a schema. Creating a table publishes ``schema-0``
by put-if-absent, so one of two creators wins and the other gets an error. There are no other
files: every engine for Paimon sees the same catalog.
"""

from __future__ import annotations

from contextlib import suppress

from tidelake.catalog.identifier import Identifier
from tidelake.catalog.metastore import CatalogEntry
from tidelake.catalog.warehouse import Warehouse, not_empty
from tidelake.errors import AlreadyExistsError, NotFoundError
from tidelake.fileio import FileIO
from tidelake.telemetry import Ids
from tidelake.types import TableSchema


class FilesystemMetastore:
    """Directories as databases and tables. See :class:`tidelake.catalog.metastore.Metastore`.

    Parameters
    ----------
    warehouse : str
        Absolute path.
    """

    def __init__(self, warehouse: str, *, fileio: FileIO, ids: Ids) -> None:
        self._warehouse = Warehouse(warehouse, fileio, ids)

    @property
    def warehouse(self) -> str:
        """Directory of the tables."""
        return self._warehouse.path

    @property
    def fileio(self) -> FileIO:
        """The storage."""
        return self._warehouse.fileio

    @property
    def uri(self) -> str:
        """The directory, with its scheme."""
        return self._warehouse.uri

    @property
    def is_served(self) -> bool:
        """Files decide."""
        return False

    @property
    def listing_repair(self) -> None:
        """The directories are the entries."""
        return None

    @property
    def view_store(self) -> None:
        """Paimon keeps no views in it."""
        return None

    def for_reading(self) -> FilesystemMetastore:
        """Itself."""
        return self

    @property
    def shown(self) -> str:
        """The warehouse."""
        return self.fileio.uri_of(self._warehouse.path)

    def options(self) -> dict[str, str]:
        """Only the warehouse."""
        return {"warehouse": self.shown}

    def databases(self) -> list[str]:
        """Directories whose name ends with ``.db``."""
        return self._warehouse.database_names()

    def has_database(self, name: str) -> bool:
        """Whether its directory exists."""
        return self.fileio.exists(self._warehouse.database_path(name))

    def create_database(self, name: str) -> bool:
        """Make its directory."""
        path = self._warehouse.database_path(name)
        if self.fileio.exists(path):
            return False
        self._warehouse.check_stands_alone()
        self.fileio.make_dirs(path)
        return True

    def drop_database(self, name: str, *, cascade: bool) -> bool:
        """Move its directory away and delete it."""
        path = self._warehouse.database_path(name)
        if not self.fileio.exists(path):
            return False
        self._check_droppable(name, path, cascade=cascade)
        dropped = self._warehouse.dropped()
        with suppress(NotFoundError):  # another dropped it at the same time
            moved = dropped.move(path)
            if moved is None:
                self._drop_in_place(name, path, cascade=cascade)
                return True
            try:  # a table may have been created meanwhile
                self._check_droppable(name, moved, cascade=cascade)
            except BaseException:  # an interrupt too
                dropped.restore(moved, path)
                raise
            dropped.delete(moved, what=f"Database '{name}'")
        return True

    def _drop_in_place(self, name: str, path: str, *, cascade: bool) -> None:
        """Delete a database's directory that cannot be moved."""
        if not cascade:
            self._warehouse.delete_empty_database(name)
            return
        for table in self._warehouse.table_names(path):
            self._warehouse.dropped().delete_in_place(f"{path}/{table}")
        self.fileio.delete_dir(path)

    def _check_droppable(self, name: str, path: str, *, cascade: bool) -> None:
        """Refuse to drop a database with tables, unless `cascade`, or with another warehouse."""
        self._warehouse.check_holds_no_other(path)
        tables = [] if cascade else self._warehouse.table_names(path)
        if tables:
            raise not_empty(name, tables)

    def tables(self, database: str) -> list[str]:
        """Directories that hold a schema."""
        return self._warehouse.table_names(self._warehouse.database_path(database))

    def has_table(self, name: Identifier) -> bool:
        """Whether its directory holds a schema; lists one small directory."""
        return self._warehouse.holds_table(self.location(name))

    def location(self, name: Identifier) -> str:
        """Directory of a table."""
        return self._warehouse.table_path(name)

    def load_table(self, name: Identifier) -> CatalogEntry | None:
        """Read the newest schema."""
        location = self.location(name)
        schema = self._warehouse.latest_schema(location)
        return None if schema is None else CatalogEntry(location, schema, self.fileio)

    def why_missing(self, name: Identifier) -> NotFoundError | None:
        """Snapshots without a schema."""
        return self._warehouse.schema_missing(name)

    def create_table(self, name: Identifier, schema: TableSchema) -> bool:
        """Publish ``schema-0``."""
        path = self.location(name)
        if self._warehouse.has_snapshots(path) and not self._warehouse.holds_table(path):
            message = (
                f"{path} has files of table '{name}', whose drop was interrupted: finish it"
                f" with drop_table('{name}') first."
            )
            raise AlreadyExistsError(message, kind="table_remains", table=str(name))
        self._warehouse.refuse_dropping(name)
        put = self._warehouse.put_first_schema(path, schema)
        return put and self._warehouse.is_created(name, schema)

    def rename_table(self, source: Identifier, target: Identifier) -> None:
        """Rename its directory once, so other processes see one name or the other."""
        place, new_place = self.location(source), self.location(target)
        if self.fileio.exists(new_place):
            message = f"{new_place} exists."
            raise AlreadyExistsError(message, kind="table_exists", table=str(target))
        self.fileio.move_dir(place, new_place)

    def drop_table(self, name: Identifier) -> bool:
        """Move its directory away and delete it."""
        path, dropped = self.location(name), self._warehouse.dropped()
        if not self._warehouse.holds_table(path) and not self.fileio.list_dir(path):
            if self.fileio.is_remote and dropped.is_dropping(path):
                dropped.delete_in_place(path)  # what was interrupted at its end
                return True
            return False
        with suppress(NotFoundError):  # another dropped it at the same time
            moved = dropped.move(path, decided=True)
            if moved is None:
                dropped.delete_in_place(path)
            else:
                dropped.delete(moved, what=f"Table '{name}'")
        return True

    def dropped_left(self, *, delete: bool) -> int:
        """Count the directories that killed drops have left, and delete them where asked."""
        dropped = self._warehouse.dropped()
        return dropped.clear() if delete else len(dropped.left())

    def put_in_place(self, name: Identifier, staged: str) -> None:
        """Swap the directories."""
        self.create_database(name.database)
        self._warehouse.swap(staged, self.location(name))
