"""The jobs of a Spark session.

Only Spark knows the running jobs (``spark.streams.active``), including those of others. Spark
forgets ended queries, so the registry keeps the newest ones that it has seen.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from tidelake.engine.env import Clock
from tidelake.engine.streams import CDC_USER
from tidelake.errors import AlreadyExistsError, NotFoundError, near_names
from tidelake.spark.streams.jobs.job import Job

ENDED_KEPT_MAX = 100


class JobRegistry:
    """The jobs that were seen. Safe for threads.

    Parameters
    ----------
    on_start : callable, optional
        Called for each job that is started here, before the start returns.
    """

    def __init__(
        self, spark: SparkSession, clock: Clock, *, on_start: Callable[[Job], None] | None = None
    ) -> None:
        self._spark = spark
        self._clock = clock
        self._on_start = on_start
        self._seen: dict[str, Job] = {}  # by run: a restarted job is another run
        self._lock = threading.Lock()

    def start(self, begin: Callable[[], StreamingQuery], *, name: str, target: str) -> Job:
        """Start a job.

        Parameters
        ----------
        begin : callable
            Starts the query.
        name : str
            The job's name; only one job of a name can run.

        Raises
        ------
        AlreadyExistsError
            A job of that name runs.
        """
        self.check_name(name)
        job = Job(begin(), name, target, _at(self._clock.now_ms()))
        self._remember(job)
        if self._on_start is not None:
            self._on_start(job)
        return job

    def check_name(self, name: str) -> None:
        """Refuse the name of a job that runs.

        Raises
        ------
        AlreadyExistsError
            A job of that name runs.
        """
        running = next((j for j in self.all() if j.name == name and j.status == "RUNNING"), None)
        if running is not None:
            message = (
                f"Job '{name}' already runs: STOP JOB '{running.id}' first, or give this one"
                " another name, SET 'pipeline.name' = '...'."
            )
            raise AlreadyExistsError(message, kind="job_exists", job=name)

    def all(self) -> list[Job]:
        """List running jobs and the newest ended ones, in the order of their start."""
        for query in self._spark.streams.active:
            if str(query.runId) not in self._seen:
                self._remember(Job(query, query.name or str(query.id)))
        with self._lock:
            return list(self._seen.values())

    def job(self, id: str) -> Job:
        """Find the newest job of an id or a name; of a database sync also by the name given to it.

        Raises
        ------
        NotFoundError
            There is none.
        """
        jobs = self.all()
        for job in reversed(jobs):
            if id in {job.id, job.name}:
                return job
        for job in reversed(jobs):
            if job.name == f"{CDC_USER}{id}":
                return job
        known = [part for job in jobs for part in (job.id, job.name)]
        message = f"There is no job '{id}'.{near_names(id, known)} SHOW JOBS lists the jobs."
        raise NotFoundError(message, kind="job_not_found", job=id)

    def running(self) -> list[Job]:
        """The jobs that run."""
        return [job for job in self.all() if job.status == "RUNNING"]

    def stop_all(self) -> None:
        """Stop running jobs."""
        for job in self.running():
            job.stop()

    def _remember(self, job: Job) -> None:
        with self._lock:
            self._seen[str(job.query.runId)] = job
            ended = [run for run, one in self._seen.items() if not _is_active(one)]
            for run in ended[:-ENDED_KEPT_MAX]:
                del self._seen[run]


def _is_active(job: Job) -> bool:
    try:
        return bool(job.query.isActive)
    except PySparkException:  # its server of Spark Connect has forgotten it
        return False


def _at(now_ms: int) -> datetime:
    return datetime.fromtimestamp(now_ms / 1000, UTC)
