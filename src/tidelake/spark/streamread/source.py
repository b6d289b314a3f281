"""A table as a source of Spark's micro-batches: Java's interfaces, implemented in Python.

Spark calls, on the query's own thread:

1. :meth:`StreamSource.latestOffset`: how far does the next batch go? The offset goes into the
   checkpoint before anything of the batch is read (:mod:`tidelake.spark.streamread.cursor`).
2. :meth:`StreamSource.getBatch`: the plan of the rows between two offsets. It touches no file: on a
   restart Spark asks for the last batch again, whose snapshots may have expired, and throws the
   answer away. The batch is planned when Spark has optimised the query around it
   (:mod:`tidelake.spark.streamread.relation`).
3. :meth:`StreamSource.commit`: one batch late, what is behind the offset is not needed again.

An offset of ours is a ``SerializedOffset`` of its JSON (:mod:`tidelake.table.stream.offset`), which
Spark compares by its text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as st

from tidelake.errors import TidelakeError, UnsupportedError
from tidelake.spark.catalog.gateway import CONNECTOR, Gateway, JavaObject, Proxy
from tidelake.spark.catalog.java_filter import from_java_filters
from tidelake.spark.expression.expression import quoted
from tidelake.spark.expression.types import spark_schema
from tidelake.spark.read.changes_frame import changes_frame
from tidelake.spark.streamread.cursor import StreamCursor
from tidelake.spark.streamread.relation import batch_dataset
from tidelake.spark.streamread.request import (
    Kinds,
    StreamRequest,
    delete_error,
    keeps_order,
)
from tidelake.spark.streamread.stream_end import StreamEnd
from tidelake.table.conversion.inputs import ROW_KIND_COLUMN
from tidelake.table.stream import StreamOffset
from tidelake.types import RowKind
from tidelake.types.predicate import Predicate, bind

__all__ = ["StreamSource", "stream_schema"]

STREAMING = "org.apache.spark.sql.execution.streaming"
_READ = f"{CONNECTOR}.read.streaming"


def stream_schema(request: StreamRequest) -> st.StructType:
    """The columns of a stream's frame."""
    plan = request.plan
    own = spark_schema(plan.fields, table=plan.table)
    kind = st.StructField(ROW_KIND_COLUMN, st.StringType())
    fields = [kind if name == ROW_KIND_COLUMN else own[name] for name in request.names]
    return st.StructType(fields)


class StreamSource(
    Proxy,
    implements=(
        f"{STREAMING}.Source",
        f"{_READ}.SupportsAdmissionControl",
        f"{_READ}.SupportsTriggerAvailableNow",
        f"{_READ}.ReportsSourceMetrics",
    ),
):
    """A table as the source of one query.

    Parameters
    ----------
    gateway : Gateway
        The session's JVM.
    request : StreamRequest
        What is read.
    query_id : str, optional
        The query, where it is known.
    """

    def __init__(self, gateway: Gateway, request: StreamRequest, *, query_id: str | None) -> None:
        super().__init__(gateway)
        self._plan = request.plan
        self._cursor = StreamCursor(request.plan)
        self._kinds = request.kinds
        self._schema = gateway.schema(stream_schema(request))
        self._end = StreamEnd(gateway, query_id)

    def toString(self) -> str:
        """How progress shows it."""
        return f"tidelake[{self._plan.table}]"

    def hashCode(self) -> int:
        """Of this source alone: a query may read a table twice."""
        return self._cursor.number

    def equals(self, other: JavaObject) -> bool:
        """Whether the other is this one."""
        return hasattr(other, "hashCode") and bool(other.hashCode() == self.hashCode())

    # ---- what it is

    def schema(self) -> JavaObject:
        """The columns."""
        return self._schema

    def getDefaultReadLimit(self) -> JavaObject:
        """No limit of Spark's: those of the options hold with every trigger."""
        return self.gateway.connector("read.streaming.ReadLimit").allAvailable()

    # ---- offsets

    def getOffset(self) -> NoReturn:
        """Spark 4.3 asks a source with limits for :meth:`latestOffset`."""
        message = "A stream of Tidelake gives offsets under limits only: use Spark 4.3."
        raise UnsupportedError(message, kind="spark_version")

    def initialOffset(self) -> NoReturn:
        """Spark asks this of its newer interface only."""
        self.getOffset()

    def deserializeOffset(self, text: str) -> JavaObject:
        """An offset of a checkpoint."""
        self._plan.offset(text)  # refused where it is none
        return self._java(text)

    def prepareForTriggerAvailableNow(self) -> None:
        """Go no further than what is there now."""
        self._cursor.fix_end()

    def latestOffset(self, *args: JavaObject) -> JavaObject | None:
        """The end of the next batch; `start` itself where nothing is new."""
        start = args[0]
        at = None if start is None else str(start.json())
        end = self._cursor.next(at)
        if end is None or end != at:
            return self._java(end)
        if self._cursor.is_ended(end):
            self._end.reach()
        return start

    def reportLatestOffset(self) -> JavaObject | None:
        """Behind the newest snapshot, for progress."""
        return self._java(self._cursor.latest())

    def commit(self, offset: JavaObject) -> None:
        """What is behind the offset is not needed again."""

    def stop(self) -> None:
        """The query ends."""
        self._cursor.close()

    def metrics(self, consumed: JavaObject) -> JavaObject:
        """How far the stream is behind, for progress."""
        if not consumed.isPresent():
            return self.gateway.mapping({})
        try:
            lag = self._plan.lag(self._plan.offset(consumed.get().json()))
        except TidelakeError:  # progress is no reason to stop; what is wrong the next batch says
            return self.gateway.mapping({})
        return self.gateway.mapping(
            {
                "snapshotsBehind": str(lag.snapshots),
                "rowsBehind": str(lag.rows),
                "bytesBehind": str(lag.bytes),
            }
        )

    def _java(self, text: str | None) -> JavaObject | None:
        if text is None:
            return None
        return self.gateway.java(f"{STREAMING}.runtime.SerializedOffset")(text)

    # ---- rows

    def getBatch(self, start: JavaObject, end: JavaObject) -> JavaObject:
        """The plan of the rows between two offsets; nothing is looked at."""
        began = str(start.get().json()) if start.isDefined() else None
        first, last = self._cursor.between(began, str(end.json()))

        def rows(columns: Sequence[str], filters: Sequence[JavaObject]) -> DataFrame:
            return self._rows(first, last, columns, filters)

        shown = f"tidelake {self._plan.table} {_shown(first)} to {_shown(last)}"
        return batch_dataset(self.gateway, self._schema, rows, shown=shown)

    def _rows(
        self,
        first: StreamOffset,
        last: StreamOffset,
        columns: Sequence[str],
        filters: Sequence[JavaObject],
    ) -> DataFrame:
        """The rows of a batch: the columns that Spark needs, perhaps more rows than it does."""
        plan = self._plan
        wanted = [name for name in columns if name != ROW_KIND_COLUMN]
        wanted = wanted or [plan.fields[0].name]
        kinds_matter = self._kinds in {Kinds.UPSERTS, Kinds.CHECKED}
        frame = changes_frame(
            self.gateway.spark,
            plan.parts(first, last, columns=wanted, predicate=self._predicate(filters)),
            table=plan.table,
            ordered=keeps_order(plan.handle),
            with_kinds=kinds_matter or ROW_KIND_COLUMN in columns,
            exact=False,
        )
        if kinds_matter:
            frame = frame.filter(self._is_kept())
        return frame.select(*(F.col(quoted(name)) for name in columns or wanted))

    def _predicate(self, filters: Sequence[JavaObject]) -> Predicate | None:
        """What prunes files and rows; Spark applies its filters once more."""
        fields = self._plan.fields
        found = from_java_filters(filters, fields)
        return None if found is None else bind(found, fields)

    def _is_kept(self) -> Column:
        """Which rows a frame without kinds shows."""
        kind = F.col(ROW_KIND_COLUMN)
        kept = kind.isin(str(RowKind.INSERT), str(RowKind.UPDATE_AFTER))
        if self._kinds is Kinds.UPSERTS:
            return kept
        fails = F.raise_error(F.lit(delete_error(self._plan.table))).cast("boolean")
        return F.when(kind == str(RowKind.DELETE), fails).otherwise(kept)


def _shown(offset: StreamOffset) -> str:
    return f"{offset.phase} {offset.snapshot}.{offset.index}"
