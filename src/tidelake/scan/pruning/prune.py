"""The rules of pruning, pure: what a predicate excludes of partitions, buckets and files.

A plan may drop a file only if no row of the answer can come from it *or be changed by it*:

1. Conjuncts on partition columns alone decide exactly, once per partition.
2. Equality or IN on **all** bucket-key columns names the buckets, by the entry's own
   ``_TOTAL_BUCKETS``.
3. Conjuncts on primary-key columns prune each file by its key statistics: a key that does not match
   is of no interest in any file.
4. Other conjuncts prune by value statistics. If files of a primary-key table overlap, a file
   without a match may still hold the newer row (or the delete) of a key whose older row matches;
   :func:`prune_section` holds the rule.

Source: ``docs/format/reading.md``; Paimon's ``KeyValueFileStoreScan`` (1.3.1). No IO here.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidelake.codec.binary_row import decode_row
from tidelake.codec.bucket import buckets_of
from tidelake.errors import CorruptError
from tidelake.metadata.data_file import EMPTY_ROW, DataFileMeta, SimpleStats
from tidelake.metadata.row_ids import stats_fields
from tidelake.types import DataField, DataType, TableSchema, TypeRoot
from tidelake.types.cast import keeps_order
from tidelake.types.predicate import (
    And,
    ColumnRange,
    Compare,
    In,
    Or,
    Predicate,
    columns_of,
    conjoin,
    conjuncts,
    evaluate,
    may_match,
)
from tidelake.types.values import storage_to_arrow

BUCKET_POINTS_MAX = 1_000
"""More combinations of bucket-key values than this are not worth hashing."""


@dataclass(frozen=True, slots=True)
class ScanFilter:
    """A bound predicate, split by what each part can prune.

    Parameters
    ----------
    key : Predicate or None
        The conjuncts on primary-key columns (partition columns included) alone.
    rest : Predicate or None
        All conjuncts that are not in `partition`.
    below_merge, above_merge : Predicate or None
        The part for the rows of single runs (conjuncts on primary-key columns: a key that does
        not match does not match in any run), and the part for merged rows only.
    """

    predicate: Predicate | None
    partition: Predicate | None
    key: Predicate | None
    rest: Predicate | None
    below_merge: Predicate | None
    above_merge: Predicate | None


def scan_filter(schema: TableSchema, predicate: Predicate | None) -> ScanFilter:
    """Split a bound predicate."""
    if predicate is None:
        return ScanFilter(None, None, None, None, None, None)
    partition_columns = frozenset(schema.partition_keys)
    key_columns = frozenset(schema.primary_keys) | partition_columns
    parts = conjuncts(predicate)
    on_partition = [p for p in parts if columns_of(p) <= partition_columns]
    rest = [p for p in parts if not columns_of(p) <= partition_columns]
    on_key = [p for p in rest if schema.primary_keys and columns_of(p) <= key_columns]
    on_values = [p for p in rest if not columns_of(p) <= key_columns]
    return ScanFilter(
        predicate,
        partition=conjoin(on_partition),
        key=conjoin(on_key),
        rest=conjoin(rest),
        below_merge=conjoin([*on_partition, *on_key]),
        above_merge=conjoin(on_values),
    )


def matching_partitions(
    partitions: Sequence[Sequence[object]], fields: Sequence[DataField], predicate: Predicate
) -> NDArray[np.bool_]:
    """Evaluate a predicate on partitions.

    Parameters
    ----------
    partitions : sequence of storage-value tuples
        One per partition.
    predicate : Predicate
        Bound; names partition columns only.

    Returns
    -------
    ndarray of bool, shape [partitions]
    """
    if not partitions:
        return np.zeros(0, dtype=bool)
    if not fields:  # a constant; a batch without columns would have no rows
        return np.full(len(partitions), may_match(predicate, {}))
    columns = [
        storage_to_arrow([values[i] for values in partitions], field.type)
        for i, field in enumerate(fields)
    ]
    batch = pa.RecordBatch.from_arrays(columns, names=[f.name for f in fields])
    return np.asarray(evaluate(predicate, batch, fields).to_numpy(zero_copy_only=False))


def _points(predicate: Predicate, column: str) -> frozenset[object] | None:
    """The values a column must have for the predicate to hold; None if it may have any."""
    if isinstance(predicate, Compare):
        known = predicate.op == "==" and predicate.column == column
        return frozenset([predicate.literal]) if known else None
    if isinstance(predicate, In):
        return frozenset(predicate.literals) if predicate.column == column else None
    if isinstance(predicate, And):
        points: frozenset[object] | None = None
        for part in predicate.parts:
            own = _points(part, column)
            if own is not None:
                points = own if points is None else points & own
        return points
    if isinstance(predicate, Or):
        union: frozenset[object] = frozenset()
        for part in predicate.parts:
            own = _points(part, column)
            if own is None:
                return None
            union |= own
        return union
    return None


def buckets_named(
    schema: TableSchema, predicate: Predicate | None, *, function: str = "default"
) -> Callable[[int], frozenset[int] | None]:
    """Find the buckets that may hold rows matching the predicate.

    Returns
    -------
    callable
        From an entry's total number of buckets to the buckets named, or None for "any".
    """
    fields = [schema.field(name) for name in schema.bucket_keys]
    # 0.0 and -0.0 are equal to a predicate but have different hashes
    floating = any(f.type.root in {TypeRoot.FLOAT, TypeRoot.DOUBLE} for f in fields)
    if predicate is None or not fields or floating:
        return lambda _: None
    points = []
    for field in fields:
        own = _points(predicate, field.name)
        if own is None:
            return lambda _: None
        points.append([v for v in own if v is not None])
    if int(np.prod([len(p) for p in points], dtype=np.float64)) > BUCKET_POINTS_MAX:
        return lambda _: None
    combinations = list(itertools.product(*points))
    types = [f.type for f in fields]
    columns = [storage_to_arrow([c[i] for c in combinations], t) for i, t in enumerate(types)]

    def named(total_buckets: int) -> frozenset[int] | None:
        if total_buckets <= 0:
            return None
        if not combinations:
            return frozenset()
        numbers = buckets_of(columns, types, total_buckets, function=function)
        return frozenset(int(b) for b in numbers)

    return named


@dataclass(frozen=True, slots=True)
class StatsSlot:
    """The position of a column's statistics in those of the files of one schema.

    Parameters
    ----------
    position : int or None
        Its index in the rows of statistics; None if they lack it.
    is_absent : bool
        Whether the files lack it: it was added later.
    """

    position: int | None
    fields_count: int
    data_type: DataType
    is_absent: bool = False


class StatsReader:
    """Decodes the statistics of data files as ranges of the table's current columns.

    Statistics are addressed by the field ids of the file's own schema: a renamed column is
    found, a column that the file lacks is all null. A column with a changed type has a range only
    if a cast keeps the order of all values (INT to BIGINT, but not INT to STRING), and no number
    of nulls, because a cast may create some.

    Parameters
    ----------
    schema : TableSchema
        The schema that the predicate is bound to.
    schemas : mapping of int to TableSchema
        All schemas of the table, for files written with older ones.
    clustered : bool
        Whether the bounds of files above level 0 are those of other columns than the key.
    """

    def __init__(
        self,
        schema: TableSchema,
        schemas: Mapping[int, TableSchema],
        *,
        clustered: bool = False,
    ) -> None:
        self._schema = schema
        self._clustered = clustered
        self._schemas = schemas
        self.partition_names = schema.partition_keys

    def partition_ranges(self, values: Sequence[object]) -> dict[str, ColumnRange]:
        """The partition's values as ranges of one value."""
        return {
            name: ColumnRange(None, None, 1, 1)
            if value is None
            else ColumnRange(value, value, 0, 1)
            for name, value in zip(self.partition_names, values, strict=True)
        }

    def slot(
        self,
        schema_id: int,
        stats_cols: tuple[str, ...] | None,
        column: str,
        *,
        stats: Literal["key", "value"],
    ) -> StatsSlot | None:
        """Find the statistics of a column of the current schema in files of another.

        Parameters
        ----------
        stats_cols : tuple of str or None
            The columns that their value statistics hold; None for all of the schema.

        Returns
        -------
        StatsSlot or None
            None if only :meth:`key_ranges` and :meth:`value_ranges` can answer, file by file.
        """
        file_schema = self._schemas.get(schema_id)
        current = next((f for f in self._schema.fields if f.name == column), None)
        if file_schema is None or current is None:
            return None
        names = file_schema.field_names if stats_cols is None else stats_cols
        if stats == "key":
            names = file_schema.trimmed_primary_keys
        own = next((f for f in file_schema.fields if f.id == current.id), None)
        if own is None:
            return StatsSlot(None, len(names), current.type, is_absent=True)
        if own.type.not_null() != current.type.not_null() or len(set(names)) != len(names):
            return None
        if not set(names) <= set(file_schema.field_names):
            return None
        position = names.index(own.name) if own.name in names else None
        return StatsSlot(position, len(names), own.type)

    def key_ranges(self, file: DataFileMeta, columns: Iterable[str]) -> dict[str, ColumnRange]:
        """Ranges of the key columns, by the file's key statistics or, without them, its bounds."""
        file_schema = self.file_schema(file)
        names = file_schema.trimmed_primary_keys
        keys = [file_schema.field(n) for n in names]
        ranges = self._ranges(file, file.key_stats, keys, frozenset(columns))
        has_bounds = file.level == 0 or not self._clustered
        if not ranges and has_bounds and file.min_key != EMPTY_ROW and names:
            # the bounds are those of whole keys: they bound only the first column
            fields = [file_schema.field(n) for n in names]
            types = [f.type for f in fields]
            low = decode_row(file.min_key, types)[0]
            high = decode_row(file.max_key, types)[0]
            current = self._current(fields[0])
            if current is not None:
                ranges[current.name] = _evolved(
                    ColumnRange(low, high, None, file.row_count), fields[0], current
                )
        return ranges

    def value_ranges(self, file: DataFileMeta, columns: Iterable[str]) -> dict[str, ColumnRange]:
        """Ranges of the value columns, by the file's value statistics."""
        file_schema = self.file_schema(file)
        wanted = frozenset(columns)
        fields = stats_fields(
            file_schema, file.value_stats_cols, file.write_cols, file.value_stats.min_values
        )
        ranges = self._ranges(file, file.value_stats, fields, wanted)
        known_ids = {f.id for f in file_schema.fields}
        for field in self._schema.fields:
            if field.name in wanted and field.id not in known_ids:
                ranges[field.name] = ColumnRange(None, None, file.row_count, file.row_count)
        return ranges

    def file_schema(self, file: DataFileMeta) -> TableSchema:
        """The schema that a file was written with."""
        try:
            return self._schemas[file.schema_id]
        except KeyError:
            message = (
                f"Data file '{file.file_name}' was written with schema {file.schema_id}, which the"
                f" table does not have; its schemas are {sorted(self._schemas)}. Restore the file"
                f" schema/schema-{file.schema_id}."
            )
            raise CorruptError(message, kind="schema_missing", file=file.file_name) from None

    def _current(self, file_field: DataField) -> DataField | None:
        for field in self._schema.fields:
            if field.id == file_field.id:
                return field if keeps_order(file_field.type, field.type) else None
        return None

    def _ranges(
        self,
        file: DataFileMeta,
        stats: SimpleStats,
        fields: Sequence[DataField],
        wanted: frozenset[str],
    ) -> dict[str, ColumnRange]:
        if stats.min_values == EMPTY_ROW or not fields:
            return {}
        current = [self._current(f) for f in fields]
        if not any(c is not None and c.name in wanted for c in current):
            return {}
        types = [f.type for f in fields]
        low = decode_row(stats.min_values, types)
        high = decode_row(stats.max_values, types)
        nulls = stats.null_counts or (None,) * len(fields)
        return {
            c.name: _evolved(ColumnRange(low[i], high[i], nulls[i], file.row_count), fields[i], c)
            for i, c in enumerate(current)
            if c is not None and c.name in wanted
        }


def _evolved(known: ColumnRange, file_field: DataField, field: DataField) -> ColumnRange:
    """A range of a file's column as a range of the table's column."""
    if file_field.type.as_nullable() == field.type.as_nullable():
        return known
    low, high = known.min, known.max
    if field.type.root is TypeRoot.DECIMAL:  # its storage values are unscaled
        factor = 10 ** ((field.type.scale or 0) - (file_field.type.scale or 0))
        low = low * factor if isinstance(low, int) else None
        high = high * factor if isinstance(high, int) else None
    return ColumnRange(low, high, None, known.row_count)


def prune_section(
    section: Sequence[DataFileMeta],
    matches: Callable[[DataFileMeta], bool],
    *,
    by_sequence: bool,
    combines: bool = False,
) -> list[DataFileMeta]:
    """Drop the files of a section of overlapping files that no matching row can come from.

    A file without a match may be dropped if nothing that it would hide appears: every other
    remaining file of the section holds only newer rows, so that the file loses for every common
    key. After the oldest file the next one is the oldest. A section without a matching file is
    dropped as a whole. If merged rows combine values of several rows, nothing is dropped: 5 and 5
    add up to a 10 that is in no file.

    Parameters
    ----------
    matches : callable
        Whether rows of a file may satisfy the predicate.
    by_sequence : bool
        Whether the larger sequence number always wins (deduplicate without a sequence field); if
        not, only the whole section may be dropped.
    combines : bool
        Whether a merged row may hold values of several rows.

    Returns
    -------
    list of DataFileMeta
        The files to read, in the given order; empty if none.
    """
    if combines and len(section) > 1:
        return list(section)
    may = [matches(f) for f in section]
    if not any(may):
        return []
    if not by_sequence or all(may):
        return list(section)
    kept = dict(enumerate(section))
    for position in sorted(kept, key=lambda i: section[i].max_sequence_number):
        newest = section[position].max_sequence_number
        oldest = all(i == position or f.min_sequence_number > newest for i, f in kept.items())
        if may[position] or not oldest:
            break
        del kept[position]
    return list(kept.values())
