"""Rows of an append table by position: finds them, reads them, and reads the rows that stay.

A row of an append table has no key: its data file and its ordinal in it identify it. Rows in a
deletion vector do not exist.

1. :func:`find_rows` reads only the columns of a condition, and gives ordinals.
2. :func:`read_found` reads these rows whole; :func:`read_without` reads the other live rows of the
   file, with the found ones at their positions if they have new values.

Memory: a batch, and eight bytes for each row found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelake.metadata.data_file import DataFileMeta
from tidelake.metadata.index.deletion_vector import Positions
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
        The columns wanted; all by default.

    Yields
    ------
    pyarrow.RecordBatch
        Never empty; in the file's order.
    """
    begin = 0
    wanted = context.schema.fields if fields is None else fields
    for batch in read_file(context, found.split, found.file, wanted):
        mask = _mask(found.positions, begin, batch.num_rows)
        if mask.any():
            yield batch.filter(pa.array(mask))
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
    for batch in read_file(context, found.split, found.file, context.schema.fields):
        changed = _mask(found.positions, begin, batch.num_rows)
        stays = ~changed
        if dead is not None:
            stays &= ~_mask(dead, begin, batch.num_rows)
        begin += batch.num_rows
        rows = batch.filter(pa.array(stays))
        if new_values is not None and changed.any():
            new = new_values(batch.filter(pa.array(changed)))
            order = np.concatenate([np.flatnonzero(stays), np.flatnonzero(changed)])
            both = pa.concat_batches([rows.cast(new.schema), new])
            rows = both.take(pa.array(np.argsort(order)))
        if rows.num_rows:
            yield rows


def _mask(positions: Positions, begin: int, count: int) -> npt.NDArray[np.bool_]:
    """Find which of `count` rows from ordinal `begin` on are among ascending positions."""
    low, high = np.searchsorted(positions, [begin, begin + count])
    mask = np.zeros(count, np.bool_)
    mask[positions[low:high] - begin] = True
    return mask
