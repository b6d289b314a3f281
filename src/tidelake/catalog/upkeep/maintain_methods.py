"""Methods of a catalog that keep its tables healthy."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from types import MappingProxyType
from typing import Protocol

from tidelake.catalog.upkeep.maintenance_job import (
    INTERVAL_S,
    MaintenanceJob,
    MaintenanceRound,
    Watch,
)
from tidelake.catalog.upkeep.table_patterns import ALL_TABLES, TablePatterns
from tidelake.errors import InvalidInputError, NotFoundError, TidelakeError, shortened
from tidelake.table import SystemTable, Table, WriteResult
from tidelake.table.handle.arguments import whole_number
from tidelake.table.upkeep import HERE, TablePlan, Workers
from tidelake.telemetry import Env


class CompactOne(Protocol):
    """Compacts a table."""

    def __call__(
        self, name: str, *, full: bool, options: Mapping[str, object] | None
    ) -> WriteResult:
        """Compact it."""
        ...


@dataclass(frozen=True, slots=True)
class CompactionOfTables:
    """What a compaction of many tables did.

    Parameters
    ----------
    tables : mapping of str to WriteResult
        By the names of the tables.
    failed : mapping of str to TidelakeError
        Tables that could not be compacted, and why; the others are.
    """

    tables: Mapping[str, WriteResult] = field(default_factory=lambda: MappingProxyType({}))
    failed: Mapping[str, TidelakeError] = field(default_factory=lambda: MappingProxyType({}))


class MaintainMethods(abc.ABC):
    """Methods of :class:`tidelake.catalog.Catalog`."""

    env: Env

    @abc.abstractmethod
    def list_databases(self) -> list[str]:
        """List the databases."""

    @abc.abstractmethod
    def list_tables(self, database: str) -> list[str]:
        """List the tables of one."""

    @abc.abstractmethod
    def table(self, identifier: str) -> Table | SystemTable:
        """Open a table."""

    def maintain(
        self,
        *tables: str,
        interval: float | timedelta = INTERVAL_S,
        rounds: int | None = None,
        seconds: float | None = None,
        dry_run: bool = False,
        options: Mapping[str, object] | None = None,
        watch: Watch | None = None,
        workers: Workers = HERE,
    ) -> MaintenanceRound | tuple[TablePlan, ...]:
        """Keep tables healthy: compaction, tags, partitions, snapshots and orphan files.

        It goes on until it is interrupted. Options of each table say what is done:
        ``maintenance.*``, and those of compaction, expiry and tags. Several jobs may run at once.

        Parameters
        ----------
        *tables : str
            ``"database.table"``, ``"database.*"`` or ``"*.*"``, which is the default.
        interval : float or timedelta
            The time from the begin of a round to that of the next; seconds.
        rounds : int, optional
            The most rounds; 1 does what is due, once.
        seconds : float, optional
            No round begins after so many seconds.
        dry_run : bool
            Whether to return what is due, and change nothing.
        options : mapping, optional
            Options of all tables for this call.
        watch : callable, optional
            Takes each round when it has ended.
        workers : Workers
            Who does the work; this process by default.

        Returns
        -------
        MaintenanceRound or tuple of TablePlan
            The last round; of a dry run, what is due in each table.

        Raises
        ------
        NotFoundError
            There is no such table. One that is dropped later is no error.
        InvalidInputError
            An argument is wrong.

        Examples
        --------
        >>> import tempfile, tidelake, pyarrow as pa
        >>> catalog = tidelake.open(tempfile.mkdtemp())
        >>> table = catalog.create_table("db.t", pa.schema({"k": pa.int64()}))
        >>> for k in range(6):
        ...     _ = table.write([{"k": k}])
        >>> done = catalog.maintain("db.*", rounds=1)
        >>> [str(task.task) for task in done.tables[0].tasks]
        ['compaction']
        >>> len(table.system_table("files").to_arrow())
        1
        """
        job = self.maintenance_job(*tables, interval=interval, options=options, workers=workers)
        if dry_run:
            return job.plan()
        return job.run(
            rounds=_least(rounds, "rounds"), seconds=_positive(seconds, "seconds"), watch=watch
        )

    def maintenance_job(
        self,
        *tables: str,
        interval: float | timedelta = INTERVAL_S,
        options: Mapping[str, object] | None = None,
        workers: Workers = HERE,
    ) -> MaintenanceJob:
        """Make a job that keeps tables healthy, for a thread of your own; arguments as above.

        Returns
        -------
        MaintenanceJob
            ``plan()``, ``round()``, ``run()``, and ``stop()``, which another thread may call.
        """
        patterns = TablePatterns.of_names(tables or (ALL_TABLES,))
        seconds = interval.total_seconds() if isinstance(interval, timedelta) else interval
        return MaintenanceJob(
            self,
            patterns,
            interval_ms=int(1000 * (_positive(seconds, "interval") or INTERVAL_S)),
            options=options,
            workers=workers,
        )

    def compact_database(
        self,
        *,
        including_databases: str | None = None,
        including_tables: str | None = None,
        excluding_tables: str | None = None,
        full: bool = True,
        options: Mapping[str, object] | None = None,
        compact: CompactOne | None = None,
    ) -> CompactionOfTables:
        """Compact all tables whose names match, one after the other, each in one commit.

        Parameters
        ----------
        including_databases : str, optional
            A regular expression of the names of databases; all by default.
        including_tables, excluding_tables : str, optional
            Regular expressions of whole names, ``database.table``; all and none by default.
        full : bool
            Whether to merge everything; see :meth:`tidelake.Table.compact`.
        options : mapping, optional
            Options of all tables for this call.
        compact : callable, optional
            Compacts one table, by default in this process.

        Returns
        -------
        CompactionOfTables
            ``tables`` with the result of each, and ``failed``, the errors of others.

        Raises
        ------
        InvalidInputError
            A pattern is no regular expression.
        """
        patterns = TablePatterns.of_paimon(including_databases, including_tables, excluding_tables)
        done: dict[str, WriteResult] = {}
        failed: dict[str, TidelakeError] = {}
        for name in patterns.names(self):
            try:
                done[name] = (compact or self._compact)(name, full=full, options=options)
            except NotFoundError as error:
                if error.kind != "table_not_found":  # dropped meanwhile
                    failed[name] = error
            except TidelakeError as error:
                failed[name] = error
        return CompactionOfTables(done, failed)

    def _compact(
        self, name: str, *, full: bool, options: Mapping[str, object] | None
    ) -> WriteResult:
        table = self.table(name)
        assert isinstance(table, Table), "names of tables"
        return table.compact(full=full, options=options)


def _least(given: object, argument: str) -> int | None:
    number = whole_number(given)
    if given is not None and (number is None or number < 1):
        message = f"{argument} must be a number from 1 on, not {shortened(repr(given))}."
        raise InvalidInputError(message, kind="bad_argument", argument=argument)
    return number


def _positive(given: object, argument: str) -> float | None:
    if given is None:
        return None
    is_number = isinstance(given, (int, float)) and not isinstance(given, bool)
    if not is_number or not 0 < given < float("inf"):  # type: ignore[operator]
        message = f"{argument} must be a number of seconds above 0, not {shortened(repr(given))}."
        raise InvalidInputError(message, kind="bad_argument", argument=argument)
    return float(given)  # type: ignore[arg-type]
