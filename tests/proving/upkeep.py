"""Seeded runs of writers beside all that keeps a table small, which meet at every call.

As :mod:`proving.concurrent`, with other processes: writers, compactions, expiries, removals of
orphan files, tags, branches and writes to them, fast-forwards, reads that hold their snapshot. The
clock goes on by hours between the rounds, so that files get old. Up to two calls of a run fail.
Behind every call that deletes something

1. whatever a snapshot, tag or branch needs is there (:mod:`proving.reach`);
2. a read that holds its snapshot reads it to the end;

after a round each branch has the rows of its last commit, and after a fast-forward the table has
those of the branch. Beside a fast-forward nobody else changes the table, as users are told; who
reads it meanwhile sees a state of the table's or the branch's. At the end two removals two days
apart leave no file that nothing names.

Before each round others may be tried from the same state, each on a copy of the storage by
processes that begin there: so many schedules share what came before them. What comes of them is
looked at as after any round, and forgotten.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Sequence
from dataclasses import dataclass

from proving.concurrent import ROUNDS, Job, Meeting, Slot
from proving.fsck import FsckError, _avro, walk
from proving.lineage import Broken, Effect, State, difference, forked
from proving.model import ModelTable
from proving.reach import DIRECTORIES, Named, named_by_tags, reach
from proving.turns import NeverEnds, Process
from proving.world import LOCATION, NAME, arrow_of, content_of, open_catalog, sorted_rows
from tidelake.errors import InvalidInputError, NotFoundError, TidelakeError, UnsupportedError
from tidelake.fileio import FileIO
from tidelake.testing import FaultMode, FaultyFileIO, SimulatedCrash

HOUR_MS = 3_600_000
OPERATIONS = (
    ("upsert", 26),
    ("delete", 6),
    ("overwrite", 4),
    ("compact", 10),
    ("compact_full", 6),
    ("expire", 16),
    ("orphans", 18),
    ("tag", 8),
    ("delete_tag", 6),
    ("branch", 10),
    ("write_branch", 8),
    ("delete_branch", 5),
    ("hold", 14),
    ("read", 6),
    ("roll_back", 4),
)
PUBLISHING = (*OPERATIONS, ("branch", 15), ("publish", 30))
PUBLISHES_EVERY = 4
"""One run of these also fast-forwards; the draws of the others stay as they were."""
STORES_SHARE = 0.3
"""Of the runs, those on a storage without directories, by a draw of their own."""
UPKEEP = frozenset(
    {"expire", "orphans", "tag", "delete_tag", "branch", "delete_branch", "hold", "publish"}
)
BESIDE_A_PUBLISH = ("expire", "orphans", "hold", "read", "write_branch", "delete_branch")
"""What is done while a branch is published: nothing that adds to the table or names its states."""
SLOW = frozenset({"upsert", "overwrite", "compact", "read", "write_branch"}) | UPKEEP
FAULTS = (FaultMode.EIO_BEFORE, FaultMode.EIO_AFTER)
LISTS = (FaultMode.EMPTY_LIST, FaultMode.STALE_LIST)
"""Faults of a listing: only a removal of orphans must bear them."""


PAUSES = 20
"""Turns that a read gives to others between its plan and its first row."""


FORK_PROBE_SHARE = 0.005
"""Of all calls of a fork, those behind which somebody reads; behind each new snapshot as ever."""


NOT_LET_IN = ("snapshot_expired", "snapshot_not_found")
"""Kinds of errors of a read whose snapshot went before it was held."""


class _WholeBranches:
    """The storage without the branches that nobody can open: they are being made or deleted."""

    def __init__(self, inner: FileIO) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def list_dir(self, path: str) -> list:
        found = self._inner.list_dir(path)
        if path != f"{LOCATION}/branch":
            return found
        return [s for s in found if self._inner.list_dir(f"{path}/{s.name}/schema")]


class LostSnapshot(AssertionError):
    """A read that was let in did not end well."""


@dataclass
class Branch:
    """A branch, and what it may hold: more than one state only after a commit of unknown end."""

    name: str
    models: list[ModelTable]


class Upkeep(Meeting):
    """One seeded run."""

    operations = OPERATIONS
    slow = SLOW
    stops_at_a_call = 8

    def __init__(self, seed: int, forks: int = 0) -> None:
        in_store = random.Random(f"{seed} store").random() < STORES_SHARE
        super().__init__(seed, dated=True, in_store=in_store)
        self.forks = forks
        """Rounds that are tried before each round, from the same state."""
        self.parent: Upkeep | None = None
        """The run from whose state this one began."""
        self.rounds = 0
        if seed % PUBLISHES_EVERY == PUBLISHES_EVERY - 1:
            self.operations = PUBLISHING
        self.branch_writes = 0
        self.branches: dict[str, Branch] = {}
        self.busy: set[str] = set()
        """Branches that a process of this round works on."""
        self.faults = self.rng.choice([0, 1, 2])
        self.faulty: set[int] = set()
        """Processes with a fault, by the identity of their job."""
        self.needed: set[str] | None = None
        self.named: dict[tuple, Named] = {}
        """What each state names."""
        self.has_dead_rollback = False
        self.publishing: Job | None = None
        """The fast-forward of this round."""
        self.keeps_changelogs = self.shape.option("changelog.num-retained.max") is not None

    # -- rounds ----------------------------------------------------------------------------------
    def _round(self) -> None:
        self.rounds += 1
        for number in range(self.forks):
            self._fork(number)
        self.busy.clear()
        super()._round()
        self.busy.clear()
        self.publishing = None
        if self.rng.random() < 0.6:
            self.clock.sleep_ms(self.rng.choice([1, 13, 26, 50]) * HOUR_MS)

    def _fork(self, number: int) -> None:
        """Try another round from here."""
        made = copy.copy(self)
        made.rng = random.Random(f"{self.seed} round {self.rounds} fork {number}")
        made.clock = copy.copy(self.clock)
        made.files = self.files.forked(made.clock)
        made.lineage = self.lineage.forked(made.files)
        made.slots = [made._fresh(Slot(one.number)) for one in self.slots]
        made.reader = open_catalog(made.files, self.seed, clock=made.clock)
        made.commits = list(self.commits)
        made.branches = {n: Branch(n, list(one.models)) for n, one in self.branches.items()}
        made.busy, made.faulty, made.needed = set(), set(), None
        made.faults = made.rng.choice([0, 1, 2])
        made.parent, made.trace, made.probe_share = self, [], FORK_PROBE_SHARE
        try:
            made._meet()
        except (Broken, FsckError, NeverEnds) as error:
            trace = "\n  ".join(made.trace)
            raise Broken(f"fork {number} of round {self.rounds}: {error}\n  {trace}") from error

    def _storage_of(self, job: Job) -> FileIO:
        if not self.faults or job.name == "create_anew" or self.rng.random() < 0.8:
            return self.files
        self.faults -= 1
        self.faulty.add(id(job))
        modes = FAULTS + LISTS if job.name == "orphans" else FAULTS
        return FaultyFileIO(self.files, {self.rng.randrange(1, 60): self.rng.choice(modes)})

    # -- operations ------------------------------------------------------------------------------
    def _orphans(self, slot: Slot) -> Job:
        return self._of_table(
            "orphans", slot, lambda table: table.maintenance.remove_orphan_files()
        )

    def _branch(self, slot: Slot) -> Job:
        name = f"b{self._number()}"
        ids, tags = sorted(self.lineage.states), sorted(self.lineage.tags)
        if tags and self.rng.random() < 0.4:
            tag = self.rng.choice(tags)
            named, state = {"tag": tag}, self.lineage.tags[tag]
        elif ids:
            number = self.rng.choice(ids)
            named, state = {"snapshot_id": number}, self.lineage.states[number]
        else:
            return self._tag(slot)
        self.branches[name] = Branch(name, [])
        self.busy.add(name)
        job = self._of_table("branch", slot, lambda table: table.branches.create(name, **named))
        job.branch, job.models = name, [forked(state.model)]
        return job

    def _free_branch(self) -> Branch | None:
        free = [one for name, one in sorted(self.branches.items()) if name not in self.busy]
        found = self.rng.choice(free) if free else None
        if found is not None:
            self.busy.add(found.name)
        return found

    def _write_branch(self, slot: Slot) -> Job:
        branch = self._free_branch()
        if branch is None:
            return self._branch(slot)
        rows = self._rows(slot, self.rng.choice([1, 6]))
        batch = arrow_of(self.shape, rows)
        compacts = self.rng.random() < 0.3
        wrote = [forked(model) for model in branch.models]
        for model in wrote:
            model.apply(rows, None)
        after = [forked(model) for model in wrote]
        for model in after if compacts else ():
            model.give_buckets()

        def do(table) -> None:
            own = table.branch(branch.name)
            own.write(batch)
            if compacts:
                own.compact(full=True)
                own.maintenance.expire_snapshots(retain_max=1, retain_min=1)

        self.branch_writes += 1
        effect = Effect(-self.branch_writes, lambda model: model.apply(rows, None))
        job = self._of_table("write_branch", slot, do, effect)
        job.branch, job.models, job.halfway = branch.name, after, wrote
        return job

    def _delete_branch(self, slot: Slot) -> Job:
        branch = self._free_branch()
        if branch is None:
            return self._branch(slot)
        job = self._of_table(
            "delete_branch", slot, lambda table: table.branches.delete(branch.name)
        )
        job.branch, job.models = branch.name, []
        return job

    def _together(self, jobs: Sequence[Job | None]) -> None:
        """Nobody commits to the table, nor makes a tag or a branch of it, beside a fast-forward."""
        self.publishing = next((job for job in jobs if job and job.name == "publish"), None)
        if self.publishing is not None:
            jobs = [self._beside(self.publishing, job) for job in jobs if job is not None]
        super()._together(jobs)

    def _beside(self, publishing: Job, job: Job) -> Job:
        """A job that may be done beside a fast-forward: this one, or another instead of it."""
        if job is publishing or job.name in BESIDE_A_PUBLISH:
            return job
        if job.name == "branch":
            del self.branches[job.branch]
        return self._job(self.rng.choice(["expire", "orphans", "hold", "read"]), job.slot)

    def _publish(self, slot: Slot) -> Job:
        """Make the table what a branch is, and perhaps delete the branch."""
        branch = self._free_branch()
        if branch is None or not self.lineage.branches.get(branch.name):
            return self._write_branch(slot)
        deletes = self.rng.random() < 0.5

        def do(table) -> None:
            table.branches.fast_forward(branch.name)
            if deletes:
                table.branches.delete(branch.name)

        job = self._of_table("publish", slot, do)
        own = self.lineage.branches[branch.name]
        job.branch, job.target = branch.name, own[max(own)]
        job.models = [] if deletes else branch.models
        return job

    def _hold(self, slot: Slot) -> Job:
        ids = sorted(self.lineage.states)
        old = {"snapshot_id": self.rng.choice(ids)} if ids and self.rng.random() < 0.7 else {}

        def do(table) -> list | None:
            try:
                scan = table.scan(options={"read.hold": "always"}, **old)
            except NotFoundError as error:
                if error.kind in NOT_LET_IN:
                    return None
                raise LostSnapshot(f"a read that was let in: {error.message}") from error
            for _ in range(PAUSES):
                slot.files.exists(f"{LOCATION}/schema/schema-0")  # others act before it reads
            try:
                return sorted_rows(scan.to_arrow().to_pylist())
            except NotFoundError as error:
                raise LostSnapshot(f"a read that was let in: {error.message}") from error
            finally:
                scan.close()

        job = self._of_table("hold", slot, do)
        job.held = self.lineage.states[old["snapshot_id"]] if old else None
        return job

    # -- what is checked -------------------------------------------------------------------------
    def _behind(self, process: Process) -> None:
        """Nothing that is needed was deleted."""
        op, path = process.before
        if self.keeps_changelogs:
            return  # what a kept changelog needs is told by the files that are there: not midway
        if not path.startswith(f"{LOCATION}/"):
            return
        relative = path.removeprefix(f"{LOCATION}/")
        if relative.split("/", 1)[0] in DIRECTORIES:
            if op not in ("read_bytes", "exists", "list_dir", "open_dir"):
                self.needed = None
            return
        if op != "delete":
            return
        if self.needed is None:
            self.needed = self._reached(process.name)
        if relative in self.needed:
            raise Broken(f"{process.name} deletes {relative}, which is needed")

    def _reached(self, who: str) -> set[str]:
        if not self.lineage.states:
            return set()
        try:
            found = reach(
                _WholeBranches(self.files),
                LOCATION,
                untold=self.lineage.untold,
                known=self.named,
            ).needed
        except (NotFoundError, FileNotFoundError) as error:
            raise Broken(f"after a call of {who}, gone and needed: {error}") from error
        gone = {path for path in found if not self.files.exists(f"{LOCATION}/{path}")}
        if gone:
            raise Broken(f"after a call of {who}, gone and needed: {sorted(gone)}")
        return found

    def _judge(self, job: Job, beside: Sequence[Job]) -> None:
        name = job.branch
        if isinstance(job.process.error, LostSnapshot) and self._took_history(beside):
            job.process.error = None
        super()._judge(job, beside)
        self.has_dead_rollback |= job.name == "roll_back" and job.process.error is not None
        if name is None:
            return
        branch = self.branches[name]
        if job.process.error is None:
            branch.models = job.models
        else:
            branch.models = [*branch.models, *job.halfway, *job.models]
        if not branch.models or not self._has_branch(name):
            del self.branches[name]

    def _probe(self, state: State | None, beside: Sequence[Job] = ()) -> None:
        publishing = self.publishing
        if publishing is None or publishing.process is None:
            super()._probe(state, beside)
        elif not publishing.process.is_done:
            try:
                found = content_of(self.reader.table(NAME))
            except TidelakeError as error:
                raise Broken(f"a reader beside a fast-forward fails: {error!r}") from error
            if not self._is_a_state(found):
                raise Broken("a reader beside a fast-forward sees rows of no state")

    def _is_a_state(self, rows: object) -> bool:
        states = [self.lineage.empty, *self.lineage.known, self.publishing.target]
        return any(rows in (state.content, len(state.content)) for state in states)

    @staticmethod
    def _took_history(beside: Sequence[Job]) -> bool:
        """A hold keeps a snapshot from expiries, not from who rolls back."""
        return any(other.name == "roll_back" for other in beside)

    def _is_expected(self, job: Job, error: TidelakeError, others: set[str]) -> bool:
        if id(job) in self.faulty:
            return True
        if isinstance(error, UnsupportedError):
            return job.name == "publish" and error.kind == "fast_forward"
        removing = {"expire", "delete_tag", "roll_back", "delete_branch", "publish"}
        if isinstance(error, NotFoundError):
            if error.kind == "branch_without_schema":
                return bool(others & {"branch", "delete_branch", "publish"})
            return job.name != "hold" and bool(others & removing)
        if isinstance(error, InvalidInputError) and job.name == "delete_tag":
            going = {"delete_branch", "publish"}  # one that goes may have been there
            return error.kind == "tag_of_branch" and bool(self.branches or others & going)
        return super()._is_expected(job, error, others)

    def _believe(self, job: Job, window: Sequence) -> None:
        result = job.process.result
        if self.publishing is not None and job.name in ("read", "hold"):
            if result is not None and not self._is_a_state(result):
                raise Broken(f"{job.process.name} beside a fast-forward reads rows of no state")
            return
        super()._believe(job, window)
        if job.name == "publish" and self.lineage.newest is not job.target:
            raise Broken(f"{job.process.name}: the table is not what the branch is")
        if job.name == "hold" and result is not None:
            held = [job.held] if job.held is not None else window
            states = [state.content for state in held if state is not None]
            if result not in states:
                raise Broken(f"{job.process.name} reads rows of no state")

    def _quiet(self, *, thoroughly: bool = False) -> None:
        if self.has_dead_rollback:  # a snapshot of a tag may be left: the next expiry removes it
            self.reader.table(NAME).maintenance.expire_snapshots(retain_max=100, retain_min=100)
            self.lineage.look()
            self.has_dead_rollback = False
        super()._quiet(thoroughly=thoroughly)
        self._reached("the round")
        table = self.reader.table(NAME)
        names = [name for name in sorted(self.branches) if not self._was_read(name)]
        for name in names if thoroughly else self.rng.sample(names, k=min(2, len(names))):
            branch = self.branches[name]
            found = content_of(table.branch(name))
            held = [model.content() for model in branch.models]
            if found not in held:
                raise Broken(f"branch {name}: {difference(found, held[-1])}")
            pairs = zip(branch.models, held, strict=True)  # rows that wait for buckets show not
            branch.models = [model for model, content in pairs if content == found]

    def _was_read(self, name: str) -> bool:
        """Whether a branch was read as it is now, before this fork: its files are still there."""
        before = None if self.parent is None else self.parent.branches.get(name)
        held = self.branches[name].models
        return before is not None and [*map(id, before.models)] == [*map(id, held)]

    def _tags_to_read(self) -> list[str]:
        before = {} if self.parent is None else self.parent.lineage.tags
        return [n for n in super()._tags_to_read() if self.lineage.tags[n] is not before.get(n)]

    def _look_again(self) -> None:
        """Somebody reads the newest state; in a fork only opens it, if it was read already."""
        newest = self.lineage.newest
        if self.parent is None or self.seen is not newest:
            super()._look_again()
            return
        found = self.reader.table(NAME).latest_snapshot_id or 0
        if found != newest.snapshot_id:
            raise Broken(f"a reader finds {found}, not snapshot {newest.snapshot_id}")

    def _mend(self) -> None:
        """Delete the rest of a branch whose making or deletion died, as one is told."""
        super()._mend()
        self._end_publish()
        for status in self.files.list_dir(f"{LOCATION}/branch"):
            name = status.name.removeprefix("branch-")
            if not self._has_branch(name):
                self.reader.table(NAME).branches.delete(name)
                self.branches.pop(name, None)
                self.lineage.look()
                self.trace.append(f"the rest of branch {name} is deleted")

    def _end_publish(self) -> None:
        """Fast-forward again where one died, as one is told."""
        job, self.publishing = self.publishing, None
        if job is None or job.process.error is None or not self._has_branch(job.branch):
            return
        if isinstance(job.process.error, UnsupportedError):
            return
        self.reader.table(NAME).branches.fast_forward(job.branch)
        self.lineage.look(target=job.target)
        self.trace.append(f"branch {job.branch} is published again")
        self._believe(job, [])

    def _has_branch(self, name: str) -> bool:
        return self.files.exists(f"{LOCATION}/branch/branch-{name}/schema/schema-0")

    def _all_works(self) -> None:
        self.faults = 0
        super()._all_works()
        runs = 0
        while runs < 2:  # one may be killed
            self.clock.sleep_ms(49 * HOUR_MS)
            job = self._orphans(self._fresh(self.slots[0]))
            self._together([job])
            self._quiet(thoroughly=True)
            runs += job.process.error is None
        found = reach(_WholeBranches(self.files), LOCATION, untold=self.lineage.untold)
        there = {path.removeprefix(f"{LOCATION}/") for path, _ in walk(self.files, LOCATION)}
        kept = (*DIRECTORIES, "quarantine")
        left = {p for p in there - found.may_stay if p.split("/", 1)[0] not in kept}
        named = {
            name
            for path in found.needed
            if path.startswith("manifest/manifest-") and "manifest-list" not in path
            for entry in _avro(self.files, f"{LOCATION}/{path}")
            for name in (entry["_FILE"]["_FILE_NAME"], *entry["_FILE"]["_EXTRA_FILES"])
        }
        left = {path for path in left if path.rpartition("/")[2] not in named}
        left -= named_by_tags(self.files, LOCATION)
        if left and not self.keeps_changelogs:
            raise Broken(f"{sorted(left)} stay")


def run_seed(seed: int, rounds: int = ROUNDS, *, forks: int = 0) -> list[int]:
    """Run one seed; whatever goes wrong, the error names it.

    Returns
    -------
    list of int
        Of each schedule the number of its processes.
    """
    run = Upkeep(seed, forks)
    try:
        run.run(rounds)
    except (Broken, SimulatedCrash, FsckError):
        raise
    except Exception as error:
        raise Broken(f"seed {seed}: {error!r}") from error
    return run.schedules
