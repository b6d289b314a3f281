"""Draws pipelines: a source table, a stream of its changes, and a target that must be equal.

A pipeline has one source of a drawn kind (keys that move between partitions, fixed buckets that are
rescaled, dynamic and postponed buckets, deletion vectors), engine and changelog producer, and one
target that folds by the same key. Commits of all kinds change the source; now and then the stream
runs over what is there, by a drawn door and under drawn limits. The oracle is a dict: what a batch
read of the source holds, by key. The target's batch read must hold the same. No code of streams
tells what is right.

Doors without an engine write each batch of :class:`~tidelake.table.stream.StreamPlan`, or what
``Table.stream`` gives, into the target in one commit. Doors of Spark are queries of a session that
the caller has.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa

import tidelake
from tidelake.table import Table
from tidelake.table.stream import NO_LIMITS, ReadLimits, StreamOffset, StreamPlan

__all__ = ["Pipeline", "Source", "kernel_door"]

COLUMNS = {"p": "STRING NOT NULL", "k": "INT NOT NULL", "v": "INT", "n": "BIGINT"}
PLACES = "abc"
KEYS = 12
DELETES = {"+I": 6, "+U": 2, "-D": 2}
Row = dict[str, Any]


@dataclass(frozen=True)
class Source:
    """What one kind of source allows."""

    keys: tuple[str, ...]
    partitioned: bool
    options: dict[str, str]
    engines: tuple[str, ...] = ("deduplicate",)
    producers: tuple[str, ...] = ("none", "input", "lookup", "full-compaction")
    steps: tuple[str, ...] = ("write", "write", "write", "compact", "delete")


ALL_ENGINES = ("deduplicate", "deduplicate", "partial-update", "aggregation", "first-row")
SOURCES = {
    "moving": Source(
        ("k",),
        True,
        {"bucket": "-1", "dynamic-bucket.target-row-num": "4"},
        steps=("write", "write", "write", "write", "compact", "delete"),
    ),
    "fixed": Source(
        ("p", "k"),
        True,
        {"bucket": "2"},
        ALL_ENGINES,
        steps=("write", "write", "compact", "delete", "rescale", "overwrite", "drop"),
    ),
    "flat": Source(
        ("k",),
        False,
        {"bucket": "1"},
        ALL_ENGINES,
        steps=("write", "write", "compact", "delete", "rescale", "overwrite"),
    ),
    "dynamic": Source(
        ("p", "k"),
        True,
        {"bucket": "-1", "dynamic-bucket.target-row-num": "3"},
        steps=("write", "write", "compact", "delete", "overwrite", "drop"),
    ),
    "postpone": Source(
        ("p", "k"),
        True,
        {"bucket": "-2"},
        producers=("none", "lookup"),
        steps=("write", "write", "compact"),
    ),
    "vectors": Source(
        ("k",),
        False,
        {"bucket": "2", "deletion-vectors.enabled": "true"},
        producers=("none", "lookup"),
        steps=("write", "write", "compact", "delete", "rescale"),
    ),
}
KINDS = ("moving", "moving", "moving", "fixed", "fixed", "flat", "dynamic", "postpone", "vectors")
ENGINES: dict[str, tuple[dict[str, str], tuple[str, ...], dict[str, int]]] = {
    "deduplicate": ({}, ("none", "input", "lookup", "full-compaction"), DELETES),
    "partial-update": (
        {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
        ("lookup", "full-compaction"),
        {"+I": 6, "+U": 2, "-D": 1},
    ),
    "aggregation": (
        {
            "merge-engine": "aggregation",
            "fields.v.aggregate-function": "sum",
            "fields.n.aggregate-function": "max",
        },
        ("lookup", "full-compaction"),
        {"+I": 6, "+U": 2},
    ),
    "first-row": ({"merge-engine": "first-row"}, ("lookup",), {"+I": 1}),
}
_LAST = {
    "merge-engine": "aggregation",
    "fields.default-aggregate-function": "last_value",
    "aggregation.remove-record-on-delete": "true",
}
TARGETS: dict[str, tuple[bool, dict[str, str]]] = {
    "flat": (False, {"bucket": "2"}),
    "partitioned": (True, {"bucket": "-1"}),
    "dynamic": (False, {"bucket": "-1", "dynamic-bucket.target-row-num": "5"}),
    "by sequence": (False, {"bucket": "1", "sequence.field": "n"}),
    "last values": (False, {"bucket": "2", **_LAST}),
    "logged": (False, {"bucket": "1", "changelog-producer": "lookup"}),
}
FILTERS = ("v > 20", "v > 10 AND k > 2", "k > 2", "p <> 'b'", "v < 30 OR k < 3")
LIMITS = (NO_LIMITS, NO_LIMITS, ReadLimits(files=1), ReadLimits(rows=5), ReadLimits(files=3))


@dataclass
class Pipeline:
    """One drawn pipeline.

    Parameters
    ----------
    seed : int
        Decides all of it.
    catalog : Catalog
        Gets the tables.
    name : str
        The database of the tables, of this pipeline alone.
    """

    seed: int
    catalog: tidelake.Catalog
    name: str
    commits: int = 0
    told: list[str] = field(default_factory=list)
    """What was done, for messages."""

    def __post_init__(self) -> None:
        self.rng = rng = random.Random(self.seed)
        self.kind = KINDS[self.seed % len(KINDS)]
        self.own = own = SOURCES[self.kind]
        self.engine = rng.choice(own.engines)
        options, producers, self.row_kinds = ENGINES[self.engine]
        self.producer = rng.choice([p for p in producers if p in own.producers])
        if self.kind == "vectors":
            self.row_kinds = DELETES
        self.options = {**own.options, **options, "changelog-producer": self.producer}
        if self.producer == "full-compaction" and self.kind == "moving":
            self.options["full-compaction.delta-commits"] = "1"
        if rng.random() < 0.3:
            self.options["num-sorted-run.compaction-trigger"] = "2"
        if own.partitioned and rng.random() < 0.5:
            self.options["scan.plan-sort-partition"] = "true"
        if rng.random() < 0.5:
            self.options["delete.force-produce-changelog"] = "true"
        self.target_kind = rng.choice(list(TARGETS))
        if self.engine in {"aggregation", "partial-update"} and self.target_kind == "by sequence":
            self.target_kind = "flat"  # a delete of parts of rows has no sequence
        self.stream_options = {"streaming-read-overwrite": "diff"}
        if self.producer in {"none", "input"} and rng.random() < 0.3:
            self.stream_options["streaming-read-overwrite"] = "rows"
        self.steps = list(own.steps)
        if rng.random() < 0.2 and "rescale" in self.steps:  # what a rescale leaves as it was
            self.stream_options["streaming-read-overwrite"] = "skip"
            self.steps = [s for s in self.steps if s not in {"overwrite", "drop"}]
            self.options.pop("delete.force-produce-changelog", None)
        self.filter = rng.choice(FILTERS) if rng.random() < 0.3 else None
        self._make()

    @property
    def source_name(self) -> str:
        """The source's name."""
        return f"{self.name}.source"

    @property
    def target_name(self) -> str:
        """The target's name."""
        return f"{self.name}.target"

    @property
    def source(self) -> Table:
        """The source as it is now."""
        return self.catalog.table(self.source_name)

    @property
    def target(self) -> Table:
        """The target as it is now."""
        return self.catalog.table(self.target_name)

    def _make(self) -> None:
        own = self.own
        parts = ["p"] if own.partitioned else []
        self.catalog.create_table(
            self.source_name, COLUMNS, primary_keys=own.keys, partition_keys=parts,
            options=self.options,
        )  # fmt: skip
        partitioned, options = TARGETS[self.target_kind]
        self.catalog.create_table(
            self.target_name, COLUMNS, primary_keys=own.keys,
            partition_keys=["p"] if partitioned else [], options=options,
        )  # fmt: skip

    # ---- the source changes

    def change(self) -> None:
        """One commit, or the compaction of one."""
        step = self.rng.choice(self.steps) if self.source.latest_snapshot_id else "write"
        self.told.append(step)
        self.commits += 1
        getattr(self, f"_{step}")()

    def _rows(self, count: int) -> list[Row]:
        rng = self.rng
        return [
            {"p": rng.choice(PLACES), "k": rng.randrange(KEYS), "v": rng.randrange(50),
             "n": self.commits}
            for _ in range(count)
        ]  # fmt: skip

    def _write(self) -> None:
        rows = self._rows(self.rng.randint(1, 10))
        kinds = self.rng.choices(list(self.row_kinds), list(self.row_kinds.values()), k=len(rows))
        self.source.write(rows, row_kinds=kinds)

    def _compact(self) -> None:
        self.source.compact(full=self.rng.random() < 0.5)

    def _delete(self) -> None:
        if self.engine in {"first-row", "aggregation"}:
            self._write()
            return
        wheres = [f"k < {self.rng.randint(0, 3)}", f"v > {self.rng.randint(25, 45)}"]
        if self.own.partitioned and "delete.force-produce-changelog" in self.options:
            wheres += [f"p = '{self.rng.choice(PLACES)}'"] * 2
        self.source.delete(self.rng.choice(wheres))

    def _rescale(self) -> None:
        self.source.rescale_bucket(self.rng.choice([1, 2, 3, 4]))

    def _overwrite(self) -> None:
        self.source.write(self._rows(self.rng.randint(0, 8)), mode="overwrite")

    def _drop(self) -> None:
        self.source.drop_partitions([{"p": self.rng.choice(PLACES)}])

    def settle(self) -> None:
        """Compact all, so that each producer has told everything."""
        self.told.append("settle")
        self.source.compact(full=True)

    # ---- what is right

    def state(self, table: Table, wanted: str | None = None) -> dict[tuple[object, ...], Row]:
        """A batch read by key."""
        rows = table.to_arrow(filter=wanted).to_pylist()
        found = {tuple(row[name] for name in self.own.keys): row for row in rows}
        assert len(found) == len(rows), f"{self.shown}: a key is there twice"
        return found

    def check(self) -> None:
        """Compare the target with the source."""
        expected, found = self.state(self.source, self.filter), self.state(self.target)
        wrong = {
            key: (expected.get(key), found.get(key))
            for key in expected.keys() | found.keys()
            if expected.get(key) != found.get(key)
        }
        assert not wrong, f"{self.shown}: the source has, the target has: {wrong}"

    @property
    def shown(self) -> str:
        """The pipeline in words."""
        return (
            f"pipeline {self.seed}: {self.kind}, {self.engine}, {self.options}, into"
            f" {self.target_kind}, {self.stream_options}, filter {self.filter}, {self.told}"
        )

    def run(self, door: Callable[[Pipeline], None], *, runs: int = 3) -> None:
        """Change the source and run its stream in turns; at last compare."""
        for number in range(runs):
            for _ in range(self.rng.randint(1, 4)):
                self.change()
            if number == runs - 1:
                self.settle()
            self.told.append("run")
            door(self)
        self.check()


def kernel_door(pipeline: Pipeline) -> Callable[[Pipeline], None]:
    """A drawn door without an engine; keeps the position between its calls."""
    if pipeline.filter is not None:
        return _by_stream
    offset: list[str] = []
    doors: Sequence[Callable[[Pipeline], None]] = (
        partial(_by_plan, offset),
        partial(_by_plan, offset),
        _by_stream,
    )
    return pipeline.rng.choice(doors)


def _by_plan(offset: list[str], pipeline: Pipeline) -> None:
    """Batches between offsets, which go through their text as in a checkpoint."""
    plan = StreamPlan.of(pipeline.source.handle, pipeline.stream_options)
    while True:
        at = plan.offset(offset[0]) if offset else plan.initial()
        if at is None:  # no commit yet
            return
        end = plan.next(at, pipeline.rng.choice(LIMITS))
        if end == at:
            return
        rows = _between(plan, at, end)
        if rows.num_rows:
            pipeline.target.write(rows)
        offset[:] = [end.to_json()]


def _between(plan: StreamPlan, at: StreamOffset, end: StreamOffset) -> pa.Table:
    return plan.parts(at, end).reader().read_all()


def _by_stream(pipeline: Pipeline) -> None:
    """What a consumer gets, in commits of some batches."""
    stream = pipeline.source.stream(
        consumer_id="pipeline", filter=pipeline.filter, options=pipeline.stream_options, timeout=0
    )
    for rows in _gathered(stream, pipeline.rng):
        pipeline.target.write(rows)


def _gathered(stream: Iterator[Any], rng: random.Random) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    for batch in stream:
        held.append(batch.data)
        if rng.random() < 0.3:
            yield pa.Table.from_batches(held)
            held = []
    if held:
        yield pa.Table.from_batches(held)
