"""Picks small files of an append table without buckets for compaction, round by round.

Its writers compact nothing: a coordinator beside a stream does. It remembers partitions, not files:

1. The first round remembers every partition with two small files or with deletion vectors; so does
   a round after snapshots expired. Later rounds add the partitions that commits added files to or
   deleted rows from. So a restart finds all.
2. For each partition, bins of files are planned as :func:`tidelake.store.append.pick_unaware` does.
3. After :data:`AGE_OF_REST` rounds without work, the rest of a partition is compacted, even two
   files. After :data:`AGE_FORGOTTEN` rounds it is forgotten until the next commit into it.

A round plans :data:`ROUND_BYTES_MAX` at most, so that it ends soon. Pure but for reads of metadata.
Source: Paimon's ``AppendCompactCoordinator`` (1.3.1), which keeps the files.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tidelake.errors import NotFoundError
from tidelake.metadata.bucket_id import BucketId
from tidelake.metadata.index.index_manifest import deletion_files_by_bucket, index_entries
from tidelake.metadata.log.snapshot import CommitKind, Snapshot
from tidelake.metadata.manifest.entry_table import EntryTable
from tidelake.metadata.manifest.snapshot_entries import delta_entries, live_entries
from tidelake.options import target_file_size_bytes
from tidelake.options.bucket_mode import BucketMode
from tidelake.table.handle.handle import TableHandle
from tidelake.table.jobs.clustering import clusters_incrementally
from tidelake.table.jobs.compaction import CompactionPart, TableCompaction
from tidelake.table.write.new_writer import new_writer
from tidelake.table.write.table_writer import TableWriter

ONLY_BUCKET = 0
"""The bucket of a table without buckets."""
AGE_OF_REST = 5
"""After so many rounds without work even few files are compacted."""
AGE_FORGOTTEN = 10
"""After so many rounds without work a partition is forgotten."""
ROUND_BYTES_MAX = 2 << 30
"""Bytes of files that a round compacts; it takes at least one bin of any size."""


def wants_coordinator(handle: TableHandle) -> bool:
    """Whether writers leave all compactions of the table to a coordinator.

    Clustered rows are not joined to others: compactions by hand cluster them.
    """
    return handle.bucket_mode is BucketMode.UNBUCKETED and not clusters_incrementally(handle)


class AppendCoordinator:
    """Plans rounds of compactions of one table. Not thread-safe."""

    def __init__(self) -> None:
        self._seen_id: int | None = None
        self._ages: dict[bytes, int] = {}
        self._vectors = DeletionVectors()

    @property
    def partitions(self) -> frozenset[bytes]:
        """The remembered partitions."""
        return frozenset(self._ages)

    def plan(self, handle: TableHandle) -> TableCompaction | None:
        """Plan a round; None if there is nothing to do.

        Parameters
        ----------
        handle : TableHandle
            The table with its newest schema.

        Raises
        ------
        InvalidInputError
            The table was altered since it was opened.
        NotFoundError
            It was dropped.
        """
        snapshot = handle.snapshots.latest()
        if snapshot is None:
            return None
        self._notice(handle, snapshot)
        writer = new_writer(handle, base_snapshot_id=snapshot.id)
        try:
            parts = self._parts(writer)
        finally:
            writer.close()
        return TableCompaction(tuple(parts), snapshot.id) if parts else None

    def _parts(self, writer: TableWriter) -> list[CompactionPart]:
        found: list[CompactionPart] = []
        for partition, age in list(self._ages.items()):
            full = age >= AGE_OF_REST
            bins = writer.compaction_parts(partition, ONLY_BUCKET, full=full)
            for files in bins:
                size_bytes = sum(file.file_size_bytes for file in files)
                names = frozenset(file.file_name for file in files)
                found.append(CompactionPart(partition, ONLY_BUCKET, size_bytes, names))
            if bins:
                self._ages[partition] = 0
            elif age >= AGE_FORGOTTEN:
                del self._ages[partition]
            else:
                self._ages[partition] = age + 1
        taken = within_round(found) if found else []
        for part in taken:  # they stand behind those that wait
            self._ages.pop(part.partition, None)
            self._ages[part.partition] = 0
        return taken

    def _notice(self, handle: TableHandle, newest: Snapshot) -> None:
        """Remember the partitions that have something new."""
        seen_id = self._seen_id
        changed = {bucket_id.partition for bucket_id in self._vectors.changed(handle, newest)}
        self._ages.update(dict.fromkeys(changed, 0))
        if seen_id is None or newest.id < seen_id:
            self._ages = dict.fromkeys([*_with_small_files(handle, newest), *changed], 0)
            self._seen_id = newest.id
            return
        try:
            for number in range(seen_id + 1, newest.id + 1):
                snapshot = newest if number == newest.id else handle.snapshots.load(number)
                if snapshot.commit_kind is not CommitKind.COMPACT:
                    delta = delta_entries(handle.fileio, handle.paths, snapshot, handle.manifests)
                    self._ages.update(dict.fromkeys(_partitions(delta), 0))
        except NotFoundError:  # it expired meanwhile
            self._ages.update(dict.fromkeys(_with_small_files(handle, newest), 0))
        self._seen_id = newest.id  # last: the next round repeats a failed read


def within_round(parts: Sequence[CompactionPart]) -> list[CompactionPart]:
    """The parts that one round takes, of all that are due: the largest of them first.

    The first one, which has waited longest, and the smallest of the others. Together they have at
    most :data:`ROUND_BYTES_MAX`, or it is one part.
    """
    first, rest = list(parts[:1]), sorted(parts[1:], key=lambda part: part.size_bytes)
    found = [*first, *rest]
    taken_bytes = np.cumsum([part.size_bytes for part in found])
    count = max(1, int(np.searchsorted(taken_bytes, ROUND_BYTES_MAX, side="right")))
    return sorted(found[:count], key=lambda part: part.size_bytes, reverse=True)


class DeletionVectors:
    """The deletion vectors of a table as they were at the last look."""

    def __init__(self) -> None:
        self._manifest: str | None = None
        self._names: dict[BucketId, frozenset[str]] = {}

    def changed(self, handle: TableHandle, newest: Snapshot) -> list[BucketId]:
        """The buckets whose vectors are others than at the last look; all that have any, first."""
        if newest.index_manifest == self._manifest:
            return []
        entries = index_entries(handle.fileio, handle.paths, newest, handle.manifests)
        names = {
            bucket_id: frozenset(file.file_name for file in files)
            for bucket_id, files in deletion_files_by_bucket(entries).items()
        }
        before, self._names, self._manifest = self._names, names, newest.index_manifest
        return [bucket_id for bucket_id, own in names.items() if before.get(bucket_id) != own]


def _with_small_files(handle: TableHandle, snapshot: Snapshot) -> list[bytes]:
    live = live_entries(handle.fileio, handle.paths, snapshot, handle.manifests)
    target = target_file_size_bytes(handle.options, has_primary_key=False)
    small = live.take(live["file_size_bytes"] < target)
    numbers, counts = np.unique(small["partition_id"], return_counts=True)
    return [small.partitions[n] for n in numbers[counts > 1].tolist()]


def _partitions(entries: EntryTable) -> list[bytes]:
    return [entries.partitions[n] for n in np.unique(entries["partition_id"]).tolist()]
