"""The expiry that follows every commit, unless the table is ``write-only``."""

from __future__ import annotations

import logging
from functools import partial

from tidelake.commit.context import CommitContext
from tidelake.commit.expiry.changelogs import expire_changelogs
from tidelake.commit.expiry.removal import committed_ms
from tidelake.commit.expiry.retention import is_decoupled, retentions
from tidelake.commit.expiry.snapshots import expire_snapshots
from tidelake.errors import TidelakeError
from tidelake.metadata.log.long_lived_changelog import KeptChangelogs
from tidelake.metadata.log.snapshot import Snapshot

_LOG = logging.getLogger("tidelake")


def expire_as_configured(context: CommitContext, newest: Snapshot) -> None:
    """Expire what the table's options do not keep.

    Parameters
    ----------
    newest : Snapshot
        The newest snapshot, or one that is about as new. Its time counts as now if the clock is
        behind it.

    Notes
    -----
    It makes no call while the table has no more snapshots than are kept at least. Otherwise it
    reads the hint of the oldest one, and the time of the next.
    """
    now_ms = max(context.env.clock.now_ms(), newest.time_ms)
    of_snapshots, of_changelogs = retentions(context.options, now_ms=now_ms)
    if newest.id <= of_snapshots.count_min:
        return
    keeps_changelogs = is_decoupled(of_snapshots, of_changelogs)
    expired = expire_snapshots(
        context, of_snapshots, keeps_changelogs=keeps_changelogs, newest_id=newest.id
    )
    if keeps_changelogs or expired.ids:
        expire_changelogs(context, of_changelogs, newest_id=newest.id)


def has_old_snapshots(context: CommitContext, newest: Snapshot) -> bool:
    """Whether an expiry would remove something now, if no reader holds it; a few small reads."""
    now_ms = max(context.env.clock.now_ms(), newest.time_ms)
    of_snapshots, of_changelogs = retentions(context.options, now_ms=now_ms)
    changelogs = KeptChangelogs(context.fileio, context.paths)
    for retention, oldest_id in (
        (of_snapshots, context.log.earliest_id()),
        (of_changelogs, changelogs.earliest_id()),
    ):
        if oldest_id is None:
            continue
        end = retention.end(oldest_id, newest.id, time_ms=partial(committed_ms, context))
        if end > oldest_id:
            return True
    return False


def expire_quietly(context: CommitContext, newest: Snapshot | None = None) -> None:
    """Expire after a commit; a failure is logged, since the commit is done.

    The next commit tries again. The newest snapshot is looked up where it is not given.
    """
    try:
        newest = context.log.latest() if newest is None else newest
        if newest is not None:
            expire_as_configured(context, newest)
    except TidelakeError as error:
        _LOG.warning("Table %s: old snapshots could not expire: %s", context.table, error)
