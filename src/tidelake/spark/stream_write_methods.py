"""Methods of a Lake that write streams, and apply feeds of changes."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from tidelake.engine.tables import Catalog, Table
from tidelake.engine.write import CommitIdentity, WriteResult, WriteTransaction
from tidelake.errors import InvalidInputError
from tidelake.spark.errors.analysis_errors import translate_value_range_errors
from tidelake.spark.errors.value_errors import translate_table_errors
from tidelake.spark.sessions.cancellation import interruptible
from tidelake.spark.streams.applychanges.apply import AppliedChanges
from tidelake.spark.streams.applychanges.changes_sink import start_changes
from tidelake.spark.streams.applychanges.definition import Given, Names, defined
from tidelake.spark.streams.applychanges.target_tables import target_tables
from tidelake.spark.streams.write.checkpoint import Checkpoint
from tidelake.spark.streams.write.start import (
    StreamTarget,
    Trigger,
    start_stream,
    trigger_arguments,
)


class StreamWriteMethods(abc.ABC):
    """Starts queries that write to tables."""

    catalog: Catalog

    @property
    @abc.abstractmethod
    def spark(self) -> SparkSession:
        """The session that queries run on."""

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

    def apply_changes(  # noqa: PLR0913  # the names that AUTO CDC has
        self,
        source: DataFrame,
        name: str,
        *,
        keys: Names,
        sequence_by: Names,
        apply_as_deletes: str | object = None,
        apply_as_truncates: str | object = None,
        except_columns: Names | None = None,
        columns: Names | None = None,
        ignore_null_updates: bool = False,
        scd_type: int | str = 1,
        track_history_columns: Names | None = None,
        checkpoint: str | Path | None = None,
        trigger: Trigger = None,
        query_name: str | None = None,
        options: Mapping[str, object] | None = None,
        tasks: int | None = None,
    ) -> WriteResult | StreamingQuery:
        """Apply a feed of changes to a table; late and doubled changes do no harm.

        What Databricks has as ``AUTO CDC INTO``, before that ``APPLY CHANGES INTO``.

        Parameters
        ----------
        source : DataFrame
            The changes, in any order: a batch, or a stream.
        name : str
            ``"database.table"``; it is made if missing, and ``<table>__apply_changes`` beside it,
            which keeps what late changes need.
        keys : str, Column or list of them
            The columns that identify a row.
        sequence_by : str, Column or list of them
            What orders the changes of a key: whole numbers, DECIMAL, text, dates or times. A
            struct is ordered by its fields. A key has one change for each value; of a delete and
            another change with one value the delete counts.
        apply_as_deletes : str or Column, optional
            Which changes delete their row: a condition, such as ``"op = 'DELETE'"``.
        apply_as_truncates : str or Column, optional
            Which changes remove all rows that are not newer. For type 1.
        except_columns, columns : str, Column or list of them, optional
            The columns that the target does not have, or those that it has; all by default.
        ignore_null_updates : bool
            Whether a null leaves the value as it was.
        scd_type : {1, 2}
            1 keeps the newest row of each key. 2 keeps all versions, with the columns
            ``__START_AT`` and ``__END_AT``; the current version has a null in ``__END_AT``.
        track_history_columns : str, Column or list of them, optional
            The columns whose change opens a version, for type 2; a change of others changes the
            version that is there. Every change opens a version by default.
        checkpoint : str or Path, optional
            For a stream, as of :meth:`write_stream`.
        trigger : str or dict, optional
            For a stream, as of :meth:`write_stream`.
        query_name : str, optional
            Spark's name for the query of a stream.
        options : mapping, optional
            Options of a table that is made, such as ``bucket``.
        tasks : int, optional
            Number of tasks that write.

        Returns
        -------
        WriteResult or StreamingQuery
            The result for a batch; the query for a stream.

        Raises
        ------
        InvalidInputError
            Arguments or columns are wrong, or do not fit the table that is there; or a change has a
            null in its key or sequence. No change was applied.
        UnsupportedError
            Truncations are asked for with type 2; or a stream on Spark Connect.
        ConflictError
            Other commits wrote to the same keys in every attempt; no change was applied.

        Notes
        -----
        A batch makes one commit into the target. Each batch of a stream is applied once; a batch
        DataFrame that is applied again changes nothing. ``docs/apply-changes.md`` says more.

        Examples
        --------
        >>> tl.apply_changes(  # doctest: +SKIP
        ...     feed,
        ...     "shop.users",
        ...     keys=["id"],
        ...     sequence_by="changed_at",
        ...     apply_as_deletes="op = 'DELETE'",
        ...     except_columns=["op"],
        ...     scd_type=2,
        ... )
        """
        if not isinstance(source, DataFrame):
            message = f"source of changes for table '{name}' is a DataFrame, not {source!r}."
            raise InvalidInputError(message, kind="apply_changes", table=name)
        given = Given(
            keys,
            sequence_by,
            apply_as_deletes,
            apply_as_truncates,
            except_columns,
            columns,
            ignore_null_updates,
            scd_type,
            track_history_columns,
        )
        definition, rows = defined(source, name, given)
        _check_run(source, name, checkpoint, trigger, tasks)
        tables = target_tables(self.catalog, definition, source.schema, options)
        target = self._in_session(tables.target, None).handle
        kept = self._in_session(tables.kept, None).handle
        changes = AppliedChanges(definition, kept, tasks)
        if source.isStreaming:
            to = StreamTarget(target, checkpoint, trigger=trigger, query_name=query_name)
            return start_changes(rows, to, changes)
        identity = CommitIdentity.of(target, None, None)
        with translate_table_errors(name), translate_value_range_errors():
            return interruptible(
                self.spark, lambda: changes.apply(WriteTransaction(target, identity), rows)
            )


def _check_run(
    source: DataFrame,
    name: str,
    checkpoint: str | Path | None,
    trigger: Trigger,
    tasks: int | None,
) -> None:
    """Refuse arguments of a run before any table is made."""
    if tasks is not None and tasks < 1:
        message = f"tasks must be a number from 1 on, not {tasks!r}."
        raise InvalidInputError(message, kind="bad_tasks", table=name)
    if source.isStreaming:
        Checkpoint.of(checkpoint, table=name, spark=source.sparkSession)
        trigger_arguments(trigger, table=name)
    elif checkpoint is not None or trigger is not None:
        message = (
            f"checkpoint and trigger of changes for table '{name}' are for a stream, and the source"
            " is a batch: leave them out, or read the source by spark.readStream."
        )
        raise InvalidInputError(message, kind="no_stream", table=name)
