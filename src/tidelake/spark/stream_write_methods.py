"""Methods of a Lake that write streams."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery

from tidelake.engine.tables import Table
from tidelake.spark.streams.write.start import StreamTarget, Trigger, start_stream


class StreamWriteMethods(abc.ABC):
    """Starts queries that write to tables."""

    @abc.abstractmethod
    def _in_session(self, table: Table, options: Mapping[str, object] | None) -> Table: ...

    @abc.abstractmethod
    def _data_table(self, name: str, *, use: str = ...) -> Table: ...

    @abc.abstractmethod
    def _write_declared(
        self, frame: DataFrame, name: str, given: Mapping[str, Any]
    ) -> StreamingQuery | None:
        """Start a query into a declared table of another system; None for a table of ours."""

    def write_stream(
        self,
        frame: DataFrame,
        name: str,
        *,
        checkpoint: str | Path | None = None,
        trigger: Trigger = None,
        mode: str = "append",
        options: Mapping[str, object] | None = None,
        query_name: str | None = None,
        tasks: int | None = None,
    ) -> StreamingQuery:
        """Start a query that writes a stream to a table, each micro-batch in one commit, once.

        Parameters
        ----------
        frame : DataFrame
            A stream: from ``spark.readStream``, or from tables. Columns are matched with the
            table's by name, as in :meth:`write`. A column ``_row_kind`` gives the kind of each row.
        name : str
            ``"database.table"``; or a declared table of Kafka, which gets each row at least once
            and takes ``sink.parallelism`` instead of `tasks`.
        checkpoint : str or Path
            A folder of this query's own, which outlives the process. A query that starts again with
            it goes on where it was. There is no default.
        trigger : str or dict, optional
            ``"10 seconds"``: a batch every 10 seconds; ``"availableNow"``: write all current rows,
            then end; or the arguments of Spark's ``trigger``. By default a batch begins when the
            previous one is done.
        mode : {'append', 'update', 'complete'}
            Spark's output mode. ``append`` adds rows, which is an upsert on a primary-key table.
            ``update`` upserts changed rows, on a primary-key table only. ``complete`` replaces the
            whole table.
        options : mapping, optional
            Options of the table for this query, such as ``write-only``, ``sink.parallelism`` or
            ``sink.local-rows``, over those of the session: see :class:`Lake`.
        query_name : str, optional
            Spark's name for the query.
        tasks : int, optional
            Number of tasks that write a large batch.

        Returns
        -------
        StreamingQuery
            Spark's own. If the table refuses a batch, ``awaitTermination`` raises the table's
            error.

        Raises
        ------
        InvalidInputError
            There is no checkpoint, or it belongs to another query; or the rows, their columns or
            the mode do not fit the table. No query was started.

        Notes
        -----
        Spark repeats a batch if it or the driver died before Spark recorded the batch as done. The
        sink finds such a batch in the table's history by the checkpoint's query id, and does not
        write it again. A batch makes up to two snapshots: its rows, and a compaction. A batch
        without rows makes none, unless ``commit.force-create-snapshot`` is set.

        If the stream has a watermark, the snapshots carry it. It never goes back.
        """
        given = {
            "checkpoint": checkpoint,
            "trigger": trigger,
            "mode": mode,
            "options": options,
            "query_name": query_name,
        }
        if (declared := self._write_declared(frame, name, given)) is not None:
            return declared
        table = self._in_session(self._data_table(name), options)
        return start_stream(
            frame,
            StreamTarget(
                table.handle,
                checkpoint,
                mode=mode,
                trigger=trigger,
                query_name=query_name,
                tasks=tasks,
            ),
        )
