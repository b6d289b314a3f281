"""Completions at the cursor: keywords, catalogs, databases, tables, columns, procedures.

1. The word before the cursor is split at its dots: ``a.b.`` names a catalog's database, a database,
   or a table (or its alias) with columns.
2. After FROM, JOIN and the like, tables, databases and catalogs are offered.
3. Elsewhere columns of the statement's tables come first, then tables, databases and catalogs, then
   keywords, in the case that the user types.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain

from tidelake.engine.tables import SYSTEM_TABLE_NAMES, Catalog
from tidelake.errors import TidelakeError
from tidelake.maintenance import PROCEDURES
from tidelake.sql.execution.session import PathTable, SqlSession
from tidelake.sql.syntax.name import TableName, quoted_name

_KEYWORD_TEXT = (
    "ADD AFTER ALL ALTER ANALYZE AND AS ASC BETWEEN BIGINT BINARY BOOLEAN BY CALL CASCADE CASE "
    "CAST CATALOG CATALOGS COLUMN COLUMNS COMMENT COMPUTE COUNT CREATE CROSS DATABASE DATABASES "
    "DATE DECIMAL DELETE DESC DESCRIBE DISTINCT DOUBLE DROP ELSE END ENFORCED EXCEPT EXISTS "
    "EXPLAIN EXTENDED FALSE FIRST FLOAT FOR FROM FULL GROUP HAVING IF IN INNER INSERT INT "
    "INTERSECT INTERVAL INTO IS JOIN KEY LEFT LIKE LIMIT MERGE NOT NULL ON OPTIONS OR ORDER OUTER "
    "OVER OVERWRITE PARTITION PARTITIONED PARTITIONS PRIMARY RENAME REPLACE RESET RIGHT ROW "
    "SELECT SET SHOW STRING SYSTEM_TIME TABLE TABLES TAG TAGS TBLPROPERTIES TEMPORARY THEN "
    "TIMESTAMP TIMESTAMP_LTZ TO TRUE TRUNCATE UNION UPDATE USE USING VALUES VARIANT VERSION VIEW "
    "VIEWS WATERMARK WHEN WHERE WITH"
)
KEYWORDS = tuple(_KEYWORD_TEXT.split())
_WORD = re.compile(r"[\w$.`]*$")
_NAMED = re.compile(
    r"\b(?:FROM|JOIN|INTO|OVERWRITE|TABLE|UPDATE|DESCRIBE|DESC|ON)\s+([\w$.`]+)"
    r"(?:\s+(?:AS\s+)?(\w+))?",
    re.IGNORECASE,
)
_BEFORE_TABLE = re.compile(
    r"\b(?:FROM|JOIN|INTO|OVERWRITE|TABLE|UPDATE|DESCRIBE|DESC|USE)\s+[\w$.`]*$", re.IGNORECASE
)
_PLAIN = re.compile(r"[^\W\d][\w$]*")
NAMES_MAX = 2000
"""Limit of completions."""


def completions(before: str, whole: str, session: SqlSession) -> list[tuple[str, int, str]]:
    """Return the completions.

    Parameters
    ----------
    before : str
        The text before the cursor.

    Returns
    -------
    list of (str, int, str)
        The completion, the number of characters that it replaces, and its kind.
    """
    found = _WORD.search(before)
    typed = found[0] if found is not None else ""
    *parts, prefix = [part.strip("`") for part in typed.split(".")]
    written = typed.rpartition(".")[2]
    known: Iterator[tuple[str, str]]
    if parts:
        known = _after_prefix(parts, prefix, whole, session)
    elif _BEFORE_TABLE.search(before):
        known = chain(_names(prefix, session), _keywords(prefix))
    else:
        columns = (c for name, _ in _named_tables(whole) for c in _columns(name, session))
        known = chain(
            ((column, "column") for column in columns), _names(prefix, session), _keywords(prefix)
        )
    wanted = prefix.casefold()
    offered: dict[str, tuple[str, int, str]] = {}
    for name, what in known:
        if what == "keyword" and offered and _BEFORE_TABLE.search(before):
            break
        if name.casefold().startswith(wanted) and len(offered) < NAMES_MAX:
            text = name if what in {"keyword", "procedure"} else _quote_if_needed(name)
            offered.setdefault(text, (text, len(written), what))
    return list(offered.values())


def _names(prefix: str, session: SqlSession) -> Iterator[tuple[str, str]]:
    """Tables, databases and catalogs, each with its kind."""
    base, dollar, _ = prefix.partition("$")
    if dollar:
        yield from ((f"{base}${name}", "system table") for name in SYSTEM_TABLE_NAMES)
        return
    yield from ((name, "table") for name in session.temporary)
    yield from ((name, "table") for name in _tables(session.catalog, session.database))
    yield from ((name, "database") for name in session.catalog.list_databases())
    yield from ((name, "catalog") for name in session.catalogs)


def _keywords(prefix: str) -> Iterator[tuple[str, str]]:
    lower = prefix.islower()
    yield from ((word.lower() if lower else word, "keyword") for word in KEYWORDS)


def _after_prefix(
    parts: list[str], prefix: str, whole: str, session: SqlSession
) -> Iterator[tuple[str, str]]:
    """Names after a prefix with dots."""
    if parts[-1].lower() == "sys":
        yield from ((name, "procedure") for name in PROCEDURES)
    for name, alias in _named_tables(whole):
        if parts == name or (len(parts) == 1 and parts[0] in {alias, name[-1]}):
            yield from ((column, "column") for column in _columns(name, session))
    base, dollar, _ = prefix.partition("$")
    if dollar:
        yield from ((f"{base}${name}", "system table") for name in SYSTEM_TABLE_NAMES)
        return
    if len(parts) == 1:
        yield from ((name, "table") for name in _tables(session.catalog, parts[0]))
        catalog = session.catalogs.get(parts[0])
        if catalog is not None:
            yield from ((name, "database") for name in catalog.list_databases())
    elif len(parts) == 2 and parts[0] in session.catalogs:
        yield from ((name, "table") for name in _tables(session.catalogs[parts[0]], parts[1]))


def _tables(catalog: Catalog, database: str) -> Iterable[str]:
    return catalog.list_tables(database) if database in catalog.list_databases() else ()


def _named_tables(whole: str) -> Iterator[tuple[list[str], str]]:
    """The tables of an unfinished statement, each with its alias."""
    for found in _NAMED.finditer(whole):
        alias = found[2] or ""
        is_alias = bool(alias) and alias.upper() not in KEYWORDS
        yield [part.strip("`") for part in found[1].split(".")], alias if is_alias else ""


def _columns(name: list[str], session: SqlSession) -> Iterable[str]:
    if len(name) > 3 or not all(name):  # catalog, database, table
        return ()
    table = TableName(tuple(name), 0)
    temporary = session.find_temporary(table)
    if temporary is not None and not isinstance(temporary, PathTable):
        return ()
    try:
        return list(session.table(table, use="read").schema.names)
    except TidelakeError:
        return ()  # it does not exist, perhaps not yet


def _quote_if_needed(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else quoted_name(name)
