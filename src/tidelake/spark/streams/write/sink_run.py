"""The lease and the compactor of a query that writes to a table, from first batch to end.

1. A lease of the query's id (:mod:`tidelake.table.stream.lease`). A second live run of the query,
   such as one in another process with a copied checkpoint, is refused: each run would take the
   other's batches for its own. The lease also holds the query's last commit and all behind it, for
   7 days from that commit and from the end of the query: by them the table's history shows whether
   a batch that comes again was committed, and whether the table was rolled back.
2. The compactor of the table (:mod:`tidelake.spark.streams.write.stream_compactor`).
3. A thread that checks every second whether the query still runs. It renews the lease, and releases
   lease and compactor when the query has ended. The consumer stays, unless the query has committed
   nothing. It marks partitions that are done (:mod:`tidelake.table.partition_done`).

In one process Spark runs a query only once, so a new run ends the previous one.
"""

from __future__ import annotations

import contextlib
import threading

from pyspark.sql import SparkSession

from tidelake.engine.streams import IdleMarks, MadeCommit, StreamLease
from tidelake.engine.tables import TableHandle
from tidelake.engine.write import last_commit
from tidelake.errors import ConflictError, StorageError, TidelakeError
from tidelake.spark.sessions.query_life import QueryLife
from tidelake.spark.streams.write.batch_claim import RETAINED_MS, runs_already, sink_consumer
from tidelake.spark.streams.write.checkpoint import Checkpoint
from tidelake.spark.streams.write.end_of_input import EndOfInput
from tidelake.spark.streams.write.stream_compactor import StreamCompactor

LOOK_S = 1.0
LOOKS_PER_RENEWAL = 15
"""Number of looks between two renewals of the lease, well within the lease's time."""
MARKS_S = 10.0
"""The time of a look for marks. The last report may take another 20 s: with the time until the next
renewal that is less than the lease's."""
OPEN_TRIES_MAX = 6
OPEN_WAIT_MS = 500
"""A run that was just stopped in another process releases its lease within a second."""
_RUNS: dict[str, SinkRun] = {}
_LOCK = threading.Lock()


class SinkRun:
    """One run of a query, until it ends.

    Parameters
    ----------
    batch_id : int
        Its first batch.
    spark : SparkSession or None
        The classic session that the query was started in; through Spark Connect there is none, and
        the process ends with the query.
    batch_spark : SparkSession
        The session of the first batch.
    end : EndOfInput, optional
        What happens when the query ends by itself.

    Raises
    ------
    ConflictError
        Another run of the query is live.
    """

    def __init__(
        self,
        handle: TableHandle,
        checkpoint: Checkpoint,
        query_id: str,
        *,
        run_id: str,
        batch_id: int,
        spark: SparkSession | None,
        batch_spark: SparkSession,
        end: EndOfInput | None = None,
    ) -> None:
        self._handle = handle
        self._checkpoint = checkpoint
        self._query_id = query_id
        self._spark = spark
        self._end = end
        with _LOCK:
            before = _RUNS.get(query_id)
        if before is not None:
            before.end()
        self._batch_id = batch_id
        self._guard = threading.Lock()  # the lease is for one thread at a time
        self._ended = threading.Event()
        self._lease, self._kept_id = _opened(handle, query_id, run_id)
        self._kept_since_ms = self._now_ms
        with _LOCK:
            _RUNS[query_id] = self
        self._marks = IdleMarks(handle, within_s=MARKS_S)
        self._marks.look()  # before the first batch: what is pending counts from here on
        self._compactor_spark = spark or batch_spark
        self.compactor = StreamCompactor.join(self._compactor_spark, handle)
        self._thread = threading.Thread(
            target=self._watch, name=f"tidelake-sink-{query_id}", daemon=True
        )
        self._thread.start()

    def begin(self, batch_id: int, made: MadeCommit | None) -> None:
        """Hold the last commit and all behind it, at the start of a batch.

        Parameters
        ----------
        made : MadeCommit, optional
            The last commit that the query has acknowledged, if it is known.

        Raises
        ------
        ConflictError
            Another run of the query took over.
        """
        with self._guard:
            self._batch_id = batch_id
            self._keep(made)
            # stop() may end the run while a batch begins; its identity still keeps it from a second
            # commit
            if not self._ended.is_set():
                self._hold(may_release=self._kept_id is None)

    def done(self, made: MadeCommit | None) -> None:
        """Keep a commit from now on; the lease moves to it later."""
        with self._guard:
            self._keep(made)

    def _keep(self, made: MadeCommit | None) -> None:
        if made is not None and made.snapshot_id > (self._kept_id or 0):
            self._kept_id, self._kept_since_ms = made.snapshot_id, self._now_ms

    def end(self) -> None:
        """Release lease and compactor; may be called more than once."""
        with self._guard:
            if self._ended.is_set():
                return
            self._ended.set()
            # a lease that cannot be closed ends when its time is over
            with contextlib.suppress(TidelakeError):
                if self._kept_id is not None:
                    self._hold(may_release=False)
                self._lease.close(forget=self._kept_id is None and self._is_done)
        with _LOCK:
            if _RUNS.get(self._query_id) is self:
                del _RUNS[self._query_id]
        if self.compactor is not None:
            self.compactor.leave()

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end of thread and compactor; False after the timeout."""
        self._thread.join(timeout_s)
        ended = not self._thread.is_alive()
        return ended and (self.compactor is None or self.compactor.wait(timeout_s))

    @property
    def _is_done(self) -> bool:
        """Whether Spark can no longer repeat a batch of this run; False if nobody can tell."""
        try:
            return self._checkpoint.is_done(self._batch_id)
        except StorageError:  # a checkpoint in a store that does not answer
            return False

    def _watch(self) -> None:
        looks = 0
        life = QueryLife(self._spark, self._query_id)
        while not (life.has_ended() or self._ended.wait(LOOK_S)):
            looks += 1
            if looks % LOOKS_PER_RENEWAL == 0:
                self._renew()
                self._replace_dead_compactor()
                self._marks.look()
        if self._end is not None:
            self._end.look()
        self.end()

    def _replace_dead_compactor(self) -> None:
        dead = self.compactor
        with self._guard:
            if dead is None or dead.is_alive or self._ended.is_set():
                return
            dead.leave()
            self.compactor = None
            with contextlib.suppress(TidelakeError):  # the table was dropped
                self.compactor = StreamCompactor.join(self._compactor_spark, self._handle)

    def _renew(self) -> None:
        """Renew the lease; a stream that has committed nothing for long holds no snapshot."""
        with self._guard, contextlib.suppress(TidelakeError):  # the next batch raises it
            if not self._ended.is_set():
                self._hold(may_release=self._is_done)

    def _hold(self, *, may_release: bool) -> None:
        """Move the lease to the last commit; with leave, behind all, if that was long ago."""
        lease, first_id = self._lease, self._kept_id or 0
        if self._kept_id is not None and self._now_ms - self._kept_since_ms > RETAINED_MS:
            self._kept_id = None
        if self._kept_id is None and may_release:
            first_id = _next_id(self._handle)
        if first_id > lease.next_snapshot:
            lease.advance(first_id)
        else:
            lease.renew()

    @property
    def _now_ms(self) -> int:
        return self._handle.env.clock.now_ms()


def _opened(handle: TableHandle, query_id: str, run_id: str) -> tuple[StreamLease, int | None]:
    """Open the lease of a run, which holds the query's newest commit and all behind it.

    Also gives that commit's snapshot; None without one.
    """
    for left in reversed(range(OPEN_TRIES_MAX)):
        newest = last_commit(handle.snapshots, query_id, handle.env.executor)
        start = _next_id(handle) if newest is None else newest.id
        try:
            lease = StreamLease.open(
                handle, sink_consumer(query_id), start, run_id=run_id, retained_ms=RETAINED_MS
            )
        except ConflictError as error:
            if not left:
                raise runs_already(handle, query_id) from error
            handle.env.clock.sleep_ms(OPEN_WAIT_MS)
        else:
            return lease, None if newest is None else newest.id
    raise AssertionError


def _next_id(handle: TableHandle) -> int:
    return (handle.snapshots.latest_id() or 0) + 1
