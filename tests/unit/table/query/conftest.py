"""Tables of every engine, kind of buckets and kind of keys, and rows to write into them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

START = dt.datetime(2026, 1, 1)  # a TIMESTAMP has no zone
KEYS = {
    "INT": lambda n: n - 20,
    "BIGINT": lambda n: (n - 20) * 3_000_000_000,
    "TINYINT": lambda n: n % 200 - 100,
    "STRING": lambda n: "k" * (n % 7) + str(n),
    "DATE": lambda n: dt.date(1969, 12, 1) + dt.timedelta(days=n),
    "TIME(3)": lambda n: dt.time(1, n // 60_000 % 60, n // 1000 % 60, n % 1000 * 1000),
    "DECIMAL(10, 2)": lambda n: Decimal(n - 30) / 4,
    "DECIMAL(30, 2)": lambda n: Decimal(n - 30) * 10**25,
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
    "dynamic": ([], {"bucket": "-1", "dynamic-bucket.target-row-num": "20"}),
    "partitions": (["p"], {"bucket": "2"}),
    "cross-partition": (["part"], {"bucket": "-1", "dynamic-bucket.target-row-num": "20"}),
}


@pytest.fixture
def lookup_dir(tmp_path):
    return tmp_path / "lookup"


def made(catalog, engine, buckets, types, name="db.t", **options):
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
        "db.t" if name is None else name,
        columns,
        primary_keys=keys,
        partition_keys=partitions,
        options={"num-sorted-run.compaction-trigger": "4"}
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
