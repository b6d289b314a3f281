"""The snapshots of a table as they are shown: when, which kind, who, and how many rows.

Snapshots never change, so one that was read is kept. After a rollback other commits get the
numbers: then the newest one that was kept has another identity, and all are read again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from tidelake.engine.metadata import BATCH_IDENTIFIER, Snapshot, at_once
from tidelake.engine.streams import CDC_USER
from tidelake.engine.tables import TableHandle

BATCH = "batch writes"
SHOWN_MAX = 500
"""Snapshots that are read and shown; of more the newest."""


@dataclass(frozen=True, slots=True)
class WriterActivity:
    """What a user of commits did, as far as the snapshots that are shown say.

    Batch writes have a user each, so they are one activity.

    Parameters
    ----------
    kind : str
        ``"job of change data capture"``, ``"stream"`` or ``"batch writes"``.
    users : int
        How many they are.
    last_identifier : int, optional
        The identifier of the last commit: of a stream the batch, of a job the epoch.
    seconds_between : float, optional
        The mean time between its commits; None for a single one.
    """

    user: str
    kind: str
    commits: int
    rows: int
    last_ms: int
    users: int
    last_identifier: int | None
    seconds_between: float | None


@dataclass(frozen=True, slots=True)
class Timeline:
    """The snapshots of a table, the oldest first.

    Parameters
    ----------
    count : int
        All that are kept; `snapshots` has the newest :data:`SHOWN_MAX`.
    tags : mapping of int to str
        Names of tags by their snapshot.
    """

    count: int
    snapshots: tuple[Snapshot, ...]
    tags: Mapping[int, str] = field(default_factory=dict)

    @property
    def newest(self) -> Snapshot | None:
        """The newest snapshot; None for a table that was never written."""
        return self.snapshots[-1] if self.snapshots else None

    def kinds(self) -> dict[str, int]:
        """How many snapshots there are of each kind."""
        found: dict[str, int] = {}
        for snapshot in self.snapshots:
            found[snapshot.commit_kind.value] = found.get(snapshot.commit_kind.value, 0) + 1
        return found

    def writers(self) -> tuple[WriterActivity, ...]:
        """Who committed, the latest first."""
        by_user: dict[str, list[Snapshot]] = {}
        for snapshot in self.snapshots:
            is_batch = snapshot.commit_identifier == BATCH_IDENTIFIER
            user = BATCH if is_batch else snapshot.commit_user
            by_user.setdefault(user, []).append(snapshot)
        found = [_activity(user, made) for user, made in by_user.items()]
        return tuple(sorted(found, key=lambda one: (-one.last_ms, one.user)))


def _activity(user: str, made: list[Snapshot]) -> WriterActivity:
    span_ms = made[-1].time_ms - made[0].time_ms
    users = {snapshot.commit_user for snapshot in made}
    kind = "job of change data capture" if user.startswith(CDC_USER) else "stream"
    return WriterActivity(
        made[-1].commit_user.removeprefix(CDC_USER),
        BATCH if user == BATCH else kind,
        len(made),
        sum(snapshot.delta_record_count or 0 for snapshot in made),
        made[-1].time_ms,
        len(users),
        None if user == BATCH else made[-1].commit_identifier,
        span_ms / 1000 / (len(made) - 1) if len(made) > 1 else None,
    )


def read_timeline(handle: TableHandle, before: Timeline | None = None) -> Timeline:
    """Read the snapshots that are kept.

    Parameters
    ----------
    before : Timeline, optional
        What was read last time.
    """
    log = handle.snapshots
    ids = log.ids()
    known: dict[int, Snapshot] = {}
    if before is not None and before.newest is not None:
        newest = log.find(before.newest.id)
        if newest is not None and newest.identity == before.newest.identity:
            known = {snapshot.id: snapshot for snapshot in before.snapshots}
    shown = ids[-SHOWN_MAX:]
    new = [number for number in shown if number not in known]
    if new:
        calls = [partial(log.find, number) for number in new]
        read = at_once(handle.fileio, handle.env.reads.files, calls)
        # one that is not there has expired meanwhile
        known |= {snapshot.id: snapshot for snapshot in read if snapshot is not None}
    return Timeline(len(ids), tuple(known[number] for number in shown if number in known))
