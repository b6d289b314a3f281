package org.apache.spark.sql.execution.datasources;

import java.util.Map;
import java.util.Set;
import java.util.function.BiFunction;
import org.apache.spark.sql.catalyst.analysis.NamespaceAlreadyExistsException;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.NonEmptyNamespaceException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.Changelog; // Spark 4.2 to 4.3
import org.apache.spark.sql.connector.catalog.ChangelogContext; // Spark 4.2 to 4.3
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.ProcedureCatalog;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.StagingTableCatalog;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.TableContext; // Spark 4.3
import org.apache.spark.sql.connector.catalog.TableInfo; // Spark 4.1 to 4.3
import org.apache.spark.sql.connector.catalog.TableSummary; // Spark 4.1 to 4.3
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A catalog that Spark makes by its name in the settings, for any session; Python answers for it.
 *
 * See tidelake.spark.catalog.named_catalog.
 */
public final class TidelakeCatalog
    implements StagingTableCatalog, SupportsNamespaces, ProcedureCatalog {

  public static volatile BiFunction maker;

  private StagingTableCatalog tables;
  private SupportsNamespaces namespaces;
  private ProcedureCatalog procedures;

  public void initialize(String name, CaseInsensitiveStringMap options) {
    Object made = maker.apply(name, SparkSession.active());
    tables = (StagingTableCatalog) made;
    namespaces = (SupportsNamespaces) made;
    procedures = (ProcedureCatalog) made;
  }

  public String name() { return tables.name(); }
  public String toString() { return tables == null ? "tidelake catalog" : tables.toString(); }
  public String[] defaultNamespace() { return tables.defaultNamespace(); }
  public Set capabilities() { return tables.capabilities(); }
  public Set tableStateOptionKeys() { return tables.tableStateOptionKeys(); } // Spark 4.3
  public Set changelogStateOptionKeys() { return tables.changelogStateOptionKeys(); } // Spark 4.3
  public boolean useNullableQuerySchema() { return tables.useNullableQuerySchema(); }
  public CustomMetric[] supportedCustomMetrics() { return tables.supportedCustomMetrics(); }

  public Identifier[] listTables(String[] namespace)
      throws NoSuchNamespaceException {
    return tables.listTables(namespace);
  }
  public TableSummary[] listTableSummaries(String[] namespace) // Spark 4.1 to 4.3
      throws NoSuchNamespaceException, NoSuchTableException { // Spark 4.1 to 4.3
    return tables.listTableSummaries(namespace); // Spark 4.1 to 4.3
  } // Spark 4.1 to 4.3
  public Table loadTable(Identifier name)
      throws NoSuchTableException {
    return tables.loadTable(name);
  }
  public Table loadTable(Identifier name, Set privileges)
      throws NoSuchTableException {
    return tables.loadTable(name, privileges);
  }
  public Table loadTable(Identifier name, String version)
      throws NoSuchTableException {
    return tables.loadTable(name, version);
  }
  public Table loadTable(Identifier name, long timestamp)
      throws NoSuchTableException {
    return tables.loadTable(name, timestamp);
  }
  public Table loadTable( // Spark 4.3
      Identifier name, // Spark 4.3
      TableContext context, // Spark 4.3
      CaseInsensitiveStringMap given) // Spark 4.3
      throws NoSuchTableException { // Spark 4.3
    return tables.loadTable(name, context, given); // Spark 4.3
  } // Spark 4.3
  public Changelog loadChangelog( // Spark 4.2 to 4.3
      Identifier name, // Spark 4.2 to 4.3
      ChangelogContext context, // Spark 4.2 to 4.3
      CaseInsensitiveStringMap given) // Spark 4.2 to 4.3
      throws NoSuchTableException { // Spark 4.2 to 4.3
    return tables.loadChangelog(name, context, given); // Spark 4.2 to 4.3
  } // Spark 4.2 to 4.3
  public void invalidateTable(Identifier name) {
    tables.invalidateTable(name);
  }
  public boolean tableExists(Identifier name) {
    return tables.tableExists(name);
  }
  public Table createTable(
      Identifier name,
      StructType schema,
      Transform[] parts,
      Map properties)
      throws NoSuchNamespaceException, TableAlreadyExistsException {
    return tables.createTable(name, schema, parts, properties);
  }
  public Table createTable(Identifier name, Column[] columns, Transform[] parts, Map properties)
      throws NoSuchNamespaceException, TableAlreadyExistsException {
    return tables.createTable(name, columns, parts, properties);
  }
  public Table createTable(Identifier name, TableInfo info) // Spark 4.1 to 4.3
      throws NoSuchNamespaceException, TableAlreadyExistsException { // Spark 4.1 to 4.3
    return tables.createTable(name, info); // Spark 4.1 to 4.3
  } // Spark 4.1 to 4.3
  public StagedTable stageCreate(
      Identifier name,
      StructType schema,
      Transform[] parts,
      Map properties)
      throws NoSuchNamespaceException, TableAlreadyExistsException {
    return tables.stageCreate(name, schema, parts, properties);
  }
  public StagedTable stageCreate(
      Identifier name,
      Column[] columns,
      Transform[] parts,
      Map properties)
      throws NoSuchNamespaceException, TableAlreadyExistsException {
    return tables.stageCreate(name, columns, parts, properties);
  }
  public StagedTable stageCreate(Identifier name, TableInfo info) // Spark 4.1 to 4.3
      throws NoSuchNamespaceException, TableAlreadyExistsException { // Spark 4.1 to 4.3
    return tables.stageCreate(name, info); // Spark 4.1 to 4.3
  } // Spark 4.1 to 4.3
  public StagedTable stageReplace(
      Identifier name,
      StructType schema,
      Transform[] parts,
      Map properties)
      throws NoSuchNamespaceException, NoSuchTableException {
    return tables.stageReplace(name, schema, parts, properties);
  }
  public StagedTable stageReplace(
      Identifier name,
      Column[] columns,
      Transform[] parts,
      Map properties)
      throws NoSuchNamespaceException, NoSuchTableException {
    return tables.stageReplace(name, columns, parts, properties);
  }
  public StagedTable stageReplace(Identifier name, TableInfo info) // Spark 4.1 to 4.3
      throws NoSuchNamespaceException, NoSuchTableException { // Spark 4.1 to 4.3
    return tables.stageReplace(name, info); // Spark 4.1 to 4.3
  } // Spark 4.1 to 4.3
  public StagedTable stageCreateOrReplace(
      Identifier name,
      StructType schema,
      Transform[] parts,
      Map properties)
      throws NoSuchNamespaceException {
    return tables.stageCreateOrReplace(name, schema, parts, properties);
  }
  public StagedTable stageCreateOrReplace(
      Identifier name,
      Column[] columns,
      Transform[] parts,
      Map properties)
      throws NoSuchNamespaceException {
    return tables.stageCreateOrReplace(name, columns, parts, properties);
  }
  public StagedTable stageCreateOrReplace(Identifier name, TableInfo info) // Spark 4.1 to 4.3
      throws NoSuchNamespaceException { // Spark 4.1 to 4.3
    return tables.stageCreateOrReplace(name, info); // Spark 4.1 to 4.3
  } // Spark 4.1 to 4.3
  public Table createTableLike( // Spark 4.2 to 4.3
      Identifier name, // Spark 4.2 to 4.3
      TableInfo info, // Spark 4.2 to 4.3
      Table source) // Spark 4.2 to 4.3
      throws NoSuchNamespaceException, TableAlreadyExistsException { // Spark 4.2 to 4.3
    return tables.createTableLike(name, info, source); // Spark 4.2 to 4.3
  } // Spark 4.2 to 4.3
  public Table alterTable(Identifier name, TableChange... changes)
      throws NoSuchTableException {
    return tables.alterTable(name, changes);
  }
  public boolean dropTable(Identifier name) {
    return tables.dropTable(name);
  }
  public boolean purgeTable(Identifier name) {
    return tables.purgeTable(name);
  }
  public void renameTable(Identifier before, Identifier after)
      throws NoSuchTableException, TableAlreadyExistsException {
    tables.renameTable(before, after);
  }
  public String[][] listNamespaces()
      throws NoSuchNamespaceException {
    return namespaces.listNamespaces();
  }
  public String[][] listNamespaces(String[] above)
      throws NoSuchNamespaceException {
    return namespaces.listNamespaces(above);
  }
  public boolean namespaceExists(String[] name) {
    return namespaces.namespaceExists(name);
  }
  public Map loadNamespaceMetadata(String[] name)
      throws NoSuchNamespaceException {
    return namespaces.loadNamespaceMetadata(name);
  }
  public void createNamespace(String[] name, Map properties)
      throws NamespaceAlreadyExistsException {
    namespaces.createNamespace(name, properties);
  }
  public void alterNamespace(String[] name, NamespaceChange... changes)
      throws NoSuchNamespaceException {
    namespaces.alterNamespace(name, changes);
  }
  public boolean dropNamespace(String[] name, boolean cascade)
      throws NoSuchNamespaceException, NonEmptyNamespaceException {
    return namespaces.dropNamespace(name, cascade);
  }
  public UnboundProcedure loadProcedure(Identifier name) {
    return procedures.loadProcedure(name);
  }
  public Identifier[] listProcedures(String[] namespace) { // Spark 4.1 to 4.3
    return procedures.listProcedures(namespace); // Spark 4.1 to 4.3
  } // Spark 4.1 to 4.3
}
