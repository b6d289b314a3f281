"""Seeded runs of several processes on one table, which meet at every call to the storage.

A run draws a table of any kind and goes in rounds. In each one two to four processes act: upserts,
deletes, updates, overwrites, repeats of a commit that was made or cut short, compactions, expiries,
tags, rollbacks, drop (or rename) and create, reads. One of them is stopped at a chosen moment:
before its snapshot is put, right after it, before the hint, between its rows and their compaction,
at any call. The others act, and then it goes on or dies; or all go on by turns. Behind every call
:class:`proving.lineage.Lineage` checks what must be there; now and then, and after each round,
somebody reads. After the rounds all that a table can do must work.

The same seed gives the same run: :attr:`Meeting.trace` says who did what when.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from proving.fsck import FsckError, check_table
from proving.lineage import Broken, Effect, Lineage, State, Watched, difference
from proving.model import MergedTable, ModelTable, Row
from proving.reach import missing
from proving.turns import NeverEnds, Process, take_turns
from proving.world import (
    LOCATION,
    NAME,
    Shape,
    arrow_of,
    content_of,
    draw_rows,
    draw_shape,
    in_clusters,
    open_catalog,
)
from tidelake import col
from tidelake.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidInputError,
    NotFoundError,
    OutcomeUnknownError,
    TidelakeError,
)
from tidelake.fileio import FileIO
from tidelake.telemetry import ManualClock
from tidelake.testing import SimulatedCrash

ROUNDS = 6
SLOTS = 4
"""Processes that live on from round to round, each with keys of its own."""
OPERATIONS = (
    ("upsert", 30),
    ("delete", 10),
    ("update", 6),
    ("overwrite", 6),
    ("replay", 12),
    ("compact", 8),
    ("compact_full", 5),
    ("expire", 6),
    ("tag", 10),
    ("delete_tag", 3),
    ("roll_back", 14),
    ("create_anew", 7),
    ("read", 14),
    ("travel", 4),
)
SLOW = frozenset({"upsert", "delete", "update", "overwrite", "replay", "compact", "read"})
"""Operations that are stopped in their midst."""
WRITES = frozenset({"upsert", "delete", "update", "overwrite", "replay"})
COMPACTS = frozenset({"compact", "compact_full"})
DEATH_SHARE = 0.25


@dataclass
class Slot:
    """What a process keeps from one operation to the next: its catalog, an open table."""

    number: int
    catalog: object = None
    table: object = None
    table_number: int = 0
    files: _Switch = field(default_factory=lambda: _Switch())


class _Switch:
    """The storage as the process sees it that runs now in a slot."""

    def __init__(self) -> None:
        self.now: object = None

    def __getattr__(self, name: str) -> Callable:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.now, name)


@dataclass
class Job:
    """An operation that was drawn."""

    name: str
    slot: Slot
    do: Callable[[], object]
    effect: Effect | None = None
    began: int = 0
    """Place in the lineage's history where it begins."""
    table_number: int = 0
    """Of the table that it works on; 0 before it has opened one."""
    target: State | None = None
    """What a rollback goes back to."""
    held: State | None = None
    """What a read of an older snapshot holds."""
    branch: str | None = None
    """The branch that it makes, writes or deletes."""
    models: list[ModelTable] = field(default_factory=list)
    """What that branch holds behind it."""
    halfway: list[ModelTable] = field(default_factory=list)
    """What the branch may hold if it ends in between."""
    process: Process = None


@dataclass(frozen=True)
class Commit:
    """Rows of one identity, to be written once however often it is tried."""

    number: int
    rows: list[Row]
    deletes: list[bool] | None


class Meeting:
    """One seeded run."""

    operations: tuple[tuple[str, int], ...] = OPERATIONS
    slow: frozenset[str] = SLOW
    probe_share = 0.02
    """Of all calls, those behind which somebody reads the newest state."""
    stops_at_a_call = 1
    """How often of five and these a process is stopped at any call, and not beside a put."""

    def __init__(
        self,
        seed: int,
        *,
        shape: Shape | None = None,
        dated: bool = False,
        in_store: bool = False,
    ) -> None:
        self.seed = seed
        self.rng = random.Random(f"{seed} meeting")
        self.shape = self._draw_shape() if shape is None else shape
        self.clock = ManualClock(tick_ms=1)
        self.files = Watched(self.clock if dated else None, holds=not in_store)
        self.lineage = Lineage(self.files, self.shape)
        self.slots = [self._fresh(Slot(number)) for number in range(SLOTS)]
        self.reader = open_catalog(self.files, seed, clock=self.clock)
        self.commits: list[Commit] = []
        self.rows_drawn = 0
        self.jobs_count = 0
        self.schedules: list[int] = []
        """Of each schedule the number of its processes."""
        self.seen: State | None = None
        """The state that was read last."""
        self.trace: list[str] = []

    def _draw_shape(self) -> Shape:
        """A table of any kind, more often one whose level 0 is not like the others."""
        shape = draw_shape(random.Random(self.seed))
        for other in range(3):
            is_special = shape.engine == "first-row" or shape.option("deletion-vectors.enabled")
            if is_special or self.rng.random() < 0.6:
                break
            shape = draw_shape(random.Random(f"{self.seed} {other}"))
        return self._clustered(shape)

    def _clustered(self, shape: Shape) -> Shape:
        """Some tables are clustered, by a draw of their own: half of those without buckets."""
        if shape.keys:
            return in_clusters(shape, random.Random(f"{self.seed} clustered"), share=0.3)
        is_unbucketed = not shape.keys and shape.option("bucket") == "-1"
        if not is_unbucketed or random.Random(f"{self.seed} clustered").random() < 0.5:
            return shape
        options = {
            "clustering.columns": "k,n",
            "clustering.incremental": "true",
            "num-sorted-run.compaction-trigger": "2",
        }
        return replace(shape, options=(*shape.options, *options.items()))

    def _fresh(self, slot: Slot) -> Slot:
        seed = self.rng.randrange(2**31)
        slot.catalog = open_catalog(slot.files, seed, clock=self.clock)
        slot.table, slot.table_number = None, 0
        return slot

    def run(self, rounds: int = ROUNDS) -> None:
        try:
            self._together([self._job("create_anew", self.slots[0])])
            self._mend()
            for _ in range(rounds):
                self._round()
            self._all_works()
        except (Broken, FsckError, NeverEnds) as error:
            trace = "\n  ".join(self.trace[-40:])
            message = f"seed {self.seed}, shape {self.shape}: {error}\n  {trace}"
            raise Broken(message) from error

    # -- rounds ----------------------------------------------------------------------------------
    def _round(self) -> None:
        self._meet()
        if self.rng.random() < 0.5:
            name = self.rng.choice(["upsert", "compact", "expire", "roll_back", "read"])
            self._together([self._job(name, self.rng.choice(self.slots))])
            self._quiet()

    def _meet(self) -> None:
        """Several processes act, and then all is looked at."""
        names, weights = zip(*self.operations, strict=True)
        count = self.rng.choice([2, 2, 3, 4])
        slots = self.rng.sample(self.slots, k=count)
        drawn = self.rng.choices(names, weights, k=count)
        if self.rng.random() < 0.7:  # somebody slow, and more than a reader
            drawn[0] = self.rng.choice([n for n in drawn if n in self.slow] or ["upsert"])
        jobs = [self._job(name, slot) for name, slot in zip(drawn, slots, strict=True)]
        if self.rng.random() < 0.2:
            self.reader = open_catalog(self.files, self.seed, clock=self.clock)
        self._together(jobs)
        self._mend()
        self._quiet()

    def _together(self, jobs: Sequence[Job | None]) -> None:
        own = [job for job in jobs if job is not None]
        if not own:
            return
        self.schedules.append(len(own))
        for job in own:
            job.began = len(self.lineage.history) - 1
            name = f"{job.name}-{job.slot.number}"
            job.process = Process(name, self._storage_of(job), _doing(job))
        by_process = {id(job.process): job for job in own}
        choose = self._order(own)

        def after(process: Process) -> None:
            job = by_process[id(process)]
            done = process.before[0] if not process.is_done else "end"
            path = process.before[1].removeprefix(LOCATION)
            if done in ("put_if_absent", "replace", "delete", "delete_dir", "move_dir", "end"):
                self.trace.append(f"{process.name}: {done} {path}")
            self._behind(process)
            new = self.lineage.look(job.effect, job.target)
            for state in new:
                self._probe(state)
            if process.is_done:
                self._judge(job, own)
            elif self.rng.random() < self.probe_share:
                self._probe(None, beside=own)

        take_turns([job.process for job in own], choose, after)

    def _storage_of(self, job: Job) -> FileIO:
        """The storage as a process finds it."""
        del job
        return self.files

    def _behind(self, process: Process) -> None:
        """What must hold right behind a call of a process."""

    def _order(self, jobs: Sequence[Job]) -> Callable[[Sequence[Process]], Process]:
        """Who goes on: by turns, or the first is stopped at a moment until the others are done."""
        rng = self.rng
        stays = rng.choice([0.5, 0.9, 0.97])
        last: list[Process] = []
        slow, moment, dies = jobs[0], self._moment(), rng.random() < DEATH_SHARE
        stopped = len(jobs) > 1 and slow.name in self.slow and rng.random() < 0.75
        fatal = {id(job.process): rng.randrange(5, 150) for job in jobs if rng.random() < 0.05}
        if stopped:
            at = moment.__doc__ or ""
            self.trace.append(f"-- {[j.name for j in jobs]}: stop {at}{', dies' * dies}")
        else:
            self.trace.append(f"-- {[j.name for j in jobs]}: by turns, {stays}")
        is_stopped = False

        def choose(waiting: Sequence[Process]) -> Process:
            nonlocal is_stopped
            for process in waiting:
                if process.calls == fatal.get(id(process)):
                    process.dies = True
            if stopped and slow.process in waiting:
                is_stopped = is_stopped or moment(slow.process)
                others = [p for p in waiting if p is not slow.process]
                if not is_stopped or not others:
                    if is_stopped and dies and not others:
                        slow.process.dies = True
                    return slow.process
                waiting = others
            if not last or last[0] not in waiting or rng.random() > stays:
                last[:] = [rng.choice(waiting)]
            return last[0]

        return choose

    def _moment(self) -> Callable[[Process], bool]:
        """Whether a process is where it is to be stopped."""
        rng = self.rng
        turn, call = rng.choice([1, 1, 1, 2]), rng.randrange(1, 60)
        met = 0

        def times(is_met: bool) -> bool:
            nonlocal met
            met += is_met
            return met >= turn

        def before_put(process: Process) -> bool:
            """before it puts a snapshot"""
            return times(_is_put(process.about))

        def behind_put(process: Process) -> bool:
            """behind the put of a snapshot"""
            return times(_is_put(process.before))

        def before_hint(process: Process) -> bool:
            """before it writes a hint"""
            return times(process.about[0] == "replace" and process.about[1].endswith("/LATEST"))

        def behind_hint(process: Process) -> bool:
            """behind a hint"""
            return times(process.before[0] == "replace" and process.before[1].endswith("/LATEST"))

        def at_a_call(process: Process) -> bool:
            """at a call"""
            return process.calls >= call

        puts = [before_put, before_put, behind_put, before_hint, behind_hint]
        return rng.choice([*puts, *[at_a_call] * self.stops_at_a_call])

    # -- operations ------------------------------------------------------------------------------
    def _job(self, name: str, slot: Slot) -> Job | None:
        if slot.table is not None and self.rng.random() < 0.5:
            slot.table = None
        return getattr(self, f"_{name}")(slot)

    def _opened(self, job: Job):
        """The table, as the slot has it or opened now; called by the process."""
        slot = job.slot
        if slot.table is None:
            slot.table = slot.catalog.table(NAME)  # type: ignore[attr-defined]
            slot.table_number = self.lineage.table_number
        job.table_number = slot.table_number
        return slot.table

    def _of_table(self, name: str, slot: Slot, do: Callable, effect: Effect | None = None) -> Job:
        job = Job(name, slot, lambda: None, effect)
        job.do = lambda: do(self._opened(job))
        return job

    def _rows(self, slot: Slot, count: int, *, retract: bool = False) -> list[Row]:
        """Rows of the slot's own keys: which of two writers' rows wins is another question."""
        clock, self.rows_drawn = self.rows_drawn, self.rows_drawn + count
        rows = draw_rows(self.shape, self.rng, count, clock=clock, retract=retract)
        for row in rows:
            row["k"] = row["k"] - row["k"] % SLOTS + slot.number
        return rows

    def _written(self, name: str, slot: Slot, commit: Commit) -> Job:
        batch = arrow_of(self.shape, commit.rows)
        kinds = None
        if commit.deletes is not None:
            kinds = ["-D" if is_delete else "+I" for is_delete in commit.deletes]
        return self._of_table(
            name,
            slot,
            lambda table: table.write(
                batch, row_kinds=kinds, commit_user=f"job{commit.number}", commit_identifier=1
            ),
            Effect(commit.number, lambda model: model.apply(commit.rows, commit.deletes)),
        )

    def _number(self) -> int:
        self.jobs_count += 1
        return self.jobs_count

    def _upsert(self, slot: Slot) -> Job:
        rows = self._rows(slot, self.rng.choice([1, 3, 12]))
        self.commits.append(Commit(self._number(), rows, None))
        return self._written("upsert", slot, self.commits[-1])

    def _delete(self, slot: Slot) -> Job | None:
        rules, newest = self.shape.rules, self.lineage.newest
        if not self.shape.keys:
            value = self._key(slot)
            return self._of_table(
                "delete",
                slot,
                lambda table: table.delete(col("k") == value),
                Effect(self._number(), lambda model: model.remove("k", value)),
            )
        if rules.deletes not in ("remove", "ignore") or newest is None:
            return self._upsert(slot)
        if self.shape.sequence_field is not None and rules.deletes != "ignore":
            return self._upsert(slot)
        rows = self._rows(slot, self.rng.choice([1, 6]), retract=True)
        if isinstance(newest.model, MergedTable) and rules.deletes == "remove":
            rows = newest.model.retractable(rows)
        if not rows:
            return self._upsert(slot)
        self.commits.append(Commit(self._number(), rows, [True] * len(rows)))
        return self._written("delete", slot, self.commits[-1])

    def _key(self, slot: Slot) -> int:
        value = self.rng.randrange(-20, 20)
        return value - value % SLOTS + slot.number

    def _update(self, slot: Slot) -> Job | None:
        waits = self.shape.option("bucket") == "-2"
        refused = self.shape.engine in ("first-row", "aggregation") or waits
        if refused or not self.shape.rules.updates or self.shape.sequence_field is not None:
            return self._upsert(slot)
        value, text = self._key(slot), f"u{self.rng.randrange(100)}"
        return self._of_table(
            "update",
            slot,
            lambda table: table.update({"v": text}, col("k") == value),
            Effect(self._number(), lambda model: model.update("k", value, {"v": text})),
        )

    def _overwrite(self, slot: Slot) -> Job:
        if self.shape.keys_may_move and self.shape.engine != "deduplicate":
            # where a row goes, or whether, was found before what is overwritten at the same time
            return self._upsert(slot)
        rows, dynamic = self._rows(slot, 6), not self.shape.keys_may_move
        batch = arrow_of(self.shape, rows)
        options = None if dynamic else {"dynamic-partition-overwrite": "false"}
        return self._of_table(
            "overwrite",
            slot,
            lambda table: table.write(batch, mode="overwrite", options=options),
            Effect(self._number(), lambda model: model.overwrite(rows, dynamic=dynamic)),
        )

    def _replay(self, slot: Slot) -> Job | None:
        """Write a commit again, of which nobody knows how it ended, or that was made."""
        own = [c for c in self.commits[-8:] if c.rows[0]["k"] % SLOTS == slot.number]
        return self._written("replay", slot, self.rng.choice(own)) if own else self._upsert(slot)

    def _compact(self, slot: Slot) -> Job:
        return self._of_table("compact", slot, lambda table: table.compact())

    def _compact_full(self, slot: Slot) -> Job:
        return self._of_table("compact_full", slot, lambda table: table.compact(full=True))

    def _expire(self, slot: Slot) -> Job:
        kept = self.rng.choice([1, 2, 5])
        return self._of_table(
            "expire",
            slot,
            lambda table: table.maintenance.expire_snapshots(retain_max=kept, retain_min=1),
        )

    def _tag(self, slot: Slot) -> Job:
        name = f"t{self._number()}"
        ids = sorted(self.lineage.states)
        chosen = self.rng.choice(ids) if ids and self.rng.random() < 0.3 else None
        return self._of_table(
            "tag", slot, lambda table: table.tags.create(name, snapshot_id=chosen)
        )

    def _delete_tag(self, slot: Slot) -> Job | None:
        names = [name for name in sorted(self.lineage.tags) if name.startswith("t")]
        if not names:
            return self._tag(slot)
        name = self.rng.choice(names)
        if "-" in name:
            return None
        return self._of_table("delete_tag", slot, lambda table: table.tags.delete(name))

    def _roll_back(self, slot: Slot) -> Job | None:
        ids = sorted(self.lineage.states)
        tags = [n for n in sorted(self.lineage.tags) if not n.startswith("tidelake-")]
        if tags and self.rng.random() < 0.3:
            name = self.rng.choice(tags)
            job = self._of_table("roll_back", slot, lambda table: table.rollback_to(tag=name))
            job.target = self.lineage.tags[name]
            return job
        if not ids:
            return self._upsert(slot)
        target = self.rng.choice(ids[-4:])
        job = self._of_table("roll_back", slot, lambda table: table.rollback_to(snapshot_id=target))
        job.target = self.lineage.states[target]
        return job

    def _create_anew(self, slot: Slot) -> Job:
        catalog, away = slot.catalog, self.rng.random() < 0.3
        other = f"db.away{self._number()}"

        def do() -> None:
            if away:
                catalog.rename_table(NAME, other, if_missing="ignore")  # type: ignore[attr-defined]
            else:
                catalog.drop_table(NAME, if_missing="ignore")  # type: ignore[attr-defined]
            self.shape.create(catalog)

        return Job("create_anew", slot, do)

    def _read(self, slot: Slot) -> Job:
        ways = [content_of, content_of, lambda table: table.count()]
        return self._of_table("read", slot, self.rng.choice(ways))

    def _travel(self, slot: Slot) -> Job:
        if not self.lineage.states:
            return self._read(slot)
        snapshot_id = self.rng.choice(sorted(self.lineage.states))
        expected = self.lineage.states[snapshot_id]

        def do(table) -> tuple[State, list[Row]]:
            return expected, content_of(table, snapshot_id=snapshot_id)

        return self._of_table("travel", slot, do)

    # -- what is checked -------------------------------------------------------------------------
    def _probe(self, state: State | None, beside: Sequence[Job] = ()) -> None:
        """Somebody opens the table this very moment and reads a state, or the newest one."""
        newest = self.lineage.newest
        if state is not None and state.is_stale:
            return
        if newest is None or newest.is_stale:
            return
        if any(s.is_stale for s in self.lineage.states.values()):
            return
        expected = newest if state is None else state
        selection = {} if state is None else {"snapshot_id": state.snapshot_id}
        what = f"a reader of snapshot {expected.snapshot_id}"
        try:
            table = self.reader.table(NAME)
            got = content_of(table, **selection)
        except NotFoundError as error:
            if any(job.name in ("create_anew", "expire", "roll_back") for job in beside):
                return  # while it is being dropped
            raise Broken(f"{what} fails: {error!r}") from error
        except TidelakeError as error:
            raise Broken(f"{what} fails: {error!r}") from error
        if got != expected.content:
            raise Broken(f"{what} sees {difference(got, expected.content)}")
        self.seen = expected

    def _judge(self, job: Job, beside: Sequence[Job]) -> None:
        """How an operation ended, and what it said."""
        process, lineage = job.process, self.lineage
        others = {other.name for other in beside if other is not job}
        window = lineage.history[job.began :]
        if process.error is None:
            self.trace.append(f"{process.name} says {_short(process.result)}")
            self._believe(job, window)
            return
        error = process.error
        self.trace.append(f"{process.name} ends with {type(error).__name__}: {error}"[:300])
        if isinstance(error, SimulatedCrash):
            self._fresh(job.slot)
            return
        job.slot.table = None
        if not isinstance(error, TidelakeError):
            raise Broken(f"{process.name} ends with {error!r}") from error
        if not self._is_expected(job, error, others):
            raise Broken(f"{process.name} beside {sorted(others)} ends with {error!r}") from error

    def _is_expected(self, job: Job, error: TidelakeError, others: set[str]) -> bool:
        is_old = job.table_number not in (0, self.lineage.table_number)
        changing = WRITES | COMPACTS | {"roll_back", "create_anew"}
        removing = {"create_anew", "roll_back", "expire", "delete_tag"}
        if isinstance(error, ConflictError):
            return bool(others & changing)
        if isinstance(error, NotFoundError):
            return is_old or bool(others & removing)
        if isinstance(error, OutcomeUnknownError):  # it may be in what has another name now
            return job.name in WRITES | COMPACTS and "create_anew" in others
        if isinstance(error, AlreadyExistsError):
            return job.name == "create_anew" and "create_anew" in others
        if isinstance(error, InvalidInputError):
            if error.kind == "nothing_to_tag":
                return any(
                    s is None or not s.snapshot_id for s in self.lineage.history[job.began :]
                )
            return job.name == "roll_back" and (is_old or bool(others & removing))
        return False

    def _believe(self, job: Job, window: Sequence[State | None]) -> None:
        """What an operation said when it succeeded must be so."""
        result, lineage = job.process.result, self.lineage
        if job.effect is not None and getattr(result, "snapshot_ids", ()):
            own = job.effect.number
            put = [s for s in [*lineage.known, *lineage.before] if own in s.own and not s.is_stale]
            if not any(s.table_number == job.table_number for s in put):
                raise Broken(f"{job.process.name} was told of a commit that is not there")
        if job.effect is not None and getattr(result, "already_committed", False):
            held = [s for s in window if s is not None and job.effect.number in s.commits]
            if not held:
                raise Broken(f"{job.process.name} was told that it is there already")
        if job.name == "read":
            own_window = [s for s in window if s and s.table_number == job.table_number]
            states = [len(s.content) if isinstance(result, int) else s.content for s in own_window]
            if result not in states:
                raise Broken(f"{job.process.name} sees {_difference(result, own_window)}")
        if job.name == "travel":
            state, got = result
            if got != state.content:
                raise Broken(f"{job.process.name} sees {difference(got, state.content)}")

    def _mend(self) -> None:
        """Finish what a process left that died when it dropped the table."""
        if not self.lineage.is_there:
            catalog = open_catalog(self.files, 3, clock=self.clock)
            catalog.drop_table(NAME, if_missing="ignore")
            self.shape.create(catalog)
            self.lineage.look()
            self.trace.append("the table is made anew")

    def _quiet(self, *, thoroughly: bool = False) -> None:
        """Nobody works: everything is there, and all of it can be read."""
        lineage, files = self.lineage, self.files
        newest = lineage.newest
        assert newest is not None
        stale = [state.snapshot_id for state in lineage.states.values() if state.is_stale]
        if stale:
            raise Broken(f"snapshots {stale} stand on what was rolled back, or dropped")
        lost = {n for n in lineage.lasting if n not in newest.commits}
        if lost:
            raise Broken(f"commits {sorted(lost)} are lost from snapshot {newest.snapshot_id}")
        self._look_again()
        table = self.reader.table(NAME)
        names = self._tags_to_read()
        for name in names if thoroughly else self.rng.sample(names, k=min(2, len(names))):
            state = lineage.tags[name]
            if content_of(table, tag=name) != state.content:
                raise Broken(f"tag {name} of snapshot {state.snapshot_id} has other rows")
        if not thoroughly and self.rng.random() < 0.7:
            return
        check_table(files, LOCATION, read_data=thoroughly, untold=lineage.untold)
        gone = missing(files, LOCATION, untold=lineage.untold) if lineage.states else set()
        if gone:
            raise Broken(f"gone, and needed: {sorted(gone)}")
        if table.count() != len(newest.content):
            raise Broken(f"count() says {table.count()}, there are {len(newest.content)} rows")

    def _look_again(self) -> None:
        """Somebody reads the newest state."""
        self._probe(None)

    def _tags_to_read(self) -> list[str]:
        """Tags of which some are read after a round."""
        return sorted(self.lineage.tags)

    def _all_works(self) -> None:
        """After all that happened the table does everything."""
        for name in ("upsert", "compact", "upsert", "compact_full", "expire"):
            slot = self._fresh(self.slots[0])
            self._together([self._job(name, slot)])
            self._quiet()
        self._together([self._roll_back(self._fresh(self.slots[1]))])
        self._quiet(thoroughly=True)
        for snapshot_id, state in self.lineage.states.items():
            document = self.lineage.reader.document(f"snapshot/snapshot-{snapshot_id}")
            if self.lineage.reader.rows(document) != state.content:
                raise Broken(f"snapshot {snapshot_id} has changed")


def _doing(job: Job) -> Callable[[Process], object]:
    def act(process: Process) -> object:
        job.slot.files.now = process.files
        return job.do()

    return act


def _is_put(call: tuple[str, str]) -> bool:
    return call[0] == "put_if_absent" and "/snapshot/snapshot-" in call[1]


def _short(result: object) -> str:
    if isinstance(result, list):
        return f"{len(result)} rows"
    return repr(result)[:160]


def _difference(result: object, window: Sequence[State]) -> str:
    if not window:
        return "rows of no table"
    if isinstance(result, int):
        return f"{result} rows, not {[len(s.content) for s in window]}"
    assert isinstance(result, list)
    return " and ".join(difference(result, state.content) for state in window[-3:])


def run_seed(seed: int, rounds: int = ROUNDS) -> None:
    """Run one seed; whatever goes wrong, the error names it."""
    try:
        Meeting(seed).run(rounds)
    except Broken:
        raise
    except Exception as error:
        raise Broken(f"seed {seed}: {error!r}") from error
