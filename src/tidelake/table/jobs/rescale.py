"""Gives partitions another number of buckets, by writing them anew.

1. A table of fixed buckets gets a new schema with the option ``bucket`` set, if it is not there
   yet. From then on new partitions have the new number, and writes to older ones are refused until
   they are rewritten; reads go on, for every file says of how many buckets it is one.
2. Each partition of another number is read as it is now (merged, without deletes) and overwritten
   by its own rows, routed anew: one commit per partition, so that a rescale that was cut short is
   done by calling it again. Where another writer changed the partition in between, the commit is
   refused.

A table with the postpone bucket keeps its schema: there the number is each partition's own, and
rows that wait in the postpone bucket stay there.

Source: Paimon's ``RescaleAction`` and its page on rescaling (1.3.1), where step 1 is a statement of
the user's; that nothing is lost to another writer is its ``commit.strict-mode``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tidelake.errors import InvalidInputError, UnsupportedError, shortened
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.paths import POSTPONE_BUCKET
from tidelake.options import declared
from tidelake.scan import live_buckets
from tidelake.scan.pruning.prune import matching_partitions
from tidelake.table.handle.arguments import whole_number
from tidelake.table.handle.handle import TableHandle
from tidelake.table.handle.partition_spec import exact_partition, partitions_predicate
from tidelake.table.read.table_scan import TableScan, scan_all_rows
from tidelake.table.schema.alter import alter_table
from tidelake.table.write.overwrite import Overwrite
from tidelake.table.write.result import WriteResult, joined
from tidelake.table.write.transaction import WriteTransaction
from tidelake.table.write.writable import check_writable
from tidelake.types.predicate import Predicate
from tidelake.types.schema_change import SetOption

__all__ = ["PartitionRewrite", "rescale_table", "rewrites_of", "with_buckets"]


@dataclass(frozen=True, slots=True)
class PartitionRewrite:
    """One partition to be written anew.

    Parameters
    ----------
    handle : TableHandle
        The table with the new number of buckets.
    scan : TableScan
        Reads its rows as they are in `snapshot`.
    partition : Predicate, optional
        The partition; None of a table without partition columns.
    snapshot : Snapshot
        What is read.
    """

    handle: TableHandle
    scan: TableScan
    partition: Predicate | None
    snapshot: Snapshot


def rescale_table(handle: TableHandle, partitions: object | None) -> WriteResult:
    """Rescale to the handle's number; see :meth:`tidelake.Table.rescale_bucket`."""
    results = []
    for rewrite in rewrites_of(handle, partitions):
        overwrite = Overwrite(rewrite.partition, read_snapshot=rewrite.snapshot)
        # inserts, whatever a column with row kinds says
        rows = ((b, np.zeros(b.num_rows, np.int8)) for b in rewrite.scan.batches())
        results.append(WriteTransaction(rewrite.handle, overwrite=overwrite).write_batches(rows))
    return joined(results)


def rewrites_of(handle: TableHandle, partitions: object | None) -> Iterator[PartitionRewrite]:
    """Give the partitions to rewrite, one by one, each as it is by then.

    Parameters
    ----------
    handle : TableHandle
        The table, of :func:`with_buckets`.
    partitions : list of dict, optional
        Which partitions; all by default.

    Raises
    ------
    InvalidInputError
        The partitions are wrong.
    """
    chosen = None
    if partitions is not None:
        chosen = partitions_predicate(handle.schema, partitions, table=handle.identifier)
    snapshot = handle.snapshots.latest()
    if snapshot is None:
        return
    count = handle.options.get(declared.BUCKET)
    for partition in _partitions_to_rewrite(handle, snapshot, chosen, count):
        yield _rewrite(handle, partition)


def _rewrite(handle: TableHandle, partition: bytes) -> PartitionRewrite:
    snapshot = handle.snapshots.latest()  # those before it have moved on
    static = None
    if handle.schema.partition_keys:
        static = exact_partition(handle.schema, handle.paths.partition_values(partition))
    assert snapshot is not None, "a partition that is there is in a snapshot"
    return PartitionRewrite(handle, scan_all_rows(handle, snapshot, static), static, snapshot)


def _partitions_to_rewrite(
    handle: TableHandle, snapshot: Snapshot, chosen: Predicate | None, count: int
) -> list[bytes]:
    """The partitions that are asked for and have another number of buckets."""
    totals = {
        bucket.partition: bucket.total_buckets
        for bucket in live_buckets(handle.read_context(), snapshot, manifests=handle.manifests)
        if bucket.bucket >= 0
    }
    found = [partition for partition, total in totals.items() if total != count]
    if chosen is None:
        return found
    fields = [handle.schema.field(name) for name in handle.schema.partition_keys]
    values = [handle.paths.partition_values(p) for p in found]
    inside = matching_partitions(values, fields, chosen)
    return [partition for partition, wanted in zip(found, inside, strict=True) if wanted]


def _checked_count(handle: TableHandle, given: object) -> int:
    current = handle.options.get(declared.BUCKET)
    if current <= 0 and current != POSTPONE_BUCKET:
        message = (
            f"Table '{handle.identifier}' has no fixed number of buckets ('bucket' = {current}), so"
            " there is none to change: make a new table with 'bucket' set."
        )
        raise UnsupportedError(message, kind="rescale", table=handle.identifier)
    if given is None and current > 0:
        return current
    count = whole_number(given)
    if count is None or count < 1:
        shown = shortened(repr(given))
        message = f"buckets={shown} must be a number from 1 on, the buckets of each partition."
        raise InvalidInputError(message, kind="bad_argument", table=handle.identifier)
    return count


def with_buckets(handle: TableHandle, buckets_count: object) -> TableHandle:
    """The table with another number of buckets; of fixed ones, that is stored.

    Parameters
    ----------
    handle : TableHandle
        The table.
    buckets_count : int or None
        The new number; None for that of the table's option.

    Raises
    ------
    InvalidInputError, UnsupportedError
        The number is none, or the table has no fixed buckets; nothing was written.
    """
    check_writable(handle)
    count = _checked_count(handle, buckets_count)
    current = handle.options.get(declared.BUCKET)
    if current == count:
        return handle
    text = str(count)
    if current == POSTPONE_BUCKET:
        return handle.with_options(handle.options.updated({declared.BUCKET.key: text}))
    return alter_table(handle, [SetOption(declared.BUCKET.key, text)])
