"""Deletes or updates rows of an append table on the executors, in one commit.

A delete by a condition of the kernel is the job that runs without Spark, too
(:mod:`tidelake.table.rowlevel.append_change`). Else Spark's expressions are part of the tasks:

1. The driver plans that job, with the condition as far as the kernel can express it.
2. A task finds the rows of its files with the kernel's predicate, or reads all of them for a Spark
   condition. Rows pass through Spark's expressions with their file's number and their ordinal in
   it.
3. The result is the rows to delete, or their new values. The task writes the values, and marks the
   old rows in deletion vectors or, in a table without them, rewrites the other rows of these files.
   It returns commit messages (:mod:`tidelake.table.rowlevel.append_delta`).
4. The driver commits once. If a task ran twice, Spark returns the answer of one attempt; no
   snapshot names the files of the others. If another commit changed the same files meanwhile,
   everything is repeated on the newest snapshot.

Steps 2 and 3 are one stage if Spark's expressions need no shuffle. If they do (a subquery that
becomes a join), rows are brought back to the task of their files, so that a file still has one
task.

Rows never come to the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as st
from pyspark.sql.utils import is_remote

from tidelake.engine.rows import (
    AppendChange,
    RowChanges,
    RowPositions,
    change_rows,
    find_rows,
    plan_change,
    read_found,
    read_row_ids,
    read_without,
    tracks_rows,
    with_ids_of,
)
from tidelake.engine.scan import ReadContext, split_from_bytes, split_to_bytes
from tidelake.engine.tables import TableHandle
from tidelake.engine.write import UNKNOWN_COUNTS, WriteResult, WriteTransaction
from tidelake.errors import InvalidInputError
from tidelake.options import declared
from tidelake.spark.expression.by_number import by_number
from tidelake.spark.expression.mapped import mapped
from tidelake.spark.expression.types import spark_schema, to_spark_arrow
from tidelake.spark.read.scan_frame import ROWS_PER_BATCH
from tidelake.spark.read.shares import packed_splits, share_frame
from tidelake.spark.sessions.session import parallelism
from tidelake.spark.write.runner import SparkRunner
from tidelake.spark.write.write_task import (
    ANSWER_SCHEMA,
    TaskAnswer,
    add_answer,
    answered,
    for_task,
    in_task,
    written,
)
from tidelake.types import RowKind
from tidelake.types.predicate import Always, Predicate

FILE_COLUMN = "_tidelake_file"
"""The number of a row's file in the plan."""
POSITION_COLUMN = "_tidelake_position"
"""A row's ordinal in its file."""
ACTION_COLUMN = "_tidelake_action"
"""The action on a row, as the number of a row kind: -D, +U, or +I for a new row."""
_SHARE_COLUMN = "_tidelake_share"
_POSITION_COLUMNS = (FILE_COLUMN, POSITION_COLUMN)

Batches = Iterator[pa.RecordBatch]
Changed = Callable[[DataFrame], DataFrame]


@dataclass(frozen=True, slots=True)
class RowsTask:
    """The needs of the tasks. Picklable.

    Parameters
    ----------
    files : tuple of bytes
        By number the file, as a split of that file alone.
    shares : tuple of tuple of int
        The numbers of each task's files.
    """

    handle: TableHandle
    context: ReadContext
    plan: AppendChange
    files: tuple[bytes, ...]
    shares: tuple[tuple[int, ...], ...]
    columns: tuple[str, ...]

    def found(self, share: Sequence[int]) -> Batches:
        """Rows of files that match: file and ordinal of each, and the wanted columns."""
        fields = self.context.fields(self.columns)
        for number in share:
            split = split_from_bytes(self.files[number])
            found = find_rows(self.context, split, split.files[0], self.plan.predicate)
            if not fields:
                yield _positions(number, found.positions)
                continue
            begin = 0
            for rows in read_found(self.context, found, fields) if len(found.positions) else ():
                typed = to_spark_arrow(rows, fields)
                end = begin + rows.num_rows
                positions = _positions(number, found.positions[begin:end])
                whole = pa.RecordBatch.from_arrays(
                    [*positions.columns, *typed.columns],
                    schema=pa.schema([*positions.schema, *typed.schema]),
                )
                for start in range(0, whole.num_rows, ROWS_PER_BATCH):
                    yield whole.slice(start, ROWS_PER_BATCH)
                begin = end

    def apply(self, batches: Batches) -> Batches:
        """Delete or replace the given rows; returns the messages to commit."""
        changes = RowChanges(in_task(self.handle), self.plan.snapshot)
        write = partial(_change_rows, self, changes, batches)
        yield answered(partial(written, changes, write))


def change_on_spark(
    spark: SparkSession,
    transaction: WriteTransaction,
    predicate: Predicate | None,
    changed: Changed | None,
    *,
    columns: Sequence[str],
) -> WriteResult:
    """Delete rows of an append table, or set their new values.

    Parameters
    ----------
    predicate : Predicate, optional
        Bound: the rows to change, as far as the kernel's predicates can express it.
    changed : callable, optional
        Takes a DataFrame of rows and returns the changed ones: each with its ``_tidelake_file``
        and ``_tidelake_position``, and, if it stays, with the new values of all columns. Without
        it the rows are deleted.

    Returns
    -------
    WriteResult
        ``rows`` counts the rows deleted or updated.

    Raises
    ------
    InvalidInputError
        A new value does not fit its column, or a row is changed twice.
    ConflictError
        Others were faster in every attempt; nothing was changed.
    """
    found = Always(value=True) if predicate is None else predicate
    if changed is None:
        return change_rows(transaction, found, runner=SparkRunner(spark))
    return transaction.run(_Change(spark, transaction, found, changed, columns))


@dataclass(frozen=True, slots=True)
class _Change:
    """A delete or an update; parameters as of :func:`change_once`."""

    spark: SparkSession
    transaction: WriteTransaction
    predicate: Predicate
    changed: Changed
    columns: Sequence[str]

    def attempt(self) -> WriteResult:
        """Run it on the newest snapshot."""
        return change_once(
            self.spark, self.transaction, self.predicate, self.changed, columns=self.columns
        )


def change_once(
    spark: SparkSession,
    transaction: WriteTransaction,
    predicate: Predicate,
    changed: Changed,
    *,
    columns: Sequence[str],
    adds_rows: bool = False,
) -> WriteResult:
    """Change rows on the newest snapshot, once; see :func:`change_on_spark`.

    Parameters
    ----------
    adds_rows : bool
        Whether `changed` may return new rows too. Its rows then have ``_tidelake_action``, the
        action on each.

    Raises
    ------
    ConflictError
        Others changed the same files meanwhile.
    """
    handle = transaction.handle
    snapshot = handle.snapshots.latest()
    if snapshot is None:
        handle.schemas.check_same(handle.schema, table=handle.identifier)
        return WriteResult()
    with handle.hold(snapshot):
        plan = plan_change(handle, snapshot, predicate)
        if not plan.tasks and not adds_rows:
            return WriteResult()
        task = _task(spark, handle, plan, columns)
        answer = TaskAnswer.gather(_answers(spark, task, changed).collect())
    messages = plan.whole(answer.messages)
    with transaction as out:
        add_answer(out, replace(answer, messages=tuple(messages)), base_snapshot_id=snapshot.id)
        return out.commit(counts=UNKNOWN_COUNTS) if messages else WriteResult()


def _task(
    spark: SparkSession, handle: TableHandle, plan: AppendChange, columns: Sequence[str]
) -> RowsTask:
    own = for_task(handle)
    context = own.read_context()
    files: list[bytes] = []
    shares: list[tuple[int, ...]] = []
    for packed in packed_splits(spark, context, plan.tasks):
        first = len(files)
        files += [split_to_bytes(split) for share in packed for split in share.splits]
        shares.append(tuple(range(first, len(files))))
    alone = replace(plan, tasks=())
    return RowsTask(own, context, alone, tuple(files), tuple(shares), tuple(columns))


def _answers(spark: SparkSession, task: RowsTask, changed: Changed) -> DataFrame:
    fields = task.context.fields(task.columns)
    positions = [
        st.StructField(FILE_COLUMN, st.LongType()),
        st.StructField(POSITION_COLUMN, st.LongType()),
    ]
    schema = st.StructType([*positions, *spark_schema(fields, table=task.handle.identifier).fields])
    rows = changed(share_frame(spark, task.shares, task.found, schema))
    if ACTION_COLUMN in rows.columns or _may_shuffle(rows):
        rows = _by_share(spark, task, rows)
    return mapped(rows, task.apply, ANSWER_SCHEMA)


def _by_share(spark: SparkSession, task: RowsTask, rows: DataFrame) -> DataFrame:
    """The rows of each file in the task that has it; new rows anywhere."""
    share_of = {n: index for index, share in enumerate(task.shares) for n in share}
    shares = F.lit([share_of[n] for n in range(len(task.files))]).cast("array<int>")
    share = F.get(shares, F.col(FILE_COLUMN).cast("int"))
    count = len(task.shares)
    if ACTION_COLUMN in rows.columns:
        count = max(count, parallelism(spark))
        share = F.coalesce(share, F.pmod(F.monotonically_increasing_id(), F.lit(count)).cast("int"))
    shared = rows.withColumn(_SHARE_COLUMN, share)
    return by_number(shared, count, _SHARE_COLUMN).drop(_SHARE_COLUMN)


def _may_shuffle(rows: DataFrame) -> bool:
    """Whether rows of one file may come to several tasks."""
    if is_remote():
        return True
    return "Exchange" in rows._jdf.queryExecution().executedPlan().toString()


def _positions(number: int, positions: npt.NDArray[np.int64]) -> pa.RecordBatch:
    numbers = np.full(len(positions), number, np.int64)
    return pa.RecordBatch.from_arrays(
        [pa.array(numbers), pa.array(positions)], names=list(_POSITION_COLUMNS)
    )


def _change_rows(task: RowsTask, changes: RowChanges, batches: Batches) -> int:
    gone: dict[int, list[npt.NDArray[np.int64]]] = {}
    rows_count = 0
    tracked = tracks_rows(task.handle.options)
    for given in batches:
        batch, stays = given, None
        if not batch.num_rows:
            continue
        rows = batch.drop_columns(list(_POSITION_COLUMNS))
        if ACTION_COLUMN in rows.schema.names:
            actions = rows.column(ACTION_COLUMN)
            rows = rows.drop_columns([ACTION_COLUMN])
            stays = pc.not_equal(actions, int(RowKind.DELETE))
            rows = rows.filter(stays)
            added = pc.equal(actions, int(RowKind.INSERT))
            batch = batch.filter(pc.invert(added))
            rows_count += pc.sum(added).as_py()
        numbers, positions = (batch.column(name).to_numpy() for name in _POSITION_COLUMNS)
        for number in np.unique(numbers).tolist():  # usually one
            gone.setdefault(number, []).append(positions[numbers == number])
        if rows.num_columns and rows.num_rows:
            if tracked:
                changes.check(rows)
                rows = with_ids_of(rows, _row_ids(task, given, stays))
                changes.keep(rows)
            else:
                changes.write(rows)
    marks = task.handle.options.get(declared.DELETION_VECTORS_ENABLED)
    for number in sorted(gone):
        every = np.concatenate(gone.pop(number))
        found = _found(task, number, every)
        rows_count += len(every)
        if marks:
            changes.mark(found)
            continue
        for rows in read_without(task.context, found):
            changes.keep(rows)
        changes.remove(found.split, found.file)
    return rows_count


def _row_ids(task: RowsTask, given: pa.RecordBatch, stays: pa.Array | None) -> pa.Array:
    """The ids of changed rows, by their file and position; null for new rows."""
    rows = given if stays is None else given.filter(stays)
    numbers, positions = (rows.column(name).fill_null(-1).to_numpy() for name in _POSITION_COLUMNS)
    ids = np.zeros(rows.num_rows, np.int64)
    is_new = numbers < 0
    if ACTION_COLUMN in rows.schema.names:
        is_new |= rows.column(ACTION_COLUMN).to_numpy() == int(RowKind.INSERT)
    for number in np.unique(numbers[~is_new]).tolist():  # usually one
        own = ~is_new & (numbers == number)
        wanted, place = np.unique(positions[own], return_inverse=True)
        split = split_from_bytes(task.files[number])
        found = RowPositions(split, split.files[0], wanted)
        ids[own] = read_row_ids(task.context, found).to_numpy()[place]
    return pa.array(ids, mask=is_new)


def _found(task: RowsTask, number: int, every: npt.NDArray[np.int64]) -> RowPositions:
    split = split_from_bytes(task.files[number])
    positions = np.unique(every)
    if len(positions) < len(every):
        message = (
            f"{len(every) - len(positions)} rows of table '{task.handle.identifier}' would be"
            " changed more than once: the condition matches them several times. Make it match each"
            " row once."
        )
        raise InvalidInputError(message, kind="row_twice", table=task.handle.identifier)
    return RowPositions(split, split.files[0], positions)
