"""The histories of a table: snapshots, long-lived changelogs and tags, its own and each branch's.

In this order they are listed, and branches last, because a snapshot becomes a changelog or a tag,
and a tag a branch: what goes from one to the other is met at one of them. The table is looked at
until nothing is new, and what was met once counts to the end.

A listing may be empty or old. So snapshots that the hints name, and those between them, are tried
by name, and at least two looks are taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from tidelake.commit.context import CommitContext
from tidelake.errors import CorruptError, NotFoundError, StorageError
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.log.snapshot_log import SnapshotLog
from tidelake.metadata.log.tag import Tag
from tidelake.metadata.paths import BRANCH_PREFIX, MAIN_BRANCH, TablePaths, numbered

LOOKS_MIN, LOOKS_MAX = 2, 10
"""Looks at the histories: two listings that are wrong alike are rare; ten see that they rest."""
SNAPSHOT, CHANGELOG, TAG = "snapshot-", "changelog-", "tag-"
MAIN = ""
"""The table's own history among those of branches."""
Stamp: TypeAlias = tuple[int, int]
"""Size and time of the last change of a file, by which one that was replaced is new."""
_NO_STAMP: Stamp = (-1, -1)


@dataclass(frozen=True, slots=True)
class HistoryFile:
    """A file that names others: of a snapshot, a long-lived changelog or a tag."""

    branch: str
    kind: str
    path: str
    snapshot: Snapshot

    @property
    def state_lists(self) -> tuple[tuple[str, int | None], ...]:
        """Names and sizes of the lists of its state."""
        snapshot = self.snapshot
        return (
            (snapshot.base_manifest_list, snapshot.base_manifest_list_size_bytes),
            (snapshot.delta_manifest_list, snapshot.delta_manifest_list_size_bytes),
        )


@dataclass(slots=True)
class Histories:
    """What was met of the histories of one table; it grows with each :meth:`refresh`.

    Parameters
    ----------
    sources : dict
        All that names files, by path and stamp.
    tags : set of str
        Tags, as ``<branch>/<tag>``; the table's own begin with ``/``.
    branches : set of str
        Names of the branches beside main.
    """

    context: CommitContext
    sources: dict[tuple[str, Stamp], HistoryFile] = field(default_factory=dict)
    tags: set[str] = field(default_factory=set)
    branches: set[str] = field(default_factory=set)

    def refresh(self) -> None:
        """Look at all histories, and read what is new in them.

        Raises
        ------
        NotFoundError, CorruptError
            A branch, snapshot, changelog or tag cannot be read.
        StorageError
            A listing failed, or the histories change faster than they are read.
        """
        for looks in range(1, LOOKS_MAX + 1):
            before = self._met
            is_whole = self._look()
            if is_whole and looks >= LOOKS_MIN and before == self._met:
                return
        message = (
            f"Snapshots, tags or branches of table '{self.context.table}' keep changing while they"
            " are read: try again. Nothing was removed."
        )
        raise StorageError(message, kind="tags_change", table=self.context.table)

    def vital_ids(self) -> set[tuple[str, int]]:
        """Snapshots of the histories, by branch and id; the others were set aside, or came late."""
        found: set[tuple[str, int]] = set()
        for branch in (MAIN, *self.branches):
            log = self.log(branch)
            oldest, newest = log.earliest_id(), log.latest_id()
            if oldest is not None and newest is not None:
                found |= {(branch, number) for number in range(oldest, newest + 1)}
        return found

    @property
    def _met(self) -> tuple[int, int, int]:
        return len(self.sources), len(self.branches), len(self.tags)

    def log(self, branch: str) -> SnapshotLog:
        """The snapshots of a history."""
        if branch == MAIN and self.context.paths.is_main:
            return self.context.log
        return SnapshotLog(self.context.fileio, self.paths(branch))

    def paths(self, branch: str) -> TablePaths:
        """The paths of a history, whichever branch the table was opened at."""
        return self.context.paths.of_branch(MAIN_BRANCH if branch == MAIN else branch)

    def _look(self) -> bool:
        """List all histories and read what is new; False if something went while it was read."""
        is_whole = self._look_at(MAIN)
        for status in self.context.fileio.list_dir(self.context.paths.branch_dir):
            if status.is_dir and status.name.startswith(BRANCH_PREFIX):
                branch = status.name.removeprefix(BRANCH_PREFIX)
                self._check_branch(branch, self.paths(branch))
                self.branches.add(branch)
                is_whole &= self._look_at(branch)
        return is_whole

    def _look_at(self, branch: str) -> bool:
        paths = self.paths(branch)
        is_whole = self._take(branch, SNAPSHOT, paths.snapshot_dir, self._snapshots(branch))
        changelogs = self._numbered(paths.changelog_dir, CHANGELOG)
        is_whole &= self._take(branch, CHANGELOG, paths.changelog_dir, changelogs)
        tags = {
            status.name: (status.size_bytes, status.modified_ms)
            for status in self.context.fileio.list_dir(paths.tag_dir)
            if status.name.startswith(TAG) and not status.is_dir
        }
        self.tags.update(f"{branch}/{name.removeprefix(TAG)}" for name in tags)
        return is_whole & self._take(branch, TAG, paths.tag_dir, tags)

    def _check_branch(self, branch: str, paths: TablePaths) -> None:
        """Refuse a branch without a schema: it is half made, half dropped, or not listed whole."""
        if not self.context.fileio.list_dir(paths.schema_dir):
            message = (
                f"Branch '{branch}' of table '{self.context.table}' has no schema in"
                f" {paths.schema_dir}: it is being made or deleted, that was interrupted, or it was"
                f" damaged. Try again; if it stays so, table.branches.delete('{branch}') ends it."
                " Nothing was removed."
            )
            raise NotFoundError(message, kind="branch_without_schema", branch=branch)

    def _numbered(self, directory: str, prefix: str) -> dict[str, Stamp]:
        """The numbered files of a directory."""
        return {
            status.name: (status.size_bytes, status.modified_ms)
            for status in self.context.fileio.list_dir(directory)
            if numbered(status.name, prefix) is not None
        }

    def _snapshots(self, branch: str) -> dict[str, Stamp]:
        """The snapshots that are listed, and those that the listing lacks."""
        log, paths = self.log(branch), self.paths(branch)
        listed = self._numbered(paths.snapshot_dir, SNAPSHOT)
        ids = {number for name in listed if (number := numbered(name, SNAPSHOT)) is not None}
        ends = {number for number in (log.earliest_id(), log.latest_id()) if number is not None}
        lacking = ends - ids
        if ends:
            between = set(range(min(ends), max(ends))) - ids
            fileio = self.context.fileio
            lacking |= {number for number in between if fileio.exists(paths.snapshot(number))}
        return listed | {f"{SNAPSHOT}{number}": _NO_STAMP for number in lacking}

    def _take(self, branch: str, kind: str, directory: str, found: Mapping[str, Stamp]) -> bool:
        """Read the files that are new; False if one was gone.

        A file that was replaced, as a tag or a snapshot after a rollback, is new by its stamp.
        """
        stamped = {(f"{directory}/{name}", stamp) for name, stamp in found.items()}
        new = sorted(stamped - self.sources.keys())
        fileio, is_whole = self.context.fileio, True

        def read(one: tuple[str, Stamp]) -> bytes | None:
            try:
                return fileio.read_bytes(one[0])
            except NotFoundError:
                return None

        read_all = self.context.env.reads.ranges.map if fileio.is_remote else map
        for key, data in zip(new, read_all(read, new), strict=True):
            if data is None:
                is_whole = False
                continue
            path = key[0]
            if kind == TAG:
                snapshot = Tag.from_json(data, name=path.rpartition("/")[2], path=path).snapshot
            else:
                snapshot = Snapshot.from_json(data, path=path)
            _check_keys(snapshot, path)
            self.sources[key] = HistoryFile(branch, kind, path, snapshot)
        return is_whole


def _check_keys(snapshot: Snapshot, path: str) -> None:
    """Refuse a snapshot that may name files in a way that this version does not know."""
    unknown = sorted(
        key
        for key, value in snapshot.extra.items()
        if isinstance(value, str) and key.lower().endswith(("list", "manifest", "file", "index"))
    )
    if unknown:
        message = (
            f"{path} has {', '.join(unknown)}, which this version does not know: it may name files,"
            " so it is not known which files the table needs, and nothing was removed. Upgrade"
            " tidelake."
        )
        raise CorruptError(message, kind="orphans_unknown", path=path)
