"""Parses SHOW and DESCRIBE."""

from __future__ import annotations

from tidelake.maintenance.procedures import PROCEDURES
from tidelake.sql.parser.jobs import show_jobs
from tidelake.sql.syntax.ast import (
    Describe,
    DescribeDatabase,
    ShowColumns,
    ShowCreate,
    ShowNames,
    ShowOptions,
    ShowPartitions,
    Statement,
)
from tidelake.sql.syntax.cursor import Cursor
from tidelake.sql.syntax.literal import read_partition

_USE_SPARK = "Functions are Spark's: use spark.sql."
_KINDS = (
    "DATABASES",
    "SCHEMAS",
    "NAMESPACES",
    "TABLES",
    "VIEWS",
    "CATALOGS",
    "CREATE",
    "PARTITIONS",
    "TBLPROPERTIES",
    "COLUMNS",
    "TAGS",
    "CURRENT",
    "JOBS",
)


def show(cursor: Cursor) -> Statement:
    """Read a statement that begins with ``SHOW``."""
    cursor.expect("SHOW")
    if cursor.peek("PROCEDURES"):
        raise cursor.unsupported(
            f"SHOW PROCEDURES is not supported. There are: {', '.join(PROCEDURES)}."
        )
    if cursor.peek("FUNCTIONS") or cursor.peek("USER"):
        raise cursor.unsupported(_USE_SPARK)
    if cursor.peek("TABLE", "EXTENDED"):
        raise cursor.unsupported(
            "SHOW TABLE EXTENDED is not supported: use DESCRIBE EXTENDED t, and t$partitions for"
            " its partitions."
        )
    kind = cursor.choice(_KINDS, "The word after SHOW")
    if kind == "JOBS":
        return show_jobs(cursor)
    if kind == "CREATE":
        cursor.expect("TABLE")
        name = cursor.table_name()
        cursor.accept("AS", "SERDE")
        cursor.expect_end()
        return ShowCreate(name)
    if kind in {"PARTITIONS", "TAGS"}:
        name = cursor.table_name()
        partition = read_partition(cursor) if cursor.accept("PARTITION") else None
        cursor.expect_end()
        return ShowPartitions(name, partition, tags=kind == "TAGS")
    if kind == "TBLPROPERTIES":
        name = cursor.table_name()
        key = None
        if cursor.accept("("):
            key = cursor.option_key()
            cursor.expect(")")
        cursor.expect_end()
        return ShowOptions(name, key)
    if kind == "COLUMNS":
        cursor.choice(("FROM", "IN"), "The word after COLUMNS")
        name = cursor.table_name()
        cursor.expect_end()
        return ShowColumns(name)
    if kind == "CURRENT":
        raise cursor.unsupported(
            "SHOW CURRENT is not supported: use SHOW CATALOGS, SHOW DATABASES."
        )
    return _names(cursor, kind)


def _names(cursor: Cursor, kind: str) -> ShowNames:
    database = None
    if cursor.accept("FROM") or cursor.accept("IN"):
        database = cursor.table_name("database")
    like = None
    if cursor.accept("LIKE") or (cursor.token is not None and cursor.token.is_string):
        like = cursor.string("pattern")
    cursor.expect_end()
    if kind == "CATALOGS":
        return ShowNames("catalogs", None, like)
    if kind == "TABLES":
        return ShowNames("tables", database, like)
    return ShowNames("views" if kind == "VIEWS" else "databases", database, like)


def describe(cursor: Cursor) -> Statement:
    """Read a statement that begins with ``DESCRIBE``."""
    cursor.index += 1
    if cursor.peek("QUERY") or cursor.peek("SELECT") or cursor.peek("WITH"):
        raise cursor.unsupported("DESCRIBE QUERY is not supported: use tl.sql(...).schema.")
    if cursor.peek("FUNCTION"):
        raise cursor.unsupported(_USE_SPARK)
    if cursor.accept("DATABASE") or cursor.accept("SCHEMA"):
        cursor.accept("EXTENDED")
        name = cursor.table_name("database")
        cursor.expect_end()
        return DescribeDatabase(name)
    cursor.accept("TABLE")
    extended = cursor.accept("EXTENDED") or cursor.accept("FORMATTED")
    name = cursor.table_name()
    column = cursor.name("column") if cursor.token is not None else None
    cursor.expect_end()
    return Describe(name, extended, column)
