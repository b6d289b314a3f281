"""What a commit has at hand: one table's storage, options and decoded manifests."""

from __future__ import annotations

from dataclasses import dataclass

from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.log.snapshot_log import SnapshotLog
from tidelake.metadata.manifest.entry_table import EntryTable
from tidelake.metadata.manifest.live_set import delta_entries
from tidelake.metadata.manifest.manifest_cache import ManifestCache
from tidelake.metadata.table_state import TableState

__all__ = ["CommitContext"]


@dataclass(frozen=True, slots=True)
class CommitContext(TableState):
    """One table as its committer sees it.

    A commit is refused where another table has been created at the path since this one was opened.

    Parameters
    ----------
    manifests : ManifestCache
        Decoded manifests.
    table : str
        The table's name, for messages.
    """

    manifests: ManifestCache
    table: str

    @property
    def log(self) -> SnapshotLog:
        """The table's snapshots."""
        return self.snapshots

    def delta(self, snapshot: Snapshot) -> EntryTable:
        """The entries that a snapshot added itself, ADD and DELETE."""
        return delta_entries(self.fileio, self.paths, snapshot, self.manifests)
