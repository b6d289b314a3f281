"""Writes a DataFrame to a table in one commit: the JVM shuffles, the executors write.

1. The driver makes all checks that need no rows: mode, columns, types, options, and whether this
   commit was made before.
2. Spark brings the rows to the tasks that write their buckets, **one bucket, one task**, by the
   strategy for the table's buckets (:mod:`tidelake.spark.write.bucketing`).
3. Each task runs a :class:`~tidelake.table.write.table_writer.TableWriter` over its Arrow batches
   (:mod:`tidelake.spark.write.write_task`) and returns its commit messages as versioned bytes.
4. The driver collects them and commits once. If Spark ran a task twice, it returns the answer of
   one attempt. Files of failed, retried and speculative attempts have names of their own. No
   snapshot references them, so they are only orphans.

The order in which rows of a DataFrame reach a bucket is undefined: either of two rows of a key may
win, unless ``sequence.field`` decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import date

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as st

from tidelake.engine.metadata import Snapshot
from tidelake.engine.tables import TableHandle
from tidelake.engine.write import (
    ROW_KIND_COLUMN,
    UNKNOWN_COUNTS,
    CommitIdentity,
    EmptyTable,
    FullCompactions,
    Overwrite,
    WriteResult,
    WriteTransaction,
    compact_due,
    full_compactions,
    new_writer,
    write_target,
)
from tidelake.errors import InvalidInputError, TidelakeError
from tidelake.options.bucket_mode import BucketMode
from tidelake.spark.expression.mapped import mapped
from tidelake.spark.expression.moment import moment_column
from tidelake.spark.expression.types import arrow_schema, to_spark_type
from tidelake.spark.write.attempt_guard import one_attempt
from tidelake.spark.write.bucketing import bucketing_of
from tidelake.spark.write.write_task import (
    ANSWER_SCHEMA,
    TaskAnswer,
    Through,
    WriteTask,
    add_answer,
    write_task,
)
from tidelake.types import RowKind
from tidelake.types.conform import conform
from tidelake.types.predicate import Predicate

KIND_UNKNOWN = 127


def check_batch(frame: object, *, table: str, remedy: str) -> None:
    """Refuse a stream where a batch is written; `remedy` says what to call.

    Raises
    ------
    InvalidInputError
        The frame is a stream.
    """
    if isinstance(frame, DataFrame) and frame.isStreaming:
        message = f"The rows for table '{table}' are a stream: {remedy}."
        raise InvalidInputError(message, kind="is_stream", table=table)


def write_frame(
    handle: TableHandle,
    frame: DataFrame,
    *,
    mode: str,
    partition: Mapping[str, object] | None,
    identity: CommitIdentity,
    tasks: int | None,
    replaced: Predicate | None = None,
) -> WriteResult:
    """Write a DataFrame in one commit; see :meth:`tidelake.spark.Lake.write`.

    Parameters
    ----------
    replaced : Predicate, optional
        The partitions that an overwrite replaces, instead of `partition`. Requires: bound, and on
        partition columns alone.
    """
    target = write_target(handle, mode, partition)
    overwrite = target if replaced is None else Overwrite(replaced)
    transaction = WriteTransaction(handle, identity, overwrite=overwrite)
    frame = _with_static_columns(handle, frame, partition)
    check_columns(handle, frame)
    return transaction.run_assigned(_FrameWrite(transaction, frame, tasks))


def write_batch(
    transaction: WriteTransaction, frame: DataFrame, *, tasks: int | None
) -> WriteResult:
    """Write a micro-batch of a stream in one commit of two snapshots at most.

    Due compactions of buckets without new rows are part of the commit; :func:`write_frame` commits
    them later.

    Parameters
    ----------
    frame : DataFrame
        The table's columns, and perhaps ``_row_kind``; the caller has checked them.
    """
    return transaction.run_assigned(_FrameWrite(transaction, frame, tasks, compacts_after=False))


def write_made_rows(
    transaction: WriteTransaction,
    frame: DataFrame,
    *,
    read_snapshot: Snapshot | EmptyTable,
    tasks: int | None,
    through: Through | None = None,
) -> WriteResult:
    """Write rows that were computed from older rows of a primary-key table, in one commit.

    Parameters
    ----------
    frame : DataFrame
        The table's columns and ``_row_kind``; nulls do not become defaults.
    read_snapshot : Snapshot or EmptyTable
        The snapshot of the older rows; a later write of others to their keys is a conflict.
    through : callable, optional
        If given, each row must be in the task that writes it, as after :func:`clustered`; the rows
        pass through it on the executors.
    """
    check_columns(transaction.handle, frame)
    return _FrameWrite(transaction, frame, tasks, read_snapshot, through).attempt()


@dataclass(frozen=True, slots=True)
class _FrameWrite:
    """A write of a DataFrame; parameters as in :func:`write_made_rows`."""

    transaction: WriteTransaction
    frame: DataFrame
    tasks: int | None
    read_snapshot: Snapshot | EmptyTable | None = None
    through: Through | None = None
    compacts_after: bool = True
    """Whether due compactions of other buckets are a separate commit, after the rows' commit; and
    whether rows are sorted by ``clustering.columns``. Micro-batches do neither."""

    def attempt(self) -> WriteResult:
        """Write the rows on the executors and commit."""
        handle, overwrite = self.transaction.handle, self.transaction.overwrite
        base = self.read_snapshot
        base_id = base.id if isinstance(base, Snapshot) else 0
        if base is None:
            base_id = handle.snapshots.latest_id() or 0
        bucketing = bucketing_of(
            handle,
            overwrite=overwrite,
            base_snapshot_id=base_id,
            tasks=self.tasks,
            through=self.through,
            clusters=self.compacts_after,
        )
        rows = bucketing.cluster(_with_kind_bytes(self.frame))
        task = WriteTask.of(
            handle,
            user=self.transaction.identity.user,
            overwrite=overwrite,
            base_snapshot_id=base_id if bucketing.is_assigned else None,
            assigned=bucketing.is_assigned,
            full_compactions=None if overwrite is not None else _of_tasks(handle),
            fills_defaults=base is None,
        )
        run = write_task(task, through=bucketing.through)
        with one_attempt(table=handle.identifier) if task.assigned else nullcontext():
            answer = TaskAnswer.gather(mapped(rows, run, ANSWER_SCHEMA).collect())
        if not self.compacts_after and not answer.errors:
            answer = _with_due_messages(handle, answer)
        with self.transaction as out:
            add_answer(out, answer, base_snapshot_id=base_id)
            bucketing.check(answer)
            counts = None if base is None else UNKNOWN_COUNTS
            result = out.commit(read_snapshot=base, counts=counts)
        if overwrite is not None or not self.compacts_after:
            return result
        return _with_due_compactions(handle, result)


def _of_tasks(handle: TableHandle) -> FullCompactions | None:
    """The full compactions that tasks carry out: none where several of them write one bucket."""
    return None if handle.bucket_mode is BucketMode.UNBUCKETED else full_compactions(handle)


def _with_due_messages(handle: TableHandle, answer: TaskAnswer) -> TaskAnswer:
    """Compact, on the driver, the due buckets that no task did, as a part of the commit.

    The rows do not depend on it: after a failure the next batch finds the buckets due again.
    """
    due = full_compactions(handle)
    left = frozenset() if due is None else due.due
    if handle.bucket_mode is not BucketMode.UNBUCKETED:
        left -= {m.bucket_id for m in answer.messages}
    if not left or not answer.messages:
        return answer
    writer = new_writer(handle)
    try:
        for bucket_id in sorted(left):
            writer.compact(*bucket_id, full=True)
        made = writer.prepare_commit()
    except TidelakeError:
        writer.abort()
        return answer
    except BaseException:
        writer.abort()
        raise
    writer.close()
    return replace(answer, messages=(*answer.messages, *made))


def _with_due_compactions(handle: TableHandle, written: WriteResult) -> WriteResult:
    """Compact, on the driver, the due buckets that no task did, after the rows' commit."""
    try:
        compacted = compact_due(handle)
    except TidelakeError:
        return replace(written, compactions_dropped=written.compactions_dropped + 1)
    return replace(
        written,
        snapshot_ids=(*written.snapshot_ids, *compacted.snapshot_ids),
        files=written.files + compacted.files,
        bytes=written.bytes + compacted.bytes,
        compactions_dropped=written.compactions_dropped + compacted.compactions_dropped,
    )


def _with_static_columns(
    handle: TableHandle, frame: DataFrame, partition: Mapping[str, object] | None
) -> DataFrame:
    for name, value in (partition or {}).items():
        if name not in frame.columns:
            spark_type = to_spark_type(handle.schema.field(name).type, column=name)
            literal = moment_column(value) if isinstance(value, date) else F.lit(value)
            frame = frame.withColumn(name, literal.cast(spark_type))
    return frame


def check_columns(handle: TableHandle, frame: DataFrame) -> None:
    """Refuse missing, unknown and retyped columns before the job, by the kernel's rule."""
    data = [f for f in frame.schema.fields if f.name != ROW_KIND_COLUMN]
    arrow = arrow_schema(st.StructType(data))
    conform(arrow.empty_table(), handle.schema.fields, table=handle.identifier)
    kinds = [f.dataType for f in frame.schema.fields if f.name == ROW_KIND_COLUMN]
    if kinds and not isinstance(kinds[0], (st.StringType, st.IntegralType)):
        message = (
            f"Column '{ROW_KIND_COLUMN}' of the data for table '{handle.identifier}' is"
            f" {kinds[0].simpleString()}: give text, one of +I, -U, +U, -D."
        )
        raise InvalidInputError(message, kind="row_kind", table=handle.identifier)


def _with_kind_bytes(frame: DataFrame) -> DataFrame:
    """Encode row kinds as bytes, which are smaller than text."""
    kinds = frame.schema[ROW_KIND_COLUMN] if ROW_KIND_COLUMN in frame.columns else None
    if kinds is None or not isinstance(kinds.dataType, st.StringType):
        return frame
    text = F.upper(F.col(ROW_KIND_COLUMN))
    number = F.when(text.isNull(), F.lit(None))
    for kind in RowKind:
        number = number.when(text == str(kind), F.lit(int(kind)))
    return frame.withColumn(ROW_KIND_COLUMN, number.otherwise(KIND_UNKNOWN).cast("tinyint"))
