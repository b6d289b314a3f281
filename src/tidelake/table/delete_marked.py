"""Deletes rows of an append table by marking their positions in deletion vectors.

1. The newest snapshot is planned with the predicate: files that hold no row of interest are left
   out by partition, statistics and file indexes.
2. Of each file that is left the predicate's columns are read, nothing else; the rows that match
   give positions.
3. Per bucket the positions join those that its vectors have, and new index files are written
   (:mod:`tidelake.store.deletion_vectors`).
4. One commit, OVERWRITE, names the new index files; no data file changes. If another commit changed
   a vector or replaced a file meanwhile, that is a conflict, and all is done again on the newest
   snapshot.

Cost: one read of the predicate's columns, and the vectors of the buckets concerned.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tidelake.commit.deletion_plan import DELETIONS_CHANGED
from tidelake.errors import ConflictError, OutcomeUnknownError, TidelakeError
from tidelake.fileio import parent_of
from tidelake.metadata.data_file import CommitMessage, DataFileMeta
from tidelake.metadata.deletion_vector import Positions
from tidelake.metadata.index_entry import DELETION_VECTORS, IndexFile
from tidelake.metadata.index_manifest import index_entries
from tidelake.metadata.snapshot import Snapshot
from tidelake.scan import ReadContext, ScanPlan, Split, deleted_rows, plan_scan, read_file
from tidelake.store import BucketDeletions
from tidelake.table.handle import TableHandle
from tidelake.table.write import CommitIdentity, WriteResult
from tidelake.table.writer import delete_new_files
from tidelake.types.predicate import Predicate, columns_of, evaluate

__all__ = ["delete_marked"]

TRIES_MAX = 10
"""How often a delete begins anew because another commit was faster."""

Place = tuple[bytes, int]


def delete_marked(
    handle: TableHandle, predicate: Predicate, *, identity: CommitIdentity
) -> WriteResult:
    """Delete the rows that match, by deletion vectors.

    Parameters
    ----------
    handle : TableHandle
        An append table with ``deletion-vectors.enabled``.
    predicate : Predicate
        Bound.
    identity : CommitIdentity
        Who commits.

    Returns
    -------
    WriteResult
        ``rows`` counts the rows deleted.

    Raises
    ------
    ConflictError
        Others were faster each time; nothing was deleted.
    """
    if identity.is_committed(handle):
        return WriteResult(already_committed=True)
    for left in reversed(range(TRIES_MAX)):
        try:
            return _delete(handle, predicate, identity)
        except ConflictError as error:
            if error.kind != DELETIONS_CHANGED or not left:
                raise
    raise AssertionError("unreachable")


def _delete(handle: TableHandle, predicate: Predicate, identity: CommitIdentity) -> WriteResult:
    handle.schemas.check_same(handle.schema, table=handle.identifier)
    snapshot = handle.snapshots.latest()
    context = handle.read_context()
    plan = plan_scan(context, snapshot, manifests=handle.manifests, predicate=predicate)
    if snapshot is None or not plan.splits:
        return WriteResult()
    messages: list[CommitMessage] = []
    try:
        rows_count = _mark(handle, snapshot, _matches(context, plan, predicate), messages)
        directories = {
            path
            for m in messages
            for directory in [handle.paths.index_dir(m.partition, m.bucket)]
            for path in (directory, parent_of(directory))
        }
        for directory in sorted(directories):
            handle.fileio.sync_dir(directory)
        if not messages:
            return WriteResult()
        committed = handle.committer().commit(
            messages,
            user=identity.user,
            identifier=identity.identifier,
            base_snapshot_id=snapshot.id,
        )
    except OutcomeUnknownError:
        raise
    except TidelakeError:
        delete_new_files(handle.fileio, handle.paths, messages)  # no row was deleted
        raise
    files = [f for m in messages if m.deletions for f in m.deletions.added]
    return WriteResult(
        snapshot_ids=tuple(s.id for s in committed.snapshots),
        rows=rows_count,
        files=len(files),
        bytes=sum(f.file_size_bytes for f in files),
    )


def _matches(
    context: ReadContext, plan: ScanPlan, predicate: Predicate
) -> list[tuple[Split, DataFileMeta, Positions]]:
    """The live rows that match: of each file that has any, their ordinals."""
    fields = context.fields(tuple(sorted(columns_of(predicate))))

    def matching(place: tuple[Split, DataFileMeta]) -> tuple[Split, DataFileMeta, Positions]:
        split, file = place
        parts = [np.zeros(0, np.int64)]
        begin = 0
        for batch in read_file(context, split, file, fields):
            mask = evaluate(predicate, batch, fields).to_numpy(zero_copy_only=False)
            parts.append(begin + np.flatnonzero(mask))
            begin += batch.num_rows
        found = np.concatenate(parts)
        deleted = deleted_rows(context, split, file)
        if deleted is not None:
            found = np.setdiff1d(found, deleted, assume_unique=True)
        return split, file, found

    places = [(split, file) for split in plan.splits for file in split.files]
    return [match for match in context.env.executor.map(matching, places) if len(match[2])]


def _mark(
    handle: TableHandle,
    snapshot: Snapshot,
    matches: Sequence[tuple[Split, DataFileMeta, Positions]],
    messages: list[CommitMessage],
) -> int:
    """Write the vectors of all buckets; gives the number of rows, and fills the messages."""
    index: dict[Place, list[IndexFile]] = {}
    for entry in index_entries(handle.fileio, handle.paths, snapshot, handle.manifests):
        if entry.file.index_type == DELETION_VECTORS:
            index.setdefault((entry.partition, entry.bucket), []).append(entry.file)
    context = handle.store_context()
    buckets: dict[Place, tuple[BucketDeletions, int]] = {}
    rows_count = 0
    for split, file, positions in matches:
        place = split.partition, split.bucket
        if place not in buckets:
            deletions = BucketDeletions(
                context, *place, files=index.get(place, ()), one_file=split.total_buckets > 0
            )
            buckets[place] = deletions, split.total_buckets
        rows_count += buckets[place][0].delete(file, positions)
    for place, (deletions, total_buckets) in buckets.items():
        try:
            change = deletions.write()
        except BaseException:
            deletions.discard()
            raise
        if change is not None:
            messages.append(CommitMessage(*place, total_buckets, deletions=change))
    return rows_count
