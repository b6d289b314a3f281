"""Shared by expiries: removal of files, and commit times."""

from __future__ import annotations

from collections.abc import Collection

from tidelake.commit.context import CommitContext
from tidelake.errors import NotFoundError, StorageError


def remove_files(context: CommitContext, files: Collection[str]) -> None:
    """Remove unreferenced files, also from the manifest cache.

    A file that cannot be removed is an orphan.
    """

    def remove(path: str) -> None:
        try:
            context.fileio.delete(path)
        except StorageError:
            return  # an orphan does no harm

    list(context.env.executor.map(remove, sorted(files)))
    context.manifests.forget(files)


def committed_ms(context: CommitContext, snapshot_id: int) -> int | None:
    """Return the commit time of a snapshot or long-lived changelog; None if it was removed."""
    try:
        return context.log.load_or_changelog(snapshot_id).time_ms
    except NotFoundError:
        return None
