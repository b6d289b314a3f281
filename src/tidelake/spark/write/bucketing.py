"""Brings the rows of a DataFrame to the tasks that write their buckets: one strategy for a table.

One task writes each bucket of a primary-key table, so that its sequence numbers come from one
writer. Each strategy has a method `cluster`, which shuffles the rows, and a method `check`, which
checks this rule in the answers of tasks. If Spark ran an assigning task twice, `check` raises a
ConflictError (kind ``bucket_assignment``), and the write can be tried again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame

from tidelake.engine.jobs import ClusterOrder, order_of_writes
from tidelake.engine.tables import TableHandle
from tidelake.engine.write import CommitMessage, Overwrite
from tidelake.options import declared
from tidelake.options.bucket_mode import BucketMode
from tidelake.spark.write.attempt_guard import check_one_attempt
from tidelake.spark.write.clustered_frame import SortedPieces, clustered_pieces
from tidelake.spark.write.clustering import clustered
from tidelake.spark.write.cross_partition_assigner import cross_partition_rows
from tidelake.spark.write.dynamic_bucket_assigner import assigned_rows, check_one_bucket_per_key
from tidelake.spark.write.write_task import TaskAnswer, Through, for_task


@dataclass(frozen=True, slots=True)
class FixedBucketing:
    """The JVM computes each row's bucket.

    Parameters
    ----------
    through : callable, optional
        The rows are already in the tasks that write them, and pass through this function.
    """

    handle: TableHandle
    tasks: int | None
    through: Through | None = None
    is_assigned = False

    def cluster(self, rows: DataFrame) -> DataFrame:
        """Shuffle by bucket."""
        return rows if self.through is not None else clustered(self.handle, rows, self.tasks)

    def check(self, answer: TaskAnswer) -> None:
        """Check that each bucket has one task."""
        _check_one_task_per_bucket(self.handle, answer.messages)


@dataclass(frozen=True, slots=True)
class NoBucketing:
    """Keeps rows in their tasks: for append tables without buckets, and the postpone bucket."""

    tasks: int | None
    is_assigned = False
    through = None

    def cluster(self, rows: DataFrame) -> DataFrame:
        """Shuffle only if a number of tasks is set."""
        return rows if self.tasks is None else rows.repartition(self.tasks)

    def check(self, answer: TaskAnswer) -> None:
        """Accept any answers: each task may write any row."""


@dataclass(frozen=True, slots=True)
class ClusteredRows:
    """Brings ranges of rows to tasks, which sort them: for tables with ``clustering.columns``."""

    handle: TableHandle
    tasks: int | None
    order: ClusterOrder
    is_assigned = False

    @property
    def through(self) -> Through:
        """Sorts the rows of a task."""
        return SortedPieces(for_task(self.handle), self.order)

    def cluster(self, rows: DataFrame) -> DataFrame:
        """Shuffle by ranges of the clustering columns."""
        return clustered_pieces(self.handle, rows, self.order, tasks=self.tasks)

    def check(self, answer: TaskAnswer) -> None:
        """Accept any answers: each task may write any row."""


@dataclass(frozen=True, slots=True)
class DynamicBucketing:
    """Tasks find each key's bucket in the index of its partition.

    Parameters
    ----------
    tasks : int, optional
        The most assigning tasks, and the number of writing tasks.
    base_snapshot_id : int or None
        The snapshot whose index is read, 0 for the empty table; None for an overwrite.
    """

    handle: TableHandle
    tasks: int | None
    base_snapshot_id: int | None
    is_assigned = True
    through = None

    def cluster(self, rows: DataFrame) -> DataFrame:
        """Shuffle by key, assign, shuffle by bucket."""
        return assigned_rows(
            self.handle, rows, tasks=self.tasks, base_snapshot_id=self.base_snapshot_id
        )

    def check(self, answer: TaskAnswer) -> None:
        """Check that each bucket has one task, each task one attempt, each key one bucket."""
        check_one_attempt(answer.digests, table=self.handle.identifier)
        _check_one_task_per_bucket(self.handle, answer.messages)
        check_one_bucket_per_key(self.handle, answer.messages)


@dataclass(frozen=True, slots=True)
class CrossPartitionBucketing(DynamicBucketing):
    """Tasks find each key's partition and bucket among the keys of the live rows.

    Parameters
    ----------
    takes_rows : bool
        Whether the write may have rows; an overwrite of single partitions may not.
    """

    takes_rows: bool

    def cluster(self, rows: DataFrame) -> DataFrame:
        """Shuffle by key together with the live keys, assign, shuffle by bucket."""
        return cross_partition_rows(
            self.handle,
            rows,
            tasks=self.tasks,
            base_snapshot_id=self.base_snapshot_id,
            takes_rows=self.takes_rows,
        )

    def check(self, answer: TaskAnswer) -> None:
        """Check that each bucket has one task, and each task one attempt."""
        check_one_attempt(answer.digests, table=self.handle.identifier)
        _check_one_task_per_bucket(self.handle, answer.messages)


Bucketing = (
    FixedBucketing | NoBucketing | ClusteredRows | DynamicBucketing | CrossPartitionBucketing
)
"""One of the strategies."""


def bucketing_of(
    handle: TableHandle,
    *,
    overwrite: Overwrite | None,
    base_snapshot_id: int,
    tasks: int | None,
    through: Through | None = None,
    clusters: bool = True,
) -> Bucketing:
    """Choose the strategy of a table.

    Parameters
    ----------
    overwrite : Overwrite, optional
        The overwrite, if the rows replace others.
    base_snapshot_id : int
        The snapshot that the write begins from; 0 for the empty table.
    tasks : int, optional
        Number of writing tasks; by default the option ``sink.parallelism``.
    through : callable, optional
        See :class:`FixedBucketing`.
    clusters : bool
        Whether rows are sorted by the table's ``clustering.columns``.
    """
    tasks = tasks or handle.options.get(declared.SINK_PARALLELISM)
    found_in = None if overwrite is not None else base_snapshot_id
    match handle.bucket_mode:
        case BucketMode.FIXED:
            return FixedBucketing(handle, tasks, through)
        case BucketMode.DYNAMIC:
            return DynamicBucketing(handle, tasks, found_in)
        case BucketMode.CROSS_PARTITION:
            takes_rows = overwrite is None or not overwrite.is_partial
            return CrossPartitionBucketing(handle, tasks, found_in, takes_rows)
        case BucketMode.UNBUCKETED | BucketMode.POSTPONE:
            order = order_of_writes(handle) if clusters else None
            return NoBucketing(tasks) if order is None else ClusteredRows(handle, tasks, order)


def _check_one_task_per_bucket(handle: TableHandle, messages: Sequence[CommitMessage]) -> None:
    if not handle.schema.primary_keys:
        return
    written = [m.bucket_id for m in messages]
    assert len(set(written)) == len(written), (
        f"two tasks wrote one bucket of table '{handle.identifier}': the bucket expression and the"
        " kernel's bucket function disagree"
    )
