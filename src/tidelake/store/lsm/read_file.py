"""A run's files read one after the other, as rows inside the store are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from tidelake.format import orc_zone_moves, read_batches
from tidelake.metadata.data_file import DataFileMeta
from tidelake.store.context import StoreContext
from tidelake.types import DataField

__all__ = ["file_batches"]


def file_batches(
    context: StoreContext,
    files: Sequence[DataFileMeta],
    path_of: Callable[[DataFileMeta], str],
    fields: Sequence[DataField],
    batch_bytes: int,
) -> Iterator[pa.RecordBatch]:
    """Read files.

    Parameters
    ----------
    context : StoreContext
        The table.
    files : sequence of DataFileMeta
        The files, in key order if they make a run.
    path_of : callable
        A file's path.
    fields : sequence of DataField
        The columns wanted.
    batch_bytes : int
        Most bytes of a batch.

    Yields
    ------
    pyarrow.RecordBatch
        All rows of the files; never empty.

    Raises
    ------
    CorruptError
        A file is damaged or not what its metadata says; it is named.
    """
    for file in files:
        yield from read_batches(
            context.fileio,
            path_of(file),
            fields,
            file_fields=context.file_fields(file),
            file_size_bytes=file.file_size_bytes,
            row_count=file.row_count,
            batch_bytes=batch_bytes,
            zone=context.env.zone,
            orc_zone_moves=orc_zone_moves(context.options),
        )
