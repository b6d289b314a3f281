"""Tags and branches, which keep files of snapshots that have expired.

A removed file never comes back under its name. So a file that is in an expired snapshot and in a
tag is in all states between the two, and only the nearest tag on each side has to be read. Of the
other branches all is read (:mod:`tidelake.commit.expiry.other_branches`).
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.commit.context import CommitContext
from tidelake.commit.expiry.other_branches import OtherBranches
from tidelake.commit.expiry.referenced_files import metadata_files
from tidelake.errors import NotFoundError, StorageError
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.log.tag import TagLog
from tidelake.metadata.manifest.entry_table import EntryTable
from tidelake.metadata.manifest.snapshot_entries import live_entries

_LOG = logging.getLogger("tidelake")
LOOKS_MAX = 10
"""The most times tags are listed again after a listed one was removed before its read."""


class References:
    """Tags of a branch, the other branches, and the files that they need."""

    def __init__(self, context: CommitContext) -> None:
        self._context = context
        self._tags: dict[str, Snapshot] = {}
        self._others = OtherBranches(context)
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
        before = (self._tags, self._others.found_count)
        for _ in range(LOOKS_MAX):
            try:
                self._others.look()
            except NotFoundError:  # removed after it was listed
                continue
            if self._look():
                return before != (self._tags, self._others.found_count)
        message = (
            f"Tags or branches of table '{self._context.table}' keep changing while they are read:"
            " try again."
        )
        raise StorageError(message, kind="tags_change", table=self._context.table)

    def _look(self) -> bool:
        """Read tags; False if a listed one was removed before its read.

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
        self._tags = tags
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
        self._others.preload()

    def unreferenced(self, entries: EntryTable, removed_id: int) -> EntryTable:
        """The entries, of those that a snapshot removed, whose files no tag or branch needs."""
        for snapshot in self._nearest(removed_id - 1):
            if not entries.num_rows:
                break
            kept = pc.is_in(entries["file_name"], value_set=self._names_in(snapshot))
            entries = entries.take(~np.asarray(kept))
        return self._others.unneeded(entries)

    def metadata(self, snapshot_id: int) -> frozenset[str]:
        """Paths of the metadata and changelog files of a snapshot that tags and branches share."""
        nearest = self._nearest(snapshot_id)
        return self._others.paths().union(*map(self._metadata_of, nearest))

    def _nearest(self, snapshot_id: int) -> Iterator[Snapshot]:
        tags = sorted(self._tags.items(), key=lambda named: named[1].id)
        before = [(name, s) for name, s in reversed(tags) if s.id <= snapshot_id]
        after = [(name, s) for name, s in tags if s.id > snapshot_id]
        for side in (before, after):
            yield from [s for name, s in itertools.islice(filter(self._is_readable, side), 1)]

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
