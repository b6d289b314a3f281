"""The jar by which a Spark reads and writes ``abfs``, fetched by Maven on first use.

What ``hadoop-azure`` needs beside itself a Spark has already.
"""

from __future__ import annotations

from pathlib import Path

from servers.hadoop_aws import ALONE, HADOOP_OF_SPARK, dependency, fetched


def abfs_jars(spark: str) -> list[Path]:
    """The jars for a Spark.

    Parameters
    ----------
    spark : str
        ``"4.3"``.

    Raises
    ------
    AbsentError
        Maven is missing.
    """
    hadoop = HADOOP_OF_SPARK[spark]
    wanted = [dependency("org.apache.hadoop", "hadoop-azure", hadoop, ALONE)]
    return fetched(f"abfs-{hadoop}", wanted)
