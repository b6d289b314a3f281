"""Which tables a job has: those that it leaves out from now on, and those that join.

1. A table that the arguments no longer take is left out: its changes are not read, and its target
   stays as it is.
2. One that they take again is copied anew, as its changes since were not read. Tables that share
   its target are copied with it, so that no row stays that was deleted meanwhile. Until then
   none of them can be copied alone: its target's rows do not tell of which table they are.
3. A table that the job does not know, or knew before it was dropped, joins with a copy. One whose
   target belongs to another table by its name does not join, and the job goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from tidelake.cdc.journal.job_state import JobState, Phase, SyncedTable
from tidelake.cdc.source.source_table import SourceName, SourceTable
from tidelake.errors import InvalidInputError

LEFT_OUT_REASON = "the arguments no longer take it"


def not_taken(state: JobState, takes: Callable[[SourceName], bool]) -> list[SourceName]:
    """List the tables that the arguments no longer take, and that are not left out yet."""
    return [
        name
        for name, one in state.tables.items()
        if one.phase not in (Phase.GONE, Phase.LEFT_OUT) and not takes(name)
    ]


def without(state: JobState, names: Sequence[SourceName]) -> JobState:
    """Give the state with some tables left out."""
    for name in names:
        one = replace(
            state.tables[name], phase=Phase.LEFT_OUT, reason=LEFT_OUT_REASON, is_bounded=False
        )
        state = state.with_table(name, one)
    return state


def routes_of(
    state: JobState,
    every: Sequence[SourceTable],
    route: Callable[[Sequence[SourceTable]], dict[SourceName, str]],
) -> tuple[dict[SourceName, str], list[InvalidInputError]]:
    """Give the targets of the tables that the arguments take, and why new tables have none.

    Parameters
    ----------
    every : sequence of SourceTable
        The source's tables now.
    route : callable
        Gives the targets of tables; raises where two of them meet.

    Raises
    ------
    InvalidInputError
        Two tables meet at one target, and the job copied neither of them, or both.
    """
    followed = [
        table
        for table in every
        if table.name in state.tables and state.tables[table.name].copies_count
    ]
    if not followed:
        return route(every), []
    routes, refused = route(followed), []
    for table in every:
        if table not in followed:
            try:
                routes.update(route([*followed, table]))
            except InvalidInputError as error:
                refused.append(error)
            else:
                followed.append(table)
    return routes, refused


def joining(
    state: JobState, every: Sequence[SourceTable], routes: Mapping[SourceName, str]
) -> dict[SourceName, SyncedTable]:
    """Give the tables to copy: new ones, those taken again, and others of their targets.

    Parameters
    ----------
    every : sequence of SourceTable
        The source's tables now.
    routes : mapping of SourceName to str
        The targets of those that the arguments take.
    """
    found: dict[SourceName, SyncedTable] = {}
    again: dict[str, SourceName] = {}
    for table in every:
        known, target = state.tables.get(table.name), routes.get(table.name)
        if target is None:
            continue
        if known is None or known.phase is Phase.GONE:
            found[table.name] = SyncedTable(target, Phase.COPYING, table, reason="it is new")
        elif known.phase is Phase.LEFT_OUT:
            found[table.name] = replace(
                known,
                target=target,
                phase=Phase.COPYING,
                version=table,
                reason="the arguments take it again",
            )
            again.setdefault(target, table.name)
    for name, one in state.tables.items():
        if one.phase in (Phase.LIVE, Phase.SUSPENDED) and one.target in again:
            reason = f"{again[one.target]} shares its target, and is taken again"
            found[name] = replace(one, phase=Phase.COPYING, reason=reason, is_bounded=False)
    return found


def not_followed(
    state: JobState, target: str, *, besides: Collection[SourceName]
) -> list[SourceName]:
    """List the tables that have rows in a target, and whose changes are not read.

    Parameters
    ----------
    besides : collection of SourceName
        Tables that are not meant.
    """
    return [
        name
        for name, one in state.tables.items()
        if one.target == target
        and name not in besides
        and one.phase in (Phase.SUSPENDED, Phase.LEFT_OUT)
        and one.copies_count
    ]


def what_to_do(state: JobState, target: str, others: Sequence[SourceName]) -> str:
    """Say of tables that are not followed how those of their target can be copied again."""
    left = [name for name in others if state.tables[name].phase is Phase.LEFT_OUT]
    if left:
        what = "which the arguments no longer take: let them take it, or drop"
        return f"{left[0]}, {what} {target} first"
    return f"{others[0]}, which is suspended: tidelake cdc resnapshot copies both"
