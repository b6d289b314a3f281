"""A copy of a table with its history: snapshots, changelogs and tags as they are.

All files keep their names and bytes, so the snapshots are the same in both tables, and each finds
its base (ADR 98) and its table (ADR 92): the schemas keep their times. The order of the puts:

1. The older schemas, so that every snapshot finds its own.
2. The newest snapshot. With it the table has its rows, at once.
3. The older ones, from the newest on, then tags, changelogs and hints.

Branches and consumers are not carried: a branch is a history of its own, and the readers of the
source do not read the copy.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from tidelake.commit.expiry import kept_for_changelogs
from tidelake.errors import ConflictError, NotFoundError
from tidelake.fileio import put_new
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.manifest.snapshot_entries import live_entries
from tidelake.metadata.paths import TablePaths
from tidelake.metadata.snapshot_files import changelog_files, state_files
from tidelake.table.cloning.file_copies import FileCopies
from tidelake.table.cloning.source import copies_of
from tidelake.table.handle.handle import TableHandle


@dataclass(frozen=True, slots=True)
class WholeHistory:
    """The metadata that makes files a table with its history.

    Parameters
    ----------
    puts : tuple of (str, bytes)
        Files in the order in which they appear; the newest snapshot is the first.
    hints : tuple of (str, bytes)
        Files that may be written over.
    """

    newest_id: int | None
    snapshots_count: int
    tags: tuple[str, ...]
    schema_ids: frozenset[int]
    puts: tuple[tuple[str, bytes], ...]
    hints: tuple[tuple[str, bytes], ...]

    def publish(self, handle: TableHandle) -> int | None:
        """Put the files; see :class:`tidelake.table.cloning.file_copies.FilesPublication`.

        Raises
        ------
        ConflictError
            Others have written to the table meanwhile.
        """
        done: list[str] = []
        try:
            with handle.guard():
                if handle.fileio.list_dir(handle.paths.snapshot_dir):
                    raise _others(handle, handle.paths.snapshot_dir)
                for path, data in self.puts:
                    if not put_new(handle.fileio, path, data):
                        raise _others(handle, path)
                    done.append(path)
                for path, data in self.hints:
                    handle.fileio.replace(path, data)
        except ConflictError:
            for path in done:  # the newest snapshot first: no other engine may take it for theirs
                handle.fileio.delete(path)
            raise
        return self.newest_id

    def is_own(self, newest: Snapshot) -> bool:
        """Whether it is the newest snapshot of this history."""
        return newest.id == self.newest_id and newest.state_key in self._state_keys

    def is_visible(self, handle: TableHandle) -> bool:
        """Whether a snapshot of this history is in the table."""
        log = handle.snapshots
        return any(log.load(number).state_key in self._state_keys for number in log.ids())

    @property
    def _state_keys(self) -> frozenset[object]:
        snapshots = self.puts[: self.snapshots_count]
        return frozenset(Snapshot.from_json(data, path=path).state_key for path, data in snapshots)


def _others(handle: TableHandle, path: str) -> ConflictError:
    message = (
        f"Others have written to table '{handle.identifier}' while it was copied:"
        f" {handle.fileio.uri_of(path)} is theirs."
    )
    return ConflictError(message, kind="not_empty", table=handle.identifier)


def oldest_of(handle: TableHandle) -> Snapshot | None:
    """The oldest snapshot, which is to be held."""
    earliest_id = handle.snapshots.earliest_id()
    return None if earliest_id is None else handle.snapshots.load(earliest_id)


def copies_of_history(handle: TableHandle, target: TablePaths) -> FileCopies:
    """The job that brings a table's files, and then its history, to the paths of another.

    Raises
    ------
    CorruptError
        A file is lost.
    """
    log, paths, fileio = handle.snapshots, handle.paths, handle.fileio
    snapshots = [log.load(snapshot_id) for snapshot_id in log.ids()]
    tags = {name: handle.tags.load(name).snapshot for name in handle.tags.names()}
    files: set[str] = set()
    schema_ids: set[int] = set()
    for snapshot in (*snapshots, *tags.values()):
        files.update(state_files(handle, snapshot))
        live = live_entries(fileio, paths, snapshot, handle.manifests)
        schema_ids.update((snapshot.schema_id, *live["schema_id"].tolist()))
    for snapshot in snapshots:
        files.update(changelog_files(handle, snapshot))
    if snapshots:
        files |= kept_for_changelogs(handle.commit_context(), snapshots[0])
    inside = len(paths.location)
    places = [(path, f"{target.location}{path[inside:]}") for path in sorted(files)]
    puts = [(target.snapshot(s.id), fileio.read_bytes(paths.snapshot(s.id))) for s in snapshots]
    puts.reverse()
    puts += [(target.tag(name), fileio.read_bytes(paths.tag(name))) for name in tags]
    hints: list[tuple[str, bytes]] = []
    for status in fileio.list_dir(paths.changelog_dir):
        with suppress(NotFoundError):  # it expired meanwhile
            data = fileio.read_bytes(f"{paths.changelog_dir}/{status.name}")
            kept = puts if status.name.startswith("changelog-") else hints
            kept.append((f"{target.changelog_dir}/{status.name}", data))
    if snapshots:
        hints.append((target.earliest_hint, str(snapshots[0].id).encode()))
        hints.append((target.latest_hint, str(snapshots[-1].id).encode()))
    history = WholeHistory(
        snapshots[-1].id if snapshots else None,
        len(snapshots),
        tuple(tags),
        frozenset(schema_ids),
        tuple(puts),
        tuple(hints),
    )
    return FileCopies(copies_of(handle, places), fileio, history)
