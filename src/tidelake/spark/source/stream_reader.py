"""``spark.readStream.format("tidelake")``: a table's stream through Spark's Python data source API.

For Spark Connect, and for tools that know formats only: rows are handed from Python to the JVM, and
Spark prunes no columns (2 to 2.3 times the CPU of Spark's own file stream). ``option("columns",
...)`` and ``option("where", ...)`` say what is read. In a classic session
:meth:`tidelake.spark.Lake.read_stream` is faster.

1. Spark runs this in a separate Python process, which plans: offsets are those of
   :class:`tidelake.spark.streams.read.cursor.StreamCursor`. A stream that has not begun is ``{}``.
2. If the order of a bucket's rows matters, a partition is the parts of a bucket in a batch; of all
   buckets, if a key has changes in several. Otherwise it is one part. It carries its own reader,
   because Spark ships this object before it requests partitions.
3. With the option ``read.changelog`` = ``true`` the column ``_row_kind`` holds the kind of a row,
   as by name (:mod:`tidelake.spark.streams.read.request`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from tidelake.engine.streams import change_filter
from tidelake.engine.tables import Table
from tidelake.engine.write import ROW_KIND_COLUMN
from tidelake.errors import InvalidInputError
from tidelake.options import declared
from tidelake.spark.read.changes_frame import ChangeTask, PartBytes
from tidelake.spark.read.native_changes import ChangeUnit, change_units
from tidelake.spark.source.python_api import (
    ReadAllAvailable,
    ReadLimit,
    SupportsTriggerAvailableNow,
)
from tidelake.spark.streams.connector.stream_options import stream_options
from tidelake.spark.streams.read.cursor import StreamCursor
from tidelake.spark.streams.read.hold import HoldName, SourceHold
from tidelake.spark.streams.read.request import (
    Kinds,
    StreamRequest,
    delete_error,
    keeps_order,
)
from tidelake.types import RowKind
from tidelake.types.predicate import bind, parse_filter

_OWN = ("path", "warehouse", "table", "columns", "where")
_MOMENTS = {
    "snapshot-id": declared.SCAN_SNAPSHOT_ID.key,
    "timestamp": declared.SCAN_TIMESTAMP.key,
    "tag": declared.SCAN_TAG_NAME.key,
}
"""Names of a moment in a batch read; in a stream they name its start."""


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """The arguments of a stream, besides the table."""

    where: str | None
    table_options: Mapping[str, str]

    @classmethod
    def of(cls, options: Mapping[str, str]) -> StreamOptions:
        """Take the options of ``readStream``, keys in any case.

        Raises
        ------
        InvalidInputError
            A key is unknown; the message offers near names.
        """
        folded = {key.lower(): str(value) for key, value in options.items()}
        own = {_MOMENTS.get(key, key): text for key, text in folded.items() if key not in _OWN}
        return cls(folded.get("where"), stream_options(own))


@dataclass
class UnitPartition(InputPartition):  # type: ignore[misc]  # pyspark carries no types here
    """One task of a batch: parts in order, their reader, and the handling of kinds."""

    task: ChangeTask
    parts: tuple[PartBytes, ...]
    kinds: Kinds


class TidelakeStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Plans the batches of one query, and reads partitions of them."""

    def __init__(self, table: Table, names: Sequence[str], where: str | None) -> None:
        parsed = parse_filter(where)
        self._predicate = None if parsed is None else bind(parsed, table.handle.schema.fields)
        schema_id = table.table_schema.id
        request = StreamRequest.of(table, schema_id, names, predicate=self._predicate)
        # the checkpoint's query is not known here: what is held is held while this process lives
        name = HoldName.of(None, None, otherwise=request.plan.handle.env.ids.uuid())
        self._cursor = StreamCursor(request.plan, SourceHold(request.plan, name, lambda: False))
        self._kinds = request.kinds
        shows_kinds = request.kinds is Kinds.SHOWN
        self._leaving = change_filter(table.handle, self._predicate, names) if shows_kinds else None
        self._names = tuple(names)

    def __getstate__(self) -> dict[str, object]:
        return {}  # partitions carry all that a task needs

    # ---- offsets

    def initialOffset(self) -> dict[str, Any]:
        """Not begun: the first rows determine where a stream begins."""
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:
        """No limit of Spark's: those of the options hold with every trigger."""
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """Stop at the newest snapshot that exists now."""
        self._cursor.fix_end()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: ARG002 - Spark names it
        """The end of the next batch; `start` itself if nothing is new."""
        end = self._cursor.next(_text(start))
        return start if end is None else json.loads(end)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The position after the newest snapshot, for progress."""
        latest = self._cursor.latest()
        return None if latest is None else json.loads(latest)

    def commit(self, end: dict[str, Any]) -> None:
        """Record that all before the offset was read."""
        done = _text(end)
        if done is not None:
            self._cursor.done_before(done)

    def stop(self) -> None:
        """The query ends."""
        self._cursor.close()

    # ---- rows

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks of a batch."""
        until = _text(end)
        if until is None:
            return []
        plan = self._cursor.plan
        first, last = self._cursor.between(_text(start), until)
        self._cursor.hold_from(first)
        wanted = [name for name in self._names if name != ROW_KIND_COLUMN]
        changes = plan.parts(
            first, last, columns=wanted, predicate=self._predicate, leaving=self._leaving
        ).once()
        task, parts = ChangeTask(changes.rows), list(changes.parts())
        units = (
            [ChangeUnit(tuple(parts))]
            if changes.span_buckets(parts)
            else change_units(parts, ordered=keeps_order(plan.handle))
        )
        return [
            UnitPartition(task, tuple(map(PartBytes.of, unit.parts)), self._kinds) for unit in units
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task, in the order of the columns that Spark knows."""
        if not isinstance(partition, UnitPartition):
            return  # Spark's stand-in for an empty plan
        shows = partition.kinds is Kinds.SHOWN
        for part in partition.parts:
            for batch in partition.task.batches(part.blobs):
                rows = batch if shows else _without_kinds(batch, partition)
                if rows.num_rows:
                    yield rows


def _text(offset: dict[str, Any]) -> str | None:
    return json.dumps(offset) if offset else None


def _without_kinds(batch: pa.RecordBatch, partition: UnitPartition) -> pa.RecordBatch:
    """The rows that a stream without kinds shows."""
    rows = batch.drop_columns([ROW_KIND_COLUMN])
    if partition.kinds is Kinds.INSERTS:
        return rows
    kinds = batch.column(ROW_KIND_COLUMN)
    if partition.kinds is Kinds.CHECKED and pc.any(pc.equal(kinds, str(RowKind.DELETE))).as_py():
        raise InvalidInputError(delete_error(partition.task.rows.context.uri), kind="stream_delete")
    shown = pa.array([str(RowKind.INSERT), str(RowKind.UPDATE_AFTER)])
    return rows.filter(pc.is_in(kinds, shown))
