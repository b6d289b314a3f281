package org.apache.spark.sql.execution.datasources;

import java.util.Arrays;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.expressions.Ascending$;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.NullsFirst$;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.expressions.TransformExpression;
import org.apache.spark.sql.catalyst.plans.physical.KeyGroupedPartitioning;  // Spark 4.0 to 4.1
import org.apache.spark.sql.catalyst.plans.physical.KeyedPartitioning;  // Spark 4.2 to 4.3
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.catalyst.plans.physical.UnknownPartitioning;
import org.apache.spark.sql.catalyst.util.InternalRowComparableWrapper;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataTypes;
import scala.Option;
import scala.Some;
import scala.collection.Iterator;
import scala.collection.immutable.ArraySeq$;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;

/**
 * A scan whose tasks are buckets, or even; of the driver alone.
 *
 * See tidelake.spark.catalog.scans.scan_rule.
 */
public final class TidelakePackedScan extends SparkPlan {
  /** By name: it names this class, and is defined later. */
  private static final String BUCKETED_JOINS =
      "org.apache.spark.sql.execution.datasources.TidelakeBucketedJoins";

  private final SparkPlan scan;
  private final boolean isByBucket;
  private final Seq scans;
  private transient SparkPlan reader;

  public TidelakePackedScan(SparkPlan scan, boolean isByBucket) {
    this.scan = scan;
    this.isByBucket = isByBucket;
    scans = sequence(new Object[] {scan});
  }

  public Seq children() { return scans; }
  public SparkPlan withNewChildrenInternal(IndexedSeq children) {
    return new TidelakePackedScan((SparkPlan) children.apply(0), isByBucket);
  }
  public Seq output() { return scan.output(); }
  public boolean supportsColumnar() { return scan.supportsColumnar(); }
  public Option vectorTypes() { return scan.vectorTypes(); }

  // Spark would compute our function for rows of its own, which it cannot
  public static boolean areShuffledTo() {
    return SQLConf.get().v2BucketingShuffleEnabled();
  }

  public Partitioning outputPartitioning() {
    TidelakeListedFiles listed = listed();
    if (listed == null || !isByBucket) return scan.outputPartitioning();
    int count = listed.bucketsCount();
    Attribute key = named(listed.bucketKey());
    if (key == null || areShuffledTo()) return new UnknownPartitioning(count);
    Seq types = sequence(new Object[] {DataTypes.IntegerType});
    Object[] numbers = new Object[count];
    for (int i = 0; i < count; i++) {
      GenericInternalRow number = new GenericInternalRow(new Object[] {Integer.valueOf(i)});
      numbers[i] = number;  // Spark 4.0 to 4.1
      numbers[i] = new InternalRowComparableWrapper(number, types);  // Spark 4.2 to 4.3
    }
    Expression bucket = new TransformExpression(
        new TidelakeBucketFunction(key.dataType(), listed.bucketFunction()),
        sequence(new Object[] {key}),
        new Some(Integer.valueOf(count)));  // Spark 4.0 to 4.1
        new Some(Integer.valueOf(count)), Option.empty());  // Spark 4.2 to 4.3
    Seq by = sequence(new Object[] {bucket});
    Seq keys = sequence(numbers);
    return new KeyGroupedPartitioning(by, count, keys, keys, false, false);  // Spark 4.0 to 4.1
    return new KeyedPartitioning(by, keys, true, false);  // Spark 4.2
    return new KeyedPartitioning(by, keys, true, false, false);  // Spark 4.3
  }
  public Seq outputOrdering() {
    TidelakeListedFiles listed = listed();
    if (!isByBucket) return scan.outputOrdering();
    String[] names = listed == null ? new String[0] : listed.sortKeys();
    Object[] order = new Object[names.length];
    int count = 0;
    while (count < names.length) {
      Attribute column = named(names[count]);
      if (column == null) break;
      order[count++] = new SortOrder(column,
          Ascending$.MODULE$, NullsFirst$.MODULE$,
          sequence(new Object[0]));
    }
    return sequence(Arrays.copyOf(order, count));
  }
  private Attribute named(String name) {
    Seq columns = scan.output();
    for (int i = 0; i < columns.size(); i++) {
      if (((Attribute) columns.apply(i)).name().equals(name)) return (Attribute) columns.apply(i);
    }
    return null;
  }
  private TidelakeListedFiles listed() {
    if (!(scan instanceof FileSourceScanExec)) return null;
    FileIndex location =
        ((HadoopFsRelation) ((FileSourceScanExec) scan).productElement(0)).location();
    return location instanceof TidelakeListedFiles ? (TidelakeListedFiles) location : null;
  }

  private synchronized SparkPlan reader() {
    if (reader == null) {
      if (listed() == null && !isByBucket) return scan;
      if (listed() == null) {
        throw new IllegalStateException("Something replaced Spark's scan of a Tidelake table by "
            + scan.getClass().getName() + ", which does not read bucket by bucket: set"
            + " spark.sql.optimizer.excludedRules to " + BUCKETED_JOINS);
      }
      reader = new TidelakePackedReader((FileSourceScanExec) scan);
    }
    return reader;
  }
  public RDD doExecute() { return reader().execute(); }
  public RDD doExecuteColumnar() { return reader().executeColumnar(); }

  // generated code holds plans, and so tasks get them: they know Spark's scan alone
  // (Janino gives private methods another name)
  protected Object writeReplace() { return scan; }

  public int productArity() { return 2; }
  public Object productElement(int number) {
    return number == 0 ? (Object) scan : Boolean.valueOf(isByBucket);
  }
  public boolean canEqual(Object other) { return other instanceof TidelakePackedScan; }
  public boolean equals(Object other) {
    return other instanceof TidelakePackedScan && scan.equals(((TidelakePackedScan) other).scan)
        && isByBucket == ((TidelakePackedScan) other).isByBucket;
  }
  public int hashCode() { return 31 + scan.hashCode(); }
  public Iterator stringArgs() {
    return sequence(new Object[] {scan}).iterator();
  }
  public String nodeName() { return isByBucket ? "Buckets" : "EvenTasks"; }
  public String simpleString(int fields) {
    TidelakeListedFiles listed = listed();
    if (listed == null || !isByBucket) return nodeName();
    return nodeName() + " " + listed.bucketsCount() + " by " + listed.bucketKey();
  }

  private static Seq sequence(Object[] values) {
    return ArraySeq$.MODULE$.unsafeWrapArray(values);
  }

}
