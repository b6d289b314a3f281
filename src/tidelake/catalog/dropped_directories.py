"""Drops tables and databases: renames their directory at once, then deletes it.

1. Rename the directory to ``<warehouse>/.tidelake-staging/<uuid>-dropped``. Now the table is gone
   for all processes. A process that dies leaves no partial table, and a writer that continues
   writes to a directory that no process lists or reads.
2. Delete it, with the directories that killed drops left there.

A drop that may still be refused, such as that of a database in which a table was made meanwhile,
ends the name with ``-moving`` first, and renames again once it is decided. No other drop deletes a
directory of this name, not even where its process died: nobody knows then whether its tables were
to go. Move it back to where it belongs, or delete it.

If the storage cannot rename a directory (an object store, a mount point, or another file system
than the warehouse's), it is deleted in place. A directory without a schema is no table, so the
``schema`` of a table is renamed first, or where nothing can be renamed deleted first; its snapshots
go last, because another drop finishes one that was interrupted as long as there are any. While a
table's files are deleted one by one, a sign of it stands in the staging directory, so that nobody
creates the table there: what is put under the old names would be deleted too.

Each of several drops of one table has its own sign, and creators wait for all of them. A drop
removes the sign of another only if that one ended with an error, and said so, or began more than an
hour before: it was killed. If it only slept, it finds its sign missing and deletes nothing more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tidelake.errors import (
    AlreadyExistsError,
    NotFoundError,
    StorageError,
    StorageRefusedError,
    TidelakeError,
    UnsupportedError,
)
from tidelake.fileio import FileIO, FileStatus
from tidelake.telemetry import Ids

STAGING_DIRECTORY = ".tidelake-staging"
"""Directory of a warehouse that is not searched for tables."""
DROPPED = "-dropped"
MOVING = "-moving"
"""Of a directory that its drop may still move back."""
DROPPING = re.compile(r"(.+)-[0-9a-f-]{36}-dropping(-ended)?")
"""A sign, by the table's path in the warehouse: ``<database>.db.<table>-<uuid>-dropping``."""
ENDED = "-ended"
"""Of a second file beside the sign of a drop that ended with an error."""
KILLED_AFTER_MS = 3_600_000
"""Age of the sign of a drop that was killed, by the clock of the storage."""
SNAPSHOTS = "snapshot"


class DroppedDirectories:
    """The dropped directories of a warehouse."""

    def __init__(self, fileio: FileIO, warehouse: str, ids: Ids) -> None:
        self._fileio = fileio
        self._directory = f"{warehouse.rstrip('/')}/{STAGING_DIRECTORY}"
        self._ids = ids

    def move(self, path: str, *, decided: bool = False) -> str | None:
        """Move a directory to the staging directory; None if the storage cannot rename it.

        Parameters
        ----------
        decided : bool
            Whether the drop is over with the move; otherwise :meth:`restore` may follow.

        Raises
        ------
        NotFoundError
            Another process dropped it first.
        StorageError
            The storage failed; the directory may have been moved.
        """
        moved = f"{self._directory}/{self._ids.uuid()}{DROPPED if decided else MOVING}"
        try:
            self._fileio.move_dir(path, moved)
        except (UnsupportedError, StorageRefusedError, AlreadyExistsError):
            return None
        return moved

    def restore(self, moved: str, path: str) -> None:
        """Move a directory back; what was made in its place meanwhile stays there.

        Raises
        ------
        StorageError
            Something of the same name was made meanwhile: the old one stays where it is.
        """
        files, kept = self._fileio, list[str]()
        try:
            files.move_dir(moved, path)
        except AlreadyExistsError:
            for status in files.list_dir(moved):
                try:
                    files.move_dir(f"{moved}/{status.name}", f"{path}/{status.name}")
                except AlreadyExistsError:
                    kept.append(status.name)
            if not kept:
                files.delete_dir(moved)
        if kept:
            message = (
                f"A drop was undone, but {moved} still holds {', '.join(sorted(kept))}: others of"
                f" these names were made in {path} meanwhile. Move it there under other names, or"
                " delete it."
            )
            raise StorageError(message, kind="drop_undone", path=moved)

    def delete(self, moved: str, *, what: str) -> None:
        """Delete a moved directory, and those that other drops left.

        Raises
        ------
        StorageError
            The storage failed: the table is gone, but some files remain.
        """
        if moved.endswith(MOVING):  # from now on other drops may finish this one
            decided = f"{moved.removesuffix(MOVING)}{DROPPED}"
            with suppress(NotFoundError, StorageError):  # deleting it reports what is wrong
                self._fileio.move_dir(moved, decided)
                moved = decided
        try:
            self._fileio.delete_dir(moved)
        except StorageError as error:
            message = (
                f"{what} is dropped, but some of its files could not be deleted ({error}): delete"
                f" {moved}. The next drop in this warehouse tries again."
            )
            raise StorageError(message, kind="drop_unfinished", path=moved) from error
        with suppress(StorageError):  # its own drop reports the failure
            self.clear()

    def left(self) -> list[str]:
        """The directories that killed drops have left."""
        listed = self._fileio.list_dir(self._directory)
        return sorted(f"{self._directory}/{s.name}" for s in listed if s.name.endswith(DROPPED))

    def clear(self) -> int:
        """Delete the directories that killed drops have left; how many.

        Raises
        ------
        StorageError
            The storage failed at one of them; the others are deleted.
        """
        failed: StorageError | None = None
        left = self.left()
        for path in left:
            try:
                self._fileio.delete_dir(path)
            except StorageError as error:
                failed = failed or error
        if failed is not None:
            raise failed
        return len(left)

    def delete_in_place(self, path: str) -> None:
        """Delete a table's directory that cannot be moved."""
        with self.deleted_in_place(path):
            pass

    @contextmanager
    def deleted_in_place(self, path: str) -> Iterator[bool]:
        """Delete a table's directory that cannot be moved; nobody creates the table within.

        Yields
        ------
        bool
            False if this took so long that another drop removed its sign, and ended: the table may
            have been created again.
        """
        files, schema = self._fileio, f"{path}/schema"
        try:
            files.move_dir(schema, f"{path}/.schema-{self._ids.uuid()}{DROPPED}")
        except NotFoundError:
            pass  # an interrupted drop did this
        except UnsupportedError:
            with self.sign(path) as sign:
                is_mine = self._delete_each(path, sign)
                if is_mine:
                    self._remove_dead_signs(path, sign)
                yield is_mine
            return
        files.delete_dir(path)
        yield True

    def _delete_each(self, path: str, sign: str) -> bool:
        """Delete files that nothing can hide before; False if the sign is gone."""
        files = self._fileio
        files.delete_dir(f"{path}/schema")
        for status in files.list_dir(path):
            if status.is_dir and status.name != SNAPSHOTS:
                if not files.exists(sign):
                    return False
                files.delete_dir(f"{path}/{status.name}")
        if not files.exists(sign):
            return False
        files.delete_dir(path)
        return files.exists(sign)

    def delete_left(self, path: str) -> bool:
        """Delete what drops and late writers left at a table's place; False if a table is there."""
        with self.sign(path) as sign:
            if self._fileio.list_dir(f"{path}/schema"):
                return False
            self._fileio.delete_dir(path)
            self._remove_dead_signs(path, sign)
        return True

    @contextmanager
    def sign(self, path: str) -> Iterator[str]:
        """Keep others from creating a table; gives the path of the sign that does."""
        sign = f"{self._directory}/{_named(path)}-{self._ids.uuid()}-dropping"
        try:
            self._fileio.write_once(sign, b"")
            yield sign
        except BaseException:  # an interrupt too
            with suppress(TidelakeError):  # it is taken for killed in an hour
                self._fileio.write_once(f"{sign}{ENDED}", b"")
            raise
        self._fileio.delete(sign)

    def _remove_dead_signs(self, path: str, sign: str) -> None:
        """Remove the signs of drops that died: no file of their table is left."""
        mine = sign.rpartition("/")[2]
        began_ms = {status.name: status.modified_ms for status in self._signs(path)}
        for name in sorted(began_ms):  # a sign before the file that says that its drop ended
            is_killed = began_ms[name] + KILLED_AFTER_MS < began_ms.get(mine, 0)
            if is_killed or name.endswith(ENDED) or f"{name}{ENDED}" in began_ms:
                self._fileio.delete(f"{self._directory}/{name}")

    def is_dropping(self, path: str) -> bool:
        """Whether files of a table are being deleted, or that was interrupted."""
        return bool(self._signs(path))

    def _signs(self, path: str) -> list[FileStatus]:
        listed = self._fileio.list_dir(self._directory)
        found = ((DROPPING.fullmatch(status.name), status) for status in listed)
        return [status for matched, status in found if matched and matched[1] == _named(path)]


def _named(path: str) -> str:
    """A table's directory by the names of its database's and its own."""
    return ".".join(path.rstrip("/").split("/")[-2:])
