"""Plans of real tables: what is pruned and why, and the files that one commit added."""

from __future__ import annotations

from unit.scan.conftest import SCHEMA

import tidelake
from tidelake.fileio import MemoryFileIO
from tidelake.scan import plan_scan, read_split
from tidelake.telemetry import Env


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


def test_the_same_seed_gives_the_same_files(table):
    def names():
        catalog = tidelake.open("/w", fileio=MemoryFileIO(), env=Env.seeded(3))
        made = catalog.create_table("d.t", SCHEMA)
        made.write([{"p": "x", "k": 1, "v": 1}])
        return made.system_table("files").to_arrow().to_pylist()

    assert names() == names()
