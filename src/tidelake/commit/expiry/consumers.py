"""Finds the snapshots that consumers and leases keep, and consumers to forget.

A consumer is forgotten after it was silent for ``consumer.expiration-time``, or for its lease's own
time. Source: Paimon's ``ConsumerManager.expire`` (1.3.1).
"""

from __future__ import annotations

from dataclasses import dataclass

from tidelake.commit.context import CommitContext
from tidelake.commit.expiry.result import Holder
from tidelake.metadata.log.consumer import ConsumerLog, ConsumerState
from tidelake.options import declared


@dataclass(frozen=True, slots=True)
class HeldSnapshots:
    """The snapshots that consumers keep.

    Parameters
    ----------
    next_id : int, optional
        The oldest snapshot that one of them has still to read; None without consumers.
    by_lease : bool
        Whether a live lease keeps it.
    holders : tuple of Holder
        All that keep snapshots, by consumer.
    """

    next_id: int | None
    by_lease: bool
    forgotten: tuple[ConsumerState, ...]
    holders: tuple[Holder, ...] = ()

    def before(self, end_id: int) -> tuple[Holder, ...]:
        """The readers that keep a snapshot before `end_id`."""
        return tuple(holder for holder in self.holders if holder.snapshot_id < end_id)

    def end(self, end_id: int) -> int:
        """Return the first id to keep, for an expiry that would end at `end_id`."""
        return end_id if self.next_id is None else min(end_id, self.next_id)


def held_snapshots(context: CommitContext) -> HeldSnapshots:
    """Find the snapshots that consumers keep. One listing, and a read of each file.

    Raises
    ------
    CorruptError
        The file of a consumer or a lease is damaged; the message names it.
    """
    states = ConsumerLog(context.fileio, context.paths).states().values()
    if not states:
        return HeldSnapshots(None, by_lease=False, forgotten=())
    now_ms = context.env.clock.now_ms()
    retained_ms = context.options.get(declared.CONSUMER_EXPIRATION_TIME)
    forgotten = tuple(s for s in states if s.is_forgotten(now_ms, retained_ms))
    holders = tuple(
        holder
        for state in states
        if state not in forgotten and (holder := _holder(state, now_ms)) is not None
    )
    next_id = min((holder.snapshot_id for holder in holders), default=None)
    by_lease = any(holder.is_live for holder in holders if holder.snapshot_id == next_id)
    return HeldSnapshots(next_id, by_lease, forgotten, holders)


def _holder(state: ConsumerState, now_ms: int) -> Holder | None:
    number, lease = state.held_from(now_ms), state.lease
    if number is None:
        return None
    return Holder(
        state.consumer_id,
        number,
        state.is_in_use(now_ms),
        lease.began_ms if lease is not None and lease.is_of_read else None,
        max(state.modified_ms, 0 if lease is None else lease.renewed_ms),
    )


def forget_consumers(context: CommitContext, held: HeldSnapshots) -> None:
    """Remove the files of forgotten consumers.

    A consumer that a run took meanwhile stays. If a slow holder still lives, it writes the files
    again when it goes on.
    """
    log, now_ms = ConsumerLog(context.fileio, context.paths), context.env.clock.now_ms()
    for state in held.forgotten:
        log.forget(state, now_ms)
