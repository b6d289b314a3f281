"""Checks whether deletes still fit the newest snapshot. Pure.

A writer that deletes rows or rewrites files read the data files and vectors of an older snapshot.
Its change still fits if, in the base,

1. all index files that it replaces exist: no one changed a vector in them,
2. a data file that it marks rows of, or removes, has no vector except in one of these: no one
   deleted rows of it for the first time,
3. the data files that it marks rows of, or removes, are live: no one compacted or overwrote them.

Otherwise deleted rows would come back, or a vector would belong to no file, so the commit is a
conflict. Two deletes in one data file conflict even if they delete different rows; in a table
without buckets so do two deletes that share an index file.

Source: Paimon's ``ConflictDeletionUtils`` and ``IndexManifestFileHandler`` (1.3.1). Paimon checks
this only in tables without buckets; elsewhere the later of two deletes reverts the vectors of the
earlier one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tidelake.commit.delta import DeletionDelta
from tidelake.errors import ConflictError, InvalidInputError
from tidelake.metadata.index_entry import DELETION_VECTORS, IndexEntry

DELETIONS_CHANGED = "deletions_changed"
"""Kind of the conflict: read again, and delete or update again."""


def check_deletions(
    deletions: DeletionDelta,
    before: Sequence[IndexEntry],
    live_names: Collection[str],
    *,
    table: str,
) -> None:
    """Check one bucket's change of vectors, or a removal of data files, against the base.

    Raises
    ------
    ConflictError
        It no longer fits.
    InvalidInputError
        It would lose vectors of files that stay.
    """
    bucket_id, change = deletions.bucket_id, deletions.change
    files = [
        e.file for e in before if e.file.index_type == DELETION_VECTORS and e.bucket_id == bucket_id
    ]
    vectors = {file.file_name: [name for name, *_ in file.ranges or ()] for file in files}
    for name in change.removed:
        if name not in vectors:
            raise _conflict(table, deletions, f"index file '{name}' was replaced meanwhile")
    kept = {
        data_file
        for name, data_files in vectors.items()
        if name not in change.removed
        for data_file in data_files
    }
    for data_file in sorted(change.data_files | deletions.gone):
        if data_file in kept:
            why = f"rows of data file '{data_file}' were deleted meanwhile"
            raise _conflict(table, deletions, why)
    for data_file in sorted(change.data_files | deletions.gone):
        if data_file not in live_names or data_file in change.data_files & deletions.gone:
            raise _conflict(table, deletions, f"data file '{data_file}' is not live now")
    for name in change.removed:
        lost = set(vectors[name]) - change.data_files - deletions.gone
        if not lost.isdisjoint(live_names):
            message = (
                f"A commit to table '{table}' replaces index file '{name}' and leaves out the"
                f" deletion vector of data file '{min(lost)}', which stays: its deleted rows would"
                " come back. Write all vectors of the file again."
            )
            raise InvalidInputError(message, kind="deletions_lost", table=table)


def vector_names(entries: Sequence[IndexEntry], partition: bytes, bucket: int) -> frozenset[str]:
    """The names of the index files of deletion vectors of one bucket."""
    return frozenset(
        e.file.file_name
        for e in entries
        if e.file.index_type == DELETION_VECTORS and e.bucket_id == (partition, bucket)
    )


def _conflict(table: str, deletions: DeletionDelta, why: str) -> ConflictError:
    message = (
        f"A commit to bucket {deletions.bucket} of table '{table}' read data files and deletion"
        f" vectors that another commit has changed: {why}. Nothing was committed; run it"
        " again."
    )
    return ConflictError(
        message,
        kind=DELETIONS_CHANGED,
        table=table,
        partition=deletions.partition,
        bucket=deletions.bucket,
    )
