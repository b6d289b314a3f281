package org.apache.spark.sql.execution.datasources;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.OuterReference;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.expressions.objects.AssertNotNull;
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke;
import org.apache.spark.sql.catalyst.plans.logical.Assignment;
import org.apache.spark.sql.catalyst.plans.logical.DeleteAction;
import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTable;
import org.apache.spark.sql.catalyst.plans.logical.InsertAction;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeAction;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.UpdateAction;
import org.apache.spark.sql.catalyst.plans.logical.UpdateTable;
import org.apache.spark.sql.classic.Dataset$;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;
import scala.collection.immutable.ArraySeq$;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;

/**
 * What a DELETE, UPDATE or MERGE says, with the columns of its sides by name.
 *
 * As a function it gives the columns of a subquery's outer rows by name.
 *
 * See tidelake.spark.catalog.row_changes.
 */
public final class TidelakeRowChange extends AbstractFunction1 {
  private static final String TARGET = "_tidelake_target";
  private static final String SOURCE = "_tidelake_source";
  private static final int SHOWN_MAX = 400;

  private final SparkSession session;
  private final LogicalPlan analyzed;
  private final LogicalPlan planned;
  private final HashMap names = new HashMap();
  private final HashMap sides = new HashMap();

  public TidelakeRowChange(SparkSession session, LogicalPlan analyzed, LogicalPlan planned) {
    this.session = session;
    this.analyzed = analyzed;
    this.planned = planned;
    addSide(targetOf(analyzed), TARGET);
    if (analyzed instanceof MergeIntoTable) {
      addSide(((MergeIntoTable) analyzed).sourceTable(), SOURCE);
    }
  }

  private void addSide(LogicalPlan side, String alias) {
    Seq columns = side.output();
    for (int i = 0; i < columns.size(); i++) {
      Attribute column = (Attribute) columns.apply(i);
      names.put(column.exprId(), column.name());
      sides.put(column.exprId(), alias);
    }
  }

  /** The table that a statement changes; null for any other plan. */
  public static LogicalPlan targetOf(LogicalPlan plan) {
    if (plan instanceof DeleteFromTable) return ((DeleteFromTable) plan).table();
    if (plan instanceof UpdateTable) return ((UpdateTable) plan).table();
    if (plan instanceof MergeIntoTable) return ((MergeIntoTable) plan).targetTable();
    return null;
  }

  /** Whether a statement names a view: its target is more than a table with another name. */
  public static boolean isOfView(LogicalPlan plan) {
    LogicalPlan target = targetOf(plan);
    while (target instanceof SubqueryAlias) target = ((SubqueryAlias) target).child();
    return target != null && !(target instanceof DataSourceV2Relation);
  }

  /** The statement in a plan that became a planned one: their targets have the same columns. */
  public static LogicalPlan find(LogicalPlan plan, LogicalPlan planned) {
    LogicalPlan target = targetOf(plan);
    if (target != null && plan.getClass() == planned.getClass()) {
      Seq before = target.output();
      Seq after = targetOf(planned).output();
      boolean isSame = before.size() == after.size();
      for (int i = 0; isSame && i < before.size(); i++) {
        isSame = ((Attribute) before.apply(i)).exprId()
            .equals(((Attribute) after.apply(i)).exprId());
      }
      if (isSame) return plan;
    }
    Seq children = plan.children();
    for (int i = 0; i < children.size(); i++) {
      LogicalPlan found = find((LogicalPlan) children.apply(i), planned);
      if (found != null) return found;
    }
    return null;
  }

  /** What EXPLAIN shows of a statement. */
  public static String shown(String table, LogicalPlan plan) {
    StringBuilder text = new StringBuilder(table);
    if (plan instanceof DeleteFromTable) {
      text.append(", rows that meet ").append(((DeleteFromTable) plan).condition().sql());
    } else if (plan instanceof UpdateTable) {
      Option condition = ((UpdateTable) plan).condition();
      add(text, ((UpdateTable) plan).assignments());
      if (condition.isDefined()) {
        text.append(", rows that meet ").append(((Expression) condition.get()).sql());
      }
    } else {
      MergeIntoTable merge = (MergeIntoTable) plan;
      text.append(" on ").append(merge.mergeCondition().sql());
      add(text, "matched", merge.matchedActions());
      add(text, "not matched", merge.notMatchedActions());
      add(text, "not matched by source", merge.notMatchedBySourceActions());
    }
    return text.length() <= SHOWN_MAX ? text.toString() : text.substring(0, SHOWN_MAX) + "...";
  }

  private static void add(StringBuilder text, String when, Seq actions) {
    for (int i = 0; i < actions.size(); i++) {
      MergeAction action = (MergeAction) actions.apply(i);
      text.append("; ").append(when);
      if (action.condition().isDefined()) {
        text.append(" and ").append(((Expression) action.condition().get()).sql());
      }
      text.append(": ").append(actionOf(action));
      if (action instanceof UpdateAction) add(text, ((UpdateAction) action).assignments());
    }
  }

  private static void add(StringBuilder text, Seq assignments) {
    for (int i = 0; i < assignments.size(); i++) {
      Assignment one = (Assignment) assignments.apply(i);
      text.append(i == 0 ? " set " : ", ");
      text.append(String.join(".", pathOf(one.key()))).append(" = ").append(given(one).sql());
    }
  }

  public String kind() {
    if (analyzed instanceof DeleteFromTable) return "delete";
    return analyzed instanceof UpdateTable ? "update" : "merge";
  }

  /** The aliases of the target's rows and of the source's. */
  public String target() { return TARGET; }
  public String source() { return SOURCE; }

  public SparkSession session() { return session; }

  /** The options that the statement gives its target. */
  public CaseInsensitiveStringMap options() { return optionsOf(targetOf(analyzed)); }

  private static CaseInsensitiveStringMap optionsOf(LogicalPlan plan) {
    if (plan instanceof DataSourceV2Relation) return ((DataSourceV2Relation) plan).options();
    return optionsOf((LogicalPlan) plan.children().apply(0));
  }

  /** The rows of the source. */
  public Dataset sourceRows() {
    return Dataset$.MODULE$.ofRows(session, ((MergeIntoTable) analyzed).sourceTable());
  }

  public boolean evolves() { return ((MergeIntoTable) analyzed).withSchemaEvolution(); }

  /** The condition of the statement itself: WHERE, or ON. Null for every row. */
  public Column condition() {
    Expression found = conditionOf(analyzed);
    return isTrue(found) ? null : column(found);
  }

  private static Expression conditionOf(LogicalPlan plan) {
    if (plan instanceof DeleteFromTable) return ((DeleteFromTable) plan).condition();
    if (plan instanceof MergeIntoTable) return ((MergeIntoTable) plan).mergeCondition();
    Option found = ((UpdateTable) plan).condition();
    return found.isDefined() ? (Expression) found.get() : null;
  }

  private static boolean isTrue(Expression condition) {
    return condition == null
        || condition instanceof Literal && Boolean.TRUE.equals(((Literal) condition).value());
  }

  /** The parts of the condition on the target alone that sources of Spark can filter by. */
  public Filter[] filters() {
    ArrayList found = new ArrayList();
    ArrayList parts = partsOf(conditionOf(planned));
    for (int i = 0; i < parts.size(); i++) {
      Option made = filterOf((Expression) parts.get(i));
      if (made.isDefined()) found.add(made.get());
    }
    return (Filter[]) found.toArray(new Filter[0]);
  }

  /** Whether these are the whole condition. */
  public boolean areFiltersWhole() {
    ArrayList parts = partsOf(conditionOf(planned));
    for (int i = 0; i < parts.size(); i++) {
      if (filterOf((Expression) parts.get(i)).isEmpty()) return false;
    }
    return true;
  }

  private Option filterOf(Expression part) {
    ArrayList used = new ArrayList();
    references(part, used);
    for (int i = 0; i < used.size(); i++) {
      if (!TARGET.equals(sides.get(((AttributeReference) used.get(i)).exprId()))) {
        return Option.empty();
      }
    }
    return DataSourceStrategy$.MODULE$.translateFilter(part, false);
  }

  private static ArrayList partsOf(Expression condition) {
    ArrayList parts = new ArrayList();
    if (!isTrue(condition)) split(condition, parts);
    return parts;
  }

  private static void split(Expression condition, ArrayList parts) {
    if (condition instanceof And) {
      split((Expression) condition.children().apply(0), parts);
      split((Expression) condition.children().apply(1), parts);
    } else {
      parts.add(condition);
    }
  }

  private static void references(Expression expression, ArrayList found) {
    if (expression instanceof AttributeReference) found.add(expression);
    for (int i = 0; i < expression.children().size(); i++) {
      references((Expression) expression.children().apply(i), found);
    }
  }

  /** Pairs of a target's and a source's column that ON equates, one after the other. */
  public String[] equal() {
    ArrayList found = new ArrayList();
    ArrayList parts = partsOf(conditionOf(analyzed));
    for (int i = 0; i < parts.size(); i++) {
      if (!(parts.get(i) instanceof EqualTo)) continue;
      Seq both = ((Expression) parts.get(i)).children();
      String left = nameOn(TARGET, widened((Expression) both.apply(0)));
      String right = nameOn(SOURCE, widened((Expression) both.apply(1)));
      if (left == null || right == null) {
        left = nameOn(TARGET, widened((Expression) both.apply(1)));
        right = nameOn(SOURCE, widened((Expression) both.apply(0)));
      }
      if (left == null || right == null) continue;
      found.add(left);
      found.add(right);
    }
    return (String[]) found.toArray(new String[0]);
  }

  /** What a cast without loss is of: Spark adds one where the sides' types differ. */
  private static Expression widened(Expression column) {
    if (!(column instanceof Cast)) return column;
    Expression child = ((Cast) column).child();
    return Cast.canUpCast(child.dataType(), column.dataType()) ? child : column;
  }

  private String nameOn(String side, Expression column) {
    if (!(column instanceof AttributeReference)) return null;
    ExprId id = ((AttributeReference) column).exprId();
    return side.equals(sides.get(id)) ? (String) names.get(id) : null;
  }

  /** The names of all columns of both sides that the statement's expressions mention. */
  public String[] mentioned() {
    LinkedHashSet found = new LinkedHashSet();
    Seq expressions = analyzed.expressions();
    for (int i = 0; i < expressions.size(); i++) {
      mention((Expression) expressions.apply(i), found);
    }
    return (String[]) found.toArray(new String[0]);
  }

  private void mention(Expression expression, LinkedHashSet found) {
    if (expression instanceof Assignment) {
      Assignment one = (Assignment) expression;
      // a column with new field values keeps its other fields
      if (!(one.key() instanceof AttributeReference)) mention(one.key(), found);
      mention(one.value(), found);
      return;
    }
    if (expression instanceof AttributeReference) {
      Object name = names.get(((AttributeReference) expression).exprId());
      if (name != null) found.add(name);
    }
    // the outer columns of a subquery are children of it
    for (int i = 0; i < expression.children().size(); i++) {
      mention((Expression) expression.children().apply(i), found);
    }
  }

  private Object[] clauses() {
    if (analyzed instanceof UpdateTable) return new Object[] {analyzed};
    MergeIntoTable merge = (MergeIntoTable) analyzed;
    ArrayList found = new ArrayList();
    addAll(merge.matchedActions(), found);
    addAll(merge.notMatchedActions(), found);
    addAll(merge.notMatchedBySourceActions(), found);
    return found.toArray();
  }

  private static void addAll(Seq actions, ArrayList found) {
    for (int i = 0; i < actions.size(); i++) found.add(actions.apply(i));
  }

  /** The clauses of a MERGE: when and what, one after the other. */
  public String[] actions() {
    MergeIntoTable merge = (MergeIntoTable) analyzed;
    int matched = merge.matchedActions().size();
    int notMatched = matched + merge.notMatchedActions().size();
    Object[] clauses = clauses();
    String[] found = new String[2 * clauses.length];
    for (int i = 0; i < clauses.length; i++) {
      found[2 * i] = i < matched ? "matched"
          : i < notMatched ? "not_matched" : "not_matched_by_source";
      found[2 * i + 1] = actionOf((MergeAction) clauses[i]);
    }
    return found;
  }

  private static String actionOf(MergeAction action) {
    if (action instanceof DeleteAction) return "delete";
    return action instanceof InsertAction ? "insert" : "update";
  }

  /** The condition of a clause; null if it has none. */
  public Column conditionOf(int clause) {
    Option found = ((MergeAction) clauses()[clause]).condition();
    return found.isDefined() ? column((Expression) found.get()) : null;
  }

  /** The columns, or fields of columns, that a clause gives values. */
  public String[][] keysOf(int clause) {
    Seq found = assignmentsOf(clause);
    String[][] made = new String[found.size()][];
    for (int i = 0; i < made.length; i++) made[i] = pathOf(((Assignment) found.apply(i)).key());
    return made;
  }

  /** Their values. */
  public Column[] valuesOf(int clause) {
    Seq found = assignmentsOf(clause);
    Column[] made = new Column[found.size()];
    for (int i = 0; i < made.length; i++) made[i] = column(given((Assignment) found.apply(i)));
    return made;
  }

  /** The names of the values that are a plain column of the source; null for others. */
  public String[] plainOf(int clause) {
    Seq found = assignmentsOf(clause);
    String[] made = new String[found.size()];
    for (int i = 0; i < made.length; i++) {
      made[i] = nameOn(SOURCE, given((Assignment) found.apply(i)));
    }
    return made;
  }

  /** The text of the values: as it stands in the statement, or else as Spark shows it. */
  public String[] textsOf(int clause) {
    Seq found = assignmentsOf(clause);
    String[] made = new String[found.size()];
    for (int i = 0; i < made.length; i++) {
      Expression value = given((Assignment) found.apply(i));
      int start = startOf(value);
      made[i] = start < 0 ? value.sql() : sqlText().substring(start, stopOf(value) + 1);
    }
    return made;
  }

  /** Their offsets in the statement; -1 for those that are not of its text. */
  public int[] startsOf(int clause) {
    Seq found = assignmentsOf(clause);
    int[] made = new int[found.size()];
    for (int i = 0; i < made.length; i++) {
      made[i] = startOf(given((Assignment) found.apply(i)));
    }
    return made;
  }

  /** The whole statement's text; null if it has none. */
  public String sqlText() {
    Seq expressions = analyzed.expressions();
    for (int i = 0; i < expressions.size(); i++) {
      String text = textOf((Expression) expressions.apply(i));
      if (text != null) return text;
    }
    return null;
  }

  private static String textOf(Expression expression) {
    Option text = expression.origin().sqlText();
    if (text.isDefined()) return (String) text.get();
    for (int i = 0; i < expression.children().size(); i++) {
      String found = textOf((Expression) expression.children().apply(i));
      if (found != null) return found;
    }
    return null;
  }

  private int startOf(Expression value) {
    Option text = value.origin().sqlText();
    Option start = value.origin().startIndex();
    if (text.isEmpty() || start.isEmpty() || value.origin().stopIndex().isEmpty()) return -1;
    int from = ((Integer) start.get()).intValue();
    boolean isWhole = text.get().equals(sqlText()) && from >= 0 && stopOf(value) >= from
        && stopOf(value) < sqlText().length();
    return isWhole ? from : -1;
  }

  private static int stopOf(Expression value) {
    return ((Integer) value.origin().stopIndex().get()).intValue();
  }

  private Seq assignmentsOf(int clause) {
    Object found = clauses()[clause];
    if (found instanceof UpdateTable) return ((UpdateTable) found).assignments();
    if (found instanceof UpdateAction) return ((UpdateAction) found).assignments();
    return ((InsertAction) found).assignments();
  }

  private static String[] pathOf(Expression key) {
    ArrayList path = new ArrayList();
    while (key instanceof GetStructField) {
      StructType struct = (StructType) ((GetStructField) key).child().dataType();
      path.add(0, struct.fields()[((GetStructField) key).ordinal()].name());
      key = ((GetStructField) key).child();
    }
    path.add(0, key instanceof NamedExpression ? ((NamedExpression) key).name() : key.sql());
    return (String[]) path.toArray(new String[0]);
  }

  // Spark has added its cast to the column's type, and its checks: ours are made of the value alone
  private static Expression given(Assignment assignment) {
    Expression value = assignment.value();
    if (value instanceof StaticInvoke
        && ((StaticInvoke) value).functionName().endsWith("TypeWriteSideCheck")) {
      value = (Expression) value.children().apply(0);
    }
    if (value instanceof Cast && value.getTagValue(Cast.BY_TABLE_INSERTION()).isDefined()) {
      value = ((Cast) value).child();
    }
    return value instanceof AssertNotNull ? ((AssertNotNull) value).child() : value;
  }

  private Column column(Expression expression) {
    return ExpressionUtils.column(named(expression));
  }

  private Expression byName(NamedExpression column) {
    String side = (String) sides.get(column.exprId());
    if (side == null) return null;
    return new UnresolvedAttribute(sequence(new Object[] {side, names.get(column.exprId())}));
  }

  private Expression named(Expression expression) {
    if (expression instanceof AttributeReference) {
      Expression found = byName((NamedExpression) expression);
      return found == null ? expression : found;
    }
    Expression made = expression;
    if (expression instanceof SubqueryExpression) {
      SubqueryExpression subquery = (SubqueryExpression) expression;
      LogicalPlan before = (LogicalPlan) subquery.plan();
      LogicalPlan after = namedInside(before);
      if (after != before) {  // it is resolved again, and then finds its outer columns itself
        made = subquery.withNewPlan(after).withNewOuterAttrs(sequence(new Object[0]));
      }
    }
    Seq children = made.children();
    Object[] named = new Object[children.size()];
    boolean changed = false;
    for (int i = 0; i < named.length; i++) {
      named[i] = named((Expression) children.apply(i));
      changed |= named[i] != children.apply(i);
    }
    return changed ? (Expression) made.withNewChildren(sequence(named)) : made;
  }

  private LogicalPlan namedInside(LogicalPlan plan) {
    Seq children = plan.children();
    Object[] made = new Object[children.size()];
    boolean changed = false;
    for (int i = 0; i < made.length; i++) {
      made[i] = namedInside((LogicalPlan) children.apply(i));
      changed |= made[i] != children.apply(i);
    }
    LogicalPlan found = changed ? (LogicalPlan) plan.withNewChildren(sequence(made)) : plan;
    return (LogicalPlan) found.mapExpressions(this);
  }

  public Object apply(Object expression) {
    Expression given = (Expression) expression;
    if (given instanceof OuterReference) {
      Expression found = byName((OuterReference) given);
      return found == null ? given : found;
    }
    Expression made = given;
    if (given instanceof SubqueryExpression) {
      SubqueryExpression subquery = (SubqueryExpression) given;
      LogicalPlan before = (LogicalPlan) subquery.plan();
      LogicalPlan after = namedInside(before);
      if (after != before) {
        made = subquery.withNewPlan(after).withNewOuterAttrs(sequence(new Object[0]));
      }
    }
    Seq children = made.children();
    Object[] named = new Object[children.size()];
    boolean changed = false;
    for (int i = 0; i < named.length; i++) {
      named[i] = apply(children.apply(i));
      changed |= named[i] != children.apply(i);
    }
    return changed ? (Expression) made.withNewChildren(sequence(named)) : made;
  }

  private static Seq sequence(Object[] values) {
    return ArraySeq$.MODULE$.unsafeWrapArray(values);
  }
}
