"""The files that changelogs need which outlived their snapshots."""

from __future__ import annotations

from tidelake.commit.context import CommitContext
from tidelake.commit.expiry.referenced_files import (
    data_tells,
    has_no_producer,
    is_told,
    manifests_and_lists,
    removed_by,
)
from tidelake.errors import NotFoundError
from tidelake.metadata.log.long_lived_changelog import KeptChangelogs
from tidelake.metadata.log.schema_log import SchemaLog
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.snapshot_files import changelog_files, data_files
from tidelake.options import Options

__all__ = ["are_told_by_data", "kept_for_changelogs"]


def are_told_by_data(context: CommitContext) -> bool:
    """Whether files stay for changelogs that data files tell.

    They do without a changelog producer. They do with one, too, as long as changelogs from before
    it are kept, which the schemas of these changelogs say.
    """
    if data_tells(context):
        return True
    log = KeptChangelogs(context.fileio, context.paths)
    found = log.range()
    if found is None:
        return False
    schemas = SchemaLog(context.fileio, context.paths)
    try:
        first, last = (log.load(number).schema_id for number in found)
        return any(
            has_no_producer(Options.parse(schemas.load(schema_id).options))
            for schema_id in range(first, last + 1)
        )
    except NotFoundError:
        return True  # another expiry has removed one: rather too much stays than too little


def kept_for_changelogs(context: CommitContext, oldest: Snapshot) -> frozenset[str]:
    """Paths of the files that stay for changelogs, whatever snapshots and tags need.

    Where data tells, those are also the files that were removed since the oldest of them: some
    older changelog tells of them, and they go with the one that removed them.

    Parameters
    ----------
    context : CommitContext
        The table.
    oldest : Snapshot
        The oldest of its snapshots.

    Notes
    -----
    Reads all such changelogs.
    """
    log = KeptChangelogs(context.fileio, context.paths)
    found = log.range()
    if found is None:
        return frozenset()
    first, last = found
    by_data = are_told_by_data(context)
    paths: set[str] = set()
    for number in range(first, last + 1):
        try:
            changelog = log.load(number)
            paths.update(changelog_files(context, changelog))
        except NotFoundError:
            continue
        if by_data:
            paths.update(manifests_and_lists(context, changelog, is_dying=True))
            paths.update(_told_by_data(context, changelog))
    return frozenset(paths | _told_by_data(context, oldest)) if by_data else frozenset(paths)


def _told_by_data(context: CommitContext, snapshot: Snapshot) -> set[str]:
    removed = removed_by(context, snapshot)
    return set(data_files(context, removed.take(is_told(removed))))
