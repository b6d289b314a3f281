"""A small table in a replayable world, and the reading back of it."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import pyarrow as pa

import tidelake
from proving import engine_draws, more_draws
from proving.engine_draws import UNRULED, Rules
from proving.model import MergedTable, ModelTable, Row, sorted_rows
from tidelake.fileio import FileIO
from tidelake.telemetry import Clock, Env

WAREHOUSE = "/warehouse"
NAME = "db.t"
LOCATION = f"{WAREHOUSE}/db.db/t"


@dataclass(frozen=True)
class Shape:
    """What kind of table a run draws."""

    keys: tuple[str, ...]
    partition_keys: tuple[str, ...]
    sequence_field: str | None
    options: tuple[tuple[str, str], ...]
    rules: Rules = UNRULED

    def option(self, key: str) -> str | None:
        return dict(self.options).get(key)

    @property
    def engine(self) -> str:
        return self.option("merge-engine") or "deduplicate"

    @property
    def keys_may_move(self) -> bool:
        """Whether a key may move between partitions."""
        return bool(self.keys) and not set(self.partition_keys) <= set(self.keys)

    @property
    def arrow_schema(self) -> pa.Schema:
        fields = []
        if self.partition_keys:
            fields.append(pa.field("p", pa.string()))
        if "s" in self.keys:
            fields.append(pa.field("s", pa.string()))
        fields += [
            pa.field("k", pa.int64()),
            pa.field("v", pa.string()),
            pa.field("n", pa.int32()),
            pa.field("x", pa.float64()),
            *(pa.field(name, pa.int32()) for name in self.rules.columns),
            *(pa.field(name, more_draws.TYPES[name]) for name in self.rules.typed),
        ]
        return pa.schema(fields)

    def model(self) -> ModelTable:
        """The empty table as a dict."""
        is_merged = self.engine in ("partial-update", "aggregation")
        named = {
            "engine": self.engine,
            "descending": self.option("sequence.field.sort-order") == "descending",
            "ignore_delete": self.option("ignore-delete") == "true",
            "ignore_update_before": self.option("ignore-update-before") == "true",
            "waiting": [] if self.option("bucket") == "-2" else None,
        }
        given = (self.keys, self.partition_keys, self.sequence_field)
        if is_merged:
            return MergedTable(*given, **named, options=dict(self.options))
        return ModelTable(*given, **named)

    def create(self, catalog) -> None:
        catalog.create_table(
            NAME,
            self.arrow_schema,
            primary_keys=list(self.keys),
            partition_keys=list(self.partition_keys),
            options=dict(self.options),
        )


def open_catalog(fileio: FileIO, seed: int, *, clock: Clock | None = None):
    env = Env.seeded(seed)
    env = env if clock is None else replace(env, clock=clock)
    return tidelake.open(WAREHOUSE, fileio=fileio, env=env)


def shape_of(seed: int, rng: random.Random) -> Shape:
    """The table of a seed; `rng` is what its steps are drawn from."""
    shape = draw_shape(rng)
    options, rules = more_draws.more_of(
        seed, dict(shape.options), shape.keys, shape.rules, moves=shape.keys_may_move
    )
    shape = replace(shape, options=tuple(options.items()), rules=rules)
    return shape if seed % 2 else in_clusters(shape, random.Random(f"{seed} clustered"), share=0.5)


def in_clusters(shape: Shape, rng: random.Random, *, share: float) -> Shape:
    """A share of the tables that may be sorted by other columns than their key is."""
    fits = (
        shape.keys
        and shape.engine in ("deduplicate", "first-row")
        and shape.sequence_field is None
        and shape.option("bucket") != "-2"
        and shape.option("changelog-producer") in (None, "none", "input")
        and shape.option("record-level.expire-time") is None
    )
    if not fits or rng.random() >= share:
        return shape
    options = dict(shape.options)
    if shape.engine == "deduplicate":
        options["deletion-vectors.enabled"] = "true"
    options["pk-clustering-override"] = "true"
    options["clustering.columns"] = rng.choice(["v", "n,v", "x", "x,n", "k"])
    return replace(shape, options=tuple(options.items()))


def draw_shape(rng: random.Random) -> Shape:
    """A table of a random kind: the swarm of options differs from seed to seed."""
    partitioned = rng.random() < 0.5
    partition_keys = ("p",) if partitioned else ()
    # draws of their own, so that the seeds' other choices stay what they were
    own = random.Random(repr(rng.getstate()))
    if own.random() < ENGINES_SHARE:
        return draw_engine_shape(own)
    if rng.random() < 0.2:
        options = {"bucket": "-1"} if rng.random() < 0.5 else {"bucket": "2", "bucket-key": "k"}
        # no draw of its own, so that the seeds' other choices stay what they were
        if partitioned or options["bucket"] == "2":
            options["deletion-vectors.enabled"] = "true"
        if partitioned and options["bucket"] == "2":
            options["deletion-vectors.bitmap64"] = "true"
        return Shape((), partition_keys, None, tuple(options.items()))
    keys = ("s", "k") if rng.random() < 0.4 else ("k",)
    options = {"bucket": str(rng.choice([1, 1, 2] if partitioned else [1, 1, 2, 3]))}
    if rng.random() < 0.5:
        options["num-sorted-run.compaction-trigger"] = str(rng.choice([2, 3, 5]))
    if rng.random() < 0.2:
        # its files only become more: with several buckets a seed takes five times as long
        options |= {"write-only": "true", "bucket": "1"}
    if rng.random() < 0.3:
        options["target-file-size"] = "2 kb"
    if rng.random() < 0.3:
        options["write-buffer-size"] = "1 kb"
        options["write-buffer-spillable"] = rng.choice(["true", "false"])
    if rng.random() < 0.2:
        options["manifest.merge-min-count"] = "3"
    if rng.random() < 0.2:
        options["manifest.target-file-size"] = "2 kb"
    sequence_field = "n" if rng.random() < 0.3 else None
    if sequence_field:
        options["sequence.field"] = sequence_field
    # no draw of its own, so that the seeds' other choices stay what they were
    if "write-buffer-size" in options and "write-only" not in options:
        options["deletion-vectors.enabled"] = "true"
        if partitioned:
            options["deletion-vectors.bitmap64"] = "true"
        if "target-file-size" in options:
            options["changelog-producer"] = "lookup"
    if options["bucket"] != "1" and "num-sorted-run.compaction-trigger" in options:
        options |= {"bucket": "-1", "dynamic-bucket.target-row-num": "30"}
    if sequence_field is None and "deletion-vectors.enabled" not in options:
        options |= _draw_engine(random.Random(repr(rng.getstate())), options)
    if partitioned and sequence_field is None and "manifest.target-file-size" in options:
        options |= {"bucket": "-1", "dynamic-bucket.target-row-num": "30"}
        return Shape(keys, partition_keys, None, tuple(options.items()))
    return Shape(partition_keys + keys, partition_keys, sequence_field, tuple(options.items()))


ENGINES = {
    "deduplicate": {},
    "partial-update": {"partial-update.remove-record-on-delete": "true"},
    "aggregation": {
        "fields.n.aggregate-function": "sum",
        "fields.x.aggregate-function": "max",
        "aggregation.remove-record-on-delete": "true",
    },
    "first-row": {"ignore-delete": "true"},
}
PRODUCERS = ("none", "input", "lookup", "full-compaction")


def _draw_engine(rng: random.Random, options: dict[str, str]) -> dict[str, str]:
    """An engine and a producer, by draws of their own: the seed's other choices stay."""
    if rng.random() < 0.6:
        return {}
    engine = rng.choice(list(ENGINES))
    drawn = {} if engine == "deduplicate" else {"merge-engine": engine, **ENGINES[engine]}
    producer = rng.choice(PRODUCERS)
    if engine == "first-row" and producer != "none":
        producer = "lookup"
    if producer != "none":
        drawn["changelog-producer"] = producer
        if rng.random() < 0.5 and producer != "input":  # which compares nothing
            drawn["changelog-producer.row-deduplicate"] = "true"
    if producer == "lookup":
        drawn["write-only"] = "false"  # changes would wait untold
    return drawn


ENGINES_SHARE = 0.4
"""Of all seeds, those that put engines, producers, deletion vectors and buckets together."""


def draw_engine_shape(
    rng: random.Random, *, engine: str | None = None, producer: str | None = None
) -> Shape:
    """A primary-key table of any engine with any producer, kind of buckets and order of rows."""
    engine = rng.choice(engine_draws.ENGINES) if engine is None else engine
    if producer is None:
        producer = rng.choice(engine_draws.PRODUCERS)
        if engine == "first-row" and producer != "none":
            producer = "lookup"
    kind = rng.choice(engine_draws.BUCKETS)
    partition_keys = ("p",) if kind == "moving" or rng.random() < 0.4 else ()
    options, sequence, rules = engine_draws.draw_engine(rng, engine, producer, kind)
    options |= {
        "one": {"bucket": "1"},
        "some": {"bucket": "2"},
        "dynamic": {"bucket": "-1", "dynamic-bucket.target-row-num": "30"},
        "moving": {"bucket": "-1", "dynamic-bucket.target-row-num": "30"},
        "postpone": {"bucket": "-2", "postpone.default-bucket-num": rng.choice("12")},
    }[kind]
    if rng.random() < 0.6:
        options["num-sorted-run.compaction-trigger"] = rng.choice("235")
    if rng.random() < 0.3:
        options["target-file-size"] = "2 kb"
    if rng.random() < 0.3:
        options["write-buffer-size"] = "1 kb"
        options["write-buffer-spillable"] = rng.choice(["true", "false"])
    if rng.random() < 0.4:
        options["changelog.num-retained.max"] = "100000"  # more than of snapshots
    keys = ("s", "k") if rng.random() < 0.3 else ("k",)
    keys = keys if kind == "moving" else partition_keys + keys
    return Shape(keys, partition_keys, sequence, tuple(options.items()), rules)


def draw_rows(
    shape: Shape,
    rng: random.Random,
    count: int,
    *,
    key_space: int = 40,
    clock: int = 0,
    retract: bool = False,
) -> list[Row]:
    """Rows; `clock` counts those of the table before, `retract` says what they are for."""
    rows: list[Row] = []
    for number in range(count):
        row: Row = {}
        if shape.partition_keys:
            row["p"] = rng.choice(["a", "b", "c/d"])
        if "s" in shape.keys:
            row["s"] = rng.choice(["", "a", "a\x00", "long-key-of-more-than-seven", "é"])
        row["k"] = rng.randrange(-key_space // 2, key_space // 2)
        row["v"] = rng.choice([None, "", f"v{rng.randrange(1000)}", "x" * rng.randrange(40)])
        row["n"] = rng.choice([None, rng.randrange(-50, 50)])
        row["x"] = rng.choice([None, rng.uniform(-1, 1), 0.0])
        shape.rules.complete(row, rng, clock + number, retracts=retract)
        row |= {name: more_draws.value_of(name, rng) for name in shape.rules.typed}
        rows.append(row)
    return rows


def arrow_of(shape: Shape, rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=shape.arrow_schema)


def content_of(table, **selection) -> list[Row]:
    return sorted_rows(table.to_arrow(**selection).to_pylist())
