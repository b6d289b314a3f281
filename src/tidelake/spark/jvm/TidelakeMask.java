package org.apache.spark.sql.execution.datasources;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.UnsafeArrayData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataTypes;

/**
 * The bits of a scan's masks, as a literal that Spark neither prints nor hashes.
 *
 * See tidelake.spark.read.masked_scan.
 */
public final class TidelakeMask extends Literal {
  private final UnsafeArrayData words;

  public static TidelakeMask of(byte[] given) {
    long[] words = new long[given.length / 8];
    ByteBuffer.wrap(given).order(ByteOrder.LITTLE_ENDIAN).asLongBuffer()
        .get(words);
    return new TidelakeMask(UnsafeArrayData.fromPrimitiveArray(words));
  }

  private TidelakeMask(UnsafeArrayData words) {
    super(words, new ArrayType(DataTypes.LongType, false));
    this.words = words;
  }

  // Spark prints and hashes the expressions of a plan again and again
  public String toString() { return "mask[" + words.numElements() + "]"; }
  public String sql() { return toString(); }
  public int hashCode() { return words.numElements(); }
  public boolean equals(Object other) {
    if (this == other) return true;
    return other instanceof TidelakeMask && words.equals(((TidelakeMask) other).words);
  }

  // only the driver has this class
  protected Object writeReplace() {
    return new Literal(words, new ArrayType(DataTypes.LongType, false));
  }
}
