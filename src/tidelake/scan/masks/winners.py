"""The masks of a section whose rows are decided by more than their keys: by the merge itself.

Under ``sequence.field``, where two writers wrote a bucket at the same time, and where deletes are
ignored, a newer run need not win, nor an older one under first-row. Each key still has one row of
the section, or none. So:

1. The columns that decide are read of all files: key, sequence fields, sequence number, kind.
2. Rows in a file's deletion vector are left out. The engine of the table merges the others, run
   by run, and says which rows win.
3. All other rows are hidden, and winners that retract.

A mask depends on all files of the section, and is kept under all of their names. Cost: these
columns are read, and sorted by key. Memory: these columns, of all rows of the section;
where they are larger than a sort may take, there is no mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import pyarrow as pa

from tidelake.format import KIND_FIELD, SEQUENCE_FIELD
from tidelake.merge import MergeSpec, merge_runs
from tidelake.metadata.data_file import DataFileMeta
from tidelake.scan.context import ReadContext
from tidelake.scan.data_file import deleted_rows, read_file
from tidelake.scan.masks.hidden_rows import HiddenRows
from tidelake.scan.masks.rule import ordered_runs
from tidelake.scan.split import Section, Split
from tidelake.types import DataField

RETRACTS = 1
"""The bit of a row kind that says that the row retracts."""


def losing_rows(
    context: ReadContext, split: Split, section: Section, spec: MergeSpec
) -> list[tuple[DataFileMeta, HiddenRows]] | None:
    """Find the rows of a section that a merge does not give.

    Parameters
    ----------
    split, section
        The section, oldest run first, and its split.
    spec : MergeSpec
        The table's rules. Requires: a merged row is one of its key's rows.

    Returns
    -------
    list of (DataFileMeta, HiddenRows), or None
        Each file with its hidden rows, without those of its own vector. None if the columns are
        larger than ``sort_keys_bytes`` of the memory.
    """
    assert not spec.combines, "a merged row is one of the rows"
    runs = ordered_runs(section, spec)
    files = [file for _, run in runs for file in run]
    names = tuple(dict.fromkeys((*spec.key_columns, *spec.sequence_columns)))
    fields = (*context.fields(names), SEQUENCE_FIELD, KIND_FIELD)
    position = _unused_name(fields)
    of_runs: list[list[pa.RecordBatch]] = []
    begin = nbytes = 0
    for _, run in runs:
        of_runs.append([])
        for file in run:
            rows = _live_rows(context, split, file, fields, position, begin)
            nbytes += rows.nbytes
            if nbytes > context.env.memory.sort_keys_bytes:
                return None
            of_runs[-1] += rows.to_batches()
            begin += file.row_count
    hidden = np.ones(begin, np.bool_)
    merged = merge_runs(
        list(map(iter, of_runs)),
        spec,
        drop_deletes=True,
        columns=[position],
        memory=context.env.memory,
        levels=[level for level, _ in runs],
    )
    for batch in merged:
        hidden[batch.column(0).to_numpy()] = False
    ends = accumulate(file.row_count for file in files)
    return [
        (file, HiddenRows.of(hidden[end - file.row_count : end]))
        for file, end in zip(files, ends, strict=True)
    ]


def _unused_name(fields: Sequence[DataField]) -> str:
    """A name for the column that carries a row's position through the merge."""
    taken = {field.name for field in fields}
    name = "_POSITION"
    while name in taken:
        name += "_"
    return name


def _live_rows(
    context: ReadContext,
    split: Split,
    file: DataFileMeta,
    fields: Sequence[DataField],
    position: str,
    begin: int,
) -> pa.Table:
    """The deciding columns of a file's rows that no vector deletes, and their positions."""
    rows = pa.Table.from_batches(list(read_file(context, split, file, fields)))
    rows = rows.append_column(position, pa.array(np.arange(begin, begin + file.row_count)))
    deleted = deleted_rows(context, split, file)
    if deleted is None:
        return rows
    return rows.take(pa.array(np.delete(np.arange(file.row_count), deleted)))
