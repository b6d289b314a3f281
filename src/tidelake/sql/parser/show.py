"""Reads SHOW and DESCRIBE."""

from __future__ import annotations

from tidelake.maintenance.procedures import PROCEDURES
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
from tidelake.sql.syntax.cursor import Reader
from tidelake.sql.syntax.literal import partition_of

__all__ = ["describe", "show"]

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
)


def show(reader: Reader) -> Statement:
    """Read a statement that begins with ``SHOW``."""
    reader.need("SHOW")
    if reader.sees("PROCEDURES"):
        raise reader.refusal(f"SHOW PROCEDURES is not covered. There are: {', '.join(PROCEDURES)}.")
    if reader.sees("FUNCTIONS") or reader.sees("USER"):
        raise reader.refusal("Functions are Spark's: use spark.sql.")
    if reader.sees("TABLE", "EXTENDED"):
        raise reader.refusal(
            "SHOW TABLE EXTENDED is not covered: DESCRIBE EXTENDED t tells of a table, t$partitions"
            " of its partitions."
        )
    kind = reader.choice(_KINDS, "The word behind SHOW")
    if kind == "CREATE":
        reader.need("TABLE")
        name = reader.table_name()
        reader.take("AS", "SERDE")
        reader.finish()
        return ShowCreate(name)
    if kind in {"PARTITIONS", "TAGS"}:
        name = reader.table_name()
        partition = partition_of(reader) if reader.take("PARTITION") else None
        reader.finish()
        return ShowPartitions(name, partition, tags=kind == "TAGS")
    if kind == "TBLPROPERTIES":
        name = reader.table_name()
        key = None
        if reader.take("("):
            key = reader.key()
            reader.need(")")
        reader.finish()
        return ShowOptions(name, key)
    if kind == "COLUMNS":
        reader.choice(("FROM", "IN"), "The word behind COLUMNS")
        name = reader.table_name()
        reader.finish()
        return ShowColumns(name)
    if kind == "CURRENT":
        raise reader.refusal("SHOW CATALOGS and SHOW DATABASES say which one is in use.")
    return _names(reader, kind)


def _names(reader: Reader, kind: str) -> ShowNames:
    database = None
    if reader.take("FROM") or reader.take("IN"):
        database = reader.table_name("database")
    like = None
    if reader.take("LIKE") or (reader.word is not None and reader.word.is_string):
        like = reader.string("pattern")
    reader.finish()
    if kind == "CATALOGS":
        return ShowNames("catalogs", None, like)
    if kind == "TABLES":
        return ShowNames("tables", database, like)
    return ShowNames("views" if kind == "VIEWS" else "databases", database, like)


def describe(reader: Reader) -> Statement:
    """Read a statement that begins with ``DESCRIBE``."""
    reader.index += 1
    if reader.sees("QUERY") or reader.sees("SELECT") or reader.sees("WITH"):
        raise reader.refusal(
            "The columns of a query are those of its DataFrame: tl.sql(...).schema."
        )
    if reader.sees("FUNCTION"):
        raise reader.refusal("Functions are Spark's: use spark.sql.")
    if reader.take("DATABASE") or reader.take("SCHEMA"):
        reader.take("EXTENDED")
        name = reader.table_name("database")
        reader.finish()
        return DescribeDatabase(name)
    reader.take("TABLE")
    extended = reader.take("EXTENDED") or reader.take("FORMATTED")
    name = reader.table_name()
    column = reader.name("column") if reader.word is not None else None
    reader.finish()
    return Describe(name, extended, column)
