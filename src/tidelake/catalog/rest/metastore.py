"""The REST catalog: a server knows the databases and tables, and decides their next snapshots.

1. A table's schemas, snapshots and data are files below the path that the server names; they are
   read as in every warehouse. The server makes the files of schemas and snapshots.
2. A change that was sent and not answered is looked up: a created table that is there with the same
   definition is ours; a dropped one that is away was dropped; a renamed one has the same id under
   the new name. If that shows nothing, the outcome is unknown, and the error says so.
3. Where the server gives keys for a table's storage (``data-token.enabled``), the storage asks
   :class:`~tidelake.catalog.rest.vended_credentials.VendedCredentials` for them.

Source: Paimon's ``RESTCatalog`` (1.3.1).
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from tidelake.catalog.identifier import Identifier
from tidelake.catalog.metastore import CatalogEntry
from tidelake.catalog.rest.client import RestClient
from tidelake.catalog.rest.failures import AnswerLostError
from tidelake.catalog.rest.models import ServerTable
from tidelake.catalog.rest.rest_table import RestTable, unknown
from tidelake.catalog.rest.settings import DATA_TOKEN_ENABLED, shown_options
from tidelake.catalog.rest.vended_credentials import VendedCredentials
from tidelake.catalog.rest.views import RestViews
from tidelake.catalog.warehouse import Warehouse, not_empty
from tidelake.errors import (
    AlreadyExistsError,
    CorruptError,
    InvalidInputError,
    NotFoundError,
    StorageError,
    UnsupportedError,
)
from tidelake.fileio import FileIO, LocalFileIO
from tidelake.fileio.location import parse_location
from tidelake.fileio.object_store import CredentialSource
from tidelake.metadata.log.schema_log import SchemaLog
from tidelake.metadata.paths import TablePaths
from tidelake.telemetry import Env, RecentlyUsed
from tidelake.types import TableSchema
from tidelake.types.schema import field_to_json

StorageOpener = Callable[[str, CredentialSource | None], tuple[FileIO, str]]
"""Opens the storage of a table's path, perhaps with keys that the server gives; the storage, and
the path in it."""

STORAGES_MAX = 256
"""Storages of tables that stay open, with the keys that were given for them."""
TABLE_TYPE = "type"
OWN_TABLE_TYPE = "table"


class RestMetastore:
    """Tables of a server. See :class:`tidelake.catalog.metastore.Metastore`.

    A copy in another process asks the server too, where its client has the token.

    Parameters
    ----------
    fileio : FileIO, optional
        The storage of all tables, whatever the server says; else each table's path names it.
    open_storage : callable, optional
        Opens the storage of a path with a scheme; else only local files are known.
    """

    def __init__(
        self,
        client: RestClient,
        *,
        env: Env,
        fileio: FileIO | None = None,
        open_storage: StorageOpener | None = None,
    ) -> None:
        self._client = client
        self._env = env
        self._given = fileio
        self._fileio = fileio if fileio is not None else LocalFileIO(env.ids)
        self._open_storage = open_storage
        self._opened: RecentlyUsed[tuple[str, str | None, str], tuple[FileIO, str]] = RecentlyUsed(
            entries_max=STORAGES_MAX
        )

    def __reduce__(self) -> tuple[object, ...]:
        return (_arrived, (self._client, self._env, self._given, self._open_storage))

    @property
    def client(self) -> RestClient:
        """The server."""
        return self._client

    @property
    def warehouse(self) -> str:
        """The warehouse's name at the server: its directory is the server's business."""
        return self._client.settings.warehouse

    @property
    def uri(self) -> str:
        """The server's address and the warehouse's name."""
        return f"{self._client.settings.uri}/{quote(self.warehouse, safe='')}"

    @property
    def is_served(self) -> bool:
        """The server decides."""
        return True

    @property
    def listing_repair(self) -> None:
        """The server keeps its own."""
        return None

    @property
    def view_store(self) -> RestViews:
        """The server keeps views."""
        return RestViews(self._client)

    def for_reading(self) -> RestMetastore:
        """Itself: only the server knows the tables, and gives the keys."""
        return self

    @property
    def fileio(self) -> FileIO:
        """The storage that was given, or local files."""
        return self._fileio

    @property
    def shown(self) -> str:
        """The warehouse and the server."""
        return f"{self.warehouse} at {self._client.settings.uri}"

    def options(self) -> Mapping[str, str]:
        """The catalog's options, as merged with those of the server; without secrets."""
        settings = self._client.settings
        return {
            **shown_options(self._client.options),
            "metastore": "rest",
            "uri": settings.uri,
            "warehouse": settings.warehouse,
        }

    def databases(self) -> list[str]:
        """Names of the databases, sorted."""
        return self._client.databases()

    def has_database(self, name: str) -> bool:
        """Whether the server knows a database."""
        try:
            self._client.database(name)
        except NotFoundError:
            return False
        return True

    def create_database(self, name: str) -> bool:
        """Create a database; False if it exists."""
        if self.has_database(name):
            return False
        try:
            self._client.create_database(name)
        except AlreadyExistsError:
            return False
        except AnswerLostError as error:
            if not self.has_database(name):
                raise unknown(f"database '{name}' was created", error) from error
        return True

    def drop_database(self, name: str, *, cascade: bool) -> bool:
        """Drop a database; False if there is none."""
        if not self.has_database(name):
            return False
        tables = self.tables(name)
        if tables and not cascade:
            raise not_empty(name, tables)
        if tables:
            self._refuse_holding(Identifier(name, tables[0]))
        try:
            self._client.drop_database(name)
        except NotFoundError:
            return True  # another dropped it at the same time
        except AnswerLostError as error:
            if self.has_database(name):
                raise unknown(f"database '{name}' was dropped", error) from error
        return True

    def _refuse_holding(self, table: Identifier) -> None:
        """Refuse to drop the database of a table if its directory holds another warehouse."""
        found = self._find(table)
        if found is None or not _is_inside(found, table):
            return
        fileio, location = self._storage(table, found)
        path = posixpath.dirname(location)
        with suppress(StorageError):  # keys of one table may not list what is around it
            Warehouse(posixpath.dirname(path), fileio, self._env.ids).check_holds_no_other(path)

    def tables(self, database: str) -> list[str]:
        """Names of the tables of a database, sorted."""
        return self._client.tables(database)

    def has_table(self, name: Identifier) -> bool:
        """Whether the server knows a table."""
        return self._find(name) is not None

    def location(self, name: Identifier) -> str:
        """Directory of a table; of one that does not exist, a path that only stands for it."""
        found = self._find(name)
        if found is None:
            return f"/{name.database}.db/{name.table}"
        return self._storage(name, found)[1]

    def load_table(self, name: Identifier) -> CatalogEntry | None:
        """Ask the server for a table, and read its newest schema's file."""
        found = self._find(name)
        if found is None:
            return None
        kind = (found.schema.options or {}).get(TABLE_TYPE, OWN_TABLE_TYPE)
        if kind != OWN_TABLE_TYPE:
            message = (
                f"Table '{name}' is a '{kind}' of the catalog's server: this version opens Paimon's"
                " own tables."
            )
            raise UnsupportedError(message, kind="table_type", table=str(name))
        fileio, location = self._storage(name, found)
        try:
            schema = SchemaLog(fileio, TablePaths(location)).load(found.schema_id)
        except NotFoundError as error:
            message = (
                f"The catalog's server says that table '{name}' has schema {found.schema_id}, but"
                f" {location}/schema does not: look whether this process sees the same storage as"
                " the server."
            )
            raise CorruptError(message, kind="schema_missing", table=str(name)) from error
        served = RestTable(
            self._client,
            name.database,
            name.table,
            table_id=found.id,
            paths=TablePaths.of(location, schema),
            env=self._env,
        )
        return CatalogEntry(location, schema, fileio, served=served)

    def why_missing(self, name: Identifier) -> NotFoundError | None:  # noqa: ARG002 - the port's
        """Nothing is left of a table that the server does not know."""
        return None

    def create_table(self, name: Identifier, schema: TableSchema) -> bool:
        """Create a table; False if it exists."""
        document: dict[str, Any] = {
            "fields": [field_to_json(f) for f in schema.fields],
            "partitionKeys": list(schema.partition_keys),
            "primaryKeys": list(schema.primary_keys),
            "options": dict(schema.options),
            "comment": schema.comment,
        }
        try:
            self._client.create_table(name.database, name.table, document)
        except AlreadyExistsError:
            return False
        except AnswerLostError as error:
            found = self.load_table(name)
            if found is None or not _is_made_of(found.schema, schema):
                raise unknown(f"table '{name}' was created", error) from error
        self._refuse_nested(name)
        return True

    def _refuse_nested(self, name: Identifier) -> None:
        """Drop a new table again if it lies in a database of another warehouse."""
        found = self._find(name)
        if found is None or not _is_inside(found, name):
            return
        above = posixpath.dirname(posixpath.dirname(found.path.rstrip("/")))
        try:
            Warehouse(above, self._fileio, self._env.ids).check_stands_alone()
        except InvalidInputError:
            self._client.drop_table(name.database, name.table)
            raise

    def rename_table(self, source: Identifier, target: Identifier) -> None:
        """Rename a table; its files stay where they are, unless the server moves them."""
        before = self._find(source)
        if before is None:
            message = f"The catalog's server has no table '{source}'."
            raise NotFoundError(message, kind="table_not_found", table=str(source))
        self.create_database(target.database)
        try:
            self._client.rename_table(source, target)
        except AnswerLostError as error:
            after = self._find(target)
            if after is None or after.id is None or after.id != before.id:
                raise unknown(f"table '{source}' was renamed to '{target}'", error) from error

    def drop_table(self, name: Identifier) -> bool:
        """Drop a table; False if there is none."""
        if self._find(name) is None:
            return False
        try:
            self._client.drop_table(name.database, name.table)
        except NotFoundError:
            return True  # another dropped it at the same time
        except AnswerLostError as error:
            if self._find(name) is not None:
                raise unknown(f"table '{name}' was dropped", error) from error
        return True

    def dropped_left(self, *, delete: bool) -> int:  # noqa: ARG002 - the server deletes its own
        """None: the server drops tables."""
        return 0

    def put_in_place(self, name: Identifier, staged: str) -> None:  # noqa: ARG002 - the port's
        """Refuse: a server replaces no directories."""
        message = (
            f"Table '{name}' cannot be replaced in one step in a REST catalog: drop it and create"
            " it again, or overwrite its rows."
        )
        raise UnsupportedError(message, kind="replace_table", table=str(name))

    def _find(self, name: Identifier) -> ServerTable | None:
        try:
            return self._client.table(name.database, name.table)
        except NotFoundError:
            return None

    def _storage(self, name: Identifier, found: ServerTable) -> tuple[FileIO, str]:
        """The storage of a table, and its directory there."""
        path = _local_path(found.path)
        if path is not None:
            return self._fileio, path
        if self._given is not None:
            return self._given, parse_location(found.path, what=f"Table '{name}'").path
        if self._open_storage is None:
            message = (
                f"Table '{name}' lies at {found.path}, and this REST catalog reads local files"
                " only."
            )
            raise UnsupportedError(message, kind="table_storage", table=str(name))
        which = (str(name), found.id, found.path)
        opened = self._opened.get(which)
        if opened is None:
            keys = None
            if self._client.options.get(DATA_TOKEN_ENABLED, "false").lower() == "true":
                keys = VendedCredentials(
                    self._client, name.database, name.table, env=self._env, place=found.path
                )
            opened = self._open_storage(found.path, keys)
            self._opened.keep(which, opened)
        return opened


def _arrived(
    client: RestClient, env: Env, fileio: FileIO | None, open_storage: StorageOpener | None
) -> RestMetastore:
    return RestMetastore(client, env=env, fileio=fileio, open_storage=open_storage)


def _local_path(path: str) -> str | None:
    """The path of local files; None for another storage."""
    if path.startswith("file:"):
        return "/" + path.removeprefix("file:").strip("/")
    return "/" + path.strip("/") if path.startswith("/") else None


def _is_inside(found: ServerTable, name: Identifier) -> bool:
    """Whether a table lies where its warehouse puts it, so its database's directory is known."""
    parts = found.path.rstrip("/").split("/")
    return not found.is_external and parts[-2:] == [f"{name.database}.db", name.table]


def _is_made_of(found: TableSchema, asked: TableSchema) -> bool:
    """Whether a table has the definition that was asked for."""
    return (
        [(f.name, f.type) for f in found.fields] == [(f.name, f.type) for f in asked.fields]
        and found.primary_keys == asked.primary_keys
        and found.partition_keys == asked.partition_keys
        and dict(found.options) | dict(asked.options) == dict(found.options)
    )
