"""Goes back to an older snapshot and removes what came after it, as Paimon does.

1. A temporary tag protects the target from a concurrent expiry.
2. Changelogs that outlived later snapshots are removed. If the target has expired and lives only in
   a tag, its file is restored.
3. The hint LATEST is moved back, so that it never names a removed snapshot.
4. Tags of later snapshots are removed, then the later snapshots, the newest first. If the process
   dies at any moment, the table is at one of its snapshots, and the next rollback continues.
5. The hints are written once more: a slow writer may have set LATEST to a removed snapshot, and a
   slow expiry EARLIEST. If the target expired meanwhile, its file is restored, unless another
   rollback went further back. The temporary tag is removed.

All steps run in the snapshot directory that existed before the table was found to be the opened
one. So nothing is removed from a table that is dropped and recreated meanwhile. In an object store
a directory is only a path: there the table is checked again after each listing whose names are
removed, and right before and after the target's file is restored, which goes again if the table is
another.

Data files and manifests of removed snapshots stay as orphans. Schemas stay too: the table keeps its
columns. Consumers stay.

A commit that is published meanwhile is rolled back too. Right before and right after it publishes,
a writer checks that its base snapshot exists. If it does not, the writer removes its own snapshot
and builds on the newest one.

Source: Paimon's ``RollbackHelper`` (1.3.1), which removes tags last. If the target lives only in a
tag, its table has no snapshot at all for a moment.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tidelake.commit.tags import tell_deleted
from tidelake.errors import (
    ConflictError,
    InvalidInputError,
    NotFoundError,
    OutcomeUnknownError,
    StorageError,
    StorageRefusedError,
    UnsupportedError,
)
from tidelake.fileio import OpenDirectory
from tidelake.metadata.log.chain import marked
from tidelake.metadata.log.schema_log import dropped
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.log.tag import ROLLBACK_PREFIX
from tidelake.metadata.paths import numbered
from tidelake.table.handle.handle import TableHandle
from tidelake.table.handle.managed_table import ManagedTable

_LOG = logging.getLogger("tidelake")
ROUNDS_MAX = 100
"""Commits that may intervene before the rollback gives up."""


@dataclass(frozen=True, slots=True)
class RollbackResult:
    """The result of a rollback.

    Parameters
    ----------
    previous_snapshot_id : int
        The newest snapshot before.
    snapshot_id : int
        The newest snapshot now.
    removed_snapshot_ids : tuple of int
        Removed snapshots, ascending.
    removed_tags : tuple of str
        Removed tags, sorted.
    """

    previous_snapshot_id: int
    snapshot_id: int
    removed_snapshot_ids: tuple[int, ...] = ()
    removed_tags: tuple[str, ...] = ()


def roll_back(handle: TableHandle, target: Snapshot, *, dry_run: bool = False) -> RollbackResult:
    """Make a snapshot the newest.

    Parameters
    ----------
    dry_run : bool
        Whether to report only what would be removed.

    Raises
    ------
    InvalidInputError
        The target is not in the table's history: it lies after the newest snapshot, or another
        snapshot has its id.
    ConflictError
        Others commit faster than their snapshots are removed, or another rollback went further
        back.
    NotFoundError
        The table was dropped, and perhaps recreated; or the target has expired.
    StorageError
        The storage failed, and nothing was changed.
    OutcomeUnknownError
        The storage failed midway: the newest snapshot is the target or a later one. Call it again.
    """
    try:
        place = handle.snapshots.open_dir()
    except NotFoundError as error:
        raise dropped(handle.identifier) from error
    with place:
        handle.schemas.check_same(handle.schema, table=handle.identifier)
        return _roll_back(handle, place, target, dry_run=dry_run)


def _roll_back(
    handle: TableHandle, place: OpenDirectory, target: Snapshot, *, dry_run: bool
) -> RollbackResult:
    log, fileio, paths = handle.snapshots, handle.fileio, handle.paths
    latest_id = log.latest_id()
    if latest_id is None or target.id > latest_id:
        newest = "it has none" if latest_id is None else f"its newest is {latest_id}"
        message = (
            f"Table '{handle.identifier}' cannot go back to snapshot {target.id}: {newest}. A tag"
            " that names it belongs to a history that was rolled back; delete the tag."
        )
        raise InvalidInputError(message, kind="rollback_target", table=handle.identifier)
    if handle.incarnation is not None and not handle.incarnation.has(target):
        message = (
            f"Table '{handle.identifier}' cannot go back to the tag's snapshot {target.id}, which a"
            " dropped table of that name had. Delete the tag."
        )
        raise InvalidInputError(message, kind="rollback_target", table=handle.identifier)
    is_there = fileio.exists(paths.snapshot(target.id), within=place)
    if is_there and not _is_same(log.load(target.id), target):
        message = (
            f"Table '{handle.identifier}' cannot go back to the tag's snapshot {target.id}: after a"
            " rollback another snapshot has that id. Delete the tag, or roll back to"
            f" snapshot_id={target.id}."
        )
        raise InvalidInputError(message, kind="rollback_target", table=handle.identifier)
    tags = tuple(n for n in handle.tags.names() if handle.tags.load(n).snapshot.id > target.id)
    if dry_run:
        later = tuple(later_ids(handle, target.id, latest_id))
        return RollbackResult(latest_id, target.id, later, tags)
    if handle.served is not None:
        return _roll_back_by_server(handle, handle.served, target, latest_id=latest_id, tags=tags)
    try:
        with fileio.open_dir(paths.tag_dir, make=True) as tag_place:
            handle.schemas.check_same(handle.schema, table=handle.identifier)
            pin = f"{ROLLBACK_PREFIX}{handle.env.ids.uuid()}"
            step = _Step(handle, place, tag_place, target, pin)
            removed = step.remove_later(tags, is_there=is_there, latest_id=latest_id)
    except StorageError as error:
        message = (
            f"The storage failed while table '{handle.identifier}' was rolled back to snapshot"
            f" {target.id} ({error}). Its newest snapshot is now one from {target.id} to"
            f" {latest_id}: roll back again."
        )
        raise OutcomeUnknownError(
            message, kind="rollback_unknown", table=handle.identifier
        ) from error
    return RollbackResult(latest_id, target.id, removed, tags)


def _roll_back_by_server(
    handle: TableHandle,
    served: ManagedTable,
    target: Snapshot,
    *,
    latest_id: int,
    tags: tuple[str, ...],
) -> RollbackResult:
    """Let the catalog's server do it, and find out about a lost answer."""
    later = tuple(later_ids(handle, target.id, latest_id))
    if handle.snapshots.find(target.id) is None:
        message = (
            f"Table '{handle.identifier}' cannot go back to snapshot {target.id}, which has"
            " expired: its catalog's server goes back only to snapshots that are there."
        )
        raise UnsupportedError(message, kind="rollback_target", table=handle.identifier)
    try:
        served.roll_back(target.id)
    except StorageRefusedError:
        raise
    except StorageError as error:
        newest = served.snapshot_commit.latest()
        if newest is None or not _is_same(newest, target):
            message = (
                f"It is unknown whether table '{handle.identifier}' was rolled back to snapshot"
                f" {target.id} ({error}): look at its newest snapshot, and roll back again."
            )
            raise OutcomeUnknownError(
                message, kind="rollback_unknown", table=handle.identifier
            ) from error
    return RollbackResult(latest_id, target.id, later, tags)


@dataclass(slots=True)
class _Step:
    """Removes what came after the target.

    Parameters
    ----------
    target : Snapshot
        The newest snapshot afterwards.
    """

    handle: TableHandle
    place: OpenDirectory
    tag_place: OpenDirectory
    target: Snapshot
    pin: str

    def remove_later(
        self, tags: Sequence[str], *, is_there: bool, latest_id: int
    ) -> tuple[int, ...]:
        """Make the target the newest snapshot; returns the ids of the removed ones."""
        handle, place, target = self.handle, self.place, self.target
        fileio, paths = handle.fileio, handle.paths
        handle.tags.create(self.pin, target, within=self.tag_place)
        if is_there and not fileio.exists(paths.snapshot(target.id), within=place):
            self._delete_tag(self.pin)
            message = (
                f"Snapshot {target.id} of table '{handle.identifier}' expired while the table was"
                " rolled back to it; nothing was changed. Roll back to a newer one, or to a tag."
            )
            raise NotFoundError(message, kind="snapshot_not_found", table=handle.identifier)
        remove_changelogs(handle, target.id)
        if not is_there:
            self._restore()
        next_path = paths.snapshot(target.id + 1)
        has_gap = latest_id > target.id and not fileio.exists(next_path, within=place)
        self._check_path()
        self._step_back(has_gap=has_gap)
        for name in tags:
            self._delete_tag(name)
        removed = self._remove_snapshots(latest_id, has_gap=has_gap)
        self._put_back()
        handle.snapshots.write_hints(target.id, within=place)
        handle.snapshots.mend_earliest(within=place)
        later = [name for name in handle.tags.names() if self._is_later(name)]
        self._check_path()
        for name in later:  # tags made meanwhile, or our own
            self._delete_tag(name)
        self._delete_tag(self.pin)
        return tuple(sorted(removed))

    def _is_later(self, tag: str) -> bool:
        if tag.startswith(ROLLBACK_PREFIX):
            return True
        try:
            return self.handle.tags.load(tag).snapshot.id > self.target.id
        except NotFoundError:
            return False  # a listing may be old

    def _restore(self) -> bool:
        """Create the target's file; False if there is one of its id.

        Raises
        ------
        NotFoundError
            The table is another one, and the file is not in it.
        """
        handle, place, target = self.handle, self.place, self.target
        self._check_path()
        if not handle.fileio.holds_directories:
            target = self.target = marked(target, handle.env.ids.uuid())
        if not handle.snapshots.put_back(target, within=place):
            return False
        try:
            self._check_path()
        except NotFoundError:
            path, ours = handle.paths.snapshot(target.id), target.to_json().encode()
            handle.fileio.delete(path, within=place, reused=True, expected=ours)
            raise
        return True

    def _put_back(self) -> None:
        """Restore the target's file if it expired meanwhile.

        An expiry leaves no older snapshot. If there is one, another rollback went further back.
        """
        handle, place, target = self.handle, self.place, self.target
        path, log = handle.paths.snapshot(target.id), handle.snapshots
        if handle.fileio.exists(path, within=place):
            return
        is_overtaken = self._has_older()
        if not is_overtaken and self._restore():
            is_overtaken = self._has_older()
            if is_overtaken:
                ours = self.target.to_json().encode()
                handle.fileio.delete(path, within=place, reused=True, expected=ours)
        if is_overtaken:
            log.write_hints(log.latest_id() or target.id, within=place)
            message = (
                f"Another rollback took table '{handle.identifier}' to before snapshot"
                f" {target.id}, the target of this one: look at its newest snapshot."
            )
            raise ConflictError(message, kind="rollback_race", table=handle.identifier)

    def _has_older(self) -> bool:
        ids = _numbers(self.handle, self.handle.paths.snapshot_dir, "snapshot-")
        return any(i < self.target.id for i in ids)

    def _remove_snapshots(self, latest_id: int, *, has_gap: bool) -> set[int]:
        handle, target_id = self.handle, self.target.id
        removed: set[int] = set()
        for _ in range(ROUNDS_MAX):
            later = tuple(later_ids(handle, target_id, latest_id))
            if not later:
                return removed
            self._check_path()
            if removed:  # another commit moved the hint
                self._step_back(has_gap=has_gap)
            for snapshot_id in reversed(later):
                if snapshot_id == target_id + 1:
                    self._mark_target()
                path = handle.paths.snapshot(snapshot_id)
                if not handle.fileio.delete(path, within=self.place, reused=True):
                    self._check_same()
            removed.update(later)
        message = (
            f"Others commit to table '{handle.identifier}' faster than a rollback removes their"
            " snapshots: stop them and roll back again."
        )
        raise ConflictError(message, kind="rollback_race", table=handle.identifier)

    def _mark_target(self) -> None:
        """In a store, mark the target while the next id is taken, so that nobody builds on it.

        A request that comes late may put back what is removed; it does not follow the marked
        target.
        """
        handle, fileio = self.handle, self.handle.fileio
        if fileio.holds_directories:
            return
        path = handle.paths.snapshot(self.target.id)
        try:
            data = fileio.read_bytes(path)
            found = Snapshot.from_json(data, path=path)
        except NotFoundError:
            return  # it expired meanwhile, and is put back with a mark
        if not _is_same(found, self.target):
            return
        made = marked(found, handle.env.ids.uuid())
        try:
            is_done = fileio.put_if_absent(
                path, made.to_json().encode(), within=self.place, over=data
            )
        except StorageRefusedError as error:
            _LOG.warning(
                "Table %s: the storage does not exchange a file on a condition (%s), so a request"
                " that comes late may bring back what this rollback removes.",
                handle.identifier,
                error,
            )
            return
        if is_done:
            self.target = made

    def _delete_tag(self, name: str) -> None:
        self.handle.fileio.delete(self.handle.paths.tag(name), within=self.tag_place, reused=True)
        tell_deleted(self.handle, name)

    def _check_same(self) -> None:
        """Go on only in the table that was opened: a listing may already show another one."""
        try:
            self.handle.schemas.check_same(self.handle.schema, table=self.handle.identifier)
        except NotFoundError:
            if not self.handle.fileio.holds_directories:
                self._delete_tag(self.pin)  # it may have come into the other table
            raise

    def _check_path(self) -> None:
        """Where a directory is only a path, go on only in the table that was opened."""
        if not self.handle.fileio.holds_directories:
            self._check_same()

    def _step_back(self, *, has_gap: bool) -> None:
        """Move LATEST off the snapshots that will be removed."""
        hint, fileio = self.handle.paths.latest_hint, self.handle.fileio
        if has_gap:  # ids behind the target are missing: a hint on it would hide the later ones
            fileio.delete(hint, within=self.place)
            return
        with contextlib.suppress(NotFoundError):  # readers walk on from there to the newest
            fileio.replace(hint, str(self.target.id).encode(), within=self.place)


def later_ids(handle: TableHandle, target_id: int, latest_id: int) -> Iterator[int]:
    """Ids of the snapshots after one, ascending, with or without gaps.

    Parameters
    ----------
    latest_id : int
        The newest that is known, should a listing be old.
    """

    def is_there(snapshot_id: int) -> bool:
        return handle.fileio.exists(handle.paths.snapshot(snapshot_id))

    found = set(_numbers(handle, handle.paths.snapshot_dir, "snapshot-"))
    # the listing may be old: the neighbours of known ids are looked up by name
    before = latest_id
    while before > target_id and (before in found or is_there(before)):
        found.add(before)
        before -= 1
    after = max(target_id, latest_id, *found) + 1
    while is_there(after):
        found.add(after)
        after += 1
    after = target_id + 1
    while after in found or is_there(after):
        found.add(after)
        after += 1
    yield from sorted(i for i in found if i > target_id)


def _numbers(handle: TableHandle, directory: str, prefix: str) -> Iterator[int]:
    for status in handle.fileio.list_dir(directory):
        number = numbered(status.name, prefix)
        if number is not None:
            yield number


def remove_changelogs(handle: TableHandle, target_id: int) -> None:
    """Remove changelogs of later snapshots that expired before and were not listed above."""
    directory = handle.paths.changelog_dir
    ids = sorted(_numbers(handle, directory, "changelog-"))
    later = [i for i in ids if i > target_id]
    if not later:
        return
    newest = max((i for i in ids if i <= target_id), default=-1)
    with handle.fileio.open_dir(directory) as place:
        handle.schemas.check_same(handle.schema, table=handle.identifier)
        handle.fileio.replace(f"{directory}/LATEST", str(newest).encode(), within=place)
        for changelog_id in reversed(later):
            handle.fileio.delete(f"{directory}/changelog-{changelog_id}", within=place)


def _is_same(found: Snapshot, target: Snapshot) -> bool:
    return _marks(found) == _marks(target)


def _marks(snapshot: Snapshot) -> tuple[object, ...]:
    return (
        snapshot.commit_user,
        snapshot.commit_identifier,
        snapshot.commit_kind,
        snapshot.base_manifest_list,
        snapshot.delta_manifest_list,
        snapshot.time_ms,
    )
