"""Compaction as a job on Spark: the driver plans, executors compact, the driver commits once.

1. The driver plans from metadata (:mod:`tidelake.table.jobs.compaction`): one part for each bucket
   that needs a compaction; in an append table without buckets, one for each bin of small files.
2. Each part is a task. If `tasks` is given, the parts are shared among them, the largest first,
   each to the task with the least bytes. A task compacts one part after the other within its
   memory, and returns commit messages.
3. The driver collects the messages and commits once. If Spark ran a task twice, it returns the
   answer of one attempt; no snapshot references files of the others. If another commit changed a
   bucket meanwhile, only that bucket is left out.

A task compacts the files that its bucket has when the task begins, so a commit after the plan is no
conflict. Bins keep the files of the plan.

Rows of the postpone bucket get their buckets first
(:mod:`tidelake.spark.write.postpone_compaction`), in a commit of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import SparkSession

from tidelake.errors import StorageError, TidelakeError
from tidelake.metadata.data_file import CommitMessage
from tidelake.metadata.paths import POSTPONE_BUCKET
from tidelake.options import declared
from tidelake.spark.expression.mapped import in_workers
from tidelake.spark.read.scan_frame import pack_tasks
from tidelake.spark.write.postpone_compaction import compact_postponed_on_spark
from tidelake.spark.write.write_task import (
    ANSWER_SCHEMA,
    TaskAnswer,
    add_answer,
    answer_rows,
    for_task,
    in_task,
)
from tidelake.table.handle.handle import TableHandle
from tidelake.table.jobs.compaction import (
    Chosen,
    CompactionPart,
    PlannedCompaction,
    plan_compaction,
)
from tidelake.table.jobs.postpone_compaction import with_real_buckets
from tidelake.table.write.new_writer import new_writer
from tidelake.table.write.result import WriteResult, joined
from tidelake.table.write.table_writer import delete_new_files
from tidelake.table.write.transaction import WriteTransaction


@dataclass(frozen=True, slots=True)
class CompactionTask:
    """The settings of the tasks. Picklable.

    Parameters
    ----------
    shares : tuple of tuple of CompactionPart
        The parts of each task.
    full : bool
        Whether to compact all files of a bucket.
    snapshot_id : int
        The snapshot of the plan.
    """

    handle: TableHandle
    shares: tuple[tuple[CompactionPart, ...], ...]
    full: bool
    snapshot_id: int


def compact_on_spark(
    spark: SparkSession,
    handle: TableHandle,
    chosen: Chosen,
    *,
    full: bool,
    tasks: int | None,
) -> WriteResult:
    """Compact the buckets that need it; see :meth:`tidelake.spark.Lake.compact`."""
    if handle.options.get(declared.BUCKET) != POSTPONE_BUCKET:
        return _compact(spark, handle, chosen, full=full, tasks=tasks, fails_if_lost=True)
    moved = compact_postponed_on_spark(spark, handle, chosen, tasks=tasks)
    # existing buckets keep their number
    real = with_real_buckets(handle, 1)
    compacted = _compact(
        spark, real, chosen, full=full, tasks=tasks, fails_if_lost=not moved.snapshot_ids
    )
    return joined([moved, compacted])


def _compact(
    spark: SparkSession,
    handle: TableHandle,
    chosen: Chosen,
    *,
    full: bool,
    tasks: int | None,
    fails_if_lost: bool,
) -> WriteResult:
    """Compact the buckets that need it; with `fails_if_lost` raise if others took all of them."""
    transaction = WriteTransaction(handle)
    snapshot = handle.snapshots.latest()
    if snapshot is None:
        return WriteResult()
    planner = new_writer(handle, base_snapshot_id=snapshot.id)
    try:
        plan = plan_compaction(handle, snapshot, planner, chosen, full=full)
    finally:
        planner.close()
    if not plan.parts:
        return WriteResult()
    return _carried_out(
        spark, transaction, plan, full=full, tasks=tasks, fails_if_lost=fails_if_lost
    )


def compact_planned_on_spark(
    spark: SparkSession, handle: TableHandle, plan: PlannedCompaction, *, tasks: int
) -> WriteResult:
    """Run a planned compaction of some files in at most `tasks` tasks and one commit.

    Raises
    ------
    ConflictError
        Other commits took all of the files; nothing was committed.
    """
    transaction = WriteTransaction(handle)
    return _carried_out(spark, transaction, plan, full=False, tasks=tasks, fails_if_lost=True)


def _carried_out(
    spark: SparkSession,
    transaction: WriteTransaction,
    plan: PlannedCompaction,
    *,
    full: bool,
    tasks: int | None,
    fails_if_lost: bool,
) -> WriteResult:
    """Compact the parts of a plan, and commit."""
    packed = pack_tasks(plan.parts, count=tasks or len(plan.parts), cost=0)
    shares = tuple(map(tuple, packed))
    task = CompactionTask(for_task(transaction.handle), shares, full, plan.snapshot_id)
    numbers = spark.range(0, len(shares), 1, len(shares))
    answer = TaskAnswer.gather(in_workers(numbers, _compact_share(task), ANSWER_SCHEMA).collect())
    with transaction as out:
        add_answer(out, answer, base_snapshot_id=plan.snapshot_id)
        return out.commit_compactions(fails_if_all_lost=fails_if_lost)


def _compact_share(
    task: CompactionTask,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the function for executors."""

    def run(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        messages: list[CommitMessage] = []
        handle = in_task(task.handle)
        try:
            for batch in numbers:
                for number in batch.column(0).to_pylist():  # one share for each task
                    for part in task.shares[number]:
                        messages += _compact_part(handle, task, part)
        except StorageError:
            delete_new_files(handle.fileio, handle.paths, messages)
            raise  # Spark retries the task
        except TidelakeError as error:
            delete_new_files(handle.fileio, handle.paths, messages)
            yield answer_rows(error=error)
            return
        yield answer_rows(messages=messages)

    return run


def _compact_part(
    handle: TableHandle, task: CompactionTask, part: CompactionPart
) -> list[CommitMessage]:
    """Compact one part with its own writer, which frees its memory before the next part."""
    as_planned = None if part.names is None else task.snapshot_id
    writer = new_writer(handle, base_snapshot_id=as_planned)
    try:
        writer.compact(part.partition, part.bucket, full=task.full, names=part.names)
        messages = writer.prepare_commit()
    except BaseException:
        writer.abort()
        raise
    writer.close()
    return messages
