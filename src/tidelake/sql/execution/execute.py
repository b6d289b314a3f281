"""Runs the statements that need only the catalog; the answer is an Arrow table.

:mod:`tidelake.spark` runs queries, INSERT and CREATE TABLE ... AS.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from tidelake.engine.schemas import DATA_TYPE, ROWTIME, check_event_time
from tidelake.engine.tables import Table
from tidelake.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NotFoundError,
    UnsupportedError,
    near_names,
)
from tidelake.maintenance.procedure import ParameterType
from tidelake.maintenance.procedures import PROCEDURES, call
from tidelake.sql.execution.create_table import create_empty
from tidelake.sql.execution.describe import create_table_text, describe_rows, list_partition_names
from tidelake.sql.execution.session import (
    ForeignTable,
    SqlSession,
    View,
    check_database,
)
from tidelake.sql.execution.stream_settings import check_setting
from tidelake.sql.syntax.ast import (
    AddConstraint,
    AlterTable,
    AlterTag,
    Analyze,
    Call,
    CreateCatalog,
    CreateDatabase,
    CreateTable,
    CreateView,
    Describe,
    DescribeDatabase,
    DropConstraint,
    DropDatabase,
    DropPartitions,
    DropTable,
    DropView,
    Refresh,
    RenameTable,
    SetProperty,
    ShowColumns,
    ShowCreate,
    ShowJobs,
    ShowNames,
    ShowOptions,
    ShowPartitions,
    Statement,
    StopJob,
    Truncate,
    Use,
)
from tidelake.sql.syntax.name import TableName
from tidelake.types.schema_change import SchemaChange, SetOption

NOTHING = pa.table({})
"""The answer of statements without one."""

JOBS_SCHEMA = pa.schema(
    [
        ("job id", pa.string()),
        ("job name", pa.string()),
        ("status", pa.string()),
        ("start time", pa.timestamp("us", tz="UTC")),
        ("batch", pa.int64()),
        ("rows/s", pa.float64()),
        ("watermark", pa.timestamp("us", tz="UTC")),
        ("snapshots behind", pa.int64()),
    ]
)
"""The answer of SHOW JOBS: Flink's columns, then each job's progress."""
FLINK_SETTINGS = ("execution.", "table.", "sql-client.", "parallelism.", "pipeline.", "state.")


def execute(statement: Statement, session: SqlSession) -> pa.Table:
    """Run a statement.

    Parameters
    ----------
    statement : Statement
        A statement without a query.

    Returns
    -------
    pyarrow.Table
        The answer; :data:`NOTHING` for most statements.

    Raises
    ------
    TidelakeError
        From the catalog and its tables.
    """
    run = _RUN.get(type(statement))
    if run is None:
        name = type(statement).__name__
        message = f"The statement {name} needs Spark: use tidelake.spark and tl.sql."
        raise UnsupportedError(message, kind="sql_needs_spark")
    answer: pa.Table | None = run(statement, session)
    return NOTHING if answer is None else answer


def needs_spark(statement: Statement) -> bool:
    """Check if a statement needs Spark: it has a query, or is a setting of Spark.

    Examples
    --------
    >>> from tidelake.sql import parse
    >>> [needs_spark(s) for s in parse("SHOW TABLES; DROP TABLE t; DELETE FROM t; VALUES (1)")]
    [False, False, True, True]
    """
    if isinstance(statement, CreateTable):
        return statement.query is not None
    if isinstance(statement, SetProperty):
        return statement.key is not None and not is_known_setting(statement)
    # Spark checks the query of a view
    return isinstance(statement, CreateView) or type(statement) not in _RUN


# ---- tables


def _create_table(statement: CreateTable, session: SqlSession) -> None:
    if statement.like is not None:
        statement = _alike(statement, session)
    create_empty(statement, session)


def _alike(statement: CreateTable, session: SqlSession) -> CreateTable:
    """Copy columns, keys and options of the table after LIKE."""
    assert statement.like is not None
    schema = session.data_table(statement.like, use="copied").table_schema
    return replace(
        statement,
        fields=schema.fields,
        primary_keys=schema.primary_keys,
        partition_keys=schema.partition_keys,
        options={**schema.options, **statement.options},
        comment=schema.comment if statement.comment is None else statement.comment,
    )


def _refresh(statement: Refresh, session: SqlSession) -> None:
    session.table(statement.name, use="refreshed")


def _drop_table(statement: DropTable, session: SqlSession) -> None:
    found = session.find_temporary(statement.name)
    if isinstance(found, View):
        message = f"'{statement.name}' is a view: DROP VIEW {statement.name}."
        raise InvalidInputError(message, kind="view", table=str(statement.name))
    if found is not None:
        session.drop_temporary(statement.name)
        return
    if statement.is_temporary:
        if statement.if_missing == "ignore":
            return
        temporary = [n for n, t in session.temporary.items() if not isinstance(t, View)]
        temporary += [".".join(full) for full in session.qualified_temporary]
        message = (
            f"There is no temporary table '{statement.name}'."
            f"{near_names(str(statement.name), temporary)}"
        )
        raise NotFoundError(message, kind="table_not_found", table=str(statement.name))
    resolved = session.resolve(statement.name)
    catalog = session.catalog_named(resolved.catalog_name)
    if statement.if_missing == "ignore" and resolved.database not in catalog.list_databases():
        return
    catalog.drop_table(resolved.identifier, if_missing=statement.if_missing)


def _alter_table(statement: AlterTable, session: SqlSession) -> None:
    try:
        table = session.data_table(statement.name, use="altered")
    except NotFoundError:
        if statement.if_missing == "ignore":
            return
        raise
    changes: list[SchemaChange] = []
    for change in statement.changes:
        if isinstance(change, (AddConstraint, DropConstraint)):
            check_constraint(change, table)
        changes.append(change)
        if isinstance(change, SetOption) and change.key == ROWTIME:
            field = table.table_schema.field(str(change.value))
            check_event_time(field.type, column=field.name, table=str(statement.name))
            changes.append(SetOption(DATA_TYPE, str(field.type.as_nullable())))
    table.alter(*changes)


def check_constraint(change: AddConstraint | DropConstraint, table: Table) -> None:
    """Refuse to add a constraint that is there, and to drop one that is not.

    Raises
    ------
    AlreadyExistsError, NotFoundError
        Of the constraint.
    """
    is_there = change.key in table.table_schema.options
    name = change.key.partition(".")[2]
    if isinstance(change, AddConstraint) and is_there:
        message = (
            f"Table '{table.identifier}' has a constraint '{name}' already"
            f" ({table.table_schema.options[change.key]}): drop it first."
        )
        raise AlreadyExistsError(message, kind="constraint_exists", table=table.identifier)
    if isinstance(change, DropConstraint) and not is_there and change.if_missing == "error":
        message = f"Table '{table.identifier}' has no constraint '{name}'."
        raise NotFoundError(message, kind="constraint_not_found", table=table.identifier)


def _rename_table(statement: RenameTable, session: SqlSession) -> None:
    if session.find_temporary(statement.name) is not None:
        message = (
            f"'{statement.name}' is temporary and cannot be renamed: DROP it and create it with the"
            " new name."
        )
        raise UnsupportedError(message, kind="rename_table", table=str(statement.name))
    resolved = session.resolve(statement.name)
    *before, name = statement.new_name.parts
    if len(before) > 2 or (len(before) == 2 and before[0] != resolved.catalog_name):
        message = (
            f"'{statement.name}' cannot be renamed to '{statement.new_name}' in another catalog:"
            f" CREATE TABLE {statement.new_name} AS SELECT * FROM {statement.name}, then DROP the"
            " old one."
        )
        raise UnsupportedError(message, kind="rename_table", table=str(statement.name))
    database = before[-1] if before else resolved.database
    catalog = session.catalog_named(resolved.catalog_name)
    if statement.if_missing == "ignore" and resolved.database not in catalog.list_databases():
        return
    catalog.rename_table(resolved.identifier, f"{database}.{name}", if_missing=statement.if_missing)


def _drop_partitions(statement: DropPartitions, session: SqlSession) -> None:
    session.data_table(statement.name, use="changed").drop_partitions(list(statement.partitions))


def _alter_tag(statement: AlterTag, session: SqlSession) -> None:
    table = session.data_table(statement.name, use="tagged")
    is_there = statement.tag in table.handle.tags.names()
    when: dict[str, Any] = {
        "snapshot_id": statement.snapshot_id,
        "time_retained": statement.time_retained,
    }
    if statement.action == "rename":
        assert statement.new_name is not None
        table.tags.rename(statement.tag, statement.new_name)
    elif statement.action == "drop":
        names = [name.strip() for name in statement.tag.split(",")]
        if statement.if_exists == "ignore":
            known = set(table.handle.tags.names())
            names = [name for name in names if name in known]
        for name in names:
            table.handle.time_travel.by_tag(name)  # before the first is deleted
        for name in names:
            table.tags.delete(name)
    elif statement.action == "replace" or (statement.action == "create_or_replace" and is_there):
        table.tags.replace(statement.tag, **when)
    elif not (is_there and statement.if_exists == "ignore"):
        table.tags.create(statement.tag, **when)


def _truncate(statement: Truncate, session: SqlSession) -> None:
    table = session.data_table(statement.name, use="truncated")
    if statement.partition is None:
        table.truncate()
    else:
        table.drop_partitions([statement.partition])


# ---- views


def _create_view(statement: CreateView, session: SqlSession) -> None:
    assert statement.kept_as is None, "the engine knows its columns, and has the catalog keep it"
    if statement.name in session.temporary and statement.if_exists != "replace":
        if statement.if_exists == "ignore":
            return
        message = (
            f"A temporary table or view '{statement.name}' exists: use CREATE OR REPLACE TEMPORARY"
            " VIEW, or DROP it first."
        )
        raise AlreadyExistsError(message, kind="view_exists", name=statement.name)
    session.temporary[statement.name] = View(statement, session.catalog_name, session.database)


def _drop_view(statement: DropView, session: SqlSession) -> None:
    if isinstance(session.find_temporary(statement.name), View):
        session.drop_temporary(statement.name)
        return
    resolved = session.resolve(statement.name)
    catalog = session.catalog_named(resolved.catalog_name)
    if catalog.find_view(resolved.identifier) is not None:
        catalog.drop_view(resolved.identifier)
        return
    if statement.if_missing == "error":
        views = [n for n, t in session.temporary.items() if isinstance(t, View)]
        message = (
            f"There is no view '{statement.name}'.{near_names(str(statement.name), views)} Drop"
            " views of spark.sql by spark.sql."
        )
        raise NotFoundError(message, kind="view_not_found", name=str(statement.name))


# ---- databases and catalogs


def _database(name: TableName, session: SqlSession) -> tuple[Any, str]:
    if len(name.parts) > 2:  # catalog and database
        message = f"'{name}' is not a database: write database or catalog.database."
        raise InvalidInputError(message, kind="bad_name", name=str(name))
    catalog = session.catalog if len(name.parts) == 1 else session.catalog_named(name.parts[0])
    return catalog, name.parts[-1]


def _create_database(statement: CreateDatabase, session: SqlSession) -> None:
    catalog, name = _database(statement.name, session)
    catalog.create_database(name, if_exists=statement.if_exists)


def _drop_database(statement: DropDatabase, session: SqlSession) -> None:
    catalog, name = _database(statement.name, session)
    catalog.drop_database(name, cascade=statement.cascade, if_missing=statement.if_missing)


def _create_catalog(statement: CreateCatalog, session: SqlSession) -> None:
    session.create_catalog(statement.name, statement.options, if_exists=statement.if_exists)


def _use(statement: Use, session: SqlSession) -> None:
    session.use(statement.parts, is_catalog=statement.is_catalog)


def is_known_setting(statement: SetProperty) -> bool:
    """True for a setting of Flink's sessions."""
    return statement.key is not None and statement.key.startswith(FLINK_SETTINGS)


def _set(statement: SetProperty, session: SqlSession) -> pa.Table | None:
    key = statement.key
    if key is None or (statement.value is None and not statement.is_reset):
        shown = session.settings if key is None else {key: session.settings.get(key, "")}
        if statement.is_reset:
            session.settings.clear()
            return None
        return _rows(("key", "value"), sorted(shown.items()))
    if statement.is_reset:
        session.settings.pop(key, None)
        return None
    assert statement.value is not None
    check_setting(key, statement.value)
    session.settings[key] = statement.value
    return None


# ---- show


def _rows(names: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> pa.Table:
    """Make a table of strings and booleans."""
    columns = [[row[index] for row in rows] for index in range(len(names))]
    arrays = [
        pa.array(c, pa.bool_() if c and isinstance(c[0], bool) else pa.string()) for c in columns
    ]
    return pa.table(arrays, names=list(names))


def _show_names(statement: ShowNames, session: SqlSession) -> pa.Table:
    def wanted(names: Any) -> list[str]:
        pattern = statement.like
        if pattern is None:
            return sorted(names)
        patterns = pattern.replace("%", "*").lower().split("|")
        return sorted(n for n in names if any(fnmatch.fnmatch(n.lower(), p) for p in patterns))

    if statement.what == "catalogs":
        return _rows(("catalog",), [(n,) for n in wanted(session.catalogs)])
    if statement.what == "views":
        views = [n for n, t in session.temporary.items() if isinstance(t, View)]
        catalog, database = session.catalog, session.database
        if statement.database is not None:
            catalog, database = _database(statement.database, session)
        kept = catalog.views(database) if catalog.database_exists(database) else []
        return _rows(
            ("namespace", "viewName", "isTemporary"),
            [(database, n, False) for n in wanted(kept)] + [("", n, True) for n in wanted(views)],
        )
    if statement.what == "databases":
        catalog = session.catalog
        if statement.database is not None:
            catalog = session.catalog_named(str(statement.database))
        return _rows(("namespace",), [(n,) for n in wanted(catalog.list_databases())])
    if statement.database is None:
        catalog, database = session.catalog, session.database
    else:
        catalog, database = _database(statement.database, session)
        check_database(catalog, database)
    tables = catalog.list_tables(database) if database in catalog.list_databases() else []
    rows: list[tuple[object, ...]] = [(database, n, False) for n in wanted(tables)]
    declared = [
        n
        for c, d, n in session.qualified_temporary
        if (session.catalogs[c], d) == (catalog, database)
    ]
    rows += [(database, n, True) for n in wanted(declared)]
    rows += [("", n, True) for n in wanted(session.temporary)]
    return _rows(("namespace", "tableName", "isTemporary"), rows)


def _show_columns(statement: ShowColumns, session: SqlSession) -> pa.Table:
    return _rows(
        ("col_name",), [(n,) for n in session.table(statement.name, use="shown").schema.names]
    )


def _show_create(statement: ShowCreate, session: SqlSession) -> pa.Table:
    table = session.data_table(statement.name, use="shown")
    return _rows(("createtab_stmt",), [(create_table_text(table.table_schema, table.identifier),)])


def _show_options(statement: ShowOptions, session: SqlSession) -> pa.Table:
    options: Mapping[str, str] = session.data_table(
        statement.name, use="shown"
    ).table_schema.options
    if statement.key is None:
        return _rows(("key", "value"), sorted(options.items()))
    missing = f"Table {statement.name} does not have property: {statement.key}"
    return _rows(("key", "value"), [(statement.key, options.get(statement.key, missing))])


def _show_partitions(statement: ShowPartitions, session: SqlSession) -> pa.Table:
    table = session.data_table(statement.name, use="shown")
    if statement.tags:
        return _rows(("tag",), [(n,) for n in sorted(table.handle.tags.names())])
    if not table.partition_keys:
        message = f"Table '{statement.name}' is not partitioned."
        raise InvalidInputError(message, kind="bad_partition", table=str(statement.name))
    names = list_partition_names(table, statement.partition or {}, zone=session.zone())
    return _rows(("partition",), [(name,) for name in names])


def _describe(statement: Describe, session: SqlSession) -> pa.Table:
    temporary = session.find_temporary(statement.name)
    if isinstance(temporary, ForeignTable):
        definition = temporary.definition
        rows = [(f.name, str(f.type), f.description) for f in definition.fields]
        return _rows(("col_name", "data_type", "comment"), rows)
    table = session.table(statement.name, use="described")
    rows = describe_rows(table, extended=statement.extended)
    if statement.column is not None:
        names = list(table.schema.names)
        if statement.column not in names:
            message = (
                f"Table '{statement.name}' has no column '{statement.column}'."
                f"{near_names(statement.column, names)}"
            )
            raise NotFoundError(message, kind="column_not_found", column=statement.column)
        rows = [rows[names.index(statement.column)]]
    return _rows(("col_name", "data_type", "comment"), rows)


def _describe_database(statement: DescribeDatabase, session: SqlSession) -> pa.Table:
    catalog, name = _database(statement.name, session)
    check_database(catalog, name)
    rows = [("Namespace Name", name), ("Location", f"{catalog.uri}/{name}.db")]
    return _rows(("info_name", "info_value"), rows)


# ---- jobs


def _call(statement: Call, session: SqlSession) -> pa.Table:
    catalog_name = statement.catalog or session.catalog_name
    positional, named = list(statement.positional), dict(statement.named)
    procedure = PROCEDURES.get(statement.name)
    parameters = () if procedure is None else procedure.parameters
    first = parameters[0] if parameters else None
    tables = [p.name for p in parameters if p.type is ParameterType.TABLE]
    if tables and (len(tables) > 1 or first is None or first.name not in tables):
        # each may be of another catalog, and keeps its name
        names = [p.name for p in parameters]
        positional = [
            _in_database(v, session) if name in tables else v
            for name, v in zip(names, positional, strict=False)
        ] + positional[len(names) :]
        named = {
            k: _in_database(v, session) if k.lower() in tables else v for k, v in named.items()
        }
    elif first is not None and first.type is ParameterType.TABLE:
        # a name without database is in the current one
        if positional:
            positional[0], catalog_name = _qualify(positional[0], session, catalog_name)
        for key in named:
            if key.lower() == first.name:
                named[key], catalog_name = _qualify(named[key], session, catalog_name)
    catalog = session.catalog_named(catalog_name)
    runner = session.runner_of(catalog)
    return call(
        catalog,
        statement.name,
        positional,
        named,
        runner=runner,
        zone=session.zone(),
        catalogs=session.catalogs,
    )


def _in_database(given: object, session: SqlSession) -> object:
    """A table's name with the current database where it has none."""
    is_plain = isinstance(given, str) and "." not in given
    return f"{session.database}.{given}" if is_plain else given


def _qualify(given: object, session: SqlSession, catalog_name: str) -> tuple[object, str]:
    """Qualify a table's name by the database; return its catalog too."""
    if not isinstance(given, str):
        return given, catalog_name
    parts = given.split(".")
    if len(parts) == 1 and catalog_name == session.catalog_name:
        return f"{session.database}.{given}", catalog_name
    if len(parts) > 2 and parts[0] in session.catalogs:
        return ".".join(parts[1:]), parts[0]
    return given, catalog_name


def _analyze(statement: Analyze, session: SqlSession) -> None:
    columns = None if statement.columns is None else list(statement.columns)
    session.data_table(statement.name, use="analyzed").maintenance.analyze(columns)


# Jobs are Spark queries, so a session without Spark has none.


def _show_jobs(statement: ShowJobs, session: SqlSession) -> pa.Table:
    del statement, session
    return JOBS_SCHEMA.empty_table()


def _stop_job(statement: StopJob, session: SqlSession) -> None:
    del session
    message = f"There is no job '{statement.job}': SHOW JOBS lists the jobs of this session."
    raise NotFoundError(message, kind="job_not_found", job=statement.job)


_RUN: dict[type[Any], Callable[[Any, SqlSession], pa.Table | None]] = {
    AlterTable: _alter_table,
    AlterTag: _alter_tag,
    Analyze: _analyze,
    Call: _call,
    CreateCatalog: _create_catalog,
    CreateDatabase: _create_database,
    CreateTable: _create_table,
    CreateView: _create_view,
    Describe: _describe,
    DescribeDatabase: _describe_database,
    DropDatabase: _drop_database,
    DropPartitions: _drop_partitions,
    DropTable: _drop_table,
    DropView: _drop_view,
    Refresh: _refresh,
    RenameTable: _rename_table,
    SetProperty: _set,
    ShowColumns: _show_columns,
    ShowCreate: _show_create,
    ShowJobs: _show_jobs,
    ShowNames: _show_names,
    ShowOptions: _show_options,
    ShowPartitions: _show_partitions,
    StopJob: _stop_job,
    Truncate: _truncate,
    Use: _use,
}
