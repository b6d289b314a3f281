"""The compactions of a commit against the snapshot that it builds on.

Each bucket's is checked against the bucket's live files
(:mod:`tidelake.commit.conflicts.file_conflicts`); one that no longer fits is left out and reported,
unless they hang together. So are its deletion vectors
(:mod:`tidelake.commit.conflicts.deletion_plan`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidelake.commit.conflicts.deletion_plan import PlacedDeletions, check_deletions, vector_names
from tidelake.commit.conflicts.file_conflicts import check_compaction
from tidelake.commit.conflicts.live_buckets import live_in
from tidelake.commit.context import CommitContext
from tidelake.commit.delta import Compaction, Delta
from tidelake.errors import ConflictError, TidelakeError
from tidelake.metadata.bucket_id import BucketId
from tidelake.metadata.data_file import CommitMessage, FileKind, ManifestEntry
from tidelake.metadata.index.index_manifest import index_entries
from tidelake.metadata.log.snapshot import CommitKind, Snapshot
from tidelake.metadata.manifest.entry_table import EntryTable

__all__ = ["Fitting", "fitting_compactions", "is_of_messages"]


@dataclass(frozen=True, slots=True)
class Fitting:
    """The compactions that fit a base.

    Parameters
    ----------
    delta : Delta
        What they change, and their changelogs.
    deletions : tuple of PlacedDeletions
        What they do to deletion vectors.
    """

    delta: Delta
    deletions: tuple[PlacedDeletions, ...]


def fitting_compactions(
    context: CommitContext,
    todo: Sequence[Compaction],
    base: Snapshot | None,
    gave_way: list[TidelakeError],
    *,
    all_or_nothing: bool,
) -> Fitting:
    """Find the compactions that fit the base.

    Parameters
    ----------
    context : CommitContext
        The table.
    todo : sequence of Compaction
        One per bucket.
    base : Snapshot or None
        What the commit builds on.
    gave_way : list of TidelakeError
        Holds the errors of the others afterwards, and nothing else.
    all_or_nothing : bool
        Whether one that does not fit is raised instead.

    Raises
    ------
    ConflictError
        One does not fit, and they hang together.
    """
    gave_way.clear()
    live = _live_by_place(context, todo, base)
    index = index_entries(context.fileio, context.paths, base, context.manifests)
    schema = context.schema
    types = [schema.field(k).type for k in schema.trimmed_primary_keys]
    entries: list[ManifestEntry] = []
    changelog: list[ManifestEntry] = []
    deletions: list[PlacedDeletions] = []
    for compaction in todo:
        own = live.get(compaction.bucket_id, [])
        names = {entry.file.file_name for entry in own}
        names |= {file.file_name for file in compaction.after}
        placed = PlacedDeletions(*compaction.bucket_id, compaction.deletions, compaction.gone)
        vectors = vector_names(index, *compaction.bucket_id)
        try:
            check_compaction(compaction, own, key_types=types, table=context.table, vectors=vectors)
            check_deletions(placed, index, names, table=context.table)
        except ConflictError as error:
            if all_or_nothing:
                raise
            gave_way.append(error)
        else:
            entries += compaction.removed_entries()
            entries += compaction.added_entries()
            changelog += compaction.changelog_entries()
            deletions.append(placed)
    delta = Delta(EntryTable.of(entries), EntryTable.of(changelog))
    return Fitting(delta, tuple(deletions))


def _live_by_place(
    context: CommitContext, todo: Sequence[Compaction], base: Snapshot | None
) -> dict[BucketId, list[ManifestEntry]]:
    if base is None:
        return {}
    partitions = frozenset(c.partition for c in todo)
    buckets = frozenset(c.bucket for c in todo)
    live = live_in(context, base, partitions=partitions, buckets=buckets)
    by_place: dict[BucketId, list[ManifestEntry]] = {}
    for entry in live.to_entries():
        by_place.setdefault(entry.bucket_id, []).append(entry)
    return by_place


def is_of_messages(
    context: CommitContext,
    snapshot: Snapshot,
    messages: Sequence[CommitMessage],
    todo: Sequence[Compaction],
) -> bool:
    """Whether a snapshot adds a new file of the messages or removes one that they compacted.

    A file is added once and removed from its level once, so that one of them tells. Where the
    messages only delete rows, their index files do, or the files that they remove.
    """
    if snapshot.commit_kind is CommitKind.COMPACT:
        wanted, names = FileKind.DELETE, {f.file_name for c in todo for f in c.before}
    else:
        wanted, names = FileKind.ADD, {f.file_name for m in messages for f in m.new_files}
    added = {f.file_name for m in messages if m.deletions for f in m.deletions.added}
    if added and not names:
        index = index_entries(context.fileio, context.paths, snapshot, context.manifests)
        return any(entry.file.file_name in added for entry in index)
    removed = {f.file_name for m in messages for f in m.removed_files}
    if removed and not names:
        wanted, names = FileKind.DELETE, removed
    delta = context.delta(snapshot)
    found = delta.take(delta["kind"] == wanted)["file_name"].to_pylist()
    return not names.isdisjoint(found)
