"""Lists the directories of a table on executors, for tables of millions of files.

Each of Spark's tasks lists a share of the directories and answers with the files, as Arrow batches.
A listing that fails fails its task, which Spark tries again, and in the end the job: nothing is
concluded of half a list. The decision is the driver's (:mod:`tidelake.table.jobs.orphans`).
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import SparkSession

from tidelake.engine.env import Env
from tidelake.engine.jobs import FILES, LIST_HERE, OrphanPlan, in_shares
from tidelake.engine.tables import TableHandle
from tidelake.spark.read.shares import share_frame
from tidelake.spark.sessions.cancellation import interruptible
from tidelake.spark.sessions.session import parallelism

DIRECTORIES_MIN = 64
"""Fewer directories are listed on the driver: a job of Spark's costs more."""
DIRECTORIES_PER_TASK = 16
_COLUMNS = "path string, size_bytes bigint, modified_ms bigint"


@dataclass(frozen=True, slots=True)
class SparkLister:
    """Lists the directories of a plan on executors.

    Parameters
    ----------
    tasks : int, optional
        The most tasks; by default two for each core of the session.
    """

    spark: SparkSession
    tasks: int | None = None

    def list(self, handle: TableHandle, plan: OrphanPlan) -> pa.Table:
        """The files of all directories."""
        if len(plan.tasks) < DIRECTORIES_MIN and self.tasks is None:
            return LIST_HERE.list(handle, plan)
        count = self.tasks or 2 * parallelism(self.spark)
        count = max(1, min(count, -(-len(plan.tasks) // DIRECTORIES_PER_TASK)))
        shares = [pickle.dumps(share) for share in in_shares(plan.tasks, count=count)]
        task = _ListTask(replace(handle, env=Env(zone=handle.env.zone)), replace(plan, tasks=()))
        frame = share_frame(self.spark, shares, task.files, _COLUMNS, name="list")
        return interruptible(self.spark, frame.toArrow).cast(FILES)


@dataclass(frozen=True, slots=True)
class _ListTask:
    """Lists a share of the directories, on an executor. Picklable."""

    handle: TableHandle
    plan: OrphanPlan

    def files(self, share: bytes) -> Iterator[pa.RecordBatch]:
        """The files of a share: pickled directories."""
        for table in self.plan.files(self.handle, pickle.loads(share)):
            yield from table.to_batches()
