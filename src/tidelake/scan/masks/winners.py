"""The masks of a section whose rows are decided by more than their keys: by the merge itself.

Under ``sequence.field``, where two writers wrote a bucket at the same time, and where deletes are
ignored, a newer run need not win. Each key still has one row of the section, or none. So:

1. The columns that decide are read of all files: key, sequence fields, sequence number, kind.
2. Rows in a file's deletion vector are left out. The engine of the table merges the others, and
   says which rows win.
3. All other rows are hidden, and winners that retract.

A mask depends on all files of the section, and is kept under all of their names. Cost: these
columns are read, and sorted by key. Memory: these columns, of all rows of the section.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelake.codec.arrow_memory import joined
from tidelake.codec.key_order import encode_keys, key_widths
from tidelake.format import KIND_FIELD, SEQUENCE_FIELD
from tidelake.merge import MergeSpec, engine_of
from tidelake.merge.segments import merge_order, segments_of
from tidelake.merge.sequence import rank_rows
from tidelake.metadata.data_file import DataFileMeta
from tidelake.scan.context import ReadContext
from tidelake.scan.masks.hidden_rows import HiddenRows
from tidelake.scan.read import deleted_rows, read_file
from tidelake.scan.split import Section, Split

__all__ = ["losing_rows"]


def losing_rows(
    context: ReadContext, split: Split, section: Section, spec: MergeSpec
) -> Iterator[tuple[DataFileMeta, HiddenRows]]:
    """Find the rows of a section that a merge does not give.

    Parameters
    ----------
    context : ReadContext
        The table.
    split, section
        The section, oldest run first, and its split.
    spec : MergeSpec
        The table's rules. Requires: a merged row is one of its key's rows, and levels do not count.

    Yields
    ------
    (DataFileMeta, HiddenRows)
        Each file with its hidden rows, without those of its own vector.
    """
    assert not spec.combines, "a merged row is one of the rows"
    assert not spec.looks_at_levels, "the runs' order decides"
    files = [file for run in section for file in run]
    batches: list[pa.RecordBatch] = []
    live: list[npt.NDArray[np.int64]] = []
    begin = 0
    for file in files:
        rows, positions = _live_rows(context, split, file, spec)
        batches += rows.to_batches()
        live.append(positions + begin)
        begin += file.row_count
    hidden = np.ones(begin, np.bool_)
    table = pa.Table.from_batches(batches)
    if table.num_rows:
        hidden[np.concatenate(live)[_winners(table, spec)]] = False
    at = 0
    for file in files:
        yield file, HiddenRows.of(hidden[at : at + file.row_count])
        at += file.row_count


def _live_rows(
    context: ReadContext, split: Split, file: DataFileMeta, spec: MergeSpec
) -> tuple[pa.Table, npt.NDArray[np.int64]]:
    """The deciding columns of a file's rows that no vector deletes, and their positions."""
    names = tuple(dict.fromkeys((*spec.key_columns, *spec.sequence_columns)))
    fields = (*context.fields(names), SEQUENCE_FIELD, KIND_FIELD)
    rows = pa.Table.from_batches(list(read_file(context, split, file, fields)))
    deleted = deleted_rows(context, split, file)
    positions = np.arange(file.row_count, dtype=np.int64)
    if deleted is None:
        return rows, positions
    positions = np.delete(positions, deleted)
    return rows.take(pa.array(positions)), positions


def _winners(rows: pa.Table, spec: MergeSpec) -> npt.NDArray[np.int64]:
    """Which rows a merge gives. The rows come run by run, oldest first."""
    columns = [joined(rows.column(name).chunks) for name in spec.key_columns]
    keys = encode_keys(columns, spec.key_types, key_widths(columns, spec.key_types))
    kinds = joined(rows.column(KIND_FIELD.name).chunks).to_numpy(zero_copy_only=False)
    rank_of = rank_rows(rows, spec, sequence_column=SEQUENCE_FIELD.name)
    segments = segments_of(keys, kinds, sort=merge_order, rank_of=rank_of)
    return engine_of(spec).merge(rows, segments).without_retracts().rows
