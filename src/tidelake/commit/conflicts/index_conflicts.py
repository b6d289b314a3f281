"""Whether the buckets that writers chose by an index still hold, and their hash index. Pure.

A writer of a dynamic bucket chose the bucket of each key by the index of an older snapshot. By the
time it commits others may have committed too. Its choice still holds if, in each partition it wrote
to,

1. every bucket's index still has all its hashes: no one overwrote the partition,
2. no hash that is new in the commit has come into another bucket meanwhile.

Then the index of a bucket that both added keys to becomes the union of both; otherwise one key
would be in two buckets, and the commit is refused. Index files lose hashes only by an overwrite, so
a file of the same name is not read.

Paimon has no such check: it allows one job per table with dynamic buckets. A job of another engine
that commits *after* ours with an older index cannot be noticed here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from tidelake.commit.delta import Hashes, HashIndexes
from tidelake.errors import ConflictError, InvalidInputError, NotFoundError
from tidelake.metadata.bucket_id import BucketId
from tidelake.metadata.data_file import CommitMessage
from tidelake.metadata.index_entry import HASH, IndexChange, IndexEntry

Entries = Sequence[IndexEntry]


class HashIndexChanges:
    """The hash index files that a commit's messages bring.

    Parameters
    ----------
    messages : sequence of CommitMessage
        What the writers did; at most one message with an index for each bucket.
    entries_of : callable
        The index files of a snapshot, by its id; raises NotFoundError if it has expired.
    read : callable
        The hashes of an index file; raises NotFoundError if it has expired.
    """

    def __init__(
        self,
        messages: Sequence[CommitMessage],
        *,
        entries_of: Callable[[int], Entries],
        read: Callable[[IndexEntry], Hashes],
        table: str,
    ) -> None:
        self._changes: dict[BucketId, IndexChange] = {}
        for message in messages:
            if message.index is None:
                continue
            bucket_id = message.bucket_id
            if bucket_id in self._changes:
                text = (
                    f"Commit to table '{table}': two writers filled dynamic bucket"
                    f" {bucket_id.bucket}, each with its own index. Give all rows of a bucket"
                    " to one writer."
                )
                raise InvalidInputError(text, kind="message_twice", table=table)
            self._changes[bucket_id] = message.index
        self._entries_of = entries_of
        self._read = read
        self._table = table

    @property
    def read_ids(self) -> frozenset[int]:
        """The snapshots whose index the writers read."""
        return frozenset(change.base_snapshot_id for change in self._changes.values())

    @property
    def files(self) -> HashIndexes:
        """The index files as the writers made them."""
        return {b: change.file for b, change in self._changes.items() if change.file}

    def against(self, before: Entries, base_id: int) -> HashIndexes:
        """The indexes of the commit's buckets after it.

        Parameters
        ----------
        base_id : int
            Its id; 0 for the empty table.

        Returns
        -------
        mapping of BucketId to IndexFile or array
            A file that is there already, or int32 hashes that must be written: the union of what
            the commit and others added. They are in memory, 4 bytes for each key of such a bucket.

        Raises
        ------
        ConflictError
            A key would be in two buckets.
        """
        now = _by_bucket(before)
        files = dict(self.files)
        for read_id in sorted(self.read_ids - {base_id}):
            files |= self._rebased(read_id, now)
        return files

    def _rebased(self, read_id: int, now: dict[BucketId, IndexEntry]) -> HashIndexes:
        """Find what writers that read an older snapshot's index add to the current one."""
        try:
            read = _by_bucket(self._entries_of(read_id)) if read_id else {}
        except NotFoundError as error:
            raise assignment_conflict(
                self._table, f"snapshot {read_id}, which it began from, has expired"
            ) from error
        changes = {b: c for b, c in self._changes.items() if c.base_snapshot_id == read_id}
        files: HashIndexes = {}
        for partition in sorted({b.partition for b in changes}):
            altered = [
                bucket_id
                for bucket_id in sorted(now.keys() | read.keys())
                if bucket_id.partition == partition
                and _name(now, bucket_id) != _name(read, bucket_id)
            ]
            if altered:
                ours = {b: c for b, c in changes.items() if b.partition == partition}
                files |= self._united(ours, altered, read, now)
        return files

    def _united(
        self,
        ours: dict[BucketId, IndexChange],
        altered: Sequence[BucketId],
        read: dict[BucketId, IndexEntry],
        now: dict[BucketId, IndexEntry],
    ) -> HashIndexes:
        """The union of both sides' keys in one partition, if no key is in two buckets."""
        theirs: dict[BucketId, Hashes] = {}
        for bucket_id in altered:
            if bucket_id not in now:
                raise assignment_conflict(self._table, "its partition was overwritten meanwhile")
            theirs[bucket_id] = self._read(now[bucket_id])
            if bucket_id in read:
                known = self._read_older(read[bucket_id])
                if not np.isin(known, theirs[bucket_id]).all():
                    why = "its partition was overwritten meanwhile"
                    raise assignment_conflict(self._table, why)
        files: HashIndexes = {}
        for bucket_id, change in ours.items():
            if change.file is None:
                continue
            added = self._added(bucket_id, change)
            for other, hashes in theirs.items():
                if other != bucket_id and np.isin(added, hashes).any():
                    why = (
                        f"a key that it puts into bucket {bucket_id.bucket} is now in bucket"
                        f" {other.bucket}"
                    )
                    raise assignment_conflict(self._table, why)
            if bucket_id in theirs:
                missing = added[~np.isin(added, theirs[bucket_id])]
                files[bucket_id] = (
                    np.concatenate([theirs[bucket_id], missing])
                    if len(missing)
                    else now[bucket_id].file
                )
        return files

    def _read_older(self, entry: IndexEntry) -> Hashes:
        try:
            return self._read(entry)
        except NotFoundError as error:
            why = f"index file '{entry.file.file_name}', which it read, has expired"
            raise assignment_conflict(self._table, why) from error

    def _added(self, bucket_id: BucketId, change: IndexChange) -> Hashes:
        assert change.file is not None
        told = change.carried_hashes
        if told is not None:
            return told
        return change.new_hashes(self._read(IndexEntry(*bucket_id, change.file)))


def assignment_conflict(table: str, why: str) -> ConflictError:
    """The error of a write whose choice of buckets no longer holds."""
    message = (
        f"A write to table '{table}' chose buckets by an index that another commit has changed:"
        f" {why}. Nothing was committed; write the rows again."
    )
    return ConflictError(message, kind="bucket_assignment", table=table)


def _by_bucket(entries: Iterable[IndexEntry]) -> dict[BucketId, IndexEntry]:
    return {e.bucket_id: e for e in entries if e.file.index_type == HASH}


def _name(entries: dict[BucketId, IndexEntry], bucket_id: BucketId) -> str | None:
    return entries[bucket_id].file.file_name if bucket_id in entries else None
