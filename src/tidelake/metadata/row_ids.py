"""Ids of rows: a commit gives them to files, a reader gives them to rows.

A table with ``row-tracking.enabled`` has two more columns. ``_ROW_ID`` stays with a row for its
life, ``_SEQUENCE_NUMBER`` is the snapshot that wrote its present values.

1. A commit gives each new file of an append the next free id as ``_FIRST_ROW_ID``, and each file
   its own snapshot as sequence numbers. The snapshot's ``nextRowId`` is the next free id.
2. The row at ordinal ``i`` of a file has the id ``_FIRST_ROW_ID + i``.
3. Rows that are moved take both along, in columns of their new file; a changed row has a null as
   sequence number there. Where a column of the file has a value, the value counts.

Source: Paimon's ``FileStoreCommitImpl.assignRowTrackingMeta`` and ``DataFileRecordReader`` (1.3.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.format import ROW_ID_FIELD, TRACKED_SEQUENCE_FIELD, TRACKING_FIELDS
from tidelake.metadata.data_file import DataFileMeta, FileKind, FileSource
from tidelake.metadata.index.deletion_vector import Positions
from tidelake.metadata.manifest.entry_table import COLUMNS, EntryTable
from tidelake.options import Options, declared
from tidelake.types import DataField, TableSchema

Ordinals = npt.NDArray[np.int64]


def tracks_rows(options: Options) -> bool:
    """Whether the rows of a table have ids."""
    return bool(options.get(declared.ROW_TRACKING_ENABLED))


def with_tracking(fields: Sequence[DataField], options: Options) -> tuple[DataField, ...]:
    """The columns of a file that takes rows along: the table's, and those of the ids, if any."""
    return (*fields, *TRACKING_FIELDS) if tracks_rows(options) else tuple(fields)


def tracked_schema(schema: TableSchema, options: Options) -> TableSchema:
    """The schema of files that take rows along; see :func:`with_tracking`."""
    if not tracks_rows(options):
        return schema
    return replace(schema, fields=with_tracking(schema.fields, options))


def with_open_ids(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Give new rows the columns of the ids, as nulls: they get theirs from the commit."""
    nulls = pa.nulls(rows.num_rows, pa.int64())
    for field in TRACKING_FIELDS:
        rows = rows.append_column(field.name, nulls)
    return rows


def with_ids_of(rows: pa.RecordBatch, row_ids: pa.Array) -> pa.RecordBatch:
    """Give changed rows their ids; their sequence number is that of the commit."""
    rows = rows.append_column(ROW_ID_FIELD.name, row_ids.cast(pa.int64()))
    return rows.append_column(TRACKED_SEQUENCE_FIELD.name, pa.nulls(rows.num_rows, pa.int64()))


def stats_fields(
    schema: TableSchema,
    stats_cols: Sequence[str] | None,
    write_cols: Sequence[str] | None,
    serialized: bytes,
) -> tuple[DataField, ...]:
    """The columns that a file's statistics cover.

    Java's files of moved rows have statistics of the ids too, and name no columns.

    Parameters
    ----------
    schema : TableSchema
        The schema that the file was written with.
    serialized : bytes
        The row of the smallest values; it begins with the number of columns.
    """
    count = int.from_bytes(serialized[:4], "big")
    names: Sequence[str] = schema.field_names
    if stats_cols is not None:
        names = stats_cols
    elif write_cols is not None and len(write_cols) == count:
        names = write_cols
    elif count == len(names) + len(TRACKING_FIELDS):
        return (*schema.fields, *TRACKING_FIELDS)
    own = {field.name: field for field in TRACKING_FIELDS}
    return tuple(own.get(name) or schema.field(name) for name in names)


def ordinals_left(start: int, count: int, deleted: Positions | None) -> Ordinals:
    """The ordinals in the file of `count` rows that are left, from the `start`-th on.

    Examples
    --------
    >>> ordinals_left(1, 3, np.array([0, 2])).tolist()
    [3, 4, 5]
    """
    left = np.arange(start, start + count)
    if deleted is None or not len(deleted):
        return left
    # before the i-th deleted row there are deleted[i] - i rows that are left
    return left + np.searchsorted(deleted - np.arange(len(deleted)), left, side="right")


def numbered(entries: EntryTable, *, snapshot_id: int, next_row_id: int) -> tuple[EntryTable, int]:
    """Give the files of a commit their ids and sequence numbers.

    Parameters
    ----------
    next_row_id : int
        The next free id.

    Returns
    -------
    (EntryTable, int)
        The entries, and the next free id after them.
    """
    is_added = entries["kind"] == FileKind.ADD
    source = entries["file_source"].fill_null(FileSource.APPEND).to_numpy(zero_copy_only=False)
    has_ids = entries["first_row_id"].is_valid().to_numpy(zero_copy_only=False)
    takes = is_added & (source == FileSource.APPEND) & ~has_ids
    counts = np.where(takes, entries["row_count"], 0)
    first = next_row_id + np.cumsum(counts) - counts
    given = pc.if_else(pa.array(takes), pa.array(first, pa.int64()), entries["first_row_id"])
    batch = _with_column(entries.batch, "first_row_id", given)
    for name in ("min_sequence_number", "max_sequence_number"):
        numbers = np.where(is_added, snapshot_id, entries[name])
        batch = _with_column(batch, name, pa.array(numbers, pa.int64()))
    return EntryTable(batch, entries.partitions), next_row_id + int(counts.sum())


def _with_column(batch: pa.RecordBatch, name: str, values: pa.Array) -> pa.RecordBatch:
    index = COLUMNS.get_field_index(name)
    return batch.set_column(index, COLUMNS.field(index), values)


def completed(rows: pa.RecordBatch, file: DataFileMeta, ordinals: Ordinals) -> pa.RecordBatch:
    """Give rows of a file the ids that its columns leave open.

    Parameters
    ----------
    rows : RecordBatch [n]
        Has the columns of the ids, as they are in the file.
    ordinals : int64 array [n]
        The rows' ordinals in the file.
    """
    derived = {TRACKED_SEQUENCE_FIELD.name: pa.scalar(file.max_sequence_number, pa.int64())}
    if file.first_row_id is not None:
        derived[ROW_ID_FIELD.name] = pa.array(file.first_row_id + ordinals, pa.int64())
    for name, values in derived.items():
        index = rows.schema.get_field_index(name)
        if index >= 0:
            filled = pc.coalesce(rows.column(index), values)
            rows = rows.set_column(index, rows.schema.field(index), filled)
    return rows
