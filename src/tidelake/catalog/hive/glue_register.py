"""Entries in AWS Glue's Data Catalog, in the form that a Hive Metastore has.

Glue changes an entry by one call, names its version so that a change on an old one is refused, and
keeps no locks. It cannot rename: the entry is created anew under the other name, and the old one is
deleted. Calls that are throttled or not answered are tried again by boto3, but not those whose
second try would be refused because the first took effect: creates, drops and changes of an entry.

Source: AWS's ``CreateTable`` and ``TableInput``, and its client for Hive.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from tidelake.catalog.catalog_options import CatalogOptions
from tidelake.catalog.hive import options as declared
from tidelake.catalog.hive._optional import load
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
    OutcomeUnknownError,
    StorageRefusedError,
    TidelakeError,
    shortened,
)
from tidelake.fileio.secret import SentSecrets

PARTITIONS_OF_CALL = 100
ONCE = frozenset(
    {"create_database", "create_table", "delete_database", "delete_table", "update_table"}
)
"""Calls that boto3 must not send again."""
UNANSWERED = frozenset({"InternalServiceException", "OperationTimeoutException"})
SERVER_ERROR = 500
INPUT_FIELDS = frozenset(
    {
        "Description",
        "LastAccessTime",
        "LastAnalyzedTime",
        "Name",
        "Owner",
        "Parameters",
        "PartitionKeys",
        "Retention",
        "StorageDescriptor",
        "TableType",
        "TargetTable",
        "ViewExpandedText",
        "ViewOriginalText",
    }
)
"""What an entry that was read may give back when it is changed."""


@dataclass(frozen=True, slots=True)
class GlueAccess:
    """How to reach Glue. Its pickle has no keys: they travel as those of a storage do.

    Parameters
    ----------
    keys : SentSecrets, optional
        ``aws_access_key_id`` and the like; by default boto3 looks for them itself.
    """

    region: str | None
    endpoint: str | None
    account: str | None
    profile: str | None
    max_retries: int
    skips_archive: bool
    keys: SentSecrets | None = field(default=None, repr=False)

    @classmethod
    def of(cls, options: CatalogOptions) -> GlueAccess:
        """Read the options of a catalog.

        Raises
        ------
        InvalidInputError
            One has no meaning alone.
        """
        given = {
            "aws_access_key_id": options.get(declared.GLUE_ACCESS_KEY),
            "aws_secret_access_key": options.get(declared.GLUE_SECRET_KEY),
            "aws_session_token": options.get(declared.GLUE_SESSION_TOKEN),
        }
        keys = {name: value for name, value in given.items() if value}
        if keys and not {"aws_access_key_id", "aws_secret_access_key"} <= keys.keys():
            message = (
                "Keys of Glue need both 'glue.access-key-id' and 'glue.secret-access-key': give"
                " both, or leave them out and let AWS's environment say them."
            )
            raise InvalidInputError(message, kind="catalog_option", option="glue.access-key-id")
        return cls(
            options.get(declared.GLUE_REGION),
            options.get(declared.GLUE_ENDPOINT),
            options.get(declared.GLUE_ID),
            options.get(declared.GLUE_PROFILE),
            options.get(declared.GLUE_MAX_RETRIES),
            options.get(declared.GLUE_SKIP_ARCHIVE),
            SentSecrets(keys) if keys else None,
        )

    def session(self) -> Any:
        """Make what clients come of; those of one session know each other's exceptions."""
        return load("boto3").session.Session(
            profile_name=self.profile,
            region_name=self.region,
            **({} if self.keys is None else self.keys.reveal()),
        )

    def client(self, session: Any, *, retries: bool) -> Any:
        """Make a client; nothing is sent."""
        tries = {"max_attempts": self.max_retries if retries else 0, "mode": "standard"}
        config = load("botocore.config").Config(retries=tries)
        return session.client("glue", endpoint_url=self.endpoint, config=config)


class GlueRegister:
    """See :class:`tidelake.catalog.hive.register.Register`."""

    mark_done: None = None
    """Glue has no such call."""

    def __init__(self, access: GlueAccess) -> None:
        self._access = access
        self._lock = threading.Lock()
        self._session: Any = None
        self._made: dict[bool, Any] = {}

    def __reduce__(self) -> tuple[object, ...]:
        return (GlueRegister, (self._access,))

    @property
    def shown(self) -> str:
        """The service, and where."""
        parts = (self._access.endpoint or self._access.region, self._access.account)
        return " ".join(("AWS Glue", *(part for part in parts if part)))

    def options(self) -> dict[str, str]:
        """Which catalog it is."""
        access = self._access
        shown = {
            "glue.endpoint": access.endpoint,
            "glue.id": access.account,
            "glue.region": access.region,
        }
        return {"metastore": "glue", **{k: v for k, v in shown.items() if v}}

    # ---- databases

    def databases(self) -> list[str]:
        """Ask for all."""
        with self._refused("list the databases"):
            return [found["Name"] for found in self._pages("get_databases", "DatabaseList")]

    def database(self, name: str) -> DatabaseEntry | None:
        """Ask for one."""
        with self._refused(f"show database '{name}'"):
            try:
                found = self._ask("get_database", Name=name)["Database"]
            except self._errors().EntityNotFoundException:
                return None
        return DatabaseEntry(
            found["Name"], found.get("LocationUri") or None, dict(found.get("Parameters") or {})
        )

    def create_database(self, entry: DatabaseEntry) -> bool:
        """Create one."""
        made: dict[str, Any] = {"Name": entry.name, "Parameters": dict(entry.parameters)}
        if entry.location:
            made["LocationUri"] = entry.location
        with self._refused(f"create database '{entry.name}'", changes=True):
            try:
                self._ask("create_database", DatabaseInput=made)
            except self._errors().AlreadyExistsException:
                return False
        return True

    def drop_database(self, name: str) -> bool:
        """Drop one; Glue itself would drop the tables in it, too."""
        left = [entry.name for entry in self.tables(name)]
        if left:
            message = f"Database '{name}' is not empty: {', '.join(left[:5])} were made meanwhile."
            raise InvalidInputError(message, kind="database_not_empty", database=name)
        with self._refused(f"drop database '{name}'", changes=True):
            try:
                self._ask("delete_database", Name=name)
            except self._errors().EntityNotFoundException:
                return False
        return True

    # ---- tables

    def tables(self, database: str) -> list[TableEntry]:
        """Ask for all entries."""
        with self._refused(f"list the tables of database '{database}'"):
            found = self._pages("get_tables", "TableList", DatabaseName=database)
            return [_entry(database, table) for table in found]

    def table(self, database: str, name: str) -> TableEntry | None:
        """Ask for one."""
        with self._refused(f"show table '{database}.{name}'"):
            try:
                found = self._ask("get_table", DatabaseName=database, Name=name)["Table"]
            except self._errors().EntityNotFoundException:
                return None
        return _entry(database, found)

    def create_table(self, entry: TableEntry) -> bool:
        """Create one."""
        with self._refused(f"create table '{entry.database}.{entry.name}'", changes=True):
            try:
                self._ask("create_table", DatabaseName=entry.database, TableInput=_input(entry))
            except self._errors().AlreadyExistsException:
                return False
        return True

    def replace_table(self, old: TableEntry, new: TableEntry) -> None:
        """Change one; under another name, create it and delete the old."""
        name = f"{old.database}.{old.name}"
        if (old.database, old.name) == (new.database, new.name):
            self._update(name, old, new)
            return
        if not self._is_created(new):
            message = f"Table '{new.database}.{new.name}' exists."
            raise AlreadyExistsError(message, kind="table_exists", table=name)
        partitions = self.partitions(old) if old.partition_keys else []
        try:
            if partitions:
                self.add_partitions(new, partitions)
        except TidelakeError:
            self.drop_table(new.database, new.name, with_directory=False)
            raise
        try:
            if not self.drop_table(old.database, old.name, with_directory=False):
                message = f"Table '{name}' does not exist."
                raise NotFoundError(message, kind="table_not_found", table=name)
        except OutcomeUnknownError:
            self.drop_table(old.database, old.name, with_directory=False)  # gone, or goes now
        except TidelakeError:
            self.drop_table(new.database, new.name, with_directory=False)
            raise

    def _is_created(self, new: TableEntry) -> bool:
        """Create an entry, and look for it if no answer says whether it is there."""
        try:
            return self.create_table(new)
        except OutcomeUnknownError:
            with suppress(TidelakeError):  # report the failure before
                found = self.table(new.database, new.name)
                if found is not None and found.location == new.location:
                    return True
            raise

    def _update(self, name: str, old: TableEntry, new: TableEntry) -> None:
        """Change an entry, if it is still the one that was read."""
        version = old.origin.get("VersionId") if isinstance(old.origin, dict) else None
        more = {} if version is None else {"VersionId": version}
        with self._refused(f"change table '{name}'", changes=True):
            try:
                self._ask(
                    "update_table",
                    DatabaseName=new.database,
                    TableInput=_input(new),
                    SkipArchive=self._access.skips_archive,
                    **more,
                )
            except self._errors().EntityNotFoundException as error:
                message = f"Table '{name}' does not exist."
                raise NotFoundError(message, kind="table_not_found", table=name) from error
            except self._errors().ConcurrentModificationException as error:
                message = (
                    f"Others changed table '{name}' in {self.shown} at the same time: try again."
                    " Nothing was changed."
                )
                raise StorageRefusedError(message, kind="catalog_locked", table=name) from error

    def drop_table(self, database: str, name: str, *, with_directory: bool) -> bool:  # noqa: ARG002 - Glue has no directories
        """Drop one."""
        with self._refused(f"drop table '{database}.{name}'", changes=True):
            try:
                self._ask("delete_table", DatabaseName=database, Name=name)
            except self._errors().EntityNotFoundException:
                return False
        return True

    # ---- partitions

    def partitions(self, table: TableEntry) -> list[PartitionEntry]:
        """Ask for all."""
        with self._refused(f"list the partitions of '{table.database}.{table.name}'"):
            found = self._pages(
                "get_partitions", "Partitions", DatabaseName=table.database, TableName=table.name
            )
            return [
                PartitionEntry(tuple(p["Values"]), p["StorageDescriptor"].get("Location", ""), p)
                for p in found
            ]

    def add_partitions(self, table: TableEntry, partitions: Sequence[PartitionEntry]) -> None:
        """Add them, a hundred at a time; those that are there stay."""
        name = f"{table.database}.{table.name}"
        for start in range(0, len(partitions), PARTITIONS_OF_CALL):
            some = partitions[start : start + PARTITIONS_OF_CALL]
            with self._refused(f"add partitions to '{name}'", changes=True):
                answer = self._ask(
                    "batch_create_partition",
                    DatabaseName=table.database,
                    TableName=table.name,
                    PartitionInputList=[_partition(table, partition) for partition in some],
                )
            details = [found["ErrorDetail"] for found in answer.get("Errors", ())]
            failed = [d for d in details if d.get("ErrorCode") != "AlreadyExistsException"]
            if failed:
                said = failed[0].get("ErrorMessage") or failed[0].get("ErrorCode")
                message = f"{self.shown} refused to add partitions to '{name}': {said}."
                raise StorageRefusedError(message, kind="catalog_refused", table=name)

    def drop_partition(self, table: TableEntry, values: Sequence[str]) -> None:
        """Drop one."""
        with self._refused(f"drop a partition of '{table.database}.{table.name}'", changes=True):
            try:
                self._ask(
                    "delete_partition",
                    DatabaseName=table.database,
                    TableName=table.name,
                    PartitionValues=list(values),
                )
            except self._errors().EntityNotFoundException:
                return

    def move_partition(self, table: TableEntry, partition: PartitionEntry) -> None:
        """Change its location."""
        with self._refused(f"move a partition of '{table.database}.{table.name}'", changes=True):
            self._ask(
                "update_partition",
                DatabaseName=table.database,
                TableName=table.name,
                PartitionValueList=list(partition.values),
                PartitionInput=_partition(table, partition),
            )

    # ---- calls

    def _client(self, *, retries: bool = True) -> Any:
        with self._lock:
            if self._session is None:
                self._session = self._access.session()
            if retries not in self._made:
                self._made[retries] = self._access.client(self._session, retries=retries)
            return self._made[retries]

    def _errors(self) -> Any:
        return self._client().exceptions

    def _named(self, arguments: dict[str, Any]) -> dict[str, Any]:
        account = self._access.account
        return arguments if account is None else {**arguments, "CatalogId": account}

    def _ask(self, method: str, **arguments: Any) -> Any:
        client = self._client(retries=method not in ONCE)
        return getattr(client, method)(**self._named(arguments))

    def _pages(self, method: str, part: str, **arguments: Any) -> Iterator[Any]:
        pages = self._client().get_paginator(method).paginate(**self._named(arguments))
        for page in pages:
            yield from page[part]

    @contextmanager
    def _refused(self, what: str, *, changes: bool = False) -> Iterator[None]:
        """Translate what the service refuses, and what keeps it from answering."""
        errors = load("botocore.exceptions")
        try:
            yield
        except errors.ClientError as error:
            found = error.response.get("Error", {})
            said = found.get("Message") or found.get("Code") or str(error)
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            if changes and (status >= SERVER_ERROR or found.get("Code") in UNANSWERED):
                raise self._unknown(what, error) from error
            message = (
                f"{self.shown} refused to {what}: {shortened(str(said)).removesuffix('.')}."
                " Nothing was done."
            )
            raise StorageRefusedError(message, kind="catalog_refused", path=self.shown) from error
        except (errors.ReadTimeoutError, errors.ConnectionClosedError) as error:
            if changes:
                raise self._unknown(what, error) from error
            raise self._unreachable(error) from error
        except errors.BotoCoreError as error:
            raise self._unreachable(error) from error

    def _unknown(self, what: str, error: Exception) -> OutcomeUnknownError:
        message = (
            f"It is unknown whether {self.shown} did this: {what}. It gave no answer"
            f" ({_why(error)}). Look at it before you try again."
        )
        return OutcomeUnknownError(message, kind="catalog_lost")

    def _unreachable(self, error: Exception) -> StorageRefusedError:
        message = (
            f"{self.shown} cannot be asked: {_why(error)}. Check 'glue.region', 'glue.endpoint'"
            " and the credentials, which are AWS's own by default."
        )
        return StorageRefusedError(message, kind="catalog_unreachable", path=self.shown)


def _why(error: Exception) -> str:
    return shortened(" ".join(str(error).split()).removesuffix("."))


def _columns(found: Sequence[dict[str, Any]] | None) -> tuple[HiveColumn, ...]:
    return tuple(HiveColumn(c["Name"], c.get("Type", ""), c.get("Comment")) for c in found or ())


def _entry(database: str, found: dict[str, Any]) -> TableEntry:
    sd = found.get("StorageDescriptor") or {}
    created = found.get("CreateTime")
    return TableEntry(
        database=database,
        name=found["Name"],
        location=sd.get("Location") or None,
        columns=_columns(sd.get("Columns")),
        partition_keys=_columns(found.get("PartitionKeys")),
        parameters=dict(found.get("Parameters") or {}),
        table_type=found.get("TableType") or "",
        input_format=sd.get("InputFormat"),
        output_format=sd.get("OutputFormat"),
        serde=(sd.get("SerdeInfo") or {}).get("SerializationLibrary"),
        query=found.get("ViewExpandedText") or None,
        owner=found.get("Owner"),
        created_s=0 if created is None else int(created.timestamp()),
        origin=found,
    )


def _fields(columns: Sequence[HiveColumn]) -> list[dict[str, str]]:
    return [
        {"Name": c.name, "Type": c.type, **({} if c.comment is None else {"Comment": c.comment})}
        for c in columns
    ]


def _descriptor(entry: TableEntry, location: str | None) -> dict[str, Any]:
    origin = entry.origin if isinstance(entry.origin, dict) else {}
    old = dict(origin.get("StorageDescriptor") or {})
    made = {
        **old,
        "Columns": _fields(entry.columns),
        "InputFormat": entry.input_format or "",
        "OutputFormat": entry.output_format or "",
        "SerdeInfo": {**(old.get("SerdeInfo") or {}), "SerializationLibrary": entry.serde or ""},
    }
    if location:
        made["Location"] = location
    return made


def _input(entry: TableEntry) -> dict[str, Any]:
    """Glue's form of an entry, on top of what was read."""
    origin = entry.origin if isinstance(entry.origin, dict) else {}
    made = {key: value for key, value in origin.items() if key in INPUT_FIELDS}
    made |= {
        "Name": entry.name,
        "TableType": entry.table_type,
        "Parameters": dict(entry.parameters),
        "PartitionKeys": _fields(entry.partition_keys),
        "StorageDescriptor": _descriptor(entry, entry.location),
    }
    if entry.owner:
        made["Owner"] = entry.owner
    if entry.query is not None:
        made["ViewOriginalText"] = made["ViewExpandedText"] = entry.query
    return made


def _partition(table: TableEntry, partition: PartitionEntry) -> dict[str, Any]:
    return {
        "Values": list(partition.values),
        "StorageDescriptor": _descriptor(table, partition.location),
    }
