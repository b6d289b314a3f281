"""A copy of one snapshot: its live files become the first snapshot of the target.

Files keep their names, levels, sequence numbers, schemas and ids of rows; index files (deletion
vectors, hashes of dynamic buckets) come along. History, tags, branches, consumers, changelogs and
statistics do not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidelake.commit.plans import AdoptionPlan
from tidelake.errors import UnsupportedError
from tidelake.metadata.data_file import DataFileMeta
from tidelake.metadata.index.index_manifest import index_entries
from tidelake.metadata.index_entry import IndexEntry
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.manifest.entry_table import COLUMNS, EntryTable
from tidelake.metadata.manifest.snapshot_entries import live_entries
from tidelake.metadata.paths import TablePaths
from tidelake.table.cloning.file_copies import FileCopies
from tidelake.table.cloning.source import copies_of, same_columns
from tidelake.table.handle.handle import TableHandle
from tidelake.table.jobs.compaction import Chosen
from tidelake.table.write.result import CommitIdentity
from tidelake.types import TableSchema


@dataclass(frozen=True, slots=True)
class OneSnapshot:
    """The content of a table, for the first snapshot of another.

    Parameters
    ----------
    entries : EntryTable
        ADD entries.
    next_row_id : int, optional
        The next free id of a row; None where the rows get theirs from the commit.
    """

    entries: EntryTable
    index: tuple[IndexEntry, ...] = ()
    next_row_id: int | None = None
    watermark: int | None = None

    @property
    def schema_ids(self) -> frozenset[int]:
        """The schemas of its files."""
        return frozenset(self.entries["schema_id"].tolist())

    def publish(self, handle: TableHandle) -> int | None:
        """Commit it; see :class:`tidelake.table.cloning.file_copies.FilesPublication`."""
        plan = AdoptionPlan(
            handle.commit_context(), self.entries, self.index, self.next_row_id, self.watermark
        )
        user = CommitIdentity.of(handle, None, None).user
        snapshot = handle.committer().adopt(plan, user=user)
        return None if snapshot is None else snapshot.id

    def is_own(self, newest: Snapshot) -> bool:  # noqa: ARG002 - all of a commit or nothing
        """No: a commit that failed left no snapshot."""
        return False

    def is_visible(self, handle: TableHandle) -> bool:  # noqa: ARG002 - as above
        """No, for the same reason."""
        return False


def content_of(handle: TableHandle, snapshot: Snapshot, chosen: Chosen) -> OneSnapshot:
    """Find what a snapshot holds, in all or some partitions."""
    live = live_entries(handle.fileio, handle.paths, snapshot, handle.manifests)
    index = index_entries(handle.fileio, handle.paths, snapshot, handle.manifests)
    if chosen.partitions is not None:
        wanted = chosen.of_partitions(handle, sorted({*live.partitions}))
        inside = np.array([p in wanted for p in live.partitions], bool)
        live = live.take(inside[live["partition_id"]])
        index = tuple(entry for entry in index if entry.partition in wanted)
    return OneSnapshot(live, index, snapshot.next_row_id, snapshot.watermark)


def with_schema_of(
    handle: TableHandle,
    content: OneSnapshot,
    schema: TableSchema,
    *,
    target: str,
    schema_id: int,
) -> OneSnapshot:
    """The content for a target that takes one schema only: a server makes it, or it exists.

    Parameters
    ----------
    schema : TableSchema
        The source's, by which the target was made.
    schema_id : int
        Of the target's schema of these columns.

    Raises
    ------
    UnsupportedError
        Files were written with other columns.
    """
    used = set(content.entries["schema_id"].tolist())
    known = handle.schemas.load_all(handle.env.reads.ranges)
    if not same_columns([schema, *(known[schema_id] for schema_id in used)]):
        message = (
            f"Table '{handle.identifier}' has files of older columns, and '{target}' takes one"
            " version of the columns: it exists, or a server makes it. Compact the source fully"
            " first, or copy its rows: CREATE TABLE ... AS SELECT."
        )
        raise UnsupportedError(message, kind="clone_evolved", table=handle.identifier)
    entries = content.entries
    at = COLUMNS.get_field_index("schema_id")
    column = pa.array(np.full(entries.num_rows, schema_id, np.int64))
    batch = entries.batch.set_column(at, COLUMNS.field(at), column)
    return OneSnapshot(
        EntryTable(batch, entries.partitions),
        content.index,
        content.next_row_id,
        content.watermark,
    )


def copies_of_content(handle: TableHandle, content: OneSnapshot, paths: TablePaths) -> FileCopies:
    """The job that brings a snapshot's files to the paths of another table.

    Raises
    ------
    CorruptError
        A file is lost.
    UnsupportedError
        A file lies outside the table.
    """
    places = [*_data_paths(handle.paths, paths, content.entries)]
    places += [(handle.paths.index_file_of(e), paths.index_file_of(e)) for e in content.index]
    return FileCopies(copies_of(handle, places), handle.fileio, content)


def _data_paths(
    source: TablePaths, target: TablePaths, entries: EntryTable
) -> Iterator[tuple[str, str]]:
    owners = zip(entries["partition_id"].tolist(), entries["bucket"].tolist(), strict=True)
    for (partition_id, bucket), file in zip(owners, entries.files(), strict=True):
        partition = entries.partitions[partition_id]
        places: list[DataFileMeta | str] = [file, *file.extra_files]
        for place in places:
            yield (
                source.data_file(partition, bucket, place),
                target.data_file(partition, bucket, place),
            )
