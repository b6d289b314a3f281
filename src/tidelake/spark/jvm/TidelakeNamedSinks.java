package org.apache.spark.sql.execution.datasources;

import java.lang.reflect.Field;
import java.lang.reflect.Proxy;
import java.util.function.BiFunction;
import org.apache.spark.sql.catalyst.analysis.Analyzer;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.streaming.WriteToStreamStatement;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.V2TableWithV1Fallback;
import scala.Option;
import scala.Some;
import scala.collection.immutable.Seq;

/**
 * Gives a stream into one of our tables our sink, before Spark starts it.
 *
 * See tidelake.spark.streams.connector.named_sinks.
 */
public final class TidelakeNamedSinks extends Rule {
  private static final String RULES = "extendedResolutionRules";
  private static final String CHECKS = "ResolveWriteToStream";

  private final Seq others;

  private TidelakeNamedSinks(Seq others) { this.others = others; }

  public static void install(SparkSession session) throws IllegalAccessException {
    Analyzer analyzer = session.sessionState().analyzer();
    Seq known = analyzer.extendedResolutionRules();
    for (int i = 0; i < known.size(); i++) {
      if (known.apply(i) instanceof TidelakeNamedSinks) return;
    }
    Seq rules = (Seq) known.prepended(new TidelakeNamedSinks(known));
    for (Class kind = analyzer.getClass(); kind != null; kind = kind.getSuperclass()) {
      Field[] fields = kind.getDeclaredFields();
      for (int i = 0; i < fields.length; i++) {
        if (!fields[i].getName().equals(RULES)) continue;
        fields[i].setAccessible(true);
        fields[i].set(analyzer, rules);
        if (analyzer.extendedResolutionRules() == rules) return;
        fields[i].set(analyzer, known);  // of a class below, whose own field counts
      }
    }
    throw new IllegalStateException("the analyzer keeps its rules elsewhere");
  }

  public TreeNode apply(TreeNode plan) {
    if (!(plan instanceof WriteToStreamStatement)) return plan;
    WriteToStreamStatement given = (WriteToStreamStatement) plan;
    Object table = given.sink();
    if (!(table instanceof BiFunction) || !Proxy.isProxyClass(table.getClass())) return plan;
    boolean isContinuous = given.isContinuousTrigger(); // Spark 4.0
    String trigger = given.trigger().getClass().getSimpleName(); // Spark 4.1 to 4.3
    boolean isContinuous = trigger.equals("ContinuousTrigger"); // Spark 4.1 to 4.3
    Object sink = ((BiFunction) table).apply(given, Boolean.valueOf(isContinuous));
    Option shown = new Some(((V2TableWithV1Fallback) table).v1Table());
    Object[] parts = new Object[given.productArity()];
    for (int i = 0; i < parts.length; i++) {
      Object part = given.productElement(i);
      String name = given.productElementName(i);
      parts[i] = part == table ? sink : name.equals("catalogTable") ? shown : part;
    }
    try {
      return checked((TreeNode) given.makeCopy(parts));
    } catch (Throwable error) {
      ((BiFunction) table).apply(null, Boolean.FALSE);
      throw error;
    }
  }

  /** Spark's own checks, of the output mode and the checkpoint. */
  private TreeNode checked(TreeNode plan) {
    for (int i = 0; i < others.size(); i++) {
      Rule rule = (Rule) others.apply(i);
      if (rule.ruleName().endsWith(CHECKS)) return rule.apply(plan);
    }
    return plan;
  }
}
