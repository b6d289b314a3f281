"""Rows are found by their keys: those that a read gives, and no others."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from tidelake.scan.pruning import key_bounds
from tidelake.table.rowlevel import key_lookup
from tidelake.table.rowlevel.key_lookup import KeyLookup
from tidelake.types.arrow import to_arrow_schema
from tidelake.types.predicate import bind, parse_filter

START = dt.datetime(2026, 1, 1)  # a TIMESTAMP has no zone
COLUMNS = {
    "INT": lambda n: n,
    "BIGINT": lambda n: n * 3_000_000_000,
    "STRING": lambda n: "k" * (n % 7) + str(n),
    "DATE": lambda n: dt.date(2026, 1, 1) + dt.timedelta(days=n),
    "DECIMAL(10, 2)": lambda n: Decimal(n) / 4,
    "DECIMAL(30, 2)": lambda n: Decimal(n) * 10**25,
    "TIMESTAMP(6)": lambda n: START + dt.timedelta(microseconds=n),
    "BYTES": lambda n: str(n).encode() + b"\0" * (n % 3),
    "BOOLEAN": lambda n: n % 2 == 0,
}
LAYOUTS = {
    "one number": (["BIGINT"], [], {"bucket": "2"}),
    "text and number": (["STRING", "INT"], [], {"bucket": "3"}),
    "partitions": (["STRING", "INT"], ["k0"], {"bucket": "1"}),
    "all types": (list(COLUMNS), [], {"bucket": "1"}),
    "marked": (["INT"], [], {"bucket": "2", "deletion-vectors.enabled": "true"}),
    "bucket key": (["INT", "STRING"], [], {"bucket": "2", "bucket-key": "k1"}),
    "modulo": (["INT"], [], {"bucket": "4", "bucket-function.type": "mod"}),
}


def made(catalog, layout):
    types, partition_keys, options = layout
    keys = [f"k{place}" for place in range(len(types))]
    columns = dict(zip(keys, types, strict=True)) | {"v": "INT", "list": pa.list_(pa.int32())}
    return catalog.create_table(
        "db.t", columns, primary_keys=keys, partition_keys=partition_keys, options=options
    )


def row(table, number):
    """The row of a number: equal keys for equal numbers, few in the first of several columns."""
    keys = table.table_schema.primary_keys
    types = [str(table.table_schema.field(k).type.as_nullable()) for k in keys]
    numbers = [number] if len(keys) == 1 else [number % 3, *[number // 3] * (len(keys) - 1)]
    return {k: COLUMNS[t](n) for k, t, n in zip(keys, types, numbers, strict=True)}


def finder(table, columns, predicate=None):
    handle = table.handle
    found = parse_filter(predicate)
    return KeyLookup(
        handle.read_context(all_rows=True),
        handle.snapshots.latest(),
        manifests=handle.manifests,
        columns=columns,
        predicate=None if found is None else bind(found, handle.schema.fields),
    )


def keys_of(table, rows):
    schema = to_arrow_schema(map(table.table_schema.field, table.table_schema.primary_keys))
    return pa.RecordBatch.from_pylist(
        rows, schema=pa.schema([f.with_nullable(True) for f in schema])
    )


def answers(found, count):
    columns = found.beside(0, count)
    names = found.rows.schema.names
    return [
        {n: c[place].as_py() for n, c in zip(names, columns, strict=True)} if is_found else None
        for place, is_found in enumerate(found.is_found.tolist())
    ]


@pytest.mark.parametrize("listed_max", [0, 1_000])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_keys_are_found_in_all_runs_of_their_buckets(catalog, monkeypatch, layout, listed_max):
    monkeypatch.setattr(key_bounds, "KEYS_LISTED_MAX", listed_max)
    rng = random.Random(layout)
    table = made(catalog, LAYOUTS[layout])
    live = {}
    for commit in range(4):
        numbers = rng.sample(range(120), 50)
        rows = [row(table, n) | {"v": commit, "list": [n]} for n in numbers]
        gone = set(numbers[:8]) if commit else set()
        table.write(rows, row_kinds=["-D" if n in gone else "+I" for n in numbers])
        live |= {n: None if n in gone else {"v": commit, "list": [n]} for n in numbers}
    asked = [rng.randrange(-20, 140) for _ in range(90)]  # some twice, some not there
    found = finder(table, ["list", "v"]).find(keys_of(table, [row(table, n) for n in asked]))
    assert answers(found, len(asked)) == [live.get(n) for n in asked]
    middle = found.beside(30, 20)
    assert [c.to_pylist() for c in middle] == [c.to_pylist()[30:50] for c in found.beside(0, 90)]


def test_a_null_in_a_key_matches_nothing(catalog):
    table = made(catalog, LAYOUTS["text and number"])
    table.write([row(table, n) | {"v": n, "list": None} for n in range(9)])
    keys = [row(table, 4), row(table, 4) | {"k0": None}, {"k0": None, "k1": None}, row(table, 5)]
    found = finder(table, ["v"]).find(keys_of(table, keys))
    assert answers(found, 4) == [{"v": 4}, None, None, {"v": 5}]
    assert finder(table, ["v"]).find(keys_of(table, keys[1:3])).positions.tolist() == [-1, -1]


def test_without_columns_it_is_told_what_is_there(catalog):
    table = made(catalog, LAYOUTS["one number"])
    table.write([row(table, n) | {"v": n, "list": None} for n in range(9)])
    found = finder(table, []).find(keys_of(table, [row(table, n) for n in (3, 11, 3)]))
    assert found.is_found.tolist() == [True, False, True]
    assert found.beside(0, 3) == []


def test_rows_that_do_not_satisfy_the_predicate_are_not_found(catalog):
    table = made(catalog, LAYOUTS["one number"])
    table.write([row(table, n) | {"v": n, "list": None} for n in range(9)])
    table.write([row(table, 3) | {"v": 100, "list": None}])  # the newer row counts
    keys = keys_of(table, [row(table, n) for n in range(9)])
    found = finder(table, ["v"], "v < 5").find(keys)
    assert found.is_found.tolist() == [n < 5 and n != 3 for n in range(9)]


def test_buckets_without_keys_and_files_beside_them_are_not_opened(catalog, monkeypatch):
    table = catalog.create_table(
        "db.t",
        {"day": "STRING", "k": "INT", "v": "INT"},
        primary_keys=["day", "k"],
        partition_keys=["day"],
        options={"bucket": "1"},
    )
    for day, low in (("a", 0), ("b", 0), ("b", 1_000)):
        table.write([{"day": day, "k": low + k, "v": k} for k in range(20)])
    opened = []
    read_split = key_lookup.read_split

    def read(context, split, *, columns, predicate):
        opened.append((context.paths.partition_values(split.partition), split.files_count, columns))
        return read_split(context, split, columns=columns, predicate=predicate)

    monkeypatch.setattr(key_lookup, "read_split", read)
    keys = [{"day": "b", "k": 3}, {"day": "b", "k": 90}, {"day": "x", "k": 3}]
    for listed_max in (1_000, 0):
        monkeypatch.setattr(key_bounds, "KEYS_LISTED_MAX", listed_max)
        opened.clear()
        found = finder(table, ["v"]).find(keys_of(table, keys))
        assert answers(found, 3) == [{"v": 3}, None, None]
        assert opened == [(("b",), 1, ("k", "v"))]


def test_an_empty_batch_of_keys_finds_nothing(catalog):
    table = made(catalog, LAYOUTS["one number"])
    table.write([row(table, 1) | {"v": 1, "list": None}])
    found = finder(table, ["v"]).find(keys_of(table, []))
    assert found.positions.dtype == np.intp
    assert found.beside(0, 0)[0].type == pa.int32()


@pytest.mark.parametrize("options", [{}, {"dynamic-bucket.target-row-num": "3"}])
def test_keys_are_found_where_any_bucket_may_hold_them(catalog, options):
    for name, partition_keys in (("db.dynamic", []), ("db.moving", ["v"])):
        table = catalog.create_table(
            name,
            {"k": "BIGINT", "v": "INT"},
            primary_keys=["k"],
            partition_keys=partition_keys,
            options=options,
        )
        table.write([{"k": k, "v": k % 3} for k in range(20)])
        table.write([{"k": k, "v": 7} for k in range(0, 20, 2)])
        keys = [5, 40, 6, 5, 19]
        found = finder(table, ["v"]).find(keys_of(table, [{"k": k} for k in keys]))
        (values,) = found.beside(0, len(keys))
        assert values.to_pylist() == [2, None, 7, 2, 1]
