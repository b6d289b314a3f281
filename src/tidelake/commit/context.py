"""What a commit has at hand: one table's storage, options and decoded manifests."""

from __future__ import annotations

from dataclasses import dataclass

from tidelake.fileio import FileIO
from tidelake.metadata.log.snapshot import Snapshot, SnapshotLog
from tidelake.metadata.manifest.entry_table import EntryTable
from tidelake.metadata.manifest.live_set import delta_entries
from tidelake.metadata.manifest.manifest_cache import ManifestCache
from tidelake.metadata.paths import TablePaths
from tidelake.options import Options
from tidelake.telemetry import Env
from tidelake.types import TableSchema

__all__ = ["CommitContext"]


@dataclass(frozen=True, slots=True)
class CommitContext:
    """One table as its committer sees it.

    Parameters
    ----------
    fileio : FileIO
        The storage.
    paths : TablePaths
        The table's paths.
    schema : TableSchema
        The schema that the table was opened with: a commit to another table that has its place now
        is refused.
    options : Options
        The table's options.
    env : Env
        Clock, randomness, ids.
    manifests : ManifestCache
        Decoded manifests.
    table : str
        The table's name, for messages.
    """

    fileio: FileIO
    paths: TablePaths
    schema: TableSchema
    options: Options
    env: Env
    manifests: ManifestCache
    table: str

    @property
    def log(self) -> SnapshotLog:
        """The table's snapshots."""
        return SnapshotLog(self.fileio, self.paths)

    def delta(self, snapshot: Snapshot) -> EntryTable:
        """The entries that a snapshot added itself, ADD and DELETE."""
        return delta_entries(self.fileio, self.paths, snapshot, self.manifests)
