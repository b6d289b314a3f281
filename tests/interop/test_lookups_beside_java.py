"""Rows by key are those that Java Paimon's ``LocalTableQuery`` finds in our tables.

Java 1.3.1 takes the first row of a key that it meets, from level 0 on: this is right for tables
that keep the newest row. In tables that need lookups it passes over level 0, where ours leave
nothing, and finds merged rows. It knows no deletion vectors: tables that have them get no deletes
here. It cannot compare keys of bytes.
``tests/unit/table/query/test_same_as_read.py`` has the rest.
"""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from proving.keyed_tables import (
    BUCKETS,
    ENGINES,
    SEVERAL,
    SINGLE,
    STAYS,
    cells,
    keys_of,
    made,
    row_of,
    step,
)
from sizes import FULL, SIZE

import tidelake
from interop.cells import table_cells
from interop.peer import PeerError

pytestmark = pytest.mark.oracle

KEYS_COUNT = SIZE.java_lookup_keys
STEPS = 4
OF_NEWEST_ROWS = ("deduplicate", "ignore-delete")
OF_JAVA = [buckets for buckets in BUCKETS if buckets != "postpone"]
"""Java's query asks the bucket of a key's hash, which rows that waited need not have."""
NEEDS_LOOKUP = {"changelog-producer": "lookup"}


def judged():
    """At full size each engine with all kinds of buckets; else each kind of keys in one table."""
    if SIZE is FULL:
        for engine, buckets, types in cells():
            if buckets not in OF_JAVA:
                continue
            yield engine, buckets, ["STRING", "DOUBLE"] if "BYTES" in types else types
        return
    for number, types in enumerate(one for one in [*SINGLE, *SEVERAL] if "BYTES" not in one):
        engine = list(ENGINES)[number % len(ENGINES)]
        buckets = OF_JAVA[number % len(OF_JAVA)]
        if buckets == "cross-partition" and (engine in STAYS or types[0] in {"DOUBLE", "FLOAT"}):
            buckets = "dynamic"
        yield engine, buckets, types


def options_of(engine):
    return {} if engine in (*OF_NEWEST_ROWS, "vectors") else NEEDS_LOOKUP


@pytest.mark.share(2)
@pytest.mark.parametrize(("engine", "buckets", "types"), list(judged()))
def test_java_finds_the_same_rows(peer, tmp_path, engine, buckets, types):
    draw = random.Random(f"{engine} {buckets} {types}")
    catalog = tidelake.open(tmp_path / "w")
    table = made(catalog, engine, buckets, types, keys_count=KEYS_COUNT, **options_of(engine))
    query = table.local_query(directory=tmp_path / "lookup")
    asked = asked_of(query, keys_of(table, KEYS_COUNT))
    level_0 = 0
    for _ in range(STEPS):
        step(table, draw, KEYS_COUNT, deletes=engine != "vectors")
        if query.refresh() is None:
            continue
        found, figures = peer.lookup(
            tmp_path / "w/db.db/t", table_cells(asked), snapshot=query.snapshot_id
        )
        level_0 += figures["level0"]
        ours = table_cells(query.get_many(asked))
        assert [row if any(row) else None for row in ours] == found
    assert sum(row is not None for row in found) > 0
    assert (level_0 > 0) == (engine in OF_NEWEST_ROWS)


def asked_of(query, keys):
    names = query.key_schema.names
    rows = [dict(zip(names, key, strict=True)) for key in keys]
    return pa.Table.from_pylist(rows, schema=query.key_schema)


def test_what_java_cannot_look_up(peer, tmp_path):
    catalog = tidelake.open(tmp_path / "w")
    table = made(catalog, "partial-update", "one", ["INT"])
    row = row_of(table, 21, random.Random(1))
    table.write([row | {"text": "kept"}])
    table.write([row | {"text": None}])
    (theirs,), _ = peer.lookup(tmp_path / "w/db.db/t", [("1",)], snapshot=2)
    assert table.get(1)["text"] == "kept"
    assert theirs[3] is None  # the newest row alone: the judge does look at the files
    catalog.drop_table("db.t")
    table = made(catalog, "deduplicate", "one", ["BYTES"])
    table.write([row_of(table, number, random.Random(1)) for number in (1, 2)])
    assert table.get(b"2\0\0")["k0"] == b"2\0\0"
    if peer.version == "java-1.3":
        with pytest.raises(PeerError, match="cannot be cast to class"):
            peer.lookup(tmp_path / "w/db.db/t", [("x:320000",)], snapshot=1)
    else:
        (theirs,), _ = peer.lookup(tmp_path / "w/db.db/t", [("x:320000",)], snapshot=1)
        assert theirs[0] == "x:320000"
