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

from tidelake.spark.catalog.gateway import Gateway
from tidelake.spark.catalog.streams.java_class import PACKAGE, defined_class
from tidelake.spark.read.listed_files import LISTED_FILES

_FUNCTION = "TidelakeBucketFunction"
_READER, PACKED_SCAN = "TidelakePackedReader", "TidelakePackedScan"
_CATALYST = "org.apache.spark.sql.catalyst"
_PHYSICAL = f"{_CATALYST}.plans.physical"
_EXECUTION = "org.apache.spark.sql.execution"
_SEQ = "scala.collection.immutable.Seq"
_SEQUENCE = f"""
  private static {_SEQ} sequence(Object[] values) {{
    return scala.collection.immutable.ArraySeq$.MODULE$.unsafeWrapArray(values);
  }}
"""
_FUNCTION_JAVA = f"""
package {PACKAGE};

import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;

public final class {_FUNCTION}
    implements org.apache.spark.sql.connector.catalog.functions.BoundFunction {{
  private final DataType keyType;
  private final String function;

  public {_FUNCTION}(DataType keyType, String function) {{
    this.keyType = keyType;
    this.function = function;
  }}
  public DataType[] inputTypes() {{ return new DataType[] {{keyType}}; }}
  public DataType resultType() {{ return DataTypes.IntegerType; }}
  public boolean isResultNullable() {{ return false; }}
  public String name() {{ return "tidelake_bucket"; }}
  public String canonicalName() {{ return "tidelake bucket, " + function; }}
  public boolean equals(Object other) {{
    return other instanceof {_FUNCTION} && function.equals((({_FUNCTION}) other).function)
        && keyType.equals((({_FUNCTION}) other).keyType);
  }}
  public int hashCode() {{ return function.hashCode(); }}
}}
"""
_READER_JAVA = f"""
package {PACKAGE};

import {_EXECUTION}.FileSourceScanExec;
import org.apache.spark.rdd.RDD;

public final class {_READER} extends FileSourceScanExec {{
  private final FileSourceScanExec scan;
  private final transient {LISTED_FILES} listed;
  private transient RDD rows;

  public {_READER}(FileSourceScanExec scan) {{
    super((HadoopFsRelation) scan.productElement(0), scan.stream(), scan.output(),
        scan.requiredSchema(), scan.partitionFilters(), scan.optionalBucketSet(),
        scan.optionalNumCoalescedBuckets(), scan.dataFilters(), scan.tableIdentifier(), true,
        false);
    this.scan = scan;
    listed = ({LISTED_FILES}) ((HadoopFsRelation) scan.productElement(0)).location();
  }}

  public scala.collection.immutable.Map metrics() {{ return scan.metrics(); }}
  public scala.collection.immutable.Map driverMetrics() {{ return scan.driverMetrics(); }}

  public synchronized RDD inputRDD() {{
    if (rows == null) {{
      FileScanRDD packed = (FileScanRDD) super.inputRDD();
      HadoopFsRelation relation = (HadoopFsRelation) productElement(0);
      {_SEQ} tasks = packed.filePartitions();
      rows = new FileScanRDD(relation.sparkSession(),
          packed.org$apache$spark$sql$execution$datasources$FileScanRDD$$readFunction,
          listed.isByBucket() ? listed.byBucket(tasks) : listed.even(tasks),
          packed.readSchema(), packed.metadataColumns(),
          packed.org$apache$spark$sql$execution$datasources$FileScanRDD$$metadataExtractors,
          new {_CATALYST}.FileSourceOptions(
              {_CATALYST}.util.CaseInsensitiveMap$.MODULE$.apply(relation.options())));
    }}
    return rows;
  }}

  // a task that reads row by row gets the plan with its code, and knows Spark's scan alone
  protected Object writeReplace() {{ return scan; }}
}}
"""
_SCAN_JAVA = f"""
package {PACKAGE};

import {_CATALYST}.expressions.Attribute;
import {_EXECUTION}.FileSourceScanExec;
import {_EXECUTION}.SparkPlan;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.types.DataTypes;

public final class {PACKED_SCAN} extends SparkPlan {{
  private final SparkPlan scan;
  private final boolean isByBucket;
  private final {_SEQ} scans;
  private transient SparkPlan reader;

  public {PACKED_SCAN}(SparkPlan scan, boolean isByBucket) {{
    this.scan = scan;
    this.isByBucket = isByBucket;
    scans = sequence(new Object[] {{scan}});
  }}

  public {_SEQ} children() {{ return scans; }}
  public {_CATALYST}.trees.TreeNode withNewChildrenInternal(
      scala.collection.immutable.IndexedSeq children) {{
    return new {PACKED_SCAN}((SparkPlan) children.apply(0), isByBucket);
  }}
  public {_SEQ} output() {{ return scan.output(); }}
  public boolean supportsColumnar() {{ return scan.supportsColumnar(); }}
  public scala.Option vectorTypes() {{ return scan.vectorTypes(); }}

  // Spark would compute our function for rows of its own, which it cannot
  public static boolean areShuffledTo() {{
    return org.apache.spark.sql.internal.SQLConf.get().v2BucketingShuffleEnabled();
  }}

  public {_PHYSICAL}.Partitioning outputPartitioning() {{
    {LISTED_FILES} listed = listed();
    if (listed == null || !isByBucket) return scan.outputPartitioning();
    int count = listed.bucketsCount();
    Attribute key = named(listed.bucketKey());
    if (key == null || areShuffledTo()) return new {_PHYSICAL}.UnknownPartitioning(count);
    {_SEQ} types = sequence(new Object[] {{DataTypes.IntegerType}});
    Object[] numbers = new Object[count];
    for (int i = 0; i < count; i++) {{
      Object[] number = new Object[] {{Integer.valueOf(i)}};
      numbers[i] = new {_CATALYST}.util.InternalRowComparableWrapper(
          new {_CATALYST}.expressions.GenericInternalRow(number), types);
    }}
    {_CATALYST}.expressions.Expression bucket = new {_CATALYST}.expressions.TransformExpression(
        new {_FUNCTION}(key.dataType(), listed.bucketFunction()), sequence(new Object[] {{key}}),
        new scala.Some(Integer.valueOf(count)), scala.Option.empty());
    return new {_PHYSICAL}.KeyedPartitioning(
        sequence(new Object[] {{bucket}}), sequence(numbers), true, false, false);
  }}
  public {_SEQ} outputOrdering() {{
    {LISTED_FILES} listed = listed();
    if (!isByBucket) return scan.outputOrdering();
    String[] names = listed == null ? new String[0] : listed.sortKeys();
    Object[] order = new Object[names.length];
    int count = 0;
    while (count < names.length) {{
      Attribute column = named(names[count]);
      if (column == null) break;
      order[count++] = new {_CATALYST}.expressions.SortOrder(column,
          {_CATALYST}.expressions.Ascending$.MODULE$, {_CATALYST}.expressions.NullsFirst$.MODULE$,
          sequence(new Object[0]));
    }}
    return sequence(java.util.Arrays.copyOf(order, count));
  }}
  private Attribute named(String name) {{
    {_SEQ} columns = scan.output();
    for (int i = 0; i < columns.size(); i++) {{
      if (((Attribute) columns.apply(i)).name().equals(name)) return (Attribute) columns.apply(i);
    }}
    return null;
  }}
  private {LISTED_FILES} listed() {{
    if (!(scan instanceof FileSourceScanExec)) return null;
    FileIndex location =
        ((HadoopFsRelation) ((FileSourceScanExec) scan).productElement(0)).location();
    return location instanceof {LISTED_FILES} ? ({LISTED_FILES}) location : null;
  }}

  private synchronized SparkPlan reader() {{
    if (reader == null) {{
      if (listed() == null && !isByBucket) return scan;
      if (listed() == null) {{
        throw new IllegalStateException("Something replaced Spark's scan of a Tidelake table by "
            + scan.getClass().getName() + ", which does not read bucket by bucket: set"
            + " spark.sql.optimizer.excludedRules to {PACKAGE}.TidelakeBucketedJoins");
      }}
      reader = new {_READER}((FileSourceScanExec) scan);
    }}
    return reader;
  }}
  public RDD doExecute() {{ return reader().execute(); }}
  public RDD doExecuteColumnar() {{ return reader().executeColumnar(); }}

  // generated code holds plans, and so tasks get them: they know Spark's scan alone
  // (Janino gives private methods another name)
  protected Object writeReplace() {{ return scan; }}

  public int productArity() {{ return 2; }}
  public Object productElement(int number) {{
    return number == 0 ? (Object) scan : Boolean.valueOf(isByBucket);
  }}
  public boolean canEqual(Object other) {{ return other instanceof {PACKED_SCAN}; }}
  public boolean equals(Object other) {{
    return other instanceof {PACKED_SCAN} && scan.equals((({PACKED_SCAN}) other).scan)
        && isByBucket == (({PACKED_SCAN}) other).isByBucket;
  }}
  public int hashCode() {{ return 31 + scan.hashCode(); }}
  public scala.collection.Iterator stringArgs() {{
    return sequence(new Object[] {{scan}}).iterator();
  }}
  public String nodeName() {{ return isByBucket ? "Buckets" : "EvenTasks"; }}
  public String simpleString(int fields) {{
    {LISTED_FILES} listed = listed();
    if (listed == null || !isByBucket) return nodeName();
    return nodeName() + " " + listed.bucketsCount() + " by " + listed.bucketKey();
  }}
{_SEQUENCE}
}}
"""


def define_packed_scan(gateway: Gateway) -> None:
    """Define the classes in the session's JVM; :data:`LISTED_FILES` is there already.

    Raises
    ------
    Py4JError
        This Spark has other private classes.
    """
    defined_class(gateway, _FUNCTION, _FUNCTION_JAVA)
    defined_class(gateway, _READER, _READER_JAVA)
    defined_class(gateway, PACKED_SCAN, _SCAN_JAVA)
