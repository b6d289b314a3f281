"""A section that was merged once is read again without its keys, and gives the same rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidelake
from tidelake import col
from tidelake.fileio import MemoryFileIO
from tidelake.merge import MergedOrder, MergeSpec, order_bytes
from tidelake.metadata.index.deletion_file import DeletionRange
from tidelake.options import Options
from tidelake.scan import merged_orders, read
from tidelake.scan.context import ReadContext
from tidelake.scan.merged_orders import MergedOrders, order_key
from tidelake.scan.split import Split
from tidelake.telemetry import Env, Memory

SCHEMA = pa.schema({"p": pa.int32(), "k": pa.int64(), "a": pa.string(), "b": pa.int64()})


def rows(keys: np.ndarray, tag: int) -> pa.Table:
    return pa.table(
        {"p": keys % 2, "k": keys, "a": [f"{k} of {tag}" for k in keys], "b": keys * tag}
    ).cast(SCHEMA)


def make(options: dict[str, str] | None = None, **opened) -> tidelake.Table:
    """Three overlapping runs and some deletes in each of two partitions."""
    catalog = tidelake.open("/lake", fileio=MemoryFileIO(), **opened)
    table = catalog.create_table(
        "d.t",
        SCHEMA,
        primary_keys=["p", "k"],
        partition_keys=["p"],
        options={"bucket": "1", "write-only": "true", **(options or {})},
    )
    table.write(rows(np.arange(0, 1000), 1))
    table.write(rows(np.arange(500, 1500), 2))
    table.write(rows(np.arange(0, 1200, 5), 3), row_kinds=["-D"] * 240)
    return table


@pytest.fixture(autouse=True)
def orders_of_small_sections(monkeypatch):
    monkeypatch.setattr(merged_orders, "ROWS_MIN", 1)


class Columns:
    """The columns that are read of Parquet files."""

    def __init__(self, monkeypatch) -> None:
        self.names: list[str] = []
        iter_batches = pq.ParquetFile.iter_batches

        def noted(file, *args, columns, **kwargs):
            self.names += columns
            return iter_batches(file, *args, columns=columns, **kwargs)

        monkeypatch.setattr(pq.ParquetFile, "iter_batches", noted)


def test_the_second_read_decodes_the_wanted_columns_alone(monkeypatch):
    table = make()
    expected = table.to_arrow()
    assert len(table.handle.orders) == 2
    columns = Columns(monkeypatch)
    assert table.to_arrow(columns=["b"]).equals(expected.select(["b"]))
    assert set(columns.names) == {"b"}
    assert table.to_arrow().equals(expected)
    assert not {n for n in columns.names if n.startswith("_")}


def test_a_count_opens_no_file(monkeypatch):
    table = make()
    expected = table.to_arrow().num_rows
    columns = Columns(monkeypatch)
    assert table.count() == expected
    assert columns.names == []


@pytest.mark.parametrize(
    "condition", [col("p") == 1, col("b") > 900, (col("p") == 0) & (col("a") > "7")]
)
def test_filters_of_partitions_and_values_are_applied_to_the_rows_given(condition, monkeypatch):
    table, plain = make(), make({"read.mask-cache-size": "0"})
    expected = plain.to_arrow(where=condition, columns=["k", "a"])
    assert expected.num_rows
    assert not len(plain.handle.orders)
    for _ in range(2):
        assert table.to_arrow(where=condition, columns=["k", "a"]).equals(expected)
    assert len(table.handle.orders)
    columns = Columns(monkeypatch)
    table.to_arrow(where=condition, columns=["k", "a"])
    assert not {n for n in columns.names if n.startswith("_")}


def test_a_filter_of_keys_goes_below_the_merge():
    table = make()
    found = table.to_arrow(where=col("k") < 40)
    assert not len(table.handle.orders)
    table.to_arrow()
    assert len(table.handle.orders) == 2
    assert table.to_arrow(where=col("k") < 40).equals(found)


def test_a_commit_a_rollback_and_a_time_travel_find_their_own_orders():
    table = make()
    first = table.to_arrow()
    table.write(rows(np.arange(0, 2000, 3), 7))
    second = table.to_arrow()
    assert second.num_rows > first.num_rows
    assert table.to_arrow(snapshot_id=3).equals(first)
    assert table.to_arrow().equals(second)
    table.rollback_to(3)
    assert table.to_arrow().equals(first)


def test_deletion_vectors_are_part_of_a_files_name():
    table = make({"deletion-vectors.enabled": "true", "write-only": "false"})
    for tag in range(4, 7):
        expected = table.to_arrow()
        assert table.to_arrow(columns=["b"]).equals(expected.select(["b"]))
        table.write(rows(np.arange(tag, 1600, tag), tag))


def test_another_direction_of_the_sequence_has_another_order():
    table = make({"sequence.field": "b"})
    ascending = table.to_arrow()
    table.set_options({"sequence.field.sort-order": "descending"})
    descending = table.to_arrow()
    assert not descending.equals(ascending)
    assert table.to_arrow().equals(descending)
    table.set_options({"sequence.field.sort-order": "ascending"})
    assert table.to_arrow().equals(ascending)


def by_hand(table: tidelake.Table) -> pa.Table:
    """The rows as a catalog without orders reads them."""
    again = tidelake.open("/lake", fileio=table.handle.fileio).table("d.t")
    assert not len(again.handle.orders)
    return again.to_arrow()


def test_another_sequence_field_has_another_order():
    table = make({"sequence.field": "b"})
    table.write(rows(np.arange(500, 1500), 10))
    by_number = table.to_arrow()
    table.set_options({"sequence.field": "a"})
    by_text = table.to_arrow()
    assert by_text.equals(by_hand(table))
    assert not by_text.equals(by_number)
    table.set_options({"sequence.field": "b"})
    assert table.to_arrow().equals(by_number)


def test_another_column_of_the_same_name_has_another_order():
    table = make({"sequence.field": "b"})
    table.write(rows(np.arange(500, 1500), -1))
    table.to_arrow()
    table.reset_options(["sequence.field"])
    table.drop_column("b")
    table.add_column("b", "BIGINT")
    table.set_options({"sequence.field": "b"})
    found = table.to_arrow(columns=["a"])
    assert found.equals(by_hand(table).select(["a"]))
    assert "600 of -1" in found["a"].to_pylist()


def test_another_type_of_the_sequence_field_has_another_order():
    table = make({"sequence.field": "b"})
    table.write(rows(np.arange(500, 1500), 10))
    by_number = table.to_arrow(columns=["a"])
    table.retype_column("b", "STRING")
    by_text = table.to_arrow(columns=["a"])
    assert by_text.equals(by_hand(table).select(["a"]))
    assert not by_text.equals(by_number)


def test_what_values_depend_on_is_part_of_an_orders_name():
    scan = make().scan()
    context, split = scan.context, scan.plan.splits[0]
    [section] = split.sections

    def key(context: ReadContext, split: Split, **rules: bool) -> bytes:
        spec = MergeSpec.of(context.schema, context.options)
        found = order_key(context, split, section, replace(spec, **rules))
        assert found is not None
        return found

    def of_vector(offset: int) -> bytes:
        where = DeletionRange("/lake/index-1", offset, 40, 3, 100)
        return key(context, replace(split, deletions={split.files[0].file_name: where}))

    zones = [
        replace(context, env=replace(context.env, zone=zone)) for zone in ("UTC", "Asia/Tokyo")
    ]
    moves = Options.parse({**context.options.raw, "orc.timestamp-ltz.legacy.type": "false"})
    keys = [
        *(key(zone, split) for zone in zones),
        key(replace(zones[0], options=moves), split),
        key(zones[0], split, ignore_delete=True),
        of_vector(1),
        of_vector(42),
    ]
    assert key(zones[0], split) == keys[0]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize(
    "engine",
    [
        {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
        {"merge-engine": "first-row", "ignore-delete": "true"},
    ],
)
def test_engines_that_combine_rows_or_look_at_levels_merge_each_time(engine):
    table = make(engine)
    expected = table.to_arrow()
    assert table.to_arrow().equals(expected)
    assert not len(table.handle.orders)


def test_a_read_that_is_left_early_keeps_nothing():
    table = make()
    assert table.to_arrow(limit=10).num_rows == 10
    assert not len(table.handle.orders)


def test_orders_keep_to_their_bound():
    memory = replace(Memory(), merge_orders_bytes=2_500)
    table = make(env=replace(Env.system(), memory=memory))
    for tag in range(4):
        table.write(rows(np.arange(tag, 900 + tag), tag))
        table.to_arrow()
        assert table.handle.orders.nbytes <= 2_500


def test_kept_orders_are_replaced_and_dropped_by_age():
    orders = MergedOrders()
    order = merged_orders_of(100)
    for key in (b"a", b"b", b"a", b"c"):
        orders.keep(key, order, bytes_max=2 * order.nbytes)
    assert orders.nbytes == 2 * order.nbytes
    assert [orders.get(key) is not None for key in (b"a", b"b", b"c")] == [True, False, True]
    orders.keep(b"large", merged_orders_of(9_000), bytes_max=1_000)
    assert orders.get(b"large") is None


def test_a_small_bound_of_one_table_drops_its_own_orders_alone():
    orders = MergedOrders()
    order = merged_orders_of(100)
    for key in (b"a", b"b"):
        orders.keep(key, order, bytes_max=9_000, table="large", table_bytes_max=9_000)
    for key in (b"c", b"d"):
        small = order.nbytes + 1
        orders.keep(key, order, bytes_max=9_000, table="small", table_bytes_max=small)
    assert [orders.get(key) is not None for key in (b"a", b"b", b"c", b"d")] == [1, 1, 0, 1]
    orders.keep(b"e", merged_orders_of(5_000), bytes_max=9_000, table="small", table_bytes_max=600)
    assert orders.get(b"e") is None
    assert orders.nbytes == 3 * order.nbytes


def test_a_table_with_a_small_option_leaves_the_orders_of_others():
    table = make()
    table.to_arrow()
    kept = table.handle.orders.nbytes
    other = table.with_options({"read.mask-cache-size": "1500"})
    table.handle.orders.keep(
        b"other", merged_orders_of(9), bytes_max=1 << 20, table="x", table_bytes_max=1 << 20
    )
    other.to_arrow()
    assert table.handle.orders.nbytes > kept


def test_a_section_of_too_many_rows_is_not_noted_at_all(monkeypatch):
    bytes_max = order_bytes(1_000, 3)
    memory = replace(Memory(), merge_orders_bytes=bytes_max)
    table = make(env=replace(Env.system(), memory=memory))
    monkeypatch.setattr(read, "OrderRecorder", None)
    assert table.to_arrow().num_rows
    assert not len(table.handle.orders)


def test_merges_beside_each_other_share_the_room_for_notes():
    orders = MergedOrders()
    with orders.room(60, bytes_max=100) as first, orders.room(60, bytes_max=100) as second:
        assert [first, second] == [True, False]
        with orders.room(40, bytes_max=100) as third:
            assert third
    with orders.room(100, bytes_max=100) as alone:
        assert alone


def test_a_read_without_room_for_notes_merges():
    table = make()
    orders, bytes_max = table.handle.orders, Memory().merge_orders_bytes
    with orders.room(bytes_max, bytes_max=bytes_max):
        expected = table.to_arrow()
        assert not len(orders)
    assert table.to_arrow().equals(expected)
    assert len(orders) == 2


def test_a_read_that_is_left_gives_its_room_back():
    table = make()
    batches = table.to_batches()
    next(batches)
    del batches
    bytes_max = Memory().merge_orders_bytes
    with table.handle.orders.room(bytes_max, bytes_max=bytes_max) as has_room:
        assert has_room


def merged_orders_of(count: int) -> MergedOrder:
    return MergedOrder(np.zeros(count, np.uint8), (np.zeros(count // 8, np.uint8),), (count,))
