"""The row changes of one task in an append table: marks rows, drops files, writes new rows.

1. Marked rows go into the deletion vectors of their bucket
   (:mod:`tidelake.store.deletion_vectors`). A dropped file is named; the caller writes its
   remaining rows again.
2. New rows are written like any others. Nothing is compacted on the way, so that the files and
   vectors of a bucket change once in a commit.
3. :meth:`RowChanges.prepare_commit` gives one message for each bucket. They form one OVERWRITE
   commit, which holds only if the table still has the files and vectors that were read.

The caller finds the rows and makes the new ones: a delete, an update, or another change.
Several tasks may change one table without buckets if no two of them mark rows of files whose
vectors share an index file; :func:`joined_messages` joins their messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pyarrow as pa

from tidelake.fileio import FileIO, parent_of
from tidelake.metadata.bucket_id import BucketId
from tidelake.metadata.data_file import CommitMessage, DataFileMeta
from tidelake.metadata.index.index_manifest import deletion_files_by_bucket, index_entries
from tidelake.metadata.index_entry import DeletionChange, IndexFile
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.paths import TablePaths
from tidelake.metadata.row_ids import tracks_rows, with_open_ids
from tidelake.options import declared
from tidelake.scan import Split
from tidelake.store import BucketDeletions
from tidelake.table.handle.handle import TableHandle
from tidelake.table.rowlevel.row_positions import RowPositions
from tidelake.table.schema.constraints import Constraints, unchecked
from tidelake.table.write.new_writer import new_writer
from tidelake.table.write.table_writer import TableWriter, delete_new_files
from tidelake.telemetry import ProcessMark


class RowChanges:
    """Changes to rows of an append table; one per task. Not thread-safe."""

    def __init__(self, handle: TableHandle, snapshot: Snapshot) -> None:
        self.rows_count = 0
        """Rows changed, as the caller counts them."""
        self.base_snapshot_id: int | None = snapshot.id
        self._handle = handle
        self._snapshot = snapshot
        self._index: dict[BucketId, tuple[IndexFile, ...]] | None = None
        self._deletions: dict[BucketId, BucketDeletions] = {}
        self._removed: dict[BucketId, list[DataFileMeta]] = {}
        self._total_buckets: dict[BucketId, int] = {}
        self._writer: TableWriter | None = None
        self._constraints = Constraints.of(handle.schema, handle.options, table=handle.identifier)
        self._handed_out: list[CommitMessage] = []
        self._mark = ProcessMark()

    def mark(self, found: RowPositions) -> int:
        """Delete found rows by their file's deletion vector; returns how many were live."""
        bucket_id = self._bucket_id(found.split)
        deletions = self._deletions.get(bucket_id)
        if deletions is None:
            if self._index is None:
                table = self._handle
                self._index = deletion_files_by_bucket(
                    index_entries(table.fileio, table.paths, self._snapshot, table.manifests)
                )
            deletions = self._deletions[bucket_id] = BucketDeletions(
                self._handle.store_context(),
                *bucket_id,
                files=self._index.get(bucket_id, ()),
                one_file=found.split.total_buckets > 0,
            )
        return deletions.delete(found.file, found.positions)

    def remove(self, split: Split, file: DataFileMeta) -> None:
        """Drop a file with all its rows. Requires: no row of it is marked."""
        self._removed.setdefault(self._bucket_id(split), []).append(file)

    def write(self, rows: pa.RecordBatch) -> None:
        """Take new rows, with all columns.

        Raises
        ------
        InvalidInputError
            They do not fit the table, or violate a constraint.
        """
        self.check(rows)
        self.keep(with_open_ids(rows) if tracks_rows(self._handle.options) else rows)

    def check(self, rows: pa.RecordBatch) -> None:
        """Refuse rows that violate a constraint of the table."""
        self._constraints.check(rows)

    def keep(self, rows: pa.RecordBatch) -> None:
        """Take rows that stay as they are, or were checked; with row tracking with their ids."""
        if self._writer is None:
            options = unchecked(self._handle.options).updated({declared.WRITE_ONLY.key: "true"})
            handle = self._handle.with_options(options)
            self._writer = new_writer(
                handle,
                base_snapshot_id=self._snapshot.id,
                fills_defaults=False,
                takes_row_ids=True,
            )
        self._writer.write(rows)

    def prepare_commit(self) -> list[CommitMessage]:
        """Write all files.

        Returns
        -------
        list of CommitMessage
            One for each bucket that changed, in order of (partition, bucket).
        """
        written = [] if self._writer is None else self._writer.prepare_commit()
        messages = {m.bucket_id: m for m in written}
        for bucket_id, total_buckets in self._total_buckets.items():
            own = messages.get(bucket_id) or CommitMessage(*bucket_id, total_buckets)
            if bucket_id in self._removed:
                own = replace(own, removed_files=tuple(self._removed[bucket_id]))
            if bucket_id in self._deletions:
                change = _written(self._deletions[bucket_id])
                if change is not None:
                    own = replace(own, deletions=change)
                    self._handed_out.append(
                        CommitMessage(*bucket_id, total_buckets, deletions=change)
                    )
            messages[bucket_id] = own
        prepared = [m for _, m in sorted(messages.items()) if not m.is_empty]
        sync_index_names(self._handle.fileio, self._handle.paths, prepared)
        return prepared

    def close(self) -> None:
        """Release memory and spill files; prepared files stay."""
        if self._writer is not None:
            self._writer.close()
        self._handed_out.clear()

    def abort(self) -> None:
        """Drop the changes and delete the new files; a forked child deletes none.

        Requires: no commit of the messages took effect or may have taken effect.
        """
        self._handle.env.executor.uninterrupted(self._abort)

    def _abort(self) -> None:
        if self._writer is not None:
            self._writer.abort()
        if self._mark.is_here:
            delete_new_files(self._handle.fileio, self._handle.paths, self._handed_out)
        self._handed_out.clear()

    def _bucket_id(self, split: Split) -> BucketId:
        bucket_id = split.bucket_id
        self._total_buckets[bucket_id] = split.total_buckets
        return bucket_id


def _written(deletions: BucketDeletions) -> DeletionChange | None:
    try:
        return deletions.write()
    except BaseException:
        deletions.discard()
        raise


def sync_index_names(fileio: FileIO, paths: TablePaths, messages: Iterable[CommitMessage]) -> None:
    """Make the names of new index files of deletion vectors durable."""
    directories = {
        directory
        for m in messages
        if m.deletions is not None and m.deletions.added
        for own_directory in [paths.index_dir(m.partition, m.bucket)]
        for directory in (own_directory, parent_of(own_directory))
    }
    for directory in sorted(directories):
        fileio.sync_dir(directory)


def joined_messages(messages: Iterable[CommitMessage]) -> Sequence[CommitMessage]:
    """The messages of several tasks, with one change of deletion vectors for each bucket.

    Requires: no two of them replace the same index file.
    """
    kept: list[CommitMessage] = []
    changes: dict[tuple[bytes, int, int], DeletionChange] = {}
    for message in messages:
        if message.deletions is None:
            kept.append(message)
            continue
        key = (message.partition, message.bucket, message.total_buckets)
        before = changes.get(key, DeletionChange())
        changes[key] = DeletionChange(
            (*before.removed, *message.deletions.removed),
            (*before.added, *message.deletions.added),
        )
        rest = replace(message, deletions=None)
        if not rest.is_empty:
            kept.append(rest)
    kept += [CommitMessage(*key, deletions=change) for key, change in changes.items()]
    return kept
