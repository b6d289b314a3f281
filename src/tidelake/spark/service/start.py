"""Starts a query service on a Spark session: the address server here, executors in tasks."""

from __future__ import annotations

import secrets
import weakref
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from tidelake.catalog import Catalog
from tidelake.service.address.address_server import AddressServer
from tidelake.service.address.security import LOOPBACK, Security, host_of
from tidelake.service.executor.config import ExecutorConfig, Limits
from tidelake.service.local.query_service import SECRET_BYTES, QueryService, check_arguments
from tidelake.spark.service.executor_jobs import ExecutorJobs
from tidelake.spark.service.executor_task import ExecutorTask
from tidelake.spark.service.slots import check_session, check_slots

__all__ = ["serve_on_spark"]

_RUNNING: weakref.WeakSet[ExecutorJobs] = weakref.WeakSet()
"""Jobs of all services of this process, which has one Spark application at a time."""


def serve_on_spark(
    spark: SparkSession,
    catalog: Catalog,
    tables: Sequence[str],
    *,
    parallelism: int = 2,
    bind: str = LOOPBACK,
    security: Security | None = None,
    limits: Limits | None = None,
    directory: str | Path | None = None,
) -> QueryService:
    """Start the service; see :meth:`tidelake.spark.Lake.serve`."""
    security, limits = security or Security(), limits or Limits()
    check_arguments(tables, parallelism)
    check_session(spark)
    taken = sum(jobs.count for jobs in _RUNNING if jobs.is_running)
    check_slots(spark, parallelism, taken=taken, clock=catalog.env.clock)
    secret = secrets.token_urlsafe(SECRET_BYTES)
    server = AddressServer(
        catalog, tables, executors_count=parallelism, secret=secret, bind=bind, security=security
    )
    config = ExecutorConfig(
        address=server.address,
        service_id=server.service_id,
        secret=secret,
        warehouse=catalog.warehouse,
        index=0,
        executors_count=parallelism,
        bind=host_of(bind),
        security=security,
        limits=limits,
        directory=None if directory is None else str(directory),
        memory=catalog.env.memory.total_bytes,
    )
    jobs = ExecutorJobs(
        spark,
        f"tidelake-query-service-{server.service_id}",
        ExecutorTask(config),
        parallelism,
        clock=catalog.env.clock,
        ended=server.registry.forget,
    )
    service = QueryService(server, jobs)
    jobs.on_session_end = service.stop
    jobs.start()
    _RUNNING.add(jobs)
    return service
