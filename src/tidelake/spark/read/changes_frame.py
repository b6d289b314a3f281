"""Changes between two moments as a DataFrame, read on the executors.

The driver plans parts (:mod:`tidelake.table.changelog.changelog_protocols`): changelog files, new
data files, or the files of a bucket before and after where the two differ. Files that only need to
be read are scanned by Spark itself (:mod:`tidelake.spark.read.native_changes`). Other parts travel
as bytes, packed into tasks of even weight; a task reads its own, and of a net change compares both
sides.

Rows of a DataFrame have no order. A key's changes of one commit come in order from one task. The
changes of a key by several commits may come from several tasks, unless *ordered* ones are asked
for: then all rows of a bucket come from one task, in order of the commits.

**Keys that span buckets.** A key that moved between partitions, or whose bucket was assigned anew,
has changes in several buckets. Then all changes of a key come from one task, in the order of the
parts. Few bytes (:data:`ONE_TASK_BYTES`) are read by one task. More are read in parallel, shuffled
by key, and sorted by the number of their part and row.

**Options of a query**: ``incremental-between`` and ``incremental-between-timestamp`` behind a table
give the rows that came and stayed; behind its audit log they give each change with its kind.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain
from typing import Any, cast

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as st

from tidelake.engine.scan import ReadContext, split_from_bytes, split_to_bytes
from tidelake.engine.streams import (
    ChangeFilter,
    ChangePart,
    ChangeRows,
    PlannedChanges,
    UpdateFilter,
    change_fields,
    planned_changes,
)
from tidelake.engine.tables import Table
from tidelake.engine.write import ROW_KIND_COLUMN
from tidelake.errors import InvalidInputError
from tidelake.options import declared
from tidelake.spark.expression.expression import quoted
from tidelake.spark.expression.filter import to_column
from tidelake.spark.expression.mapped import in_workers
from tidelake.spark.expression.types import spark_schema
from tidelake.spark.jvm.held_frames import held_while_read
from tidelake.spark.read.native_changes import (
    ChangeUnit,
    NativeChanges,
    native_changes,
    uncut_bytes_max,
)
from tidelake.spark.read.native_scan import native_frame
from tidelake.spark.read.native_storage import native_storage
from tidelake.spark.read.plan_size import no_rows
from tidelake.spark.read.scan_frame import spark_batches
from tidelake.spark.read.shares import packed_splits, share_frame, tasks_asked
from tidelake.spark.read.table_frame import in_session
from tidelake.spark.sessions.session import parallelism
from tidelake.types import DataField, RowKind
from tidelake.types.predicate import columns_of

INCREMENTAL = declared.INCREMENTAL_BETWEEN.key
INCREMENTAL_TIMES = declared.INCREMENTAL_BETWEEN_TIMESTAMP.key
INCREMENTAL_MODE = declared.INCREMENTAL_BETWEEN_SCAN_MODE.key
ROW_KIND = "rowkind"
ONE_TASK_BYTES = 16 << 20
"""Bytes of files up to which one task reads all changes whose keys span buckets."""
PART_COLUMN, ROW_COLUMN = "_tidelake_part", "_tidelake_row"


@dataclass(frozen=True, slots=True)
class PartBytes:
    """A part of changes on its way to an executor."""

    blobs: tuple[bytes, ...]
    size_bytes: int

    @classmethod
    def of(cls, part: ChangePart) -> PartBytes:
        """Serialize a part."""
        return cls(tuple(map(split_to_bytes, part)), sum(split.size_bytes for split in part))


@dataclass(frozen=True, slots=True)
class _UnitBytes:
    """Parts that one task reads in order, serialized for an executor."""

    parts: tuple[PartBytes, ...]

    @classmethod
    def of(cls, unit: ChangeUnit) -> _UnitBytes:
        return cls(tuple(map(PartBytes.of, unit.parts)))

    @property
    def size_bytes(self) -> int:
        return sum(part.size_bytes for part in self.parts)


@dataclass(frozen=True, slots=True)
class _NumberedPart:
    """A part with its place among all parts."""

    number: int
    part: PartBytes

    @property
    def size_bytes(self) -> int:
        return self.part.size_bytes


@dataclass(frozen=True, slots=True)
class ChangeTask:
    """The needs of one task besides its parts. Picklable.

    Parameters
    ----------
    with_kinds : bool
        Whether rows have ``_row_kind``.
    """

    rows: ChangeRows
    with_kinds: bool = True

    @property
    def fields(self) -> tuple[DataField, ...]:
        """The kind, if wanted, then the columns wanted."""
        fields = change_fields(self.rows.context, self.rows.columns)
        return fields if self.with_kinds else fields[1:]

    def batches(self, blobs: Sequence[bytes]) -> Iterator[pa.RecordBatch]:
        """The changes of a part in Spark's Arrow types."""
        part = tuple(split_from_bytes(blob) for blob in blobs)
        rows = self.rows.read(part)
        if not self.with_kinds:
            rows = (batch.drop_columns([ROW_KIND_COLUMN]) for batch in rows)
        return spark_batches(rows, self.fields)

    def batches_of_parts(self, parts: Sequence[Sequence[bytes]]) -> Iterator[pa.RecordBatch]:
        """The changes of parts, one after the other."""
        for blobs in parts:
            yield from self.batches(blobs)

    def numbered_batches(self, parts: Sequence[_NumberedPart]) -> Iterator[pa.RecordBatch]:
        """The changes of parts, each with the number of its part and its place there."""
        for numbered in parts:
            first = 0
            for rows in self.batches(numbered.part.blobs):
                places = pa.array(np.arange(first, first + rows.num_rows))
                part = pa.array(np.full(rows.num_rows, numbered.number))
                first += rows.num_rows
                own = rows.append_column(PART_COLUMN, part)
                yield own.append_column(ROW_COLUMN, places)


def changes_frame(
    spark: SparkSession,
    changes: PlannedChanges,
    *,
    table: str,
    ordered: bool = False,
    with_kinds: bool = True,
    exact: bool = True,
) -> DataFrame:
    """Make a DataFrame of planned changes: ``_row_kind``, then the columns, all nullable.

    Parameters
    ----------
    changes : PlannedChanges
        Of :func:`tidelake.table.changelog.changelog_plan.planned_changes`.
    ordered : bool
        Whether all rows of a bucket come from one task, in order of the commits.
    with_kinds : bool
        Whether the frame has ``_row_kind``.
    exact : bool
        Whether to leave out rows that do not satisfy the planned predicate. False if the caller
        filters them.

    Raises
    ------
    UnsupportedError
        A column's type does not exist on Spark.

    Notes
    -----
    Runs on the driver; only metadata is read. The snapshots are held as long as Spark can read the
    frame.
    """
    frame = _changes_frame(
        spark, changes, table=table, ordered=ordered, with_kinds=with_kinds, exact=exact
    )
    return held_while_read(spark, frame, changes.hold)


def _changes_frame(
    spark: SparkSession,
    changes: PlannedChanges,
    *,
    table: str,
    ordered: bool,
    with_kinds: bool,
    exact: bool,
) -> DataFrame:
    rows = changes.rows
    task = ChangeTask(rows, with_kinds)
    schema = spark_schema(task.fields, table=table)
    parts = list(changes.parts())
    if changes.span_buckets(parts):
        return _frame_by_key(spark, task, parts, schema, table=table)
    wanted = rows.context.fields(rows.columns)
    needed, condition = wanted, None
    if rows.predicate is not None:
        names = frozenset(rows.columns)
        others = sorted(columns_of(rows.predicate) - names)
        needed = (*wanted, *rows.context.fields(tuple(others)))
        condition = to_column(rows.predicate, needed)
    if condition is None and not exact:
        needed = wanted
    leaving = _leaving_kinds(rows, needed) if exact else None
    if rows.predicate is None or not exact or condition is not None:
        split = native_changes(
            rows.context,
            parts,
            needed,
            case_sensitive=spark.conf.get("spark.sql.caseSensitive", "false") == "true",
            ordered=ordered,
            uncut_bytes=uncut_bytes_max(spark),
            storage=native_storage(spark, rows.context, chain.from_iterable(parts)),
            only_states=exact and isinstance(rows.leaving, UpdateFilter),
        )
    else:
        split = NativeChanges(units=[ChangeUnit((part,)) for part in parts])
    frames = []
    for groups, of_kinds in ((split.inserts, False), (split.kinds, with_kinds)):
        for group in groups:
            kept, kind = condition, F.lit(str(RowKind.INSERT))
            if of_kinds:
                kept, kind = leaving or (condition, F.col(ROW_KIND_COLUMN))
            frame = native_frame(spark, group, needed, kept, with_kinds=of_kinds)
            columns = [F.col(quoted(name)) for name in rows.columns]
            if with_kinds:
                columns = [kind.alias(ROW_KIND_COLUMN), *columns]
            frames.append(frame.select(*columns))
    if split.units:
        frames.append(_kernel_frame(spark, rows.context, task, split.units, schema))
    if not frames:
        return no_rows(spark, schema)
    frame = reduce(DataFrame.unionAll, frames)
    most = tasks_asked(spark, rows.context.options)
    return frame if most is None else frame.coalesce(most)


def _leaving_kinds(
    rows: ChangeRows, needed: Sequence[DataField]
) -> tuple[Column | None, Column] | None:
    """The rows to keep and their kinds, where a row that leaves the predicate is a delete."""
    if not isinstance(rows.leaving, ChangeFilter):  # of an UpdateFilter the kernel reads the files
        return None
    kept = None
    if rows.leaving.of_keys is not None:
        kept = to_column(rows.leaving.of_keys, needed)
    wanted = to_column(rows.leaving.predicate, needed)
    return None if wanted is None else (kept, kinds_left(F.col(ROW_KIND_COLUMN), wanted))


def kinds_left(kind: Column, wanted: Column, written: Callable[[RowKind], object] = str) -> Column:
    """The kinds of rows: ``-D`` for a new row that is not wanted; unknown is not.

    Parameters
    ----------
    written : callable
        How the column writes a kind.
    """
    is_new = kind.isin(written(RowKind.INSERT), written(RowKind.UPDATE_AFTER))
    leaves = is_new & ~F.coalesce(wanted, F.lit(False))
    return F.when(
        leaves, F.lit(written(RowKind.DELETE)).cast("byte" if written is int else "string")
    ).otherwise(kind)


def _kernel_frame(
    spark: SparkSession,
    context: ReadContext,
    task: ChangeTask,
    units: Sequence[ChangeUnit],
    schema: st.StructType,
) -> DataFrame:
    """Changes that the kernel reads on the executors."""
    packed = packed_splits(spark, context, [_UnitBytes.of(unit) for unit in units])
    blobs = [[part.blobs for unit in own for part in unit.parts] for own in packed]
    return share_frame(spark, blobs, task.batches_of_parts, schema)


def _frame_by_key(
    spark: SparkSession,
    task: ChangeTask,
    parts: Sequence[ChangePart],
    schema: st.StructType,
    *,
    table: str,
) -> DataFrame:
    """Changes whose keys span buckets: all of a key come from one task, in order of the parts."""
    rows = task.rows
    size_bytes = sum(split.size_bytes for part in parts for split in part)
    if size_bytes <= ONE_TASK_BYTES:
        return _kernel_frame(spark, rows.context, task, [ChangeUnit(tuple(parts))], schema)
    keys = rows.context.schema.primary_keys
    others = [name for name in keys if name not in rows.columns]
    wide_rows: ChangeRows = replace(cast("Any", rows), columns=(*rows.columns, *others))
    wide = ChangeTask(wide_rows, task.with_kinds)
    given = spark_schema(wide.fields, table=table)
    for name in (PART_COLUMN, ROW_COLUMN):
        given = given.add(name, st.LongType())
    numbered = [_NumberedPart(number, PartBytes.of(part)) for number, part in enumerate(parts)]
    packed = packed_splits(spark, rows.context, numbered)
    frame = share_frame(spark, packed, wide.numbered_batches, given)
    most = tasks_asked(spark, rows.context.options) or parallelism(spark)
    count = min(most, math.ceil(size_bytes / ONE_TASK_BYTES))
    sorted_rows = frame.repartition(count, *(F.col(quoted(name)) for name in keys))
    sorted_rows = sorted_rows.sortWithinPartitions(PART_COLUMN, ROW_COLUMN)
    # a function of Python between them: else a later shuffle would drop this one and its sort
    return in_workers(sorted_rows, _selecting(schema.names), schema)


def _selecting(
    names: Sequence[str],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def select(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return (batch.select(names) for batch in batches)

    return select


def two_moments(
    options: dict[str, object], name: str, *, time: Callable[[str], Any]
) -> tuple[Any, Any] | None:
    """Take the two moments of ``incremental-between`` out of a table's options; None without them.

    Parameters
    ----------
    time : callable
        Converts a time of a statement.

    Raises
    ------
    InvalidInputError
        An option does not hold two moments, or both are given.
    """
    ends = _two_ends(options, INCREMENTAL, "snapshots or tags: '3,7'", name)
    times = _two_ends(options, INCREMENTAL_TIMES, "times: '2026-11-21,2026-11-22'", name)
    if ends is not None and times is not None:
        message = f"Say '{INCREMENTAL}' or '{INCREMENTAL_TIMES}' of table '{name}', not both."
        raise InvalidInputError(message, kind="two_moments", table=name)
    if times is not None:
        return (time(times[0]), time(times[1]))
    if ends is None:
        return None
    first, last = (int(e) if e.isdecimal() else e for e in ends)
    return first, last


def _two_ends(options: dict[str, object], key: str, what: str, name: str) -> tuple[str, str] | None:
    """Take an option that holds two ends out of a table's options."""
    between = options.pop(key, None)
    if between is None:
        return None
    first, comma, last = str(between).partition(",")
    if not comma or not first.strip() or not last.strip():
        message = f"'{key}' = '{between}' of table '{name}' must be two {what}."
        raise InvalidInputError(message, kind="option_value", table=name, option=key)
    return (first.strip(), last.strip())


class ChangesBetween:
    """The changes of a table between two moments.

    Parameters
    ----------
    options : dict
        Of this use, without the moments; the mode is taken out of them.
    name : str
        Of the table, in messages.
    """

    def __init__(
        self,
        spark: SparkSession,
        found: Table,
        moments: tuple[Any, Any],
        options: dict[str, object],
        name: str,
    ) -> None:
        self._mode: Any = options.pop(INCREMENTAL_MODE, "auto")
        self._spark = spark
        self._table = in_session(spark, found, options)
        self._moments = moments
        self._name = name
        self.fields = self._table.table_schema.fields

    def rows(self, columns: Sequence[str], row_filter: object = None) -> DataFrame:
        """The changes that leave a row: a batch shows no deletes."""
        rows = self._changes(columns, row_filter)
        return selected(rows.where(F.col(ROW_KIND_COLUMN).isin("+I", "+U")), columns)

    def audit_log(self, columns: Sequence[str]) -> DataFrame:
        """All changes, each with its kind as the audit log shows it."""
        own = [c for c in columns if c != ROW_KIND] or [self.fields[0].name]
        return selected(self._changes(own).withColumnRenamed(ROW_KIND_COLUMN, ROW_KIND), columns)

    def _changes(self, columns: Sequence[str], row_filter: object = None) -> DataFrame:
        changes = planned_changes(
            self._table.handle, *self._moments, columns=columns, where=row_filter, mode=self._mode
        )
        return changes_frame(self._spark, changes, table=self._name)


def selected(frame: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Columns of a DataFrame, by names of any characters."""
    return frame.select(*(quoted(c) for c in columns))
