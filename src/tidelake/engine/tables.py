"""Catalogs, tables and their views, and the arguments that they share."""

from __future__ import annotations

from tidelake.catalog import Catalog, open_catalog
from tidelake.catalog.path_table import TableDefinition, table_at
from tidelake.catalog.staging import discard, put_in_place, staged_table
from tidelake.table import RowView, SystemTable, Table, TableHandle
from tidelake.table.compare.blame import KeyChange
from tidelake.table.handle.arguments import check_dict, column_names, known_columns, whole_number
from tidelake.table.handle.branch import table_at_directory
from tidelake.table.handle.display import facts_html
from tidelake.table.handle.instant import Time, instant, instant_ms, timestamp_ms
from tidelake.table.handle.time_travel import Moment, option_moment
from tidelake.table.system.file_tables import live_partitions
from tidelake.table.system.row_views import AUDIT_LOG
from tidelake.table.system.system_table import SYSTEM_TABLE_NAMES, MetadataTable
from tidelake.telemetry.zone import zone_of

__all__ = [
    "AUDIT_LOG",
    "SYSTEM_TABLE_NAMES",
    "Catalog",
    "KeyChange",
    "MetadataTable",
    "Moment",
    "RowView",
    "SystemTable",
    "Table",
    "TableDefinition",
    "TableHandle",
    "Time",
    "check_dict",
    "column_names",
    "discard",
    "facts_html",
    "instant",
    "instant_ms",
    "known_columns",
    "live_partitions",
    "open_catalog",
    "option_moment",
    "put_in_place",
    "staged_table",
    "table_at",
    "table_at_directory",
    "timestamp_ms",
    "whole_number",
    "zone_of",
]
