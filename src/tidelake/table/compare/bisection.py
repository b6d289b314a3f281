"""The first snapshot for which a condition fails, by bisection.

The condition holds at the first snapshot of a range and fails at its last one. Each step reads the
snapshot in the middle: ``log2 n`` of them, and the two ends. Where the condition fails, holds and
fails again, the answer is one of the snapshots where it begins to fail.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tidelake.errors import InvalidInputError
from tidelake.scan import plan_scan, read_split
from tidelake.table.handle.handle import TableHandle
from tidelake.table.handle.time_travel import Moment
from tidelake.types.predicate import Not, Predicate, bind


@dataclass(frozen=True, slots=True)
class Bisected:
    """Where a condition begins to fail.

    Parameters
    ----------
    first_bad : int, optional
        The first snapshot for which it fails; None if it holds at the last one.
    last_good : int, optional
        The snapshot before; None if it fails at the first one.
    checked : tuple of (int, bool)
        The snapshots that were read, in order, and whether it holds there.
    """

    first_bad: int | None
    last_good: int | None
    checked: tuple[tuple[int, bool], ...]

    def __repr__(self) -> str:
        return (
            f"<Bisected: fails from {self.first_bad}, holds at {self.last_good};"
            f" {len(self.checked)} snapshots read>"
        )


def bisect_snapshots(
    handle: TableHandle,
    holds: Callable[[int], bool],
    *,
    good: Moment | None,
    bad: Moment | None,
) -> Bisected:
    """Find where a condition begins to fail; see :meth:`tidelake.Table.bisect`.

    Parameters
    ----------
    holds : callable
        Says whether the condition holds at the snapshot of an id.
    good, bad : int, str or datetime, optional
        The ends of the range: the oldest and the newest snapshot by default.
    """
    ids = handle.snapshots.ids()
    if good is not None or bad is not None:
        first, last = (_id(handle, moment) for moment in (good, bad))
        ids = [n for n in ids if (first or 0) <= n and (last is None or n <= last)]
    if not ids:
        message = (
            f"Table '{handle.identifier}' has no snapshot between {good!r} and {bad!r}: give an"
            " older one as good and a newer one as bad."
        )
        raise InvalidInputError(message, kind="bisect_range", table=handle.identifier)
    with handle.hold_all([handle.snapshots.find(ids[0])]):
        return _bisected(ids, holds)


def _bisected(ids: Sequence[int], holds: Callable[[int], bool]) -> Bisected:
    checked: list[tuple[int, bool]] = []

    def check(number: int) -> bool:
        checked.append((number, bool(holds(number))))
        return checked[-1][1]

    low, high = 0, len(ids) - 1
    if check(ids[high]):
        return Bisected(None, ids[high], tuple(checked))
    if high == 0 or not check(ids[low]):
        return Bisected(ids[low], None, tuple(checked))
    while high - low > 1:
        middle = (low + high) // 2
        if check(ids[middle]):
            low = middle
        else:
            high = middle
    return Bisected(ids[high], ids[low], tuple(checked))


def rows_condition(handle: TableHandle, condition: Predicate) -> Callable[[int], bool]:
    """A test of whether no row of a snapshot contradicts a condition.

    Snapshots are read with the table's current columns: one that was added since is null.
    """
    context = handle.read_context()
    contradicts = bind(Not(condition), context.schema.fields)

    def holds(number: int) -> bool:
        snapshot = handle.snapshots.load(number)
        plan = plan_scan(context, snapshot, manifests=handle.manifests, predicate=contradicts)
        batches = (
            batch
            for split in plan.splits
            for batch in read_split(context, split, columns=(), predicate=contradicts)
        )
        return not any(batch.num_rows for batch in batches)

    return holds


def _id(handle: TableHandle, moment: Moment | None) -> int | None:
    snapshot = None if moment is None else handle.time_travel.at(moment)
    return None if snapshot is None else snapshot.id
