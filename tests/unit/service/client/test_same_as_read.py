"""A service finds the rows of a batch read: every engine, kind of buckets and kind of keys."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import pytest
from proving.keyed_tables import cells, keys_of, made, rows_by_key, step
from sizes import FULL, SIZE
from unit.service.service_kit import running

import tidelake

KEYS_COUNT = SIZE.lookup_keys
STEPS = 4
CALLERS = 16
"""Threads that ask one client for single keys."""
SINGLY = 20_000
"""Keys that they ask for."""
SHARE = 1 if SIZE is FULL else 11
"""Every so manieth cell: the kernel's own test asks all of them, this one the way there.
With 11 they have different kinds of buckets."""


@pytest.fixture
def catalog(tmp_path):
    return tidelake.open(tmp_path / "warehouse")


@pytest.mark.parametrize(("engine", "buckets", "types"), list(islice(cells(), 0, None, SHARE)))
def test_a_service_has_the_rows_of_a_read(catalog, tmp_path, engine, buckets, types):
    draw = random.Random(f"{engine} {buckets} {types}")
    table = made(catalog, engine, buckets, types, keys_count=KEYS_COUNT)
    keys = keys_of(table, KEYS_COUNT)
    with (
        running(catalog, directory=tmp_path / "lookup"),
        tidelake.lookup_client(catalog, "db.t", deadline_seconds=300) as client,
        ThreadPoolExecutor(CALLERS) as callers,
    ):
        for _ in range(STEPS):
            step(table, draw, KEYS_COUNT)
            rows = rows_by_key(table)
            wanted = [rows.get(key) for key in keys]
            assert client.get_many(keys, min_snapshot=table.latest_snapshot_id) == wanted
            assert client.snapshot_id == table.latest_snapshot_id
        assert any(row is not None for row in wanted)
        few = draw.sample(range(len(keys)), min(SINGLY, len(keys)))
        found = callers.map(client.get, [keys[at] for at in few])
        assert list(found) == [wanted[at] for at in few]
        assert not client.is_local
