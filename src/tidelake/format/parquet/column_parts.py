"""Decodes the columns of a large Parquet file on several cores.

1. The columns are divided into parts of about equal bytes, one for each thread. A part is a read of
   its own, with its own pages.
2. Each part makes its next batch while the caller has the one before
   (:meth:`tidelake.telemetry.Executor.ahead`). So columns are decoded beside each other, and beside
   what the caller does with the rows.
3. The parts' batches are joined. They have the same rows: Arrow cuts by the number of rows. Where a
   batch of one part came in pieces, those of the others are cut, too.

A file that one batch holds gains nothing, and is read in the caller's thread. Memory: a batch more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import pyarrow as pa
import pyarrow.parquet as pq

from tidelake.telemetry import Ahead, Executor, SerialExecutor, ThreadExecutor

PART_BYTES_MIN = 8 << 20
"""Smaller parts, decoded and encoded by pages only, would cost more than they save."""
BATCH_BYTES_MIN = 4 << 20
"""Of a memory that allows only smaller batches no second one is held."""


def is_worth_threads(
    cores: Executor, *, rows_count: int, batch_rows: int, batch_bytes: int
) -> bool:
    """Whether to make batches before they are wanted: there are several, and room for two."""
    is_serial = isinstance(cores, SerialExecutor)
    return not is_serial and rows_count > batch_rows and batch_bytes >= 2 * BATCH_BYTES_MIN


def column_parts(
    metadata: pq.FileMetaData, groups: Sequence[int], names: Sequence[str], cores: Executor
) -> list[list[str]]:
    """Divide columns into parts of about equal bytes, by the first row group.

    Parameters
    ----------
    groups : sequence of int
        The row groups wanted, at least one.

    Returns
    -------
    list of lists of str
        One part at least; none is empty.
    """
    group = metadata.row_group(groups[0])
    sizes = dict.fromkeys(names, 0)
    for place in range(metadata.num_columns):
        chunk = group.column(place)
        top = chunk.path_in_schema.partition(".")[0]
        if top in sizes:
            sizes[top] += chunk.total_uncompressed_size
    threads = cores.threads_max if isinstance(cores, ThreadExecutor) else 1
    total = sum(sizes.values()) * len(groups)
    count = max(1, min(threads, len(names), total // PART_BYTES_MIN))
    parts: list[list[str]] = [[] for _ in range(count)]
    filled = [0] * count
    for name in sorted(names, key=sizes.__getitem__, reverse=True):
        least = min(range(count), key=lambda part: (filled[part], len(parts[part])))
        parts[least].append(name)
        filled[least] += sizes[name]
    place_of = {name: place for place, name in enumerate(names)}
    return [sorted(part, key=place_of.__getitem__) for part in parts if part]


def side_by_side(
    stack: ExitStack, cores: Executor, parts: Sequence[Iterator[pa.RecordBatch]]
) -> Iterator[pa.RecordBatch]:
    """Join the batches of reads of the same rows; while the caller has one, the next is made.

    Requires: no batch is empty, and no column is in two parts.

    Parameters
    ----------
    stack : ExitStack
        Ends the reads; it gets them in this call. Requires: it closes what they read from, too.
    parts : sequence of iterators of pyarrow.RecordBatch
        At least one. Each checks that it gives all rows.

    Returns
    -------
    iterator of pyarrow.RecordBatch
        The columns of all parts.
    """
    # the stack ends them before it closes their files, whatever an error's traceback keeps alive
    reads = [stack.enter_context(cores.ahead(part)) for part in parts]
    return _joined(reads) if len(reads) > 1 else reads[0]


def _joined(reads: Sequence[Ahead[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    held: list[pa.RecordBatch | None] = [None] * len(reads)
    while True:
        _fill(held, reads)
        batches = [batch for batch in held if batch is not None]
        if len(batches) < len(reads):
            return
        count = min(batch.num_rows for batch in batches)
        columns = [c for batch in batches for c in batch.slice(0, count).columns]
        names = [name for batch in batches for name in batch.schema.names]
        held = [b.slice(count) if b.num_rows > count else None for b in batches]
        del batches
        yield pa.RecordBatch.from_arrays(columns, names=names)
        del columns


def _fill(held: list[pa.RecordBatch | None], reads: Sequence[Ahead[pa.RecordBatch]]) -> None:
    """Take the next batch of each part that has no rows left."""
    lacking = [place for place, batch in enumerate(held) if batch is None]
    for place in lacking:
        reads[place].begin()
    for place in lacking:
        held[place] = next(reads[place], None)
