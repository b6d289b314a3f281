"""Carries out CREATE TABLE: an empty table, or one filled before it takes another's place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidelake.catalog import Catalog
from tidelake.catalog.staging import staged_table
from tidelake.sql.execution.session import CONNECTOR, OWN_CONNECTORS, SqlSession
from tidelake.sql.syntax.ast import CreateTable
from tidelake.sql.syntax.watermark import watermark_options
from tidelake.table import Table

__all__ = ["create_empty", "create_staged"]

PRIMARY_KEY, PARTITION = "primary-key", "partition"


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a statement says of a table of ours, and where it shall be."""

    catalog: Catalog
    identifier: str
    primary_keys: tuple[str, ...]
    partition_keys: tuple[str, ...]
    options: Mapping[str, str]


def create_empty(statement: CreateTable, session: SqlSession) -> Table | None:
    """Make the table of CREATE TABLE without rows; None where it is of another system."""
    options = dict(statement.options)
    connector = options.get(CONNECTOR)
    if statement.is_temporary or (connector is not None and connector not in OWN_CONNECTORS):
        if statement.watermark is not None and connector in OWN_CONNECTORS:
            options.update(_watermark_options(statement))
        session.create_temporary(statement, options=options)
        return None
    asked = _asked(statement, session)
    if statement.if_exists == "replace":
        _check_there(statement, asked)
        asked.catalog.first_schema(  # refuses what is wrong while the old table is there
            asked.identifier,
            statement.fields,
            primary_keys=asked.primary_keys,
            partition_keys=asked.partition_keys,
            options=asked.options,
            comment=statement.comment,
        )
        asked.catalog.drop_table(asked.identifier, if_missing="ignore")
    if statement.if_exists == "ignore" and _holds(asked.catalog, asked.identifier):
        return None  # SQL looks at the name only
    return asked.catalog.create_table(
        asked.identifier,
        statement.fields,
        primary_keys=asked.primary_keys,
        partition_keys=asked.partition_keys,
        options=asked.options,
        comment=statement.comment,
    )


def create_staged(statement: CreateTable, session: SqlSession) -> tuple[Catalog, Table]:
    """Make the table of CREATE OR REPLACE TABLE out of sight, and say whose it will be."""
    asked = _asked(statement, session)
    _check_there(statement, asked)
    staged = staged_table(
        asked.catalog,
        asked.identifier,
        statement.fields,
        primary_keys=asked.primary_keys,
        partition_keys=asked.partition_keys,
        options=asked.options,
        comment=statement.comment,
    )
    return asked.catalog, staged


def _asked(statement: CreateTable, session: SqlSession) -> _Asked:
    options = dict(statement.options)
    options.pop(CONNECTOR, None)
    primary_keys = statement.primary_keys or _names(options.pop(PRIMARY_KEY, ""))
    partition_keys = statement.partition_keys or _names(options.pop(PARTITION, ""))
    if statement.watermark is not None:
        options.update(_watermark_options(statement))
    place = session.place(statement.name)
    catalog = session.catalog_named(place.catalog_name)
    return _Asked(catalog, place.identifier, primary_keys, partition_keys, options)


def _check_there(statement: CreateTable, asked: _Asked) -> None:
    if statement.must_exist:
        asked.catalog.table(asked.identifier)  # raises where it is not


def _holds(catalog: Catalog, identifier: str) -> bool:
    database, _, table = identifier.partition(".")
    return database in catalog.list_databases() and table in catalog.list_tables(database)


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _watermark_options(statement: CreateTable) -> dict[str, str]:
    assert statement.watermark is not None
    types = {f.name: f.type for f in statement.fields}
    return watermark_options(statement.watermark, types[statement.watermark.column])
