package org.apache.spark.sql.execution.datasources;

import org.apache.spark.sql.ExperimentalMethods;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.internal.SQLConf;
import scala.collection.immutable.ArraySeq$;
import scala.collection.immutable.Seq;

/**
 * Plans scans whose tasks we pack.
 *
 * See tidelake.spark.catalog.scans.scan_rule.
 */
public final class TidelakeBucketStrategy extends SparkStrategy {

  public static void install(SparkSession session) {
    ExperimentalMethods methods = session.experimental();
    Seq known = methods.extraStrategies();
    for (int i = 0; i < known.size(); i++) {
      if (known.apply(i) instanceof TidelakeBucketStrategy) return;
    }
    methods.extraStrategies_$eq((Seq) known.appended(new TidelakeBucketStrategy()));
  }

  public Seq apply(LogicalPlan plan) {
    if (!isPacked(plan)) return sequence(new Object[0]);
    Seq planned = FileSourceStrategy$.MODULE$.apply(plan);
    Object[] made = new Object[planned.size()];
    for (int i = 0; i < made.length; i++) made[i] = packed((SparkPlan) planned.apply(i));
    return sequence(made);
  }

  private static boolean isPacked(LogicalPlan plan) {
    while (plan instanceof Project || plan instanceof Filter) {
      plan = (LogicalPlan) plan.children().apply(0);
    }
    TidelakeListedFiles files = listed(plan);
    if (files == null) return false;
    if (files.isByBucket()) return true;
    String excluded = SQLConf.get()
        .getConfString("spark.sql.optimizer.excludedRules", "");
    if (excluded.contains("TidelakeBucketedJoins")) return false;
    HadoopFsRelation relation = (HadoopFsRelation) ((LogicalRelation) plan).productElement(0);
    return files.isUneven((SparkSession) relation.sparkSession());
  }

  public static TidelakeListedFiles listed(LogicalPlan plan) {
    if (!(plan instanceof LogicalRelation)) return null;
    Object relation = ((LogicalRelation) plan).productElement(0);
    if (!(relation instanceof HadoopFsRelation)) return null;
    FileIndex location = ((HadoopFsRelation) relation).location();
    return location instanceof TidelakeListedFiles ? (TidelakeListedFiles) location : null;
  }

  private static SparkPlan packed(SparkPlan plan) {
    if (plan instanceof FileSourceScanExec) {
      FileIndex location =
          ((HadoopFsRelation) ((FileSourceScanExec) plan).productElement(0)).location();
      return new TidelakePackedScan(plan, ((TidelakeListedFiles) location).isByBucket());
    }
    Object[] made = new Object[plan.children().size()];
    for (int i = 0; i < made.length; i++) {
      made[i] = packed((SparkPlan) plan.children().apply(i));
    }
    return (SparkPlan) plan.withNewChildren(sequence(made));
  }

  private static Seq sequence(Object[] values) {
    return ArraySeq$.MODULE$.unsafeWrapArray(values);
  }

}
