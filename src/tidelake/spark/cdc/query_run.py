"""One run of a job inside a query: what the source of the query asks, and what its batches do.

A batch is a turn of the job. The first takes the job up where its journal stands, or copies its
tables; each later one applies epochs up to where the source stood when the batch began, at most for
:data:`BATCH_SECONDS_MAX`.

The number of a batch stands in the checkpoint and decides nothing. A batch that Spark repeats is
simply another turn: what is applied is known from the journal, and each commit takes effect once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame

from tidelake.cdc.door import EpochDone, OpenedJob, Phase, SyncJob, SyncProgress
from tidelake.engine.env import Clock
from tidelake.errors import StorageError, StorageRefusedError
from tidelake.spark.cdc.executor_copy import ExecutorCopier
from tidelake.spark.streams.jobs.job import ROWS

BATCH_SECONDS_MAX = 5.0
"""So often a job that is far behind shows how far it is, and can be stopped."""
WAIT_MS = 300
"""How long a step waits for the change that the source's newest position promises."""


class QueryRun:
    """A run of a job. For the thread of its query.

    Parameters
    ----------
    copier : ExecutorCopier
        The job's.
    progress : SyncProgress
        Follows the job.
    watch : callable
        Called with each epoch and the job.

    Attributes
    ----------
    at_end : ExitStack
        What is ended with the run.
    """

    def __init__(
        self,
        parts: OpenedJob,
        copier: ExecutorCopier,
        progress: SyncProgress,
        watch: Callable[[EpochDone, SyncJob], None] | None,
    ) -> None:
        self._parts = parts
        self._copier = copier
        self._progress = progress
        self._watch = watch
        self.at_end = contextlib.ExitStack()
        self._job = parts.job()
        self._clock: Clock = parts.env.clock
        self._has_begun = False
        self._is_once = False
        self._end: str | None = None
        """Of a query that ends: where the source stood when it began."""
        self._newest = ""
        """Where the source stood at the last look."""
        self._rows_count = 0
        self._committed_ms: int | None = None
        self.error: BaseException | None = None
        """Why the query failed, if it failed in a batch."""

    # ---- asked by the source

    def end_at_newest(self) -> None:
        """Let the run end where the source stands when it begins."""
        self._is_once = True

    def has_work(self) -> bool:
        """Whether a batch has something to do. Asks the source."""
        if not self._has_begun:
            return True
        job = self._job
        self._progress.looked()
        try:
            self._newest = self._parts.source.newest()
        except StorageRefusedError:
            raise
        except StorageError:
            return True  # to read on waits for a server that is started again
        if self._is_once:
            assert self._end is not None, "set with the first batch"
            return job.has_more(self._end)
        return job.has_unread(self._newest)

    def facts(self) -> Mapping[str, str]:
        """Say how the job is, for the query's progress."""
        job = self._job
        is_behind = bool(job.position and self._newest) and self._parts.source.is_before(
            job.read_to, self._newest
        )
        lag_ms = 0
        if is_behind and self._committed_ms is not None:
            lag_ms = max(0, self._clock.now_ms() - self._committed_ms)
        tables = job.state.tables.values()
        return {
            "epoch": str(job.epoch),
            "position": job.position,
            "sourcePosition": self._newest,
            "lagMs": str(lag_ms),
            ROWS: str(self._rows_count),
            "tables": str(len(tables)),
            "tablesCopying": str(sum(one.phase is Phase.COPYING for one in tables)),
            "tablesSuspended": str(sum(one.phase is Phase.SUSPENDED for one in tables)),
            "rowsQuarantined": str(job.state.quarantined_count),
        }

    def close(self) -> None:
        """Put what is applied, and end the connections to the source."""
        with self.at_end:
            self._job.close()

    # ---- a batch

    def __call__(self, frame: DataFrame, _: int) -> None:
        """Do a batch. For ``foreachBatch``; the frame has no rows."""
        self._rows_count = 0
        try:
            self._copier.spark = frame.sparkSession
            if self._has_begun:
                self._advance()
            else:
                self._begin()
        except BaseException as error:
            self.error = error
            raise

    def _begin(self) -> None:
        if self._is_once:
            self._end = self._newest = self._parts.source.newest()
        self._tell(self._job.start())
        self._has_begun = True

    def _advance(self) -> None:
        ends = self._clock.monotonic_seconds() + BATCH_SECONDS_MAX
        while self._clock.monotonic_seconds() < ends:
            if not self._step() and not self._waits():
                return

    def _step(self) -> bool:
        """Do an epoch; gives whether the batch goes on.

        A source that gives nothing, not even that it has nothing, is slow: it is asked again in
        the next batch.
        """
        job, is_before = self._job, self._parts.source.is_before
        if self._end is not None:
            self._tell(job.step_to(self._end))
            return is_before(job.position, self._end)
        read_to = job.read_to
        done = job.step(wait_ms=WAIT_MS)
        self._tell(done)
        is_slow = done is None and job.read_to == read_to
        return not is_slow and is_before(job.read_to, self._newest)

    def _waits(self) -> bool:
        return any(one.phase is Phase.COPYING for one in self._job.state.tables.values())

    def _tell(self, done: EpochDone | None) -> None:
        if done is None:
            return
        self._rows_count += done.rows_count
        self._committed_ms = done.committed_ms or self._committed_ms
        self._progress.epoch_done(done, self._job)
        if self._watch is not None:
            self._watch(done, self._job)
