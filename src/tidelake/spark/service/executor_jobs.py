"""Executors of a query service as tasks of a Spark session, started again where they fail.

1. Each executor is a job of one task, in one job group and one scheduler pool for the whole
   service. So an executor that dies takes no other with it: where Spark runs a failed task only
   once (``local[N]``), it ends the job, with all its tasks.
2. A thread of the driver waits for each job. Where it fails, or ends although nobody stopped the
   service, the thread starts it again: at once, then after waits that double. After a job that
   ran for a while the waits begin with the shortest. Failures of Spark's own retries never add up:
   each job counts its own.
3. It is not a barrier job, where one failure ends all tasks. Spark copies no task of a stage with
   one task, so speculation changes nothing.
4. The service is stopped by a flag that executors see within a heartbeat, and then return. Only
   what runs long after that is cancelled, which kills its Python process.
5. An executor that hangs keeps its job running. Another thread asks whether one does, and cancels
   its job, which kills the Python process. Each job has a tag of its own for that.
6. With the session all ends: Spark ends the tasks, and the threads see that there is no session.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from py4j.protocol import Py4JError
from pyspark import InheritableThread, TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidelake.engine.env import Clock
from tidelake.errors import TidelakeError
from tidelake.spark.errors.run_errors import run_failure
from tidelake.spark.sessions.session import is_stopped

if TYPE_CHECKING:
    from tidelake.service.address.liveness import Hang

_LOG = logging.getLogger("tidelake.service")
POOL = "tidelake-query-service"
"""Scheduler pool of all services; it matters where the session's mode is FAIR."""
WAIT_MS_MIN, WAIT_MS_MAX = 100, 10_000
TASK_ATTEMPTS = 1 << 10
"""More than Spark runs a failed task."""
SOUND_MS = 30_000
"""A job that ran so long before it failed does not count for the wait after it."""
HANG_LOOK_S = 0.5
STOP_WAIT_S = 5.0
CANCEL_WAIT_S = 10.0


class Entry(Protocol):
    """What runs in a task; picklable, and of a module that executors can import."""

    def __call__(self, index: int, attempt: int) -> object:
        """Serve as executor `index` until asked to stop; why it ended.

        Of two attempts of one index the greater one counts.
        """
        ...


@dataclass(frozen=True, slots=True)
class _InTask:
    """The function of the one partition of a job."""

    entry: Entry

    def __call__(self, starts: Iterator[tuple[int, int]]) -> Iterator[str]:
        task = TaskContext.get()
        retries = 0 if task is None else task.attemptNumber()
        for index, start in starts:
            yield str(self.entry(index, start * TASK_ATTEMPTS + retries))


class ExecutorJobs:
    """The jobs of one service.

    Parameters
    ----------
    ended : callable
        Called with the index of a job that has ended.

    Attributes
    ----------
    on_session_end : callable
        Called once, by a thread of the jobs, when the session has ended under them.
    """

    def __init__(
        self,
        spark: SparkSession,
        name: str,
        entry: Entry,
        count: int,
        *,
        clock: Clock,
        ended: Callable[[int], object] | None = None,
        hang: Hang | None = None,
    ) -> None:
        self._spark = spark
        self._name = name
        self._entry = entry
        self._clock = clock
        self._ended = ended
        self._hang = hang
        self._starts = [0] * count
        self.on_session_end: Callable[[], object] | None = None
        self._stopping = threading.Event()
        self._session_end = threading.Lock()  # taken by the thread that sees it first
        self._failures: dict[int, TidelakeError] = {}
        self._failures_counts = [0] * count
        self._threads = [
            InheritableThread(target=self._supervise, args=(index,), daemon=True)
            for index in range(count)
        ]
        for index, thread in enumerate(self._threads):
            thread.name = f"{name}-{index}"
        self._watcher = InheritableThread(target=self._watch, name=f"{name}-watch", daemon=True)

    @property
    def count(self) -> int:
        """Number of executors, each of which holds a slot."""
        return len(self._threads)

    @property
    def is_running(self) -> bool:
        """Whether a job runs or will be started again."""
        return any(thread.is_alive() for thread in self._threads)

    @property
    def restarts_count(self) -> int:
        """How often an executor was started again."""
        return sum(self._failures_counts)

    def problem(self, index: int) -> str:
        """Why the job of an executor failed the last time; empty if it never did."""
        failure = self._failures.get(index)
        return "" if failure is None else failure.message

    def failures_count(self, index: int) -> int:
        """How often the job of an executor failed."""
        return self._failures_counts[index]

    def start(self) -> None:
        """Start the jobs; returns before they run. Call it once."""
        for thread in self._threads:
            thread.start()
        if self._hang is not None:
            self._watcher.start()

    def stop(self, *, timeout_s: float = STOP_WAIT_S) -> bool:
        """Start no job again, and wait for those that run; call it after the flag was set.

        Parameters
        ----------
        timeout_s : float
            Seconds that executors have to return; what runs then is cancelled.

        Returns
        -------
        bool
            True if nothing runs any more.
        """
        self._stopping.set()
        if self._join(timeout_s) or self._has_session_ended():
            return True
        _LOG.warning("executors of %s did not stop by themselves: they are cancelled", self._name)
        self._spark.sparkContext.cancelJobGroup(self._name)
        return self._join(CANCEL_WAIT_S)

    def _join(self, timeout_s: float) -> bool:
        """Wait for the threads; whether all have ended, beside the one that calls."""
        until = self._clock.monotonic_seconds() + timeout_s
        others = [t for t in self._threads if t is not threading.current_thread()]
        for thread in others:
            if thread.is_alive():
                thread.join(max(0.0, until - self._clock.monotonic_seconds()))
        return not any(thread.is_alive() for thread in others)

    def _supervise(self, index: int) -> None:
        """Run the job of an executor again and again; the target of a thread."""
        wait_ms, start = 0, 0
        while not self._stopping.is_set():
            began_ms = self._clock.now_ms()
            self._starts[index] = start
            failure = self._run(index, start)
            if self._ended is not None:
                self._ended(index)
            if self._stopping.is_set():
                return
            if self._has_session_ended():
                self._end_with_session()
                return
            if failure is not None:
                self._failures[index] = failure
            self._failures_counts[index] += 1
            start += 1
            ran_ms = self._clock.now_ms() - began_ms
            wait_ms = 0 if ran_ms >= SOUND_MS else min(max(WAIT_MS_MIN, 2 * wait_ms), WAIT_MS_MAX)
            why = "it ended by itself" if failure is None else failure.message
            _LOG.warning("executor %d is started again in %d ms: %s", index, wait_ms, why)
            self._stopping.wait(wait_ms / 1000)

    def _watch(self) -> None:
        """Cancel the jobs of executors that hang; the target of a thread."""
        assert self._hang is not None
        while not self._stopping.wait(HANG_LOOK_S):
            for index, start in enumerate(self._starts):
                # a task may wait for a slot for long: that is no hang
                why = self._hang(index, attempt=start * TASK_ATTEMPTS, started=None)
                if why is None:
                    continue
                _LOG.warning("executor %d %s: its job is cancelled", index, why)
                try:
                    self._spark.sparkContext.cancelJobsWithTag(self._tag(index))
                except (PySparkException, Py4JError, OSError, AttributeError):
                    return  # the session has ended

    def _tag(self, index: int) -> str:
        return f"{self._name}-{index}"

    def _run(self, index: int, start: int) -> TidelakeError | None:
        """Run one job to its end; why it failed."""
        try:
            sc = self._spark.sparkContext
            # the thread has a copy of what its maker's jobs are tagged with: who cancels those
            # does not mean this one
            sc.clearJobTags()
            sc.addJobTag(self._tag(index))
            sc.setLocalProperty("spark.scheduler.pool", POOL)
            what = f"executor {index} of a query service"
            sc.setJobGroup(self._name, what, interruptOnCancel=True)
            one = sc.parallelize([(index, start)], 1)
            one.mapPartitions(_InTask(self._entry)).collect()
        # pyspark raises the last two where a session ends under a call
        except (PySparkException, Py4JError, OSError, AttributeError, TypeError) as error:
            return run_failure(error)
        return None

    def _has_session_ended(self) -> bool:
        """Whether the session was stopped, or its JVM has ended."""
        if is_stopped(self._spark):
            return True
        try:
            return bool(self._spark.sparkContext._jsc.sc().isStopped())
        except (Py4JError, OSError, AttributeError):  # also: it was stopped a moment ago
            return True

    def _end_with_session(self) -> None:
        if self._session_end.acquire(blocking=False):
            _LOG.warning("the Spark session has ended, and the query service with it")
            if self.on_session_end is not None:
                self.on_session_end()
