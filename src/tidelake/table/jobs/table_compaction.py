"""The compaction that fits a table: sorted runs merged, small files joined, or rows clustered."""

from __future__ import annotations

from tidelake.errors import InvalidInputError
from tidelake.options.bucket_mode import BucketMode
from tidelake.store import ClusterOrder
from tidelake.table.handle.handle import TableHandle
from tidelake.table.job.plan import HERE, Runner
from tidelake.table.jobs.clustering import (
    TableClustering,
    clusters_incrementally,
    plan_clustering,
)
from tidelake.table.jobs.compaction import Chosen, TableCompaction, plan_compaction
from tidelake.table.write.result import WriteResult
from tidelake.table.write.transaction import WriteTransaction


def plan_of_table(
    handle: TableHandle, chosen: Chosen, *, full: bool, order: ClusterOrder | None = None
) -> TableCompaction | TableClustering:
    """Find what a compaction of the newest snapshot does.

    Raises
    ------
    InvalidInputError
        Buckets are chosen of a table whose rows are clustered.
    """
    if order is None and not clusters_incrementally(handle):
        return plan_compaction(handle, chosen, full=full)
    if chosen.buckets is not None and handle.bucket_mode is BucketMode.UNBUCKETED:
        message = (
            f"Table '{handle.identifier}' is clustered by partition, and has no buckets: leave out"
            " buckets=."
        )
        raise InvalidInputError(message, kind="bad_argument", table=handle.identifier)
    return plan_clustering(handle, chosen, order, full=full)


def compact_table(
    handle: TableHandle,
    chosen: Chosen,
    *,
    full: bool,
    order: ClusterOrder | None = None,
    runner: Runner = HERE,
) -> WriteResult:
    """Compact what needs it; one commit.

    Parameters
    ----------
    order : ClusterOrder, optional
        Sort the rows of the chosen partitions by it.

    Raises
    ------
    ConflictError
        Other commits changed all that was compacted; nothing was changed.
    """
    plan = plan_of_table(handle, chosen, full=full, order=order)
    return plan.carry_out(WriteTransaction(handle), runner)
