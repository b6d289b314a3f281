"""The rule that puts the plans of our scans into the plans of queries.

A catalog's scan may only give rows by Spark's connector interfaces, or as an RDD
(:mod:`tidelake.spark.catalog.scans.frame_relation`). Both end Spark's generated code, and each row
is copied twice. Our rows are a DataFrame, whose plan has Spark's own Parquet scans. So a rule of
Spark's optimiser replaces each of our scans by that plan:

1. Spark has pushed columns, filters and a limit into the scan by then: the rule runs last, among
   the session's own optimisations (``spark.experimental.extraOptimizations``). The optimiser of
   subqueries has it too, and so have clones of the session (streams, ``CACHE TABLE``).
2. The rule asks the scan for its plan (``java.util.function.Supplier``), and gives the plan's
   columns the ids of the scan's.
3. Data files are scanned under the name of the table, as EXPLAIN shows them.
4. ``count(*)`` over files that Spark reads whole is their known number of rows, in DataFrames of
   ``tl.table`` too.
5. Filters, columns and limits go on down into the plan, by rules of Spark's that have run before.
   So do the filters by which a join leaves out partitions.
6. A mask of replaced rows is looked at last, after the comparisons of the query: most rows that a
   query leaves out then cost no look into a mask. What may fail for a value (a cast, a division)
   stays behind the mask, because a replaced row must not fail.

7. A comparison with an old day or instant stays out of Spark's Parquet reader: on the way there
   Spark moves the value to the Julian calendar, and loses days
   (:mod:`tidelake.spark.catalog.java_filter`). ``KnownNullable`` around the column, which does
   nothing to its value, keeps it out.

A write of Spark's older interface plans its query a second time, from its analysed form. There the
first plan is left alone, because nobody runs it.

The rule is a Java class (:mod:`tidelake.spark.catalog.streams.java_class`). It uses private names
of Spark 4.3. Where they are others, the rule does not compile, and rows come as an RDD.
"""

from __future__ import annotations

import logging

from py4j.protocol import Py4JError

from tidelake.spark.catalog.gateway import Gateway
from tidelake.spark.catalog.scans.bucketed_joins import install_bucketed_joins
from tidelake.spark.catalog.streams.java_class import PACKAGE, defined_class
from tidelake.spark.expression.moment import EXACT_DAYS_FROM, EXACT_SECONDS_FROM
from tidelake.spark.read.listed_files import LISTED_FILES, ROW_INDEX
from tidelake.spark.read.masked_scan import takes_masks
from tidelake.spark.read.native_scan import ROWS_OPTION

_NAME = "TidelakeScans"
RULE = f"{PACKAGE}.{_NAME}"
"""Its name, for ``spark.sql.optimizer.excludedRules``."""

_WARNED_OF: set[str] = set()
"""Versions of Spark that do not take the rule."""
_CATALYST = "org.apache.spark.sql.catalyst"
_LOGICAL = f"{_CATALYST}.plans.logical"
_EXPRESSIONS = f"{_CATALYST}.expressions"
_AGGREGATE = f"{_EXPRESSIONS}.aggregate"
_OPTIMIZER = f"{_CATALYST}.optimizer"
_LATER_RULES = (
    f"{_OPTIMIZER}.PushPredicateThroughNonJoin",
    f"{_OPTIMIZER}.CombineFilters",
    f"{_OPTIMIZER}.LimitPushDown",
    f"{_OPTIMIZER}.ColumnPruning",
    f"{_OPTIMIZER}.CollapseProject",
    f"{_OPTIMIZER}.RemoveNoopOperators",
    f"{PACKAGE}.SchemaPruning",
)
_PUSH_DOWN = f"{_OPTIMIZER}.PushDownPredicates"
_SIMPLIFY = (f"{_OPTIMIZER}.BooleanSimplification", f"{_OPTIMIZER}.PruneFilters")
_DYNAMIC = "org.apache.spark.sql.execution.dynamicpruning"
PUSHES_MAX = 8
"""How often filters are pushed down at most; more joins than that stand on each other rarely."""
_NEVER_FAIL = (
    *("And", "Or", "Not", "IsNull", "IsNotNull", "In", "InSet", "EqualTo", "EqualNullSafe"),
    *("LessThan", "LessThanOrEqual", "GreaterThan", "GreaterThanOrEqual"),
    *("StartsWith", "EndsWith", "Contains", "AttributeReference", "Literal", "KnownNullable"),
)
"""Expressions that give a value for each row, whatever the session's settings."""


def _applied(*rules: str) -> str:
    return "\n".join(f"      made = {rule}$.MODULE$.apply(made);" for rule in rules)


_JAVA = f"""
package {PACKAGE};

import {_CATALYST}.catalog.CatalogTable;
import {_CATALYST}.expressions.Expression;
import {_LOGICAL}.LogicalPlan;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.datasources.v2.V1ScanWrapper;
import scala.collection.immutable.Seq;

public final class {_NAME} extends {_CATALYST}.rules.Rule {{
  private static final String NEVER_FAIL = " {" ".join(_NEVER_FAIL)} ";

  public static void install(org.apache.spark.sql.classic.SparkSession session) {{
    org.apache.spark.sql.ExperimentalMethods methods = session.experimental();
    Seq rules = methods.extraOptimizations();
    for (int i = 0; i < rules.size(); i++) {{
      if (rules.apply(i) instanceof {_NAME}) return;
    }}
    methods.extraOptimizations_$eq((Seq) rules.appended(new {_NAME}()));
  }}

  public {_CATALYST}.trees.TreeNode apply({_CATALYST}.trees.TreeNode plan) {{
    LogicalPlan given = (LogicalPlan) plan;
    LogicalPlan made = counted(replaced(given));
    if (made != given) {{
{_applied(*_LATER_RULES)}
      made = pruned(made);
    }}
    return withoutVain(withMasksLast(withoutOldTimes(made)));
  }}

  // Spark prunes before our scans are there. It copies the side that says which partitions are
  // wanted: what changes it later would keep Spark from reading it once.
  private static LogicalPlan pruned(LogicalPlan plan) {{
    LogicalPlan made = plan;
{_applied(_PUSH_DOWN, *_SIMPLIFY)}
    made = withMasksLast(made);
{_applied(f"{_DYNAMIC}.PartitionPruning")}
    for (int i = 0; i < {PUSHES_MAX}; i++) {{
      LogicalPlan before = made;
{_applied(_PUSH_DOWN)}
      if (made.fastEquals(before)) break;
    }}
{_applied(f"{_DYNAMIC}.CleanupDynamicPruningFilters", *_SIMPLIFY)}
    return made;
  }}

  // a union has such a filter above all of its scans, if one of them has the partition
  private static LogicalPlan withoutVain(LogicalPlan plan) {{
    Seq children = plan.children();
    Object[] made = new Object[children.size()];
    boolean changed = false;
    for (int i = 0; i < made.length; i++) {{
      made[i] = withoutVain((LogicalPlan) children.apply(i));
      changed |= made[i] != children.apply(i);
    }}
    LogicalPlan found = changed ? withChildren(plan, made) : plan;
    if (!(found instanceof {_LOGICAL}.Filter)) return found;
    LogicalPlan below = (LogicalPlan) found.children().apply(0);
    org.apache.spark.sql.types.StructType known = partitionOf(below);
    if (known == null) return found;
    java.util.ArrayList parts = new java.util.ArrayList();
    split((({_LOGICAL}.Filter) found).condition(), parts);
    Expression kept = null;
    boolean isVain = false;
    for (int i = 0; i < parts.size(); i++) {{
      Expression part = (Expression) parts.get(i);
      if (part instanceof {_EXPRESSIONS}.DynamicPruningSubquery
          && !isOf((({_EXPRESSIONS}.DynamicPruningSubquery) part).pruningKey(), known)) {{
        isVain = true;
      }} else {{
        kept = and(kept, part);
      }}
    }}
    if (!isVain) return found;
    if (kept == null) return below;
    LogicalPlan filtered = new {_LOGICAL}.Filter(kept, below);
    filtered.copyTagsFrom(found);
    return filtered;
  }}

  private static LogicalPlan withoutOldTimes(LogicalPlan plan) {{
    Seq children = plan.children();
    Object[] made = new Object[children.size()];
    boolean changed = false;
    for (int i = 0; i < made.length; i++) {{
      made[i] = withoutOldTimes((LogicalPlan) children.apply(i));
      changed |= made[i] != children.apply(i);
    }}
    LogicalPlan found = changed ? withChildren(plan, made) : plan;
    if (!(found instanceof {_LOGICAL}.Filter)) return found;
    LogicalPlan below = (LogicalPlan) found.children().apply(0);
    Expression condition = (({_LOGICAL}.Filter) found).condition();
    if (!hasOldTime(condition) || partitionOf(below) == null) return found;
    LogicalPlan filtered = new {_LOGICAL}.Filter(kept(condition), below);
    filtered.copyTagsFrom(found);
    return filtered;
  }}

  private static boolean hasOldTime(Expression condition) {{
    if (isOldTime(condition)) return true;
    if (condition instanceof {_EXPRESSIONS}.InSet) {{
      return hasOldTime(({_EXPRESSIONS}.InSet) condition);
    }}
    for (int i = 0; i < condition.children().size(); i++) {{
      if (hasOldTime((Expression) condition.children().apply(i))) return true;
    }}
    return false;
  }}

  private static boolean hasOldTime({_EXPRESSIONS}.InSet condition) {{
    scala.collection.Iterator values = condition.hset().iterator();
    while (values.hasNext()) {{
      if (isOldTime(condition.child().dataType(), values.next())) return true;
    }}
    return false;
  }}

  private static boolean isOldTime(Expression value) {{
    if (!(value instanceof {_EXPRESSIONS}.Literal)) return false;
    return isOldTime(value.dataType(), (({_EXPRESSIONS}.Literal) value).value());
  }}

  private static boolean isOldTime(org.apache.spark.sql.types.DataType type, Object value) {{
    if (value == null) return false;
    if (type instanceof org.apache.spark.sql.types.DateType) {{
      return ((Integer) value).intValue() < {EXACT_DAYS_FROM};
    }}
    return type instanceof org.apache.spark.sql.types.TimestampType
        && ((Long) value).longValue() < {EXACT_SECONDS_FROM}L * 1000000L;
  }}

  // columns beside an old time, on any side of any comparison
  private static Expression kept(Expression condition) {{
    Seq children = condition.children();
    boolean beside = condition instanceof {_EXPRESSIONS}.InSet
        && hasOldTime(({_EXPRESSIONS}.InSet) condition);
    for (int i = 0; i < children.size(); i++) beside |= isOldTime((Expression) children.apply(i));
    Object[] made = new Object[children.size()];
    boolean changed = false;
    for (int i = 0; i < made.length; i++) {{
      Expression child = (Expression) children.apply(i);
      boolean isValue = child instanceof {_EXPRESSIONS}.Literal
          || child instanceof {_EXPRESSIONS}.KnownNullable;
      made[i] = beside && !isValue ? new {_EXPRESSIONS}.KnownNullable(child) : kept(child);
      changed |= made[i] != child;
    }}
    return changed ? (Expression) condition.withNewChildren(sequence(made)) : condition;
  }}

  private static org.apache.spark.sql.types.StructType partitionOf(LogicalPlan plan) {{
    while (plan instanceof {_LOGICAL}.Filter) plan = (LogicalPlan) plan.children().apply(0);
    if (!(plan instanceof LogicalRelation)) return null;
    Object relation = ((LogicalRelation) plan).productElement(0);
    if (!(relation instanceof HadoopFsRelation)) return null;
    // by its name: a Spark that does not take the class may take this rule
    String listed = ((HadoopFsRelation) relation).location().getClass().getSimpleName();
    return listed.equals("{LISTED_FILES}") ? ((HadoopFsRelation) relation).partitionSchema() : null;
  }}

  private static boolean isOf(Expression key, org.apache.spark.sql.types.StructType known) {{
    if (key instanceof {_EXPRESSIONS}.Attribute) {{
      return known.getFieldIndex((({_EXPRESSIONS}.Attribute) key).name()).isDefined();
    }}
    for (int i = 0; i < key.children().size(); i++) {{
      if (!isOf((Expression) key.children().apply(i), known)) return false;
    }}
    return true;
  }}

  private static LogicalPlan withMasksLast(LogicalPlan plan) {{
    Seq children = plan.children();
    Object[] made = new Object[children.size()];
    boolean changed = false;
    for (int i = 0; i < made.length; i++) {{
      made[i] = withMasksLast((LogicalPlan) children.apply(i));
      changed |= made[i] != children.apply(i);
    }}
    LogicalPlan found = changed ? withChildren(plan, made) : plan;
    if (!(found instanceof {_LOGICAL}.Filter)) return found;
    {_LOGICAL}.Filter filter = ({_LOGICAL}.Filter) found;
    Expression condition = maskLast(filter.condition());
    if (condition == filter.condition()) return found;
    LogicalPlan below = (LogicalPlan) found.children().apply(0);
    LogicalPlan ordered = new {_LOGICAL}.Filter(condition, below);
    ordered.copyTagsFrom(found);
    return ordered;
  }}

  private static Expression maskLast(Expression condition) {{
    if (!isMask(condition)) return condition;
    java.util.ArrayList parts = new java.util.ArrayList();
    split(condition, parts);
    java.util.ArrayList later = new java.util.ArrayList();
    Expression made = null;
    boolean changed = false;
    for (int i = 0; i < parts.size(); i++) {{
      Expression part = (Expression) parts.get(i);
      if (later.isEmpty() && !isMask(part)) {{
        made = and(made, part);
      }} else if (isMask(part) || !neverFails(part)) {{
        later.add(part);
      }} else {{
        made = and(made, part);
        changed = true;
      }}
    }}
    if (!changed) return condition;
    for (int i = 0; i < later.size(); i++) made = and(made, (Expression) later.get(i));
    return made;
  }}

  private static void split(Expression condition, java.util.ArrayList parts) {{
    if (condition instanceof {_CATALYST}.expressions.And) {{
      split((Expression) condition.children().apply(0), parts);
      split((Expression) condition.children().apply(1), parts);
    }} else {{
      parts.add(condition);
    }}
  }}

  private static Expression and(Expression left, Expression right) {{
    return left == null ? right : new {_CATALYST}.expressions.And(left, right);
  }}

  private static boolean isMask(Expression condition) {{
    if (condition instanceof {_CATALYST}.expressions.Attribute) {{
      return ((({_CATALYST}.expressions.Attribute) condition).name()).equals("{ROW_INDEX}");
    }}
    for (int i = 0; i < condition.children().size(); i++) {{
      if (isMask((Expression) condition.children().apply(i))) return true;
    }}
    return false;
  }}

  private static boolean neverFails(Expression condition) {{
    if (NEVER_FAIL.indexOf(" " + condition.getClass().getSimpleName() + " ") < 0) return false;
    for (int i = 0; i < condition.children().size(); i++) {{
      if (!neverFails((Expression) condition.children().apply(i))) return false;
    }}
    return true;
  }}

  private static LogicalPlan replaced(LogicalPlan plan) {{
    if (plan instanceof DataSourceV2ScanRelation) return planOf((DataSourceV2ScanRelation) plan);
    if (isPlannedTwice(plan)) return plan;
    // its child is the table itself, not rows that are read
    if (plan instanceof {_LOGICAL}.DeleteFromTable) return plan;
    Seq children = plan.children();
    Object[] made = new Object[children.size()];
    boolean changed = false;
    for (int i = 0; i < made.length; i++) {{
      LogicalPlan child = (LogicalPlan) children.apply(i);
      made[i] = replaced(child);
      changed |= made[i] != child;
    }}
    return changed ? withChildren(plan, made) : plan;
  }}

  private static LogicalPlan counted(LogicalPlan plan) {{
    if (plan instanceof {_LOGICAL}.Aggregate) {{
      LogicalPlan known = knownCount(({_LOGICAL}.Aggregate) plan);
      if (known != null) return known;
    }}
    Seq children = plan.children();
    Object[] made = new Object[children.size()];
    boolean changed = false;
    for (int i = 0; i < made.length; i++) {{
      made[i] = counted((LogicalPlan) children.apply(i));
      changed |= made[i] != children.apply(i);
    }}
    return changed ? withChildren(plan, made) : plan;
  }}

  private static LogicalPlan knownCount({_LOGICAL}.Aggregate plan) {{
    if (!plan.groupingExpressions().isEmpty()) return null;
    Seq asked = plan.aggregateExpressions();
    Object[] made = new Object[asked.size()];
    for (int i = 0; i < made.length; i++) {{
      if (!(asked.apply(i) instanceof {_EXPRESSIONS}.Alias)) return null;
      {_EXPRESSIONS}.Alias named = ({_EXPRESSIONS}.Alias) asked.apply(i);
      if (!countsRows(named.child())) return null;
      made[i] = named;
    }}
    long rows = rowsOf(plan.child());
    if (made.length == 0 || rows < 0) return null;
    for (int i = 0; i < made.length; i++) {{
      {_EXPRESSIONS}.Alias named = ({_EXPRESSIONS}.Alias) made[i];
      made[i] = new {_EXPRESSIONS}.Alias(
          {_EXPRESSIONS}.Literal$.MODULE$.apply(Long.valueOf(rows)), named.name(), named.exprId(),
          named.qualifier(), named.explicitMetadata(), named.nonInheritableMetadataKeys());
    }}
    return new {_LOGICAL}.Project(sequence(made), new {_LOGICAL}.OneRowRelation());
  }}

  private static boolean countsRows({_EXPRESSIONS}.Expression expression) {{
    if (!(expression instanceof {_AGGREGATE}.AggregateExpression)) return false;
    {_AGGREGATE}.AggregateExpression asked = ({_AGGREGATE}.AggregateExpression) expression;
    if (asked.isDistinct() || asked.filter().isDefined()) return false;
    if (!(asked.aggregateFunction() instanceof {_AGGREGATE}.Count)) return false;
    Seq counted = (({_AGGREGATE}.Count) asked.aggregateFunction()).children();
    for (int i = 0; i < counted.size(); i++) {{
      if (!(counted.apply(i) instanceof {_EXPRESSIONS}.Literal)) return false;
      if ((({_EXPRESSIONS}.Literal) counted.apply(i)).value() == null) return false;
    }}
    return true;
  }}

  private static long rowsOf(LogicalPlan plan) {{
    if (plan instanceof {_LOGICAL}.Project) return rowsOf((({_LOGICAL}.Project) plan).child());
    if (plan instanceof {_LOGICAL}.Union) {{
      long total = 0;
      Seq parts = plan.children();
      for (int i = 0; i < parts.size(); i++) {{
        long rows = rowsOf((LogicalPlan) parts.apply(i));
        if (rows < 0) return -1;
        total += rows;
      }}
      return total;
    }}
    if (!(plan instanceof LogicalRelation)) return -1;
    if (!((((LogicalRelation) plan).relation()) instanceof HadoopFsRelation)) return -1;
    scala.Option known =
        ((HadoopFsRelation) ((LogicalRelation) plan).relation()).options().get("{ROWS_OPTION}");
    return known.isEmpty() ? -1 : Long.parseLong((String) known.get());
  }}

  private static LogicalPlan withChildren(LogicalPlan plan, Object[] children) {{
    LogicalPlan made = (LogicalPlan) plan.withNewChildren(sequence(children));
    made.copyTagsFrom(plan);
    return made;
  }}

  private static boolean isPlannedTwice(LogicalPlan plan) {{
    scala.Option write = scala.Option.empty();
    if (plan instanceof {_LOGICAL}.AppendData) {{
      write = (({_LOGICAL}.AppendData) plan).write();
    }} else if (plan instanceof {_LOGICAL}.OverwriteByExpression) {{
      write = (({_LOGICAL}.OverwriteByExpression) plan).write();
    }}
    return write.isDefined() && write.get() instanceof org.apache.spark.sql.connector.write.V1Write;
  }}

  private static LogicalPlan planOf(DataSourceV2ScanRelation relation) {{
    if (!(relation.scan() instanceof V1ScanWrapper)) return relation;
    Object scan = ((V1ScanWrapper) relation.scan()).v1Scan();
    if (!(scan instanceof java.util.function.Supplier)) return relation;
    if (!java.lang.reflect.Proxy.isProxyClass(scan.getClass())) return relation;
    Object rows = ((java.util.function.Supplier) scan).get();
    if (rows == null) return relation;  // they are an RDD already
    LogicalPlan columns = withIds(
        rowsOf((org.apache.spark.sql.execution.QueryExecution) rows), relation.output());
    return columns == null ? relation : withNames(columns, nameOf(relation.relation()));
  }}

  private static LogicalPlan rowsOf(org.apache.spark.sql.execution.QueryExecution rows) {{
    // there is nothing to optimise in scans of files alone
    return isOfScans(rows.analyzed()) ? rows.analyzed() : rows.optimizedPlan();
  }}

  private static boolean isOfScans(LogicalPlan plan) {{
    if (plan instanceof LogicalRelation) return true;
    if (plan instanceof {_LOGICAL}.Filter) {{
      Expression condition = (({_LOGICAL}.Filter) plan).condition();
      if (!isMask(condition) && !neverFails(condition)) return false;
    }} else if (plan instanceof {_LOGICAL}.Project) {{
      Seq columns = (({_LOGICAL}.Project) plan).projectList();
      for (int i = 0; i < columns.size(); i++) {{
        if (!(columns.apply(i) instanceof {_CATALYST}.expressions.Attribute)) return false;
      }}
    }} else if (!(plan instanceof {_LOGICAL}.Union)) {{
      return false;
    }}
    for (int i = 0; i < plan.children().size(); i++) {{
      if (!isOfScans((LogicalPlan) plan.children().apply(i))) return false;
    }}
    return true;
  }}

  private static LogicalPlan withIds(LogicalPlan rows, Seq wanted) {{
    Seq found = rows.output();
    if (found.size() != wanted.size()) return null;
    Object[] columns = new Object[wanted.size()];
    for (int i = 0; i < columns.length; i++) {{
      {_CATALYST}.expressions.Attribute from =
          ({_CATALYST}.expressions.Attribute) found.apply(i);
      {_CATALYST}.expressions.Attribute to = ({_CATALYST}.expressions.Attribute) wanted.apply(i);
      if (!{_CATALYST}.types.DataTypeUtils$.MODULE$.sameType(from.dataType(), to.dataType())) {{
        return null;
      }}
      columns[i] = new {_CATALYST}.expressions.Alias(from.withDataType(to.dataType()), to.name(),
          to.exprId(), to.qualifier(), new scala.Some(to.metadata()), sequence(new Object[0]));
    }}
    return new {_LOGICAL}.Project(sequence(columns), rows);
  }}

  private static LogicalPlan withNames(LogicalPlan plan, scala.Option name) {{
    if (plan instanceof LogicalRelation) {{
      LogicalRelation files = (LogicalRelation) plan;
      if (name.isEmpty() || files.catalogTable().isDefined()) return plan;
      if (!(files.relation() instanceof HadoopFsRelation)) return plan;
      return files.copy(
          files.relation(), files.output(), name, files.isStreaming(), files.stream());
    }}
    Seq children = plan.children();
    Object[] made = new Object[children.size()];
    boolean changed = false;
    for (int i = 0; i < made.length; i++) {{
      made[i] = withNames((LogicalPlan) children.apply(i), name);
      changed |= made[i] != children.apply(i);
    }}
    return changed ? withChildren(plan, made) : plan;
  }}

  private static scala.Option nameOf(DataSourceV2Relation relation) {{
    if (relation.identifier().isEmpty() || relation.catalog().isEmpty()) {{
      return scala.Option.empty();
    }}
    org.apache.spark.sql.connector.catalog.Identifier named =
        (org.apache.spark.sql.connector.catalog.Identifier) relation.identifier().get();
    org.apache.spark.sql.connector.catalog.CatalogPlugin catalog =
        (org.apache.spark.sql.connector.catalog.CatalogPlugin) relation.catalog().get();
    {_CATALYST}.TableIdentifier name = new {_CATALYST}.TableIdentifier(named.name(),
        new scala.Some(String.join(".", named.namespace())), new scala.Some(catalog.name()));
    {_CATALYST}.catalog.CatalogTable$ kind = {_CATALYST}.catalog.CatalogTable$.MODULE$;
    return new scala.Some(new CatalogTable(name,
        {_CATALYST}.catalog.CatalogTableType$.MODULE$.EXTERNAL(),
        {_CATALYST}.catalog.CatalogStorageFormat$.MODULE$.empty(), relation.schema(),
        scala.Option.empty(),
{{rest}}));
  }}

  private static Seq sequence(Object[] values) {{
    return scala.collection.immutable.ArraySeq$.MODULE$.unsafeWrapArray(values);
  }}
}}
""".replace("{rest}", ",\n".join(f"        kind.apply$default${part}()" for part in range(6, 23)))


def install_rule(gateway: Gateway) -> bool:
    """Add the rule to the session; give whether the session has it now."""
    try:
        defined_class(gateway, _NAME, _JAVA)
        gateway.java(RULE).install(gateway.spark._jsparkSession)
    except (Py4JError, TypeError) as error:  # py4j calls a class that is missing a package
        _warn_once(gateway.spark.version, str(error))
        return False
    _install_bucketed_joins(gateway)
    return True


def _install_bucketed_joins(gateway: Gateway) -> None:
    """The same for joins by buckets; without them Spark shuffles, and says nothing."""
    if not takes_masks(gateway.spark):
        return
    try:
        install_bucketed_joins(gateway)
    except (Py4JError, TypeError) as error:
        text = "Joins on bucket keys are shuffled, because Spark %s does not take our buckets: %s"
        logging.getLogger(__name__).info(text, gateway.spark.version, error)


def _warn_once(version: str, problem: str) -> None:
    """Say it once in a process, however many warehouses are attached."""
    if version in _WARNED_OF:
        return
    _WARNED_OF.add(version)
    logging.getLogger(__name__).warning(
        "spark.sql reads tables of Tidelake by RDDs, which costs about twice as much, because"
        " Spark %s does not take our optimiser rule: %s",
        version,
        problem,
    )
