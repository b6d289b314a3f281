"""What a kind of catalog must do: the protocol behind :class:`tidelake.Catalog`.

A metastore knows which databases and tables there are, and where a table's files lie. The catalog
in front of it checks names, definitions and arguments, and words the errors that all kinds share. A
metastore decides races: of two creators of one table exactly one gets True.

Kinds: ``catalog/filesystem.py`` (directories), ``catalog/jdbc`` (rows of a database),
``catalog/hive`` (entries of a Hive Metastore or of AWS Glue), ``catalog/rest`` (a server).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from tidelake.catalog.identifier import Identifier
from tidelake.catalog.view_definition import ViewStore
from tidelake.commit.catalog_listing import CatalogListing
from tidelake.errors import NotFoundError
from tidelake.fileio import FileIO
from tidelake.metadata.table_state import Guard
from tidelake.table.handle.managed_table import ManagedTable
from tidelake.types import TableSchema

Repair: TypeAlias = Literal["created", "changed", "unchanged"]
"""What was done to an entry."""


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """A table as its metastore knows it.

    Its snapshots and schemas become visible when their files are put, if absent, below the
    location; or when its server says so.

    Parameters
    ----------
    schema : TableSchema
        Its newest schema.
    guard : Guard
        Held while a file is put.
    served : ManagedTable, optional
        The server that decides its newest snapshot and schema, if there is one.
    listing : CatalogListing, optional
        What shows its columns and partitions to others, beside the files.
    """

    location: str
    schema: TableSchema
    fileio: FileIO
    guard: Guard = nullcontext
    served: ManagedTable | None = None
    listing: CatalogListing | None = None


class ListingRepair(Protocol):
    """Makes entries say what the files say: the port to it."""

    def databases(self) -> list[str]:
        """Names of the databases that have an entry or a directory."""
        ...

    def repair_database(self, name: str) -> bool:
        """Create the entry of a database that has a directory; False if it has one.

        Raises
        ------
        NotFoundError
            It has neither.
        """
        ...

    def tables(self, database: str) -> list[str]:
        """Names of the tables whose files lie in its directory, and of those that are listed."""
        ...

    def repair_table(self, name: Identifier) -> Repair:
        """Create or change the entry of a table.

        Raises
        ------
        NotFoundError
            It has no files.
        AlreadyExistsError
            The name, or the directory, is that of another entry.
        """
        ...


class Metastore(Protocol):
    """Databases and tables of one catalog. Thread-safe and picklable; a copy opens itself again.

    Names that come in are valid. Credentials are in no ``repr``, error, option or pickle.
    """

    @property
    def warehouse(self) -> str:
        """Directory of the tables, an absolute path."""
        ...

    @property
    def fileio(self) -> FileIO:
        """The storage of the warehouse."""
        ...

    @property
    def uri(self) -> str:
        """What tells the warehouse from others, as users write it; without credentials."""
        ...

    @property
    def is_served(self) -> bool:
        """Whether a server decides its tables and their snapshots, and not files that are put."""
        ...

    @property
    def view_store(self) -> ViewStore | None:
        """What keeps the views; None of a catalog that keeps none."""
        ...

    @property
    def listing_repair(self) -> ListingRepair | None:
        """What lists tables anew by their files; None if there are no entries beside them."""
        ...

    def for_reading(self) -> Metastore:
        """What other processes open tables by, to read them: it takes no password of a database."""
        ...

    @property
    def shown(self) -> str:
        """What messages and displays call it; without credentials."""
        ...

    def options(self) -> Mapping[str, str]:
        """Rows of ``sys.catalog_options``; without credentials."""
        ...

    def databases(self) -> list[str]:
        """Names of the databases, sorted."""
        ...

    def has_database(self, name: str) -> bool:
        """Whether a database exists."""
        ...

    def create_database(self, name: str) -> bool:
        """Create a database; False, and nothing done, if it exists."""
        ...

    def drop_database(self, name: str, *, cascade: bool) -> bool:
        """Drop a database, with `cascade` also its tables; False if there is none.

        Raises
        ------
        InvalidInputError
            It holds tables (kind ``database_not_empty``).
        """
        ...

    def tables(self, database: str) -> list[str]:
        """Names of the tables of an existing database, sorted."""
        ...

    def has_table(self, name: Identifier) -> bool:
        """Whether a table exists."""
        ...

    def location(self, name: Identifier) -> str:
        """Directory of a table, which may not exist."""
        ...

    def load_table(self, name: Identifier) -> CatalogEntry | None:
        """Look a table up; None if there is none."""
        ...

    def why_missing(self, name: Identifier) -> NotFoundError | None:
        """Explain why a table is missing, if something of it is left."""
        ...

    def create_table(self, name: Identifier, schema: TableSchema) -> bool:
        """Create a table in an existing database; False, and nothing done, if it exists.

        Raises
        ------
        AlreadyExistsError
            Files of another table are in its place.
        """
        ...

    def rename_table(self, source: Identifier, target: Identifier) -> None:
        """Rename a table, also into a missing database, which is created.

        Raises
        ------
        NotFoundError
            There is no such table.
        AlreadyExistsError
            The new name is taken.
        UnsupportedError
            It cannot be renamed here. Nothing was changed.
        """
        ...

    def drop_table(self, name: Identifier) -> bool:
        """Drop a table, or what an interrupted drop left; False if there is nothing.

        Raises
        ------
        StorageError
            The table still exists, or it is dropped and some files are left, as the message says.
        """
        ...

    def dropped_left(self, *, delete: bool) -> int:
        """Count the directories that killed drops have left, and delete them where asked.

        Raises
        ------
        StorageError
            The storage failed; some may be left.
        """
        ...

    def put_in_place(self, name: Identifier, staged: str) -> None:
        """Make the table in the directory `staged` the table of this name, in place of the old.

        Raises
        ------
        StorageError
            The storage failed. The old table is still there, unless the process died.
        """
        ...
