"""Plain ``spark.sql``, ``spark.table`` and ``frame.writeTo`` on tables of a warehouse."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import (
    AnalysisException,
    IllegalArgumentException,
    UnsupportedOperationException,
)
from pyspark.sql.types import LongType, StringType, StructField, StructType

import tidelake.spark
from tidelake import InvalidInputError
from tidelake.spark.callbacks import gateway
from tidelake.spark.catalog import (  # noqa: F401
    metadata_columns,
    table,
    table_catalog,
    writing,
)
from tidelake.spark.jvm import slower


@pytest.fixture(scope="module")
def warehouse(spark, tmp_path_factory):
    """Catalog ``here``, with table ``db.t``: 60 rows of two commits in two buckets."""
    lake = tidelake.spark.attach(spark, tmp_path_factory.mktemp("here"), catalog="here")
    rows = spark.range(60).selectExpr(
        "id AS k",
        "id % 3 AS p",
        "double(id) / 2 AS x",
        "concat('v', id) AS v",
        "date_add(DATE '2026-11-01', int(id)) AS d",
        "timestamp_seconds(1700000000 + id) AS at",
        "if(id % 7 = 0, null, decimal(id) / 4) AS m",
    )
    lake.create_table(
        "db.t", rows, primary_keys=["k", "p"], partition_keys=["p"], options={"bucket": 2}
    )
    lake.write(rows, "db.t")
    lake.write(rows.where("k < 10").withColumn("x", rows.x + 1000), "db.t")
    return lake


@pytest.fixture
def said(spark, warehouse):
    """Runs a statement and gives its rows as tuples, sorted."""

    def run(text):
        found = [tuple(row) for row in spark.sql(text).collect()]
        return sorted(found, key=lambda row: tuple(map(repr, row)))

    return run


@pytest.fixture
def made(spark, warehouse, said):
    """Database ``new`` for one test."""
    said("CREATE NAMESPACE here.new")
    yield said
    spark.sql("USE spark_catalog.default")
    said("DROP NAMESPACE here.new CASCADE")


def proxies(kind=gateway.Proxy):
    for one in kind.__subclasses__():
        yield one
        yield from proxies(one)


def test_every_method_of_the_interfaces_is_there(spark):
    """py4j knows no default methods: one that Spark calls and Python lacks breaks a query."""
    jvm = spark._jvm
    checked = 0
    for proxy in proxies():
        for name in getattr(getattr(proxy, "Java", None), "implements", ()):
            for method in jvm.java.lang.Class.forName(name).getMethods():
                if not jvm.java.lang.reflect.Modifier.isStatic(method.getModifiers()):
                    assert hasattr(proxy, method.getName()), f"{proxy.__name__}: {method}"
                    checked += 1
    assert checked > 100


@pytest.mark.parametrize("compiles", [True, False])
def test_metadata_columns_are_java_s_objects_where_spark_takes_the_class(
    spark, monkeypatch, compiles
):
    def refused(*_):
        raise Py4JError("no such compiler")

    if not compiles:
        monkeypatch.setattr(metadata_columns, "defined_class", refused)
    own = gateway.Gateway(spark)
    struct = StructType([StructField("__a", StringType()), StructField("__b", LongType())])
    monkeypatch.setattr(slower, "_SAID", set())
    with nullcontext() if compiles else pytest.warns(RuntimeWarning, match="milliseconds more"):
        made = metadata_columns.metadata_columns(own, struct)
    told = [(str(c.name()), str(c.dataType().sql()), bool(c.isNullable())) for c in made]
    assert told == [("__a", "STRING", True), ("__b", "BIGINT", True)]
    in_python = metadata_columns.LakeMetadataColumn
    kinds = [isinstance(c, in_python) or "Proxy" in c.getClass().getSimpleName() for c in made]
    assert kinds == [not compiles] * 2
    assert metadata_columns.metadata_columns(own, struct) is made


# ---- reads


@pytest.mark.share(2)
@pytest.mark.parametrize(
    "condition",
    [
        "k < 7",
        "p = 1 AND k >= 40",
        "x > 1003 OR k IN (3, 50, null)",
        "NOT (k > 3)",
        "NOT (m > 3 OR v = 'v9')",
        "m <=> null",
        "NOT (m <=> 2)",
        "m = 2.5",
        "v LIKE 'v1%' AND length(v) = 3",
        "d BETWEEN DATE '2026-11-05' AND DATE '2026-11-08'",
        "at < TIMESTAMP '2023-11-14 17:13:30'",
        "k + p > 55",
    ],
)
def test_filters_leave_sparks_rows(spark, warehouse, said, condition):
    expected = warehouse.table("db.t").where(condition).select("k", "x", "m").collect()
    assert said(f"SELECT k, x, m FROM here.db.t WHERE {condition}") == sorted(
        map(tuple, expected), key=lambda row: tuple(map(repr, row))
    )


def test_reads_after_spark_forgot_what_it_compiled(production_conf, spark, said):
    """Spark keeps the code of the last hundred queries, and names each class as every other."""
    query = "SELECT k, v FROM here.db.t WHERE k = 3"
    assert said(query) == [(3, "v3")]
    codegen = "org.apache.spark.sql.catalyst.expressions.codegen"
    java = spark.sparkContext._jvm
    compiler = getattr(java, f"{codegen}.CodeGenerator")
    none = getattr(java, "scala.collection.immutable.Map$").__getattr__("MODULE$").empty()
    for number in range(500):
        body = f'public java.lang.Object generate(Object[] given) {{ return "{number}"; }}'
        compiler.compile(getattr(java, f"{codegen}.CodeAndComment")(body, none))
    assert said(query) == [(3, "v3")]


def test_counts_by_metadata_where_no_file_is_merged(production_conf, spark, warehouse, said, made):
    made("CREATE TABLE here.new.t AS SELECT id FROM range(1000)")
    explained = spark.sql("EXPLAIN SELECT count(*) FROM here.new.t").collect()[0][0]
    assert "LocalTableScan" in explained
    assert said("SELECT count(*) FROM here.new.t") == [(1000,)]
    assert said("SELECT count(*) FROM here.new.t WHERE id >= 990") == [(10,)]
    assert said("SELECT count(*) FROM here.db.t") == [(60,)]  # merged
    assert said("SELECT count(*), p FROM here.db.t GROUP BY p") == [(20, 0), (20, 1), (20, 2)]
    assert said("SELECT 1 FROM here.db.t LIMIT 3") == [(1,)] * 3


def test_joins_and_subqueries(said):
    text = """
        SELECT a.k FROM here.db.t AS a JOIN here.db.t AS b ON a.k = b.k + 50
        WHERE b.x > (SELECT avg(x) FROM here.db.t WHERE k > 9) AND a.p IN (SELECT p FROM here.db.t)
    """
    assert said(text) == [(k,) for k in range(50, 60)]


def test_moments(spark, warehouse, said):
    assert said("SELECT max(x) FROM here.db.t VERSION AS OF 1") == [(29.5,)]
    assert said("SELECT max(x) FROM here.db.t VERSION AS OF 2") == [(1004.5,)]
    assert said("SELECT max(x) FROM here.db.t WITH ('scan.snapshot-id' = '1')") == [(29.5,)]
    second = warehouse.catalog.table("db.t").handle.snapshots.load(2).time_ms
    warehouse.catalog.table("db.t").tags.create("first", snapshot_id=1)
    assert said("SELECT max(x) FROM here.db.t VERSION AS OF 'first'") == [(29.5,)]
    at = f"timestamp_millis({second})"
    assert said(f"SELECT max(x) FROM here.db.t TIMESTAMP AS OF {at}") == [(1004.5,)]
    at = f"timestamp_millis({second - 1})"
    assert said(f"SELECT max(x) FROM here.db.t TIMESTAMP AS OF {at}") == [(29.5,)]


def test_system_tables(said):
    assert said("SELECT snapshot_id FROM here.db.`t$snapshots`") == [(1,), (2,)]
    assert said("SELECT rowkind, count(*) FROM here.db.`t$audit_log` GROUP BY 1") == [("+I", 60)]


def test_names_of_the_session(spark, warehouse, said, made):
    assert ("here",) in said("SHOW CATALOGS")
    assert said("SHOW NAMESPACES IN here") == [("db",), ("new",)]
    assert said("SHOW TABLES IN here.db") == [("db", "t", False)]
    spark.sql("USE here.db")
    assert said("SELECT count(k) FROM t") == [(60,)]
    assert spark.table("here.db.t").where("k = 5").select("v").first()[0] == "v5"
    assert spark.catalog.tableExists("here.db.t")
    assert not spark.catalog.tableExists("here.db.u")


# ---- definitions


def test_tables_get_other_names(spark, warehouse, made):
    made("CREATE TABLE here.new.a (k INT, v STRING) TBLPROPERTIES ('bucket' = '-1')")
    made("INSERT INTO here.new.a VALUES (1, 'x')")
    made("CACHE TABLE here.new.a")
    made("ALTER TABLE here.new.a RENAME TO b")  # a name alone stays in the database
    assert made("SELECT * FROM here.new.b") == [(1, "x")]
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        made("SELECT * FROM here.new.a")
    made("INSERT INTO here.new.b VALUES (2, 'y')")
    made("ALTER TABLE here.new.b RENAME TO new.c")
    made("ALTER TABLE here.new.c RENAME TO here.new.d")
    assert made("SELECT * FROM here.new.d") == [(1, "x"), (2, "y")]
    assert warehouse.sql("SELECT count(*) FROM new.d").first()[0] == 2
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        made("ALTER TABLE here.new.d RENAME TO db.t")
    warehouse.sql("ALTER TABLE new.d RENAME TO e")
    assert [row[1] for row in made("SHOW TABLES IN here.new")] == ["e"]


def test_creates_describes_alters_drops(spark, warehouse, made):
    made("""
        CREATE TABLE here.new.t (
            id bigint NOT NULL COMMENT 'the key', day string, x double,
            PRIMARY KEY (id, day) NOT ENFORCED
        ) USING tidelake PARTITIONED BY (day) COMMENT 'orders' TBLPROPERTIES ('bucket' = '2')
    """)
    schema = warehouse.catalog.table("new.t").table_schema
    assert schema.primary_keys == ("id", "day")
    assert schema.partition_keys == ("day",)
    assert schema.comment == "orders"
    assert schema.field("id").description == "the key"
    assert ("bucket", "2") in made("SHOW TBLPROPERTIES here.new.t")
    described = made("DESCRIBE EXTENDED here.new.t")
    assert ("id", "bigint", "the key") in described
    assert any("PRIMARY KEY" in row[1] for row in described)
    made("ALTER TABLE here.new.t ADD COLUMN n int COMMENT 'new' AFTER id")
    made("ALTER TABLE here.new.t ALTER COLUMN n TYPE bigint")
    made("ALTER TABLE here.new.t RENAME COLUMN n TO number")
    made("ALTER TABLE here.new.t DROP COLUMN x")
    made("ALTER TABLE here.new.t SET TBLPROPERTIES ('target-file-size' = '1 mb')")
    altered = warehouse.catalog.table("new.t").table_schema
    assert [str(f.type) for f in altered.fields] == [
        "BIGINT NOT NULL",
        "BIGINT",
        "STRING NOT NULL",
    ]
    assert altered.field_names[1] == "number"
    assert altered.options["target-file-size"] == "1 mb"
    made("ALTER TABLE here.new.t UNSET TBLPROPERTIES ('target-file-size')")
    assert "target-file-size" not in warehouse.catalog.table("new.t").table_schema.options
    made("DROP TABLE here.new.t")
    assert made("SHOW TABLES IN here.new") == []


# ---- writes


def test_inserts_and_overwrites(spark, warehouse, made):
    made("""
        CREATE TABLE here.new.t (k bigint, p string, v double, PRIMARY KEY (k, p) NOT ENFORCED)
        PARTITIONED BY (p) TBLPROPERTIES ('bucket' = '2')
    """)
    made("INSERT INTO here.new.t VALUES (1, 'a', 1.0), (2, 'b', 2.0), (1, 'a', 3.0)")
    assert made("SELECT * FROM here.new.t") == [(1, "a", 3.0), (2, "b", 2.0)]
    made("INSERT INTO here.new.t (p, k) SELECT 'c', 9")
    assert made("SELECT * FROM here.new.t WHERE p = 'c'") == [(9, "c", None)]
    made("INSERT OVERWRITE here.new.t PARTITION (p = 'a') SELECT 5, 5.0")
    assert made("SELECT k, p FROM here.new.t") == [(2, "b"), (5, "a"), (9, "c")]
    made("INSERT OVERWRITE here.new.t SELECT k + 1, p, v FROM here.new.t WHERE p = 'a'")
    assert made("SELECT k, p FROM here.new.t") == [(6, "a")]
    assert warehouse.catalog.table("new.t").latest_snapshot_id == 4  # one commit each
    made("TRUNCATE TABLE here.new.t")
    assert made("SELECT count(*) FROM here.new.t") == [(0,)]


def test_frames_write_by_name(spark, warehouse, made):
    frame = spark.range(10).selectExpr("id AS k", "string(id % 2) AS p")
    (
        frame.writeTo("here.new.t")
        .using("tidelake")
        .partitionedBy("p")
        .tableProperty("primary-key", "k,p")
        .tableProperty("bucket", "1")
        .create()
    )
    assert warehouse.catalog.table("new.t").primary_keys == ("k", "p")
    assert warehouse.catalog.table("new.t").partition_keys == ("p",)
    frame.selectExpr("p", "k + 5 AS k").writeTo("here.new.t").append()
    assert made("SELECT count(*), max(k) FROM here.new.t") == [(20, 14)]
    once = frame.writeTo("here.new.t").option("commit-user", "me").option("commit-identifier", "7")
    once.append()
    newest = warehouse.catalog.table("new.t").latest_snapshot_id
    frame.writeTo("here.new.t").option("commit-user", "me").option(
        "commit-identifier", "7"
    ).append()
    assert warehouse.catalog.table("new.t").latest_snapshot_id == newest
    spark.range(3).write.saveAsTable("here.new.s")
    spark.range(4).write.mode("append").saveAsTable("here.new.s")
    assert made("SELECT count(*) FROM here.new.s") == [(7,)]
    spark.range(2).writeTo("here.new.s").createOrReplace()
    assert made("SELECT count(*) FROM here.new.s") == [(2,)]


# ---- what is wrong


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("SELECT * FROM here.db.nope", AnalysisException, "TABLE_OR_VIEW_NOT_FOUND"),
        ("SELECT * FROM here.no.t", AnalysisException, "TABLE_OR_VIEW_NOT_FOUND"),
        ("SELECT nope FROM here.db.t", AnalysisException, "UNRESOLVED_COLUMN"),
        ("SELECT * FROM here.db.`t$snapshot`", IllegalArgumentException, "snapshots"),
        ("SELECT * FROM here.db.t VERSION AS OF 99", IllegalArgumentException, "snapshot 99"),
        ("SELECT * FROM here.db.t VERSION AS OF 'no'", IllegalArgumentException, "no tag 'no'"),
        ("SELECT * FROM here.db.t WITH ('bukcet' = '1')", IllegalArgumentException, "bucket"),
        ("CREATE TABLE here.db.t (a int)", AnalysisException, "TABLE_OR_VIEW_ALREADY_EXISTS"),
        ("CREATE TABLE here.no.t (a int)", AnalysisException, "SCHEMA_NOT_FOUND"),
        ("CREATE TABLE here.db.u (a int) USING orc", UnsupportedOperationException, "USING orc"),
        (
            "CREATE TABLE here.db.u (a timestamp) PARTITIONED BY (days(a))",
            UnsupportedOperationException,
            "partition by a column",
        ),
        (
            "CREATE TABLE here.db.u (a int) TBLPROPERTIES ('bukcet' = '1')",
            IllegalArgumentException,
            "Did you mean 'bucket'",
        ),
        ("CREATE NAMESPACE here.db", AnalysisException, "ALREADY_EXISTS"),
        ("DROP NAMESPACE here.db", AnalysisException, "NOT_EMPTY"),
        ("ALTER TABLE here.db.t DROP COLUMN k", UnsupportedOperationException, "'k'"),
        (
            "ALTER TABLE here.db.t SET TBLPROPERTIES ('bukcet' = '1')",
            UnsupportedOperationException,
            "Did you mean 'bucket'",
        ),
        (
            "ALTER TABLE here.db.t SET TBLPROPERTIES ('bucket' = 'two')",
            UnsupportedOperationException,
            "'bucket'",
        ),
        (
            "SELECT * FROM here.db.t CHANGES FROM VERSION 1 TO VERSION 22",
            IllegalArgumentException,
            "snapshot 22",
        ),
        (
            "INSERT INTO here.db.t (k, p) VALUES (1, null)",
            IllegalArgumentException,
            "'p'",
        ),
    ],
)
def test_what_is_wrong_is_told_without_a_java_stack(spark, warehouse, text, error, message):
    with pytest.raises(error) as caught:
        spark.sql(text).collect()
    assert message in str(caught.value)
    assert "\tat " not in str(caught.value)
    assert "Traceback" not in str(caught.value)


def test_each_session_attaches_for_itself(spark, warehouse, tmp_path):
    other = spark.newSession()
    with pytest.raises(AnalysisException):
        other.sql("SELECT count(*) FROM here.db.t").collect()
    tidelake.spark.attach(other, warehouse.catalog.warehouse, catalog="there")
    assert other.sql("SELECT count(*) FROM there.db.t").first()[0] == 60
    tidelake.spark.attach(other, tmp_path, catalog="aside", spark_sql=False)
    with pytest.raises(AnalysisException):
        other.sql("SHOW NAMESPACES IN aside").collect()
    with pytest.raises(InvalidInputError, match="another name"):
        tidelake.spark.attach(other, tmp_path, catalog="spark_catalog")
    other.conf.set("spark.sql.catalog.taken", "some.Catalog")
    with pytest.raises(InvalidInputError, match="another name"):
        tidelake.spark.attach(other, tmp_path, catalog="taken")


def test_what_a_foreach_batch_raises_stays_a_python_error(spark, warehouse, tmp_path):
    """Only errors of ours travel as Java exceptions, though the setting is the process's."""

    def fails(batch, _number):
        batch.sparkSession._jvm.java.lang.Integer.parseInt("no number")

    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    query = (
        stream.writeStream.foreachBatch(fails)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    with pytest.raises(Exception, match="no number") as caught:
        query.awaitTermination(60)
    assert "foreach_batch" in str(caught.value).lower() or "fails" in str(caught.value)


def test_overwrites_the_partitions_that_rows_come_for(spark, warehouse, made):
    made("""
        CREATE TABLE here.new.t (k bigint, p string, PRIMARY KEY (k, p) NOT ENFORCED)
        PARTITIONED BY (p) TBLPROPERTIES ('bucket' = '-1')
    """)
    made("INSERT INTO here.new.t VALUES (1, 'a'), (2, 'b')")
    rows = spark.range(10, 13).selectExpr("id AS k", "'b' AS p")
    rows.writeTo("here.new.t").overwritePartitions()
    assert made("SELECT * FROM here.new.t") == [(1, "a"), (10, "b"), (11, "b"), (12, "b")]
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        made("INSERT OVERWRITE here.new.t SELECT k + 1, p FROM here.new.t WHERE k = 1")
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert set(made("SELECT * FROM here.new.t")) == {(2, "a"), (10, "b"), (11, "b"), (12, "b")}


def test_a_table_is_replaced_by_a_whole_one_or_stays(spark, warehouse, made):
    made("""
        CREATE TABLE here.new.t (id bigint, PRIMARY KEY (id) NOT ENFORCED)
        TBLPROPERTIES ('bucket' = '1')
    """)
    made("INSERT INTO here.new.t SELECT id FROM range(5)")
    made("INSERT INTO here.new.t SELECT id + 3 FROM range(5)")
    for text in (
        "SELECT raise_error('no') AS id",
        "SELECT if(id < 6, id, raise_error('no')) AS id FROM here.new.t",
    ):
        with pytest.raises(Exception, match="no"):
            made(f"CREATE OR REPLACE TABLE here.new.t AS {text}")
        assert made("SELECT count(*), max(id) FROM here.new.t") == [(8, 7)]
    with pytest.raises(IllegalArgumentException, match="Did you mean 'bucket'"):
        made("CREATE OR REPLACE TABLE here.new.t (a int) TBLPROPERTIES ('bukcet' = '1')")
    assert made("SELECT count(*), max(id) FROM here.new.t") == [(8, 7)]
    spark.table("here.new.t").where("id > 5").write.mode("overwrite").saveAsTable("here.new.t")
    assert sorted(made("SELECT id FROM here.new.t")) == [(6,), (7,)]  # the query read the old one
    made("CREATE OR REPLACE TABLE here.new.t AS SELECT 1 AS a")
    assert made("SELECT * FROM here.new.t") == [(1,)]
    assert warehouse.catalog.list_tables("new") == ["t"]
    made("REPLACE TABLE here.new.t (b string)")
    assert warehouse.catalog.table("new.t").table_schema.field_names == ("b",)
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        made("REPLACE TABLE here.new.u (b string)")


def test_changes_of_each_commit_and_net(spark, warehouse, made):
    made("""
        CREATE TABLE here.new.t (k bigint, v string, PRIMARY KEY (k) NOT ENFORCED)
        TBLPROPERTIES ('bucket' = '1')
    """)
    made("INSERT INTO here.new.t VALUES (1, 'a'), (2, 'b')")
    made("INSERT INTO here.new.t VALUES (2, 'B'), (3, 'c')")
    warehouse.delete("new.t", "k = 1")
    changes = "SELECT _commit_version, _change_type, k, v FROM here.new.t CHANGES FROM VERSION"
    assert made(f"{changes} 2 TO VERSION 3") == [
        (2, "insert", 3, "c"),
        (2, "update_postimage", 2, "B"),
        (2, "update_preimage", 2, "b"),
        (3, "delete", 1, "a"),
    ]
    assert made(f"{changes} 1 TO VERSION 1") == [(1, "insert", 1, "a"), (1, "insert", 2, "b")]
    net = f"{changes} 1 TO VERSION 3 WITH (deduplicationMode = 'netChanges')"
    assert made(net) == [(3, "insert", 2, "B"), (3, "insert", 3, "c")]
    at = warehouse.catalog.table("new.t").handle.snapshots.load(3).time_ms
    times = "SELECT unix_millis(_commit_timestamp) FROM here.new.t CHANGES FROM VERSION 3"
    assert made(times) == [(at,)]


def test_procedures_are_called(spark, warehouse, made):
    made("CREATE TABLE here.new.c (k INT, v STRING) TBLPROPERTIES ('primary-key' = 'k')")
    made("INSERT INTO here.new.c VALUES (1, 'a')")
    made("INSERT INTO here.new.c VALUES (2, 'b')")
    assert made("CALL here.sys.create_tag(table => 'new.c', tag => 'first', snapshot => 1)")
    assert made("CALL here.sys.compact('new.c')") == [(True,)]
    spark.sql("USE here.new")
    assert made("CALL sys.rollback(`table` => 'here.new.c', version => 'first')")
    assert made("SELECT * FROM c") == [(1, "a")]
    assert "compact" in {value for row in made("SHOW PROCEDURES IN here.sys") for value in row[-1:]}
    for text, error, words in (
        ("CALL here.sys.compcat('new.c')", AnalysisException, "compcat"),
        ("CALL here.compact('new.c')", AnalysisException, "compact"),
        ("CALL here.sys.compact('new.gone')", IllegalArgumentException, "gone"),
        ("CALL here.sys.compact()", AnalysisException, "table"),
    ):
        with pytest.raises(error, match=words):
            spark.sql(text)


def test_frames_bring_columns_along_by_their_names(spark, warehouse, made):
    made("CREATE TABLE here.new.w (a INT, b STRING)")
    frame = spark.createDataFrame([("x", 1, 2.5)], "B string, a int, c double")
    frame.write.option("mergeSchema", "true").mode("append").saveAsTable("here.new.w")
    frame.withColumn("d", frame.a).writeTo("here.new.w").option("mergeSchema", "true").append()
    few = spark.createDataFrame([(3,)], "a int")  # what is left out is null
    few.write.option("write.merge-schema", "true").mode("append").saveAsTable("here.new.w")
    assert made("SELECT a, b, c, d FROM here.new.w") == [
        (1, "x", 2.5, 1),
        (1, "x", 2.5, None),
        (3, None, None, None),
    ]
    more = spark.createDataFrame([(1, "x", 2.5, 1, 1)], "a int, b string, c double, d int, e int")
    for write in (
        lambda: more.write.mode("append").saveAsTable("here.new.w"),
        lambda: more.write.option("mergeSchema", "true").insertInto("here.new.w"),  # by place
    ):
        with pytest.raises(AnalysisException):
            write()
    assert spark.table("here.new.w").count() == 3
    frame.write.option("mergeSchema", "true").saveAsTable("here.new.fresh")  # has all its columns
    with pytest.raises(IllegalArgumentException, match="unknown option 'mergeSchemas'"):
        frame.write.option("mergeSchemas", "true").saveAsTable("here.new.other")


def test_properties_of_ones_own_and_names_alike(spark, warehouse, made):
    made("CREATE TABLE here.new.p (a INT) TBLPROPERTIES ('team.contact' = 'ada', 'pii' = 'no')")
    made("ALTER TABLE here.new.p SET TBLPROPERTIES ('cost-center' = '7')")
    made("ALTER TABLE here.new.p UNSET TBLPROPERTIES ('pii')")
    shown = dict(made("SHOW TBLPROPERTIES here.new.p"))
    assert (shown["team.contact"], shown["cost-center"], "pii" in shown) == ("ada", "7", False)
    assert "'team.contact' = 'ada'" in made("SHOW CREATE TABLE here.new.p")[0][0]
    with pytest.raises(IllegalArgumentException, match="Did you mean 'write-only'"):
        made("CREATE TABLE here.new.q (a INT) TBLPROPERTIES ('write-onyl' = 'true')")
    with pytest.raises(AnalysisException, match="already exists"):
        made("ALTER TABLE here.new.p ADD COLUMN A INT")
    made("ALTER TABLE here.new.p DROP COLUMN IF EXISTS gone")


def test_an_option_that_promises_what_is_not_done_is_warned_of(spark, made, caplog):
    promise = "TBLPROPERTIES ('snapshot.clean-empty-directories' = 'true')"
    made(f"CREATE TABLE here.new.p (k INT) {promise}")
    made("CREATE TABLE here.new.q (k INT)")
    made("ALTER TABLE here.new.q SET " + promise)
    frame = spark.range(1).selectExpr("int(id) AS k")
    frame.writeTo("here.new.r").tableProperty("snapshot.clean-empty-directories", "true").create()
    warned = [r.getMessage() for r in caplog.records if "empty folders" in r.getMessage()]
    assert [text.partition(":")[0] for text in warned] == [
        "Table new.p", "Table new.q", "Table new.r"
    ]  # fmt: skip
    wrong = "TBLPROPERTIES ('partition.timestamp-formatter' = 'foo bar')"
    with pytest.raises(Exception, match="a format of times such as"):
        made(f"CREATE TABLE here.new.s (k INT) {wrong}")
