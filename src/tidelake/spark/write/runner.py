"""Runs the tasks of a job on Spark's executors.

1. Tasks are shared out by weight, the heaviest first. A share is a task of Spark's; it does one of
   the job's tasks after the other, within its memory, and returns commit messages.
2. An error of the storage fails Spark's task, which deletes its files, and Spark tries it again.
   Any other error would come again: it is the task's answer, and the job's.
3. If Spark ran a task twice, the driver gets the answer of one attempt; no snapshot references
   files of the others.

The plan commits on the driver, as it does without Spark (:mod:`tidelake.table.job.plan`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from tidelake.engine.jobs import Gathered, Plan, in_shares
from tidelake.engine.tables import TableHandle
from tidelake.errors import StorageError, TidelakeError
from tidelake.spark.expression.mapped import in_workers
from tidelake.spark.read.scan_frame import packed_splits
from tidelake.spark.write.write_task import (
    ANSWER_SCHEMA,
    TaskAnswer,
    answer_rows,
    for_task,
    in_task,
)


@dataclass(frozen=True, slots=True)
class SparkRunner:
    """Runs the tasks of a plan on executors.

    Parameters
    ----------
    tasks : int, optional
        The most tasks of Spark's; by default as many as a scan of so many bytes has.
    """

    spark: SparkSession
    tasks: int | None = None

    def run(self, plan: Plan[Any], into: Gathered) -> None:
        """Run all tasks and gather what they wrote."""
        if not plan.tasks:
            return
        if self.tasks is None:
            shares = packed_splits(self.spark, into.handle.read_context(), _numbered(plan))
        else:
            shares = in_shares(_numbered(plan), count=self.tasks)
        numbers = [tuple(task.number for task in share) for share in shares]
        rows = self.spark.range(0, len(shares), 1, len(shares))
        work = _do_shares(for_task(into.handle), plan, numbers)
        answer = TaskAnswer.gather(in_workers(rows, work, ANSWER_SCHEMA).collect())
        into.add(answer.messages, rows_count=answer.rows_count)
        if answer.errors:
            raise answer.errors[0]


@dataclass(frozen=True, slots=True)
class _Numbered:
    """A task by its number: shares travel as numbers, beside one copy of the plan."""

    number: int
    size_bytes: int


def _numbered(plan: Plan[Any]) -> list[_Numbered]:
    """The tasks of a plan by number."""
    return [_Numbered(number, task.size_bytes) for number, task in enumerate(plan.tasks)]


def _do_shares(
    handle: TableHandle, plan: Plan[Any], shares: Sequence[Sequence[int]]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the function for executors."""

    def run(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        into = Gathered(in_task(handle), plan.base_snapshot_id)
        try:
            for batch in numbers:
                for share in batch.column(0).to_pylist():  # one for each task
                    plan.run([plan.tasks[number] for number in shares[share]], into)
        except StorageError:
            into.abort()
            raise  # Spark tries the task again
        except TidelakeError as error:
            into.abort()
            yield answer_rows(error=error)
            return
        except BaseException:
            into.abort()
            raise
        yield answer_rows(into.rows_count, into.messages)

    return run
