"""Rows of data files as an RDD of Spark's Parquet reader, without a plan of Spark around it.

A micro-batch of files that are only read needs no plan: its files, columns and filters are known,
and Spark has optimised the query around it. A DataFrame of ``spark.read.parquet`` would be
analysed, optimised and compiled again for each batch, and its files looked up again; for a small
batch that takes longer than the reading. What the tasks' readers need is made once for the same
columns and filters.

The tasks are made here, so one task can read whole files of a bucket in their order, however large.
Files that may be cut are cut and packed by Spark's own rule. Tasks get classes of Spark only; the
Java class below stays on the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import types as st

from tidelake.spark.catalog.gateway import Gateway, JavaObject
from tidelake.spark.catalog.streams.java_class import PACKAGE, defined_class
from tidelake.spark.read.native_changes import PlainFile, PlainUnit
from tidelake.spark.read.native_scan import READ_OPTIONS

_NAME = "TidelakeFiles"
_BETWEEN_FILES, _BETWEEN_TASKS = "\0", "\1"
_NEAR_TO_ALL = frozenset({"", "file", "s3", "s3a", "gs", "abfs", "abfss", "memory"})
"""Storage whose files are equally near to all executors."""
_SQL = "org.apache.spark.sql"
_JAVA = f"""
package {PACKAGE};

public final class {_NAME} {{
  private final {_SQL}.classic.SparkSession session;
  private final scala.collection.immutable.Map options;
  private {_SQL}.types.StructType schema;
  private {_SQL}.sources.Filter[] filters;
  private scala.Function1 reader;

  public {_NAME}({_SQL}.classic.SparkSession session, String[] options) {{
    this.session = session;
    scala.collection.immutable.Map all =
        (scala.collection.immutable.Map) scala.collection.immutable.Map$.MODULE$.empty();
    all = (scala.collection.immutable.Map)
        all.updated(FileFormat$.MODULE$.OPTION_RETURNING_BATCH(), "false");
    for (int i = 0; i < options.length; i += 2) {{
      all = (scala.collection.immutable.Map) all.updated(options[i], options[i + 1]);
    }}
    this.options = all;
  }}

  public org.apache.spark.rdd.RDD cut(
      {_SQL}.types.StructType columns, {_SQL}.sources.Filter[] given, String files) {{
    String[] lines = files.split("\\0");
    org.apache.hadoop.fs.FileStatus[] all = new org.apache.hadoop.fs.FileStatus[lines.length];
    for (int i = 0; i < lines.length; i++) {{
      int at = lines[i].indexOf(':');
      all[i] = new org.apache.hadoop.fs.FileStatus(Long.parseLong(lines[i].substring(0, at)),
          false, 1, 0L, 0L, new org.apache.hadoop.fs.Path(lines[i].substring(at + 1)));
    }}
    Object[] directory = new Object[] {{
        PartitionDirectory.apply({_SQL}.catalyst.InternalRow$.MODULE$.empty(), all) }};
    long most = FilePartition.maxSplitBytes(session, seq(directory));
    java.util.ArrayList pieces = new java.util.ArrayList();
    for (int i = 0; i < all.length; i++) {{
      long size = all[i].getLen();
      for (long start = 0; start < size; start += most) {{
        pieces.add(piece(all[i].getPath(), start, Math.min(most, size - start), size));
      }}
    }}
    return rdd(columns, given,
        FilePartition.getFilePartitions(session, seq(pieces.toArray()), most));
  }}

  public org.apache.spark.rdd.RDD whole(
      {_SQL}.types.StructType columns, {_SQL}.sources.Filter[] given, String tasks) {{
    String[] own = tasks.split("\\1");
    Object[] made = new Object[own.length];
    for (int task = 0; task < own.length; task++) {{
      String[] lines = own[task].split("\\0");
      PartitionedFile[] files = new PartitionedFile[lines.length];
      for (int i = 0; i < lines.length; i++) {{
        int at = lines[i].indexOf(':');
        long size = Long.parseLong(lines[i].substring(0, at));
        files[i] = piece(
            new org.apache.hadoop.fs.Path(lines[i].substring(at + 1)), 0L, size, size);
      }}
      made[task] = new FilePartition(task, files);
    }}
    return rdd(columns, given, seq(made));
  }}

  public org.apache.spark.rdd.RDD through(
      {_SQL}.execution.SparkPlan plan, org.apache.spark.rdd.RDD rows) {{
    return over(plan, rows).execute();
  }}

  private static {_SQL}.execution.SparkPlan over(
      {_SQL}.execution.SparkPlan plan, org.apache.spark.rdd.RDD rows) {{
    if (plan instanceof {_SQL}.execution.RDDScanExec) {{
      {_SQL}.execution.RDDScanExec leaf = ({_SQL}.execution.RDDScanExec) plan;
      return leaf.copy(leaf.output(), rows, leaf.name(), leaf.outputPartitioning(),
          leaf.outputOrdering(), leaf.stream());
    }}
    Object[] child = new Object[] {{
        over(({_SQL}.execution.SparkPlan) plan.children().apply(0), rows) }};
    return ({_SQL}.execution.SparkPlan) plan.withNewChildren(seq(child));
  }}

  private org.apache.spark.rdd.RDD rdd({_SQL}.types.StructType columns,
      {_SQL}.sources.Filter[] given, scala.collection.immutable.Seq partitions) {{
    return new FileScanRDD(session, reader(columns, given), partitions, columns,
        seq(new Object[0]),
        (scala.collection.immutable.Map) scala.collection.immutable.Map$.MODULE$.empty(),
        new {_SQL}.catalyst.FileSourceOptions(options));
  }}

  private synchronized scala.Function1 reader(
      {_SQL}.types.StructType columns, {_SQL}.sources.Filter[] given) {{
    {_SQL}.sources.Filter[] own = given == null ? new {_SQL}.sources.Filter[0] : given;
    if (reader == null || !columns.equals(schema) || !java.util.Arrays.equals(own, filters)) {{
      reader = new {PACKAGE}.parquet.ParquetFileFormat().buildReaderWithPartitionValues(
          session, columns, new {_SQL}.types.StructType(), columns, seq(own), options,
          session.sessionState().newHadoopConfWithOptions(options));
      schema = columns;
      filters = own;
    }}
    return reader;
  }}

  private static PartitionedFile piece(
      org.apache.hadoop.fs.Path path, long start, long length, long size) {{
    return new PartitionedFile({_SQL}.catalyst.InternalRow$.MODULE$.empty(),
        org.apache.spark.paths.SparkPath.fromPath(path), start, length, new String[0], 0L, size,
        (scala.collection.immutable.Map) scala.collection.immutable.Map$.MODULE$.empty());
  }}

  private static scala.collection.immutable.Seq seq(Object[] values) {{
    return (scala.collection.immutable.Seq)
        scala.collection.immutable.ArraySeq$.MODULE$.unsafeWrapArray(values);
  }}
}}
"""


def may_read(units: Sequence[PlainUnit]) -> bool:
    """Say whether any executor may read the files, and their names are plain.

    Spark reads a file of HDFS where its blocks are, which it looks up when it makes a plan.
    """
    return all(_is_plain(file.path) for unit in units for file in unit.files)


def _is_plain(path: str) -> bool:
    scheme, colon, _ = path.partition(":/")
    return (not colon or scheme in _NEAR_TO_ALL) and path.isprintable()


def _lines(files: Sequence[PlainFile]) -> str:
    return _BETWEEN_FILES.join(f"{file.size_bytes}:{file.path}" for file in files)


class FileRows:
    """Reads plain files for one query; for one thread at a time."""

    def __init__(self, gateway: Gateway) -> None:
        defined_class(gateway, _NAME, _JAVA)
        self._gateway = gateway
        options = [text for pair in READ_OPTIONS.items() for text in pair]
        made = gateway.java(f"{PACKAGE}.{_NAME}")
        self._java = made(gateway.spark._jsparkSession, gateway.strings(options))
        self._schemas: dict[str, JavaObject] = {}
        self._plans: dict[Hashable, JavaObject] = {}

    def rows(
        self,
        schema: st.StructType,
        filters: JavaObject | None,
        tasks: Sequence[Sequence[PlainUnit]],
    ) -> JavaObject:
        """Give the rows as an RDD of Spark's own rows.

        Parameters
        ----------
        schema : StructType
            The columns of the files that are wanted, in order.
        filters : JavaObject, optional
            An array of filters by which the reader may leave out row groups.
        tasks : sequence of sequence of PlainUnit
            The files of each task, at least one; of units that may be cut Spark makes other tasks.
        """
        columns = self.schema(schema)
        if all(unit.may_cut for task in tasks for unit in task):
            files = [file for task in tasks for unit in task for file in unit.files]
            files.sort(key=lambda file: -file.size_bytes)  # as Spark packs pieces: large ones first
            return self._java.cut(columns, filters, _lines(files))
        lines = [_lines([file for unit in task for file in unit.files]) for task in tasks]
        return self._java.whole(columns, filters, _BETWEEN_TASKS.join(lines))

    def through(
        self,
        rows: JavaObject,
        schema: st.StructType,
        make: Callable[[DataFrame], DataFrame],
        *,
        key: Hashable,
    ) -> JavaObject:
        """Put the rows through filters and selects, which are planned once.

        Parameters
        ----------
        make : callable
            Adds the filters and selects to a frame of such rows.
        key : hashable
            Names what `make` does with the schema; it is planned once for each.
        """
        known = schema.json(), key
        if known not in self._plans:
            session = self._gateway.spark._jsparkSession
            frame = session.internalCreateDataFrame(rows, self.schema(schema), False)
            made = make(self._gateway.frame(frame))
            self._plans[known] = made._jdf.queryExecution().sparkPlan()
        return self._java.through(self._plans[known], rows)

    def schema(self, struct: st.StructType) -> JavaObject:
        """Give the columns to the JVM, all nullable, as Spark has those of files."""
        text = struct.json()
        if text not in self._schemas:
            self._schemas[text] = self._gateway.schema(struct).asNullable()
        return self._schemas[text]
