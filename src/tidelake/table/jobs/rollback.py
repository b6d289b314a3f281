"""Goes back to an older snapshot: what came after it is gone, as in Paimon.

1. A tag of its own holds the target, against an expiry that runs meanwhile.
2. Changelogs of later snapshots go, that outlived these. A snapshot that has expired and lives in a
   tag gets its file back.
3. The hint LATEST is moved back, so that it does not name what is gone.
4. Tags of later snapshots go, then the later snapshots, the newest first: whatever moment the
   process dies at, the table is that of one of its snapshots, and the next rollback goes on.
5. The hints are written once more: a slow writer may have let LATEST name what went, and a slow
   expiry EARLIEST. The target gets its file back if it expired meanwhile, and not if another
   rollback went further back; its own tag goes.

All of this happens in the directory of the snapshots that was there before the table was seen to be
the one that was opened: of a table that is dropped and created anew meanwhile nothing is removed.

Data files and manifests of what is gone stay where they are and nothing refers to them any more:
they are orphans. Schemas stay too: the table keeps its columns. Consumers stay.

A commit that is published while this goes on is taken back like those before it. A writer sees,
right before it publishes and once more right after it, that the snapshot it builds on is gone: it
takes its own one out and builds on the one that is the newest then.

Source: Paimon's ``RollbackHelper`` (1.3.1), which removes tags last and has the table without any
snapshot for a moment where the one to go back to lives in a tag alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tidelake.errors import (
    ConflictError,
    InvalidInputError,
    NotFoundError,
    OutcomeUnknownError,
    StorageError,
)
from tidelake.fileio import OpenDirectory
from tidelake.metadata.log.schema_log import dropped
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.paths import numbered
from tidelake.table.handle.handle import TableHandle

__all__ = ["RollbackResult", "roll_back"]

PIN_PREFIX = "tidelake-rollback-"
"""Begins the name of the tag that holds the target; one that a killed rollback left goes with the
next rollback."""

ROUNDS_MAX = 100
"""Commits that may come in between, before the rollback gives up."""


@dataclass(frozen=True, slots=True)
class RollbackResult:
    """What a rollback did.

    Parameters
    ----------
    previous_snapshot_id : int
        The newest snapshot before.
    snapshot_id : int
        The newest snapshot now.
    removed_snapshot_ids : tuple of int
        Snapshots that are gone, ascending.
    removed_tags : tuple of str
        Tags that are gone, sorted.
    """

    previous_snapshot_id: int
    snapshot_id: int
    removed_snapshot_ids: tuple[int, ...] = ()
    removed_tags: tuple[str, ...] = ()


def roll_back(handle: TableHandle, target: Snapshot, *, dry_run: bool = False) -> RollbackResult:
    """Make a snapshot the newest.

    Parameters
    ----------
    handle : TableHandle
        The table.
    target : Snapshot
        One of its snapshots, or what a tag of it holds.
    dry_run : bool
        Whether to say only what would go.

    Raises
    ------
    InvalidInputError
        The target is not of the table's history: it lies after the newest snapshot, or another
        snapshot has its id.
    ConflictError
        Others commit faster than their snapshots are removed, or another rollback went further
        back.
    NotFoundError
        The table was dropped, and perhaps created anew; or the target has expired.
    StorageError
        The storage failed, and nothing was changed.
    OutcomeUnknownError
        The storage failed on the way: the newest snapshot is any from the target on. Call it again.
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
            " that names it is of a history that was rolled back; delete it."
        )
        raise InvalidInputError(message, kind="rollback_target", table=handle.identifier)
    is_there = fileio.exists(paths.snapshot(target.id), within=place)
    if is_there and not _is_same(log.load(target.id), target):
        message = (
            f"Table '{handle.identifier}' cannot go back to what the tag holds: its snapshot"
            f" {target.id} is another one since a rollback. Delete the tag, or roll back to"
            f" snapshot_id={target.id}."
        )
        raise InvalidInputError(message, kind="rollback_target", table=handle.identifier)
    tags = tuple(n for n in handle.tags.names() if handle.tags.load(n).snapshot.id > target.id)
    if dry_run:
        later = tuple(_later(handle, target.id, latest_id))
        return RollbackResult(latest_id, target.id, later, tags)
    try:
        with fileio.open_dir(paths.tag_dir, make=True) as tag_place:
            handle.schemas.check_same(handle.schema, table=handle.identifier)
            step = _Step(handle, place, tag_place, target)
            removed = step.remove_later(tags, is_there=is_there, latest_id=latest_id)
    except StorageError as error:
        message = (
            f"The storage failed while table '{handle.identifier}' was rolled back to snapshot"
            f" {target.id} ({error}). It is that of a snapshot from {target.id} to {latest_id} now:"
            " roll back again."
        )
        raise OutcomeUnknownError(
            message, kind="rollback_unknown", table=handle.identifier
        ) from error
    return RollbackResult(latest_id, target.id, removed, tags)


@dataclass(frozen=True, slots=True)
class _Step:
    """Removes what came after the target.

    Parameters
    ----------
    handle : TableHandle
        The table.
    place, tag_place : OpenDirectory
        The directories of its snapshots and tags.
    target : Snapshot
        The newest snapshot afterwards.
    """

    handle: TableHandle
    place: OpenDirectory
    tag_place: OpenDirectory
    target: Snapshot

    def remove_later(
        self, tags: Sequence[str], *, is_there: bool, latest_id: int
    ) -> tuple[int, ...]:
        """Make the target the newest; ids of the snapshots that went."""
        handle, place, target = self.handle, self.place, self.target
        fileio, paths = handle.fileio, handle.paths
        pin = f"{PIN_PREFIX}{handle.env.ids.uuid()}"
        handle.tags.create(pin, target, within=self.tag_place)
        if is_there and not fileio.exists(paths.snapshot(target.id), within=place):
            self._delete_tag(pin)
            message = (
                f"Snapshot {target.id} of table '{handle.identifier}' expired while it was to be"
                " the newest again; nothing was changed. Roll back to a newer one, or to a tag."
            )
            raise NotFoundError(message, kind="snapshot_not_found", table=handle.identifier)
        _remove_changelogs(handle, target.id)
        if not is_there:
            handle.snapshots.put(target, within=place)
        next_path = paths.snapshot(target.id + 1)
        has_gap = latest_id > target.id and not fileio.exists(next_path, within=place)
        self._step_back(has_gap=has_gap)
        for name in tags:
            self._delete_tag(name)
        removed = self._remove_snapshots(latest_id, has_gap=has_gap)
        self._put_back()
        handle.snapshots.write_hints(target.id, within=place)
        handle.snapshots.mend_earliest(within=place)
        for name in handle.tags.names():
            try:
                is_later = handle.tags.load(name).snapshot.id > target.id
            except NotFoundError:
                continue  # a listing may be old
            if is_later or name.startswith(PIN_PREFIX):  # made meanwhile of what is gone; or own
                self._delete_tag(name)
        self._delete_tag(pin)
        return tuple(sorted(removed))

    def _put_back(self) -> None:
        """Give the target its file back if it expired meanwhile.

        An expiry leaves no older one. Where there is one, others rolled further back: that stays.
        """
        handle, place, target = self.handle, self.place, self.target
        path, log = handle.paths.snapshot(target.id), handle.snapshots
        if handle.fileio.exists(path, within=place):
            return
        is_overtaken = self._has_older()
        if not is_overtaken and log.put(target, within=place):
            is_overtaken = self._has_older()
            if is_overtaken:
                handle.fileio.delete(path, within=place)
        if is_overtaken:
            log.write_hints(log.latest_id() or target.id, within=place)
            message = (
                f"Table '{handle.identifier}' was rolled back by another to before snapshot"
                f" {target.id}, which it was to go back to: look at its newest snapshot."
            )
            raise ConflictError(message, kind="rollback_race", table=handle.identifier)

    def _has_older(self) -> bool:
        ids = _numbers(self.handle, self.handle.paths.snapshot_dir, "snapshot-")
        return any(i < self.target.id for i in ids)

    def _remove_snapshots(self, latest_id: int, *, has_gap: bool) -> set[int]:
        handle, target_id = self.handle, self.target.id
        removed: set[int] = set()
        for _ in range(ROUNDS_MAX):
            later = tuple(_later(handle, target_id, latest_id))
            if not later:
                return removed
            if removed:  # somebody committed, and moved the hint
                self._step_back(has_gap=has_gap)
            for snapshot_id in reversed(later):
                path = handle.paths.snapshot(snapshot_id)
                if not handle.fileio.delete(path, within=self.place):
                    self._check_same()
            removed.update(later)
        message = (
            f"Others commit to table '{handle.identifier}' faster than a rollback removes their"
            " snapshots: stop them and roll back again."
        )
        raise ConflictError(message, kind="rollback_race", table=handle.identifier)

    def _delete_tag(self, name: str) -> None:
        self.handle.fileio.delete(self.handle.paths.tag(name), within=self.tag_place)

    def _check_same(self) -> None:
        """Go on only in the table that was opened: what is listed may be another one's by now."""
        self.handle.schemas.check_same(self.handle.schema, table=self.handle.identifier)

    def _step_back(self, *, has_gap: bool) -> None:
        """Let LATEST name nothing that is going to be removed."""
        hint, fileio = self.handle.paths.latest_hint, self.handle.fileio
        if has_gap:  # ids behind the target are missing: a hint that names it hides those after
            fileio.delete(hint, within=self.place)
            return
        with contextlib.suppress(NotFoundError):  # readers walk on from there to the newest
            fileio.replace(hint, str(self.target.id).encode(), within=self.place)


def _later(handle: TableHandle, target_id: int, latest_id: int) -> Iterator[int]:
    """Ids of the snapshots after one, ascending, with or without gaps."""

    def is_there(snapshot_id: int) -> bool:
        return handle.fileio.exists(handle.paths.snapshot(snapshot_id))

    found = set(_numbers(handle, handle.paths.snapshot_dir, "snapshot-"))
    # the listing may be old: those next to what is known are looked for by name
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


def _remove_changelogs(handle: TableHandle, target_id: int) -> None:
    """Remove changelogs of later snapshots: these expired before, and were not listed above."""
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
