"""Whether a journal and the tables belong together, looked at before a run does anything.

A journal that was put back from an older copy cuts the log into epochs anew. The commits refuse an
epoch of the same number with other positions, but a table without rows in that epoch has none to
refuse it, and would get the rows behind it twice. So a start looks at each target's newest commit
of the job. It belongs to the journal if

1. it is the commit that the journal's state names, or one before it; or
2. it is of the newest entry's epoch, and ends where the entry does, or is of its replay; or
3. the target has a table that waits for a copy, or none that is followed: the commit is of a copy
   that was cut off.

Cost: the newest snapshots of each target, read in parallel.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace

from tidelake.cdc.job.targets import Targets
from tidelake.cdc.journal.entry import EntryKind, JournalEntry
from tidelake.cdc.journal.job_state import JobState, Phase
from tidelake.cdc.target.epoch_step import EpochStep
from tidelake.engine.streams import Covered, MadeCommit
from tidelake.engine.tables import Table
from tidelake.engine.write import last_commit
from tidelake.errors import InvalidInputError, NotFoundError

_LOG = logging.getLogger("tidelake")


def matched(targets: Targets, entry: JournalEntry, state: JobState, user: str) -> JobState:
    """Refuse a journal that lacks what its tables have.

    Gives the state with the commits of a replay that a crash cut off: it is not applied again.

    Parameters
    ----------
    state : JobState
        What the newest entry's epoch began with.

    Raises
    ------
    InvalidInputError
        Kind ``checkpoint_behind``.
    """
    phases: dict[str, set[Phase]] = {}
    for table in state.tables.values():
        phases.setdefault(table.target, set()).add(table.phase)
    loose = {
        target
        for target, found in phases.items()
        if Phase.LIVE not in found or not found <= {Phase.LIVE, Phase.GONE, Phase.LEFT_OUT}
    }
    made = dict(state.made)
    state = _without_dropped(targets, state)
    for target, last in _newest_commits(targets, phases, user):
        known = state.made.get(target)
        if not _is_known(last, entry, known, is_loose=target in loose):
            raise _behind(targets, target, last, entry)
        if entry.kind is EntryKind.REPLAY and last.identifier == entry.epoch:
            made[target] = last
    return replace(state, made=made)


def _without_dropped(targets: Targets, state: JobState) -> JobState:
    """Suspend the tables whose target was dropped, so that the others go on."""
    catalog = targets.catalog
    live = sorted({one.target for one in state.tables.values() if one.phase is Phase.LIVE})
    found = catalog.env.executor.map(catalog.table_exists, live)
    gone = {target for target, is_there in zip(live, found, strict=True) if not is_there}
    for name, one in state.tables.items():
        if one.phase is Phase.LIVE and one.target in gone:
            reason = f"{one.target} was dropped: tidelake cdc resnapshot makes it again"
            _LOG.warning("Job '%s': table %s is suspended: %s", targets.settings.job, name, reason)
            state = state.with_table(name, replace(one, phase=Phase.SUSPENDED, reason=reason))
    return state


def check_new(targets: Targets, names: Iterable[str], epoch: int, user: str) -> None:
    """Refuse a journal which does not know targets that it has committed to.

    Parameters
    ----------
    names : iterable of str
        Targets of tables that join.
    epoch : int
        The journal's newest; -1 for a journal that is empty.

    Raises
    ------
    InvalidInputError
        Kind ``checkpoint_behind``.
    """
    for target, last in _newest_commits(targets, names, user):
        if last.identifier > epoch:
            raise _behind(targets, target, last, None)


def _newest_commits(
    targets: Targets, names: Iterable[str], user: str
) -> Iterable[tuple[str, MadeCommit]]:
    """The job's newest commit to each target that is there and has one."""
    env = targets.catalog.env

    def newest(name: str) -> MadeCommit | None:
        try:
            table = targets.catalog.table(name)
        except NotFoundError:
            return None  # made with the copy, or dropped: told where its rows come
        assert isinstance(table, Table), "no system table is a target"
        found = last_commit(table.handle.snapshots, user, env.executor)
        return None if found is None else MadeCommit.of(found)

    listed = list(names)
    for name, last in zip(listed, env.executor.map(newest, listed), strict=True):
        if last is not None:
            yield name, last


def _is_known(
    last: MadeCommit, entry: JournalEntry, known: MadeCommit | None, *, is_loose: bool
) -> bool:
    if last.identifier > entry.epoch:
        return False
    if last.identifier == entry.epoch:
        if entry.kind is EntryKind.COPY:
            return True
        if entry.kind is EntryKind.REPLAY:
            mark = EpochStep.of_replay("", entry.epoch, entry.run).end
            return last.end == Covered.between(mark, mark).end
        return last.end in {None, Covered.between(entry.start, entry.end).end}
    if known is None or last.identifier > known.identifier:
        return is_loose
    if last.identifier < known.identifier or None in {last.end, known.end}:
        return True  # rolled back or expired: the next commit finds out
    return last.end == known.end


def _behind(
    targets: Targets, target: str, last: MadeCommit, entry: JournalEntry | None
) -> InvalidInputError:
    job = targets.settings.job
    has = "" if entry is None else f", which ends with epoch {entry.epoch}"
    message = (
        f"Job '{job}': the journal is older than the tables. '{target}' has the commit of epoch"
        f" {last.identifier}, which is not of this journal{has}. Nothing was written. Put the"
        " newest journal back. If it is lost, begin anew with another name of the job, which"
        " copies the tables again."
    )
    return InvalidInputError(
        message, kind="checkpoint_behind", job=job, table=target, epoch=last.identifier
    )
