from __future__ import annotations

import os
import pickle
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelake.errors import ConflictError, StorageError
from tidelake.metadata.log.snapshot_log import SnapshotLog
from tidelake.table.job.plan import HERE, Gathered, Plan, in_shares
from tidelake.table.jobs.compaction import Chosen, plan_compaction
from tidelake.table.write.new_writer import new_writer
from tidelake.table.write.result import WriteResult
from tidelake.table.write.transaction import WriteTransaction

FILES, ROWS = 3, 20


@dataclass(frozen=True)
class Work:
    size_bytes: int


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=40), st.integers(1, 10))
def test_each_task_is_in_one_share_and_shares_are_even(sizes, count):
    cost = 1 << 20
    tasks = [Work(size) for size in sizes]
    shares = in_shares(tasks, count=count, cost=cost)
    assert len(shares) == min(count, len(tasks))
    assert sorted(id(t) for share in shares for t in share) == sorted(map(id, tasks))
    weights = [sum(t.size_bytes + cost for t in share) for share in shares]
    heaviest = max(sizes) + cost
    assert max(weights) <= sum(weights) / len(shares) + heaviest


@pytest.fixture
def table(catalog):
    table = catalog.create_table(
        "db.t",
        {"p": "STRING", "k": "BIGINT", "v": "STRING"},
        primary_keys=["p", "k"],
        partition_keys=["p"],
        options={"bucket": 1, "write-only": "true"},
    )
    for n in range(FILES):
        table.write([{"p": p, "k": k, "v": str(n)} for p in "ab" for k in range(ROWS)])
    return table


def files_of(table):
    return set(Path(table.paths.location).rglob("data-*"))


def planned(table):
    return plan_compaction(table.handle, Chosen(), full=True)


def test_a_plan_travels_and_says_what_it_will_do(table):
    plan = planned(table)
    assert pickle.loads(pickle.dumps(plan)) == plan
    assert len(plan.tasks) == 2
    assert str(plan.tasks[0].size_bytes) in repr(plan)
    assert plan.base_snapshot_id == FILES


def test_a_plan_without_tasks_commits_nothing(table):
    table.compact(full=True)
    plan = planned(table)
    assert plan.carry_out(WriteTransaction(table.handle), HERE) == WriteResult()


class Shares:
    """A runner that does each task by itself, as Spark does, and fails before one of them."""

    def __init__(self, fails_at=None, error=None):
        self.fails_at, self.error = fails_at, error

    def run(self, plan: Plan, into: Gathered) -> None:
        for number, task in enumerate(plan.tasks):
            if number == self.fails_at:
                raise self.error
            share = Gathered(pickle.loads(pickle.dumps(into.handle)), plan.base_snapshot_id)
            plan.run([task], share)
            into.add(share.messages, rows_count=share.rows_count)


def test_tasks_done_apart_make_one_commit(table):
    before = sorted(map(repr, table.to_arrow().to_pylist()))
    done = planned(table).carry_out(WriteTransaction(table.handle), Shares())
    assert done.snapshot_ids == (FILES + 1,)
    assert sorted(map(repr, table.to_arrow().to_pylist())) == before
    assert table.system_table("files").to_arrow().num_rows == 2


@pytest.mark.parametrize("error", [StorageError("away"), KeyboardInterrupt()], ids=repr)
def test_a_job_that_fails_leaves_no_file_of_the_tasks_before(table, error):
    before = files_of(table)
    with pytest.raises(type(error)):
        planned(table).carry_out(WriteTransaction(table.handle), Shares(fails_at=1, error=error))
    assert files_of(table) == before
    assert table.latest_snapshot_id == FILES


def test_a_job_whose_files_others_took_is_a_conflict_and_leaves_none(table):
    class Overtaken:
        def run(self, plan: Plan, into: Gathered) -> None:
            HERE.run(plan, into)
            table.compact(full=True)

    with pytest.raises(ConflictError):
        planned(table).carry_out(WriteTransaction(table.handle), Overtaken())
    assert len(files_of(table)) == 2 * (FILES + 1)  # those of before, and the other job's


def test_a_writer_that_is_interrupted_is_aborted_with_what_it_has_written(table):
    before, plan = files_of(table), planned(table)
    into = Gathered(table.handle)

    def write_and_stop():
        with into.writing(new_writer(table.handle)) as writer:
            writer.compact(plan.tasks[0].partition, 0, full=True, names=None)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_and_stop()
    into.close()
    into.abort()
    assert files_of(table) == before


def test_what_a_source_wrote_is_counted_once():
    into = Gathered(SimpleNamespace())
    into.add(["a"], rows_count=2)
    into.add(["b"], rows_count=3)
    into.replace(["ab"])
    assert into.prepare_commit() == ["ab"]
    assert into.rows_count == 5


def finished_and_open(table, source):
    """The output of a job: one part is written, a second source is open."""
    into = Gathered(table.handle)
    HERE.run(planned(table), into)
    into._open = source
    return into


def test_an_interrupt_of_the_clean_up_leaves_no_file_of_finished_tasks(table):
    def interrupted():
        raise KeyboardInterrupt

    before = files_of(table)
    into = finished_and_open(table, SimpleNamespace(abort=interrupted))
    assert files_of(table) > before
    with pytest.raises(KeyboardInterrupt):
        into.abort()
    assert files_of(table) == before


def test_a_forked_child_deletes_no_file_of_its_parent(table):
    into = finished_and_open(table, SimpleNamespace(abort=lambda: None))
    made = files_of(table)
    child = os.fork()
    if child == 0:
        try:
            into.abort()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert files_of(table) == made
    into.abort()
    assert files_of(table) < made


def test_a_compaction_of_parts_needs_its_snapshot_at_the_beginning_alone(catalog):
    options = {"bucket": -1, "write-only": "true", "compaction.min.file-num": "2"}
    options["target-file-size"] = "4 kb"
    table = catalog.create_table("db.append", {"k": "BIGINT"}, options=options)
    for n in range(24):
        table.write([{"k": k} for k in range(n * 50, n * 50 + 50)])
    plan = plan_compaction(table.handle, Chosen(), full=False)
    assert len(plan.tasks) > 1
    assert all(task.names is not None for task in plan.tasks)
    seen = mock.Mock(side_effect=SnapshotLog.load, autospec=True)
    with mock.patch.object(SnapshotLog, "load", lambda log, number: seen(log, number)):
        into = Gathered(table.handle)
        plan.run(plan.tasks, into)
    into.abort()
    assert [call.args[1] for call in seen.call_args_list].count(plan.snapshot_id) <= 1
