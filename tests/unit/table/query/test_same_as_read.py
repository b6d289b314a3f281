"""Rows found by key are those of a batch read: every engine, kind of buckets and kind of keys."""

from __future__ import annotations

import random

import pytest
from sizes import SIZE
from unit.table.query.conftest import BUCKETS, ENGINES, KEYS, key_of, made, row_of

KEYS_COUNT = SIZE.lookup_keys
NUMBERS = KEYS_COUNT * 2 // 3
"""Keys that rows may have; a third of those looked up is never there."""
STEPS = 5
"""Commits of each table, some of them compactions."""
SINGLE = [[kind] for kind in KEYS]
SEVERAL = [["STRING", "INT"], ["DECIMAL(30, 2)", "BYTES", "DOUBLE"], ["DATE", "BOOLEAN"]]


def cells():
    """Every engine with every kind of buckets, the kinds of keys in turn."""
    kinds = [*SINGLE, *SEVERAL]
    pairs = [(engine, buckets) for engine in ENGINES for buckets in BUCKETS]
    for number, (engine, buckets) in enumerate(pairs):
        types = kinds[number % len(kinds)]
        if buckets == "cross-partition":  # what a key that moves excludes
            if engine in {"groups", "ignore-delete", "sequence", "lookup"}:
                continue
            types = types[:1] if types[0] not in {"DOUBLE", "FLOAT"} else ["INT"]
        yield engine, buckets, types


def step(table, draw):
    """One commit: rows, deletes or a compaction."""
    what = draw.random()
    numbers = draw.sample(range(NUMBERS), NUMBERS * 5 // 12)
    rows = [row_of(table, number, draw) for number in numbers]
    engine = table.options.raw.get("merge-engine", "deduplicate")
    if what < 0.15:
        table.compact(full=draw.random() < 0.5)
    elif what < 0.35 and engine not in {"aggregation"}:
        table.write(rows[: NUMBERS // 6], row_kinds=["-D"] * (NUMBERS // 6))
    else:
        table.write(rows)


def expected(table, snapshot_id=None):
    names = table.table_schema.primary_keys
    rows = table.to_arrow(snapshot_id=snapshot_id).to_pylist()
    found = {tuple(row[name] for name in names): row for row in rows}
    assert len(found) == len(rows), "a read gives each key once"
    return found


def keys_of(table):
    return list(dict.fromkeys(key_of(table, number) for number in range(KEYS_COUNT)))


@pytest.mark.parametrize(("engine", "buckets", "types"), list(cells()))
def test_a_key_has_the_row_of_a_read(catalog, lookup_dir, engine, buckets, types):
    draw = random.Random(f"{engine} {buckets} {types}")
    table = made(catalog, engine, buckets, types)
    query = table.local_query(directory=lookup_dir)
    keys = keys_of(table)
    seen = {}
    for _ in range(STEPS):
        step(table, draw)
        rows = expected(table)
        wanted = [rows.get(key) for key in keys]
        assert query.refresh() == table.latest_snapshot_id
        assert query.get_many(keys) == wanted
        assert [query.get(key) for key in keys] == wanted
        seen[table.latest_snapshot_id] = wanted
    assert table.get_many(keys) == wanted
    seen.pop(None, None)  # a table without a snapshot
    for snapshot_id, then in seen.items():
        assert query.refresh(snapshot_id) == snapshot_id
        assert query.get_many(keys) == then
