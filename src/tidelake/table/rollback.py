"""Goes back to an older snapshot: what came after it is gone, as in Paimon.

1. A tag of its own holds the target, against an expiry that runs meanwhile.
2. Changelogs of later snapshots go, that outlived these. A snapshot that has expired and lives in a
   tag gets its file back.
3. The hint LATEST is moved back, so that it never names what is gone.
4. Tags of later snapshots go, then the later snapshots, the newest first: whatever moment the
   process dies at, the table is that of one of its snapshots, and the next rollback goes on.
5. The target gets its file back if it expired meanwhile; its own tag goes.

Data files and manifests of what is gone stay where they are and nothing refers to them any more:
they are orphans. Schemas stay too: the table keeps its columns. Consumers stay.

A commit that is published while this goes on is taken back like those before it. A writer sees,
right before it publishes, that the snapshot it builds on is gone, and builds on the one that is the
newest then. Between that look and its publishing there is a moment: a snapshot that comes into
being in it stands on what was taken back, and its rows and theirs are all there again; ``rollback``
once more removes it. Stop the writers where that must not be.

Source: Paimon's ``RollbackHelper`` (1.3.1), which removes tags last and has the table without any
snapshot for a moment where the one to go back to lives in a tag alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tidelake.errors import (
    ConflictError,
    InvalidInputError,
    NotFoundError,
    OutcomeUnknownError,
    StorageError,
)
from tidelake.metadata.snapshot import Snapshot, numbered
from tidelake.table.handle import TableHandle

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
        Others commit faster than their snapshots are removed.
    StorageError
        The storage failed, and nothing was changed.
    OutcomeUnknownError
        The storage failed on the way: the newest snapshot is any from the target on. Call it again.
    """
    handle.schemas.check_same(handle.schema, table=handle.identifier)
    log, fileio, paths = handle.snapshots, handle.fileio, handle.paths
    latest_id = log.latest_id()
    if latest_id is None or target.id > latest_id:
        newest = "it has none" if latest_id is None else f"its newest is {latest_id}"
        message = (
            f"Table '{handle.identifier}' cannot go back to snapshot {target.id}: {newest}. A tag"
            " that names it is of a history that was rolled back; delete it."
        )
        raise InvalidInputError(message, kind="rollback_target", table=handle.identifier)
    is_there = fileio.exists(paths.snapshot(target.id))
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
        removed = _remove_later(handle, target, tags, is_there=is_there, latest_id=latest_id)
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


def _remove_later(
    handle: TableHandle,
    target: Snapshot,
    tags: Sequence[str],
    *,
    is_there: bool,
    latest_id: int,
) -> tuple[int, ...]:
    """Make the target the newest; ids of the snapshots that went."""
    fileio, paths = handle.fileio, handle.paths
    pin = f"{PIN_PREFIX}{handle.env.ids.uuid()}"
    handle.tags.create(pin, target)
    if is_there and not fileio.exists(paths.snapshot(target.id)):
        fileio.delete(paths.tag(pin))
        message = (
            f"Snapshot {target.id} of table '{handle.identifier}' expired while it was to be the"
            " newest again; nothing was changed. Roll back to a newer one, or to a tag."
        )
        raise NotFoundError(message, kind="snapshot_not_found", table=handle.identifier)
    _remove_changelogs(handle, target.id)
    if not is_there:
        fileio.put_if_absent(paths.snapshot(target.id), target.to_json().encode())
    has_gap = latest_id > target.id and not fileio.exists(paths.snapshot(target.id + 1))
    _step_back(handle, target.id, has_gap=has_gap)
    for name in tags:
        fileio.delete(paths.tag(name))
    removed: set[int] = set()
    for _ in range(ROUNDS_MAX):
        later = tuple(_later(handle, target.id, latest_id))
        if not later:
            break
        if removed:  # somebody committed, and moved the hint
            _step_back(handle, target.id, has_gap=has_gap)
        for snapshot_id in reversed(later):
            fileio.delete(paths.snapshot(snapshot_id))
        removed.update(later)
    else:
        message = (
            f"Others commit to table '{handle.identifier}' faster than a rollback removes their"
            " snapshots: stop them and roll back again."
        )
        raise ConflictError(message, kind="rollback_race", table=handle.identifier)
    if has_gap:
        earliest_id = handle.snapshots.earliest_id() or target.id
        fileio.replace(paths.latest_hint, str(target.id).encode())
        fileio.replace(paths.earliest_hint, str(earliest_id).encode())
    fileio.put_if_absent(paths.snapshot(target.id), target.to_json().encode())
    for name in handle.tags.names():
        try:
            is_later = handle.tags.load(name).snapshot.id > target.id
        except NotFoundError:
            continue  # a listing may be old
        if is_later or name.startswith(PIN_PREFIX):  # made meanwhile of what is gone; or own
            fileio.delete(paths.tag(name))
    fileio.delete(paths.tag(pin))
    return tuple(sorted(removed))


def _step_back(handle: TableHandle, target_id: int, *, has_gap: bool) -> None:
    """Let LATEST name nothing that is going to be removed."""
    hint = handle.paths.latest_hint
    if has_gap:  # ids behind the target are missing: a hint that names it hides those after them
        handle.fileio.delete(hint)
    else:  # from there readers walk on to the newest
        handle.fileio.replace(hint, str(target_id).encode())


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
    handle.fileio.replace(f"{directory}/LATEST", str(newest).encode())
    for changelog_id in reversed(later):
        handle.fileio.delete(f"{directory}/changelog-{changelog_id}")


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
