"""Moves the rows of the postpone bucket to real buckets, so that readers see them.

1. A partition keeps the number of buckets of its real files; a new one gets
   ``postpone.default-bucket-num``.
2. Its waiting files are read one after the other, by time of creation, unmerged and with their
   kinds: the writes are replayed in order. Ordinary bucket writers number and merge the rows, and
   compact when due.
3. Buckets that got no rows are compacted like those of any table
   (:mod:`tidelake.table.jobs.compaction`).
4. One COMPACT snapshot removes the waiting files and adds the new ones, all or nothing. A waiting
   file that came in between stays for the next run.

Step 2 is a :class:`Mover`'s: here one writer after the other, on Spark a shuffle by bucket
(:mod:`tidelake.spark.write.postpone_compaction`).

Source: Paimon's ``CompactAction.buildForPostponeBucketCompaction`` and
``PostponeBucketCommittableRewriter`` (1.3.1); the order of files is that of its
``PostponeBucketCompactSplitSource``. Files that a compaction of this job itself replaced are
deleted after the commit, not before.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from tidelake.errors import InvalidInputError, StorageError, UnsupportedError
from tidelake.format import KIND_FIELD, ReadAhead, kv_fields, read_batches
from tidelake.metadata.bucket_id import BucketId
from tidelake.metadata.data_file import CommitMessage, DataFileMeta
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.paths import POSTPONE_BUCKET
from tidelake.options import declared
from tidelake.scan import BucketFiles, ReadContext, live_buckets
from tidelake.table.handle.handle import TableHandle
from tidelake.table.job.plan import HERE, Gathered, Runner
from tidelake.table.jobs.compaction import Chosen, plan_compaction
from tidelake.table.schema.constraints import unchecked
from tidelake.table.write.new_writer import new_writer
from tidelake.table.write.result import WriteResult
from tidelake.table.write.table_writer import FullCompactions
from tidelake.table.write.transaction import WriteTransaction
from tidelake.table.write.writable import check_writable

Batches = Iterator[tuple[pa.RecordBatch, np.ndarray]]


@dataclass(frozen=True, slots=True)
class PostponedPartition:
    """The waiting rows of one partition, and their real buckets.

    Parameters
    ----------
    waiting : tuple of DataFileMeta
        Files of the postpone bucket, in replay order; may be empty.
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
    """The wanted partitions of a snapshot.

    Raises
    ------
    UnsupportedError
        Single buckets are wanted: waiting rows have none yet.
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
                # stable: the order of the manifests where times are equal
                tuple(sorted(waiting, key=lambda f: f.creation_time_ms or 0)),
                real[0].total_buckets if real else default,
                tuple(b.bucket for b in real),
            )
        )
    return found


def by_buckets_count(
    partitions: Sequence[PostponedPartition],
) -> Iterator[tuple[int, list[PostponedPartition]]]:
    """Partitions by their number of buckets: each number needs its own writers."""
    for count in sorted({p.buckets_count for p in partitions}):
        yield count, [p for p in partitions if p.buckets_count == count]


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
            ahead=ReadAhead.of(context.env),
            table=context.paths.location,
        ):
            kinds = batch.column(KIND_FIELD.name).to_numpy().astype(np.int8)
            yield batch.drop_columns([KIND_FIELD.name]), kinds


def with_real_buckets(handle: TableHandle, buckets_count: int) -> TableHandle:
    """The table as one of fixed buckets, whose writers compact."""
    options = {declared.BUCKET.key: str(buckets_count), declared.WRITE_ONLY.key: "false"}
    real = handle.with_options(unchecked(handle.options).updated(options))
    check_writable(real)
    return real


class Mover(Protocol):
    """Writes the waiting rows of partitions with one number of buckets."""

    def __call__(
        self,
        into: Gathered,
        partitions: Sequence[PostponedPartition],
        compactions: FullCompactions | None,
    ) -> None:
        """Write them to real buckets.

        Parameters
        ----------
        compactions : FullCompactions, optional
            The buckets that are compacted fully behind their new rows.
        """
        ...


def compact_postponed(
    handle: TableHandle,
    chosen: Chosen,
    *,
    full: bool,
    runner: Runner = HERE,
    move: Mover | None = None,
) -> WriteResult:
    """Move the waiting rows and compact the real buckets; one commit."""
    with WriteTransaction(handle) as out:
        snapshot = handle.snapshots.latest()
        if snapshot is None:
            return WriteResult()
        partitions = postponed_partitions(handle, snapshot, chosen)
        check_not_altered(handle, partitions)
        moved = out.take(MovedRows(handle, partitions))
        for count, some in by_buckets_count([p for p in partitions if p.waiting]):
            real = moved.at(with_real_buckets(handle, count))
            compactions = FullCompactions(frozenset(), what_is_written=True) if full else None
            (move or _move)(real, some, compactions)
        # buckets without new rows, which keep their number
        real = moved.at(with_real_buckets(handle, 1))
        plan = plan_compaction(real.handle, chosen, full=full, without=moved.buckets)
        runner.run(plan, real)
        return moved.commit(out)


def _move(
    into: Gathered,
    partitions: Sequence[PostponedPartition],
    compactions: FullCompactions | None,
) -> None:
    """Write the rows in this process."""
    context = into.handle.read_context()
    with into.writing(new_writer(into.handle)) as writer:
        for partition in partitions:
            for batch, kinds in postponed_rows(context, partition.partition, partition.waiting):
                writer.write(batch, kinds)
        writer.full_compactions = compactions


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
            f"Another writer altered table '{handle.identifier}' after it was opened, and rows"
            " that wait in its postpone bucket would lose their new columns: open it again."
        )
        raise InvalidInputError(message, kind="table_altered", table=handle.identifier)


class MovedRows:
    """The output of a move: the source of its messages."""

    base_snapshot_id: int | None = None

    def __init__(self, handle: TableHandle, partitions: Sequence[PostponedPartition]) -> None:
        self._handle = handle
        self._removals = [p.removal for p in partitions if p.waiting]
        self._parts: list[Gathered] = []

    def at(self, real: TableHandle) -> Gathered:
        """Make a place for what writers of real buckets write."""
        self._parts.append(Gathered(real))
        return self._parts[-1]

    @property
    def rows_count(self) -> int:
        """Waiting rows that were written."""
        return sum(part.rows_count for part in self._parts)

    @property
    def written(self) -> list[CommitMessage]:
        """The messages of all writers."""
        return [message for part in self._parts for message in part.messages]

    @property
    def buckets(self) -> frozenset[BucketId]:
        """The real buckets that were written to."""
        return frozenset(message.bucket_id for message in self.written)

    def prepare_commit(self) -> list[CommitMessage]:
        """The real buckets' files as compacted ones, and the removal of the waiting files."""
        return [*map(_as_compaction, self.written), *self._removals]

    def close(self) -> None:
        """Release what the writers hold."""
        for part in self._parts:
            part.close()

    def abort(self) -> None:
        """Delete the new files. Interrupts that arrive meanwhile are raised at the end."""
        self._handle.env.executor.uninterrupted(self._abort)

    def _abort(self) -> None:
        with contextlib.ExitStack() as all_of_them:
            for part in self._parts:
                all_of_them.callback(part.abort)

    def commit(self, transaction: WriteTransaction) -> WriteResult:
        """Commit all of it or nothing.

        Raises
        ------
        ConflictError
            Another job moved a waiting file, or a real bucket changed; nothing was committed.
        """
        result = transaction.commit_compactions(all_or_nothing=True, fails_if_all_lost=False)
        _delete_used_up(self._handle, self.written)
        return result


def _as_compaction(message: CommitMessage) -> CommitMessage:
    """The message with its new files as the result of a compaction: readers see no step between."""
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


def _delete_used_up(handle: TableHandle, written: Sequence[CommitMessage]) -> None:
    """Delete files that this job wrote and compacted away: no snapshot names them."""
    for message in written:
        kept = {f.file_name for f in _as_compaction(message).compact_after}
        for file in message.new_files:
            if file.file_name not in kept:
                path = handle.paths.data_file(message.partition, message.bucket, file)
                with contextlib.suppress(StorageError):  # an orphan does no harm
                    handle.fileio.delete(path)
