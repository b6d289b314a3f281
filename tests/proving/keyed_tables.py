"""Tables of every engine, kind of buckets and kind of keys, and what is done to them step by step.

Whoever looks rows up by key is judged on them: a local query, the query service, Java Paimon's
``LocalTableQuery``. Keys have numbers; rows are written for two thirds of them only, so that a
third of those asked for is never there.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal

import pyarrow as pa

START = dt.datetime(2026, 1, 1)  # a TIMESTAMP has no zone
KEYS = {
    "INT": lambda n: n - 20,
    "BIGINT": lambda n: (n - 20) * 3_000_000_000,
    "TINYINT": lambda n: n % 200 - 100,
    "STRING": lambda n: "k" * (n % 7) + str(n),
    "DATE": lambda n: dt.date(1969, 12, 1) + dt.timedelta(days=n),
    "TIME(3)": lambda n: dt.time(1, n // 60_000 % 60, n // 1000 % 60, n % 1000 * 1000),
    "DECIMAL(10, 2)": lambda n: Decimal(n - 30) / 4,
    "DECIMAL(30, 2)": lambda n: Decimal(n - 30) * 10**22,
    "TIMESTAMP(3)": lambda n: START - dt.timedelta(milliseconds=n),
    "TIMESTAMP(6)": lambda n: START + dt.timedelta(microseconds=n),
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": lambda n: (START + dt.timedelta(hours=n)).replace(
        tzinfo=dt.UTC
    ),
    "BYTES": lambda n: str(n).encode() + b"\0" * (n % 3),
    "BOOLEAN": lambda n: n % 2 == 0,
    "DOUBLE": lambda n: (n - 30) / 4,
    "FLOAT": lambda n: -float(n),
}
ENGINES = {
    "deduplicate": {},
    "ignore-delete": {"ignore-delete": "true"},
    "sequence": {"sequence.field": "seq"},
    "first-row": {"merge-engine": "first-row", "first-row.ignore-delete": "true"},
    "partial-update": {
        "merge-engine": "partial-update",
        "partial-update.remove-record-on-delete": "true",
    },
    "groups": {
        "merge-engine": "partial-update",
        "fields.seq.sequence-group": "num,text",
        "ignore-delete": "true",
    },
    "aggregation": {
        "merge-engine": "aggregation",
        "fields.num.aggregate-function": "sum",
        "fields.text.aggregate-function": "last_value",
        "fields.tags.aggregate-function": "last_non_null_value",
    },
    "vectors": {"deletion-vectors.enabled": "true"},
    "lookup": {
        "merge-engine": "partial-update",
        "changelog-producer": "lookup",
        "ignore-delete": "true",
    },
}
BUCKETS = {
    "one": ([], {"bucket": "1"}),
    "fixed": ([], {"bucket": "3"}),
    "dynamic": ([], {"bucket": "-1"}),
    "partitions": (["p"], {"bucket": "2"}),
    "cross-partition": (["part"], {"bucket": "-1"}),
    "postpone": ([], {"bucket": "-2", "postpone.default-bucket-num": "3"}),
}

SINGLE = [[kind] for kind in KEYS]
SEVERAL = [["STRING", "INT"], ["DECIMAL(30, 2)", "BYTES", "DOUBLE"], ["DATE", "BOOLEAN"]]
STAYS = frozenset({"groups", "ignore-delete", "sequence", "lookup"})
"""Engines that exclude keys which move between partitions."""


def cells() -> Iterator[tuple[str, str, list[str]]]:
    """Every engine with every kind of buckets, the kinds of keys in turn."""
    kinds = [*SINGLE, *SEVERAL]
    pairs = [(engine, buckets) for engine in ENGINES for buckets in BUCKETS]
    for number, (engine, buckets) in enumerate(pairs):
        types = kinds[number % len(kinds)]
        if buckets == "cross-partition":
            if engine in STAYS:
                continue
            types = types[:1] if types[0] not in {"DOUBLE", "FLOAT"} else ["INT"]
        yield engine, buckets, types


def present_of(keys_count: int) -> int:
    """How many of the keys may have rows: a third is never there."""
    return keys_count * 2 // 3


def step(table, draw, keys_count, *, deletes=True):
    """One commit: rows, deletes or a compaction."""
    what, present = draw.random(), present_of(keys_count)
    numbers = draw.sample(range(present), present * 5 // 12)
    rows = [row_of(table, number, draw) for number in numbers]
    engine = table.options.raw.get("merge-engine", "deduplicate")
    if what < 0.15:
        table.compact(full=draw.random() < 0.5)
    elif what < 0.35 and deletes and engine not in {"aggregation"}:
        table.write(rows[: present // 6], row_kinds=["-D"] * (present // 6))
    else:
        table.write(rows)
    if table.options.raw.get("bucket") == "-2" and draw.random() < 0.7:
        table.compact()  # no reader sees rows that wait for their buckets


def rows_by_key(table, snapshot_id=None):
    """What a batch read gives, by key."""
    names = table.table_schema.primary_keys
    rows = table.to_arrow(snapshot_id=snapshot_id).to_pylist()
    found = {tuple(row[name] for name in names): row for row in rows}
    assert len(found) == len(rows), "a read gives each key once"
    return found


def keys_of(table, keys_count):
    """All keys that are asked for, each once: some kinds have few."""
    return list(dict.fromkeys(key_of(table, number) for number in range(keys_count)))


def made(catalog, engine, buckets, types, *, keys_count=120, **options):
    """A table with the keys k0, k1, ... of these types."""
    partitions, bucket_options = BUCKETS[buckets]
    keys = [f"k{place}" for place in range(len(types))]
    columns = dict(zip(keys, types, strict=True)) | {
        "seq": "INT",
        "num": "BIGINT",
        "text": "STRING",
        "tags": pa.list_(pa.string()),
    }
    if "p" in partitions:
        columns["p"] = "STRING"
        keys = ["p", *keys]
    if "part" in partitions:
        columns["part"] = "INT"
    return catalog.create_table(
        "db.t",
        columns,
        primary_keys=keys,
        partition_keys=partitions,
        options={"num-sorted-run.compaction-trigger": "4"}
        | {"dynamic-bucket.target-row-num": str(keys_count // 6)}
        | bucket_options
        | ENGINES[engine]
        | options,
    )


def key_of(table, number):
    """The key of a number, as a tuple."""
    schema = table.table_schema
    parts = []
    for place, name in enumerate(schema.primary_keys):
        kind = str(schema.field(name).type.as_nullable())
        parts.append(f"p{number % 3}" if name == "p" else KEYS[kind](number if place < 2 else 1))
    return tuple(parts)


def row_of(table, number, draw):
    """A row of a number, with values that a generator draws."""
    names = table.table_schema.field_names
    row = dict(zip(table.table_schema.primary_keys, key_of(table, number), strict=True))
    row |= {
        "seq": draw.choice([None, *range(9)])
        if "sequence" not in str(table.options.raw)
        else draw.randrange(9),
        "num": draw.choice([None, draw.randrange(1000)]),
        "text": draw.choice([None, "", "t" * draw.randrange(30), "ü€"]),
        "tags": draw.choice([None, [], ["a", None, "ccc"]]),
    }
    if "part" in names:
        row["part"] = draw.randrange(3)
    return row
