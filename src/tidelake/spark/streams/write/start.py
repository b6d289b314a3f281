"""Starts a query that writes to a table, after all checks that need no rows.

It checks that the frame is a stream, the checkpoint, the output mode, and columns and types. If
Spark's analysis refuses the query, the error is one sentence, without a plan.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException, PythonException, StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery
from pyspark.sql.utils import is_remote

from tidelake.engine.tables import TableHandle
from tidelake.engine.write import check_writable
from tidelake.errors import InvalidInputError, TidelakeError, near_names
from tidelake.spark.errors.passed_errors import passed_error
from tidelake.spark.errors.run_errors import stream_failure
from tidelake.spark.streams.write.batch_sink import COMPLETE, BatchSink, with_columns_since
from tidelake.spark.streams.write.checkpoint import Checkpoint, SinkMark, check_mark
from tidelake.spark.streams.write.end_of_input import EndOfInput
from tidelake.spark.streams.write.kept_changes import check_changes, removes_at_delete
from tidelake.spark.write.schema_merging import (
    merges_schema,
    with_all_columns,
    with_drafted_schema,
)
from tidelake.spark.write.write_frame import check_columns

Trigger = str | Mapping[str, object] | None
"""``"10 seconds"``, ``"availableNow"``, or the arguments of Spark's ``trigger``."""

MODES = ("append", "update", COMPLETE)
UPDATE = "update"
_NAMED_SOURCES = frozenset({"StreamingRelation", "StreamingRelationV2"})
"""Leaves of a plan that name their source."""
_CONDITION = re.compile(r"^\s*\[[A-Z0-9_.]+\]\s*")
_TAIL = re.compile(r"(SQLSTATE: \w+.*|;\s*\n.*|\n==.*)$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class StreamTarget:
    """The target and settings of a stream.

    Parameters
    ----------
    trigger : str or mapping, optional
        When a batch begins; by default when the previous one is done.
    tasks : int, optional
        How many tasks write a batch that is not small.
    """

    handle: TableHandle
    checkpoint: str | Path | None
    mode: str = "append"
    trigger: Trigger = None
    query_name: str | None = None
    tasks: int | None = None


def start_stream(frame: DataFrame, target: StreamTarget) -> StreamingQuery:
    """Start a query; see :meth:`tidelake.spark.Lake.write_stream`."""
    handle = target.handle
    table = handle.identifier
    if not isinstance(frame, DataFrame) or not frame.isStreaming:
        message = (
            f"The rows for table '{table}' are not a stream: write them with tl.write(frame,"
            f" '{table}'), or read them as a stream, tl.read_stream(name) or spark.readStream."
        )
        raise InvalidInputError(message, kind="no_stream", table=table)
    checkpoint = opened_checkpoint(frame, target)
    check_mode(handle, target.mode)
    given = trigger_arguments(target.trigger, table=table)
    mark = sink_mark(handle, target.mode, sources=sources_of(frame))
    found = checkpoint.mark() if checkpoint.has_batches else None
    check_rows(handle, frame, schema_id=mark.schema_id if found is None else found.schema_id)
    keys = handle.schema.primary_keys
    check_changes(frame, table, keys, takes_kinds=bool(keys), at_delete=removes_at_delete(handle))
    mark = check_mark(checkpoint, mark)
    checkpoint.remove_torn_start()
    sink = BatchSink(
        handle,
        checkpoint,
        mark,
        handle.env.ids.uuid(),
        tasks=target.tasks,
        spark=None if is_remote() else frame.sparkSession,
    )
    return start_sink(frame, sink, mode=target.mode, trigger=given, query_name=target.query_name)


def opened_checkpoint(frame: DataFrame, target: StreamTarget) -> Checkpoint:
    """Check the checkpoint, and that the table may be written."""
    table = target.handle.identifier
    checkpoint = Checkpoint.of(target.checkpoint, table=table, spark=frame.sparkSession)
    checkpoint.query_id()  # says what Spark would not: that it is damaged
    check_writable(target.handle)
    return checkpoint


def start_sink(
    frame: DataFrame,
    sink: BatchSink,
    *,
    mode: str,
    trigger: Mapping[str, object],
    query_name: str | None,
) -> StreamingQuery:
    """Start a query into a sink.

    Parameters
    ----------
    mode : str
        Spark's output mode.
    """
    writer = frame.writeStream.outputMode(mode).foreachBatch(sink)
    writer = writer.option("checkpointLocation", sink.checkpoint.uri)
    if query_name is not None:
        writer = writer.queryName(query_name)
    if is_remote():
        return begun(writer, trigger, table=sink.handle.identifier)
    sink.end = EndOfInput(sink.handle, sink.checkpoint, trigger)
    query = begun(writer, trigger, table=sink.handle.identifier)
    return SinkQuery(query, sink, sink.end)


def begun(writer: DataStreamWriter, trigger: Mapping[str, object], *, table: str) -> StreamingQuery:
    """Start a query.

    Raises
    ------
    InvalidInputError
        Spark refuses it; what it says is a sentence, without a plan or a stack of Java's.
    """
    try:
        return (writer.trigger(**trigger) if trigger else writer).start()
    except (PySparkException, Py4JJavaError, ValueError, TypeError) as error:
        java = getattr(error, "java_exception", None)  # such as for a checkpoint that is a file
        text = str(error) if java is None else str(java.getMessage())
        reason = _TAIL.sub("", _CONDITION.sub("", text))
        reason = " ".join(reason.split()).rstrip(". ")
        message = f"Spark refuses the stream into table '{table}': {reason}."
        refusal = InvalidInputError(message, kind="stream_refused", table=table)
        raise refusal from (error if java is None else None)  # no stack of Java's is shown


class _Sink(Protocol):
    """The protocol of the object that writes the batches of a query."""

    error: BaseException | None


class SinkQuery(StreamingQuery):  # type: ignore[misc]  # pyspark carries no types here
    """Spark's query; it raises an error of the sink or a source unchanged, without Spark's plan."""

    def __init__(self, query: StreamingQuery, sink: _Sink, end: EndOfInput | None = None) -> None:
        super().__init__(query._jsq)
        self._sink = sink
        self._end = end
        if end is not None:
            end.query = self

    def stop(self) -> None:
        """Stop the query, which is then not at the end of its input."""
        if self._end is not None:
            self._end.look()
            self._end.stopped()
        super().stop()

    def awaitTermination(self, timeout: int | None = None) -> bool | None:
        """Wait for the end of the query, or for `timeout` seconds.

        Raises
        ------
        TidelakeError
            The sink refused a batch, or a source of ours did.
        StreamingQueryException
            The query failed elsewhere.
        """
        try:
            ended: bool | None = super().awaitTermination(timeout)
        except StreamingQueryException as error:
            ours = self._refusal(error)
            if ours is not None:
                raise ours from error
            raise
        if self._end is not None and ended is not False:
            self._end.ended()
        return ended

    def exception(self) -> Exception | None:
        """Return the error of the query; one of ours if the sink or a source refused a batch."""
        found: Exception | None = super().exception()
        return None if found is None else self._refusal(found) or found

    def _refusal(self, failure: Exception) -> TidelakeError | None:
        """Return our own error that made the query fail."""
        ours = self._sink.error
        if isinstance(ours, PythonException):  # of a task
            return stream_failure(ours)
        return ours if isinstance(ours, TidelakeError) else passed_error(str(failure))


def sink_mark(handle: TableHandle, mode: str, *, sources: tuple[str, ...] = ()) -> SinkMark:
    """Make the mark for the checkpoint of a query into this table."""
    created_ms = handle.schemas.load(0).time_ms
    return SinkMark(handle.identifier, created_ms, mode, handle.schema.id, sources)


def check_mode(handle: TableHandle, mode: str) -> None:
    """Refuse an output mode that the table cannot take."""
    table = handle.identifier
    if mode not in MODES:
        message = (
            f"mode '{mode}' of a stream into table '{table}' must be one of"
            f" {', '.join(MODES)}.{near_names(str(mode), MODES)}"
        )
        raise InvalidInputError(message, kind="bad_mode", table=table)
    if mode == UPDATE and not handle.schema.primary_keys:
        message = (
            f"Table '{table}' has no primary key, so mode 'update' would add a changed row as"
            " another row: use 'append' or 'complete', or a table with a primary key."
        )
        raise InvalidInputError(message, kind="bad_mode", table=table)


def check_rows(handle: TableHandle, frame: DataFrame, *, schema_id: int) -> None:
    """Refuse columns and types that do not fit, as each batch does."""
    if merges_schema(handle):
        drafted = with_drafted_schema(handle, frame.schema)
        check_columns(drafted, with_all_columns(drafted, frame))
    else:
        check_columns(handle, with_columns_since(handle, frame, schema_id=schema_id))


def trigger_arguments(trigger: Trigger, *, table: str) -> dict[str, object]:
    """Make the arguments of Spark's ``trigger``."""
    if trigger is None:
        return {}
    if isinstance(trigger, Mapping):
        return dict(trigger)
    if isinstance(trigger, str) and trigger.strip():
        text = trigger.strip()
        return (
            {"availableNow": True} if text.lower() == "availablenow" else {"processingTime": text}
        )
    message = (
        f"trigger={trigger!r} of a stream into table '{table}' must be an interval such as '10"
        " seconds', 'availableNow', or a dict of arguments for Spark's trigger."
    )
    raise InvalidInputError(message, kind="bad_trigger", table=table)


def sources_of(frame: DataFrame) -> tuple[str, ...]:
    """List the sources of a stream, as its plan shows them; none through Spark Connect."""
    if is_remote():
        return ()
    leaves = frame._jdf.queryExecution().analyzed().collectLeaves()
    found = (leaves.apply(i) for i in range(leaves.size()))
    # a proxy of a Java object seems to have every method
    named = (leaf for leaf in found if str(leaf.getClass().getSimpleName()) in _NAMED_SOURCES)
    return tuple(sorted(str(leaf.sourceName()) for leaf in named))
