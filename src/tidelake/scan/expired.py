"""The error of a read whose snapshot expired meanwhile: one of its files is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tidelake.errors import NotFoundError
from tidelake.metadata.log.schema_log import SchemaLog, dropped
from tidelake.metadata.log.tag import TagLog
from tidelake.metadata.table_state import TableState

SNAPSHOT_EXPIRED = "snapshot_expired"
"""The kind of the error. A read of the newest snapshot is planned again for the next one."""


@contextmanager
def names_expiry(table: TableState, snapshot_id: int) -> Iterator[None]:
    """Let the error of a missing file name the snapshot, if that has expired.

    Raises
    ------
    NotFoundError
        A file is missing. The kind is :data:`SNAPSHOT_EXPIRED` if its snapshot is missing too, and
        another if the table is.
    """
    try:
        yield
    except NotFoundError as error:
        if error.kind != "file_not_found" or _still_has_files(table, snapshot_id):
            raise
        if SchemaLog(table.fileio, table.paths).latest_id() is None:
            raise dropped(table.paths.location) from error
        message = (
            f"Snapshot {snapshot_id} of table {table.paths.location} expired while it was read:"
            f" {error.context.get('path', 'a file')} was deleted. Read a newer snapshot or a tag;"
            " 'snapshot.time-retained' sets how long a snapshot stays after the next one."
        )
        raise NotFoundError(message, kind=SNAPSHOT_EXPIRED, snapshot=snapshot_id) from error


def _still_has_files(table: TableState, snapshot_id: int) -> bool:
    """Whether the snapshot, its changelog or a tag of it exists: then the file was lost."""
    if table.snapshots.is_kept(snapshot_id):
        return True
    tags = TagLog(table.fileio, table.paths)
    return any(tags.load(name).snapshot.id == snapshot_id for name in tags.names())
