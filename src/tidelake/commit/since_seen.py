"""What others committed since the writers began: what of it a commit must refuse, or tell.

Writers that only add files never conflict with each other. What a writer saw when it began still
decides four things: by how many buckets its rows were routed, in which partitions it looked for
keys that may move, which sequence numbers it gave, and, of an update, the old rows that its new
ones were made from. The snapshots between the one that it saw
and the one that the commit builds on say whether that has changed; an attempt that lost its race
asks again.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidelake.commit.conflict import (
    added_bucket_counts,
    check_bucket_counts,
    key_range,
    live_bucket_counts,
)
from tidelake.commit.context import CommitContext
from tidelake.commit.index_plan import assignment_conflict
from tidelake.errors import ConflictError, NotFoundError
from tidelake.metadata.data_file import DataFileMeta, FileKind
from tidelake.metadata.entry_table import EntryTable
from tidelake.metadata.live_set import manifest_files, read_manifests
from tidelake.metadata.paths import POSTPONE_BUCKET
from tidelake.metadata.snapshot import CommitKind, Snapshot

__all__ = [
    "ROWS_CHANGED",
    "check_counts_kept",
    "check_rows_kept",
    "check_unmoved",
    "interleaved_places",
]

ROWS_CHANGED = "rows_changed"
"""Kind of the conflict: read the rows again and update them again."""

SNAPSHOTS_MAX = 100
"""Snapshots since the writers began that are looked through one by one."""

Place = tuple[bytes, int]


def check_counts_kept(
    context: CommitContext,
    new_files: EntryTable,
    base: Snapshot | None,
    *,
    seen_id: int | None,
) -> None:
    """Refuse files of fixed buckets in a partition that has another number of them by now.

    What the writer's own base held was checked when it was opened, so that what came since
    tells it; where that is not known or gone, the partitions' live files do.

    Parameters
    ----------
    context : CommitContext
        The table.
    new_files : EntryTable
        What would be added.
    base : Snapshot or None
        What the commit builds on; None for the empty table.
    seen_id : int or None
        The snapshot that the writers began from, 0 for the empty table; None if it is not known.

    Raises
    ------
    ConflictError
        A partition has another number of buckets.
    """
    if base is None:
        return
    fixed = new_files.take(new_files["total_buckets"] > 0)
    if not fixed.num_rows or seen_id == base.id:
        return
    since = range((seen_id or 0) + 1, base.id + 1)
    if seen_id is None or len(since) > SNAPSHOTS_MAX:
        check_bucket_counts(fixed, _live_counts(context, base), table=context.table)
        return
    for snapshot_id in since:
        try:
            theirs = added_bucket_counts([context.delta(context.log.load(snapshot_id))])
        except NotFoundError:  # it has expired
            theirs = _live_counts(context, base)
        check_bucket_counts(fixed, theirs, table=context.table)


def interleaved_places(
    context: CommitContext,
    new_files: EntryTable,
    base: Snapshot | None,
    *,
    seen_id: int | None,
) -> tuple[Place, ...]:
    """Buckets to which others added rows, no older than ours, since the writers began.

    Parameters
    ----------
    context, new_files, base, seen_id
        As in :func:`check_counts_kept`.

    Returns
    -------
    tuple of (partition, bucket)
        None of them for an append table, or where `seen_id` is not known.
    """
    if base is None or seen_id is None or base.id <= seen_id:
        return ()
    if not context.schema.primary_keys:
        return ()
    first = max(seen_id, base.id - SNAPSHOTS_MAX) + 1
    theirs: dict[Place, int] = {}
    for snapshot_id in range(first, base.id + 1):
        try:
            snapshot = context.log.load(snapshot_id)
            delta = context.delta(snapshot)
        except NotFoundError:
            continue  # it has expired
        if snapshot.commit_kind is not CommitKind.COMPACT:
            for place, (_, high) in _sequences(delta).items():
                theirs[place] = max(high, theirs.get(place, high))
    ours = _sequences(new_files)
    return tuple(p for p, (low, _) in ours.items() if theirs.get(p, low - 1) >= low)


def check_rows_kept(
    context: CommitContext,
    new_files: EntryTable,
    base: Snapshot | None,
    *,
    made_from: Snapshot,
) -> None:
    """Refuse rows that were made from older ones where others have written to their keys since.

    Keys are told apart by the ranges of files, so a commit to keys in between is one to these.

    Parameters
    ----------
    context : CommitContext
        A primary-key table.
    new_files : EntryTable
        The rows that would be added.
    base : Snapshot or None
        What the commit builds on; None for the empty table.
    made_from : Snapshot
        What the old rows were read from.

    Raises
    ------
    ConflictError
        Somebody has, or it cannot be found out.
    """
    if base is None or base.id < made_from.id or base.id - made_from.id > SNAPSHOTS_MAX:
        raise _rows_changed(context, "its snapshots are others")
    try:
        now = base if base.id == made_from.id else context.log.load(made_from.id)
    except NotFoundError:
        raise _rows_changed(context, f"snapshot {made_from.id} has expired") from None
    if now != made_from:  # the table was rolled back meanwhile
        raise _rows_changed(context, "its snapshots are others")
    ours = _files_by_place(new_files)
    types = [context.schema.field(k).type for k in context.schema.trimmed_primary_keys]
    for snapshot_id in range(made_from.id + 1, base.id + 1):
        try:
            snapshot = context.log.load(snapshot_id)
            theirs = context.delta(snapshot)
        except NotFoundError:
            raise _rows_changed(context, f"snapshot {snapshot_id} has expired") from None
        if snapshot.commit_kind is CommitKind.COMPACT:
            continue
        for place, files in _files_by_place(theirs).items():
            if place not in ours:
                continue
            low, high = key_range(ours[place], types)
            for file in files:
                own_low, own_high = key_range([file], types)
                if place[1] == POSTPONE_BUCKET or (own_low <= high and low <= own_high):
                    raise _rows_changed(context, f"snapshot {snapshot_id} writes to their keys")


def _rows_changed(context: CommitContext, why: str) -> ConflictError:
    message = (
        f"Rows of table '{context.table}' were made from older ones that another commit may have"
        f" changed: {why}. Nothing was committed, so nothing is lost; do it again."
    )
    return ConflictError(message, kind=ROWS_CHANGED, table=context.table)


def _files_by_place(table: EntryTable) -> dict[Place, Sequence[DataFileMeta]]:
    """The files that entries add or remove, by partition and bucket."""
    files: dict[Place, list[DataFileMeta]] = {}
    for entry in table.to_entries():
        files.setdefault((entry.partition, entry.bucket), []).append(entry.file)
    return dict(files)


def check_unmoved(context: CommitContext, seen_ids: frozenset[int], base_id: int) -> None:
    """See that nobody added or removed rows since keys that may move were looked for.

    Parameters
    ----------
    context : CommitContext
        The table.
    seen_ids : frozenset of int
        The snapshots that the keys were looked for in.
    base_id : int
        What the commit builds on; 0 for the empty table.

    Raises
    ------
    ConflictError
        Somebody did.
    """
    for seen_id in seen_ids:
        for snapshot_id in range(min(seen_id, base_id) + 1, max(seen_id, base_id) + 1):
            try:
                moved = context.log.load(snapshot_id).commit_kind is not CommitKind.COMPACT
            except NotFoundError:
                moved = True
            if moved:
                why = f"snapshot {snapshot_id} may have moved its keys to another partition"
                raise assignment_conflict(context.table, why)


def _live_counts(context: CommitContext, snapshot: Snapshot) -> dict[bytes, list[int]]:
    """The numbers of buckets of each partition's live files."""
    files = manifest_files(context.fileio, context.paths, snapshot, context.manifests)
    tables = read_manifests(context.fileio, context.paths, files, context.manifests)
    return live_bucket_counts(tables)


def _sequences(table: EntryTable) -> dict[Place, tuple[int, int]]:
    """Smallest and largest sequence number of the added rows of each bucket."""
    table = table.take(table["kind"] == FileKind.ADD)
    ranges: dict[Place, tuple[int, int]] = {}
    for partition, bucket, low, high in zip(
        table["partition_id"].tolist(),
        table["bucket"].tolist(),
        table["min_sequence_number"].tolist(),
        table["max_sequence_number"].tolist(),
        strict=True,
    ):
        place = (table.partitions[partition], bucket)
        known = ranges.get(place, (low, high))
        ranges[place] = (min(low, known[0]), max(high, known[1]))
    return ranges
