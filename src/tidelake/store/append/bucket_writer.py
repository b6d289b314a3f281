"""Writes one bucket of an append table.

1. Rows wait in memory. When they fill a row group they go into the open data file; files are closed
   at the target size.
2. ``spill`` releases memory. Rows that do not fill a row group go to local disk and into the file
   later, in order: small row groups and small files cost readers more than the detour. With
   ``write-buffer-for-append`` all rows wait until the flush. Without a spill directory, or if the
   open file itself holds most of the memory, the file is closed.
3. ``prepare_commit`` closes the file and returns what is new. In a bucketed table neighbouring
   small files are then joined in order (:mod:`tidelake.store.append.compaction_picker`), unless the
   table is write-only. In a table without buckets only ``compact`` does that, and order does not
   count.
4. A compaction leaves out rows in deletion vectors, and drops the vectors of the files that it
   replaces.
5. With row tracking a compaction takes the ids of the rows along
   (:mod:`tidelake.metadata.row_ids`).

In a bucketed table sequence numbers continue those of the live files; without buckets each file
counts its rows from 0. The semantics are Paimon's ``AppendOnlyWriter`` (1.3.1).
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelake.errors import ClosedError, InvalidInputError
from tidelake.format import (
    DataFileRead,
    ReadAhead,
    files_in_turn,
    orc_zone_moves,
    read_batches,
)
from tidelake.merge import SpillStack
from tidelake.metadata.data_file import CommitMessage, DataFileMeta, FileSource
from tidelake.metadata.index_entry import IndexFile
from tidelake.metadata.partition_columns import partition_columns
from tidelake.metadata.row_ids import (
    completed,
    ordinals_left,
    tracked_schema,
    tracks_rows,
    with_tracking,
)
from tidelake.options import target_file_size_bytes
from tidelake.options.declared import (
    CLUSTERING_INCREMENTAL,
    COMPACTION_DELETE_RATIO_THRESHOLD,
    COMPACTION_FORCE_REWRITE_ALL_FILES,
    COMPACTION_MIN_FILE_NUM,
    WRITE_BUFFER_FOR_APPEND,
    WRITE_BUFFER_SPILLABLE,
    WRITE_ONLY,
)
from tidelake.store.append.append_file import AppendFile, row_group_bytes
from tidelake.store.append.clustering import ClusterOrder, ClusterSorter, KeyRanges
from tidelake.store.append.compaction_picker import pick_bucketed, pick_bucketed_full, pick_unaware
from tidelake.store.context import StoreContext
from tidelake.store.deletion_vectors import BucketDeletions
from tidelake.store.file_meta import check_sequence_numbers
from tidelake.store.new_files import NewFiles
from tidelake.store.rolling import RollingWriter
from tidelake.store.write_buffer import RowBuffer
from tidelake.types import DataField

Rows: TypeAlias = Generator[pa.RecordBatch, None, None]
UNAWARE = -1
"""Total number of buckets of a table without buckets (on disk: never renumber)."""


class AppendBucketWriter:
    """Writes one bucket; for one thread.

    Parameters
    ----------
    bucket : int
        The bucket; 0 in a table without buckets.
    total_buckets : int
        Number of buckets, as the manifests record it; -1 in a table without buckets.
    live_files : sequence of DataFileMeta
        The bucket's live files in the snapshot that the write builds on; none for an overwrite.
    """

    def __init__(
        self,
        context: StoreContext,
        partition: bytes,
        bucket: int,
        *,
        total_buckets: int,
        live_files: Sequence[DataFileMeta],
        vectors: Sequence[IndexFile] = (),
    ) -> None:
        options = context.options
        self._context = context
        self._partition = partition
        self._bucket = bucket
        self._total_buckets = total_buckets
        self._ordered = total_buckets != UNAWARE
        self._target_size_bytes = target_file_size_bytes(options, has_primary_key=False)
        self._files_min = options.get(COMPACTION_MIN_FILE_NUM)
        self._rewrites_all = options.get(COMPACTION_FORCE_REWRITE_ALL_FILES)
        self._worn_share = options.get(COMPACTION_DELETE_RATIO_THRESHOLD)
        # a clustering takes all files, also small ones
        self._compacts = not (options.get(WRITE_ONLY) or options.get(CLUSTERING_INCREMENTAL))
        self._tracks_rows = tracks_rows(options)
        self._fields = with_tracking(context.schema.fields, options)
        self._spill_always = options.get(WRITE_BUFFER_FOR_APPEND)
        self._live = tuple(live_files)
        self._files = NewFiles(context, partition, bucket)
        self._deletions = BucketDeletions(
            context, partition, bucket, files=vectors, one_file=self._ordered
        )
        self._row_group_bytes = row_group_bytes(context)
        self._buffer = RowBuffer(owns_rows=context.env.memory.is_limited)
        self._spilled: SpillStack | None = None
        if options.get(WRITE_BUFFER_SPILLABLE) and context.spill_dir is not None:
            self._spilled = SpillStack(
                context.spill_dir,
                name=f"spill-{self._files.writer_id}",
                options=options,
                join=chain.from_iterable,
                memory=context.env.memory,
            )
        self._next_sequence = 1 + max((f.max_sequence_number for f in live_files), default=-1)
        self._directory = context.paths.bucket_dir(partition, bucket)
        self._out = self._rolling(self._next_sequence, FileSource.APPEND)
        self._draining = False  # stays set after a write failed half-way
        self._compacting: RollingWriter | None = None  # to abort if it failed half-way
        self._closed = False

    @property
    def buffered_bytes(self) -> int:
        """Bytes of rows held in memory."""
        return self._buffer.size_bytes + self._out.buffered_bytes

    def write(self, batch: pa.RecordBatch, kinds: npt.NDArray[np.int8] | None = None) -> None:
        """Take rows.

        Parameters
        ----------
        batch : pyarrow.RecordBatch
            Requires: the table's columns in order, conformed to the schema.
        kinds : int8 array [n], optional
            Must be +I for every row.

        Raises
        ------
        InvalidInputError
            A row is not an insert.
        UnsupportedError
            The bucket has no sequence numbers left.
        """
        self._check_open()
        if kinds is not None and kinds.any():
            message = (
                f"{int(np.count_nonzero(kinds))} rows are updates or deletes, but a table without"
                " primary key takes only inserts (+I): give it a primary key, or insert."
            )
            raise InvalidInputError(message, kind="row_kind")
        if self._ordered:
            check_sequence_numbers(
                self._context, self._next_sequence, batch.num_rows, self._directory
            )
            self._next_sequence += batch.num_rows
        self._buffer.append(batch)
        if self._buffer.size_bytes >= self._row_group_bytes and not self._spill_always:
            self._drain()

    def spill(self, size_bytes: int | None = None) -> None:
        """Release memory: rows go to local disk or into data files."""
        del size_bytes  # all rows, which are neither sorted nor merged
        self._check_open()
        if self._spilled is None or self._out.buffered_bytes > self._buffer.size_bytes:
            self.flush()
        elif self._buffer.row_count:
            self._spilled.push(self._buffer.batches)
            self._buffer.clear()

    def flush(self) -> None:
        """Write all rows into data files and close them."""
        self._check_open()
        self._drain()
        self._close_file()

    def compaction_parts(self, *, full: bool) -> tuple[tuple[DataFileMeta, ...], ...]:
        """The files that :meth:`compact` would take, in parts that writers may share.

        One writer must write deletion vectors, so if there are any it is one part.
        """
        picked = self._picked(full=full)
        if len(picked) > 1 and self._deletions.has_any:
            return (tuple(chain.from_iterable(picked)),)
        return picked

    def compact(self, full: bool) -> None:  # noqa: FBT001 - the stores' one interface
        """Flush, then join small files."""
        self.flush()
        if self._ordered and not full:
            self._compact_neighbours()
            return
        for files in self._picked(full=full):
            self._rewrite(files)

    def compact_part(self, names: Collection[str]) -> None:
        """Join the files of these names, one part of :meth:`compaction_parts`."""
        self.flush()
        self._rewrite(self._live_files(names))

    def cluster(self, names: Collection[str], order: ClusterOrder, *, level: int) -> None:
        """Rewrite the files of these names in a clustered order, for a level.

        On a curve the columns of `order` are read twice.
        """
        self.flush()
        files = self._live_files(names)
        ranges = None
        if order.needs_ranges:
            with closing(self._rows_of(files, order.fields)) as keys:
                ranges = KeyRanges.of(order.fields, keys)
        key = order.key(ranges)
        sorter = self.sorter(order)
        try:
            with closing(self._rows_of(files, self._fields)) as batches:
                for rows in batches:
                    sorter.add(key.with_key(rows))
            first = min(file.min_sequence_number for file in files)
            self._replace(files, sorter.batches(), first_sequence=first, level=level)
        finally:
            sorter.close()

    def sorter(self, order: ClusterOrder) -> ClusterSorter:
        """Open a sorter of rows, for :meth:`write_clustered`."""
        return ClusterSorter(self._context, order, name=self._files.writer_id)

    def write_clustered(self, rows: Rows, *, level: int) -> None:
        """Write rows of files that another writer's message replaces, in their order."""
        self._replace((), rows, level=level)

    def replaced_by(self, files: Sequence[DataFileMeta], written: Sequence[DataFileMeta]) -> None:
        """Note that other files hold the rows of these; their deletion vectors go."""
        self._live = (*(f for f in self._live if f not in files), *written)
        self._files.compact(files, written)
        self._deletions.drop(f.file_name for f in files)

    def _live_files(self, names: Collection[str]) -> tuple[DataFileMeta, ...]:
        files = tuple(f for f in self._live if f.file_name in names)
        assert len(files) == len(names), "a part is compacted on the snapshot of its plan"
        return files

    def _picked(self, *, full: bool) -> tuple[tuple[DataFileMeta, ...], ...]:
        if not self._ordered:
            return pick_unaware(
                self._live,
                files_min=2 if full else self._files_min,
                target_size_bytes=self._target_size_bytes,
                needs_rewrite=self._needs_rewrite,
            )
        if full:
            files = pick_bucketed_full(
                self._live,
                target_size_bytes=self._target_size_bytes,
                has_deletes=lambda f: self._deletions.count(f) > 0,
                rewrites_all=self._rewrites_all,
            )
        else:
            files = pick_bucketed(
                self._live, files_min=self._files_min, target_size_bytes=self._target_size_bytes
            )
        return (files,) if files else ()

    def prepare_commit(self) -> CommitMessage:
        """Flush, compact if due, and return the changes since the last call.

        Returns
        -------
        CommitMessage
            Its files belong to the commit from now on.
        """
        self.flush()
        if self._ordered and self._compacts and self._files.has_new:
            self._compact_neighbours()
        deletions = self._deletions.write()
        message = self._files.hand_out(total_buckets=self._total_buckets)
        return message if deletions is None else replace(message, deletions=deletions)

    def close(self) -> None:
        """Release memory, spilled rows and files that no message names; the others stay."""
        self._closed = True
        self._buffer.clear()
        if self._spilled is not None:
            self._spilled.clear()
        self._out.abort()
        if self._compacting is not None:
            self._compacting.abort()
        self._files.delete_unknown()
        self._deletions.discard()

    def _check_open(self) -> None:
        if self._closed:
            message = f"The writer of bucket {self._bucket} is closed; open a new one."
            raise ClosedError(message, kind="writer")
        if self._draining:
            message = (
                f"A write to bucket {self._bucket} failed half-way, so its open file cannot be"
                " continued: close the writer and write again."
            )
            raise ClosedError(message, kind="writer")

    def _drain(self) -> None:
        """Move all rows into the open data file, in order of arrival."""
        self._draining = True
        if self._spilled is not None and len(self._spilled):
            for run in self._spilled.runs():
                for rows in run:
                    self._out.write(rows)
            self._spilled.clear()
        for rows in self._buffer.batches:
            self._out.write(rows)
        self._buffer.clear()
        self._draining = False

    def _close_file(self) -> None:
        self._draining = True
        written = self._out.close()
        self._draining = False
        self._files.add(written)
        self._live += written

    def _compact_neighbours(self) -> None:
        while files := pick_bucketed(
            self._live, files_min=self._files_min, target_size_bytes=self._target_size_bytes
        ):
            count = len(self._live)
            self._rewrite(files)
            if len(self._live) >= count:
                return  # as many files as before: going on gains nothing

    def _needs_rewrite(self, file: DataFileMeta) -> bool:
        return self._deletions.count(file) > self._worn_share * file.row_count

    def _rewrite(self, files: Sequence[DataFileMeta]) -> None:
        """Join files, one after the other."""
        if files:
            rows = self._rows_of(files, self._fields)
            self._replace(files, rows, first_sequence=files[0].min_sequence_number)

    def _rows_of(self, files: Sequence[DataFileMeta], fields: Sequence[DataField]) -> Rows:
        """The live rows of files, one after the other."""
        with closing(
            files_in_turn(
                files,
                partial(self._read, tuple(fields)),
                size_bytes=lambda file: file.file_size_bytes,
                ahead=ReadAhead.of(self._context.env),
                is_remote=self._context.fileio.is_remote,
            )
        ) as turns:
            for file, batches in turns:
                done = 0
                deleted = self._deletions.positions(file) if self._tracks_rows else None
                for batch in batches:
                    rows = batch
                    if self._tracks_rows:
                        ordinals = ordinals_left(done, batch.num_rows, deleted)
                        rows = completed(batch, file, ordinals)
                        done += batch.num_rows
                    yield rows

    def _replace(
        self,
        files: Sequence[DataFileMeta],
        rows: Rows,
        *,
        first_sequence: int = 0,
        level: int = 0,
    ) -> None:
        """Write rows in place of files."""
        self._compacting = self._rolling(first_sequence, FileSource.COMPACT, level)
        with closing(rows):
            for batch in rows:
                self._compacting.write(batch)
        self.replaced_by(files, self._compacting.close())

    def _read(
        self, fields: tuple[DataField, ...], file: DataFileMeta, ahead: ReadAhead
    ) -> DataFileRead:
        return read_batches(
            self._context.fileio,
            self._context.paths.data_file(self._partition, self._bucket, file),
            fields,
            file_fields=self._context.file_fields(file),
            file_size_bytes=file.file_size_bytes,
            row_count=file.row_count,
            deleted=self._deletions.positions(file),
            batch_bytes=self._context.env.memory.batch_bytes,
            zone=self._context.env.zone,
            orc_zone_moves=orc_zone_moves(self._context.options),
            ahead=ahead,
            table=self._context.paths.location,
            constants=partition_columns(self._context.paths, self._context.schema, self._partition),
        )

    def _rolling(self, first_sequence: int, source: FileSource, level: int = 0) -> RollingWriter:
        def open_file(rows_before: int) -> AppendFile:
            name, path = self._files.next_file()
            first = first_sequence + rows_before if self._ordered else 0
            context, columns = self._context, None
            if self._tracks_rows and source is FileSource.COMPACT:
                schema = tracked_schema(context.schema, context.options)
                context, columns = replace(context, schema=schema), schema.field_names
            return AppendFile(
                context,
                name,
                path,
                first_sequence=first,
                source=source,
                write_cols=None if columns is None else tuple(columns),
                level=level,
            )

        return RollingWriter(open_file, target_size_bytes=self._target_size_bytes)
