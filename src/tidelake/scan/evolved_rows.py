"""Rows of a table with data evolution: the columns of a row lie in several files.

A MERGE of Java Paimon writes the columns that it changes into new files beside the old ones.

1. Files with one first row id hold columns of the same rows, in the same order
   (:func:`row_groups`). They form a section of a merge split, the newest file first.
2. Each column is read from the newest file that has it (:func:`read_evolved`); one that no file has
   is null. The files are read side by side, as many rows of each.
3. The predicate is tested on the rows that are put together. Statistics of one file say nothing of
   a column that a newer one holds, so files are not pruned by them.

Source: Paimon's ``DataEvolutionSplitGenerator`` and ``DataEvolutionSplitRead`` (1.3.1). Memory: a
batch of each file of a group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np
import pyarrow as pa

from tidelake.errors import CorruptError, UnsupportedError
from tidelake.format import BATCH_ROWS, TRACKING_FIELDS, DataFileRead, null_batches
from tidelake.metadata.data_file import DataFileMeta
from tidelake.metadata.row_ids import completed
from tidelake.options import Options, declared
from tidelake.scan.context import ReadContext
from tidelake.scan.data_file import file_columns, read_file
from tidelake.scan.split import Section, Split
from tidelake.types import DataField
from tidelake.types.arrow import to_arrow_schema, to_arrow_type
from tidelake.types.predicate import Predicate, columns_of, evaluate


def is_evolved(context: ReadContext) -> bool:
    """Whether rows of the table lie in several files."""
    return bool(context.options.get(declared.DATA_EVOLUTION_ENABLED))


def check_not_evolved(options: Options) -> None:
    """Refuse a read of single files where a file may be an update of older rows.

    Raises
    ------
    UnsupportedError
        The table has data evolution: a new file of it need not hold new rows.
    """
    if options.get(declared.DATA_EVOLUTION_ENABLED):
        message = (
            f"Table '{options.table}' has data evolution: its rows can be read, but not its"
            " changes, differences or streams, for a new file may hold new values of older rows."
            " Compare two reads of it instead."
        )
        raise UnsupportedError(message, kind="data_evolution", table=options.table)


def row_groups(files: Sequence[DataFileMeta]) -> list[tuple[DataFileMeta, ...]]:
    """The files of a bucket by the rows that they hold, each group with the newest first.

    Raises
    ------
    CorruptError
        Two groups overlap, or files of a group differ in their number of rows.
    """
    alone = [(file,) for file in files if file.first_row_id is None]
    known = [file for file in files if file.first_row_id is not None]
    known.sort(key=lambda f: (f.first_row_id, -f.max_sequence_number))
    groups: list[tuple[DataFileMeta, ...]] = []
    free = 0
    for first, same in groupby(known, key=lambda f: f.first_row_id or 0):
        group = tuple(same)
        if first < free or len({f.row_count for f in group}) > 1:
            message = (
                f"File '{group[0].file_name}' holds rows from id {first} on, which other files of"
                " its bucket hold in part: the manifests are damaged. Read an older snapshot."
            )
            raise CorruptError(message, kind="row_ids", file=group[0].file_name)
        free = first + group[0].row_count
        groups.append(group)
    return [*alone, *groups]


def as_section(group: Sequence[DataFileMeta]) -> Section:
    """A group as a section of a split: each file a run."""
    return tuple((file,) for file in group)


def read_evolved(
    context: ReadContext,
    split: Split,
    fields: Sequence[DataField],
    predicate: Predicate | None,
) -> Iterator[pa.RecordBatch]:
    """Read a split of row groups.

    Parameters
    ----------
    fields : sequence of DataField
        The columns wanted; those of the ids may be among them.
    predicate : Predicate, optional
        Bound; all rows satisfy it.

    Raises
    ------
    UnsupportedError
        A file has a deletion vector, which Paimon 1.3.1 does not allow in such tables.
    """
    if split.deletions:
        message = (
            f"Table '{context.options.table}' has data evolution and deletion vectors, which is"
            " not covered: read it with a newer Java Paimon."
        )
        raise UnsupportedError(message, kind="data_evolution", table=context.options.table)
    tested: tuple[DataField, ...] = ()
    if predicate is not None:
        tested = context.fields(tuple(sorted(columns_of(predicate))))
    needed = tuple(dict.fromkeys((*fields, *tested)))
    names = [field.name for field in fields]
    for section in split.sections:
        group = [file for run in section for file in run]
        for rows in _group(context, split, group, needed):
            found = rows
            if predicate is not None:
                mask = evaluate(predicate, rows.select([f.name for f in tested]), tested)
                found = rows.filter(mask)
            if found.num_rows:
                yield found.select(names)


def _group(
    context: ReadContext, split: Split, group: Sequence[DataFileMeta], needed: Sequence[DataField]
) -> Iterator[pa.RecordBatch]:
    """The rows of a group, with the needed columns in order."""
    newest = group[0]
    if not needed:
        yield from null_batches(pa.schema([]), newest.row_count, BATCH_ROWS)
        return
    shares = _shares(context, group, needed)
    reads = [
        read_file(context, split, file, own, file_fields=file_columns(context, file))
        for file, own in shares
    ]
    found = [field.name for _, own in shares for field in own]
    done = 0
    for rows in _side_by_side(reads, newest):
        batch = pa.RecordBatch.from_arrays(rows, names=found)
        count = batch.num_rows
        columns = [
            batch.column(field.name)
            if field.name in found
            else pa.nulls(count, to_arrow_type(field.type))
            for field in needed
        ]
        whole = pa.RecordBatch.from_arrays(columns, schema=to_arrow_schema(needed))
        yield completed(whole, newest, np.arange(done, done + count))
        done += count


def _shares(
    context: ReadContext, group: Sequence[DataFileMeta], needed: Sequence[DataField]
) -> list[tuple[DataFileMeta, list[DataField]]]:
    """What is read of each file; the ids come from the newest, which also counts the rows."""
    left = list(needed)
    shares = []
    for number, file in enumerate(group):
        ids = {field.id for field in file_columns(context, file)}
        if not number:
            ids |= {field.id for field in TRACKING_FIELDS}
        own = [field for field in left if field.id in ids]
        left = [field for field in left if field.id not in ids]
        if own:
            shares.append((file, own))
    if not shares:  # the rows are counted all the same
        shares.append((group[0], [TRACKING_FIELDS[0]]))
    return shares


def _side_by_side(reads: Sequence[DataFileRead], newest: DataFileMeta) -> Iterator[list[pa.Array]]:
    """Columns of files of the same rows: as many rows of each at a time."""
    iterators = [iter(read) for read in reads]
    batches: list[pa.RecordBatch | None] = [None] * len(iterators)
    while True:
        for number, batch in enumerate(batches):
            if batch is None or not batch.num_rows:
                batches[number] = next(iterators[number], None)
        open_ones = [batch for batch in batches if batch is not None]
        if not open_ones:
            return
        if len(open_ones) < len(batches):
            message = (
                f"File '{newest.file_name}' and those of the same rows do not hold as many rows:"
                " one of them is damaged. Restore it from a backup."
            )
            raise CorruptError(message, kind="row_ids", file=newest.file_name)
        count = min(batch.num_rows for batch in open_ones)
        yield [column for b in open_ones for column in b.slice(0, count).columns]
        batches = [b.slice(count) for b in open_ones]
