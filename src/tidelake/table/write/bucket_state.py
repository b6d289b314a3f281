"""The state of a bucket before a write: its live files in the newest snapshot.

1. The first look-up chooses the snapshot and reads its manifests. The choice stays: all buckets of
   a write begin from one version.
2. Each bucket's entries are filtered out of the manifests' columns and folded by themselves, so
   that a write into one bucket does not pay for the others' files.
3. A write into many buckets folds everything once instead (:data:`SEPARATE_LOOK_UPS_MAX`).
4. A write into very many makes objects of all files at once (:data:`FOLDED_LOOK_UPS_MAX`).

Cost at 20,000 files in 20 manifests: 1 ms for one bucket, 7 ms to fold all, 100 ms for all objects.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tidelake.metadata.bucket_id import BucketId
from tidelake.metadata.data_file import DataFileMeta
from tidelake.metadata.index.index_manifest import deletion_files_by_bucket, index_entries
from tidelake.metadata.index_entry import IndexEntry, IndexFile
from tidelake.metadata.log.newest import read_newest
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.manifest.entry_table import EntryTable
from tidelake.metadata.manifest.snapshot_entries import manifest_files, read_manifests
from tidelake.metadata.paths import POSTPONE_BUCKET
from tidelake.table.handle.handle import TableHandle
from tidelake.table.write.table_writer import BucketState

SEPARATE_LOOK_UPS_MAX = 4
"""Buckets that are folded separately; the next look-up folds the whole table."""

FOLDED_LOOK_UPS_MAX = 64
"""Buckets that are taken from the folded table separately, at a millisecond each."""
OBJECTS_MAX = 100_000
"""Files of a larger table become objects only on demand."""
OBJECT_BYTES = 2_000
"""The approximate size of a file's object."""

NO_ENTRIES = EntryTable.of([])


class BucketStates:
    """The states of buckets in one snapshot, looked up on demand. For one thread.

    Parameters
    ----------
    snapshot_id : int, optional
        The snapshot to look at, 0 for the empty table; the newest by default.
    """

    def __init__(self, handle: TableHandle, *, snapshot_id: int | None = None) -> None:
        self._wanted = snapshot_id
        self._handle = handle
        self._snapshot_id: int | None = None
        self._where = ""
        self._entries: Sequence[EntryTable] = ()
        self._snapshot: Snapshot | None = None
        self._index: Sequence[IndexEntry] = ()
        self._vectors: dict[BucketId, tuple[IndexFile, ...]] = {}
        self._look_ups = 0
        self._folded = False
        self._states: dict[BucketId, BucketState] | None = None
        self._partition_buckets: dict[bytes, int] = {}

    def __call__(self, partition: bytes, bucket: int) -> BucketState:
        """Look one bucket up."""
        if self._snapshot_id is None:
            self._read()
        assert self._snapshot_id is not None
        self._look_ups += 1
        if self._look_ups > SEPARATE_LOOK_UPS_MAX and not self._folded:
            self._entries = (EntryTable.fold(self._entries, where=self._where),)
            self._folded = True
        if self._look_ups > FOLDED_LOOK_UPS_MAX and self._states is None:
            self._states = self._all_states()
        if self._states:
            found = self._states.get(BucketId(partition, bucket))
            return found or BucketState(
                (), self._partition_buckets.get(partition), self._snapshot_id
            )
        own = self._live(partition, bucket)
        some = own if own.num_rows else self._live(partition, None)
        buckets = int(some["total_buckets"][0]) if some.num_rows else None
        vectors = self._vectors.get(BucketId(partition, bucket), ())
        return BucketState(tuple(own.files()), buckets, self._snapshot_id, vectors)

    def begin(self) -> None:
        """Read the newest snapshot now, or the one that was given."""
        if self._snapshot_id is None:
            self._read()

    @property
    def has_begun(self) -> bool:
        """Whether the snapshot is read."""
        return self._snapshot_id is not None

    @property
    def snapshot(self) -> Snapshot | None:
        """The snapshot that is read; None for the empty table."""
        if self._snapshot_id is None:
            self._read()
        return self._snapshot

    def bucket_rows(self, partition: bytes) -> dict[int, int]:
        """The rows of each bucket of a partition that are not deletes, as its files count them."""
        if self._snapshot_id is None:
            self._read()
        live = self._live(partition, None)
        rows: dict[int, int] = {}
        for bucket, count, deletes in zip(
            live["bucket"].tolist(),
            live["row_count"].tolist(),
            live["delete_row_count"].to_pylist(),
            strict=True,
        ):
            rows[bucket] = rows.get(bucket, 0) + count - (deletes or 0)
        return rows

    def index_entries(self, partition: bytes) -> tuple[Sequence[IndexEntry], int]:
        """The index files of a partition, and the id of their snapshot."""
        if self._snapshot_id is None:
            self._read()
        assert self._snapshot_id is not None
        return [e for e in self._index if e.partition == partition], self._snapshot_id

    def _all_states(self) -> dict[BucketId, BucketState]:
        """The buckets that have files; empty if the table is too large for objects."""
        (table,) = self._entries
        fitting = self._handle.env.memory.manifest_cache_bytes // OBJECT_BYTES
        if table.num_rows > min(OBJECTS_MAX, fitting):
            return {}
        files: dict[BucketId, list[DataFileMeta]] = {}
        buckets: dict[BucketId, int] = {}
        for entry in table.to_entries():  # a Python loop over files, 5 us each
            if entry.bucket == POSTPONE_BUCKET:
                continue  # its files do not belong to a real bucket
            bucket_id = entry.bucket_id
            files.setdefault(bucket_id, []).append(entry.file)
            buckets.setdefault(bucket_id, entry.total_buckets)
            self._partition_buckets.setdefault(entry.partition, entry.total_buckets)
        return {
            bucket_id: BucketState(
                tuple(own), buckets[bucket_id], self._snapshot_id, self._vectors.get(bucket_id, ())
            )
            for bucket_id, own in files.items()
        }

    def _read(self) -> None:
        snapshots = self._handle.snapshots
        if self._wanted is None:
            read_newest(snapshots.latest, self._take)
        else:
            self._take(snapshots.load(self._wanted) if self._wanted else None)

    def _take(self, snapshot: Snapshot | None) -> None:
        """Read a snapshot."""
        handle = self._handle
        if snapshot is None:
            self._snapshot_id = 0
            return
        files = manifest_files(handle.fileio, handle.paths, snapshot, handle.manifests)
        self._entries = read_manifests(handle.fileio, handle.paths, files, handle.manifests)
        self._snapshot = snapshot
        self._index = index_entries(handle.fileio, handle.paths, snapshot, handle.manifests)
        self._vectors = deletion_files_by_bucket(self._index)
        self._where = f"snapshot {snapshot.id} of {handle.paths.location}"
        self._snapshot_id = snapshot.id

    def _live(self, partition: bytes, bucket: int | None) -> EntryTable:
        """The live files of a bucket, or of a whole partition."""
        found: list[EntryTable] = []
        for table in self._entries:
            number = table.partition_id(partition)
            if number < 0:
                continue
            mask = table["partition_id"] == number
            if bucket is not None:
                mask &= table["bucket"] == bucket
            else:
                mask &= table["bucket"] != POSTPONE_BUCKET
            rows = np.flatnonzero(mask)
            if len(rows):
                found.append(table.in_order(rows))
        if not found:
            return NO_ENTRIES
        return found[0] if self._folded else EntryTable.fold(found, where=self._where)


class EmptyStates:
    """The states of buckets for a write that ignores existing files, as an overwrite."""

    def __call__(self, partition: bytes, bucket: int) -> BucketState:
        """No files, and no snapshot."""
        del partition, bucket
        return BucketState()

    def bucket_rows(self, partition: bytes) -> dict[int, int]:
        """No bucket has rows."""
        del partition
        return {}

    def index_entries(self, partition: bytes) -> tuple[Sequence[IndexEntry], int]:
        """No index: it begins empty."""
        del partition
        return (), 0
