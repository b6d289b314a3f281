"""Applies a batch of changes: one commit into the target.

1. The batch is read once and kept (``persist``); one job counts it and looks for nulls in keys and
   sequences, which refuse it as a whole.
2. What later batches need is written to the table of kept changes. The write has no identity: it
   gives the same rows if the batch comes again.
3. The rows of the touched keys are found by joins: kept changes, and for type 2 the target's rows.
4. All rows of a key meet in one task, sorted by key, where :mod:`tidelake.merge.change_history`
   decides the rows to write.
5. They are written in one commit. If another commit wrote to these keys meanwhile, 3 to 5 are
   repeated.

A process that dies between 2 and 5 leaves kept changes that the target does not show yet; the batch
comes again and finds them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as st

from tidelake.engine.metadata import Snapshot
from tidelake.engine.rows import check_none_wait
from tidelake.engine.scan import scan_all_rows
from tidelake.engine.schemas import with_newest_schema
from tidelake.engine.tables import TableHandle
from tidelake.engine.write import (
    DELETE,
    EMPTY_TABLE,
    ROLE_COLUMN,
    ROW_KIND_COLUMN,
    TARGET,
    UPSERT,
    CommitIdentity,
    HistoryRule,
    WriteResult,
    WriteTransaction,
    versions_of,
)
from tidelake.errors import InvalidInputError, shortened
from tidelake.spark.expression.expression import quoted
from tidelake.spark.expression.mapped import Work, mapped
from tidelake.spark.expression.types import spark_schema
from tidelake.spark.read.scan_frame import frame_of
from tidelake.spark.streams.applychanges.definition import (
    OPERATION,
    TRUNCATE,
    FeedDefinition,
    end_columns,
    sequence_columns,
)
from tidelake.spark.streams.applychanges.truncation import record_truncation, truncated_at
from tidelake.spark.write.write_frame import write_frame, write_made_rows
from tidelake.types.predicate import And, Compare, Predicate, bind, conjoin

BROADCAST_ROWS_MAX = 500_000
"""Up to so many changes their keys are sent to all executors, so that the tables do not move."""
_BOUNDED = (st.ByteType, st.ShortType, st.IntegerType, st.LongType, st.StringType, st.DateType)


@dataclass(frozen=True, slots=True)
class AppliedChanges:
    """Applies batches to a target. Picklable.

    Parameters
    ----------
    kept : TableHandle
        The table of kept changes.
    tasks : int, optional
        How many tasks write.
    """

    definition: FeedDefinition
    kept: TableHandle
    tasks: int | None = None

    def apply(self, transaction: WriteTransaction, batch: DataFrame) -> WriteResult:
        """Apply changes in one commit; none if there are no changes.

        Parameters
        ----------
        batch : DataFrame
            Changes in the shape of :func:`~tidelake.spark.streams.applychanges.definition.defined`.

        Raises
        ------
        InvalidInputError
            A key or a sequence is null; nothing was written.
        """
        changes = batch.persist()
        try:
            facts = _facts(changes, self.definition)
            if not facts.rows:
                return WriteResult()
            kept = with_newest_schema(self.kept)
            return transaction.run(_Batch(self, transaction, kept, changes, facts))
        finally:
            changes.unpersist()

    def rule(self) -> HistoryRule:
        """How changes become rows of the target."""
        definition = self.definition
        return HistoryRule(
            definition.keys,
            definition.values,
            sequence_columns(definition),
            definition.target_sequence,
            end_columns(definition),
            definition.target_ends,
            definition.tracked,
            definition.ignores_nulls,
            rows_are_changes=definition.keeps_versions and not definition.keeps_all,
        )


@dataclass(frozen=True, slots=True)
class _Facts:
    """What one pass over a batch finds."""

    rows: int
    deletes: int
    truncations: int
    bounds: dict[str, tuple[Any, Any]]


class _Batch:
    """A batch that is applied to the newest snapshot."""

    def __init__(
        self,
        applied: AppliedChanges,
        transaction: WriteTransaction,
        kept: TableHandle,
        changes: DataFrame,
        facts: _Facts,
    ) -> None:
        self.applied = applied
        self.definition = applied.definition
        self.transaction = transaction
        self.handle = transaction.handle
        self.kept = kept
        self.changes = changes
        self.facts = facts
        self.spark: SparkSession = changes.sparkSession
        self.sequence = sequence_columns(self.definition)
        self._is_kept = False

    def attempt(self) -> WriteResult:
        """Apply it once."""
        handle = self.handle
        handle.schemas.check_same(handle.schema, table=handle.identifier)
        # before the kept changes are read: a delete of another job that they lack is a conflict
        snapshot = handle.snapshots.latest()
        if snapshot is not None:
            check_none_wait(handle, snapshot)
        if not self._is_kept:
            self._keep()
            self._is_kept = True
        rows = self._rows_of_keys(snapshot)
        return write_made_rows(
            self.transaction,
            self._made(rows),
            read_snapshot=snapshot or EMPTY_TABLE,
            tasks=self.applied.tasks,
        )

    def _keep(self) -> None:
        """Write what later batches need."""
        definition = self.definition
        role = F.col(ROLE_COLUMN)
        if self.facts.truncations:
            self.kept = record_truncation(
                self.kept,
                self.changes.where(role == TRUNCATE),
                self.sequence,
                definition.sequence_types,
            )
        rows = self._since(self.changes.where(role != TRUNCATE))
        if not definition.keeps_all:
            if not self.facts.deletes:
                return
            rows = rows.where(role == DELETE)
        named = zip(self.sequence, definition.kept_sequence, strict=True)
        operation = F.when(role == DELETE, F.lit("D")).otherwise(F.lit("U"))
        rows = rows.select(
            *_columns(definition.keys),
            *(F.col(own).alias(name) for own, name in named),
            operation.alias(OPERATION),
            *(_columns(definition.values) if definition.keeps_all else ()),
        )
        write_frame(
            self.kept,
            rows,
            mode="append",
            partition=None,
            identity=CommitIdentity.of(self.kept, None, None),
            tasks=self.applied.tasks,
        )

    def _since(self, rows: DataFrame) -> DataFrame:
        """Changes that no truncation removed."""
        known = truncated_at(self.kept, self.definition.sequence_types)
        return rows if known is None else rows.where(F.struct(*self.sequence) > self._as(known))

    def _as(self, values: Column) -> Column:
        """A struct of literals with the names of the sequence."""
        parts = (values[f"col{n}"].alias(name) for n, name in enumerate(self.sequence, 1))
        return F.struct(*parts)

    def _rows_of_keys(self, snapshot: Snapshot | None) -> DataFrame:
        """All rows that decide the rows of the touched keys, in the shape of a change."""
        definition = self.definition
        role = F.col(ROLE_COLUMN)
        batch = self.changes.where(role != TRUNCATE)
        touched = batch.select(*_columns(definition.keys)).distinct()
        if self.facts.rows <= BROADCAST_ROWS_MAX:
            touched = F.broadcast(touched)
        own = batch.where(role == UPSERT)
        parts = [] if definition.keeps_all else [self._since(own)]
        kept = self._kept_of(touched)
        if kept is not None:
            parts.append(self._since(kept))
        if snapshot is not None and definition.keeps_versions:
            parts.append(self._rows_of(snapshot, touched))
        if snapshot is not None and self.facts.truncations:
            parts.append(self._truncated(snapshot))
        ends = zip(end_columns(definition), self.sequence, strict=False)
        empty = [(name, self.changes.schema[own].dataType) for name, own in ends]
        whole = [_with_missing(part, empty) for part in parts]
        names = (*definition.keys, *definition.values, *self.sequence, *(n for n, _ in empty))
        columns = [*_columns(names), role]
        empty_part = _with_missing(self.changes.limit(0), empty)
        return reduce(DataFrame.unionAll, (part.select(*columns) for part in whole or [empty_part]))

    def _kept_of(self, touched: DataFrame) -> DataFrame | None:
        """The kept changes of the touched keys."""
        definition = self.definition
        snapshot = self.kept.snapshots.latest()
        if snapshot is None:
            return None
        rows = self._joined(self.kept, snapshot, touched)
        named = zip(definition.kept_sequence, self.sequence, strict=True)
        values = _columns(definition.values)
        if not definition.keeps_all:  # deletes alone
            values = [self._no_value(name) for name in definition.values]
        is_delete = F.col(OPERATION) == "D"
        return rows.select(
            *_columns(definition.keys),
            *values,
            *(F.col(quoted(kept)).alias(own) for kept, own in named),
            F.when(is_delete, F.lit(DELETE))
            .otherwise(F.lit(UPSERT))
            .cast("tinyint")
            .alias(ROLE_COLUMN),
        )

    def _no_value(self, name: str) -> Column:
        return F.lit(None).cast(self.changes.schema[name].dataType).alias(name)

    def _rows_of(self, snapshot: Snapshot, touched: DataFrame) -> DataFrame:
        """The target's rows of the touched keys."""
        definition = self.definition
        rows = self._joined(self.handle, snapshot, touched)
        starts = zip(definition.target_sequence, self.sequence, strict=True)
        ends = zip(definition.target_ends, end_columns(definition), strict=True)
        return rows.select(
            *_columns((*definition.keys, *definition.values)),
            *(F.col(quoted(theirs)).alias(own) for theirs, own in (*starts, *ends)),
            F.lit(TARGET).cast("tinyint").alias(ROLE_COLUMN),
        )

    def _joined(self, handle: TableHandle, snapshot: Snapshot, touched: DataFrame) -> DataFrame:
        scan = scan_all_rows(handle, snapshot, self._predicate(handle))
        rows = frame_of(self.spark, scan, table=handle.identifier)
        return rows.join(touched, list(self.definition.keys), "left_semi")

    def _predicate(self, handle: TableHandle) -> Predicate | None:
        """The bounds of the touched keys."""
        parts = [
            bind(And((Compare(">=", name, low), Compare("<=", name, high))), handle.schema.fields)
            for name, (low, high) in self.facts.bounds.items()
        ]
        return conjoin(parts)

    def _truncated(self, snapshot: Snapshot) -> DataFrame:
        """A delete, at the newest truncation, for each row of the target that it removes."""
        definition = self.definition
        known = truncated_at(self.kept, definition.sequence_types)
        assert known is not None, "the batch has a truncation, and it was recorded"
        columns = (*definition.keys, *definition.target_sequence)
        scan = scan_all_rows(self.handle, snapshot, columns=columns)
        rows = frame_of(self.spark, scan, table=self.handle.identifier)
        named = zip(definition.target_sequence, self.sequence, strict=True)
        at = F.struct(*(F.col(quoted(theirs)).alias(own) for theirs, own in named))
        gone = rows.where(at <= self._as(known))
        return gone.select(
            *_columns(definition.keys),
            *(self._no_value(name) for name in definition.values),
            *(known[f"col{n}"].alias(name) for n, name in enumerate(self.sequence, 1)),
            F.lit(DELETE).cast("tinyint").alias(ROLE_COLUMN),
        )

    def _made(self, rows: DataFrame) -> DataFrame:
        """The rows to write."""
        definition = self.definition
        keys = _columns(definition.keys)
        rule = self.applied.rule()
        names = self.handle.schema.field_names
        schema = spark_schema(self.handle.schema.fields, table=self.handle.identifier)
        schema = schema.add(ROW_KIND_COLUMN, st.ByteType())
        order = [*keys, *(F.col(name) for name in self.sequence), F.col(ROLE_COLUMN)]
        together = rows.repartition(*keys).sortWithinPartitions(*order)
        return mapped(together, _making(rule, (*names, ROW_KIND_COLUMN)), schema)


def _making(rule: HistoryRule, names: tuple[str, ...]) -> Work:
    """Make the function that makes rows on an executor."""

    def versions_of_keys(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in versions_of(batches, rule):
            yield from rows.select(list(names)).combine_chunks().to_batches()

    return versions_of_keys


def _facts(changes: DataFrame, definition: FeedDefinition) -> _Facts:
    """Look at a batch once.

    Raises
    ------
    InvalidInputError
        A key or a sequence is null.
    """
    role = F.col(ROLE_COLUMN)
    sequence = sequence_columns(definition)
    no_sequence = reduce(Column.__or__, [F.col(name).isNull() for name in sequence])
    no_key = reduce(Column.__or__, [F.col(quoted(n)).isNull() for n in definition.keys])
    is_bad = no_sequence | (no_key & (role != TRUNCATE))
    bounded = [n for n in definition.keys if isinstance(changes.schema[n].dataType, _BOUNDED)]
    row = changes.agg(
        F.count(F.lit(1)),
        F.count_if(is_bad),
        F.count_if(role == DELETE),
        F.count_if(role == TRUNCATE),
        *(made(quoted(name)) for name in bounded for made in (F.min, F.max)),
    ).collect()[0]
    if row[1]:
        raise _null_fault(changes.where(is_bad), definition)
    bounds = {n: (row[4 + 2 * i], row[5 + 2 * i]) for i, n in enumerate(bounded)}
    known = {name: ends for name, ends in bounds.items() if ends[0] is not None}
    return _Facts(row[0], row[2], row[3], known)


def _null_fault(rows: DataFrame, definition: FeedDefinition) -> InvalidInputError:
    """Name a row with a null in its key or sequence."""
    own = sequence_columns(definition)
    found = rows.select(*_columns(definition.keys), *own).head(1)[0]
    shown = dict(zip((*definition.keys, *definition.sequence_names), found, strict=True))
    text = shortened(", ".join(f"{name} = {value!r}" for name, value in shown.items()))
    what = "key" if any(shown[name] is None for name in definition.keys) else "sequence"
    message = (
        f"A change for table '{definition.table}' has a null in its {what}: {text}. No change of"
        " this batch was applied. Leave such rows out before, or write them to a table of their"
        " own."
    )
    return InvalidInputError(message, kind="null_in_change", table=definition.table)


def _columns(names: Sequence[str]) -> list[Column]:
    return [F.col(quoted(name)) for name in names]


def _with_missing(rows: DataFrame, columns: Sequence[tuple[str, st.DataType]]) -> DataFrame:
    """Add columns of nulls that a part does not have."""
    for name, data_type in columns:
        if name not in rows.columns:
            rows = rows.withColumn(name, F.lit(None).cast(data_type))
    return rows
