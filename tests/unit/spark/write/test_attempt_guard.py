"""What placing tasks say to writing ones, as it goes through a shuffle."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from tidelake.errors import ConflictError, InvalidInputError, StorageError
from tidelake.spark.write import attempt_guard
from tidelake.spark.write.attempt_guard import (
    ATTEMPT_COLUMN,
    BUCKET_COLUMN,
    NOTE_COLUMN,
    NoteReader,
    check_one_attempt,
    one_attempt,
    with_notes,
)
from tidelake.spark.write.clustering import TASK_COLUMN

EMPTY = pa.schema([("k", pa.int64()), ("at", pa.timestamp("us", "UTC"))])


class Context:
    """Stands for Spark's TaskContext."""

    def __init__(self, partition, number):
        self.partitionId = lambda: partition
        self.taskAttemptId = lambda: number


@pytest.fixture
def place(monkeypatch):
    """Run a placing task for two writing tasks; the bucket of a key is its last bit."""

    def run(partition, number, *batches, refuse=None):
        def placing(given):
            for rows in given:
                yield rows, rows.column("k").to_numpy().astype(np.int32) & 1, rows.num_rows
            if refuse is not None:
                raise refuse

        monkeypatch.setattr(attempt_guard.TaskContext, "get", lambda: Context(partition, number))
        return list(with_notes(placing, schema=EMPTY, tasks=2)(iter(batches)))

    return run


def rows_of(*keys, zone="Asia/Tokyo"):
    at = pa.array([0] * len(keys), pa.timestamp("us", zone))
    return pa.record_batch({"k": pa.array(keys, pa.int64()), "at": at})


def heard_by(task, *outputs):
    """What a writing task is told, and the keys it is given with their buckets."""
    reader = NoteReader()
    taken = []
    for batch in (batch for output in outputs for batch in output):
        own = [
            position
            for position, row in enumerate(batch.to_pylist())
            if (row[BUCKET_COLUMN] if row[TASK_COLUMN] is None else row[TASK_COLUMN]) == task
        ]
        rows, buckets = reader.rows_of(batch.take(pa.array(own, pa.int64())))
        assert rows.schema.names == ["k", "at"]
        taken += zip(rows.column("k").to_pylist(), buckets.tolist(), strict=True)
    return reader.digest(), taken


def test_every_writing_task_hears_every_placing_task(place):
    outputs = [place(0, 70, rows_of(1, 2, 3), rows_of(5)), place(1, 71), place(2, 72, rows_of(7))]
    first, none = heard_by(0, *outputs)
    second, odd = heard_by(1, *reversed(outputs))
    assert none == [(2, 0)]
    assert sorted(odd) == [(1, 1), (3, 1), (5, 1), (7, 1)]
    assert first == second
    assert first.rows == 5
    check_one_attempt([first, second], table="db.t")


def test_another_attempt_of_one_placing_task_is_seen_though_it_gave_no_rows(place):
    outputs = [place(0, 70, rows_of(1, 2)), place(1, 71)]
    before, _ = heard_by(0, *outputs)
    after, _ = heard_by(1, outputs[0], place(1, 99))
    with pytest.raises(ConflictError, match="ran a task again") as caught:
        check_one_attempt([before, after], table="db.t")
    assert caught.value.kind == "bucket_assignment"


def test_a_task_that_heard_nothing_does_not_agree(place):
    heard, _ = heard_by(0, place(0, 70))
    with pytest.raises(ConflictError):
        check_one_attempt([heard, NoteReader().digest()], table="db.t")


def test_rows_of_an_attempt_without_its_note_are_a_bug(place):
    output = place(0, 70, rows_of(1))
    with pytest.raises(AssertionError, match="without a note"):
        heard_by(1, output[:1])


def test_a_note_has_the_types_of_the_rows_before_it(place):
    batches = place(0, 70, rows_of(1))
    assert len(batches) == 2
    assert batches[0].schema == batches[1].schema
    names = [*EMPTY.names, BUCKET_COLUMN, TASK_COLUMN, ATTEMPT_COLUMN, NOTE_COLUMN]
    assert batches[0].schema.names == names
    (only,) = place(0, 70)
    assert only.schema.types[:2] == EMPTY.types


def test_a_refusal_reaches_all_writing_tasks_and_a_fault_of_storage_none(place):
    refusal = InvalidInputError("No such key.", kind="null_value", table="db.t")
    output = place(0, 70, rows_of(1), refuse=refusal)
    for task in (0, 1):
        with pytest.raises(InvalidInputError, match="No such key") as caught:
            heard_by(task, output)
        assert caught.value.kind == "null_value"
    with pytest.raises(StorageError, match="gone"):
        place(0, 70, rows_of(1), refuse=StorageError("gone", kind="io"))


def test_a_job_that_spark_gives_up_for_a_second_attempt_is_the_same_conflict():
    words = (
        f"Job aborted due to stage failure: {attempt_guard.SPARK_GIVES_UP}. However, Spark cannot"
    )
    with pytest.raises(ConflictError) as caught, one_attempt(table="db.t"):
        raise PySparkException(words)
    assert caught.value.kind == "bucket_assignment"
    with pytest.raises(PySparkException, match="out of memory"), one_attempt(table="db.t"):
        raise PySparkException("out of memory")
