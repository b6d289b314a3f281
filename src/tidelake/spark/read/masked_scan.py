"""Native scans under masks: Spark's Parquet reader, without the rows that a mask hides.

1. The files of a scan are listed by a file index of ours, with their sizes from the manifest: Spark
   asks no storage for them. Its last partition column says for each file where its mask begins,
   below 0 if it hides nothing. So one scan takes any number of files. Before it are those of the
   table (:mod:`tidelake.spark.read.partition_columns`).
2. The masks of all files are one array of BIGINT, 64 rows each, file after file. It is a literal of
   a class of ours, which Spark neither prints nor hashes; tasks get it with their code.
3. The scan keeps a row if its bit, found by the row's position, is not set. Spark's reader fills in
   the column ``_tmp_metadata_row_index`` if the schema has it. ``_metadata.row_index`` gives the
   same, but makes a struct of it for each row.

If Spark does not take the file index, :func:`takes_masks` says so, and the kernel merges.

The literal of the same masks is kept in the JVM, so a query that comes again sends nothing.

Cost, per row of a file with a mask: an array access and a few shifts, about 5 ns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as st

from tidelake.engine.env import RecentlyUsed
from tidelake.engine.scan import HiddenRows, words_count
from tidelake.spark.jvm.java_class import PACKAGE
from tidelake.spark.jvm.slower import warn_slower
from tidelake.spark.read.buckets import Buckets
from tidelake.spark.read.listed_files import MASK, ROW_INDEX, SCAN_PLAN, define_listed_files
from tidelake.spark.read.partition_columns import PartitionColumns

NO_MASK = -1
KEPT_BYTES_MAX = 64 << 20
"""The most bytes of masks that are kept in the JVM, and with them here."""
KEPT_MAX = 256
"""The most arrays of masks that are kept in the JVM, however small."""

_MERGED = (
    "Rows that newer files replace are left out by merges in Python, which cost several times as"
    " much as Spark's own scan"
)


@dataclass(frozen=True, slots=True)
class MaskedFile:
    """A file of a scan.

    Parameters
    ----------
    path : str
        Where it is; without line breaks.
    """

    path: str
    size_bytes: int
    rows_count: int
    hidden: HiddenRows | None
    bucket: int = 0
    partition: bytes = b""

    @property
    def hides(self) -> bool:
        """Whether the mask hides a row."""
        return self.hidden is not None and self.hidden.hidden_count > 0


def takes_masks(spark: SparkSession) -> bool:
    """Whether this Spark scans under masks; where it does not, a warning says so once."""
    context = spark.sparkContext
    known = _TAKES_MASKS.get(context)
    if known is not None:
        return known
    try:
        define_listed_files(spark)
    except (Py4JError, TypeError) as error:  # py4j calls a class that is missing a package
        _TAKES_MASKS[context] = False
        warn_slower(_MERGED, spark.version, error)
        return False
    _TAKES_MASKS[context] = True
    return True


def masked_frame(
    spark: SparkSession,
    files: Sequence[MaskedFile],
    schema: st.StructType,
    options: Mapping[str, str],
    *,
    wanted: Sequence[str],
    table: str,
    buckets: Buckets | None = None,
    partitions: PartitionColumns | None = None,
) -> DataFrame:
    """The rows of files that their masks do not hide.

    Parameters
    ----------
    spark : SparkSession
        A classic one. Requires: it takes masks.
    files : sequence of MaskedFile
        If none hides rows, Spark does not look for the files: their sizes are known.
    schema : StructType
        The files' columns to read, all nullable; none of the name of a column that a scan adds
        (:mod:`tidelake.spark.read.listed_files`).
    table : str
        The table's directory, for the error where it is dropped before the scan runs.
    partitions : PartitionColumns, optional
        Columns that are not read from the files.

    Returns
    -------
    DataFrame
        The columns wanted.
    """
    if buckets:
        files = sorted(files, key=lambda file: buckets.position(file.path))
    masks = [f.hidden for f in files if f.hidden is not None and f.hides]
    words = [words_count(f.rows_count) if f.hides else 0 for f in files]
    numbers = {file.partition: 0 for file in files} if partitions else {}
    numbers = {partition: number for number, partition in enumerate(numbers)}
    lines = [
        f"{first if file.hides else NO_MASK}:{file.bucket}:{numbers.get(file.partition, 0)}"
        f":{file.size_bytes}:{file.path}"
        for file, first in zip(files, accumulate(words, initial=0), strict=False)
    ]
    if masks:
        schema = st.StructType([*schema, st.StructField(ROW_INDEX, st.LongType())])
    made = getattr(spark.sparkContext._gateway.jvm, f"{PACKAGE}.{SCAN_PLAN}").of(
        spark._jsparkSession,
        "\n".join(lines),
        "\n".join(map(partitions.text, numbers)) if partitions else "",
        (partitions.schema if partitions else st.StructType()).json(),
        schema.json(),
        "\n".join(text for pair in options.items() for text in pair),
        "\n".join(wanted),
        _KEPT.words(spark, masks) if masks else None,
        all(file.hides for file in files),
        buckets.count if buckets else 0,
        buckets.function if buckets else "",
        buckets.key.name if buckets else "",
        "\n".join(key.name for key in buckets.sort_keys) if buckets else "",
        table,
    )
    return DataFrame(made, spark)


class _KeptWords:
    """Words of masks that a session's JVM has, as literals; those unused longest go."""

    def __init__(self) -> None:
        self._kept: RecentlyUsed[tuple[int, ...], tuple[Any, object]] = RecentlyUsed(
            entries_max=KEPT_MAX
        )

    def words(self, spark: SparkSession, masks: Sequence[HiddenRows]) -> Any:
        """The words of masks, one after the other."""
        # an entry holds what its key names, so no other object gets the same id
        key = (id(spark), *map(id, masks))
        found = self._kept.get(key)
        if found is not None:
            return found[0]
        words = np.concatenate([mask.words() for mask in masks])
        literal = _local_words(spark, words)
        nbytes = words.nbytes + sum(mask.nbytes for mask in masks)
        # one is kept whatever its size
        bytes_max = max(KEPT_BYTES_MAX, nbytes)
        self._kept.keep(key, (literal, (spark, *masks)), nbytes, bytes_max=bytes_max)
        return literal


def _local_words(spark: SparkSession, words: np.ndarray) -> Any:
    masks = getattr(spark.sparkContext._gateway.jvm, f"{PACKAGE}.{MASK}")
    return masks.of(words.astype("<i8").tobytes())


_KEPT = _KeptWords()
_TAKES_MASKS: WeakKeyDictionary[SparkContext, bool] = WeakKeyDictionary()
"""What was found of each Spark."""
