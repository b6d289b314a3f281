"""Tables of a warehouse on a Spark session: DataFrames in, DataFrames out.

>>> import tidelake.spark                                    # doctest: +SKIP
>>> spark = tidelake.spark.session("demo")                   # doctest: +SKIP
>>> tl = tidelake.spark.attach(spark, "/tmp/warehouse")      # doctest: +SKIP
>>> tl.create_table("shop.orders", frame, primary_keys=["id"])  # doctest: +SKIP
>>> tl.write(frame, "shop.orders")                           # doctest: +SKIP
>>> tl.table("shop.orders", columns=["id", "price"], where="price > 10").show()  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import types as st
from pyspark.sql.utils import is_remote

from tidelake.engine.jobs import Chosen, expire_after_compaction, order_of
from tidelake.engine.streams import ChangesMode, planned_changes
from tidelake.engine.tables import Catalog, Moment, SystemTable, Table, facts_html
from tidelake.engine.write import CommitIdentity, WriteResult
from tidelake.errors import ClosedError, InvalidInputError, UnsupportedError
from tidelake.foreign_names import with_hints
from tidelake.spark._optional import statements_of
from tidelake.spark.catalog import opened_catalog, register
from tidelake.spark.cdc_methods import CdcMethods
from tidelake.spark.errors.analysis_errors import translate_value_range_errors
from tidelake.spark.errors.value_errors import translate_table_errors
from tidelake.spark.expression.types import fields_from_spark
from tidelake.spark.job_methods import JobMethods
from tidelake.spark.kafka_methods import KafkaMethods
from tidelake.spark.lookup_methods import LookupMethods
from tidelake.spark.read.changes_frame import changes_frame
from tidelake.spark.read.table_frame import in_session, table_frame
from tidelake.spark.rowlevel.delete_update import delete_on_spark, update_on_spark
from tidelake.spark.service_methods import ServiceMethods
from tidelake.spark.sessions.cancellation import interruptible
from tidelake.spark.sessions.session import is_stopped, prepare
from tidelake.spark.sessions.time_zone import session_ms, session_zone
from tidelake.spark.source.session_storages import register_source
from tidelake.spark.streams.connector.provider import offer_streams, ready_class
from tidelake.spark.streams.connector.sink import open_sink
from tidelake.spark.streams.read.opening import open_source, source_schema
from tidelake.spark.write.compaction import compact_on_spark
from tidelake.spark.write.schema_merging import merged, merges_schema
from tidelake.spark.write.write_frame import check_batch, write_frame
from tidelake.types.schema_change import SchemaChange

if TYPE_CHECKING:
    from tidelake.spark.sql.merge_builder import MergeBuilder
    from tidelake.spark.sql.statements import Statements
    from tidelake.sql.execution.session import SqlSession

DEFAULT_CATALOG = "tidelake"


def attach(
    spark: SparkSession,
    warehouse: str | Path | Catalog,
    *,
    catalog: str = DEFAULT_CATALOG,
    options: Mapping[str, object] | None = None,
    memory: int | str | None = None,
    spark_sql: bool | None = None,
    storage: Mapping[str, object] | None = None,
) -> Lake:
    """Open a warehouse on a Spark session.

    Settings that help Tidelake are added to the session unless they are set
    (:data:`tidelake.spark.sessions.session.RUNTIME_CONF`), and ``format("tidelake")`` is registered
    in it.

    Parameters
    ----------
    spark : SparkSession
        Of :func:`tidelake.spark.session`, or any other.
    warehouse : str, Path or Catalog
        A directory that the driver and all executors see under this path, or a URI such as
        ``s3://bucket/prefix``; or a catalog of :func:`tidelake.open`, such as one in a database,
        opened with its own options, memory and storage.
    catalog : str
        Its name in statements of :meth:`Lake.sql` and of ``spark.sql``.
    options : mapping, optional
        Of the catalog; see :func:`tidelake.open`.
    memory : int or str, optional
        Memory that the driver's process, and each Python process of an executor, may use for
        Tidelake; see :func:`tidelake.open`. Spark's own settings bound the JVM.
    spark_sql : bool, optional
        Whether ``spark.sql``, ``spark.table`` and ``frame.writeTo`` of this session know the
        tables too, as ``<catalog>.<database>.<table>``; by default if possible. It is not
        possible through Spark Connect.
    storage : mapping, optional
        How to reach an object store; see :func:`tidelake.open`. Secrets among these keys reach
        executors in a broadcast; without keys each executor takes those of its environment or role.

    Raises
    ------
    InvalidInputError
        The session has a catalog of that name that is not Tidelake's.
    UnsupportedError
        `spark_sql` is true, and the session is one of Spark Connect.
    """
    prepare(spark)
    opened = opened_catalog(warehouse, options=options, storage=storage, memory=memory)
    register_source(spark, opened)
    known = spark_sql is not False and register(spark, opened, name=catalog, runner_of=Lake)
    if spark_sql and not known:
        message = (
            "spark.sql cannot know the tables of a warehouse through Spark Connect, because this"
            " process has no JVM for the catalog: leave spark_sql out, and use tl.sql,"
            f" tl.table and tl.write of tl = attach(spark, '{warehouse}')."
        )
        raise UnsupportedError(message, kind="spark_connect")
    if not is_remote():
        offer_streams(
            spark, opened, name=catalog, source=open_source, schema=source_schema, sink=open_sink
        )
        ready_class(spark)
    return Lake(spark, opened, catalog_name=catalog)


class Lake(JobMethods, CdcMethods, KafkaMethods, LookupMethods, ServiceMethods):
    """A warehouse on a Spark session; made by :func:`attach`.

    A setting ``spark.tidelake.<option>`` of the session is an option of every table that is read
    or written through it. ``spark.tidelake.<database>.<table>.<option>`` is for that table only,
    and overrides it. Options given with a call override both.

    Parameters
    ----------
    spark : SparkSession
        The session of reads and writes.
    catalog : Catalog
        The warehouse.
    catalog_name : str
        Its name in statements.
    """

    def __init__(
        self, spark: SparkSession, catalog: Catalog, *, catalog_name: str = DEFAULT_CATALOG
    ) -> None:
        self._spark = spark
        self.catalog = catalog
        self.catalog_name = catalog_name
        self._statements: Statements | None = None

    def __repr__(self) -> str:
        return f"Lake('{self.catalog.uri}')"

    def _repr_html_(self) -> str:
        state = "stopped" if is_stopped(self._spark) else f"Spark {self._spark.version}"
        lines = [("session", state), ("name in SQL", self.catalog_name)]
        return facts_html("Lake", lines) + self.catalog._repr_html_()

    @property
    def spark(self) -> SparkSession:
        """The session that reads and writes run on."""
        if is_stopped(self._spark):
            message = (
                f"The Spark session of the warehouse {self.catalog.uri} was stopped: start"
                " one with spark = tidelake.spark.session(), and attach the warehouse with"
                " tl = tidelake.spark.attach(spark, ...)."
            )
            raise ClosedError(message, kind="spark_stopped")
        return self._spark

    def sql(
        self, text: str, args: Mapping[str, object] | Sequence[object] | None = None
    ) -> DataFrame:
        """Run a statement in Spark's SQL or Flink's, or several separated by semicolons.

        Parameters
        ----------
        text : str
            SELECT, INSERT, CREATE, ALTER, SHOW, ...: ``docs/sql.md`` lists them. Tables of this
            warehouse, and of others by CREATE CATALOG, stand beside the session's own views.
        args : mapping or sequence, optional
            Values of a query's parameters, as of ``spark.sql``.

        Returns
        -------
        DataFrame
            Of the last statement; empty and without columns if it has no answer. A query shows its
            tables as they were at this call.

        Raises
        ------
        InvalidInputError, UnsupportedError, NotFoundError, AlreadyExistsError
            What is wrong, where in the text, and what to write.
        """
        return self._sql().run(text, args)

    def _sql_session(self) -> SqlSession | None:
        return None if self._statements is None else self._statements.session

    def _sql(self) -> Statements:
        spark = self.spark
        if self._statements is None:
            self._statements = statements_of(
                spark,
                self.catalog,
                catalog_name=self.catalog_name,
                runner_of=self._runner_of,
                jobs=self._job_registry,
            )
        return self._statements

    def _runner_of(self, catalog: Catalog) -> Lake:
        # itself, so that jobs of procedures are among its own
        return self if catalog is self.catalog else Lake(self.spark, catalog)

    @with_hints
    def table(
        self,
        name: str,
        columns: Sequence[str] | None = None,
        where: object = None,
        *,
        snapshot_id: int | None = None,
        timestamp: int | str | datetime | None = None,
        tag: str | None = None,
        options: Mapping[str, object] | None = None,
    ) -> DataFrame:
        """Read a table.

        Parameters
        ----------
        name : str
            ``"database.table"``, or a system table such as ``"database.table$files"``.
        columns : sequence of str, optional
            The columns wanted; all by default. **Name them here** and not only in a later
            ``select``: Spark's optimiser cannot reach into the merging part of the plan, so
            unwanted columns cost as much as wanted ones.
        where : str, Predicate or list of tuples, optional
            The rows wanted, e.g. ``"day = '2026-11-21' AND price > 10"``. It prunes files and is
            applied where the rows are read; a later ``where`` gives the same rows, but slower.
        snapshot_id, timestamp, tag
            At most one: the moment to read, with the columns of that moment. A time without a zone
            is in the session's.
        options : mapping, optional
            Options of the table for this read, over those of the session: see :class:`Lake`.

        Returns
        -------
        DataFrame
            The state of the table at this call: later commits do not change it. Spark itself scans
            files that need no merge; executors merge the others.

        Raises
        ------
        NotFoundError
            No such table, column, snapshot or tag; the message offers near names.
        """
        at_ms = session_ms(self.spark, timestamp)
        moment = {"snapshot_id": snapshot_id, "timestamp": at_ms, "tag": tag}
        if (declared := self._kafka_table(name, options)) is not None:
            return self._kafka_rows(declared, columns, where, moment)
        found = self.catalog.table(name)
        if isinstance(found, SystemTable) and options is not None:
            base, system = name.rsplit("$", 1) if "$" in name else (name, "")
            table = self.catalog.table(base)
            if not isinstance(table, Table):
                message = f"'{name}' is a table of the catalog: it has no options."
                raise InvalidInputError(message, kind="system_table", table=name)
            found = table.with_options(options).system_table(system)
        if isinstance(found, Table):
            found = self._in_session(found, options)
            if columns is not None and not list(columns):
                message = f"columns=[] selects nothing of table '{name}': name at least one column."
                raise InvalidInputError(message, kind="no_columns", table=name)
        return table_frame(
            self.spark,
            found,
            name,
            columns=columns,
            where=where,
            moment=moment,
        )

    @with_hints
    def changes(
        self,
        name: str,
        start: Moment,
        end: Moment | None = None,
        *,
        columns: Sequence[str] | None = None,
        where: object = None,
        mode: ChangesMode = "diff",
        options: Mapping[str, object] | None = None,
    ) -> DataFrame:
        """Read what changed after `start`, up to and with `end`, on the executors.

        Parameters
        ----------
        name : str
            ``"database.table"``.
        start, end, columns, where, mode
            As of :meth:`tidelake.Table.changes_batches`.
        options : mapping, optional
            Options of the table for this read, over those of the session: see :class:`Lake`.

        Returns
        -------
        DataFrame
            ``_row_kind`` (``+I``, ``-U``, ``+U``, ``-D``) and the columns, as of this call. **Its
            rows have no order**: if several commits changed one key, a changelog does not show
            which change came first. Replay commit by commit, or read the net change
            (``mode="diff"``), which has one change a key.

        Raises
        ------
        NotFoundError
            No such table, column, snapshot or tag; or a snapshot in between has expired.
        UnsupportedError
            The table has no changes of that mode.
        """
        table = self._in_session(self._data_table(name, use="changes are read of"), options)
        zone, h = session_zone(self.spark), table.handle
        changes = planned_changes(
            h, start, end, columns=columns, where=where, mode=mode, zone=zone, retracts=True
        )
        return changes_frame(self.spark, changes, table=name)

    def create_table(
        self,
        name: str,
        schema: object,
        *,
        primary_keys: Sequence[str] = (),
        partition_keys: Sequence[str] = (),
        options: Mapping[str, object] | None = None,
        comment: str | None = None,
        if_exists: str = "error",
    ) -> Table:
        """Create an empty table with the columns of a frame; no rows are written.

        Parameters
        ----------
        name : str
            ``"database.table"``; a missing database is created.
        schema : DataFrame, StructType, str, or anything that ``Catalog.create_table`` takes
            The columns; text is Spark's DDL: ``"id bigint, price decimal(10,2)"``. A pandas or
            Polars frame, an Arrow schema or a dict of types are as of
            :meth:`tidelake.Catalog.create_table`.
        primary_keys, partition_keys, options, comment, if_exists
            As of :meth:`tidelake.Catalog.create_table`.

        Returns
        -------
        Table
            The table, for use without Spark.
        """
        columns = schema.schema if isinstance(schema, DataFrame) else schema
        if isinstance(columns, str):
            columns = st.StructType.fromDDL(columns)
        if isinstance(columns, st.StructType):
            columns = fields_from_spark(columns, table=name)
        return self.catalog.create_table(
            name,
            columns,
            primary_keys=primary_keys,
            partition_keys=partition_keys,
            options=options,
            comment=comment,
            if_exists=if_exists,
        )

    def alter_table(self, name: str, changes: Sequence[SchemaChange]) -> None:
        """Change a table's schema: all of the changes, in order, or none.

        Parameters
        ----------
        name : str
            ``"database.table"``.
        changes : sequence of SchemaChange
            :class:`tidelake.AddColumn`, :class:`tidelake.RenameColumn`, ...
        """
        self.catalog.alter_table(name, changes)

    def write(
        self,
        frame: object,
        name: str,
        mode: str = "append",
        *,
        partition: Mapping[str, object] | None = None,
        commit_user: str | None = None,
        commit_identifier: int | None = None,
        tasks: int | None = None,
        options: Mapping[str, object] | None = None,
    ) -> WriteResult:
        """Write rows in one commit; on a primary-key table this is an upsert.

        Parameters
        ----------
        frame : DataFrame, or anything that :meth:`tidelake.Table.write` takes
            A pandas or Polars frame, an Arrow table or a list of dicts is already in this process:
            the kernel writes it here, as :meth:`tidelake.Table.write` does, without a Spark job. A
            DataFrame's columns are matched by name; with the option ``write.merge-schema`` it may
            have more, and the table gets them. A column ``_row_kind`` gives each row's kind:
            ``'+I'``, ``'+U'`` insert or replace, ``'-D'``, ``'-U'`` delete. Of two rows of one key
            in one DataFrame either may win, unless the table has ``sequence.field``.
        name : str
            ``"database.table"``.
        mode : {'append', 'overwrite'}
            ``'overwrite'`` replaces the given `partition`. Without it, it replaces the partitions
            of the rows (or with the option ``dynamic-partition-overwrite = false`` the whole
            table), or a whole unpartitioned table.
        partition : mapping, optional
            Values of some partition columns: the partitions to overwrite.
        commit_user, commit_identifier : str and int, optional
            Give both to write exactly once: a user's identifiers rise from commit to commit, and a
            write with an identifier that is already committed does nothing.
        tasks : int, optional
            Number of writing tasks; by default from the size of the input. One task writes a whole
            bucket. For a DataFrame only.
        options : mapping, optional
            Options of the table for this write, over those of the session: see :class:`Lake`.

        Returns
        -------
        WriteResult

        Raises
        ------
        InvalidInputError
            Columns, types, nulls, kinds or arguments are wrong; nothing is visible.
        ConflictError
            Another writer changed what this commit depends on; nothing is visible.
        OutcomeUnknownError
            The storage failed while publishing; repeat with the same commit identity.
        """
        check_batch(frame, table=name, remedy=f"write it with tl.write_stream(frame, '{name}')")
        if (declared := self._kafka_table(name, options)) is not None:
            return self._write_kafka(declared, frame, mode)
        table = self._in_session(self._data_table(name), options)
        _check_tasks(tasks, table=name)
        handle = table.handle
        if not isinstance(frame, DataFrame):
            _check_local(frame, is_for_spark=tasks is not None or merges_schema(handle), table=name)
            return table.write(
                frame,
                mode=mode,
                partition=partition,
                commit_user=commit_user,
                commit_identifier=commit_identifier,
            )
        if merges_schema(handle):
            handle, frame = merged(handle, frame)
        identity = CommitIdentity.of(handle, commit_user, commit_identifier)
        with translate_table_errors(name), translate_value_range_errors():
            return interruptible(
                self.spark,
                lambda: write_frame(
                    handle, frame, mode=mode, partition=partition, identity=identity, tasks=tasks
                ),
            )

    def delete(
        self,
        name: str,
        where: object,
        *,
        commit_user: str | None = None,
        commit_identifier: int | None = None,
        tasks: int | None = None,
        options: Mapping[str, object] | None = None,
    ) -> WriteResult:
        """Delete the rows that match, on the executors, in one commit.

        Parameters
        ----------
        name : str
            ``"database.table"``.
        where : str, Predicate, list of tuples or Column
            Which rows. Text is a filter as of :meth:`table`, which prunes files. A Spark ``Column``
            (``F.expr("...")`` for SQL) may express more, but then all files are read. A filter on
            partition columns alone drops whole partitions in the metadata.
        commit_user, commit_identifier, options
            As of :meth:`write`.
        tasks : int, optional
            Number of writing tasks of a primary-key table.

        Returns
        -------
        WriteResult
            ``rows`` as of :meth:`tidelake.Table.delete`.

        Raises
        ------
        InvalidInputError
            The condition is invalid, or the table's merge engine takes no deletes.
        ConflictError
            Another commit changed the same rows or files in every attempt; nothing is visible.

        Notes
        -----
        A primary-key table writes the rows back as deletes. An append table marks them in deletion
        vectors, or rewrites the files that hold them, as :meth:`tidelake.Table.delete` does. No row
        comes to the driver.
        """
        table = self._in_session(self._data_table(name, use="rows are deleted from"), options)
        _check_tasks(tasks, table=name)
        identity = CommitIdentity.of(table.handle, commit_user, commit_identifier)
        with translate_table_errors(name), translate_value_range_errors():
            return interruptible(
                self.spark,
                lambda: delete_on_spark(
                    self.spark, table.handle, where, identity=identity, tasks=tasks
                ),
            )

    def update(
        self,
        name: str,
        set: Mapping[str, object],
        where: object = None,
        *,
        commit_user: str | None = None,
        commit_identifier: int | None = None,
        tasks: int | None = None,
        options: Mapping[str, object] | None = None,
    ) -> WriteResult:
        """Set columns of the rows that match to new values, on the executors, in one commit.

        Parameters
        ----------
        name : str
            ``"database.table"``.
        set : dict
            New values by columns: **text is an SQL expression** over the old row (``"n + 1"``,
            ``"'text'"``), a ``Column`` stands for itself, numbers, dates, None and the like for
            themselves.
        where : str, Predicate, list of tuples or Column, optional
            Which rows, as of :meth:`delete`; all by default.
        commit_user, commit_identifier, options
            As of :meth:`write`.
        tasks : int, optional
            Number of writing tasks of a primary-key table.

        Returns
        -------
        WriteResult
            ``rows`` counts the rows that matched.

        Raises
        ------
        InvalidInputError, UnsupportedError, ConflictError, OutcomeUnknownError
            As of :meth:`tidelake.Table.update`.

        Notes
        -----
        The rows are handled as by :meth:`tidelake.Table.update`. Expressions are evaluated once for
        each row, and again for all of them if another commit changed the same rows meanwhile.
        """
        table = self._in_session(self._data_table(name, use="rows are updated in"), options)
        _check_tasks(tasks, table=name)
        identity = CommitIdentity.of(table.handle, commit_user, commit_identifier)
        with translate_table_errors(name), translate_value_range_errors():
            return interruptible(
                self.spark,
                lambda: update_on_spark(
                    self.spark, table.handle, set, where, identity=identity, tasks=tasks
                ),
            )

    def merge(
        self,
        name: str,
        source: DataFrame,
        on: str | Column | Sequence[str],
        *,
        alias: str = "t",
        source_alias: str = "s",
        options: Mapping[str, object] | None = None,
    ) -> MergeBuilder:
        """Begin a merge of rows into a table; its clauses define the changes.

        Parameters
        ----------
        name : str
            ``"database.table"``, the target.
        source : DataFrame
            The rows to merge.
        on : str, list of str or Column
            Which rows match: columns of the same name in both, or a condition as an SQL
            expression (``"t.id = s.key AND t.day = s.day"``).
        alias, source_alias : str
            Qualifiers of the columns of target and source in expressions.
        options : mapping, optional
            Options of the table for this use, over those of the session: see :class:`Lake`.

        Returns
        -------
        MergeBuilder
            Without clauses. Add some, then call ``execute()``.

        Examples
        --------
        >>> tl.merge("shop.stock", changes, on="id").when_matched_update().when_not_matched_insert(
        ... ).execute()  # doctest: +SKIP

        Notes
        -----
        The statement ``MERGE INTO`` of :meth:`sql` does the same: ``docs/merge-into.md``.
        """
        check_batch(source, table=name, remedy="merge each batch of it, in foreachBatch")
        table = self._in_session(self._data_table(name, use="rows are merged into"), options)
        return self._sql().merge(table, source, on, alias=alias, source_alias=source_alias)

    def compact(
        self,
        name: str,
        *,
        full: bool = False,
        partitions: object = None,
        buckets: Collection[int] | None = None,
        order: str | None = None,
        by: Sequence[str] | None = None,
        tasks: int | None = None,
        options: Mapping[str, object] | None = None,
    ) -> WriteResult:
        """Compact a table on the executors, in one commit, or in none if there is nothing to do.

        Parameters
        ----------
        name : str
            ``"database.table"``.
        full, partitions, buckets, order, by
            As of :meth:`tidelake.Table.compact`.
        tasks : int, optional
            The most tasks of Spark's; by default as many as a scan of so many bytes has. A bucket
            is compacted by one of them; without buckets a bin of small files, or a range of rows.
        options : mapping, optional
            Options of the table for this use, such as ``target-file-size`` or
            ``postpone.default-bucket-num``.

        Returns
        -------
        WriteResult
            ``compactions_dropped`` counts buckets that another commit changed meanwhile: they are
            unchanged, and the next call takes them.

        Raises
        ------
        InvalidInputError
            An argument is wrong, or the table was altered since it was opened.
        ConflictError
            Other commits compacted or rewrote every bucket of this call, or moved the same rows out
            of the postpone bucket; nothing was changed.

        Notes
        -----
        Rows of a postpone bucket (``bucket`` = -2) get their buckets in the same commit. A task
        needs the memory of one merge (see `memory` of :func:`attach`), however large its bucket is.
        """
        table = self._in_session(self._data_table(name), options)
        chosen = Chosen.of(table.handle, partitions, buckets)
        sorted_by = order_of(table.handle, order, by)
        _check_tasks(tasks, table=name)
        work = partial(compact_on_spark, full=full, order=sorted_by, tasks=tasks)
        result = interruptible(self.spark, lambda: work(self.spark, table.handle, chosen))
        expire_after_compaction(table.handle)
        return result

    def _in_session(self, table: Table, options: Mapping[str, object] | None) -> Table:
        """The table with the session's options, overridden by those of one use."""
        return in_session(self.spark, table, options)

    def _data_table(self, name: str, *, use: str = "rows are written to") -> Table:
        found = self.catalog.table(name)
        if isinstance(found, SystemTable):
            message = f"'{name}' is a system table: {use} the table that it describes."
            raise InvalidInputError(message, kind="system_table", table=name)
        return found


def _check_tasks(tasks: int | None, *, table: str) -> None:
    if tasks is not None and tasks < 1:
        message = f"tasks must be a number from 1 on, not {tasks!r}."
        raise InvalidInputError(message, kind="bad_tasks", table=table)


def _check_local(data: object, *, is_for_spark: bool, table: str) -> None:
    """Refuse arguments that only a DataFrame supports."""
    if is_for_spark:
        message = (
            f"Rows for table '{table}' are given as {type(data).__name__}, which this process"
            " writes: tasks= and 'write.merge-schema' need a DataFrame, as from"
            " spark.createDataFrame(...)."
        )
        raise UnsupportedError(message, kind="spark_frame", table=table)
