"""Starts a query service on a Spark session: the address server here, executors in tasks.

A task runs one executor, until it is asked to stop. It is sent by reference, so the machines of
executors need this package with its extra ``service``. gRPC is loaded in the Python process of the
task: it does not survive a fork.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from tidelake.engine.storage import SentSecrets
from tidelake.engine.tables import Catalog
from tidelake.service.executor.config import ExecutorConfig
from tidelake.service.executor.executor import run_executor
from tidelake.service.local.query_service import QueryService
from tidelake.service.local.serve_options import ServeOptions
from tidelake.spark.service.executor_jobs import ExecutorJobs
from tidelake.spark.service.slots import check_session, check_slots

_RUNNING: weakref.WeakSet[ExecutorJobs] = weakref.WeakSet()
"""Jobs of all services of this process, which has one Spark application at a time."""


def serve_on_spark(
    spark: SparkSession, catalog: Catalog, tables: Sequence[str], options: ServeOptions
) -> QueryService:
    """Start the service; see :meth:`tidelake.spark.Lake.serve`."""
    options.check(tables)
    check_session(spark)
    taken = sum(jobs.count for jobs in _RUNNING if jobs.is_running)
    check_slots(spark, options.parallelism, taken=taken, clock=catalog.env.clock)
    server = options.address_server(catalog, tables)
    jobs = ExecutorJobs(
        spark,
        f"tidelake-query-service-{server.service_id}",
        ExecutorTask.of(options.executors(server), catalog),
        options.parallelism,
        clock=catalog.env.clock,
        ended=server.registry.forget,
        hang=server.liveness.hang,
    )
    service = QueryService(server, jobs)
    jobs.on_session_end = service.stop
    jobs.start()
    _RUNNING.add(jobs)
    return service


@dataclass(frozen=True, slots=True)
class ExecutorTask:
    """Runs an executor; picklable.

    Parameters
    ----------
    config : ExecutorConfig
        The settings of all executors of the service, without its secret; index and attempt are
        those of the task.
    catalog : Catalog
        The warehouse, for reading; a REST catalog's token goes the way of all secrets.
    secrets : SentSecrets
        The service's ``secret``.
    """

    config: ExecutorConfig
    catalog: Catalog
    secrets: SentSecrets

    @classmethod
    def of(cls, config: ExecutorConfig, catalog: Catalog) -> ExecutorTask:
        """Part the secret from the settings: it goes its own way, as those of the storage do."""
        sent = SentSecrets({"secret": config.secret})
        return cls(replace(config, secret=""), catalog.for_reading(), sent)

    def __call__(self, index: int, attempt: int) -> str:
        """Serve until asked to stop; why it ended."""
        secret = self.secrets.reveal()["secret"]
        config = replace(self.config, index=index, attempt=attempt, secret=secret)
        return run_executor(config, catalog=self.catalog).reason
