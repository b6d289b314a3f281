"""A source of Spark's micro-batches: Java's interfaces, implemented in Python over a cursor.

Spark calls, on the query's own thread:

1. :meth:`MicroBatchSource.latestOffset`: how far does the next batch go? The offset goes into the
   checkpoint before anything of the batch is read. A cursor knows it.
2. :meth:`MicroBatchSource.getBatch`: the plan of the rows between two offsets. Nothing is looked
   at: on a restart Spark asks for the last batch again, whose rows may be gone, and throws the
   answer away. The batch is planned when Spark has optimised the query around it
   (:mod:`tidelake.spark.catalog.streams.relation`).
3. :meth:`MicroBatchSource.commit`: one batch late, what is behind the offset is not needed again.

An offset is a ``SerializedOffset`` of its text, by which Spark compares it.
"""

from __future__ import annotations

import abc
import itertools
from collections.abc import Mapping
from typing import NoReturn, Protocol

from tidelake.errors import TidelakeError, UnsupportedError
from tidelake.spark.catalog.gateway import CONNECTOR, Gateway, JavaObject, Proxy
from tidelake.spark.catalog.streams.relation import BatchRelations, BatchRows

__all__ = ["STREAMING", "BatchCursor", "MicroBatchSource"]

STREAMING = "org.apache.spark.sql.execution.streaming"
_READ = f"{CONNECTOR}.read.streaming"
_NUMBERS = itertools.count(1)


class BatchCursor(Protocol):
    """Where a query is, as texts of offsets."""

    def fix_end(self) -> None:
        """Go no further than what is there now."""
        ...

    def next(self, start: str | None) -> str | None:
        """The end of the next batch; the start itself where nothing is new."""
        ...

    def latest(self) -> str | None:
        """Behind the newest row."""
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
    """What Spark asks a source of micro-batches; rows and offsets are the subclass's.

    Parameters
    ----------
    gateway : Gateway
        The session's JVM.
    schema : JavaObject
        The columns.
    named : str
        For messages, as in "A stream of ...".
    """

    def __init__(self, gateway: Gateway, schema: JavaObject, *, named: str) -> None:
        super().__init__(gateway)
        self._schema = schema
        self._relations = BatchRelations(gateway, schema)
        self._named = named
        self._number = next(_NUMBERS)

    # ---- what a subclass says

    @abc.abstractmethod
    def _cursor(self) -> BatchCursor:
        """Where the query is that asks."""

    @abc.abstractmethod
    def _check(self, text: str) -> None:
        """Refuse the text of a checkpoint that is no offset."""

    @abc.abstractmethod
    def _batch(self, start: str | None, end: str) -> tuple[BatchRows, str]:
        """What gives the rows between two offsets, and what EXPLAIN calls it."""

    @abc.abstractmethod
    def _behind(self, at: str) -> Mapping[str, str]:
        """How far an offset is behind, for progress."""

    def _rest(self, at: str) -> None:
        """Nothing is new behind an offset."""

    # ---- what it is

    def hashCode(self) -> int:
        """Of this source alone: a query may read a table twice."""
        return self._number

    def equals(self, other: JavaObject) -> bool:
        """Whether the other is this one."""
        return hasattr(other, "hashCode") and bool(other.hashCode() == self.hashCode())

    def schema(self) -> JavaObject:
        """The columns."""
        return self._schema

    def getDefaultReadLimit(self) -> JavaObject:
        """No limit of Spark's: those of the options hold with every trigger."""
        return self.gateway.connector("read.streaming.ReadLimit").allAvailable()

    # ---- offsets

    def getOffset(self) -> NoReturn:
        """Spark 4.3 asks a source with limits for :meth:`latestOffset`."""
        message = f"A stream of {self._named} gives offsets under limits only: use Spark 4.3."
        raise UnsupportedError(message, kind="spark_version")

    def initialOffset(self) -> NoReturn:
        """Spark asks this of its newer interface only."""
        self.getOffset()

    def deserializeOffset(self, text: str) -> JavaObject:
        """An offset of a checkpoint."""
        self._check(text)
        return self._java(text)

    def prepareForTriggerAvailableNow(self) -> None:
        """Go no further than what is there now."""
        self._cursor().fix_end()

    def latestOffset(self, *args: JavaObject) -> JavaObject | None:
        """The end of the next batch; `start` itself where nothing is new."""
        start = args[0]
        at = None if start is None else str(start.json())
        end = self._cursor().next(at)
        if end is None or end != at:
            return self._java(end)
        self._rest(end)
        return start

    def reportLatestOffset(self) -> JavaObject | None:
        """Behind the newest row, for progress."""
        try:
            return self._java(self._cursor().latest())
        except TidelakeError:  # progress is no reason to stop; what is wrong the next batch says
            return None

    def commit(self, offset: JavaObject) -> None:
        """What is behind the offset is not needed again."""

    def stop(self) -> None:
        """The query ends."""
        self._cursor().close()

    def metrics(self, consumed: JavaObject) -> JavaObject:
        """How far the stream is behind, for progress."""
        if not consumed.isPresent():
            return self.gateway.mapping({})
        try:
            return self.gateway.mapping(self._behind(str(consumed.get().json())))
        except TidelakeError:  # as above
            return self.gateway.mapping({})

    def _java(self, text: str | None) -> JavaObject | None:
        if text is None:
            return None
        return self.gateway.java(f"{STREAMING}.runtime.SerializedOffset")(text)

    # ---- rows

    def getBatch(self, start: JavaObject, end: JavaObject) -> JavaObject:
        """The plan of the rows between two offsets; nothing is looked at."""
        began = str(start.get().json()) if start.isDefined() else None
        rows, shown = self._batch(began, str(end.json()))
        return self._relations.dataset(rows, shown=shown)
