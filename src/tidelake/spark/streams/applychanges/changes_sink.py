"""Applies the batches of a stream of changes, each in one commit, once.

The rules of a batch that comes again are those of every sink
(:mod:`tidelake.spark.streams.write.batch_sink`): the commit into the target has the query's id and
the batch's number. What is kept for late changes is written before it and may be written twice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.utils import is_remote

from tidelake.engine.tables import TableHandle
from tidelake.engine.write import CommitIdentity, WriteResult, WriteTransaction
from tidelake.errors import UnsupportedError
from tidelake.spark.streams.applychanges.apply import AppliedChanges
from tidelake.spark.streams.write.batch_sink import BatchSink
from tidelake.spark.streams.write.checkpoint import check_mark
from tidelake.spark.streams.write.start import (
    StreamTarget,
    opened_checkpoint,
    sink_mark,
    sources_of,
    start_sink,
    trigger_arguments,
)
from tidelake.spark.write.write_task import for_task

MODE = "changes"
"""What a checkpoint says of such a query; Spark's own mode is ``append``."""


@dataclass
class ChangesSink(BatchSink):
    """Applies the micro-batches of one query. For ``foreachBatch``."""

    changes: AppliedChanges | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what belongs to this process."""
        assert self.changes is not None, "made with it"
        changes = replace(self.changes, kept=for_task(self.changes.kept))
        return {**super().__getstate__(), "changes": changes}

    def committed(
        self, handle: TableHandle, frame: DataFrame, identity: CommitIdentity, batch_id: int
    ) -> tuple[WriteTransaction, WriteResult]:
        """Apply a batch that was not applied before, in one commit."""
        assert self.changes is not None, "made with it"
        transaction = WriteTransaction(handle, identity, watermark=self.watermark(batch_id))
        return transaction, self.changes.apply(transaction, frame)


def start_changes(
    frame: DataFrame, target: StreamTarget, changes: AppliedChanges
) -> StreamingQuery:
    """Start a query that applies changes; see :meth:`tidelake.spark.Lake.apply_changes`."""
    handle = target.handle
    table = handle.identifier
    if is_remote():
        message = (
            f"A stream of changes into table '{table}' needs a classic session, not Spark Connect."
            " Apply batches: tl.apply_changes(frame, ...)."
        )
        raise UnsupportedError(message, kind="spark_connect", table=table)
    checkpoint = opened_checkpoint(frame, target)
    given = trigger_arguments(target.trigger, table=table)
    mark = check_mark(checkpoint, sink_mark(handle, MODE, sources=sources_of(frame)))
    checkpoint.remove_torn_start()
    sink = ChangesSink(
        handle,
        checkpoint,
        mark,
        handle.env.ids.uuid(),
        spark=frame.sparkSession,
        changes=changes,
    )
    return start_sink(frame, sink, mode="append", trigger=given, query_name=target.query_name)
