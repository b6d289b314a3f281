"""Where keys go: one by one as by columns, and as the table's writers say."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import tidelake
from tidelake.errors import InvalidInputError
from tidelake.service.client.keys.key_batch import ArrowKeys, SingleKeys
from tidelake.service.client.keys.key_columns import KeyColumns
from tidelake.service.client.keys.key_router import KeyRouter, RequestPart, Run
from tidelake.service.protocol.ownership import executor_of

DAY = dt.date(2026, 1, 2)
STAMP = dt.datetime(2026, 1, 2, 3, 4, 5, 678_901)

TABLES: dict = {
    "bigint": ({"k": pa.int64()}, {}, [(n * 7919,) for n in range(-20, 20)]),
    "text": ({"k": pa.string()}, {}, [("ab" * n,) for n in range(40)]),
    "many columns": (
        {"a": pa.string(), "b": pa.decimal128(20, 2), "c": pa.timestamp("us"), "d": pa.date32()},
        {},
        [(f"x{n}", Decimal(n) / 4, STAMP, DAY + dt.timedelta(n)) for n in range(40)],
    ),
    "partitions": (
        {"day": pa.date32(), "k": pa.int32()},
        {"partition_keys": ["day"]},
        [(DAY + dt.timedelta(n % 3), n) for n in range(40)],
    ),
    "bucket key": (
        {"a": pa.int32(), "b": pa.string()},
        {"options": {"bucket-key": "b"}},
        [(n, f"b{n % 5}") for n in range(40)],
    ),
    "mod": (
        {"k": pa.int32()},
        {"options": {"bucket-function.type": "mod"}},
        [(n,) for n in range(-9, 31)],
    ),
    "dynamic": (
        {"day": pa.date32(), "k": pa.int32()},
        {"partition_keys": ["day"], "options": {"bucket": -1}},
        [(DAY + dt.timedelta(n % 5), n) for n in range(40)],
    ),
    "nanoseconds": (
        {"k": pa.timestamp("ns")},
        {},
        [(np.datetime64(n * 1001, "ns"),) for n in range(9)],
    ),
    "binary, boolean": (
        {"a": pa.binary(), "b": pa.bool_()}, {}, [(bytes([n] * n), n % 2 == 0) for n in range(20)],
    ),
}  # fmt: skip


def made(tmp_path, columns, given, extra=None):
    catalog = tidelake.open(tmp_path)
    options = {"bucket": 5, **given.get("options", {})}
    return catalog.create_table(
        "db.t",
        pa.schema({**columns, **(extra or {"v": pa.string()})}),
        primary_keys=list(columns),
        partition_keys=given.get("partition_keys", ()),
        options=options,
    )


@pytest.mark.parametrize(("columns", "given", "keys"), TABLES.values(), ids=TABLES)
def test_one_key_goes_where_many_go(tmp_path, columns, given, keys):
    key = KeyColumns.of(made(tmp_path, columns, given).handle)
    router = KeyRouter(key, 3)
    rows = ArrowKeys(key, key.rows(keys))
    every = np.arange(len(keys))
    goes = {}
    for part in rows.parts(router, every):
        at = 0
        for run in part.runs:
            for position in part.positions[at : at + run.keys_count].tolist():
                goes[position] = (part.executor, run.partition, run.bucket, run.buckets)
            at += run.keys_count
        assert at == len(part.positions)
    values = [key.values(k) for k in keys]
    assert goes == {n: router.route(v) for n, v in enumerate(values)}
    single = SingleKeys(key, values)
    assert {p.executor for p in single.parts(router, every)} == {e for e, *_ in goes.values()}
    chosen = every[1::2]
    assert single.packed(chosen).SerializeToString() == rows.packed(chosen).SerializeToString()


def test_keys_that_are_asked_again_in_another_order_go_where_they_went(tmp_path):
    columns, given, keys = TABLES["partitions"]
    key = KeyColumns.of(made(tmp_path, columns, given).handle)
    router, rows = KeyRouter(key, 3), ArrowKeys(key, key.rows(keys))
    for part in rows.parts(router, np.arange(len(keys))[::-1]):
        at = 0
        for run in part.runs:
            for position in part.positions[at : at + run.keys_count].tolist():
                route = router.route(key.values(keys[position]))
                assert (part.executor, *run) == (*route[:3], run.keys_count, route.buckets)
            at += run.keys_count


def test_buckets_are_those_that_writers_fill(tmp_path):
    columns, given, keys = TABLES["partitions"]
    table = made(tmp_path, columns, given)
    table.write([{"day": d, "k": k, "v": "x"} for d, k in keys])
    key = KeyColumns.of(table.handle)
    routes = {(r.partition, r.bucket) for r in map(KeyRouter(key, 1).route, map(key.values, keys))}
    files = table.plan().splits
    assert routes == {(s.partition, s.bucket) for s in files}


def test_a_partition_with_other_buckets_is_routed_by_them(tmp_path):
    columns, given, keys = TABLES["partitions"]
    key = KeyColumns.of(made(tmp_path, columns, given).handle)
    partition = KeyRouter(key, 2).route(key.values(keys[0])).partition
    router = KeyRouter(key, 2, {partition: 9})
    counts = {
        run.partition: run.buckets
        for p in ArrowKeys(key, key.rows(keys)).parts(router, np.arange(40))
        for run in p.runs
    }
    assert counts[partition] == 9
    assert set(counts.values()) == {5, 9}
    route = router.route(key.values(keys[0]))
    assert route.buckets == 9
    assert route.executor == executor_of(partition, route.bucket, 2)


def test_parts_are_cut_with_their_runs():
    part = RequestPart(1, np.arange(10), (Run(b"p", 0, 4, 2), Run(b"q", 1, 6, 2)))
    pieces = part.pieces(3)
    assert [p.positions.tolist() for p in pieces] == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]
    assert [[r.keys_count for r in p.runs] for p in pieces] == [[3], [1, 2], [3], [1]]
    assert [r.partition for r in pieces[1].runs] == [b"p", b"q"]
    assert part.pieces(10) == [part]


def test_a_key_of_many_columns_by_tuple_and_dict(tmp_path):
    columns, given, keys = TABLES["partitions"]
    key = KeyColumns.of(made(tmp_path, columns, given).handle)
    assert key.values({"k": 1, "day": DAY}) == key.values((DAY, 1)) == key.values([DAY, 1])
    refused = [1, (DAY,), {"k": 1}, (DAY, 1, 2), (None, 1), (DAY, "x"), (DAY, 2**40)]
    for wrong in (*refused, ("2026-01-02", 1)):
        with pytest.raises(InvalidInputError, match=r"db\.t"):
            key.values(wrong)
        with pytest.raises(InvalidInputError, match=r"db\.t"):
            key.rows([keys[0], wrong])


def test_keys_of_a_table_with_a_postpone_bucket_go_by_partition(tmp_path):
    table = made(tmp_path, {"k": pa.int64()}, {"options": {"bucket": -2}})
    router = KeyRouter(KeyColumns.of(table.handle), 2)
    route = router.route((7,))
    assert (route.bucket, router.asks_all) == (-1, False)
    assert route.executor == executor_of(route.partition, -1, 2)
