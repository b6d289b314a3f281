"""Which storages Spark's own Parquet scan reads: the one place that decides.

Spark reads files of a path that driver and executors see. Files of an object store are read by the
Python workers of the executors, which need no jar and no configuration of Hadoop's.
"""

from __future__ import annotations

from tidelake.fileio import FileIO

__all__ = ["spark_reads"]


def spark_reads(fileio: FileIO) -> bool:
    """Whether Spark's own scan may read files of a storage."""
    return not fileio.is_remote
