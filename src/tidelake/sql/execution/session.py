"""What statements share: catalogs, the current database, temporary tables, views, settings.

A name of one part means, in this order: a temporary table or view of the session, or a table of the
current database. One of two parts is ``database.table`` in the current catalog, one of three parts
says its catalog; a temporary table that was made under such a name hides what is there. Names are
as they were written: ``Orders`` is not ``orders``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import TypeAlias

from tidelake.catalog import Catalog, open_catalog
from tidelake.catalog.path_table import AskedTable, table_at
from tidelake.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NotFoundError,
    UnsupportedError,
    near_names,
)
from tidelake.maintenance.procedure import Runner
from tidelake.sql.syntax.ast import CreateTable, CreateView
from tidelake.sql.syntax.name import TableName
from tidelake.table import SystemTable, Table
from tidelake.table.handle.time_travel import timestamp_ms

__all__ = ["ForeignTable", "InCatalog", "PathTable", "SqlSession", "View"]

DEFAULT_DATABASE = "default"
OWN_CONNECTORS = frozenset({"paimon", "tidelake"})
CONNECTOR, PATH, AUTO_CREATE = "connector", "path", "auto-create"
CATALOG_TYPES = frozenset({"paimon", "tidelake"})
LOCAL_METASTORE = "filesystem"
PARTS = 3
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class InCatalog:
    """A table's place in a catalog; it may not be there.

    Parameters
    ----------
    catalog_name : str
        The catalog.
    database, table : str
        The names; the table's with ``$`` and a system table's, where that is meant.
    """

    catalog_name: str
    database: str
    table: str

    @property
    def identifier(self) -> str:
        """``"database.table"``."""
        return f"{self.database}.{self.table}"


@dataclass(frozen=True, slots=True)
class PathTable:
    """A temporary table: what a path holds, under a name of the session.

    Parameters
    ----------
    name : str
        The name.
    location : str
        The path.
    catalog : Catalog
        Whose storage it is on.
    """

    name: str
    location: str
    catalog: Catalog

    def open(self, asked: AskedTable | None = None) -> Table:
        """The table as it is now."""
        return table_at(
            self.location,
            asked or AskedTable(),
            name=self.name,
            env=self.catalog.env,
            fileio=self.catalog.fileio,
        )


@dataclass(frozen=True, slots=True)
class ForeignTable:
    """A table of another system, which was declared and cannot be read yet."""

    definition: CreateTable

    @property
    def connector(self) -> str:
        """The system."""
        return self.definition.options.get(CONNECTOR, "")


@dataclass(frozen=True, slots=True)
class View:
    """A temporary view, and where the names in its query belong."""

    definition: CreateView
    catalog_name: str
    database: str


Temporary: TypeAlias = PathTable | ForeignTable | View


class SqlSession:
    """The state of a session.

    Parameters
    ----------
    catalog : Catalog
        The first catalog.
    name : str
        Its name.
    runner_of : callable, optional
        What runs the compactions of a catalog's tables; this process by default.
    time_zone : callable
        Gives the zone of times that name none.
    """

    def __init__(
        self,
        catalog: Catalog,
        *,
        name: str = "tidelake",
        runner_of: Callable[[Catalog], Runner | None] | None = None,
        time_zone: Callable[[], tzinfo] = lambda: UTC,
    ) -> None:
        self._runner_of = runner_of
        self._time_zone = time_zone
        self.catalogs: dict[str, Catalog] = {name: catalog}
        self.catalog_name = name
        self.database = DEFAULT_DATABASE
        self.temporary: dict[str, Temporary] = {}
        self.qualified: dict[tuple[str, ...], Temporary] = {}
        self.settings: dict[str, str] = {}

    def at(self, catalog_name: str, database: str) -> SqlSession:
        """The same session as one sees it from another database: a view from its own.

        Examples
        --------
        >>> import tempfile
        >>> session = SqlSession(open_catalog(tempfile.mkdtemp()))
        >>> session.at("tidelake", "sales").database, session.database
        ('sales', 'default')
        """
        other = copy(self)  # what is temporary, and the catalogs, are the same
        other.catalog_name, other.database = catalog_name, database
        return other

    @property
    def catalog(self) -> Catalog:
        """The current catalog."""
        return self.catalogs[self.catalog_name]

    def runner_of(self, catalog: Catalog) -> Runner | None:
        """What runs compactions of a catalog's tables; None for this process."""
        return None if self._runner_of is None else self._runner_of(catalog)

    def time(self, given: object) -> datetime:
        """A time that a statement gives: text, or milliseconds since the epoch.

        Raises
        ------
        InvalidInputError
            It is no time.
        """
        # what is no time is refused there
        at_ms = timestamp_ms(given, zone=self._time_zone())  # type: ignore[arg-type]
        return EPOCH + timedelta(milliseconds=at_ms)

    def zone(self) -> tzinfo | None:
        """The zone of times that name none; None where it is not known here."""
        try:
            return self._time_zone()
        except InvalidInputError:
            return None

    def place(self, name: TableName) -> InCatalog:
        """Where a name points, temporary tables and views left aside.

        Raises
        ------
        NotFoundError
            There is no such catalog.
        """
        parts = name.parts
        if len(parts) == 1:
            return InCatalog(self.catalog_name, self.database, parts[0])
        if len(parts) == 2:  # database and table
            return InCatalog(self.catalog_name, *parts)
        self.catalog_named(parts[0])
        return InCatalog(*parts)

    def catalog_named(self, name: str) -> Catalog:
        """A catalog by its name.

        Raises
        ------
        NotFoundError
            There is none; near names are offered.
        """
        if name not in self.catalogs:
            message = (
                f"There is no catalog '{name}'.{near_names(name, self.catalogs)} There are:"
                f" {', '.join(self.catalogs)}; CREATE CATALOG ... WITH ('type' = 'paimon',"
                " 'warehouse' = '...') adds one."
            )
            raise NotFoundError(message, kind="catalog_not_found", name=name)
        return self.catalogs[name]

    def temporary_of(self, name: TableName) -> Temporary | None:
        """The temporary table or view that a name means, if any."""
        found = self.temporary.get(name.parts[0]) if len(name.parts) == 1 else None
        return found or self.qualified.get(self._full(name))

    def forget(self, name: TableName) -> None:
        """Drop the temporary table or view that a name means."""
        if len(name.parts) == 1 and name.parts[0] in self.temporary:
            del self.temporary[name.parts[0]]
        else:
            del self.qualified[self._full(name)]

    def _full(self, name: TableName) -> tuple[str, ...]:
        return (*(self.catalog_name, self.database)[: PARTS - len(name.parts)], *name.parts)

    def table(self, name: TableName, *, use: str) -> Table | SystemTable:
        """Open the table that a name means.

        Parameters
        ----------
        name : TableName
            The name.
        use : str
            What is to be done, for messages: ``"altered"``.

        Raises
        ------
        NotFoundError
            There is none.
        UnsupportedError
            It is a view, or a table of another system.
        """
        found = self._temporary_table(name)
        if isinstance(found, (Table, SystemTable)):
            return found
        if found is not None:
            return self._not_ours(found, use)
        place = self.place(name)
        return self.catalog_named(place.catalog_name).table(place.identifier)

    def data_table(self, name: TableName, *, use: str) -> Table:
        """Open a table that is no system table."""
        found = self.table(name, use=use)
        if isinstance(found, SystemTable):
            message = f"'{name}' is a system table and cannot be {use}: name the table itself."
            raise InvalidInputError(message, kind="system_table", table=str(name))
        return found

    def _temporary_table(self, name: TableName) -> Table | SystemTable | Temporary | None:
        base, dollar, system = name.parts[-1].partition("$")
        temporary = self.temporary_of(TableName((*name.parts[:-1], base), name.start))
        if isinstance(temporary, PathTable):
            table = temporary.open()
            return table.system_table(system) if dollar else table
        return temporary

    def _not_ours(self, found: Temporary, use: str) -> Table:
        if isinstance(found, View):
            message = f"'{found.definition.name}' is a view and cannot be {use}."
            raise InvalidInputError(message, kind="view", table=found.definition.name)
        assert isinstance(found, ForeignTable)
        message = (
            f"'{found.definition.name}' is a table of connector '{found.connector}' and cannot be"
            f" {use}: its definition is kept, streams from and to it are not covered yet."
        )
        raise UnsupportedError(message, kind="sql_streaming", table=str(found.definition.name))

    def create_temporary(self, statement: CreateTable, *, options: Mapping[str, str]) -> None:
        """Carry out CREATE TEMPORARY TABLE, or keep a table of another system.

        Raises
        ------
        InvalidInputError, UnsupportedError
            An option is missing or wrong.
        """
        name = str(statement.name)
        self.place(statement.name)  # refuses a catalog that is not there
        if self.temporary_of(statement.name) is not None and statement.if_exists != "replace":
            if statement.if_exists == "ignore":
                return
            message = f"There is a temporary table or view '{name}': DROP it first."
            raise AlreadyExistsError(message, kind="table_exists", table=name)
        connector = options.get(CONNECTOR)
        if connector is None:
            message = (
                f"Temporary table '{name}' needs the option 'connector' = 'paimon', and 'path':"
                " where the table's files are."
            )
            raise InvalidInputError(message, kind="option_missing", option=CONNECTOR)
        if connector not in OWN_CONNECTORS:
            self._keep(statement.name, ForeignTable(statement))
            return
        rest = dict(options)
        rest.pop(CONNECTOR)
        path = rest.pop(PATH, None)
        create = _boolean(rest.pop(AUTO_CREATE, "false"), AUTO_CREATE)
        if not path:
            message = f"Temporary table '{name}' needs the option 'path': where its files are."
            raise InvalidInputError(message, kind="option_missing", option=PATH)
        asked = AskedTable(
            statement.fields, statement.primary_keys, statement.partition_keys, rest, create
        )
        temporary = PathTable(name, local_path(path), self.catalog)
        temporary.open(asked)  # makes it, or refuses one that is another
        self._keep(statement.name, temporary)

    def _keep(self, name: TableName, temporary: Temporary) -> None:
        if len(name.parts) == 1:
            self.temporary[name.parts[0]] = temporary
        else:
            self.qualified[self._full(name)] = temporary

    def create_catalog(self, name: str, options: Mapping[str, str], *, if_exists: str) -> None:
        """Add a catalog.

        Raises
        ------
        InvalidInputError, UnsupportedError, AlreadyExistsError
            An option is missing or wrong, or the name is taken.
        """
        if name in self.catalogs:
            if if_exists == "ignore":
                return
            message = f"There is a catalog '{name}': choose another name, or USE CATALOG it."
            raise AlreadyExistsError(message, kind="catalog_exists", name=name)
        rest = dict(options)
        kind = rest.pop("type", None)
        if kind not in CATALOG_TYPES:
            message = f"Catalog '{name}' needs the option 'type' = 'paimon'" + (
                f", not '{kind}'." if kind else ", and 'warehouse': a directory."
            )
            raise InvalidInputError(message, kind="catalog_option", option="type")
        metastore = rest.pop("metastore", LOCAL_METASTORE)
        if metastore != LOCAL_METASTORE:
            message = (
                f"Catalog '{name}': 'metastore' = '{metastore}' is not covered yet; a warehouse's"
                " directory is: leave it out."
            )
            raise UnsupportedError(message, kind="catalog_option", option="metastore")
        database = rest.pop("default-database", DEFAULT_DATABASE)
        if database != DEFAULT_DATABASE:
            message = f"Catalog '{name}': 'default-database' is not covered: USE {name}.{database}."
            raise UnsupportedError(message, kind="catalog_option", option="default-database")
        warehouse = rest.pop("warehouse", None)
        if not warehouse:
            message = f"Catalog '{name}' needs the option 'warehouse': a directory."
            raise InvalidInputError(message, kind="catalog_option", option="warehouse")
        self.catalogs[name] = open_catalog(warehouse, options=rest, env=self.catalog.env)

    def use(self, parts: tuple[str, ...], *, is_catalog: bool) -> None:
        """Make a database, or a catalog, the current one.

        Raises
        ------
        NotFoundError
            There is none; near names are offered.
        """
        if is_catalog or (
            len(parts) == 1 and parts[0] in self.catalogs and not self._has_database(parts[0])
        ):
            self.catalog_named(parts[0])
            self.catalog_name, self.database = parts[0], DEFAULT_DATABASE
            return
        catalog_name = parts[0] if len(parts) > 1 else self.catalog_name
        catalog = self.catalog_named(catalog_name)
        database = parts[-1]
        if database != DEFAULT_DATABASE:
            check_database(catalog, database)
        self.catalog_name, self.database = catalog_name, database

    def _has_database(self, name: str) -> bool:
        return name in self.catalog.list_databases()


def check_database(catalog: Catalog, name: str) -> None:
    """Refuse a database that is not there.

    Raises
    ------
    NotFoundError
        Near names are offered.
    """
    known = catalog.list_databases()
    if name not in known:
        message = (
            f"There is no database '{name}'.{near_names(name, known)} CREATE DATABASE makes it."
        )
        raise NotFoundError(message, kind="database_not_found", database=name)


def local_path(path: str) -> str:
    """A path without ``file:``.

    Raises
    ------
    UnsupportedError
        It is on a storage that this version does not reach.
    """
    if path.startswith("file:"):
        path = "/" + path.removeprefix("file:").lstrip("/")
    elif "://" in path:
        message = (
            f"Path '{path}' is on a storage that this version does not reach: give a local one."
        )
        raise UnsupportedError(message, kind="warehouse", path=path)
    return str(Path(path).expanduser().absolute())


def _boolean(text: str, key: str) -> bool:
    if text.lower() not in {"true", "false"}:
        message = f"Option '{key}' is '{text}' but must be true or false."
        raise InvalidInputError(message, kind="option_value", option=key)
    return text.lower() == "true"
