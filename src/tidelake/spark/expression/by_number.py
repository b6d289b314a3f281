"""Shuffles rows to the tasks whose numbers a column holds.

Spark 4.0 has no ``repartitionById``: it shuffles by the hash of a value alone. There each number is
replaced by one whose hash leads to that task.
"""

from __future__ import annotations

from functools import lru_cache

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidelake.engine.codec import hash_bytes
from tidelake.spark.versions import SHUFFLES_BY_NUMBER, session_has

_INT_BYTES = 4


def by_number(frame: DataFrame, count: int, column: str) -> DataFrame:
    """Shuffle rows to `count` tasks by the numbers of a column, from 0 on and below `count`."""
    number = F.col(column)
    if session_has(SHUFFLES_BY_NUMBER, frame.sparkSession):
        return frame.repartitionById(count, number)
    return frame.repartition(count, _hashed_to(number, count))


def _hashed_to(number: Column, count: int) -> Column:
    """A number whose hash leads to the task of a number."""
    return F.get(F.lit(list(_preimages(count))).cast("array<int>"), number.cast("int"))


@lru_cache(maxsize=32)
def _preimages(count: int) -> tuple[int, ...]:
    """For each task the first whole number that Spark's hash leads to it.

    Spark hashes an INT as Paimon does a row of four bytes: Murmur3 with the seed 42.

    Examples
    --------
    >>> _preimages(4)
    (12, 6, 2, 0)
    """
    found: dict[int, int] = {}
    value = 0
    while len(found) < count:
        found.setdefault(hash_bytes(value.to_bytes(_INT_BYTES, "little")) % count, value)
        value += 1
    return tuple(found[task] for task in range(count))
