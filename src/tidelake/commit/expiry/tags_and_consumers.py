"""What keeps files of snapshots that have expired: tags, and branches.

A file that is in an expired snapshot and in a tag is in all states between the two: what is removed
from a table never comes back under its name. So, of the table's own tags, the nearest one on each
side tells. Branches go their own way from a tag that they have a copy of: all their tags tell, and
the oldest snapshot.
"""

from __future__ import annotations

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
from tidelake.metadata.manifest.live_set import live_entries
from tidelake.metadata.paths import numbered

__all__ = ["Holders"]

BRANCH_PREFIX, TAG_PREFIX = "branch-", "tag-"
LOOKS_MAX = 10
"""Times that tags are listed, while those that were listed are gone when they are read."""


class Holders:
    """Tags and branches of a table, and what they need.

    Parameters
    ----------
    context : CommitContext
        The table.
    """

    def __init__(self, context: CommitContext) -> None:
        self._context = context
        self._tags: dict[str, Snapshot] = {}
        self._of_branches: tuple[Snapshot, ...] = ()
        self._live_names: dict[str, pa.Array] = {}
        self._metadata: dict[str, frozenset[str]] = {}
        self.look_again()

    def look_again(self) -> bool:
        """Look for new tags and branches; whether anything is other than before.

        A listing may be old: a tag that was there and is not listed any more is looked for by its
        name, and what a branch was seen to need stays.

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
            f"Tags or branches of table '{self._context.table}' change while they are looked at:"
            " try again."
        )
        raise StorageError(message, kind="tags_change", table=self._context.table)

    def _look(self) -> bool:
        """Read tags and branches; False where one that was listed is gone when it is read.

        It may have got another name, which that listing does not have.
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

    def read_between(self, first_id: int, end_id: int) -> None:
        """Read the lists of those that tell of a range of snapshots, before anything goes.

        Raises
        ------
        NotFoundError, CorruptError
            One of them cannot be read: it is not known what it needs.
        """
        for number in range(first_id, end_id):
            for holder in self._around(number):
                self._metadata_of(holder)

    def keep_data(self, entries: EntryTable, removed_id: int) -> EntryTable:
        """Leave out of entries, which a snapshot removed, those whose files are needed."""
        for holder in self._around(removed_id - 1):
            if not entries.num_rows:
                break
            kept = pc.is_in(entries["file_name"], value_set=self._names_in(holder))
            entries = entries.take(~np.asarray(kept))
        return entries

    def metadata(self, snapshot_id: int) -> frozenset[str]:
        """Paths of the metadata files, of those that a snapshot names, that are needed."""
        needed = [self._metadata_of(holder) for holder in self._around(snapshot_id)]
        return frozenset().union(*needed)

    def _around(self, snapshot_id: int) -> Iterator[Snapshot]:
        tags = sorted(self._tags.values(), key=lambda s: s.id)
        yield from [s for s in tags if s.id <= snapshot_id][-1:]
        yield from [s for s in tags if s.id > snapshot_id][:1]
        yield from self._of_branches

    def _names_in(self, holder: Snapshot) -> pa.Array:
        key = holder.delta_manifest_list
        if key not in self._live_names:
            context = self._context
            live = live_entries(context.fileio, context.paths, holder, context.manifests)
            self._live_names[key] = live["file_name"]
        return self._live_names[key]

    def _metadata_of(self, holder: Snapshot) -> frozenset[str]:
        key = holder.delta_manifest_list
        if key not in self._metadata:
            self._metadata[key] = frozenset(metadata_files(self._context, holder))
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
