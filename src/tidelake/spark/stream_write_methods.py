"""Methods of a Lake that write streams."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery

from tidelake.spark.streamwrite.start import StreamTarget, Trigger, start_stream
from tidelake.table import Table

__all__ = ["StreamWriteMethods"]


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
        """Start the query where the table is one of another system; None for one of ours."""

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
            A stream: of ``spark.readStream``, or of tables. Its columns are matched with the
            table's by name, as by :meth:`write`; a column ``_row_kind`` says what each row does.
        name : str
            ``"database.table"``; or a declared table of Kafka, which is written at least once, with
            ``sink.parallelism`` in the place of `tasks`.
        checkpoint : str or Path
            A folder of this query's own, which outlives the process: a query that is started again
            with it goes on where it was. There is no default.
        trigger : str or dict, optional
            ``"10 seconds"``: a batch as often; ``"availableNow"``: all that is there, then the end;
            or the arguments of Spark's ``trigger``. By default a batch begins when the one before
            is done.
        mode : {'append', 'update', 'complete'}
            Spark's output mode. Rows are added, which is an upsert on a primary-key table; rows
            that changed are put in place of those of their keys, on a primary-key table only; all
            rows replace the whole table.
        options : mapping, optional
            Options of the table for this query, such as ``write-only``, ``sink.parallelism`` or
            ``sink.local-rows``, over those of the session: see :class:`Lake`.
        query_name : str, optional
            What Spark calls the query.
        tasks : int, optional
            Number of tasks that write a batch which is not small.

        Returns
        -------
        StreamingQuery
            Spark's own. Where the table refuses a batch, ``awaitTermination`` raises why.

        Raises
        ------
        InvalidInputError
            There is no checkpoint, or it is that of another query; or the rows, their columns or
            the mode do not fit the table. Nothing was started.

        Notes
        -----
        A batch that Spark gives again, because it or the driver died before Spark noted the batch
        as done, is found in the table's history by the checkpoint's query id, and is not written
        again. A batch is up to two snapshots: its rows, and what was compacted with them; one
        without rows makes none, unless ``commit.force-create-snapshot`` is set.

        Where the stream has a watermark, the snapshots carry it: it never goes back.
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
