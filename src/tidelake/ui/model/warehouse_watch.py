"""Follows the tables of a warehouse: what was read of each last, and what its doctor found.

1. A table's facts are read when they are asked for, and kept for :data:`FRESH_MS`, so that many
   readers cost as much as one.
2. Its files are summed again only after a commit, and it is examined again after a commit or after
   :data:`DIAGNOSIS_AGE_MS`: some findings come with time.
3. A page of all tables waits a bounded time, and reads each table the more seldom the more there
   are: :data:`TABLE_MS` for each. Tables that take longer are shown as last known, and
   go on in the background, :data:`THREADS` at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from tidelake.engine.env import RecentlyUsed
from tidelake.engine.health import WARNING, Diagnosis
from tidelake.engine.tables import Catalog, Table
from tidelake.errors import InvalidInputError, NotFoundError, TidelakeError
from tidelake.options.masked import masked_text
from tidelake.ui.model.table_facts import TableFacts, state_of, table_facts

THREADS = 2
FRESH_MS = 1_000
DIAGNOSIS_AGE_MS = 60_000
TABLE_MS = 20
"""A page of all tables reads each of n tables once in n times as long."""
TABLES_SHOWN_MAX = 2_000
"""Tables of the page of all tables. The page of any other one can be opened by its name."""
TABLES_KEPT_MAX = 2 * TABLES_SHOWN_MAX


@dataclass(frozen=True, slots=True)
class Examination:
    """What the doctor said of a table, or why it could not.

    Parameters
    ----------
    state : tuple
        Of the snapshot and schema that were examined.
    """

    state: tuple[object, ...]
    made_ms: int
    diagnosis: Diagnosis | None
    problem: str = ""

    @property
    def warnings(self) -> int:
        """Findings that cost something now."""
        found = () if self.diagnosis is None else self.diagnosis.findings
        return sum(finding.severity == WARNING for finding in found)

    @property
    def advice_count(self) -> int:
        """Findings that may."""
        return 0 if self.diagnosis is None else len(self.diagnosis.findings) - self.warnings


@dataclass(frozen=True, slots=True)
class TableSummary:
    """A table among others.

    Parameters
    ----------
    facts : TableFacts, optional
        None if nothing is known yet, or it cannot be read.
    examination : Examination, optional
        None while it is being examined.
    """

    name: str
    facts: TableFacts | None
    examination: Examination | None
    problem: str = ""

    @property
    def is_pending(self) -> bool:
        """Whether more comes with the next look."""
        return not self.problem and (self.facts is None or self.examination is None)

    @property
    def health(self) -> str:
        """One word: ``failed``, ``unknown``, ``warning``, ``advice`` or ``healthy``."""
        if self.problem or (self.facts is not None and self.facts.problems):
            return "failed"
        if self.examination is None:
            return "unknown"
        if self.examination.problem:
            return "failed"
        if self.examination.warnings:
            return "warning"
        return "advice" if self.examination.advice_count else "healthy"


@dataclass(frozen=True, slots=True)
class _Read:
    """Facts, and when they were read."""

    facts: TableFacts
    made_ms: int


class WarehouseWatch:
    """Follows the tables of a catalog. Safe to use from several threads; ends with a ``with``.

    Parameters
    ----------
    catalog : Catalog
        The warehouse.
    threads : int
        Tables that are read in the background at once.
    """

    def __init__(self, catalog: Catalog, *, threads: int = THREADS) -> None:
        self.catalog = catalog
        self._clock = catalog.env.clock
        self._pool = ThreadPoolExecutor(threads, "tidelake-ui")
        self._reads: RecentlyUsed[str, _Read] = RecentlyUsed(entries_max=TABLES_KEPT_MAX)
        self._examined: RecentlyUsed[str, Examination] = RecentlyUsed(entries_max=TABLES_KEPT_MAX)
        self._problems: RecentlyUsed[str, str] = RecentlyUsed(entries_max=TABLES_KEPT_MAX)
        self._guard = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        self._running: dict[str, Future[None]] = {}

    def __enter__(self) -> WarehouseWatch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop reading in the background; what has begun is read to its end."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def names(self) -> list[str]:
        """All tables, sorted; of more than :data:`TABLES_SHOWN_MAX` the first ones."""
        catalog = self.catalog
        found = []
        for database in catalog.list_databases():
            try:
                found += [f"{database}.{name}" for name in catalog.list_tables(database)]
            except NotFoundError:
                continue  # dropped meanwhile
        return sorted(found)[:TABLES_SHOWN_MAX]

    def table(self, name: str) -> Table:
        """Open a table.

        Raises
        ------
        NotFoundError
            There is no such table.
        InvalidInputError
            It is a system table.
        """
        found = self.catalog.table(name)
        if not isinstance(found, Table):
            message = f"'{name}' is a system table: name the table itself."
            raise InvalidInputError(message, kind="system_table", table=name)
        return found

    def facts(self, name: str) -> TableFacts:
        """Read a table, or give what was read a moment ago.

        Raises
        ------
        TidelakeError
            It is not there, or cannot be opened.
        """
        with self._lock(name):
            now_ms = self._clock.now_ms()
            known = self._reads.get(name)
            if known is not None and 0 <= now_ms - known.made_ms < FRESH_MS:
                return known.facts
            try:
                facts = table_facts(self.table(name), None if known is None else known.facts)
            except TidelakeError as error:
                self._reads.pop(name)
                self._problems.keep(name, masked_text(error.message))
                raise
            self._problems.pop(name)
            self._reads.keep(name, _Read(facts, now_ms))
            return facts

    def examination(self, facts: TableFacts) -> Examination | None:
        """What the doctor said of this state of a table; None if it was not asked yet."""
        known = self._examined.get(facts.identifier)
        if known is None or known.state != _state(facts):
            return None
        is_old = self._clock.now_ms() - known.made_ms >= DIAGNOSIS_AGE_MS
        return None if is_old else known

    def examine(self, facts: TableFacts, *, anew: bool = False) -> Examination:
        """Ask the doctor, unless he was asked for this state a moment ago.

        Parameters
        ----------
        anew : bool
            Ask him in any case: what he says also depends on readers and on time.
        """
        known = None if anew else self.examination(facts)
        if known is not None:
            return known
        found, problem = None, ""
        try:
            found = self.table(facts.identifier).doctor()
        except TidelakeError as error:
            problem = masked_text(error.message)
        made = Examination(_state(facts), self._clock.now_ms(), found, problem)
        self._examined.keep(facts.identifier, made)
        return made

    def forget(self, name: str) -> None:
        """Read a table and examine it again at the next look."""
        self._reads.pop(name)
        self._examined.pop(name)

    def look(self, names: Iterable[str], *, examines: bool = True) -> list[Future[None]]:
        """Read tables in the background, each once at a time.

        Parameters
        ----------
        names : iterable of str
            The tables.
        examines : bool
            Whether to examine them too.
        """
        with self._guard:
            self._running = {n: f for n, f in self._running.items() if not f.done()}
            for name in names:
                if name not in self._running:
                    self._running[name] = self._pool.submit(self._look, name, examines)
            return list(self._running.values())

    def _look(self, name: str, examines: bool) -> None:  # noqa: FBT001
        try:
            facts = self.facts(name)
            if examines:
                self.examine(facts)
        except TidelakeError:
            return  # kept as the table's problem
        except Exception as error:
            self._reads.pop(name)
            self._problems.keep(name, masked_text(f"{type(error).__name__}: {error}"))
            raise  # into the future, where nobody looks: the table is shown with its problem

    def overview(
        self,
        *,
        patience_s: float,
        names: Callable[[], Sequence[str]] | None = None,
        examines: bool = True,
    ) -> tuple[TableSummary, ...]:
        """Tables as they are known, after a wait for those that are being read.

        Parameters
        ----------
        patience_s : float
            The longest wait, in seconds.
        names : callable, optional
            Gives the tables; all by default.
        examines : bool
            Whether they are to be examined too.
        """
        wanted = self.names() if names is None else names()
        wait(self.look(self._stale(wanted), examines=examines), timeout=patience_s)
        return tuple(self._summary(name) for name in wanted)

    def _stale(self, names: Sequence[str]) -> list[str]:
        """Tables to read again: the more there are, the longer each stays as it is known."""
        age_ms, now_ms = len(names) * TABLE_MS, self._clock.now_ms()
        found = []
        for name in names:
            known = self._reads.get(name)
            is_known = known is not None and name in self._examined
            if not (is_known and known is not None and 0 <= now_ms - known.made_ms < age_ms):
                found.append(name)
        return found

    def _summary(self, name: str) -> TableSummary:
        known = self._reads.get(name)
        problem = self._problems.get(name) or ""
        if known is None:
            return TableSummary(name, None, None, problem)
        return TableSummary(name, known.facts, self._examined.get(name), problem)

    def _lock(self, name: str) -> threading.Lock:
        with self._guard:
            if len(self._locks) > TABLES_KEPT_MAX:
                self._locks = {n: held for n, held in self._locks.items() if held.locked()}
            return self._locks.setdefault(name, threading.Lock())


def _state(facts: TableFacts) -> tuple[object, ...]:
    schemas = tuple(
        (schema.id, schema.time_ms) for schema in facts.schemas[:1] + facts.schemas[-1:]
    )
    return (*state_of(facts.newest), *schemas)
