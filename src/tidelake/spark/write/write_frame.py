"""A DataFrame into a table in one commit: clustered by the JVM, written on the executors.

1. The driver checks what it can before anything runs: mode, columns, types, options, and whether
   this commit was made before.
2. Tables with buckets: each row's task is a Spark SQL expression of its partition and bucket
   (:mod:`tidelake.spark.expression.bucket_expression`), and the rows are shuffled to it: **one
   bucket, one task**, so that sequence numbers of a bucket come from one writer. Append tables
   without buckets are not shuffled. Dynamic buckets are looked up first
   (:mod:`tidelake.spark.write.dynamic_bucket_assigner`), and so are the places of keys that may
   move between partitions (:mod:`tidelake.spark.write.cross_partition_assigner`).
3. Each task runs a :class:`~tidelake.table.write.table_writer.TableWriter` over its Arrow batches
   (:mod:`tidelake.spark.write.write_task`) and gives back its commit messages as versioned bytes.
4. The driver collects them (of a task that was tried twice, Spark gives the answer of one
   attempt) and commits once. Files of failed, retried and speculative attempts have names of
   their own and are never referenced: orphans, nothing more.

The order in which rows of one DataFrame reach a bucket is not defined: of two rows of one key
either may win, unless ``sequence.field`` decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as st
from pyspark.sql.pandas.types import to_arrow_schema as pyspark_arrow_schema

from tidelake.commit import Committed
from tidelake.errors import InvalidInputError, OutcomeUnknownError, TidelakeError
from tidelake.metadata.data_file import CommitMessage
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.paths import POSTPONE_BUCKET
from tidelake.options import declared
from tidelake.options.bucket_mode import is_dynamic
from tidelake.spark.expression.expression import mapped
from tidelake.spark.expression.types import to_spark_type
from tidelake.spark.write.attempt_guard import check_one_attempt, one_attempt
from tidelake.spark.write.clustering import TASK_COLUMN, clustering_column, tasks_count
from tidelake.spark.write.cross_partition_assigner import moved_rows
from tidelake.spark.write.dynamic_bucket_assigner import assigned_rows, check_one_bucket_per_key
from tidelake.spark.write.write_task import (
    ANSWER_SCHEMA,
    TaskAnswer,
    Through,
    WriteTask,
    write_task,
)
from tidelake.table.conversion.inputs import ROW_KIND_COLUMN
from tidelake.table.handle.handle import TableHandle
from tidelake.table.handle.partition_spec import partition_predicate
from tidelake.table.write.delta_commits_trigger import full_compactions
from tidelake.table.write.table_writer import delete_new_files
from tidelake.table.write.write import (
    UNKNOWN_COUNTS,
    CommitIdentity,
    WriteResult,
    assigned_anew,
    check_writable,
    compact_due,
    compacted_again,
    replay_of,
    written_counts,
)
from tidelake.types import RowKind
from tidelake.types.conform import conform
from tidelake.types.predicate import Predicate

__all__ = [
    "check_columns",
    "clustered",
    "publish",
    "result_of",
    "write_frame",
    "write_made_rows",
]

KIND_UNKNOWN = 127


@dataclass(frozen=True, slots=True)
class _Target:
    """What is replaced: nothing, partitions by a predicate, those that rows come for, or all."""

    overwrite: bool = False
    static: Predicate | None = None
    dynamic: bool = False


def write_frame(
    handle: TableHandle,
    frame: DataFrame,
    *,
    mode: str,
    partition: Mapping[str, object] | None,
    identity: CommitIdentity,
    tasks: int | None,
) -> WriteResult:
    """Write a DataFrame in one commit; see :meth:`tidelake.spark.Lake.write`."""
    target = _target(handle, mode, partition)
    check_writable(handle)
    frame = _with_static_columns(handle, frame, partition)
    check_columns(handle, frame)
    if (done := replay_of(handle, identity)) is not None:
        return done
    return assigned_anew(
        handle, identity, lambda: _write_once(handle, frame, target, identity, tasks)
    )


def write_made_rows(
    handle: TableHandle,
    frame: DataFrame,
    *,
    made_from: Snapshot,
    identity: CommitIdentity,
    tasks: int | None,
    in_place: Through | None = None,
) -> WriteResult:
    """Write rows of a primary-key table that were made from older ones, in one commit.

    Parameters
    ----------
    frame : DataFrame
        The table's columns and ``_row_kind``; nulls stay what they are.
    made_from : Snapshot
        What the older rows were read from: it is a conflict if others wrote to their keys since.
    handle, identity, tasks
        As of :func:`write_frame`.
    in_place : callable, optional
        Says that each row is in the partition that writes it, as by :func:`clustered`; the rows go
        through it on the executors.
    """
    check_columns(handle, frame)
    return _write_once(
        handle, frame, _Target(), identity, tasks, made_from=made_from, in_place=in_place
    )


def _write_once(
    handle: TableHandle,
    frame: DataFrame,
    target: _Target,
    identity: CommitIdentity,
    tasks: int | None,
    *,
    made_from: Snapshot | None = None,
    in_place: Through | None = None,
) -> WriteResult:
    tasks = tasks or handle.options.get(declared.SINK_PARALLELISM)
    base_snapshot_id = handle.snapshots.latest_id() or 0
    if made_from is not None:
        base_snapshot_id = made_from.id
    # rows that are given their places before they are written
    assigned = is_dynamic(handle.options, has_primary_key=bool(handle.schema.primary_keys))
    rows = _with_kind_bytes(frame)
    if handle.schema.keys_may_move:
        rows = moved_rows(
            handle,
            rows,
            tasks=tasks,
            base_snapshot_id=None if target.overwrite else base_snapshot_id,
            takes_rows=target.static is None and not target.dynamic,
        )
    elif assigned:
        index_of = None if target.overwrite else base_snapshot_id
        rows = assigned_rows(handle, rows, tasks=tasks, base_snapshot_id=index_of)
    elif in_place is None:
        rows = clustered(handle, rows, tasks)
    task = WriteTask.of(
        handle,
        user=identity.user,
        overwrite=target.overwrite,
        static=target.static,
        base_snapshot_id=base_snapshot_id if assigned else None,
        assigned=assigned,
        full_compactions=None if target.overwrite else full_compactions(handle),
        fills_defaults=made_from is None,
    )
    with one_attempt(table=handle.identifier) if assigned else nullcontext():
        collected = mapped(rows, write_task(task, through=in_place), ANSWER_SCHEMA).collect()
    answer = TaskAnswer.gather(collected)
    try:
        if answer.errors:
            raise answer.errors[0]
        check_one_attempt(answer.heard, table=handle.identifier)
        _check_one_task_per_bucket(handle, answer.messages)
        if assigned and not handle.schema.keys_may_move:
            check_one_bucket_per_key(handle, answer.messages)
        committed = publish(
            handle,
            answer.messages,
            identity=identity,
            overwrite=target.overwrite,
            partitions="dynamic" if target.dynamic else target.static,
            base_snapshot_id=base_snapshot_id,
            made_from=made_from,
        )
    except OutcomeUnknownError:
        raise
    except TidelakeError:
        # the committer's promise: no row became visible. Any other exception may have come at a
        # moment that nobody knows, so the files stay
        delete_new_files(handle.fileio, handle.paths, answer.messages)
        raise
    result = result_of(committed, answer)
    counts = written_counts(handle, result.rows) if made_from is None else UNKNOWN_COUNTS
    if target.overwrite:
        return replace(counts, deleted=None).of(result)
    result = counts.of(result)
    if result.compactions_dropped:
        places = [m.bucket_id for m in answer.messages if m.compact_before]
        result = compacted_again(handle, result, places)
    return _with_due_compactions(handle, result)


def _with_due_compactions(handle: TableHandle, written: WriteResult) -> WriteResult:
    """Compact, on the driver, the due buckets that no task had rows of; the rows are safe."""
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


def publish(
    handle: TableHandle,
    messages: Sequence[CommitMessage],
    *,
    identity: CommitIdentity,
    overwrite: bool,
    partitions: Predicate | str | None,
    base_snapshot_id: int,
    made_from: Snapshot | None = None,
) -> Committed:
    """Commit the messages of all tasks at once.

    Parameters
    ----------
    overwrite : bool
        Whether what is there is replaced.
    partitions : Predicate, 'dynamic' or None
        With `overwrite`, what: see :meth:`tidelake.commit.Committer.overwrite`.
    base_snapshot_id : int
        The newest snapshot before the first task began; 0 for none.
    made_from : Snapshot, optional
        What rows were made from, see :meth:`tidelake.commit.Committer.commit`.
    """
    committer = handle.committer()
    if overwrite:
        return committer.overwrite(
            messages,
            user=identity.user,
            identifier=identity.identifier,
            partitions=partitions,
        )
    return committer.commit(
        messages,
        user=identity.user,
        identifier=identity.identifier,
        base_snapshot_id=base_snapshot_id,
        read_snapshot=made_from,
    )


def result_of(committed: Committed, answer: TaskAnswer) -> WriteResult:
    """What all tasks and the commit did together; what became of rows is not among it."""
    files = [f for m in answer.messages for f in (*m.new_files, *m.compact_after)]
    # placed rows are others than those that were given; every task heard how many these were
    rows_count = answer.heard[0].rows if answer.heard else answer.rows_count
    return WriteResult(
        snapshot_ids=tuple(s.id for s in committed.snapshots),
        rows=rows_count,
        files=len(files),
        bytes=sum(f.file_size_bytes for f in files),
        already_committed=committed.replayed,
        compactions_dropped=len(committed.dropped_compactions),
        buckets_interleaved=len(committed.interleaved),
    )


def _target(handle: TableHandle, mode: str, partition: Mapping[str, object] | None) -> _Target:
    if mode not in {"append", "overwrite"}:
        message = (
            f"mode='{mode}' is not known: use 'append' (an upsert on a primary key) or 'overwrite'."
        )
        raise InvalidInputError(message, kind="write_mode", table=handle.identifier)
    if mode == "append":
        if partition is not None:
            message = "partition= names what to overwrite: pass mode='overwrite' with it."
            raise InvalidInputError(message, kind="write_mode", table=handle.identifier)
        return _Target()
    if partition is not None:
        static = partition_predicate(handle.schema, partition, table=handle.identifier)
        return _Target(overwrite=True, static=static)
    dynamic = bool(handle.schema.partition_keys) and bool(
        handle.options.get(declared.DYNAMIC_PARTITION_OVERWRITE)
    )
    return _Target(overwrite=True, dynamic=dynamic)


def _with_static_columns(
    handle: TableHandle, frame: DataFrame, partition: Mapping[str, object] | None
) -> DataFrame:
    for name, value in (partition or {}).items():
        if name not in frame.columns:
            spark_type = to_spark_type(handle.schema.field(name).type, column=name)
            frame = frame.withColumn(name, F.lit(value).cast(spark_type))
    return frame


def check_columns(handle: TableHandle, frame: DataFrame) -> None:
    """Refuse missing, unknown and retyped columns before anything runs, by the kernel's rule."""
    data = [f for f in frame.schema.fields if f.name != ROW_KIND_COLUMN]
    arrow = pyspark_arrow_schema(st.StructType(data), timezone="UTC")
    conform(arrow.empty_table(), handle.schema.fields, table=handle.identifier)
    kinds = [f.dataType for f in frame.schema.fields if f.name == ROW_KIND_COLUMN]
    if kinds and not isinstance(kinds[0], (st.StringType, st.IntegralType)):
        message = (
            f"Column '{ROW_KIND_COLUMN}' of the data for table '{handle.identifier}' is"
            f" {kinds[0].simpleString()}: give text, one of +I, -U, +U, -D."
        )
        raise InvalidInputError(message, kind="row_kind", table=handle.identifier)


def _with_kind_bytes(frame: DataFrame) -> DataFrame:
    """Row kinds as bytes: less to carry than text."""
    kinds = frame.schema[ROW_KIND_COLUMN] if ROW_KIND_COLUMN in frame.columns else None
    if kinds is None or not isinstance(kinds.dataType, st.StringType):
        return frame
    text = F.upper(F.col(ROW_KIND_COLUMN))
    number = F.when(text.isNull(), F.lit(None))
    for kind in RowKind:
        number = number.when(text == str(kind), F.lit(int(kind)))
    return frame.withColumn(ROW_KIND_COLUMN, number.otherwise(KIND_UNKNOWN).cast("tinyint"))


def clustered(handle: TableHandle, frame: DataFrame, tasks: int | None) -> DataFrame:
    """The rows in the partitions that write them, by the columns that a bucket depends on."""
    buckets_count = handle.options.get(declared.BUCKET)
    if buckets_count <= 0:
        return frame if tasks is None else frame.repartition(tasks)
    partition_keys = handle.schema.partition_keys
    count = tasks or tasks_count(frame)
    if not partition_keys:
        count = min(count, buckets_count)
    task = clustering_column(handle, frame, count)
    return (
        frame.withColumn(TASK_COLUMN, task)
        .repartitionById(count, F.col(TASK_COLUMN))
        .drop(TASK_COLUMN)
    )


def _check_one_task_per_bucket(handle: TableHandle, messages: Sequence[CommitMessage]) -> None:
    if not handle.schema.primary_keys:
        return
    written = [m.bucket_id for m in messages if m.bucket != POSTPONE_BUCKET]
    assert len(set(written)) == len(written), (
        f"two tasks wrote one bucket of table '{handle.identifier}': the bucket expression and the"
        " kernel's bucket function disagree"
    )
