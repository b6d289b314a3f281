"""Filters on changes, drawn: whoever folds a filtered stream by key has the filtered table.

A case is a table (key, partitions, bucket count, ``changelog-producer``, engine), a filter on
values, on keys, on both or on partition columns, and a door. Rows come to the filter, leave it, are
deleted by key and by condition, and come again; readers come and go between.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

import tidelake
from tidelake.fileio import MemoryFileIO
from tidelake.table import Table
from tidelake.table.stream.follow import StreamBatch
from tidelake.telemetry import Env, ManualClock

__all__ = ["FILTERS", "PRODUCERS", "FilterLosesRows", "FilteredCase", "fold", "run", "step"]

PRODUCERS = ("none", "none", "input", "lookup", "full-compaction")
FILTERS = (
    "v > 4",
    "v IS NULL",
    "v > 4 AND k > 2",
    "v > 4 OR k < 2",
    "k > 2",
    "p = 'a'",
    "p = 'a' AND v <= 6",
    "NOT (v > 4)",
    "v IN (1, 5, 9) AND p <> 'b'",
)
"""On values, on keys, on both, on partition columns; unknown for null."""
KEYS, STEPS = 8, 10


class FilterLosesRows(AssertionError):
    """What a reader has is not what the table has."""


@dataclass(frozen=True, slots=True)
class FilteredCase:
    """A drawn case.

    Parameters
    ----------
    seed : int
        Draws the rows, too.
    producer, engine : str
        Options of the table.
    keys, partition_keys : tuple of str
        Of the table.
    buckets : int
        How many.
    filter : str
        The rows wanted.
    door : str
        How changes are read.
    """

    seed: int
    producer: str
    engine: str
    keys: tuple[str, ...]
    partition_keys: tuple[str, ...]
    buckets: int
    filter: str
    door: str

    @classmethod
    def of(cls, seed: int) -> FilteredCase:
        """Draw a case; every filter and producer comes in turn."""
        rng = random.Random(seed)
        producer = PRODUCERS[seed % len(PRODUCERS)]
        has_log = producer in {"lookup", "full-compaction"}
        engine = rng.choice(["deduplicate", "partial-update"]) if has_log else "deduplicate"
        parted = rng.random() < 0.5
        doors = ["stream", "latest-full", "consumer", "follow"]
        doors += ["changes"] if producer != "full-compaction" else []
        return cls(
            seed,
            producer,
            engine,
            ("p", "k") if parted else ("k",),
            ("p",) if parted else (),
            rng.choice([1, 2]),
            FILTERS[seed // len(PRODUCERS) % len(FILTERS)],
            rng.choice(doors),
        )

    def made(self) -> Table:
        """Make the table in memory."""
        env = replace(Env.seeded(self.seed), clock=ManualClock(1_700_000_000_000))
        catalog = tidelake.open("/w", fileio=MemoryFileIO(), env=env)
        options = {
            "bucket": self.buckets,
            "changelog-producer": self.producer,
            "merge-engine": self.engine,
        }
        if self.engine == "partial-update":
            options["partial-update.remove-record-on-delete"] = True
        return catalog.create_table(
            "db.t",
            {"k": "INT NOT NULL", "v": "INT", "p": "STRING NOT NULL"},
            primary_keys=self.keys,
            partition_keys=self.partition_keys,
            options=options,
        )


def step(table: Table, rng: random.Random) -> None:
    """One commit: rows of some keys, deletes by key, or by a condition."""
    keys = rng.sample(range(KEYS), rng.randint(1, KEYS // 2))
    rows = [{"k": k, "v": rng.choice([*range(10), None]), "p": "ab"[k % 2]} for k in keys]
    way = rng.random()
    if way < 0.6 or table.latest_snapshot_id is None:
        table.write(rows)
    elif way < 0.85:
        table.delete([{key: row[key] for key in table.primary_keys} for row in rows])
    elif way < 0.95:
        table.delete(f"v = {rng.randrange(10)}")
    else:
        table.compact(full=True)


def fold(state: dict[int, tuple[object, ...]], rows: Iterable[Mapping[str, object]]) -> None:
    """Apply changes by key, as a table does."""
    for row in rows:
        kind, key = row["_row_kind"], row["k"]
        if kind in ("+I", "+U"):
            state[int(str(key))] = (row["v"], row["p"])
        else:
            state.pop(int(str(key)), None)


def run(seed: int) -> FilteredCase:
    """Run one case; what a reader has must be the filtered table whenever it has caught up.

    Raises
    ------
    FilterLosesRows
        It is not.
    """
    case, rng = FilteredCase.of(seed), random.Random(seed + 1)
    table = case.made()
    state: dict[int, tuple[object, ...]] = {}
    read = _reader(case, table, rng)
    for number in range(STEPS):
        step(table, rng)
        if rng.random() < 0.4 or number == STEPS - 1:
            if case.producer == "full-compaction":
                table.compact(full=True)
            read(state)
            kept = table.to_arrow(where=case.filter).to_pylist()
            expected = {row["k"]: (row["v"], row["p"]) for row in kept}
            if state != expected:
                raise FilterLosesRows(f"{case}, commit {number}: {state}, not {expected}")
    return case


def _reader(
    case: FilteredCase, table: Table, rng: random.Random
) -> Callable[[dict[int, tuple[object, ...]]], None]:
    """How the case's door brings a state up to date."""
    seen = [0]

    def by_stream(state: dict[int, tuple[object, ...]]) -> None:
        start: int | str = 1 if case.door == "stream" else "latest-full"
        state.clear()
        limits = {"read.stream.maxFilesPerTrigger": 1} if rng.random() < 0.5 else {}
        for batch in table.stream(start=start, where=case.filter, options=limits, timeout=0):
            fold(state, batch.data.to_pylist())

    def by_consumer(state: dict[int, tuple[object, ...]]) -> None:
        for batch in table.stream(consumer_id="c", where=case.filter, timeout=0):
            fold(state, batch.data.to_pylist())

    def by_follow(state: dict[int, tuple[object, ...]]) -> None:
        def take(batch: StreamBatch) -> None:
            fold(state, batch.data.to_pylist())

        table.follow(take, consumer_id="f", where=case.filter, timeout=0)

    def by_changes(state: dict[int, tuple[object, ...]]) -> None:
        found: pa.Table = table.changes(seen[0], where=case.filter, mode="auto")
        seen[0] = table.latest_snapshot_id or 0
        fold(state, found.to_pylist())

    doors = {"consumer": by_consumer, "follow": by_follow, "changes": by_changes}
    return doors.get(case.door, by_stream)
