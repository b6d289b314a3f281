"""Tables as ``information_schema`` has them now."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from tidelake.cdc.mysql.connection import ServerSession
from tidelake.cdc.mysql.values.charset import BINARY
from tidelake.cdc.mysql.values.columns import ReadableColumn, ReadableTable
from tidelake.cdc.mysql.values.native_type import MySqlType
from tidelake.cdc.source.source_table import SourceName
from tidelake.cdc.source.type_mapping import TypeMapping

SYSTEM_DATABASES = frozenset({"mysql", "information_schema", "performance_schema", "sys"})
TABLES_AT_ONCE = 200

# what gh-ost and pt-online-schema-change make beside a table while they copy it
_GHOST = re.compile(r"_.*_(gho|ghc|del|new|old)")

_COLUMNS = (
    "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE, COLUMN_DEFAULT, EXTRA,"
    " COLUMN_COMMENT, CHARACTER_SET_NAME FROM information_schema.COLUMNS"
    " WHERE {} ORDER BY TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION"
)
_KEYS = (
    "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME FROM information_schema.STATISTICS"
    " WHERE INDEX_NAME = 'PRIMARY' AND ({}) ORDER BY TABLE_SCHEMA, TABLE_NAME, SEQ_IN_INDEX"
)


def is_ghost(table: str) -> bool:
    """Whether a table is one that an online change of another makes for a while.

    Examples
    --------
    >>> is_ghost("_orders_gho"), is_ghost("orders_new")
    (True, False)
    """
    return _GHOST.fullmatch(table) is not None


def list_tables(session: ServerSession, databases: str, tables: str) -> dict[SourceName, str]:
    """Names of the base tables whose database and name fit the patterns, with their comments."""
    rows = session.rows(
        "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_COMMENT FROM information_schema.TABLES"
        " WHERE TABLE_TYPE = 'BASE TABLE' ORDER BY TABLE_SCHEMA, TABLE_NAME"
    )
    named = [(SourceName(database, "", table), comment) for database, table, comment in rows]
    return {
        name: comment
        for name, comment in named
        if name.database.lower() not in SYSTEM_DATABASES
        and is_named(name, databases, tables)
        and not is_ghost(name.table)
    }


def is_named(name: SourceName, databases: str, tables: str) -> bool:
    """Whether patterns name a table, which may stand with its database.

    Examples
    --------
    >>> name = SourceName("shop", "", "orders")
    >>> [is_named(name, "shop", tables) for tables in ("orders", "shop.o.*", "items")]
    [True, True, False]
    """
    full = f"{name.database}.{name.table}"
    return re.fullmatch(databases, name.database) is not None and (
        re.fullmatch(tables, name.table) is not None or re.fullmatch(tables, full) is not None
    )


def read_tables(
    session: ServerSession, names: Sequence[SourceName], mapping: TypeMapping
) -> dict[SourceName, ReadableTable]:
    """Read columns and keys; a table that is gone is left out."""
    found: dict[SourceName, ReadableTable] = {}
    for first in range(0, len(names), TABLES_AT_ONCE):
        some = names[first : first + TABLES_AT_ONCE]
        condition = " OR ".join(["(TABLE_SCHEMA = %s AND TABLE_NAME = %s)"] * len(some))
        arguments = [part for name in some for part in (name.database, name.table)]
        columns: dict[SourceName, list[ReadableColumn]] = {}
        for database, table, *facts in session.rows(_COLUMNS.format(condition), arguments):
            name = SourceName(database, "", table)
            columns.setdefault(name, []).append(_column(facts, mapping))
        keys: dict[SourceName, list[str]] = {}
        for database, table, column in session.rows(_KEYS.format(condition), arguments):
            keys.setdefault(SourceName(database, "", table), []).append(column)
        for name, of_table in columns.items():
            found[name] = ReadableTable(name, tuple(of_table), tuple(keys.get(name, ())))
    return found


def _column(facts: Sequence[str | None], mapping: TypeMapping) -> ReadableColumn:
    name, native, nullable, default, extra, comment, charset = facts
    assert name is not None
    assert native is not None
    extra = (extra or "").upper()
    kind = MySqlType.parse(native)
    is_nullable = nullable == "YES"
    column = ReadableColumn.of(
        name, kind, charset or BINARY, is_nullable=is_nullable, mapping=mapping
    )
    # NOT NULL without a default fills old rows with 0 or '' when the column is added
    has_default = not is_nullable or (default is not None and default.upper() != "NULL")
    is_generated = "GENERATED" in extra and "DEFAULT_GENERATED" not in extra
    return replace(
        column,
        has_default=has_default or is_generated,
        is_generated=is_generated and "STORED" not in extra,
        comment=comment or None,
    )
