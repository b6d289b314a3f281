"""Plans of real tables: what is pruned and why, and the files that one commit added."""

from __future__ import annotations

import pyarrow as pa
import pytest

import tidelake
from tidelake.fileio import MemoryFileIO
from tidelake.scan import plan_scan, read_split
from tidelake.telemetry import Env

SCHEMA = pa.schema({"p": pa.string(), "k": pa.int64(), "v": pa.int64()})


@pytest.fixture
def table():
    catalog = tidelake.open("/w", fileio=MemoryFileIO(), env=Env.seeded(1))
    return catalog.create_table(
        "db.t",
        SCHEMA,
        primary_keys=["p", "k"],
        partition_keys=["p"],
        options={"bucket": 1, "write-only": True},
    )


def read(table, snapshot_id, **plan):
    handle = table.handle
    context = handle.read_context()
    snapshot = handle.snapshots.load(snapshot_id)
    made = plan_scan(context, snapshot, manifests=handle.manifests, **plan)
    return [
        tuple(row.values())
        for split in made.splits
        for batch in read_split(
            context, split, columns=["k", "v"], predicate=plan.get("predicate"), keep_kinds=True
        )
        for row in batch.to_pylist()
    ]


def test_the_delta_of_a_commit_is_what_it_added_with_kinds(table):
    table.write([{"p": "a", "k": k, "v": 1} for k in range(3)])
    table.write(
        [{"p": "a", "k": 0, "v": 2}, {"p": "a", "k": 1, "v": 2}, {"p": "b", "k": 7, "v": 7}],
        row_kinds=["+U", "-D", "+I"],
    )
    assert sorted(read(table, 2, mode="delta")) == [(0, 2, 2), (1, 2, 3), (7, 7, 0)]
    assert sorted(read(table, 1, mode="delta")) == [(k, 1, 0) for k in range(3)]
    # the state with kinds keeps the delete that readers drop
    assert sorted(read(table, 2)) == [(0, 2, 2), (1, 2, 3), (2, 1, 0), (7, 7, 0)]


def test_manifests_of_other_partitions_are_not_opened(table):
    for p in "abc":
        table.write([{"p": p, "k": 1, "v": 1}])
    plan = table.plan(filter="p = 'b'")
    assert (plan.manifests_total, plan.manifests_pruned) == (3, 2)
    assert plan.files_read == 1


def test_a_delete_whose_add_lies_in_an_unopened_manifest_is_no_damage(table):
    """Manifest 1 adds a file of 'a'; manifest 2 deletes it and adds files of 'a' to 'c'."""
    table.write([{"p": "a", "k": 1, "v": 1}])
    whole = table.copy({"dynamic-partition-overwrite": False})
    whole.write([{"p": p, "k": 1, "v": 2} for p in "ac"], mode="overwrite")
    assert table.to_arrow(filter="p = 'b'").num_rows == 0
    assert table.to_arrow(filter="p = 'c'").num_rows == 1
    assert table.to_arrow(filter="p = 'a'").to_pylist() == [{"p": "a", "k": 1, "v": 2}]


def test_pruned_files_are_listed_with_their_reasons(table):
    for low in (0, 100):
        table.write([{"p": p, "k": low + k, "v": low} for p in "ab" for k in range(3)])
    plan = table.plan(filter="p = 'a' AND k >= 100")
    assert plan.pruned == {"partition": 2, "key statistics": 1}
    assert {f.reason for f in plan.pruned_files} == {"partition", "key statistics"}
    assert plan.files_total == plan.files_read + len(plan.pruned_files) == 4
    by_value = table.plan(filter="v = 100")
    assert by_value.pruned == {"value statistics": 2}
    assert all(s.raw for s in by_value.splits)


def test_the_same_seed_gives_the_same_files(table):
    def names():
        catalog = tidelake.open("/w", fileio=MemoryFileIO(), env=Env.seeded(3))
        made = catalog.create_table("d.t", SCHEMA)
        made.write([{"p": "x", "k": 1, "v": 1}])
        return made.system_table("files").to_arrow().to_pylist()

    assert names() == names()
