"""Who does the work of a maintenance job on Spark: executors compact and list, the driver commits.

The job itself runs on the driver (:mod:`tidelake.catalog.upkeep.maintenance_job`), as it does
without Spark. A compaction of a few small files runs there, too: a job of Spark's costs more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidelake.engine.jobs import HERE, MAINTAIN_HERE, Gathered, Plan, Workers
from tidelake.spark.sessions.cancellation import interruptible
from tidelake.spark.write.orphan_listing import SparkLister
from tidelake.spark.write.postpone_compaction import SparkMover
from tidelake.spark.write.runner import SparkRunner

ROUND_S = 10.0
"""Time between two rounds, the default of Paimon's ``continuous.discovery-interval``."""
DRIVER_BYTES_MAX = 16 << 20
"""Plans of fewer bytes run on the driver."""


def spark_workers(spark: SparkSession, tasks: int | None = None) -> Workers:
    """The workers of a session.

    Parameters
    ----------
    tasks : int, optional
        The most tasks of Spark's for a compaction.
    """
    return replace(
        MAINTAIN_HERE,
        runner=_Runner(spark, tasks),
        move=SparkMover(spark, tasks),
        lister=SparkLister(spark),
        expected=(*MAINTAIN_HERE.expected, PySparkException, Py4JError),
    )


@dataclass(frozen=True, slots=True)
class _Runner:
    """Runs compactions on executors; an interrupt cancels their jobs."""

    spark: SparkSession
    tasks: int | None

    def run(self, plan: Plan[Any], into: Gathered) -> None:
        """Run all tasks and gather what they wrote."""
        if sum(task.size_bytes for task in plan.tasks) < DRIVER_BYTES_MAX:
            HERE.run(plan, into)
            return
        work = partial(SparkRunner(self.spark, self.tasks).run, plan, into)
        interruptible(self.spark, work)
