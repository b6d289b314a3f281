"""One job: epochs from a source to the tables in the lake, once each, whatever stops it.

1. Start: read the journal. A new job copies its tables first; a copy that a crash cut off begins
   anew. Otherwise the newest entry's epoch is applied again, exactly to the end that it names.
2. An epoch: read on from the position, choose the end, put the journal's entry, apply.
3. Tell the source that everything before the newest entry is safe. Not more: the entry's own epoch
   may have to be read again.
4. Tables that must be copied again, and new ones, are copied between two epochs. Their changes up
   to the copy are left out, as the copy has them.

The end of a copy is the position where the log goes on. It is put as an empty epoch at once, so
that a crash after a copy does not repeat it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

from tidelake.cdc.evolution.ddl_entry import DdlEntry
from tidelake.cdc.job.lake import LakeWriter
from tidelake.cdc.job.position_times import PositionTimes
from tidelake.cdc.job.table_set import LEFT_OUT_REASON, joining, not_taken, routes_of, without
from tidelake.cdc.journal.entry import EntryKind, JournalEntry
from tidelake.cdc.journal.job_state import JobState, Phase, SyncedTable
from tidelake.cdc.journal.journal import REPLAY, Journal
from tidelake.cdc.source.changes import Changes
from tidelake.cdc.source.source import EpochLimits, Source
from tidelake.cdc.source.source_table import SourceName, SourceTable
from tidelake.cdc.target.epoch_step import EpochStep
from tidelake.engine.env import Env
from tidelake.engine.streams import CDC_USER
from tidelake.errors import ConflictError, CorruptError, InvalidInputError, NotFoundError

IDLE_MS = 10_000
"""How often an idle job puts an epoch without rows, so that the source may forget its log."""
TABLES_LOOK_MS = 60_000
"""How often new tables of the source are looked for."""
ASKED_LOOK_MS = 5_000
"""How often requests of people are looked for."""
COPY_TRIES = 6
COPY_WAIT_MS = 100
"""Before the second try; it doubles."""
_LOG = logging.getLogger("tidelake")


@dataclass(frozen=True, slots=True)
class JobSettings:
    """How a job runs.

    Parameters
    ----------
    name : str
        Names the journal, and the user of the commits.
    limits : EpochLimits
        When an epoch ends.
    takes_new_tables : bool
        Whether tables that appear in the source join while the job runs, or at its next start.
    resnapshots_if_lost : bool
        What to do if the source no longer has the position: copy all tables again, or fail.
    """

    name: str
    limits: EpochLimits = field(default_factory=EpochLimits)
    takes_new_tables: bool = True
    resnapshots_if_lost: bool = False

    @property
    def user(self) -> str:
        """The user of the job's commits."""
        return f"{CDC_USER}{self.name}"


@dataclass(frozen=True, slots=True)
class EpochDone:
    """One epoch that was applied, for those who watch.

    Parameters
    ----------
    rows_count : int
        Changed rows.
    position, newest : str
        Where the job is, and the newest position of the source that is known.
    committed_ms : int or None
        When the source committed the epoch's last transaction.
    ddl : tuple of DdlEntry
        Changes of schemas that it made.
    """

    epoch: int
    kind: EntryKind
    rows_count: int
    position: str
    newest: str
    committed_ms: int | None = None
    ddl: tuple[DdlEntry, ...] = ()


class SyncJob:
    """A running job. For one thread: :meth:`start`, then :meth:`step` again and again."""

    def __init__(
        self, settings: JobSettings, source: Source, journal: Journal, lake: LakeWriter, env: Env
    ) -> None:
        self._settings = settings
        self._source = source
        self._journal = journal
        self._lake = lake
        self._env = env
        self._run = env.ids.uuid()
        self.state = JobState()
        self.epoch = -1
        self.position = ""
        self._passed = ""
        """Up to here the log was read behind the position, and has nothing for the job."""
        self._times = PositionTimes(source.is_before)
        self._put_ms = 0
        self._is_done = False
        """Whether the newest entry's epoch is applied."""
        self._is_said = False
        """Whether the newest entry has no rows, so that it says what is applied."""
        self._looked_ms = 0
        self._asked_ms = -float(ASKED_LOOK_MS)
        self._cut_seconds = env.clock.monotonic_seconds()
        self._asked: tuple[int, ...] = ()
        self._replays: dict[int, tuple[SourceName, ...]] = {}
        """Requests that rows of the quarantine are tried again."""
        self._refused: set[str] = set()
        """Why new tables did not join, as was said."""

    # ---- start

    def start(self) -> EpochDone | None:
        """Take the job up where its journal stands; gives the epoch that was applied again.

        Raises
        ------
        InvalidInputError
            The source is another one than the journal's, or cannot be read as it is set up; or the
            journal lacks what the tables have.
        """
        progress = self._journal.load()
        self.state = progress.state
        identity = self._source.identity()
        if self.state.source not in ("", identity):
            message = (
                f"Job '{self._settings.name}': the source is not the one that it has followed"
                f" ({self.state.source}, now {identity}): it was restored, promoted or replaced, so"
                " its log may lack changes. Begin anew with another name of the job, which copies"
                " the tables again."
            )
            raise InvalidInputError(message, kind="cdc_source_changed", job=self._settings.name)
        self.state = replace(self.state, source=identity)
        entry = progress.entry
        if entry is None:
            self.epoch = progress.dropped_epoch
            return self._first_copy()
        self.state = self._lake.matched(entry, self.state, self._settings.user)
        self.epoch, self.position = entry.epoch, entry.start
        self._times.begin(entry.start_ms)
        done = None
        if entry.kind is not EntryKind.COPY:
            try:
                for position in (entry.start, entry.end):
                    self._source.check_position(position)
                done = self._again(entry)
            except NotFoundError as error:
                if not self._may_copy_all(error):
                    raise
                self._leave_out()
                return self._copy_all()
        left = self._leave_out()
        self._take_new_tables()
        if entry.kind is EntryKind.COPY or self._has_waiting():
            return self._copy_waiting()
        if left:
            self._prepare({table.name for table in self._source.tables()})
            self._put(EntryKind.CHANGES, self.position)
        return done

    def _may_copy_all(self, error: NotFoundError) -> bool:
        return self._settings.resnapshots_if_lost and error.kind == "cdc_position_lost"

    # ---- epochs

    def step(self, *, wait_ms: int | None = None) -> EpochDone | None:
        """Do one epoch; None if the source had nothing new.

        Parameters
        ----------
        wait_ms : int, optional
            How long to wait for the first change; by default as the limits say.
        """
        self._look_for_requests()
        if self._has_waiting():
            return self._copy_waiting()
        self._look_for_tables()
        if self._has_waiting():
            return self._copy_waiting()
        if self._replays:
            return self._replay()
        limits = self._settings.limits
        # what came while the last epoch was applied has been gathered since its end
        passed_ms = int((self._env.clock.monotonic_seconds() - self._cut_seconds) * 1_000)
        gather_ms = max(0, limits.gather_ms - max(0, passed_ms))
        limits = replace(limits, gather_ms=gather_ms)
        if wait_ms is not None:
            limits = replace(limits, wait_ms=wait_ms)
        try:
            changes = self._read_on(limits)
        except NotFoundError as error:
            if not self._may_copy_all(error):
                raise
            return self._copy_all()
        if changes.appeared:
            self._take_appeared()
            if changes.end == self.position:
                return self.step(wait_ms=wait_ms)
        if changes.end == self.position:
            return None
        is_idle = not changes.parts and not self._has_waiting()
        if is_idle and self._env.clock.now_ms() - self._put_ms < IDLE_MS:
            self._passed = changes.end
            return None
        self._put(EntryKind.CHANGES, changes.end)
        return self._apply(changes)

    def run_once(self, watch: Callable[[EpochDone], None] | None = None) -> None:
        """Apply what the source has at this moment."""
        newest = self._source.newest()
        while self.has_more(newest):
            done = self.step_to(newest)
            if done is not None and watch is not None:
                watch(done)

    def has_more(self, newest: str) -> bool:
        """Look whether tables wait to be copied, or the source has more up to a position.

        Requests of people and new tables are taken up where it is time to look for them.
        """
        return self._is_asked() or self._source.is_before(self.position, newest)

    @property
    def read_to(self) -> str:
        """To where the log was read: the position, or behind it where nothing was for the job."""
        return self._passed or self.position

    def has_unread(self, newest: str) -> bool:
        """As :meth:`has_more`, but what was read and has nothing for the job is not more."""
        return self._is_asked() or self._source.is_before(self.read_to, newest)

    def step_to(self, newest: str) -> EpochDone | None:
        """Do one epoch, or pass over a part of the log without changes, up to a position."""
        done = self.step()
        if done is None:
            self._put_idle(newest)
        return done

    def close(self) -> None:
        """Say how far everything is safe, and end the connections.

        An epoch that an error cut off is not done: the next run applies it again. A run that
        applied nothing puts nothing: it may have been refused beside another one.
        """
        try:
            if self._is_done and not self._is_said:
                self._put(EntryKind.CHANGES, self.position)
        finally:
            self._source.close()

    def _followed(self) -> list[SourceName]:
        return [
            name
            for name, one in self.state.tables.items()
            if one.phase in (Phase.LIVE, Phase.SUSPENDED)
        ]

    def _put(self, kind: EntryKind, end: str) -> None:
        """Begin an epoch; then what lies before it is safe."""
        now = self._env.clock.now_ms()
        entry = JournalEntry(
            self.epoch + 1, kind, self.position, end, self._run, now, start_ms=self._times.start_ms
        )
        self._is_done = False
        self._journal.append(entry, self.state)
        self.epoch, self._put_ms = entry.epoch, now
        self._is_done = self._is_said = end == self.position and kind is EntryKind.CHANGES
        if self.position:
            self._source.confirm(self.position)

    def _put_idle(self, newest: str) -> None:
        """Pass over a part of the log without changes."""
        limits = replace(self._settings.limits, wait_ms=0, gather_ms=0)
        changes = self._read_on(limits)
        if changes.appeared:
            self._take_appeared()
        if changes.end == self.position or not self._source.is_before(self.position, newest):
            return
        self._put(EntryKind.CHANGES, changes.end)
        self._apply(changes)

    def _read_on(self, limits: EpochLimits) -> Changes:
        """Read the log on from where it was read; gives all from the position.

        A source that is read from another place than where its last read ended connects again.
        """
        began_ms = self._env.clock.now_ms()
        changes = self._source.read(
            self.read_to,
            self._followed(),
            limits,
            key_columns=self._key_columns,
        )
        self._times.read(changes, began_ms)
        self._cut_seconds = self._env.clock.monotonic_seconds()
        return replace(changes, start=self.position)

    def _key_columns(self, version: SourceTable) -> frozenset[str]:
        return self._lake.targets.key_columns(version, self.state)

    def _again(self, entry: JournalEntry) -> EpochDone | None:
        if entry.end == entry.start:
            self._is_done = self._is_said = True
            return None
        began_ms = self._env.clock.now_ms()
        changes = self._source.read(
            entry.start,
            self._followed(),
            self._settings.limits,
            end=entry.end,
            key_columns=self._key_columns,
        )
        if changes.end != entry.end:  # the end is a part of the commits' identity
            message = (
                f"Job '{self._settings.name}': the source gave epoch {entry.epoch} again up to"
                f" {changes.end}, where it ended at {entry.end}. Report this as a bug."
            )
            raise CorruptError(message, kind="cdc_position", job=self._settings.name)
        self._times.read(changes, began_ms)
        return self._apply(changes)

    def _apply(self, changes: Changes) -> EpochDone:
        step = EpochStep(self._settings.user, self.epoch, changes.start, changes.end)
        result = self._lake.apply(changes, step, self.state)
        self.state, self.position, self._passed = result.state, changes.end, ""
        self._times.applied()
        self._is_done, self._is_said = True, False
        return EpochDone(
            self.epoch,
            EntryKind.CHANGES,
            result.rows_count,
            self.position,
            changes.newest,
            changes.committed_ms,
            result.ddl,
        )

    def _replay(self) -> EpochDone:
        """Try rows of the quarantine again, in an epoch of their own."""
        numbers, names = tuple(self._replays), {n for one in self._replays.values() for n in one}
        self._replays = {}
        replay = self._lake.replay(self._settings.user)
        plan = replay.plan(self.state, names)
        for row, reason in plan.staying:
            _LOG.warning(
                "Job '%s': a row of %s stays in the quarantine: %s",
                self._settings.name,
                row.source_table,
                reason,
            )
        if plan.fitting or plan.outdated:
            self._put(EntryKind.REPLAY, self.position)
            step = EpochStep.of_replay(self._settings.user, self.epoch, self._run)
            self.state = replay.apply(plan, step, self.state)
            self._is_done, self._is_said = True, False
        self._journal.answered(numbers, REPLAY)
        return EpochDone(
            self.epoch, EntryKind.REPLAY, len(plan.fitting), self.position, self.position
        )

    # ---- copies

    def _is_asked(self) -> bool:
        """Look whether there is something to do besides the log."""
        self._look_for_requests()
        self._look_for_tables()
        return self._has_waiting() or bool(self._replays)

    def _has_waiting(self) -> bool:
        return any(one.phase is Phase.COPYING for one in self.state.tables.values())

    def _look_for_requests(self) -> None:
        """Take up what people asked for."""
        now = self._env.clock.monotonic_seconds() * 1_000
        if now - self._asked_ms < ASKED_LOOK_MS:
            return
        self._asked_ms = now
        self._replays = self._journal.asked(REPLAY)
        asked = self._journal.asked()
        wanted = {name for names in asked.values() for name in names}
        targets = {one.target for name, one in self.state.tables.items() if name in wanted}
        for name, table in self.state.tables.items():
            # a copy replaces all rows of a target, so those that share it come along
            if table.target in targets and table.phase not in (Phase.GONE, Phase.LEFT_OUT):
                again = replace(
                    table, phase=Phase.COPYING, reason="it was asked for", is_bounded=False
                )
                self.state = self.state.with_table(name, again)
        self._asked = tuple(asked)

    def _look_for_tables(self) -> None:
        """Let new tables of the source join, now and then."""
        now = self._env.clock.now_ms()
        if self._settings.takes_new_tables and now - self._looked_ms >= TABLES_LOOK_MS:
            self._take_new_tables()

    def _take_appeared(self) -> None:
        if self._settings.takes_new_tables:
            self._take_new_tables()

    def _takes(self, name: SourceName) -> bool:
        """Whether the arguments take a table."""
        return self._source.reads(name) and self._lake.targets.takes(name)

    def _leave_out(self) -> bool:
        """Leave out the tables that the arguments no longer take, if there are any."""
        names = not_taken(self.state, self._takes)
        for name in names:
            _LOG.warning(
                "Job '%s': table %s is left out: %s", self._settings.name, name, LEFT_OUT_REASON
            )
        self.state = without(self.state, names)
        return bool(names)

    def _take_new_tables(self) -> None:
        self._looked_ms = self._env.clock.now_ms()
        every = self._source.tables()
        routes, refused = routes_of(self.state, every, self._lake.targets.routes)
        for error in refused:
            if error.message not in self._refused:
                self._refused.add(error.message)
                _LOG.warning("Job '%s': %s", self._settings.name, error.message)
        found = joining(self.state, every, routes)
        known_targets = {one.target for one in self.state.tables.values()}
        new = {one.target for one in found.values()} - known_targets
        self._lake.check_new(new, self.epoch, self._settings.user)
        for name, one in found.items():
            _LOG.info("Job '%s': table %s joins: %s", self._settings.name, name, one.reason)
            self.state = self.state.with_table(name, one)
        tables = self.state.tables.values()
        if tables and all(one.phase is Phase.LEFT_OUT for one in tables):
            raise self._no_tables()

    def _no_tables(self) -> InvalidInputError:
        message = (
            f"Job '{self._settings.name}': the source has no table that the job takes. Look at the"
            " names and patterns of databases, schemas and tables."
        )
        return InvalidInputError(message, kind="cdc_no_tables", job=self._settings.name)

    def _prepare(self, now: Collection[SourceName]) -> None:
        """Let the log have the tables of the job that are there."""
        self._source.prepare(
            [
                name
                for name, one in self.state.tables.items()
                if name in now and one.phase not in (Phase.GONE, Phase.LEFT_OUT)
            ]
        )

    def _first_copy(self) -> EpochDone:
        every = self._source.tables()
        routes = self._lake.targets.routes(every)
        if not routes:
            raise self._no_tables()
        self._lake.check_new(set(routes.values()), self.epoch, self._settings.user)
        for table in every:
            target = routes.get(table.name)
            if target is not None:
                self.state = self.state.with_table(
                    table.name, SyncedTable(target, Phase.COPYING, table, reason="the job is new")
                )
        self._looked_ms = self._env.clock.now_ms()
        return self._copy_waiting()

    def _copy_all(self) -> EpochDone:
        """Begin anew: the position is lost."""
        _LOG.warning("Job '%s': its position is lost: tables are copied", self._settings.name)
        self.position = ""
        self._times.begin(None)
        for name, one in self.state.tables.items():
            if one.phase not in (Phase.GONE, Phase.LEFT_OUT):
                again = replace(
                    one, phase=Phase.COPYING, reason="the position was lost", is_bounded=False
                )
                self.state = self.state.with_table(name, again)
        return self._copy_waiting()

    def _copy_waiting(self) -> EpochDone:
        """Copy the tables that wait for it, as they are now.

        Raises
        ------
        ConflictError
            The tables were altered or truncated during each try.
        """
        for attempt in range(COPY_TRIES):
            try:
                return self._copy_once()
            except ConflictError as error:
                if error.kind != "cdc_copy_disturbed" or attempt == COPY_TRIES - 1:
                    raise
                _LOG.warning("Job '%s': %s", self._settings.name, error.message)
                self._env.clock.sleep_ms(COPY_WAIT_MS << attempt)
        raise AssertionError("the last try returns or raises")

    def _copy_once(self) -> EpochDone:
        self._passed = ""
        now = {table.name: table for table in self._source.tables()}
        names = []
        for name, one in self.state.tables.items():
            if one.phase is not Phase.COPYING:
                continue
            if name in now:
                names.append(name)
                self.state = self.state.with_table(name, replace(one, version=now[name]))
            else:
                gone = replace(one, phase=Phase.GONE, reason="it was dropped before its copy")
                self.state = self.state.with_table(name, gone)
        if not names:
            self._put(EntryKind.CHANGES, self.position)
            return EpochDone(self.epoch, EntryKind.COPY, 0, self.position, self.position)
        self._prepare(now)
        self._put(EntryKind.COPY, self.position)
        self._journal.answered(self._asked)
        self._asked = ()
        is_start = not self.position and not any(
            one.copies_count for one in self.state.tables.values()
        )
        began_ms = self._env.clock.now_ms()
        with self._source.first_copy(names, is_start=is_start) as copy:
            self._check_versions(names)
            step = EpochStep.of_copy(self._settings.user, self.epoch, copy.position)
            result = self._lake.copy(copy, names, step, self.state)
            self.state = result.state
            if not self.position:
                self.position = copy.position
                self._times.begin(began_ms)
        self._put(EntryKind.CHANGES, self.position)
        return EpochDone(
            self.epoch,
            EntryKind.COPY,
            result.rows_count,
            self.position,
            self.position,
            ddl=result.ddl,
        )

    def _check_versions(self, names: Sequence[SourceName]) -> None:
        """Refuse a copy whose position lies behind a change of schema that we do not know.

        The log tells changes behind the position alone.
        """
        now = {table.name: table for table in self._source.tables()}
        for name in names:
            if now.get(name) != self.state.tables[name].version:
                message = f"{name} was altered while its copy began. Copy it again."
                raise ConflictError(message, kind="cdc_copy_disturbed", table=str(name))
