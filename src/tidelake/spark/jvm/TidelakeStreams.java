package org.apache.spark.sql.execution.datasources;

import java.util.function.BiFunction;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.execution.streaming.Sink;
import org.apache.spark.sql.execution.streaming.Source;
import org.apache.spark.sql.sources.StreamSinkProvider;
import org.apache.spark.sql.sources.StreamSourceProvider;
import org.apache.spark.sql.streaming.OutputMode;
import scala.Option;
import scala.Tuple2;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;

/**
 * Passes Spark's requests for sources and sinks of streams to a Python object.
 *
 * See tidelake.spark.streams.connector.provider.
 */
public final class TidelakeStreams implements
    StreamSourceProvider,
    StreamSinkProvider {

  public static volatile BiFunction opener;

  private static Object open(String what, Object[] given) { return opener.apply(what, given); }

  public Tuple2 sourceSchema(SQLContext context, Option schema,
      String name, Map options) {
    return new Tuple2("tidelake",
        open("schema", new Object[] { context, null, schema, options }));
  }
  public Source createSource(
      SQLContext context, String path, Option schema, String name,
      Map options) {
    return (Source)
        open("source", new Object[] { context, path, schema, options });
  }
  public Sink createSink(
      SQLContext context, Map options,
      Seq partitions,
      OutputMode mode) {
    return (Sink)
        open("sink", new Object[] { context, mode, partitions, options });
  }
}
