"""Entries in a Hive Metastore.

What the metastore refuses comes as an exception of its own with a text; a text is repeated in the
error, as it says what its administrator must change. Hive 4 has left out ``get_table``: then its
newer form is asked.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tidelake.catalog.hive._optional import load
from tidelake.catalog.hive.connection import MetastoreConnection, protocol
from tidelake.catalog.hive.register import (
    DatabaseEntry,
    HiveColumn,
    PartitionEntry,
    TableEntry,
)
from tidelake.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NotFoundError,
    StorageRefusedError,
    shortened,
)

BATCH = 300
"""Entries of one answer, as Hive's ``hive.metastore.batch.retrieve.max``."""
ALL_PARTITIONS = -1
RETENTION_S = 2**31 - 1
UNKNOWN_METHOD = 1


@dataclass(frozen=True, slots=True)
class ThriftRegister:
    """See :class:`tidelake.catalog.hive.register.Register`.

    Parameters
    ----------
    cascade : bool
        Whether a change of columns reaches the partitions.
    keeps_stats : bool
        Whether a change leaves statistics alone.
    """

    connection: MetastoreConnection
    cascade: bool = True
    keeps_stats: bool = False

    @property
    def shown(self) -> str:
        """The metastore's addresses."""
        return self.connection.shown

    def options(self) -> dict[str, str]:
        """Which metastore it is."""
        return {"metastore": "hive", "uri": self.shown}

    # ---- databases

    def databases(self) -> list[str]:
        """Ask for all names."""
        with self._refused("list the databases"):
            return list(self.connection.read("get_all_databases"))

    def database(self, name: str) -> DatabaseEntry | None:
        """Ask for one."""
        with self._refused(f"show database '{name}'"):
            try:
                found = self.connection.read("get_database", name)
            except protocol().NoSuchObjectException:
                return None
        return DatabaseEntry(found.name, found.locationUri or None, dict(found.parameters or {}))

    def create_database(self, entry: DatabaseEntry) -> bool:
        """Create one; the metastore makes its directory."""
        made = protocol().Database(
            name=entry.name, locationUri=entry.location, parameters=dict(entry.parameters)
        )
        with self._refused(f"create database '{entry.name}'"):
            try:
                what = f"database '{entry.name}' was created"
                self.connection.change(what, "create_database", made)
            except protocol().AlreadyExistsException:
                return False
        return True

    def drop_database(self, name: str) -> bool:
        """Drop one that the metastore finds empty."""
        with self._refused(f"drop database '{name}'"):
            try:
                what = f"database '{name}' was dropped"
                self.connection.change(what, "drop_database", name, False, False)
            except protocol().NoSuchObjectException:
                return False
            except protocol().InvalidOperationException as error:
                message = f"Database '{name}' is not empty: {_text(error)}."
                raise InvalidInputError(
                    message, kind="database_not_empty", database=name
                ) from error
        return True

    # ---- tables

    def tables(self, database: str) -> list[TableEntry]:
        """Ask for all names, then for the entries in batches."""
        found: list[TableEntry] = []
        with self._refused(f"list the tables of database '{database}'"):
            names = list(self.connection.read("get_all_tables", database))
            for start in range(0, len(names), BATCH):
                found.extend(map(_entry, self._entries(database, names[start : start + BATCH])))
        return found

    def _entries(self, database: str, names: list[str]) -> Sequence[Any]:
        asked = protocol().GetTablesRequest(dbName=database, tblNames=names)
        return self._either(
            ("get_table_objects_by_name", database, names),
            ("get_table_objects_by_name_req", asked),
            "tables",
        )  # fmt: skip

    def _either(self, old: Sequence[object], new: Sequence[object], part: str) -> Any:
        """Ask in the older form, or in the newer where the metastore has left that out."""
        try:
            return self.connection.read(*old)  # type: ignore[arg-type]
        except StorageRefusedError as error:
            refused = load("thriftpy2.thrift").TApplicationException
            cause = error.__cause__
            if not (isinstance(cause, refused) and cause.type == UNKNOWN_METHOD):
                raise
        return getattr(self.connection.read(*new), part)  # type: ignore[arg-type]

    def table(self, database: str, name: str) -> TableEntry | None:
        """Ask for one."""
        asked = protocol().GetTableRequest(dbName=database, tblName=name)
        with self._refused(f"show table '{database}.{name}'"):
            try:
                found = self._either(
                    ("get_table", database, name), ("get_table_req", asked), "table"
                )
            except protocol().NoSuchObjectException:
                return None
        return _entry(found)

    def create_table(self, entry: TableEntry) -> bool:
        """Create one."""
        name = f"{entry.database}.{entry.name}"
        with self._refused(f"create table '{name}'"):
            try:
                what = f"table '{name}' was created"
                self.connection.change(what, "create_table", _struct(entry))
            except protocol().AlreadyExistsException:
                return False
        return True

    def replace_table(self, old: TableEntry, new: TableEntry) -> None:
        """Alter one; what is not known here goes back as it came."""
        name = f"{old.database}.{old.name}"
        properties = {"DO_NOT_UPDATE_STATS": "true" if self.keeps_stats else "false"}
        if self.cascade:
            properties["CASCADE"] = "true"
        context = protocol().EnvironmentContext(properties=properties)
        method = "alter_table_with_environment_context"
        arguments = (old.database, old.name, _struct(new), context)
        with self._refused(f"change table '{name}'"):
            try:
                self.connection.change(f"table '{name}' was changed", method, *arguments)
            except (protocol().InvalidOperationException, protocol().MetaException) as error:
                self._explain(old, new, _text(error))
                raise

    def _explain(self, old: TableEntry, new: TableEntry, said: str) -> None:
        """Say what a refused change means, where that can be looked up."""
        name = f"{old.database}.{old.name}"
        is_renamed = (old.database, old.name) != (new.database, new.name)
        if is_renamed and self.table(new.database, new.name) is not None:
            message = f"Table '{new.database}.{new.name}' exists."
            raise AlreadyExistsError(message, kind="table_exists", table=name)
        if self.table(old.database, old.name) is None:
            message = f"Table '{name}' does not exist."
            raise NotFoundError(message, kind="table_not_found", table=name)
        if "incompatible" in said:
            message = (
                f"The metastore {self.shown} refuses the new columns of table '{name}': {said}. Set"
                " 'hive.metastore.disallow.incompatible.col.type.changes' = 'false' at the"
                " metastore. Nothing was changed."
            )
            raise StorageRefusedError(message, kind="catalog_refused", path=self.shown)

    def drop_table(self, database: str, name: str, *, with_directory: bool) -> bool:
        """Drop one."""
        with self._refused(f"drop table '{database}.{name}'"):
            try:
                what = f"table '{database}.{name}' was dropped"
                self.connection.change(what, "drop_table", database, name, with_directory)
            except protocol().NoSuchObjectException:
                return False
        return True

    # ---- partitions

    def partitions(self, table: TableEntry) -> list[PartitionEntry]:
        """Ask for all."""
        with self._refused(f"list the partitions of '{table.database}.{table.name}'"):
            found = self.connection.read(
                "get_partitions", table.database, table.name, ALL_PARTITIONS
            )
        return [PartitionEntry(tuple(p.values), p.sd.location or "", p) for p in found]

    def add_partitions(self, table: TableEntry, partitions: Sequence[PartitionEntry]) -> None:
        """Add those that are missing, in one call, or each alone if others add some of them."""
        asked = protocol().AddPartitionsRequest(
            dbName=table.database,
            tblName=table.name,
            parts=[_partition(table, partition) for partition in partitions],
            ifNotExists=True,
            needResult=False,
        )
        name = f"{table.database}.{table.name}"
        with self._refused(f"add partitions to '{name}'"):
            what = f"partitions of '{name}' were added"
            try:
                self.connection.change(what, "add_partitions_req", asked)
            except protocol().AlreadyExistsException:
                for partition in partitions if len(partitions) > 1 else ():
                    self.add_partitions(table, [partition])

    def drop_partition(self, table: TableEntry, values: Sequence[str]) -> None:
        """Drop one."""
        name = f"{table.database}.{table.name}"
        arguments = (table.database, table.name, list(values), False)
        with self._refused(f"drop a partition of '{name}'"):
            try:
                what = f"a partition of '{name}' was dropped"
                self.connection.change(what, "drop_partition", *arguments)
            except protocol().NoSuchObjectException:
                return

    def move_partition(self, table: TableEntry, partition: PartitionEntry) -> None:
        """Alter its location."""
        name = f"{table.database}.{table.name}"
        moved = copy.deepcopy(partition.origin)
        moved.dbName, moved.tableName = table.database, table.name  # type: ignore[attr-defined]
        moved.sd.location = partition.location  # type: ignore[attr-defined]
        with self._refused(f"move a partition of '{name}'"):
            what = f"a partition of '{name}' was moved"
            self.connection.change(what, "alter_partition", table.database, table.name, moved)

    def mark_done(self, table: TableEntry, partition: Mapping[str, str]) -> None:
        """Send the event of a partition that is loaded; a second one changes nothing."""
        name = f"{table.database}.{table.name}"
        event = protocol().PartitionEventType.LOAD_DONE
        arguments = (table.database, table.name, dict(partition), event)
        with self._refused(f"mark a partition of '{name}' as done"):
            what = f"a partition of '{name}' was marked as done"
            self.connection.change(what, "markPartitionForEvent", *arguments)

    @contextmanager
    def _refused(self, what: str) -> Iterator[None]:
        """Translate what the metastore refuses."""
        try:
            yield
        except load("thriftpy2.thrift").TException as error:
            message = (
                f"The metastore {self.shown} refused to {what}: {_text(error)}. Nothing was done."
            )
            raise StorageRefusedError(message, kind="catalog_refused", path=self.shown) from error


def _text(error: Any) -> str:
    return shortened(
        " ".join(str(getattr(error, "message", None) or error).split()).removesuffix(".")
    )


def _columns(found: Any) -> tuple[HiveColumn, ...]:
    return tuple(HiveColumn(c.name, c.type, c.comment) for c in found or ())


def _entry(found: Any) -> TableEntry:
    sd = found.sd
    return TableEntry(
        database=found.dbName,
        name=found.tableName,
        location=(sd.location or None) if sd else None,
        columns=_columns(sd.cols if sd else ()),
        partition_keys=_columns(found.partitionKeys),
        parameters=dict(found.parameters or {}),
        table_type=found.tableType or "",
        input_format=sd.inputFormat if sd else None,
        output_format=sd.outputFormat if sd else None,
        serde=sd.serdeInfo.serializationLib if sd and sd.serdeInfo else None,
        query=found.viewExpandedText or None,
        owner=found.owner,
        created_s=found.createTime or 0,
        origin=found,
    )


def _fields(columns: Sequence[HiveColumn]) -> list[Any]:
    return [protocol().FieldSchema(name=c.name, type=c.type, comment=c.comment) for c in columns]


def _struct(entry: TableEntry) -> Any:
    """The metastore's form of an entry, on top of what was read."""
    structs = protocol()
    made: Any = copy.deepcopy(entry.origin)
    if made is None:
        made = structs.Table(
            owner=entry.owner,
            createTime=entry.created_s,
            lastAccessTime=entry.created_s,
            retention=RETENTION_S,
            sd=_descriptor(),
        )
    made.tableName, made.dbName = entry.name, entry.database
    made.parameters = dict(entry.parameters)
    made.partitionKeys = _fields(entry.partition_keys)
    made.tableType = entry.table_type
    made.viewOriginalText = made.viewExpandedText = entry.query
    made.sd.cols = _fields(entry.columns)
    made.sd.location = entry.location
    made.sd.inputFormat, made.sd.outputFormat = entry.input_format, entry.output_format
    made.sd.serdeInfo.serializationLib = entry.serde
    return made


def _descriptor() -> Any:
    structs = protocol()
    return structs.StorageDescriptor(
        compressed=False,
        numBuckets=0,
        serdeInfo=structs.SerDeInfo(parameters={}),
        bucketCols=[],
        sortCols=[],
        parameters={},
    )


def _partition(table: TableEntry, partition: PartitionEntry) -> Any:
    sd = copy.deepcopy(_struct(table).sd)
    sd.location = partition.location
    return protocol().Partition(
        values=list(partition.values),
        dbName=table.database,
        tableName=table.name,
        createTime=table.created_s,
        lastAccessTime=table.created_s,
        sd=sd,
        parameters={},
    )
