"""Runs CREATE TABLE: an empty table, or a staged one that replaces another."""

from __future__ import annotations

from typing import Any

from tidelake.engine.schemas import check_event_time
from tidelake.engine.tables import Catalog, Table, staged_table
from tidelake.errors import UnsupportedError
from tidelake.sql.execution.session import CONNECTOR, OWN_CONNECTORS, SqlSession
from tidelake.sql.syntax.ast import CreateTable
from tidelake.sql.syntax.watermark import watermark_options

PRIMARY_KEY, PARTITION = "primary-key", "partition"


def create_empty(statement: CreateTable, session: SqlSession) -> Table | None:
    """Create an empty table; None for a table of another system, or one that exists."""
    options = dict(statement.options)
    connector = options.get(CONNECTOR)
    if statement.is_temporary or (connector is not None and connector not in OWN_CONNECTORS):
        watermark = {} if statement.watermark is None else _watermark_options(statement)
        if connector in OWN_CONNECTORS:  # others keep the clause
            options.update(watermark)
        session.create_temporary(statement, options=options)
        return None
    catalog, identifier, arguments = _create_arguments(statement, session)
    if statement.if_exists == "replace":
        catalog.first_schema(identifier, **arguments)  # raises before the old table is dropped
        catalog.drop_table(identifier, if_missing="ignore")
    if statement.if_exists == "ignore" and _holds(catalog, identifier):
        return None  # only the name counts
    return catalog.create_table(identifier, **arguments)


def create_staged(statement: CreateTable, session: SqlSession) -> tuple[Catalog, Table]:
    """Create the staged table of CREATE OR REPLACE TABLE, and return its catalog."""
    catalog, identifier, arguments = _create_arguments(statement, session)
    return catalog, staged_table(catalog, identifier, **arguments)


def _create_arguments(
    statement: CreateTable, session: SqlSession
) -> tuple[Catalog, str, dict[str, Any]]:
    """Return the catalog, the table's name and the other arguments of ``create_table``."""
    options = dict(statement.options)
    options.pop(CONNECTOR, None)
    if statement.metadata:
        name = next(iter(statement.metadata))
        message = (
            f"Column '{name}' of table '{statement.name}' is METADATA, which only tables of the"
            " connector 'kafka' have: leave it out."
        )
        raise UnsupportedError(message, kind="metadata_column", column=name)
    primary_keys = statement.primary_keys or _names(options.pop(PRIMARY_KEY, ""))
    partition_keys = statement.partition_keys or _names(options.pop(PARTITION, ""))
    if statement.watermark is not None:
        options.update(_watermark_options(statement))
    resolved = session.resolve(statement.name)
    catalog = session.catalog_named(resolved.catalog_name)
    if statement.must_exist:
        catalog.table(resolved.identifier)  # raises if it does not exist
    arguments = {
        "schema": statement.fields,
        "primary_keys": primary_keys,
        "partition_keys": partition_keys,
        "options": options,
        "comment": statement.comment,
    }
    return catalog, resolved.identifier, arguments


def _holds(catalog: Catalog, identifier: str) -> bool:
    database, _, table = identifier.partition(".")
    return database in catalog.list_databases() and table in catalog.list_tables(database)


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _watermark_options(statement: CreateTable) -> dict[str, str]:
    assert statement.watermark is not None
    column = statement.watermark.column
    (data_type,) = (f.type for f in statement.fields if f.name == column)
    check_event_time(data_type, column=column, table=str(statement.name))
    return watermark_options(statement.watermark, data_type)
