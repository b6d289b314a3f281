"""Drops tables and databases: renames their directory at once, then deletes it.

1. Rename the directory to ``<warehouse>/.tidelake-staging/<uuid>-dropped``. Now the table is gone
   for all processes. A process that dies leaves no partial table, and a writer that continues
   writes to a directory that no process lists or reads.
2. Delete it, with the directories that killed drops left there.

If the storage cannot rename it (an object store, a mount point, or another file system than the
warehouse's), it is deleted in place. A directory without a schema is no table, so a table's
``schema`` is renamed first, or where nothing can be renamed deleted first; its snapshots go last,
because another drop finishes one that was interrupted as long as there are any. While a table's
files are deleted one by one, a sign of it stands in the staging directory, so that nobody creates
the table there: what is put under the old names would be deleted too.
"""

from __future__ import annotations

import re
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

__all__ = ["STAGING_DIRECTORY", "DroppedDirectories"]

STAGING_DIRECTORY = ".tidelake-staging"
"""Directory of a warehouse that is not searched for tables."""
DROPPED = "-dropped"
DROPPING = re.compile(r"(.+)-[0-9a-f-]{36}-dropping")
"""A sign, by the table's path in the warehouse: ``<database>.db.<table>-<uuid>-dropping``."""
SNAPSHOTS = "snapshot"


class DroppedDirectories:
    """The dropped directories of a warehouse.

    Parameters
    ----------
    fileio : FileIO
        The storage.
    warehouse : str
        Its path.
    ids : Ids
        Makes their names.
    """

    def __init__(self, fileio: FileIO, warehouse: str, ids: Ids) -> None:
        self._fileio = fileio
        self._directory = f"{warehouse.rstrip('/')}/{STAGING_DIRECTORY}"
        self._ids = ids

    def move(self, path: str) -> str | None:
        """Move a directory to the staging directory; None if the storage cannot rename it.

        Raises
        ------
        NotFoundError
            Another process dropped it first.
        StorageError
            The storage failed; the directory may have been moved.
        """
        moved = f"{self._directory}/{self._ids.uuid()}{DROPPED}"
        try:
            self._fileio.move_dir(path, moved)
        except (UnsupportedError, StorageRefusedError, AlreadyExistsError):
            return None
        return moved

    def restore(self, moved: str, path: str) -> None:
        """Move a directory back."""
        self._fileio.move_dir(moved, path)

    def delete(self, moved: str, *, what: str) -> None:
        """Delete a moved directory, and those that other drops left.

        Raises
        ------
        StorageError
            The storage failed: the table is gone, but some files remain.
        """
        try:
            self._fileio.delete_dir(moved)
        except StorageError as error:
            message = (
                f"{what} is dropped, but some of its files could not be deleted ({error}): delete"
                f" {moved}. The next drop in this warehouse tries again."
            )
            raise StorageError(message, kind="drop_unfinished", path=moved) from error
        for status in self._fileio.list_dir(self._directory):
            if status.name.endswith(DROPPED):
                with suppress(StorageError):  # its own drop reports the failure
                    self._fileio.delete_dir(f"{self._directory}/{status.name}")

    def delete_in_place(self, path: str) -> None:
        """Delete a table's directory that cannot be moved."""
        files, schema = self._fileio, f"{path}/schema"
        try:
            files.move_dir(schema, f"{path}/.schema-{self._ids.uuid()}{DROPPED}")
        except NotFoundError:
            pass  # an interrupted drop did this
        except UnsupportedError:
            self._delete_each(path)
            return
        files.delete_dir(path)

    def _delete_each(self, path: str) -> None:
        """Delete files that nothing can hide before."""
        files = self._fileio
        signs = [*self._signs(path), f"{_named(path)}-{self._ids.uuid()}-dropping"]
        files.make_dirs(f"{self._directory}/{signs[-1]}")
        files.delete_dir(f"{path}/schema")
        for status in files.list_dir(path):
            if status.is_dir and status.name != SNAPSHOTS:
                files.delete_dir(f"{path}/{status.name}")
        files.delete_dir(path)
        for sign in signs:  # those before were left by drops that died
            files.delete_dir(f"{self._directory}/{sign}")

    def is_dropping(self, path: str) -> bool:
        """Whether files of a table are being deleted, or that was interrupted."""
        return bool(self._signs(path))

    def _signs(self, path: str) -> list[str]:
        names = (status.name for status in self._fileio.list_dir(self._directory))
        found = ((DROPPING.fullmatch(name), name) for name in names)
        return [name for matched, name in found if matched and matched[1] == _named(path)]


def _named(path: str) -> str:
    """A table's directory by the names of its database's and its own."""
    return ".".join(path.rstrip("/").split("/")[-2:])
