"""What the other branches of a table need: files that this branch's expiry must leave.

Branches share data files, manifests, index files, statistics and changelog files: a branch begins
with a snapshot of main, and after a fast-forward main has the branch's snapshots. So the expiry of
one branch reads all snapshots, tags and long-lived changelogs of the others:

1. Of a tag, and of the oldest snapshot of a line, the whole state counts. A later snapshot adds to
   the state before it: there what its delta names is enough. One that does not follow the one
   before it counts whole.
2. Manifests, lists, index files, statistics and changelog files count for each of them.
3. A listing may be stale, so what a branch needed before still counts, as long as its own file is
   there. A snapshot whose files are missing is an error, unless its own file is gone too: then the
   other branch has removed it meanwhile.

Java Paimon (1.3.1, 2.1) does not look at other branches: there a branch relies on the tag that it
was created from. Cost for a table without branches: one listing; else two listings a branch and all
its snapshot files, and once the manifests of each line.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.commit.context import CommitContext
from tidelake.commit.expiry.referenced_files import metadata_files
from tidelake.errors import NotFoundError
from tidelake.metadata.at_once import at_once
from tidelake.metadata.log.chain import follows
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.log.tag import Tag
from tidelake.metadata.manifest.entry_table import EntryTable
from tidelake.metadata.manifest.snapshot_entries import delta_entries, live_entries
from tidelake.metadata.paths import BRANCH_PREFIX, MAIN_BRANCH, TablePaths, numbered
from tidelake.metadata.snapshot_files import changelog_files

TAG_PREFIX = "tag-"
Read = TypeVar("Read")


@dataclass(frozen=True, slots=True)
class _Kept:
    """A file of another branch that keeps files.

    Parameters
    ----------
    is_whole : bool
        Whether its whole state counts, and not only what it added.
    is_changelog : bool
        Whether it is a changelog that outlived its snapshot, so that files of the state may be
        missing.
    """

    path: str
    snapshot: Snapshot
    is_whole: bool
    is_changelog: bool = False

    @property
    def key(self) -> tuple[str, str, bool]:
        """What tells it from others: names of lists are unique."""
        return self.path, self.snapshot.delta_manifest_list, self.is_whole


class OtherBranches:
    """The branches of a table beside the one of a context, and the files that they need."""

    def __init__(self, context: CommitContext) -> None:
        self._context = context
        self._kept: dict[tuple[str, str, bool], _Kept] = {}
        self._names: dict[tuple[str, bool, bool], pa.Array] = {}
        self._paths: dict[tuple[str, bool], frozenset[str]] = {}
        self.found_count = 0
        """Files that were found and not known before."""

    def look(self) -> None:
        """Read the snapshots, tags and changelogs of the other branches.

        Raises
        ------
        NotFoundError
            A listed file was removed before it was read: look again.
        CorruptError
            One is damaged.
        """
        for paths in self._others():
            for kept in self._line(paths):
                self.found_count += kept.key not in self._kept
                self._kept.setdefault(kept.key, kept)

    def unneeded(self, entries: EntryTable) -> EntryTable:
        """The entries whose data files no other branch needs.

        Raises
        ------
        NotFoundError, CorruptError
            It cannot be read what another branch needs.
        """
        for kept in tuple(self._kept.values()):
            if not entries.num_rows:
                break
            names = self._read(kept, self._names_of)
            if names is not None:
                is_needed = pc.is_in(entries["file_name"], value_set=names)
                entries = entries.take(~np.asarray(is_needed))
        return entries

    def paths(self) -> frozenset[str]:
        """Paths of all other files that they need: metadata, index files, changelog files."""
        found = [self._read(kept, self._paths_of) for kept in tuple(self._kept.values())]
        return frozenset[str]().union(*(paths for paths in found if paths is not None))

    def preload(self) -> None:
        """Read all that decides, before anything is removed."""
        for kept in tuple(self._kept.values()):
            self._read(kept, self._names_of)
            self._read(kept, self._paths_of)

    def _others(self) -> Iterator[TablePaths]:
        own = self._context.paths
        if not own.is_main:
            yield own.of_branch(MAIN_BRANCH)
        for status in sorted(self._context.fileio.list_dir(own.branch_dir), key=lambda s: s.name):
            name = status.name.removeprefix(BRANCH_PREFIX)
            if status.is_dir and name != status.name and name != own.branch:
                yield own.of_branch(name)

    def _line(self, paths: TablePaths) -> Iterator[_Kept]:
        """Everything of one branch that keeps files."""
        files = self._context.fileio
        for status in files.list_dir(paths.tag_dir):
            name = status.name.removeprefix(TAG_PREFIX)
            if name != status.name and not status.is_dir:
                path = f"{paths.tag_dir}/{status.name}"
                tag = Tag.from_json(files.read_bytes(path), name=name, path=path)
                yield _Kept(path, tag.snapshot, is_whole=True)
        before: Snapshot | None = None
        for path, snapshot in self._numbered(paths.snapshot_dir, "snapshot-"):
            is_next = before is not None and before.id + 1 == snapshot.id
            is_whole = before is None or not (is_next and follows(snapshot, before))
            yield _Kept(path, snapshot, is_whole)
            before = snapshot
        for path, changelog in self._numbered(paths.changelog_dir, "changelog-"):
            yield _Kept(path, changelog, is_whole=False, is_changelog=True)

    def _numbered(self, directory: str, prefix: str) -> list[tuple[str, Snapshot]]:
        files = self._context.fileio
        listed = (numbered(status.name, prefix) for status in files.list_dir(directory))
        paths = [f"{directory}/{prefix}{i}" for i in sorted(i for i in listed if i is not None)]
        reads = [partial(files.read_bytes, path) for path in paths]
        if not reads:
            return []
        contents = at_once(files, self._context.manifests.reads, reads)
        return [
            (path, Snapshot.from_json(data, path=path))
            for path, data in zip(paths, contents, strict=True)
        ]

    def _read(self, kept: _Kept, read: Callable[[_Kept], Read]) -> Read | None:
        """What one needs; None, and forgotten, if its own file is gone."""
        try:
            return read(kept)
        except NotFoundError as error:
            if not self._context.fileio.exists(kept.path):
                self._kept.pop(kept.key, None)
                return None
            message = (
                f"{kept.path} of another branch of table '{self._context.table}' names a file that"
                f" is missing ({error}), so it is not known which files the branch needs, and"
                " nothing expires. Restore the file from a backup, or delete the branch."
            )
            raise NotFoundError(message, kind="branch_unreadable", path=kept.path) from error

    def _names_of(self, kept: _Kept) -> pa.Array:
        """Names of the data files that one needs."""
        key = (kept.snapshot.delta_manifest_list, kept.is_whole, kept.is_changelog)
        if key not in self._names:
            context = self._context
            read = live_entries if kept.is_whole else delta_entries
            try:
                found = read(context.fileio, context.paths, kept.snapshot, context.manifests)
            except NotFoundError:
                if not kept.is_changelog:
                    raise
                found = EntryTable.of(())  # its changelog files are kept, and not its manifests
            self._names[key] = found["file_name"]
        return self._names[key]

    def _paths_of(self, kept: _Kept) -> frozenset[str]:
        """Paths of the other files that one needs."""
        key = (kept.snapshot.delta_manifest_list, kept.is_changelog)
        if key not in self._paths:
            context, snapshot = self._context, kept.snapshot
            named = set(metadata_files(context, snapshot, may_be_missing=kept.is_changelog))
            with contextlib.suppress(NotFoundError):  # a tag does not keep its changelog
                named.update(changelog_files(context, snapshot))
            self._paths[key] = frozenset(named)
        return self._paths[key]
