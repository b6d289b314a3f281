"""Plain ``spark.sql`` has the plans of our scans in its own plan, and the answers stay equal."""

from __future__ import annotations

import pytest
import quick_spark
from pyspark.sql import functions as F

import tidelake.spark
from tidelake.spark.catalog.scans.scan_rule import RULE

EXCLUDED = "spark.sql.optimizer.excludedRules"
V1 = "RowDataSourceScanExec"
FILES = "FileSourceScanExec"
PYTHON = "MapInArrowExec"


@pytest.fixture(scope="module")
def warehouse(spark, tmp_path_factory):
    """Catalog ``plans``: a table of files, one to merge in part, one whose columns changed."""
    lake = tidelake.spark.attach(spark, tmp_path_factory.mktemp("plans"), catalog="plans")
    rows = spark.range(0, 200, 1, 1).selectExpr(
        "id AS k",
        "int(id % 5) AS p",
        "double(id) / 4 AS x",
        "concat('v', id % 7) AS v",
        "named_struct('a', id, 'b', string(id)) AS s",
        "array(id, id + 1) AS l",
        "if(id % 9 = 0, null, date_add(DATE '2026-11-01', int(id % 30))) AS d",
    )
    lake.sql(
        "CREATE TABLE db.files (k BIGINT, p INT, x DOUBLE, v STRING,"
        " s STRUCT<a: BIGINT, b: STRING>, l ARRAY<BIGINT>, d DATE) PARTITIONED BY (p)"
        " WITH ('bucket' = '-1')"
    )
    lake.write(rows.where("k < 120"), "db.files")
    lake.write(rows.where("k >= 120"), "db.files")
    lake.sql(
        "CREATE TABLE db.keyed (k BIGINT, p INT, x DOUBLE, v STRING,"
        " PRIMARY KEY (k) NOT ENFORCED) WITH ('bucket' = '2', 'write-only' = 'true')"
    )
    own = rows.select("k", "p", "x", "v")
    lake.write(own.where("k < 150"), "db.keyed")
    lake.write(own.where("k >= 100").selectExpr("k", "p", "x + 1000 AS x", "v"), "db.keyed")
    lake.sql(
        "CREATE TABLE db.changed (k INT, old STRING, gone INT) WITH ('bucket' = '-1');"
        "INSERT INTO db.changed VALUES (1, 'a', 7), (2, 'b', 8);"
        "ALTER TABLE db.changed RENAME old TO `New`;"
        "ALTER TABLE db.changed MODIFY k BIGINT;"
        "ALTER TABLE db.changed DROP gone;"
        "ALTER TABLE db.changed ADD (later DOUBLE);"
        "INSERT INTO db.changed VALUES (3, 'c', 0.5)"
    )
    return lake


def settings(spark, **conf):
    """Settings of SQL, for a while; dots are double underlines."""
    named = {f"spark.sql.{key.replace('__', '.')}": value for key, value in conf.items()}
    return quick_spark.settings(spark, named)


def without_rule(spark):
    return settings(spark, optimizer__excludedRules=RULE)


def rows_of(frame):
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def names(frame, plan=None):
    """The class names of the nodes of a plan and its subqueries."""
    plan = plan or frame._jdf.queryExecution().executedPlan()
    kind = plan.getClass().getSimpleName()
    if kind == "AdaptiveSparkPlanExec":
        return names(frame, plan.initialPlan())
    found = [kind]
    for below in (plan.children(), plan.subqueries()):
        for number in range(below.size()):
            found += names(frame, below.apply(number))
    return found


QUERIES = {
    "columns": "SELECT k, v FROM plans.db.files WHERE k < 50 AND p IN (1, 2)",
    "star": "SELECT * FROM plans.db.files WHERE d IS NULL",
    "no column": "SELECT 1 FROM plans.db.files WHERE v = 'v3'",
    "nested": "SELECT s.b, l[1] FROM plans.db.files WHERE s.a BETWEEN 20 AND 30",
    "case": "SELECT K, X FROM plans.db.files WHERE P = 3",
    "groups": "SELECT v, count(*), sum(x), max(d) FROM plans.db.files GROUP BY v",
    "distinct": "SELECT count(DISTINCT v), count(DISTINCT p), sum(x) FROM plans.db.files",
    "self join": "SELECT a.k, b.x FROM plans.db.files a JOIN plans.db.files b ON a.k = b.k + 50",
    "outer join": """
        SELECT a.k, b.x, b.v FROM plans.db.files a
        LEFT JOIN (SELECT * FROM plans.db.files WHERE x > 10) b ON a.k = b.k AND b.p = 2
        WHERE a.k < 90""",
    "scalar subquery": """
        SELECT k FROM plans.db.files WHERE x > (SELECT avg(x) * 1.5 FROM plans.db.files)""",
    "in and exists": """
        SELECT k FROM plans.db.files a WHERE k IN (SELECT k + 1 FROM plans.db.files WHERE p = 1)
        AND NOT EXISTS (SELECT 1 FROM plans.db.files b WHERE b.k = a.k * 2 AND b.p = 0)""",
    "with": """
        WITH w AS (SELECT v, sum(x) AS t FROM plans.db.files GROUP BY v)
        SELECT a.v, b.t FROM w a JOIN w b ON a.t < b.t""",
    "union": """
        SELECT k FROM plans.db.files WHERE p = 1 UNION SELECT k * 2 FROM plans.db.files
        UNION ALL SELECT k FROM plans.db.files WHERE k > 190""",
    "windows": """
        SELECT k, row_number() OVER (PARTITION BY v ORDER BY k), sum(x) OVER (PARTITION BY p)
        FROM plans.db.files""",
    "order and limit": "SELECT k, v FROM plans.db.files ORDER BY x DESC, k LIMIT 7",
    "lateral": """
        SELECT a.k, c.n FROM plans.db.files a,
        LATERAL (SELECT count(*) AS n FROM plans.db.files b WHERE b.v = a.v AND b.k < 40) c
        WHERE a.k < 12""",
    "moment": "SELECT max(k), sum(x) FROM plans.db.files VERSION AS OF 1",
    "moments": """
        SELECT a.k FROM plans.db.files a LEFT ANTI JOIN plans.db.files VERSION AS OF 1 b
        ON a.k = b.k""",
    "changed": "SELECT k + 1, `new`, later FROM plans.db.changed WHERE k > 1",
    "changed, all": "SELECT * FROM plans.db.changed",
}
PARTLY_MERGED = {
    "merged": "SELECT k, x, v FROM plans.db.keyed WHERE k > 90 AND x < 1040",
    "merged, joined": """
        SELECT a.k, b.x FROM plans.db.keyed a JOIN plans.db.files b ON a.k = b.k
        WHERE a.x > 1000""",
    "merged, self join": """
        SELECT count(*), sum(a.x - b.x) FROM plans.db.keyed a JOIN plans.db.keyed b
        ON a.k = b.k + 1""",
    "merged, groups": "SELECT p, count(*), max(x) FROM plans.db.keyed GROUP BY p",
    "position": "SELECT k, __paimon_bucket FROM plans.db.keyed WHERE k < 5",
    "system": "SELECT snapshot_id, commit_kind FROM plans.db.`keyed$snapshots`",
    "audit": "SELECT rowkind, count(*) FROM plans.db.`keyed$audit_log` GROUP BY 1",
    "changes": "SELECT k, _change_type FROM plans.db.keyed CHANGES FROM VERSION 1 TO VERSION 2",
}


@pytest.mark.share(2)
@pytest.mark.parametrize("name", QUERIES)
def test_files_are_scanned_in_the_querys_own_plan(spark, warehouse, name):
    with without_rule(spark):
        before = spark.sql(QUERIES[name])
        expected = rows_of(before)
        assert V1 in names(before)
    with settings(spark, planChangeValidation="true"):
        frame = spark.sql(QUERIES[name])
        assert rows_of(frame) == expected
    nodes = names(frame)
    assert FILES in nodes
    assert V1 not in nodes
    assert PYTHON not in nodes
    assert frame.schema == before.schema


@pytest.mark.share(2)
@pytest.mark.parametrize("name", PARTLY_MERGED)
def test_rows_that_python_makes_are_in_the_plan_too(spark, warehouse, name):
    with without_rule(spark):
        expected = rows_of(spark.sql(PARTLY_MERGED[name]))
    with settings(spark, planChangeValidation="true"):
        frame = spark.sql(PARTLY_MERGED[name])
        assert rows_of(frame) == expected
    assert V1 not in names(frame)


def test_compiled_and_adaptive_plans_have_them(production_conf, spark, warehouse):
    for name in ("groups", "self join", "in and exists"):
        with without_rule(spark):
            expected = rows_of(spark.sql(QUERIES[name]))
        frame = spark.sql(QUERIES[name])
        assert rows_of(frame) == expected
        assert V1 not in names(frame)
    compiled = frame._jdf.queryExecution().executedPlan().finalPhysicalPlan().toString()
    assert "ColumnarToRow" in compiled


def test_explain_shows_the_table_and_what_is_pushed(spark, warehouse):
    text = "EXPLAIN SELECT k FROM plans.db.files WHERE k < 9 AND p = 2"
    ((plan,),) = spark.sql(text).collect()
    assert "FileScan parquet plans.db.files" in plan
    assert "LessThan(k,9)" in plan
    assert "ReadSchema: struct<k:bigint>" in plan  # the partition is chosen already
    ((plan,),) = spark.sql("EXPLAIN SELECT s.a FROM plans.db.files").collect()
    assert "ReadSchema: struct<s:struct<a:bigint>>" in plan


def size(frame):
    return int(str(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))


@pytest.mark.parametrize("table", ["files", "keyed"])
def test_joins_are_planned_by_the_sizes_of_the_columns(spark, warehouse, table):
    text = f"SELECT k, v FROM plans.db.{table}"
    with without_rule(spark):
        told = size(spark.sql(text))
    assert size(spark.sql(text)) == pytest.approx(told, rel=0.2)
    assert size(warehouse.sql(f"SELECT k, v FROM db.{table}")) == pytest.approx(told, rel=0.2)
    whole = size(spark.sql(f"SELECT * FROM plans.db.{table}"))
    assert told < whole
    join = f"SELECT * FROM range(1000000) r JOIN plans.db.{table} t ON r.id = t.k"
    for threshold, node in ((whole * 4, "BroadcastHashJoinExec"), (100, "SortMergeJoinExec")):
        with settings(spark, autoBroadcastJoinThreshold=str(threshold)):
            assert node in names(spark.sql(join))


@pytest.mark.parametrize("table", ["files", "keyed"])
@pytest.mark.parametrize("door", ["spark.sql", "tl.sql"])
def test_sub_queries_of_one_table_read_it_once(spark, warehouse, table, door):
    ask = spark.sql if door == "spark.sql" else warehouse.sql
    query = f"""
        SELECT (SELECT count(v) FROM plans.db.{table} WHERE x > 3),
               (SELECT max(x) FROM plans.db.{table} WHERE x > 3),
               (SELECT min(k + p) FROM plans.db.{table} WHERE x > 3)"""
    frame = ask(query)
    assert names(frame).count("ReusedSubqueryExec") == 2
    wanted = warehouse.table(f"db.{table}").where("x > 3")
    wanted = wanted.agg(F.count("v"), F.max("x"), F.expr("min(k + p)"))
    assert rows_of(frame) == rows_of(wanted)


def test_equal_rows_of_two_sides_are_exchanged_once(spark, warehouse):
    query = """
        WITH sums AS (SELECT /*+ BROADCAST(b) */ a.p, sum(a.x) AS x
          FROM plans.db.keyed a JOIN plans.db.files b ON a.k = b.k AND b.v = 'v2' GROUP BY a.p)
        SELECT p FROM sums one WHERE x > (SELECT avg(x) FROM sums two WHERE two.p = one.p + 1)"""
    with settings(spark, adaptive__enabled="false"):
        frame = spark.sql(query)
        assert "ReusedExchangeExec" in names(frame)
        with without_rule(spark):
            wanted = rows_of(spark.sql(query))
        assert rows_of(frame) == wanted


def test_a_table_of_which_no_file_fits_is_empty_to_spark(spark, warehouse):
    none = "SELECT k FROM plans.db.files WHERE p = 99"
    assert spark.sql(none).collect() == []
    assert V1 not in names(spark.sql(none))
    frame = spark.sql(f"SELECT a.k FROM plans.db.keyed a LEFT JOIN ({none}) b USING (k)")
    assert "SortMergeJoinExec" not in names(frame)
    assert rows_of(frame) == rows_of(spark.sql("SELECT k FROM plans.db.keyed"))


def test_a_planned_frame_reads_the_snapshot_of_its_planning(spark, warehouse):
    warehouse.sql("CREATE TABLE db.kept WITH ('bucket' = '-1') AS SELECT id FROM range(5)")
    frame = spark.table("plans.db.kept").where("id >= 0")
    assert V1 not in names(frame)  # it is planned now
    spark.sql("INSERT INTO plans.db.kept SELECT id + 100 FROM plans.db.kept")
    assert rows_of(frame) == [(n,) for n in range(5)]
    assert len(rows_of(spark.table("plans.db.kept"))) == 10
    spark.sql("INSERT OVERWRITE plans.db.kept SELECT max(id) FROM plans.db.kept")
    assert rows_of(spark.table("plans.db.kept")) == [(104,)]


def test_a_table_that_is_dropped_before_its_plan_is_made(spark, warehouse):
    for plan_first in (False, True):
        warehouse.sql("CREATE TABLE db.lost WITH ('bucket' = '-1') AS SELECT id FROM range(5)")
        frame = spark.table("plans.db.lost").where("id > 1")
        if plan_first:
            assert V1 not in names(frame)
        warehouse.sql("DROP TABLE db.lost")
        with pytest.raises(Exception, match="lost") as caught:
            frame.collect()
        assert "Traceback" not in str(caught.value)


def test_cached_rows_are_those_of_our_plan(spark, warehouse):
    spark.sql("CACHE TABLE plans.db.changed")
    try:
        frame = spark.sql("SELECT k, `New` FROM plans.db.changed WHERE k < 3")
        assert rows_of(frame) == [(1, "a"), (2, "b")]
        assert "InMemoryTableScanExec" in names(frame)
    finally:
        spark.sql("UNCACHE TABLE plans.db.changed")
    view = "CREATE OR REPLACE TEMPORARY VIEW few AS SELECT k AS n FROM plans.db.changed WHERE k > 1"
    spark.sql(view)
    frame = spark.sql("SELECT a.n FROM few a JOIN few b ON a.n = b.n + 1")
    assert rows_of(frame) == [(3,)]
    assert V1 not in names(frame)


def test_a_stream_joined_with_a_table_scans_it_natively(spark, warehouse, tmp_path):
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 4).load()
    joined = stream.join(spark.table("plans.db.files"), stream.value == F.col("k"), "left")
    seen = []

    def take(batch, _number):
        seen.append(sorted(row.v for row in batch.select("v").collect()))

    query = (
        joined.writeStream.foreachBatch(take)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(60)
    assert seen[0] == ["v0", "v1", "v2", "v3"]
    assert query.lastProgress["numInputRows"] == 4
    plan = query._jsq.streamingQuery().lastExecution().executedPlan().toString()
    assert "FileScan parquet plans.db.files" in plan


def test_python_functions_stand_above_our_plans(spark, warehouse):
    twice = F.udf(lambda k: k * 2, "bigint")
    frame = spark.table("plans.db.files").where(twice("k") > 390).select("k", twice("k"))
    assert rows_of(frame) == [(k, 2 * k) for k in range(196, 200)]
    assert V1 not in names(frame)


def test_the_rule_is_added_once_and_others_stay(spark, warehouse, tmp_path):
    methods = spark._jsparkSession.experimental()
    tidelake.spark.attach(spark, tmp_path, catalog="plans_too")
    rules = methods.extraOptimizations()
    own = [rules.apply(i).getClass().getName() for i in range(rules.size())]
    assert own.count(RULE) == 1
    assert spark.newSession()._jsparkSession.experimental().extraOptimizations().size() == 0
