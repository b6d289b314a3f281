"""The retention of snapshots and changelogs, by number and age. Pure.

From the oldest on, an id expires if

1. at least `count_min` ids stay (``num-retained.min``);
2. the next one is older than `older_than_ms` (``time-retained``), or more than `count_max` would
   stay (``num-retained.max``);
3. no consumer still has to read it;
4. at most `limit` expire at a time (``snapshot.expire.limit``).

Source: Paimon's ``ExpireSnapshotsImpl`` and ``ExpireChangelogImpl``. Rule 2 uses the age of the
next id, as 2.1 does, where 1.3.1 uses its own: a state is kept for that long after it was the
newest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidelake.options import Option, Options, declared

_OF_CHANGELOGS = (
    declared.CHANGELOG_NUM_RETAINED_MIN,
    declared.CHANGELOG_NUM_RETAINED_MAX,
    declared.CHANGELOG_TIME_RETAINED,
)


@dataclass(frozen=True, slots=True)
class Retention:
    """The limits of a retention.

    Parameters
    ----------
    count_min, count_max : int
        The least and the most number to keep.
    older_than_ms : int
        One may expire if the next was committed before this time, ms since the epoch.
    limit : int
        How many expire at a time, at most.
    """

    count_min: int
    count_max: int
    older_than_ms: int
    limit: int

    def end(
        self,
        oldest_id: int,
        newest_id: int,
        *,
        time_ms: Callable[[int], int | None],
        consumer_next_id: int | None = None,
    ) -> int:
        """The oldest id that stays.

        Parameters
        ----------
        oldest_id, newest_id : int
            The oldest one there is, and the table's newest snapshot.
        time_ms : callable
            Returns the commit time of an id; None if it was removed.
        consumer_next_id : int, optional
            The oldest that a consumer still has to read.

        Examples
        --------
        >>> Retention(1, 3, older_than_ms=0, limit=50).end(1, 9, time_ms=lambda i: i)
        7
        >>> Retention(1, 9, older_than_ms=5, limit=50).end(1, 9, time_ms=lambda i: i)
        4
        """
        end = min(newest_id - self.count_min + 1, oldest_id + self.limit)
        if consumer_next_id is not None:
            end = min(end, consumer_next_id)
        for number in range(max(newest_id - self.count_max + 1, oldest_id), end):
            next_ms = time_ms(number + 1)
            if next_ms is not None and next_ms >= self.older_than_ms:
                return number
        return max(end, oldest_id)


def retentions(
    options: Options,
    *,
    now_ms: int,
    count_min: int | None = None,
    count_max: int | None = None,
    older_than_ms: int | None = None,
    limit: int | None = None,
) -> tuple[Retention, Retention]:
    """The retention of snapshots and of changelogs that a table's options ask for.

    Parameters
    ----------
    options : Options
        The table's. A ``changelog.*`` option that is not set has the value of the one for
        snapshots; if none is set, changelogs expire with their snapshots.

    Returns
    -------
    tuple of Retention
        For snapshots, and for changelogs.
    """

    def value(given: int | None, option: Option[int]) -> int:
        return options.get(option) if given is None else given

    def either(option: Option[int | None], otherwise: Option[int]) -> int:
        found = options.get(option)
        return options.get(otherwise) if found is None else found

    age_ms = options.get(declared.SNAPSHOT_TIME_RETAINED)
    of_snapshots = Retention(
        value(count_min, declared.SNAPSHOT_NUM_RETAINED_MIN),
        value(count_max, declared.SNAPSHOT_NUM_RETAINED_MAX),
        now_ms - age_ms if older_than_ms is None else older_than_ms,
        value(limit, declared.SNAPSHOT_EXPIRE_LIMIT),
    )
    if not any(map(options.is_set, _OF_CHANGELOGS)):
        return of_snapshots, of_snapshots
    of_changelogs = Retention(
        either(declared.CHANGELOG_NUM_RETAINED_MIN, declared.SNAPSHOT_NUM_RETAINED_MIN),
        either(declared.CHANGELOG_NUM_RETAINED_MAX, declared.SNAPSHOT_NUM_RETAINED_MAX),
        now_ms - either(declared.CHANGELOG_TIME_RETAINED, declared.SNAPSHOT_TIME_RETAINED),
        of_snapshots.limit,
    )
    return of_snapshots, of_changelogs


def is_decoupled(snapshots: Retention, changelogs: Retention) -> bool:
    """Whether changelogs outlive their snapshots."""
    return (
        changelogs.count_min > snapshots.count_min
        or changelogs.count_max > snapshots.count_max
        or changelogs.older_than_ms < snapshots.older_than_ms
    )
