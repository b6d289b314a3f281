"""A job as people use it: looked at before it runs, run, asked how it is, ended.

1. :meth:`Sync.plan` looks at the source and the lake and changes neither.
2. :meth:`Sync.run` runs, once or until it is stopped.
3. :meth:`Sync.status` reads the journal and asks the source; a running job need not know.
4. :meth:`Sync.resnapshot` and :meth:`Sync.replay` leave a request beside the journal, which the
   job takes up when it looks, or at its next start.
5. :meth:`Sync.at_epoch` reads all tables at one moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from tidelake.cdc.command.figures import SyncProgress
from tidelake.cdc.command.job_lag import NO_POSITION, JobLag, job_lag
from tidelake.cdc.command.job_settings import job_settings
from tidelake.cdc.command.opening import OpenedJob, opened
from tidelake.cdc.command.secret_text import SecretWays
from tidelake.cdc.command.sync_config import SyncConfig
from tidelake.cdc.evolution.ddl_entry import change_text
from tidelake.cdc.job.epoch_reads import EpochReads, EpochTables
from tidelake.cdc.job.job import EpochDone, SyncJob
from tidelake.cdc.job.replay import ReplayPlan
from tidelake.cdc.job.table_set import LEFT_OUT_REASON, not_followed, not_taken, routes_of
from tidelake.cdc.job.target_check import check_target, expected_target
from tidelake.cdc.journal.job_state import JobState, Phase
from tidelake.cdc.journal.journal import REPLAY
from tidelake.cdc.source.finding import SourceFinding
from tidelake.cdc.source.slot_status import MISSING, SlotStatus
from tidelake.cdc.source.source_table import SourceName, SourceTable
from tidelake.engine.env import Env
from tidelake.engine.tables import Catalog
from tidelake.errors import InvalidInputError, NotFoundError, TidelakeError, counted

Watch = Callable[[EpochDone, SyncJob], None]


@dataclass(frozen=True, slots=True)
class PlannedTable:
    """What a job would do with one target.

    Parameters
    ----------
    sources : tuple of str
        Tables of the source.
    columns : tuple of tuple of str
        Name and type of each column.
    changes : tuple of str
        Of an existing table, as clauses of ALTER TABLE.
    problem : str
        Why the job would not start with it; empty otherwise.
    """

    target: str
    sources: tuple[str, ...]
    columns: tuple[tuple[str, str], ...] = ()
    primary_keys: tuple[str, ...] = ()
    partition_keys: tuple[str, ...] = ()
    is_new: bool = True
    changes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class SyncPlan:
    """What a job would do, and what keeps it from it.

    Parameters
    ----------
    findings : tuple of SourceFinding
        About the source, each with the statement that mends it.
    left_out : tuple of str
        Tables of the job that the arguments no longer take.
    """

    job: str
    source: str
    tables: tuple[PlannedTable, ...]
    findings: tuple[SourceFinding, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def can_run(self) -> bool:
        """Whether nothing keeps the job from running."""
        return not any(one.is_error for one in self.findings) and not any(
            table.problem for table in self.tables
        )

    def __str__(self) -> str:
        lines = [f"job {self.job} from {self.source}"]
        for table in self.tables:
            verb = "create" if table.is_new else "take"
            lines.append(f"{verb} {table.target} from {', '.join(table.sources)}")
            keys = {*table.primary_keys}
            lines += [
                f"    {name} {kind}{' (key)' if name in keys else ''}"
                for name, kind in table.columns
            ]
            lines += [f"    {change}" for change in table.changes]
            lines += [f"    note: {note}" for note in table.notes]
            if table.problem:
                lines.append(f"    PROBLEM: {table.problem}")
        lines += [f"leave out {one}" for one in self.left_out]
        for found in sorted(self.findings, key=lambda one: one.is_error):
            lines.append(f"{'ERROR' if found.is_error else 'warning'}: {found.message}")
            if found.mend:
                lines.append(f"    mend: {found.mend}")
        count = sum(one.is_error for one in self.findings) + sum(
            bool(table.problem) for table in self.tables
        )
        lines.append(
            f"the job cannot run: {counted(count, 'error')}" if count else "the job can run"
        )
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class TableStatus:
    """One table of a job."""

    source: str
    target: str
    phase: str
    rows: int
    copies: int
    changed_ms: int | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class SyncStatus:
    """How a job is.

    Parameters
    ----------
    epoch : int
        The newest that was begun; -1 for a job that never ran.
    position : str
        Up to which everything is applied.
    newest : str
        The source's newest position.
    is_behind : bool
        Whether the source has more.
    source : mapping of str to object
        The source's own facts, such as how much log it holds for the job.
    lag : JobLag
        How far the tables are behind the source, in time, and in bytes of its log or messages.
    """

    job: str
    epoch: int
    begun_ms: int | None
    position: str
    newest: str
    is_behind: bool
    tables: tuple[TableStatus, ...]
    quarantined: int
    source: dict[str, object] = field(default_factory=dict)
    lag: JobLag = field(default_factory=lambda: JobLag(None, note=NO_POSITION))

    def __str__(self) -> str:
        if self.epoch < 0:
            return f"job {self.job} has not run yet"
        behind = f"the source is at {self.newest}" if self.is_behind else "all is applied"
        lines = [f"job {self.job}: epoch {self.epoch}, position {self.position}, {behind}"]
        lines.append(f"    lag: {self.lag}")
        for table in self.tables:
            reason = f" ({table.reason})" if table.reason and table.phase != Phase.LIVE else ""
            lines.append(
                f"    {table.source} -> {table.target}: {table.phase}{reason},"
                f" {counted(table.rows, 'row')}, copied {counted(table.copies, 'time')}"
            )
        if self.quarantined:
            lines.append(f"    {counted(self.quarantined, 'row')} in the quarantine")
        lines += [f"    {name.replace('_', ' ')}: {value}" for name, value in self.source.items()]
        return "\n".join(lines)


class Sync:
    """A job of change data capture. For one thread.

    Made by :func:`tidelake.cdc.sync`, or by the function of a command, as
    :func:`tidelake.cdc.postgres_sync_database`.

    Attributes
    ----------
    progress : SyncProgress or None
        Follows the next run in this process.
    """

    def __init__(self, config: SyncConfig, ways: SecretWays, env: Env) -> None:
        self._config = config
        self._ways = ways
        self._env = env
        self.progress: SyncProgress | None = None

    @property
    def name(self) -> str:
        """The job's name."""
        return self._config.job

    def __repr__(self) -> str:
        return f"Sync({self._config.command}, job={self._config.job!r})"

    # ---- before

    def plan(self) -> SyncPlan:
        """Look at the source and the lake; nothing is changed.

        Raises
        ------
        StorageError
            The source does not answer.
        """
        parts = self._opened()
        try:
            every = parts.source.tables()
            state = parts.journal.load().state
            routes, refused = routes_of(state, every, parts.lake.targets.routes)
            wanted = [table for table in every if table.name in routes]
            findings = list(parts.source.check(wanted))
            findings += [
                SourceFinding("cdc_target_collision", error.message, is_error=False)
                for error in refused
            ]
            if not wanted:
                findings.append(
                    SourceFinding(
                        "cdc_no_tables",
                        "The source has no table that the job takes.",
                        "Look at the names and patterns of databases, schemas and tables.",
                    )
                )
            planned = tuple(
                self._planned(parts, state, target, tables)
                for target, tables in _by_target(wanted, routes).items()
            )
            left = tuple(
                f"{name}: {LEFT_OUT_REASON}; {state.tables[name].target} stays"
                for name in not_taken(state, parts.takes)
            )
            return SyncPlan(self.name, self._config.command, planned, tuple(findings), left)
        finally:
            parts.source.close()

    def _planned(
        self, parts: OpenedJob, state: JobState, target: str, tables: Sequence[SourceTable]
    ) -> PlannedTable:
        sources = tuple(str(table.name) for table in tables)
        versions = {table.name: table for table in tables}
        try:
            found = expected_target(parts.lake.targets, target, tables, _followed(state, versions))
        except TidelakeError as error:
            return PlannedTable(target, sources, problem=error.message)
        made = found.definition
        return PlannedTable(
            target,
            sources,
            tuple((field.name, str(field.type)) for field in made.fields),
            made.primary_keys,
            made.partition_keys,
            is_new=found.is_new,
            changes=tuple(change_text(change) for change in found.changes),
            notes=(*found.notes, *_copy_notes(state, versions, parts.source.kind)),
            problem="; ".join(found.reasons),
        )

    # ---- run

    def run(self, *, once: bool | None = None, watch: Watch | None = None) -> None:
        """Run the job: once, or until it is interrupted.

        Parameters
        ----------
        once : bool, optional
            Whether to end when all is applied that the source has now; by default as the job says.
        watch : callable, optional
            Called with each epoch and the job.

        Raises
        ------
        InvalidInputError
            The source is not fit to be read; the message has the statement that mends it.
        """
        parts = self._opened()
        job = parts.job()
        if self.progress is not None:
            parts.lake.copy_watch = self.progress.copied
        try:
            self._check(parts)
            self._tell(job.start(), job, watch)
            if self._config.is_once if once is None else once:
                job.run_once(lambda done: self._tell(done, job, watch))
            else:
                while True:
                    self._tell(job.step(), job, watch)
        finally:
            job.close()

    def _tell(self, done: EpochDone | None, job: SyncJob, watch: Watch | None) -> None:
        if done is not None and watch is not None:
            watch(done, job)
        if self.progress is not None and done is not None:
            self.progress.epoch_done(done, job)
        elif self.progress is not None:
            self.progress.looked()

    def _check(self, parts: OpenedJob) -> None:
        """Refuse a source that is not fit, before the first byte."""
        every = parts.source.tables()
        state = parts.journal.load().state
        routes, _ = routes_of(state, every, parts.lake.targets.routes)
        wanted = [table for table in every if table.name in routes]
        found = parts.source.check(wanted)
        copies = self._config.resnapshots_if_lost
        errors = [one for one in found if one.is_error and not (copies and one.is_lost_position)]
        if errors:
            said = "; ".join(
                f"{one.message}{f' Run: {one.mend}' if one.mend else ''}" for one in errors
            )
            message = f"Job '{self.name}' cannot start: {said}"
            raise InvalidInputError(message, kind="cdc_source_unfit", job=self.name)
        if self._config.ignores_incompatible:
            return
        if any(one.copies_count for one in state.tables.values()):
            return  # a table that no longer fits, or that is new and does not fit, is suspended
        for target, tables in _by_target(wanted, routes).items():
            followed = _followed(state, {table.name: table for table in tables})
            if len(followed) < len(tables):
                check_target(parts.lake.targets, target, tables, followed)

    # ---- while it runs, and after

    def status(self) -> SyncStatus:
        """Read how the job is."""
        parts = self._opened()
        try:
            progress = parts.journal.load()
            entry = progress.entry
            position = "" if entry is None else entry.start
            facts = parts.source.status()
            newest = parts.source.newest()
            is_behind = not position or parts.source.is_before(position, newest)
            lag = JobLag(None, note=NO_POSITION)
            if entry is not None and position:
                lag = job_lag(
                    parts.source.lag(position, newest),
                    is_behind=is_behind,
                    start_ms=entry.start_ms,
                    now_ms=self._env.clock.now_ms(),
                )
            tables = tuple(
                TableStatus(
                    str(name),
                    one.target,
                    str(one.phase),
                    one.rows_count,
                    one.copies_count,
                    one.changed_ms,
                    one.reason,
                )
                for name, one in progress.state.tables.items()
            )
            return SyncStatus(
                self.name,
                -1 if entry is None else entry.epoch,
                None if entry is None else entry.begun_ms,
                position,
                newest,
                is_behind,
                tables,
                progress.state.quarantined_count,
                facts,
                lag,
            )
        finally:
            parts.source.close()

    def slots(self) -> list[SlotStatus]:
        """Give what makes the source keep its log, with what is wrong with it.

        Returns
        -------
        list of SlotStatus
            Of PostgreSQL all replication slots of the server, the job's first. MySQL and Kafka keep
            their log by age alone: none.
        """
        parts = self._opened()
        try:
            return [self._missed(one, parts) for one in parts.source.slots()]
        finally:
            parts.source.close()

    def _missed(self, slot: SlotStatus, parts: OpenedJob) -> SlotStatus:
        """Of a slot that is not there: whether the job that began with it needs it."""
        if slot.status != MISSING or parts.journal.load().entry is None:
            return slot
        mend = "Run the job with --on-lost-position resnapshot, or end it by tidelake cdc drop"
        return replace(slot, problem="the job's slot is gone", mend=mend)

    def held(self) -> list[str]:
        """Say where the next run goes on, and what the source holds until then, a sentence each.

        For a job that is stopped.
        """
        parts = self._opened()
        try:
            entry = parts.journal.load().entry
            if entry is None or not entry.start:
                begun = "It has no position yet: the next run copies its tables."
            else:
                begun = f"The next run goes on from {entry.start}."
            return [begun, *parts.source.held("" if entry is None else entry.start)]
        finally:
            parts.source.close()

    def epochs(self) -> pa.Table:
        """List the epochs that are complete and in the journal, with the snapshots that belong to.

        Returns
        -------
        pyarrow.Table
            ``epoch``, ``kind``, ``start``, ``end``, ``begun``, ``is_whole`` (null where the source
            tells no transactions), ``note`` (why it is not whole) and ``snapshots``, a map from
            target to snapshot id; oldest first.
        """
        parts = self._opened()
        try:
            return self._epoch_reads(parts).epochs()
        finally:
            parts.source.close()

    def at_epoch(self, epoch: int | None = None) -> EpochTables:
        """Give all targets as one epoch left them, so that a transaction is seen whole.

        Parameters
        ----------
        epoch : int, optional
            By default the newest that ends between two transactions of the source.

        Returns
        -------
        EpochTables
            A mapping from ``database.table`` to a table that reads its snapshot.

        Raises
        ------
        NotFoundError
            There is no such epoch in the journal, or a snapshot of it has expired.
        """
        parts = self._opened()
        try:
            return self._epoch_reads(parts).at(epoch)
        finally:
            parts.source.close()

    def _epoch_reads(self, parts: OpenedJob) -> EpochReads:
        user = job_settings(self._config).user
        records = parts.journal.history()
        return EpochReads(parts.catalog, self.name, user, parts.source, records)

    def resnapshot(self, table: str) -> None:
        """Ask that a table of the source is copied again.

        Parameters
        ----------
        table : str
            As :meth:`status` names it, or its target.

        Raises
        ------
        NotFoundError
            The job has no such table.
        InvalidInputError
            The job has left it out, or another table whose rows the copy would take away.
        """
        parts = self._opened()
        try:
            state = parts.journal.load().state
            names = self._named(table, state)
            self._check_alone(names, state, parts.catalog)
            parts.journal.ask(names)
        finally:
            parts.source.close()

    def replay(self, table: str | None = None) -> ReplayPlan:
        """Ask that rows of the quarantine are tried again, once the target or the source is mended.

        The job takes the request up when it looks, or at its next start: a running job alone may
        write to the tables.

        Parameters
        ----------
        table : str, optional
            As :meth:`status` names it, or its target; all by default.

        Returns
        -------
        ReplayPlan
            What would become of each row now, with the reason of those that stay.

        Raises
        ------
        NotFoundError
            The job has no such table.
        """
        parts = self._opened()
        try:
            state = parts.journal.load().state
            names = list(state.tables) if table is None else self._named(table, state)
            user = job_settings(self._config).user
            plan = parts.lake.replay(user).plan(state, names)
            if plan.fitting or plan.outdated:
                parts.journal.ask(names, REPLAY)
            return plan
        finally:
            parts.source.close()

    def _named(self, table: str, state: JobState) -> list[SourceName]:
        """The tables of the source under a name, which may be a target's."""
        names = [
            name
            for name, one in state.tables.items()
            if table in (str(name), one.target) and one.phase not in (Phase.GONE, Phase.LEFT_OUT)
        ]
        left = [n for n, one in state.tables.items() if one.phase is Phase.LEFT_OUT]
        if not names and any(table in (str(n), state.tables[n].target) for n in left):
            message = (
                f"Job '{self.name}' has left '{table}' out: {LEFT_OUT_REASON}. Let them take it,"
                " and start the job: it copies the table anew."
            )
            raise InvalidInputError(message, kind="cdc_table_left_out", job=self.name, table=table)
        if not names:
            known = ", ".join(str(name) for name in state.tables) or "none yet"
            message = f"Job '{self.name}' has no table '{table}'. It has: {known}."
            raise NotFoundError(message, kind="cdc_no_table", job=self.name, table=table)
        return names

    def _check_alone(self, names: Sequence[SourceName], state: JobState, catalog: Catalog) -> None:
        """Refuse to copy a target that has rows of tables which are left out."""
        for target in dict.fromkeys(state.tables[name].target for name in names):
            others = not_followed(state, target, besides=names)
            left = [name for name in others if state.tables[name].phase is Phase.LEFT_OUT]
            if left and catalog.table_exists(target):
                message = (
                    f"Table '{target}' has rows of {left[0]}, too, which job '{self.name}' has left"
                    f" out: {LEFT_OUT_REASON}. A copy would take them away. Let them take"
                    f" {left[0]}, or drop '{target}' first."
                )
                raise InvalidInputError(
                    message, kind="cdc_target_shared", job=self.name, table=target
                )

    def drop(self) -> list[str]:
        """End the job for good: what it made in the source goes, and its journal; tables stay.

        Returns
        -------
        list of str
            What was removed, a line each.
        """
        parts = self._opened()
        try:
            said = parts.source.drop()
            parts.journal.remove()
            return [*said, f"removed the journal of job '{self.name}'"]
        finally:
            parts.source.close()

    def _opened(self) -> OpenedJob:
        return opened(self._config, self._ways, self._env)


def _followed(
    state: JobState, tables: Mapping[SourceName, SourceTable]
) -> dict[SourceName, SourceTable]:
    """The versions of tables that the job has copied, and has not left."""
    return {
        name: one.version
        for name, one in state.tables.items()
        if name in tables and one.copies_count and one.phase not in (Phase.GONE, Phase.LEFT_OUT)
    }


def _copy_notes(
    state: JobState, tables: Mapping[SourceName, SourceTable], kind: str
) -> Iterator[str]:
    """What is said of tables that the job copies again, or does not follow."""
    for name, one in state.tables.items():
        if name not in tables or not one.copies_count:
            continue
        if one.phase is Phase.LEFT_OUT:
            has_copies = kind != "kafka"
            then = "is copied anew" if has_copies else "lacks what came meanwhile"
            yield f"{name} was left out, and {then}."
        elif one.phase is Phase.COPYING:
            yield f"{name} is copied again: {one.reason}."
        elif one.phase is Phase.SUSPENDED:
            yield f"{name} is suspended: {one.reason}. Copy it by tidelake cdc resnapshot."


def _by_target(
    tables: Sequence[SourceTable], routes: Mapping[SourceName, str]
) -> dict[str, list[SourceTable]]:
    found: dict[str, list[SourceTable]] = {}
    for table in tables:
        found.setdefault(routes[table.name], []).append(table)
    return found
