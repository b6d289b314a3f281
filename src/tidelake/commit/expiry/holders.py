"""What keeps files of snapshots that have expired: tags, and branches.

A file that is in an expired snapshot and in a tag before it is in all states between the two: what
is removed from a table never comes back under its name. So, of the table's own tags, the nearest
one that is not newer tells. Branches go their own way from a tag that they have a copy of: all
their tags tell, and the oldest snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.commit.context import CommitContext
from tidelake.commit.expiry.needed import metadata_files
from tidelake.errors import NotFoundError
from tidelake.metadata.entry_table import EntryTable
from tidelake.metadata.live_set import live_entries
from tidelake.metadata.snapshot import Snapshot, numbered
from tidelake.metadata.tag import Tag, TagLog

__all__ = ["Holders"]

BRANCH_PREFIX, TAG_PREFIX = "branch-", "tag-"


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
        """
        before = (self._tags, self._of_branches)
        log = TagLog(self._context.fileio, self._context.paths, table=self._context.table)
        tags: dict[str, Snapshot] = {}
        for name in sorted({*log.names(), *self._tags}):
            try:
                tags[name] = log.load(name).snapshot
            except NotFoundError:
                continue  # it was deleted meanwhile
        self._tags = tags
        seen = {s.delta_manifest_list: s for s in (*self._of_branches, *self._branches())}
        self._of_branches = tuple(seen.values())
        return before != (tags, self._of_branches)

    def keep_data(self, entries: EntryTable, snapshot_id: int) -> EntryTable:
        """Leave out of entries, all in a snapshot's state, those whose files are needed."""
        for holder in self._at(snapshot_id):
            if not entries.num_rows:
                break
            kept = pc.is_in(entries["file_name"], value_set=self._names_in(holder))
            entries = entries.take(~np.asarray(kept))
        return entries

    def metadata(self, snapshot_id: int) -> frozenset[str]:
        """Paths of the metadata files, of those that a snapshot names, that are needed."""
        needed = [self._metadata_of(holder) for holder in self._at(snapshot_id)]
        return frozenset().union(*needed)

    def _at(self, snapshot_id: int) -> Iterator[Snapshot]:
        before = [s for s in self._tags.values() if s.id <= snapshot_id]
        if before:
            yield max(before, key=lambda s: s.id)
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
