"""What a metastore holds: entries of databases and tables, and the port to it.

Two servers keep such entries: a Hive Metastore (:mod:`~tidelake.catalog.hive.thrift_register`) and
AWS Glue (:mod:`~tidelake.catalog.hive.glue_register`). Each change is one call that happens or not,
so of two creators one gets True.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

INPUT_FORMAT = "org.apache.paimon.hive.mapred.PaimonInputFormat"
OUTPUT_FORMAT = "org.apache.paimon.hive.mapred.PaimonOutputFormat"
MANAGED, EXTERNAL, VIEW = "MANAGED_TABLE", "EXTERNAL_TABLE", "VIRTUAL_VIEW"

_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class HiveColumn:
    """A column of an entry, by Hive's type."""

    name: str
    type: str
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class DatabaseEntry:
    """A database.

    Parameters
    ----------
    location : str or None
        The URI of its directory.
    """

    name: str
    location: str | None
    parameters: Mapping[str, str] = field(default_factory=lambda: _NOTHING)


@dataclass(frozen=True, slots=True)
class TableEntry:
    """A table or a view.

    Parameters
    ----------
    location : str or None
        The URI of its directory.
    columns, partition_keys : tuple of HiveColumn
        Apart from each other, as Hive has them.
    query : str, optional
        Of a view.
    origin : object, optional
        The server's own form of what was read: what is not known here stays when it is changed.
    """

    database: str
    name: str
    location: str | None
    columns: tuple[HiveColumn, ...]
    partition_keys: tuple[HiveColumn, ...] = ()
    parameters: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    table_type: str = MANAGED
    input_format: str | None = INPUT_FORMAT
    output_format: str | None = OUTPUT_FORMAT
    serde: str | None = "org.apache.paimon.hive.PaimonSerDe"
    query: str | None = None
    owner: str | None = None
    created_s: int = 0
    origin: object = field(default=None, repr=False, compare=False)

    @property
    def is_paimon(self) -> bool:
        """Whether it is a table of Paimon, by the formats that Java looks at."""
        return self.input_format == INPUT_FORMAT and self.output_format == OUTPUT_FORMAT

    @property
    def is_view(self) -> bool:
        """Whether it is a view."""
        return self.table_type == VIEW

    @property
    def is_external(self) -> bool:
        """Whether its files stay when it is dropped."""
        return self.table_type == EXTERNAL


@dataclass(frozen=True, slots=True)
class PartitionEntry:
    """A partition of a table.

    Parameters
    ----------
    values : tuple of str
        In the order of the partition keys.
    """

    values: tuple[str, ...]
    location: str
    origin: object = field(default=None, repr=False, compare=False)


class Register(Protocol):
    """A server of entries. Thread-safe and picklable; names that come in are valid.

    Raises
    ------
    StorageRefusedError
        The server cannot be reached, or refused: nothing was done.
    OutcomeUnknownError
        A change was sent and not answered.
    """

    @property
    def shown(self) -> str:
        """What messages call it; without credentials."""
        ...

    def options(self) -> Mapping[str, str]:
        """Rows of ``sys.catalog_options``; without credentials."""
        ...

    def databases(self) -> list[str]:
        """Names of all databases."""
        ...

    def database(self, name: str) -> DatabaseEntry | None:
        """Look a database up."""
        ...

    def create_database(self, entry: DatabaseEntry) -> bool:
        """Create a database; False if it exists."""
        ...

    def drop_database(self, name: str) -> bool:
        """Drop the entry of an empty database; False if there is none.

        Raises
        ------
        InvalidInputError
            It is not empty (kind ``database_not_empty``).
        """
        ...

    def tables(self, database: str) -> list[TableEntry]:
        """All entries of a database: tables of any kind and views. Columns may be missing."""
        ...

    def table(self, database: str, name: str) -> TableEntry | None:
        """Look an entry up."""
        ...

    def create_table(self, entry: TableEntry) -> bool:
        """Create an entry; False if the name is taken."""
        ...

    def replace_table(self, old: TableEntry, new: TableEntry) -> None:
        """Change an entry, perhaps its name.

        Raises
        ------
        AlreadyExistsError
            The new name is taken.
        NotFoundError
            It is gone.
        """
        ...

    def drop_table(self, database: str, name: str, *, with_directory: bool) -> bool:
        """Drop an entry; False if there is none.

        Parameters
        ----------
        with_directory : bool
            Whether the server also deletes the directory that it thinks the table has.
        """
        ...

    def partitions(self, table: TableEntry) -> list[PartitionEntry]:
        """The partitions of a table."""
        ...

    def add_partitions(self, table: TableEntry, partitions: Sequence[PartitionEntry]) -> None:
        """Add partitions; those that are there stay."""
        ...

    def drop_partition(self, table: TableEntry, values: Sequence[str]) -> None:
        """Drop a partition, if it is there."""
        ...

    def move_partition(self, table: TableEntry, partition: PartitionEntry) -> None:
        """Give a partition another location."""
        ...

    @property
    def mark_done(self) -> Callable[[TableEntry, Mapping[str, str]], None] | None:
        """Marks a partition as loaded, by texts of the entry's keys; None if it keeps no marks."""
        ...
