package org.apache.spark.sql.execution.datasources;

import org.apache.spark.api.java.function.VoidFunction;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.v2.V2CommandExec;
import scala.collection.Iterator;
import scala.collection.immutable.ArraySeq$;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;

/**
 * A DELETE, UPDATE or MERGE that the table itself carries out, on the driver.
 *
 * See tidelake.spark.catalog.row_changes.
 */
public final class TidelakeChangeCommand extends V2CommandExec {
  private final LogicalPlan planned;
  private final Table table;

  public TidelakeChangeCommand(LogicalPlan planned, Table table) {
    this.planned = planned;
    this.table = table;
  }

  // V2CommandExec keeps what this gives: it is called once
  public Seq run() {
    TidelakeRowChange change =
        new TidelakeRowChange((SparkSession) session(), analyzed(), planned);
    try {
      ((VoidFunction) table).call(change);
    } catch (RuntimeException error) {
      throw error;
    } catch (Exception error) {
      throw new IllegalStateException(error);
    }
    return sequence(new Object[0]);
  }

  // the optimizer has moved subqueries by now: the analyzed statement can be resolved again
  private LogicalPlan analyzed() {
    String id = session().sparkContext().getLocalProperty(SQLExecution.EXECUTION_ID_KEY());
    QueryExecution execution =
        id == null ? null : SQLExecution.getQueryExecution(Long.parseLong(id));
    LogicalPlan found =
        execution == null ? null : TidelakeRowChange.find(execution.analyzed(), planned);
    if (found == null && execution != null && TidelakeRowChange.isOfView(execution.analyzed())) {
      throw new UnsupportedOperationException("DELETE, UPDATE and MERGE change a table, and the"
          + " target is a view or a query: name the table '" + table.name() + "'.");
    }
    if (found == null) {
      throw new UnsupportedOperationException(planned.nodeName() + " of table '" + table.name()
          + "' cannot run in this way: run it as a statement of its own, by spark.sql(...).");
    }
    return found;
  }

  public Seq output() { return sequence(new Object[0]); }
  public Seq children() { return sequence(new Object[0]); }
  public SparkPlan withNewChildrenInternal(IndexedSeq children) { return this; }
  public int productArity() { return 2; }
  public Object productElement(int number) { return number == 0 ? (Object) planned : table; }
  public boolean canEqual(Object other) { return other instanceof TidelakeChangeCommand; }
  public boolean equals(Object other) { return this == other; }
  public int hashCode() { return System.identityHashCode(this); }
  public Iterator stringArgs() { return sequence(new Object[0]).iterator(); }
  public String nodeName() { return "Tidelake" + planned.nodeName(); }
  public String simpleString(int fields) {
    return nodeName() + " " + TidelakeRowChange.shown(table.name(), planned);
  }

  private static Seq sequence(Object[] values) {
    return ArraySeq$.MODULE$.unsafeWrapArray(values);
  }
}
