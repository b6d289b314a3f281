"""DELETE and UPDATE on the executors: the matching rows, their change, and the way of writing.

1. If a condition uses partition columns only, the driver drops whole partitions in the metadata.
2. A primary-key table: executors read the matching rows, Spark computes them, and they are written
   back as ``-D`` or ``+U``, by the same stages as any write. An update's commit checks that no
   other commit wrote to its keys since they were read; else the update is repeated.
3. An append table: :mod:`tidelake.spark.rowlevel.append_delta`.

Conditions are filters of the kernel (text, a predicate, tuples), which prune files, a Spark
``Column``, which may express more, or both (:class:`Matching`). New values are Spark's: SQL
expressions or columns, over the old row.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import reduce

import numpy as np
import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.utils import is_remote

from tidelake.engine.metadata import Snapshot
from tidelake.engine.rows import (
    ShownRows,
    check_deletes_count,
    check_none_wait,
    check_settable,
    check_updatable,
    delete_matching,
    deletes_by_row,
    is_metadata_only,
    not_removed,
    removing_columns,
    truncate,
)
from tidelake.engine.scan import scan_all_rows
from tidelake.engine.tables import TableHandle
from tidelake.engine.write import (
    ROW_KIND_COLUMN,
    CommitIdentity,
    RowCounts,
    WriteResult,
    WriteTransaction,
)
from tidelake.errors import InvalidInputError, TidelakeError, UnsupportedError, shortened
from tidelake.spark.expression.expression import quoted
from tidelake.spark.expression.mapped import mapped
from tidelake.spark.expression.moment import moment_column
from tidelake.spark.expression.store_assignment import assigned_values
from tidelake.spark.expression.types import spark_schema
from tidelake.spark.read.scan_frame import frame_of
from tidelake.spark.rowlevel.append_delta import FILE_COLUMN, POSITION_COLUMN, change_on_spark
from tidelake.spark.write.write_frame import check_columns, write_frame, write_made_rows
from tidelake.spark.write.write_task import ANSWER_SCHEMA, TaskAnswer, answer_rows
from tidelake.types import RowKind
from tidelake.types.conform import conform
from tidelake.types.predicate import Predicate, bind, columns_of, parse_filter

NEW_PREFIX = "_tidelake_new_"
_LITERALS = (
    bool,
    int,
    float,
    Decimal,
    dt.time,
    dt.timedelta,
    bytes,
    bytearray,
    np.generic,
)


def _nothing() -> None:
    """Do nothing: no subquery needs new rows."""


@dataclass(frozen=True, slots=True)
class Matching:
    """The matching rows: by the kernel's predicate, a Spark condition, or both.

    Parameters
    ----------
    predicate : Predicate, optional
        Bound; all matching rows satisfy it.
    condition : Column, optional
        Which of these match; all by default.
    alias : str, optional
        A qualifier of the rows' columns in conditions and new values.
    fresh : callable
        Called before each read of the rows: the condition's other tables are then read in their
        newest state.
    """

    predicate: Predicate | None = None
    condition: Column | None = None
    alias: str | None = None
    fresh: Callable[[], None] = _nothing

    @classmethod
    def of(cls, handle: TableHandle, where: object) -> Matching:
        """Take the argument ``where``; None matches every row."""
        if isinstance(where, Matching):
            return where
        if isinstance(where, Column):
            return cls(condition=where)
        given = parse_filter(where)
        if given is None:
            return cls()
        return cls(bind(given, handle.schema.fields))

    def of_frame(self, frame: DataFrame) -> DataFrame:
        """The rows of a frame that Spark must find."""
        self.fresh()
        named = frame if self.alias is None else frame.alias(self.alias)
        return named if self.condition is None else named.where(self.condition)


def delete_on_spark(
    spark: SparkSession,
    handle: TableHandle,
    where: object,
    *,
    identity: CommitIdentity,
    tasks: int | None,
) -> WriteResult:
    """Delete; see :meth:`tidelake.spark.Lake.delete`."""
    transaction = WriteTransaction(handle, identity)
    if where is None:
        message = (
            f"A delete from table '{handle.identifier}' needs a condition: give where=, or"
            ' where="TRUE" for every row.'
        )
        raise InvalidInputError(message, kind="bad_argument", table=handle.identifier)
    matching = Matching.of(handle, where)
    predicate = matching.predicate
    if predicate is not None and matching.condition is None and is_metadata_only(handle, predicate):
        return delete_matching(transaction, predicate)
    if predicate is not None and not columns_of(predicate):  # always true
        matching = replace(matching, predicate=None)
    if not handle.schema.primary_keys:
        return _deleted(_delete_appended(spark, transaction, matching))
    check_deletes_count(handle)
    snapshot = handle.snapshots.latest()
    if snapshot is None:
        return WriteResult()
    rows = matching.of_frame(_rows_of(spark, handle, snapshot, matching.predicate))
    check_removed(handle, rows)
    rows = rows.withColumn(ROW_KIND_COLUMN, _kind(RowKind.DELETE))
    return _deleted(
        write_frame(handle, rows, mode="append", partition=None, identity=identity, tasks=tasks)
    )


def delete_all(
    spark: SparkSession, handle: TableHandle, *, identity: CommitIdentity
) -> WriteResult:
    """Delete all rows: in the metadata, unless each needs a -D of its own."""
    if deletes_by_row(handle):
        return delete_on_spark(spark, handle, "TRUE", identity=identity, tasks=None)
    return truncate(handle, identity=identity)


def _deleted(result: WriteResult) -> WriteResult:
    return result.with_counts(RowCounts(deleted=result.rows))


def _updated(result: WriteResult) -> WriteResult:
    return result.with_counts(RowCounts(updated=result.rows))


def update_on_spark(
    spark: SparkSession,
    handle: TableHandle,
    values: object,
    where: object,
    *,
    identity: CommitIdentity,
    tasks: int | None,
) -> WriteResult:
    """Update; see :meth:`tidelake.spark.Lake.update`."""
    transaction = WriteTransaction(handle, identity)
    check_updatable(handle)
    check_settable(handle, values, name="set")
    assert isinstance(values, Mapping), "checked"
    matching = Matching.of(handle, where)
    new = {name: value_column(handle, name, value) for name, value in values.items()}
    empty = spark.createDataFrame([], spark_schema(handle.schema.fields, table=handle.identifier))
    # wrong types and names are refused before anything runs
    rows_alike = matching.of_frame(empty)
    targets = {name: handle.schema.field(name) for name in new}
    with _text_values(values, handle.identifier):
        new = assigned_values(rows_alike, new, targets, table=handle.identifier)
        check_columns(handle, _with_values(handle, rows_alike, new))
    if not handle.schema.primary_keys:
        changed = change_on_spark(
            spark,
            transaction,
            matching.predicate,
            lambda rows: _with_values(handle, matching.of_frame(rows), new, with_positions=True),
            columns=handle.schema.field_names,
        )
        return _updated(changed)
    shown = ShownRows(handle, new.keys())
    update = _KeyedUpdate(spark, transaction, matching, new, shown, tasks)
    return _updated(transaction.run(update))


def _delete_appended(
    spark: SparkSession, transaction: WriteTransaction, matching: Matching
) -> WriteResult:
    if matching.condition is None:
        return change_on_spark(spark, transaction, matching.predicate, None, columns=())
    return change_on_spark(
        spark,
        transaction,
        matching.predicate,
        lambda rows: matching.of_frame(rows).select(FILE_COLUMN, POSITION_COLUMN),
        columns=_looked_at(spark, transaction.handle, matching),
    )


@dataclass(frozen=True, slots=True)
class _KeyedUpdate:
    """An update of a primary-key table."""

    spark: SparkSession
    transaction: WriteTransaction
    matching: Matching
    new: Mapping[str, Column]
    shown: ShownRows
    tasks: int | None

    def attempt(self) -> WriteResult:
        """Run it on the newest snapshot."""
        handle, new = self.transaction.handle, self.new
        handle.schemas.check_same(handle.schema, table=handle.identifier)
        snapshot = handle.snapshots.latest()
        if snapshot is None:
            return WriteResult()
        check_none_wait(handle, snapshot)
        rows = _rows_of(self.spark, handle, snapshot, self.matching.predicate)
        rows = self.matching.of_frame(rows)
        if not self.shown.may_be_lost:
            return self._write(_with_values(handle, rows, new), snapshot)
        both = _with_old_values(rows, new).persist()  # the checked rows are the written ones
        try:
            check_shown(handle, self.shown, both, tuple(new))
            columns = (
                F.col(quoted(NEW_PREFIX + name if name in new else name)).alias(name)
                for name in handle.schema.field_names
            )
            return self._write(both.select(*columns), snapshot)
        finally:
            both.unpersist()

    def _write(self, rows: DataFrame, snapshot: Snapshot) -> WriteResult:
        rows = rows.withColumn(ROW_KIND_COLUMN, _kind(RowKind.UPDATE_AFTER))
        return write_made_rows(self.transaction, rows, read_snapshot=snapshot, tasks=self.tasks)


def _rows_of(
    spark: SparkSession,
    handle: TableHandle,
    snapshot: Snapshot,
    predicate: Predicate | None,
) -> DataFrame:
    """All columns of a primary-key table's rows that match, including rows on level 0."""
    scan = scan_all_rows(handle, snapshot, predicate)
    return frame_of(spark, scan, table=handle.identifier)


def _kind(kind: RowKind) -> Column:
    return F.lit(int(kind)).cast("tinyint")


@contextmanager
def _text_values(values: Mapping[str, object], table: str) -> Iterator[None]:
    """Raise that a new value is text without quotes as InvalidInputError."""
    try:
        yield
    except (AnalysisException, ParseException) as error:
        texts = {column: value for column, value in values.items() if isinstance(value, str)}
        condition = error.getCondition() or ""
        if condition.startswith("UNRESOLVED_COLUMN"):
            unknown = str((error.getMessageParameters() or {}).get("objectName", ""))
            word = unknown.rpartition("`.`")[2].strip("`").casefold()
            own = [c for c, v in texts.items() if word and word in v.casefold()]
        else:
            is_syntax = condition.startswith("PARSE")
            own = [c for c, v in texts.items() if is_syntax and f"\n{v}\n" in str(error)]
        if not own:
            raise
        raise _not_an_expression(table, own[0], texts[own[0]]) from error


def _not_an_expression(table: str, column: str, value: str) -> InvalidInputError:
    """The error for text that is no expression over the old row."""
    quotes = shortened(repr("'" + value.replace("'", "\\'") + "'"))
    message = (
        f"Column '{column}' of table '{table}' is set to {shortened(repr(value))}: text is an SQL"
        f" expression over the old row, and this is none. For the text itself write {quotes}, or"
        " functions.lit(...)."
    )
    return InvalidInputError(message, kind="update_expression", table=table, column=column)


def value_column(handle: TableHandle, name: str, value: object) -> Column:
    """A new value as given: text is an SQL expression, a Column stays as it is."""
    if isinstance(value, Column):
        return value
    if isinstance(value, str):
        return F.expr(value)
    if callable(value):
        message = (
            f"Column '{name}' of table '{handle.identifier}' is set to a function: on Spark give an"
            " SQL expression as text, or a Column."
        )
        raise UnsupportedError(message, kind="update_expression", table=handle.identifier)
    if isinstance(value, dt.date):  # a datetime is one
        return moment_column(value)
    if value is None or isinstance(value, _LITERALS):
        return F.lit(value)
    message = (
        f"Column '{name}' of table '{handle.identifier}' is set to {shortened(repr(value))}: on"
        " Spark give an SQL expression as text, a Column, or a number, date, time, bytes or None."
    )
    raise InvalidInputError(message, kind="bad_value", table=handle.identifier)


def _with_values(
    handle: TableHandle, rows: DataFrame, new: Mapping[str, Column], *, with_positions: bool = False
) -> DataFrame:
    """The rows with their new values; every expression sees the old row."""
    columns = [
        new[name].alias(name) if name in new else F.col(quoted(name))
        for name in handle.schema.field_names
    ]
    own = [FILE_COLUMN, POSITION_COLUMN] if with_positions else []
    return rows.select(*own, *columns)


def _with_old_values(rows: DataFrame, new: Mapping[str, Column]) -> DataFrame:
    """The old rows with the new values."""
    return rows.select("*", *(value.alias(NEW_PREFIX + name) for name, value in new.items()))


def _looked_at(spark: SparkSession, handle: TableHandle, matching: Matching) -> tuple[str, ...]:
    """The columns that a condition uses; all of them if only Spark's server knows."""
    names = handle.schema.field_names
    empty = spark.createDataFrame([], spark_schema(handle.schema.fields, table=handle.identifier))
    checked = matching.of_frame(empty)
    if is_remote():
        return names
    used = checked._jdf.queryExecution().analyzed().references().toSeq()
    wanted = {used.apply(index).name() for index in range(used.size())}
    return tuple(name for name in names if name in wanted)


def check_removed(handle: TableHandle, rows: DataFrame) -> None:
    """Check that deletes remove the rows; reads them again only for groups that remove rows.

    Raises
    ------
    InvalidInputError
        Some rows would stay.
    """
    removing = removing_columns(handle)
    if not removing:
        return
    stays = reduce(lambda a, b: a & b, [F.col(quoted(n)).isNull() for n in removing])
    keys = [F.col(quoted(name)) for name in handle.schema.primary_keys]
    found = rows.where(stays).select(*keys).head(1)
    if found:
        raise not_removed(handle, found[0].asDict())


def check_shown(
    handle: TableHandle, shown: ShownRows, both: DataFrame, names: tuple[str, ...]
) -> None:
    """Check on the executors that reads will show the new rows.

    Parameters
    ----------
    both : DataFrame
        The old rows, with the new values of `names` under :data:`NEW_PREFIX`.

    Raises
    ------
    InvalidInputError
        Some rows would be lost.
    """
    checked = mapped(both, _checking(handle, shown, names), ANSWER_SCHEMA)
    answer = TaskAnswer.gather(checked.collect())
    if answer.errors:
        raise answer.errors[0]


def _checking(
    handle: TableHandle, shown: ShownRows, names: tuple[str, ...]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the function that checks on executors that reads will show the new rows."""
    fields, table = handle.schema.fields, handle.identifier

    def check(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            for batch in batches:
                if not batch.num_rows:
                    continue
                old = [batch.column(f.name) for f in fields]
                new = [
                    batch.column(NEW_PREFIX + f.name if f.name in names else f.name) for f in fields
                ]
                columns = [f.name for f in fields]
                shown.check(
                    conform(pa.RecordBatch.from_arrays(old, columns), fields, table=table),
                    conform(pa.RecordBatch.from_arrays(new, columns), fields, table=table),
                )
        except TidelakeError as error:
            yield answer_rows(error=error)
            return
        yield answer_rows()

    return check
