"""DELETE, UPDATE and MERGE by plain `spark.sql`, and `DataFrame.mergeInto`."""

from __future__ import annotations

import pytest
from proving import doors
from pyspark.errors import (
    AnalysisException,
    ArithmeticException,
    IllegalArgumentException,
    UnsupportedOperationException,
)
from pyspark.sql import functions as F

import tidelake.spark
from tidelake.errors import TidelakeError

KINDS = {
    "append": "",
    "keyed": "TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '2')",
    "vectors": "TBLPROPERTIES ('deletion-vectors.enabled' = 'true')",
    "partitioned": "PARTITIONED BY (p) TBLPROPERTIES ('primary-key' = 'k,p', 'bucket' = '1')",
}
COLUMNS = "k BIGINT, v STRING, p INT, s STRUCT<x: INT, y: STRING>"
T = "tidelake.default.t"


@pytest.fixture(params=list(KINDS))
def table(request, spark, lake):
    spark.sql(f"CREATE TABLE {T} ({COLUMNS}) {KINDS[request.param]}")
    rows = "id AS k, concat('v', id) AS v, CAST(id % 2 AS INT) AS p"
    nested = "named_struct('x', CAST(id AS INT), 'y', 'y') AS s"
    spark.sql(f"INSERT INTO {T} SELECT {rows}, {nested} FROM range(10)")
    return lake.catalog.table("default.t")


def rows(spark, columns="k, v"):
    return sorted(tuple(row) for row in spark.sql(f"SELECT {columns} FROM {T}").collect())


def snapshots(table):
    return table.handle.snapshots.latest().id


def test_a_statement_runs_once_in_one_commit_and_not_for_explain(spark, table):
    model = {k: f"v{k}" for k in range(10)}
    before = snapshots(table)
    shown = spark.sql(f"EXPLAIN DELETE FROM {T} WHERE k < 3").collect()[0][0]
    assert f"TidelakeDeleteFromTable {T}, rows that meet" in shown
    assert snapshots(table) == before
    done = spark.sql(f"DELETE FROM {T} WHERE k < 2 AND v <> 'v0'")
    del model[1]
    assert (done.collect(), done.count()) == ([], 0)
    assert snapshots(table) == before + 1
    spark.sql(f"UPDATE {T} AS x SET v = concat(x.v, '!'), s.x = x.k + 100 WHERE x.k = 5")
    assert snapshots(table) == before + 2
    model[5] = "v5!"
    spark.createDataFrame([(5, "five"), (20, "new")], "k long, v string").createOrReplaceTempView(
        "changed"
    )
    spark.sql(
        f"MERGE INTO {T} t USING changed c ON t.k = c.k"
        " WHEN MATCHED THEN UPDATE SET v = c.v"
        " WHEN NOT MATCHED THEN INSERT (k, v, p) VALUES (c.k, c.v, 0)"
        " WHEN NOT MATCHED BY SOURCE AND t.k = 9 THEN DELETE"
        " WHEN NOT MATCHED BY SOURCE AND t.k = 8 THEN UPDATE SET v = 'alone'"
    )
    assert snapshots(table) == before + 3
    model |= {5: "five", 20: "new", 8: "alone"}
    del model[9]
    assert rows(spark) == sorted(model.items())
    assert spark.sql(f"SELECT s.x, s.y FROM {T} WHERE k = 5").collect() == [(105, "y")]
    spark.sql(f"DELETE FROM {T}")
    assert rows(spark) == []


def test_sub_queries_views_parameters_and_ctes(spark, table):
    spark.range(3).createOrReplaceTempView("few")
    spark.sql(f"DELETE FROM {T} WHERE k IN (SELECT id FROM few WHERE id > 0)")
    spark.sql(f"DELETE FROM {T} AS x WHERE EXISTS (SELECT 1 FROM {T} y WHERE y.k = x.k + 7)")
    left = {0, 3, 4, 5, 6, 7, 8, 9} - {0}
    assert {k for k, _ in rows(spark)} == left
    spark.sql(
        f"UPDATE {T} SET v = (SELECT max(id) || '-' FROM range(20) r WHERE r.id < k) WHERE k = 4"
    )
    spark.sql(f"DELETE FROM {T} WHERE k = :gone OR v = :text", args={"gone": 9, "text": "v8"})
    spark.sql(f"DELETE FROM {T} WHERE k = ?", args=[7])
    spark.sql(f"WITH q AS (SELECT 6 AS z) DELETE FROM {T} WHERE k IN (SELECT z FROM q)")
    assert rows(spark) == [(3, "v3"), (4, "3-"), (5, "v5")]
    spark.sql(
        f"MERGE INTO {T} t USING (SELECT k, 'm' AS v, p, s FROM {T} WHERE k > 3) m ON t.k = m.k"
        " AND t.k IN (SELECT 5) WHEN MATCHED THEN UPDATE SET v = m.v"
    )
    assert rows(spark) == [(3, "v3"), (4, "3-"), (5, "m")]


def test_merge_into_of_a_data_frame(spark, table):
    source = spark.createDataFrame(
        [(3, "three", 1, (0, "z")), (40, "new", 0, (1, "z"))],
        "k long, v string, p int, s struct<x: int, y: string>",
    )
    on = F.expr("t.k = u.k AND t.p = u.p")
    merge = source.alias("u").mergeInto(T, on)
    merge.whenMatched(F.col("u.v") == "three").updateAll().whenNotMatched().insertAll().merge()
    assert [row for row in rows(spark, "k, v, s.y") if row[2] == "z"] == [
        (3, "three", "z"),
        (40, "new", "z"),
    ]


NESTED = "named_struct('x', CAST(1 AS {}), 'y', 'new', 'z', 0.5D) AS s"


@pytest.mark.parametrize("door", doors.DOORS)
def test_a_merge_may_bring_new_columns_and_wider_types(spark, lake, table, door):
    source = (
        "SELECT 3 AS k, 'three' AS v, 5000000000 AS p, 1 AS more, {} UNION ALL"
        " SELECT 30, 'new', 0, 2, {}"
    ).format(NESTED.format("INT"), NESTED.format("INT"))
    if "p" in table.partition_keys:
        source = source.replace("5000000000", "1")
    merge = "MERGE {} INTO t USING (" + source + ") u ON t.k = u.k AND {}"
    on = "t.p = u.p" if "p" in table.primary_keys else "true"
    clauses = " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    with pytest.raises(TidelakeError, match="more"):
        doors.run(lake, merge.format("", on) + " WHEN MATCHED THEN UPDATE SET more = u.more", door)
    assert lake.catalog.table("default.t").table_schema.id == 0
    doors.run(lake, merge.format("WITH SCHEMA EVOLUTION", on) + clauses, door)
    schema = lake.catalog.table("default.t").table_schema
    types = {f.name: str(f.type.as_nullable()) for f in schema.fields}
    assert types == {
        "k": "BIGINT",
        "v": "STRING",
        "p": "INT" if "p" in table.partition_keys else "BIGINT",
        "s": "ROW<`x` INT, `y` STRING, `z` DOUBLE>",
        "more": "INT",
    }
    found = rows(spark, "k, v, p, s.x, s.z, more")
    third = 1 if "p" in table.partition_keys else 5_000_000_000
    assert found[3] == (3, "three", third, 1, 0.5, 1)
    assert found[4] == (4, "v4", 0, 4, None, None)
    assert found[-1] == (30, "new", 0, 1, 0.5, 2)


@pytest.mark.parametrize("door", doors.DOORS)
def test_a_merge_that_only_inserts_may_bring_new_columns(spark, lake, table, door):
    source = f"SELECT 30 AS k, 'new' AS v, 0 AS p, 2 AS more, {NESTED.format('INT')}"
    merge = f"MERGE WITH SCHEMA EVOLUTION INTO t USING ({source}) u ON t.k = u.k AND t.p = u.p"
    doors.run(lake, f"{merge} WHEN NOT MATCHED THEN INSERT *", door)
    found = rows(spark, "k, v, p, s.x, s.z, more")
    assert found[4] == (4, "v4", 0, 4, None, None)
    assert found[-1] == (30, "new", 0, 1, 0.5, 2)


@pytest.fixture(scope="module")
def shop(spark, tmp_path_factory):
    lake = tidelake.spark.attach(spark, tmp_path_factory.mktemp("shop"), catalog="shop")
    spark.sql(f"CREATE TABLE shop.default.t ({COLUMNS})")
    spark.sql("INSERT INTO shop.default.t SELECT 3, 'a', 0, named_struct('x', 1, 'y', 'y')")
    spark.sql("CREATE TEMPORARY VIEW ours AS SELECT * FROM shop.default.t")
    spark.sql("CREATE TABLE spark_catalog.default.other (k INT) USING parquet")
    yield lake
    spark.sql("DROP TABLE spark_catalog.default.other")
    spark.sql("DROP VIEW ours")


REFUSED = [
    ("DELETE FROM {t} WHERE rand() > 2", AnalysisException, "NON_DETERMINISTIC"),
    ("DELETE FROM {t} WHERE nothing = 2", AnalysisException, "`nothing` cannot be resolved"),
    ("UPDATE {t} SET v = 'a', v = 'b'", IllegalArgumentException, "Column 'v' is set twice."),
    (
        "UPDATE {t} SET p = v",
        IllegalArgumentException,
        "'p' of table 'default.t' is INT, but the value is string",
    ),
    ("UPDATE {t} SET p = k * 1000000000000", IllegalArgumentException, "(?s)'p'.*default.t"),
    ("UPDATE {t} SET s.x = 1 / p", IllegalArgumentException, "(?s)'s' of table.*by zero"),
    ("UPDATE {t} SET s.x = 1 / 0", ArithmeticException, "by zero"),
    (
        "MERGE INTO {t} t USING (SELECT 3L AS k UNION ALL SELECT 3L) c ON t.k = c.k"
        " WHEN MATCHED THEN UPDATE SET v = 'x'",
        IllegalArgumentException,
        "2 rows of the source match one row of table 'default.t'",
    ),
    (
        "MERGE WITH SCHEMA EVOLUTION INTO {t} t USING (SELECT k, v AS p FROM {t}) c"
        " ON t.k = c.k WHEN MATCHED THEN UPDATE SET *",
        IllegalArgumentException,
        "'p' of table 'default.t' is INT, but the value is string",
    ),
    ("DELETE FROM {t}$snapshots WHERE true", IllegalArgumentException, "is a system table"),
    ("DELETE FROM few WHERE true", UnsupportedOperationException, "is a view or a query"),
    (
        "DELETE FROM ours WHERE k = 3",
        UnsupportedOperationException,
        "name the table 'shop.default.t",
    ),
    ("UPDATE ours SET v = 'x'", UnsupportedOperationException, "is a view or a query"),
    (
        "MERGE INTO ours USING few ON ours.k = few.id WHEN MATCHED THEN DELETE",
        UnsupportedOperationException,
        "is a view or a query",
    ),
    ("UPDATE few SET id = 1", UnsupportedOperationException, "does not support UPDATE"),
    ("DELETE FROM {t} WHERE k", IllegalArgumentException, "is not a boolean"),
    (
        "UPDATE {t} SET v = 'x' WHERE k = (SELECT id FROM few)",
        IllegalArgumentException,
        "More than one row returned by a subquery",
    ),
    (
        "MERGE INTO {t} t USING few ON t.k = few.id AND rand() > 2 WHEN MATCHED THEN DELETE",
        AnalysisException,
        "NON_DETERMINISTIC",
    ),
    ("DELETE FROM other WHERE k = 1", AnalysisException, "`other` does not support DELETE"),
    ("UPDATE other SET k = 1", UnsupportedOperationException, "`other` does not support UPDATE"),
    (
        "MERGE INTO other USING few ON other.k = few.id WHEN MATCHED THEN DELETE",
        UnsupportedOperationException,
        "`other` does not support MERGE",
    ),
]


@pytest.mark.parametrize(("text", "error", "message"), REFUSED)
def test_what_is_refused_says_so_without_a_java_stack(spark, shop, text, error, message):
    spark.range(3).createOrReplaceTempView("few")
    table = shop.catalog.table("default.t")
    before = snapshots(table)
    text = text.replace("{t}$snapshots", "shop.default.`t$snapshots`").format(t="shop.default.t")
    with pytest.raises(error, match=message) as caught:
        spark.sql(text)
    assert "\tat " not in str(caught.value)
    assert "_tidelake_" not in str(caught.value)
    assert snapshots(table) == before


SEVERAL_ROWS = [
    "UPDATE t SET v = (SELECT k FROM many)",
    "UPDATE t SET v = 'x' WHERE k = (SELECT k FROM many)",
    "DELETE FROM t WHERE k = (SELECT k FROM many)",
    "INSERT INTO t SELECT (SELECT k FROM many), 'x'",
    "CREATE TABLE u AS SELECT (SELECT k FROM many) AS k",
    "MERGE INTO t USING (SELECT 1 AS k) s ON t.k = s.k"
    " WHEN MATCHED THEN UPDATE SET v = (SELECT k FROM many)",
]


@pytest.mark.parametrize("door", doors.DOORS)
def test_a_sub_query_of_several_rows_is_refused_by_both_doors(spark, lake, door):
    lake.sql("CREATE TABLE t (k INT, v STRING); INSERT INTO t VALUES (1, 'a')")
    lake.sql("CREATE TABLE many (k INT); INSERT INTO many VALUES (1), (2)")
    for text in SEVERAL_ROWS:
        with pytest.raises(TidelakeError, match="More than one row returned by a subquery") as said:
            doors.run(lake, text, door)
        assert "\tat " not in str(said.value)
    assert rows(spark, "k, v") == [(1, "a")]
    assert lake.catalog.list_tables("default") == ["many", "t"]


def test_a_key_cannot_be_updated(spark, lake):
    spark.sql(f"CREATE TABLE {T} (k BIGINT, v STRING) {KINDS['keyed']}")
    with pytest.raises(IllegalArgumentException, match="primary key"):
        spark.sql(f"UPDATE {T} SET k = 3")
    with pytest.raises(IllegalArgumentException, match="cannot change keys"):
        spark.sql(
            f"MERGE INTO {T} t USING (SELECT 1L AS k) c ON t.k = c.k"
            " WHEN MATCHED THEN UPDATE SET k = c.k + 1"
        )


DEFAULTS = "k BIGINT, n INT DEFAULT 3, v STRING DEFAULT 'it''s', r DECIMAL(4, 1) NOT NULL DEFAULT 8"
"""`r` is NOT NULL: a null that is written would be refused."""


@pytest.mark.parametrize("kind", ["append", "keyed"])
def test_default_is_the_columns_default(spark, lake, kind):
    options = {"append": "", "keyed": "WITH ('primary-key' = 'k', 'bucket' = '1')"}[kind]
    lake.sql(f"CREATE TABLE t ({DEFAULTS}) {options}")
    spark.sql(f"INSERT INTO {T} VALUES (1, DEFAULT, DEFAULT, DEFAULT), (2, 5, NULL, 6)")
    spark.sql(f"INSERT INTO {T} (k, v) VALUES (3, DEFAULT)")
    first = [(1, 3, "it's", 8), (2, 5, "it's", 6), (3, 3, "it's", 8)]
    assert rows(spark, "k, n, v, CAST(r AS INT)") == first
    spark.sql(f"INSERT INTO {T} VALUES (4, 5, 'a', 6), (5, 5, 'a', 6), (6, 5, 'a', 6)")
    spark.sql(f"UPDATE {T} SET n = DEFAULT, v = DEFAULT, r = DEFAULT WHERE k = 4")
    spark.sql(
        f"MERGE INTO {T} t USING (SELECT 5L AS k UNION ALL SELECT 7L) s ON t.k = s.k"
        " WHEN MATCHED THEN UPDATE SET n = DEFAULT, r = DEFAULT"
        " WHEN NOT MATCHED THEN INSERT (k, n, v, r) VALUES (s.k, 1, DEFAULT, DEFAULT)"
    )
    spark.sql(f"UPDATE {T} SET v = NULL WHERE k = 6")
    assert rows(spark, "k, n, v, CAST(r AS INT)") == [
        *first,
        (4, 3, "it's", 8),
        (5, 3, "a", 8),
        (6, 5, None, 6),
        (7, 1, "it's", 8),
    ]


def test_a_default_is_of_new_rows_and_is_not_copied(spark, lake):
    lake.sql("CREATE TABLE t (k BIGINT)")
    spark.sql(f"INSERT INTO {T} VALUES (1)")
    lake.sql("ALTER TABLE t ADD COLUMN n INT DEFAULT 3")
    lake.sql("ALTER TABLE t ADD COLUMN at TIMESTAMP DEFAULT '2026-11-30 10:00:00'")
    spark.sql(f"INSERT INTO {T} (k) VALUES (2)")
    lake.sql("INSERT INTO t (k) VALUES (3)")  # a time is in the machine's zone by either door
    old, by_spark, by_us = rows(spark, "k, n, at")
    assert old == (1, None, None)
    assert by_spark[1:] == by_us[1:]
    assert by_spark[1] == 3
    assert by_spark[2] is not None
    spark.sql(f"CREATE TABLE tidelake.default.c AS SELECT * FROM {T}")
    copied = lake.catalog.table("default.c").table_schema.fields
    assert [f.default_value for f in copied] == [None, None, None]
