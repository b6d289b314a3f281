"""Rows found by key are those of a batch read: every engine, kind of buckets and kind of keys."""

from __future__ import annotations

import random

import pytest
from proving.keyed_tables import cells, keys_of, made, rows_by_key, step
from sizes import SIZE

KEYS_COUNT = SIZE.lookup_keys
STEPS = 5
"""Commits of each table, some of them compactions."""
SINGLY = 10_000
"""Keys that are asked for one by one after each commit: rows that are merged take a while each."""
FILES_SINGLY = 100
"""Keys that a call each reads from the table's files."""


@pytest.mark.parametrize(("engine", "buckets", "types"), list(cells()))
def test_a_key_has_the_row_of_a_read(catalog, lookup_dir, engine, buckets, types):
    draw = random.Random(f"{engine} {buckets} {types}")
    table = made(catalog, engine, buckets, types, keys_count=KEYS_COUNT)
    query = table.local_query(directory=lookup_dir)
    keys = keys_of(table, KEYS_COUNT)
    seen = {}
    for _ in range(STEPS):
        step(table, draw, KEYS_COUNT)
        rows = rows_by_key(table)
        wanted = [rows.get(key) for key in keys]
        assert query.refresh() == table.latest_snapshot_id
        assert query.get_many(keys) == wanted
        few = draw.sample(range(len(keys)), min(SINGLY, len(keys)))
        assert [query.get(keys[at]) for at in few] == [wanted[at] for at in few]
        seen[table.latest_snapshot_id] = wanted
    assert table.get_many(keys) == wanted
    few = draw.sample(range(len(keys)), min(FILES_SINGLY, len(keys)) if KEYS_COUNT > SINGLY else 1)
    assert [table.get(keys[at]) for at in few] == [wanted[at] for at in few]
    seen.pop(None, None)  # a table without a snapshot
    for snapshot_id, then in seen.items():
        assert query.refresh(snapshot_id) == snapshot_id
        assert query.get_many(keys) == then
