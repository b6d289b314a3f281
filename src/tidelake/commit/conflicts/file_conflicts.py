"""Whether a bucket's compaction still fits the newest snapshot. Pure.

A compaction was computed from the files that a writer read. By the time it is committed others may
have committed too. It fits if

1. all files it replaces are live, and none it adds is,
2. the bucket was written with the same number of buckets,
3. (primary key) on each level from 1 the files' key ranges are still disjoint, unless the files are
   sorted by other columns,
4. (primary key) no live level-0 file that it did not read holds rows as old as its own in the same
   key range. A compaction moves rows below level 0, where they count as older, and may drop
   deletes. A writer that began from an older snapshot may have committed rows with smaller or equal
   sequence numbers meanwhile; these could become visible, or win, although they did not before.
   With this rule a compaction never changes what a reader sees,
5. (primary key) where it looked keys up, the levels above 0 hold the same files and deletion
   vectors as at that time.

Rules 1 to 3 are those of Paimon's ``FileStoreCommitImpl.noConflictsOrFail`` (1.3.1), rules 4 and 5
are ours. Writers that only add files never conflict: see ``docs/format/snapshot.md``. The exception
is a partition's number of buckets: files routed by another may not come beside its own
(:func:`check_bucket_counts`; Paimon leaves that to the writer, who may have looked too early).
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np

from tidelake.commit.delta import Compaction
from tidelake.errors import ConflictError
from tidelake.merge import FileKeys, KeyRank
from tidelake.metadata.data_file import DataFileMeta, FileKind, ManifestEntry, levels_digest
from tidelake.metadata.manifest.entry_table import EntryTable

Range = tuple[KeyRank, KeyRank]


def check_bucket_counts(
    new_files: EntryTable, theirs: Mapping[bytes, Collection[int]], *, table: str
) -> None:
    """Check that partitions keep the number of buckets that they have.

    Parameters
    ----------
    theirs : mapping
        The numbers of buckets that the files of each partition were written with.

    Raises
    ------
    ConflictError
        A partition has, by now, another number of buckets than the files were routed by.
    """
    for partition, (ours, *_) in added_bucket_counts([new_files]).items():
        for total in theirs.get(partition, ()):
            if ours != total:
                message = (
                    f"A partition of table '{table}' was rewritten with {total} buckets while rows"
                    f" for {ours} were being written: nothing was committed. Open the table again"
                    " and repeat the write."
                )
                raise ConflictError(message, kind="buckets_changed", table=table)


def added_bucket_counts(tables: Iterable[EntryTable]) -> dict[bytes, list[int]]:
    """The numbers of buckets of the files that entries add to each partition."""
    return {
        partition: [total for total, (added, _) in totals.items() if added]
        for partition, totals in _files_counts(tables).items()
    }


def live_bucket_counts(tables: Iterable[EntryTable]) -> dict[bytes, list[int]]:
    """The numbers of buckets of each partition's live files, given all entries of a snapshot.

    The entries are counted, not folded: which files are live does not matter, only whether any is.
    """
    return {
        partition: [total for total, (added, deleted) in totals.items() if added > deleted]
        for partition, totals in _files_counts(tables).items()
    }


def _files_counts(tables: Iterable[EntryTable]) -> dict[bytes, dict[int, tuple[int, int]]]:
    """For each partition and number of buckets: how many entries add files, and delete them.

    Of real buckets only.
    """
    counts: dict[bytes, dict[int, tuple[int, int]]] = {}
    for table in tables:
        real = table["bucket"] >= 0
        totals, codes = np.unique(table["total_buckets"][real], return_inverse=True)
        codes += table["partition_id"][real] * len(totals)
        deletes = table["kind"][real] == FileKind.DELETE
        size = len(table.partitions) * len(totals)
        added = np.bincount(codes[~deletes], minlength=size)
        deleted = np.bincount(codes[deletes], minlength=size)
        for code in np.flatnonzero(added + deleted).tolist():  # partitions, not files
            partition, number = divmod(code, len(totals))
            known = counts.setdefault(table.partitions[partition], {})
            more, less = known.get(int(totals[number]), (0, 0))
            known[int(totals[number])] = (more + int(added[code]), less + int(deleted[code]))
    return counts


def check_compaction(
    compaction: Compaction,
    live: Sequence[ManifestEntry],
    *,
    keys: FileKeys | None,
    table: str,
    vectors: Collection[str] = (),
) -> None:
    """Check one bucket's compaction against the bucket's live files.

    Parameters
    ----------
    keys : FileKeys, optional
        Where keys lie; None for an append table.
    vectors : collection of str
        The names of the bucket's index files of deletion vectors.

    Raises
    ------
    ConflictError
        It no longer fits.
    """
    by_identity = {entry.identity: entry for entry in live}
    before = {entry.identity: entry for entry in compaction.removed_entries()}
    for identity, entry in before.items():
        if identity not in by_identity:
            raise _conflict(compaction, table, f"file '{entry.file.file_name}' is not live now")
    rest = [entry for identity, entry in by_identity.items() if identity not in before]
    staying = {entry.identity for entry in rest}
    for entry in compaction.added_entries():
        if entry.identity in staying:
            raise _conflict(compaction, table, f"file '{entry.file.file_name}' exists already")
    if any(entry.total_buckets != compaction.total_buckets for entry in live):
        raise _conflict(compaction, table, "the partition has another number of buckets now")
    if keys is not None and compaction.bucket >= 0:  # rows that have no bucket yet hide no others
        files = [entry.file for entry in rest]
        _check_levels(compaction, files, keys, table)
        _check_between(compaction, files, keys, table)
        _check_looked_up(compaction, files, vectors, table)
        _check_unread(compaction, files, keys, table)


def _check_levels(
    compaction: Compaction, rest: Sequence[DataFileMeta], keys: FileKeys, table: str
) -> None:
    if keys.clustered:  # the looked-up levels are unchanged, so no key can be there twice
        return
    for level in sorted({f.level for f in compaction.after if f.level > 0}):
        files = [f for f in (*rest, *compaction.after) if f.level == level]
        ranges = sorted(key_range([f], keys) for f in files)
        for (_, high), (low, _) in itertools.pairwise(ranges):
            if low <= high:
                raise _conflict(compaction, table, f"level {level} holds files of these keys now")


def _check_between(
    compaction: Compaction, rest: Sequence[DataFileMeta], keys: FileKeys, table: str
) -> None:
    """Check that no run lies between level 0 and the result.

    A compaction takes all runs that are newer than its result, so such a run came meanwhile. The
    compacted rows lay above it and would lie below it.
    """
    lowest = max((f.level for f in compaction.after), default=0)
    between = [f for f in rest if 0 < f.level < lowest]
    for file in _of_same_keys(between, compaction.before, keys):
        raise _conflict(compaction, table, f"level {file.level} holds files of these keys now")


def _check_looked_up(
    compaction: Compaction, rest: Sequence[DataFileMeta], vectors: Collection[str], table: str
) -> None:
    """Check that the levels where keys were looked up are unchanged.

    Otherwise the merged rows lack what another writer compacted meanwhile, and would hide it. The
    deletion vectors count too, since rows may have been deleted meanwhile.
    """
    if any(digest != levels_digest(rest, vectors) for digest in compaction.lookup_digests):
        raise _conflict(compaction, table, "it looked keys up in files that have changed")


def _check_unread(
    compaction: Compaction, rest: Sequence[DataFileMeta], keys: FileKeys, table: str
) -> None:
    newest = max((f.max_sequence_number for f in compaction.before), default=-1)
    unread = [f for f in rest if f.level == 0 and f.min_sequence_number <= newest]
    for file in _of_same_keys(unread, compaction.before, keys):
        why = f"file '{file.file_name}' was added with rows as old as those it compacts"
        raise _conflict(compaction, table, why)


def _of_same_keys(
    files: Sequence[DataFileMeta], compacted: Sequence[DataFileMeta], keys: FileKeys
) -> Iterator[DataFileMeta]:
    """The files whose keys may be among the compacted files' keys."""
    if not files:
        return  # a range costs a decoded key per file
    low, high = key_range(compacted, keys)
    for file in files:
        file_low, file_high = key_range([file], keys)
        if file_low <= high and low <= file_high:
            yield file


def key_range(files: Iterable[DataFileMeta], keys: FileKeys) -> Range:
    """Smallest and largest key that some files may hold, as ranks."""
    lows, highs = zip(*map(keys.ranks_of, files), strict=True)
    return min(lows), max(highs)


def _conflict(compaction: Compaction, table: str, why: str) -> ConflictError:
    message = (
        f"A compaction of bucket {compaction.bucket} of table '{table}' was dropped: {why}. Another"
        " commit came first; compact again from the newest snapshot."
    )
    return ConflictError(
        message,
        kind="compaction_gave_way",
        table=table,
        partition=compaction.partition,
        bucket=compaction.bucket,
    )
