"""Computes masks where the work is: of few rows on the driver's threads, of many as a Spark job.

A job reads only keys. Its tasks give each file's mask as a bit per row, the driver keeps them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import SparkSession

from tidelake.merge import MergeSpec
from tidelake.scan import ReadContext, split_from_bytes, split_to_bytes
from tidelake.scan.masks import (
    ComputeMasks,
    HiddenRows,
    MaskCache,
    MaskRequest,
    rows_to_read,
    section_masks,
)
from tidelake.scan.masks.find import Computed, masks_here
from tidelake.spark.sessions.session import parallelism

__all__ = ["DRIVER_ROWS_MAX", "mask_computer"]

DRIVER_ROWS_MAX = 16 << 20
"""Rows whose keys the driver reads itself, 50 ns each: below, a job costs more than it saves."""
TASK_ROWS = 4 << 20
"""Rows of a task, about."""
_SCHEMA = "request int, file string, mask binary"
_ARROW = pa.schema([("request", pa.int32()), ("file", pa.string()), ("mask", pa.binary())])


def mask_computer(spark: SparkSession) -> ComputeMasks:
    """Make the function that computes masks for reads of a session."""

    def compute(context: ReadContext, requests: Sequence[MaskRequest]) -> Iterator[Computed]:
        rows = sum(map(rows_to_read, requests))
        if rows <= DRIVER_ROWS_MAX:
            return masks_here(context, requests)
        return _by_job(spark, context, requests, tasks_max=-(-rows // TASK_ROWS))

    return compute


def _by_job(
    spark: SparkSession, context: ReadContext, requests: Sequence[MaskRequest], *, tasks_max: int
) -> Iterator[Computed]:
    count = min(len(requests), max(parallelism(spark), tasks_max))
    # the largest come first, one to each task in turn
    order = sorted(range(len(requests)), key=lambda n: -rows_to_read(requests[n]))
    parts = [r.split.part((r.section,)) for r in requests]
    blobs = [[(n, split_to_bytes(parts[n])) for n in order[task::count]] for task in range(count)]
    frame = spark.range(0, count, 1, count).mapInArrow(_task(context, blobs), _SCHEMA)
    masks: list[dict[str, bytes]] = [{} for _ in requests]
    for row in frame.toArrow().to_pylist():
        masks[row["request"]][row["file"]] = row["mask"]
    for request, own in zip(requests, masks, strict=True):
        yield (
            request,
            [
                (mask, HiddenRows.of_bits(own[mask.file.file_name], mask.file.row_count))
                for mask in request.files
                if not mask.is_known
            ],
        )


def _task(
    context: ReadContext, blobs: Sequence[Sequence[tuple[int, bytes]]]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the function for executors: takes numbers of tasks, gives masks."""

    def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        spec = MergeSpec.of(context.schema, context.options)
        for batch in numbers:
            for task in batch.column(0).to_pylist():
                for number, blob in blobs[task]:
                    split = split_from_bytes(blob)
                    (section,) = split.sections
                    # what the driver knew of the masks stays there: they are computed whole
                    request = MaskRequest.of(context, split, section, spec, MaskCache())
                    for mask, hidden in section_masks(context, request, spec):
                        columns = [[number], [mask.file.file_name], [hidden.bits()]]
                        arrays = [
                            pa.array(c, t) for c, t in zip(columns, _ARROW.types, strict=True)
                        ]
                        yield pa.RecordBatch.from_arrays(arrays, schema=_ARROW)

    read.__name__ = f"masks of {context.paths.location}"
    return read
