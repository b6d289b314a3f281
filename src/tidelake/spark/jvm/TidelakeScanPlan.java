package org.apache.spark.sql.execution.datasources;

import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.catalyst.expressions.Add;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BitwiseAnd;
import org.apache.spark.sql.catalyst.expressions.Cast$;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetArrayItem;
import org.apache.spark.sql.catalyst.expressions.LessThan;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.expressions.ShiftRight;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.Dataset$;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.types.DataType$;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.ArraySeq$;
import scala.collection.immutable.Map;
import scala.collection.immutable.Map$;
import scala.collection.immutable.Seq;

/**
 * Makes the plan of a scan in one call.
 *
 * See tidelake.spark.read.listed_files.
 */
public final class TidelakeScanPlan {
  private static final String FIRST_WORD = "_first_word";
  private static final String ROW_INDEX = "_tmp_metadata_row_index";
  private static final int WORD_BITS = 64;
  private static final int WORD_SHIFT = 6;

  private TidelakeScanPlan() { }

  public static Dataset of(SparkSession session, String listed,
      String partitions, String partitionSchema, String schema, String options, String wanted,
      Object mask, boolean allHide, int bucketsCount, String bucketFunction, String bucketKey,
      String sortKeys, String table) throws IOException {
    StructType partition = (StructType) DataType$.MODULE$.fromJson(partitionSchema);
    partition = partition.add(FIRST_WORD, DataTypes.IntegerType, false);
    TidelakeListedFiles files = new TidelakeListedFiles(listed, partitions, partition,
        conf(session, listed), bucketsCount, bucketFunction, bucketKey, sortKeys, table);
    HadoopFsRelation relation = new HadoopFsRelation(files, partition,
        (StructType) DataType$.MODULE$.fromJson(schema), Option.empty(),
        new ParquetFileFormat(), options(options), session);
    LogicalPlan plan = LogicalRelation$.MODULE$.apply(relation, false);
    if (mask != null) {
      plan = new Filter(isShown(plan, (Expression) mask, allHide), plan);
    }
    String[] names = wanted.split("\n");
    Object[] columns = new Object[names.length];
    for (int i = 0; i < names.length; i++) columns[i] = named(plan, names[i]);
    plan = new Project(seq(columns), plan);
    return Dataset$.MODULE$.ofRows(session, plan);
  }

  private static Configuration conf(
      SparkSession session, String listed) {
    // the first file's path is the last of five parts; a copy of all settings costs milliseconds
    boolean isLocal = listed.split(":", 5)[4].startsWith("/");
    return isLocal ? session.sparkContext().hadoopConfiguration()
        : session.sessionState().newHadoopConf();
  }

  private static Map options(String given) {
    Map made = Map$.MODULE$.empty();
    String[] parts = given.split("\n");
    for (int i = 0; i < parts.length; i += 2) {
      made = (Map) made.updated(parts[i], parts[i + 1]);
    }
    return made;
  }

  private static Expression isShown(LogicalPlan plan, Expression mask, boolean allHide) {
    Expression position = named(plan, ROW_INDEX);
    Expression first = named(plan, FIRST_WORD);
    Expression number =
        new ShiftRight(position, literal(Integer.valueOf(WORD_SHIFT)));
    Expression word = new GetArrayItem(
        mask, new Add(first, toInt(number)), false);
    Expression bit = toInt(
        new BitwiseAnd(position, literal(Long.valueOf(WORD_BITS - 1))));
    Expression isSet = new BitwiseAnd(
        new ShiftRight(word, bit), literal(Long.valueOf(1)));
    Expression shown = new EqualTo(isSet, literal(Long.valueOf(0)));
    if (allHide) return shown;
    Expression plain = new LessThan(first, literal(Integer.valueOf(0)));
    return new Or(plain, shown);
  }

  private static Expression literal(Object value) { return Literal$.MODULE$.apply(value); }

  private static Expression toInt(Expression value) {
    return Cast$.MODULE$.apply(value, DataTypes.IntegerType, false);
  }

  private static Attribute named(LogicalPlan plan, String name) {
    Seq columns = plan.output();
    for (int i = 0; i < columns.size(); i++) {
      if (((Attribute) columns.apply(i)).name().equals(name)) return (Attribute) columns.apply(i);
    }
    throw new IllegalArgumentException(name);
  }

  private static Seq seq(Object[] values) {
    return ArraySeq$.MODULE$.unsafeWrapArray(values);
  }
}
