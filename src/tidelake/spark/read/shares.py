"""Work in shares: a DataFrame whose tasks each do a share of what the driver has planned.

1. The driver packs the work into shares of even weight (:func:`packed_splits`).
2. Spark's tasks get numbers. The shares travel inside the function, one copy for a task.
3. A task looks up the share of each number and gives its rows. Usually a task has one number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as st

from tidelake.engine.jobs import Weighed, in_shares
from tidelake.engine.scan import ReadContext
from tidelake.options import Options, declared
from tidelake.spark.expression.mapped import Work, in_workers
from tidelake.spark.read.plan_size import task_numbers
from tidelake.spark.sessions.session import parallelism

INFERRED_TASKS_MAX = 1024
"""Paimon's default of ``scan.infer-parallelism.max``."""

W = TypeVar("W", bound=Weighed)
Share = TypeVar("Share")


def share_frame(
    spark: SparkSession,
    shares: Sequence[Share],
    work: Callable[[Share], Iterator[pa.RecordBatch]],
    schema: st.StructType | str,
    *,
    name: str = "read",
    tasks: int | None = None,
    size_bytes: int | None = None,
) -> DataFrame:
    """Make a DataFrame of the rows of all shares.

    Parameters
    ----------
    shares : sequence
        Picklable.
    work : callable
        Gives the rows of a share, on an executor. Picklable.
    name : str
        The function's name, which EXPLAIN shows.
    tasks : int, optional
        Tasks to spread the shares over; by default one for each share.
    size_bytes : int, optional
        Bytes of the rows, where Spark shall know them (:mod:`tidelake.spark.read.plan_size`).
    """
    count = len(shares)
    if size_bytes is None:
        numbers = spark.range(0, count, 1, tasks or max(1, count))
    else:
        numbers = task_numbers(spark, count, size_bytes=size_bytes)
    return in_workers(numbers, by_number(shares, work, name=name), schema)


def by_number(
    shares: Sequence[Share],
    work: Callable[[Share], Iterator[pa.RecordBatch]],
    *,
    name: str = "read",
) -> Work:
    """Make the function for executors: takes numbers of shares, gives their rows."""

    def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from work(shares[number])

    read.__name__ = name
    return read


def packed_splits(spark: SparkSession, context: ReadContext, splits: Sequence[W]) -> list[list[W]]:
    """Spread splits over as many tasks as the table's options and the session's cores suggest."""
    cost = context.options.get(declared.SOURCE_SPLIT_OPEN_FILE_COST)
    most = context.options.get(declared.SOURCE_SPLIT_TARGET_SIZE)
    count = tasks_asked(spark, context.options)
    if count is None and context.options.get(declared.SCAN_INFER_PARALLELISM):
        count = min(len(splits), INFERRED_TASKS_MAX)
    if count is None:
        count = _tasks_count(splits, most=most, cost=cost, cores=parallelism(spark))
    return in_shares(splits, count=count, cost=cost)


def even_shares(spark: SparkSession, context: ReadContext, work: Sequence[W]) -> list[list[W]]:
    """Spread work that is no read over tasks, by its bytes and the session's cores alone."""
    cost = context.options.get(declared.SOURCE_SPLIT_OPEN_FILE_COST)
    most = context.options.get(declared.SOURCE_SPLIT_TARGET_SIZE)
    count = _tasks_count(work, most=most, cost=cost, cores=parallelism(spark))
    return in_shares(work, count=count, cost=cost)


def tasks_asked(spark: SparkSession, options: Options) -> int | None:
    """The largest number of tasks by the options; None without such an option."""
    asked = options.get(declared.SCAN_PARALLELISM)
    if asked is None and options.get(declared.SCAN_INFER_PARALLELISM) is False:
        return parallelism(spark)
    return asked


def _tasks_count(splits: Sequence[Weighed], *, most: int, cost: int, cores: int) -> int:
    """Spark's own rule for files: even shares for all cores, within bounds."""
    total = sum(s.size_bytes + cost for s in splits)
    share = min(most, max(cost, total // cores))
    return math.ceil(total / share)
