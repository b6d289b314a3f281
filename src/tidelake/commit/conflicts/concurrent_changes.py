"""Checks later commits of others against what the writers read.

Writers that only add files never conflict with each other. Four things still depend on what a
writer read when it began:

1. the number of buckets that its rows were routed by (:func:`check_bucket_counts_kept`);
2. the partitions in which it looked for keys that may move (:func:`check_keys_unmoved`);
3. its sequence numbers (:func:`interleaved_buckets`). After a rollback they continue a history that
   was removed. They may be smaller than those of older rows of the same keys, which would then win
   (:func:`check_history_continues`);
4. the old rows that an update made its new ones from (:func:`check_rows_unchanged`).

Each function reads the snapshots between the writer's and the one that the commit builds on. An
attempt after a lost race calls it again. No function keeps state between two calls.
"""

from __future__ import annotations

import enum

from tidelake.commit.conflicts.file_conflicts import (
    added_bucket_counts,
    check_bucket_counts,
    live_bucket_counts,
)
from tidelake.commit.conflicts.index_conflicts import assignment_conflict
from tidelake.commit.conflicts.key_overlap import KeyOverlap
from tidelake.commit.conflicts.live_buckets import live_in
from tidelake.commit.context import CommitContext
from tidelake.errors import ConflictError, NotFoundError
from tidelake.merge.spec import FIRST_ROW
from tidelake.metadata.bucket_id import BucketId
from tidelake.metadata.data_file import FileKind
from tidelake.metadata.log.snapshot import CommitKind, Snapshot
from tidelake.metadata.manifest.entry_table import EntryTable
from tidelake.metadata.manifest.snapshot_entries import manifest_files, read_manifests
from tidelake.options import declared

ROWS_CHANGED = "rows_changed"
"""Kind of the conflict: read the rows again and update them again."""

SNAPSHOTS_MAX = 100
"""The most snapshots since the writers began that are read one by one."""
READ_SNAPSHOTS_MAX = 1_000
"""The most snapshots since the read whose keys are compared; after more the work is repeated."""


def check_history_continues(
    context: CommitContext,
    new_files: EntryTable,
    base: Snapshot | None,
    *,
    first_base: Snapshot | None,
    base_snapshot_id: int | None,
) -> None:
    """Refuse rows whose sequence numbers continue a history that was rolled back.

    Parameters
    ----------
    base : Snapshot or None
        The snapshot that the attempt builds on; None for the empty table.
    first_base : Snapshot or None
        The one that the commit's first attempt built on; None where this is the first.
    base_snapshot_id : int or None
        The snapshot that the writers began from, 0 for the empty table; None if it is not known.

    Raises
    ------
    ConflictError
        The base does not continue that history, and older rows that came back have the same or
        larger sequence numbers, or the rows' buckets were looked up in an index.

    Notes
    -----
    A rollback after which others committed as many snapshots again is noticed only if it came
    after the commit's first attempt.
    """
    if not context.schema.primary_keys or not new_files.num_rows or base is None:
        return  # no rollback leaves a table without a snapshot
    began_id = base_snapshot_id or 0
    if began_id <= base.id and _is_in_history(context, first_base, base):
        return
    if (new_files["total_buckets"] > 0).all() and not _has_newer_rows(context, new_files, base):
        return
    message = (
        f"Table '{context.table}' was rolled back while this commit was made on snapshot"
        f" {began_id or base.id}: its newest is now {base.id}, and older rows could win"
        " over these. Nothing was committed. Write again."
    )
    raise ConflictError(message, kind="rolled_back", table=context.table)


def _is_in_history(context: CommitContext, snapshot: Snapshot | None, base: Snapshot) -> bool:
    """Whether a snapshot, if there is one, is the base or one before it."""
    if snapshot is None:
        return True
    if snapshot.id > base.id:
        return False
    try:
        found = base if snapshot.id == base.id else context.log.load(snapshot.id)
    except NotFoundError:
        return True  # it has expired
    return (found.commit_user, found.delta_manifest_list, found.base_manifest_list) == (
        snapshot.commit_user,
        snapshot.delta_manifest_list,
        snapshot.base_manifest_list,
    )


def _has_newer_rows(context: CommitContext, new_files: EntryTable, base: Snapshot) -> bool:
    """Whether a bucket has rows with the same or larger sequence numbers as the new ones."""
    ours = _sequences(new_files)
    live = live_in(
        context,
        base,
        partitions=frozenset(partition for partition, _ in ours),
        buckets=frozenset(bucket for _, bucket in ours),
    )
    theirs = _sequences(live)
    return any(theirs[b][1] >= low for b, (low, _) in ours.items() if b in theirs)


def check_bucket_counts_kept(
    context: CommitContext,
    new_files: EntryTable,
    base: Snapshot | None,
    *,
    base_snapshot_id: int | None,
) -> None:
    """Refuse files of fixed buckets in a partition that now has another number of buckets.

    The writer checked its own base when it was opened, so only later snapshots are read. Where the
    base is not known, or snapshots have expired, the partitions' live files are read.

    Parameters
    ----------
    base : Snapshot or None
        What the commit builds on; None for the empty table.
    base_snapshot_id : int or None
        The snapshot that the writers began from, 0 for the empty table; None if it is not known.

    Raises
    ------
    ConflictError
        A partition has another number of buckets.
    """
    if base is None:
        return
    fixed = new_files.take(new_files["total_buckets"] > 0)
    if not fixed.num_rows or base_snapshot_id == base.id:
        return
    since = range((base_snapshot_id or 0) + 1, base.id + 1)
    if base_snapshot_id is None or len(since) > SNAPSHOTS_MAX:
        check_bucket_counts(fixed, _live_counts(context, base), table=context.table)
        return
    for snapshot_id in since:
        try:
            theirs = added_bucket_counts([context.delta(context.log.load(snapshot_id))])
        except NotFoundError:  # it has expired
            theirs = _live_counts(context, base)
        check_bucket_counts(fixed, theirs, table=context.table)


def interleaved_buckets(
    context: CommitContext,
    new_files: EntryTable,
    base: Snapshot | None,
    *,
    base_snapshot_id: int | None,
) -> tuple[BucketId, ...]:
    """Buckets to which others added rows since the writers began, numbered no lower than ours.

    Returns
    -------
    tuple of (partition, bucket)
        Empty for an append table, or where `base_snapshot_id` is not known.
    """
    if base is None or base_snapshot_id is None or base.id <= base_snapshot_id:
        return ()
    if not context.schema.primary_keys:
        return ()
    first = max(base_snapshot_id, base.id - SNAPSHOTS_MAX) + 1
    theirs: dict[BucketId, int] = {}
    for snapshot_id in range(first, base.id + 1):
        try:
            snapshot = context.log.load(snapshot_id)
            delta = context.delta(snapshot)
        except NotFoundError:
            continue  # it has expired
        if snapshot.commit_kind is not CommitKind.COMPACT:
            for bucket_id, (_, high) in _sequences(delta).items():
                theirs[bucket_id] = max(high, theirs.get(bucket_id, high))
    ours = _sequences(new_files)
    return tuple(b for b, (low, _) in ours.items() if theirs.get(b, low - 1) >= low)


class EmptyTable(enum.Enum):
    """Says that rows were read from a table without a snapshot."""

    EMPTY = 0


EMPTY_TABLE = EmptyTable.EMPTY


def check_rows_unchanged(
    context: CommitContext, keys: KeyOverlap, base: Snapshot | None, *, since: Snapshot | None
) -> None:
    """Refuse new rows where others have written to their keys since the old ones were read.

    Parameters
    ----------
    base : Snapshot or None
        The snapshot that the attempt builds on; None for the empty table.
    since : Snapshot or None
        The snapshot that the old rows were read from, or a later one that was checked already;
        None for the empty table.

    Raises
    ------
    ConflictError
        Others have, or the snapshots that would show it have expired.
    """
    base_id = 0 if base is None else base.id
    since_id = 0 if since is None else since.id
    if base_id < since_id or base_id - since_id > READ_SNAPSHOTS_MAX:
        raise _rows_changed(context, "its snapshots have changed")
    try:
        now = base if base_id == since_id else context.log.load(since_id) if since_id else None
    except NotFoundError:
        raise _rows_changed(context, f"snapshot {since_id} has expired") from None
    if now != since:  # the table was rolled back meanwhile
        raise _rows_changed(context, "its snapshots have changed")
    why = keys.written_to(range(since_id + 1, base_id + 1))
    if why is not None:
        raise _rows_changed(context, why)


def _rows_changed(context: CommitContext, why: str) -> ConflictError:
    message = (
        f"Rows of table '{context.table}' were made from older ones that another commit may have"
        f" changed: {why}. Nothing was committed, so nothing is lost; run it again."
    )
    return ConflictError(message, kind=ROWS_CHANGED, table=context.table)


def check_keys_unmoved(
    context: CommitContext,
    new_files: EntryTable,
    base: Snapshot | None,
    *,
    read_ids: frozenset[int],
) -> None:
    """Check that no one wrote to keys of cross-partition updates since the writers read them.

    Parameters
    ----------
    new_files : EntryTable
        Files that would be added, with the rows that delete keys in other partitions.
    base : Snapshot or None
        The snapshot that the attempt builds on; None for the empty table.

    Raises
    ------
    ConflictError
        Others did, or the snapshots that would show it have expired.
    """
    base_id = 0 if base is None else base.id
    read_id = min(read_ids, default=base_id)
    if max(read_ids, default=base_id) > base_id:
        why = "the snapshots in which it looked for its keys do not exist any more"
        raise assignment_conflict(context.table, why)
    if base_id - read_id > READ_SNAPSHOTS_MAX:
        why = f"more than {READ_SNAPSHOTS_MAX} snapshots came since it looked for its keys"
        raise assignment_conflict(context.table, why)
    since = range(read_id + 1, base_id + 1)
    if context.options.get(declared.MERGE_ENGINE) == FIRST_ROW and _overwritten(context, since):
        # rows of keys that were there are in no file of ours
        raise assignment_conflict(context.table, "rows that it depends on were overwritten")
    written = KeyOverlap(context, new_files, across=True).written_to(since)
    if written is not None:
        why = f"{written} and may have moved its keys to another partition"
        raise assignment_conflict(context.table, why)


def _overwritten(context: CommitContext, snapshot_ids: range) -> bool:
    """Whether one of these snapshots removed rows, or has expired."""
    try:
        kinds = [context.log.load(snapshot_id).commit_kind for snapshot_id in snapshot_ids]
    except NotFoundError:
        return True
    return CommitKind.OVERWRITE in kinds


def _live_counts(context: CommitContext, snapshot: Snapshot) -> dict[bytes, list[int]]:
    """The numbers of buckets of each partition's live files."""
    files = manifest_files(context.fileio, context.paths, snapshot, context.manifests)
    tables = read_manifests(context.fileio, context.paths, files, context.manifests)
    return live_bucket_counts(tables)


def _sequences(table: EntryTable) -> dict[BucketId, tuple[int, int]]:
    """Smallest and largest sequence number of the added rows of each bucket."""
    table = table.take(table["kind"] == FileKind.ADD)
    ranges: dict[BucketId, tuple[int, int]] = {}
    for partition, bucket, low, high in zip(
        table["partition_id"].tolist(),
        table["bucket"].tolist(),
        table["min_sequence_number"].tolist(),
        table["max_sequence_number"].tolist(),
        strict=True,
    ):
        bucket_id = BucketId(table.partitions[partition], bucket)
        known = ranges.get(bucket_id, (low, high))
        ranges[bucket_id] = (min(low, known[0]), max(high, known[1]))
    return ranges
