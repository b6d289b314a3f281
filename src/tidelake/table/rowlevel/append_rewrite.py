"""Deletes and updates of rows of an append table, in this process.

1. The newest snapshot is planned with the predicate: partition, statistics and file indexes leave
   out files without matching rows.
2. Of each remaining file only the predicate's columns are read; the rows that match give positions
   (:mod:`tidelake.table.rowlevel.row_positions`).
3. With ``deletion-vectors.enabled`` these rows are marked, and an update writes them with their new
   values into new files. Without it, the files that hold any are read whole and dropped; new files
   take their other rows and the updated ones.
4. One OVERWRITE commit names all of it. If another commit changed a vector or replaced a file
   meanwhile, that is a conflict, and everything is repeated on the newest snapshot. Rows that came
   meanwhile are not considered.

Cost of a marked delete: one read of the predicate's columns, and the vectors of the affected
buckets. An update also reads and writes the matching rows; a rewrite the files that hold them.

Source of the two ways: Paimon's ``DeleteFromPaimonTableCommand`` and ``UpdatePaimonTableCommand``
(1.3.1) for Spark.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

from tidelake.options import declared
from tidelake.scan import ReadContext, plan_scan
from tidelake.table.rowlevel.append_delta import RowChanges
from tidelake.table.rowlevel.assignments import Assignments
from tidelake.table.rowlevel.row_positions import RowPositions, find_rows, read_found, read_without
from tidelake.table.write.result import RowCounts, WriteResult
from tidelake.table.write.transaction import WriteTransaction
from tidelake.types.predicate import Predicate


def change_rows(
    transaction: WriteTransaction, predicate: Predicate, assignments: Assignments | None = None
) -> WriteResult:
    """Delete the rows that match, or set their new values.

    Parameters
    ----------
    transaction : WriteTransaction
        Of an append table.
    predicate : Predicate
        Bound.
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
    return transaction.run(_Change(transaction, predicate, assignments))


@dataclass(frozen=True, slots=True)
class _Change:
    """A delete or an update."""

    transaction: WriteTransaction
    predicate: Predicate
    assignments: Assignments | None

    def attempt(self) -> WriteResult:
        """Run it on the newest snapshot."""
        handle, assignments = self.transaction.handle, self.assignments
        handle.schemas.check_same(handle.schema, table=handle.identifier)
        snapshot = handle.snapshots.latest()
        if snapshot is None:
            return WriteResult()
        context = handle.read_context()
        plan = plan_scan(context, snapshot, manifests=handle.manifests, predicate=self.predicate)
        files = [(split, file) for split in plan.splits for file in split.files]
        change = _marked if handle.options.get(declared.DELETION_VECTORS_ENABLED) else _rewritten
        with self.transaction as out:
            changes = out.take(RowChanges(handle, snapshot))
            with closing(
                context.env.executor.map(lambda f: find_rows(context, *f, self.predicate), files)
            ) as found:
                for rows in found:
                    if len(rows.positions):
                        change(context, changes, rows, assignments)
                        changes.rows_count += len(rows.positions)
            count = changes.rows_count
            if not count:
                return WriteResult()
            counts = RowCounts(deleted=count) if assignments is None else RowCounts(updated=count)
            return out.commit(counts=counts)


def _marked(
    context: ReadContext, changes: RowChanges, found: RowPositions, assignments: Assignments | None
) -> None:
    if assignments is not None:
        for rows in read_found(context, found):
            changes.write(assignments(rows))
    changes.mark(found)


def _rewritten(
    context: ReadContext, changes: RowChanges, found: RowPositions, assignments: Assignments | None
) -> None:
    for rows in read_without(context, found, assignments):
        changes.write(rows)
    changes.remove(found.split, found.file)
