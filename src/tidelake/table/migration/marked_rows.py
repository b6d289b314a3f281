"""The first snapshot of a table whose files came with deleted rows: vectors first, then the commit.

The vectors are of an append table without buckets: each partition has index files of its own. If
the commit fails they are deleted again, unless it may have taken effect.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

from tidelake.errors import OutcomeUnknownError, StorageError
from tidelake.metadata.data_file import CommitMessage, DataFileMeta
from tidelake.metadata.index.deletion_file import Frame
from tidelake.metadata.index.deletion_vector import decode_vector
from tidelake.metadata.index_entry import IndexEntry
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.store import BucketDeletions
from tidelake.table.cloning.snapshot_clone import OneSnapshot
from tidelake.table.handle.handle import TableHandle
from tidelake.table.rowlevel.append_delta import sync_index_names
from tidelake.table.write.table_writer import delete_new_files

ONLY_BUCKET, NO_BUCKETS = 0, -1


@dataclass(frozen=True, slots=True)
class Marked:
    """A data file with deleted rows; the vector is of 64 bits, whatever the table has."""

    partition: bytes
    file: DataFileMeta
    vector: Frame


@dataclass(frozen=True, slots=True)
class MarkedSnapshot:
    """A snapshot's content without its deletion vectors, and the rows that they are to mark.

    See :class:`tidelake.table.cloning.file_copies.FilesPublication`.
    """

    content: OneSnapshot
    marked: tuple[Marked, ...]

    def publish(self, handle: TableHandle) -> int | None:
        """Write the vectors and commit."""
        messages: list[CommitMessage] = []
        try:
            self._write_into(messages, handle)
            sync_index_names(handle.fileio, handle.paths, messages)
            index = tuple(
                IndexEntry(message.partition, message.bucket, file)
                for message in messages
                if message.deletions is not None
                for file in message.deletions.added
            )
            return replace(self.content, index=index).publish(handle)
        except OutcomeUnknownError:
            raise
        except BaseException:
            delete_new_files(handle.fileio, handle.paths, messages)
            raise

    def _write_into(self, messages: list[CommitMessage], handle: TableHandle) -> None:
        by_partition: dict[bytes, list[Marked]] = defaultdict(list)
        for one in self.marked:
            by_partition[one.partition].append(one)
        for partition, own in by_partition.items():
            deletions = BucketDeletions(
                handle.store_context(), partition, ONLY_BUCKET, files=(), one_file=False
            )
            deletions.delete_all(
                (one.file, decode_vector(one.vector.data, row_count=one.file.row_count))
                for one in own
            )
            try:
                change = deletions.write()
            except StorageError:
                deletions.discard()
                raise
            messages.append(CommitMessage(partition, ONLY_BUCKET, NO_BUCKETS, deletions=change))

    def is_own(self, newest: Snapshot) -> bool:
        """No: a commit that failed left no snapshot."""
        return self.content.is_own(newest)

    def is_visible(self, handle: TableHandle) -> bool:
        """No, for the same reason."""
        return self.content.is_visible(handle)
