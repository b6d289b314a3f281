"""Takes data files that are lost out of a table, so that the others can be read.

1. The directories of the newest snapshot's buckets are listed. A live file that its listing lacks
   is looked for once more by name; only if it is absent then too is it missing. Any other error
   ends the call.
2. One OVERWRITE commit removes the missing files, with their deletion vectors. It holds only if
   they are still live.

The rows of such a file are gone; in a primary-key table older rows of its keys may come back.
Source: Paimon's ``RemoveUnexistingFilesAction`` (1.3.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidelake.metadata.bucket_id import BucketId
from tidelake.metadata.data_file import CommitMessage, DataFileMeta
from tidelake.metadata.index.index_manifest import deletion_files_by_bucket, index_entries
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.scan import BucketFiles, live_buckets
from tidelake.store import BucketDeletions
from tidelake.table.handle.handle import TableHandle
from tidelake.table.write.transaction import WriteTransaction


@dataclass(frozen=True, slots=True)
class MissingFiles:
    """Data files that a table names and its storage lacks.

    Parameters
    ----------
    snapshot_id : int, optional
        The snapshot that removed them; None for a dry run, or if there were none.
    paths : tuple of str
        The files.
    rows_count : int
        The rows that they held, deleted ones too.
    """

    table: str
    snapshot_id: int | None = None
    paths: tuple[str, ...] = ()
    rows_count: int = 0


def remove_missing_files(handle: TableHandle, *, dry_run: bool = False) -> MissingFiles:
    """Remove missing files; see :meth:`tidelake.table.maintenance.Maintenance`.

    Raises
    ------
    ConflictError
        Others replaced one of them meanwhile.
    """
    handle.schemas.check_same(handle.schema, table=handle.identifier)
    snapshot = handle.snapshots.latest()
    if snapshot is None:
        return MissingFiles(handle.identifier)
    context = handle.read_context()
    found = [
        (bucket, missing)
        for bucket in live_buckets(context, snapshot, manifests=handle.manifests)
        if (missing := _missing(handle, bucket))
    ]
    paths = tuple(
        handle.paths.data_file(bucket.partition, bucket.bucket, file)
        for bucket, files in found
        for file in files
    )
    rows_count = sum(file.row_count for _, files in found for file in files)
    if dry_run or not found:
        return MissingFiles(handle.identifier, None, paths, rows_count)
    with WriteTransaction(handle) as out:
        out.add_messages(_messages(handle, snapshot, found), base_snapshot_id=snapshot.id)
        done = out.commit()
    return MissingFiles(handle.identifier, done.snapshot_ids[0], paths, rows_count)


def _missing(handle: TableHandle, bucket: BucketFiles) -> list[DataFileMeta]:
    """The files of a bucket that two looks do not find."""
    fileio, paths = handle.fileio, handle.paths
    listed = {one.name for one in fileio.list_dir(paths.bucket_dir(*bucket.bucket_id))}
    absent = [file for file in bucket.files if file.file_name not in listed]
    return [f for f in absent if not fileio.exists(paths.data_file(*bucket.bucket_id, f))]


def _messages(
    handle: TableHandle,
    snapshot: Snapshot,
    found: Sequence[tuple[BucketFiles, Sequence[DataFileMeta]]],
) -> list[CommitMessage]:
    index = index_entries(handle.fileio, handle.paths, snapshot, handle.manifests)
    vectors = deletion_files_by_bucket(index)
    messages: list[CommitMessage] = []
    for bucket, files in found:
        bucket_id = BucketId(bucket.partition, bucket.bucket)
        deletions = BucketDeletions(
            handle.store_context(),
            *bucket_id,
            files=vectors.get(bucket_id, ()),
            one_file=bucket.total_buckets > 0,
        )
        deletions.drop(file.file_name for file in files)
        change = deletions.write()
        messages.append(
            CommitMessage(
                *bucket_id, bucket.total_buckets, removed_files=tuple(files), deletions=change
            )
        )
    return messages
