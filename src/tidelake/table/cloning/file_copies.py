"""The files of a new table as a job: each task gives files of elsewhere a second name in it.

1. The plan knows both places of each file and its length, so a task needs nothing else, and may run
   anywhere and twice.
2. When all are there, their lengths are compared once more.
3. A :class:`FilesPublication` makes them the table's. Nothing of the table is visible before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, Self

from tidelake.errors import CorruptError
from tidelake.fileio import FileIO, parent_of
from tidelake.fileio.copying import copy_file
from tidelake.metadata.at_once import at_once
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.table.handle.handle import TableHandle
from tidelake.table.job.plan import Gathered, Plan
from tidelake.table.write.result import WriteResult
from tidelake.table.write.transaction import WriteTransaction


class FilesPublication(Protocol):
    """Makes files that are in their place a table's."""

    def publish(self, handle: TableHandle) -> int | None:
        """Publish them; the id of the newest snapshot, None if there is none.

        Raises
        ------
        ConflictError
            Others have written to the table; nothing became visible.
        """
        ...

    def is_own(self, newest: Snapshot) -> bool:
        """Whether a table's newest snapshot came from here, by a publication that failed."""
        ...

    def is_visible(self, handle: TableHandle) -> bool:
        """Whether a snapshot from here is in the table, though not the newest: others built on it.

        Then its files must stay.
        """
        ...


@dataclass(frozen=True, slots=True)
class FileCopy:
    """One file.

    Parameters
    ----------
    source, target : str
        Its paths.
    """

    source: str
    target: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class FileCopies(Plan[FileCopy]):
    """All files of a new table.

    Parameters
    ----------
    fileio : FileIO
        The source's storage; the target's is that of the table that the tasks run on.
    publication : FilesPublication, optional
        None on an executor.
    """

    tasks: tuple[FileCopy, ...]
    fileio: FileIO
    publication: FilesPublication | None

    @property
    def base_snapshot_id(self) -> int:
        """The target is empty."""
        return 0

    @property
    def size_bytes(self) -> int:
        """Bytes of all files."""
        return sum(task.size_bytes for task in self.tasks)

    def without_tasks(self) -> Self:
        """The plan for executors, which publish nothing."""
        return replace(self, tasks=(), publication=None)

    def run(self, tasks: Sequence[FileCopy], into: Gathered) -> None:
        """Copy files. Those whose bytes did not pass through are counted as rows."""
        target = into.handle.fileio
        calls = [
            partial(
                copy_file,
                self.fileio,
                task.source,
                target,
                task.target,
                size_bytes=task.size_bytes,
            )
            for task in tasks
        ]
        linked = at_once(target, into.handle.env.reads.files, calls)
        for directory in sorted({parent_of(task.target) for task in tasks}):
            target.sync_dir(directory)
        into.add((), rows_count=sum(linked))

    def commit(self, out: WriteTransaction, gathered: Gathered) -> WriteResult:
        """Check that all files are whole, and publish.

        Returns
        -------
        WriteResult
            ``files``: those whose bytes did not pass through.

        Raises
        ------
        CorruptError
            A file is missing or of another length: others are at work in the target's place.
        """
        assert self.publication is not None, "an executor does not publish"
        _check_copied(out.handle.fileio, self.tasks)
        snapshot_id = self.publication.publish(out.handle)
        return WriteResult(
            snapshot_ids=() if snapshot_id is None else (snapshot_id,),
            files=gathered.rows_count,
        )


def _check_copied(fileio: FileIO, tasks: Sequence[FileCopy]) -> None:
    wanted: dict[str, dict[str, int]] = defaultdict(dict)
    for task in tasks:
        directory = parent_of(task.target)
        wanted[directory][task.target[len(directory) :].lstrip("/")] = task.size_bytes
    for directory, sizes in wanted.items():
        found = {one.name: one.size_bytes for one in fileio.list_dir(directory)}
        for name, size_bytes in sizes.items():
            if found.get(name) != size_bytes:
                message = (
                    f"File {directory}/{name} has {found.get(name, 'no')} bytes after it was"
                    f" copied, and not {size_bytes}: other jobs are at work there. Nothing was"
                    " published."
                )
                raise CorruptError(message, kind="file_length", path=f"{directory}/{name}")
