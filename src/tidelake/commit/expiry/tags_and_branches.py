"""Tags and branches, which keep files of snapshots that have expired.

A removed file never comes back under its name. So a file that is in an expired snapshot and in a
tag is in all states between the two, and only the nearest tag on each side has to be read. A branch
starts from its own copy of a tag; all its tags and its oldest snapshot are read.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.commit.context import CommitContext
from tidelake.commit.expiry.referenced_files import metadata_files
from tidelake.errors import NotFoundError, StorageError
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.log.tag import Tag, TagLog
from tidelake.metadata.manifest.entry_table import EntryTable
from tidelake.metadata.manifest.snapshot_entries import live_entries
from tidelake.metadata.paths import numbered

_LOG = logging.getLogger("tidelake")
BRANCH_PREFIX, TAG_PREFIX = "branch-", "tag-"
LOOKS_MAX = 10
"""The most times tags are listed again after a listed one was removed before its read."""


class References:
    """Tags and branches of a table, and the files that they need."""

    def __init__(self, context: CommitContext) -> None:
        self._context = context
        self._tags: dict[str, Snapshot] = {}
        self._of_branches: tuple[Snapshot, ...] = ()
        self._live_names: dict[str, pa.Array] = {}
        self._metadata: dict[str, frozenset[str]] = {}
        self._unreadable: set[str] = set()
        self.refresh()

    def refresh(self) -> bool:
        """Read new tags and branches; whether anything has changed.

        A listing may be stale: a known tag that is not listed is read by its name, and what a
        branch needed before stays.

        Raises
        ------
        CorruptError
            A tag's file is damaged.
        StorageError
            Tags come and go faster than they are read.
        """
        before = (self._tags, self._of_branches)
        for _ in range(LOOKS_MAX):
            if self._look():
                return before != (self._tags, self._of_branches)
        message = (
            f"Tags or branches of table '{self._context.table}' keep changing while they are read:"
            " try again."
        )
        raise StorageError(message, kind="tags_change", table=self._context.table)

    def _look(self) -> bool:
        """Read tags and branches; False if a listed one was removed before its read.

        It may have been renamed after the listing.
        """
        log = TagLog(self._context.fileio, self._context.paths, table=self._context.table)
        listed = log.names()
        tags: dict[str, Snapshot] = {}
        for name in sorted({*listed, *self._tags}):
            try:
                tags[name] = log.load(name).snapshot
            except NotFoundError:
                if name in listed:
                    return False
        try:
            branches = (*self._of_branches, *self._branches())
        except NotFoundError:
            return False
        self._tags = tags
        self._of_branches = tuple({s.delta_manifest_list: s for s in branches}.values())
        return True

    def preload(self, first_id: int, end_id: int) -> None:
        """Read the metadata of all that a range of snapshots needs, before anything is removed.

        Raises
        ------
        NotFoundError, CorruptError
            One cannot be read, so it is not known what it needs.
        """
        for number in range(first_id, end_id):
            for snapshot in self._nearest(number):
                self._metadata_of(snapshot)

    def unreferenced(self, entries: EntryTable, removed_id: int) -> EntryTable:
        """The entries, of those that a snapshot removed, whose files no tag or branch needs."""
        for snapshot in self._nearest(removed_id - 1):
            if not entries.num_rows:
                break
            kept = pc.is_in(entries["file_name"], value_set=self._names_in(snapshot))
            entries = entries.take(~np.asarray(kept))
        return entries

    def metadata(self, snapshot_id: int) -> frozenset[str]:
        """Paths of the metadata files that tags and branches share with a snapshot."""
        nearest = self._nearest(snapshot_id)
        return frozenset[str]().union(*map(self._metadata_of, nearest))

    def _nearest(self, snapshot_id: int) -> Iterator[Snapshot]:
        tags = sorted(self._tags.items(), key=lambda named: named[1].id)
        before = [(name, s) for name, s in reversed(tags) if s.id <= snapshot_id]
        after = [(name, s) for name, s in tags if s.id > snapshot_id]
        for side in (before, after):
            yield from [s for name, s in itertools.islice(filter(self._is_readable, side), 1)]
        yield from self._of_branches

    def _is_readable(self, named: tuple[str, Snapshot]) -> bool:
        """Whether a tag can still be read, and so keeps files.

        A tag that was deleted, and whose put came late, names lists that went with it. It keeps
        nothing, and is said. If one of its lists is there, something was lost: that is an error.
        """
        name, snapshot = named
        try:
            self._metadata_of(snapshot)
        except NotFoundError as error:
            context = self._context
            lists = (snapshot.base_manifest_list, snapshot.delta_manifest_list)
            if any(context.fileio.exists(context.paths.manifest(one)) for one in lists):
                message = (
                    f"Tag '{name}' of table '{context.table}' cannot be read ({error}), so it is"
                    " not known which files it needs, and nothing expires. Restore the file from a"
                    " backup, or delete the tag."
                )
                raise NotFoundError(message, kind="tag_unreadable", tag=name) from error
            if name not in self._unreadable:
                self._unreadable.add(name)
                _LOG.warning(
                    "Tag '%s' of table '%s' names files that are gone: it was deleted, and a"
                    " request to create it came late. It keeps nothing. Delete it again.",
                    name,
                    context.table,
                )
            return False
        return True

    def _names_in(self, snapshot: Snapshot) -> pa.Array:
        key = snapshot.delta_manifest_list
        if key not in self._live_names:
            context = self._context
            live = live_entries(context.fileio, context.paths, snapshot, context.manifests)
            self._live_names[key] = live["file_name"]
        return self._live_names[key]

    def _metadata_of(self, snapshot: Snapshot) -> frozenset[str]:
        key = snapshot.delta_manifest_list
        if key not in self._metadata:
            self._metadata[key] = frozenset(metadata_files(self._context, snapshot))
        return self._metadata[key]

    def _branches(self) -> Iterator[Snapshot]:
        fileio, directory = self._context.fileio, self._context.paths.branch_dir
        for branch in sorted(fileio.list_dir(directory), key=lambda s: s.name):
            if not (branch.is_dir and branch.name.startswith(BRANCH_PREFIX)):
                continue
            inside = f"{directory}/{branch.name}"
            tags = sorted(s.name for s in fileio.list_dir(f"{inside}/tag"))
            for name in (n for n in tags if n.startswith(TAG_PREFIX)):
                path = f"{inside}/tag/{name}"
                tag = Tag.from_json(fileio.read_bytes(path), name=name, path=path)
                yield tag.snapshot
            listed = fileio.list_dir(f"{inside}/snapshot")
            ids = [i for s in listed if (i := numbered(s.name, "snapshot-")) is not None]
            if ids:
                path = f"{inside}/snapshot/snapshot-{min(ids)}"
                yield Snapshot.from_json(fileio.read_bytes(path), path=path)
