"""Drawn lives of a table beside runs that remove its orphan files, on a storage with faults.

A life has commits, slow and killed writers, compactions, expiries, tags, branches, kept changelogs,
statistics, readers whose snapshot another engine removed, and files that a user wants to keep. The
clock goes on by hours. After each step

1. every file that a snapshot, tag, branch or kept changelog needs is there, told by its JSON and
   Avro read directly (:mod:`proving.reach`);
2. so are the files of writers that have not committed yet, those that a live reader has left, and
   those that a user keeps;
3. a run that failed removed nothing but what an earlier one had found.

At the end, without faults, two runs that are two days apart leave no file that no entry of a needed
manifest names, be it added or deleted there, and no changelog that a tag names.
"""

from __future__ import annotations

import contextlib
import json
import random
from dataclasses import dataclass, field, replace

import pyarrow as pa

import tidelake
from proving.fsck import _avro, walk
from proving.reach import missing, named_by_tags, reach, stray
from tidelake.errors import ConflictError, InvalidInputError, NotFoundError, TidelakeError
from tidelake.fileio import MemoryFileIO
from tidelake.metadata.log.long_lived_changelog import KeptChangelogs
from tidelake.table import Table
from tidelake.table.jobs.orphans import quarantined
from tidelake.table.stream.lease import StreamLease
from tidelake.table.write.new_writer import new_writer
from tidelake.telemetry import Env, ManualClock, ReadThreads, SeededIds, SeededRng, SerialExecutor
from tidelake.testing import FaultMode, FaultyFileIO, SimulatedCrash

SCHEMA = pa.schema({"k": pa.int64(), "v": pa.int64(), "p": pa.int64()})
HOUR_MS = 3_600_000
WRITER_HOURS_MAX = 44
"""A file is removed two days after it was written at the earliest."""
FAULTS = (
    FaultMode.EIO_BEFORE,
    FaultMode.EIO_AFTER,
    FaultMode.CRASH_BEFORE,
    FaultMode.CRASH_AFTER,
    FaultMode.EMPTY_LIST,
    FaultMode.STALE_LIST,
)
SHAPES = (
    {
        "bucket": "1",
        "changelog-producer": "input",
        "changelog.num-retained.min": "20",
        "changelog.num-retained.max": "30",
    },
    {"bucket": "2", "deletion-vectors.enabled": "true"},
    {"bucket": "1"},
)


class OrphanBroken(AssertionError):
    """A file that is needed is gone, or an orphan stays."""


@dataclass
class _Writer:
    """One that has written files and not committed them."""

    messages: object
    files: set[str]
    since_ms: int


@dataclass
class Life:
    """One table and all that happens to it."""

    seed: int
    draw: random.Random = field(init=False)
    storage: MemoryFileIO = field(init=False)
    clock: ManualClock = field(init=False)
    writers: list[_Writer] = field(default_factory=list)
    kept: set[str] = field(default_factory=set)
    lease: StreamLease | None = None
    leased: set[str] = field(default_factory=set)
    untold: set[int] = field(default_factory=set)
    branches: int = 0
    named: int = 0
    runs: int = 0
    removed: int = 0

    def __post_init__(self) -> None:
        self.draw = random.Random(self.seed)
        self.clock = ManualClock(tick_ms=1)
        self.storage = MemoryFileIO(clock=self.clock)
        shape = dict(SHAPES[self.seed % len(SHAPES)])
        shape |= {"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "4"}
        self.partitioned = self.seed % 2 == 1
        keys = {"primary_keys": ["k", "p"], "partition_keys": ["p"]} if self.partitioned else {}
        catalog = tidelake.open("/w", fileio=self.storage, env=self._env(self.seed))
        table = catalog.create_table(
            "db.t", SCHEMA, **(keys or {"primary_keys": ["k"]}), options=shape
        )
        self.location = table.handle.paths.location
        self.write()

    def _env(self, seed: int) -> Env:
        return Env(
            clock=self.clock,
            rng=SeededRng(seed),
            ids=SeededIds(seed),
            executor=SerialExecutor(),
            zone="UTC",
            reads=ReadThreads.none(),
        )

    def table(self, fileio=None) -> Table:
        """The table as a new process opens it."""
        self.named += 1
        env = self._env(1_000 * self.seed + self.named)
        opened = tidelake.open("/w", fileio=self.storage, env=env).table("db.t")
        if fileio is None:
            return opened
        return Table(replace(opened.handle, fileio=fileio))

    def rows(self) -> list[dict[str, int]]:
        draw = self.draw
        return [
            {"k": draw.randrange(8), "v": draw.randrange(99), "p": draw.randrange(2)}
            for _ in range(draw.randrange(1, 5))
        ]

    def files(self) -> set[str]:
        return {path.removeprefix(f"{self.location}/") for path, _ in walk(self.storage, "/w")}

    # ---- what happens

    def write(self) -> None:
        self.table().write(self.rows())

    def write_and_die(self) -> None:
        """A writer that is killed at some call."""
        faulty = FaultyFileIO(self.storage, {self.draw.randrange(1, 40): FaultMode.CRASH_AFTER})
        with contextlib.suppress(SimulatedCrash, TidelakeError):
            self.table(faulty).write(self.rows())

    def begin_slowly(self) -> None:
        before = self.files()
        handle = self.table().handle
        base_id = handle.snapshots.latest_id() or 0
        with contextlib.closing(new_writer(handle, base_snapshot_id=base_id)) as writer:
            writer.write(pa.RecordBatch.from_pylist(self.rows(), schema=SCHEMA))
            messages = writer.prepare_commit()
        self.writers.append(_Writer(messages, self.files() - before, self.now()))

    def commit_slowly(self) -> None:
        if self.writers:
            writer = self.writers[0]
            with contextlib.suppress(ConflictError):  # then its files are orphans
                self.table().handle.committer().commit(
                    writer.messages, user=f"u{self.named}", identifier=self.named
                )
            self.writers.remove(writer)

    def compact(self) -> None:
        self.table().compact(full=self.draw.random() < 0.5)

    def analyze(self) -> None:
        self.table().maintenance.analyze()

    def expire(self) -> None:
        self.table().maintenance.expire_snapshots(retain_max=1, retain_min=1, older_than=self.now())

    def tag(self) -> None:
        table = self.table()
        ids = table.handle.snapshots.ids()
        if ids:
            table.tags.create(f"t{self.named}", snapshot_id=self.draw.choice(ids))

    def untag(self) -> None:
        table = self.table()
        names = table.handle.tags.names()
        if names and self.lease is None:  # a deleted tag takes files of a lost snapshot with it
            with contextlib.suppress(InvalidInputError):  # a branch began at it
                table.tags.delete(self.draw.choice(names))

    def branch(self) -> None:
        """A branch from a tag, as Java Paimon makes it; the tag of the table may go later."""
        table = self.table()
        names = table.handle.tags.names()
        if not names:
            return
        self.branches += 1
        base = f"{self.location}/branch/branch-b{self.branches}"
        paths = table.handle.paths
        data = self.storage.read_bytes(paths.tag(names[0]))
        self.storage.write_once(f"{base}/schema/schema-0", self.storage.read_bytes(paths.schema(0)))
        number = json.loads(data)["id"]
        self.untold.add(number)
        self.storage.write_once(f"{base}/snapshot/snapshot-{number}", data)
        self.storage.delete(paths.tag(names[0]))  # Java Paimon lets the tag go

    def lose_a_snapshot(self) -> None:
        """Another engine expires the snapshots that a live reader has begun with."""
        table = self.table()
        ids = table.handle.snapshots.ids()
        if self.lease is not None or len(ids) < 2:
            return
        self.lease = StreamLease.open(
            table.handle, "reader", ids[0], run_id=f"r{self.named}", of_state=True
        )
        paths = table.handle.paths
        held = self._needed()
        self.storage.replace(paths.earliest_hint, str(ids[-1]).encode())
        for number in ids[:-1]:
            self.storage.delete(paths.snapshot(number))
        self.leased = held & self.files()
        KeptChangelogs(self.storage, paths).range()

    def _needed(self) -> set[str]:
        data = stray(self.storage, self.location)
        own = ("snapshot", "tag", "changelog", "schema", "branch", "consumer", "quarantine")
        return {p for p in self.files() if p.split("/")[0] not in own} - data

    def let_go(self) -> None:
        if self.lease is not None:
            self.lease.close(forget=True)
            self.lease, self.leased = None, set()

    def undelete(self) -> None:
        table = self.table()
        waiting = quarantined(table.handle)["path"].to_pylist()
        waiting = sorted(self.files().intersection(waiting))
        if waiting:
            self.kept.update(table.maintenance.undelete_files([self.draw.choice(waiting)]))

    def undelete_beside(self) -> None:
        """An undelete while a run removes files; it says so if it came too late."""
        with contextlib.suppress(ConflictError):
            self.undelete()

    def wait(self) -> None:
        """Some hours go by; slow writers commit in time, a live reader says that it lives."""
        for _ in range(self.draw.choice((5, 13, 30))):
            self.clock.sleep_ms(HOUR_MS)
            late = WRITER_HOURS_MAX * HOUR_MS
            while self.writers and self.now() - self.writers[0].since_ms > late:
                self.commit_slowly()
        if self.lease is not None:
            self.lease.renew()

    def remove_orphans(self, *, faults: bool = True) -> None:
        """A run, perhaps with a fault, and perhaps beside a commit and an undelete."""
        self.runs += 1
        plan = {}
        if faults and self.draw.random() < 0.7:
            plan = {self.draw.randrange(1, 90): self.draw.choice(FAULTS)}
        at = self.draw.randrange(1, 400)  # a run without new names takes about a hundred calls
        files = _Beside(self.storage, plan, at=at, act=self.commit_slowly)
        if faults and self.runs % 3 == 0:
            files.on_delete = self.undelete_beside
        try:
            found = self.table(files).maintenance.remove_orphan_files()
        except (SimulatedCrash, TidelakeError):
            if not plan:
                raise
        else:
            self.removed += found.removed_count
        files.settle()

    def now(self) -> int:
        return self.clock.now_ms()

    # ---- what must hold

    def check(self, step: str) -> None:
        try:
            lost = missing(self.storage, self.location, untold=self.untold)
        except NotFoundError as error:
            raise OrphanBroken(f"seed {self.seed}, after {step}: {error}") from error
        there = self.files()
        promised = self.kept | self.leased
        promised = promised.union(*(writer.files for writer in self.writers))
        lost |= promised - there
        if lost:
            raise OrphanBroken(f"seed {self.seed}, after {step}: {sorted(lost)} are gone")

    def end(self) -> None:
        """What is left when all is quiet."""
        self.let_go()
        while self.writers:
            self.commit_slowly()
        self.kept &= self.files()  # as after each step: a commit may expire it
        for _ in range(2):
            self.clock.sleep_ms(49 * HOUR_MS)
            self.remove_orphans(faults=False)
            self.check("the last runs")
        left = stray(self.storage, self.location) - self.kept
        left = {path for path in left if not path.startswith("quarantine/kept-")}
        named = {
            name
            for path in reach(self.storage, self.location, untold=self.untold).needed
            if path.startswith("manifest/manifest-") and "manifest-list" not in path
            for entry in _avro(self.storage, f"{self.location}/{path}")
            for name in (entry["_FILE"]["_FILE_NAME"], *entry["_FILE"]["_EXTRA_FILES"])
        }
        left = {path for path in left if path.rpartition("/")[2] not in named}
        left -= named_by_tags(self.storage, self.location)
        if left and not any(p.startswith("changelog/changelog-") for p in self.files()):
            raise OrphanBroken(f"seed {self.seed}: {sorted(left)} stay")


class _Beside(FaultyFileIO):
    """A storage on which somebody else acts once, at some call."""

    def __init__(self, inner, plan, *, at: int, act) -> None:
        super().__init__(inner, plan)
        self._at, self._act = at, act
        self.on_delete = None

    def delete(self, path, **given):
        act = self.on_delete
        if act is not None and "/quarantine/" not in path:
            self.on_delete = None
            act()
        super().delete(path, **given)

    def list_dir(self, path):
        self._meanwhile()
        return super().list_dir(path)

    def read_bytes(self, path, **given):
        self._meanwhile()
        return super().read_bytes(path, **given)

    def _meanwhile(self) -> None:
        if len(self.trace) >= self._at and self._act is not None:
            act, self._act = self._act, None
            act()


STEPS = (
    (Life.write, 6),
    (Life.write_and_die, 3),
    (Life.begin_slowly, 3),
    (Life.commit_slowly, 1),
    (Life.compact, 2),
    (Life.analyze, 2),
    (Life.expire, 2),
    (Life.tag, 3),
    (Life.untag, 1),
    (Life.branch, 2),
    (Life.lose_a_snapshot, 2),
    (Life.let_go, 1),
    (Life.undelete, 2),
    (Life.wait, 9),
    (Life.remove_orphans, 9),
)


def run_life(seed: int, *, steps: int = 40) -> Life:
    """Live through drawn steps; the life, or an :class:`OrphanBroken`."""
    life = Life(seed)
    acts, weights = zip(*STEPS, strict=True)
    for act in life.draw.choices(acts, weights, k=steps):
        act(life)
        if act is not Life.remove_orphans:  # a kept file may be committed, and then expire
            life.kept &= life.files()
        life.check(act.__name__)
    life.end()
    return life
