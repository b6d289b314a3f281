"""Starts a query service on a Spark session: the address server here, executors in tasks."""

from __future__ import annotations

import weakref
from collections.abc import Sequence

from pyspark.sql import SparkSession

from tidelake.engine.tables import Catalog
from tidelake.service.local.query_service import QueryService
from tidelake.service.local.serve_options import ServeOptions
from tidelake.spark.service.executor_jobs import ExecutorJobs
from tidelake.spark.service.executor_task import ExecutorTask
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
