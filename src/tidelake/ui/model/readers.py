"""Who reads a table's changes, who maintains it, and what keeps its snapshots."""

from __future__ import annotations

from dataclasses import dataclass

from tidelake.engine.health import ConsumerState, newest_claim
from tidelake.engine.streams import ConsumerLog
from tidelake.engine.tables import Table, TableHandle


@dataclass(frozen=True, slots=True)
class ConsumerRow:
    """A consumer, and the run that holds its lease.

    Parameters
    ----------
    next_snapshot_id : int, optional
        The first snapshot that it has not read; None if it has no progress yet.
    snapshots_behind : int, optional
        How many snapshots it still has to read.
    is_live : bool
        Whether a run holds its lease now.
    """

    consumer_id: str
    next_snapshot_id: int | None
    snapshots_behind: int | None
    heard_ms: int
    is_live: bool
    is_read: bool
    run_id: str
    process: str


@dataclass(frozen=True, slots=True)
class MaintenanceClaim:
    """The maintenance job that works on a table, or worked on it last.

    Parameters
    ----------
    orphans_ms : int
        When a search for orphan files ended last; 0 if there was none.
    """

    run_id: str
    process: str
    renewed_ms: int
    is_live: bool
    orphans_ms: int


@dataclass(frozen=True, slots=True)
class KeptVersion:
    """A tag or a branch."""

    name: str
    snapshot_id: int | None
    commit_ms: int
    stays: str


def consumer_rows(handle: TableHandle, newest_id: int | None) -> tuple[ConsumerRow, ...]:
    """Read the consumers of a table with their leases."""
    now_ms = handle.env.clock.now_ms()
    states = ConsumerLog(handle.fileio, handle.paths).states().values()
    return tuple(_row(state, now_ms, newest_id) for state in states if not state.is_end)


def _row(state: ConsumerState, now_ms: int, newest_id: int | None) -> ConsumerRow:
    lease, following = state.lease, state.next_snapshot_id
    behind = None
    if following is not None and newest_id is not None:
        behind = max(0, newest_id - following + 1)
    return ConsumerRow(
        state.consumer_id,
        following,
        behind,
        max(state.modified_ms, 0 if lease is None else lease.renewed_ms),
        state.is_in_use(now_ms),
        lease is not None and lease.is_of_read,
        "" if lease is None else lease.run_id,
        "" if lease is None else lease.process,
    )


def maintenance_claim(handle: TableHandle) -> MaintenanceClaim | None:
    """Read which maintenance job worked on a table last; None if none did."""
    claim = newest_claim(handle)
    if not claim.term:
        return None
    is_live = claim.is_live(handle.env.clock.now_ms())
    return MaintenanceClaim(
        claim.run_id, claim.process, claim.renewed_ms, is_live, claim.orphans_ms
    )


def kept_tags(handle: TableHandle) -> tuple[KeptVersion, ...]:
    """Read the tags of a table."""
    found = []
    for name in sorted(handle.tags.names()):
        tag = handle.tags.load(name)
        days = None if tag.time_retained_ms is None else tag.time_retained_ms / 86_400_000
        stays = "until it is deleted" if days is None else f"{days:,.4g} days"
        found.append(KeptVersion(name, tag.snapshot.id, tag.snapshot.time_ms, stays))
    return tuple(found)


def kept_branches(table: Table) -> tuple[KeptVersion, ...]:
    """Read the branches of a table."""
    return tuple(KeptVersion(b.name, b.snapshot_id, 0, "") for b in table.branches)
