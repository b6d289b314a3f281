"""What a writer finds in its buckets is what the snapshot holds, at the cost of these buckets."""

from __future__ import annotations

import pyarrow as pa
import pytest
from unit.metadata.made import data_file, partition

from tidelake.commit.conflicts.live_buckets import live_in
from tidelake.metadata import CommitMessage
from tidelake.metadata.manifest.entry_table import EntryTable
from tidelake.table.write.bucket_state import (
    FOLDED_LOOK_UPS_MAX,
    SEPARATE_LOOK_UPS_MAX,
    BucketStates,
)

PARTITIONS = [f"p{i}" for i in range(6)]
BUCKETS = 3


@pytest.fixture
def table(catalog):
    """Six partitions of two used buckets, in several manifests, compacted and overwritten."""
    table = catalog.create_table(
        "db.t",
        pa.schema({"p": pa.string(), "k": pa.int64(), "v": pa.string()}),
        primary_keys=["p", "k"],
        partition_keys=["p"],
        options={"bucket": BUCKETS},
    )
    for number in range(5):
        files = [
            CommitMessage(partition(p), b, BUCKETS, (data_file(f"f-{number}-{p}-{b}", level=0),))
            for p in PARTITIONS
            for b in (0, 1)
        ]
        table.handle.committer().commit(files, user="u", identifier=number)
    table.delete("p = 'p2'")
    return table


def names(state):
    return sorted(f.file_name for f in state.files)


@pytest.mark.parametrize("repeats", [1, 2, 4])
def test_each_bucket_has_the_files_of_the_snapshot(table, repeats):
    snapshot = table.handle.snapshots.latest()
    places = [(p, b) for p in [*PARTITIONS, "new"] for b in range(BUCKETS)] * repeats
    assert len(places) > SEPARATE_LOOK_UPS_MAX
    assert (len(places) > FOLDED_LOOK_UPS_MAX) == (repeats == 4)
    one_by_one = [BucketStates(table.handle)(partition(p), b) for p, b in places]
    together = BucketStates(table.handle)
    for (p, b), alone in zip(places, one_by_one, strict=True):
        context = table.handle.commit_context()
        live = live_in(context, snapshot, partitions={partition(p)}, buckets={b})
        assert names(alone) == sorted(live["file_name"].to_pylist())
        assert alone.partition_buckets == (None if p in {"p2", "new"} else BUCKETS)
        assert alone.snapshot_id == snapshot.id
        assert together(partition(p), b) == alone


def test_other_buckets_files_are_not_folded(table, monkeypatch):
    folded = []
    fold = EntryTable.fold.__func__  # type: ignore[attr-defined]

    def counting(cls, tables, **more):
        tables = list(tables)
        folded.append(sum(t.num_rows for t in tables))
        return fold(cls, tables, **more)

    monkeypatch.setattr(EntryTable, "fold", classmethod(counting))
    assert len(BucketStates(table.handle)(partition("p0"), 1).files) == 5
    assert folded == [5]


def test_a_writer_stays_with_the_snapshot_that_it_began_from(table):
    state = BucketStates(table.handle)
    before = state(partition("p0"), 0)
    rows = [{"p": "p0", "k": k, "v": "x"} for k in range(9)]
    table.copy({"write-only": True}).write(rows)  # the fixture's files are names only
    assert state(partition("p0"), 0) == before
    assert len(BucketStates(table.handle)(partition("p0"), 0).files) > len(before.files)


def test_an_empty_table_has_no_files_and_snapshot_zero(keyed):
    state = BucketStates(keyed.handle)(b"", 0)
    assert (state.files, state.partition_buckets, state.snapshot_id) == ((), None, 0)
