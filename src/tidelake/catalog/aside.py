"""Removes tables and databases: their directory is moved out of sight at once, and then deleted.

1. The directory is renamed to ``<warehouse>/.tidelake-staging/<uuid>-dropped``. From then on there
   is no such table, for whoever looks: a process that dies leaves nothing that looks like one, and
   a writer that goes on writes into nothing that is listed or read.
2. It is deleted, and with it what drops that were killed have left there.

Where the storage cannot rename it (it is a mount point, or on another file system than the
warehouse), it is deleted where it is: a table's ``schema`` is renamed first, for a directory
without one is no table. A drop that is cut short there is finished by another one.
"""

from __future__ import annotations

from contextlib import suppress

from tidelake.errors import (
    AlreadyExistsError,
    NotFoundError,
    StorageError,
    StorageRefusedError,
    UnsupportedError,
)
from tidelake.fileio import FileIO
from tidelake.telemetry import Ids

__all__ = ["STAGING_DIRECTORY", "Aside"]

STAGING_DIRECTORY = ".tidelake-staging"
"""Directory of a warehouse where nobody looks for tables."""
DROPPED = "-dropped"


class Aside:
    """Where a warehouse's dropped directories go.

    Parameters
    ----------
    fileio : FileIO
        The storage.
    warehouse : str
        Its path.
    ids : Ids
        Names them.
    """

    def __init__(self, fileio: FileIO, warehouse: str, ids: Ids) -> None:
        self._fileio = fileio
        self._directory = f"{warehouse.rstrip('/')}/{STAGING_DIRECTORY}"
        self._ids = ids

    def take(self, path: str) -> str | None:
        """Move a directory out of sight; its path there, None where it has to stay.

        Raises
        ------
        NotFoundError
            It is not there: another was faster.
        StorageError
            The storage failed; it may have been moved.
        """
        moved = f"{self._directory}/{self._ids.uuid()}{DROPPED}"
        try:
            self._fileio.move_dir(path, moved)
        except (UnsupportedError, StorageRefusedError, AlreadyExistsError):
            return None
        return moved

    def give_back(self, moved: str, path: str) -> None:
        """Put a directory that was taken where it was."""
        self._fileio.move_dir(moved, path)

    def delete(self, moved: str, *, what: str) -> None:
        """Delete a directory that was taken, and what others left.

        Raises
        ------
        StorageError
            The storage failed: what was dropped is gone all the same, but not its files.
        """
        try:
            self._fileio.delete_dir(moved)
        except StorageError as error:
            message = (
                f"{what} is dropped, but its files could not all be deleted ({error}): delete"
                f" {moved}. The next drop in this warehouse tries to."
            )
            raise StorageError(message, kind="drop_unfinished", path=moved) from error
        for status in self._fileio.list_dir(self._directory):
            if status.name.endswith(DROPPED):
                with suppress(StorageError):  # whoever dropped it is told, or is dead
                    self._fileio.delete_dir(f"{self._directory}/{status.name}")

    def delete_in_place(self, path: str) -> None:
        """Delete a table's directory that cannot be moved."""
        with suppress(NotFoundError):  # a drop that was cut short came as far
            self._fileio.move_dir(f"{path}/schema", f"{path}/.schema-{self._ids.uuid()}{DROPPED}")
        self._fileio.delete_dir(path)
