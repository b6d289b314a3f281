"""Which snapshot of a target belongs to an epoch.

A job's commits name the job as their user and the epoch as their identifier. So a target is what an
epoch left of it from the newest commit with that identifier or a smaller one, up to the first with
a larger one. Snapshots of others between, such as compactions, belong to the epoch as well.

Cost: the snapshots since the epoch are read once; those of other users are not parsed.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from tidelake.engine.tables import TableHandle


@dataclass(frozen=True, slots=True)
class JobCommits:
    """The commits of one job to a target, as far as they are kept and asked for.

    Parameters
    ----------
    earliest_id, latest_id : int
        The snapshots that are kept; 0 for a table without any.
    commits : tuple of tuple of int
        Id and epoch of each snapshot, newest first.
    """

    target: str
    earliest_id: int
    latest_id: int
    commits: tuple[tuple[int, int], ...]

    @classmethod
    def since(cls, handle: TableHandle, user: str, epoch: int) -> JobCommits:
        """Read the commits after an epoch."""
        log = handle.snapshots
        latest = log.latest()
        if latest is None:
            return cls(handle.identifier, 0, 0, ())
        newest = [latest] if latest.commit_user == user else []
        older = log.of_user(user, before=latest.id, down_to=1, executor=handle.env.executor)
        found = []
        for snapshot in itertools.chain(newest, older):
            if snapshot.commit_identifier <= epoch:
                break
            found.append((snapshot.id, snapshot.commit_identifier))
        earliest_id = log.earliest_id() or 1
        return cls(handle.identifier, earliest_id, latest.id, tuple(found))

    def at(self, epoch: int) -> int | None:
        """Give the snapshot that belongs to an epoch, not older than the one asked for.

        Returns
        -------
        int or None
            0 if the table had no snapshot then; None if the snapshot has expired.
        """
        found = self.latest_id
        for snapshot_id, identifier in self.commits:
            if identifier <= epoch:
                break
            found = snapshot_id - 1
        return None if 0 < found < self.earliest_id else found
