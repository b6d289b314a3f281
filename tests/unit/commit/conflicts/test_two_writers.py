"""Two jobs write one bucket at the same time, rows and all: nothing is missing, nothing flickers.

Both begin from the same snapshot, so their sequence numbers overlap. Which of two rows of one key
wins is settled by the sequence number, then by the age of the files; a test that knew the winner
would repeat the engine. What must hold for a reader is that every key is there, with a row that one
of the jobs wrote last for it, and that no compaction changes what was read before it.
"""

import random

import numpy as np
import pyarrow as pa
import pytest

import tidelake
from tidelake.fileio import MemoryFileIO
from tidelake.table.write.new_writer import new_writer
from tidelake.telemetry import Env

SCHEMA = pa.schema([("k", pa.int64()), ("who", pa.string())])


def new_table(seed, **options):
    catalog = tidelake.open("/wh", fileio=MemoryFileIO(), env=Env.seeded(seed))
    options = {"bucket": "1", "num-sorted-run.compaction-trigger": "2"} | options
    return catalog.create_table("db.t", SCHEMA, primary_keys=["k"], options=options)


def rows_of(table):
    return {row["k"]: row["who"] for row in table.to_arrow().to_pylist()}


def batch(keys, who):
    return pa.table({"k": sorted(keys), "who": [who] * len(keys)}, schema=SCHEMA)


@pytest.mark.parametrize("seed", range(6))
def test_rows_of_both_are_there_and_no_compaction_changes_what_is_read(seed):
    rng = random.Random(seed)
    table = new_table(seed)
    possible = {}
    identifier = 0
    for turn in range(5):
        writers = [new_writer(table.handle) for _ in range(2)]
        messages = []
        last = {}
        for number, writer in enumerate(writers):
            keys = set(rng.sample(range(12), rng.randrange(1, 12)))
            who = f"{turn}.{number}"
            writer.write(batch(keys, who))
            messages.append(writer.prepare_commit())
            for key in keys:
                last.setdefault(key, set()).add(who)
        possible |= last  # a job that began later wins over what it saw
        for number in rng.sample([0, 1], 2):
            identifier += 1
            before = rows_of(table)
            done = table.handle.committer().commit(
                messages[number], user=f"job{number}", identifier=identifier
            )
            assert done.snapshots[0].commit_kind == "APPEND"
            assert before.keys() <= rows_of(table).keys()
            if len(done) == 2:
                _same_before_and_after(table, done.snapshots[1].id)
        seen = rows_of(table)
        assert seen.keys() == possible.keys()
        assert all(seen[key] in possible[key] for key in seen), (seen, possible)
        if rng.random() < 0.5:
            table.compact(full=rng.random() < 0.5)
            assert rows_of(table) == seen
        # the state from here on is one state: each key has one row
        possible = {key: {who} for key, who in seen.items()}


def _same_before_and_after(table, snapshot_id):
    before, after = (
        {r["k"]: r["who"] for r in table.to_arrow(snapshot_id=i).to_pylist()}
        for i in (snapshot_id - 1, snapshot_id)
    )
    assert before == after


def test_jobs_on_different_buckets_do_not_touch_each_other():
    table = new_table(1, bucket="2")
    for round_number in range(6):
        writers = [new_writer(table.handle) for _ in range(2)]
        prepared = []
        for number, writer in enumerate(writers):
            writer.write(batch(range(number, 40, 2), f"{round_number}.{number}"))
            prepared.append(writer.prepare_commit())
        for number, messages in enumerate(prepared):
            table.handle.committer().commit(messages, user=f"job{number}", identifier=round_number)
        assert rows_of(table) == {k: f"{round_number}.{k % 2}" for k in range(40)}


def _two_jobs(table, first, second, *, deletes=()):
    """Both begin from one snapshot; `first` commits, then `second`, which compacts what it saw."""
    one, two = new_writer(table.handle), new_writer(table.handle)
    one.write(batch(first, "first"))
    rows = batch(second, "second")
    two.write(rows, np.array([3 if k in deletes else 0 for k in sorted(second)], dtype=np.int8))
    two.compact(bytes(12), 0, full=True)
    ours, theirs = two.prepare_commit(), one.prepare_commit()
    table.handle.committer().commit(theirs, user="one", identifier=1)
    return table.handle.committer().commit(ours, user="two", identifier=1)


def test_a_compaction_does_not_settle_a_tie_with_a_file_it_did_not_see():
    table = new_table(1)
    done = _two_jobs(table, [1], [1, 2, 3])
    assert [e.kind for e in done.dropped_compactions] == ["compaction_gave_way"]
    seen = rows_of(table)
    assert seen.keys() == {1, 2, 3}
    table.compact(full=True)
    assert rows_of(table) == seen


def test_a_compaction_does_not_forget_a_delete_that_a_file_it_did_not_see_is_subject_to():
    table = new_table(1)
    table.write(batch([1, 9], "base"))
    done = _two_jobs(table, [1], [1, 5, 6], deletes=[1])
    assert [e.kind for e in done.dropped_compactions] == ["compaction_gave_way"]
    seen = rows_of(table)
    assert {5, 6, 9} <= seen.keys()
    table.compact(full=True)
    assert rows_of(table) == seen
