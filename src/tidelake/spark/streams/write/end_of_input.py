"""Marks the partitions that a query wrote as done, when the query has come to its end.

A query with the trigger ``availableNow`` or ``once`` ends by itself. With
``partition.end-input-to-done`` the partitions that it wrote are marked then, before
``awaitTermination`` returns, or within a second. A query that failed, or that was stopped by the
object that started it, is not at its end. Nor is one that was stopped elsewhere amid a batch;
between two batches Spark shows no difference.

The partitions are kept in the checkpoint, in ``tidelake-partitions.json``, until they are marked: a
run that goes on after a crash marks those of the run before, too. A batch that comes again finds
its partitions in its snapshot.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql.streaming import StreamingQuery

from tidelake.engine.streams import (
    MadeCommit,
    mark_written,
    marks_at_end_of_stream,
    partitions_with_new_files,
)
from tidelake.engine.tables import TableHandle
from tidelake.errors import NotFoundError
from tidelake.spark.streams.write.checkpoint import Checkpoint

PARTITIONS_FILE = "tidelake-partitions.json"
BOUNDED = ("availableNow", "once")
"""The triggers of queries that end by themselves."""


class EndOfInput:
    """The end of one run of a query. Thread-safe.

    Parameters
    ----------
    trigger : mapping of str to object
        The arguments of Spark's ``trigger``.
    """

    def __init__(
        self, handle: TableHandle, checkpoint: Checkpoint, trigger: Mapping[str, object]
    ) -> None:
        self._handle = handle
        self._checkpoint = checkpoint
        self._folder = checkpoint.folder
        self._is_wanted = marks_at_end_of_stream(handle) and any(map(trigger.get, BOUNDED))
        self._lock = threading.Lock()
        self._is_over = not self._is_wanted
        self._written: frozenset[bytes] | None = None
        self.query: StreamingQuery | None = None
        """The query, as soon as it is started."""

    def wrote(self, made: MadeCommit | None) -> None:
        """Note the partitions of a batch, before Spark notes the batch as done."""
        if made is None or not self._is_wanted:
            return
        try:
            snapshot = self._handle.snapshots.load(made.snapshot_id)
            partitions = partitions_with_new_files(self._handle, snapshot)
        except (
            NotFoundError
        ):  # it expired, perhaps just now: of a batch that comes again, long after
            return
        known = self._known()
        written = known.union(partitions)
        if written != known:
            self._keep(written)

    def stopped(self) -> None:
        """Say that the query is stopped, and so not at its end."""
        with self._lock:
            self._is_over = True

    def look(self) -> None:
        """Find out whether the query has ended by itself, and mark what it wrote."""
        query = self.query
        if query is None or self._is_over:
            return
        try:
            has_ended = not query.isActive and query.exception() is None
        except (PySparkException, Py4JError, OSError):  # the session was stopped
            return
        if has_ended:
            self.ended()

    def ended(self) -> None:
        """Mark what was written: the query has ended by itself. A failure is logged."""
        with self._lock:
            if self._is_over:
                return
            self._is_over = True
            if self._checkpoint.is_between_batches and mark_written(self._handle, self._known()):
                self._keep(frozenset())

    def _known(self) -> frozenset[bytes]:
        if self._written is None:
            text = self._folder.read(PARTITIONS_FILE)
            try:
                found = json.loads(text) if text else []
                self._written = frozenset(bytes.fromhex(one) for one in found)
            except (ValueError, TypeError):  # torn by a kill: its batch comes again
                self._written = frozenset()
        return self._written

    def _keep(self, partitions: frozenset[bytes]) -> None:
        self._folder.replace(PARTITIONS_FILE, json.dumps(sorted(p.hex() for p in partitions)))
        self._written = partitions
