"""Removes files, and how far an expiry goes."""

from __future__ import annotations

from collections.abc import Collection

from tidelake.commit.context import CommitContext
from tidelake.errors import NotFoundError, StorageError
from tidelake.metadata.log.consumer import next_snapshot_ids

__all__ = ["held_id", "remove_files", "time_of"]


def remove_files(context: CommitContext, files: Collection[str]) -> None:
    """Remove files that nothing names any more; one that cannot be removed is an orphan.

    What was decoded of them is not kept in memory either.
    """

    def remove(path: str) -> None:
        try:
            context.fileio.delete(path)
        except StorageError:
            return  # an orphan harms nobody

    list(context.env.executor.map(remove, sorted(files)))
    context.manifests.forget(files)


def held_id(context: CommitContext) -> int | None:
    """The oldest snapshot that a consumer has still to read; None without consumers."""
    return min(next_snapshot_ids(context.fileio, context.paths).values(), default=None)


def time_of(context: CommitContext, snapshot_id: int) -> int | None:
    """When a snapshot, or one whose changelog is kept, was committed; None where it is gone."""
    try:
        return context.log.load_or_changelog(snapshot_id).time_ms
    except NotFoundError:
        return None
