"""Rounds of compactions of an append table: what is kept in mind, planned, forgotten."""

from __future__ import annotations

import random

import pytest
from proving.fsck import check_table

from tidelake import col
from tidelake.errors import ConflictError
from tidelake.table.job.plan import HERE
from tidelake.table.jobs import append_coordinator
from tidelake.table.jobs.append_coordinator import (
    AGE_FORGOTTEN,
    AGE_OF_REST,
    AppendCoordinator,
    wants_coordinator,
)
from tidelake.table.write.transaction import WriteTransaction

COLUMNS = {"p": "STRING", "k": "INT"}


@pytest.fixture
def table(catalog):
    return catalog.create_table(
        "db.t", COLUMNS, partition_keys=["p"], options={"compaction.min.file-num": 4}
    )


def add(table, partition, count):
    for k in range(count):
        table.write([{"p": partition, "k": k}])


def places(table, plan):
    """Partitions of a round and how many files of each."""
    if plan is None:
        return None
    values = table.handle.paths.partition_values
    return sorted((values(part.partition)[0], len(part.names)) for part in plan.tasks)


def run(table, plan):
    return plan.carry_out(WriteTransaction(table.handle), HERE)


def files_count(table):
    found = table.system_table("files").to_arrow().to_pylist()
    counts = {}
    for file in found:
        counts[file["partition"]] = counts.get(file["partition"], 0) + 1
    return counts


def test_only_an_append_table_without_buckets_wants_one(catalog, table):
    assert wants_coordinator(table.handle)
    queue = catalog.create_table("db.q", COLUMNS, options={"bucket": 1, "bucket-key": "k"})
    keyed = catalog.create_table("db.k", COLUMNS, primary_keys=["k"], options={"bucket": 1})
    assert not wants_coordinator(queue.handle)
    assert not wants_coordinator(keyed.handle)


def test_an_empty_table_has_nothing_to_do(table):
    assert AppendCoordinator().plan(table.handle) is None


def test_a_new_coordinator_finds_all_that_is_there(table):
    add(table, "a", 5)
    add(table, "b", 3)
    add(table, "c", 1)
    coordinator = AppendCoordinator()
    assert places(table, coordinator.plan(table.handle)) == [("a", 5)]
    assert len(coordinator.partitions) == 2  # of one file nothing can become


def test_a_round_is_one_commit_that_keeps_the_rows(table):
    add(table, "a", 5)
    add(table, "b", 4)
    before = sorted(map(tuple, (r.values() for r in table.to_arrow().to_pylist())))
    coordinator = AppendCoordinator()
    result = run(table, coordinator.plan(table.handle))
    assert len(result.snapshot_ids) == 1
    assert files_count(table) == {"{a}": 1, "{b}": 1}
    assert sorted(map(tuple, (r.values() for r in table.to_arrow().to_pylist()))) == before
    check_table(table.handle.fileio, table.handle.paths.location)
    assert coordinator.plan(table.handle) is None


def test_a_later_round_looks_at_what_commits_added(table):
    coordinator = AppendCoordinator()
    add(table, "a", 3)
    assert coordinator.plan(table.handle) is None
    add(table, "a", 1)
    add(table, "b", 4)
    assert places(table, coordinator.plan(table.handle)) == [("a", 4), ("b", 4)]


def test_few_files_are_put_together_when_nothing_comes_and_then_forgotten(table):
    add(table, "a", 3)
    coordinator = AppendCoordinator()
    rounds = [coordinator.plan(table.handle) for _ in range(AGE_OF_REST)]
    assert rounds == [None] * AGE_OF_REST
    last = coordinator.plan(table.handle)
    assert places(table, last) == [("a", 3)]
    run(table, last)
    for _ in range(AGE_FORGOTTEN):
        assert coordinator.plan(table.handle) is None
        assert coordinator.partitions
    assert coordinator.plan(table.handle) is None
    assert not coordinator.partitions
    add(table, "a", 1)  # one more, and it is there again
    coordinator.plan(table.handle)
    assert coordinator.partitions


def test_a_compaction_alone_brings_nothing_to_mind(table):
    add(table, "a", 5)
    coordinator = AppendCoordinator()
    run(table, coordinator.plan(table.handle))
    for _ in range(AGE_FORGOTTEN + 1):
        coordinator.plan(table.handle)
    assert not coordinator.partitions


def test_where_snapshots_expired_between_all_partitions_are_looked_at(table):
    add(table, "a", 2)
    coordinator = AppendCoordinator()
    coordinator.plan(table.handle)
    add(table, "b", 4)
    add(table, "c", 2)
    for number in range(1, table.latest_snapshot_id):
        table.handle.fileio.delete(table.handle.paths.snapshot(number))
    assert places(table, coordinator.plan(table.handle)) == [("b", 4)]
    assert len(coordinator.partitions) == 3


def test_a_round_is_bounded_but_never_empty(table, monkeypatch):
    monkeypatch.setattr(append_coordinator, "ROUND_BYTES_MAX", 1)
    add(table, "a", 5)
    add(table, "b", 4)
    coordinator = AppendCoordinator()
    first = coordinator.plan(table.handle)
    assert places(table, first) == [("a", 5)]  # the one that waits longest, though not the smallest
    run(table, first)
    add(table, "a", 4)
    assert places(table, coordinator.plan(table.handle)) == [("b", 4)]


def test_files_that_another_took_are_a_conflict_and_nothing_is_lost(table):
    add(table, "a", 4)
    plan = AppendCoordinator().plan(table.handle)
    table.compact(full=True)
    before = table.latest_snapshot_id
    with pytest.raises(ConflictError):
        run(table, plan)
    assert table.latest_snapshot_id == before
    assert table.to_arrow().num_rows == 4


def test_deletion_vectors_are_kept_in_mind(catalog):
    options = {"compaction.min.file-num": 4, "deletion-vectors.enabled": True}
    table = catalog.create_table("db.d", COLUMNS, options=options)
    add(table, "a", 5)
    table.delete("k = 2")
    plan = AppendCoordinator().plan(table.handle)
    run(table, plan)
    assert sorted(r["k"] for r in table.to_arrow().to_pylist()) == [0, 1, 3, 4]
    check_table(table.handle.fileio, table.handle.paths.location)


def test_one_large_file_with_many_deleted_rows_is_found(catalog):
    """A file that nobody adds others to: a delete changes only the index, and a restart sees it."""
    options = {"deletion-vectors.enabled": True, "target-file-size": "64 kb"}
    table = catalog.create_table("db.m", COLUMNS, options=options)
    draw = random.Random(1)
    rows = [{"p": f"{draw.getrandbits(64)}", "k": k} for k in range(5_000)]
    table.write(rows)
    assert table.system_table("files").to_arrow()["file_size_in_bytes"][0].as_py() > 50_000
    coordinator = AppendCoordinator()
    for _ in range(AGE_FORGOTTEN + 2):
        assert coordinator.plan(table.handle) is None
    table.delete(col("k") < 2_500)
    assert coordinator.plan(table.handle) is not None
    restarted = AppendCoordinator().plan(table.handle)
    assert restarted is not None
    run(table, restarted)
    assert table.system_table("files").to_arrow()["record_count"].to_pylist() == [2_500]
    assert table.count() == 2_500
