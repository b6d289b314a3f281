"""Drops partitions that are too old: a plan, and its commits.

1. The plan is made from the metadata of the newest snapshot and says what goes
   (:mod:`tidelake.commit.partition_expiry`). A dry run ends here.
2. Each batch of the plan is one commit. By update time the partitions must be unchanged since the
   plan: one that got rows meanwhile is young again. Then the rest is planned anew.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidelake.commit.partition_expiry import (
    ExpiryRule,
    OldPartition,
    PartitionExpiryPlan,
    check_partition_expiry,
    plan_partition_expiry,
)
from tidelake.errors import ConflictError, InvalidInputError
from tidelake.options import warn_once
from tidelake.table.handle.handle import TableHandle
from tidelake.table.write.writable import check_writable

PLANS_MAX = 5
"""How often the rest is planned anew after partitions got rows meanwhile."""


@dataclass(frozen=True, slots=True)
class PartitionExpiry:
    """The result of an expiry of partitions, or of a dry run.

    Parameters
    ----------
    before : str
        The local time before which a partition was too old.
    partitions : tuple of OldPartition
        Those that were dropped, or would be: ``values``, ``time``, ``rows``, ``files``,
        ``size_bytes``.
    more_count : int
        How many others are too old, and left for the next time (``partition.expiration-max-num``).
    unread : tuple of str
        Partitions whose values say no time; they stay.
    snapshot_ids : tuple of int
        The commits; none in a dry run.
    """

    before: str = ""
    partitions: tuple[OldPartition, ...] = ()
    more_count: int = 0
    unread: tuple[str, ...] = ()
    snapshot_ids: tuple[int, ...] = ()

    def __str__(self) -> str:
        rows = sum(p.rows for p in self.partitions)
        files = sum(p.files for p in self.partitions)
        size = sum(p.size_bytes for p in self.partitions)
        verb = "dropped" if self.snapshot_ids else "to drop"
        lines = [
            f"{len(self.partitions)} partitions older than {self.before} {verb}:"
            f" {rows:,} rows, {files:,} files, {size:,} bytes"
        ]
        lines += [f"  {p}: of {p.time}, {p.rows:,} rows" for p in self.partitions]
        if self.more_count:
            lines.append(f"  {self.more_count} more are too old")
        lines += [f"  {text}: stays, its values say no time" for text in self.unread]
        return "\n".join(lines)


def expire_partitions_now(handle: TableHandle, *, dry_run: bool = False) -> PartitionExpiry:
    """Drop the partitions that are too old by the table's options.

    Raises
    ------
    InvalidInputError
        The table has no partitions, or no expiration time.
    ConflictError
        Partitions got rows again and again.
    """
    check_partition_expiry(handle.schema, handle.options, table=handle.identifier)
    rule = ExpiryRule.of(handle.options, table=handle.identifier)
    if rule is None or not handle.schema.partition_keys:
        what = "partitions" if rule is not None else "expiration time"
        message = (
            f"Table '{handle.identifier}' has no {what}: partitions expire in a partitioned table"
            " with 'partition.expiration-time', or give expiration_time, such as '7 d'."
        )
        raise InvalidInputError(message, kind="partition_expiry", table=handle.identifier)
    check_writable(handle)
    plan = _plan(handle, rule)
    if plan is None:
        return PartitionExpiry()
    done: list[OldPartition] = [*plan.partitions] if dry_run else []
    ids: list[int] = []
    plans = 1
    while plan.partitions and not dry_run:
        try:
            for batch in plan.batches:
                ids += _drop(handle, plan, batch)
                done += [p for p in plan.partitions if p.partition in batch]
            break
        except ConflictError:
            if plans == PLANS_MAX:
                raise
            plan = _plan(handle, rule) or plan
            plans += 1
    if plan.unread:
        warn_once(handle.identifier, plan.unread_text)
    return PartitionExpiry(plan.before, tuple(done), plan.more_count, plan.unread, tuple(ids))


def _plan(handle: TableHandle, rule: ExpiryRule) -> PartitionExpiryPlan | None:
    snapshot = handle.snapshots.latest()
    if snapshot is None:
        return None
    return plan_partition_expiry(handle.commit_context(), rule, snapshot)


def _drop(handle: TableHandle, plan: PartitionExpiryPlan, batch: frozenset[bytes]) -> list[int]:
    committer = handle.committer()
    committed = committer.drop_old_partitions(batch, read_snapshot=plan.checked_snapshot)
    return [snapshot.id for snapshot in committed.snapshots]
