"""Native scans under masks: Spark's Parquet reader, without the rows that a mask hides.

1. The files of a scan are listed by a file index of ours, with their sizes from the manifest: Spark
   asks no storage for them. Its one partition column says for each file where its mask begins,
   below 0 if it hides nothing. So one scan takes any number of files.
2. The masks of all files are one array of BIGINT, 64 rows each, file after file. It is the value of
   a scalar subquery over a local relation: no job runs, and tasks get it with their code.
3. The scan keeps a row if its bit, found by the row's position, is not set. Spark's reader fills in
   the column :data:`ROW_INDEX` if the schema has it. ``_metadata.row_index`` gives the same, but
   makes a struct of it for each row.

If Spark does not take the file index, :func:`takes_masks` says so, and the kernel merges.

The local relation of the same masks is kept in the JVM, so a query that comes again sends nothing.

Cost, per row of a file with a mask: an array access and a few shifts, about 5 ns.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as st

from tidelake.scan.masks import HiddenRows, words_count
from tidelake.spark.expression.expression import quoted
from tidelake.spark.sessions.java_class import PACKAGE, defined_class

__all__ = ["FIRST_WORD", "ROW_INDEX", "MaskedFile", "masked_frame", "takes_masks"]

FIRST_WORD = "_first_word"
"""The partition column. No data column may have its name."""
ROW_INDEX = "_tmp_metadata_row_index"
"""The column that Spark's Parquet reader fills in with the position of a row in its file."""
NO_MASK = -1
WORD_BITS, WORD_SHIFT = 64, 6
KEPT_BYTES_MAX = 64 << 20
"""The most bytes of masks that are kept in the JVM, and with them here."""
KEPT_MAX = 256
"""The most arrays of masks that are kept in the JVM, however small."""
_WORDS = pa.schema(
    [pa.field("words", pa.list_(pa.field("element", pa.int64(), nullable=False)), nullable=False)]
)
_CLASS = "TidelakeListedFiles"
_SCALA = "scala.collection.immutable"
_JAVA = f"""
package {PACKAGE};

public final class {_CLASS} implements FileIndex {{
  private final String listed;
  private final org.apache.spark.sql.types.StructType partitionSchema;
  private final org.apache.hadoop.fs.FileStatus[] files;
  private final int[] firstWords;
  private final long sizeInBytes;

  public {_CLASS}(String listed, org.apache.spark.sql.types.StructType partitionSchema,
      org.apache.hadoop.conf.Configuration conf) throws java.io.IOException {{
    this.listed = listed;
    this.partitionSchema = partitionSchema;
    String[] lines = listed.split("\\n");
    files = new org.apache.hadoop.fs.FileStatus[lines.length];
    firstWords = new int[lines.length];
    long total = 0;
    org.apache.hadoop.fs.FileSystem storage = null;
    for (int i = 0; i < lines.length; i++) {{
      String[] parts = lines[i].split(":", 3);
      org.apache.hadoop.fs.Path path = new org.apache.hadoop.fs.Path(parts[2]);
      if (storage == null) {{ storage = path.getFileSystem(conf); }}
      long size = Long.parseLong(parts[1]);
      total += size;
      firstWords[i] = Integer.parseInt(parts[0]);
      files[i] = new org.apache.hadoop.fs.FileStatus(
          size, false, 1, storage.getDefaultBlockSize(path), 0L, storage.makeQualified(path));
    }}
    sizeInBytes = total;
  }}

  public {_SCALA}.Seq rootPaths() {{
    Object[] paths = new Object[files.length];
    for (int i = 0; i < files.length; i++) {{ paths[i] = files[i].getPath(); }}
    return seq(paths);
  }}
  public {_SCALA}.Seq listFiles({_SCALA}.Seq partitionFilters, {_SCALA}.Seq dataFilters) {{
    Object[] found = new Object[files.length];
    for (int i = 0; i < files.length; i++) {{
      Object[] values = new Object[] {{ Integer.valueOf(firstWords[i]) }};
      found[i] = PartitionDirectory.apply(
          new org.apache.spark.sql.catalyst.expressions.GenericInternalRow(values),
          new org.apache.hadoop.fs.FileStatus[] {{ files[i] }});
    }}
    return seq(found);
  }}
  public String[] inputFiles() {{
    String[] names = new String[files.length];
    for (int i = 0; i < files.length; i++) {{ names[i] = files[i].getPath().toString(); }}
    return names;
  }}
  public void refresh() {{ }}
  public long sizeInBytes() {{ return sizeInBytes; }}
  public org.apache.spark.sql.types.StructType partitionSchema() {{ return partitionSchema; }}
  public boolean equals(Object other) {{
    return other instanceof {_CLASS} && listed.equals((({_CLASS}) other).listed);
  }}
  public int hashCode() {{ return listed.hashCode(); }}

  private static {_SCALA}.Seq seq(Object[] values) {{
    return ({_SCALA}.Seq) {_SCALA}.ArraySeq$.MODULE$.unsafeWrapArray(values);
  }}
}}
"""


@dataclass(frozen=True, slots=True)
class MaskedFile:
    """A file of a scan.

    Parameters
    ----------
    path : str
        Where it is; without line breaks.
    size_bytes, rows_count : int
        Its size and rows.
    hidden : HiddenRows or None
        The rows to leave out.
    """

    path: str
    size_bytes: int
    rows_count: int
    hidden: HiddenRows | None

    @property
    def hides(self) -> bool:
        """Whether the mask hides a row."""
        return self.hidden is not None and self.hidden.hidden_count > 0


def takes_masks(spark: SparkSession) -> bool:
    """Whether this Spark scans under masks; where it does not, a warning says so once.

    Parameters
    ----------
    spark : SparkSession
        A classic one.
    """
    context = spark.sparkContext
    known = _TAKES_MASKS.get(context)
    if known is not None:
        return known
    try:
        defined_class(spark, _CLASS, _JAVA)
    except (Py4JError, TypeError) as error:  # py4j calls a class that is missing a package
        logging.getLogger(__name__).warning(
            "Rows that newer files replace are left out by merges in Python, which cost several"
            " times as much as Spark's own scan, because Spark %s does not take our list of"
            " files: %s",
            spark.version,
            error,
        )
        _TAKES_MASKS[context] = False
        return False
    _TAKES_MASKS[context] = True
    return True


def masked_frame(
    spark: SparkSession,
    files: Sequence[MaskedFile],
    schema: st.StructType,
    options: dict[str, str],
) -> DataFrame:
    """The rows of files that their masks do not hide.

    Parameters
    ----------
    spark : SparkSession
        A classic one. Requires: it takes masks.
    files : sequence of MaskedFile
        At least one with hidden rows.
    schema : StructType
        The files' columns to read, all nullable; none of the name :data:`ROW_INDEX` or
        :data:`FIRST_WORD`.
    options : dict
        Of Spark's reader.

    Returns
    -------
    DataFrame
        These columns.
    """
    masks = [f.hidden for f in files if f.hidden is not None and f.hides]
    words = [words_count(f.rows_count) if f.hides else 0 for f in files]
    lines = [
        f"{first if file.hides else NO_MASK}:{file.size_bytes}:{file.path}"
        for file, first in zip(files, accumulate(words, initial=0), strict=False)
    ]
    frame = _listed_frame(spark, "\n".join(lines), schema, options)
    position, first_word = frame[ROW_INDEX], frame[FIRST_WORD]
    index = first_word + F.shiftright(position, WORD_SHIFT).cast("int")
    word = F.get(_KEPT.words(spark, masks), index)
    bit = position.bitwiseAND(F.lit(WORD_BITS - 1).cast("bigint")).cast("int")
    is_shown = F.call_function("shiftright", word, bit).bitwiseAND(F.lit(1).cast("bigint")) == 0
    shown = frame.filter(is_shown if all(f.hides for f in files) else (first_word < 0) | is_shown)
    return shown.select(*(quoted(name) for name in schema.names))


def _listed_frame(
    spark: SparkSession, listed: str, schema: st.StructType, options: dict[str, str]
) -> DataFrame:
    """A scan of listed files, with the partition column behind their own."""
    jvm, session = spark.sparkContext._gateway.jvm, spark._jsparkSession
    with_index = st.StructType([*schema, st.StructField(ROW_INDEX, st.LongType())])
    partition = st.StructType([st.StructField(FIRST_WORD, st.IntegerType(), nullable=False)])
    partition_schema = session.parseDataType(partition.json())
    index = getattr(jvm, f"{PACKAGE}.{_CLASS}")(
        listed, partition_schema, session.sessionState().newHadoopConf()
    )
    relation = getattr(jvm, f"{PACKAGE}.HadoopFsRelation")(
        index,
        partition_schema,
        session.parseDataType(with_index.json()),
        jvm.scala.Option.empty(),
        getattr(jvm, f"{PACKAGE}.parquet.ParquetFileFormat")(),
        jvm.PythonUtils.toScalaMap(options),
        session,
    )
    return DataFrame(session.baseRelationToDataFrame(relation), spark)


class _KeptWords:
    """Words of masks that a session's JVM has, as scalar subqueries; those unused longest go."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[int, ...], tuple[Column, object, int]] = OrderedDict()
        self._bytes = 0

    def words(self, spark: SparkSession, masks: Sequence[HiddenRows]) -> Column:
        """The words of masks, one after the other."""
        # an entry holds what its key names, so no other object gets the same id
        key = (id(spark), *map(id, masks))
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
                return found[0]
        words = np.concatenate([mask.words() for mask in masks])
        column = _local_words(spark, words)
        nbytes = words.nbytes + sum(mask.nbytes for mask in masks)
        with self._lock:
            if key not in self._kept:
                self._kept[key] = (column, (spark, *masks), nbytes)
                self._bytes += nbytes
            while len(self._kept) > KEPT_MAX or (
                self._bytes > KEPT_BYTES_MAX and len(self._kept) > 1
            ):
                self._bytes -= self._kept.popitem(last=False)[1][2]
        return column


def _local_words(spark: SparkSession, words: np.ndarray) -> Column:
    lists = pa.ListArray.from_arrays([0, len(words)], pa.array(words))
    rows = pa.Table.from_arrays([lists.cast(_WORDS.field(0).type)], schema=_WORDS)
    return spark.createDataFrame(rows).scalar()


_KEPT = _KeptWords()
_TAKES_MASKS: WeakKeyDictionary[SparkContext, bool] = WeakKeyDictionary()
"""What was found of each Spark."""
