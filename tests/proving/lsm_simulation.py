"""What a compaction policy costs: the engine's own policy over commits that are made up, no IO.

1. Each commit is a set of keys: some are known (updates and deletes), the rest new. It is cut into
   files of the target size on level 0.
2. :func:`tidelake.store.lsm.pick` chooses, :func:`tidelake.store.lsm.compaction.plan` decides file
   by file between merging and lifting, as in a bucket's writer, as often and with the same options.
   A merge keeps of each key the newest row; a row has a fixed number of bytes.
3. After each commit it is written down how many runs there are (what a read merges), what was
   written so far for what came in (write amplification), and what lies there for what is live
   (space amplification).

A file holds its keys as a sorted array, so a run over millions of rows takes seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from tidelake.codec.binary_row import serialize_row
from tidelake.metadata.data_file import EMPTY_STATS, DataFileMeta
from tidelake.options import (
    Options,
    check_new_table,
    declared,
    levels_count,
    sorted_runs_stop,
    target_file_size_bytes,
)
from tidelake.store.lsm import CompactionPolicy, Levels, Pick, pick
from tidelake.store.lsm.compaction import Rewrite, plan
from tidelake.types import parse_type

KEY_TYPES = (parse_type("BIGINT NOT NULL"),)
COMMIT_MS = 60_000
"""Time between two commits, for the rules that look at the clock."""


@dataclass(frozen=True)
class Workload:
    """What is written.

    Parameters
    ----------
    commits : int
        How many.
    rows : int
        Rows of each.
    updates : float
        Share of the rows whose key is there already.
    deletes : float
        Share of the rows that delete such a key.
    rising : bool
        Whether new keys are larger than all there are, as times and counters; else they are spread
        among them.
    row_bytes : int
        Size of a row in a file.
    seed : int
        Decides the keys.
    """

    commits: int = 200
    rows: int = 10_000
    updates: float = 0.5
    deletes: float = 0.0
    rising: bool = False
    row_bytes: int = 100
    seed: int = 1


@dataclass(frozen=True)
class State:
    """A bucket after a commit.

    Parameters
    ----------
    commit : int
        Which, from 1 on.
    runs : tuple of (level, files, bytes)
        The sorted runs, the newest first.
    written_bytes, ingested_bytes : int
        Up to now: all files that were made, and those that commits brought.
    live_bytes : int
        Of the rows that a read gives.
    compactions : int
        Up to now.
    """

    commit: int
    runs: tuple[tuple[int, int, int], ...]
    written_bytes: int
    ingested_bytes: int
    live_bytes: int
    compactions: int

    @property
    def read_amplification(self) -> int:
        """Sorted runs that a read merges."""
        return len(self.runs)

    @property
    def write_amplification(self) -> float:
        """Bytes written for a byte that came in."""
        return self.written_bytes / self.ingested_bytes

    @property
    def space_amplification(self) -> float:
        """Bytes on disk for a live byte."""
        return sum(size for *_, size in self.runs) / max(1, self.live_bytes)

    @property
    def levels(self) -> str:
        """The runs in short: ``3xL0 L4 L5`` is three of level 0 above two others."""
        found: dict[int, int] = {}
        for level, *_ in self.runs:
            found[level] = found.get(level, 0) + 1
        return " ".join(f"{n}xL{level}" if n > 1 else f"L{level}" for level, n in found.items())


@dataclass(frozen=True)
class Rows:
    """Keys in order, each once, and which of them are deletes."""

    keys: np.ndarray
    deleted: np.ndarray


def options_of(given: Mapping[str, str]) -> Options:
    """A table's options; those that no table takes are refused."""
    check_new_table(given, table="(simulated)")
    return Options.parse(dict(given))


def simulate(options: Options, workload: Workload) -> Iterator[State]:
    """Run a workload; the state after each commit."""
    bucket = Bucket(options, workload.row_bytes)
    live = np.zeros(0, np.int64)
    for number, (rows, live) in enumerate(commits_of(workload), 1):
        bucket.commit(number, rows)
        yield bucket.state(number, live_rows=len(live))


def commits_of(workload: Workload) -> Iterator[tuple[Rows, np.ndarray]]:
    """The rows of each commit and the keys that are live after it."""
    rng = np.random.default_rng(workload.seed)
    live = np.zeros(0, np.int64)
    new_count = 0
    total = workload.commits * workload.rows
    # spread: every number below the total comes up once, in an order that looks random
    step = next(s for s in range(int(total * 0.618) | 1, 2 * total + 3, 2) if np.gcd(s, total) == 1)
    for _ in range(workload.commits):
        old = min(int(workload.rows * (workload.updates + workload.deletes)), len(live))
        known = rng.choice(live, old, replace=False) if old else live[:0]
        gone = known[: min(int(workload.rows * workload.deletes), old)]
        numbers = np.arange(new_count, new_count + workload.rows - old, dtype=np.int64)
        new_count += len(numbers)
        fresh = numbers if workload.rising else numbers * step % total
        keys = np.concatenate([known, fresh])
        order = np.argsort(keys)
        deleted = np.zeros(len(keys), np.bool_)
        deleted[: len(gone)] = True
        live = np.setdiff1d(np.concatenate([live, fresh]), gone, assume_unique=True)
        yield Rows(keys[order], deleted[order]), live


class Bucket:
    """One bucket under a policy."""

    def __init__(self, options: Options, row_bytes: int) -> None:
        self._policy = CompactionPolicy.of(options)
        self._stop = sorted_runs_stop(options)
        self._write_only = options.get(declared.WRITE_ONLY)
        self._full_every = options.get(declared.FULL_COMPACTION_DELTA_COMMITS)
        self._target = target_file_size_bytes(options, has_primary_key=True)
        self._row_bytes = row_bytes
        self._levels = Levels.of((), count=levels_count(options))
        self._rows: dict[str, Rows] = {}
        self._made = 0
        self._now_ms = 0
        self._number = 0
        self.written_bytes = self.ingested_bytes = self.compactions = 0

    def commit(self, number: int, rows: Rows) -> None:
        """As a bucket's writer: flush, compact, go on while there are too many runs."""
        self._number, self._now_ms = number, number * COMMIT_MS
        files = self._files(rows, level=0)
        self._levels = self._levels.updated((), files)
        self.ingested_bytes += sum(f.file_size_bytes for f in files)
        if not self._write_only:
            self._compact(pick(self._levels, self._policy, now_ms=self._now_ms))
            while len(self._levels.runs) > self._stop:
                picked = pick(self._levels, self._policy, now_ms=self._now_ms)
                assert picked is not None, "more runs than the trigger are always worth a pick"
                self._compact(picked)
        if self._full_every is not None and number % self._full_every == 0:
            self._compact(pick(self._levels, self._policy, full=True, now_ms=self._now_ms))

    def state(self, number: int, *, live_rows: int) -> State:
        """What there is now."""
        return State(
            number,
            tuple((r.level, len(r.files), r.size_bytes) for r in self._levels.runs),
            self.written_bytes,
            self.ingested_bytes,
            live_rows * self._row_bytes,
            self.compactions,
        )

    def live_keys(self) -> np.ndarray:
        """The keys that a read of all files gives."""
        merged = self._merged(self._levels.files, drop_deletes=True)
        return merged.keys

    def _compact(self, picked: Pick | None) -> None:
        if picked is None:
            return
        steps = plan(
            picked,
            KEY_TYPES,
            max_level=self._levels.max_level,
            target_size_bytes=self._target,
        )
        before: list[DataFileMeta] = []
        after: list[DataFileMeta] = []
        for step in steps:
            if isinstance(step, Rewrite):
                before += step.files
                merged = self._merged(step.files, drop_deletes=picked.drop_deletes)
                after += self._files(merged, level=picked.output_level)
            else:
                before.append(step.file)
                after.append(replace(step.file, level=picked.output_level))
        self._levels = self._levels.updated(before, after)
        kept = {f.file_name for f in after}
        for file in before:
            if file.file_name not in kept:
                del self._rows[file.file_name]
        self.compactions += 1

    def _merged(self, files: tuple[DataFileMeta, ...], *, drop_deletes: bool) -> Rows:
        """Of each key the row of the newest run."""
        newest = sorted(files, key=lambda f: (f.level, -f.max_sequence_number))
        parts = [self._rows[f.file_name] for f in newest]
        keys, first = np.unique(np.concatenate([p.keys for p in parts]), return_index=True)
        deleted = np.concatenate([p.deleted for p in parts])[first]
        if drop_deletes:
            keys, deleted = keys[~deleted], deleted[~deleted]
        return Rows(keys, deleted)

    def _files(self, rows: Rows, *, level: int) -> list[DataFileMeta]:
        """Rows as files of the target size."""
        size = max(1, self._target // self._row_bytes)
        return [
            self._file(
                Rows(rows.keys[start : start + size], rows.deleted[start : start + size]), level
            )
            for start in range(0, len(rows.keys), size)
        ]

    def _file(self, rows: Rows, level: int) -> DataFileMeta:
        name = f"data-{self._made}"
        self._made += 1
        self._rows[name] = rows
        file = DataFileMeta(
            file_name=name,
            file_size_bytes=len(rows.keys) * self._row_bytes,
            row_count=len(rows.keys),
            min_key=serialize_row([int(rows.keys[0])], KEY_TYPES),
            max_key=serialize_row([int(rows.keys[-1])], KEY_TYPES),
            key_stats=EMPTY_STATS,
            value_stats=EMPTY_STATS,
            min_sequence_number=self._number,
            max_sequence_number=self._number,
            schema_id=0,
            level=level,
            creation_time_ms=self._now_ms,
            delete_row_count=int(rows.deleted.sum()),
            file_source=0,
        )
        self.written_bytes += file.file_size_bytes
        return file
