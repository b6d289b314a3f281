"""One table as it was opened: the five values that reading, writing and committing share."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from tidelake.fileio import FileIO
from tidelake.metadata.log.incarnation import Incarnation
from tidelake.metadata.log.snapshot_log import SnapshotLog
from tidelake.metadata.paths import TablePaths
from tidelake.options import Options
from tidelake.telemetry import Env, Executor
from tidelake.types import TableSchema

Guard = Callable[[], AbstractContextManager[object]]
"""Opens a block in which other engines keep away, out of politeness: nothing relies on it."""


@dataclass(frozen=True, slots=True)
class TableState:
    """A table's location and how it was opened. Each layer adds its own needs."""

    fileio: FileIO
    paths: TablePaths
    schema: TableSchema
    options: Options
    env: Env

    @property
    def snapshots(self) -> SnapshotLog:
        """The table's snapshots."""
        return SnapshotLog(
            self.fileio,
            self.paths,
            reads=self.env.reads.ranges,
            incarnation=self.incarnation,
        )

    @property
    def incarnation(self) -> Incarnation | None:
        """The table as it was opened, where a dropped one of its name might be taken for it."""
        return Incarnation.of(self.fileio, self.paths, self.schema)

    @property
    def uri(self) -> str:
        """The table's directory as users write it: with its scheme, where it has one."""
        return self.fileio.uri_of(self.paths.location)

    @property
    def branch_uri(self) -> str:
        """The directory of what its branch has for itself.

        Names the table among others in memory: its branches share :attr:`uri`, and a new one has
        the table's schemas, with their times, and its snapshots' ids.
        """
        return self.fileio.uri_of(self.paths.log_dir)

    @property
    def read_together(self) -> Executor | None:
        """Where the first rows of several files are read at once; None if the storage is near."""
        return self.env.reads.runs if self.fileio.is_remote else None
