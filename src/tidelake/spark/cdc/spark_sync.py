"""A job of change data capture that runs as a query of Structured Streaming."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import weakref
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from tidelake.cdc.door import (
    JobMetrics,
    OpenedJob,
    SecretWays,
    Sync,
    SyncConfig,
    SyncProgress,
    Watch,
    config_of,
    given_of,
    interval_ms,
    opened,
    read_job_file,
)
from tidelake.engine.tables import Catalog, open_catalog
from tidelake.errors import InvalidInputError, UnsupportedError
from tidelake.spark.cdc.executor_copy import ExecutorCopier
from tidelake.spark.cdc.job_source import job_frame
from tidelake.spark.cdc.query_run import QueryRun
from tidelake.spark.streams.jobs import Job, JobRegistry
from tidelake.spark.streams.write.start import SinkQuery, begun

GATHER_MS_MAX = 100
"""How long a batch gathers changes: the time between batches is that of the query's trigger."""
STOP_LOOK_SECONDS = 1.0
_LOG = logging.getLogger("tidelake")


class SparkSync(Sync):
    """A job of change data capture on Spark; made by :meth:`tidelake.spark.Lake.cdc`.

    Its journal is the one of the same job without Spark, so that a job may change between both.
    """

    def __init__(
        self,
        spark: SparkSession,
        config: SyncConfig,
        ways: SecretWays,
        catalog: Catalog,
        jobs: JobRegistry,
    ) -> None:
        super().__init__(config, ways, catalog.env)
        self._spark = spark
        self._catalog = catalog
        self._jobs = jobs

    def __repr__(self) -> str:
        return f"SparkSync({self._config.command}, job={self._config.job!r})"

    def start(
        self,
        *,
        once: bool | None = None,
        interval: str | None = None,
        checkpoint: str | Path | None = None,
        watch: Watch | None = None,
        executors_from: int | None = None,
        metrics_port: int | None = None,
    ) -> Job:
        """Start the job as a query, and return while it runs.

        Parameters
        ----------
        once : bool, optional
            Whether the query ends when all is applied that the source has now (Spark's trigger
            ``availableNow``); by default as the job says.
        interval : str, optional
            Time between two batches, such as ``"1 s"``; by default as the job says.
        checkpoint : str or Path, optional
            A folder of the query's own, which keeps the query's id and the numbers of its batches.
            By default a temporary one: the job's journal alone says where it goes on.
        watch : callable, optional
            Called with each epoch and the job, on the query's thread.
        executors_from : int, optional
            Estimated rows from which on a table's first copy is done by executors; by default a
            million, in a session that runs four tasks at once or more.
        metrics_port : int, optional
            Answer ``GET /metrics`` of Prometheus on this port of the driver's machine while the
            query runs; 0 takes a free one, which is logged.

        Returns
        -------
        Job
            Among :meth:`tidelake.spark.Lake.jobs`, with ``stop()``, ``wait()`` and ``query``.

        Raises
        ------
        InvalidInputError
            The source is not fit to be read; the message has the statement that mends it.
        AlreadyExistsError
            The job runs in this session.
        """
        every_ms = self._config.interval_ms if interval is None else interval_ms(interval)
        name = f"cdc-{self.name}"
        self._jobs.check_name(name)
        copier = ExecutorCopier(self._spark, rows_min=executors_from)
        parts = self._opened_for(copier)
        is_once = self._config.is_once if once is None else once
        progress = self.progress or SyncProgress(self.name, self._env.clock)
        self.progress = progress
        parts.lake.copy_watch = copier.watch = progress.copied
        run = QueryRun(parts, copier, progress, watch)
        try:
            self._check(parts)
            if metrics_port is not None:
                metrics = JobMetrics(lambda: progress.figures, port=metrics_port)
                run.at_end.callback(metrics.close)
                _LOG.info("Metrics: http://127.0.0.1:%d/metrics", metrics.port)
            place = _temporary(run) if checkpoint is None else _uri(checkpoint)
            frame = job_frame(self._spark, run, self.name)
            writer = frame.writeStream.queryName(name).foreachBatch(run)
            writer = writer.option("checkpointLocation", place)
            trigger: dict[str, object] = {"processingTime": f"{every_ms} milliseconds"}
            if is_once:
                trigger = {"availableNow": True}
            return self._jobs.start(
                lambda: SinkQuery(begun(writer, trigger, table=name), run),
                name=name,
                target=f"{self._config.routing.database}.*",
            )
        except BaseException:
            run.at_end.close()
            parts.source.close()
            raise

    def run(
        self,
        *,
        once: bool | None = None,
        watch: Watch | None = None,
        interval: str | None = None,
        checkpoint: str | Path | None = None,
        metrics_port: int | None = None,
    ) -> None:
        """Run the job as a query: once, or until it is stopped or interrupted.

        Parameters
        ----------
        once, watch, interval, checkpoint, metrics_port
            As of :meth:`start`.

        Raises
        ------
        TidelakeError
            The job failed; the next run goes on where it was.
        """
        job = self.start(
            once=once,
            interval=interval,
            checkpoint=checkpoint,
            watch=watch,
            metrics_port=metrics_port,
        )
        try:
            while not job.wait(STOP_LOOK_SECONDS):
                pass
        finally:
            job.stop()

    def _opened(self) -> OpenedJob:
        return self._opened_for(None)

    def _opened_for(self, copier: ExecutorCopier | None) -> OpenedJob:
        parts = opened(self._config, self._ways, self._env, catalog=self._catalog, copier=copier)
        if copier is None:
            return parts
        # batches gather by the query's trigger
        gather_ms = min(self._config.interval_ms, GATHER_MS_MAX)
        return replace(parts, config=replace(self._config, interval_ms=gather_ms))


def spark_sync(
    spark: SparkSession,
    catalog: Catalog,
    command: str,
    arguments: dict[str, object],
    *,
    jobs: JobRegistry,
) -> SparkSync:
    """Make a job; see :meth:`tidelake.spark.Lake.cdc`."""
    _check_classic()
    config = config_of(command, given_of(command, arguments))
    if config.warehouse is not None:
        raise _other_warehouse(config, catalog)
    return _made(spark, catalog, config, jobs)


def spark_sync_of_file(
    spark: SparkSession, catalog: Catalog, path: str | Path, *, jobs: JobRegistry
) -> SparkSync:
    """Make a job of a file; see :meth:`tidelake.spark.Lake.cdc_from_file`."""
    _check_classic()
    config = config_of(*read_job_file(path))
    # the same file is for a process without Spark, which must know the warehouse
    named = config.warehouse
    if named is not None and open_catalog(named, env=catalog.env).uri != catalog.uri:
        raise _other_warehouse(config, catalog)
    return _made(spark, catalog, config, jobs)


def _check_classic() -> None:
    if is_remote():
        message = (
            "A CDC job as a query of Spark needs a classic session, not Spark Connect. Run it in a"
            " process without Spark: tidelake.cdc.sync(...), or the command tidelake cdc."
        )
        raise UnsupportedError(message, kind="spark_connect")


def _made(
    spark: SparkSession, catalog: Catalog, config: SyncConfig, jobs: JobRegistry
) -> SparkSync:
    if config.catalog_conf:
        raise _other_warehouse(config, catalog)
    ways = SecretWays(os.environ, lambda path: Path(path).read_text(encoding="utf-8"))
    return SparkSync(spark, config, ways, catalog, jobs)


def _other_warehouse(config: SyncConfig, catalog: Catalog) -> InvalidInputError:
    message = (
        f"{config.command} on Spark writes to the warehouse that is attached, {catalog.uri}: leave"
        " 'warehouse' and 'catalog_conf' out, or attach the other one."
    )
    return InvalidInputError(message, kind="cdc_argument", option="warehouse")


def _temporary(run: QueryRun) -> str:
    """Make a checkpoint on the driver's machine, which goes with the run."""
    place = Path(tempfile.mkdtemp(prefix="tidelake-cdc-"))
    weakref.finalize(run, shutil.rmtree, place, ignore_errors=True)
    return place.as_uri()


def _uri(checkpoint: str | Path) -> str:
    """Name the checkpoint's folder."""
    text = str(checkpoint)
    return text if "://" in text else Path(text).absolute().as_uri()
