package org.apache.spark.sql.execution.datasources;

import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.function.Supplier;
import org.apache.spark.sql.ExperimentalMethods;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.catalog.CatalogStorageFormat$;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.CatalogTable$;
import org.apache.spark.sql.catalyst.catalog.CatalogTableType$;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.DynamicPruningSubquery;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.KnownNullable;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.Count;
import org.apache.spark.sql.catalyst.optimizer.BooleanSimplification$;
import org.apache.spark.sql.catalyst.optimizer.CollapseProject$;
import org.apache.spark.sql.catalyst.optimizer.ColumnPruning$;
import org.apache.spark.sql.catalyst.optimizer.CombineFilters$;
import org.apache.spark.sql.catalyst.optimizer.LimitPushDown$;
import org.apache.spark.sql.catalyst.optimizer.PruneFilters$;
import org.apache.spark.sql.catalyst.optimizer.PushDownPredicates$;
import org.apache.spark.sql.catalyst.optimizer.PushPredicateThroughNonJoin$;
import org.apache.spark.sql.catalyst.optimizer.RemoveNoopOperators$;
import org.apache.spark.sql.catalyst.optimizer.RemoveRedundantAliases$;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.AppendData;
import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTable;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.OneRowRelation;
import org.apache.spark.sql.catalyst.plans.logical.OverwriteByExpression;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.catalyst.plans.logical.UpdateTable;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.types.DataTypeUtils$;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.write.V1Write;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.datasources.v2.V1ScanWrapper;
import org.apache.spark.sql.execution.dynamicpruning.CleanupDynamicPruningFilters$;
import org.apache.spark.sql.execution.dynamicpruning.PartitionPruning$;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampType;
import scala.Option;
import scala.Some;
import scala.collection.Iterator;
import scala.collection.immutable.ArraySeq$;
import scala.collection.immutable.Seq;

/**
 * Puts the plans of our scans into the plans of queries.
 *
 * See tidelake.spark.catalog.scans.scan_rule.
 */
public final class TidelakeScans extends Rule {
  /** Expressions that give a value for each row, whatever the session's settings. */
  private static final String NEVER_FAIL = " And Or Not IsNull IsNotNull In InSet EqualTo"
      + " EqualNullSafe LessThan LessThanOrEqual GreaterThan GreaterThanOrEqual StartsWith"
      + " EndsWith Contains AttributeReference Literal KnownNullable ";
  /** How often filters are pushed down at most: more joins stand on each other rarely. */
  private static final int PUSHES_MAX = 8;
  /** The file index of our scans; by name, as a Spark that lacks it may take this rule. */
  private static final String LISTED_FILES = "TidelakeListedFiles";
  private static final String ROW_INDEX = "_tmp_metadata_row_index";
  private static final String ROWS_OPTION = "tidelake.rows";
  /** The first day and instant that Spark does not move on the way to its Parquet reader. */
  private static final int EXACT_DAYS_FROM = -141349;
  private static final long EXACT_SECONDS_FROM = -2177452800L;

  public static void install(SparkSession session) {
    ExperimentalMethods methods = session.experimental();
    Seq rules = methods.extraOptimizations();
    for (int i = 0; i < rules.size(); i++) {
      if (rules.apply(i) instanceof TidelakeScans) return;
    }
    methods.extraOptimizations_$eq((Seq) rules.appended(new TidelakeScans()));
  }

  public TreeNode apply(TreeNode plan) {
    LogicalPlan given = (LogicalPlan) plan;
    LogicalPlan made = counted(replaced(given));
    if (made != given) {
      made = PushPredicateThroughNonJoin$.MODULE$.apply(made);
      made = CombineFilters$.MODULE$.apply(made);
      made = LimitPushDown$.MODULE$.apply(made);
      made = ColumnPruning$.MODULE$.apply(made);
      made = CollapseProject$.MODULE$.apply(made);
      // as in sub-queries, which Spark optimises once more with the plan that has them
      made = RemoveRedundantAliases$.MODULE$.apply(made);
      made = RemoveNoopOperators$.MODULE$.apply(made);
      made = SchemaPruning$.MODULE$.apply(made);
      made = pruned(made);
    }
    return withoutVain(withMasksLast(withoutOldTimes(made)));
  }

  // Spark prunes before our scans are there. It copies the side that says which partitions are
  // wanted: what changes it later would keep Spark from reading it once.
  private static LogicalPlan pruned(LogicalPlan plan) {
    LogicalPlan made = plan;
    made = PushDownPredicates$.MODULE$.apply(made);
    made = BooleanSimplification$.MODULE$.apply(made);
    made = PruneFilters$.MODULE$.apply(made);
    made = withMasksLast(made);
    made = PartitionPruning$.MODULE$.apply(made);
    for (int i = 0; i < PUSHES_MAX; i++) {
      LogicalPlan before = made;
      made = PushDownPredicates$.MODULE$.apply(made);
      if (made.fastEquals(before)) break;
    }
    made = CleanupDynamicPruningFilters$.MODULE$.apply(made);
    made = BooleanSimplification$.MODULE$.apply(made);
    made = PruneFilters$.MODULE$.apply(made);
    return made;
  }

  // a union has such a filter above all of its scans, if one of them has the partition
  private static LogicalPlan withoutVain(LogicalPlan plan) {
    Seq children = plan.children();
    Object[] made = new Object[children.size()];
    boolean changed = false;
    for (int i = 0; i < made.length; i++) {
      made[i] = withoutVain((LogicalPlan) children.apply(i));
      changed |= made[i] != children.apply(i);
    }
    LogicalPlan found = changed ? withChildren(plan, made) : plan;
    if (!(found instanceof Filter)) return found;
    LogicalPlan below = (LogicalPlan) found.children().apply(0);
    StructType known = partitionOf(below);
    if (known == null) return found;
    ArrayList parts = new ArrayList();
    split(((Filter) found).condition(), parts);
    Expression kept = null;
    boolean isVain = false;
    for (int i = 0; i < parts.size(); i++) {
      Expression part = (Expression) parts.get(i);
      if (part instanceof DynamicPruningSubquery
          && !isOf(((DynamicPruningSubquery) part).pruningKey(), known)) {
        isVain = true;
      } else {
        kept = and(kept, part);
      }
    }
    if (!isVain) return found;
    if (kept == null) return below;
    LogicalPlan filtered = new Filter(kept, below);
    filtered.copyTagsFrom(found);
    return filtered;
  }

  private static LogicalPlan withoutOldTimes(LogicalPlan plan) {
    Seq children = plan.children();
    Object[] made = new Object[children.size()];
    boolean changed = false;
    for (int i = 0; i < made.length; i++) {
      made[i] = withoutOldTimes((LogicalPlan) children.apply(i));
      changed |= made[i] != children.apply(i);
    }
    LogicalPlan found = changed ? withChildren(plan, made) : plan;
    if (!(found instanceof Filter)) return found;
    LogicalPlan below = (LogicalPlan) found.children().apply(0);
    Expression condition = ((Filter) found).condition();
    if (!hasOldTime(condition) || partitionOf(below) == null) return found;
    LogicalPlan filtered = new Filter(kept(condition), below);
    filtered.copyTagsFrom(found);
    return filtered;
  }

  private static boolean hasOldTime(Expression condition) {
    if (isOldTime(condition)) return true;
    if (condition instanceof InSet) {
      return hasOldTime((InSet) condition);
    }
    for (int i = 0; i < condition.children().size(); i++) {
      if (hasOldTime((Expression) condition.children().apply(i))) return true;
    }
    return false;
  }

  private static boolean hasOldTime(InSet condition) {
    Iterator values = condition.hset().iterator();
    while (values.hasNext()) {
      if (isOldTime(condition.child().dataType(), values.next())) return true;
    }
    return false;
  }

  private static boolean isOldTime(Expression value) {
    if (!(value instanceof Literal)) return false;
    return isOldTime(value.dataType(), ((Literal) value).value());
  }

  private static boolean isOldTime(DataType type, Object value) {
    if (value == null) return false;
    if (type instanceof DateType) {
      return ((Integer) value).intValue() < EXACT_DAYS_FROM;
    }
    return type instanceof TimestampType
        && ((Long) value).longValue() < EXACT_SECONDS_FROM * 1000000L;
  }

  // columns beside an old time, on any side of any comparison
  private static Expression kept(Expression condition) {
    Seq children = condition.children();
    boolean beside = condition instanceof InSet
        && hasOldTime((InSet) condition);
    for (int i = 0; i < children.size(); i++) beside |= isOldTime((Expression) children.apply(i));
    Object[] made = new Object[children.size()];
    boolean changed = false;
    for (int i = 0; i < made.length; i++) {
      Expression child = (Expression) children.apply(i);
      boolean isValue = child instanceof Literal
          || child instanceof KnownNullable;
      made[i] = beside && !isValue ? new KnownNullable(child) : kept(child);
      changed |= made[i] != child;
    }
    return changed ? (Expression) condition.withNewChildren(sequence(made)) : condition;
  }

  private static StructType partitionOf(LogicalPlan plan) {
    while (plan instanceof Filter) plan = (LogicalPlan) plan.children().apply(0);
    if (!(plan instanceof LogicalRelation)) return null;
    Object relation = ((LogicalRelation) plan).productElement(0);
    if (!(relation instanceof HadoopFsRelation)) return null;
    String listed = ((HadoopFsRelation) relation).location().getClass().getSimpleName();
    return listed.equals(LISTED_FILES) ? ((HadoopFsRelation) relation).partitionSchema() : null;
  }

  private static boolean isOf(Expression key, StructType known) {
    if (key instanceof Attribute) {
      return known.getFieldIndex(((Attribute) key).name()).isDefined();
    }
    for (int i = 0; i < key.children().size(); i++) {
      if (!isOf((Expression) key.children().apply(i), known)) return false;
    }
    return true;
  }

  private static LogicalPlan withMasksLast(LogicalPlan plan) {
    Seq children = plan.children();
    Object[] made = new Object[children.size()];
    boolean changed = false;
    for (int i = 0; i < made.length; i++) {
      made[i] = withMasksLast((LogicalPlan) children.apply(i));
      changed |= made[i] != children.apply(i);
    }
    LogicalPlan found = changed ? withChildren(plan, made) : plan;
    if (!(found instanceof Filter)) return found;
    Filter filter = (Filter) found;
    Expression condition = maskLast(filter.condition());
    if (condition == filter.condition()) return found;
    LogicalPlan below = (LogicalPlan) found.children().apply(0);
    LogicalPlan ordered = new Filter(condition, below);
    ordered.copyTagsFrom(found);
    return ordered;
  }

  private static Expression maskLast(Expression condition) {
    if (!isMask(condition)) return condition;
    ArrayList parts = new ArrayList();
    split(condition, parts);
    ArrayList later = new ArrayList();
    Expression made = null;
    boolean changed = false;
    for (int i = 0; i < parts.size(); i++) {
      Expression part = (Expression) parts.get(i);
      if (later.isEmpty() && !isMask(part)) {
        made = and(made, part);
      } else if (isMask(part) || !neverFails(part)) {
        later.add(part);
      } else {
        made = and(made, part);
        changed = true;
      }
    }
    if (!changed) return condition;
    for (int i = 0; i < later.size(); i++) made = and(made, (Expression) later.get(i));
    return made;
  }

  private static void split(Expression condition, ArrayList parts) {
    if (condition instanceof And) {
      split((Expression) condition.children().apply(0), parts);
      split((Expression) condition.children().apply(1), parts);
    } else {
      parts.add(condition);
    }
  }

  private static Expression and(Expression left, Expression right) {
    return left == null ? right : new And(left, right);
  }

  private static boolean isMask(Expression condition) {
    if (condition instanceof Attribute) {
      return ((Attribute) condition).name().equals(ROW_INDEX);
    }
    for (int i = 0; i < condition.children().size(); i++) {
      if (isMask((Expression) condition.children().apply(i))) return true;
    }
    return false;
  }

  private static boolean neverFails(Expression condition) {
    if (NEVER_FAIL.indexOf(" " + condition.getClass().getSimpleName() + " ") < 0) return false;
    for (int i = 0; i < condition.children().size(); i++) {
      if (!neverFails((Expression) condition.children().apply(i))) return false;
    }
    return true;
  }

  private static LogicalPlan replaced(LogicalPlan plan) {
    if (plan instanceof DataSourceV2ScanRelation) return planOf((DataSourceV2ScanRelation) plan);
    if (isPlannedTwice(plan)) return plan;
    // its child is the table itself, not rows that are read
    if (plan instanceof DeleteFromTable) return plan;
    if (plan instanceof UpdateTable || plan instanceof MergeIntoTable) return plan;
    Seq children = plan.children();
    Object[] made = new Object[children.size()];
    boolean changed = false;
    for (int i = 0; i < made.length; i++) {
      LogicalPlan child = (LogicalPlan) children.apply(i);
      made[i] = replaced(child);
      changed |= made[i] != child;
    }
    return changed ? withChildren(plan, made) : plan;
  }

  private static LogicalPlan counted(LogicalPlan plan) {
    if (plan instanceof Aggregate) {
      LogicalPlan known = knownCount((Aggregate) plan);
      if (known != null) return known;
    }
    Seq children = plan.children();
    Object[] made = new Object[children.size()];
    boolean changed = false;
    for (int i = 0; i < made.length; i++) {
      made[i] = counted((LogicalPlan) children.apply(i));
      changed |= made[i] != children.apply(i);
    }
    return changed ? withChildren(plan, made) : plan;
  }

  private static LogicalPlan knownCount(Aggregate plan) {
    if (!plan.groupingExpressions().isEmpty()) return null;
    Seq asked = plan.aggregateExpressions();
    Object[] made = new Object[asked.size()];
    for (int i = 0; i < made.length; i++) {
      if (!(asked.apply(i) instanceof Alias)) return null;
      Alias named = (Alias) asked.apply(i);
      if (!countsRows(named.child())) return null;
      made[i] = named;
    }
    long rows = rowsOf(plan.child());
    if (made.length == 0 || rows < 0) return null;
    for (int i = 0; i < made.length; i++) {
      Alias named = (Alias) made[i];
      made[i] = new Alias(
          Literal$.MODULE$.apply(Long.valueOf(rows)), named.name(), named.exprId(),
          named.qualifier(), named.explicitMetadata(), named.nonInheritableMetadataKeys());
    }
    return new Project(sequence(made), new OneRowRelation());
  }

  private static boolean countsRows(Expression expression) {
    if (!(expression instanceof AggregateExpression)) return false;
    AggregateExpression asked = (AggregateExpression) expression;
    if (asked.isDistinct() || asked.filter().isDefined()) return false;
    if (!(asked.aggregateFunction() instanceof Count)) return false;
    Seq counted = ((Count) asked.aggregateFunction()).children();
    for (int i = 0; i < counted.size(); i++) {
      if (!(counted.apply(i) instanceof Literal)) return false;
      if (((Literal) counted.apply(i)).value() == null) return false;
    }
    return true;
  }

  private static long rowsOf(LogicalPlan plan) {
    if (plan instanceof Project) return rowsOf(((Project) plan).child());
    if (plan instanceof Union) {
      long total = 0;
      Seq parts = plan.children();
      for (int i = 0; i < parts.size(); i++) {
        long rows = rowsOf((LogicalPlan) parts.apply(i));
        if (rows < 0) return -1;
        total += rows;
      }
      return total;
    }
    if (!(plan instanceof LogicalRelation)) return -1;
    if (!((((LogicalRelation) plan).relation()) instanceof HadoopFsRelation)) return -1;
    Option known =
        ((HadoopFsRelation) ((LogicalRelation) plan).relation()).options().get(ROWS_OPTION);
    return known.isEmpty() ? -1 : Long.parseLong((String) known.get());
  }

  private static LogicalPlan withChildren(LogicalPlan plan, Object[] children) {
    LogicalPlan made = (LogicalPlan) plan.withNewChildren(sequence(children));
    made.copyTagsFrom(plan);
    return made;
  }

  private static boolean isPlannedTwice(LogicalPlan plan) {
    Option write = Option.empty();
    if (plan instanceof AppendData) {
      write = ((AppendData) plan).write();
    } else if (plan instanceof OverwriteByExpression) {
      write = ((OverwriteByExpression) plan).write();
    }
    return write.isDefined() && write.get() instanceof V1Write;
  }

  private static LogicalPlan planOf(DataSourceV2ScanRelation relation) {
    if (!(relation.scan() instanceof V1ScanWrapper)) return relation;
    Object scan = ((V1ScanWrapper) relation.scan()).v1Scan();
    if (!(scan instanceof Supplier)) return relation;
    if (!Proxy.isProxyClass(scan.getClass())) return relation;
    Object rows = ((Supplier) scan).get();
    if (rows == null) return relation;  // they are an RDD already
    LogicalPlan columns = withIds(
        rowsOf((QueryExecution) rows), relation.output());
    return columns == null ? relation : withNames(columns, nameOf(relation.relation()));
  }

  private static LogicalPlan rowsOf(QueryExecution rows) {
    // there is nothing to optimise in scans of files alone
    return isOfScans(rows.analyzed()) ? rows.analyzed() : rows.optimizedPlan();
  }

  private static boolean isOfScans(LogicalPlan plan) {
    if (plan instanceof LogicalRelation) return true;
    if (plan instanceof Filter) {
      Expression condition = ((Filter) plan).condition();
      if (!isMask(condition) && !neverFails(condition)) return false;
    } else if (plan instanceof Project) {
      Seq columns = ((Project) plan).projectList();
      for (int i = 0; i < columns.size(); i++) {
        if (!(columns.apply(i) instanceof Attribute)) return false;
      }
    } else if (!(plan instanceof Union)) {
      return false;
    }
    for (int i = 0; i < plan.children().size(); i++) {
      if (!isOfScans((LogicalPlan) plan.children().apply(i))) return false;
    }
    return true;
  }

  private static LogicalPlan withIds(LogicalPlan rows, Seq wanted) {
    Seq found = rows.output();
    if (found.size() != wanted.size()) return null;
    Object[] columns = new Object[wanted.size()];
    for (int i = 0; i < columns.length; i++) {
      Attribute from =
          (Attribute) found.apply(i);
      Attribute to = (Attribute) wanted.apply(i);
      if (!DataTypeUtils$.MODULE$.sameType(from.dataType(), to.dataType())) {
        return null;
      }
      // without a qualifier, which the copies of a relation lose: Spark reads equal scans once
      columns[i] = new Alias(from.withDataType(to.dataType()), to.name(), to.exprId(),
          sequence(new Object[0]), new Some(to.metadata()), sequence(new Object[0]));
    }
    return new Project(sequence(columns), rows);
  }

  private static LogicalPlan withNames(LogicalPlan plan, Option name) {
    if (plan instanceof LogicalRelation) {
      LogicalRelation files = (LogicalRelation) plan;
      if (name.isEmpty() || files.catalogTable().isDefined()) return plan;
      if (!(files.relation() instanceof HadoopFsRelation)) return plan;
      return files.copy(
          files.relation(), files.output(), name, files.isStreaming(), files.stream());
    }
    Seq children = plan.children();
    Object[] made = new Object[children.size()];
    boolean changed = false;
    for (int i = 0; i < made.length; i++) {
      made[i] = withNames((LogicalPlan) children.apply(i), name);
      changed |= made[i] != children.apply(i);
    }
    return changed ? withChildren(plan, made) : plan;
  }

  private static Option nameOf(DataSourceV2Relation relation) {
    if (relation.identifier().isEmpty() || relation.catalog().isEmpty()) {
      return Option.empty();
    }
    Identifier named =
        (Identifier) relation.identifier().get();
    CatalogPlugin catalog =
        (CatalogPlugin) relation.catalog().get();
    TableIdentifier name = new TableIdentifier(named.name(),
        new Some(String.join(".", named.namespace())), new Some(catalog.name()));
    CatalogTable$ kind = CatalogTable$.MODULE$;
    return new Some(new CatalogTable(name,
        CatalogTableType$.MODULE$.EXTERNAL(),
        CatalogStorageFormat$.MODULE$.empty(), relation.schema(),
        Option.empty(),
        kind.apply$default$6(),
        kind.apply$default$7(),
        kind.apply$default$8(),
        kind.apply$default$9(),
        kind.apply$default$10(),
        kind.apply$default$11(),
        kind.apply$default$12(),
        kind.apply$default$13(),
        kind.apply$default$14(),
        kind.apply$default$15(),
        kind.apply$default$16(),
        kind.apply$default$17(),
        kind.apply$default$18(),
        kind.apply$default$19(),
        kind.apply$default$20(),
        kind.apply$default$21()));  // Spark 4.0 to 4.1
        kind.apply$default$21(), kind.apply$default$22()));  // Spark 4.2 to 4.3
  }

  private static Seq sequence(Object[] values) {
    return ArraySeq$.MODULE$.unsafeWrapArray(values);
  }
}
