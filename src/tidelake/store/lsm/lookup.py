"""Finds the rows beneath a compaction that have a key of its new rows.

A compaction of the newer levels must know the older rows of a key: to log changes, to merge values,
to mark rows as deleted. Paimon copies each older file into a local store and looks up key by key.
Here the sorted runs are searched in parallel, keys before rows:

1. Files whose key range overlaps no new file are left out.
2. The key columns of the others are read along with those of the new runs. If both have a key, the
   row's position in its file is noted as one bit, unless the row is already deleted. If the pages
   of all new runs do not fit the memory, some of them are searched at a time.
3. If their values matter, files with such rows are read again, whole, for these rows.

With ``pk-clustering-override`` the searched files are not in key order: their keys with the rows'
positions, and the rows found, are sorted on the way (:func:`rows_in_key_order`).

They form a sorted run of their level, so the merge that decides every other key's row decides these
too. With deletion vectors their positions are marked as deleted.

Cost: reading the keys of the overlapping files, once each time the new runs' pages fill the share
of a merge; and the files that have any of the keys. Memory: a batch and the pages of each run,
within that share, and a bit per row of the files with such rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelake.format import KIND_FIELD, SEQUENCE_FIELD
from tidelake.merge import FileKeys, MergeSpec, RunSource, rows_in_order, rows_with_keys
from tidelake.metadata.data_file import DataFileMeta
from tidelake.metadata.index.deletion_vector import Positions
from tidelake.store.lsm.keyed_file import row_fields
from tidelake.store.lsm.levels import SortedRun
from tidelake.store.lsm.read_file import BucketReader
from tidelake.types import DataField, TableSchema

PLACE = pa.field("place", pa.int64(), nullable=False)
"""The row's position among the rows of the run."""


@dataclass(frozen=True, slots=True)
class FileRowMask:
    """The rows found in one file.

    Parameters
    ----------
    bits : uint8 array
        A bit per row of the file, the first row highest, as :func:`numpy.packbits` has them.
    """

    file: DataFileMeta
    bits: npt.NDArray[np.uint8]

    @property
    def mask(self) -> npt.NDArray[np.bool_]:
        """Whether each row of the file is one of them."""
        return np.unpackbits(self.bits, count=self.file.row_count).view(np.bool_)

    @property
    def count(self) -> int:
        """How many rows they are."""
        return int(np.count_nonzero(self.mask))

    @property
    def positions(self) -> Positions:
        """The ordinals of the rows, ascending."""
        return np.flatnonzero(self.mask)

    def with_those_of(self, other: FileRowMask) -> FileRowMask:
        """Return these rows and others of the file."""
        return FileRowMask(self.file, self.bits | other.bits)


def find_rows(
    reader: BucketReader,
    run: SortedRun,
    new_runs: Sequence[Sequence[DataFileMeta]],
    *,
    spec: MergeSpec,
) -> tuple[FileRowMask, ...]:
    """Find the rows of a run whose keys some newer runs have too.

    Parameters
    ----------
    new_runs : sequence of sequence of DataFileMeta
        Runs with the wanted keys: files that do not overlap, in key order.

    Returns
    -------
    tuple of FileRowMask
        For the files that have such rows, in key order; without deleted rows.

    Raises
    ------
    CorruptError
        A file is damaged or does not match its metadata; the message names it.
    """
    files = _overlapping(run, [file for new in new_runs for file in new], spec)
    if not files:
        return ()
    fields = _key_fields(reader.context.schema, spec)
    memory = reader.context.env.memory
    by_name: dict[str, FileRowMask] = {}
    pages_bytes_max = memory.merge_pages_bytes - reader.held_bytes(files, fields)
    for some in _at_once(reader, new_runs, fields, pages_bytes_max):
        batch_bytes = min(memory.batch_bytes, memory.merge_rows_bytes // (1 + len(some)))
        searched = _searched(reader, files, fields, batch_bytes)
        if spec.clustered:
            live = _live(reader, files, searched)
            searched = rows_in_key_order(reader, live, spec, buffer_bytes=memory.merge_rows_bytes)
        found = rows_with_keys(
            searched,
            [reader.batches(new, fields, batch_bytes) for new in some],
            spec,
            memory=memory,
        )
        if spec.clustered:
            found = iter(_in_files(found))
        for rows in _by_file(reader, files, found):
            name = rows.file.file_name
            by_name[name] = rows.with_those_of(by_name[name]) if name in by_name else rows
    return tuple(by_name[f.file_name] for f in files if f.file_name in by_name)


def found_run(
    reader: BucketReader, found: Sequence[FileRowMask], *, level: int, spec: MergeSpec
) -> RunSource:
    """Return found rows as a run for a merge."""
    fields = row_fields(reader.context.schema)

    def batches(batch_bytes: int) -> Iterator[pa.RecordBatch]:
        for rows in found:
            mask, start = rows.mask, 0
            for batch in reader.physical_batches((rows.file,), fields, batch_bytes):
                own = mask[start : start + batch.num_rows]
                start += batch.num_rows
                if own.any():
                    yield batch.filter(pa.array(own))

    files = [rows.file for rows in found]
    size_bytes = sum(f.file_size_bytes for f in files)
    held_bytes = reader.held_bytes(files)
    if spec.clustered:
        buffer_bytes = reader.context.env.memory.merge_rows_bytes
        return RunSource(
            lambda size: rows_in_key_order(reader, batches(size), spec, buffer_bytes=buffer_bytes),
            size_bytes=size_bytes,
            held_bytes=held_bytes,
            level=level,
        )
    return RunSource(batches, size_bytes=size_bytes, held_bytes=held_bytes, level=level)


def rows_in_key_order(
    reader: BucketReader,
    batches: Iterable[pa.RecordBatch],
    spec: MergeSpec,
    *,
    buffer_bytes: int,
) -> Iterator[pa.RecordBatch]:
    """Sort rows by key; those that do not fit the buffer go by local disk."""
    context = reader.context
    return rows_in_order(
        batches,
        spec.key_columns,
        spec.key_types,
        buffer_bytes=buffer_bytes,
        stack=context.spill_stack,
    )


def _overlapping(
    run: SortedRun, new_files: Sequence[DataFileMeta], spec: MergeSpec
) -> tuple[DataFileMeta, ...]:
    """The files of a run that may have a key of the new files, in key order."""
    keys = FileKeys.of(spec)
    new = keys.ranges_of(new_files)
    ranged = sorted(((keys.range_of(f), f) for f in run.files), key=lambda r: r[0].min_key)
    return tuple(
        f
        for own, f in ranged
        if any(n.min_key <= own.max_key and own.min_key <= n.max_key for n in new)
    )


def _at_once(
    reader: BucketReader,
    runs: Sequence[Sequence[DataFileMeta]],
    fields: Sequence[DataField],
    bytes_max: int,
) -> Iterator[list[Sequence[DataFileMeta]]]:
    """As many runs at a time as hold these bytes while they are read; at least one."""
    some: list[Sequence[DataFileMeta]] = []
    held_bytes = 0
    for run in runs:
        own_bytes = reader.held_bytes(run, fields)
        if some and held_bytes + own_bytes > bytes_max:
            yield some
            some, held_bytes = [], 0
        some.append(run)
        held_bytes += own_bytes
    if some:
        yield some


def _key_fields(schema: TableSchema, spec: MergeSpec) -> tuple[DataField, ...]:
    return (SEQUENCE_FIELD, KIND_FIELD, *(schema.field(k) for k in spec.key_columns))


def _searched(
    reader: BucketReader,
    files: Sequence[DataFileMeta],
    fields: Sequence[DataField],
    batch_bytes: int,
) -> Iterator[pa.RecordBatch]:
    start = 0
    for batch in reader.physical_batches(files, fields, batch_bytes):
        end = start + batch.num_rows
        yield batch.append_column(PLACE, pa.array(np.arange(start, end)))
        start = end


def _live(
    reader: BucketReader, files: Sequence[DataFileMeta], searched: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Leave deleted rows out, so that no key is there twice."""
    ends = np.cumsum([file.row_count for file in files])
    number, start, deleted = -1, 0, np.zeros(0, np.int64)
    for batch in searched:
        place = batch.column(PLACE.name)[0].as_py()
        own = int(np.searchsorted(ends, place, side="right"))
        if own != number:
            number, start = own, int(ends[own]) - files[own].row_count
            deleted = reader.deleted_of(files[own])
        if not len(deleted):
            yield batch
            continue
        mask = np.ones(batch.num_rows, np.bool_)
        gone = deleted - (place - start)
        mask[gone[(gone >= 0) & (gone < batch.num_rows)]] = False
        if mask.any():
            yield batch.filter(pa.array(mask))


def _in_files(found: Iterator[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """The places found, in the order of the files: eight bytes for each."""
    places = [batch.column(PLACE.name).to_numpy() for batch in found]
    if not places:
        return []
    return [pa.record_batch([pa.array(np.sort(np.concatenate(places)))], names=[PLACE.name])]


def _by_file(
    reader: BucketReader, files: Sequence[DataFileMeta], found: Iterator[pa.RecordBatch]
) -> Iterator[FileRowMask]:
    """Group the positions by file, and leave out deleted rows."""
    batches = (batch.column(PLACE.name).to_numpy() for batch in found)
    places = next(batches, None)
    start = 0
    for file in files:
        end = start + file.row_count
        mask = np.zeros(file.row_count, np.bool_)
        while places is not None and places[0] < end:
            own = int(np.searchsorted(places, end))
            mask[places[:own] - start] = True
            places = places[own:] if own < len(places) else next(batches, None)
        if mask.any():
            mask[reader.deleted_of(file)] = False
        if mask.any():
            yield FileRowMask(file, np.packbits(mask))
        start = end
