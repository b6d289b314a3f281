"""One table as its committer uses it: storage, schema, options and decoded manifests."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tidelake.commit.catalog_listing import CatalogListing
from tidelake.commit.snapshot_commit import SnapshotCommit
from tidelake.metadata.index.hash_index import read_hash_index
from tidelake.metadata.index.index_manifest import index_entries
from tidelake.metadata.index_entry import IndexEntry
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.log.snapshot_log import SnapshotLog
from tidelake.metadata.manifest.entry_table import EntryTable
from tidelake.metadata.manifest.manifest_cache import ManifestCache
from tidelake.metadata.manifest.manifest_list import ManifestFile
from tidelake.metadata.manifest.snapshot_entries import delta_entries
from tidelake.metadata.table_state import Guard, TableState


@dataclass(frozen=True, slots=True)
class CommitContext(TableState):
    """One table as its committer uses it.

    A commit is refused where another table has been created at the path since this one was opened.

    Parameters
    ----------
    snapshot_commit : SnapshotCommit, optional
        What decides the next snapshot, if it is not the storage.
    guard : Guard
        Held while a snapshot is put on the storage.
    listing : CatalogListing, optional
        What shows the table's partitions in a catalog.
    """

    manifests: ManifestCache
    table: str
    snapshot_commit: SnapshotCommit | None = None
    guard: Guard = nullcontext
    listing: CatalogListing | None = None

    @property
    def log(self) -> SnapshotLog:
        """The table's snapshots."""
        return self.snapshots

    def delta(self, snapshot: Snapshot) -> EntryTable:
        """The entries that a snapshot added itself, ADD and DELETE."""
        return delta_entries(self.fileio, self.paths, snapshot, self.manifests)

    def manifest_entries(self, manifest: ManifestFile) -> EntryTable:
        """The entries of a manifest."""
        path = self.paths.manifest(manifest.file_name)
        return self.manifests.entries(self.fileio, path, expected=manifest)

    def index_entries(self, snapshot: Snapshot | None) -> Sequence[IndexEntry]:
        """The index files of a snapshot; empty for the empty table."""
        return index_entries(self.fileio, self.paths, snapshot, self.manifests)

    def index_entries_of(self, snapshot_id: int) -> Sequence[IndexEntry]:
        """The index files of a snapshot, by its id."""
        return self.index_entries(self.log.load(snapshot_id))

    def hashes(self, entry: IndexEntry) -> npt.NDArray[np.int32]:
        """The hashes in an index file of a dynamic bucket."""
        return read_hash_index(self.fileio, self.paths, entry)
