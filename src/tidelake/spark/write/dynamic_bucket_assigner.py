"""Assigns a dynamic bucket to each row of a DataFrame, in tasks that share the keys.

1. The JVM computes each key's hash, in the same way as for fixed buckets. Of ``n`` assigners number
   ``hash % n`` handles the key, so one task looks it up.
2. Spark shuffles the rows to their assigner. Its task reads the index of each partition with rows,
   in the snapshot that the driver chose, and keeps its own hashes. Assigner ``i`` fills the buckets
   ``b`` with ``b % n == i`` (:mod:`tidelake.table.bucketing.key_hash_index`).
3. The rows get their bucket in a column. Spark shuffles by it, as for any table with buckets. A
   writing task looks into the index of its own buckets alone, so the hashes of some rows are
   compared with the kernel's.

When Spark repeats a task, rows may come in another order, and new keys may get other buckets than
in the first attempt. So the driver commits neither rows of two attempts
(:mod:`tidelake.spark.write.attempt_guard`) nor a new key in two buckets.

Source: Paimon's Spark writer for ``HASH_DYNAMIC`` and ``BucketAssigner`` (1.3.1).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as st

from tidelake.engine.codec import hash_rows
from tidelake.engine.env import Env
from tidelake.engine.metadata import IndexEntry, read_hash_index
from tidelake.engine.tables import TableHandle
from tidelake.engine.write import (
    BucketStates,
    CommitMessage,
    DynamicBuckets,
    EmptyStates,
    Router,
    fill_of,
)
from tidelake.errors import ConflictError, InvalidInputError, UnsupportedError
from tidelake.options import Options, declared
from tidelake.spark.expression.by_number import by_number
from tidelake.spark.expression.mapped import mapped
from tidelake.spark.expression.types import arrow_schema
from tidelake.spark.write.attempt_guard import BUCKET_COLUMN, OWN_FIELDS, with_notes
from tidelake.spark.write.clustering import TASK_COLUMN, key_hash, task_of, tasks_count
from tidelake.spark.write.write_task import in_task
from tidelake.types.conform import conform

HASH_COLUMN = "_tidelake_hash"

CHECKED_ROWS = 64
"""Rows of each batch whose hashes are computed by the kernel too."""


def assigners_of(options: Options, tasks: int) -> int:
    """Choose the number of assigners that share the keys of a partition."""
    parallelism = options.get(declared.DYNAMIC_BUCKET_ASSIGNER_PARALLELISM) or tasks
    initial = options.get(declared.DYNAMIC_BUCKET_INITIAL_BUCKETS) or parallelism
    most = options.get(declared.DYNAMIC_BUCKET_MAX_BUCKETS)
    limit = parallelism if most == -1 else most  # each assigner has at least one bucket
    return max(1, min(parallelism, initial, limit))


def assigned_rows(
    handle: TableHandle, frame: DataFrame, *, tasks: int | None, base_snapshot_id: int | None
) -> DataFrame:
    """Assign dynamic buckets, and bring the rows to the tasks that write them.

    Parameters
    ----------
    tasks : int, optional
        The most assigning tasks, and the number of writing tasks.
    """
    count = tasks or tasks_count(frame)
    assigners = assigners_of(handle.options, count)
    hashed = frame.withColumn(HASH_COLUMN, key_hash(handle, frame, handle.schema.bucket_keys))
    number = F.abs(F.col(HASH_COLUMN) % F.lit(assigners))
    numbered = hashed.withColumn(TASK_COLUMN, task_of(handle, frame, number, count))
    found = by_number(numbered, count, TASK_COLUMN).drop(TASK_COLUMN)
    task = AssignTask.of(handle, assigners=assigners, base_snapshot_id=base_snapshot_id)
    # all these columns are null in a note
    schema = st.StructType([st.StructField(f.name, f.dataType) for f in frame.schema.fields])
    arrow = arrow_schema(schema)
    assigned = mapped(
        found,
        with_notes(task.assign, schema=arrow, tasks=count),
        st.StructType([*schema.fields, *OWN_FIELDS]),
    )
    return clustered_by_bucket(handle, assigned, count)


def clustered_by_bucket(handle: TableHandle, assigned: DataFrame, count: int) -> DataFrame:
    """Bring assigned rows to the tasks that write them, and notes to their tasks."""
    task = F.coalesce(TASK_COLUMN, task_of(handle, assigned, F.col(BUCKET_COLUMN), count))
    return by_number(assigned.withColumn(TASK_COLUMN, task), count, TASK_COLUMN)


@dataclass(frozen=True, slots=True)
class AssignTask:
    """Gives rows their buckets. Picklable.

    Parameters
    ----------
    base_snapshot_id : int or None
        The snapshot whose index is read, 0 for the empty table; None for an overwrite, which begins
        with an empty index.
    """

    handle: TableHandle
    assigners: int
    base_snapshot_id: int | None

    @classmethod
    def of(cls, handle: TableHandle, *, assigners: int, base_snapshot_id: int | None) -> AssignTask:
        """Make it for the driver's table; each task has its own clock, ids and threads."""
        return cls(
            replace(handle, env=Env(zone=handle.env.zone).with_memory(handle.env.memory)),
            assigners,
            base_snapshot_id,
        )

    def assign(
        self, batches: Iterator[pa.RecordBatch]
    ) -> Iterator[tuple[pa.RecordBatch, npt.NDArray[np.int32], int]]:
        """Assign rows, on executors: rows with hashes in; rows, buckets and their number out."""
        buckets_of = _Assigner(self)
        for batch in batches:
            hashes = batch.column(HASH_COLUMN).to_numpy(zero_copy_only=False)
            rows = batch.drop_columns([HASH_COLUMN])
            buckets = buckets_of(rows, hashes.astype(np.int32, copy=False))
            yield rows, buckets, rows.num_rows


class _Assigner:
    """The indexes of one task, a set for each assigner number."""

    def __init__(self, task: AssignTask) -> None:
        self._task = task
        handle = in_task(task.handle)
        schema = handle.schema
        self._context = handle.store_context()
        states: BucketStates | EmptyStates = EmptyStates()
        if task.base_snapshot_id is not None:
            states = BucketStates(handle, snapshot_id=task.base_snapshot_id)
        self._entries_of = states.index_entries
        self._indexes: dict[int, DynamicBuckets] = {}
        self._partition_fields = [schema.field(name) for name in schema.partition_keys]
        self._key_fields = [schema.field(name) for name in schema.bucket_keys]
        self._table = handle.identifier
        self._router = Router(self._partition_fields, [], buckets_count=-1)

    def __call__(self, rows: pa.RecordBatch, hashes: np.ndarray) -> np.ndarray:
        self._check(rows.slice(0, CHECKED_ROWS), hashes[:CHECKED_ROWS])
        partition_columns = rows.select([f.name for f in self._partition_fields])
        if self._partition_fields:
            try:
                partition_columns = conform(
                    partition_columns, self._partition_fields, table=self._table
                )
            except InvalidInputError:  # the task that gets the rows raises the error
                return np.zeros(rows.num_rows, np.int32)
        partitions, codes = self._router.partitions(partition_columns, rows_count=rows.num_rows)
        numbers = np.abs(hashes.astype(np.int64)) % self._task.assigners
        buckets = np.zeros(rows.num_rows, np.int32)
        shares = codes * self._task.assigners + numbers
        for share in np.unique(shares).tolist():  # few, since rows come clustered by them
            partition, number = divmod(share, self._task.assigners)
            mine = shares == share
            buckets[mine] = self._index(number).assign(partitions[partition], hashes[mine])
        return buckets

    def _check(self, rows: pa.RecordBatch, hashes: np.ndarray) -> None:
        """Check that the JVM's hashes are the kernel's.

        Raises
        ------
        UnsupportedError
            They are not: known keys would get a second bucket.
        """
        keys = rows.select([f.name for f in self._key_fields])
        try:
            keys = conform(keys, self._key_fields, table=self._table)
        except InvalidInputError:  # the task that gets the rows raises the error
            return
        expected = hash_rows(keys.columns, [f.type for f in self._key_fields])
        if not (expected == hashes).all():
            message = (
                f"Spark hashes keys of table '{self._table}' differently from Tidelake, so known"
                " ones could get a second bucket. Nothing was committed; write with a version of"
                " Spark that Tidelake supports."
            )
            raise UnsupportedError(message, kind="hash_differs", table=self._table)

    def _index(self, number: int) -> DynamicBuckets:
        if number not in self._indexes:
            fill = fill_of(self._task.handle.options, assigners=self._task.assigners, number=number)
            self._indexes[number] = DynamicBuckets(
                self._context, entries_of=self._entries_of, fill=fill
            )
        return self._indexes[number]


def check_one_bucket_per_key(handle: TableHandle, messages: Sequence[CommitMessage]) -> None:
    """Check that no new key of a commit is in two buckets.

    Raises
    ------
    ConflictError
        A key has two: Spark ran an assigning task again. Nothing was committed.
    """
    new: dict[bytes, list[np.ndarray]] = {}
    for message in messages:
        change = message.index
        if change is not None and change.file is not None:
            added = change.carried_hashes
            if added is None:
                entry = IndexEntry(message.partition, message.bucket, change.file)
                added = change.new_hashes(read_hash_index(handle.fileio, handle.paths, entry))
            new.setdefault(message.partition, []).append(added)
    for parts in new.values():
        hashes = np.sort(np.concatenate(parts))
        if (hashes[1:] == hashes[:-1]).any():
            text = (
                f"A write to table '{handle.identifier}' gave a key two buckets, because Spark ran"
                " one of its tasks twice. Nothing was committed; write again."
            )
            raise ConflictError(text, kind="bucket_assignment", table=handle.identifier)
