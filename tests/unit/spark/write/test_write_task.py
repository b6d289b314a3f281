from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pytest

import tidelake
from tidelake import errors
from tidelake.spark.error_wire import error_from_text, error_to_text
from tidelake.spark.write.write_task import TaskAnswer, WriteTask, write_task
from tidelake.types import RowKind


@pytest.fixture
def table(tmp_path):
    catalog = tidelake.open(tmp_path)
    schema = pa.schema([("k", pa.int64()), ("v", pa.string())])
    return catalog.create_table("db.t", schema, primary_keys=["k"], options={"bucket": 2})


def run(task, *batches):
    """As an executor does: the function arrives pickled."""
    function = write_task(pickle.loads(pickle.dumps(task)))
    rows = [row for batch in function(iter(batches)) for row in batch.to_pylist()]
    return TaskAnswer.gather(rows)


def batch_of(keys, **columns):
    return pa.record_batch(
        {"k": pa.array(keys, pa.int64()), "v": pa.array(["x"] * len(keys)), **columns}
    )


def test_messages_of_a_task_make_its_rows_visible(table):
    answer = run(
        WriteTask.of(table.handle, user=""),
        batch_of([1, 2]),
        batch_of([3]),
    )
    assert (answer.rows_count, answer.errors) == (3, ())
    table.handle.committer().commit(answer.messages, user="me", identifier=1)
    assert table.count() == 3


def test_kinds_travel_as_bytes(table):
    table.write(batch_of([1, 2]))
    kinds = np.array([RowKind.DELETE], dtype=np.int8)
    answer = run(
        WriteTask.of(table.handle, user=""),
        batch_of([2], _row_kind=pa.array(kinds)),
    )
    table.handle.committer().commit(answer.messages, user="me", identifier=1)
    assert table.to_arrow()["k"].to_pylist() == [1]


def test_a_task_without_rows_answers(table):
    answer = run(WriteTask.of(table.handle, user=""))
    assert answer == TaskAnswer(0, (), ())


def test_wrong_rows_are_an_answer_and_leave_no_file(table, tmp_path):
    rows = batch_of([1, None])
    answer = run(WriteTask.of(table.handle, user=""), rows)
    assert [type(e) for e in answer.errors] == [errors.InvalidInputError]
    assert "'k'" in str(answer.errors[0])
    assert not list(tmp_path.rglob("data-*"))


def test_errors_of_the_storage_are_raised_so_that_spark_tries_again(table, tmp_path):
    (tmp_path / "db.db" / "t" / "bucket-0").write_text("a file where a directory should be")
    (tmp_path / "db.db" / "t" / "bucket-1").write_text("a file where a directory should be")
    with pytest.raises(errors.StorageError):
        run(WriteTask.of(table.handle, user=""), batch_of([1, 2, 3]))


def test_a_task_whose_inputs_were_replaced_and_expired_says_so(tmp_path):
    """The driver begins again on that conflict, as a write in one process does."""
    options = {"bucket": "1", "num-sorted-run.compaction-trigger": "2"}
    schema = pa.schema([("k", pa.int64()), ("v", pa.string())])
    table = tidelake.open(tmp_path).create_table(
        "db.t", schema, primary_keys=["k"], options=options
    )
    table.write(batch_of([1]))

    def batches():
        yield batch_of([2])
        table.write(batch_of([3]))
        table.compact(full=True)
        table.maintenance.expire_snapshots(retain_max=1, retain_min=1)
        yield batch_of([4])

    [answer] = write_task(WriteTask.of(table.handle, user=""))(batches())
    [error] = TaskAnswer.gather(answer.to_pylist()).errors
    assert (type(error), error.kind) == (errors.ConflictError, "base_expired")


def test_two_tasks_never_share_a_name(table):
    task = WriteTask.of(table.handle, user="")
    one, two = run(task, batch_of([1])), run(task, batch_of([1]))
    names = [f.file_name for a in (one, two) for m in a.messages for f in m.new_files]
    assert len(names) == len(set(names)) == 2


@pytest.mark.parametrize("name", [n for n in errors.__all__ if n.endswith("Error")])
def test_every_error_keeps_its_class_and_context(name):
    error = getattr(errors, name)("Something.", kind="some_kind", table="db.t", snapshot=3)
    copy = error_from_text(error_to_text(error))
    assert type(copy) is type(error)
    assert (str(copy), copy.kind) == ("Something.", "some_kind")
    assert copy.context == {"table": "db.t", "snapshot": "3"}
