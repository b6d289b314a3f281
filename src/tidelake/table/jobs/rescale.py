"""Changes the number of buckets of partitions, by rewriting them.

1. The schema of a table with fixed buckets gets the new option ``bucket``, unless it has it
   already. From then on new partitions have the new number. Writes to older ones are refused until
   they are rewritten; reads go on, because every file records its number of buckets.
2. Each partition of another number is read as it is now (merged, without deletes) and overwritten
   with its own rows, routed again: one commit per partition. So a second call finishes a rescale
   that was interrupted. The commit is refused if another writer changed the partition in between.
   refused.

A table with the postpone bucket keeps its schema: there each partition has its own number, and rows
in the postpone bucket stay there.

Source: Paimon's ``RescaleAction`` and its page on rescaling (1.3.1), where the user runs step 1 as
a statement; its ``commit.strict-mode`` keeps other writers' rows.
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
from tidelake.table.schema.constraints import unchecked
from tidelake.table.write.overwrite import Overwrite
from tidelake.table.write.result import WriteResult, joined
from tidelake.table.write.transaction import WriteTransaction
from tidelake.table.write.writable import check_writable
from tidelake.types.predicate import Predicate
from tidelake.types.schema_change import SetOption


@dataclass(frozen=True, slots=True)
class PartitionRewrite:
    """One partition to rewrite.

    Parameters
    ----------
    partition : Predicate, optional
        The partition; None of a table without partition columns.
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
        # all rows are inserts, whatever a column with row kinds says
        rows = ((b, np.zeros(b.num_rows, np.int8)) for b in rewrite.scan.batches())
        results.append(WriteTransaction(rewrite.handle, overwrite=overwrite).write_batches(rows))
    return joined(results)


def rewrites_of(handle: TableHandle, partitions: object | None) -> Iterator[PartitionRewrite]:
    """Yield the partitions to rewrite, one by one, each in its current state.

    Parameters
    ----------
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
    snapshot = handle.snapshots.latest()  # earlier rewrites made new snapshots
    static = None
    if handle.schema.partition_keys:
        static = exact_partition(handle.schema, handle.paths.partition_values(partition))
    assert snapshot is not None, "a snapshot holds every existing partition"
    handle = handle.with_options(unchecked(handle.options))
    return PartitionRewrite(handle, scan_all_rows(handle, snapshot, static), static, snapshot)


def _partitions_to_rewrite(
    handle: TableHandle, snapshot: Snapshot, chosen: Predicate | None, count: int
) -> list[bytes]:
    """The wanted partitions that have another number of buckets."""
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
            f"Table '{handle.identifier}' has no fixed number of buckets ('bucket' = {current}) to"
            " change: make a new table with 'bucket' set."
        )
        raise UnsupportedError(message, kind="rescale", table=handle.identifier)
    if given is None and current > 0:
        return current
    count = whole_number(given)
    if count is None or count < 1:
        shown = shortened(repr(given))
        message = f"buckets={shown} must be a number from 1 on: the buckets of each partition."
        raise InvalidInputError(message, kind="bad_argument", table=handle.identifier)
    return count


def with_buckets(handle: TableHandle, buckets_count: object) -> TableHandle:
    """The table with another number of buckets, which is stored if buckets are fixed.

    Parameters
    ----------
    buckets_count : int or None
        The new number; None keeps the option's number.

    Raises
    ------
    InvalidInputError, UnsupportedError
        The number is not valid, or the table has no fixed buckets; nothing was written.
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
