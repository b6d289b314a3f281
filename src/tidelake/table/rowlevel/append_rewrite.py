"""Deletes and updates of rows of an append table, in this process.

1. The newest snapshot is planned with the predicate: files that hold no row of interest are left
   out by partition, statistics and file indexes.
2. Of each file that is left the predicate's columns are read, nothing else; the rows that match
   give positions (:mod:`tidelake.table.rowlevel.row_positions`).
3. With ``deletion-vectors.enabled`` these rows are marked, and an update writes them with their new
   values into new files. Without, the files that hold any are read whole and go; their other rows,
   and the updated ones, come into new files.
4. One commit, OVERWRITE, names all of it. If another commit changed a vector or replaced a file
   meanwhile, that is a conflict, and all is done again on the newest snapshot. Rows that came
   meanwhile are not looked at.

Cost of a marked delete: one read of the predicate's columns, and the vectors of the buckets
concerned. An update reads and writes the rows that match besides; a rewrite the files that hold
them.

Source of the two ways: Paimon's ``DeleteFromPaimonTableCommand`` and ``UpdatePaimonTableCommand``
(1.3.1) for Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing

from tidelake.commit.conflicts.concurrent_changes import ROWS_CHANGED
from tidelake.commit.conflicts.deletion_conflicts import DELETIONS_CHANGED
from tidelake.errors import OutcomeUnknownError, TidelakeError
from tidelake.metadata.data_file import CommitMessage
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.options import declared
from tidelake.scan import ReadContext, plan_scan
from tidelake.table.handle.handle import TableHandle
from tidelake.table.rowlevel.append_delta import RowChanges
from tidelake.table.rowlevel.assignments import Assignments
from tidelake.table.rowlevel.row_positions import FoundRows, find_rows, read_found, read_without
from tidelake.table.write.write import CommitIdentity, WriteResult
from tidelake.types.predicate import Predicate

__all__ = ["change_rows", "done_again"]

TRIES_MAX = 10
"""How often a change begins anew because another commit was faster."""
_AGAIN = frozenset({DELETIONS_CHANGED, ROWS_CHANGED, "bucket_assignment"})


def done_again(
    handle: TableHandle, identity: CommitIdentity, change: Callable[[], WriteResult]
) -> WriteResult:
    """Make a change on the newest snapshot, again and again while others change the same rows.

    Where it loses again and again the commits of others wait for it
    (:mod:`tidelake.commit.turns`).

    Raises
    ------
    ConflictError
        Others were faster each time; nothing was changed.
    """
    committer = handle.committer()
    return committer.in_turns(identity.user, change, kinds=_AGAIN, tries=TRIES_MAX)


def change_rows(
    handle: TableHandle,
    predicate: Predicate,
    assignments: Assignments | None = None,
    *,
    identity: CommitIdentity,
) -> WriteResult:
    """Delete the rows that match, or give them new values.

    Parameters
    ----------
    handle : TableHandle
        An append table.
    predicate : Predicate
        Bound.
    assignments : Assignments, optional
        New values; the rows are deleted where there are none.
    identity : CommitIdentity
        Who commits.

    Returns
    -------
    WriteResult
        ``rows`` counts the rows deleted or updated.

    Raises
    ------
    InvalidInputError
        A new value does not fit its column.
    ConflictError
        Others were faster each time; nothing was changed.
    """
    if identity.is_committed(handle):
        return WriteResult(already_committed=True)
    return done_again(handle, identity, lambda: _change(handle, predicate, assignments, identity))


def _change(
    handle: TableHandle,
    predicate: Predicate,
    assignments: Assignments | None,
    identity: CommitIdentity,
) -> WriteResult:
    handle.schemas.check_same(handle.schema, table=handle.identifier)
    snapshot = handle.snapshots.latest()
    if snapshot is None:
        return WriteResult()
    context = handle.read_context()
    plan = plan_scan(context, snapshot, manifests=handle.manifests, predicate=predicate)
    places = [(split, file) for split in plan.splits for file in split.files]
    rows_count = 0
    changes = RowChanges(handle, snapshot)
    try:
        change = _marked if handle.options.get(declared.DELETION_VECTORS_ENABLED) else _rewritten
        with closing(
            context.env.executor.map(lambda place: find_rows(context, *place, predicate), places)
        ) as found:
            for own in found:
                if len(own.positions):
                    change(context, changes, own, assignments)
                    rows_count += len(own.positions)
        messages = changes.prepare_commit()
    except BaseException:
        changes.abort()
        raise
    return _committed(
        handle,
        changes,
        messages,
        snapshot,
        rows_count=rows_count,
        updates=assignments is not None,
        identity=identity,
    )


def _marked(
    context: ReadContext, changes: RowChanges, found: FoundRows, assignments: Assignments | None
) -> None:
    if assignments is not None:
        for rows in read_found(context, found):
            changes.write(assignments(rows))
    changes.mark(found)


def _rewritten(
    context: ReadContext, changes: RowChanges, found: FoundRows, assignments: Assignments | None
) -> None:
    for rows in read_without(context, found, assignments):
        changes.write(rows)
    changes.remove(found.split, found.file)


def _committed(
    handle: TableHandle,
    changes: RowChanges,
    messages: Sequence[CommitMessage],
    snapshot: Snapshot,
    *,
    rows_count: int,
    updates: bool,
    identity: CommitIdentity,
) -> WriteResult:
    if not messages:
        changes.close()
        return WriteResult()
    try:
        committed = handle.committer().commit(
            messages,
            user=identity.user,
            identifier=identity.identifier,
            base_snapshot_id=snapshot.id,
        )
    except OutcomeUnknownError:
        changes.close()
        raise
    except TidelakeError:
        changes.abort()  # the committer's promise: no row was changed
        raise
    except BaseException:
        changes.close()  # stopped at a moment that nobody knows: the files may be visible
        raise
    changes.close()
    files = [f for m in messages for f in m.new_files]
    vectors = [f for m in messages if m.deletions for f in m.deletions.added]
    return WriteResult(
        snapshot_ids=tuple(s.id for s in committed.snapshots),
        rows=rows_count,
        files=len(files) + len(vectors),
        bytes=sum(f.file_size_bytes for f in files) + sum(f.file_size_bytes for f in vectors),
        rows_updated=rows_count if updates else 0,
        rows_deleted=0 if updates else rows_count,
    )
