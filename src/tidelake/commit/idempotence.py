"""Which snapshots of the log are our own: what makes a commit apply once.

A commit is identified by (user, identifier, kind). Before each attempt all snapshots up to the very
one that the attempt builds on are searched for ours; whoever loses the race for the next id
searches the new ones. A job that was taken for dead and its successor can so not both succeed.

1. Walk back from the base. Each snapshot is read once per commit, whatever the number of attempts.
2. Stop at a snapshot of the same user with a smaller identifier: a user's identifiers rise.
3. Batch writes share one identifier, which tells nothing apart. Theirs is ours only if it names a
   file of ours, and only the snapshots since the writer's base are searched.

Cost: the snapshots since the user's last commit, normally none or one. For a user without any all
that are kept are read, once, in batches, and not parsed: what a snapshot expires bounds it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from tidelake.metadata.log.snapshot import BATCH_IDENTIFIER, CommitKind, Snapshot
from tidelake.metadata.log.snapshot_log import SnapshotLog
from tidelake.telemetry import Executor

__all__ = ["OwnCommits", "last_commit"]

BATCH_LOOK_BACK = 4
"""Snapshots searched for a batch write whose base is not known: enough for a commit tried again."""


class OwnCommits:
    """The snapshots of one commit identity, found so far.

    Parameters
    ----------
    log : SnapshotLog
        The table's snapshots.
    user : str
        Commit user.
    identifier : int
        Commit identifier.
    base_snapshot_id : int, optional
        The snapshot that the writer began from.
    names_ours : callable
        Whether a snapshot names a file of this commit; asked for batch writes only.
    executor : Executor
        Reads snapshots.
    """

    def __init__(
        self,
        log: SnapshotLog,
        *,
        user: str,
        identifier: int,
        base_snapshot_id: int | None,
        names_ours: Callable[[Snapshot], bool],
        executor: Executor,
    ) -> None:
        self._log = log
        self._user = user
        self._identifier = identifier
        self._names_ours = names_ours
        self._executor = executor
        self._is_batch = identifier == BATCH_IDENTIFIER
        self._searched_to: int | None = base_snapshot_id if self._is_batch else 0
        self._by_kind: dict[CommitKind, Snapshot] = {}

    def find(self, kind: CommitKind, base: Snapshot | None) -> Snapshot | None:
        """The snapshot of this commit and kind in the history of `base`; None if there is none."""
        if base is not None:
            if self._searched_to is None:
                self._searched_to = max(0, base.id - BATCH_LOOK_BACK)
            self._search(base, self._searched_to)
            self._searched_to = max(self._searched_to, base.id)
        return self._by_kind.get(kind)

    def _search(self, base: Snapshot, searched_to: int) -> None:
        if base.id <= searched_to:
            return
        older = self._log.of_user(
            self._user, before=base.id, down_to=searched_to + 1, executor=self._executor
        )
        for snapshot in itertools.chain([base], older):
            if snapshot.commit_user != self._user:
                continue
            if snapshot.commit_identifier == self._identifier:
                if not self._is_batch or self._names_ours(snapshot):
                    self._by_kind.setdefault(snapshot.commit_kind, snapshot)
            elif snapshot.commit_identifier < self._identifier and not self._is_batch:
                return


def last_commit(log: SnapshotLog, user: str, executor: Executor) -> Snapshot | None:
    """The newest snapshot of a user that is no batch write; None where there is none."""
    latest = log.latest()
    if latest is None:
        return None
    older = log.of_user(user, before=latest.id, down_to=1, executor=executor)
    for snapshot in itertools.chain([latest], older):
        if snapshot.commit_user == user and snapshot.commit_identifier != BATCH_IDENTIFIER:
            return snapshot
    return None
