"""Scans whose files are packed into tasks by us: by bucket, or evenly.

**By bucket**, joins on bucket keys need no shuffle.
Spark knows only buckets of its own: names of files with numbers, and its own hash. Ours are those
of Paimon, so these classes tell Spark what it needs (ADR 89):

1. ``TidelakeBucketFunction`` names the function that gives a key's bucket: by Paimon's rules, for
   keys of a type. Spark never calls it. Two scans agree if they name the same.
2. ``TidelakePackedScan`` is the node of the plan, above Spark's own scan of the files. It tells
   the partitioning of its rows as sources of Spark's connector do (``KeyedPartitioning``): task by
   task the bucket. Should anybody have replaced that scan, it refuses to run: tasks would not be
   buckets.
3. ``TidelakePackedReader`` reads: it is Spark's scan with the files of a bucket in one task.

**Evenly**, where Spark's longest task would be over a fifth longer than an even one. Spark counts
4 MB for each file, so a task of four large files may seem as long to it as one of twelve small
ones. The node and the reader are the same; the partitioning stays unknown (ADR 94).

All of them are of the driver alone. Tasks get Spark's own ``FileScanRDD``.
"""

from __future__ import annotations

from tidelake.spark.callbacks.gateway import Gateway
from tidelake.spark.jvm.java_class import defined_class

_CLASSES = ("TidelakeBucketFunction", "TidelakePackedReader", "TidelakePackedScan")


def define_packed_scan(gateway: Gateway) -> None:
    """Define the classes in the session's JVM.

    Requires: those of :mod:`tidelake.spark.read.listed_files` are defined.

    Raises
    ------
    Py4JError, TypeError
        This Spark has other private names.
    """
    for name in _CLASSES:
        defined_class(gateway.spark, name)
