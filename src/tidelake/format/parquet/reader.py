"""Streams one Parquet data file as Arrow batches of the wanted columns.

1. The file's size must be the manifest's before anything is parsed, and the footer's row count
   the manifest's before anything is read.
2. Each wanted column is found in the file (:mod:`tidelake.format.field_id_mapping`).
3. Row groups that cannot match the predicate are skipped, the rest is read batch by batch, page
   checksums verified: a large file on several cores (:mod:`tidelake.format.parquet.column_parts`),
   others in one thread. Missing columns are filled with null, others cast where needed.
4. Rows of the deletion vector are left out; their ordinals are moved by the row groups skipped. Of
   rows that are asked for by their ordinals, only the row groups are read.
5. Of a remote storage the file's end is read first, then the chunks wanted of several row groups
   (:mod:`tidelake.format.parquet.column_fetch`).
6. Each row group must give as many rows as the footer says.

Memory: the compressed columns wanted of one row group and one batch, or two of half the size where
several cores read; of a remote storage, what the request's ``ahead`` allows instead of the columns.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidelake.format.fetching.fetched_file import FetchedBytes
from tidelake.format.field_id_mapping import ColumnOrigin, cast_column, map_columns
from tidelake.format.file_reader import (
    BATCH_BYTES_MAX,
    InputFiles,
    Positions,
    ReadRequest,
    asked_rows,
    check_row_count,
    check_texts,
    null_batches,
    open_sized,
    reads_by_ranges,
)
from tidelake.format.parquet.column_fetch import ColumnFetch
from tidelake.format.parquet.column_parts import column_parts, is_worth_threads, side_by_side
from tidelake.format.parquet.footer import read_footer
from tidelake.format.parquet.int96 import bytes_metadata, moments, with_micros
from tidelake.format.parquet.row_groups import matching_row_groups
from tidelake.format.read_error import corrupt
from tidelake.types.arrow import to_arrow_schema
from tidelake.types.nested import leaf_arrays

ROW_GROUPS_COUNT_MAX = 100_000
COLUMNS_COUNT_MAX = 20_000
COLUMN_BUFFER_BYTES = 1 << 20
"""Bytes of the file to buffer for each column. Its whole part of a row group may be a hundred MiB,
and a merge reads many files side by side."""
COLUMN_BUFFER_BYTES_MIN = 32 << 10
COLUMN_BUFFER_SHARE = 8
"""For small batches the buffer is this fraction of a batch."""
WHOLE_FILE_BYTES = 1 << 20
"""A remote file up to this size is read by one request, if the memory may hold it."""
REMOTE_TAIL_BYTES = 256 << 10
"""Bytes read at once from the end of a larger one: a footer of 2,000 column chunks."""
DICTIONARY_ROWS_MAX = 4_096
"""Rows of a batch of limited size if texts have a dictionary: the file does not give the size of
texts without it."""


def read_parquet(
    stack: ExitStack, fileio: InputFiles, request: ReadRequest
) -> Iterator[pa.RecordBatch]:
    """Read a Parquet file; see :data:`tidelake.format.file_reader.FileReader`."""
    path = request.path
    remote = _fetched_end(fileio, request) if reads_by_ranges(fileio, request) else None
    file, is_sealed = _open(stack, fileio, request, remote)
    sources = map_columns(
        file,
        request.fields,
        path=path,
        file_fields=request.file_fields,
        constants=request.constants,
    )
    groups = matching_row_groups(file.metadata, sources, request.predicate)
    if request.wanted is not None:
        places = np.searchsorted(request.wanted, _group_starts(file.metadata))
        groups = [g for g in groups if places[g] < places[g + 1]]
    # a stack of its own: the caller moves what is in `stack` now, and more is opened later
    files = _Files(stack.enter_context(ExitStack()), fileio, request, remote)
    batches = _source_batches(files, file, sources, groups, is_sealed=is_sealed)
    deleted, wanted = (
        _among_groups(named, file.metadata, groups) for named in (request.deleted, request.wanted)
    )
    return asked_rows(batches, deleted, wanted)


def _group_starts(metadata: pq.FileMetaData) -> Positions:
    """The ordinal of the first row of each row group, then the number of all rows."""
    counts = [metadata.row_group(g).num_rows for g in range(metadata.num_row_groups)]
    return np.r_[0, np.cumsum(counts, dtype=np.int64)]


def _among_groups(
    named: Positions | None, metadata: pq.FileMetaData, groups: list[int]
) -> Positions | None:
    """Convert ordinals of rows in the file to those among some row groups."""
    if named is None or len(groups) == metadata.num_row_groups:
        return named
    starts = _group_starts(metadata)
    before = 0
    parts = [np.zeros(0, np.int64)]
    for group in groups:
        first, last = np.searchsorted(named, starts[group : group + 2])
        parts.append(named[first:last] - (starts[group] - before))
        before += starts[group + 1] - starts[group]
    return np.concatenate(parts)


def _fetched_end(fileio: InputFiles, request: ReadRequest) -> FetchedBytes:
    """Read the end of a remote file, or all of a small one that the memory may hold."""
    size = request.remote_size_bytes
    source = FetchedBytes(fileio, request.path, size, piece_bytes=COLUMN_BUFFER_BYTES)
    is_small = size <= min(WHOLE_FILE_BYTES, request.ahead.bytes_max)
    source.fetch_end(size if is_small else REMOTE_TAIL_BYTES)
    return source


def _open(
    stack: ExitStack, fileio: InputFiles, request: ReadRequest, remote: FetchedBytes | None
) -> tuple[pq.ParquetFile, bool]:
    """Open and check a file; return whether its pages have checksums, too."""
    path = request.path
    if remote is None:
        source = open_sized(stack, fileio, request)
    else:
        source = stack.enter_context(remote.open())
    asks_chunks = (
        remote is not None or request.predicate is not None or request.batch_bytes < BATCH_BYTES_MAX
    )
    footer = read_footer(source, path=path, asks_chunks=asks_chunks)
    metadata = footer.metadata
    is_held = remote is not None and _fits(metadata, request)
    file = _parquet_file(source, request, metadata=metadata, is_held=is_held)
    check_row_count(request, metadata.num_rows)
    if metadata.num_columns > COLUMNS_COUNT_MAX:
        raise corrupt(path, f"it has {metadata.num_columns} columns, over {COLUMNS_COUNT_MAX}")
    if metadata.num_row_groups > ROW_GROUPS_COUNT_MAX:
        reason = f"it has {metadata.num_row_groups} row groups, over {ROW_GROUPS_COUNT_MAX}"
        raise corrupt(path, reason)
    group_rows = [metadata.row_group(g).num_rows for g in range(metadata.num_row_groups)]
    if min(group_rows, default=0) < 0 or sum(group_rows) != metadata.num_rows:
        raise corrupt(path, "its row groups do not add up to its row count")
    return file, footer.is_sealed


def _fits(metadata: pq.FileMetaData, request: ReadRequest) -> bool:
    """Whether every row group may be fetched whole, all its columns."""
    groups = (metadata.row_group(g) for g in range(metadata.num_row_groups))
    return all(group.total_byte_size <= request.ahead.bytes_max for group in groups)


def _parquet_file(
    source: pa.NativeFile,
    request: ReadRequest,
    *,
    int96_unit: str | None = None,
    metadata: pq.FileMetaData | None = None,
    is_held: bool = False,
) -> pq.ParquetFile:
    """Open a file for Arrow; if its chunks are in memory, without buffers that copy them."""
    buffer_bytes = request.batch_bytes // COLUMN_BUFFER_SHARE
    return pq.ParquetFile(
        source,
        metadata=metadata,
        pre_buffer=False,
        buffer_size=0
        if is_held
        else max(COLUMN_BUFFER_BYTES_MIN, min(COLUMN_BUFFER_BYTES, buffer_bytes)),
        page_checksum_verification=True,
        coerce_int96_timestamp_unit=int96_unit,
    )


@dataclass(frozen=True, slots=True)
class _Files:
    """A file that may be opened several times."""

    stack: ExitStack
    fileio: InputFiles
    request: ReadRequest
    remote: FetchedBytes | None

    def open(self) -> pa.NativeFile:
        """Open it once more."""
        if self.remote is not None:
            return self.stack.enter_context(self.remote.open())
        return self.stack.enter_context(self.fileio.open_input(self.request.path))

    def fetch(self, metadata: pq.FileMetaData, groups: list[int], names: list[str]) -> _Bring:
        """Fetch the first row groups of a remote file; returns what waits for a row group."""
        if self.remote is None:
            return _nothing
        request = self.request
        return ColumnFetch(
            self.stack,
            self.remote,
            metadata,
            groups,
            names,
            ahead=request.ahead,
            path=request.path,
        ).bring


_Bring = Callable[[int], None]
"""Called before each row group is read."""


def _nothing(_: int) -> None:
    """Bring nothing: the file is read as it is."""


def _source_batches(
    files: _Files,
    file: pq.ParquetFile,
    sources: Sequence[ColumnOrigin],
    groups: list[int],
    *,
    is_sealed: bool,
) -> Iterator[pa.RecordBatch]:
    """Read all rows of the row groups, in the wanted types."""
    request, path = files.request, files.request.path
    schema = to_arrow_schema([s.field for s in sources])
    rows = _bounded_batch_rows(file.metadata, groups, request)
    names = list(dict.fromkeys(s.file_name for s in sources if s.file_name is not None))
    if not names:
        total = sum(file.metadata.row_group(g).num_rows for g in groups)
        nothing = null_batches(schema, total, rows)
        if all(source.constant is None for source in sources):
            return nothing
        return _converted(nothing, sources, schema, path)
    bring = files.fetch(file.metadata, groups, names)
    int96 = [s.file_name for s in sources if s.file_name is not None and s.is_int96]
    if int96 or not _is_threaded(file.metadata, groups, request):
        read = _raw_batches(file, groups, names, rows, path, bring)
        if not is_sealed:
            read = map(check_texts, read)
    else:
        read = _on_cores(files, file, groups, names, rows, bring, is_sealed=is_sealed)
    if int96:
        again = _parquet_file(files.open(), request, int96_unit="us")
        micros = _raw_batches(again, groups, int96, rows, path)

        def by_bytes() -> Iterator[pa.RecordBatch]:
            bare = files.open()
            raw = _parquet_file(bare, request, metadata=bytes_metadata(bare))
            return _raw_batches(raw, groups, int96, rows, path)

        in_micros = frozenset(
            source.file_name or "" for source in sources if not _has_nanos(source.target)
        )
        read = _checked_int96(read, micros, by_bytes, path, in_micros)
    return _converted(read, sources, schema, path)


def _is_threaded(metadata: pq.FileMetaData, groups: list[int], request: ReadRequest) -> bool:
    return is_worth_threads(
        request.cores,
        rows_count=sum(metadata.row_group(g).num_rows for g in groups),
        batch_rows=request.batch_rows,
        batch_bytes=request.batch_bytes,
    )


def _on_cores(
    files: _Files,
    file: pq.ParquetFile,
    groups: list[int],
    names: list[str],
    rows: int,
    bring: _Bring,
    *,
    is_sealed: bool,
) -> Iterator[pa.RecordBatch]:
    """Read the columns in parts, each by a read of its own, before they are wanted."""
    request, path, metadata = files.request, files.request.path, file.metadata
    is_remote = files.remote is not None
    parts = [names] if is_remote else column_parts(metadata, groups, names, request.cores)
    reads = []
    for number, part in enumerate(parts):
        own = file if number == 0 else _parquet_file(files.open(), request, metadata=metadata)
        read = _raw_batches(own, groups, part, rows, path, bring)
        reads.append(read if is_sealed else map(check_texts, read))
    return side_by_side(files.stack, request.cores, reads)


def _raw_batches(
    file: pq.ParquetFile,
    groups: list[int],
    names: list[str],
    rows: int,
    path: str,
    bring: _Bring = _nothing,
) -> Iterator[pa.RecordBatch]:
    """Read the columns with the types of the file, row group by row group.

    Each group is a read of its own: in a read over several groups a damaged page header that adds a
    value to one column would shift the rest of that column against the others.
    """
    for group in groups:
        bring(group)
        rows_expected = file.metadata.row_group(group).num_rows
        rows_read = 0
        for batch in file.iter_batches(rows, row_groups=[group], columns=names, use_threads=False):
            rows_read += batch.num_rows
            yield batch
        if rows_read != rows_expected:
            reason = f"row group {group} holds {rows_read} rows, not {rows_expected}"
            raise corrupt(path, reason)


def _bounded_batch_rows(metadata: pq.FileMetaData, groups: list[int], request: ReadRequest) -> int:
    total_bytes = sum(max(0, metadata.row_group(g).total_byte_size) for g in groups)
    total_rows = sum(metadata.row_group(g).num_rows for g in groups)
    batch_bytes = request.batch_bytes // (2 if _is_threaded(metadata, groups, request) else 1)
    row_bytes = max(1, total_bytes // max(1, total_rows))
    rows_max = request.batch_rows
    if request.batch_bytes < BATCH_BYTES_MAX and _has_text_dictionary(metadata, groups):
        rows_max = min(rows_max, DICTIONARY_ROWS_MAX)
    return max(1, min(rows_max, batch_bytes // row_bytes))


def _has_text_dictionary(metadata: pq.FileMetaData, groups: list[int]) -> bool:
    """Whether a text column has a dictionary, by the first row group; others are alike."""
    if not groups:
        return False
    group = metadata.row_group(groups[0])
    chunks = (group.column(c) for c in range(metadata.num_columns))
    return any(c.physical_type == "BYTE_ARRAY" and c.has_dictionary_page for c in chunks)


def _converted(
    batches: Iterator[pa.RecordBatch], sources: Sequence[ColumnOrigin], schema: pa.Schema, path: str
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        positions = {name: i for i, name in enumerate(batch.schema.names)}
        columns = []
        for source in sources:
            if source.file_name is None:
                columns.append(source.missing(batch.num_rows))
                continue
            values = batch.column(positions[source.file_name])
            columns.append(cast_column(values, source, path=path))
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _checked_int96(
    batches: Iterator[pa.RecordBatch],
    micros: Iterator[pa.RecordBatch],
    by_bytes: Callable[[], Iterator[pa.RecordBatch]],
    path: str,
    in_micros: Collection[str],
) -> Iterator[pa.RecordBatch]:
    """Check INT96 values that 64 bits of nanoseconds may not hold, which Arrow wraps around.

    The same values read as microseconds do not wrap around, so wrapped values differ between the
    two reads. They also differ where Java counts the nanoseconds of the day backwards. From the
    first such value on, the columns are read as bytes; `in_micros` are those whose values need not
    be in nanoseconds then, which hold the years 1677 to 2262 alone.
    """
    raw: Iterator[pa.RecordBatch] | None = None
    for number, (batch, coarse) in enumerate(zip(batches, micros, strict=True)):
        if raw is None and any(_may_have_wrapped(batch, coarse, n) for n in coarse.schema.names):
            raw = islice(by_bytes(), number, None)
        if raw is None:
            yield batch
            continue
        known = next(raw)
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        for name, values in zip(known.schema.names, known.columns, strict=True):
            like = columns[name].type
            if name in in_micros:
                like = with_micros(like)
            columns[name] = moments(values, like, name=name, path=path)
        yield pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _has_nanos(wanted: pa.DataType) -> bool:
    """Whether a column, or one inside it, holds timestamps in nanoseconds."""
    if pa.types.is_timestamp(wanted):
        return bool(wanted.unit == "ns")
    return any(_has_nanos(wanted.field(i).type) for i in range(wanted.num_fields))


def _may_have_wrapped(batch: pa.RecordBatch, coarse: pa.RecordBatch, name: str) -> bool:
    pairs = zip(leaf_arrays(batch.column(name)), leaf_arrays(coarse.column(name)), strict=True)
    return any(_wrapped_around(fine, micro) for fine, micro in pairs)


def _wrapped_around(fine: pa.Array, coarse: pa.Array) -> bool:
    """Whether values read as nanoseconds differ from those read as microseconds."""
    if fine.type == coarse.type:
        return False  # not an INT96
    divided = pc.divide(fine.cast(pa.int64()), 1000)
    apart = pc.abs(pc.subtract(divided, coarse.cast(pa.int64())))
    # 1: this division truncates, the other one floors
    return bool(pc.any(pc.greater(apart, 1)).as_py())
