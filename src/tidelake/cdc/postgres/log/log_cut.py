"""Where a range of the log ends: :func:`cut`.

Rules, in this order:

1. A range never has a TRUNCATE of a table and rows of it, nor two TRUNCATEs of it: it ends before
   the second of such two.
2. It ends at the end of a transaction, at the last one within the limits.
3. A transaction that alone is beyond the limits is cut within itself.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from tidelake.cdc.postgres.log.log_messages import (
    COMMIT,
    IS_ROW,
    TRUNCATE,
    LogMessages,
    big_endian,
    commit_end,
    truncated_oids,
)
from tidelake.cdc.postgres.position import LogPosition


@dataclass(frozen=True, slots=True)
class Cut:
    """An end of a range.

    Parameters
    ----------
    count : int
        Messages before it.
    position : LogPosition
        What has been read with them.
    """

    count: int
    position: LogPosition


def cut(messages: LogMessages, rows_max: int, bytes_max: int, oids: Collection[int]) -> Cut | None:
    """Choose where a range ends; None if more messages are needed for it.

    Parameters
    ----------
    messages : LogMessages
        From the start of the range on.
    oids : collection of int
        Tables whose TRUNCATE must stand alone.
    """
    found = _before_truncate(messages, oids)
    limit = len(messages) if found is None else found
    changes = np.cumsum(messages.is_change[:limit])
    sizes = messages.ends[:limit] - messages.starts[:1] if limit else changes
    fitting = int(np.searchsorted(changes, rows_max, side="right"))
    fitting = min(fitting, int(np.searchsorted(sizes, bytes_max, side="right")))
    commits = np.flatnonzero(messages.kinds[:limit] == COMMIT)
    within = commits[commits < fitting]
    if len(within):
        place = int(within[-1])
        return Cut(place + 1, LogPosition(commit_end(messages.message(place))))
    if fitting < limit or found is not None:
        # at least one change, however large
        first = np.flatnonzero(messages.is_change[:limit])
        if not len(first):
            return None
        return _inside(messages, max(min(fitting, limit), int(first[0]) + 1))
    return None


def _inside(messages: LogMessages, count: int) -> Cut:
    """An end after so many messages, within a transaction."""
    last = count - 1
    if messages.kinds[last] == COMMIT:
        return Cut(count, LogPosition(commit_end(messages.message(last))))
    return Cut(count, LogPosition(int(messages.lsn[last]), int(messages.index[last])))


def count_until(messages: LogMessages, end: LogPosition) -> int:
    """Count the messages to an end that is known."""
    lsn, index = messages.lsn, messages.index
    is_in = (lsn < end.lsn) | ((lsn == end.lsn) & (index <= end.index))
    return int(np.searchsorted(~is_in, True))


def position_after(messages: LogMessages) -> LogPosition:
    """Say what has been read with some messages; there must be one."""
    return _inside(messages, len(messages)).position


def count_read(messages: LogMessages, start: LogPosition) -> int:
    """Count the messages that a reader at a position has had."""
    is_old = messages.lsn < start.lsn
    if start.index:
        is_old |= (messages.lsn == start.lsn) & (messages.index <= start.index)
    return int(np.searchsorted(~is_old, True))


def _before_truncate(messages: LogMessages, oids: Collection[int]) -> int | None:
    """The place where rule 1 ends the range, if it does."""
    places = np.flatnonzero(messages.kinds == TRUNCATE)
    if not len(places):
        return None
    rows = np.flatnonzero(IS_ROW[messages.kinds])
    row_oids = big_endian(messages.data, messages.starts[rows] + 1, 4)
    truncated: set[int] = set()
    before = 0
    for place in [*places.tolist(), len(messages)]:
        # rows between the last TRUNCATE and this one
        for row in np.flatnonzero((rows >= before) & (rows < place)).tolist():
            if int(row_oids[row]) in truncated:
                return int(rows[row])
        if place == len(messages):
            return None
        mine = set(truncated_oids(messages.message(place))) & set(oids)
        had = set(np.unique(row_oids[rows < place]).tolist()) | truncated
        if mine & had:
            return place
        truncated |= mine
        before = place
    return None
