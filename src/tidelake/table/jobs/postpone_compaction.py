"""Gives the rows of the postpone bucket their real buckets, so that readers see them.

1. A partition has the number of buckets that its real files were written with; one that has none
   yet gets ``postpone.default-bucket-num``.
2. Its waiting files are read one after the other, by time of creation, unmerged and with their
   kinds: the writes are replayed in order. The rows go to ordinary bucket writers, which number and
   merge them, and compact where it is due.
3. One COMPACT snapshot removes the waiting files and adds the rest: all of it or nothing. A waiting
   file that came in between stays for the next time.

Source: Paimon's ``CompactAction.buildForPostponeBucketCompaction`` and
``PostponeBucketCommittableRewriter`` (1.3.1); the order of files is that of its
``PostponeBucketCompactSplitSource``. Files that a compaction of this very job used up are deleted
after the commit and not before it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidelake.commit import Committed
from tidelake.errors import (
    InvalidInputError,
    OutcomeUnknownError,
    StorageError,
    TidelakeError,
    UnsupportedError,
)
from tidelake.format import KIND_FIELD, kv_fields, read_batches
from tidelake.metadata.bucket_id import BucketId
from tidelake.metadata.data_file import CommitMessage, DataFileMeta
from tidelake.metadata.log.snapshot import CommitKind, Snapshot
from tidelake.metadata.paths import POSTPONE_BUCKET
from tidelake.options import declared
from tidelake.scan import BucketFiles, ReadContext, live_buckets
from tidelake.table.handle.handle import TableHandle
from tidelake.table.jobs.compaction import Chosen
from tidelake.table.write.table_writer import FullCompactions, delete_new_files
from tidelake.table.write.write import CommitIdentity, WriteResult, check_writable, new_writer

__all__ = [
    "PostponedPartition",
    "check_not_altered",
    "compact_postponed",
    "postponed_partitions",
    "postponed_rows",
    "publish_moved",
    "with_real_buckets",
]

Batches = Iterator[tuple[pa.RecordBatch, np.ndarray]]


@dataclass(frozen=True, slots=True)
class PostponedPartition:
    """What waits in one partition, and where it goes.

    Parameters
    ----------
    partition : bytes
        Serialized BinaryRow.
    waiting : tuple of DataFileMeta
        Files of the postpone bucket, in the order they are replayed; may be none.
    buckets_count : int
        Number of real buckets.
    buckets : tuple of int
        Those that have files.
    """

    partition: bytes
    waiting: tuple[DataFileMeta, ...]
    buckets_count: int
    buckets: tuple[int, ...]

    @property
    def removal(self) -> CommitMessage:
        """The message that removes the waiting files."""
        return CommitMessage(
            self.partition, POSTPONE_BUCKET, POSTPONE_BUCKET, compact_before=self.waiting
        )


def postponed_partitions(
    handle: TableHandle, snapshot: Snapshot, chosen: Chosen
) -> list[PostponedPartition]:
    """The partitions of a snapshot that are asked for.

    Raises
    ------
    UnsupportedError
        Single buckets are asked for: what waits has none yet.
    """
    if chosen.buckets is not None:
        message = (
            f"The rows that wait in the postpone bucket of table '{handle.identifier}' have no"
            " buckets yet: leave buckets= out, or name partitions."
        )
        raise UnsupportedError(message, kind="compact_buckets", table=handle.identifier)
    default = handle.options.get(declared.POSTPONE_DEFAULT_BUCKET_NUM)
    by_partition: dict[bytes, list[BucketFiles]] = {}
    for bucket in live_buckets(handle.read_context(), snapshot, manifests=handle.manifests):
        by_partition.setdefault(bucket.partition, []).append(bucket)
    found = []
    inside = chosen.of_partitions(handle, list(by_partition))
    for partition, buckets in by_partition.items():
        if partition not in inside:
            continue
        real = [b for b in buckets if b.bucket >= 0]
        waiting = [f for b in buckets if b.bucket == POSTPONE_BUCKET for f in b.files]
        found.append(
            PostponedPartition(
                partition,
                # stable: of one instant, the order of the manifests
                tuple(sorted(waiting, key=lambda f: f.creation_time_ms or 0)),
                real[0].total_buckets if real else default,
                tuple(b.bucket for b in real),
            )
        )
    return found


def postponed_rows(
    context: ReadContext, partition: bytes, files: Iterable[DataFileMeta]
) -> Batches:
    """Rows of waiting files and their kinds, in the order they were written."""
    for file in files:
        schema = context.file_schema(file.schema_id, file_name=file.file_name)
        for batch in read_batches(
            context.fileio,
            context.paths.data_file(partition, POSTPONE_BUCKET, file),
            (*context.schema.fields, KIND_FIELD),
            file_fields=kv_fields(schema),
            file_size_bytes=file.file_size_bytes,
            row_count=file.row_count,
            batch_bytes=context.env.memory.batch_bytes,
        ):
            kinds = batch.column(KIND_FIELD.name).to_numpy().astype(np.int8)
            yield batch.drop_columns([KIND_FIELD.name]), kinds


def with_real_buckets(handle: TableHandle, buckets_count: int) -> TableHandle:
    """The table as one of fixed buckets, whose writers compact."""
    real = {declared.BUCKET.key: str(buckets_count), declared.WRITE_ONLY.key: "false"}
    return handle.with_options(handle.options.updated(real))


def compact_postponed(handle: TableHandle, chosen: Chosen, *, full: bool) -> WriteResult:
    """Move the waiting rows and compact the real buckets; one commit."""
    check_writable(handle)
    snapshot = handle.snapshots.latest()
    if snapshot is None:
        return WriteResult()
    partitions = postponed_partitions(handle, snapshot, chosen)
    messages: list[CommitMessage] = []
    rows_count = 0
    try:
        for count in sorted({p.buckets_count for p in partitions}):
            own = [p for p in partitions if p.buckets_count == count]
            rows, made = _move(with_real_buckets(handle, count), own, full=full)
            rows_count += rows
            messages += made
    except BaseException:
        delete_new_files(handle.fileio, handle.paths, messages)
        raise
    return publish_moved(handle, partitions, messages, rows_count=rows_count)


def _move(
    handle: TableHandle, partitions: Sequence[PostponedPartition], *, full: bool
) -> tuple[int, list[CommitMessage]]:
    """Write the rows of partitions with one number of buckets."""
    context = handle.read_context()
    check_not_altered(handle, partitions)
    writer = new_writer(handle)
    try:
        for partition in partitions:
            for batch, kinds in postponed_rows(context, partition.partition, partition.waiting):
                writer.write(batch, kinds)
        places = [BucketId(p.partition, bucket) for p in partitions for bucket in p.buckets]
        if full:  # with them the buckets that rows begin just now
            writer.full_compactions = FullCompactions(frozenset(places), what_is_written=True)
        else:
            for place in places:
                writer.compact(*place, full=False)
        messages = writer.prepare_commit()
    except BaseException:
        writer.abort()
        raise
    writer.close()
    return writer.rows_count, messages


def check_not_altered(handle: TableHandle, partitions: Sequence[PostponedPartition]) -> None:
    """Refuse waiting rows with columns that the table did not have when it was opened.

    Raises
    ------
    InvalidInputError
        There are some.
    """
    newest = max((f.schema_id for p in partitions for f in p.waiting), default=0)
    if newest > handle.schema.id:
        message = (
            f"Table '{handle.identifier}' was altered by another writer since it was opened, and"
            " rows that wait in its postpone bucket would lose their new columns: open it again."
        )
        raise InvalidInputError(message, kind="table_altered", table=handle.identifier)


def publish_moved(
    handle: TableHandle,
    partitions: Sequence[PostponedPartition],
    messages: Sequence[CommitMessage],
    *,
    rows_count: int,
) -> WriteResult:
    """Commit what writers of real buckets made of the waiting rows, and remove these.

    Parameters
    ----------
    partitions : sequence of PostponedPartition
        What was moved.
    messages : sequence of CommitMessage
        Of the writers.
    rows_count : int
        Rows moved.

    Raises
    ------
    ConflictError
        A waiting file was moved by another job, or a real bucket was changed: nothing was done.
    """
    moved = [_as_compaction(m) for m in messages]
    removals = [p.removal for p in partitions if p.waiting]
    identity = CommitIdentity.of(handle, None, None)
    try:
        committed: Committed = handle.committer().commit(
            [*moved, *removals],
            user=identity.user,
            identifier=identity.identifier,
            kind=CommitKind.COMPACT,
            all_or_nothing=True,
        )
    except OutcomeUnknownError:
        raise
    except TidelakeError:
        delete_new_files(handle.fileio, handle.paths, messages)
        raise
    _delete_used_up(handle, messages, moved)
    files = [f for m in moved for f in m.compact_after]
    return WriteResult(
        snapshot_ids=tuple(s.id for s in committed.snapshots),
        rows=rows_count,
        files=len(files),
        bytes=sum(f.file_size_bytes for f in files),
    )


def _as_compaction(message: CommitMessage) -> CommitMessage:
    """The same with new files as the result of a compaction: no reader sees the steps between."""
    used_up = {f.file_name for f in message.compact_before}
    new = {f.file_name for f in message.new_files}
    return CommitMessage(
        message.partition,
        message.bucket,
        message.total_buckets,
        compact_before=tuple(f for f in message.compact_before if f.file_name not in new),
        compact_after=(
            *(f for f in message.new_files if f.file_name not in used_up),
            *message.compact_after,
        ),
        compact_changelog=(*message.changelog, *message.compact_changelog),
        deletions=message.deletions,
        compact_seen=message.compact_seen,
    )


def _delete_used_up(
    handle: TableHandle, written: Sequence[CommitMessage], moved: Sequence[CommitMessage]
) -> None:
    """Delete files that were written and compacted away in one go: no snapshot names them."""
    for before, after in zip(written, moved, strict=True):
        kept = {f.file_name for f in after.compact_after}
        for file in before.new_files:
            if file.file_name not in kept:
                path = handle.paths.data_file(before.partition, before.bucket, file)
                with contextlib.suppress(StorageError):  # an orphan is no harm
                    handle.fileio.delete(path)
