"""Rows that are deleted, updated or merged: by key and by place in a file."""

from __future__ import annotations

from tidelake.metadata.row_ids import tracks_rows, with_ids_of
from tidelake.scan.pruning.key_bounds import KEYS_LISTED_MAX
from tidelake.table.rowlevel.append_change import AppendChange, change_rows, plan_change
from tidelake.table.rowlevel.append_delta import RowChanges
from tidelake.table.rowlevel.assignments import check_settable
from tidelake.table.rowlevel.delete import (
    check_deletes_count,
    delete_matching,
    deletes_by_row,
    is_metadata_only,
    not_removed,
    removing_columns,
    truncate,
)
from tidelake.table.rowlevel.key_lookup import KeyLookup, is_comparable
from tidelake.table.rowlevel.row_positions import (
    RowPositions,
    find_rows,
    read_found,
    read_row_ids,
    read_without,
)
from tidelake.table.rowlevel.update import ShownRows, check_none_wait, check_updatable

__all__ = [
    "KEYS_LISTED_MAX",
    "AppendChange",
    "KeyLookup",
    "RowChanges",
    "RowPositions",
    "ShownRows",
    "change_rows",
    "check_deletes_count",
    "check_none_wait",
    "check_settable",
    "check_updatable",
    "delete_matching",
    "deletes_by_row",
    "find_rows",
    "is_comparable",
    "is_metadata_only",
    "not_removed",
    "plan_change",
    "read_found",
    "read_row_ids",
    "read_without",
    "removing_columns",
    "tracks_rows",
    "truncate",
    "with_ids_of",
]
