"""Writes rows into a table's buckets: ingest, route, and one store writer per bucket.

1. A batch is converted to rows of the table (:mod:`tidelake.table.write.ingest`) and routed
   (:mod:`tidelake.table.bucketing.router`).
2. The first rows of a bucket open its store writer with the bucket's live files (the LSM store
   needs them for sequence numbers and compaction).
3. All writers share one memory budget, ``write-buffer-size``. When it is used up, the writers that
   hold most release memory first: they spill to local disk or, without spilling, flush a data file.
   So a write into hundreds of buckets stays within the budget.
4. :meth:`TableWriter.prepare_commit` flushes everything, then makes the new files' names durable,
   each directory once; its messages go to a committer.

Nothing is visible before the commit. :meth:`TableWriter.abort` deletes the files.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from tidelake.errors import ClosedError, InvalidInputError, StorageError
from tidelake.fileio import FileIO, parent_of
from tidelake.metadata.bucket_id import BucketId
from tidelake.metadata.data_file import CommitMessage, DataFileMeta
from tidelake.metadata.index_entry import IndexChange, IndexFile
from tidelake.metadata.log.schema_log import names_drop
from tidelake.metadata.paths import POSTPONE_BUCKET, TablePaths
from tidelake.options import declared, write_buffer_bytes
from tidelake.store import (
    AppendBucketWriter,
    ClusteredBucketWriter,
    LsmBucketWriter,
    MemoryBudget,
    PostponeBucketWriter,
    StoreContext,
)
from tidelake.table.bucketing.cross_partition_writer import CrossPartitionWriter
from tidelake.table.bucketing.dynamic_buckets import DynamicBuckets
from tidelake.table.bucketing.router import Router
from tidelake.table.write.ingest import Ingest
from tidelake.telemetry import ProcessMark

BucketWriter = LsmBucketWriter | AppendBucketWriter | PostponeBucketWriter


@dataclass(frozen=True, slots=True)
class BucketState:
    """The state of a bucket before the write.

    Parameters
    ----------
    files : tuple of DataFileMeta
        Its live files; none for an overwrite.
    partition_buckets : int or None
        The number of buckets of the partition's live files; None if it has none.
    snapshot_id : int or None
        The snapshot that was read, 0 for the empty table; the same for all buckets of a writer.
        None for an overwrite.
    """

    files: tuple[DataFileMeta, ...] = ()
    partition_buckets: int | None = None
    snapshot_id: int | None = None
    vectors: tuple[IndexFile, ...] = ()


@dataclass(frozen=True, slots=True)
class FullCompactions:
    """Buckets that a commit compacts fully, see :mod:`tidelake.table.write.delta_commits_trigger`.

    Parameters
    ----------
    what_is_written : bool
        Whether every bucket that receives rows is one of them.
    where_written_only : bool
        Whether to leave out buckets that receive no rows from this writer.
    due_if_written : frozenset of (partition, bucket)
        Those that are due if they receive rows.
    """

    due: frozenset[BucketId]
    what_is_written: bool = False
    where_written_only: bool = False
    due_if_written: frozenset[BucketId] = frozenset()


class TableWriter:
    """Writes rows of one table; one per task. Not thread-safe.

    Parameters
    ----------
    state_of : callable
        Returns the state of a bucket, by partition and bucket.
    check_partition : callable, optional
        Called once for each new partition; raises if rows may not go there.
    cross_partition : CrossPartitionWriter, optional
        Assigns partitions and buckets if keys may change partition.
    fills_defaults : bool
        Whether nulls become their columns' defaults; not for existing rows.
    """

    def __init__(
        self,
        context: StoreContext,
        *,
        table: str,
        state_of: Callable[[bytes, int], BucketState],
        check_partition: Callable[[bytes], None] | None = None,
        dynamic: DynamicBuckets | None = None,
        cross_partition: CrossPartitionWriter | None = None,
        fills_defaults: bool = True,
    ) -> None:
        schema, options = context.schema, context.options
        self._context = context
        self._table = table
        self._state_of = state_of
        self._check_partition = check_partition
        self._buckets_count = options.get(declared.BUCKET)
        self._budget = MemoryBudget(write_buffer_bytes(options, context.env.memory))
        self._dynamic = dynamic
        self._cross_partition = cross_partition
        hashed = self._buckets_count > 0 or dynamic is not None
        self._router = Router(
            [schema.field(name) for name in schema.partition_keys],
            [schema.field(name) for name in schema.bucket_keys] if hashed else [],
            buckets_count=self._buckets_count,
            function=options.get(declared.BUCKET_FUNCTION_TYPE),
            dynamic=dynamic,
        )
        self._ingest = Ingest(
            schema, options, context.env, table=table, fills_defaults=fills_defaults
        )
        self._writers: dict[BucketId, BucketWriter] = {}
        self._held: dict[BucketId, int] = {}
        self._held_bytes = 0
        self._reliefs_count = 0
        self._known_partitions: set[bytes] = set()
        self._altered: set[BucketId] = set()
        self._states: dict[BucketId, BucketState] = {}
        self._handed_out: list[CommitMessage] = []
        self._closed = False
        self._mark = ProcessMark()
        self.full_compactions: FullCompactions | None = None
        """The full compactions that prepared messages include."""
        self.rows_count = 0
        """Rows taken so far."""
        self.base_snapshot_id: int | None = None
        """The base snapshot of the first bucket; None before it is opened, and for an overwrite."""

    def write(
        self,
        batch: pa.RecordBatch | pa.Table,
        kinds: np.ndarray | None = None,
        *,
        buckets: np.ndarray | None = None,
        first_row: int | None = None,
    ) -> None:
        """Take rows.

        Parameters
        ----------
        batch : RecordBatch or Table
            The table's columns in any order, of their types or safely castable to them.
        kinds : ndarray of int8, optional
            One kind per row; by default from the column ``rowkind.field``, or inserts.
        buckets : ndarray of int32, optional
            The rows' dynamic buckets, if another task assigned them; if keys may change partition,
            the partitions too.
        first_row : int, optional
            The number of the first row in the caller's data, for messages.

        Raises
        ------
        InvalidInputError
            A column is missing, unknown or of another type, a key is null, rows of an append table
            are not inserts, or rows retract and the table's merge engine cannot take them.
        NotFoundError
            The table was dropped meanwhile.
        """
        self._check_open()
        with self._names_drop():
            for rows, own_kinds, own_buckets in self._ingest.batches(
                batch, kinds, buckets, first_row=first_row
            ):
                if self._cross_partition is not None and own_buckets is None:
                    self._cross_partition.add(rows, own_kinds)
                else:
                    self._route(rows, own_kinds, own_buckets)
        self.rows_count += batch.num_rows

    def _route(
        self, batch: pa.RecordBatch, kinds: np.ndarray | None, buckets: np.ndarray | None
    ) -> None:
        for piece in self._router.route(batch, kinds, given=buckets):
            key = piece.bucket_id
            writer = self._writers.get(key)
            if writer is None:
                writer = self._writers[key] = self._open(piece.partition, piece.bucket)
            writer.write(piece.rows, piece.kinds)
            self._account(key, writer)
            if self._held_bytes > self._budget.limit_bytes:
                self._relieve()

    def _relieve(self) -> None:
        for key, size_bytes in self._budget.victims(self._held, reliefs=self._reliefs_count):
            self._writers[key].spill(size_bytes)
            self._account(key, self._writers[key])
        self._reliefs_count += 1

    def _account(self, key: BucketId, writer: BucketWriter) -> None:
        held = writer.buffered_bytes
        self._held_bytes += held - self._held.get(key, 0)
        self._held[key] = held

    def _open(self, partition: bytes, bucket: int, *, adds_rows: bool = True) -> BucketWriter:
        context = self._context
        if partition not in self._known_partitions:
            if self._check_partition is not None:
                self._check_partition(partition)
            self._known_partitions.add(partition)
        state = self._states[BucketId(partition, bucket)] = self._state_of(partition, bucket)
        self.base_snapshot_id = state.snapshot_id
        known = state.partition_buckets
        if adds_rows and known is not None and known != self._buckets_count:
            where = context.paths.partition_path(partition) or "the table"
            message = (
                f"Table '{self._table}': {where} was written with {known} buckets and option"
                f" 'bucket' is now {self._buckets_count}. Rewrite it with rescale_bucket() or with"
                f" mode='overwrite', or set 'bucket' back to {known}."
            )
            raise InvalidInputError(message, kind="buckets_changed", table=self._table)
        if self._is_altered(state):
            # rows of these columns may be added, but existing rows must not be rewritten
            write_only = context.options.updated({declared.WRITE_ONLY.key: "true"})
            context = replace(context, options=write_only)
            self._altered.add(BucketId(partition, bucket))
        total_buckets = self._buckets_count if known is None else known
        if not context.schema.primary_keys:
            return AppendBucketWriter(
                context,
                partition,
                bucket,
                total_buckets=total_buckets,
                live_files=state.files,
                vectors=state.vectors,
            )
        if bucket == POSTPONE_BUCKET:
            return PostponeBucketWriter(context, partition, bucket, total_buckets=total_buckets)
        own = LsmBucketWriter
        if context.options.get(declared.PK_CLUSTERING_OVERRIDE):
            own = ClusteredBucketWriter
        return own(
            context,
            partition,
            bucket,
            total_buckets=total_buckets,
            live_files=state.files,
            vectors=state.vectors,
        )

    def _is_altered(self, state: BucketState) -> bool:
        """Whether files have a newer schema, whose columns a compaction here might drop.

        Another engine altered the table after it was opened here.
        """
        return any(file.schema_id > self._context.schema.id for file in state.files)

    def compaction_parts(
        self, partition: bytes, bucket: int, *, full: bool
    ) -> tuple[tuple[DataFileMeta, ...], ...]:
        """The files that a compaction of a bucket would take; none if it has nothing to do.

        Several parts may be compacted by several writers, see :meth:`compact`. Nothing is written,
        and no state of the bucket is kept.

        Raises
        ------
        InvalidInputError
            The table was altered since it was opened.
        """
        self._check_open()
        writer = self._open(partition, bucket, adds_rows=False)
        self._check_not_altered(partition, bucket)
        parts = writer.compaction_parts(full=full)
        writer.close()
        return parts

    def compact(
        self,
        partition: bytes,
        bucket: int,
        *,
        full: bool,
        names: Collection[str] | None = None,
    ) -> None:
        """Compact one bucket; its files are part of the next messages.

        Parameters
        ----------
        full : bool
            Whether to merge everything.
        names : collection of str, optional
            Only the files of these names: one of several :meth:`compaction_parts`.

        Raises
        ------
        InvalidInputError
            The table was altered since it was opened.
        """
        writer = self._rewriting(partition, bucket)
        if names is None:
            writer.compact(full)
            return
        assert isinstance(writer, AppendBucketWriter), "other buckets have one part"
        writer.compact_part(names)

    def clustering(self, partition: bytes, bucket: int) -> AppendBucketWriter:
        """The writer that clusters rows of a bucket of an append table.

        Its files are part of the next messages.

        Raises
        ------
        InvalidInputError
            The table was altered since it was opened.
        """
        writer = self._rewriting(partition, bucket)
        assert isinstance(writer, AppendBucketWriter), "only append tables are clustered"
        return writer

    def _rewriting(self, partition: bytes, bucket: int) -> BucketWriter:
        """The writer of a bucket whose files are rewritten."""
        self._check_open()
        key = BucketId(partition, bucket)
        writer = self._writers.get(key)
        if writer is None:
            # in a partition that waits for a rescale any bucket is good
            writer = self._open(partition, bucket, adds_rows=False)
            self._writers[key] = writer
        self._check_not_altered(partition, bucket)
        return writer

    def _check_not_altered(self, partition: bytes, bucket: int) -> None:
        if (partition, bucket) in self._altered:
            message = (
                f"Another writer altered table '{self._table}' after it was opened, and a"
                " compaction would drop its new columns: open it again."
            )
            raise InvalidInputError(message, kind="table_altered", table=self._table)

    def prepare_commit(self) -> list[CommitMessage]:
        """Flush all buckets.

        Returns
        -------
        list of CommitMessage
            Of the buckets that changed, in order of (partition, bucket).

        Raises
        ------
        ClosedError
            The writer was closed, or this is a forked child of the process that opened it.
        NotFoundError
            The table was dropped meanwhile.
        """
        self._check_open()
        with self._names_drop():
            return self._flushed()

    def _flushed(self) -> list[CommitMessage]:
        """The messages of all buckets that changed; their files' names are durable."""
        if self._cross_partition is not None:
            for assigned in self._cross_partition.assigned():
                self._route(assigned.rows, assigned.kinds, assigned.buckets)
        if self.full_compactions is not None:
            self._compact_fully(self.full_compactions)
        keys = sorted(self._writers)
        messages = list(self._context.env.executor.map(self._prepared, keys))
        for key in keys:
            self._account(key, self._writers[key])
        if self._dynamic is not None:
            messages = [self._with_index(self._dynamic, message) for message in messages]
        if self._cross_partition is not None and self.base_snapshot_id is not None:
            base = IndexChange(self.base_snapshot_id)
            messages = [replace(m, index=base) if m.new_files else m for m in messages]
        changed = [m for m in messages if not m.is_empty]
        directories = sorted({d for m in changed for d in self._new_names(m)})
        for _ in self._context.env.executor.map(self._context.fileio.sync_dir, directories):
            pass
        return changed

    def _prepared(self, bucket_id: BucketId) -> CommitMessage:
        """The message of a bucket, kept at once because another bucket may fail later."""
        message = self._writers[bucket_id].prepare_commit()
        self._handed_out.append(message)
        return message

    def _compact_fully(self, compactions: FullCompactions) -> None:
        written = set(self._writers)
        chosen = set(compactions.due)
        if compactions.where_written_only:
            chosen &= written
        chosen |= written if compactions.what_is_written else compactions.due_if_written & written
        for bucket_id in sorted(chosen):
            writer = self._writers.get(bucket_id)
            if writer is None:
                writer = self._writers[bucket_id] = self._open(*bucket_id, adds_rows=False)
            if bucket_id not in self._altered:
                writer.compact(full=True)

    def _with_index(self, dynamic: DynamicBuckets, message: CommitMessage) -> CommitMessage:
        """Add the bucket's index to its message; an abort deletes both."""
        whole = dynamic.with_index(message)
        if whole.index is not None and whole.index.file is not None:
            self._handed_out.append(
                CommitMessage(whole.partition, whole.bucket, whole.total_buckets, index=whole.index)
            )
        return whole

    def _new_names(self, message: CommitMessage) -> Iterator[str]:
        """The directories that may hold a new name: of files, and of directories made for them.

        If a bucket or a partition has committed files, its directory was made durable then, by any
        writer. A directory that another writer just made may not be durable yet.
        """
        paths, state = self._context.paths, self._states[message.bucket_id]
        directory = paths.bucket_dir(message.partition, message.bucket)
        if message.made_files:
            yield directory
        new_hashes = message.index is not None and message.index.file is not None
        if new_hashes or (message.deletions is not None and message.deletions.added):
            index_directory = paths.index_dir(message.partition, message.bucket)
            yield index_directory
            yield parent_of(index_directory)
        if not state.files:
            directory = parent_of(directory)
            yield directory
        if state.partition_buckets is None:
            while len(directory) > len(paths.location):
                directory = parent_of(directory)
                yield directory

    def close(self) -> None:
        """Release memory and spill files; prepared files stay, whatever is called afterwards."""
        self._let_go()
        self._handed_out.clear()

    def _names_drop(self) -> AbstractContextManager[None]:
        return names_drop(self._context.fileio, self._context.paths, table=self._table)

    def _check_open(self) -> None:
        self._mark.check(f"This writer of table '{self._table}'")
        if self._closed:
            message = f"The writer of table '{self._table}' is closed; open a new one."
            raise ClosedError(message, kind="writer")

    def _let_go(self) -> None:
        self._closed = True
        with contextlib.ExitStack() as all_of_them:  # an error of one does not keep the rest open
            if self._context.spill_dir is not None and self._mark.is_here:
                all_of_them.callback(shutil.rmtree, self._context.spill_dir, ignore_errors=True)
            while self._writers:
                all_of_them.callback(self._writers.popitem()[1].close)

    def abort(self) -> None:
        """Abort the write and delete its files; does nothing after :meth:`close`.

        Nothing is written after this returns. A forked child deletes nothing: the files are its
        parent's. Interrupts that arrive meanwhile are raised at the end.

        Requires: no commit of its messages took effect or may have taken effect.
        """
        self._context.env.executor.uninterrupted(self._abort)

    def _abort(self) -> None:
        self._let_go()
        if self._mark.is_here:
            delete_new_files(self._context.fileio, self._context.paths, self._handed_out)
        self._handed_out.clear()


def delete_new_files(fileio: FileIO, paths: TablePaths, messages: Iterable[CommitMessage]) -> None:
    """Delete the new files of some messages. One that cannot be deleted stays, a harmless orphan.

    Requires: no commit of the messages took effect or may have taken effect.
    """
    for message in messages:
        names = {name for f in message.made_files for name in (f.file_name, *f.extra_files)}
        for name in sorted(names):
            with contextlib.suppress(StorageError):
                fileio.delete(paths.data_file(message.partition, message.bucket, name))
        indexes = () if message.deletions is None else message.deletions.added
        if message.index is not None and message.index.file is not None:
            indexes += (message.index.file,)
        for index in indexes:
            with contextlib.suppress(StorageError):
                fileio.delete(paths.index_file(message.partition, message.bucket, index.file_name))
