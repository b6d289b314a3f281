"""Says that a snapshot expired while it was read, where one of its files is gone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tidelake.errors import NotFoundError
from tidelake.metadata.log.tag import TagLog
from tidelake.scan.context import ReadContext

__all__ = ["SNAPSHOT_EXPIRED", "told_if_expired"]

SNAPSHOT_EXPIRED = "snapshot_expired"
"""The error's kind; whoever wants the newest snapshot may look for it again."""


@contextmanager
def told_if_expired(context: ReadContext, snapshot_id: int) -> Iterator[None]:
    """Turn the error for a file that is missing into one that says why, if expiry is why.

    Raises
    ------
    NotFoundError
        A file is missing; of the kind :data:`SNAPSHOT_EXPIRED` where its snapshot is gone too.
    """
    try:
        yield
    except NotFoundError as error:
        if error.kind != "file_not_found" or _is_kept(context, snapshot_id):
            raise
        message = (
            f"Snapshot {snapshot_id} of table {context.paths.location} expired while it was read:"
            f" {error.context.get('path', 'a file')} is gone. Read again, from a newer snapshot or"
            " a tag; 'snapshot.time-retained' says how long a snapshot stays after the next one."
        )
        raise NotFoundError(message, kind=SNAPSHOT_EXPIRED, snapshot=snapshot_id) from error


def _is_kept(context: ReadContext, snapshot_id: int) -> bool:
    """Whether a snapshot is there, or its changelog or a tag of it: then the file was lost."""
    fileio, paths = context.fileio, context.paths
    if fileio.exists(paths.snapshot(snapshot_id)) or fileio.exists(paths.changelog(snapshot_id)):
        return True
    tags = TagLog(fileio, paths)
    return any(tags.load(name).snapshot.id == snapshot_id for name in tags.names())
