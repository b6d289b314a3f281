"""Computes masks where the work is: of few rows on the driver's threads, of many as a Spark job.

A job reads only keys. Its tasks give each file's mask as a bit per row, the driver keeps them. What
the driver knew of masks does not travel, so all other files are fresh in a task. Sections whose
held keys fit the memory only without those that the driver knows are computed there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql import SparkSession

from tidelake.engine.scan import (
    Computed,
    ComputeMasks,
    FileMask,
    HiddenRows,
    MaskCache,
    MaskRequest,
    ReadContext,
    Section,
    Split,
    fits_memory,
    masks_here,
    rows_to_read,
    section_masks,
    split_from_bytes,
    split_to_bytes,
)
from tidelake.engine.write import MergeSpec
from tidelake.spark.expression.mapped import in_workers
from tidelake.spark.sessions.session import parallelism

DRIVER_ROWS_MAX = 16 << 20
"""Rows whose keys the driver reads itself, 50 ns each: below, a job costs more than it saves."""
TASK_ROWS = 4 << 20
"""Rows of a task, about."""
_SCHEMA = "request int, file string, mask binary"
_ARROW = pa.schema([("request", pa.int32()), ("file", pa.string()), ("mask", pa.binary())])


def mask_computer(spark: SparkSession) -> ComputeMasks:
    """Make the function that computes masks for reads of a session."""

    def compute(context: ReadContext, requests: Sequence[MaskRequest]) -> Iterator[Computed]:
        rows, here = sum(map(rows_to_read, requests)), requests
        if rows > DRIVER_ROWS_MAX:
            spec = MergeSpec.of(context.schema, context.options)
            wholes = [_known_by_none(context, r.split, r.section, spec) for r in requests]
            fits = [fits_memory(context, whole) for whole in wholes]
            there = [request for request, fit in zip(requests, fits, strict=True) if fit]
            here = [request for request, fit in zip(requests, fits, strict=True) if not fit]
            yield from _by_job(spark, context, there, tasks_max=-(-rows // TASK_ROWS))
        if here:
            yield from masks_here(context, here)

    return compute


def _known_by_none(
    context: ReadContext, split: Split, section: Section, spec: MergeSpec
) -> MaskRequest:
    """A section as a task meets it."""
    return MaskRequest.of(context, split, section, spec, MaskCache())


def _by_job(
    spark: SparkSession, context: ReadContext, requests: Sequence[MaskRequest], *, tasks_max: int
) -> Iterator[Computed]:
    if not requests:
        return
    count = min(len(requests), max(parallelism(spark), tasks_max))
    # the largest come first, one to each task in turn
    order = sorted(range(len(requests)), key=lambda n: -rows_to_read(requests[n]))
    parts = [r.split.part((r.section,)) for r in requests]
    blobs = [[(n, split_to_bytes(parts[n])) for n in order[task::count]] for task in range(count)]
    frame = in_workers(spark.range(0, count, 1, count), _task(context, blobs), _SCHEMA)
    masks: list[dict[str | None, bytes]] = [{} for _ in requests]
    for row in frame.toArrow().to_pylist():
        masks[row["request"]][row["file"]] = row["mask"]
    for request, own in zip(requests, masks, strict=True):
        yield request, None if None in own else _of_bits(request, own)


def _of_bits(
    request: MaskRequest, bits: Mapping[str | None, bytes]
) -> list[tuple[FileMask, HiddenRows]]:
    return [
        (mask, HiddenRows.of_bits(bits[mask.file.file_name], mask.file.row_count))
        for mask in request.files
        if not mask.is_known
    ]


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
                    request = _known_by_none(context, split, section, spec)
                    found = section_masks(context, request, spec)
                    if found is None:
                        yield _row(number, None, None)
                    for mask, hidden in found or ():
                        yield _row(number, mask.file.file_name, hidden.bits())

    read.__name__ = f"masks of {context.paths.location}"
    return read


def _row(request: int, file: str | None, mask: bytes | None) -> pa.RecordBatch:
    """A mask of a request; no file where its masks do not fit the memory."""
    columns = [[request], [file], [mask]]
    arrays = [pa.array(c, t) for c, t in zip(columns, _ARROW.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_ARROW)
