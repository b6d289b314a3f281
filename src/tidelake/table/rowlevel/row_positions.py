"""Rows of an append table by position: finds them, reads them, and reads the rows that stay.

A row of an append table has no key: its data file and its ordinal in it identify it. Rows in a
deletion vector do not exist.

1. :func:`find_rows` reads only the columns of a condition, and gives ordinals.
2. :func:`read_found` reads these rows whole; :func:`read_without` reads the other live rows of the
   file, with the found ones at their positions if they have new values.

In a table with row tracking rows come with their ids, which stay theirs.

Memory: a batch, and eight bytes for each row found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelake.format import ROW_ID_FIELD, TRACKING_FIELDS
from tidelake.metadata.data_file import DataFileMeta
from tidelake.metadata.index.deletion_vector import Positions
from tidelake.metadata.row_ids import completed, tracks_rows, with_ids_of, with_tracking
from tidelake.scan import ReadContext, Split, deleted_rows, read_file
from tidelake.types import DataField
from tidelake.types.predicate import Always, Predicate, columns_of, evaluate

NewValues = Callable[[pa.RecordBatch], pa.RecordBatch]
NO_POSITIONS: Positions = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class RowPositions:
    """Live rows of one data file.

    Parameters
    ----------
    positions : int64 array [n]
        Ascending ordinals.
    """

    split: Split
    file: DataFileMeta
    positions: Positions


def find_rows(
    context: ReadContext, split: Split, file: DataFileMeta, predicate: Predicate
) -> RowPositions:
    """Find the live rows of a file that match.

    Raises
    ------
    CorruptError
        The file or its deletion vector is damaged or does not match the manifest.

    Notes
    -----
    Runs on executors. Thread-safe: no state is shared.
    """
    if isinstance(predicate, Always):
        found = np.arange(file.row_count if predicate.value else 0)
    else:
        fields = context.fields(tuple(sorted(columns_of(predicate))))
        parts = [NO_POSITIONS]
        begin = 0
        for batch in read_file(context, split, file, fields):
            mask = evaluate(predicate, batch, fields).to_numpy(zero_copy_only=False)
            parts.append(begin + np.flatnonzero(mask))
            begin += batch.num_rows
        found = np.concatenate(parts)
    deleted = deleted_rows(context, split, file)
    if deleted is not None:
        found = np.setdiff1d(found, deleted, assume_unique=True)
    return RowPositions(split, file, found)


def read_found(
    context: ReadContext, found: RowPositions, fields: Sequence[DataField] | None = None
) -> Iterator[pa.RecordBatch]:
    """Read found rows.

    Parameters
    ----------
    fields : sequence of DataField, optional
        The columns wanted; all by default, and with row tracking the ids.

    Yields
    ------
    pyarrow.RecordBatch
        Never empty; in the file's order.
    """
    begin = 0
    wanted = with_tracking(context.schema.fields, context.options) if fields is None else fields
    for batch in read_file(context, found.split, found.file, wanted):
        mask = _mask(found.positions, begin, batch.num_rows)
        if mask.any():
            rows = _with_ids(context, found, batch, begin) if fields is None else batch
            yield rows.filter(pa.array(mask))
        begin += batch.num_rows


def read_without(
    context: ReadContext, found: RowPositions, new_values: NewValues | None = None
) -> Iterator[pa.RecordBatch]:
    """Read the live rows of a file, without the found ones or with new values in them.

    Parameters
    ----------
    new_values : callable, optional
        Gives the found rows of a batch their new values; they keep their positions.

    Yields
    ------
    pyarrow.RecordBatch
        Never empty.
    """
    dead = deleted_rows(context, found.split, found.file)
    begin = 0
    wanted = with_tracking(context.schema.fields, context.options)
    for given in read_file(context, found.split, found.file, wanted):
        batch = _with_ids(context, found, given, begin)
        changed = _mask(found.positions, begin, batch.num_rows)
        stays = ~changed
        if dead is not None:
            stays &= ~_mask(dead, begin, batch.num_rows)
        begin += batch.num_rows
        rows = batch.filter(pa.array(stays))
        if new_values is not None and changed.any():
            new = with_new_values(context, batch.filter(pa.array(changed)), new_values)
            order = np.concatenate([np.flatnonzero(stays), np.flatnonzero(changed)])
            both = pa.concat_batches([rows.cast(new.schema), new])
            rows = both.take(pa.array(np.argsort(order)))
        if rows.num_rows:
            yield rows


def with_new_values(
    context: ReadContext, rows: pa.RecordBatch, new_values: NewValues
) -> pa.RecordBatch:
    """Change rows; those of a table with row tracking keep their ids."""
    if not tracks_rows(context.options):
        return new_values(rows)
    own = rows.select(context.schema.field_names)
    return with_ids_of(new_values(own), rows.column(ROW_ID_FIELD.name))


def read_row_ids(context: ReadContext, found: RowPositions) -> pa.Array:
    """The ids of found rows. Requires: the table has row tracking."""
    parts = [pa.array([], pa.int64())]
    begin = 0
    for given in read_file(context, found.split, found.file, TRACKING_FIELDS):
        batch = _with_ids(context, found, given, begin)
        mask = _mask(found.positions, begin, batch.num_rows)
        parts.append(batch.column(ROW_ID_FIELD.name).filter(pa.array(mask)))
        begin += batch.num_rows
    return pa.concat_arrays(parts)


def _with_ids(
    context: ReadContext, found: RowPositions, rows: pa.RecordBatch, begin: int
) -> pa.RecordBatch:
    """Rows of a file from an ordinal on, with the ids that its columns leave open."""
    if not tracks_rows(context.options):
        return rows
    return completed(rows, found.file, np.arange(begin, begin + rows.num_rows))


def _mask(positions: Positions, begin: int, count: int) -> npt.NDArray[np.bool_]:
    """Find which of `count` rows from ordinal `begin` on are among ascending positions."""
    low, high = np.searchsorted(positions, [begin, begin + count])
    mask = np.zeros(count, np.bool_)
    mask[positions[low:high] - begin] = True
    return mask
