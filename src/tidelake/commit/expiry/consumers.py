"""The limit that consumers and their leases set to expiries, and consumers that are forgotten.

A consumer is forgotten when nobody was heard of it for ``consumer.expiration-time``, or for the
time that its lease says. Source: Paimon's ``ConsumerManager.expire`` (1.3.1).
"""

from __future__ import annotations

from dataclasses import dataclass

from tidelake.commit.context import CommitContext
from tidelake.metadata.log.consumer import ConsumerLog, ConsumerState
from tidelake.options import declared

__all__ = ["HeldSnapshots", "forget_consumers", "held_snapshots"]


@dataclass(frozen=True, slots=True)
class HeldSnapshots:
    """What consumers keep.

    Parameters
    ----------
    next_id : int, optional
        The oldest snapshot that one of them has still to read; None without consumers.
    by_lease : bool
        Whether a live lease keeps it.
    forgotten : tuple of ConsumerState
        Consumers that nobody was heard of for so long that they keep nothing.
    """

    next_id: int | None
    by_lease: bool
    forgotten: tuple[ConsumerState, ...]

    def end(self, end_id: int) -> int:
        """The first id that stays, of an expiry that would end at `end_id`."""
        return end_id if self.next_id is None else min(end_id, self.next_id)


def held_snapshots(context: CommitContext) -> HeldSnapshots:
    """What the consumers keep that are not to be forgotten. One listing; each file is read.

    Raises
    ------
    CorruptError
        The file of a consumer or a lease is damaged; it is named.
    """
    states = ConsumerLog(context.fileio, context.paths).states().values()
    if not states:
        return HeldSnapshots(None, by_lease=False, forgotten=())
    now_ms = context.env.clock.now_ms()
    retained_ms = context.options.get(declared.CONSUMER_EXPIRATION_TIME)
    forgotten = tuple(s for s in states if s.is_forgotten(now_ms, retained_ms))
    held = [
        (number, state.is_in_use(now_ms))
        for state in states
        if state not in forgotten and (number := state.held_from(now_ms)) is not None
    ]
    next_id = min((number for number, _ in held), default=None)
    by_lease = any(in_use for number, in_use in held if number == next_id)
    return HeldSnapshots(next_id, by_lease, forgotten)


def forget_consumers(context: CommitContext, held: HeldSnapshots) -> None:
    """Remove the files of consumers that are to be forgotten.

    One that a run took meanwhile stays. One whose holder lives on, and was slow, has its files
    again when the holder goes on.
    """
    log, now_ms = ConsumerLog(context.fileio, context.paths), context.env.clock.now_ms()
    for state in held.forgotten:
        log.forget(state, now_ms)
