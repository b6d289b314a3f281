"""Aggregates that metadata answers: ``count``, ``min`` and ``max``, also by partition.

Spark gives a scan the aggregates of a query without filters on rows. If the summary of the plan
(:mod:`tidelake.scan.summary`) has each of them exactly, the scan is its answer: one row, or one row
for each partition. Otherwise the aggregates stay Spark's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tidelake.engine.codec import decode_row
from tidelake.engine.scan import (
    PartitionSummary,
    ReadContext,
    TableScan,
    has_whole_ends,
    plan_summary,
    total_summary,
)
from tidelake.spark.callbacks.gateway import JavaObject
from tidelake.spark.expression.types import to_spark_arrow
from tidelake.types import DataField, DataType, TypeRoot, parse_type
from tidelake.types.values import storage_to_arrow

COUNT, MIN, MAX = "count", "min", "max"
_KINDS = {"CountStar": COUNT, "Count": COUNT, "Min": MIN, "Max": MAX}
_REFERENCE = "FieldReference"
_COUNT_TYPE = parse_type("BIGINT NOT NULL")
GROUPS_MAX = 100_000
"""The most rows that are one literal of the plan."""
_NOT_GROUPED = frozenset({TypeRoot.FLOAT, TypeRoot.DOUBLE})
"""Types whose equal values Python takes to differ, or the other way round: NaN, -0.0."""


@dataclass(frozen=True, slots=True)
class Aggregates:
    """What a query asks: groups by partition columns, then aggregates.

    Parameters
    ----------
    asked : tuple of (str, str or None)
        ``count``, ``min`` or ``max``, and the column; none for ``count(*)``.
    """

    groups: tuple[str, ...]
    asked: tuple[tuple[str, str | None], ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns with aggregates."""
        return tuple(dict.fromkeys(name for _, name in self.asked if name is not None))

    def can_be_known(self, types: Mapping[str, DataType]) -> bool:
        """Whether metadata may have them at all; tells before anything is planned."""
        ends = (name for kind, name in self.asked if kind != COUNT and name is not None)
        return all(has_whole_ends(types[name]) for name in ends)

    def answer(self, scan: TableScan) -> pa.Table | None:
        """The rows, in Spark's Arrow types; None if metadata lacks one of them."""
        if scan.other is not None:
            return None  # the summaries are of one branch
        in_files = set(self.columns) - set(scan.context.schema.partition_keys)
        if in_files and any(split.deletions for split in scan.plan.splits):
            return None  # nothing is known of the rows that are left: no statistics are decoded
        summaries = plan_summary(scan.context, scan.plan, self.columns)
        if summaries is None:
            return None
        if not self.groups:
            summaries = [total_summary(summaries, self.columns)]
            keys: list[tuple[Any, ...]] = [()]
        else:
            summaries, keys = self._grouped(scan.context, summaries)
        if len(keys) > GROUPS_MAX:
            return None
        rows = [self._row(summary) for summary in summaries]
        if any(row is None for row in rows):
            return None
        values = [(*key, *row) for key, row in zip(keys, rows, strict=True) if row is not None]
        return self._table(scan.context, values)

    def _grouped(
        self, context: ReadContext, summaries: Sequence[PartitionSummary]
    ) -> tuple[list[PartitionSummary], list[tuple[Any, ...]]]:
        names = context.schema.partition_keys
        types = [context.schema.field(name).type for name in names]
        at = [names.index(name) for name in self.groups]
        found: dict[tuple[Any, ...], PartitionSummary] = {}
        for one in summaries:
            if one.rows_count == 0:
                continue
            values = decode_row(one.partition, types)
            key = tuple(values[i] for i in at)
            found[key] = one if key not in found else found[key].and_of(one)
        return list(found.values()), list(found)

    def _row(self, summary: PartitionSummary) -> tuple[Any, ...] | None:
        row: list[Any] = []
        for kind, name in self.asked:
            if name is None:
                row.append(summary.rows_count)
                continue
            column = summary.columns[name]
            if kind == COUNT and column.nulls_count is not None:
                row.append(summary.rows_count - column.nulls_count)
            elif kind != COUNT and column.has_extremes:
                row.append(column.low if kind == MIN else column.high)
            else:
                return None
        return tuple(row)

    def fields(self, context: ReadContext) -> tuple[DataField, ...]:
        """The columns of the answer: groups, then aggregates."""
        schema = context.schema
        fields = [
            DataField(number, f"g{number}", schema.field(name).type)
            for number, name in enumerate(self.groups)
        ]
        for number, (kind, column) in enumerate(self.asked, len(fields)):
            own = _COUNT_TYPE
            if column is not None and kind != COUNT:
                own = schema.field(column).type.as_nullable()
            fields.append(DataField(number, f"a{number}", own))
        return tuple(fields)

    def _table(self, context: ReadContext, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
        fields = self.fields(context)
        columns = [
            storage_to_arrow([row[i] for row in rows], field.type) for i, field in enumerate(fields)
        ]
        batch = pa.RecordBatch.from_arrays(columns, names=[field.name for field in fields])
        return pa.Table.from_batches([to_spark_arrow(batch, fields)])


def asked_aggregates(
    aggregation: JavaObject, types: Mapping[str, DataType], partition_keys: Sequence[str]
) -> Aggregates | None:
    """Read Spark's ``Aggregation``; None if metadata cannot answer it.

    Parameters
    ----------
    aggregation : JavaObject
        Of ``org.apache.spark.sql.connector.expressions.aggregate``.
    """
    groups = [_column(one, types) or "" for one in aggregation.groupByExpressions()]
    if any(name not in partition_keys or types[name].root in _NOT_GROUPED for name in groups):
        return None
    asked: list[tuple[str, str | None]] = []
    for one in aggregation.aggregateExpressions():
        of_java = str(one.getClass().getSimpleName())
        kind = _KINDS.get(of_java)
        if kind is None or (of_java == "Count" and one.isDistinct()):
            return None
        if of_java == "CountStar":
            asked.append((kind, None))
            continue
        name = _column(one.column(), types)
        if name is None:
            return None
        asked.append((kind, name))
    found = Aggregates(tuple(groups), tuple(asked))
    return found if found.can_be_known(types) else None


def _column(expression: JavaObject, types: Mapping[str, object]) -> str | None:
    """The column that an expression is; None for any other expression."""
    if expression.getClass().getSimpleName() != _REFERENCE:
        return None
    names = list(expression.fieldNames())
    return str(names[0]) if len(names) == 1 and names[0] in types else None
