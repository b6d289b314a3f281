"""Files that long-lived changelogs still need after their snapshots have expired."""

from __future__ import annotations

from tidelake.commit.context import CommitContext
from tidelake.commit.expiry.referenced_files import (
    data_is_changelog,
    has_no_producer,
    is_changelog,
    manifests_and_lists,
    removed_by,
)
from tidelake.errors import NotFoundError
from tidelake.metadata.log.long_lived_changelog import KeptChangelogs
from tidelake.metadata.log.schema_log import SchemaLog
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.snapshot_files import changelog_files, data_files
from tidelake.options import Options


def are_in_data_files(context: CommitContext) -> bool:
    """Whether some changelogs are read from data files, which must therefore be kept.

    They are where the table has no changelog producer. They are also where it has one, as long as
    changelogs from before it are kept; the schemas of these changelogs show that.
    """
    if data_is_changelog(context):
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
        return True  # another expiry has removed one: to keep too many files is safe


def kept_for_changelogs(context: CommitContext, oldest: Snapshot) -> frozenset[str]:
    """Find the files that changelogs need, without those of snapshots and tags.

    Where changelogs are read from data files, these include the data files that were removed since
    the oldest changelog: an older changelog names them. They expire with the changelog that removed
    them.

    Parameters
    ----------
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
    in_data_files = are_in_data_files(context)
    paths: set[str] = set()
    for number in range(first, last + 1):
        try:
            changelog = log.load(number)
            paths.update(changelog_files(context, changelog))
        except NotFoundError:
            continue
        if in_data_files:
            paths.update(manifests_and_lists(context, changelog, may_be_missing=True))
            paths.update(_removed_changelog(context, changelog))
    if in_data_files:
        paths.update(_removed_changelog(context, oldest))
    return frozenset(paths)


def _removed_changelog(context: CommitContext, snapshot: Snapshot) -> set[str]:
    removed = removed_by(context, snapshot)
    return set(data_files(context, removed.take(is_changelog(removed))))
