"""Which snapshot a micro-batch looks rows up in: one for all its tasks and their retries.

The closure of a stream's task is fixed when the query starts, so it cannot say. Here a one-row
relation says it, as a subquery of the task's arguments:

1. Spark plans every micro-batch on the query's thread, and asks the relation for its row.
2. The first lookup of a table in a batch takes the newest snapshot; the others of that batch get
   the same, by the query's id and the batch's number, which Spark keeps as local properties.
3. Before the snapshot is given out it is held by a lease, so that no expiry takes files that a
   task still has to open. The lease moves with the batches, and ends with the query.

A batch that is run again after a restart may see a newer snapshot: nothing of it was written.
"""

from __future__ import annotations

import contextlib
import threading

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.utils import is_remote

from tidelake.engine.scan import ReadHold
from tidelake.engine.streams import READ_RETAINED_MS, StreamLease
from tidelake.engine.tables import Table, TableHandle
from tidelake.errors import TidelakeError, UnsupportedError
from tidelake.spark.callbacks.gateway import Gateway
from tidelake.spark.sessions.query_life import QueryLife
from tidelake.spark.streams.connector.relation import BatchRelations

NO_SNAPSHOT = 0
"""The table was never written."""
PIN = "snapshot_id"
QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"
LOOK_S = 5.0
"""How often the thread of a lease looks whether the query runs."""
_PINS: dict[tuple[str, str], _BatchPin] = {}
_LOCK = threading.Lock()


def newest_snapshot(handle: TableHandle) -> int:
    """The newest snapshot of a table; :data:`NO_SNAPSHOT` before the first."""
    handle.schemas.check_same(handle.schema, table=handle.identifier)
    return handle.snapshots.latest_id() or NO_SNAPSHOT


def pinned_now(handle: TableHandle) -> tuple[int, ReadHold]:
    """The newest snapshot, for a frame that is no stream, and what holds it."""
    handle.schemas.check_same(handle.schema, table=handle.identifier)
    snapshot = handle.snapshots.latest()
    return NO_SNAPSHOT if snapshot is None else snapshot.id, handle.hold(snapshot)


def pinned_at_each_batch(spark: SparkSession, table: Table) -> DataFrame:
    """Return a frame of one row: the snapshot that is newest when a batch is planned.

    Raises
    ------
    UnsupportedError
        The session is one of Spark Connect, which has no JVM here that could ask.
    """
    if is_remote():
        message = (
            "Through Spark Connect no stream looks rows up: call tl.lookup_join in foreachBatch,"
            " for each batch."
        )
        raise UnsupportedError(message, kind="spark_connect", table=table.identifier)
    handle = table.handle

    def row(*_: object) -> DataFrame:
        pinned = _pinned(spark, handle)
        return spark.range(pinned, pinned + 1, 1, 1).toDF(PIN)

    gateway = Gateway(spark)
    schema = gateway.schema(spark.range(0).toDF(PIN).schema)
    shown = f"lookup of {table.identifier}"
    dataset = BatchRelations(gateway, schema).dataset(row, shown=shown, is_streaming=False)
    return DataFrame(dataset, spark)


def _pinned(spark: SparkSession, handle: TableHandle) -> int:
    """The snapshot for the batch that this thread plans."""
    context = spark.sparkContext
    query_id, batch = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
    if query_id is None or batch is None:
        return newest_snapshot(handle)  # EXPLAIN, or a frame that no query runs
    key = (query_id, handle.branch_uri)
    with _LOCK:
        pin = _PINS.get(key)
        if pin is None:
            pin = _PINS[key] = _BatchPin(key, handle, QueryLife(spark, query_id))
    return pin.of_batch(batch)


class _BatchPin:
    """The snapshot of a table that the batches of one query see. Threads may share it."""

    def __init__(self, key: tuple[str, str], handle: TableHandle, life: QueryLife) -> None:
        self._key = key
        self._handle = handle
        self._life = life
        self._guard = threading.Lock()
        self._batch = ""
        self._snapshot = NO_SNAPSHOT
        self._lease: StreamLease | None = None
        threading.Thread(target=self._watch, name=f"tidelake-lookup-{key[0]}", daemon=True).start()

    def of_batch(self, batch: str) -> int:
        """The snapshot for a batch; the same until another batch asks."""
        with self._guard:
            if batch != self._batch:
                newest = newest_snapshot(self._handle)
                if newest != NO_SNAPSHOT:
                    self._hold(newest)
                self._batch, self._snapshot = batch, newest
            return self._snapshot

    def _hold(self, snapshot: int) -> None:
        lease = self._lease
        if lease is not None and snapshot >= lease.next_snapshot:
            if snapshot > lease.next_snapshot:
                lease.advance(snapshot)
            else:
                lease.renew_if_due()
            return
        if lease is not None:  # the table was rolled back
            lease.close(forget=True)
        name = f"lookup-{self._handle.env.ids.uuid()}"
        self._lease = StreamLease.open_if_writable(
            self._handle, name, snapshot, run_id=name, of_state=True, retained_ms=READ_RETAINED_MS
        )

    def _watch(self) -> None:
        """Keep the lease alive while the query runs, and end it with the query."""
        waits = threading.Event()
        while not self._life.has_ended():
            waits.wait(LOOK_S)
            # the next batch says what is wrong
            with self._guard, contextlib.suppress(TidelakeError):
                if self._lease is not None:
                    self._lease.renew_if_due()
        with _LOCK:
            if _PINS.get(self._key) is self:
                del _PINS[self._key]
        with self._guard, contextlib.suppress(TidelakeError):
            if self._lease is not None:
                self._lease.close(forget=True)
