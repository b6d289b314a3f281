"""Sequence numbers and row kinds from the manifest, to avoid reading them from files.

1. The **sequence number** only orders rows of one key. If every run of a section is newer than all
   runs before it, by the bounds in the manifest, any number inside a file's bounds orders its rows
   correctly.
2. The **kind** only says whether a row retracts. If no file of the section holds a retraction, all
   rows add. A reader that returns kinds (+I or +U) reads them.

This is the usual state of a table with one writer, and saves decoding two columns per row.
Source: the fields ``_MIN_SEQUENCE_NUMBER``, ``_MAX_SEQUENCE_NUMBER`` and ``_DELETE_ROW_COUNT`` of
``docs/format/manifest.md``.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

import numpy as np
import pyarrow as pa

from tidelake.format import KIND_FIELD, SEQUENCE_FIELD
from tidelake.metadata.data_file import DataFileMeta
from tidelake.scan.split import Section
from tidelake.types import DataField
from tidelake.types.arrow import to_arrow_schema
from tidelake.types.row_kind import RowKind


def known_system_columns(section: Section, *, keep_kinds: bool) -> frozenset[DataField]:
    """Return the system columns that need not be read.

    Parameters
    ----------
    section : Section
        Runs to be merged, oldest first.
    keep_kinds : bool
        Whether the reader returns the kinds.
    """
    known = set()
    if newer_run_by_run(section):
        known.add(SEQUENCE_FIELD)
    if not keep_kinds and all(file.delete_row_count == 0 for run in section for file in run):
        known.add(KIND_FIELD)
    return frozenset(known)


def newer_run_by_run(section: Section) -> bool:
    """Whether each run is newer than all before it, by the bounds in the manifest."""
    highest: int | None = None
    for run in section:
        if highest is not None and min(f.min_sequence_number for f in run) <= highest:
            return False
        highest = max(f.max_sequence_number for f in run)
    return True


class KnownColumns:
    """Adds the columns that were not read to a file's batches, as one value for all rows.

    The values are written once, and all batches share them.
    """

    def __init__(self, known: AbstractSet[DataField], file: DataFileMeta) -> None:
        self._fields = [field for field in (SEQUENCE_FIELD, KIND_FIELD) if field in known]
        self._values = {
            SEQUENCE_FIELD: np.int64(file.max_sequence_number),
            KIND_FIELD: np.int8(RowKind.INSERT),
        }
        self._schema = to_arrow_schema(self._fields)
        self._columns: list[pa.Array] = []

    def added_to(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows with the columns after their own."""
        if not self._fields:
            return rows
        count = rows.num_rows
        if not self._columns or len(self._columns[0]) < count:
            self._columns = [pa.repeat(self._values[field], count) for field in self._fields]
        columns = [column.slice(0, count) for column in self._columns]
        schema = pa.schema([*rows.schema, *self._schema])
        return pa.RecordBatch.from_arrays([*rows.columns, *columns], schema=schema)
