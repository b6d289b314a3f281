"""A source of Spark's micro-batches: implements Java's interfaces in Python over a cursor.

Spark calls, on the query's own thread:

1. :meth:`MicroBatchSource.latestOffset`: how far does the next batch go? The cursor knows. Spark
   writes the offset into the checkpoint before the batch is read.
2. :meth:`MicroBatchSource.getBatch`: the plan of the rows between two offsets. This call does not
   read the table: on a restart Spark requests the last batch again, whose rows may be lost, and
   drops the answer. The batch is planned after Spark has optimised the query around it
   (:mod:`tidelake.spark.streams.connector.relation`).
3. :meth:`MicroBatchSource.commit`: called one batch late; the rows before the offset are not needed
   again.

An offset is a ``SerializedOffset`` with a text; Spark compares the texts.
"""

from __future__ import annotations

import abc
import itertools
from collections.abc import Mapping
from typing import NoReturn, Protocol

from tidelake.errors import TidelakeError, UnsupportedError
from tidelake.spark.callbacks.gateway import CONNECTOR, Gateway, JavaObject, Proxy
from tidelake.spark.streams.connector.relation import BatchRelations, BatchRows
from tidelake.spark.versions import minor_of

STREAMING = "org.apache.spark.sql.execution.streaming"
_READ = f"{CONNECTOR}.read.streaming"
_NUMBERS = itertools.count(1)


def streaming_runtime(gateway: Gateway) -> str:
    """The package of what runs streams, which Spark 4.0 has beside the interfaces."""
    return STREAMING if minor_of(gateway.spark.version) == "4.0" else f"{STREAMING}.runtime"


class BatchCursor(Protocol):
    """The position of a query, as texts of offsets."""

    def fix_end(self) -> None:
        """Set the end of the stream to the newest row of now."""
        ...

    def next(self, start: str | None) -> str | None:
        """Find the end of the next batch; the start itself without new rows."""
        ...

    def latest(self) -> str | None:
        """Give the offset behind the newest row."""
        ...

    def close(self) -> None:
        """The query ends."""
        ...


class MicroBatchSource(
    Proxy,
    abc.ABC,
    implements=(
        f"{STREAMING}.Source",
        f"{_READ}.SupportsAdmissionControl",
        f"{_READ}.SupportsTriggerAvailableNow",
        f"{_READ}.ReportsSourceMetrics",
    ),
):
    """Spark's interface of a source of micro-batches; a subclass gives offsets and rows."""

    def __init__(self, gateway: Gateway, schema: JavaObject, *, named: str) -> None:
        super().__init__(gateway)
        self._schema = schema
        self._relations = BatchRelations(gateway, schema)
        self._named = named
        self._number = next(_NUMBERS)

    # ---- methods of a subclass

    @abc.abstractmethod
    def _cursor(self) -> BatchCursor:
        """Return the cursor of the calling query."""

    @abc.abstractmethod
    def _check(self, text: str) -> None:
        """Refuse a text of a checkpoint that is not an offset."""

    @abc.abstractmethod
    def _batch(self, start: str | None, end: str) -> tuple[BatchRows, str]:
        """Return the function for the rows between two offsets, and their name in EXPLAIN."""

    @abc.abstractmethod
    def _behind(self, at: str) -> Mapping[str, str]:
        """Measure how far an offset is behind, for progress."""

    def _rest(self, at: str) -> None:
        """Handle a look without new rows behind an offset."""

    # ---- identity

    def hashCode(self) -> int:
        """Return a hash of this source alone: a query may read a table twice."""
        return self._number

    def equals(self, other: JavaObject) -> bool:
        """Whether the other is this one."""
        return hasattr(other, "hashCode") and bool(other.hashCode() == self.hashCode())

    def schema(self) -> JavaObject:
        """The columns."""
        return self._schema

    def getDefaultReadLimit(self) -> JavaObject:
        """Return no limit: the limits of the options hold with every trigger."""
        return self.gateway.connector("read.streaming.ReadLimit").allAvailable()

    # ---- offsets

    def getOffset(self) -> NoReturn:
        """Refuse: Spark calls :meth:`latestOffset` of a source with limits."""
        message = (
            f"A stream of {self._named} gives offsets only under limits: start it by Spark's"
            " micro-batches, as spark.readStream does."
        )
        raise UnsupportedError(message, kind="spark_version")

    def initialOffset(self) -> NoReturn:
        """Refuse: Spark calls this only on its newer interface."""
        self.getOffset()

    def deserializeOffset(self, text: str) -> JavaObject:
        """Read an offset of a checkpoint."""
        self._check(text)
        return self._java(text)

    def prepareForTriggerAvailableNow(self) -> None:
        """Set the end of the stream to the newest row of now."""
        self._cursor().fix_end()

    def latestOffset(self, *args: JavaObject) -> JavaObject | None:
        """Find the end of the next batch; `start` itself without new rows."""
        start = args[0]
        at = None if start is None else str(start.json())
        end = self._cursor().next(at)
        if end is None or end != at:
            return self._java(end)
        self._rest(end)
        return start

    def reportLatestOffset(self) -> JavaObject | None:
        """Give the offset behind the newest row, for progress."""
        try:
            return self._java(self._cursor().latest())
        except TidelakeError:  # progress may not stop the query; the next batch raises the error
            return None

    def commit(self, offset: JavaObject) -> None:
        """Release the rows before an offset: Spark does not read them again."""

    def stop(self) -> None:
        """The query ends."""
        self._cursor().close()

    def metrics(self, consumed: JavaObject) -> JavaObject:
        """Measure how far the stream is behind, for progress."""
        if not consumed.isPresent():
            return self.gateway.mapping({})
        try:
            return self.gateway.mapping(self._behind(str(consumed.get().json())))
        except TidelakeError:  # as above
            return self.gateway.mapping({})

    def _java(self, text: str | None) -> JavaObject | None:
        if text is None:
            return None
        return self.gateway.java(f"{streaming_runtime(self.gateway)}.SerializedOffset")(text)

    # ---- rows

    def getBatch(self, start: JavaObject, end: JavaObject) -> JavaObject:
        """Make the plan of the rows between two offsets, without reading the table."""
        began = str(start.get().json()) if start.isDefined() else None
        rows, shown = self._batch(began, str(end.json()))
        return self._relations.dataset(rows, shown=shown)
