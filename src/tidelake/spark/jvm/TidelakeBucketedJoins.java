package org.apache.spark.sql.execution.datasources;

import java.math.BigInteger;
import java.util.IdentityHashMap;
import org.apache.spark.sql.ExperimentalMethods;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys$;
import org.apache.spark.sql.catalyst.plans.FullOuter$;
import org.apache.spark.sql.catalyst.plans.InnerLike;
import org.apache.spark.sql.catalyst.plans.RightOuter$;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.internal.SQLConf;
import scala.Option;
import scala.Product;
import scala.collection.immutable.ArraySeq$;
import scala.collection.immutable.Seq;
import scala.math.BigInt;

/**
 * Marks the scans that a join or a group needs bucket by bucket.
 *
 * See tidelake.spark.catalog.scans.scan_rule.
 */
public final class TidelakeBucketedJoins extends Rule {
  /** Whether Spark shuffles a join on more columns than those that its sides are spread by. */
  private static final String ALL_KEYS = "spark.sql.requireAllClusterKeysForCoPartition";

  public static void install(SparkSession session) {
    ExperimentalMethods methods = session.experimental();
    Seq rules = methods.extraOptimizations();
    for (int i = 0; i < rules.size(); i++) {
      if (rules.apply(i) instanceof TidelakeBucketedJoins) return;
    }
    methods.extraOptimizations_$eq((Seq) rules.appended(new TidelakeBucketedJoins()));
  }

  public TreeNode apply(TreeNode plan) {
    if (TidelakePackedScan.areShuffledTo()) return plan;
    IdentityHashMap found = new IdentityHashMap();
    find((LogicalPlan) plan, found);
    return found.isEmpty() ? plan : marked((LogicalPlan) plan, found);
  }

  private static void find(LogicalPlan plan, IdentityHashMap found) {
    if (plan instanceof Join) {
      ofJoin((Join) plan, found);
    } else if (plan instanceof Aggregate) {
      LogicalPlan below = (LogicalPlan) plan.children().apply(0);
      Seq groups = ((Aggregate) plan).groupingExpressions();
      LogicalPlan[] origins = originsOf(groups, below);
      for (int i = 0; i < origins.length; i++) {
        if (isBucketKey(origins[i], groups.apply(i), below) && isLarge(origins[i])) {
          found.put(origins[i], origins[i]);
        }
      }
    }
    for (int i = 0; i < plan.children().size(); i++) {
      find((LogicalPlan) plan.children().apply(i), found);
    }
  }

  private static void ofJoin(Join join, IdentityHashMap found) {
    Option keys = ExtractEquiJoinKeys$.MODULE$.unapply(join);
    if (keys.isEmpty()) return;
    LogicalPlan left = (LogicalPlan) join.children().apply(0);
    LogicalPlan right = (LogicalPlan) join.children().apply(1);
    if ((maySendRight(join) && !isLarge(right)) || (maySendLeft(join) && !isLarge(left))) return;
    Seq leftKeys = (Seq) ((Product) keys.get()).productElement(1);
    Seq rightKeys = (Seq) ((Product) keys.get()).productElement(2);
    if (leftKeys.size() > 1 && mustKeysBeAll()) return;
    LogicalPlan[] lefts = originsOf(leftKeys, left);
    LogicalPlan[] rights = originsOf(rightKeys, right);
    for (int i = 0; i < lefts.length; i++) {
      if (!isBucketKey(lefts[i], leftKeys.apply(i), left)) continue;
      if (!isBucketKey(rights[i], rightKeys.apply(i), right)) continue;
      TidelakeListedFiles one = TidelakeBucketStrategy.listed(lefts[i]);
      TidelakeListedFiles other = TidelakeBucketStrategy.listed(rights[i]);
      if (one.bucketsCount() != other.bucketsCount()) continue;
      if (!one.bucketFunction().equals(other.bucketFunction())) continue;
      found.put(lefts[i], lefts[i]);
      found.put(rights[i], rights[i]);
    }
  }

  private static boolean mustKeysBeAll() {
    return Boolean.parseBoolean(
        SQLConf.get().getConfString(ALL_KEYS, "true"));
  }

  private static boolean maySendLeft(Join join) {
    return join.joinType() instanceof InnerLike
        || join.joinType() instanceof RightOuter$;
  }

  private static boolean maySendRight(Join join) {
    return !(join.joinType() instanceof RightOuter$)
        && !(join.joinType() instanceof FullOuter$);
  }

  private static boolean isLarge(LogicalPlan plan) {
    BigInt size = plan.stats().sizeInBytes();
    long most = SQLConf.get().autoBroadcastJoinThreshold();
    return size.bigInteger().compareTo(BigInteger.valueOf(most)) > 0;
  }

  private static LogicalPlan[] originsOf(Seq keys, LogicalPlan plan) {
    LogicalPlan[] found = new LogicalPlan[keys.size()];
    for (int i = 0; i < found.length; i++) found[i] = (LogicalPlan) origin(keys.apply(i), plan)[0];
    return found;
  }

  private static boolean isBucketKey(LogicalPlan scan, Object key, LogicalPlan plan) {
    if (scan == null) return false;
    Attribute column = (Attribute) origin(key, plan)[1];
    return TidelakeBucketStrategy.listed(scan).bucketKey().equals(column.name());
  }

  private static Object[] origin(Object key, LogicalPlan plan) {
    Object[] none = new Object[2];
    if (!(key instanceof Attribute)) return none;
    Attribute column = (Attribute) key;
    if (!plan.outputSet().contains(column)) return none;
    if (plan instanceof Filter) return origin(column, (LogicalPlan) plan.children().apply(0));
    if (plan instanceof Project) {
      return through(((Project) plan).projectList(), column, plan);
    }
    if (plan instanceof Aggregate) {
      Object[] found = through(((Aggregate) plan).aggregateExpressions(), column, plan);
      return found;
    }
    if (plan instanceof Join) {
      LogicalPlan left = (LogicalPlan) plan.children().apply(0);
      LogicalPlan right = (LogicalPlan) plan.children().apply(1);
      return origin(column, left.outputSet().contains(column) ? left : right);
    }
    if (isApart(plan)) return new Object[] {plan, column};
    return none;
  }

  private static Object[] through(Seq columns, Attribute wanted, LogicalPlan plan) {
    LogicalPlan below = (LogicalPlan) plan.children().apply(0);
    for (int i = 0; i < columns.size(); i++) {
      NamedExpression column = (NamedExpression) columns.apply(i);
      if (!column.exprId().equals(wanted.exprId())) continue;
      if (column instanceof Alias) {
        return origin(((Alias) column).productElement(0), below);
      }
      return origin(column, below);
    }
    return new Object[2];
  }

  private static boolean isApart(LogicalPlan plan) {
    TidelakeListedFiles files = TidelakeBucketStrategy.listed(plan);
    if (files == null || files.isByBucket() || files.bucketsCount() == 0) return false;
    HadoopFsRelation relation = (HadoopFsRelation) ((LogicalRelation) plan).productElement(0);
    int cores = relation.sparkSession().sparkContext().defaultParallelism();
    int tasks = SQLConf.get().numShufflePartitions();
    return files.bucketsCount() >= Math.min(cores, tasks);
  }

  private static LogicalPlan marked(LogicalPlan plan, IdentityHashMap found) {
    if (found.containsKey(plan)) {
      LogicalRelation files = (LogicalRelation) plan;
      HadoopFsRelation relation = (HadoopFsRelation) files.productElement(0);
      HadoopFsRelation made = new HadoopFsRelation(
          TidelakeBucketStrategy.listed(plan).byBucket(), relation.partitionSchema(),
          relation.dataSchema(), relation.bucketSpec(), relation.fileFormat(), relation.options(),
          relation.sparkSession());
      return files.copy(
          made, files.output(), files.catalogTable(), files.isStreaming(), files.stream());
    }
    Seq children = plan.children();
    Object[] made = new Object[children.size()];
    boolean changed = false;
    for (int i = 0; i < made.length; i++) {
      made[i] = marked((LogicalPlan) children.apply(i), found);
      changed |= made[i] != children.apply(i);
    }
    if (!changed) return plan;
    LogicalPlan copy = (LogicalPlan) plan.withNewChildren(sequence(made));
    copy.copyTagsFrom(plan);
    return copy;
  }

  private static Seq sequence(Object[] values) {
    return ArraySeq$.MODULE$.unsafeWrapArray(values);
  }

}
