"""Rounds of compactions of a table with buckets: what is found, forgotten, and left for later."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from tidelake.table.job.plan import HERE
from tidelake.table.jobs import append_coordinator
from tidelake.table.jobs.append_coordinator import AGE_FORGOTTEN, AGE_OF_REST
from tidelake.table.upkeep.bucket_coordinator import BucketCoordinator
from tidelake.table.write.transaction import WriteTransaction

COLUMNS = {"p": "STRING", "k": "INT", "v": "INT"}


@pytest.fixture
def table(catalog):
    return catalog.create_table(
        "db.t",
        COLUMNS,
        partition_keys=["p"],
        primary_keys=["p", "k"],
        options={"bucket": 1, "write-only": True},
    )


@pytest.fixture
def queue(catalog):
    options = {"bucket": 1, "bucket-key": "k", "write-only": True, "compaction.min.file-num": 4}
    return catalog.create_table("db.q", COLUMNS, options=options)


def add(table, partition, count, first=0):
    for v in range(first, first + count):
        table.write([{"p": partition, "k": v % 3, "v": v}])


def places(table, plans):
    """Partitions of a round, and whether they are compacted fully."""
    values = table.handle.paths.partition_values
    return sorted(
        ((*values(part.partition), "full") if plan.full else values(part.partition))
        for plan in plans
        for part in plan.tasks
    )


def run(table, plans):
    for plan in plans:
        plan.carry_out(WriteTransaction(table.handle), HERE)


def runs(table):
    files = table.system_table("files").to_arrow().to_pylist()
    return {
        file["partition"]: sum(f["partition"] == file["partition"] for f in files) for file in files
    }


def test_an_empty_table_has_nothing_to_do(table):
    assert BucketCoordinator().plan(table.handle) == ()


def test_a_new_coordinator_finds_all_that_is_there_and_forgets_what_needs_nothing(table):
    add(table, "a", 6)
    add(table, "b", 2)
    coordinator = BucketCoordinator()
    plans = coordinator.plan(table.handle)
    assert places(table, plans) == [("a",)]
    run(table, plans)
    assert len(coordinator.buckets) == 1  # what was planned, until a look finds nothing
    assert coordinator.plan(table.handle) == ()
    assert coordinator.buckets == frozenset()
    assert runs(table) == {"{a}": 1, "{b}": 2}


def test_later_rounds_look_only_at_what_was_written_to(table, monkeypatch):
    add(table, "a", 2)
    add(table, "b", 2)
    coordinator = BucketCoordinator()
    assert coordinator.plan(table.handle) == ()
    monkeypatch.setattr(
        "tidelake.table.upkeep.bucket_coordinator.live_files",
        lambda *_, **__: pytest.fail("the whole table is read again"),
    )
    add(table, "b", 4)
    plans = coordinator.plan(table.handle)
    assert places(table, plans) == [("b",)]


def test_after_a_restart_all_is_found_again(table):
    add(table, "a", 6)
    first = BucketCoordinator()
    assert places(table, first.plan(table.handle)) == [("a",)]
    assert places(table, BucketCoordinator().plan(table.handle)) == [("a",)]


def test_a_plan_that_was_not_carried_out_is_planned_again(table):
    add(table, "a", 6)
    coordinator = BucketCoordinator()
    assert coordinator.plan(table.handle)
    assert places(table, coordinator.plan(table.handle)) == [("a",)]


def test_it_goes_on_after_a_rollback_and_after_an_expiry(table):
    add(table, "a", 2)
    coordinator = BucketCoordinator()
    assert coordinator.plan(table.handle) == ()
    table.rollback_to(snapshot_id=1)
    add(table, "b", 6)  # its snapshot 2 is another one than that which was seen
    assert places(table, coordinator.plan(table.handle)) == [("b",)]
    add(table, "c", 6)
    table.maintenance.expire_snapshots(retain_max=1, retain_min=1)
    assert places(table, coordinator.plan(table.handle)) == [("b",), ("c",)]


def test_a_round_takes_no_more_bytes_than_its_limit_and_leaves_the_rest(table, monkeypatch):
    for name in "abc":
        add(table, name, 6)
    monkeypatch.setattr(append_coordinator, "ROUND_BYTES_MAX", 1)
    coordinator = BucketCoordinator()
    seen = []
    while plans := coordinator.plan(table.handle):
        assert len(places(table, plans)) == 1
        seen += places(table, plans)
        run(table, plans)
    assert sorted(seen) == [("a",), ("b",), ("c",)]


def test_a_bucket_with_many_deletion_vectors_is_compacted_fully(catalog):
    table = catalog.create_table(
        "db.m",
        pa.schema({"p": pa.string(), "k": pa.int64(), "v": pa.int64()}),
        primary_keys=["k"],
        options={"bucket": 1, "deletion-vectors.enabled": True, "write-only": True},
    )
    keys = list(range(20_000))
    draw = random.Random(1)

    def write(some):
        values = [draw.randrange(1 << 30) for _ in some]
        table.write(pa.table({"p": ["x"] * len(some), "k": some, "v": values}))
        return values

    write(keys)
    table.compact(full=True)
    coordinator = BucketCoordinator()
    assert coordinator.plan(table.handle) == ()
    write(keys[:2_000])
    run(table, coordinator.plan(table.handle))  # a few rows are marked
    assert coordinator.plan(table.handle) == ()
    last = write(keys[:8_000])
    run(table, coordinator.plan(table.handle))
    plans = coordinator.plan(table.handle)
    assert [plan.full for plan in plans] == [True]
    run(table, plans)
    assert coordinator.plan(table.handle) == ()
    assert table.system_table("files").to_arrow()["record_count"].to_pylist() == [20_000]
    assert table.to_arrow().sort_by("k")["v"].to_pylist()[:8_000] == last


def test_a_queue_keeps_its_order_and_its_rest_is_joined_when_it_is_idle(queue):
    for v in range(9):
        queue.write([{"p": "x", "k": 1, "v": v}])
    coordinator = BucketCoordinator()
    while plans := coordinator.plan(queue.handle):
        run(queue, plans)
    left = queue.system_table("files").to_arrow().num_rows
    assert 1 < left < 4
    for v in (9, 10, 11):
        queue.write([{"p": "x", "k": 1, "v": v}])
        run(queue, coordinator.plan(queue.handle))
    rounds = 0
    while coordinator.buckets:
        run(queue, coordinator.plan(queue.handle))
        rounds += 1
        assert rounds < 4 * AGE_FORGOTTEN
    assert rounds > AGE_OF_REST
    assert queue.system_table("files").to_arrow().num_rows <= 2
    assert queue.to_arrow()["v"].to_pylist() == list(range(12))
