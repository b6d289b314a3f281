"""The compactions of a commit that fit the snapshot it builds on.

Each bucket's compaction is checked against the bucket's live files
(:mod:`tidelake.commit.conflicts.file_conflicts`), and its deletion vectors against the live ones
(:mod:`tidelake.commit.conflicts.deletion_conflicts`). One that no longer fits is dropped and
reported, unless the compactions belong together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidelake.commit.conflicts.deletion_conflicts import check_deletions, vector_names
from tidelake.commit.conflicts.file_conflicts import check_compaction
from tidelake.commit.conflicts.live_buckets import live_in_buckets
from tidelake.commit.context import CommitContext
from tidelake.commit.delta import Compaction, DeletionDelta, Delta
from tidelake.errors import ConflictError
from tidelake.merge import FileKeys, MergeSpec
from tidelake.metadata.bucket_id import BucketId
from tidelake.metadata.data_file import ManifestEntry
from tidelake.metadata.index_entry import IndexEntry
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.manifest.entry_table import EntryTable


@dataclass(frozen=True, slots=True)
class Fitting:
    """The compactions that fit a base.

    Parameters
    ----------
    conflicts : tuple of ConflictError
        One for each compaction that does not fit.
    """

    delta: Delta
    deletions: tuple[DeletionDelta, ...]
    conflicts: tuple[ConflictError, ...]


def fitting_compactions(
    context: CommitContext,
    compactions: Sequence[Compaction],
    base: Snapshot | None,
    index: Sequence[IndexEntry],
    *,
    all_or_nothing: bool,
) -> Fitting:
    """Find the compactions that fit the base.

    Parameters
    ----------
    compactions : sequence of Compaction
        One per bucket.
    base : Snapshot or None
        The snapshot that the attempt builds on; None for the empty table.
    all_or_nothing : bool
        Whether a conflict of one is raised.

    Raises
    ------
    ConflictError
        With `all_or_nothing`, one does not fit.
    """
    live: dict[BucketId, list[ManifestEntry]] = {}
    for entry in live_in_buckets(context, base, [c.bucket_id for c in compactions]).to_entries():
        live.setdefault(entry.bucket_id, []).append(entry)
    schema = context.schema
    keys = FileKeys.of(MergeSpec.of(schema, context.options)) if schema.primary_keys else None
    entries: list[ManifestEntry] = []
    changelog: list[ManifestEntry] = []
    deletions: list[DeletionDelta] = []
    conflicts: list[ConflictError] = []
    for compaction in compactions:
        bucket_id = compaction.bucket_id
        files = live.get(bucket_id, [])
        names = {entry.file.file_name for entry in files}
        names |= {file.file_name for file in compaction.after}
        change = DeletionDelta(*bucket_id, compaction.deletions, compaction.gone)
        vectors = vector_names(index, *bucket_id)
        try:
            check_compaction(compaction, files, keys=keys, table=context.table, vectors=vectors)
            check_deletions(change, index, names, table=context.table)
        except ConflictError as error:
            if all_or_nothing:
                raise
            conflicts.append(error)
        else:
            entries += compaction.removed_entries()
            entries += compaction.added_entries()
            changelog += compaction.changelog_entries()
            deletions.append(change)
    delta = Delta(EntryTable.of(entries), EntryTable.of(changelog))
    return Fitting(delta, tuple(deletions), tuple(conflicts))
