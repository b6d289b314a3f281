"""Java classes of native scans: the index of the files listed, and the plan of a scan.

Both know of masks (:mod:`tidelake.spark.read.masked_scan`) and of buckets
(:mod:`tidelake.spark.read.buckets`). The plan is made in one call: a DataFrame for each step would
be analysed again and again, and each function of its condition is a call from Python.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from tidelake.spark.jvm.java_class import defined_class

FIRST_WORD = "_first_word"
"""The last partition column. No data column may have its name."""
ROW_INDEX = "_tmp_metadata_row_index"
"""The column that Spark's Parquet reader fills in with the position of a row in its file."""
SCAN_PLAN = "TidelakeScanPlan"
"""The class that makes the plan of a scan."""
MASK = "TidelakeMask"
"""The class of the bits of a scan's masks."""
_CLASSES = ("TidelakeListedFiles", MASK, SCAN_PLAN)


def define_listed_files(spark: SparkSession) -> None:
    """Define the classes in the session's JVM.

    Raises
    ------
    Py4JError, TypeError
        This Spark has other private names.
    """
    for name in _CLASSES:
        defined_class(spark, name)
