"""Computes masks where the work is: of few rows on the driver's threads, of many as a Spark job.

A job reads only keys. Its tasks give each file's mask as a bit per row, the driver keeps them. What
the driver knew of masks does not travel, so all other files are fresh in a task. Sections whose
held keys fit the memory only without those that the driver knows are computed there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

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
from tidelake.spark.read.shares import share_frame
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
    name = f"masks of {context.paths.location}"
    frame = share_frame(spark, blobs, MasksTask(context).masks, _SCHEMA, name=name)
    masks: list[dict[str | None, bytes]] = [{} for _ in requests]
    for row in frame.toArrow().to_pylist():
        masks[row["request"]][row["file"]] = row["mask"]
    for request, own in zip(requests, masks, strict=True):
        yield request, None if None in own else of_bits(request, own)


def of_bits(
    request: MaskRequest, bits: Mapping[str | None, bytes]
) -> list[tuple[FileMask, HiddenRows]]:
    """The masks of a request from what a task gave for each of its files."""
    return [
        (mask, HiddenRows.of_bits(bits[mask.file.file_name], mask.file.row_count))
        for mask in request.files
        if not mask.is_known
    ]


@dataclass(frozen=True, slots=True)
class MasksTask:
    """Computes masks on an executor. Picklable."""

    context: ReadContext

    def masks(self, requests: Sequence[tuple[int, bytes]]) -> Iterator[pa.RecordBatch]:
        """A row for each mask of a share.

        Parameters
        ----------
        requests : sequence of (int, bytes)
            Their numbers, each with a split of its section alone.
        """
        spec = MergeSpec.of(self.context.schema, self.context.options)
        for number, blob in requests:
            split = split_from_bytes(blob)
            (section,) = split.sections
            request = _known_by_none(self.context, split, section, spec)
            found = section_masks(self.context, request, spec)
            if found is None:
                yield _row(number, None, None)
            for mask, hidden in found or ():
                yield _row(number, mask.file.file_name, hidden.bits())


def _row(request: int, file: str | None, mask: bytes | None) -> pa.RecordBatch:
    """A mask of a request; no file where its masks do not fit the memory."""
    columns = [[request], [file], [mask]]
    arrays = [pa.array(c, t) for c, t in zip(columns, _ARROW.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_ARROW)
