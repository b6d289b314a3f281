"""Which scans are read bucket by bucket: those that a join or a group then needs no shuffle for.

1. A rule of the optimiser looks for joins of two tables on their bucket keys, and for groups by
   them. It follows each key down to the scan that it comes from. A side that Spark sends to all
   tasks is no reason, nor are fewer buckets than tasks run at once: a shuffle would use all cores.
   Where Spark may shuffle one side to the buckets of the other, it does nothing.
2. It marks the file indexes of these scans (``TidelakeListedFiles.byBucket``). The rows stay the
   same.
3. A strategy of the planner puts :mod:`tidelake.spark.catalog.scans.packed_scan` above the scans
   that are marked, and above those whose tasks would be uneven. Spark itself then sees that it
   need not shuffle what is read by bucket. Where it shuffles nevertheless, a mark was in vain,
   nothing more.

The rule is named in ``spark.sql.optimizer.excludedRules`` to turn this off, even tasks too.
"""

from __future__ import annotations

from tidelake.spark.catalog.gateway import Gateway
from tidelake.spark.catalog.scans.packed_scan import PACKED_SCAN, define_packed_scan
from tidelake.spark.catalog.streams.java_class import PACKAGE, defined_class
from tidelake.spark.read.listed_files import LISTED_FILES

_STRATEGY, _RULE = "TidelakeBucketStrategy", "TidelakeBucketedJoins"
BUCKETED_JOINS = f"{PACKAGE}.{_RULE}"
"""Its name, for ``spark.sql.optimizer.excludedRules``."""
ALL_KEYS = "spark.sql.requireAllClusterKeysForCoPartition"
"""Whether Spark shuffles a join on more columns than those that its sides are spread by."""
_CATALYST = "org.apache.spark.sql.catalyst"
_LOGICAL = f"{_CATALYST}.plans.logical"
_EXECUTION = "org.apache.spark.sql.execution"
_SEQ = "scala.collection.immutable.Seq"
_SEQUENCE = f"""
  private static {_SEQ} sequence(Object[] values) {{
    return scala.collection.immutable.ArraySeq$.MODULE$.unsafeWrapArray(values);
  }}
"""
_STRATEGY_JAVA = f"""
package {PACKAGE};

import {_LOGICAL}.LogicalPlan;
import {_EXECUTION}.FileSourceScanExec;
import {_EXECUTION}.SparkPlan;

public final class {_STRATEGY} extends {_EXECUTION}.SparkStrategy {{

  public static void install(org.apache.spark.sql.classic.SparkSession session) {{
    org.apache.spark.sql.ExperimentalMethods methods = session.experimental();
    {_SEQ} known = methods.extraStrategies();
    for (int i = 0; i < known.size(); i++) {{
      if (known.apply(i) instanceof {_STRATEGY}) return;
    }}
    methods.extraStrategies_$eq(({_SEQ}) known.appended(new {_STRATEGY}()));
  }}

  public {_SEQ} apply(LogicalPlan plan) {{
    if (!isPacked(plan)) return sequence(new Object[0]);
    {_SEQ} planned = FileSourceStrategy$.MODULE$.apply(plan);
    Object[] made = new Object[planned.size()];
    for (int i = 0; i < made.length; i++) made[i] = packed((SparkPlan) planned.apply(i));
    return sequence(made);
  }}

  private static boolean isPacked(LogicalPlan plan) {{
    while (plan instanceof {_LOGICAL}.Project || plan instanceof {_LOGICAL}.Filter) {{
      plan = (LogicalPlan) plan.children().apply(0);
    }}
    {LISTED_FILES} files = listed(plan);
    if (files == null) return false;
    if (files.isByBucket()) return true;
    String excluded = org.apache.spark.sql.internal.SQLConf.get()
        .getConfString("spark.sql.optimizer.excludedRules", "");
    if (excluded.contains("{_RULE}")) return false;
    HadoopFsRelation relation = (HadoopFsRelation) ((LogicalRelation) plan).productElement(0);
    return files.isUneven((org.apache.spark.sql.classic.SparkSession) relation.sparkSession());
  }}

  public static {LISTED_FILES} listed(LogicalPlan plan) {{
    if (!(plan instanceof LogicalRelation)) return null;
    Object relation = ((LogicalRelation) plan).productElement(0);
    if (!(relation instanceof HadoopFsRelation)) return null;
    FileIndex location = ((HadoopFsRelation) relation).location();
    return location instanceof {LISTED_FILES} ? ({LISTED_FILES}) location : null;
  }}

  private static SparkPlan packed(SparkPlan plan) {{
    if (plan instanceof FileSourceScanExec) {{
      FileIndex location =
          ((HadoopFsRelation) ((FileSourceScanExec) plan).productElement(0)).location();
      return new {PACKED_SCAN}(plan, (({LISTED_FILES}) location).isByBucket());
    }}
    Object[] made = new Object[plan.children().size()];
    for (int i = 0; i < made.length; i++) {{
      made[i] = packed((SparkPlan) plan.children().apply(i));
    }}
    return (SparkPlan) plan.withNewChildren(sequence(made));
  }}
{_SEQUENCE}
}}
"""
_RULE_JAVA = f"""
package {PACKAGE};

import {_CATALYST}.expressions.Alias;
import {_CATALYST}.expressions.Attribute;
import {_CATALYST}.expressions.NamedExpression;
import {_LOGICAL}.Aggregate;
import {_LOGICAL}.Filter;
import {_LOGICAL}.Join;
import {_LOGICAL}.LogicalPlan;
import {_LOGICAL}.Project;

public final class {_RULE} extends {_CATALYST}.rules.Rule {{

  public static void install(org.apache.spark.sql.classic.SparkSession session) {{
    org.apache.spark.sql.ExperimentalMethods methods = session.experimental();
    {_SEQ} rules = methods.extraOptimizations();
    for (int i = 0; i < rules.size(); i++) {{
      if (rules.apply(i) instanceof {_RULE}) return;
    }}
    methods.extraOptimizations_$eq(({_SEQ}) rules.appended(new {_RULE}()));
  }}

  public {_CATALYST}.trees.TreeNode apply({_CATALYST}.trees.TreeNode plan) {{
    if ({PACKED_SCAN}.areShuffledTo()) return plan;
    java.util.IdentityHashMap found = new java.util.IdentityHashMap();
    find((LogicalPlan) plan, found);
    return found.isEmpty() ? plan : marked((LogicalPlan) plan, found);
  }}

  private static void find(LogicalPlan plan, java.util.IdentityHashMap found) {{
    if (plan instanceof Join) {{
      ofJoin((Join) plan, found);
    }} else if (plan instanceof Aggregate) {{
      LogicalPlan below = (LogicalPlan) plan.children().apply(0);
      {_SEQ} groups = ((Aggregate) plan).groupingExpressions();
      LogicalPlan[] origins = originsOf(groups, below);
      for (int i = 0; i < origins.length; i++) {{
        if (isBucketKey(origins[i], groups.apply(i), below) && isLarge(origins[i])) {{
          found.put(origins[i], origins[i]);
        }}
      }}
    }}
    for (int i = 0; i < plan.children().size(); i++) {{
      find((LogicalPlan) plan.children().apply(i), found);
    }}
  }}

  private static void ofJoin(Join join, java.util.IdentityHashMap found) {{
    scala.Option keys = {_CATALYST}.planning.ExtractEquiJoinKeys$.MODULE$.unapply(join);
    if (keys.isEmpty()) return;
    LogicalPlan left = (LogicalPlan) join.children().apply(0);
    LogicalPlan right = (LogicalPlan) join.children().apply(1);
    if ((maySendRight(join) && !isLarge(right)) || (maySendLeft(join) && !isLarge(left))) return;
    {_SEQ} leftKeys = ({_SEQ}) ((scala.Product) keys.get()).productElement(1);
    {_SEQ} rightKeys = ({_SEQ}) ((scala.Product) keys.get()).productElement(2);
    if (leftKeys.size() > 1 && mustKeysBeAll()) return;
    LogicalPlan[] lefts = originsOf(leftKeys, left);
    LogicalPlan[] rights = originsOf(rightKeys, right);
    for (int i = 0; i < lefts.length; i++) {{
      if (!isBucketKey(lefts[i], leftKeys.apply(i), left)) continue;
      if (!isBucketKey(rights[i], rightKeys.apply(i), right)) continue;
      {LISTED_FILES} one = {_STRATEGY}.listed(lefts[i]);
      {LISTED_FILES} other = {_STRATEGY}.listed(rights[i]);
      if (one.bucketsCount() != other.bucketsCount()) continue;
      if (!one.bucketFunction().equals(other.bucketFunction())) continue;
      found.put(lefts[i], lefts[i]);
      found.put(rights[i], rights[i]);
    }}
  }}

  private static boolean mustKeysBeAll() {{
    return Boolean.parseBoolean(
        org.apache.spark.sql.internal.SQLConf.get().getConfString("{ALL_KEYS}", "true"));
  }}

  private static boolean maySendLeft(Join join) {{
    return join.joinType() instanceof {_CATALYST}.plans.InnerLike
        || join.joinType() instanceof {_CATALYST}.plans.RightOuter$;
  }}

  private static boolean maySendRight(Join join) {{
    return !(join.joinType() instanceof {_CATALYST}.plans.RightOuter$)
        && !(join.joinType() instanceof {_CATALYST}.plans.FullOuter$);
  }}

  private static boolean isLarge(LogicalPlan plan) {{
    scala.math.BigInt size = plan.stats().sizeInBytes();
    long most = org.apache.spark.sql.internal.SQLConf.get().autoBroadcastJoinThreshold();
    return size.bigInteger().compareTo(java.math.BigInteger.valueOf(most)) > 0;
  }}

  private static LogicalPlan[] originsOf({_SEQ} keys, LogicalPlan plan) {{
    LogicalPlan[] found = new LogicalPlan[keys.size()];
    for (int i = 0; i < found.length; i++) found[i] = (LogicalPlan) origin(keys.apply(i), plan)[0];
    return found;
  }}

  private static boolean isBucketKey(LogicalPlan scan, Object key, LogicalPlan plan) {{
    if (scan == null) return false;
    Attribute column = (Attribute) origin(key, plan)[1];
    return {_STRATEGY}.listed(scan).bucketKey().equals(column.name());
  }}

  private static Object[] origin(Object key, LogicalPlan plan) {{
    Object[] none = new Object[2];
    if (!(key instanceof Attribute)) return none;
    Attribute column = (Attribute) key;
    if (!plan.outputSet().contains(column)) return none;
    if (plan instanceof Filter) return origin(column, (LogicalPlan) plan.children().apply(0));
    if (plan instanceof Project) {{
      return through(((Project) plan).projectList(), column, plan);
    }}
    if (plan instanceof Aggregate) {{
      Object[] found = through(((Aggregate) plan).aggregateExpressions(), column, plan);
      return found;
    }}
    if (plan instanceof Join) {{
      LogicalPlan left = (LogicalPlan) plan.children().apply(0);
      LogicalPlan right = (LogicalPlan) plan.children().apply(1);
      return origin(column, left.outputSet().contains(column) ? left : right);
    }}
    if (isApart(plan)) return new Object[] {{plan, column}};
    return none;
  }}

  private static Object[] through({_SEQ} columns, Attribute wanted, LogicalPlan plan) {{
    LogicalPlan below = (LogicalPlan) plan.children().apply(0);
    for (int i = 0; i < columns.size(); i++) {{
      NamedExpression column = (NamedExpression) columns.apply(i);
      if (!column.exprId().equals(wanted.exprId())) continue;
      if (column instanceof Alias) {{
        return origin(((Alias) column).productElement(0), below);
      }}
      return origin(column, below);
    }}
    return new Object[2];
  }}

  private static boolean isApart(LogicalPlan plan) {{
    {LISTED_FILES} files = {_STRATEGY}.listed(plan);
    if (files == null || files.isByBucket() || files.bucketsCount() == 0) return false;
    HadoopFsRelation relation = (HadoopFsRelation) ((LogicalRelation) plan).productElement(0);
    int cores = relation.sparkSession().sparkContext().defaultParallelism();
    int tasks = org.apache.spark.sql.internal.SQLConf.get().numShufflePartitions();
    return files.bucketsCount() >= Math.min(cores, tasks);
  }}

  private static LogicalPlan marked(LogicalPlan plan, java.util.IdentityHashMap found) {{
    if (found.containsKey(plan)) {{
      LogicalRelation files = (LogicalRelation) plan;
      HadoopFsRelation relation = (HadoopFsRelation) files.productElement(0);
      HadoopFsRelation made = new HadoopFsRelation(
          {_STRATEGY}.listed(plan).byBucket(), relation.partitionSchema(), relation.dataSchema(),
          relation.bucketSpec(), relation.fileFormat(), relation.options(),
          relation.sparkSession());
      return files.copy(
          made, files.output(), files.catalogTable(), files.isStreaming(), files.stream());
    }}
    {_SEQ} children = plan.children();
    Object[] made = new Object[children.size()];
    boolean changed = false;
    for (int i = 0; i < made.length; i++) {{
      made[i] = marked((LogicalPlan) children.apply(i), found);
      changed |= made[i] != children.apply(i);
    }}
    if (!changed) return plan;
    LogicalPlan copy = (LogicalPlan) plan.withNewChildren(sequence(made));
    copy.copyTagsFrom(plan);
    return copy;
  }}
{_SEQUENCE}
}}
"""


def install_bucketed_joins(gateway: Gateway) -> None:
    """Add rule and strategy to the session, unless it has them.

    Requires: the class of :data:`tidelake.spark.read.listed_files.LISTED_FILES` is defined.

    Raises
    ------
    Py4JError, TypeError
        This Spark has other private classes.
    """
    define_packed_scan(gateway)
    defined_class(gateway, _STRATEGY, _STRATEGY_JAVA)
    defined_class(gateway, _RULE, _RULE_JAVA)
    gateway.java(f"{PACKAGE}.{_STRATEGY}").install(gateway.spark._jsparkSession)
    gateway.java(BUCKETED_JOINS).install(gateway.spark._jsparkSession)
