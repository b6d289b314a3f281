"""Assigns buckets to upserts whose keys may move between partitions.

1. Executors read the keys of the base snapshot's live rows, only the key columns, each with the
   number of its partition and bucket.
2. Spark shuffles the given rows and these keys together by the hash of the key, which the JVM
   computes with one expression for both. So one task gets all rows of a key. Spark sorts the input
   of each task by the hash; its sort spills to disk.
3. The task cuts its stream between keys into stretches, and assigns the rows of each
   (:mod:`tidelake.table.bucketing.cross_partition_assigner`). Task ``i`` of ``n`` fills the buckets
   ``b`` with ``b % n == i``.
4. Spark shuffles the rows, and the deletes in the buckets that keys have left, by partition and
   bucket to the tasks that write them. The driver checks that all come from the same attempts
   (:mod:`tidelake.spark.write.attempt_guard`). The commit checks that no other commit added rows
   meanwhile.

Memory of a task: two Arrow batches of rows and their keys; for an engine that combines rows, also
all rows of one key. Cost: each write reads and shuffles the table's key columns once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as st

from tidelake.engine.env import Env
from tidelake.engine.metadata import BucketId
from tidelake.engine.scan import TableRows, plan_scan, split_from_bytes, split_to_bytes
from tidelake.engine.tables import TableHandle
from tidelake.engine.write import (
    KIND_COLUMN,
    ROW_KIND_COLUMN,
    AssignedRows,
    BucketStates,
    CrossPartitionAssigner,
    EmptyStates,
    Ingest,
    deduplicate_input,
    fill_of,
    partial_overwrite_error,
    with_row_kinds,
)
from tidelake.options import declared
from tidelake.spark.expression.by_number import by_number
from tidelake.spark.expression.expression import quoted
from tidelake.spark.expression.mapped import mapped
from tidelake.spark.expression.types import spark_arrow_schema, spark_schema, to_spark_arrow
from tidelake.spark.read.scan_frame import split_batches
from tidelake.spark.read.shares import packed_splits, share_frame
from tidelake.spark.write.attempt_guard import OWN_FIELDS, with_notes
from tidelake.spark.write.clustering import TASK_COLUMN, key_hash, tasks_count
from tidelake.spark.write.dynamic_bucket_assigner import assigners_of, clustered_by_bucket
from tidelake.spark.write.write_task import in_task
from tidelake.types.conform import conform

HASH_COLUMN = "_tidelake_hash"
ROW_COLUMN = "_tidelake_given"
LIVE_COLUMN = "_tidelake_live"
BUCKET_NUMBER_COLUMN = "_tidelake_bucket_number"

_NO_BUCKETS = np.empty(0, np.int32)


def cross_partition_rows(
    handle: TableHandle,
    frame: DataFrame,
    *,
    tasks: int | None,
    base_snapshot_id: int | None,
    takes_rows: bool = True,
) -> DataFrame:
    """Assign buckets to rows, and bring rows and deletes to the tasks that write them.

    Parameters
    ----------
    frame : DataFrame
        The table's columns, and row kinds as bytes.
    tasks : int, optional
        The most assigning tasks, and the number of writing tasks.
    base_snapshot_id : int or None
        The snapshot of the live keys, 0 for the empty table; None for an overwrite of the whole
        table.
    takes_rows : bool
        Whether the write may have rows; an overwrite of single partitions may not.
    """
    spark = frame.sparkSession
    count = tasks or tasks_count(frame)
    assigners = assigners_of(handle.options, count)
    snapshot = handle.snapshots.load(base_snapshot_id) if base_snapshot_id else None
    context = handle.read_context(all_rows=True)
    plan = plan_scan(context, snapshot, manifests=handle.manifests)
    numbers: dict[BucketId, int] = {}
    for split in plan.splits:
        numbers.setdefault(split.bucket_id, len(numbers))
    bucket_ids = tuple(numbers)

    keys = handle.schema.primary_keys
    fields = [handle.schema.field(name) for name in keys]
    live_schema = st.StructType(
        [
            *spark_schema(fields, table=handle.identifier).fields,
            st.StructField(BUCKET_NUMBER_COLUMN, st.IntegerType()),
        ]
    )
    both = frame.select(
        key_hash(handle, frame, keys).alias(HASH_COLUMN),
        F.struct(*(quoted(name) for name in frame.columns)).alias(ROW_COLUMN),
        F.lit(None).cast(live_schema).alias(LIVE_COLUMN),
    )
    if plan.splits:
        blobs = [
            [(numbers[s.bucket_id], split_to_bytes(s)) for s in own]
            for own in packed_splits(spark, context, plan.splits)
        ]
        keys_task = _LiveKeysTask(TableRows(context, tuple(keys)))
        live = share_frame(spark, blobs, keys_task.batches, live_schema)
        both = both.unionAll(
            live.select(
                key_hash(handle, live, keys).alias(HASH_COLUMN),
                F.lit(None).cast(both.schema[ROW_COLUMN].dataType).alias(ROW_COLUMN),
                F.struct(*(quoted(name) for name in live.columns)).alias(LIVE_COLUMN),
            )
        )
    number = F.abs(F.col(HASH_COLUMN) % F.lit(assigners))
    sorted_keys = (
        by_number(both.withColumn(TASK_COLUMN, number), assigners, TASK_COLUMN)
        .drop(TASK_COLUMN)
        .sortWithinPartitions(HASH_COLUMN)
    )
    task = CrossPartitionTask.of(
        handle,
        bucket_ids=bucket_ids,
        assigners=assigners,
        base_snapshot_id=base_snapshot_id,
        takes_rows=takes_rows,
    )
    kind = st.StructField(ROW_KIND_COLUMN, st.ByteType())
    schema = spark_schema(handle.schema.fields, table=handle.identifier)
    assigned = mapped(
        sorted_keys,
        with_notes(task.assign, schema=task.assigned_schema, tasks=count),
        st.StructType([*schema.fields, kind, *OWN_FIELDS]),
    )
    return clustered_by_bucket(handle, assigned, count)


@dataclass(frozen=True, slots=True)
class _LiveKeysTask:
    """Reads the keys of live rows on an executor. Picklable."""

    rows: TableRows

    def batches(self, splits: Sequence[tuple[int, bytes]]) -> Iterator[pa.RecordBatch]:
        """The keys of a share, each with the number of its bucket."""
        for bucket_number, blob in splits:
            for rows in split_batches(self.rows, split_from_bytes(blob), self.rows.fields):
                own = pa.array(np.full(rows.num_rows, bucket_number, np.int32))
                yield rows.append_column(BUCKET_NUMBER_COLUMN, own)


@dataclass(frozen=True, slots=True)
class CrossPartitionTask:
    """Gives rows their buckets. Picklable.

    Parameters
    ----------
    base_snapshot_id : int or None
        The snapshot of the live keys; None for an overwrite.
    takes_rows : bool
        Whether the write may have rows.
    """

    handle: TableHandle
    bucket_ids: tuple[BucketId, ...]
    assigners: int
    base_snapshot_id: int | None
    takes_rows: bool

    @classmethod
    def of(
        cls,
        handle: TableHandle,
        *,
        bucket_ids: tuple[BucketId, ...],
        assigners: int,
        base_snapshot_id: int | None,
        takes_rows: bool,
    ) -> CrossPartitionTask:
        """Make it for the driver's table; each task has its own clock, ids and threads."""
        own = replace(handle, env=Env(zone=handle.env.zone).with_memory(handle.env.memory))
        return cls(own, bucket_ids, assigners, base_snapshot_id, takes_rows)

    @property
    def assigned_schema(self) -> pa.Schema:
        """The schema of assigned rows: the table's columns and the kind, in Spark's Arrow types."""
        schema = spark_arrow_schema(self.handle.schema.fields)
        return schema.append(pa.field(ROW_KIND_COLUMN, pa.int8()))

    def assign(
        self, batches: Iterator[pa.RecordBatch]
    ) -> Iterator[tuple[pa.RecordBatch, npt.NDArray[np.int32], int]]:
        """Assign rows, on executors: rows and live keys in, sorted by hash; assigned rows out."""
        context = TaskContext.get()
        assert context is not None, "runs on an executor"
        handle = in_task(self.handle)
        base = self.base_snapshot_id
        states: BucketStates | EmptyStates = EmptyStates()
        if base:
            states = BucketStates(handle, snapshot_id=base)
        assigner = CrossPartitionAssigner(
            handle.schema,
            handle.paths,
            engine=handle.options.get(declared.MERGE_ENGINE),
            live_counts=states.bucket_rows,
            fill=fill_of(handle.options, assigners=self.assigners, number=context.partitionId()),
        )
        taken = 0
        for stretch in KeyStream(handle, takes_rows=self.takes_rows).stretches(batches):
            taken += stretch.taken
            if not stretch.rows:
                continue
            rows = pa.Table.from_batches(stretch.rows)
            for assigned in assigner.assign(rows, stretch.live, self.bucket_ids):
                yield self._in_spark_types(assigned), assigned.buckets, taken
                taken = 0
        yield pa.RecordBatch.from_pylist([], schema=self.assigned_schema), _NO_BUCKETS, taken

    def _in_spark_types(self, assigned: AssignedRows) -> pa.RecordBatch:
        rows = to_spark_arrow(assigned.rows, self.handle.schema.fields)
        return rows.append_column(ROW_KIND_COLUMN, pa.array(assigned.kinds))


@dataclass(slots=True)
class _Stretch:
    """The rows of some keys, conformed and with kinds, and their live keys with bucket numbers."""

    rows: list[pa.RecordBatch] = field(default_factory=list)
    live: list[tuple[pa.RecordBatch, npt.NDArray[np.int64]]] = field(default_factory=list)
    taken: int = 0


class KeyStream:
    """Cuts a stream sorted by hash where the hash changes.

    Parameters
    ----------
    takes_rows : bool
        Whether the write may have rows.
    """

    def __init__(self, handle: TableHandle, *, takes_rows: bool) -> None:
        schema = handle.schema
        self._table = handle.identifier
        self._keys = schema.primary_keys
        self._key_fields = [schema.field(name) for name in schema.primary_keys]
        self._ingest = Ingest(schema, handle.options, handle.env, table=handle.identifier)
        self._engine = handle.options.get(declared.MERGE_ENGINE)
        self._takes_rows = takes_rows

    def stretches(self, batches: Iterator[pa.RecordBatch]) -> Iterator[_Stretch]:
        """Yield stretches, each with all rows of its keys."""
        held, held_hash = _Stretch(), None
        for batch in batches:
            if not batch.num_rows:
                continue
            hashes = batch.column(HASH_COLUMN).to_numpy(zero_copy_only=False)
            last = int(hashes[-1])
            begin = int(np.searchsorted(hashes, last))
            if begin or last != held_hash:
                self._add(held, batch.slice(0, begin))
                yield held
                held, held_hash = _Stretch(), last
            self._add(held, batch.slice(begin))
            if len(held.rows) > 1:  # one hash fills batches: few keys with many rows
                table = pa.Table.from_batches(held.rows)
                held.rows = [deduplicate_input(table, self._keys, engine=self._engine)]
        yield held

    def _add(self, stretch: _Stretch, batch: pa.RecordBatch) -> None:
        given, live = batch.column(ROW_COLUMN), batch.column(LIVE_COLUMN)
        given, live = given.filter(given.is_valid()), live.filter(live.is_valid())
        if len(live):
            keys = pa.RecordBatch.from_struct_array(live)
            numbers = (
                keys.column(BUCKET_NUMBER_COLUMN).to_numpy(zero_copy_only=False).astype(np.int64)
            )
            keys = conform(
                keys.drop_columns([BUCKET_NUMBER_COLUMN]), self._key_fields, table=self._table
            )
            stretch.live.append((keys, numbers))
        if not len(given):
            return
        if not self._takes_rows:
            raise partial_overwrite_error(self._table)
        stretch.taken += len(given)
        rows = iter([pa.RecordBatch.from_struct_array(given)])
        for part, kinds in with_row_kinds(rows, None, table=self._table):
            for own, own_kinds, _ in self._ingest.batches(part, kinds):
                if own_kinds is None:
                    own_kinds = np.zeros(own.num_rows, np.int8)
                if own.num_rows:
                    stretch.rows.append(
                        own.append_column(KIND_COLUMN, pa.array(own_kinds, pa.int8()))
                    )
