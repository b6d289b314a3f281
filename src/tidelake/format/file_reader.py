"""The request to a reader of one file format, and the checks common to all formats."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelake.format.fetching.fetched_file import RangedFiles, whole_or_in_pieces
from tidelake.format.fetching.read_ahead import ReadAhead
from tidelake.format.read_error import corrupt
from tidelake.telemetry import Executor, SerialExecutor
from tidelake.types import DataField
from tidelake.types.nested import leaf_arrays
from tidelake.types.predicate import Predicate

BATCH_ROWS = 65_536
BATCH_BYTES_MAX = 64 << 20
"""Most bytes of a batch by default."""

Positions = npt.NDArray[np.int64]
"""Ascending ordinals of a file's rows, from 0."""


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """One data file, and the wanted rows and columns.

    Parameters
    ----------
    fields : tuple of DataField
        The columns, in order; those of the predicate are among them.
    file_fields : tuple of DataField
        The columns of the schema that the file was written with, if known. A format without field
        ids finds columns by their names there.
    predicate : Predicate, optional
        Bound. A reader may leave out rows that do not match, but need not.
    batch_rows : int
        Most rows per batch.
    batch_bytes : int
        A batch has fewer rows if it would be larger, as far as the file shows it before the read.
    deleted : int64 array, optional
        Ascending ordinals of rows that a reader must leave out: those of the deletion vector.
    wanted : int64 array, optional
        Ascending ordinals of the only rows to give. Requires: none are `deleted`.
    orc_zone_moves : bool
        Whether Java's ORC writer moved instants by its own time zone: the table's option
        ``orc.timestamp-ltz.legacy.type``.
    ahead : ReadAhead
        Of a remote storage: what may be fetched before it is asked for.
    cores : Executor
        Where a reader may decode beside its caller; two batches take `batch_bytes` then.
    constants : mapping of int to pyarrow.Scalar
        By field id: the value of a column that the file lacks.
    """

    path: str
    fields: tuple[DataField, ...]
    file_fields: tuple[DataField, ...] = ()
    predicate: Predicate | None = None
    batch_rows: int = BATCH_ROWS
    batch_bytes: int = BATCH_BYTES_MAX
    file_size_bytes: int | None = None
    row_count: int | None = None
    deleted: Positions | None = None
    wanted: Positions | None = None
    orc_zone_moves: bool = True
    ahead: ReadAhead = field(default_factory=ReadAhead)
    cores: Executor = field(default_factory=SerialExecutor)
    constants: Mapping[int, pa.Scalar] = field(default_factory=dict)

    @property
    def remote_size_bytes(self) -> int:
        """The manifest's size, by which a file of a remote storage is read."""
        assert self.file_size_bytes is not None, "a remote file is read by the manifest's size"
        return self.file_size_bytes


class InputFiles(RangedFiles, Protocol):
    """The part of a storage that a reader needs."""

    @property
    def is_remote(self) -> bool:
        """Whether each read waits for a network."""
        ...

    def open_input(self, path: str) -> pa.NativeFile:
        """Open a file for random access."""
        ...


FileReader = Callable[[ExitStack, InputFiles, ReadRequest], Iterator[pa.RecordBatch]]
"""Gives the columns of a request with their Arrow types, in the file's order.

The stack's resources stay open until the last batch is taken. The caller converts Arrow's errors to
ours (:mod:`tidelake.format.read_error`).
"""


def open_sized(stack: ExitStack, fileio: InputFiles, request: ReadRequest) -> pa.NativeFile:
    """Open a file whose size must be the manifest's before any of it is parsed.

    A file of a remote storage is fetched whole if it is small enough. No request asks for its size:
    one that ends early is noticed by the read.

    Raises
    ------
    CorruptError
        It has another size.
    """
    if reads_by_ranges(fileio, request):
        bytes_max = request.ahead.bytes_max
        return whole_or_in_pieces(
            stack, fileio, request.path, request.remote_size_bytes, bytes_max=bytes_max
        )
    source = stack.enter_context(fileio.open_input(request.path))
    size, expected = source.size(), request.file_size_bytes
    if expected is not None and size != expected:
        reason = f"it has {size} bytes, but the manifest says {expected}"
        raise corrupt(request.path, reason)
    return source


def reads_by_ranges(fileio: InputFiles, request: ReadRequest) -> bool:
    """Whether to fetch ranges of a file early: its storage is remote, and its size is known."""
    return fileio.is_remote and request.file_size_bytes is not None


def null_batches(schema: pa.Schema, total_rows: int, rows: int) -> Iterator[pa.RecordBatch]:
    """Yield rows of nulls only; a batch keeps its row count even without columns."""
    for start in range(0, total_rows, rows):
        struct = pa.nulls(min(rows, total_rows - start), pa.struct(list(schema)))
        yield pa.RecordBatch.from_struct_array(struct)


def asked_rows(
    batches: Iterator[pa.RecordBatch], deleted: Positions | None, wanted: Positions | None
) -> Iterator[pa.RecordBatch]:
    """Leave out rows by their ordinals among all rows of the batches.

    Parameters
    ----------
    batches : iterator of RecordBatch
        All rows, in order.
    deleted : int64 array, optional
        The rows to leave out, ascending.
    wanted : int64 array, optional
        The only rows to give, ascending.
    """
    named = deleted if wanted is None else wanted
    if named is None or (wanted is None and not len(named)):
        yield from batches
        return
    begin = 0
    for batch in batches:
        end = begin + batch.num_rows
        first, last = np.searchsorted(named, (begin, end))
        count = int(last - first)
        left = batch.num_rows - count if wanted is None else count
        if left == batch.num_rows:
            yield batch
        elif batch.num_columns and wanted is not None:
            yield batch.take(pa.array(wanted[first:last] - begin))
        elif batch.num_columns:
            stays = np.ones(batch.num_rows, dtype=bool)
            stays[named[first:last] - begin] = False
            yield batch.filter(pa.array(stays))
        else:  # a filter would lose the number of rows
            yield from null_batches(batch.schema, left, max(1, left))
        begin = end


def check_row_count(request: ReadRequest, found: int) -> None:
    """Refuse a file whose own number of rows differs from the manifest's.

    Raises
    ------
    CorruptError
        The numbers differ.
    """
    if request.row_count is not None and found != request.row_count:
        reason = f"its footer says {found} rows, but the manifest says {request.row_count}"
        raise corrupt(request.path, reason)


def check_texts(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Check that texts are UTF-8, which Arrow's readers assume.

    Returns
    -------
    RecordBatch
        The same.

    Raises
    ------
    ArrowInvalid
        They are not.
    """
    for column in batch.columns:
        for leaf in leaf_arrays(column):
            if pa.types.is_string(leaf.type):
                leaf.validate(full=True)
    return batch
