package org.apache.spark.sql.execution.datasources;

import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;

/**
 * Names the function that gives a key's bucket; Spark never calls it.
 *
 * See tidelake.spark.catalog.scans.scan_rule.
 */
public final class TidelakeBucketFunction
    implements BoundFunction {
  private final DataType keyType;
  private final String function;

  public TidelakeBucketFunction(DataType keyType, String function) {
    this.keyType = keyType;
    this.function = function;
  }
  public DataType[] inputTypes() { return new DataType[] {keyType}; }
  public DataType resultType() { return DataTypes.IntegerType; }
  public boolean isResultNullable() { return false; }
  public String name() { return "tidelake_bucket"; }
  public String canonicalName() { return "tidelake bucket, " + function; }
  public boolean equals(Object other) {
    if (!(other instanceof TidelakeBucketFunction)) return false;
    TidelakeBucketFunction that = (TidelakeBucketFunction) other;
    return function.equals(that.function) && keyType.equals(that.keyType);
  }
  public int hashCode() { return function.hashCode(); }
}
