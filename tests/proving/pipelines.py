"""Draws pipelines: a source table, a stream of its changes, and a target that must be equal.

A pipeline has one source of a drawn kind (keys that move between partitions, fixed buckets that are
rescaled, dynamic and postponed buckets, deletion vectors), engine and changelog producer, and one
target that folds by the same key. Commits of all kinds change the source; now and then the stream
runs over what is there, by a door. The oracle is a dict: what a batch read of the source holds, by
key. The target's batch read must hold the same, as far as its engine can (:data:`TARGETS`). No code
of streams tells what is right.

The doors are those without an engine (:mod:`proving.kernel_doors`) and those of Spark
(:mod:`proving.spark_pipelines`). What is drawn together is crossed (:mod:`proving.crossing`).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import tidelake
from proving.crossing import Draw
from tidelake.table import Table

__all__ = [
    "AT_DELETE",
    "COLUMNS",
    "FACTORS",
    "FILTERS",
    "NO_FILTER",
    "OLD_ROWS",
    "SOURCES",
    "Pipeline",
    "State",
    "is_possible",
]

COLUMNS = {"p": "STRING NOT NULL", "k": "INT NOT NULL", "v": "INT", "n": "BIGINT"}
PLACES = "abc"
KEYS = 12
DELETES = {"+I": 6, "+U": 2, "-D": 2}
Row = dict[str, Any]
State = dict[tuple[object, ...], Row]


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


@dataclass(frozen=True)
class Target:
    """One kind of target.

    Parameters
    ----------
    options : dict of str to str
        Of the table.
    partitioned : bool
        Whether it has partitions.
    holds : {'rows', 'sums', 'kept'}
        What it shows of the source: its rows; its sums of ``v``, where what is taken back leaves a
        row without one; or its rows, and beside them old rows of keys that it has no more.
    whole : bool
        Whether a null takes the place of a value.
    """

    options: dict[str, str]
    partitioned: bool = False
    holds: str = "rows"
    whole: bool = True


_PARTIAL = {"bucket": "2", "merge-engine": "partial-update"}
_SUMS = {
    "merge-engine": "aggregation",
    "fields.v.aggregate-function": "sum",
    "fields.n.aggregate-function": "max",
    "fields.n.ignore-retract": "true",
}
TARGETS = {
    "flat": Target({"bucket": "2"}),
    "partitioned": Target({"bucket": "-1"}, partitioned=True),
    "dynamic": Target({"bucket": "-1", "dynamic-bucket.target-row-num": "5"}),
    "by sequence": Target({"bucket": "1", "sequence.field": "n"}),
    "last values": Target({"bucket": "2", **_LAST}),
    "logged": Target({"bucket": "1", "changelog-producer": "lookup"}),
    "parts": Target({**_PARTIAL, "partial-update.remove-record-on-delete": "true"}, whole=False),
    "parts that stay": Target({**_PARTIAL, "ignore-delete": "true"}, holds="kept", whole=False),
    "sums": Target({"bucket": "2", **_SUMS}, holds="sums"),
    "logged sums": Target({"bucket": "1", "changelog-producer": "lookup", **_SUMS}, holds="sums"),
}
AT_DELETE = frozenset({"last values", "parts"})
"""Targets that remove a row at -D, and not at -U."""
NO_FILTER = "none"
FILTERS = ("v > 20", "v > 10 AND k > 2", "k > 2", "p <> 'b'", "v < 30 OR k < 3")
OLD_ROWS = ("lookup", "full-compaction")
"""Producers whose changes have old rows."""
FACTORS = {
    # a moved key is what went wrong in most ways
    "kind": ("moving", "moving", "fixed", "flat", "dynamic", "postpone", "vectors"),
    "engine": tuple(ENGINES),
    "producer": ("none", "input", *OLD_ROWS),
    "target": tuple(TARGETS),
    "filter": (*[NO_FILTER] * 5, *FILTERS),
}
"""What is drawn for every door."""


def is_possible(draw: Draw) -> bool:
    """Whether a table can be so, and its target shows what it holds."""
    own, engine, target = SOURCES[draw["kind"]], draw["engine"], draw["target"]
    if engine not in own.engines or draw["producer"] not in own.producers:
        return False
    if draw["producer"] not in ENGINES[engine][1]:
        return False
    if TARGETS[target].holds == "sums" and draw["producer"] not in OLD_ROWS:
        return False  # what is not taken back counts twice
    # a delete of parts of rows has no sequence
    return not (engine in {"aggregation", "partial-update"} and target == "by sequence")


@dataclass
class Pipeline:
    """One drawn pipeline.

    Parameters
    ----------
    seed : int
        Decides what is not in `draw`.
    catalog : Catalog
        Gets the tables.
    name : str
        The database of the tables, of this pipeline alone.
    draw : mapping
        A choice of each of :data:`FACTORS`.
    """

    seed: int
    catalog: tidelake.Catalog
    name: str
    draw: Draw
    commits: int = 0
    told: list[str] = field(default_factory=list)
    """What was done, for messages."""

    def __post_init__(self) -> None:
        self.rng = rng = random.Random(self.seed)
        self.kind, self.engine = self.draw["kind"], self.draw["engine"]
        self.own = own = SOURCES[self.kind]
        self.into = TARGETS[self.draw["target"]]
        self.producer = self.draw["producer"]
        options, _, self.row_kinds = ENGINES[self.engine]
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
        self.stream_options = {"streaming-read-overwrite": "diff"}
        if self.producer in {"none", "input"} and rng.random() < 0.3:
            self.stream_options["streaming-read-overwrite"] = "rows"
        self.steps = list(own.steps)
        if rng.random() < 0.2 and "rescale" in self.steps:  # what a rescale leaves as it was
            self.leave_out_overwrites()
            self.options.pop("delete.force-produce-changelog", None)
        self.filter = None if self.draw["filter"] == NO_FILTER else self.draw["filter"]
        is_like_target = self.engine == "partial-update" and self.into.holds == "rows"
        self.nulls = 0.2 if self.into.whole or is_like_target else 0.0
        self.seen: set[tuple[object, ...]] = set()
        """The keys that were ever written."""
        self._make()
        self.renew_target()

    def leave_out_overwrites(self) -> None:
        """Let the stream pass over overwrites, and make none that changes rows."""
        self.stream_options["streaming-read-overwrite"] = "skip"
        passed = {"overwrite", "drop"}
        if self.producer == "full-compaction":  # a rescale merges what was not logged yet
            passed.add("rescale")
        self.steps = [step for step in self.steps if step not in passed]

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

    def renew_target(self) -> None:
        """Make the target, empty; one that is there is dropped."""
        self.catalog.drop_table(self.target_name, if_missing="ignore")
        options = dict(self.into.options)
        if self.into.holds == "sums" and "p" not in self.own.keys:
            options["fields.p.ignore-retract"] = "true"
        self.catalog.create_table(
            self.target_name, COLUMNS, primary_keys=self.own.keys,
            partition_keys=["p"] if self.into.partitioned else [], options=options,
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
        rows = [
            {"p": rng.choice(PLACES), "k": rng.randrange(KEYS),
             "v": None if rng.random() < self.nulls else rng.randrange(50), "n": self.commits}
            for _ in range(count)
        ]  # fmt: skip
        self.seen |= {self._key(row) for row in rows}
        return rows

    def _key(self, row: Row) -> tuple[object, ...]:
        return tuple(row[name] for name in self.own.keys)

    def _write(self) -> None:
        rows = self._rows(self.rng.randint(1, 10))
        kinds = self.rng.choices(list(self.row_kinds), list(self.row_kinds.values()), k=len(rows))
        self.source.write(rows, row_kinds=kinds)

    def add_new_key(self) -> None:
        """Write a row of a new key that passes every filter."""
        self.commits += 1
        self.told.append("new key")
        row = {"p": "a", "k": KEYS + self.commits, "v": 25, "n": self.commits}
        self.seen.add(self._key(row))
        self.source.write([row])

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

    def state(self, table: Table, wanted: str | None = None) -> State:
        """A batch read by key."""
        rows = table.to_arrow(where=wanted).to_pylist()
        found = {self._key(row): row for row in rows}
        assert len(found) == len(rows), f"{self.shown}: a key is there twice"
        return found

    def check(self) -> None:
        """Compare the target with the source."""
        self.check_rows(self.state(self.target))

    def check_rows(self, found: State) -> None:
        """Compare rows by key, as the target has them, with the source."""
        expected = self.state(self.source, self.filter)
        if self.into.holds == "sums":
            expected, found = _sums(expected), _sums(found)
        if self.into.holds == "kept":
            old = found.keys() - expected.keys()
            assert old <= self.seen, f"{self.shown}: the target has keys of its own"
            found = {key: row for key, row in found.items() if key in expected}
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
            f"pipeline {self.seed}: {dict(self.draw)}, {self.options}, {self.stream_options},"
            f" filter {self.filter}, {self.told}"
        )

    def run(self, door: Callable[[Pipeline], None], *, runs: int = 3) -> None:
        """Change the source and run its stream in turns; at last compare."""
        for number in range(runs):
            self.change_often()
            if number == runs - 1:
                self.settle()
            self.told.append("run")
            door(self)
        self.check()

    def change_often(self) -> None:
        """Some commits."""
        for _ in range(self.rng.randint(1, 4)):
            self.change()


def _sums(rows: State) -> State:
    """The sum of each key; nothing is left of a key whose values were all taken back."""
    return {key: {"v": row["v"]} for key, row in rows.items() if row["v"]}
