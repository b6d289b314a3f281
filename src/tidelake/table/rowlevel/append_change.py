"""Deletes and updates of rows of an append table, as a job of files.

1. The newest snapshot is planned with the predicate: partition, statistics and file indexes leave
   out files without matching rows.
2. Of each remaining file only the predicate's columns are read; the rows that match give positions
   (:mod:`tidelake.table.rowlevel.row_positions`).
3. With ``deletion-vectors.enabled`` these rows are marked, and an update writes them with their new
   values into new files. Without it, the files that hold any are read whole and dropped; new files
   take their other rows and the updated ones.
4. Files with deletion vectors in one index file, and all files of a bucket, are one task
   (:class:`FileShare`); other files are a task each.
5. One OVERWRITE commit names all of it. If another commit changed a vector or replaced a file
   meanwhile, that is a conflict, and everything is repeated on the newest snapshot. Rows that came
   meanwhile are not considered.

Cost of a marked delete: one read of the predicate's columns, and the vectors of the affected
buckets. An update also reads and writes the matching rows; a rewrite the files that hold them.

Source of the two ways: Paimon's ``DeleteFromPaimonTableCommand`` and ``UpdatePaimonTableCommand``
(1.3.1) for Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from tidelake.metadata.data_file import CommitMessage, DataFileMeta
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.options import declared
from tidelake.scan import ReadContext, Split, plan_scan, split_from_bytes, split_to_bytes
from tidelake.table.handle.handle import TableHandle
from tidelake.table.job.plan import HERE, Gathered, Plan, Runner
from tidelake.table.rowlevel.append_delta import RowChanges, joined_messages
from tidelake.table.rowlevel.assignments import Assignments
from tidelake.table.rowlevel.row_positions import (
    RowPositions,
    find_rows,
    read_found,
    read_without,
    with_new_values,
)
from tidelake.table.write.result import RowCounts, WriteResult
from tidelake.table.write.transaction import WriteTransaction
from tidelake.types.predicate import Predicate


@dataclass(frozen=True, slots=True)
class FileShare:
    """Files that one task must have."""

    splits: tuple[Split, ...]
    size_bytes: int

    def __reduce__(self) -> tuple[object, ...]:
        """Files travel without their statistics."""
        return _share_of, (tuple(map(split_to_bytes, self.splits)), self.size_bytes)


def _share_of(blobs: Sequence[bytes], size_bytes: int) -> FileShare:
    return FileShare(tuple(map(split_from_bytes, blobs)), size_bytes)


@dataclass(frozen=True, slots=True)
class AppendChange(Plan[FileShare]):
    """A delete or an update.

    Parameters
    ----------
    tasks : tuple of FileShare
        The files that may hold rows to change.
    predicate : Predicate
        Bound: the rows to change.
    assignments : Assignments, optional
        New values; without any, the rows are deleted.
    """

    tasks: tuple[FileShare, ...]
    snapshot: Snapshot
    predicate: Predicate
    assignments: Assignments | None = None

    @property
    def base_snapshot_id(self) -> int:
        """The snapshot in which rows are found."""
        return self.snapshot.id

    def run(self, tasks: Sequence[FileShare], into: Gathered) -> None:
        """Change the rows of some files; together, since their rows share new files."""
        handle, assignments = into.handle, self.assignments
        context = handle.read_context()
        files = [(split, file) for task in tasks for split in task.splits for file in split.files]
        change = _marked if handle.options.get(declared.DELETION_VECTORS_ENABLED) else _rewritten
        with (
            into.writing(RowChanges(handle, self.snapshot)) as changes,
            closing(
                handle.env.executor.map(lambda f: find_rows(context, *f, self.predicate), files)
            ) as found,
        ):
            for rows in found:
                if len(rows.positions):
                    change(context, changes, rows, assignments)
                    changes.rows_count += len(rows.positions)

    def commit(self, out: WriteTransaction, gathered: Gathered) -> WriteResult:
        """Publish the changes of all tasks; nothing where no row matched."""
        count = gathered.rows_count
        if not count:
            return WriteResult()
        gathered.replace(self.whole(gathered.messages))
        counts = RowCounts(deleted=count) if self.assignments is None else RowCounts(updated=count)
        return out.commit(counts=counts)

    def whole(self, messages: Sequence[CommitMessage]) -> list[CommitMessage]:
        """The messages of all tasks as one commit needs them.

        Vectors of a bucket change once, and removed files are those of the manifests, whose
        statistics did not travel.
        """
        known = {f.file_name: f for task in self.tasks for s in task.splits for f in s.files}

        def of_manifests(files: tuple[DataFileMeta, ...]) -> tuple[DataFileMeta, ...]:
            return tuple(known[file.file_name] for file in files)

        return [
            replace(m, removed_files=of_manifests(m.removed_files))
            for m in joined_messages(messages)
        ]


def plan_change(
    handle: TableHandle,
    snapshot: Snapshot,
    predicate: Predicate,
    assignments: Assignments | None = None,
) -> AppendChange:
    """Find the files that may hold rows to change; parameters as of :class:`AppendChange`.

    Raises
    ------
    InvalidInputError
        The table was altered since it was opened.
    """
    handle.schemas.check_same(handle.schema, table=handle.identifier)
    context = handle.read_context()
    plan = plan_scan(context, snapshot, manifests=handle.manifests, predicate=predicate)
    marks = handle.options.get(declared.DELETION_VECTORS_ENABLED)
    together: dict[object, list[Split]] = {}
    for split in plan.splits:
        for file in split.files:
            where = split.deletions.get(file.file_name)
            owner: object = split.bucket_id
            if split.total_buckets <= 0:
                owner = where.path if marks and where is not None else file.file_name
            together.setdefault(owner, []).append(split.part((((file,),),)))
    shares = (FileShare(tuple(own), sum(s.size_bytes for s in own)) for own in together.values())
    return AppendChange(tuple(shares), snapshot, predicate, assignments)


def change_rows(
    transaction: WriteTransaction,
    predicate: Predicate,
    assignments: Assignments | None = None,
    *,
    runner: Runner = HERE,
) -> WriteResult:
    """Delete the rows that match, or set their new values.

    Parameters
    ----------
    assignments : Assignments, optional
        New values; without any, the rows are deleted.

    Returns
    -------
    WriteResult
        ``rows`` counts the rows deleted or updated.

    Raises
    ------
    InvalidInputError
        A new value does not fit its column.
    ConflictError
        Others were faster in every attempt; nothing was changed.
    """
    return transaction.run(_Change(transaction, predicate, assignments, runner))


@dataclass(frozen=True, slots=True)
class _Change:
    """A delete or an update as a statement; parameters as of :func:`change_rows`."""

    transaction: WriteTransaction
    predicate: Predicate
    assignments: Assignments | None
    runner: Runner

    def attempt(self) -> WriteResult:
        """Run it on the newest snapshot."""
        handle = self.transaction.handle
        snapshot = handle.snapshots.latest()
        if snapshot is None:
            handle.schemas.check_same(handle.schema, table=handle.identifier)
            return WriteResult()
        with handle.hold(snapshot):
            plan = plan_change(handle, snapshot, self.predicate, self.assignments)
            return plan.carry_out(self.transaction, self.runner)


def _marked(
    context: ReadContext, changes: RowChanges, found: RowPositions, assignments: Assignments | None
) -> None:
    if assignments is not None:
        new_values = partial(_checked, changes, assignments)
        for rows in read_found(context, found):
            changes.keep(with_new_values(context, rows, new_values))
    changes.mark(found)


def _rewritten(
    context: ReadContext, changes: RowChanges, found: RowPositions, assignments: Assignments | None
) -> None:
    new_values = None if assignments is None else partial(_checked, changes, assignments)
    for rows in read_without(context, found, new_values):
        changes.keep(rows)
    changes.remove(found.split, found.file)


def _checked(changes: RowChanges, assignments: Assignments, rows: pa.RecordBatch) -> pa.RecordBatch:
    """New values of rows; those that stay beside them are as they were."""
    new = assignments(rows)
    changes.check(new)
    return new
