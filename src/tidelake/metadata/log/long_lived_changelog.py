"""Changelogs that outlive their snapshots: ``changelog/changelog-<N>``, copies of snapshot files.

The hints LATEST and EARLIEST are beside them, as beside the snapshots. A hint counts only if its
file exists. Source: Paimon's ``ChangelogManager`` (1.3.1).
"""

from __future__ import annotations

from tidelake.errors import CorruptError, NotFoundError, StorageError
from tidelake.fileio import FileIO, OpenDirectory, put_new
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.log.snapshot_log import HINT_BYTES_MAX
from tidelake.metadata.paths import TablePaths, numbered

CHANGELOG_PREFIX = "changelog-"


class KeptChangelogs:
    """The changelogs of one table that outlive their snapshots."""

    def __init__(self, fileio: FileIO, paths: TablePaths) -> None:
        self._fileio = fileio
        self._paths = paths

    def range(self) -> tuple[int, int] | None:
        """Ids of the oldest and the newest; None if there are none."""
        oldest, newest = self._hint("EARLIEST"), self._hint("LATEST")
        if oldest is None or newest is None or self._exists(newest + 1):
            ids = self._listed()
            if not ids:
                return None
            oldest, newest = ids[0], ids[-1]
        while self._exists(oldest - 1):  # left by a killed expiry
            oldest -= 1
        return oldest, newest

    def earliest_id(self) -> int | None:
        """Id of the first that is kept, as an expiry announced it; None if there are none."""
        oldest = self._hint("EARLIEST")
        return min(self._listed(), default=None) if oldest is None else oldest

    def load(self, snapshot_id: int) -> Snapshot:
        """Read one.

        Raises
        ------
        NotFoundError
            It does not exist.
        CorruptError
            Its file is damaged.
        """
        path = self._paths.changelog(snapshot_id)
        return Snapshot.from_json(self._fileio.read_bytes(path), path=path)

    def open_dir(self) -> OpenDirectory:
        """Open their directory, and create it if missing; ``NotFoundError``: no table."""
        return self._fileio.open_dir(self._paths.changelog_dir, make=True)

    def keep(self, snapshot_id: int, data: bytes, *, within: OpenDirectory) -> None:
        """Copy a snapshot's file, given its content, into the open directory.

        An existing one of that id is from a killed expiry, or from a history that was rolled
        back.
        """
        path, fileio = self._paths.changelog(snapshot_id), self._fileio
        if not put_new(fileio, path, data, within=within) and fileio.read_bytes(path) != data:
            fileio.replace(path, data, within=within)
        hint = f"{self._paths.changelog_dir}/LATEST"
        fileio.replace(hint, str(snapshot_id).encode(), within=within)

    def begin_at(self, snapshot_id: int) -> None:
        """Record which is the oldest."""
        self._write_hint("EARLIEST", snapshot_id)

    def forget_hints(self) -> None:
        """Remove the hints when no changelog is left."""
        for name in ("EARLIEST", "LATEST"):
            self._fileio.delete(f"{self._paths.changelog_dir}/{name}")

    def _listed(self) -> list[int]:
        names = (status.name for status in self._fileio.list_dir(self._paths.changelog_dir))
        return sorted(i for name in names if (i := numbered(name, CHANGELOG_PREFIX)) is not None)

    def _exists(self, snapshot_id: int) -> bool:
        return snapshot_id > 0 and self._fileio.exists(self._paths.changelog(snapshot_id))

    def _hint(self, name: str) -> int | None:
        """The id that a hint names, if that changelog exists."""
        try:
            text = self._fileio.read_bytes(f"{self._paths.changelog_dir}/{name}")
        except (NotFoundError, StorageError, CorruptError):
            return None
        digits = text[:HINT_BYTES_MAX].strip()
        number = int(digits) if digits.isdigit() else 0
        return number if self._exists(number) else None

    def _write_hint(self, name: str, snapshot_id: int) -> None:
        path = f"{self._paths.changelog_dir}/{name}"
        self._fileio.replace(path, str(snapshot_id).encode())
