package org.apache.spark.sql.execution.datasources;

import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.sources.TableScan;
import org.apache.spark.sql.types.StructType;

/**
 * Gives the rows of an RDD by Spark's older data source interface.
 *
 * See tidelake.spark.catalog.scans.frame_scan.
 */
public final class TidelakeFrameRelation extends BaseRelation implements TableScan {
  private final SQLContext context;
  private final StructType schema;
  private final RDD rows;
  private final String shown;

  public TidelakeFrameRelation(
      SQLContext context, StructType schema, RDD rows, String shown) {
    this.context = context;
    this.schema = schema;
    this.rows = rows;
    this.shown = shown;
  }

  public SQLContext sqlContext() { return context; }
  public StructType schema() { return schema; }
  public RDD buildScan() { return rows; }
  public boolean needConversion() { return false; }
  public String toString() { return shown; }
}
