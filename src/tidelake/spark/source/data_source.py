"""``format("tidelake")``: reads, streams and batch writes through Spark's Python data source API.

Spark finds it without registration if this package is installed (:mod:`pyspark_tidelake`). It
serves tools that only know formats; :class:`tidelake.spark.Lake` is faster at both ends, because
the API has no column pruning and no clustering before a write:

- A read passes whole rows from Python to the JVM, unless ``option("columns", "a,b")`` names the
  columns.
- A write into buckets is not clustered: each task routes its own rows. So several tasks may write
  one bucket, each into its own sorted file, with overlapping sequence numbers. The table is right
  (one row per key survives, by sequence number, then by file), but of two rows of one key in
  different tasks either may win, as in :meth:`tidelake.spark.Lake.write`. The bucket has a run per
  task until a later write compacts it. Tasks do not compact here: two would take the same files.

A stream is :mod:`tidelake.spark.source.stream_reader`.

With the option ``incremental-between`` a read returns the changes between two snapshots or tags,
like :meth:`tidelake.spark.Lake.changes`: ``_row_kind`` is its first column.

The options are those of :mod:`tidelake.spark.source.source_options`; any other is refused. Mode
``overwrite`` replaces the same as :meth:`tidelake.spark.Lake.write`: the partitions of the rows,
unless the option ``dynamic-partition-overwrite`` is false.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar, cast

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StringType, StructField, StructType

from tidelake.engine.metadata import commit_message
from tidelake.engine.scan import TableRows, TableScan, split_from_bytes, split_to_bytes
from tidelake.engine.streams import ChangesMode, PlannedChanges, moments_between, planned_changes
from tidelake.engine.tables import Table, TableHandle, open_catalog
from tidelake.engine.write import (
    ROW_KIND_COLUMN,
    CommitIdentity,
    CommitMessage,
    Overwrite,
    WriteTransaction,
    check_writable,
    is_committed,
)
from tidelake.errors import InvalidInputError, NotFoundError, UnsupportedError
from tidelake.options import declared
from tidelake.spark.expression.filter import from_spark_filters
from tidelake.spark.expression.mapped import message_first
from tidelake.spark.expression.types import arrow_schema, spark_schema
from tidelake.spark.read.changes_frame import ChangeTask, PartBytes
from tidelake.spark.read.scan_frame import split_batches
from tidelake.spark.source.python_api import PUSH_FILTERS, DataSourceStreamArrowWriter
from tidelake.spark.source.source_options import (
    Attached,
    SourceReadOptions,
    SourceWriteOptions,
    TableLocation,
)
from tidelake.spark.source.stream_reader import StreamOptions, TidelakeStreamReader
from tidelake.spark.source.stream_writer import CHECKPOINT, TidelakeStreamWriter
from tidelake.spark.streams.write.kept_changes import CHANGES, changes_text
from tidelake.spark.versions import FORMAT_STREAMS_READ, FORMAT_STREAMS_WRITTEN, check_has
from tidelake.spark.write.write_task import WriteTask, write_batches
from tidelake.types.conform import conform
from tidelake.types.predicate import Predicate, conjoin, parse_filter

Given = TypeVar("Given", SourceReadOptions, SourceWriteOptions)
R = TypeVar("R")
_OF_USERS = (InvalidInputError, NotFoundError, UnsupportedError)
"""Errors about what the user asked; others keep their traceback."""


def _briefly(method: Callable[..., R]) -> Callable[..., R]:
    """A method whose refusals have one frame: Spark shows the traceback before the message."""

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> R:
        try:
            return method(self, *args, **kwargs)
        except _OF_USERS as error:
            raise error.with_traceback(None) from None

    return call


def _unless_refused(plan: Callable[[], R]) -> R | None:
    """What a reader is shipped as; None if its plan is refused.

    An error raised here would become one of pickle, behind two tracebacks. The partitions, which
    Spark asks for next, are of the same plan, and raise it.
    """
    try:
        return plan()
    except _OF_USERS:
        return None


def source_reaching(attached: Attached) -> type[TidelakeSource]:
    """Make the data source of a session.

    Parameters
    ----------
    attached : Attached
        PySpark sends the class to its processes by value, with the broadcasts of the secrets.
    """
    if not attached.storages and not attached.catalogs:
        return TidelakeSource
    return type(TidelakeSource.__name__, (TidelakeSource,), {"attached": attached})


class TidelakeSource(DataSource):  # type: ignore[misc]  # pyspark carries no types here
    """The data source; Spark makes one per read or write."""

    attached: ClassVar[Attached] = Attached()
    """The warehouses that are attached to the session."""

    @classmethod
    def name(cls) -> str:
        """The word for ``format(...)``."""
        return "tidelake"

    @_briefly
    def schema(self) -> StructType:
        """The columns that a read gives."""
        options = self._reached(SourceReadOptions.of(self.options))
        # a stream's start option may be a moment in a batch read
        own = {k: v for k, v in options.table_options.items() if k != declared.SCAN_MODE.key}
        table = _open(options.location, own)
        if options.between is not None:
            changes = _changes(table, options, (), columns=options.columns)
            return spark_schema(ChangeTask(changes.rows).fields, table=table.identifier)
        scan = _scan(table, options, (), columns=options.columns)
        columns = spark_schema(scan.context.fields(scan.columns), table=table.identifier)
        if not _shows_kinds(table):
            return columns
        told = changes_text(table.handle)  # the plan shows it to the sink of a stream
        kinds = StructField(ROW_KIND_COLUMN, StringType(), metadata={CHANGES: told} if told else {})
        return StructType([kinds, *columns.fields])

    @_briefly
    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch read."""
        options = self._reached(SourceReadOptions.of(self.options))
        if options.between is None and ROW_KIND_COLUMN in schema.names:
            message = (
                f"Option '{declared.READ_CHANGELOG.key}' of format('tidelake') is for streams:"
                f" unset it, or read changes with the option '{declared.INCREMENTAL_BETWEEN.key}'."
            )
            raise InvalidInputError(message, kind="read_changelog")
        reader = TidelakeReader if options.between is None else ChangesReader
        return reader(options, schema)

    @_briefly
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # noqa: FBT001
        """A batch write."""
        options = self._reached(SourceWriteOptions.of(self.options))
        table = _open(options.location, options.table_options)
        handle = table.handle
        check_writable(handle)
        if handle.bucket_mode.is_assigned:
            message = (
                f"Table '{handle.identifier}' has dynamic buckets: its rows must be clustered by"
                " their keys before the write, which Spark does not do for a data source."
                " Write it with tl.write(frame, name)."
            )
            raise UnsupportedError(message, kind="dynamic_buckets", table=handle.identifier)
        identity = CommitIdentity.of(handle, options.commit_user, options.commit_identifier)
        _check_schema(handle, schema)
        return TidelakeWriter(handle, overwrite=overwrite, identity=identity)

    @_briefly
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """A stream: the table's rows, then every change."""
        check_has(FORMAT_STREAMS_READ, "Start the stream with tl.read_stream(name).")
        location = TableLocation.of(self.options).reached(self.attached)
        asked = StreamOptions.of(self.options)
        table = _open(location, asked.table_options)
        return TidelakeStreamReader(table, schema.names, asked.where)

    @_briefly
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: FBT001
        """A stream, if any task may write any row."""
        instead = "Start the stream with tl.write_stream(frame, name, checkpoint=...)."
        check_has(FORMAT_STREAMS_WRITTEN, instead)
        given = {key: value for key, value in self.options.items() if key.lower() != CHECKPOINT}
        checkpoint = {key.lower(): value for key, value in self.options.items()}.get(CHECKPOINT)
        options = self._reached(SourceWriteOptions.of(given))
        handle = _open(options.location, options.table_options).handle
        _check_schema(handle, schema)
        return TidelakeStreamWriter(handle, checkpoint, overwrite=overwrite)

    def _reached(self, options: Given) -> Given:
        """Take what reaches an attached warehouse."""
        return replace(options, location=options.location.reached(self.attached))


def _check_schema(handle: TableHandle, schema: StructType) -> None:
    """Refuse missing, unknown and retyped columns before anything runs."""
    data = [f for f in schema.fields if f.name != ROW_KIND_COLUMN]
    arrow = arrow_schema(StructType(data))
    conform(arrow.empty_table(), handle.schema.fields, table=handle.identifier)


def _shows_kinds(table: Table) -> bool:
    """Whether rows should show their kinds, as those of streams can."""
    return table.options.get(declared.READ_CHANGELOG) is True


class FilterTaker:
    """The ``pushFilters`` of a reader, for sessions that push filters and those that do not.

    Pushing is off by default, and Spark then refuses readers with a ``pushFilters`` of their own
    instead of not calling it. Spark compares the function behind the method, so this shows the
    interface's function: an unprepared session reads all rows, and filters them.
    """

    def __init__(self, taken: list[Any]) -> None:
        self._taken = taken
        self.__func__ = PUSH_FILTERS

    def __call__(self, filters: list[Any]) -> Iterator[Any]:
        """Take the filters."""
        self._taken[:] = filters
        return iter(filters)


@dataclass
class SplitPartition(InputPartition):  # type: ignore[misc]  # pyspark carries no types here
    """One task of a read: a split as bytes, and which of the read's branches it is of."""

    blob: bytes
    part: int


class TidelakeReader(DataSourceReader):  # type: ignore[misc]  # pyspark carries no types here
    """Plans on the driver, reads on the executors."""

    def __init__(self, options: SourceReadOptions, schema: StructType) -> None:
        self._options = options
        self._columns = schema.names
        self._filters: list[Any] = []
        self._scan: TableScan | None = None
        self._tasks: tuple[TableRows, ...] = ()

    @property
    def pushFilters(self) -> FilterTaker:
        """Take filters to read less; returns all of them, so that Spark applies them too."""
        return FilterTaker(self._filters)

    @_briefly
    def partitions(self) -> Sequence[InputPartition]:
        """One per split."""
        return [
            SplitPartition(split_to_bytes(split), number)
            for number, part in enumerate(self._planned().parts)
            for split in part.plan.splits
        ]

    def _planned(self) -> TableScan:
        if self._scan is None:
            table = _open_again(self._options)
            self._scan = _scan(table, self._options, self._filters, columns=self._columns)
            for part in self._scan.parts:
                part.hold.outlive()  # this process ends before the tasks begin
        return self._scan

    def __getstate__(self) -> tuple[TableRows, ...] | None:
        # Spark ships the reader before it requests the partitions, so the plan is made here
        return _unless_refused(lambda: tuple(part.rows for part in self._planned().parts))

    def __setstate__(self, tasks: tuple[TableRows, ...]) -> None:
        self._tasks = tasks

    @message_first
    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Rows of one split."""
        if not isinstance(partition, SplitPartition):
            return  # Spark's stand-in for an empty plan
        assert self._tasks, "executors read with a reader that was shipped"
        task = self._tasks[partition.part]
        yield from split_batches(task, split_from_bytes(partition.blob), task.fields)


@dataclass
class PartPartition(InputPartition):  # type: ignore[misc]  # pyspark carries no types here
    """One task of a read of changes: parts that it reads in order."""

    parts: tuple[PartBytes, ...]


class ChangesReader(DataSourceReader):  # type: ignore[misc]  # pyspark carries no types here
    """Plans changes on the driver, reads them on the executors.

    Parameters
    ----------
    options : SourceReadOptions
        The user's options, with ``incremental-between``.
    """

    def __init__(self, options: SourceReadOptions, schema: StructType) -> None:
        self._options = options
        self._columns = [name for name in schema.names if name != ROW_KIND_COLUMN]
        self._filters: list[Any] = []
        self._changes: PlannedChanges | None = None
        self._task: ChangeTask | None = None

    @property
    def pushFilters(self) -> FilterTaker:
        """Take filters to read less; returns all of them, so that Spark applies them too."""
        return FilterTaker(self._filters)

    @_briefly
    def partitions(self) -> Sequence[InputPartition]:
        """One per part; one of all, if a key has changes in several buckets."""
        changes = self._planned()
        parts = list(changes.parts())
        blobs = tuple(map(PartBytes.of, parts))
        if changes.span_buckets(parts):
            return [PartPartition(blobs)]
        return [PartPartition((part,)) for part in blobs]

    def _planned(self) -> PlannedChanges:
        if self._changes is None:
            table = _open_again(self._options)
            self._changes = _changes(table, self._options, self._filters, columns=self._columns)
            self._changes.hold.outlive()  # this process ends before the tasks begin
        return self._changes

    def __getstate__(self) -> ChangeTask | None:
        # Spark ships the reader before it requests the partitions, so the plan is made here
        return _unless_refused(lambda: ChangeTask(self._planned().rows))

    def __setstate__(self, task: ChangeTask) -> None:
        self._task = task

    @message_first
    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Changes of one task's parts."""
        if not isinstance(partition, PartPartition):
            return  # Spark's stand-in for an empty plan
        assert self._task is not None, "executors read with a reader that was shipped"
        for part in partition.parts:
            yield from self._task.batches(part.blobs)


@dataclass
class TidelakeCommitMessage(WriterCommitMessage):  # type: ignore[misc]  # pyspark carries no types here
    """The result of one task."""

    blobs: tuple[bytes, ...]


class TidelakeWriter(DataSourceArrowWriter):  # type: ignore[misc]  # pyspark carries no types here
    """Writes on the executors, commits on the driver.

    Parameters
    ----------
    overwrite : bool
        Whether the rows replace the partitions that they belong to, or all rows.
    identity : CommitIdentity
        Who commits; nothing is written under an identity that is already committed.
    """

    def __init__(self, handle: TableHandle, *, overwrite: bool, identity: CommitIdentity) -> None:
        self._handle = handle
        self._overwrite = Overwrite.of_rows(handle) if overwrite else None
        self._identity = identity
        # tasks do not compact, because several may write one bucket
        options = handle.options.updated({declared.WRITE_ONLY.key: "true"})
        self._task = WriteTask.of(
            handle.with_options(options), user=identity.user, overwrite=self._overwrite
        )
        self._is_committed = is_committed(handle, identity)
        self._base_snapshot_id = handle.snapshots.latest_id() or 0

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write one task's rows."""
        if self._is_committed:
            return TidelakeCommitMessage(())
        _, messages = write_batches(self._task, iterator)
        return TidelakeCommitMessage(tuple(commit_message.to_bytes(m) for m in messages))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make all tasks' rows visible at once."""
        if self._is_committed:
            return
        with WriteTransaction(self._handle, self._identity, overwrite=self._overwrite) as out:
            out.add_messages(_read_messages(messages), base_snapshot_id=self._base_snapshot_id)
            out.commit()

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Leave the files: Spark also calls this when a commit failed that may be visible."""


def _read_messages(messages: Sequence[WriterCommitMessage | None]) -> list[CommitMessage]:
    return [
        commit_message.from_bytes(blob)
        for message in messages
        if isinstance(message, TidelakeCommitMessage)
        for blob in message.blobs
    ]


def _open(location: TableLocation, options: Mapping[str, str]) -> Table:
    """The table of that name, with options for this use."""
    if location.catalog is None:
        catalog = open_catalog(location.warehouse, fileio=location.storage)
    else:
        catalog = location.catalog
    found = catalog.table(location.table)
    if not isinstance(found, Table):
        message = (
            f"'{location.table}' is a system table: read it with tl.table('{location.table}')."
        )
        raise InvalidInputError(message, kind="system_table", table=location.table)
    return found.with_options(options) if options else found


def _open_again(options: SourceReadOptions) -> Table:
    """The table of a DataFrame, when its rows are wanted."""
    try:
        return _open(options.location, options.table_options)
    except NotFoundError as error:
        if error.kind not in {"table_not_found", "database_not_found"}:
            raise
        message = (
            f"Table '{options.location.table}' was dropped or renamed after this DataFrame of it"
            f" was made. {error.message}"
        )
        raise NotFoundError(message, kind=error.kind, **error.context) from error


def _offered(table: Table, options: SourceReadOptions, filters: Sequence[Any]) -> Predicate | None:
    """The predicate of the user's option and Spark's filters."""
    asked = parse_filter(options.where)
    offered = from_spark_filters(filters, table.table_schema.fields)
    return conjoin([p for p in (asked, offered) if p is not None])


def _scan(
    table: Table,
    options: SourceReadOptions,
    filters: Sequence[Any],
    *,
    columns: Sequence[str] | None,
) -> TableScan:
    return table.scan(
        columns=columns,
        where=_offered(table, options, filters),
        snapshot_id=options.snapshot_id,
        timestamp=options.timestamp,
        tag=options.tag,
    )


def _changes(
    table: Table,
    options: SourceReadOptions,
    filters: Sequence[Any],
    *,
    columns: Sequence[str] | None,
) -> PlannedChanges:
    assert options.between is not None
    handle = table.handle
    start, end = moments_between(handle, options.between)
    # Spark tests its own filters again; a row that leaves the user's must come as a delete
    is_asked = options.where is not None
    return planned_changes(
        handle,
        start,
        end,
        columns=columns,
        where=_offered(table, options, () if is_asked else filters),
        mode=cast("ChangesMode", options.changes_mode),
        retracts=is_asked,
    )
