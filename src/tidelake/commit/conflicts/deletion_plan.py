"""The deletion vectors of the next snapshot, from those of the base and what writers say. Pure.

Whoever deletes rows or rewrites files went by the files and vectors of an older snapshot. What he
did still holds if, in the base,

1. the index files that he replaces are all there: nobody changed a vector in them,
2. a data file that he marks rows of, or removes, has no vector but in one of these: nobody deleted
   rows of it for the first time,
3. the data files that he marks rows of, or removes, are live: nobody compacted or overwrote them.

Otherwise rows that somebody deleted would come back, or a vector would be of no file; the commit is
a conflict. So two deletes in one data file conflict, also of different rows, and in a table without
buckets those that share an index file.

Source: Paimon's ``ConflictDeletionUtils`` and ``IndexManifestFileHandler`` (1.3.1). Paimon checks
that only in tables without buckets; elsewhere the later of two deletes takes the vectors of the
earlier back.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tidelake.errors import ConflictError, InvalidInputError
from tidelake.metadata.bucket_id import InBucket
from tidelake.metadata.index_entry import DELETION_VECTORS, DeletionChange, IndexEntry

__all__ = [
    "DELETIONS_CHANGED",
    "PlacedDeletions",
    "check_deletions",
    "vector_names",
    "with_deletions",
]

DELETIONS_CHANGED = "deletions_changed"
"""Kind of the conflict: read again, and delete or update again."""


@dataclass(frozen=True, slots=True)
class PlacedDeletions(InBucket):
    """What a commit does to the vectors of one bucket.

    Parameters
    ----------
    partition : bytes
        Serialized BinaryRow.
    bucket : int
        The bucket.
    change : DeletionChange
        The index files that go and come.
    gone : frozenset of str
        The data files that the same commit removes.
    """

    partition: bytes
    bucket: int
    change: DeletionChange
    gone: frozenset[str] = frozenset()


def check_deletions(
    placed: PlacedDeletions,
    before: Sequence[IndexEntry],
    live_names: Collection[str],
    *,
    table: str,
) -> None:
    """Check one bucket's change of vectors, or a removal of data files, against the base.

    Parameters
    ----------
    placed : PlacedDeletions
        What would be committed.
    before : sequence of IndexEntry
        The index files of the base.
    live_names : collection of str
        The live data files of the bucket in the base.
    table : str
        For messages.

    Raises
    ------
    ConflictError
        It no longer fits.
    InvalidInputError
        It would lose vectors of files that stay.
    """
    place, change = placed.bucket_id, placed.change
    own = [e.file for e in before if e.file.index_type == DELETION_VECTORS and e.bucket_id == place]
    vectors = {file.file_name: [name for name, *_ in file.ranges or ()] for file in own}
    for name in change.removed:
        if name not in vectors:
            raise _conflict(table, placed, f"index file '{name}' was replaced meanwhile")
    kept = {
        data_file
        for name, data_files in vectors.items()
        if name not in change.removed
        for data_file in data_files
    }
    for data_file in sorted(change.data_files | placed.gone):
        if data_file in kept:
            why = f"rows of data file '{data_file}' were deleted meanwhile"
            raise _conflict(table, placed, why)
    for data_file in sorted(change.data_files | placed.gone):
        if data_file not in live_names or data_file in change.data_files & placed.gone:
            raise _conflict(table, placed, f"data file '{data_file}' is not live now")
    for name in change.removed:
        lost = set(vectors[name]) - change.data_files - placed.gone
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


def with_deletions(
    before: Sequence[IndexEntry], placed: Sequence[PlacedDeletions]
) -> Sequence[IndexEntry] | None:
    """The index files after checked changes; None where nothing changes."""
    removed = {(p.partition, p.bucket, name) for p in placed for name in p.change.removed}
    added = [IndexEntry(p.partition, p.bucket, file) for p in placed for file in p.change.added]
    if not (removed or added):
        return None
    kept = [e for e in before if (e.partition, e.bucket, e.file.file_name) not in removed]
    return [*kept, *added]


def _conflict(table: str, placed: PlacedDeletions, why: str) -> ConflictError:
    message = (
        f"A commit to bucket {placed.bucket} of table '{table}' went by data files and deletion"
        f" vectors that another commit has changed: {why}. Nothing of it was committed; do it"
        " again."
    )
    return ConflictError(
        message,
        kind=DELETIONS_CHANGED,
        table=table,
        partition=placed.partition,
        bucket=placed.bucket,
    )
