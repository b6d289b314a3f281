"""Shared by expiries: removal of files, and commit times."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection

from tidelake.commit.context import CommitContext
from tidelake.errors import NotFoundError, StorageError

SLOW_S = 0.0003
"""An answer of a storage for which threads are worth it."""


def remove_files(context: CommitContext, files: Collection[str]) -> None:
    """Remove unreferenced files, also from the manifest cache.

    A file that cannot be removed is an orphan. Where a storage answers at once, threads would take
    longer than it does: they begin with the first slow answer.
    """
    clock = context.env.clock

    def remove(path: str) -> None:
        try:
            context.fileio.delete(path)
        except StorageError:
            return  # an orphan does no harm

    rest = deque(sorted(files))
    while rest:
        began_s = clock.monotonic_seconds()
        remove(rest.popleft())
        if clock.monotonic_seconds() - began_s > SLOW_S:
            list(context.env.executor.map(remove, rest))
            break
    context.manifests.forget(files)


def committed_ms(context: CommitContext, snapshot_id: int) -> int | None:
    """Return the commit time of a snapshot or long-lived changelog; None if it was removed."""
    try:
        return context.log.load_or_changelog(snapshot_id).time_ms
    except NotFoundError:
        return None
