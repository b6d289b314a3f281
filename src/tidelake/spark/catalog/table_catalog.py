"""The warehouse as a Spark catalog: databases, tables, definitions, moments."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar, NoReturn

from tidelake.engine.tables import Catalog, SystemTable, Table
from tidelake.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NotFoundError,
    TidelakeError,
    UnsupportedError,
)
from tidelake.maintenance.procedure import ProcedureRunner
from tidelake.maintenance.procedures import PROCEDURES
from tidelake.options import declared
from tidelake.spark.callbacks.gateway import CONNECTOR, Gateway, JavaObject, Proxy
from tidelake.spark.callbacks.refusal import UNSUPPORTED, JavaRefusal, refused
from tidelake.spark.catalog.changelog import TableChangelog
from tidelake.spark.catalog.java_ddl import (
    NewTable,
    check_own_provider,
    made_for_stream,
    schema_changes,
)
from tidelake.spark.catalog.procedures import SYSTEM_DATABASE, LakeProcedure, procedure_of
from tidelake.spark.catalog.staged import StagedTable
from tidelake.spark.catalog.table import PROVIDER, LakeTable, NestedInsertTable, SystemRelation
from tidelake.spark.catalog.writing import MERGE_SCHEMA, merging_option
from tidelake.spark.expression.expression import quoted
from tidelake.spark.versions import CONSTRAINTS, has
from tidelake.sql.execution.execute import check_constraint
from tidelake.sql.syntax.ast import AddConstraint, DropConstraint

CATALOG = f"{CONNECTOR}.catalog"
ANALYSIS = "org.apache.spark.sql.catalyst.analysis"
CATALOG_SHOWN = "tidelake catalog"
DEFAULT_DATABASE = "default"
MICROS_PER_MS = 1000
NO_PRIVILEGES = "[]"
ONLY_INSERTS = "[INSERT]"
"""What a statement does to a table, as Java shows a set: nothing; inserts."""
MOMENT_KEYS = (
    declared.SCAN_SNAPSHOT_ID.key,
    declared.SCAN_TAG_NAME.key,
    declared.SCAN_TIMESTAMP_MILLIS.key,
    declared.SCAN_TIMESTAMP.key,
    declared.SCAN_MODE.key,
)
_NO_TABLE = frozenset({"table_not_found", "database_not_found", "branch_not_found"})


class _NewForStream(threading.local):
    """The table that a thread has made for a stream that it starts."""

    path: str | None = None


class LakeCatalog(
    Proxy,
    implements=(
        f"{CATALOG}.StagingTableCatalog",
        f"{CATALOG}.SupportsNamespaces",
        f"{CATALOG}.ProcedureCatalog",
    ),
):
    """A warehouse as a catalog of Spark's.

    Parameters
    ----------
    runner_of : callable, optional
        Compacts the tables of a catalog; this process by default.
    """

    _states: ClassVar[dict[tuple[str, str], str]] = {}
    """By name and warehouse, for all sessions: they share Spark's cache."""

    def __init__(
        self,
        gateway: Gateway,
        catalog: Catalog,
        *,
        name: str,
        runner_of: Callable[[Catalog], ProcedureRunner | None] | None = None,
    ) -> None:
        super().__init__(gateway)
        self._runner_of = runner_of
        self._catalog = catalog
        self._name = name
        self._last_namespace: tuple[JavaObject, list[str]] | None = None
        self._new_for_stream = _NewForStream()

    def toString(self) -> str:
        """How it is shown."""
        return f"{CATALOG_SHOWN} '{self._name}' of {self._catalog.uri}"

    # ---- the catalog itself

    def initialize(self, _name: str, _options: JavaObject) -> None:
        """Do nothing: ``attach`` prepared it."""

    def name(self) -> str:
        """Its name in statements."""
        return self._name

    def defaultNamespace(self) -> JavaObject:
        """The database of ``USE <catalog>``."""
        return self.gateway.strings([DEFAULT_DATABASE])

    def capabilities(self) -> JavaObject:
        """Keys, checks and column defaults may be declared."""
        return self.gateway.constants(
            "catalog.TableCatalogCapability",
            "SUPPORT_COLUMN_DEFAULT_VALUE",
            *(("SUPPORT_TABLE_CONSTRAINT",) if has(CONSTRAINTS) else ()),
        )

    def tableStateOptionKeys(self) -> JavaObject:
        """Options that decide a table's columns when it is loaded.

        They name a moment, let rows add columns, or show the kinds of a stream's rows: Spark passes
        only these to ``loadTable``.
        """
        own = (MERGE_SCHEMA, declared.WRITE_MERGE_SCHEMA.key, declared.READ_CHANGELOG.key)
        keys = (*MOMENT_KEYS, *own)
        return self.gateway.kept(keys, lambda: self.gateway.set(keys))

    def changelogStateOptionKeys(self) -> JavaObject:
        """None."""
        return self.gateway.set(())

    def useNullableQuerySchema(self) -> bool:
        """Columns of CREATE TABLE ... AS may be null, even for a literal."""
        return True

    # ---- tables

    def listTables(self, namespace: JavaObject) -> JavaObject:
        """The tables of a database."""
        database = self._database(namespace)
        names = self._catalog.list_tables(database) if self._holds(database) else []
        identifier = self.gateway.connector("catalog.Identifier")
        made = [identifier.of(namespace, name) for name in names]
        return self.gateway.array(f"{CATALOG}.Identifier", made)

    def listTableSummaries(self, namespace: JavaObject) -> JavaObject:
        """The tables of a database, with their kind."""
        summary = self.gateway.connector("catalog.TableSummary")
        made = [summary.of(one, "MANAGED") for one in self.listTables(namespace)]
        return self.gateway.array(f"{CATALOG}.TableSummary", made)

    def loadTable(self, identifier: JavaObject, *how: Any) -> JavaObject:
        """Open a table, at a moment if one is given."""
        moment: Any = None
        options: Mapping[str, object] = {}
        privileges = NO_PRIVILEGES
        is_write = False
        if len(how) == 2:
            context, given = how
            options = merging_option(self.gateway.options(given))
            privileges = str(context.writePrivileges().toString())
            is_write = privileges != NO_PRIVILEGES
            travel = context.timeTravel()
            if travel.isPresent():
                asked = travel.get()
                by_version = asked.getClass().getSimpleName() == "AsOfVersion"
                moment = str(asked.version()) if by_version else int(asked.micros())
        elif how and isinstance(how[0], str | int):
            moment = how[0]
        elif how:  # Spark 4.0 to 4.2
            privileges = str(how[0])
        found = self._open(identifier)
        name = self._shown(identifier)
        if isinstance(found, SystemTable):
            base = partial(self._base, self._path(identifier))
            return SystemRelation(self.gateway, name, found, _moment(moment, found), base)
        is_nested = any(field.type.is_nested for field in found.table_schema.fields)
        kind = NestedInsertTable if is_nested and privileges == ONLY_INSERTS else LakeTable
        table = kind(
            self.gateway,
            name,
            found,
            _moment(moment, found),
            options,
            warehouse=self._catalog.uri,
            catalog=self._name,
            is_write=is_write,
        )
        if self._new_for_stream.path is not None:
            table.on_refused_stream = partial(self._remove_new, self._path(identifier))
        if moment is None and not options:
            self._forget_outdated(identifier, table.state)
        return table

    def _forget_outdated(self, identifier: JavaObject, state: str) -> None:
        """Make Spark refresh its cache of a table that has changed.

        Spark finds cached data by the table's name, whatever was committed since, until one of its
        own statements writes the table. A table that this process loads for the first time counts
        as changed.
        """
        name = ".".join(map(quoted, self._parts(identifier)))
        key = (name, self._catalog.uri)
        known = self._states.get(key)
        if known == state:
            return
        self._states[key] = state  # refreshing loads the table again
        spark = self.gateway.spark._jsparkSession
        if not spark.sharedState().cacheManager().isEmpty():
            try:
                spark.catalog().refreshTable(name)
            except BaseException:
                self._states.pop(key, None)  # the next load tries again
                raise

    def _open(self, identifier: JavaObject) -> Table | SystemTable:
        try:
            return self._catalog.table(self._path(identifier))
        except NotFoundError as error:
            if error.kind not in _NO_TABLE:
                raise
            raise self._analysis("NoSuchTableException", identifier, error.message) from error

    def _base(self, path: str) -> Table | None:
        """The table, perhaps a branch, of a system table; None of one of the whole catalog."""
        base, is_of_table, _ = path.rpartition("$")
        found = self._catalog.table(base) if is_of_table else None
        return found if isinstance(found, Table) else None

    def loadChangelog(
        self, identifier: JavaObject, context: JavaObject, *_options: JavaObject
    ) -> JavaObject:
        """CHANGES."""
        table = self._data_table(identifier)
        return TableChangelog(self.gateway, self._shown(identifier), table, context)

    def invalidateTable(self, _identifier: JavaObject) -> None:
        """Do nothing: no table is cached here."""

    def tableExists(self, identifier: JavaObject) -> bool:
        """Whether there is such a table; ``writeStream.toTable`` begins with this question."""
        self._new_for_stream.path = None
        try:
            self._catalog.table(self._path(identifier))
        except (NotFoundError, InvalidInputError):
            return False
        return True

    def createTable(self, identifier: JavaObject, *asked: JavaObject) -> JavaObject:
        """CREATE TABLE."""
        staged = self._staged(identifier, self._new(identifier, asked))
        self._check_free(identifier)
        is_for_stream = made_for_stream(self.gateway, self._shown(identifier), asked)
        staged.commitStagedChanges()
        self._new_for_stream.path = self._path(identifier) if is_for_stream else None
        return self.loadTable(identifier)

    def _remove_new(self, path: str) -> None:
        """Remove the empty table that a refused stream has just made, in the same thread."""
        if self._new_for_stream.path == path:
            self._new_for_stream.path = None
            found = self._catalog.table(path)
            if isinstance(found, Table) and found.handle.snapshots.latest() is None:
                self._catalog.drop_table(path, if_missing="ignore")

    def createTableLike(
        self, identifier: JavaObject, info: JavaObject, source: JavaObject
    ) -> JavaObject:
        """CREATE TABLE ... LIKE."""
        check_own_provider(info.properties().get("provider"), self._shown(identifier))
        new = self._alike(self._new(identifier, (info,)), source)
        staged = self._staged(identifier, new)
        self._check_free(identifier)
        staged.commitStagedChanges()
        return self.loadTable(identifier)

    def _alike(self, new: NewTable, source: JavaObject) -> NewTable:
        """A table of ours gives all that it has, one of another catalog what Spark knows of it."""
        catalog, *place = str(source.name()).split(".")
        if catalog == self._name:
            identifier = self.gateway.connector("catalog.Identifier")
            own = identifier.of(self.gateway.strings(place[:1]), place[1])
            return new.like(self._data_table(own).table_schema)
        if source.properties().get("provider") == PROVIDER:
            message = (
                f"'{source.name()}' is in another catalog than '{self._name}': run CREATE TABLE ..."
                " LIKE with tl.sql, which keeps its keys, types and options."
            )
            raise UnsupportedError(message, kind="sql_clause")
        return new

    def stageCreate(self, identifier: JavaObject, *asked: JavaObject) -> JavaObject:
        """CREATE TABLE ... AS: check the definition."""
        self._check_free(identifier)
        return self._staged(identifier, self._new(identifier, asked))

    def stageReplace(self, identifier: JavaObject, *asked: JavaObject) -> JavaObject:
        """REPLACE TABLE: the same for an existing table."""
        self._data_table(identifier)
        return self._staged(identifier, self._new(identifier, asked), replaces=True)

    def stageCreateOrReplace(self, identifier: JavaObject, *asked: JavaObject) -> JavaObject:
        """CREATE OR REPLACE TABLE."""
        return self._staged(identifier, self._new(identifier, asked), replaces=True)

    def supportedCustomMetrics(self) -> JavaObject:
        """None of our own."""
        return self.gateway.array(f"{CONNECTOR}.metric.CustomMetric", ())

    def _new(self, identifier: JavaObject, asked: tuple[JavaObject, ...]) -> NewTable:
        return NewTable.of(self.gateway, self._shown(identifier), asked)

    def _check_free(self, identifier: JavaObject) -> None:
        if self.tableExists(identifier):
            text = f"Table '{self._shown(identifier)}' already exists."
            raise self._analysis("TableAlreadyExistsException", identifier, text)

    def _staged(
        self, identifier: JavaObject, new: NewTable, *, replaces: bool = False
    ) -> StagedTable:
        path, name = self._path(identifier), self._shown(identifier)
        if "$" in path:
            message = f"'{name}' is the name of a system table: choose one without '$'."
            raise InvalidInputError(message, kind="system_table", table=name)
        self._check_database(path.partition(".")[0], identifier.namespace())
        return StagedTable(
            self.gateway, name, catalog=self._catalog, path=path, new=new, replaces=replaces
        )

    def alterTable(self, identifier: JavaObject, changes: JavaObject) -> JavaObject:
        """ALTER TABLE: all of it or nothing."""
        table, name = self._data_table(identifier), self._shown(identifier)
        try:
            asked = schema_changes(changes, table=name)
            for change in asked:
                if isinstance(change, AddConstraint | DropConstraint):
                    check_constraint(change, table)
            altered = table.alter(*asked)
        except TidelakeError as error:
            raise refused(error, self.gateway, kinds=(UNSUPPORTED, UNSUPPORTED)) from error
        place = self._catalog.uri
        return LakeTable(self.gateway, name, altered, {}, {}, warehouse=place, catalog=self._name)

    def dropTable(self, identifier: JavaObject) -> bool:
        """DROP TABLE."""
        if not self.tableExists(identifier):
            return False
        self._data_table(identifier)
        self._catalog.drop_table(self._path(identifier))
        return True

    def purgeTable(self, identifier: JavaObject) -> bool:
        """DROP TABLE ... PURGE: the same as DROP TABLE."""
        return bool(self.dropTable(identifier))

    def renameTable(self, old: JavaObject, new: JavaObject) -> None:
        """ALTER TABLE ... RENAME TO; a name alone stays in the table's database."""
        self._data_table(old)
        namespace = self._namespace(new)
        if len(namespace) != 1:
            message = (
                f"'{self._shown(old)}' cannot be renamed into another catalog: CREATE TABLE ... AS"
                " SELECT, then DROP the old one."
            )
            raise UnsupportedError(message, kind="rename_table", table=self._shown(old))
        try:
            self._catalog.rename_table(self._path(old), f"{namespace[0]}.{new.name()}")
        except AlreadyExistsError as error:
            raise self._analysis("TableAlreadyExistsException", new, error.message) from error

    # ---- databases

    def listNamespaces(self, *below: JavaObject) -> JavaObject:
        """The databases; there is nothing below them."""
        if below and len(below[0]):
            self._check_database(self._database(below[0]), below[0])
            return self.gateway._gateway.new_array(self.gateway.java("java.lang.String"), 0, 0)
        names = self._catalog.list_databases()
        made = self.gateway._gateway.new_array(self.gateway.java("java.lang.String"), len(names), 1)
        for index, name in enumerate(names):
            made[index][0] = name
        return made

    def namespaceExists(self, namespace: JavaObject) -> bool:
        """Whether the database exists; ``default`` always does, even if it is empty."""
        names = list(namespace)
        if len(names) != 1:
            return False
        return names[0] == DEFAULT_DATABASE or self._holds(names[0])

    def loadNamespaceMetadata(self, namespace: JavaObject) -> JavaObject:
        """The location of a database."""
        database = self._database(namespace)
        self._check_database(database, namespace)
        return self.gateway.mapping({"location": f"{self._catalog.uri}/{database}.db"})

    def createNamespace(self, namespace: JavaObject, properties: JavaObject) -> None:
        """CREATE DATABASE."""
        kept = sorted(set(dict(properties)) - {"owner"})
        if kept:
            message = (
                f"Database '{'.'.join(namespace)}' cannot have {', '.join(kept)}: it is a directory"
                " with a name only."
            )
            raise UnsupportedError(message, kind="sql_clause")
        try:
            self._catalog.create_database(self._database(namespace))
        except AlreadyExistsError as error:
            raise self._analysis(
                "NamespaceAlreadyExistsException", namespace, error.message
            ) from error

    def alterNamespace(self, namespace: JavaObject, _changes: JavaObject) -> NoReturn:
        """ALTER DATABASE is refused."""
        message = (
            f"Database '{'.'.join(namespace)}' cannot be altered: it is a directory with a name"
            " only."
        )
        raise UnsupportedError(message, kind="sql_clause")

    def dropNamespace(self, namespace: JavaObject, cascade: bool) -> bool:  # noqa: FBT001
        """DROP DATABASE."""
        database = self._database(namespace)
        if not self._holds(database):
            return False
        if not cascade and self._catalog.list_tables(database):
            text = f"Database '{database}' is not empty."
            raise self._analysis("NonEmptyNamespaceException", namespace, text)
        self._catalog.drop_database(database, cascade=bool(cascade))
        return True

    # ---- procedures

    def loadProcedure(self, identifier: JavaObject) -> JavaObject:
        """CALL."""
        procedure = procedure_of(identifier.name(), namespace=list(identifier.namespace()))
        return LakeProcedure(
            self.gateway,
            procedure,
            self._catalog,
            catalog_name=self._name,
            runner_of=self._runner_of,
        )

    def listProcedures(self, namespace: JavaObject) -> JavaObject:
        """SHOW PROCEDURES."""
        identifier = self.gateway.connector("catalog.Identifier")
        system = self.gateway.strings([SYSTEM_DATABASE])
        is_there = list(namespace) in ([], [SYSTEM_DATABASE])
        made = [identifier.of(system, name) for name in PROCEDURES] if is_there else []
        return self.gateway.array(f"{CATALOG}.Identifier", made)

    # ---- names

    def _database(self, namespace: JavaObject) -> str:
        names = list(namespace)
        if len(names) != 1:
            raise self._analysis("NoSuchNamespaceException", namespace, ".".join(names))
        return str(names[0])

    def _holds(self, database: str) -> bool:
        return database in self._catalog.list_databases()

    def _check_database(self, database: str, namespace: JavaObject) -> None:
        if database != DEFAULT_DATABASE and not self._holds(database):
            text = f"There is no database '{database}'."
            raise self._analysis("NoSuchNamespaceException", namespace, text)

    def _path(self, identifier: JavaObject) -> str:
        namespace = self._namespace(identifier)
        if len(namespace) != 1 or "." in namespace[0] or "." in identifier.name():
            raise self._analysis("NoSuchTableException", identifier, "No such table.")
        return f"{namespace[0]}.{identifier.name()}"

    def _namespace(self, identifier: JavaObject) -> list[str]:
        """The database of a table; after RENAME TO Spark includes the catalog in it."""
        known = self._last_namespace
        if known is not None and known[0] is identifier:
            return known[1]  # each name is a call to the JVM, and a query asks again and again
        names = list(identifier.namespace())
        own = names[1:] if len(names) > 1 and names[0] == self._name else names
        self._last_namespace = identifier, own
        return own

    def _shown(self, identifier: JavaObject) -> str:
        return ".".join(self._parts(identifier))

    def _parts(self, identifier: JavaObject) -> list[str]:
        return [self._name, *self._namespace(identifier), identifier.name()]

    def _data_table(self, identifier: JavaObject) -> Table:
        found = self._open(identifier)
        if isinstance(found, SystemTable):
            message = (
                f"'{self._shown(identifier)}' is a system table: it can only be read. It cannot be"
                " altered or dropped, and has no changes."
            )
            raise InvalidInputError(message, kind="system_table", table=self._shown(identifier))
        return found

    def _analysis(self, kind: str, what: JavaObject, text: str) -> JavaRefusal:
        """An exception that the interface's methods declare."""
        return JavaRefusal(self.gateway.java(f"{ANALYSIS}.{kind}")(what), text)


def _moment(asked: str | int | None, found: Table | SystemTable) -> dict[str, Any]:
    """The moment of VERSION AS OF (text) or TIMESTAMP AS OF (microseconds)."""
    if asked is None:
        return {}
    if isinstance(asked, int):
        return {"timestamp": asked // MICROS_PER_MS}
    tags = found.handle.tags.names() if hasattr(found, "handle") else ()
    if asked.isdecimal() and asked not in tags:
        return {"snapshot_id": int(asked)}
    return {"tag": asked}
