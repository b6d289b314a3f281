"""A job that keeps the tables of a catalog healthy, round by round, until it is stopped.

1. A round lists the tables that are meant, so one that was created since is found, and one that was
   dropped is forgotten.
2. Each is opened anew, so its newest options count, and :mod:`tidelake.table.upkeep` does what is
   due. One table at a time: it uses all cores. Each round begins with another table, so that
   several jobs do not walk in step.
3. A table that fails is reported, and the others go on. It is tried again in a later round: the
   waits double up to :data:`RETRY_S_MAX`.
4. The next round begins :attr:`MaintenanceJob.interval_ms` after this one began, or at once.

The job keeps nothing on disk but the claims of tables. After a restart the first round reads each
table's metadata and finds all that is due.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from tidelake.catalog.upkeep.table_patterns import Names, TablePatterns
from tidelake.errors import InvalidInputError, NotFoundError, UnsupportedError
from tidelake.options import Options, check_one_use, option_texts, warn_once
from tidelake.table import SystemTable, Table
from tidelake.table.handle.handle import TableHandle
from tidelake.table.upkeep import HERE, TableDone, TablePlan, TableUpkeep, Workers
from tidelake.table.write.writable import check_writable
from tidelake.telemetry import Backoff, Env

INTERVAL_S = 10.0
"""Time between two rounds, the default of Paimon's ``continuous.discovery-interval``."""
RETRY_S_MAX = 600.0
"""The longest wait until a table that fails is tried again."""
STOP_POLL_MS = 200
BRANCH = "branch"
_LOG = logging.getLogger("tidelake")


class OpensTables(Names, Protocol):
    """A catalog, as far as a job needs it."""

    env: Env

    def table(self, identifier: str) -> Table | SystemTable:
        """Open a table."""
        ...


@dataclass(frozen=True, slots=True)
class MaintenanceRound:
    """What one round did.

    Parameters
    ----------
    number : int
        From 1 on.
    tables : tuple of TableDone
        Those in which something was done, or was left to another job.
    failed : mapping of str to Exception
        Tables that could not be looked at, and why.
    looked_count : int
        How many tables the round looked at.
    seconds : float
        How long it took.
    """

    number: int
    tables: tuple[TableDone, ...] = ()
    failed: Mapping[str, Exception] = field(default_factory=lambda: MappingProxyType({}))
    looked_count: int = 0
    seconds: float = 0.0

    @property
    def errors(self) -> Mapping[str, tuple[Exception, ...]]:
        """All errors by table: of tables that failed, and of single tasks."""
        of_tasks = {done.table: done.errors for done in self.tables if done.errors}
        return {**of_tasks, **{name: (error,) for name, error in self.failed.items()}}

    def __str__(self) -> str:
        lines = [f"round {self.number}: {self.looked_count} tables, {self.seconds:.1f} s"]
        lines += [f"  {done}" for done in self.tables]
        lines += [f"  {name} failed: {error}" for name, error in self.failed.items()]
        return "\n".join(lines)


Watch = Callable[[MaintenanceRound], object]
"""Takes each round when it has ended."""


@dataclass(slots=True)
class _Failing:
    """A table that failed: how often, and when it is tried again."""

    count: int = 0
    until_s: float = 0.0


class MaintenanceJob:
    """Keeps tables healthy; made by :meth:`tidelake.catalog.Catalog.maintenance_job`.

    Parameters
    ----------
    interval_ms : int
        The time from the begin of a round to that of the next.
    options : mapping of str to str
        Options of all tables for this job.

    Notes
    -----
    For one thread, but :meth:`stop` may be called by any. Not picklable.
    """

    def __init__(
        self,
        catalog: OpensTables,
        patterns: TablePatterns,
        *,
        interval_ms: int = int(INTERVAL_S * 1000),
        options: Mapping[str, object] | None = None,
        workers: Workers = HERE,
    ) -> None:
        self._catalog = catalog
        self._patterns = patterns
        self.interval_ms = interval_ms
        self._options = {} if options is None else dict(option_texts(options))
        self._workers = workers
        self._env = catalog.env
        self._run_id = f"maintenance-{self._env.ids.uuid()}"
        self._upkeeps: dict[str, tuple[int, TableUpkeep]] = {}
        self._failing: dict[str, _Failing] = {}
        self._rounds_count = 0
        self._is_stopped = False
        self._says_none = True
        check_one_use(self._options, Options.parse({}), table="of this job")
        if self._options.get(BRANCH):
            message = "A maintenance job takes no option 'branch': it works on tables themselves."
            raise InvalidInputError(message, kind="bad_argument", option=BRANCH)
        for name in patterns.exact:
            catalog.table(name)  # refuses an unknown one

    def tables(self) -> list[str]:
        """The tables that are meant and there now, sorted."""
        return self._patterns.names(self._catalog)

    def plan(self) -> tuple[TablePlan, ...]:
        """What is due in each table, or why that is not known; nothing is changed."""
        found = []
        for name in self.tables():
            try:
                handle = self._opened(name)
                if handle is not None:
                    found.append(TableUpkeep(self._run_id, self._workers).plan(handle))
            except self._workers.expected as error:
                found.append(TablePlan(name, error=error))
        return tuple(found)

    def round(self) -> MaintenanceRound:
        """Do what is due in each table now, once.

        A call of :meth:`stop` ends it between two tables.
        """
        clock = self._env.clock
        began_s = clock.monotonic_seconds()
        names = self.tables()
        if not names and self._says_none:
            _LOG.warning("A maintenance job: no table is named %s.", self._patterns)
        self._says_none = False
        for gone in self._upkeeps.keys() - set(names):
            del self._upkeeps[gone]
        self._rounds_count += 1
        done: list[TableDone] = []
        failed: dict[str, Exception] = {}
        looked_count = 0
        for name in self._rotated(names):
            if self._is_stopped:
                break
            failing = self._failing.get(name)
            if failing is not None and clock.monotonic_seconds() < failing.until_s:
                continue
            looked_count += 1
            try:
                one = self._do(name)
            except self._workers.expected as error:
                failed[name] = error
                self._put_off(name)
                continue
            if one.errors:
                self._put_off(name)
            else:
                self._failing.pop(name, None)
            if one.tasks or one.is_taken:
                done.append(one)
        seconds = clock.monotonic_seconds() - began_s
        return MaintenanceRound(self._rounds_count, tuple(done), failed, looked_count, seconds)

    def run(
        self,
        *,
        rounds: int | None = None,
        seconds: float | None = None,
        watch: Watch | None = None,
    ) -> MaintenanceRound:
        """Do round after round, until :meth:`stop`, an interrupt, or a limit.

        Parameters
        ----------
        rounds : int, optional
            The most rounds.
        seconds : float, optional
            No round begins after so many seconds.
        watch : callable, optional
            Takes each round when it has ended.

        Returns
        -------
        MaintenanceRound
            The last one.
        """
        clock = self._env.clock
        began_s = clock.monotonic_seconds()
        last = MaintenanceRound(0)
        while not self._is_stopped:
            round_began_s = clock.monotonic_seconds()
            last = self.round()
            if watch is not None:
                watch(last)
            next_s = max(round_began_s + self.interval_ms / 1000, clock.monotonic_seconds())
            is_last = rounds is not None and last.number >= rounds
            if is_last or (seconds is not None and next_s - began_s >= seconds):
                break
            while not self._is_stopped and (left_s := next_s - clock.monotonic_seconds()) > 0:
                clock.sleep_ms(min(max(1.0, 1000 * left_s), STOP_POLL_MS))
        return last

    def stop(self) -> None:
        """End the job after the table that it is at work on; may be called by any thread."""
        self._is_stopped = True

    def _do(self, name: str) -> TableDone:
        handle = self._opened(name)
        if handle is None:
            self._upkeeps.pop(name, None)
            return TableDone(name)
        made_ms = handle.schemas.load(0).time_ms if 0 in handle.schemas.ids() else 0
        known = self._upkeeps.get(name)
        if known is None or known[0] != made_ms:  # a table created anew has another first schema
            known = self._upkeeps[name] = (made_ms, TableUpkeep(self._run_id, self._workers))
        try:
            return known[1].run(handle)
        except NotFoundError:
            del self._upkeeps[name]
            if self._opened(name) is None:
                return TableDone(name)  # dropped meanwhile
            raise

    def _opened(self, name: str) -> TableHandle | None:
        """The table with its newest options; None if it was dropped or may not be written to."""
        try:
            found = self._catalog.table(name)
        except NotFoundError as error:
            if error.kind in ("table_not_found", "database_not_found"):
                return None
            raise
        assert isinstance(found, Table), "names of tables"
        handle = found.with_options(self._options).handle if self._options else found.handle
        try:
            check_writable(handle)
        except UnsupportedError as error:
            warn_once(name, f"is left out of maintenance. {error.message}")
            return None
        return handle

    def _rotated(self, names: list[str]) -> list[str]:
        """The tables, from one drawn by chance on."""
        first = int(self._env.rng.uniform(0, len(names)))
        return [*names[first:], *names[:first]]

    def _put_off(self, name: str) -> None:
        failing = self._failing.setdefault(name, _Failing())
        waits = Backoff(self.interval_ms, 1000 * RETRY_S_MAX)
        wait_ms = waits.wait_ms(failing.count, self._env.rng)
        failing.count += 1
        failing.until_s = self._env.clock.monotonic_seconds() + wait_ms / 1000
