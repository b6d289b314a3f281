package org.apache.spark.sql.execution.datasources;

import java.lang.reflect.Proxy;
import org.apache.spark.api.java.function.VoidFunction;
import org.apache.spark.sql.ExperimentalMethods;
import org.apache.spark.sql.catalyst.plans.logical.AddCheckConstraint; // Spark 4.1 to 4.3
import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTable;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import scala.collection.immutable.ArraySeq$;
import scala.collection.immutable.Seq;

/**
 * Plans DELETE, UPDATE and MERGE of our tables, before Spark refuses them.
 *
 * See tidelake.spark.catalog.row_changes.
 */
public final class TidelakeChangeStrategy extends SparkStrategy {

  public static void install(SparkSession session) {
    ExperimentalMethods methods = session.experimental();
    Seq known = methods.extraStrategies();
    for (int i = 0; i < known.size(); i++) {
      if (known.apply(i) instanceof TidelakeChangeStrategy) return;
    }
    methods.extraStrategies_$eq((Seq) known.appended(new TidelakeChangeStrategy()));
  }

  public Seq apply(LogicalPlan plan) {
    if (plan instanceof AddCheckConstraint // Spark 4.1 to 4.3
        && relationOf(((AddCheckConstraint) plan).child()) == null) { // Spark 4.1 to 4.3
      throw new UnsupportedOperationException( // Spark 4.1 to 4.3
          "Spark cannot check the rows of this table by itself: run ALTER TABLE" // Spark 4.1 to 4.3
          + " ... ADD CONSTRAINT, the same statement, with tl.sql."); // Spark 4.1 to 4.3
    } // Spark 4.1 to 4.3
    LogicalPlan target = TidelakeRowChange.targetOf(plan);
    if (target == null) return sequence(new Object[0]);
    DataSourceV2Relation relation = relationOf(target);
    if (relation == null) {
      if (plan instanceof DeleteFromTable && isOfRows(target)) {  // Spark would fail with a stack
        throw new UnsupportedOperationException(
            "DELETE changes a table, and its target is a view or a query: name the table.");
      }
      return sequence(new Object[0]);
    }
    Table table = relation.table();
    if (!(table instanceof VoidFunction) || !Proxy.isProxyClass(table.getClass())) {
      return sequence(new Object[0]);
    }
    return sequence(new Object[] {new TidelakeChangeCommand(plan, table)});
  }

  private static DataSourceV2Relation relationOf(LogicalPlan target) {
    if (target instanceof DataSourceV2ScanRelation) {
      return (DataSourceV2Relation) ((DataSourceV2ScanRelation) target).relation();
    }
    return target instanceof DataSourceV2Relation ? (DataSourceV2Relation) target : null;
  }

  private static boolean isOfRows(LogicalPlan target) {
    return target.getClass().getName().startsWith("org.apache.spark.sql.catalyst.plans.logical.");
  }

  private static Seq sequence(Object[] values) {
    return ArraySeq$.MODULE$.unsafeWrapArray(values);
  }
}
