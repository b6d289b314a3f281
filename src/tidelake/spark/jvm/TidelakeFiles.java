package org.apache.spark.sql.execution.datasources;

import java.util.ArrayList;
import java.util.Arrays;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.paths.SparkPath;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.FileSourceOptions;
import org.apache.spark.sql.catalyst.InternalRow$;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.RDDScanExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructType;
import scala.Function1;
import scala.collection.immutable.ArraySeq$;
import scala.collection.immutable.Map;
import scala.collection.immutable.Map$;
import scala.collection.immutable.Seq;

/**
 * Reads plain files as an RDD, without a plan of Spark around it.
 *
 * See tidelake.spark.streams.read.file_rows.
 */
public final class TidelakeFiles {
  private final SparkSession session;
  private final Map options;
  private StructType schema;
  private Filter[] filters;
  private Function1 reader;

  public TidelakeFiles(SparkSession session, String[] options) {
    this.session = session;
    Map all =
        (Map) Map$.MODULE$.empty();
    all = (Map)
        all.updated(FileFormat$.MODULE$.OPTION_RETURNING_BATCH(), "false");
    for (int i = 0; i < options.length; i += 2) {
      all = (Map) all.updated(options[i], options[i + 1]);
    }
    this.options = all;
  }

  public RDD cut(
      StructType columns, Filter[] given, String files) {
    String[] lines = files.split("\0");
    FileStatus[] all = new FileStatus[lines.length];
    for (int i = 0; i < lines.length; i++) {
      int at = lines[i].indexOf(':');
      all[i] = new FileStatus(Long.parseLong(lines[i].substring(0, at)),
          false, 1, 0L, 0L, new Path(lines[i].substring(at + 1)));
    }
    Object[] directory = new Object[] {
        PartitionDirectory.apply(InternalRow$.MODULE$.empty(), all) };
    long most = FilePartition.maxSplitBytes(session, seq(directory));
    ArrayList pieces = new ArrayList();
    for (int i = 0; i < all.length; i++) {
      long size = all[i].getLen();
      for (long start = 0; start < size; start += most) {
        pieces.add(piece(all[i].getPath(), start, Math.min(most, size - start), size));
      }
    }
    return rdd(columns, given,
        FilePartition.getFilePartitions(session, seq(pieces.toArray()), most));
  }

  public RDD whole(
      StructType columns, Filter[] given, String tasks) {
    String[] own = tasks.split("\1");
    Object[] made = new Object[own.length];
    for (int task = 0; task < own.length; task++) {
      String[] lines = own[task].split("\0");
      PartitionedFile[] files = new PartitionedFile[lines.length];
      for (int i = 0; i < lines.length; i++) {
        int at = lines[i].indexOf(':');
        long size = Long.parseLong(lines[i].substring(0, at));
        files[i] = piece(
            new Path(lines[i].substring(at + 1)), 0L, size, size);
      }
      made[task] = new FilePartition(task, files);
    }
    return rdd(columns, given, seq(made));
  }

  public RDD through(
      SparkPlan plan, RDD rows) {
    return over(plan, rows).execute();
  }

  private static SparkPlan over(
      SparkPlan plan, RDD rows) {
    if (plan instanceof RDDScanExec) {
      RDDScanExec leaf = (RDDScanExec) plan;
      return leaf.copy(leaf.output(), rows, leaf.name(), leaf.outputPartitioning(),
          leaf.outputOrdering(), leaf.stream());
    }
    Object[] child = new Object[] {
        over((SparkPlan) plan.children().apply(0), rows) };
    return (SparkPlan) plan.withNewChildren(seq(child));
  }

  private RDD rdd(StructType columns,
      Filter[] given, Seq partitions) {
    return new FileScanRDD(session, reader(columns, given), partitions, columns,
        seq(new Object[0]),
        (Map) Map$.MODULE$.empty(),
        new FileSourceOptions(options));
  }

  private synchronized Function1 reader(
      StructType columns, Filter[] given) {
    Filter[] own = given == null ? new Filter[0] : given;
    if (reader == null || !columns.equals(schema) || !Arrays.equals(own, filters)) {
      reader = new ParquetFileFormat().buildReaderWithPartitionValues(
          session, columns, new StructType(), columns, seq(own), options,
          session.sessionState().newHadoopConfWithOptions(options));
      schema = columns;
      filters = own;
    }
    return reader;
  }

  private static PartitionedFile piece(
      Path path, long start, long length, long size) {
    return new PartitionedFile(InternalRow$.MODULE$.empty(),
        SparkPath.fromPath(path), start, length, new String[0], 0L, size,
        (Map) Map$.MODULE$.empty());
  }

  private static Seq seq(Object[] values) {
    return (Seq)
        ArraySeq$.MODULE$.unsafeWrapArray(values);
  }
}
