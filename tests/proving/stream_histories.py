"""Streams whose checkpoints are restored and whose tables are rolled back: drawn histories.

One history feeds the sources, runs the query, kills it between two steps, restores its checkpoint,
lets its target expire, and at last rolls a table back. The target is compared with the rows of the
sources after each run: each one is there once, or the run was refused by an error of the kind that
the history calls for, and wrote nothing.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import tidelake
from proving.expiring import ALL
from proving.odd_names import odd_name
from proving.restored import BEHIND, CheckpointCopies
from proving.small_query import SmallQuery, beside_spark
from tidelake.errors import TidelakeError
from tidelake.fileio import MemoryFileIO
from tidelake.table import Table
from tidelake.telemetry import Env, ManualClock

__all__ = ["check_stream_histories", "check_stream_history"]

STEPS = 10
SEEDS_IN_SMALL = 12
"""The histories of one check; each meets a planted bug that the check is there for."""
ROLLED_BACK = {"source": "stream_expired", "target": "target_rolled_back"}
"""Kind of the error by the table that was rolled back."""


def check_stream_histories() -> None:
    """Some histories, for the planted bugs."""
    for seed in range(SEEDS_IN_SMALL):
        check_stream_history(seed)


def check_stream_history(seed: int) -> Counter[str]:
    """Run one drawn history; what happened in it."""
    with tempfile.TemporaryDirectory() as work, beside_spark():
        return _History(seed, Path(work)).run()


class _History:
    def __init__(self, seed: int, work: Path) -> None:
        self.rng = rng = random.Random(seed)
        env = replace(Env.seeded(seed), clock=ManualClock(1_700_000_000_000))
        catalog = tidelake.open("/w", fileio=MemoryFileIO(), env=env)
        self.clock = env.clock
        count = rng.choice([1, 1, 2])
        self.sources = [_made(catalog, f"s{i}") for i in range(count)]
        self.target = _made(catalog, "t")
        self.ids = iter(range(1, 10_000))
        self.rows: list[list[int]] = [[] for _ in self.sources]
        self.keeps = rng.choice([1, 1, 3])  # with 3 some batches have no rows
        options = {} if rng.random() < 0.5 else {"read.stream.maxRowsPerTrigger": "2"}
        folder = work / odd_name(seed)
        self.query = SmallQuery(folder, self.sources, self.target, options)
        self.copies = CheckpointCopies(folder, _empty(work / "copies"), rng)
        self.seen: Counter[str] = Counter()

    def run(self) -> Counter[str]:
        self._feed()
        self._run()
        for _ in range(STEPS):
            act = self.rng.choices(
                [self._feed, self._run, self._kill, self._restore, self._expire, self.copies.take],
                weights=[4, 4, 2, 2, 1, 3],
            )[0]
            self.seen[act.__name__.strip("_")] += 1
            act()
        self._feed()
        self._run()
        self._roll_back(self.rng.choice(["source", "target"]))
        return self.seen

    def _feed(self) -> None:
        for _ in range(self.rng.randrange(1, 4)):
            which = self.rng.randrange(len(self.sources))
            ids = [next(self.ids) for _ in range(self.rng.randrange(1, 4))]
            self.sources[which].write([{"id": i} for i in ids])
            self.rows[which] += ids

    def _run(self) -> None:
        self.query.run(keeps=self.keeps)
        self._check("a run")

    def _kill(self) -> None:
        self.query.run(keeps=self.keeps, stop_after=self.rng.choice(["offsets", "sink"]))

    def _expire(self) -> None:
        self.target.write([])
        self.target.maintenance.expire_snapshots(**ALL)

    def _restore(self) -> None:
        self._run()
        if self.rng.random() < 0.7:
            self._feed()
        what = self.copies.restore()
        before = self._found()
        refusal = self._refusal()
        if refusal is None:
            self.seen["same work"] += 1
            self._check(what)
            return
        assert refusal == BEHIND, what
        assert self._found() == before, f"{what}: a refused run wrote rows"
        self.seen["refused"] += 1
        self.copies.undo()
        self._run()

    def _refusal(self) -> str | None:
        """Run the query; the kind of the error that refuses it."""
        try:
            self.query.run(keeps=self.keeps)
        except TidelakeError as error:
            return error.kind
        return None

    def _roll_back(self, which: str) -> None:
        """Roll one table back to before what the stream has of it, at times commit again."""
        table = self.target if which == "target" else self.rng.choice(self.sources)
        newest, oldest = table.latest_snapshot_id, table.handle.snapshots.earliest_id()
        assert newest is not None
        assert oldest is not None
        if newest == oldest:
            return
        before = self._found()
        table.rollback_to(snapshot_id=self.rng.randrange(oldest, newest))
        is_hurt = which == "source" or self._found() != before
        for _ in range(self.rng.randrange(5)):  # perhaps as many as were removed
            table.write([{"id": 9_999 * self.keeps}])
        left = self._found()
        if which == "target" and self.rng.random() < 0.7:
            self._feed()
        refusal = self._refusal()
        if refusal is not None:
            assert refusal == ROLLED_BACK[which]
            assert self._found() == left, "a refused run wrote rows"
            self.seen[f"rolled back {which}"] += 1
            return
        if which == "source":
            assert not is_hurt, "the source was rolled back, and the stream has not noticed"
        elif self._found() != left:  # without new rows no batch comes that could notice
            assert not is_hurt, "the target was rolled back, and its stream goes on"

    def _found(self) -> Counter[int]:
        return Counter(self.target.to_arrow()["id"].to_pylist())

    def _check(self, what: str) -> None:
        expected = Counter(i for ids in self.rows for i in ids if i % self.keeps == 0)
        found = self._found()
        assert found == expected, f"{what}: lacks {expected - found}, has {found - expected}"


def _made(catalog: tidelake.Catalog, name: str) -> Table:
    return catalog.create_table(f"db.{name}", {"id": "BIGINT"}, options={"bucket": -1})


def _empty(folder: Path) -> Path:
    folder.mkdir()
    return folder
