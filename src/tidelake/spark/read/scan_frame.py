"""A planned read as a DataFrame: native scans of raw files, ``mapInArrow`` over merging splits.

1. The driver plans (:meth:`tidelake.table.Table.scan`): snapshot, pruned files, splits.
2. Files that need no merge go to Spark's own Parquet scan (:mod:`tidelake.spark.read.native_split`,
   :mod:`tidelake.spark.read.native_scan`); their rows never pass through Python.
3. The other splits travel to the executors as bytes, packed into tasks of even weight. A task reads
   and merges its splits and gives Arrow batches of the wanted columns. So do the rows that are
   merged apart from the rest of their files, with their ordinals.
4. The DataFrame is the union of all; also of both branches, if another one gives partitions.

Spark's optimiser cannot look into ``mapInArrow``: columns and filter must be given when the
DataFrame is made. Otherwise whole rows cross from Python to the JVM (5 times the cost of a 2-column
query).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType
from pyspark.sql.utils import is_remote

from tidelake.engine.jobs import Weighed
from tidelake.engine.scan import (
    HiddenRows,
    LocatedRows,
    MergedPart,
    SectionMasks,
    Split,
    SplitRows,
    TableRows,
    TableScan,
    check_located,
    find_masks,
    metadata_fields,
    split_from_bytes,
    split_to_bytes,
)
from tidelake.spark.expression.expression import quoted
from tidelake.spark.expression.filter import to_column
from tidelake.spark.expression.types import spark_schema, to_spark_arrow
from tidelake.spark.jvm.held_frames import held_while_read
from tidelake.spark.read.buckets import buckets_of
from tidelake.spark.read.mask_job import mask_computer
from tidelake.spark.read.masked_scan import takes_masks
from tidelake.spark.read.native_scan import native_frame
from tidelake.spark.read.native_split import FindMasks, NativeAndMerged, Part, native_and_merged
from tidelake.spark.read.native_storage import native_storage
from tidelake.spark.read.plan_size import field_types, no_rows, row_width
from tidelake.spark.read.shares import packed_splits, share_frame, tasks_asked
from tidelake.types import DataField
from tidelake.types.predicate import columns_of

ROWS_PER_BATCH = 16_384
"""Rows that cross to the JVM at a time: a batch that fits the cache is read 10 % faster."""


def frame_of(
    spark: SparkSession,
    scan: TableScan,
    *,
    table: str,
    columns: Sequence[str] = (),
    exact: bool = True,
) -> DataFrame:
    """Make a DataFrame of a planned read, which holds its snapshot as long as Spark can read it.

    Parameters
    ----------
    scan : TableScan
        A limit may have left files out of its plan; the caller cuts the rows to it.
    columns : sequence of str
        The columns wanted. If they name metadata columns
        (:mod:`tidelake.scan.metadata_columns`), executors read all splits.
    exact : bool
        Whether to leave out rows that do not satisfy the scan's filter. False if the caller
        filters the frame, as a WHERE does; Spark then tests the rows of its own scans once.

    Returns
    -------
    DataFrame
        The columns of the scan, all nullable; or `columns`, if they name metadata columns.

    Raises
    ------
    UnsupportedError
        A column's type does not exist on Spark; or a row's file or ordinal is wanted, but rows
        are merged.

    Notes
    -----
    Runs on the driver; only metadata is read.
    """
    if scan.other is not None:
        frames = [
            frame_of(spark, part, table=table, columns=columns, exact=exact) for part in scan.parts
        ]
        return reduce(DataFrame.unionAll, frames)
    frame = _frame_of(spark, scan, table=table, columns=columns, exact=exact)
    return held_while_read(spark, frame, scan.hold)


def _frame_of(
    spark: SparkSession, scan: TableScan, *, table: str, columns: Sequence[str], exact: bool
) -> DataFrame:
    if not metadata_fields(scan.context.schema).keys().isdisjoint(columns):
        check_located(scan.plan.splits, columns, table=table)
        rows = LocatedRows(scan.context, tuple(columns), scan.predicate)
        return rows_frame(spark, rows, scan.plan.splits, table=table)
    wanted = scan.rows.fields
    schema = spark_schema(wanted, table=table)
    predicate = scan.predicate if exact else None
    needed = wanted if predicate is None else _needed(scan, wanted)
    condition = None if predicate is None else to_column(predicate, needed)
    storage = native_storage(spark, scan.context, scan.plan.splits)
    if predicate is None or condition is not None:
        parts = native_and_merged(
            scan.context,
            scan.plan.splits,
            needed,
            case_sensitive=spark.conf.get("spark.sql.caseSensitive", "false") == "true",
            storage=storage,
            find_masks=None if is_remote() else _masks_of(spark, scan),
        )
    else:
        parts = NativeAndMerged([], list(scan.plan.splits))
    buckets = buckets_of(scan.context, scan.plan.splits)
    frames = [
        native_frame(
            spark,
            group,
            needed,
            condition,
            context=scan.context,
            buckets=buckets,
        )
        for group in parts.native
    ]
    if len(needed) > len(wanted):
        frames = [frame.select(*(quoted(c) for c in scan.columns)) for frame in frames]
    if parts.merged:
        frames.append(_merged(spark, scan.rows, parts.merged, schema, storage.reason))
    if parts.parts:
        frames.append(_parts_merged(spark, scan.rows, parts.parts, schema))
    if not frames:
        return no_rows(spark, schema)
    frame = reduce(DataFrame.unionAll, frames)
    most = tasks_asked(spark, scan.context.options)
    # Spark cuts its own scans by its own settings; small parts are joined
    return frame if most is None else frame.coalesce(most)


def _masks_of(spark: SparkSession, scan: TableScan) -> FindMasks:
    def find(parts: Sequence[Part]) -> Sequence[SectionMasks | None]:
        if not takes_masks(spark):
            return [None] * len(parts)
        compute = mask_computer(spark)
        return find_masks(scan.context, parts, scan.masks, compute=compute)

    return find


def rows_frame(
    spark: SparkSession, rows: SplitRows, splits: Sequence[Split], *, table: str
) -> DataFrame:
    """Make a DataFrame of the rows of splits: executors read them all."""
    schema = spark_schema(rows.fields, table=table)
    if not splits:
        return no_rows(spark, schema)
    return _merged(spark, rows, splits, schema)


def _merged(
    spark: SparkSession,
    task: SplitRows,
    splits: Sequence[Split],
    schema: StructType,
    why: str = "",
) -> DataFrame:
    """Rows of splits that the kernel reads on the executors; and why, if Spark reads none."""
    packed = packed_splits(spark, task.context, splits)
    blobs = [[split_to_bytes(s) for s in own] for own in packed]
    # EXPLAIN shows the name; and a dropper of the table sees that a plan reads it
    reason = f", by Python workers: {why}" if why else ""
    return share_frame(
        spark,
        blobs,
        _SplitsTask(task).batches,
        schema,
        name=f"read {task.context.uri}{reason}",
        size_bytes=_size_bytes(task, packed, schema),
    )


def _parts_merged(
    spark: SparkSession, rows: TableRows, parts: Sequence[MergedPart], schema: StructType
) -> DataFrame:
    """Rows that the kernel merges on the executors; Spark scans the others of their files."""
    packed = packed_splits(spark, rows.context, parts)
    return share_frame(
        spark,
        [[(split_to_bytes(part.split), part.rows) for part in own] for own in packed],
        _PartsTask(rows).batches,
        schema,
        name=f"read {rows.context.uri}, rows of keys that several files have",
        size_bytes=_size_bytes(rows, packed, schema),
    )


def _size_bytes(task: SplitRows, packed: Sequence[Sequence[Weighed]], schema: StructType) -> int:
    """The bytes of the rows: the share of their files that their columns have."""
    whole = row_width(field_types(task.context.schema.fields))
    share = row_width(field.dataType for field in schema) / whole
    return int(sum(one.size_bytes for own in packed for one in own) * share)


@dataclass(frozen=True, slots=True)
class _SplitsTask:
    """Reads splits on an executor. Picklable."""

    rows: SplitRows

    def batches(self, blobs: Sequence[bytes]) -> Iterator[pa.RecordBatch]:
        """Rows of a share in Spark's Arrow types."""
        for blob in blobs:
            yield from split_batches(self.rows, split_from_bytes(blob), self.rows.fields)


@dataclass(frozen=True, slots=True)
class _PartsTask:
    """Merges some rows of splits on an executor. Picklable."""

    rows: TableRows

    def batches(
        self, blobs: Sequence[tuple[bytes, Mapping[str, HiddenRows]]]
    ) -> Iterator[pa.RecordBatch]:
        for blob, own in blobs:
            part = MergedPart(split_from_bytes(blob), own)
            yield from spark_batches(self.rows.read_part(part), self.rows.fields)


def split_batches(
    task: SplitRows, split: Split, fields: Sequence[DataField]
) -> Iterator[pa.RecordBatch]:
    """Rows of one split in Spark's Arrow types."""
    return spark_batches(task.read(split), fields)


def spark_batches(
    batches: Iterator[pa.RecordBatch], fields: Sequence[DataField]
) -> Iterator[pa.RecordBatch]:
    """Rows in Spark's Arrow types, in pieces of a good size for the JVM."""
    for batch in batches:
        typed = to_spark_arrow(batch, fields)
        for start in range(0, typed.num_rows, ROWS_PER_BATCH):
            yield typed.slice(start, ROWS_PER_BATCH)


def _needed(scan: TableScan, wanted: Sequence[DataField]) -> tuple[DataField, ...]:
    """The wanted columns, then those that only the predicate uses."""
    names = {f.name for f in wanted}
    looked_at = columns_of(scan.predicate) if scan.predicate is not None else frozenset()
    return (*wanted, *scan.context.fields(tuple(sorted(looked_at - names))))
