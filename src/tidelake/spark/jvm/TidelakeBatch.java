package org.apache.spark.sql.execution.datasources;

import java.util.function.BiFunction;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.sources.PrunedFilteredScan;
import org.apache.spark.sql.types.StructType;

/**
 * The rows of a stream's batch, which Python plans once Spark knows what it needs of them.
 *
 * See tidelake.spark.streams.connector.relation.
 */
public final class TidelakeBatch extends BaseRelation
    implements PrunedFilteredScan {
  private final SparkSession session;
  private final StructType schema;
  private final BiFunction scan;
  private final String shown;

  private TidelakeBatch(SparkSession session,
      StructType schema, BiFunction scan,
      String shown) {
    this.session = session;
    this.schema = schema;
    this.scan = scan;
    this.shown = shown;
  }

  public static Dataset of(
      SparkSession session,
      StructType schema, BiFunction scan,
      String shown, boolean isStreaming) {
    return Dataset.ofRows(session, LogicalRelation$.MODULE$.apply(
        new TidelakeBatch(session, schema, scan, shown), isStreaming));
  }

  public SQLContext sqlContext() { return session.sqlContext(); }
  public StructType schema() { return schema; }
  public RDD buildScan(
      String[] columns, Filter[] filters) {
    return (RDD)
        scan.apply(String.join("\0", columns), filters.length == 0 ? null : filters);
  }
  public boolean needConversion() { return false; }
  public String toString() { return shown; }
}
