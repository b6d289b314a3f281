"""The file ``version-hint.text``: the version of the newest metadata file, for Iceberg's readers.

It is overwritten without a condition, so two writers could leave the older version in it. Therefore
a writer looks after each write whether the table has a newer snapshot with metadata, and names that
instead. The writer of a newer version has put its snapshot and its file before it wrote the hint;
so whoever writes last sees the newer one.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidelake.commit.iceberg.settings import IcebergSettings
from tidelake.errors import CorruptError, NotFoundError
from tidelake.fileio import FileIO, OpenDirectory
from tidelake.metadata.log.snapshot_log import SnapshotLog

HINT_BYTES_MAX = 32
TRIES_MAX = 100
"""Newer versions that others may publish while the hint is written."""


@dataclass(frozen=True, slots=True)
class VersionHint:
    """The hint of one table."""

    fileio: FileIO
    settings: IcebergSettings
    log: SnapshotLog

    def read(self) -> int | None:
        """The version; None if there is no hint, or garbage in it."""
        try:
            text = self.fileio.read_bytes(self.settings.hint, bytes_max=HINT_BYTES_MAX)
        except (NotFoundError, CorruptError):
            return None
        return int(text) if text.isdigit() else None

    def move_to(self, version: int, *, within: OpenDirectory) -> int:
        """Name a version, or a newer one that has been published; returns what it names.

        Requires: the version's metadata file is there.
        """
        current = self.read()
        if current is not None and current > version and self._is_published(current):
            return current
        if current != version:
            self._write(version, within)
        for _ in range(TRIES_MAX):
            newer = self._newer_than(version)
            if newer is None:
                return version
            version = newer
            self._write(version, within)
        return version

    def _write(self, version: int, within: OpenDirectory) -> None:
        self.fileio.replace(self.settings.hint, str(version).encode(), within=within)

    def _newer_than(self, version: int) -> int | None:
        """The newest published version after one."""
        latest = self.log.latest_id() or 0
        candidates = range(latest, version, -1)
        return next((v for v in candidates if self._is_published(v)), None)

    def _is_published(self, version: int) -> bool:
        """Whether the table has the snapshot, and its metadata file is there."""
        return self.log.find(version) is not None and self.fileio.exists(
            self.settings.metadata_file(version)
        )
