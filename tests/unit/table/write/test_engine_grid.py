"""Every engine with every producer, kind of buckets and order of rows, against plain Python."""

from __future__ import annotations

import itertools
import random
import re
from pathlib import Path

import pytest
from proving.changelog import replay
from proving.grid import GridModel, NewestSequence
from sizes import SIZE

import tidelake
from tidelake import col
from tidelake.errors import InvalidInputError, UnsupportedError
from tidelake.fileio import MemoryFileIO
from tidelake.store.lsm import bucket_writer
from tidelake.store.lsm.compaction_picker import pick
from tidelake.telemetry import Env

COLUMNS = ("k", "p", "a", "b", "c", "s", "t", "g", "w", "kind")
TYPES = {"k": "INT NOT NULL", "p": "STRING NOT NULL", "a": "INT", "b": "INT", "c": "INT",
         "s": "INT", "t": "INT", "g": "INT", "w": "STRING", "kind": "STRING"}  # fmt: skip

GROUPS = {"merge-engine": "partial-update", "fields.g,b.sequence-group": "a,c"}
AGGREGATION = {
    "merge-engine": "aggregation",
    "fields.a.aggregate-function": "sum",
    "fields.kind.aggregate-function": "last_value",
}
ENGINES = {
    "deduplicate": {"merge-engine": "deduplicate"},
    "partial-update": {
        "merge-engine": "partial-update",
        "partial-update.remove-record-on-delete": "true",
    },
    "groups": GROUPS,
    "groups, removal": {
        **GROUPS,
        "fields.a.aggregate-function": "sum",
        "partial-update.remove-record-on-sequence-group": "g",
    },
    "aggregation": {
        **AGGREGATION,
        "fields.default-aggregate-function": "last_value",
        "fields.b.aggregate-function": "max",
        "fields.b.ignore-retract": "true",
        "fields.kind.ignore-retract": "true",
    },
    "aggregation, removal": {**AGGREGATION, "aggregation.remove-record-on-delete": "true"},
    "first-row": {"merge-engine": "first-row", "ignore-delete": "true"},
}
PRODUCERS = ("none", "input", "lookup", "full-compaction")
BUCKETS = {
    "fixed": {"bucket": "2"},
    "dynamic": {"bucket": "-1", "dynamic-bucket.target-row-num": "3"},
    "moving": {"bucket": "-1"},
    "postpone": {"bucket": "-2", "postpone.default-bucket-num": "2"},
}
DESCENDING = {"sequence.field.sort-order": "descending"}
ORDERS = {
    "arrival": {},
    "one sequence": {"sequence.field": "s"},
    "one descending": {"sequence.field": "s", **DESCENDING},
    "two sequences": {"sequence.field": "s,t"},
    "two descending": {"sequence.field": "s,t", **DESCENDING},
    "rowkind.field": {"rowkind.field": "kind"},
}
KEYS = 6
LARGE_BYTES = 8_000
CELLS = list(itertools.product(ENGINES, PRODUCERS, BUCKETS, ORDERS))

WHOLE = ("write", "write", "compact", "write", "full", "delete", "write", "full")
"""Steps of a table that is compacted wholly or not at all."""
IN_PARTS = ("large", "full", "add", "add", "compact", "delete", "write", "write", "full")
"""Steps of one where compactions take small new runs and leave a large old one."""
PARTLY = {"compaction.max-size-amplification-percent": "100000", "compaction.size-ratio": "100"}


def refusal(engine, producer, buckets, order):
    """The error and its words, where Paimon 1.3.1 refuses too; else None."""
    ordered = "sequence.field" in ORDERS[order]
    if buckets == "moving" and ordered:
        return UnsupportedError, "With option 'sequence.field' a row could lose to one of another"
    if engine == "first-row" and ordered:
        return InvalidInputError, "has 'sequence.field' under 'merge-engine' = 'first-row', which"
    if engine == "first-row" and producer not in ("none", "lookup"):
        return InvalidInputError, f"has 'changelog-producer' = '{producer}' under 'merge-engine' ="
    return None


def is_for_every_change(engine, producer, buckets, order):
    """Whether one of the cells that always run: each three of the others with one of the orders.

    Of all four, each two meet; a test says so.
    """
    pairs = zip((ENGINES, PRODUCERS, BUCKETS), (engine, producer, buckets), strict=True)
    place = sum(list(names).index(name) for names, name in pairs)
    takes = [name for name in ORDERS if refusal(engine, producer, buckets, name) is None]
    return takes.index(order) == place % len(takes)


TAKEN = [cell for cell in CELLS if refusal(*cell) is None]
SMALL_TABLES = [(cell, 0) for cell in TAKEN if is_for_every_change(*cell)]
TABLES = (
    SMALL_TABLES
    if SIZE.grid_seeds == 1
    else [(cell, seed) for cell in TAKEN for seed in range(SIZE.grid_seeds)]
)


def further_options(cell, seed):
    """Options that about half of the tables have: what one seed of a cell has not, the next has."""
    engine, producer, _, _ = cell
    rng = random.Random(str(cell))
    partly, marks, wide, same, leaves = ((rng.randrange(2) + seed) % 2 for _ in range(5))
    options = {"num-sorted-run.compaction-trigger": "50"}
    if partly:
        options = PARTLY | {"num-sorted-run.compaction-trigger": rng.choice("23")}
    if producer in ("lookup", "full-compaction") and same:
        options["changelog-producer.row-deduplicate"] = "true"
    if engine == "first-row":
        return options
    if marks and producer != "full-compaction":
        options["deletion-vectors.enabled"] = "true"
        options["deletion-vectors.bitmap64"] = "true" if wide else "false"
    elif leaves and producer != "lookup":
        options["write-only"] = "true"
    return options


def options_of(cell, seed):
    engine, producer, buckets, order = cell
    return {
        **ENGINES[engine],
        **BUCKETS[buckets],
        **ORDERS[order],
        **further_options(cell, seed),
        "changelog-producer": producer,
    }


def make(cell, options, *, fileio):
    catalog = tidelake.open("/w", fileio=fileio, env=Env.seeded(1))
    keys = ["k"] if cell[2] == "moving" else ["p", "k"]
    return catalog.create_table(
        "db.t", TYPES, primary_keys=keys, partition_keys=["p"], options=options
    )


class Draw:
    """Rows of one write; where the order of merges would count, of a kind that it does not.

    A table that looks keys up merges every write with what is there, one that is compacted in parts
    merges some rows before the others. So a row that comes late meets other rows than in a merge of
    all, and whether a retraction that found nothing is kept depends on the files beneath: there a
    row that retracts is the newest of a key that has a row.
    """

    def __init__(self, rng, cell, options):
        engine, producer, buckets, _ = cell
        self.rng, self.drawn = rng, 0
        self.key = ("k",) if buckets == "moving" else ("k", "p")
        marks = "deletion-vectors.enabled" in options
        looks_up = producer == "lookup" or marks
        partly = PARTLY.items() <= options.items()
        keeps_deletes = (producer == "lookup" or partly) and not marks
        keeps_values = engine.startswith(("aggregation", "groups")) or (
            partly and engine == "partial-update"
        )
        self.takes_from_rows_only = keeps_deletes and keeps_values
        # two retractions that meet without their row are a null to a column that ignores them
        self.retracts_once = self.takes_from_rows_only and engine == "aggregation"
        self.retracted = set()
        self.newest = None
        columns = []
        if "sequence.field" in options and (
            keeps_deletes if engine == "deduplicate" else looks_up or partly
        ):
            descending = DESCENDING.items() <= options.items()
            columns.append((options["sequence.field"].split(","), descending))
        removes = engine == "groups, removal" and (looks_up or partly)
        self.spreads = bool(columns) and engine.startswith("groups")
        if removes or self.spreads:
            columns.append((["g", "b"], False))
        if columns:
            self.newest = NewestSequence(rng, columns, self.key)

    def rows(self, present, step="write"):
        """Rows of a write; `present` are those that the table shows."""
        if step == "large":
            places = itertools.product(range(KEYS), "xy")
            drawn = [self.row(set(), "+I", key=key) for key in places]
            if self.key == ("k",):
                drawn = drawn[::2]
            return [(kind, *(row | {"w": self.large()}).values(), kind) for kind, row in drawn]
        keys = {row[: len(self.key)] for row in present}
        if step == "add":  # to few buckets, so that these have several runs
            drawn = [
                self.row(keys, "+I", key=(k, "x")) for k in self.rng.sample(range(KEYS), KEYS - 1)
            ]
        else:
            drawn = [self.row(keys, None) for _ in range(self.rng.randint(2, 9))]
        return [(kind, *row.values(), kind) for kind, row in drawn if kind is not None]

    def large(self):
        """A text that makes its file larger than all later ones."""
        return self.rng.randbytes(LARGE_BYTES).hex()

    def row(self, keys, kind, *, key=None):
        rng = self.rng
        some = None if self.newest is None else 0
        k, p = (rng.randrange(KEYS), rng.choice("xxy")) if key is None else key
        row = {
            "k": k,
            "p": p,
            **{name: rng.choice([some, rng.randrange(4)]) for name in "abc"},
            **{name: rng.choice([some, 1, 2, 3]) for name in "stg"},
            "w": rng.choice(["" if self.newest else None, "w"]),
        }
        if self.spreads:  # of rows with one sequence in a group it counts which of them met first
            self.drawn += 1
            row["b"] = self.drawn
        kind = rng.choice(["+I", "+U", "-D", "-U"]) if kind is None else kind
        if self.takes_from_rows_only and tuple(row[name] for name in self.key) not in keys:
            kind = "+I"
        if self.newest is not None:
            kind = self.newest.placed(row, kind)
        if self.retracts_once and kind is not None:
            key = tuple(row[name] for name in self.key)
            if kind in ("-D", "-U") and key in self.retracted:
                kind = "+I"
            (self.retracted.add if kind in ("-D", "-U") else self.retracted.discard)(key)
        return kind, row


def rows_of(read):
    return [tuple(row.values()) for row in read.to_pylist()]


def by_key(changes):
    """Changes of each key in each partition, in their order: of several none is the first."""
    found = {}
    for change in changes:
        found.setdefault((change[1], change[2]), []).append(tuple(change))
    return found


def replayed(told, changes):
    """The rows by key after some changes more."""
    return replay(told, [(kind, (k, p), k, p, *row) for kind, k, p, *row in changes])


def all_files(fileio, directory="/w"):
    """Paths of all files beneath a directory."""
    for status in fileio.list_dir(directory):
        path = f"{directory}/{status.name}"
        yield from all_files(fileio, path) if status.is_dir else [path]


def test_every_pair_is_in_a_cell_that_always_runs():
    few = [cell for cell, _ in SMALL_TABLES]
    for one, other in itertools.combinations(range(4), 2):
        wanted = {(cell[one], cell[other]) for cell in TAKEN}
        assert {(cell[one], cell[other]) for cell in few} == wanted
    assert {cell[:3] for cell in few} == {cell[:3] for cell in TAKEN}


def test_the_figures_in_the_documents_are_true():
    drawn, refused = [options_of(*table) for table in SMALL_TABLES], len(CELLS) - len(TAKEN)
    partly = sum(PARTLY.items() <= own.items() for own in drawn)
    marks = [own for own in drawn if "deletion-vectors.enabled" in own]
    wide = sum(own["deletion-vectors.bitmap64"] == "true" for own in marks)
    same = sum("changelog-producer.row-deduplicate" in own for own in drawn)
    leaves = sum("write-only" in own for own in drawn)
    said = (
        f"{len(drawn)} cells: {partly} compacted in parts, {len(marks)} with deletion vectors"
        f" ({wide} of 64 bits), {same} with `row-deduplicate`, {leaves} `write-only`;"
        f" {refused} of all {len(CELLS)} are refused"
    )
    page = Path(__file__).parents[4] / "docs" / "internals" / "proof.md"
    assert said in page.read_text(encoding="utf-8")


@pytest.fixture
def parts(monkeypatch):
    """The compactions that took several runs of a bucket and left older ones."""
    found = []

    def watched(levels, policy, **given):
        picked = pick(levels, policy, **given)
        if picked is not None and not policy.empties_level_0:
            taken = sum(set(run.files) <= set(picked.files) for run in levels.runs)
            if 1 < taken < len(levels.runs):
                found.append((taken, len(levels.runs)))
        return picked

    monkeypatch.setattr(bucket_writer, "pick", watched)
    return found


@pytest.mark.parametrize("cell", [c for c in CELLS if c not in TAKEN], ids=" / ".join)
def test_what_paimon_refuses_is_refused_before_a_byte_is_written(cell):
    fileio = MemoryFileIO()
    error, words = refusal(*cell)
    with pytest.raises(error, match=re.escape(words)):
        make(cell, options_of(cell, 0), fileio=fileio)
    assert list(all_files(fileio)) == []


@pytest.mark.parametrize(
    ("cell", "seed"), TABLES, ids=[f"{' / '.join(cell)} {seed}" for cell, seed in TABLES]
)
def test_a_cell_says_what_the_model_says(cell, seed, parts):
    options = options_of(cell, seed)
    fileio = MemoryFileIO()
    table = make(cell, options, fileio=fileio)
    assert list(all_files(fileio)) == ["/w/db.db/t/schema/schema-0"]
    run = Run(cell, options, table, random.Random(f"{cell} {seed}"))
    run.all_steps()
    if run.partly and not run.looks_up:
        assert parts, "no compaction left older runs as they were"


class Run:
    """The steps on one table and on its model."""

    def __init__(self, cell, options, table, rng):
        self.engine, self.producer, self.buckets, self.order = cell
        self.table, self.options = table, options
        self.partly = PARTLY.items() <= options.items()
        marks = "deletion-vectors.enabled" in options
        self.looks_up = self.producer == "lookup" or marks or self.engine == "first-row"
        self.model = GridModel(COLUMNS, options, self.buckets)
        self.draw = Draw(rng, cell, options)
        # a changelog by full compaction tells earlier where a compaction took all by itself
        self.told = {} if self.partly and self.producer == "full-compaction" else None

    def all_steps(self):
        for step in IN_PARTS if self.partly else WHOLE:
            self.do(step)
            if self.partly and self.buckets == "postpone" and step in ("add", "delete"):
                self.do("compact")  # else all that waits would be one run

    def do(self, step):
        start = self.table.latest_snapshot_id or 0
        if step in ("compact", "full"):
            self.table.compact(full=step == "full")
            logs = dict(zip(PRODUCERS[1:], self.model.compact(full=step == "full"), strict=True))
        elif step == "delete":
            logs = self.delete()
        else:
            logs = self.write(self.draw.rows(self.model.state(), step))
        if self.draw.newest is not None and (
            self.buckets != "postpone" or step in ("compact", "full")
        ):
            self.draw.newest.merged()
        changes, told = [], logs.get(self.producer, [])
        if (self.table.latest_snapshot_id or 0) > start:
            rows = rows_of(self.table.to_arrow())
            assert sorted(rows, key=repr) == sorted(self.model.state(), key=repr)
            if self.producer != "none":
                changes = rows_of(self.table.changes(start, mode="changelog"))
        if self.told is None:
            assert by_key(changes) == by_key(told)
            return
        self.told = replayed(self.told, changes)
        if step == "full":
            rows = [tuple(row) for _, *row in self.told.values()]
            assert sorted(rows, key=repr) == sorted(self.model.state(), key=repr)

    def write(self, rows):
        kinds = None if self.order == "rowkind.field" else [kind for kind, *_ in rows]
        values = [dict(zip(COLUMNS, row, strict=True)) for _, *row in rows]
        self.table.write(values, row_kinds=kinds)
        return dict(zip(("input", "lookup"), self.model.write(rows), strict=True))

    def delete(self):
        """Rows by a condition, where a delete of the engine removes rows; else it is refused."""
        rows = [("-D", *row) for row in self.model.state() if row[0] == 0]
        removes = self.engine in ("deduplicate", "partial-update", "aggregation, removal")
        if self.engine == "groups, removal":
            sequences = [[row[1 + COLUMNS.index(name)] for name in "gb"] for row in rows]
            removes = [None, None] not in sequences
        if removes:
            self.table.delete(col("k") == 0)
            if self.draw.newest is not None:
                self.draw.newest.deleted([dict(zip(COLUMNS, row, strict=True)) for _, *row in rows])
            return dict(zip(("input", "lookup"), self.model.write(rows), strict=True))
        before = self.table.latest_snapshot_id
        with pytest.raises(InvalidInputError) as refused:
            self.table.delete(col("k") == 0)
        ignores = "ignore-delete" in self.options
        assert refused.value.kind == ("delete_ignored" if ignores else "no_delete")
        assert self.table.latest_snapshot_id == before
        return {}
