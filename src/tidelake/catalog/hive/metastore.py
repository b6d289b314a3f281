"""A catalog of entries: a table exists if its entry is Paimon's and files lie where it says.

Entries and files change one after the other. The order leaves something that names itself:

- **Create**: the first schema is put if absent, then the entry is created; the metastore decides
  between two creators. A crash leaves files without an entry: a creator of the same table takes
  them up if they hold no snapshot, and is refused otherwise.
- **Drop**: the directory is moved away, then the entry is dropped, then the files are deleted. If
  the metastore refuses, the directory is moved back. A crash leaves an entry without files, which
  reads name; dropping the table again removes it. The files of an external table stay, also with
  its database; files without an entry are deleted only where no table lies and none was external.
- **Replace**: the entry shows the new table, then the directories are swapped; if that fails, it
  shows the old one again. A metastore that refuses the columns leaves the old table.
- **Rename**: the directory is moved, then the entry gets its new name and place at once. A crash
  leaves the old entry and the moved directory. Of an external table only the entry changes.
- **Alter**: the entry shows the new columns, then the schema is put. A metastore that refuses them
  refuses the change.

Tables and views of others are not listed, and never dropped: a database that holds any stays.

Source: ``HiveCatalog`` of paimon-hive-catalog (2.1), whose own order is entry before files.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from tidelake.catalog.hive.lock import MetastoreLock
from tidelake.catalog.hive.lower_case import check_lower, is_lower
from tidelake.catalog.hive.register import Register, TableEntry
from tidelake.catalog.hive.repair import HiveListingRepair
from tidelake.catalog.hive.table_entries import EntrySettings, names_of
from tidelake.catalog.hive.table_listing import TableListing
from tidelake.catalog.hive.views import HiveViews
from tidelake.catalog.identifier import Identifier
from tidelake.catalog.metastore import CatalogEntry
from tidelake.catalog.warehouse import Warehouse, not_empty
from tidelake.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidInputError,
    NotFoundError,
    OutcomeUnknownError,
    StorageError,
    StorageRefusedError,
    TidelakeError,
    UnsupportedError,
)
from tidelake.fileio import FileIO
from tidelake.fileio.location import Location, parse_location
from tidelake.telemetry import Clock
from tidelake.types import TableSchema

StorageOf = Callable[[str], tuple[FileIO | None, str]]
"""Opens the storage of a URI, None for the warehouse's own; and the path there."""
TABLES_NAMED_MAX = 5


@dataclass(frozen=True, slots=True)
class HiveMetastore:
    """Entries as databases and tables. See :class:`tidelake.catalog.metastore.Metastore`.

    Parameters
    ----------
    root : str
        Scheme and bucket of the warehouse, as users write them.
    storage_of : callable
        Opens other storages.
    owner : str, optional
        Of new tables.
    """

    directories: Warehouse
    root: str
    register: Register
    settings: EntrySettings
    lock: MetastoreLock
    storage_of: StorageOf
    owner: str | None
    clock: Clock

    @property
    def warehouse(self) -> str:
        """Directory of new databases."""
        return self.directories.path

    @property
    def fileio(self) -> FileIO:
        """The storage of the warehouse."""
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
    def listing_repair(self) -> HiveListingRepair:
        """By the directories of the warehouse."""
        return HiveListingRepair(
            directories=self.directories,
            register=self.register,
            settings=self.settings,
            lock=self.lock,
            new_location=self._new_location,
            storage=self._storage,
            owner_of=self._listed_at,
            made=self._made,
            taken=self._taken_by_other,
            create_database=self.create_database,
        )

    @property
    def view_store(self) -> HiveViews:
        """Views of the metastore."""
        return HiveViews(self.register, self.owner, self.clock)

    def for_reading(self) -> HiveMetastore:
        """Itself: where tables lie, only the metastore knows."""
        return self

    @property
    def shown(self) -> str:
        """The warehouse and the metastore."""
        return f"{self.fileio.uri_of(self.warehouse)} by {self.register.shown}"

    def options(self) -> dict[str, str]:
        """Which catalog it is."""
        shown = {
            "location-in-properties": self.settings.location_in_properties,
            "lock.enabled": self.lock.enabled,
            "sync-all-properties": self.settings.sync_all_properties,
        }
        return {
            **self.register.options(),
            **{key: "true" if value else "false" for key, value in shown.items()},
            "table.type": "external" if self.settings.external else "managed",
            "warehouse": self.fileio.uri_of(self.warehouse),
        }

    # ---- places

    def _uri(self, path: str) -> str:
        """A path of the warehouse's storage, as an entry names it."""
        return f"{self.root}{path}"

    def _storage(self, uri: str) -> tuple[Warehouse, str]:
        """The storage of a location, and the path there."""
        fileio, path = self.storage_of(uri)
        if fileio is None:
            return self.directories, path
        return Warehouse(posixpath.dirname(path), fileio, self.directories.ids), path

    def _new_location(self, name: Identifier) -> str:
        """The URI of a new table: in its database's directory."""
        database = self.register.database(name.database)
        found = None if database is None else self.settings.location_of(database)
        above = found or self._uri(self.directories.database_path(name.database))
        self.directories.table_path(name)  # checks the name
        return f"{above.rstrip('/')}/{name.table}"

    def _paimon(self, name: Identifier) -> TableEntry | None:
        """The entry of a table of Paimon; None if there is none, or another's."""
        if not is_lower(name):
            return None
        found = self.register.table(*name)
        return found if found is not None and found.is_paimon else None

    def _uri_of(self, entry: TableEntry) -> str:
        uri = self.settings.location_of(entry)
        if not uri:
            message = (
                f"The entry of table '{entry.database}.{entry.name}' in {self.register.shown} has"
                " no location: set it there, or open the catalog with 'location-in-properties' ="
                " 'true' if it is among the entry's properties."
            )
            raise NotFoundError(
                message, kind="table_location", table=f"{entry.database}.{entry.name}"
            )
        return uri

    # ---- databases

    def databases(self) -> list[str]:
        """All of the metastore: those of others may hold tables of Paimon, too."""
        return sorted(self.register.databases())

    def has_database(self, name: str) -> bool:
        """Whether it has an entry."""
        return name == name.lower() and self.register.database(name) is not None

    def create_database(self, name: str) -> bool:
        """Create its entry, below the warehouse."""
        check_lower(name, "database")
        if self.has_database(name):
            return False
        self.directories.check_stands_alone()
        path = self.directories.database_path(name)
        if self.settings.location_in_properties:
            self.fileio.make_dirs(path)
        return self.register.create_database(self.settings.database(name, self._uri(path)))

    def drop_database(self, name: str, *, cascade: bool) -> bool:
        """Drop its tables and its entry, then its directory unless files in it are to stay."""
        entry = self.register.database(name) if name == name.lower() else None
        if entry is None:
            return False
        uri = self.settings.location_of(entry)
        directories, path = self._storage(uri) if uri else (self.directories, "")
        if path:
            directories.check_holds_no_other(path)
        external = self._empty(name, cascade=cascade)
        if path:
            left = directories.table_names(path)
            if left and not cascade:
                raise not_empty(name, left)
        if not self.register.drop_database(name):
            return False
        if path and directories.fileio.exists(path):
            self._delete_directory(name, directories, path, cascade=cascade, external=external)
        return True

    def _empty(self, name: str, *, cascade: bool) -> bool:
        """Drop tables and views with `cascade`; refuse a database with others, or without.

        Returns
        -------
        bool
            Whether a table was external: its files stay, wherever they lie.
        """
        found = self.register.tables(name)
        foreign = [entry for entry in found if not entry.is_paimon and not entry.is_view]
        if foreign:
            message = (
                f"Database '{name}' holds tables of {self.register.shown} that are not Paimon's"
                f" ({', '.join(names_of(foreign)[:TABLES_NAMED_MAX])}): drop them there first."
            )
            raise InvalidInputError(message, kind="database_not_empty", database=name)
        if found and not cascade:
            raise not_empty(name, names_of(found))
        for entry in found:
            if entry.is_view:
                self.register.drop_table(name, entry.name, with_directory=False)
            else:
                self.drop_table(Identifier(name, entry.name))
        return any(entry.is_external for entry in found)

    def _delete_directory(
        self, name: str, directories: Warehouse, path: str, *, cascade: bool, external: bool
    ) -> None:
        """Delete a dropped database's directory, unless it holds what is no managed table's.

        Those of managed tables are gone by now. What is left belongs to external tables, dropped
        or of another database, or to another catalog.
        """
        if path == self.warehouse:
            return  # of the database 'default' in some metastores
        if not cascade or external:
            if not directories.fileio.list_dir(path):
                directories.fileio.delete_dir(path)
            return
        if directories.table_names(path):
            return
        dropped = directories.dropped()
        with suppress(NotFoundError):  # another was faster
            moved = dropped.move(path, decided=True)
            if moved is None:
                for table in directories.table_names(path):
                    dropped.delete_in_place(f"{path}/{table}")
                directories.fileio.delete_dir(path)
            else:
                dropped.delete(moved, what=f"Database '{name}'")

    # ---- tables

    def tables(self, database: str) -> list[str]:
        """Entries of Paimon's tables."""
        return names_of(entry for entry in self.register.tables(database) if entry.is_paimon)

    def has_table(self, name: Identifier) -> bool:
        """Whether it has an entry."""
        return self._paimon(name) is not None

    def location(self, name: Identifier) -> str:
        """Directory of a table: its entry's, or that of a new one."""
        if not is_lower(name):
            return self.directories.table_path(name)
        found = self._paimon(name)
        uri = self._new_location(name) if found is None else self._uri_of(found)
        return self._storage(uri)[1]

    def load_table(self, name: Identifier) -> CatalogEntry | None:
        """Read the newest schema of a table that has an entry."""
        entry = self._paimon(name)
        if entry is None:
            return None
        directories, location = self._storage(self._uri_of(entry))
        schema = directories.latest_schema(location)
        if schema is None:
            return None
        return CatalogEntry(
            location,
            schema,
            directories.fileio,
            guard=partial(self.lock.hold, name),
            listing=TableListing(self.register, self.settings, self._uri_of, name),
        )

    def why_missing(self, name: Identifier) -> NotFoundError | None:
        """An entry without files, files without an entry, or another's entry."""
        if not is_lower(name):
            return None
        entry = self.register.table(*name)
        if entry is not None and not entry.is_paimon:
            what = "a view" if entry.is_view else "a table of Hive, not one of Paimon"
            message = (
                f"'{name}' is {what} in {self.register.shown}. Read it with the engine that made it"
                "; CALL sys.migrate_table moves the files of a Hive table into a new one."
            )
            return NotFoundError(message, kind="table_not_paimon", table=str(name))
        uri = self._new_location(name) if entry is None else self._uri_of(entry)
        directories, path = self._storage(uri)
        has_files = directories.holds_table(path)
        if entry is not None and not has_files:
            message = (
                f"{self.register.shown} lists table '{name}', but {path} has no schema: a drop or a"
                f" rename was interrupted. Move its directory back to {path} if it is elsewhere;"
                f" otherwise remove the entry by drop_table('{name}')."
            )
            return NotFoundError(message, kind="schema_missing", table=str(name))
        if has_files and entry is None:
            message = (
                f"{self.register.shown} does not list table '{name}', but {path} has files of one:"
                f" {self._advice(name, self._why_kept(directories, path, uri), is_taken=False)}"
            )
            return NotFoundError(message, kind="table_unlisted", table=str(name))
        return None

    def create_table(self, name: Identifier, schema: TableSchema) -> bool:
        """Put the first schema, then create the entry."""
        check_lower(name.database, "database")
        check_lower(name.table, "table")
        uri = self._new_location(name)
        entry = self._made(name, schema, uri)
        directories, path = self._storage(uri)
        with self.lock.hold(name):
            found = self.register.table(*name)
            if found is not None and found.is_paimon:
                return False
            if found is not None:
                raise self._taken_by_other(name, found)
            directories.refuse_dropping(name, path)
            is_ours = not self._has_files(directories, path) and directories.put_first_schema(
                path, schema
            )
            if not is_ours:
                self._check_adoptable(name, directories, path, schema, uri)
            try:
                if not self.register.create_table(entry):
                    return self._lost_race(name)
            except OutcomeUnknownError:
                if not (is_ours and self.has_table(name)):
                    raise
            except StorageError:
                if is_ours:  # an entry of another may have taken it up
                    with suppress(TidelakeError):
                        if self.register.table(*name) is None:
                            directories.fileio.delete_dir(path)
                raise
            try:
                return self._is_created(name, schema, directories, path, is_ours=is_ours)
            except (AlreadyExistsError, ConflictError):
                self.register.drop_table(*name, with_directory=False)
                raise

    def _made(self, name: Identifier, schema: TableSchema, uri: str) -> TableEntry:
        """The entry of a new table."""
        now_ms = self.clock.now_ms()
        return self.settings.table(name, schema, uri, owner=self.owner, now_ms=now_ms)

    def _lost_race(self, name: Identifier) -> bool:
        """What the faster of two creators made: False if it is a table of Paimon."""
        found = self.register.table(*name)
        if found is not None and not found.is_paimon:
            raise self._taken_by_other(name, found)
        return False

    def _taken_by_other(self, name: Identifier, found: TableEntry) -> AlreadyExistsError:
        if found.is_view:
            message = f"'{name}' is a view of this catalog: choose another name."
            return AlreadyExistsError(message, kind="view_exists", table=str(name))
        message = (
            f"'{name}' is a table of {self.register.shown} that is not Paimon's: choose another"
            " name, or drop it there."
        )
        return AlreadyExistsError(message, kind="table_exists", table=str(name))

    def _is_created(
        self,
        name: Identifier,
        schema: TableSchema,
        directories: Warehouse,
        path: str,
        *,
        is_ours: bool,
    ) -> bool:
        """Whether the files of a new entry stay; another may have dropped them meanwhile."""
        if not is_ours:
            directories.refuse_dropping(name, path)
        elif not directories.is_created(name, schema, path):
            return False
        if not directories.holds_table(path):
            message = f"Table '{name}' was dropped while it was created: create it again."
            raise ConflictError(message, kind="table_dropped", table=str(name))
        return True

    @staticmethod
    def _has_files(directories: Warehouse, path: str) -> bool:
        return directories.holds_table(path) or directories.has_snapshots(path)

    def _check_adoptable(
        self, name: Identifier, directories: Warehouse, path: str, schema: TableSchema, uri: str
    ) -> None:
        """Refuse files without an entry unless they are an empty table of the same definition."""
        found = directories.latest_schema(path)
        same = found is not None and replace(found, time_ms=schema.time_ms) == schema
        owner = self._listed_at(uri)
        if owner is None and same and not directories.has_snapshots(path):
            return
        why = self._why_kept(directories, path, uri) if owner is None else _of_owner(owner)
        raise self._remains(name, path, why)

    def _remains(self, name: Identifier, path: str, why_kept: str | None) -> AlreadyExistsError:
        message = (
            f"{path} has files of a table '{name}' that {self.register.shown} does not list:"
            f" {self._advice(name, why_kept, is_taken=True)}"
        )
        return AlreadyExistsError(message, kind="table_remains", table=str(name))

    @staticmethod
    def _advice(name: Identifier, why_kept: str | None, *, is_taken: bool) -> str:
        """Where files without an entry come from, and what to do."""
        if why_kept is not None:
            return f"{why_kept} {'Choose another name.' if is_taken else ''}".rstrip()
        create = "" if is_taken else " create it again if it is empty, or"
        return (
            "a create, a drop or a rename was interrupted, or the table was made without this"
            " catalog. Move the directory back if a rename took it from a table that is still"
            f" listed. Otherwise{create} delete it by drop_table('{name}')."
        )

    def _why_kept(self, directories: Warehouse, path: str, uri: str) -> str | None:
        """Why a drop must not delete files without an entry; None if it may."""
        owner = self._listed_at(uri)
        if owner is not None:
            return _of_owner(owner)
        schema = directories.latest_schema(path)
        if self.settings.external or (schema is not None and self.settings.is_external(schema)):
            return (
                "an external table's, which stay when it is dropped. Delete the directory yourself"
                " if nobody needs them."
            )
        return None

    def _listed_at(self, uri: str) -> TableEntry | None:
        """The entry of any database that lies at a place: an external table keeps its own."""
        wanted = _location(uri)
        for database in self.register.databases():
            for entry in self.register.tables(database):
                found = self.settings.location_of(entry) if not entry.is_view else None
                if found and _location(found) == wanted:
                    return entry
        return None

    def rename_table(self, source: Identifier, target: Identifier) -> None:
        """Move the directory, then change the entry."""
        check_lower(target.database, "database")
        check_lower(target.table, "table")
        first, second = sorted((source, target))  # two renames must not wait for each other
        with self.lock.hold(first), self.lock.hold(second):
            entry = self._paimon(source)
            if entry is None:
                message = f"Table '{source}' does not exist."
                raise NotFoundError(message, kind="table_not_found", table=str(source))
            taken = self.register.table(*target)
            if taken is not None:
                raise self._taken_by_other(target, taken)
            self.create_database(target.database)
            renamed = replace(entry, database=target.database, name=target.table)
            if entry.is_external:
                self.register.replace_table(entry, renamed)
                return
            self._move(entry, self.settings.at(renamed, self._new_location(target)))

    def _move(self, entry: TableEntry, renamed: TableEntry) -> None:
        """Rename a table with its files."""
        old_uri, new_uri = self._uri_of(entry), self._uri_of(renamed)
        (directories, place), (others, new_place) = self._storage(old_uri), self._storage(new_uri)
        target = Identifier(renamed.database, renamed.name)
        if directories.fileio is not others.fileio:
            message = (
                f"Table '{entry.database}.{entry.name}' lies on another storage than database"
                f" '{target.database}', and files are not moved between storages: clone it."
            )
            raise UnsupportedError(message, kind="rename_table", table=str(target))
        if others.fileio.exists(new_place):
            message = f"{new_place} exists."
            raise AlreadyExistsError(message, kind="table_exists", table=str(target))
        directories.fileio.move_dir(place, new_place)
        advice = f"if '{target}' is not listed, move its directory {new_place} back to {place}"

        def is_renamed(error: BaseException) -> bool:
            is_listed = self._is_listed(target, error, otherwise=False, advice=advice)
            if not is_listed:
                directories.fileio.move_dir(new_place, place)
            return is_listed

        try:
            self.register.replace_table(entry, renamed)
        except OutcomeUnknownError as error:
            if not is_renamed(error) or self.has_table(Identifier(entry.database, entry.name)):
                raise
        except BaseException as error:  # an interrupt too
            is_renamed(error)
            raise
        above = f"{old_uri.rstrip('/')}/"
        for partition in self.register.partitions(renamed) if renamed.partition_keys else ():
            if partition.location.startswith(above):
                moved = f"{new_uri.rstrip('/')}/{partition.location.removeprefix(above)}"
                self.register.move_partition(renamed, replace(partition, location=moved))

    def _is_listed(
        self, name: Identifier, error: BaseException, *, otherwise: bool, advice: str
    ) -> bool:
        """Whether a table is listed after a change failed; `otherwise` if nothing was changed."""
        if isinstance(error, StorageRefusedError):
            return otherwise
        try:
            return self.has_table(name)
        except StorageError as lost:
            if not isinstance(error, Exception):
                raise error from lost
            message = f"{error} {lost} The files were moved: {advice}."
            raise OutcomeUnknownError(message, kind="catalog_lost", table=str(name)) from error

    def drop_table(self, name: Identifier) -> bool:
        """Move the directory away, drop the entry, delete the files."""
        if not is_lower(name):
            return False
        with self.lock.hold(name):
            found = self.register.table(*name)
            if found is not None and not found.is_paimon:
                return False
            if found is not None and found.is_external:
                return self.register.drop_table(*name, with_directory=False)
            uri = self._new_location(name) if found is None else self._uri_of(found)
            directories, path = self._storage(uri)
            if found is None and self._has_files(directories, path):
                why = self._why_kept(directories, path, uri)
                if why is not None:
                    message = f"Table '{name}' does not exist. {path} has files: {why}"
                    raise NotFoundError(message, kind="table_not_found", table=str(name))
            return self._drop_files(name, directories, path, is_listed=found is not None)

    def _drop_files(
        self, name: Identifier, directories: Warehouse, path: str, *, is_listed: bool
    ) -> bool:
        dropped, files = directories.dropped(), directories.fileio
        if not is_listed and not files.list_dir(path):
            if files.is_remote and dropped.is_dropping(path):
                dropped.delete_in_place(path)  # what was interrupted at its end
                return True
            return False
        moved = None
        try:
            moved = dropped.move(path)
        except NotFoundError:  # it has no files, or another dropped it
            return self._drop_entry(name)
        if moved is None:
            with dropped.deleted_in_place(path) as is_ours:
                if is_ours:  # else the entry may be that of a table that was created again
                    self._drop_entry(name)
            return True
        advice = f"if '{name}' is listed, move its directory {moved} back to {path}"

        def is_dropped(error: BaseException) -> bool:
            is_listed = self._is_listed(name, error, otherwise=True, advice=advice)
            if is_listed:
                dropped.restore(moved, path)
            return not is_listed

        try:
            self._drop_entry(name)
        except OutcomeUnknownError as error:
            if not is_dropped(error):
                raise
        except BaseException as error:  # an interrupt too
            is_dropped(error)
            raise
        dropped.delete(moved, what=f"Table '{name}'")
        return True

    def _drop_entry(self, name: Identifier) -> bool:
        # with the location among the properties the metastore has made a directory of its own
        own = self.settings.location_in_properties
        return self.register.drop_table(*name, with_directory=own)

    def dropped_left(self, *, delete: bool) -> int:
        """Count the directories that killed drops have left, and delete them where asked."""
        dropped = self.directories.dropped()
        return dropped.clear() if delete else len(dropped.left())

    def put_in_place(self, name: Identifier, staged: str) -> None:
        """Show the new table, then swap the directories."""
        self.create_database(name.database)
        with self.lock.hold(name):
            found = self._paimon(name)
            uri = self._new_location(name) if found is None else self._uri_of(found)
            directories, path = self._storage(uri)
            if directories.fileio is not self.fileio:
                message = (
                    f"Table '{name}' lies on another storage than the warehouse and cannot be"
                    " replaced: drop it and create it again, or overwrite its rows."
                )
                raise UnsupportedError(message, kind="replace_table", table=str(name))
            old = None if found is None else directories.latest_schema(path)
            new = directories.latest_schema(staged)
            assert new is not None, "a staged table has a schema"
            if found is None and self._has_files(directories, path):
                why = self._why_kept(directories, path, uri)
                if why is not None:
                    raise self._remains(name, path, why)
            made = self._made(name, new, uri)
            changed = made if found is None else self.settings.changed(found, old or new, new)
            self._swap(name, found, changed, (directories, staged, path))
            if found is not None and changed.partition_keys:
                with suppress(TidelakeError):  # the new table is in place
                    for partition in self.register.partitions(changed):
                        self.register.drop_partition(changed, partition.values)

    def _swap(
        self,
        name: Identifier,
        old: TableEntry | None,
        new: TableEntry,
        places: tuple[Warehouse, str, str],
    ) -> None:
        """Show the new table, then swap the directories; show the old one again if that fails."""
        directories, staged, path = places
        if old is not None:
            self.register.replace_table(old, new)
        elif not self.register.create_table(new):
            self._lost_race(name)
            message = f"Another created table '{name}' meanwhile: try again."
            raise AlreadyExistsError(message, kind="table_exists", table=str(name))
        try:
            directories.swap(staged, path)
        except BaseException:  # an interrupt too
            with suppress(TidelakeError):  # report the failure before
                if directories.fileio.exists(staged):
                    self._show_again(name, old)
            raise

    def _show_again(self, name: Identifier, old: TableEntry | None) -> None:
        if old is None:
            self.register.drop_table(*name, with_directory=False)
            return
        shown = self.register.table(*name)
        if shown is not None:
            self.register.replace_table(shown, replace(old, origin=shown.origin))


def _of_owner(entry: TableEntry) -> str:
    return f"those of table '{entry.database}.{entry.name}'."


def _location(uri: str) -> Location | str:
    """A location in one spelling."""
    try:
        found = parse_location(uri)
    except InvalidInputError:  # on a storage that is not known here
        return uri
    return replace(found, path=posixpath.normpath(found.path), account="")
