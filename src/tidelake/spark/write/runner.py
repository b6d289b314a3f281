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

import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from tidelake.engine.jobs import Gathered, Plan, in_shares
from tidelake.engine.tables import TableHandle
from tidelake.spark.read.shares import even_shares, share_frame
from tidelake.spark.write.write_task import (
    ANSWER_SCHEMA,
    TaskAnswer,
    answered,
    for_task,
    in_task,
    written,
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
            shares = even_shares(self.spark, into.handle.read_context(), _numbered(plan))
        else:
            shares = in_shares(_numbered(plan), count=self.tasks)
        # each share is decoded by its own task alone
        blobs = [pickle.dumps([plan.tasks[task.number] for task in share]) for share in shares]
        task = _PlanTask(for_task(into.handle), plan.without_tasks())
        frame = share_frame(self.spark, blobs, task.answers, ANSWER_SCHEMA)
        answer = TaskAnswer.gather(frame.collect())
        into.add(answer.messages, rows_count=answer.rows_count)
        if answer.errors:
            raise answer.errors[0]


@dataclass(frozen=True, slots=True)
class _Numbered:
    """A task by its number, while tasks are shared out."""

    number: int
    size_bytes: int


def _numbered(plan: Plan[Any]) -> list[_Numbered]:
    """The tasks of a plan by number."""
    return [_Numbered(number, task.size_bytes) for number, task in enumerate(plan.tasks)]


@dataclass(frozen=True, slots=True)
class _PlanTask:
    """Does tasks of a plan, which comes without them, on an executor. Picklable."""

    handle: TableHandle
    plan: Plan[Any]

    def answers(self, share: bytes) -> Iterator[pa.RecordBatch]:
        """Do a share: pickled tasks of the plan."""
        into = Gathered(in_task(self.handle), self.plan.base_snapshot_id)

        def run() -> int:
            self.plan.run(pickle.loads(share), into)
            return into.rows_count

        yield answered(partial(written, into, run))
