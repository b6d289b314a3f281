package org.apache.spark.sql.execution.datasources;

import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.Iterator;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.PythonUDF;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MapInArrow;
import org.apache.spark.sql.sources.BaseRelation;
import scala.collection.immutable.Seq;

/**
 * Whether Spark can still read what plans read.
 *
 * See tidelake.spark.jvm.held_frames.
 */
public final class TidelakeReads {
  private final ArrayList seen = new ArrayList();

  /** Look at a plan, too; copies of it share what is looked at. */
  public synchronized void add(LogicalPlan plan) {
    if (plan instanceof LogicalRelation) {
      BaseRelation relation = ((LogicalRelation) plan).relation();
      if (relation instanceof HadoopFsRelation) addFiles(((HadoopFsRelation) relation).location());
    }
    if (plan instanceof MapInArrow) {
      Expression function = ((MapInArrow) plan).functionExpr();
      if (function instanceof PythonUDF) seen.add(new WeakReference(((PythonUDF) function).func()));
    }
    Seq children = plan.children();
    for (int i = 0; i < children.size(); i++) { add((LogicalPlan) children.apply(i)); }
  }

  /** Look at the lookups of a plan by their functions; not at what else it reads. */
  public synchronized void addLookups(LogicalPlan plan) {
    Seq expressions = plan.expressions();
    for (int i = 0; i < expressions.size(); i++) { addLookup((Expression) expressions.apply(i)); }
    Seq children = plan.children();
    for (int i = 0; i < children.size(); i++) { addLookups((LogicalPlan) children.apply(i)); }
  }

  private void addLookup(Expression expression) {
    if (expression instanceof PythonUDF) {
      String name = ((PythonUDF) expression).name();
      if (name.startsWith("lookup of ") || name.startsWith("tidelake_lookup_")) {
        seen.add(new WeakReference(((PythonUDF) expression).func()));
      }
    }
    Seq children = expression.children();
    for (int i = 0; i < children.size(); i++) { addLookup((Expression) children.apply(i)); }
  }

  private void addFiles(FileIndex files) {
    seen.add(new WeakReference(files));
    if (files instanceof TidelakeListedFiles) {
      Object[] rows = ((TidelakeListedFiles) files).rowsOfPartitions();
      for (int i = 0; i < rows.length; i++) { seen.add(new WeakReference(rows[i])); }
    }
  }

  /** Whether any of it is still in the memory; what is not is forgotten. */
  public synchronized boolean areLeft() {
    Iterator each = seen.iterator();
    while (each.hasNext()) {
      if (((WeakReference) each.next()).get() != null) return true;
      each.remove();
    }
    return false;
  }
}
