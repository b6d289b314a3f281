"""Methods of a Lake for declared tables of Kafka."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from tidelake.engine.tables import Catalog, known_columns
from tidelake.engine.write import WriteResult
from tidelake.errors import InvalidInputError, NotFoundError, UnsupportedError
from tidelake.kafka import KafkaTable
from tidelake.kafka.rows import KIND
from tidelake.spark.expression.expression import quoted
from tidelake.spark.sql.declared_stream import declared_stream
from tidelake.spark.stream_read_methods import StreamReadMethods
from tidelake.spark.stream_write_methods import StreamWriteMethods
from tidelake.spark.streams.kafka.declared_table import kafka_table
from tidelake.spark.streams.kafka.messages_write import write_messages
from tidelake.spark.streams.kafka.slices_frame import batch_frame
from tidelake.spark.streams.kafka.stream_sink import start_messages
from tidelake.spark.streams.write.start import Trigger
from tidelake.sql.execution.session import ForeignTable, SqlSession
from tidelake.sql.syntax.ast import CreateTable
from tidelake.sql.syntax.name import TableName


class KafkaMethods(StreamReadMethods, StreamWriteMethods):
    """Finds, reads and writes tables that ``WITH ('connector' = 'kafka')`` declared."""

    catalog: Catalog

    @property
    @abc.abstractmethod
    def spark(self) -> SparkSession:
        """The session."""

    @abc.abstractmethod
    def _sql_session(self) -> SqlSession | None:
        """The session of SQL statements; None before the first one."""

    def _kafka_table(
        self, name: object, options: Mapping[str, object] | None = None
    ) -> KafkaTable | None:
        """Find the table of Kafka of a name, if one was declared."""
        found = self._declaration(name)
        return None if found is None else kafka_table(found, _texts(options))

    def _declaration(self, name: object) -> CreateTable | None:
        """Find the declaration of a table of another system."""
        session = self._sql_session()
        if session is None or not isinstance(name, str):
            return None
        parsed = TableName(tuple(name.split(".")))
        session.refuse_foreign_system_table(parsed)
        found = session.find_temporary(parsed)
        return found.definition if isinstance(found, ForeignTable) else None

    def _kafka_rows(
        self,
        table: KafkaTable,
        columns: Sequence[str] | None,
        where: object,
        moment: Mapping[str, object],
    ) -> DataFrame:
        """Read the messages of a topic as a batch; changes have ``_row_kind`` in front."""
        if any(value is not None for value in moment.values()):
            message = (
                f"Table '{table.name}' is of Kafka, which has no snapshots: set where to begin,"
                " options={'scan.startup.mode': ...}."
            )
            raise InvalidInputError(message, kind="no_time_travel", table=table.name)
        every = [*([KIND] if table.has_changes else []), *(f.name for f in table.fields)]
        if where is None:
            return batch_frame(self.spark, self.catalog, table, _wanted(table, columns))
        rows = batch_frame(self.spark, self.catalog, table, every)
        return _selected(rows, table, columns, where)

    def _write_kafka(self, table: KafkaTable, frame: object, mode: str) -> WriteResult:
        """Write rows as messages, at least once; the result has their number but no snapshot."""
        if mode != "append":
            message = (
                f"Table '{table.name}' is of Kafka, which only appends: write with mode='append'."
            )
            raise UnsupportedError(message, kind="bad_mode", table=table.name)
        rows = frame if isinstance(frame, DataFrame) else self.spark.createDataFrame(frame)
        return WriteResult(rows=write_messages(table, rows))

    def read_kafka_stream(
        self, name: str, *, options: Mapping[str, object] | None = None
    ) -> DataFrame:
        """Read a declared table of Kafka as a stream.

        Parameters
        ----------
        name : str
            The table of ``CREATE TABLE ... WITH ('connector' = 'kafka', ...)``.
        options : mapping, optional
            Options of this stream, over the declared ones, such as ``scan.startup.mode`` and
            ``read.stream.maxRowsPerTrigger``.

        Returns
        -------
        DataFrame
            A streaming one; changes have the column ``_row_kind`` in front. The watermark of the
            declaration is applied. The query's checkpoint keeps offsets. They are never committed
            to Kafka.

        Raises
        ------
        NotFoundError
            No table of that name was declared.
        """
        found = self._read_declared(name, None, None, options)
        if found is None:
            message = (
                f"No table '{name}' of Kafka is declared in this session: tl.sql(\"CREATE TABLE"
                f" {name} (...) WITH ('connector' = 'kafka', ...)\")."
            )
            raise NotFoundError(message, kind="table_not_found", table=name)
        return found

    def _read_declared(
        self,
        name: str,
        columns: Sequence[str] | None,
        where: object,
        options: Mapping[str, object] | None,
    ) -> DataFrame | None:
        found = self._declaration(name)
        if found is None:
            return None
        rows = declared_stream(self.spark, self.catalog, found, _texts(options))
        return _selected(rows, kafka_table(found, _texts(options)), columns, where)

    def _write_declared(
        self, frame: DataFrame, name: str, given: Mapping[str, Any]
    ) -> StreamingQuery | None:
        if self._kafka_table(name) is None:
            return None
        return self.write_kafka_stream(frame, name, **given)

    def write_kafka_stream(
        self,
        frame: DataFrame,
        name: str,
        *,
        checkpoint: str | Path | None = None,
        trigger: Trigger = None,
        mode: str = "append",
        options: Mapping[str, object] | None = None,
        query_name: str | None = None,
    ) -> StreamingQuery:
        """Start a query that writes a stream as messages of a topic, at least once.

        Parameters
        ----------
        frame : DataFrame
            A stream with the table's columns, and ``_row_kind`` if rows are changes.
        name : str
            The declared table.
        checkpoint, trigger, mode, query_name
            As of :meth:`tidelake.spark.Lake.write_stream`.
        options : mapping, optional
            Options of the table for this query.

        Raises
        ------
        NotFoundError
            No table of that name was declared.
        InvalidInputError, UnsupportedError
            The rows or the mode do not fit; no query was started.

        Notes
        -----
        A batch that Spark repeats after a failure is written again.
        """
        found = self._kafka_table(name, options)
        if found is None:
            message = f"No table '{name}' of Kafka is declared in this session."
            raise NotFoundError(message, kind="table_not_found", table=name)
        return start_messages(
            frame, found, checkpoint, trigger=trigger, mode=mode, query_name=query_name
        )


def _texts(options: Mapping[str, object] | None) -> dict[str, str]:
    return {key: str(value) for key, value in (options or {}).items() if value is not None}


def _wanted(table: KafkaTable, columns: Sequence[str] | None) -> list[str]:
    """List the columns of a read; changes have their kinds in front."""
    own = [f.name for f in table.fields]
    kinds = [KIND] if table.has_changes else []
    if columns is None:
        return kinds + own
    asked = known_columns(columns, [KIND, *own], table=table.name)
    return [*(k for k in kinds if k not in asked), *asked]


def _selected(
    rows: DataFrame, table: KafkaTable, columns: Sequence[str] | None, where: object
) -> DataFrame:
    """Select the rows and columns wanted."""
    if where is not None:
        if not isinstance(where, str):
            message = (
                f"A filter of table '{table.name}' of Kafka must be text; use a later where() for"
                " others."
            )
            raise InvalidInputError(message, kind="bad_filter", table=table.name)
        rows = rows.where(where)
    return rows.select(*(F.col(quoted(name)) for name in _wanted(table, columns)))
