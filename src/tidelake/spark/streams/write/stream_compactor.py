"""Compacts small files of a table beside the streams that write to it.

The writers of an append table without buckets compact nothing. While a stream writes to one, a
thread of the driver plans rounds (:mod:`tidelake.table.jobs.append_coordinator`) and Spark's tasks
run them, in a scheduler pool of their own and on at most half of the cores, so that no batch waits
for them. On a single core the thread compacts itself.

**One table has one compactor** in a process for all streams that write to it. It ends with the last
of them, after its current round. Two processes may compact one table: the second to commit loses
its round, and no rows. A failed round is logged, and the next one makes a new plan. If the thread
dies, the next look of a stream's run replaces it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Hashable

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from tidelake.engine.jobs import HERE, AppendCoordinator, wants_coordinator
from tidelake.engine.schemas import with_newest_schema
from tidelake.engine.tables import TableHandle
from tidelake.engine.write import WriteTransaction
from tidelake.errors import ConflictError, NotFoundError, TidelakeError
from tidelake.options import declared
from tidelake.spark.sessions.session import is_stopped, parallelism
from tidelake.spark.write.runner import SparkRunner

ROUND_S = 10.0
"""Time between two rounds, the default of Paimon's ``continuous.discovery-interval``."""
POOL = "tidelake-compaction"
_LOG = logging.getLogger("tidelake")
_ALL: dict[Hashable, StreamCompactor] = {}
_LOCK = threading.Lock()


class StreamCompactor:
    """Compacts one table until its last stream ends; made by :meth:`join`.

    Parameters
    ----------
    handle : TableHandle
        The table, with the options of the first stream.
    table : hashable
        Identity of the table, which a later table of its name does not have.
    """

    def __init__(self, spark: SparkSession, handle: TableHandle, table: Hashable) -> None:
        self._table = table
        self._spark = spark
        self._handle = handle
        self._coordinator = AppendCoordinator()
        self._streams_count = 0
        self._is_left = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name=f"tidelake-compaction-{handle.identifier}", daemon=True
        )
        self.rounds_count = 0
        """Number of rounds that compacted files."""

    @classmethod
    def join(cls, spark: SparkSession, handle: TableHandle) -> StreamCompactor | None:
        """Add a stream to the compactor of a table; None where the writers compact.

        Parameters
        ----------
        spark : SparkSession
            Runs the tasks, if this is the first stream.
        handle : TableHandle
            The table. With the option ``write-only`` there is none: another job compacts.
        """
        if not wants_coordinator(handle) or handle.options.get(declared.WRITE_ONLY):
            return None
        with _LOCK:
            key = _key(handle)
            found = _ALL.get(key)
            if found is None or not found.is_alive:
                found = _ALL[key] = cls(spark, handle, key)
                found._thread.start()
            found._streams_count += 1
        return found

    @property
    def is_alive(self) -> bool:
        """Whether its thread runs."""
        return self._thread.is_alive()

    def leave(self) -> None:
        """Remove a stream; after the last one the thread ends with its round."""
        with _LOCK:
            self._streams_count -= 1
            if self._streams_count:
                return
            if _ALL.get(self._table) is self:  # the table itself may have been dropped
                del _ALL[self._table]
            self._is_left.set()

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end of the thread; False after the timeout."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        is_in_pool = is_remote()
        while not is_stopped(self._spark):
            try:
                if not is_in_pool:
                    self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", POOL)
                    is_in_pool = True
                self._round()
            except (PySparkException, Py4JError, OSError) as error:
                if not self._is_left.is_set() and not is_stopped(self._spark):
                    self._warn(error)
            if self._is_left.wait(ROUND_S):
                return

    def _round(self) -> None:
        try:
            self._handle = handle = with_newest_schema(self._handle)
            plan = self._coordinator.plan(handle)
            if plan is None:
                return
            cores = parallelism(self._spark)
            runner = SparkRunner(self._spark, cores // 2) if cores > 1 else HERE
            plan.carry_out(WriteTransaction(handle), runner)
            self.rounds_count += 1
        except ConflictError:
            return  # another commit took the files; the next round plans again
        except NotFoundError:
            self._coordinator = (
                AppendCoordinator()
            )  # the snapshot expired, or the table was dropped
        except TidelakeError as error:
            self._warn(error)

    def _warn(self, error: Exception) -> None:
        _LOG.warning(
            "a compaction of table '%s' failed and will be planned again: %s",
            self._handle.identifier,
            error,
        )


def _key(handle: TableHandle) -> Hashable:
    return handle.branch_uri, handle.schemas.load(0).time_ms
