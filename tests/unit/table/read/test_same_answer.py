"""How rows are buffered, cut, stored and compacted changes no answer: metamorphic.

One history of commits is written again and again: with small buffers that spill or become files,
in small batches, into small files, in every format, with compactions at other moments, into more
buckets, with deletion vectors. The rows, and the state that the changelog replays to, are those of
the plain table.
"""

from __future__ import annotations

import random
from itertools import islice

import pyarrow as pa
import pytest
from proving.changelog import replay
from sizes import SIZE

import tidelake
from tidelake.fileio import MemoryFileIO
from tidelake.telemetry import Env

SCHEMA = pa.schema(
    {"k": pa.int32(), "a": pa.int32(), "b": pa.string(), "c": pa.float64(), "g": pa.int32()}
)
ENGINES = {
    "deduplicate": {},
    "deduplicate by sequence": {"merge-engine": "deduplicate", "sequence.field": "g,a"},
    "partial-update": {"partial-update.remove-record-on-delete": "true"},
    "partial-update by groups": {
        "merge-engine": "partial-update",
        "fields.g.sequence-group": "b,c",
        "fields.c.aggregate-function": "max",
        "fields.c.ignore-retract": "true",
    },
    "aggregation": {
        "fields.a.aggregate-function": "sum",
        "fields.b.aggregate-function": "listagg",
        "fields.c.aggregate-function": "min",
        "aggregation.remove-record-on-delete": "true",
    },
    "aggregation by sequence": {
        "merge-engine": "aggregation",
        "sequence.field": "g",
        "fields.a.aggregate-function": "sum",
        "fields.b.aggregate-function": "last_value",
        "fields.c.aggregate-function": "max",
        "fields.c.ignore-retract": "true",
    },
    "first-row": {"ignore-delete": "true"},
}
PRODUCERS = ("none", "input", "lookup", "full-compaction")
PAIRS = [(e, p) for e in ENGINES for p in PRODUCERS if e != "first-row" or p in ("none", "lookup")]
BUFFERS = {
    "plain": {},
    "spilling": {"write-buffer-size": "1 kb", "sort-spill-threshold": "3"},
    "flushing": {"write-buffer-size": "1 kb", "write-buffer-spillable": "false"},
}
FILES = {
    "small orc files": {
        "file.format": "orc",
        "target-file-size": "1 kb",
        "num-sorted-run.compaction-trigger": "2",
        "compaction.max-size-amplification-percent": "100000",
    },
    "avro, many runs": {"file.format": "avro", "num-sorted-run.compaction-trigger": "30"},
    "level by level": {"file.format.per.level": "0:avro,5:orc", "num-levels": "6"},
}
BUCKETS = {
    "one": {"bucket": "1"},
    "more": {"bucket": "3"},
    "dynamic": {"bucket": "-1", "dynamic-bucket.target-row-num": "50"},
}
VECTORS = {
    "none": {},
    "32 bit": {"deletion-vectors.enabled": "true"},
    "64 bit": {"deletion-vectors.enabled": "true", "deletion-vectors.bitmap64": "true"},
}
KEYS = 30


def history(engine):
    """Commits: rows and their kinds. The first is large, so that compactions leave it alone."""
    rng = random.Random(engine)
    retracting = ("-D",) if engine == "aggregation" else ("-D", "-U")
    commits, present, taken = [], set(), set()
    for number in range(9):
        retracts = number in (3, 5, 8)
        keys = rng.sample(sorted(present), 8) if retracts else rng.choices(range(KEYS), k=40)
        if retracts:
            present -= {*keys}
            taken |= {*keys}
        else:
            present |= {*keys}
        if number == 0:
            keys += range(KEYS, 120)
        rows = [
            {
                "k": key,
                "a": rng.choice([None, rng.randrange(9)]),
                "b": rng.choice([None, f"b{number}"]),
                "c": rng.choice([None, float(rng.randrange(50))]),
                # a merge forgets the sequence of a row that retracts: no row may be late behind it
                "g": number if key in taken else rng.choice([None, number, number - 2]),
            }
            for key in keys
        ]
        kinds = [rng.choice(retracting) if retracts else "+I" for _ in keys]
        commits.append((pa.Table.from_pylist(rows, schema=SCHEMA), kinds))
    return commits


def answer(engine, producer, *, settings, batch_rows, compacts):
    """The rows at the end, which are those that the changelog replays to."""
    catalog = tidelake.open("/w", fileio=MemoryFileIO(), env=Env.seeded(1))
    options = {
        "bucket": "1",
        "merge-engine": engine.split()[0],
        **ENGINES[engine],
        "changelog-producer": producer,
        **settings,
    }
    table = catalog.create_table("db.t", SCHEMA, primary_keys=["k"], options=options)
    given = []
    for number, (rows, kinds) in enumerate(history(engine)):
        with table.writer() as out:
            for start in range(0, len(kinds), batch_rows):
                batch = rows.slice(start, batch_rows)
                out.write(batch, row_kinds=kinds[start : start + batch_rows])
        given += [(kind, *row.values()) for kind, row in zip(kinds, rows.to_pylist(), strict=True)]
        if compacts(number):
            table.compact(full=number % 2 == 0)
    table.compact(full=True)
    rows = {row["k"]: tuple(row.values()) for row in table.to_arrow().to_pylist()}
    if producer != "none":
        changes = [
            tuple(row.values())
            for snapshot_id in range(1, table.latest_snapshot_id + 1)
            for row in table.changes(snapshot_id - 1, snapshot_id, mode="changelog").to_pylist()
        ]
        if producer == "input":
            assert sorted(changes, key=repr) == sorted(given, key=repr)
        else:
            assert replay({}, changes) == rows
    return rows


@pytest.mark.parametrize(("engine", "producer"), PAIRS)
def test_every_way_gives_the_same_rows(engine, producer):
    plain = answer(engine, producer, settings={}, batch_rows=1000, compacts=lambda _: False)
    assert len(plain) > 100
    rng = random.Random(f"{engine} {producer}")
    takes_vectors = engine != "first-row" and producer != "full-compaction"
    ways = [
        rng.sample(list(BUFFERS), 3),
        rng.sample(list(FILES), 3),
        rng.sample(list(BUCKETS), 3),
        list(VECTORS) if takes_vectors else ["none"] * 3,
        [4, 13, 40],
    ]
    for names in islice(zip(*ways, strict=True), SIZE.rewrites):
        buffer, files, buckets, vectors, batch_rows = names
        found = answer(
            engine,
            producer,
            settings=BUFFERS[buffer] | FILES[files] | BUCKETS[buckets] | VECTORS[vectors],
            batch_rows=batch_rows,
            compacts=set(rng.sample(range(9), 4)).__contains__,
        )
        assert found == plain, names
