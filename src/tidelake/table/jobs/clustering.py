"""Clustering as a job: rewrites the files of partitions in an order by which filters skip files.

*Sorted compaction* (``compact(order="zorder", by=["a", "b"])``) rewrites all files of the chosen
partitions. *Incremental clustering* (a table with ``clustering.incremental``) is what every
compaction of the table does instead of joining small files:

1. New files are runs of level 0; clustered ones lie on levels, one run each, as in a bucket of a
   primary-key table. The same pick takes runs that are worth it, and their output level: so a row
   is rewritten a few times, whatever the table grows to. A full one takes all runs.
2. With ``clustering.history-partition.idle-to-full-sort`` a compaction of some partitions also
   takes a few others, fully, that had no new file for this time.
3. Each partition is a task, or each of its buckets: its rows are read, sorted by way of local disk
   where they are many, and written to files of the target size. The new files of a bucket have the
   sequence numbers of the old ones: a pick takes the newest runs, so no others lie between.

One COMPACT snapshot replaces exactly the files that were read. So rows that others add meanwhile
stay, and the job is no conflict for them; a partition of which others replaced a file, or marked
rows as deleted, is left out and counted, as in any compaction. Streams do not see the rows again.
Paimon commits a sorted compaction as an overwrite instead, which drops what came meanwhile.

Source: Paimon's ``CompactProcedure``, ``IncrementalClusterManager``, ``IncrementalClusterStrategy``
``HistoryPartitionCluster`` (1.3.1) and, for buckets,
``BucketedAppendClusterManager`` (2.x), whose writers cluster on the side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tidelake.errors import InvalidInputError, UnsupportedError
from tidelake.metadata.bucket_id import BucketId, InBucket
from tidelake.metadata.data_file import DataFileMeta
from tidelake.metadata.log.schema_log import SchemaLog
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.options import Options, declared, levels_count
from tidelake.options.bucket_mode import BucketMode
from tidelake.scan import live_buckets
from tidelake.store import ClusterOrder, CompactionPolicy, Levels, pick
from tidelake.table.handle.arguments import column_names
from tidelake.table.handle.handle import TableHandle
from tidelake.table.job.plan import Gathered, Plan
from tidelake.table.jobs.compaction import Chosen
from tidelake.table.schema.clustering_options import (
    check_cluster_columns,
    check_clusterable,
    clustering_columns,
    strategy_of,
)
from tidelake.table.write.bucket_state import BucketStates
from tidelake.table.write.new_writer import new_writer
from tidelake.table.write.result import WriteResult
from tidelake.table.write.transaction import WriteTransaction

NONE = "none"


@dataclass(frozen=True, slots=True)
class ClusterTask(InBucket):
    """A partition, or a bucket of it, that is rewritten.

    Parameters
    ----------
    bucket : int
        0 in a table without buckets.
    names : frozenset of str
        The files to rewrite.
    rows_count : int
        Their rows, deleted ones too.
    level : int
        The level of the new ones; 0 but for incremental clustering.
    """

    partition: bytes
    bucket: int
    size_bytes: int
    names: frozenset[str]
    rows_count: int
    level: int = 0


@dataclass(frozen=True, slots=True)
class TableClustering(Plan[ClusterTask]):
    """The partitions that a clustering rewrites.

    Parameters
    ----------
    tasks : tuple of ClusterTask
        The largest first.
    order : ClusterOrder
        The order of the rows.
    """

    tasks: tuple[ClusterTask, ...]
    snapshot_id: int
    order: ClusterOrder

    @property
    def base_snapshot_id(self) -> int:
        """The snapshot that was read."""
        return self.snapshot_id

    def run(self, tasks: Sequence[ClusterTask], into: Gathered) -> None:
        """Rewrite partitions, each with its own writer, which frees its memory before the next."""
        states = planned_states(into.handle, self.snapshot_id)
        for task in tasks:
            with into.writing(new_writer(into.handle, states=states)) as writer:
                bucket = writer.clustering(*task.bucket_id)
                bucket.cluster(task.names, self.order, level=task.level)

    def commit(self, out: WriteTransaction, gathered: Gathered) -> WriteResult:  # noqa: ARG002
        """Publish the partitions whose files are still there."""
        return out.commit_compactions()


def planned_states(handle: TableHandle, snapshot_id: int) -> BucketStates:
    """The buckets of a plan's snapshot, read at once: it may expire while others are rewritten.

    Raises
    ------
    InvalidInputError
        The table was altered since it was opened.
    """
    handle.schemas.check_same(handle.schema, table=handle.identifier)
    states = BucketStates(handle, snapshot_id=snapshot_id)
    states.begin()
    return states


def clusters_incrementally(handle: TableHandle) -> bool:
    """Whether compactions of the table cluster its rows."""
    return handle.options.get(declared.CLUSTERING_INCREMENTAL)


def order_of(
    handle: TableHandle, order: str | None, by: Sequence[str] | None = None
) -> ClusterOrder | None:
    """Take the arguments of :meth:`tidelake.Table.compact`; None without an order.

    Parameters
    ----------
    by : sequence of str, optional
        Columns; those of ``clustering.columns`` by default.

    Raises
    ------
    InvalidInputError, NotFoundError
        The strategy or a column is wrong.
    UnsupportedError
        The table has a primary key or buckets, is clustered by itself, or a column has no order.
    """
    table = handle.identifier
    if order is None or order.strip().lower() == NONE:
        if by is not None:
            message = f"by= of table '{table}' needs an order: 'order', 'zorder' or 'hilbert'."
            raise InvalidInputError(message, kind="bad_argument", table=table)
        return None
    names = column_names(by, clustering_columns(handle.options), table=table)
    found = _order(handle, order, names)
    if clusters_incrementally(handle):
        message = (
            f"Table '{table}' has 'clustering.incremental', so each compaction clusters it by"
            " 'clustering.columns': call compact() without an order."
        )
        raise UnsupportedError(message, kind="sort_compact", table=table)
    return found


def own_order(handle: TableHandle) -> ClusterOrder:
    """The order that a table's options give it.

    Raises
    ------
    InvalidInputError, NotFoundError, UnsupportedError
        ``clustering.columns`` names no columns of an order, or the table has keys or buckets.
    """
    strategy = handle.options.get(declared.CLUSTERING_STRATEGY)
    return _order(handle, strategy, clustering_columns(handle.options))


def order_of_writes(handle: TableHandle) -> ClusterOrder | None:
    """The order in which a batch of rows is written, by partition first; None for that of arrival.

    Partition columns among ``clustering.columns``, which other engines allow, change nothing.

    Raises
    ------
    NotFoundError, UnsupportedError
        ``clustering.columns`` names a column that is not there, or has no order.
    """
    options, keys = handle.options, handle.schema.partition_keys
    names = [name for name in clustering_columns(options) if name not in keys]
    if not names or handle.bucket_mode is not BucketMode.UNBUCKETED:
        return None
    if clusters_incrementally(handle) and not options.get(
        declared.CLUSTERING_INCREMENTAL_OPTIMIZE_WRITE
    ):
        return None
    order = _order(handle, options.get(declared.CLUSTERING_STRATEGY), names)
    return replace(order, before=tuple(handle.schema.field(name) for name in keys))


def _order(handle: TableHandle, given: str, names: Sequence[str]) -> ClusterOrder:
    table = handle.identifier
    strategy = strategy_of(given, columns_count=len(names), table=table)
    check_clusterable(handle.bucket_mode, handle.schema, handle.options, table=table)
    check_cluster_columns(handle.schema, names, table=table)
    return ClusterOrder.of(handle.store_context(), names, strategy)


def plan_clustering(
    handle: TableHandle, chosen: Chosen, order: ClusterOrder | None, *, full: bool
) -> TableClustering:
    """Find what a clustering rewrites.

    Parameters
    ----------
    order : ClusterOrder, optional
        All files of the chosen partitions are sorted by it. Without it, the table's own order,
        incrementally.
    full : bool
        Whether an incremental one takes all runs.

    Raises
    ------
    InvalidInputError, NotFoundError, UnsupportedError
        The table's own order is none.
    """
    found = own_order(handle) if order is None else order
    snapshot = handle.snapshots.latest()
    if snapshot is None:
        return TableClustering((), 0, found)
    buckets = live_buckets(handle.read_context(), snapshot, manifests=handle.manifests)
    inside = chosen.of_buckets(handle, buckets)
    if order is not None:
        tasks = [_task(bucket.bucket_id, tuple(bucket.files)) for bucket in inside]
    else:
        picks = _Picks(handle, snapshot)
        tasks = [t for b in inside for t in picks.of(b.bucket_id, tuple(b.files), full=full)]
        if chosen.partitions is not None and handle.bucket_mode is BucketMode.UNBUCKETED:
            taken = {bucket.partition for bucket in inside}
            others = {b.partition: tuple(b.files) for b in buckets if b.partition not in taken}
            for partition in picks.quiet(others):
                tasks += picks.of(BucketId(partition, 0), others[partition], full=True)
    tasks.sort(key=lambda task: task.size_bytes, reverse=True)
    return TableClustering(tuple(tasks), snapshot.id, found)


def _task(bucket_id: BucketId, files: Sequence[DataFileMeta], level: int = 0) -> ClusterTask:
    size_bytes = sum(file.file_size_bytes for file in files)
    names = frozenset(file.file_name for file in files)
    return ClusterTask(*bucket_id, size_bytes, names, sum(f.row_count for f in files), level)


class _Picks:
    """What an incremental clustering takes of partitions."""

    def __init__(self, handle: TableHandle, snapshot: Snapshot) -> None:
        self._handle = handle
        self._snapshot = snapshot
        options = handle.options
        of_table = CompactionPolicy.of(options)
        # no other rule of sorted runs applies: rows have no keys
        self._policy = CompactionPolicy(
            runs_trigger=of_table.runs_trigger,
            size_amplification_percent_max=of_table.size_amplification_percent_max,
            size_ratio_percent=of_table.size_ratio_percent,
        )
        self._levels_count = levels_count(options)
        self._columns_of: dict[int, tuple[str, ...]] = {
            handle.schema.id: clustering_columns(options)
        }

    def of(
        self, bucket_id: BucketId, files: Sequence[DataFileMeta], *, full: bool
    ) -> list[ClusterTask]:
        """The task of a bucket; none if nothing is worthwhile."""
        levels = Levels.of(files, count=self._levels_count)
        found = pick(levels, self._policy, full=full, needs_rewrite=self._has_other_columns)
        if found is None:
            return []
        # one run that was clustered by other columns is rewritten whole
        own = files if found.one_by_one else found.files
        return [_task(bucket_id, own, found.output_level)]

    def quiet(self, files: Mapping[bytes, Sequence[DataFileMeta]]) -> list[bytes]:
        """Partitions without new files for a time, the oldest first."""
        options = self._handle.options
        idle_ms = options.get(declared.CLUSTERING_HISTORY_PARTITION_IDLE_TO_FULL_SORT)
        if idle_ms is None:
            return []
        clock = self._handle.env.clock
        # creation times of files are local times of their writers
        before_ms = clock.now_ms() + clock.local_offset_ms() - idle_ms
        newest = {p: max(f.creation_time_ms or 0 for f in own) for p, own in files.items()}
        last = self._levels_count - 1
        found = [
            p
            for p, own in files.items()
            if newest[p] < before_ms and any(f.level < last for f in own)
        ]
        found.sort(key=lambda p: newest[p])
        return found[: options.get(declared.CLUSTERING_HISTORY_PARTITION_LIMIT)]

    def _has_other_columns(self, file: DataFileMeta) -> bool:
        handle = self._handle
        if file.schema_id not in self._columns_of:
            schema = SchemaLog(handle.fileio, handle.paths).load(file.schema_id)
            self._columns_of[file.schema_id] = clustering_columns(Options.parse(schema.options))
        return self._columns_of[file.schema_id] != self._columns_of[handle.schema.id]
