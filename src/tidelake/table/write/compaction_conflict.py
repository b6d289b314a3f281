"""A compaction job that lost buckets to other commits.

A job learns only at its commit which buckets it lost; these stay as the other commits left them. If
a job lost some of its buckets, it has compacted the others. If it lost all of them, it fails and
its files are deleted. A writer's own compactions never fail: its rows are committed.
"""

from __future__ import annotations

from tidelake.commit import Committed
from tidelake.errors import ConflictError


def check_some_compacted(identifier: str, committed: Committed) -> None:
    """Refuse a commit that lost all of its compactions.

    Raises
    ------
    ConflictError
        Other commits changed every bucket; no snapshot was made.
    """
    dropped = committed.dropped_compactions
    if dropped and not committed.snapshots:
        raise compaction_conflict(identifier, len(dropped), outcome="Nothing was changed.")


def compaction_conflict(identifier: str, buckets_count: int, *, outcome: str) -> ConflictError:
    """The error that reports how many buckets a job lost.

    Returns
    -------
    ConflictError
        Of the kind ``compaction_gave_way``.
    """
    buckets = "1 bucket" if buckets_count == 1 else f"{buckets_count} buckets"
    message = (
        f"Another commit compacted or rewrote {buckets} of table '{identifier}' at the same time,"
        f" and its result stays. {outcome} Call compact again if there is still something to merge,"
        " and let only one job at a time compact a table."
    )
    return ConflictError(message, kind="compaction_gave_way", table=identifier)
