"""A mask for a large run under a few newer rows: Spark scans the run without the replaced rows.

1. The kernel reads only the keys, on the executors: it looks up each key of a newer run among the
   sorted keys of the large run. A hit is the *position* of a replaced row.
2. The positions become bits, 64 to a BIGINT, for every row of the large run's files, the words of
   one file after those of the other: one array, the value of a scalar subquery. It is computed each
   time the DataFrame is.
3. The native scan of the large run keeps the rows whose bit is not set: an array access and a few
   shifts by ``_metadata.row_index``. The constant ``_metadata.file_size`` identifies a row's file,
   so the files of one scan must differ in size.

So the rows never pass through Python. The newer runs are scanned or merged separately.

Requires: every row of the newer runs wins against every row of the large one, as
:mod:`tidelake.spark.read.native_split` ensures. Cost: one read of the key columns in Python, and
one bit per row of the large run, sent to the driver and from there to the executors.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidelake.codec.key_order import encode_keys, key_widths
from tidelake.merge import MergeSpec
from tidelake.metadata.data_file import DataFileMeta
from tidelake.scan import ReadContext, Split, read_split, split_from_bytes, split_to_bytes
from tidelake.spark.sessions.session import parallelism

__all__ = ["FILES_COUNT_MAX", "hidden_words", "is_visible"]

FILES_COUNT_MAX = 16
"""Files of one scan: code chooses among them, and the JVM compiles it up to 8,000 bytes."""

TASK_ROWS = 16 << 20
"""Rows whose keys one task reads, 50 ns each: below, a second task costs more than it saves."""

WORD_BITS = 64
WORD_SHIFT = 6
WORDS_SCHEMA = "task int, words array<bigint>"
_WORDS_ARROW = pa.schema([("task", pa.int32()), ("words", pa.list_(pa.int64()))])


def is_visible(
    spark: SparkSession, frame: DataFrame, context: ReadContext, masked: Sequence[Split]
) -> Column:
    """Whether no newer row replaces a row of a native scan.

    Parameters
    ----------
    spark : SparkSession
        Where the keys are read.
    frame : DataFrame
        The scan of the large runs' files.
    context : ReadContext
        The table.
    masked : sequence of Split
        One per file of the scan, which is the only file of the oldest run; the newer runs follow.
        Requires: the files differ in size, and are not more than :data:`FILES_COUNT_MAX`.
    """
    files = [_base(split) for split in masked]
    assert len({f.file_size_bytes for f in files}) == len(files) <= FILES_COUNT_MAX
    words = [words_count(f.row_count) for f in files]
    first_words = list(accumulate(words, initial=0))[:-1]
    metadata = frame.metadataColumn("_metadata")
    size, position = metadata["file_size"], metadata["row_index"]
    first = F.lit(first_words[0])
    for file, first_word in zip(files[1:], first_words[1:], strict=True):
        first = F.when(size == file.file_size_bytes, F.lit(first_word)).otherwise(first)
    word = F.get(_words(spark, context, masked), first + _shifted(position).cast("int"))
    bit = position.bitwiseAND(F.lit(WORD_BITS - 1).cast("bigint")).cast("int")
    return F.call_function("shiftright", word, bit).bitwiseAND(F.lit(1).cast("bigint")) == 0


def _shifted(position: Column) -> Column:
    return F.shiftright(position, WORD_SHIFT)


def _words(spark: SparkSession, context: ReadContext, masked: Sequence[Split]) -> Column:
    """The words of all files, as a scalar subquery."""
    rows = [_base(split).row_count for split in masked]
    count = min(parallelism(spark), -(-sum(rows) // TASK_ROWS))
    stretches = even_stretches(rows, count=count)
    blobs = [[split_to_bytes(masked[index]) for index in own] for own in stretches]
    found = spark.range(0, len(blobs), 1, len(blobs)).mapInArrow(
        _words_task(context, blobs), WORDS_SCHEMA
    )
    if len(blobs) == 1:
        return found.select("words").scalar()
    in_order = F.array_sort(F.collect_list(F.struct("task", "words")))
    return found.select(F.flatten(F.transform(in_order, lambda row: row["words"]))).scalar()


def _words_task(
    context: ReadContext, blobs: Sequence[Sequence[bytes]]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the function for executors: takes numbers of tasks, gives words of their files."""

    def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                splits = [split_from_bytes(blob) for blob in blobs[number]]
                words = np.concatenate(list(hidden_words(context, splits)))
                lists = pa.ListArray.from_arrays([0, len(words)], pa.array(words))
                tasks = pa.array([number], pa.int32())
                yield pa.RecordBatch.from_arrays([tasks, lists], schema=_WORDS_ARROW)

    return read


def hidden_words(context: ReadContext, masked: Sequence[Split]) -> Iterator[npt.NDArray[np.int64]]:
    """Find the rows of large runs that newer ones replace.

    Parameters
    ----------
    context : ReadContext
        The table.
    masked : sequence of Split
        As of :func:`is_visible`; adjacent splits of one section are cheaper.

    Yields
    ------
    int64 array [words_count(rows of the file)]
        For each split a bit per row of its oldest file, lowest first: whether a newer run has the
        row's key.

    Notes
    -----
    Runs on executors. Holds the keys of a section's newer runs.
    """
    spec = MergeSpec.of(context.schema, context.options)
    newer: _NewerKeys | None = None
    for split in masked:
        runs = split.sections[0][1:]
        if newer is None or newer.runs != runs:
            newer = _NewerKeys(context, split, spec)
        hidden = np.zeros(words_count(_base(split).row_count) * WORD_BITS, np.bool_)
        begin = 0
        for batch in _key_batches(context, split, _base(split), spec):
            for found in newer.positions_in(batch.columns):
                hidden[begin + found] = True
            begin += batch.num_rows
        yield np.packbits(hidden, bitorder="little").view(np.int64)


class _NewerKeys:
    """The keys of a section's newer runs, and their positions among other keys."""

    def __init__(self, context: ReadContext, split: Split, spec: MergeSpec) -> None:
        self.runs = split.sections[0][1:]
        self._types = spec.key_types
        self._columns = [
            [pa.chunked_array(column) for column in zip(*run, strict=True)]
            for files in self.runs
            if (run := [b.columns for f in files for b in _key_batches(context, split, f, spec)])
        ]
        self._own_widths = _widest([key_widths(c, self._types) for c in self._columns])
        self._widths: tuple[int, ...] = ()
        self._keys: list[npt.NDArray[Any]] = []

    def positions_in(self, columns: Sequence[pa.Array]) -> Iterator[npt.NDArray[np.int64]]:
        """Give the rows whose keys are in a run. Requires: keys ascend, and are not empty."""
        needed = _widest([self._own_widths, self._widths, key_widths(columns, self._types)])
        if needed != self._widths or not self._keys:
            self._widths = needed
            self._keys = [
                encode_keys([c.combine_chunks() for c in run], self._types, needed)
                for run in self._columns
            ]
        keys = encode_keys(columns, self._types, self._widths)
        for run in self._keys:
            begin = np.searchsorted(run, keys[0], side="left")
            end = np.searchsorted(run, keys[-1], side="right")
            sought = run[begin:end]
            positions = np.searchsorted(keys, sought)
            yield positions[keys[positions] == sought]


def _widest(widths: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(max(column) for column in zip(*(w for w in widths if w), strict=True))


def _key_batches(
    context: ReadContext, split: Split, file: DataFileMeta, spec: MergeSpec
) -> Iterator[pa.RecordBatch]:
    """All keys of a file, in order, including those of deletes."""
    alone = Split(
        split.snapshot_id, split.partition, split.bucket, split.total_buckets, (((file,),),), True
    )
    return read_split(context, alone, columns=spec.key_columns, predicate=None)


def _base(split: Split) -> DataFileMeta:
    ((file,), *_) = split.sections[0]
    return file


def words_count(rows_count: int) -> int:
    """Number of words that hold a bit per row.

    Examples
    --------
    >>> [words_count(n) for n in (0, 1, 64, 65)]
    [0, 1, 1, 2]
    """
    return -(-rows_count // WORD_BITS)


def even_stretches(weights: Sequence[int], *, count: int) -> list[range]:
    """Cut a sequence into at most `count` stretches of about even weight, none of them empty.

    Examples
    --------
    >>> even_stretches([5, 1, 1, 1, 4], count=2)
    [range(0, 2), range(2, 5)]
    """
    sums = list(accumulate(weights))
    shares = [sums[-1] * (n + 1) // count for n in range(count - 1)]
    ends = [bisect_left(sums, share) + 1 for share in shares] + [len(weights)]
    bounds = sorted(set(ends) | {0})
    return [range(a, b) for a, b in pairwise(bounds)]
