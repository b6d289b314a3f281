"""The changes of a commit as values: data files, index files, compactions. Pure.

A commit makes up to two snapshots. The first adds the new files; the second replaces compacted
files by their result. They are separate so that a compaction can be dropped without the data, and
so that a reader of changes can leave it out. Source: Paimon's ``FileStoreCommitImpl.commit``
(1.3.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tidelake.errors import InvalidInputError, TidelakeError
from tidelake.metadata.bucket_id import BucketId, InBucket
from tidelake.metadata.data_file import CommitMessage, DataFileMeta, FileKind, ManifestEntry
from tidelake.metadata.index_entry import HASH, DeletionChange, IndexEntry, IndexFile
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.manifest.entry_table import EntryTable
from tidelake.metadata.paths import POSTPONE_BUCKET

_NO_ENTRIES = EntryTable.of(())
_LISTS = (
    "new_files",
    "compact_before",
    "compact_after",
    "changelog",
    "compact_changelog",
    "removed_files",
)


NO_DELETIONS = DeletionChange()

Hashes = npt.NDArray[np.int32]
HashIndexes = dict[BucketId, IndexFile | Hashes]
"""New hash indexes of dynamic buckets: a file, or hashes that have to be written."""


@dataclass(frozen=True, slots=True)
class Committed:
    """The result of a commit. Iterates over its snapshots.

    Parameters
    ----------
    snapshots : tuple of Snapshot
        Its snapshots; those of the first commit if it was committed before.
    dropped_compactions : tuple of TidelakeError
        One per compaction that was not committed: its input is no longer live, or the storage
        failed after the data had been committed. The data is safe. A writer must forget the result
        of these compactions and go on with the newest snapshot's files.
    interleaved : tuple of (partition, bucket)
        Buckets of a primary-key table to which another writer committed since the writer's base
        snapshot, with sequence numbers that overlap. Rows of both are there. If both wrote a key,
        the larger sequence number wins, whichever was committed first.
    replayed : bool
        Whether the new files had been committed before.
    """

    snapshots: tuple[Snapshot, ...] = ()
    dropped_compactions: tuple[TidelakeError, ...] = ()
    interleaved: tuple[BucketId, ...] = ()
    replayed: bool = False

    def __iter__(self) -> Iterator[Snapshot]:
        return iter(self.snapshots)

    def __len__(self) -> int:
        return len(self.snapshots)


@dataclass(frozen=True, slots=True)
class Delta:
    """The data files that one snapshot changes."""

    entries: EntryTable
    changelog: EntryTable = _NO_ENTRIES

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to commit."""
        return not (self.entries.num_rows or self.changelog.num_rows)


@dataclass(frozen=True, slots=True)
class DeletionDelta(InBucket):
    """The changes of one bucket's deletion vectors by a commit.

    Parameters
    ----------
    gone : frozenset of str
        The data files that the same commit removes.
    """

    partition: bytes
    bucket: int
    change: DeletionChange
    gone: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class IndexDelta:
    """The index files that one snapshot changes.

    Parameters
    ----------
    kept : tuple of IndexEntry
        The base's index files without those of overwritten partitions.
    """

    kept: tuple[IndexEntry, ...]
    hash_indexes: HashIndexes
    deletions: Sequence[DeletionDelta]

    @classmethod
    def of(
        cls,
        before: Sequence[IndexEntry],
        *,
        dropped: frozenset[bytes] = frozenset(),
        hash_indexes: HashIndexes | None = None,
        deletions: Sequence[DeletionDelta] = (),
    ) -> IndexDelta | None:
        """The change of the base's index files; None where nothing changes."""
        kept = tuple(entry for entry in before if entry.partition not in dropped)
        marks = any(d.change.removed or d.change.added for d in deletions)
        if len(kept) == len(before) and not hash_indexes and not marks:
            return None
        return cls(kept, hash_indexes or {}, deletions)

    @property
    def unwritten(self) -> dict[BucketId, Hashes]:
        """The hashes of the buckets whose new index has no file yet."""
        return {b: h for b, h in self.hash_indexes.items() if not isinstance(h, IndexFile)}

    def after(self, written: Mapping[BucketId, IndexFile]) -> list[IndexEntry]:
        """All index files after the commit.

        A new hash index takes the position of the old one; those of new buckets come behind, then
        the deletion vectors.
        """
        new = {b: f for b, f in self.hash_indexes.items() if isinstance(f, IndexFile)}
        new |= written
        entries = [
            IndexEntry(*e.bucket_id, new.pop(e.bucket_id, e.file))
            if e.file.index_type == HASH
            else e
            for e in self.kept
        ]
        entries += [IndexEntry(*bucket_id, file) for bucket_id, file in new.items()]
        removed = {(*d.bucket_id, name) for d in self.deletions for name in d.change.removed}
        added = [IndexEntry(*d.bucket_id, file) for d in self.deletions for file in d.change.added]
        return [e for e in entries if (*e.bucket_id, e.file.file_name) not in removed] + added


@dataclass(frozen=True, slots=True)
class Compaction(InBucket):
    """One bucket's compaction.

    Parameters
    ----------
    lookup_digests : tuple of bytes
        For compactions that looked keys up: digests of the other files above level 0 and of the
        bucket's deletion vectors (:func:`tidelake.metadata.data_file.levels_digest`).
    """

    partition: bytes
    bucket: int
    total_buckets: int
    before: tuple[DataFileMeta, ...]
    after: tuple[DataFileMeta, ...]
    changelog: tuple[DataFileMeta, ...] = ()
    deletions: DeletionChange = NO_DELETIONS
    lookup_digests: tuple[bytes, ...] = ()

    @property
    def gone(self) -> frozenset[str]:
        """Names of the files that are removed; a file that only moves to another level stays."""
        return frozenset(f.file_name for f in self.before) - {f.file_name for f in self.after}

    def removed_entries(self) -> list[ManifestEntry]:
        """DELETE entries of the replaced files."""
        return [self._entry(FileKind.DELETE, file) for file in self.before]

    def added_entries(self) -> list[ManifestEntry]:
        """ADD entries of the result."""
        return [self._entry(FileKind.ADD, file) for file in self.after]

    def changelog_entries(self) -> list[ManifestEntry]:
        """ADD entries of the changelog."""
        return [self._entry(FileKind.ADD, file) for file in self.changelog]

    def _entry(self, kind: FileKind, file: DataFileMeta) -> ManifestEntry:
        return ManifestEntry(kind, self.partition, self.bucket, self.total_buckets, file)


def check_messages(messages: Sequence[CommitMessage], *, table: str) -> None:
    """Refuse messages that cannot be one commit.

    Raises
    ------
    InvalidInputError
        A file comes twice (a task's message was taken twice), or the messages disagree on the
        number of buckets of a partition.
    """
    seen: set[object] = set()
    totals: dict[bytes, int] = {}
    deleting: set[object] = set()
    for message in messages:
        if message.deletions is not None:
            if message.bucket_id in deleting:
                text = (
                    f"Commit to table '{table}': two writers changed the deletion vectors of bucket"
                    f" {message.bucket}, each without the other's. Give a bucket to one writer."
                )
                raise InvalidInputError(text, kind="message_twice", table=table)
            deleting.add(message.bucket_id)
        for name in _LISTS:
            for file in getattr(message, name):
                identity = (name, message.partition, message.bucket, file.level, file.file_name)
                if identity in seen:
                    text = (
                        f"Commit to table '{table}': file '{file.file_name}' occurs twice. Give"
                        " each task's message once."
                    )
                    raise InvalidInputError(text, kind="message_twice", table=table)
                seen.add(identity)
        if message.bucket == POSTPONE_BUCKET:
            continue  # its rows have no bucket yet
        total = totals.setdefault(message.partition, message.total_buckets)
        if total != message.total_buckets:
            text = (
                f"Commit to table '{table}': one partition was written with {total} and with"
                f" {message.total_buckets} buckets. Write it with one number of buckets."
            )
            raise InvalidInputError(text, kind="buckets_changed", table=table)


def added_entries(messages: Sequence[CommitMessage]) -> EntryTable:
    """ADD entries of all new files, in the order of the messages."""
    return _entries(FileKind.ADD, ((m, file) for m in messages for file in m.new_files))


def new_delta(messages: Sequence[CommitMessage]) -> Delta:
    """Make the delta of the messages' new and removed files, for a snapshot of their own."""
    entries = added_entries(messages)
    removed = _entries(FileKind.DELETE, ((m, f) for m in messages for f in m.removed_files))
    if removed.num_rows:
        entries = EntryTable.concat([removed, entries])
    changelog = _entries(FileKind.ADD, ((m, f) for m in messages for f in m.changelog))
    return Delta(entries, changelog)


def _entries(kind: FileKind, files: Iterable[tuple[CommitMessage, DataFileMeta]]) -> EntryTable:
    return EntryTable.of(
        ManifestEntry(kind, m.partition, m.bucket, m.total_buckets, file) for m, file in files
    )


def compactions(messages: Sequence[CommitMessage]) -> tuple[Compaction, ...]:
    """The compactions, one per bucket; several messages of a bucket are one."""
    by_bucket: dict[BucketId, Compaction] = {}
    for m in messages:
        if not m.has_compaction:
            continue
        known = by_bucket.get(m.bucket_id)
        before = (*known.before, *m.compact_before) if known else m.compact_before
        after = (*known.after, *m.compact_after) if known else m.compact_after
        changelog = (*known.changelog, *m.compact_changelog) if known else m.compact_changelog
        deletions = m.deletions or (known.deletions if known else NO_DELETIONS)
        digests = known.lookup_digests if known else ()
        if m.compact_seen is not None:
            digests = (*digests, m.compact_seen)
        by_bucket[m.bucket_id] = Compaction(
            m.partition, m.bucket, m.total_buckets, before, after, changelog, deletions, digests
        )
    return tuple(map(_without_steps, by_bucket.values()))


def _without_steps(compaction: Compaction) -> Compaction:
    """Leave out files that one compaction made and the next one of the same commit replaced."""
    # equal in all: the same file with other indexes is no step
    steps = set(compaction.before) & set(compaction.after)
    return replace(
        compaction,
        before=tuple(f for f in compaction.before if f not in steps),
        after=tuple(f for f in compaction.after if f not in steps),
    )
