package org.apache.spark.sql.execution.datasources;

import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.DataType;

/**
 * A column beyond those of SELECT *.
 *
 * See tidelake.spark.catalog.metadata_columns.
 */
public final class TidelakeMetadataColumn implements MetadataColumn {
  private final String name;
  private final DataType dataType;

  public TidelakeMetadataColumn(String name, DataType dataType) {
    this.name = name;
    this.dataType = dataType;
  }

  public String name() { return name; }
  public DataType dataType() { return dataType; }
  public boolean isNullable() { return true; }
  public String comment() { return null; }
  public Transform transform() { return null; }
  public String metadataInJSON() { return null; }
}
