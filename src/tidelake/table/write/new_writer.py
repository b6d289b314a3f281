"""Opens the writer of one task or process: base state and bucket assignment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from tidelake.merge.spec import LOOKUP
from tidelake.metadata.at_once import at_once
from tidelake.metadata.bucket_id import BucketId
from tidelake.metadata.row_ids import tracked_schema
from tidelake.options import Options, declared, write_buffer_bytes
from tidelake.options.bucket_mode import BucketMode
from tidelake.scan import plan_scan, read_split
from tidelake.store import postpone_options
from tidelake.table.bucketing.cross_partition_assigner import CrossPartitionAssigner
from tidelake.table.bucketing.cross_partition_writer import CrossPartitionWriter
from tidelake.table.bucketing.dynamic_buckets import DynamicBuckets, fill_of
from tidelake.table.handle.handle import TableHandle
from tidelake.table.write.bucket_state import BucketStates, EmptyStates
from tidelake.table.write.overwrite import Overwrite, PartitionCheck
from tidelake.table.write.table_writer import TableWriter
from tidelake.types.predicate import among_keys

__all__ = ["new_writer"]

WRITER_NUMBER_MAX = 2**31 - 1
"""Numbers of writers are drawn below this: Java reads them as INT."""


def new_writer(
    handle: TableHandle,
    *,
    user: str = "",
    overwrite: Overwrite | None = None,
    base_snapshot_id: int | None = None,
    states: BucketStates | None = None,
    fills_defaults: bool = True,
    reads_now: bool = False,
    takes_row_ids: bool = False,
) -> TableWriter:
    """Open a writer for one task. Requires: the table was checked to be writable.

    Parameters
    ----------
    user : str
        Who will commit: part of the names of files in the postpone bucket.
    overwrite : Overwrite, optional
        The rows replace existing ones: sequence numbers begin again, nothing is compacted, and
        rows for partitions that are not replaced are refused.
    base_snapshot_id : int, optional
        The snapshot to begin from, 0 for the empty table; by default the newest.
    states : BucketStates, optional
        What an earlier writer of the same job has read, in place of a base. The table was checked
        when it was read.
    fills_defaults : bool
        Whether nulls become their columns' defaults; not for existing rows.
    reads_now : bool
        Whether the first rows are at hand. Then the buckets of a remote table may be read while it
        is checked. Otherwise they are read when the first rows come: rows of a version that is
        older than their arrival would lose to what others committed in between.

    takes_row_ids : bool
        Whether rows of a table with row tracking come with their ids.

    Raises
    ------
    NotFoundError
        The table was dropped, and perhaps recreated, since it was opened.
    """
    context = handle.store_context()
    if takes_row_ids:
        context = replace(context, schema=tracked_schema(context.schema, context.options))
    read = states or BucketStates(handle, snapshot_id=base_snapshot_id)
    begun: BucketStates | EmptyStates = read
    needs_states = overwrite is None and handle.bucket_mode is not BucketMode.POSTPONE
    is_chosen = reads_now or base_snapshot_id is not None
    if not read.has_begun:
        _check_and_begin(handle, read if needs_states and is_chosen else None)
    if overwrite is not None:  # its commit would not name changelog files
        context = replace(context, options=_without_changelog(context.options))
        begun = EmptyStates()
    dynamic = None
    cross_partition = None
    mode = handle.bucket_mode
    if mode is BucketMode.CROSS_PARTITION:
        cross_partition = CrossPartitionWriter(
            context,
            budget_bytes=write_buffer_bytes(handle.options, handle.env.memory),
            live_keys=LiveKeys(handle, begun),
            assigner=CrossPartitionAssigner(
                handle.schema,
                handle.paths,
                engine=handle.options.get(declared.MERGE_ENGINE),
                live_counts=begun.bucket_rows,
                fill=fill_of(handle.options),
            ),
        )
    elif mode is BucketMode.DYNAMIC:
        dynamic = DynamicBuckets(
            context, entries_of=begun.index_entries, fill=fill_of(handle.options)
        )
    elif mode is BucketMode.POSTPONE:
        begun = EmptyStates()  # new files come after the waiting ones
        number = int(handle.env.rng.uniform(0, WRITER_NUMBER_MAX))
        options = postpone_options(handle.options, handle.schema, user=user, writer_number=number)
        context = replace(context, options=options)
    static = None if overwrite is None else overwrite.static
    return TableWriter(
        context,
        table=handle.identifier,
        state_of=begun,
        check_partition=None if static is None else PartitionCheck(handle, static),
        dynamic=dynamic,
        cross_partition=cross_partition,
        fills_defaults=fills_defaults,
    )


def _check_and_begin(handle: TableHandle, states: BucketStates | None) -> None:
    """Check that the table is the one that was opened; read a remote one's buckets meanwhile."""
    check = partial(handle.schemas.check_same, handle.schema, table=handle.identifier)
    if states is None or not handle.fileio.is_remote:
        check()
        return
    calls: list[Callable[[], object]] = [check, states.begin]
    at_once(handle.fileio, handle.env.reads.files, calls)


def _without_changelog(options: Options) -> Options:
    """Options of a writer whose rows never reach a changelog.

    The first compaction would put rows that no lookup has seen into it, as new rows.
    """
    silent = {declared.CHANGELOG_PRODUCER.key: "none"}
    if options.get(declared.CHANGELOG_PRODUCER) == LOOKUP:
        silent[declared.FORCE_LOOKUP.key] = "true"
    return options.updated(silent)


@dataclass(frozen=True, slots=True)
class LiveKeys:
    """Reads the primary keys of live rows; an overwrite of the whole table has none."""

    handle: TableHandle
    states: BucketStates | EmptyStates

    def __call__(self, keys: pa.Table) -> Iterator[tuple[BucketId, pa.RecordBatch]]:
        """Live keys by their bucket, without files that hold none of `keys`."""
        if isinstance(self.states, EmptyStates):
            return
        handle = self.handle
        context = handle.read_context(all_rows=True)
        names = handle.schema.primary_keys
        predicate = among_keys(
            keys, [handle.schema.field(n) for n in handle.schema.trimmed_primary_keys]
        )
        plan = plan_scan(
            context, self.states.snapshot, manifests=handle.manifests, predicate=predicate
        )
        for split in plan.splits:
            for batch in read_split(context, split, columns=names, predicate=predicate):
                yield split.bucket_id, batch
