"""Java classes of native scans: the index of the files listed, and the plan of a scan.

Both know of masks (:mod:`tidelake.spark.read.masked_scan`) and of buckets
(:mod:`tidelake.spark.read.buckets`). The plan is made in one call: a DataFrame for each step would
be analysed again and again, and each function of its condition is a call from Python.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from tidelake.spark.sessions.java_class import PACKAGE, defined_class

FIRST_WORD = "_first_word"
"""The last partition column. No data column may have its name."""
ROW_INDEX = "_tmp_metadata_row_index"
"""The column that Spark's Parquet reader fills in with the position of a row in its file."""
WORD_BITS, WORD_SHIFT = 64, 6
LISTED_FILES = "TidelakeListedFiles"
"""The class of the file index, in the package :data:`PACKAGE`."""
_SCALA = "scala.collection.immutable"
_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions"
_STATUS = "org.apache.hadoop.fs.FileStatus"
_CLASSIC = "org.apache.spark.sql.classic"
FILE_COST_BYTES = 256 << 10
"""What a file is taken to cost beside its bytes; Spark takes 4 MB, as for an object store."""
EVEN_BYTES_MIN, EVEN_PIECES_MAX = 4 << 20, 10_000
"""Scans whose tasks are looked at: those of fewer bytes are short, those of more pieces even."""
EVEN_SHARE = 5
"""The longest task must be longer than an even one by one part in this many."""
_JAVA = f"""
package {PACKAGE};

public final class {LISTED_FILES} implements FileIndex {{
  private final String listed;
  private final org.apache.spark.sql.types.StructType partitionSchema;
  private final {_STATUS}[] files;
  private final org.apache.spark.sql.catalyst.InternalRow[] values;
  private final int[] buckets;
  private final long sizeInBytes;
  private final int bucketsCount;
  private final String bucketFunction;
  private final String bucketKey;
  private final String sortKeys;
  private final String table;
  private final org.apache.hadoop.fs.FileSystem storage;
  private final boolean isByBucket;

  public {LISTED_FILES}(String listed, String partitions,
      org.apache.spark.sql.types.StructType partitionSchema,
      org.apache.hadoop.conf.Configuration conf, int bucketsCount, String bucketFunction,
      String bucketKey, String sortKeys, String table) throws java.io.IOException {{
    this.listed = listed;
    this.partitionSchema = partitionSchema;
    this.bucketsCount = bucketsCount;
    this.bucketFunction = bucketFunction;
    this.bucketKey = bucketKey;
    this.sortKeys = sortKeys;
    this.table = table;
    isByBucket = false;
    String[] lines = listed.split("\\n");
    files = new {_STATUS}[lines.length];
    values = new org.apache.spark.sql.catalyst.InternalRow[lines.length];
    buckets = new int[lines.length];
    Object[][] ofPartitions = parsed(partitions, partitionSchema);
    int columns = partitionSchema.length() - 1;
    long total = 0;
    storage = new org.apache.hadoop.fs.Path(lines[0].split(":", 5)[4]).getFileSystem(conf);
    for (int i = 0; i < lines.length; i++) {{
      String[] parts = lines[i].split(":", 5);
      org.apache.hadoop.fs.Path path = new org.apache.hadoop.fs.Path(parts[4]);
      long size = Long.parseLong(parts[3]);
      total += size;
      Object[] row =
          java.util.Arrays.copyOf(ofPartitions[Integer.parseInt(parts[2])], columns + 1);
      row[columns] = Integer.valueOf(parts[0]);
      values[i] = new {_EXPRESSIONS}.GenericInternalRow(row);
      buckets[i] = Integer.parseInt(parts[1]);
      files[i] = new {_STATUS}(
          size, false, 1, storage.getDefaultBlockSize(path), 0L, storage.makeQualified(path));
    }}
    sizeInBytes = total;
  }}

  private {LISTED_FILES}({LISTED_FILES} other) {{
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
  }}

  public {_SCALA}.Seq rootPaths() {{
    Object[] paths = new Object[files.length];
    for (int i = 0; i < files.length; i++) {{ paths[i] = files[i].getPath(); }}
    return seq(paths);
  }}
  public {_SCALA}.Seq listFiles({_SCALA}.Seq partitionFilters, {_SCALA}.Seq dataFilters) {{
    {_EXPRESSIONS}.Expression condition = null;
    for (int i = 0; i < partitionFilters.size(); i++) {{
      {_EXPRESSIONS}.Expression one = bound(({_EXPRESSIONS}.Expression) partitionFilters.apply(i));
      condition = condition == null ? one : new {_EXPRESSIONS}.And(condition, one);
    }}
    {_EXPRESSIONS}.BasePredicate test = condition == null
        ? null : {_EXPRESSIONS}.Predicate$.MODULE$.createInterpreted(condition);
    java.util.ArrayList found = new java.util.ArrayList();
    for (int i = 0; i < files.length; i++) {{
      if (test != null && !test.eval(values[i])) continue;
      if (found.isEmpty()) checkThere(files[i].getPath());
      found.add(PartitionDirectory.apply(values[i], new {_STATUS}[] {{ files[i] }}));
    }}
    return seq(found.toArray());
  }}

  // of a table that was dropped no file is there; tasks would tell it by a hundred lines
  private void checkThere(org.apache.hadoop.fs.Path file) {{
    String message;
    try {{
      if (storage.exists(file)) return;
      message = storage.exists(new org.apache.hadoop.fs.Path(table, "schema"))
          ? "File " + file + " of table " + table + ", which this DataFrame reads, is gone:"
              + " the table was dropped and created again after the DataFrame was made, or its"
              + " snapshot has expired ('snapshot.time-retained'), or the file was lost. Make the"
              + " DataFrame again."
          : "Table " + table + " was dropped or renamed after this DataFrame of it was made.";
    }} catch (java.io.IOException error) {{
      return;  // the tasks say what is wrong with the storage
    }}
    throw new IllegalArgumentException(message);
  }}

  // Spark looks at a filter on these columns here, and nowhere else
  private {_EXPRESSIONS}.Expression bound({_EXPRESSIONS}.Expression filter) {{
    if (filter instanceof {_EXPRESSIONS}.AttributeReference) {{
      int at = partitionSchema.fieldIndex((({_EXPRESSIONS}.AttributeReference) filter).name());
      return new {_EXPRESSIONS}.BoundReference(at, partitionSchema.apply(at).dataType(), true);
    }}
    {_SCALA}.Seq children = filter.children();
    if (children.isEmpty()) return filter;
    Object[] made = new Object[children.size()];
    for (int i = 0; i < made.length; i++) {{
      made[i] = bound(({_EXPRESSIONS}.Expression) children.apply(i));
    }}
    return ({_EXPRESSIONS}.Expression) filter.withNewChildren(seq(made));
  }}

  private static Object[][] parsed(
      String partitions, org.apache.spark.sql.types.StructType schema) {{
    String[] lines = partitions.split("\\n", -1);
    Object[][] made = new Object[lines.length][];
    for (int i = 0; i < lines.length; i++) {{
      String[] texts = lines[i].split("&", -1);
      made[i] = new Object[schema.length() - 1];
      for (int j = 0; j < made[i].length; j++) {{
        made[i][j] = texts[j].isEmpty() ? null : value(
            java.net.URLDecoder.decode(texts[j].substring(1),
                java.nio.charset.StandardCharsets.UTF_8),
            schema.apply(j).dataType().typeName());
      }}
    }}
    return made;
  }}

  private static Object value(String text, String type) {{
    if (type.equals("string")) return org.apache.spark.unsafe.types.UTF8String.fromString(text);
    if (type.equals("boolean")) return Boolean.valueOf(text.equals("True"));
    if (type.equals("byte")) return Byte.valueOf(text);
    if (type.equals("short")) return Short.valueOf(text);
    if (type.equals("long")) return Long.valueOf(text);
    return Integer.valueOf(text);  // a date counts days
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
    if (!(other instanceof {LISTED_FILES})) return false;
    {LISTED_FILES} that = ({LISTED_FILES}) other;
    return listed.equals(that.listed) && partitionSchema.equals(that.partitionSchema)
        && isByBucket == that.isByBucket
        && bucketsCount == that.bucketsCount && bucketKey.equals(that.bucketKey)
        && sortKeys.equals(that.sortKeys);
  }}
  public int hashCode() {{ return listed.hashCode(); }}

  public int bucketsCount() {{ return bucketsCount; }}
  public String bucketFunction() {{ return bucketFunction; }}
  public String bucketKey() {{ return bucketKey; }}
  public String[] sortKeys() {{
    return sortKeys.isEmpty() ? new String[0] : sortKeys.split("\\n");
  }}
  public boolean isByBucket() {{ return isByBucket; }}
  public {LISTED_FILES} byBucket() {{ return new {LISTED_FILES}(this); }}

  public {_SCALA}.Seq byBucket({_SCALA}.Seq packed) {{
    java.util.HashMap numbers = new java.util.HashMap();
    java.util.ArrayList[] parts = new java.util.ArrayList[files.length];
    for (int i = 0; i < files.length; i++) {{
      numbers.put(files[i].getPath(), Integer.valueOf(i));
      parts[i] = new java.util.ArrayList();
    }}
    for (int i = 0; i < packed.size(); i++) {{
      PartitionedFile[] some = ((FilePartition) packed.apply(i)).files();
      for (int j = 0; j < some.length; j++) {{
        insert(parts[((Integer) numbers.get(some[j].toPath())).intValue()], some[j]);
      }}
    }}
    java.util.ArrayList[] found = new java.util.ArrayList[bucketsCount];
    for (int i = 0; i < bucketsCount; i++) {{ found[i] = new java.util.ArrayList(); }}
    for (int i = 0; i < files.length; i++) {{ found[buckets[i]].addAll(parts[i]); }}
    Object[] made = new Object[bucketsCount];
    for (int i = 0; i < bucketsCount; i++) {{
      Object[] some = found[i].toArray(new PartitionedFile[0]);
      made[i] = new FilePartition(i, (PartitionedFile[]) some);
    }}
    return seq(made);
  }}

  // whether even tasks would be much shorter than those that Spark makes of all files
  public boolean isUneven({_CLASSIC}.SparkSession session) {{
    if (files.length < 2 || files.length > {EVEN_PIECES_MAX} || sizeInBytes < {EVEN_BYTES_MIN}L) {{
      return false;
    }}
    String scheme = files[0].getPath().toUri().getScheme();
    if (scheme != null && !scheme.equals("file") && !scheme.equals("hdfs")) return false;
    long most = FilePartition.maxSplitBytes(
        session, seq(new Object[] {{PartitionDirectory.apply(values[0], files)}}));
    long openCost = session.sessionState().conf().filesOpenCostInBytes();
    int count = 0;
    for (int i = 0; i < files.length; i++) {{
      count += (int) ((files[i].getLen() - 1) / most) + 1;
    }}
    if (count > {EVEN_PIECES_MAX}) return false;
    long[] lengths = new long[count];
    int at = 0;
    for (int i = 0; i < files.length; i++) {{
      long size = files[i].getLen();
      for (long start = 0; start == 0 || start < size; start += most) {{
        lengths[at++] = Math.min(most, size - start);
      }}
    }}
    java.util.Arrays.sort(lengths);
    long[] costs = new long[count];
    int[] packed = new int[count];
    int task = 0;
    long filled = 0;
    for (int i = 0; i < count; i++) {{
      long length = lengths[count - 1 - i];
      if (i > 0 && filled + length > most) {{
        task++;
        filled = 0;
      }}
      filled += length + openCost;
      packed[i] = task;
      costs[i] = length + {FILE_COST_BYTES}L;
    }}
    return isLonger(costs, packed, spread(costs, task + 1), task + 1);
  }}

  // the same pieces of files in as many tasks; Spark has sorted them by size
  public {_SCALA}.Seq even({_SCALA}.Seq packed) {{
    int count = packed.size();
    if (count > {EVEN_PIECES_MAX}) return packed;
    java.util.ArrayList pieces = new java.util.ArrayList();
    java.util.ArrayList numbers = new java.util.ArrayList();
    for (int i = 0; i < count; i++) {{
      PartitionedFile[] some = ((FilePartition) packed.apply(i)).files();
      for (int j = 0; j < some.length; j++) {{
        pieces.add(some[j]);
        numbers.add(Integer.valueOf(i));
      }}
    }}
    long[] costs = new long[pieces.size()];
    int[] tasks = new int[costs.length];
    for (int i = 0; i < costs.length; i++) {{
      costs[i] = ((PartitionedFile) pieces.get(i)).length() + {FILE_COST_BYTES}L;
      tasks[i] = ((Integer) numbers.get(i)).intValue();
    }}
    int[] even = spread(costs, count);
    if (!isLonger(costs, tasks, even, count)) return packed;
    Object[] made = new Object[count];
    for (int i = 0; i < count; i++) {{
      java.util.ArrayList own = new java.util.ArrayList();
      for (int j = 0; j < even.length; j++) {{ if (even[j] == i) own.add(pieces.get(j)); }}
      made[i] = new FilePartition(i, (PartitionedFile[]) own.toArray(new PartitionedFile[0]));
    }}
    return seq(made);
  }}

  private static int[] spread(long[] costs, int count) {{
    long[] loads = new long[count];
    int[] tasks = new int[costs.length];
    for (int i = 0; i < costs.length; i++) {{
      int least = 0;
      for (int k = 1; k < count; k++) {{ if (loads[k] < loads[least]) least = k; }}
      loads[least] += costs[i];
      tasks[i] = least;
    }}
    return tasks;
  }}

  private static boolean isLonger(long[] costs, int[] one, int[] other, int count) {{
    long least = longest(costs, other, count);
    return longest(costs, one, count) - least > least / {EVEN_SHARE};
  }}

  private static long longest(long[] costs, int[] tasks, int count) {{
    long[] loads = new long[count];
    long found = 0;
    for (int i = 0; i < costs.length; i++) {{
      loads[tasks[i]] += costs[i];
      found = Math.max(found, loads[tasks[i]]);
    }}
    return found;
  }}

  private static void insert(java.util.ArrayList parts, PartitionedFile part) {{
    int at = parts.size();
    while (at > 0 && ((PartitionedFile) parts.get(at - 1)).start() > part.start()) {{ at--; }}
    parts.add(at, part);
  }}

  private static {_SCALA}.Seq seq(Object[] values) {{
    return ({_SCALA}.Seq) {_SCALA}.ArraySeq$.MODULE$.unsafeWrapArray(values);
  }}
}}
"""
SCAN_PLAN = "TidelakeScanPlan"
"""The class that makes the plan of a scan, in the package :data:`PACKAGE`."""
_LOGICAL = "org.apache.spark.sql.catalyst.plans.logical"
_TYPES = "org.apache.spark.sql.types"
MASK = "TidelakeMask"
"""The class of the bits of a scan's masks, in the package :data:`PACKAGE`."""
_MASK_JAVA = f"""
package {PACKAGE};

import {_TYPES}.ArrayType;
import {_TYPES}.DataTypes;

public final class {MASK} extends {_EXPRESSIONS}.Literal {{
  private final {_EXPRESSIONS}.UnsafeArrayData words;

  public static {MASK} of(byte[] given) {{
    long[] words = new long[given.length / 8];
    java.nio.ByteBuffer.wrap(given).order(java.nio.ByteOrder.LITTLE_ENDIAN).asLongBuffer()
        .get(words);
    return new {MASK}({_EXPRESSIONS}.UnsafeArrayData.fromPrimitiveArray(words));
  }}

  private {MASK}({_EXPRESSIONS}.UnsafeArrayData words) {{
    super(words, new ArrayType(DataTypes.LongType, false));
    this.words = words;
  }}

  // Spark prints and hashes the expressions of a plan again and again
  public String toString() {{ return "mask[" + words.numElements() + "]"; }}
  public String sql() {{ return toString(); }}
  public int hashCode() {{ return words.numElements(); }}
  public boolean equals(Object other) {{
    if (this == other) return true;
    return other instanceof {MASK} && words.equals((({MASK}) other).words);
  }}

  // only the driver has this class
  protected Object writeReplace() {{
    return new {_EXPRESSIONS}.Literal(words, new ArrayType(DataTypes.LongType, false));
  }}
}}
"""
_PLAN_JAVA = f"""
package {PACKAGE};

import {_EXPRESSIONS}.Attribute;
import {_EXPRESSIONS}.Expression;
import {_EXPRESSIONS}.Literal$;
import {_LOGICAL}.LogicalPlan;
import {_TYPES}.DataTypes;
import {_TYPES}.StructType;

public final class {SCAN_PLAN} {{
  private {SCAN_PLAN}() {{ }}

  public static {_CLASSIC}.Dataset of({_CLASSIC}.SparkSession session, String listed,
      String partitions, String partitionSchema, String schema, String options, String wanted,
      Object mask, boolean allHide, int bucketsCount, String bucketFunction, String bucketKey,
      String sortKeys, String table) throws java.io.IOException {{
    StructType partition = (StructType) {_TYPES}.DataType$.MODULE$.fromJson(partitionSchema);
    partition = partition.add("{FIRST_WORD}", DataTypes.IntegerType, false);
    {LISTED_FILES} files = new {LISTED_FILES}(listed, partitions, partition,
        conf(session, listed), bucketsCount, bucketFunction, bucketKey, sortKeys, table);
    HadoopFsRelation relation = new HadoopFsRelation(files, partition,
        (StructType) {_TYPES}.DataType$.MODULE$.fromJson(schema), scala.Option.empty(),
        new {PACKAGE}.parquet.ParquetFileFormat(), options(options), session);
    LogicalPlan plan = LogicalRelation$.MODULE$.apply(relation, false);
    if (mask != null) {{
      plan = new {_LOGICAL}.Filter(isShown(plan, (Expression) mask, allHide), plan);
    }}
    String[] names = wanted.split("\\n");
    Object[] columns = new Object[names.length];
    for (int i = 0; i < names.length; i++) columns[i] = named(plan, names[i]);
    plan = new {_LOGICAL}.Project(seq(columns), plan);
    return {_CLASSIC}.Dataset$.MODULE$.ofRows(session, plan);
  }}

  private static org.apache.hadoop.conf.Configuration conf(
      {_CLASSIC}.SparkSession session, String listed) {{
    // the first file's path is the last of five parts; a copy of all settings costs milliseconds
    boolean isLocal = listed.split(":", 5)[4].startsWith("/");
    return isLocal ? session.sparkContext().hadoopConfiguration()
        : session.sessionState().newHadoopConf();
  }}

  private static {_SCALA}.Map options(String given) {{
    {_SCALA}.Map made = {_SCALA}.Map$.MODULE$.empty();
    String[] parts = given.split("\\n");
    for (int i = 0; i < parts.length; i += 2) {{
      made = ({_SCALA}.Map) made.updated(parts[i], parts[i + 1]);
    }}
    return made;
  }}

  private static Expression isShown(LogicalPlan plan, Expression mask, boolean allHide) {{
    Expression position = named(plan, "{ROW_INDEX}");
    Expression first = named(plan, "{FIRST_WORD}");
    Expression number =
        new {_EXPRESSIONS}.ShiftRight(position, literal(Integer.valueOf({WORD_SHIFT})));
    Expression word = new {_EXPRESSIONS}.GetArrayItem(
        mask, new {_EXPRESSIONS}.Add(first, toInt(number)), false);
    Expression bit = toInt(
        new {_EXPRESSIONS}.BitwiseAnd(position, literal(Long.valueOf({WORD_BITS - 1}))));
    Expression isSet = new {_EXPRESSIONS}.BitwiseAnd(
        new {_EXPRESSIONS}.ShiftRight(word, bit), literal(Long.valueOf(1)));
    Expression shown = new {_EXPRESSIONS}.EqualTo(isSet, literal(Long.valueOf(0)));
    if (allHide) return shown;
    Expression plain = new {_EXPRESSIONS}.LessThan(first, literal(Integer.valueOf(0)));
    return new {_EXPRESSIONS}.Or(plain, shown);
  }}

  private static Expression literal(Object value) {{ return Literal$.MODULE$.apply(value); }}

  private static Expression toInt(Expression value) {{
    return {_EXPRESSIONS}.Cast$.MODULE$.apply(value, DataTypes.IntegerType, false);
  }}

  private static Attribute named(LogicalPlan plan, String name) {{
    {_SCALA}.Seq columns = plan.output();
    for (int i = 0; i < columns.size(); i++) {{
      if (((Attribute) columns.apply(i)).name().equals(name)) return (Attribute) columns.apply(i);
    }}
    throw new IllegalArgumentException(name);
  }}

  private static {_SCALA}.Seq seq(Object[] values) {{
    return {_SCALA}.ArraySeq$.MODULE$.unsafeWrapArray(values);
  }}
}}
"""


def define_listed_files(spark: SparkSession) -> None:
    """Define the classes in the session's JVM.

    Raises
    ------
    Py4JError, TypeError
        This Spark has other private classes.
    """
    defined_class(spark, LISTED_FILES, _JAVA)
    defined_class(spark, MASK, _MASK_JAVA)
    defined_class(spark, SCAN_PLAN, _PLAN_JAVA)
