"""Entries are made anew by the files: of tables that others wrote, or that a crash left unlisted.

Files that a drop is about to delete stay unlisted. Of an entry's parameters those that are names of
options, or that say its keys, follow the schema; the others are somebody's own.

Source: ``HiveCatalog.repairTable`` (2.1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidelake.catalog.hive.lock import MetastoreLock
from tidelake.catalog.hive.lower_case import check_lower
from tidelake.catalog.hive.register import Register, TableEntry
from tidelake.catalog.hive.table_entries import EntrySettings, names_of
from tidelake.catalog.identifier import Identifier
from tidelake.catalog.metastore import Repair
from tidelake.catalog.warehouse import Warehouse
from tidelake.errors import AlreadyExistsError, NotFoundError
from tidelake.types import TableSchema


@dataclass(frozen=True, slots=True, kw_only=True)
class HiveListingRepair:
    """See :class:`tidelake.catalog.metastore.ListingRepair`.

    Parameters
    ----------
    new_location : callable
        The URI of a table that has no entry.
    storage : callable
        Its directories, and the path there.
    owner_of : callable
        The entry that lies at a URI; None if none does.
    made : callable
        A new entry.
    taken : callable
        The error that a name is another engine's.
    create_database : callable
        Creates the entry of a database; False if it has one.
    """

    directories: Warehouse
    register: Register
    settings: EntrySettings
    lock: MetastoreLock
    new_location: Callable[[Identifier], str]
    storage: Callable[[str], tuple[Warehouse, str]]
    owner_of: Callable[[str], TableEntry | None]
    made: Callable[[Identifier, TableSchema, str], TableEntry]
    taken: Callable[[Identifier, TableEntry], AlreadyExistsError]
    create_database: Callable[[str], bool]

    def databases(self) -> list[str]:
        """Those of the metastore, and the directories of the warehouse."""
        return sorted({*self.register.databases(), *self.directories.database_names()})

    def repair_database(self, name: str) -> bool:
        """Create its entry if it has a directory."""
        check_lower(name, "database")
        if self.register.database(name) is not None:
            return False
        path = self.directories.database_path(name)
        if not self.directories.fileio.exists(path):
            message = f"Database '{name}' has no entry, and there is no directory {path}."
            raise NotFoundError(message, kind="database_not_found", database=name)
        return self.create_database(name)

    def tables(self, database: str) -> list[str]:
        """Directories with a schema, and entries of Paimon."""
        directories, path = self.storage(self.new_location(Identifier(database, "t")))
        above = path.rpartition("/")[0]
        listed = names_of(one for one in self.register.tables(database) if one.is_paimon)
        return sorted({*directories.table_names(above), *listed})

    def repair_table(self, name: Identifier) -> Repair:
        """Create its entry, or change it."""
        check_lower(name.table, "table")
        self.repair_database(name.database)
        with self.lock.hold(name):
            entry = self.register.table(*name)
            if entry is not None and not entry.is_paimon:
                raise self.taken(name, entry)
            uri = self.new_location(name) if entry is None else self.settings.location_of(entry)
            directories, path = self.storage(uri or self.new_location(name))
            schema = directories.latest_schema(path)
            if schema is None:
                message = f"Table '{name}' has no files in {path}: there is nothing to list it by."
                raise NotFoundError(message, kind="schema_missing", table=str(name))
            if entry is None:
                return self._list(name, directories, path, schema)
            changed = self.settings.by_schema(entry, schema)
            if changed == entry:
                return "unchanged"
            self.register.replace_table(entry, changed)
            return "changed"

    def _list(
        self, name: Identifier, directories: Warehouse, path: str, schema: TableSchema
    ) -> Repair:
        """Create the entry of files that have none."""
        directories.refuse_dropping(name, path)
        uri = self.new_location(name)
        owner = self.owner_of(uri)
        if owner is not None:
            message = (
                f"{path} has the files of table '{owner.database}.{owner.name}': '{name}' cannot be"
                " listed by them."
            )
            raise AlreadyExistsError(message, kind="table_remains", table=str(name))
        return "created" if self.register.create_table(self.made(name, schema, uri)) else "changed"
