"""The publication: whose changes the log sends.

Ours names its tables. One FOR ALL TABLES would make the application's own UPDATEs fail on each
table without a replica identity, so we never make that, and never add such a table to any
publication.

One that we made carries a comment, and our role may change it: only that is changed beyond adding
tables, and dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidelake.cdc.postgres.connection import quote_name, quote_text
from tidelake.cdc.source.source_table import SourceName

MARK = "made by tidelake cdc"
STORED_COLUMNS_VERSION = 180000
_DETAILS_VERSION = 150000
_STATE = """
SELECT puballtables, pubinsert AND pubupdate AND pubdelete, pubtruncate, pubviaroot,
  obj_description(oid, 'pg_publication') = %(mark)s AND pg_has_role(pubowner, 'USAGE'), {stored}
FROM pg_publication WHERE pubname = %(name)s
"""
_TABLES = """
SELECT schemaname::text, tablename::text, {details}
FROM pg_publication_tables WHERE pubname = %(name)s
"""


@dataclass(frozen=True, slots=True)
class Publication:
    """A publication that is there.

    Parameters
    ----------
    has_all_changes, has_truncates : bool
        Whether inserts, updates and deletes, and truncations, are sent.
    is_by_root : bool
        Whether changes of partitions are sent as those of their root.
    has_stored : bool
        Whether generated columns that are stored are sent.
    filtered : tuple of (str, str)
        Those of `tables` of which some rows are not sent.
    columns : mapping of (str, str) to frozenset of str
        What is sent of each table; empty before PostgreSQL 15.
    """

    is_for_all: bool
    has_all_changes: bool
    has_truncates: bool
    is_by_root: bool
    is_ours: bool
    has_stored: bool
    tables: frozenset[tuple[str, str]]
    filtered: tuple[tuple[str, str], ...]
    columns: Mapping[tuple[str, str], frozenset[str]]


def publication(connection: Any, name: str) -> Publication | None:
    """Look at a publication; None if it is not there."""
    version = connection.info.server_version
    stored = "pubgencols = 's'" if version >= STORED_COLUMNS_VERSION else "false"
    found = connection.execute(
        _STATE.format(stored=stored), {"name": name, "mark": MARK}
    ).fetchone()
    if found is None:
        return None
    has_details = version >= _DETAILS_VERSION
    details = "rowfilter IS NOT NULL, attnames::text[]" if has_details else "false, NULL"
    tables = connection.execute(_TABLES.format(details=details), {"name": name}).fetchall()
    is_for_all, has_all, truncates, by_root, is_ours, has_stored = found
    return Publication(
        is_for_all,
        has_all,
        truncates,
        by_root,
        bool(is_ours),
        has_stored,
        frozenset((schema, table) for schema, table, *_ in tables),
        tuple((schema, table) for schema, table, is_filtered, _ in tables if is_filtered),
        {
            (schema, table): frozenset(columns)
            for schema, table, _, columns in tables
            if columns is not None
        },
    )


def statements(
    now: Publication | None, name: str, tables: Sequence[SourceName], version: int
) -> list[str]:
    """List what must be done so that a publication has some tables; of ours only them.

    Examples
    --------
    >>> statements(None, "p", [SourceName("d", "s", "t")], 160000)[0]
    'CREATE PUBLICATION "p" FOR TABLE "s"."t" WITH (publish_via_partition_root = true)'
    """
    listed = ", ".join(map(quoted, tables))
    if now is None:
        options = "publish_via_partition_root = true"
        if version >= STORED_COLUMNS_VERSION:
            options += ", publish_generated_columns = stored"
        return [
            f"CREATE PUBLICATION {quote_name(name)} FOR TABLE {listed} WITH ({options})",
            f"COMMENT ON PUBLICATION {quote_name(name)} IS {quote_text(MARK)}",
        ]
    wanted = {(table.schema, table.table) for table in tables}
    if now.is_ours and wanted != now.tables:
        return [f"ALTER PUBLICATION {quote_name(name)} SET TABLE {listed}"]
    missing = [table for table in tables if (table.schema, table.table) not in now.tables]
    if not missing:
        return []
    return [f"ALTER PUBLICATION {quote_name(name)} ADD TABLE {', '.join(map(quoted, missing))}"]


def quoted(table: SourceName) -> str:
    """A table's name in SQL."""
    return f"{quote_name(table.schema)}.{quote_name(table.table)}"
