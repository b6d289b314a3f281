"""Every engine with every producer, kind of buckets and order of rows, against plain Python."""

from __future__ import annotations

import itertools
import random

import pytest
from proving.grid import GridModel

import tidelake
from tidelake.errors import TidelakeError
from tidelake.fileio import MemoryFileIO
from tidelake.telemetry import Env

COLUMNS = ("k", "p", "a", "b", "s", "t", "g", "kind")
TYPES = {"k": "INT NOT NULL", "p": "STRING NOT NULL", "a": "INT", "b": "INT", "s": "INT",
         "t": "INT", "g": "INT", "kind": "STRING"}  # fmt: skip

ENGINES = {
    "deduplicate": {},
    "partial-update": {"partial-update.remove-record-on-delete": "true"},
    "partial-update by groups": {
        "merge-engine": "partial-update",
        "fields.g,b.sequence-group": "a",
        "fields.a.aggregate-function": "sum",
    },
    "aggregation": {
        "fields.a.aggregate-function": "sum",
        "fields.b.aggregate-function": "max",
        "fields.b.ignore-retract": "true",
        "fields.kind.aggregate-function": "last_value",
        "fields.kind.ignore-retract": "true",
    },
    "first-row": {"ignore-delete": "true"},
}
PRODUCERS = ("none", "input", "lookup", "full-compaction")
BUCKETS = {
    "fixed": {"bucket": "2"},
    "dynamic": {"bucket": "-1", "dynamic-bucket.target-row-num": "3"},
    "moving": {"bucket": "-1"},
    "postpone": {"bucket": "-2", "postpone.default-bucket-num": "2"},
}
ORDERS = {
    "arrival": {},
    "one sequence": {"sequence.field": "s"},
    "two sequences": {"sequence.field": "s,t", "sequence.field.sort-order": "descending"},
    "rowkind.field": {"rowkind.field": "kind"},
}
STEPS = ("write", "write", "compact", "write", "full", "write", "full")
CELLS = list(itertools.product(ENGINES, PRODUCERS, BUCKETS, ORDERS))


def is_refused(engine, producer, buckets, order):
    """What Paimon 1.3.1 refuses too."""
    ordered = "sequence.field" in ORDERS[order]
    if engine == "first-row" and (ordered or producer not in ("none", "lookup")):
        return True
    return buckets == "moving" and ordered


def make(engine, producer, buckets, order):
    catalog = tidelake.open("/w", fileio=MemoryFileIO(), env=Env.seeded(1))
    options = {
        "merge-engine": engine.split()[0],
        **ENGINES[engine],
        **BUCKETS[buckets],
        **ORDERS[order],
        "changelog-producer": producer,
        "num-sorted-run.compaction-trigger": "50",
    }
    keys = ["k"] if buckets == "moving" else ["p", "k"]
    table = catalog.create_table(
        "db.t", TYPES, primary_keys=keys, partition_keys=["p"], options=options
    )
    return table, options


def draw(rng, engine, producer, order):
    """Rows of one write; where the order of merges would count, of a kind that it does not."""
    ordered = "sequence.field" in ORDERS[order]
    rows = []
    for _ in range(rng.randint(1, 8)):
        kinds = ["+I", "+U"]
        if not (ordered or engine == "partial-update by groups"):
            kinds += ["-D"] if engine == "partial-update" else ["-D", "-U"]
        kind = rng.choice(kinds)
        some = None if not ordered or engine == "aggregation" else 0
        a, b = (rng.choice([some, rng.randrange(4)]) for _ in range(2))
        s, t = rng.choice([None, 1, 2, 3]), rng.choice([1, 2, 3])
        if ordered and engine != "deduplicate":
            s = rng.randrange(4)
        g = rng.choice([None, 1, 2]) if not ordered else rng.randrange(3)
        rows.append((kind, rng.randrange(6), rng.choice("xy"), a, b, s, t, g, kind))
    return rows


def rows_of(read):
    return [tuple(row.values()) for row in read.to_pylist()]


def by_key(changes):
    """Changes of each key in each partition, in their order: of several none is the first."""
    found = {}
    for change in changes:
        found.setdefault((change[1], change[2]), []).append(tuple(change))
    return found


@pytest.mark.parametrize("cell", CELLS, ids=[" / ".join(cell) for cell in CELLS])
def test_a_cell_says_what_the_model_says(cell):
    engine, producer, buckets, order = cell
    if is_refused(*cell):
        with pytest.raises(TidelakeError):
            make(*cell)
        return
    table, options = make(*cell)
    model = GridModel(COLUMNS, options, buckets)
    rng = random.Random(str(cell))
    for step in STEPS:
        start = table.latest_snapshot_id or 0
        if step == "write":
            rows = draw(rng, engine, producer, order)
            kinds = None if order == "rowkind.field" else [kind for kind, *_ in rows]
            table.write([dict(zip(COLUMNS, row, strict=True)) for _, *row in rows], row_kinds=kinds)
            logs = dict(zip(("input", "lookup"), model.write(rows), strict=True))
        else:
            table.compact(full=step == "full")
            logs = dict(zip(PRODUCERS[1:], model.compact(full=step == "full"), strict=True))
        assert sorted(rows_of(table.to_arrow()), key=repr) == sorted(model.state(), key=repr)
        if producer != "none":
            changes = rows_of(table.changes(start, mode="changelog"))
            assert by_key(changes) == by_key(logs.get(producer, []))
