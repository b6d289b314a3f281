"""Clustering: what it rewrites, in which order, what filters skip, and to whom it gives way."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from proving.fsck import check_table

import tidelake
from tidelake.errors import ConflictError, InvalidInputError, NotFoundError, UnsupportedError
from tidelake.fileio import MemoryFileIO
from tidelake.store import rolling
from tidelake.table.jobs import clustering, compaction, table_compaction
from tidelake.table.jobs.append_coordinator import wants_coordinator
from tidelake.telemetry import Env, ManualClock, Memory

COLUMNS = {"p": "STRING", "a": "INT", "b": "BIGINT", "s": "STRING"}
INCREMENTAL = {"clustering.columns": "a,b", "clustering.incremental": "true"}


def rows(count, seed=0, partition="x"):
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "p": [partition] * count,
            "a": pa.array(rng.integers(0, 1000, count), pa.int32(), mask=rng.random(count) < 0.02),
            "b": rng.integers(0, 10**9, count),
            "s": np.char.mod("text-%d", rng.integers(0, 99, count)),
        }
    )


def state(table, **scan):
    found = table.to_arrow(**scan).to_pylist()
    return sorted(found, key=lambda row: tuple((v is not None, v) for v in row.values()))


def kinds(table):
    return table.history()["commit_kind"].to_pylist()


def read_share(table, where):
    """The share of the table's bytes in the files that a filter opens."""
    planned, whole = (
        sum(split.size_bytes for split in table.plan(**scan).splits)
        for scan in ({"where": where}, {})
    )
    return planned / whole


def levels(table):
    found = table.system_table("files").to_arrow().to_pylist()
    return sorted(file["level"] for file in found)


@pytest.fixture
def catalog():
    return tidelake.open("/w", fileio=MemoryFileIO())


@pytest.fixture
def filled(catalog, monkeypatch):
    """40,000 rows in eight commits; files close after a thousand rows."""
    monkeypatch.setattr(rolling, "WRITE_ROWS", 500)
    options = {"target-file-size": "24 kb"}
    table = catalog.create_table("db.t", COLUMNS, options=options)
    for seed in range(8):
        table.write(rows(5_000, seed))
    return table


BOX = "a between 300 and 399 and b between 300000000 and 399999999"


@pytest.mark.parametrize("order", ["order", "zorder", "hilbert"])
def test_a_box_skips_most_bytes_and_finds_the_same_rows(filled, order):
    before = state(filled)
    inside = state(filled, where=BOX)
    assert read_share(filled, BOX) == 1
    result = filled.compact(order=order, by=["a", "b"])
    assert len(result.snapshot_ids) == 1
    assert kinds(filled) == ["APPEND"] * 8 + ["COMPACT"]
    assert state(filled) == before
    assert state(filled, where=BOX) == inside
    assert read_share(filled, BOX) < 0.3
    if order != "order":  # a curve serves each of its columns
        assert read_share(filled, "b between 300000000 and 319999999") < 0.6
    check_table(filled.fileio, filled.location)


def test_order_sorts_by_the_columns_with_nulls_first(catalog):
    table = catalog.create_table("db.t", COLUMNS)
    table.write(rows(800, 1))
    table.write(rows(800, 2))
    table.compact(order="order", by=["a", "b"])
    found = [(row["a"], row["b"]) for row in table.to_arrow().to_pylist()]
    assert found == sorted(found, key=lambda row: (row[0] is not None, row))


def test_auto_takes_what_fits_the_number_of_columns(filled):
    handle = filled.handle
    chosen = [
        table_compaction.plan_of_table(
            handle,
            compaction.Chosen(),
            full=False,
            order=clustering.order_of(handle, "AUTO", by),
        ).order.strategy
        for by in (["a"], ["a", "b"])
    ]
    assert chosen == ["order", "zorder"]


def test_types_of_all_kinds_are_clustered(catalog):
    values = {
        "BOOLEAN": True,
        "DOUBLE": 1.5,
        "DATE": dt.date(2026, 1, 1),
        "TIMESTAMP(3)": dt.datetime(2026, 1, 1),
        "TIMESTAMP(6) WITH LOCAL TIME ZONE": dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
        "DECIMAL(12, 2)": Decimal("12.50"),
        "DECIMAL(38, 2)": Decimal("12.50"),
        "BYTES": b"x",
        "CHAR(3)": "abc",
    }
    columns = {f"c{i}": t for i, t in enumerate(values)}
    table = catalog.create_table("db.all", columns)
    names = list(columns)
    full = dict(zip(names, values.values(), strict=True))
    table.write([full, dict.fromkeys(names), full | {"c1": None}])
    before = state(table)
    for order in ("order", "zorder", "hilbert"):
        table.compact(order=order, by=names)
        assert state(table) == before


def test_each_partition_is_sorted_by_itself_and_only_those_chosen(catalog):
    table = catalog.create_table("db.t", COLUMNS, partition_keys=["p"])
    for p in "xyz":
        table.write(rows(100, 1, p))
        table.write(rows(100, 2, p))
    before = state(table)
    result = table.compact(order="zorder", by=["a", "b"], partitions="p < 'z'")
    assert result.files == 2
    files = table.system_table("files").to_arrow().to_pylist()
    assert sorted(file["partition"] for file in files) == ["{x}", "{y}", "{z}", "{z}"]
    assert state(table) == before


def test_more_rows_than_memory_go_by_way_of_local_disk(tmp_path):
    env = Env(memory=Memory.of(64 << 20))
    table = tidelake.open(tmp_path / "w", env=env).create_table(
        "db.t", COLUMNS, options={"write-buffer-size": "64 kb"}
    )
    for seed in range(3):
        table.write(rows(4_000, seed))
    before = state(table)
    table.compact(order="order", by=["a", "b"])
    found = table.to_arrow()["a"].to_pylist()
    assert found == sorted(found, key=lambda a: (a is not None, a))
    assert state(table) == before
    check_table(table.fileio, table.location)


def test_deleted_rows_are_left_out_with_their_vectors(catalog):
    table = catalog.create_table("db.t", COLUMNS, options={"deletion-vectors.enabled": "true"})
    table.write(rows(500, 1))
    table.write(rows(500, 2))
    table.delete("a < 500")
    before = state(table)
    assert table.system_table("table_indexes").to_arrow().num_rows
    table.compact(order="hilbert", by=["a", "b"])
    assert state(table) == before
    assert not table.system_table("table_indexes").to_arrow().num_rows


@pytest.mark.parametrize("order", ["order", "zorder"])
def test_tracked_rows_keep_their_ids(catalog, order):
    table = catalog.create_table("db.t", COLUMNS, options={"row-tracking.enabled": "true"})
    table.write(rows(200, 1))
    table.write(rows(200, 2))
    table.update({"s": "new"}, where="a < 300")
    before = state(table.system_table("row_tracking"))
    assert len({row["_ROW_ID"] for row in before}) == 400
    table.compact(order=order, by=["a", "b"])
    assert state(table.system_table("row_tracking")) == before


def test_rows_that_come_meanwhile_stay(filled, monkeypatch):
    plan_of = table_compaction.plan_of_table

    def planned(*args, **given):
        plan = plan_of(*args, **given)
        filled.write(rows(10, 99))
        return plan

    monkeypatch.setattr(table_compaction, "plan_of_table", planned)
    result = filled.compact(order="zorder", by=["a", "b"])
    assert not result.compactions_dropped
    assert filled.count() == 40_010
    check_table(filled.fileio, filled.location)


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.compact(full=True),
        lambda table: table.overwrite(rows(10, 5)),
        lambda table: table.delete("a < 10"),
    ],
    ids=["compaction", "overwrite", "delete"],
)
def test_files_that_others_replaced_are_a_conflict_and_leave_nothing(catalog, monkeypatch, change):
    filled = catalog.create_table("db.t", COLUMNS)
    for seed in range(3):
        filled.write(rows(100, seed))
    plan_of = table_compaction.plan_of_table

    def planned(*args, **given):
        plan = plan_of(*args, **given)
        monkeypatch.setattr(table_compaction, "plan_of_table", plan_of)
        change(filled)
        return plan

    monkeypatch.setattr(table_compaction, "plan_of_table", planned)
    with pytest.raises(ConflictError):
        filled.compact(order="zorder", by=["a", "b"])
    check_table(filled.fileio, filled.location)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"order": "zodrer", "by": ["a"]}, "Did you mean 'zorder'"),
        ({"order": "zorder"}, "No columns to cluster"),
        ({"order": "zorder", "by": []}, "No columns to cluster"),
        ({"order": "order", "by": ["p"]}, "the rows of a partition have one value"),
        ({"order": "order", "by": ["a", "a"]}, "more than once"),
        ({"by": ["a"]}, "needs an order"),
        ({"order": "none", "by": ["a"]}, "needs an order"),
        ({"order": "order", "by": ["a"], "buckets": [0]}, "leave out buckets="),
        ({"order": "order", "by": ["a"], "partitions": "a > 1"}, "only partition columns"),
    ],
)
def test_wrong_arguments_are_refused(catalog, arguments, says):
    table = catalog.create_table("db.t", COLUMNS, partition_keys=["p"])
    table.write(rows(3))
    with pytest.raises(InvalidInputError, match=says):
        table.compact(**arguments)
    assert len(kinds(table)) == 1


def test_an_unknown_column_is_named(filled):
    with pytest.raises(NotFoundError, match="no column 'aa'"):
        filled.compact(order="order", by=["aa"])


def test_a_column_without_order_is_refused(catalog):
    table = catalog.create_table("db.n", {"l": "ARRAY<INT>"})
    table.write([{"l": [1]}])
    with pytest.raises(UnsupportedError, match="Column 'l' of type"):
        table.compact(order="order", by=["l"])


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"primary_keys": ["b"]}, "files of a primary-key table are sorted by its key"),
        ({"options": {"bucket": 2, "bucket-key": "b"}}, "Set 'bucket-append-ordered' = 'false'"),
    ],
)
def test_tables_with_keys_or_ordered_buckets_are_refused(catalog, given, says):
    table = catalog.create_table("db.k", COLUMNS, **given)
    with pytest.raises(UnsupportedError, match=says):
        table.compact(order="order", by=["a"])


# ---- in buckets


BUCKETED = {"bucket": 2, "bucket-key": "s", "bucket-append-ordered": "false"}


def of_buckets(table):
    """The files of each bucket: level, sequence numbers and rows' `a`."""
    found = {}
    for split in table.plan().splits:
        for file in split.files:
            path = table.paths.data_file(split.partition, split.bucket, file)
            values = pq.read_table(pa.BufferReader(table.fileio.read_bytes(path)))["a"].to_pylist()
            numbers = file.min_sequence_number, file.max_sequence_number
            found.setdefault(split.bucket, []).append((file.level, *numbers, values))
    return found


def test_a_bucket_without_order_is_sorted_and_keeps_its_numbers(catalog):
    table = catalog.create_table("db.b", COLUMNS, options=BUCKETED)
    for seed in range(3):
        table.write(rows(200, seed))
    before, numbers = state(table), {}
    for bucket, files in of_buckets(table).items():
        numbers[bucket] = min(f[1] for f in files), max(f[2] for f in files)
    result = table.compact(order="order", by=["a", "b"], buckets=[0, 1])
    assert result.files == 2
    for bucket, [(level, first, last, values)] in of_buckets(table).items():
        assert (level, first, last) == (0, *numbers[bucket])
        assert values == sorted(values, key=lambda v: (v is not None, v))
    assert state(table) == before
    table.write(rows(50, 7))
    assert all(files[1][1] == files[0][2] + 1 for files in of_buckets(table).values())
    check_table(table.fileio, table.location)


def test_buckets_are_clustered_by_levels_and_no_write_joins_their_files(catalog):
    options = BUCKETED | INCREMENTAL | {"compaction.min.file-num": "2"}
    table = catalog.create_table("db.b", COLUMNS, options=options)
    table.write(rows(3_000, 0))
    table.compact(full=True)
    for seed in range(1, 6):
        table.write(rows(40, seed))
    assert {b: len(files) for b, files in of_buckets(table).items()} == {0: 6, 1: 6}
    before = state(table)
    table.compact(buckets=[1])
    table.compact()
    for files in of_buckets(table).values():
        [(level, first, last, _), (newer, after, *_)] = files
        assert (level, newer, after) == (5, 4, last + 1)
        assert first == 0
    assert state(table) == before
    check_table(table.fileio, table.location)


@pytest.mark.parametrize("bucketed", [{}, BUCKETED], ids=["no buckets", "buckets"])
def test_no_full_compaction_by_commits_joins_clustered_files(catalog, bucketed):
    options = bucketed | INCREMENTAL | {"full-compaction.delta-commits": "2"}
    table = catalog.create_table("db.d", COLUMNS, options=options)
    for seed in range(6):
        table.write(rows(40, seed))
    assert kinds(table) == ["APPEND"] * 6


def test_buckets_with_deletion_vectors_are_not_clustered_incrementally(catalog):
    options = BUCKETED | INCREMENTAL | {"deletion-vectors.enabled": "true"}
    with pytest.raises(UnsupportedError, match="beside deletion vectors"):
        catalog.create_table("db.w", COLUMNS, options=options)


# ---- incrementally


@pytest.fixture
def growing(catalog):
    return catalog.create_table("db.g", COLUMNS, options=INCREMENTAL)


def test_new_files_are_clustered_from_the_trigger_on(growing):
    for seed in range(4):
        growing.write(rows(300, seed))
    assert growing.compact().snapshot_ids == ()
    growing.write(rows(300, 4))
    growing.compact()
    assert levels(growing) == [5]  # all of it: the last level
    assert growing.count() == 1_500
    assert growing.compact(full=True).snapshot_ids == ()


def test_what_is_clustered_is_rewritten_seldom(growing):
    growing.write(rows(20_000, 0))
    growing.compact(full=True)
    assert levels(growing) == [5]
    for seed in range(1, 6):
        growing.write(rows(100, seed))
    growing.compact()
    assert levels(growing) == [4, 5]
    before = state(growing)
    growing.compact(full=True)
    assert levels(growing) == [5]
    assert state(growing) == before
    check_table(growing.fileio, growing.location)


def test_other_columns_are_clustered_by_a_full_compaction(catalog, growing):
    growing.write(rows(500, 0))
    growing.compact(full=True)
    growing.set_options({"clustering.columns": "b"})
    again = catalog.table("db.g")
    assert again.compact(full=True).files == 1
    found = again.to_arrow()["b"].to_pylist()
    assert found == sorted(found)
    assert again.compact(full=True).snapshot_ids == ()


def test_an_order_beside_the_tables_own_is_refused(growing):
    with pytest.raises(UnsupportedError, match=r"clustering\.incremental"):
        growing.compact(order="order", by=["a"])


def test_no_stream_joins_its_files(growing):
    assert not wants_coordinator(growing.handle)


def test_quiet_partitions_are_clustered_beside_those_asked_for(tmp_path):
    options = INCREMENTAL | {
        "clustering.history-partition.idle-to-full-sort": "1 h",
        "clustering.history-partition.limit": "1",
    }
    clock = ManualClock()
    table = tidelake.open(tmp_path / "w", env=Env(clock=clock)).create_table(
        "db.t", COLUMNS, partition_keys=["p"], options=options
    )
    for p in "abc":
        table.write(rows(50, 1, p))
        table.write(rows(50, 2, p))
        clock.sleep_ms(1_800_000)
    table.write(rows(50, 3, "d"))
    table.compact(partitions={"p": "d"})
    files = table.system_table("files").to_arrow().to_pylist()
    assert {f["partition"]: f["level"] for f in files} == {"{a}": 5, "{b}": 0, "{c}": 0, "{d}": 0}


@pytest.mark.parametrize(
    "wrong",
    [
        {"options": {"clustering.incremental": "true", "bucket": 2, "bucket-key": "a"}},
        {"options": INCREMENTAL, "primary_keys": ["b"]},
        {"options": {"clustering.incremental": "true"}},
        {"options": INCREMENTAL | {"clustering.columns": "zz"}},
        {"options": INCREMENTAL | {"clustering.columns": "p"}, "partition_keys": ["p"]},
        {"options": {"clustering.columns": "a", "clustering.strategy": "zodrer"}},
    ],
)
def test_a_table_that_cannot_be_clustered_is_not_created(catalog, wrong):
    with pytest.raises((InvalidInputError, NotFoundError, UnsupportedError)):
        catalog.create_table("db.w", COLUMNS, **wrong)


@pytest.mark.parametrize("given", [{"primary_keys": ["b"]}, {}])
def test_a_table_of_others_that_names_columns_without_effect_can_be_altered(catalog, given):
    options = {"bucket": "2"} | ({} if given else {"bucket-key": "b"})
    table = catalog.create_table("db.w", COLUMNS, options=options, **given)
    path = f"{table.location}/schema/schema-0"
    schema = json.loads(table.fileio.read_bytes(path))
    schema["options"]["clustering.columns"] = "a"  # as Paimon lets it be
    schema.pop("tidelake.checksum", None)
    schema = {k: v for k, v in schema.items() if "checksum" not in k}
    table.fileio.replace(path, json.dumps(schema).encode())
    again = tidelake.open("/w", fileio=table.fileio).table("db.w")
    assert again.options.raw["clustering.columns"] == "a"
    again = again.set_options({"snapshot.num-retained.min": "3"})
    again = again.add_column("c", "INT")
    again.write([{"p": "x", "a": 1, "b": 2, "s": "", "c": 3}])
    with pytest.raises(UnsupportedError, match="cannot be clustered"):
        catalog.create_table(
            "db.v", COLUMNS, options=options | {"clustering.columns": "a"}, **given
        )


def test_a_column_that_rows_are_clustered_by_is_not_dropped(growing):
    for change in (lambda: growing.drop_column("a"), lambda: growing.rename_column("a", "z")):
        with pytest.raises(InvalidInputError, match=r"'clustering\.columns' of .* names a"):
            change()
