"""A job that keeps tables of a real database equal in the lake, while its lives are cut off.

A run draws, from its seed, an application (:mod:`proving.cdc_load`), a job and its lives:

1. The application's writers change the tables while the job runs.
2. A life of the job ends by itself, or by a crash or an error of the warehouse's storage at a drawn
   call, or by an exception at a call of the source, before or after the call took effect; or it is
   a process of its own that is killed.
3. Between lives the journal may be put back from an older copy. Such a life must say what is wrong
   (:data:`REFUSALS`), or catch up. Where it refused, the newest journal comes back.
4. At last a life without faults applies what is left. Then each target equals ``SELECT *`` of its
   table in columns, types and rows; the table without a key has each row once; the commits of each
   target have rising epochs; no row is in the quarantine; the files pass the independent check.

What is drawn comes from the seed; how threads and servers meet does not, so a seed that failed may
need several runs to fail again.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from proving.cdc_databases import TYPES, Shop
from proving.cdc_load import ALTERED, Application
from proving.fsck import check_table
from tidelake.cdc.command.job_settings import job_settings, lake_settings
from tidelake.cdc.command.opening import JOURNALS, source_of
from tidelake.cdc.command.secret_text import SecretWays
from tidelake.cdc.command.sync import Sync
from tidelake.cdc.command.sync_config import SyncConfig, config_of
from tidelake.cdc.command.values import given_of
from tidelake.cdc.job.job import SyncJob
from tidelake.cdc.job.lake import LakeWriter
from tidelake.cdc.journal.journal import FileJournal
from tidelake.engine.env import Env
from tidelake.engine.tables import open_catalog
from tidelake.errors import TidelakeError
from tidelake.fileio import LocalFileIO
from tidelake.telemetry.executor import SerialExecutor
from tidelake.testing import FaultMode, FaultyFileIO, SimulatedCrash

__all__ = ["Report", "run_seed"]

CRASHES = (FaultMode.CRASH_BEFORE, FaultMode.CRASH_AFTER, FaultMode.TORN)
ERRORS = (FaultMode.EIO_BEFORE, FaultMode.EIO_AFTER, FaultMode.ENOSPC)
REFUSALS = frozenset({"cdc_position_lost", "checkpoint_behind", "target_rolled_back"})
"""What a job may say to a journal that was put back from an older copy."""
FAILING = ("read", "confirm", "first_copy", "newest", "prepare", "tables")
"""Calls of a source at which an exception is thrown."""
TRANSACTIONS_MAX = 150
"""Of each writer: what a small epoch at a time can follow."""
KILLED_AFTER_S = 1.0
"""The longest time from a process's first word until it is killed."""
WAIT_S = 60
JOB, DATABASE = "job", "ods"


@dataclass
class Report:
    """What a run did."""

    transactions: int = 0
    rows: int = 0
    lives: int = 0
    epochs: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    """How lives ended."""

    def __add__(self, other: Report) -> Report:
        return Report(
            self.transactions + other.transactions, self.rows + other.rows,
            self.lives + other.lives, self.epochs + other.epochs, self.ends + other.ends,
        )  # fmt: skip


class FaultySource:
    """A source whose calls call `fails` with their name, before and after."""

    def __init__(self, source: Any, fails: Callable[[str], None]) -> None:
        self._source = source
        self._fails = fails

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._source, name)
        if name not in FAILING:
            return found

        def called(*given: Any, **named: Any) -> Any:
            self._fails(name)
            answer = found(*given, **named)
            try:
                self._fails(name)
            except BaseException:
                if name == "first_copy":
                    answer.__exit__(None, None, None)  # as the death of the process would
                raise
            return answer

        return called


@dataclass
class Run:
    """One drawn run; see the module."""

    shop: Shop
    seed: int
    place: Path
    lives: int
    report: Report = field(default_factory=Report)

    def __post_init__(self) -> None:
        self.rng = rng = random.Random(self.seed)
        self.warehouse = self.place / "warehouse"
        self.journal = self.warehouse / JOURNALS / JOB
        self.copies: list[Path] = []
        self.application = Application(
            self.shop, self.seed, writers=rng.randrange(2, 5), transactions=TRANSACTIONS_MAX,
            pause_s=0.08, ddl_count=rng.choice([0, 1, 2, 4]),
        )  # fmt: skip
        self.one_table = rng.random() < 0.2
        """Only items, with a computed column that the target is partitioned by."""
        self.has_order = rng.random() < 0.5
        self.bucket = rng.choice([-1, -1, 1, 2])
        # a generator of its own: the shapes of older seeds stay
        self.moves_shelves = random.Random(f"{self.seed} keys").random() < 0.4
        """Whether the target's key of the stock has a column that is not of the source's key."""
        self.given = self._arguments()
        self.whole = self.one_table or rng.random() < 0.3
        """Whether PostgreSQL logs old rows whole."""
        self.kills = rng.random() < 1 / 3
        self.restores = rng.random() < 1 / 3

    def _arguments(self) -> dict[str, object]:
        rng, kind = self.rng, self.shop.kind
        given: dict[str, object] = {
            "warehouse": str(self.warehouse), "database": DATABASE, "job": JOB,
            f"{kind}_conf": self.shop.conf(),
            "table_conf": {"bucket": self.bucket, "num-sorted-run.compaction-trigger": 3},
            "sequence": "source" if self.has_order else "none",
            "interval": f"{rng.choice([20, 60, 200])} ms",
            "max_rows": rng.choice([20, 80, 100_000]),
            "quarantine_max": 0, "keyless": "append",
        }  # fmt: skip
        if self.one_table:
            given[f"{kind}_conf"] = {**self.shop.conf(), "table-name": "items"}
            if kind == "postgres":
                given[f"{kind}_conf"] |= {"schema-name": "public"}
            given |= {
                "table": "items", "computed_column": ["part=truncate(id, 10)"],
                "primary_keys": ["part", "id"], "partition_keys": ["part"],
            }  # fmt: skip
        else:
            parts = {"orders": "region"}
            if self.bucket == -1 and not self.has_order:
                parts["stock"] = "shelf"
            if self.moves_shelves:
                given["primary_keys"] = ["shelf", "id"]
            given["multiple_table_partition_keys"] = parts
            given["excluding_tables"] = "notes_.*"
        return given

    @property
    def tables(self) -> list[str]:
        """The followed tables."""
        if self.one_table:
            return ["items"]
        return [*TYPES]

    # ---- lives

    def run(self) -> Report:
        """Run it all; AssertionError where the lake differs."""
        if self.whole:
            self.shop.log_whole_rows("items", "orders")
        if self.moves_shelves:
            self.shop.log_whole_rows("stock")
        self.application.fill()
        with self.application.running():
            while self.report.lives < self.lives:
                self._draw_life()
                self._keep_journal()
                if self.restores and len(self.copies) > 1 and self.rng.random() < 0.3:
                    self._live_with_old_journal()
        self.application.touch()
        self.last_life()
        self.check()
        self.report.transactions += self.application.done
        return self.report

    def _draw_life(self) -> None:
        rng = self.rng
        if self.kills and rng.random() < 0.4:
            self._killed_process()
            return
        plan: dict[int, FaultMode] = {}
        chance = 0.0
        what = rng.random()
        if what < 0.6:
            call = int(2 ** rng.uniform(2, 10))
            plan = {call: rng.choice(CRASHES if rng.random() < 0.8 else ERRORS)}
        elif what < 0.85:
            chance = 0.06
        self._life(plan, chance, is_closed=rng.random() < 0.5, lasts_s=rng.uniform(0.05, 0.5))

    def _life(
        self, plan: Mapping[int, FaultMode], chance: float, *, is_closed: bool, lasts_s: float
    ) -> str:
        """One life in this process; how it ended."""

        def fails(_: str) -> None:
            if self.rng.random() < chance:
                raise SimulatedCrash

        ends_at = time.monotonic() + lasts_s
        ended = "by itself"
        files = FaultyFileIO(LocalFileIO(), plan)
        job, source = self._job(files, fails)
        try:
            try:
                job.start()
                while time.monotonic() < ends_at:
                    self._step(job)
            finally:
                if is_closed:
                    job.close()
        except SimulatedCrash:
            ended = "crash"
        except TidelakeError as error:
            if not files.is_hit():
                raise
            ended = error.kind or "error"
        finally:
            source.close()  # what the end of a process does to its connections
        self._note(ended)
        return ended

    def _step(self, job: SyncJob) -> None:
        done = job.step(wait_ms=50)
        if done is not None:
            self.report.epochs += 1
            self.report.rows += done.rows_count

    def _note(self, ended: str) -> None:
        self.report.lives += 1
        self.report.ends[ended] += 1

    def _job(self, files: Any, fails: Callable[[str], None]) -> tuple[SyncJob, Any]:
        """As :func:`tidelake.cdc.command.opening.opened`, with faults."""
        config, ways = config_for(self.given), _ways()
        env = replace(Env.system(), executor=SerialExecutor(), cores=SerialExecutor())
        catalog = open_catalog(config.warehouse, env=env, fileio=files)
        source = source_of(config, ways, env, catalog)
        journal = FileJournal(files, f"{catalog.warehouse}/{JOURNALS}/{JOB}", JOB)
        lake = LakeWriter(catalog, lake_settings(config, zone="UTC"))
        faulty: Any = FaultySource(source, fails)
        return SyncJob(job_settings(config), faulty, journal, lake, env), source

    def _killed_process(self) -> None:
        """A life as :meth:`Sync.run` in a process of its own, killed at some moment."""
        child = subprocess.Popen(
            [sys.executable, "-m", "proving.cdc_servers"], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )  # fmt: skip
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(json.dumps(self.given) + "\n")
        child.stdin.close()
        said = child.stdout.readline()
        time.sleep(self.rng.uniform(0, KILLED_AFTER_S))
        child.kill()
        child.wait(WAIT_S)
        self.report.epochs += len(child.stdout.read().split())
        assert child.stderr is not None
        complaint = child.stderr.read()
        assert said, complaint[-3000:]
        assert "Traceback" not in complaint, complaint[-3000:]
        self._note("killed")

    # ---- journals of before

    def _keep_journal(self) -> None:
        if self.restores and self.journal.is_dir():
            copy = self.place / f"journal{len(self.copies)}"
            shutil.copytree(self.journal, copy)
            self.copies.append(copy)

    def _put_back(self, copy: Path) -> None:
        shutil.rmtree(self.journal)
        shutil.copytree(copy, self.journal)

    def _live_with_old_journal(self) -> None:
        newest = self.copies[-1]
        old = self.rng.choice(self.copies[:-1])
        if _files(old) == _files(newest):
            return
        self._put_back(old)
        job, source = self._job(LocalFileIO(), lambda _: None)
        try:
            job.start()
            job.run_once()
            job.close()
            self._note("an old journal caught up")
            self._keep_journal()
        except TidelakeError as error:
            if error.kind not in REFUSALS:
                raise
            self._note(f"old journal: {error.kind}")
            self._put_back(newest)
        finally:
            source.close()

    # ---- the end

    def last_life(self) -> None:
        job, source = self._job(LocalFileIO(), lambda _: None)
        try:
            job.start()
            job.run_once(lambda done: self._count(done.rows_count))
            job.close()
            self.state = job.state
        finally:
            source.close()
        self._note("by itself")

    def _count(self, rows: int) -> None:
        self.report.epochs += 1
        self.report.rows += rows

    def check(self) -> None:
        catalog = open_catalog(str(self.warehouse))
        phases = {str(name): one.phase for name, one in self.state.tables.items()}
        reasons = {str(name): one.reason for name, one in self.state.tables.items()}
        assert {*phases.values()} == {"live"}, reasons
        assert len(phases) == len(self.tables), phases
        assert not self.state.quarantined_count
        for table in self.tables:
            self._check_rows(catalog.table(f"{DATABASE}.{table}"), table)
            self._check_commits(catalog.table(f"{DATABASE}.{table}"), table)

    def _check_rows(self, target: Any, table: str) -> None:
        names = self.shop.names_of(table)
        types = {f.name: str(f.type.as_nullable()) for f in target.table_schema.fields}
        wanted = {**self.shop.types[table], **dict.fromkeys(self._added(table), "INT")}
        if table == "stock" and self.application.widened:
            wanted["amount"] = "BIGINT"
        known = {name: kind for name, kind in types.items() if name in wanted}
        assert known == wanted, f"{table}: types {known}, not {wanted}"
        found = target.to_arrow(columns=names).to_pylist()
        got = Counter(_row(row.values()) for row in found)
        want = Counter(_row(row) for row in self.shop.rows_of(table))
        left, more = [*(want - got)], [*(got - want)]
        assert got == want, (
            f"{table}: {sum((want - got).values())} rows lack, {sum((got - want).values())} are"
            f" too many of {sum(want.values())}; columns {names}: lacking {_short(left)},"
            f" too many {_short(more)}"
        )

    def _added(self, table: str) -> list[str]:
        return self.application.added[table] if table in ALTERED else []

    def _check_commits(self, target: Any, table: str) -> None:
        """Each epoch was committed once, in order, and by the job."""
        history = target.system_table("snapshots").to_arrow().to_pylist()
        commits = [row for row in history if row["commit_kind"] != "COMPACT"]
        assert {row["commit_user"] for row in commits} == {f"cdc-{JOB}"}
        epochs = [row["commit_identifier"] for row in commits]
        # a commit in two snapshots: rows, then what they replaced
        once = [epochs[i] for i in range(len(epochs)) if i == 0 or epochs[i] != epochs[i - 1]]
        assert once == sorted({*epochs}), f"{table}: epochs {epochs}"
        check_table(target.fileio, target.paths.location, newest_only=True)


def config_for(given: Mapping[str, object]) -> SyncConfig:
    """The job of some arguments."""
    kind = "postgres" if "postgres_conf" in given else "mysql"
    command = f"{kind}_sync_{'table' if 'table' in given else 'database'}"
    return config_of(command, given_of(command, given))


def _ways() -> SecretWays:
    return SecretWays(environment=os.environ, read_file=lambda path: Path(path).read_text())


def _files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def _row(values: Any) -> tuple[Any, ...]:
    return tuple(_value(value) for value in values)


def _value(value: Any) -> Any:
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).replace(tzinfo=None)
    return value


def _short(rows: list[tuple[Any, ...]]) -> str:
    cut = [tuple(v[:12] if isinstance(v, str | bytes) else v for v in row) for row in rows[:3]]
    return repr(cut)


def run_seed(shop: Shop, seed: int, place: Path, *, lives: int) -> Report:
    """Run one seed on an empty database; what it did."""
    return Run(shop, seed, place, lives).run()


def _main() -> None:
    """The life that is killed: arguments of a job come by standard input."""
    given = json.loads(sys.stdin.readline())
    sync = Sync(config_for(given), _ways(), Env.system())
    print("ready", flush=True)
    sync.run(once=False, watch=lambda done, _: print(done.epoch, flush=True))


if __name__ == "__main__":
    _main()
