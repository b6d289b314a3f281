"""State of a session: catalogs, current database, temporary tables, views, settings.

A name of one part is a temporary table or view of the session, or else a table of the current
database. Two parts are ``database.table`` in the current catalog, three parts begin with the
catalog. A temporary table with such a name hides the catalog's. Names are case sensitive.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TypeAlias

from tidelake.engine.storage import FileIO, open_storage, parse_location, split_options
from tidelake.engine.tables import (
    Catalog,
    SystemTable,
    Table,
    TableDefinition,
    open_catalog,
    table_at,
    timestamp_ms,
)
from tidelake.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NotFoundError,
    UnsupportedError,
    near_names,
)
from tidelake.maintenance.procedure import ProcedureRunner
from tidelake.sql.syntax.ast import CreateTable, CreateView, Query
from tidelake.sql.syntax.name import TableName

DEFAULT_DATABASE = "default"
OWN_CONNECTORS = frozenset({"paimon", "tidelake"})
CONNECTOR, PATH, AUTO_CREATE = "connector", "path", "auto-create"
CATALOG_TYPES = frozenset({"paimon", "tidelake"})
PARTS = 3
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ResolvedName:
    """Full name of a table, which may not exist.

    Parameters
    ----------
    database, table : str
        The names; a system table's has its ``$`` part.
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
    """A temporary table: a name for the table at a path."""

    name: str
    location: str
    catalog: Catalog
    fileio: FileIO

    @property
    def uri(self) -> str:
        """The path with the scheme of its storage, where it has one."""
        return self.fileio.uri_of(self.location)

    def open(self, definition: TableDefinition | None = None) -> Table:
        """Open the table."""
        return table_at(
            self.location,
            definition or TableDefinition(),
            name=self.name,
            env=self.catalog.env,
            fileio=self.fileio,
        )


@dataclass(frozen=True, slots=True)
class ForeignTable:
    """A declared table of another system, such as Kafka; Spark reads and writes it."""

    definition: CreateTable

    @property
    def connector(self) -> str:
        """The option ``connector``."""
        return self.definition.options.get(CONNECTOR, "")


@dataclass(frozen=True, slots=True)
class View:
    """A view, with the catalog and database that its query's names refer to."""

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
    runner_of : callable, optional
        Returns what runs the compactions of a catalog's tables; this process by default.
    time_zone : callable
        Returns the zone of times without one.
    """

    def __init__(
        self,
        catalog: Catalog,
        *,
        name: str = "tidelake",
        runner_of: Callable[[Catalog], ProcedureRunner | None] | None = None,
        time_zone: Callable[[], tzinfo] = lambda: UTC,
    ) -> None:
        self._runner_of = runner_of
        self._time_zone = time_zone
        self.catalogs: dict[str, Catalog] = {name: catalog}
        self.catalog_name = name
        self.database = DEFAULT_DATABASE
        self.temporary: dict[str, Temporary] = {}
        self.qualified_temporary: dict[tuple[str, ...], Temporary] = {}
        self.settings: dict[str, str] = {}

    def in_database(self, catalog_name: str, database: str) -> SqlSession:
        """Return the same session with another current database.

        Examples
        --------
        >>> import tempfile
        >>> session = SqlSession(open_catalog(tempfile.mkdtemp()))
        >>> session.in_database("tidelake", "sales").database, session.database
        ('sales', 'default')
        """
        other = copy(self)  # shares catalogs and temporary tables
        other.catalog_name, other.database = catalog_name, database
        return other

    @property
    def catalog(self) -> Catalog:
        """The current catalog."""
        return self.catalogs[self.catalog_name]

    def runner_of(self, catalog: Catalog) -> ProcedureRunner | None:
        """Return what runs compactions of a catalog's tables; None for this process."""
        return None if self._runner_of is None else self._runner_of(catalog)

    def time(self, given: object) -> datetime:
        """Convert a time of a statement: text, or milliseconds since the epoch.

        Raises
        ------
        InvalidInputError
            The value is not a time.
        """
        # timestamp_ms refuses other types
        at_ms = timestamp_ms(given, zone=self._time_zone())  # type: ignore[arg-type]
        return EPOCH + timedelta(milliseconds=at_ms)

    def zone(self) -> tzinfo | None:
        """Return the session's time zone; None if it is unknown."""
        try:
            return self._time_zone()
        except InvalidInputError:
            return None

    def resolve(self, name: TableName) -> ResolvedName:
        """Resolve a name in the catalogs, without temporary tables and views.

        Raises
        ------
        NotFoundError
            There is no such catalog.
        """
        parts = name.parts
        if len(parts) == 1:
            return ResolvedName(self.catalog_name, self.database, parts[0])
        if len(parts) == 2:  # database and table
            return ResolvedName(self.catalog_name, *parts)
        self.catalog_named(parts[0])
        return ResolvedName(*parts)

    def catalog_named(self, name: str) -> Catalog:
        """Return a catalog by its name.

        Raises
        ------
        NotFoundError
            There is none.
        """
        if name not in self.catalogs:
            message = (
                f"There is no catalog '{name}'.{near_names(name, self.catalogs)} Catalogs are:"
                f" {', '.join(self.catalogs)}; CREATE CATALOG ... WITH ('type' = 'paimon',"
                " 'warehouse' = '...') adds one."
            )
            raise NotFoundError(message, kind="catalog_not_found", name=name)
        return self.catalogs[name]

    def find_temporary(self, name: TableName) -> Temporary | None:
        """Return the temporary table or view of a name, if any."""
        found = self.temporary.get(name.parts[0]) if len(name.parts) == 1 else None
        return found or self.qualified_temporary.get(self._full(name))

    def kept_view(self, name: TableName) -> View | None:
        """Return the view of a name that its catalog keeps, if any."""
        resolved = self.resolve(name)
        found = self.catalog_named(resolved.catalog_name).find_view(resolved.identifier)
        if found is None:
            return None
        text = found.query_in()
        columns = tuple(field.name for field in found.fields)
        definition = CreateView(str(name), columns, Query(text, 0, len(text)))
        return View(definition, resolved.catalog_name, resolved.database)

    def drop_temporary(self, name: TableName) -> None:
        """Drop the temporary table or view of a name."""
        if len(name.parts) == 1 and name.parts[0] in self.temporary:
            del self.temporary[name.parts[0]]
        else:
            del self.qualified_temporary[self._full(name)]

    def _full(self, name: TableName) -> tuple[str, ...]:
        return (*(self.catalog_name, self.database)[: PARTS - len(name.parts)], *name.parts)

    def table(self, name: TableName, *, use: str) -> Table | SystemTable:
        """Open a table.

        Parameters
        ----------
        use : str
            The action, for messages: ``"altered"``.

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
            return self._refuse_view_or_foreign(found, use)
        resolved = self.resolve(name)
        return self.catalog_named(resolved.catalog_name).table(resolved.identifier)

    def data_table(self, name: TableName, *, use: str) -> Table:
        """Open a table; refuse a system table."""
        found = self.table(name, use=use)
        if isinstance(found, SystemTable):
            message = f"'{name}' is a system table and cannot be {use}: name the table itself."
            raise InvalidInputError(message, kind="system_table", table=str(name))
        return found

    def _temporary_table(self, name: TableName) -> Table | SystemTable | Temporary | None:
        base, dollar, rest = name.parts[-1].partition("$")
        temporary = self.find_temporary(TableName((*name.parts[:-1], base), name.start))
        if isinstance(temporary, PathTable):
            table = temporary.open()
            return table.named(rest) if dollar else table
        self.refuse_foreign_system_table(name)
        return temporary

    def refuse_foreign_system_table(self, name: TableName) -> None:
        """Refuse a system table of a table of another system.

        Raises
        ------
        UnsupportedError
            The name is one.
        """
        base, dollar, system = name.parts[-1].partition("$")
        found = self.find_temporary(TableName((*name.parts[:-1], base), name.start))
        if dollar and isinstance(found, ForeignTable):
            message = (
                f"Table '{found.definition.name}' is of connector '{found.connector}', which has no"
                f" system tables: there is no '${system}' of it."
            )
            raise UnsupportedError(message, kind="system_table", table=str(name))

    def _refuse_view_or_foreign(self, found: Temporary, use: str) -> Table:
        if isinstance(found, View):
            message = f"'{found.definition.name}' is a view and cannot be {use}."
            raise InvalidInputError(message, kind="view", table=found.definition.name)
        assert isinstance(found, ForeignTable)
        message = (
            f"'{found.definition.name}' is a table of connector '{found.connector}' and cannot be"
            f" {use} in this way: use SELECT and INSERT INTO, by tl.sql on Spark."
        )
        raise UnsupportedError(message, kind="sql_streaming", table=str(found.definition.name))

    def create_temporary(self, statement: CreateTable, *, options: Mapping[str, str]) -> None:
        """Run CREATE TEMPORARY TABLE, or declare a table of another system.

        Raises
        ------
        InvalidInputError, UnsupportedError
            An option is missing or wrong.
        """
        name = str(statement.name)
        self.resolve(statement.name)  # refuses an unknown catalog
        if self.find_temporary(statement.name) is not None and statement.if_exists != "replace":
            if statement.if_exists == "ignore":
                return
            message = f"A temporary table or view '{name}' exists: DROP it first."
            raise AlreadyExistsError(message, kind="table_exists", table=name)
        connector = options.get(CONNECTOR)
        if connector is None:
            message = (
                f"Temporary table '{name}' needs the options 'connector' = 'paimon' and 'path', the"
                " table's directory."
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
            message = f"Temporary table '{name}' needs the option 'path', the table's directory."
            raise InvalidInputError(message, kind="option_missing", option=PATH)
        table_options, storage = split_options(rest)
        definition = TableDefinition(
            statement.fields,
            statement.primary_keys,
            statement.partition_keys,
            table_options,
            create,
        )
        location, fileio = self._storage_of(path, storage)
        temporary = PathTable(name, location, self.catalog, fileio)
        temporary.open(definition)  # creates it, or refuses a different table
        self._keep(statement.name, temporary)

    def _storage_of(self, path: str, storage: Mapping[str, object]) -> tuple[str, FileIO]:
        """The plain path of a table's URI, and its storage: the catalog's, if it is in that."""
        location = parse_location(path, what="Path")
        own = self.catalog.fileio
        if not storage and own.uri_of(location.path) == str(location):
            return location.path, own
        return location.path, open_storage(location, storage, self.catalog.env)

    def _keep(self, name: TableName, temporary: Temporary) -> None:
        if len(name.parts) == 1:
            self.temporary[name.parts[0]] = temporary
        else:
            self.qualified_temporary[self._full(name)] = temporary

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
            message = f"Catalog '{name}' exists: choose another name, or USE CATALOG {name}."
            raise AlreadyExistsError(message, kind="catalog_exists", name=name)
        rest = dict(options)
        kind = rest.pop("type", None)
        if kind not in CATALOG_TYPES:
            message = f"Catalog '{name}' needs the option 'type' = 'paimon'" + (
                f", not '{kind}'." if kind else ", and 'warehouse': a directory."
            )
            raise InvalidInputError(message, kind="catalog_option", option="type")
        database = rest.pop("default-database", DEFAULT_DATABASE)
        if database != DEFAULT_DATABASE:
            message = (
                f"Catalog '{name}': 'default-database' is not supported: USE {name}.{database}."
            )
            raise UnsupportedError(message, kind="catalog_option", option="default-database")
        self.catalogs[name] = open_catalog(catalog=rest, env=self.catalog.env)

    def use(self, parts: tuple[str, ...], *, is_catalog: bool) -> None:
        """Set the current database or catalog.

        Raises
        ------
        NotFoundError
            There is none.
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
    """Refuse an unknown database.

    Raises
    ------
    NotFoundError
        The database does not exist.
    """
    known = catalog.list_databases()
    if name not in known:
        message = (
            f"There is no database '{name}'.{near_names(name, known)} CREATE DATABASE creates it."
        )
        raise NotFoundError(message, kind="database_not_found", database=name)


def is_foreign(statement: CreateTable) -> bool:
    """Whether a statement declares a table of another system."""
    connector = statement.options.get(CONNECTOR)
    return connector is not None and connector not in OWN_CONNECTORS


def _boolean(text: str, key: str) -> bool:
    if text.lower() not in {"true", "false"}:
        message = f"Option '{key}' is '{text}' but must be true or false."
        raise InvalidInputError(message, kind="option_value", option=key)
    return text.lower() == "true"
