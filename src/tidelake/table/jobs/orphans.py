"""Removes orphan files: those that nothing of the table names.

1. Plan: find the directories of the table (:func:`plan_orphans`). Each is a task.
2. List the files in them that are older than `older_than`, by the storage's clock, in this process
   or on executors (:class:`Lister`). An error ends the job: nothing is concluded of half a list.
3. Then read the names of all files that are needed, whoever needs them
   (:mod:`tidelake.commit.orphans.named_files`). They are read after the listing, so a file that was
   committed meanwhile is met.
4. Decide (:func:`decide`, without any storage). A file that is not named is an orphan. One that is
   new goes into quarantine: its name is written down. One that was written down before `older_than`
   too, and has not changed, is due.
5. Look once more at what names files, at the leases, and that the table is still the one that was
   opened. Remove what is due and still not named, :data:`REMOVED_AT_ONCE` at a time, and before
   each of these look what a user took out of quarantine. Remove manifests of the quarantine all of
   whose files are gone or named again.

So a file is removed after it was found unneeded twice, by calls that are a day apart by default.
Of a table that was opened at a branch the whole table is searched, as branches share its files.
A crash leaves files that the next run finds; two runs at once remove the same files, and do no
harm. Nothing is removed while a live lease reads a snapshot that is gone.

Source of arguments and answers: Paimon's ``RemoveOrphanFilesProcedure`` (1.3.1), which removes at
once. Cost: one listing of each directory; each manifest is read once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from tidelake.commit.orphans import (
    FILES,
    Directory,
    NamedFiles,
    OrphanQuarantine,
    QuarantineManifest,
    files_below,
    table_directories,
)
from tidelake.errors import (
    ConflictError,
    InvalidInputError,
    NotFoundError,
    StorageError,
    near_names,
)
from tidelake.metadata.paths import MAIN_BRANCH
from tidelake.table.handle.branch import on_branch
from tidelake.table.handle.handle import TableHandle
from tidelake.table.write.writable import check_writable
from tidelake.telemetry import ThreadExecutor

OLDER_THAN_MS = 86_400_000
"""Age from which a file may be an orphan, as in Paimon: longer than writers wait for a commit. It
is in quarantine for as long."""
REMOVED_AT_ONCE = 256
"""Files that are removed between two looks at what a user keeps."""

STATE = pa.field("state", pa.string(), nullable=False)
NEW, WAITING, DUE, KEPT = "new", "waiting", "due", "kept"


@dataclass(frozen=True, slots=True)
class OrphanFiles:
    """The orphan files of a table, and what was done.

    Parameters
    ----------
    table : str
        Its name.
    files : pyarrow.Table
        ``path`` relative to the table's directory, ``size_bytes``, ``modified_ms``, and ``state``:
        ``new`` in quarantine, ``waiting`` there, ``due`` for removal, ``kept`` by an undelete.
    removed_count, removed_bytes : int
        Files that were removed; of a dry run, those that are due.
    failed_count : int
        Files that are due and could not be removed; the next run tries again.
    dry_run : bool
        Whether nothing was to be changed.
    held_by : str, optional
        The consumer whose lease puts the removal off.
    """

    table: str
    files: pa.Table
    removed_count: int = 0
    removed_bytes: int = 0
    failed_count: int = 0
    dry_run: bool = False
    held_by: str | None = None

    @property
    def quarantined_count(self) -> int:
        """Files that this run put into quarantine, or would."""
        return self._of(NEW).num_rows

    @property
    def quarantined_bytes(self) -> int:
        """Their bytes."""
        return _bytes(self._of(NEW))

    @property
    def waiting_count(self) -> int:
        """Files that were in quarantine before, and stay there."""
        return self._of(WAITING).num_rows

    @property
    def waiting_bytes(self) -> int:
        """Their bytes."""
        return _bytes(self._of(WAITING))

    def _of(self, state: str) -> pa.Table:
        return self.files.filter(pc.equal(self.files["state"], state))

    def __repr__(self) -> str:
        would = "would be " if self.dry_run else ""
        text = (
            f"<OrphanFiles of {self.table}: {self.removed_count} ({self.removed_bytes:,} bytes)"
            f" {would}removed, {self.quarantined_count} ({self.quarantined_bytes:,} bytes)"
            f" {would}put into quarantine, {self.waiting_count} waiting there"
        )
        if self.failed_count:
            text += f", {self.failed_count} could not be removed"
        if self.held_by is not None:
            text += f", removal waits for the reader '{self.held_by}'"
        return f"{text}>"


@dataclass(frozen=True, slots=True)
class OrphanPlan:
    """What a search looks at; picklable.

    Parameters
    ----------
    tasks : tuple of Directory
        They need nothing of each other.
    older_than_ms : int
        Files that were changed then or later are left out.
    """

    location: str
    tasks: tuple[Directory, ...]
    older_than_ms: int

    def files(self, handle: TableHandle, tasks: Sequence[Directory]) -> list[pa.Table]:
        """List some of the directories, side by side where the storage is far."""
        fileio, env = handle.fileio, handle.env
        work = partial(files_below, fileio, self.location, older_than_ms=self.older_than_ms)
        if fileio.is_remote:
            return list(env.executor.map(work, tasks))
        return [work(task) for task in tasks]


class Lister(Protocol):
    """Lists the directories of a plan."""

    def list(self, handle: TableHandle, plan: OrphanPlan) -> pa.Table:
        """The files of all tasks, with the columns of ``FILES``.

        Raises
        ------
        StorageError
            A listing failed.
        """
        ...


class LocalLister:
    """Lists directories in this process."""

    def list(self, handle: TableHandle, plan: OrphanPlan) -> pa.Table:
        """The files of all tasks."""
        return pa.concat_tables([FILES.empty_table(), *plan.files(handle, plan.tasks)])


HERE = LocalLister()
"""The lister of this process."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to be done with the orphans of a table.

    Parameters
    ----------
    files : pyarrow.Table
        All orphans with their states.
    ended : tuple of QuarantineManifest
        Manifests that need not stay once what is due is removed.
    """

    files: pa.Table
    ended: tuple[QuarantineManifest, ...] = ()

    def of(self, state: str) -> pa.Table:
        """The orphans in one state."""
        return self.files.filter(pc.equal(self.files["state"], state)).select(FILES.names)


def plan_orphans(handle: TableHandle, *, older_than_ms: int) -> OrphanPlan:
    """Find the directories to look at."""
    tasks = table_directories(handle.fileio, handle.paths)
    return OrphanPlan(handle.paths.location, tuple(tasks), older_than_ms)


def decide(
    orphans: pa.Table,
    manifests: Sequence[QuarantineManifest],
    *,
    kept: Collection[str],
    older_than_ms: int,
) -> Decision:
    """Give each orphan its state.

    Parameters
    ----------
    orphans : pyarrow.Table
        Files that nothing names.
    kept : collection of str
        Paths that a user wants to keep.
    older_than_ms : int
        What was written down before is due.
    """
    entered: dict[tuple[str, int, int], int] = {}
    for manifest in manifests:
        for row in _rows(manifest.files):
            entered.setdefault(row, manifest.written_ms)
    states = []
    for row in _rows(orphans):
        since_ms = entered.get(row)
        if row[0] in kept:
            states.append(KEPT)
        elif since_ms is None:
            states.append(NEW)
        else:
            states.append(DUE if since_ms < older_than_ms else WAITING)
    files = orphans.append_column(STATE, pa.array(states, pa.string()))
    waiting = {r for r, s in zip(_rows(orphans), states, strict=True) if s == WAITING}
    ended = tuple(m for m in manifests if waiting.isdisjoint(_rows(m.files)))
    return Decision(files, ended)


def _rows(files: pa.Table) -> list[tuple[str, int, int]]:
    """Files as path, size and time: one that was changed is another file."""
    columns = [files[name].to_pylist() for name in FILES.names]
    return list(zip(*columns, strict=True))


def unnamed(files: pa.Table, named: NamedFiles) -> pa.Table:
    """The files whose names nothing needs.

    Checksums that Hadoop's local file system keeps beside a file (``.<name>.crc``) go with it.
    """
    names = pc.replace_substring_regex(files["path"], r"^.*/", "")
    names = pc.replace_substring_regex(names, r"^\.(.*)\.crc$", r"\1")
    return files.filter(pc.invert(named.among(names)))


def remove_orphans(
    handle: TableHandle,
    *,
    older_than_ms: int | None = None,
    dry_run: bool = False,
    parallelism: int | None = None,
    lister: Lister = HERE,
) -> OrphanFiles:
    """Search orphan files; see :meth:`tidelake.table.Maintenance.remove_orphan_files`."""
    handle = on_branch(handle, MAIN_BRANCH)  # of a branch's directories they are the table's
    check_writable(handle)
    handle.schemas.check_same(handle.schema, table=handle.identifier)
    if parallelism is not None:
        if parallelism < 1:
            message = f"parallelism of remove_orphan_files is {parallelism}: give 1 or more."
            raise InvalidInputError(message, kind="bad_argument", table=handle.identifier)
        handle = replace(handle, env=replace(handle.env, executor=ThreadExecutor(parallelism)))
    quarantine = OrphanQuarantine(handle.fileio, handle.paths.location, handle.env.ids)
    now_ms = handle.env.clock.now_ms()
    if not dry_run:  # the slower of two clocks keeps more
        now_ms = min(now_ms, quarantine.storage_now_ms())
    older_than_ms = _older_than(handle, older_than_ms, now_ms)
    manifests, kept = quarantine.manifests(), quarantine.kept()
    found = lister.list(handle, plan_orphans(handle, older_than_ms=older_than_ms))
    named = NamedFiles(handle.commit_context())
    named.refresh()
    _check_known(handle, manifests, named)
    orphans = _by_path(unnamed(found, named))
    decision = decide(orphans, manifests, kept=kept, older_than_ms=older_than_ms)
    held_by = named.reader_without_snapshot()
    result = OrphanFiles(handle.identifier, decision.files, dry_run=dry_run, held_by=held_by)
    if dry_run:
        due = decision.of(DUE) if held_by is None else FILES.empty_table()
        return replace(result, removed_count=due.num_rows, removed_bytes=_bytes(due))
    new = decision.of(NEW)
    if new.num_rows:
        handle.schemas.check_same(handle.schema, table=handle.identifier)
        quarantine.add(
            new, tags=sorted(named.histories.tags), branches=sorted(named.histories.branches)
        )
    due = decision.of(DUE)
    if due.num_rows and held_by is None:  # what was committed or leased since the first look
        named.refresh()
        held_by = named.reader_without_snapshot()
    if held_by is not None:
        return replace(result, held_by=held_by)
    removed, failed = _remove(handle, unnamed(due, named), quarantine)
    if not failed:
        for manifest in decision.ended:
            quarantine.remove(manifest)
    return replace(
        result,
        removed_count=removed.num_rows,
        removed_bytes=_bytes(removed),
        failed_count=failed,
    )


def _older_than(handle: TableHandle, given_ms: int | None, now_ms: int) -> int:
    if given_ms is None:
        return now_ms - OLDER_THAN_MS
    if given_ms >= now_ms:
        message = (
            f"older_than of remove_orphan_files of table '{handle.identifier}' is not in the past,"
            " by the clocks of this machine and of the storage: files of running writers would"
            " count as orphans. Give a time before anything that still writes began."
        )
        raise InvalidInputError(message, kind="older_than", table=handle.identifier)
    return given_ms


def _check_known(
    handle: TableHandle, manifests: Sequence[QuarantineManifest], named: NamedFiles
) -> None:
    """Refuse listings that lack a tag or a branch that was met before and is still there."""
    fileio, paths = handle.fileio, named.histories.paths
    missing = ""
    for tag in sorted({t for m in manifests for t in m.tags} - named.histories.tags):
        branch, _, name = tag.partition("/")
        if fileio.exists(paths(branch).tag(name)):
            missing = f"tag '{name}'"
    for branch in sorted({b for m in manifests for b in m.branches} - named.histories.branches):
        if fileio.list_dir(paths(branch).schema_dir):
            missing = f"branch '{branch}'"
    if missing:
        message = (
            f"A listing of table '{handle.identifier}' lacks {missing}, which is there: the"
            " storage is inconsistent. Try again. Nothing was removed."
        )
        raise StorageError(message, kind="stale_listing", table=handle.identifier)


def _remove(
    handle: TableHandle, due: pa.Table, quarantine: OrphanQuarantine
) -> tuple[pa.Table, int]:
    """Remove files but those that a user keeps; the removed ones, and how many failed."""
    if not due.num_rows:
        return due, 0
    handle.schemas.check_same(handle.schema, table=handle.identifier)
    location = handle.paths.location

    def remove(path: str) -> bool:
        try:
            handle.fileio.delete(f"{location}/{path}")
        except StorageError:
            return False
        return True

    removed, failed = [FILES.empty_table()], 0
    for start in range(0, due.num_rows, REMOVED_AT_ONCE):
        some = due.slice(start, REMOVED_AT_ONCE)
        with quarantine.removal(some["path"].to_pylist()):
            kept = pa.array(sorted(quarantine.kept()), pa.string())
            some = some.filter(pc.invert(pc.is_in(some["path"], kept)))
            paths = some["path"].to_pylist()
            done = list(handle.env.executor.map(remove, paths))
        handle.manifests.forget(f"{location}/{path}" for path in paths)
        removed.append(some.filter(pa.array(done, pa.bool_())))
        failed += done.count(False)
    return pa.concat_tables(removed), failed


def quarantined(handle: TableHandle) -> pa.Table:
    """The files in quarantine; see :meth:`tidelake.table.Maintenance.quarantined_files`."""
    quarantine = OrphanQuarantine(handle.fileio, handle.paths.location, handle.env.ids)
    kept = quarantine.kept()
    tables = []
    for manifest in quarantine.manifests():
        since = pa.array([manifest.written_ms] * manifest.files.num_rows, pa.int64())
        tables.append(manifest.files.append_column("since_ms", since))
    schema = FILES.append(pa.field("since_ms", pa.int64()))
    files = pa.concat_tables([schema.empty_table(), *(t.cast(schema) for t in tables)])
    is_kept = pc.is_in(files["path"], pa.array(sorted(kept), pa.string()))
    return _by_path(files.filter(pc.invert(is_kept)))


def undelete(handle: TableHandle, paths: Sequence[str] | None = None) -> tuple[str, ...]:
    """Take files out of quarantine; see :meth:`tidelake.table.Maintenance.undelete_files`."""
    quarantine = OrphanQuarantine(handle.fileio, handle.paths.location, handle.env.ids)
    waiting = quarantined(handle)["path"].to_pylist()
    location = handle.paths.location

    def is_there(path: str) -> bool:  # a run that was killed may have removed it
        return handle.fileio.exists(f"{location}/{path}")

    wanted = list(filter(is_there, waiting)) if paths is None else list(paths)
    known = frozenset(waiting)
    unknown = [path for path in wanted if path not in known or not is_there(path)]
    if unknown:
        message = (
            f"'{unknown[0]}' is not in the quarantine of table '{handle.identifier}'."
            f"{near_names(unknown[0], waiting)} It was removed, or was never there; see"
            " quarantined_files()."
        )
        raise NotFoundError(message, kind="not_quarantined", path=unknown[0])
    if not wanted:
        return ()
    quarantine.keep(wanted)
    leaving = quarantine.being_removed()  # what is not in it now is gone already, or stays
    gone = [path for path in wanted if path in leaving or not is_there(path)]
    if gone:
        message = (
            f"A run removed, or removes now, {len(gone)} of {len(wanted)} files of table"
            f" '{handle.identifier}' that were to be taken out of the quarantine, such as"
            f" {gone[0]}. The others stay, and so do those that are still there when it ends."
        )
        raise ConflictError(message, kind="removed_meanwhile", table=handle.identifier)
    return tuple(sorted(wanted))


def _by_path(files: pa.Table) -> pa.Table:
    paths = files["path"].to_pylist()
    return files.take(pa.array(sorted(range(len(paths)), key=paths.__getitem__), pa.int64()))


def _bytes(files: pa.Table) -> int:
    return int(pc.sum(files["size_bytes"]).as_py() or 0)
