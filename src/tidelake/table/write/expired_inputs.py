"""The error of a writer whose base expired: others replaced files that its compaction reads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from tidelake.errors import ConflictError, NotFoundError
from tidelake.metadata.log.schema_log import names_drop
from tidelake.table.handle.handle import TableHandle

BASE_EXPIRED = "base_expired"
"""The kind of the conflict. A write whose rows are at hand begins again on the newest snapshot."""


class _Based(Protocol):
    """What writes the files of a commit."""

    @property
    def base_snapshot_id(self) -> int | None: ...


@contextmanager
def names_expired_inputs(handle: TableHandle, source: _Based) -> Iterator[None]:
    """Let the error of a missing file say that the snapshot has expired that named it, if it has.

    Raises
    ------
    ConflictError
        A file is missing, and the snapshot that the source began with.
    """
    try:
        with names_drop(handle.fileio, handle.paths, table=handle.identifier):
            yield
    except NotFoundError as error:
        base = source.base_snapshot_id
        if error.kind != "file_not_found" or not base or handle.snapshots.is_kept(base):
            raise
        message = (
            f"Other commits replaced files of table '{handle.identifier}' while this one compacted"
            f" them, and snapshot {base} with them has expired: nothing was committed. Write"
            " again, or keep snapshots longer than a write takes by 'snapshot.time-retained'."
        )
        raise ConflictError(
            message, kind=BASE_EXPIRED, table=handle.identifier, snapshot=base
        ) from error
