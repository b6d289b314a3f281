"""What others committed since the writers began: what of it a commit must refuse, or tell.

Writers that only add files never conflict with each other. What a writer saw when it began still
decides four things: by how many buckets its rows were routed, in which partitions it looked for
keys that may move, which sequence numbers it gave, and, of an update, the old rows that its new
ones were made from. The snapshots between the one that it saw
and the one that the commit builds on say whether that has changed; an attempt that lost its race
asks again.

Where the table was rolled back to before what the writers saw, their sequence numbers were counted
from a history that is gone: they may be smaller than those of older rows of the same keys, which
would win. Then nothing of it can be committed.
"""

from __future__ import annotations

import enum

from tidelake.commit.conflicts.file_conflicts import (
    added_bucket_counts,
    check_bucket_counts,
    live_bucket_counts,
)
from tidelake.commit.conflicts.index_plan import assignment_conflict
from tidelake.commit.conflicts.key_overlap import KeyOverlap
from tidelake.commit.conflicts.live_buckets import live_in
from tidelake.commit.context import CommitContext
from tidelake.errors import ConflictError, NotFoundError
from tidelake.merge.spec import FIRST_ROW
from tidelake.metadata.bucket_id import BucketId
from tidelake.metadata.data_file import FileKind
from tidelake.metadata.log.snapshot import CommitKind, Snapshot
from tidelake.metadata.manifest.entry_table import EntryTable
from tidelake.metadata.manifest.live_set import manifest_files, read_manifests
from tidelake.options import declared

__all__ = [
    "EMPTY_TABLE",
    "ROWS_CHANGED",
    "EmptyTable",
    "KeptHistory",
    "KeptRows",
    "check_counts_kept",
    "check_unmoved",
    "interleaved_places",
]

ROWS_CHANGED = "rows_changed"
"""Kind of the conflict: read the rows again and update them again."""

SNAPSHOTS_MAX = 100
"""Snapshots since the writers began that are looked through one by one."""
READ_SNAPSHOTS_MAX = 1_000
"""Snapshots since rows were read whose keys are compared; after more it is done again."""


class KeptHistory:
    """Refuses rows that were numbered on a history which was rolled back since, and may lose.

    Parameters
    ----------
    context : CommitContext
        The table.
    new_files : EntryTable
        What would be added.
    seen_id : int or None
        As in :func:`check_counts_kept`.

    Notes
    -----
    Where others committed as many snapshots again after the rollback, it is noticed if it came
    after the commit's first attempt, and not if the writers were still at work.
    """

    def __init__(
        self, context: CommitContext, new_files: EntryTable, *, seen_id: int | None
    ) -> None:
        self._context = context
        self._new_files = new_files
        self._concerns = bool(context.schema.primary_keys) and new_files.num_rows > 0
        self._seen_id = seen_id or 0
        self._first: Snapshot | None = None

    def check(self, base: Snapshot | None) -> None:
        """See that an attempt's base continues what the writers began from, or that it may differ.

        Raises
        ------
        ConflictError
            It does not, and older rows that came back are numbered no lower than these, or the
            rows' buckets were looked up; nothing can be committed.
        """
        if not self._concerns or base is None:  # no rollback leaves a table without a snapshot
            return
        if self._seen_id <= base.id and self._continues(base):
            return
        if (self._new_files["total_buckets"] > 0).all() and not self._has_older(base):
            return
        table = self._context.table
        message = (
            f"Table '{table}' was rolled back while this commit was made on snapshot"
            f" {self._seen_id or base.id}: its newest is {base.id} now, and older rows could win"
            " over these. Nothing was committed. Write again."
        )
        raise ConflictError(message, kind="rolled_back", table=table)

    def _has_older(self, base: Snapshot) -> bool:
        """Whether a bucket holds rows that are numbered no lower than the new ones."""
        ours = _sequences(self._new_files)
        live = live_in(
            self._context,
            base,
            partitions=frozenset(partition for partition, _ in ours),
            buckets=frozenset(bucket for _, bucket in ours),
        )
        theirs = _sequences(live)
        return any(theirs[p][1] >= low for p, (low, _) in ours.items() if p in theirs)

    def _continues(self, base: Snapshot) -> bool:
        """Whether the base of the first attempt is in the history of this one's."""
        first = self._first
        if first is None:
            self._first = base
            return True
        if first.id > base.id:
            return False
        try:
            found = base if first.id == base.id else self._context.log.load(first.id)
        except NotFoundError:
            return True  # it has expired
        return (found.commit_user, found.delta_manifest_list, found.base_manifest_list) == (
            first.commit_user,
            first.delta_manifest_list,
            first.base_manifest_list,
        )


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
) -> tuple[BucketId, ...]:
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
    theirs: dict[BucketId, int] = {}
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


class EmptyTable(enum.Enum):
    """What rows were made from where the table had no snapshot yet."""

    EMPTY = 0


EMPTY_TABLE = EmptyTable.EMPTY


class KeptRows:
    """The old rows that a commit's new ones were made from. Not thread-safe.

    Parameters
    ----------
    context : CommitContext
        A primary-key table.
    new_files : EntryTable
        The rows that would be added.
    made_from : Snapshot or EmptyTable
        What the old rows were read from.
    """

    def __init__(
        self, context: CommitContext, new_files: EntryTable, made_from: Snapshot | EmptyTable
    ) -> None:
        self._context = context
        self._keys = KeyOverlap(context, new_files)
        self._seen = None if made_from is EMPTY_TABLE else made_from

    def check(self, base: Snapshot | None) -> None:
        """Refuse the new rows where others have written to their keys since.

        The next call looks at what came after this base only.

        Parameters
        ----------
        base : Snapshot or None
            What the commit builds on; None for the empty table.

        Raises
        ------
        ConflictError
            Somebody has, or it cannot be found out.
        """
        context, seen = self._context, self._seen
        base_id = 0 if base is None else base.id
        seen_id = 0 if seen is None else seen.id
        if base_id < seen_id or base_id - seen_id > READ_SNAPSHOTS_MAX:
            raise _rows_changed(context, "its snapshots are others")
        try:
            now = base if base_id == seen_id else context.log.load(seen_id) if seen_id else None
        except NotFoundError:
            raise _rows_changed(context, f"snapshot {seen_id} has expired") from None
        if now != seen:  # the table was rolled back meanwhile
            raise _rows_changed(context, "its snapshots are others")
        why = self._keys.written_to(range(seen_id + 1, base_id + 1))
        if why is not None:
            raise _rows_changed(context, why)
        self._seen = base


def _rows_changed(context: CommitContext, why: str) -> ConflictError:
    message = (
        f"Rows of table '{context.table}' were made from older ones that another commit may have"
        f" changed: {why}. Nothing was committed, so nothing is lost; do it again."
    )
    return ConflictError(message, kind=ROWS_CHANGED, table=context.table)


def check_unmoved(
    context: CommitContext,
    new_files: EntryTable,
    base: Snapshot | None,
    *,
    seen_ids: frozenset[int],
) -> None:
    """See that nobody wrote to keys that may move since they were looked for.

    Parameters
    ----------
    context : CommitContext
        The table.
    new_files : EntryTable
        The rows that would be added, those that delete keys in other partitions among them.
    base : Snapshot or None
        What the commit builds on; None for the empty table.
    seen_ids : frozenset of int
        The snapshots that the keys were looked for in.

    Raises
    ------
    ConflictError
        Somebody did, or it cannot be found out.
    """
    base_id = 0 if base is None else base.id
    seen_id = min(seen_ids, default=base_id)
    if max(seen_ids, default=base_id) > base_id:
        why = "the snapshots that its keys were looked for in are no more"
        raise assignment_conflict(context.table, why)
    if base_id - seen_id > READ_SNAPSHOTS_MAX:
        why = f"more than {READ_SNAPSHOTS_MAX} snapshots came since it looked for its keys"
        raise assignment_conflict(context.table, why)
    since = range(seen_id + 1, base_id + 1)
    if context.options.get(declared.MERGE_ENGINE) == FIRST_ROW and _overwritten(context, since):
        # rows of keys that were there are in no file of ours
        raise assignment_conflict(context.table, "rows that came before its own were overwritten")
    keys = KeyOverlap(context, new_files, across=True)
    written = keys.written_to(since)
    if written is not None:
        why = f"{written} and may have moved its keys to another partition"
        raise assignment_conflict(context.table, why)


def _overwritten(context: CommitContext, snapshot_ids: range) -> bool:
    """Whether one of these snapshots took rows away, or may have: it has expired."""
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
        place = BucketId(table.partitions[partition], bucket)
        known = ranges.get(place, (low, high))
        ranges[place] = (min(low, known[0]), max(high, known[1]))
    return ranges
