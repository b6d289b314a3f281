"""The index files of the next snapshot, from those of the base and what writers say. Mostly pure.

A writer of a dynamic bucket chose the bucket of each key by the index of an older snapshot. By the
time it commits others may have committed too. Its choice still holds if, in each partition it wrote
to,

1. every bucket's index still has all the hashes it had: nobody overwrote the partition,
2. no hash that is new in the commit has come into another bucket meanwhile.

Then the index of a bucket that both added keys to becomes the union of both; otherwise one key
would be in two buckets, and the commit is refused. Index files never lose a hash but by an
overwrite, so a file of the same name needs no look.

Paimon has no such check: it allows one job per table with dynamic buckets. Of a job of another
engine that commits *after* ours with an index from before, nothing can be noticed here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from tidelake.errors import ConflictError, InvalidInputError, NotFoundError
from tidelake.metadata.bucket_id import BucketId
from tidelake.metadata.data_file import CommitMessage
from tidelake.metadata.index_entry import HASH, IndexChange, IndexEntry, IndexFile

__all__ = ["IndexPlan", "assignment_conflict"]

Hashes = npt.NDArray[np.int32]
Entries = Sequence[IndexEntry]


class IndexPlan:
    """The index files that a commit's messages bring.

    Parameters
    ----------
    messages : sequence of CommitMessage
        What the writers did; at most one message with an index for each bucket.
    entries_of : callable
        The index files of a snapshot, by its id; raises NotFoundError where it is gone.
    read : callable
        The hashes of an index file; raises NotFoundError where it is gone.
    table : str
        For messages.
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
            place = message.bucket_id
            if place in self._changes:
                text = (
                    f"Commit to table '{table}': two writers filled dynamic bucket {place[1]}, each"
                    " with an index of its own. Give all rows of a bucket to one writer."
                )
                raise InvalidInputError(text, kind="message_twice", table=table)
            self._changes[place] = message.index
        self._entries_of = entries_of
        self._read = read
        self._table = table

    @property
    def base_ids(self) -> frozenset[int]:
        """The snapshots whose index the writers went by."""
        return frozenset(change.base_snapshot_id for change in self._changes.values())

    def added_to(
        self,
        before: Entries,
        base_id: int,
        write: Callable[[BucketId, Hashes], IndexFile],
    ) -> Entries | None:
        """The index files after rows were added.

        Parameters
        ----------
        before : sequence of IndexEntry
            Those of the base.
        base_id : int
            Its id; 0 for the empty table.
        write : callable
            Writes a bucket's hash index file.

        Returns
        -------
        sequence of IndexEntry or None
            None where nothing changes.

        Raises
        ------
        ConflictError
            A key would be in two buckets.
        """
        now = _by_place(before)
        files = {place: change.file for place, change in self._changes.items() if change.file}
        for seen_id in sorted(self.base_ids - {base_id}):
            files |= self._rebased(seen_id, now, write)
        if not files:
            return None
        return _replaced(before, files)

    def replaced(self, before: Entries, is_dropped: Callable[[bytes], bool]) -> Entries | None:
        """The index files after partitions were overwritten; None where nothing changes."""
        kept = [entry for entry in before if not is_dropped(entry.partition)]
        files = {place: change.file for place, change in self._changes.items() if change.file}
        if not files and len(kept) == len(before):
            return None
        return _replaced(kept, files)

    def _rebased(
        self,
        seen_id: int,
        now: dict[BucketId, IndexEntry],
        write: Callable[[BucketId, Hashes], IndexFile],
    ) -> dict[BucketId, IndexFile]:
        """What the writers that went by an older snapshot add to the index of now."""
        try:
            seen = _by_place(self._entries_of(seen_id)) if seen_id else {}
        except NotFoundError as error:
            raise assignment_conflict(
                self._table, f"snapshot {seen_id}, which it began from, has expired"
            ) from error
        changes = {p: c for p, c in self._changes.items() if c.base_snapshot_id == seen_id}
        files: dict[BucketId, IndexFile] = {}
        for partition in sorted({p for p, _ in changes}):
            altered = [
                place
                for place in sorted(now.keys() | seen.keys())
                if place[0] == partition and _name(now, place) != _name(seen, place)
            ]
            if altered:
                own = {place: c for place, c in changes.items() if place[0] == partition}
                files |= self._checked(own, altered, seen, now, write)
        return files

    def _checked(
        self,
        own: dict[BucketId, IndexChange],
        altered: Sequence[BucketId],
        seen: dict[BucketId, IndexEntry],
        now: dict[BucketId, IndexEntry],
        write: Callable[[BucketId, Hashes], IndexFile],
    ) -> dict[BucketId, IndexFile]:
        """Of one partition: the union of both sides' keys, if no key is in two buckets."""
        theirs: dict[BucketId, Hashes] = {}
        for place in altered:
            if place not in now:
                raise assignment_conflict(self._table, "its partition was overwritten meanwhile")
            theirs[place] = self._read(now[place])
            if place in seen and not np.isin(self._read_seen(seen[place]), theirs[place]).all():
                raise assignment_conflict(self._table, "its partition was overwritten meanwhile")
        files: dict[BucketId, IndexFile] = {}
        for place, change in own.items():
            if change.file is None:
                continue
            added = self._added(place, change)
            for other, hashes in theirs.items():
                if other != place and np.isin(added, hashes).any():
                    why = f"a key that it puts into bucket {place[1]} came into bucket {other[1]}"
                    raise assignment_conflict(self._table, why)
            if place in theirs:
                missing = added[~np.isin(added, theirs[place])]
                files[place] = (
                    write(place, np.concatenate([theirs[place], missing]))
                    if len(missing)
                    else now[place].file
                )
        return files

    def _read_seen(self, entry: IndexEntry) -> Hashes:
        try:
            return self._read(entry)
        except NotFoundError as error:
            why = f"index file '{entry.file.file_name}', which it went by, has expired"
            raise assignment_conflict(self._table, why) from error

    def _added(self, place: BucketId, change: IndexChange) -> Hashes:
        assert change.file is not None
        return self._read(IndexEntry(*place, change.file))[change.known_count :]


def assignment_conflict(table: str, why: str) -> ConflictError:
    """The error of a write whose choice of buckets no longer holds."""
    message = (
        f"A write to table '{table}' chose buckets by an index that another commit has changed:"
        f" {why}. Nothing was committed; write the rows again."
    )
    return ConflictError(message, kind="bucket_assignment", table=table)


def _by_place(entries: Iterable[IndexEntry]) -> dict[BucketId, IndexEntry]:
    return {e.bucket_id: e for e in entries if e.file.index_type == HASH}


def _name(entries: dict[BucketId, IndexEntry], place: BucketId) -> str | None:
    return entries[place].file.file_name if place in entries else None


def _replaced(entries: Entries, files: dict[BucketId, IndexFile]) -> Entries:
    """The entries with some buckets' files new, each at its place; buckets that are new last."""
    rest = dict(files)
    out = [
        IndexEntry(e.partition, e.bucket, rest.pop(e.bucket_id, e.file))
        if e.file.index_type == HASH
        else e
        for e in entries
    ]
    return [*out, *(IndexEntry(*place, file) for place, file in rest.items())]
