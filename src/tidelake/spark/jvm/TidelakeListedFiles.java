package org.apache.spark.sql.execution.datasources;

import java.io.IOException;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.Predicate$;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.collection.immutable.ArraySeq$;
import scala.collection.immutable.Seq;

/**
 * The files of a scan with their sizes, partitions, masks and buckets.
 *
 * See tidelake.spark.read.listed_files.
 */
public final class TidelakeListedFiles implements FileIndex {
  /** What a file is taken to cost beside its bytes; Spark takes 4 MB, as for an object store. */
  private static final long FILE_COST_BYTES = 256L << 10;
  /** Scans whose tasks are looked at: those of fewer bytes are short, of more pieces even. */
  private static final long EVEN_BYTES_MIN = 4L << 20;
  private static final int EVEN_PIECES_MAX = 10000;
  /** The longest task must be longer than an even one by one part in this many. */
  private static final int EVEN_SHARE = 5;

  private final String listed;
  private final StructType partitionSchema;
  private final FileStatus[] files;
  private final InternalRow[] values;
  private final int[] buckets;
  private final long sizeInBytes;
  private final int bucketsCount;
  private final String bucketFunction;
  private final String bucketKey;
  private final String sortKeys;
  private final String table;
  private final FileSystem storage;
  private final boolean isByBucket;

  public TidelakeListedFiles(String listed, String partitions,
      StructType partitionSchema,
      Configuration conf, int bucketsCount, String bucketFunction,
      String bucketKey, String sortKeys, String table) throws IOException {
    this.listed = listed;
    this.partitionSchema = partitionSchema;
    this.bucketsCount = bucketsCount;
    this.bucketFunction = bucketFunction;
    this.bucketKey = bucketKey;
    this.sortKeys = sortKeys;
    this.table = table;
    isByBucket = false;
    String[] lines = listed.split("\n");
    files = new FileStatus[lines.length];
    values = new InternalRow[lines.length];
    buckets = new int[lines.length];
    Object[][] ofPartitions = parsed(partitions, partitionSchema);
    int columns = partitionSchema.length() - 1;
    long total = 0;
    storage = new Path(lines[0].split(":", 5)[4]).getFileSystem(conf);
    for (int i = 0; i < lines.length; i++) {
      String[] parts = lines[i].split(":", 5);
      Path path = new Path(parts[4]);
      long size = Long.parseLong(parts[3]);
      total += size;
      Object[] row =
          Arrays.copyOf(ofPartitions[Integer.parseInt(parts[2])], columns + 1);
      row[columns] = Integer.valueOf(parts[0]);
      values[i] = new GenericInternalRow(row);
      buckets[i] = Integer.parseInt(parts[1]);
      files[i] = new FileStatus(
          size, false, 1, storage.getDefaultBlockSize(path), 0L, storage.makeQualified(path));
    }
    sizeInBytes = total;
  }

  private TidelakeListedFiles(TidelakeListedFiles other) {
    listed = other.listed;
    partitionSchema = other.partitionSchema;
    files = other.files;
    values = other.values;
    buckets = other.buckets;
    sizeInBytes = other.sizeInBytes;
    bucketsCount = other.bucketsCount;
    bucketFunction = other.bucketFunction;
    bucketKey = other.bucketKey;
    sortKeys = other.sortKeys;
    table = other.table;
    storage = other.storage;
    isByBucket = true;
  }

  public Seq rootPaths() {
    Object[] paths = new Object[files.length];
    for (int i = 0; i < files.length; i++) { paths[i] = files[i].getPath(); }
    return seq(paths);
  }
  public Seq listFiles(Seq partitionFilters, Seq dataFilters) {
    Expression condition = null;
    for (int i = 0; i < partitionFilters.size(); i++) {
      Expression one = bound((Expression) partitionFilters.apply(i));
      condition = condition == null ? one : new And(condition, one);
    }
    BasePredicate test = condition == null
        ? null : Predicate$.MODULE$.createInterpreted(condition);
    ArrayList found = new ArrayList();
    for (int i = 0; i < files.length; i++) {
      if (test != null && !test.eval(values[i])) continue;
      if (found.isEmpty()) checkThere(files[i].getPath());
      found.add(PartitionDirectory.apply(values[i], new FileStatus[] { files[i] }));
    }
    return seq(found.toArray());
  }

  // of a table that was dropped no file is there; tasks would tell it by a hundred lines
  private void checkThere(Path file) {
    String message;
    try {
      if (storage.exists(file)) return;
      message = storage.exists(new Path(table, "schema"))
          ? "File " + file + " of table " + table + ", which this DataFrame reads, is gone:"
              + " the table was dropped and created again after the DataFrame was made, or its"
              + " snapshot has expired ('snapshot.time-retained'), or the file was lost. Make the"
              + " DataFrame again."
          : "Table " + table + " was dropped or renamed after this DataFrame of it was made.";
    } catch (IOException error) {
      return;  // the tasks say what is wrong with the storage
    }
    throw new IllegalArgumentException(message);
  }

  // Spark looks at a filter on these columns here, and nowhere else
  private Expression bound(Expression filter) {
    if (filter instanceof AttributeReference) {
      int at = partitionSchema.fieldIndex(((AttributeReference) filter).name());
      return new BoundReference(at, partitionSchema.apply(at).dataType(), true);
    }
    Seq children = filter.children();
    if (children.isEmpty()) return filter;
    Object[] made = new Object[children.size()];
    for (int i = 0; i < made.length; i++) {
      made[i] = bound((Expression) children.apply(i));
    }
    return (Expression) filter.withNewChildren(seq(made));
  }

  private static Object[][] parsed(
      String partitions, StructType schema) {
    String[] lines = partitions.split("\n", -1);
    Object[][] made = new Object[lines.length][];
    for (int i = 0; i < lines.length; i++) {
      String[] texts = lines[i].split("&", -1);
      made[i] = new Object[schema.length() - 1];
      for (int j = 0; j < made[i].length; j++) {
        made[i][j] = texts[j].isEmpty() ? null : value(
            URLDecoder.decode(texts[j].substring(1),
                StandardCharsets.UTF_8),
            schema.apply(j).dataType().typeName());
      }
    }
    return made;
  }

  private static Object value(String text, String type) {
    if (type.equals("string")) return UTF8String.fromString(text);
    if (type.equals("boolean")) return Boolean.valueOf(text.equals("True"));
    if (type.equals("byte")) return Byte.valueOf(text);
    if (type.equals("short")) return Short.valueOf(text);
    if (type.equals("long")) return Long.valueOf(text);
    return Integer.valueOf(text);  // a date counts days
  }
  public String[] inputFiles() {
    String[] names = new String[files.length];
    for (int i = 0; i < files.length; i++) { names[i] = files[i].getPath().toString(); }
    return names;
  }
  public void refresh() { }
  public long sizeInBytes() { return sizeInBytes; }
  public StructType partitionSchema() { return partitionSchema; }
  public boolean equals(Object other) {
    if (!(other instanceof TidelakeListedFiles)) return false;
    TidelakeListedFiles that = (TidelakeListedFiles) other;
    return listed.equals(that.listed) && partitionSchema.equals(that.partitionSchema)
        && isByBucket == that.isByBucket
        && bucketsCount == that.bucketsCount && bucketKey.equals(that.bucketKey)
        && sortKeys.equals(that.sortKeys);
  }
  public int hashCode() { return listed.hashCode(); }

  // a task's files have their partition's row, and so does the RDD of a query whose plan is gone
  Object[] rowsOfPartitions() { return values; }

  public int bucketsCount() { return bucketsCount; }
  public String bucketFunction() { return bucketFunction; }
  public String bucketKey() { return bucketKey; }
  public String[] sortKeys() {
    return sortKeys.isEmpty() ? new String[0] : sortKeys.split("\n");
  }
  public boolean isByBucket() { return isByBucket; }
  public TidelakeListedFiles byBucket() { return new TidelakeListedFiles(this); }

  public Seq byBucket(Seq packed) {
    HashMap numbers = new HashMap();
    ArrayList[] parts = new ArrayList[files.length];
    for (int i = 0; i < files.length; i++) {
      numbers.put(files[i].getPath(), Integer.valueOf(i));
      parts[i] = new ArrayList();
    }
    for (int i = 0; i < packed.size(); i++) {
      PartitionedFile[] some = ((FilePartition) packed.apply(i)).files();
      for (int j = 0; j < some.length; j++) {
        insert(parts[((Integer) numbers.get(some[j].toPath())).intValue()], some[j]);
      }
    }
    ArrayList[] found = new ArrayList[bucketsCount];
    for (int i = 0; i < bucketsCount; i++) { found[i] = new ArrayList(); }
    for (int i = 0; i < files.length; i++) { found[buckets[i]].addAll(parts[i]); }
    Object[] made = new Object[bucketsCount];
    for (int i = 0; i < bucketsCount; i++) {
      Object[] some = found[i].toArray(new PartitionedFile[0]);
      made[i] = new FilePartition(i, (PartitionedFile[]) some);
    }
    return seq(made);
  }

  // whether even tasks would be much shorter than those that Spark makes of all files
  public boolean isUneven(SparkSession session) {
    if (files.length < 2 || files.length > EVEN_PIECES_MAX || sizeInBytes < EVEN_BYTES_MIN) {
      return false;
    }
    String scheme = files[0].getPath().toUri().getScheme();
    if (scheme != null && !scheme.equals("file") && !scheme.equals("hdfs")) return false;
    long most = FilePartition.maxSplitBytes(
        session, seq(new Object[] {PartitionDirectory.apply(values[0], files)}));
    long openCost = session.sessionState().conf().filesOpenCostInBytes();
    int count = 0;
    for (int i = 0; i < files.length; i++) {
      count += (int) ((files[i].getLen() - 1) / most) + 1;
    }
    if (count > EVEN_PIECES_MAX) return false;
    long[] lengths = new long[count];
    int at = 0;
    for (int i = 0; i < files.length; i++) {
      long size = files[i].getLen();
      for (long start = 0; start == 0 || start < size; start += most) {
        lengths[at++] = Math.min(most, size - start);
      }
    }
    Arrays.sort(lengths);
    long[] costs = new long[count];
    int[] packed = new int[count];
    int task = 0;
    long filled = 0;
    for (int i = 0; i < count; i++) {
      long length = lengths[count - 1 - i];
      if (i > 0 && filled + length > most) {
        task++;
        filled = 0;
      }
      filled += length + openCost;
      packed[i] = task;
      costs[i] = length + FILE_COST_BYTES;
    }
    return isLonger(costs, packed, spread(costs, task + 1), task + 1);
  }

  // the same pieces of files in as many tasks; Spark has sorted them by size
  public Seq even(Seq packed) {
    int count = packed.size();
    if (count > EVEN_PIECES_MAX) return packed;
    ArrayList pieces = new ArrayList();
    ArrayList numbers = new ArrayList();
    for (int i = 0; i < count; i++) {
      PartitionedFile[] some = ((FilePartition) packed.apply(i)).files();
      for (int j = 0; j < some.length; j++) {
        pieces.add(some[j]);
        numbers.add(Integer.valueOf(i));
      }
    }
    long[] costs = new long[pieces.size()];
    int[] tasks = new int[costs.length];
    for (int i = 0; i < costs.length; i++) {
      costs[i] = ((PartitionedFile) pieces.get(i)).length() + FILE_COST_BYTES;
      tasks[i] = ((Integer) numbers.get(i)).intValue();
    }
    int[] even = spread(costs, count);
    if (!isLonger(costs, tasks, even, count)) return packed;
    Object[] made = new Object[count];
    for (int i = 0; i < count; i++) {
      ArrayList own = new ArrayList();
      for (int j = 0; j < even.length; j++) { if (even[j] == i) own.add(pieces.get(j)); }
      made[i] = new FilePartition(i, (PartitionedFile[]) own.toArray(new PartitionedFile[0]));
    }
    return seq(made);
  }

  private static int[] spread(long[] costs, int count) {
    long[] loads = new long[count];
    int[] tasks = new int[costs.length];
    for (int i = 0; i < costs.length; i++) {
      int least = 0;
      for (int k = 1; k < count; k++) { if (loads[k] < loads[least]) least = k; }
      loads[least] += costs[i];
      tasks[i] = least;
    }
    return tasks;
  }

  private static boolean isLonger(long[] costs, int[] one, int[] other, int count) {
    long least = longest(costs, other, count);
    return longest(costs, one, count) - least > least / EVEN_SHARE;
  }

  private static long longest(long[] costs, int[] tasks, int count) {
    long[] loads = new long[count];
    long found = 0;
    for (int i = 0; i < costs.length; i++) {
      loads[tasks[i]] += costs[i];
      found = Math.max(found, loads[tasks[i]]);
    }
    return found;
  }

  private static void insert(ArrayList parts, PartitionedFile part) {
    int at = parts.size();
    while (at > 0 && ((PartitionedFile) parts.get(at - 1)).start() > part.start()) { at--; }
    parts.add(at, part);
  }

  private static Seq seq(Object[] values) {
    return (Seq) ArraySeq$.MODULE$.unsafeWrapArray(values);
  }
}
