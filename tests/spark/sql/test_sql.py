"""Statements on Spark: what queries read and answer, what INSERT writes, what is refused."""

import logging
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from threading import Barrier, Event, Thread
from zoneinfo import ZoneInfo

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.logger import PySparkLogger
from sizes import FULL, SIZE

import tidelake.spark
from tidelake.catalog.staging import STAGING_DIRECTORY
from tidelake.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NotFoundError,
    TidelakeError,
    UnsupportedError,
)
from tidelake.maintenance.procedures import PROCEDURES
from tidelake.spark.errors.analysis_errors import translate_analysis_errors
from tidelake.spark.sql.table_sources import TableSources
from tidelake.sql.parser.parse import parse
from tidelake.sql.syntax.ast import NamedQuery

OF_TABLES = [name for name, one in PROCEDURES.items() if one.parameters[0].name == "table"]
"""Procedures whose first argument is a table; the others are of databases, views and jobs."""


def rows(lake, text, args=None):
    return [tuple(row) for row in lake.sql(text, args).collect()]


@pytest.fixture(scope="module")
def shop(spark, tmp_path_factory):
    """Orders (two runs to be merged) and items, for tests that leave them as they are."""
    lake = tidelake.spark.attach(spark, tmp_path_factory.mktemp("shop"))
    lake.sql(
        "CREATE TABLE orders (id INT, item STRING, price DOUBLE, day DATE,"
        " PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1')"
    )
    lake.sql("CREATE TABLE items (item STRING, kind STRING, id INT)")
    lake.sql(
        "INSERT INTO orders VALUES (1, 'tea', 3.5, DATE '2026-01-01'),"
        " (2, 'rye', 4, DATE '2026-01-02'), (3, 'nut', 5, DATE '2026-01-02')"
    )
    lake.sql("INSERT INTO orders VALUES (2, 'tea', 9, DATE '2026-01-03')")
    lake.sql("INSERT INTO items VALUES ('tea', 'drink', 7), ('rye', 'bread', 8)")
    return lake


@pytest.mark.share(2)
@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (
            "SELECT o.id, i.kind FROM orders o LEFT JOIN items i ON o.item = i.item AND i.kind ="
            " 'drink' ORDER BY o.id",
            [(1, "drink"), (2, "drink"), (3, None)],
        ),
        (
            "SELECT o.id FROM orders o LEFT JOIN items i ON o.item = i.item WHERE i.id IS NULL",
            [(3,)],
        ),
        (
            "SELECT i.id, o.id FROM orders o RIGHT JOIN items i USING (item) WHERE o.id IS NULL",
            [(8, None)],
        ),
        ("WITH orders AS (SELECT 5 AS id) SELECT id FROM orders", [(5,)]),
        (
            "WITH a AS (SELECT * FROM orders WHERE price > 4) SELECT count(*), max(a.id) FROM a",
            [(2, 3)],
        ),
        ("SELECT sum(price) FROM orders WHERE day > '2026-01-01' AND day < '2026-01-03'", [(5.0,)]),
        ("SELECT id FROM orders WHERE item IN (SELECT item FROM items) ORDER BY 1", [(1,), (2,)]),
        (
            "SELECT o.id FROM orders o WHERE NOT EXISTS (SELECT 1 FROM items WHERE items.item ="
            " o.item)",
            [(3,)],
        ),
        ("SELECT id FROM orders UNION SELECT id FROM items ORDER BY id DESC LIMIT 2", [(8,), (7,)]),
        ("SELECT count(*) FROM orders, items", [(6,)]),
        ("SELECT count(*) FROM orders", [(3,)]),
        ("SELECT count(*) AS n FROM items", [(2,)]),
        ("SELECT id FROM orders WHERE item NOT LIKE 't%'", [(3,)]),
        ("SELECT ID FROM ORDERS".replace("ORDERS", "orders") + " WHERE Price = 3.5", [(1,)]),
        ("SELECT orders.id FROM default.orders WHERE default.orders.id = 1", [(1,)]),
        ("SELECT tidelake.default.orders.id FROM tidelake.default.orders LIMIT 0", []),
        ("SELECT '{\"a\": {}}' AS j FROM orders WHERE id = 1", [('{"a": {}}',)]),
        ("SELECT max(id) FROM orders VERSION AS OF 1 WHERE item = 'rye'", [(2,)]),
        ("SELECT price FROM orders /*+ OPTIONS('scan.snapshot-id'='1') */ WHERE id = 2", [(4.0,)]),
        ("SELECT a.price, b.price FROM orders VERSION AS OF 1 a JOIN orders b USING (id) WHERE"
         " a.price <> b.price", [(4.0, 9.0)]),
        ("SELECT snapshot_id FROM orders$snapshots WHERE commit_kind = 'APPEND' ORDER BY 1",
         [(1,), (2,)]),
        ("SELECT count(DISTINCT f.file_path) FROM `orders$files` f", [(2,)]),
        ("SELECT rowkind, id FROM orders$audit_log WHERE id = 3", [("+I", 3)]),
        ("SELECT count(*) FROM orders$files VERSION AS OF 1", [(1,)]),
        ("SELECT item FROM paimon_incremental_query('orders', 1, 2)", [("tea",)]),
        ("SELECT o.id FROM orders TABLESAMPLE (100 PERCENT) AS o WHERE o.id = 3", [(3,)]),
        ("FROM orders SELECT id WHERE id = 1", [(1,)]),
        ("SELECT x.n FROM orders AS x(n, b, c, d) WHERE x.n = 3", [(3,)]),
        ("SELECT CAST('2026-01-01 10:00:00' AS TIMESTAMP(3)) = TIMESTAMP_NTZ '2026-01-01 10:00:00'",
         [(True,)]),
        ("SELECT e.w FROM orders LATERAL VIEW explode(split(item, 'e')) e AS w WHERE id = 1"
         " ORDER BY w", [("a",), ("t",)]),
    ],
)  # fmt: skip
def test_queries(shop, text, answer):
    assert rows(shop, text) == answer


def test_parameters(shop):
    assert rows(
        shop, "SELECT id FROM orders WHERE item = :item AND price > 4", {"item": "tea"}
    ) == [(2,)]
    assert rows(shop, "SELECT id FROM orders WHERE item = ?", ["nut"]) == [(3,)]


def bytes_read(spark):
    """Bytes that Spark's process has read, of files and else."""
    pid = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
    counters = Path(f"/proc/{pid}/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in counters)["rchar"])


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="reads are counted by Linux")
def test_a_query_reads_the_columns_and_files_that_it_needs(lake, spark):
    lake.sql("CREATE TABLE wide (id BIGINT, day INT, a STRING, b STRING) PARTITIONED BY (day)")
    text = "sha2(CAST(id AS STRING), 512)"
    lake.sql(
        f"INSERT INTO wide SELECT id, CAST(id % 4 AS INT), {text}, reverse({text})"
        " FROM range(40000)"
    )

    def cost(query):
        def once():
            frame = lake.sql(query)
            before = bytes_read(spark)
            frame.collect()
            return bytes_read(spark) - before

        return min(once() for _ in range(3))  # classes are loaded too

    everything = cost("SELECT max(a), max(b), max(id) FROM wide")
    assert cost("SELECT max(id) FROM wide") < everything / 10
    assert cost("SELECT max(a) FROM wide") < everything * 0.6
    assert cost("SELECT max(a), max(b) FROM wide WHERE day = 2") < everything * 0.3
    in_a_join = (
        "SELECT max(x.id), max(y.a) FROM wide x JOIN wide y ON x.id = y.id"
        " WHERE x.day = 1 AND y.day = 1"
    )
    assert cost(in_a_join) < everything * 0.3
    assert cost("SELECT count(*) FROM wide") < everything / 20  # the metadata tells it
    (plan,) = lake.sql("EXPLAIN SELECT id FROM wide WHERE day = 1").collect()[0]
    assert "ReadSchema: struct<id:bigint" in plan


def test_what_is_merged_in_python_has_the_needed_columns_alone(shop):
    query = "EXPLAIN SELECT item FROM orders /*+ OPTIONS('read.mask-cache-size' = '0') */"
    (plan,) = shop.sql(f"{query} WHERE id = 2").collect()[0]
    (merged,) = [line for line in plan.splitlines() if "MapInArrow" in line]
    assert "item" in merged
    assert "price" not in merged


def test_views_of_spark_and_of_ours_stand_beside_tables(shop, spark):
    spark.range(2, 4).createOrReplaceTempView("wanted")
    spark.sql("SELECT 1 AS id").createOrReplaceTempView("items")  # hides the table
    try:
        assert rows(shop, "SELECT o.id FROM orders o JOIN wanted w ON o.id = w.id ORDER BY 1") == [
            (2,),
            (3,),
        ]
        assert rows(shop, "SELECT * FROM items") == [(1,)]
        assert rows(shop, "SELECT count(*) FROM default.items") == [(2,)]
    finally:
        spark.catalog.dropTempView("wanted")
        spark.catalog.dropTempView("items")
    shop.sql("CREATE TEMPORARY VIEW dear (n, what) AS SELECT id, item FROM orders WHERE price > 4")
    shop.sql("CREATE TEMPORARY VIEW dearest AS SELECT max(n) AS n FROM dear")
    assert rows(shop, "SELECT what FROM dear d JOIN dearest e ON d.n = e.n") == [("nut",)]
    shop.sql("CREATE DATABASE other; USE other")
    assert rows(shop, "SELECT n FROM dearest") == [(3,)]  # a view knows where its tables were
    shop.sql("USE default")
    with pytest.raises(AlreadyExistsError):
        shop.sql("CREATE TEMPORARY VIEW dear AS SELECT 1")
    with pytest.raises(InvalidInputError, match="lists 1 column, but its query has 2"):
        shop.sql("CREATE TEMPORARY VIEW v (a) AS SELECT 1, 2")
    with pytest.raises(NotFoundError):
        shop.sql("CREATE TEMPORARY VIEW v AS SELECT * FROM nowhere")


def test_a_view_sees_its_own_database_and_no_with_around_it(lake, monkeypatch):
    lake.sql("CREATE TABLE t (a INT); CREATE TABLE s (a INT); INSERT INTO t VALUES (4)")
    lake.sql("CREATE TEMPORARY VIEW v AS SELECT a FROM t; INSERT INTO s VALUES (4), (7)")
    lake.sql("WITH t AS (SELECT 7 AS a) DELETE FROM s WHERE a IN (SELECT a FROM v)")
    assert rows(lake, "SELECT a FROM s") == [(7,)]
    lake.sql("CREATE DATABASE other; USE other")
    own, current = TableSources.of_table, []

    def of_table(*given, **also):
        current.append(lake._statements.session.database)  # what another thread would meet
        return own(*given, **also)

    monkeypatch.setattr(TableSources, "of_table", of_table)
    assert rows(lake, "SELECT a FROM v") == [(4,)]
    assert current == ["other"]


def test_threads_name_queries_for_themselves(lake):
    entered = Barrier(2, timeout=60)

    def named(number):
        with lake._statements.queries.with_scope() as name:
            name(NamedQuery("x", (), parse(f"SELECT {number} AS n")[0]))
            entered.wait()
            return rows(lake, "SELECT n FROM x")

    assert rows(lake, "SELECT 1") == [(1,)]  # makes ready what statements share
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(named, (1, 2))) == [[(1,)], [(2,)]]


def test_a_view_shows_its_tables_as_they_are(lake):
    lake.sql("CREATE TABLE t (a INT); CREATE TEMPORARY VIEW v AS SELECT max(a) AS m FROM t")
    assert rows(lake, "SELECT m FROM v") == [(None,)]
    lake.sql("INSERT INTO t VALUES (4)")
    assert rows(lake, "SELECT m FROM v") == [(4,)]


def test_a_time_without_a_zone_is_in_the_sessions(shop):
    when = shop.catalog.table("default.orders").history().column("commit_time")[0].as_py()
    local = when.astimezone(ZoneInfo("America/New_York"))
    query = "SELECT count(id) FROM orders TIMESTAMP AS OF '{}' WHERE price = 4"
    utc = when.replace(tzinfo=None)
    assert rows(shop, query.format(local.replace(tzinfo=None))) == [(1,)]
    assert rows(shop, query.format(f"{utc}+00:00")) == [(1,)]
    assert rows(shop, query.format(f"{utc + timedelta(hours=8)} +08:00")) == [(1,)]
    at_ms = round(when.timestamp() * 1000)
    assert rows(shop, query.format(at_ms)) == [(1,)]
    assert rows(shop, query.format(at_ms).replace("'", "")) == [(1,)]
    seconds = f"{at_ms // 1000}.{at_ms % 1000:03}"
    assert rows(shop, query.format(seconds).replace(f"'{seconds}'", seconds)) == [(1,)]
    hint = "SELECT count(id) FROM orders /*+ OPTIONS('{}' = '{}') */ WHERE price = 4"
    for time in (local.replace(tzinfo=None), f"{utc} UTC", at_ms):
        assert rows(shop, hint.format("scan.timestamp", time)) == [(1,)]
    later = shop.catalog.table("default.orders").history().column("commit_time")[1].as_py()
    until = later.astimezone(ZoneInfo("America/New_York")).replace(tzinfo=None)
    between = "SELECT item FROM orders /*+ OPTIONS('incremental-between-timestamp' = '{},{}') */"
    assert rows(shop, between.format(at_ms, until)) == [("tea",)]
    function = "SELECT item FROM paimon_incremental_between_timestamp('orders', '{}', {})"
    assert rows(shop, function.format(local.replace(tzinfo=None), f"'{until}'")) == [("tea",)]
    assert rows(shop, function.format(at_ms, round(later.timestamp() * 1000))) == [("tea",)]
    naive = local.replace(tzinfo=None)
    moments = ({"timestamp": naive}, {"timestamp": str(naive)}, {})
    for moment in (*moments, {"options": {"scan.timestamp": str(naive)}}):
        read = shop.table("default.orders", **moment).where("price = 4").count()
        assert read == (1 if moment else 0), moment
    changed = shop.changes("default.orders", naive, str(until)).collect()
    assert changed == shop.changes("default.orders", when, later).collect()
    assert len(changed) == 2
    back = f"CALL sys.rollback_to_timestamp('orders', '{naive}', true)"
    assert rows(shop, back)[0][1:] == (1,)


def test_tables_of_one_name_in_two_databases(lake):
    lake.sql("CREATE DATABASE a; CREATE DATABASE b")
    lake.sql("CREATE TABLE a.t (id INT, n INT); CREATE TABLE b.t (id INT, n INT)")
    lake.sql("INSERT INTO a.t VALUES (1, 10), (2, 20); INSERT INTO b.t VALUES (2, 200), (3, 300)")
    assert rows(lake, "SELECT a.t.n, b.t.n FROM a.t JOIN b.t ON a.t.id = b.t.id") == [(20, 200)]
    assert rows(lake, "SELECT b.t.* FROM a.t JOIN b.t USING (id)") == [(2, 200)]
    hidden = "SELECT id FROM a.t WHERE NOT EXISTS (SELECT 1 FROM b.t WHERE b.t.id = a.t.id)"
    assert rows(lake, hidden) == [(1,)]
    with pytest.raises(InvalidInputError, match=r"'t' is ambiguous .*a\.t, b\.t"):
        lake.sql("SELECT t.id FROM a.t, b.t")
    with pytest.raises(InvalidInputError, match=r"no column `a\.t`\.`m`\. There are: id, n\."):
        lake.sql("SELECT a.t.m FROM a.t, b.t")


def test_files_and_temporary_tables_of_a_database(lake, spark, tmp_path):
    spark.range(3).write.parquet(str(tmp_path / "some files"))
    path = f"parquet.`{tmp_path}/some files`"
    assert rows(lake, f"SELECT max(id) FROM {path}") == [(2,)]
    lake.sql(f"CREATE TABLE t (id BIGINT); INSERT INTO t SELECT id FROM {path} WHERE id > 0")
    assert rows(lake, f"SELECT p.id FROM {path} p LEFT JOIN t USING (id) WHERE t.id IS NULL") == [
        (0,)
    ]
    lake.sql("CREATE DATABASE shop")
    lake.sql(
        "CREATE TEMPORARY TABLE shop.t (id BIGINT) WITH ('connector' = 'paimon',"
        f" 'path' = '{tmp_path}/t', 'auto-create' = 'true')"
    )
    lake.sql("INSERT INTO shop.t VALUES (7)")
    assert rows(lake, "SELECT shop.t.id FROM shop.t") == [(7,)]
    assert rows(lake, "SELECT count(*) FROM t") == [(2,)]


def test_insert_into_columns_and_partitions(lake):
    lake.sql(
        "CREATE TABLE p (id INT, dt STRING, h INT, v STRING DEFAULT 'none') PARTITIONED BY (dt, h)"
    )
    lake.sql("INSERT INTO p PARTITION (dt='a', h) SELECT 1, 5, 'x' UNION ALL SELECT 2, 6, 'y'")
    lake.sql("INSERT INTO p (h, id, dt) VALUES (7, 3, 'b')")
    lake.sql("INSERT INTO p BY NAME SELECT 8 AS h, 'c' AS dt, 4 AS id")
    every = "SELECT id, dt, h, v FROM p ORDER BY id"
    assert rows(lake, every) == [
        (1, "a", 5, "x"),
        (2, "a", 6, "y"),
        (3, "b", 7, "none"),
        (4, "c", 8, "none"),
    ]
    lake.sql("INSERT OVERWRITE p PARTITION (dt='a', h) SELECT 9, 6, 'z'")
    lake.sql("INSERT OVERWRITE p PARTITION (dt='b', h=7) SELECT 10, 'w' WHERE false")
    assert rows(lake, every) == [(1, "a", 5, "x"), (4, "c", 8, "none"), (9, "a", 6, "z")]
    lake.sql("INSERT OVERWRITE p SELECT id + 1, dt, h, v FROM p WHERE dt = 'a'")
    assert rows(lake, every) == [(2, "a", 5, "x"), (4, "c", 8, "none"), (10, "a", 6, "z")]
    assert lake.catalog.table("default.p").latest_snapshot_id == 6


def test_values_are_assigned_as_sql_assigns_them(lake):
    lake.sql(
        "CREATE TABLE t (a TINYINT, b DECIMAL(5, 2), c STRING, d TIMESTAMP_NTZ, e ARRAY<BIGINT>,"
        " f STRUCT<x: DOUBLE, y: STRING>, g MAP<STRING, INT>)"
    )
    lake.sql(
        "INSERT INTO t SELECT 7, 1.234, 5, DATE '2026-01-01', array(1, 2), struct(1, 'y'), map()"
    )
    lake.sql("INSERT INTO t VALUES (NULL, NULL, NULL, NULL, NULL, NULL, NULL)")
    first, second = lake.sql("SELECT * FROM t ORDER BY a NULLS LAST").collect()
    assert str(first["b"]) == "1.23"
    assert (first["a"], first["c"], first["d"]) == (7, "5", datetime(2026, 1, 1))
    assert (first["e"], tuple(first["f"]), first["g"]) == ([1, 2], (1.0, "y"), {})
    assert set(second) == {None}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ("(1, 2)", r"gives 2 columns, but table 'orders' takes 4: id, item, price, day"),
        ("('x', 'tea', 1, NULL)", r"Column 'id' .* is INT NOT NULL, but the value is string"),
        ("(1, 'tea', DATE '2026-01-01', NULL)", r"Column 'price' .*value is date"),
        ("(1, 'tea', 1, '2026-01-01')", r"write CAST\(\.\.\. AS DATE\)"),
        ("(1, 'tea', 1, array(1))", r"Column 'day' .*array<int>"),
    ],
)
def test_a_query_that_does_not_fit_is_refused_before_it_runs(shop, values, message):
    before = shop.catalog.table("default.orders").latest_snapshot_id
    with pytest.raises(InvalidInputError, match=message):
        shop.sql(f"INSERT INTO orders VALUES {values}")
    assert shop.catalog.table("default.orders").latest_snapshot_id == before


def test_update_and_delete(lake):
    for name, keys in (("keyed", ", PRIMARY KEY (id) NOT ENFORCED"), ("appended", "")):
        lake.sql(f"CREATE TABLE {name} (id INT, item STRING, n INT{keys}) WITH ('bucket' = '-1')")
        lake.sql(f"INSERT INTO {name} VALUES (1, 'tea', 1), (2, 'rye', 2), (3, 'nut', 3)")
        lake.sql(f"UPDATE {name} AS t SET t.N = t.n * 10, item = upper(t.item) WHERE t.id >= 2")
        lake.sql(f"DELETE FROM {name} WHERE {name}.n % 20 = 0")
        assert rows(lake, f"SELECT * FROM {name} ORDER BY id") == [(1, "tea", 1), (3, "NUT", 30)]
        lake.sql(f"DELETE FROM {name} WHERE id = 1")
        assert rows(lake, f"SELECT id FROM {name}") == [(3,)]
        with pytest.raises(TidelakeError, match="nn"):
            lake.sql(f"UPDATE {name} SET nn = 1")
        with pytest.raises(TidelakeError, match="nn"):
            lake.sql(f"DELETE FROM {name} WHERE abs(nn) = 1")
        lake.sql(f"DELETE FROM {name}")
        assert rows(lake, f"SELECT count(*) FROM {name}") == [(0,)]


def test_create_table_as_and_replace(shop):
    shop.sql(
        "CREATE TABLE best TBLPROPERTIES ('primary-key' = 'item', 'bucket' = '1')"
        " AS SELECT item, max(price) AS price, current_timestamp() AS at FROM orders GROUP BY item"
    )
    schema = shop.catalog.table("default.best").table_schema
    assert (schema.primary_keys, [str(f.type) for f in schema.fields][1:]) == (
        ("item",),
        ["DOUBLE", "TIMESTAMP(6) WITH LOCAL TIME ZONE"],
    )
    assert rows(shop, "SELECT item, price FROM best ORDER BY 1") == [("nut", 5.0), ("tea", 9.0)]
    shop.sql("CREATE TABLE IF NOT EXISTS best AS SELECT 1 AS x")
    shop.sql("CREATE OR REPLACE TABLE best AS SELECT item FROM orders WHERE id = 3")
    assert rows(shop, "SELECT * FROM best") == [("nut",)]
    # a query may read the table that it replaces: that one is there until the new one is written
    shop.sql("CREATE OR REPLACE TABLE best AS SELECT * FROM orders JOIN best USING (item)")
    assert rows(shop, "SELECT item, id, price FROM best") == [("nut", 3, 5.0)]
    shop.sql("CREATE TEMPORARY VIEW of_best AS SELECT * FROM default.best$audit_log")
    shop.sql("CREATE OR REPLACE TABLE best AS SELECT item FROM of_best")
    assert rows(shop, "SELECT * FROM best") == [("nut",)]
    for failing in (
        "SELECT item, CAST(raise_error('no') AS INT) AS x FROM orders",
        "SELECT CAST(item AS INT) AS n FROM orders",
    ):
        with pytest.raises((PySparkException, TidelakeError)):
            shop.sql(f"CREATE OR REPLACE TABLE best AS {failing}")
        assert rows(shop, "SELECT * FROM best") == [("nut",)]
    with pytest.raises(InvalidInputError, match="null"):
        shop.sql(
            "CREATE OR REPLACE TABLE best TBLPROPERTIES ('primary-key' = 'k') AS SELECT NULL ::"
            " INT AS k"
        )
    assert rows(shop, "SELECT * FROM best") == [("nut",)]
    with pytest.raises(NotFoundError):
        shop.sql("REPLACE TABLE worst AS SELECT 1 AS x")
    shop.sql("CREATE OR REPLACE TABLE worst AS SELECT 1 AS x")
    assert rows(shop, "SELECT x FROM worst") == [(1,)]
    assert list((Path(shop.catalog.warehouse) / STAGING_DIRECTORY).iterdir()) == []
    with pytest.raises(InvalidInputError, match="two columns 'id'"):
        shop.sql("CREATE TABLE two AS SELECT a.id, b.id FROM orders a JOIN orders b USING (item)")
    with pytest.raises(InvalidInputError, match="null"):
        shop.sql("CREATE TABLE bad TBLPROPERTIES ('primary-key' = 'k') AS SELECT NULL :: INT AS k")
    assert "bad" not in shop.catalog.list_tables("default")  # what failed leaves no table
    with pytest.raises(AlreadyExistsError):
        shop.sql("CREATE TABLE best AS SELECT 1 AS x")


def test_windows_that_overlap_and_grow(lake):
    lake.sql("CREATE TABLE w (id INT, at TIMESTAMP_NTZ)")
    lake.sql("INSERT INTO w VALUES (1, TIMESTAMP_NTZ '2026-01-01 00:07:00'), (2, NULL)")

    def windows(function):
        bounds = "minute(window_start), minute(window_end)"
        return rows(lake, f"SELECT id, {bounds} FROM TABLE({function}) ORDER BY 2, 3")

    assert windows("HOP(TABLE w, DESCRIPTOR(at), INTERVAL '5' MINUTE, INTERVAL '15' MINUTE)") == [
        (1, 0, 15),
        (1, 5, 20),
        (1, 55, 10),
    ]
    cumulate = "CUMULATE(TABLE w, DESCRIPTOR(at), INTERVAL '5' MINUTE, INTERVAL '20' MINUTE)"
    assert windows(cumulate) == [(1, 0, 10), (1, 0, 15), (1, 0, 20)]
    tumble = "TUMBLE(TABLE w, DESCRIPTOR(at), INTERVAL '10' MINUTE, INTERVAL '2' MINUTE)"
    assert windows(tumble) == [(1, 2, 12)]
    with pytest.raises(InvalidInputError, match=r"no column 'att' for TUMBLE\. Did you mean 'at'"):
        lake.sql("SELECT * FROM TABLE(TUMBLE(TABLE w, DESCRIPTOR(att), INTERVAL '1' HOUR))")
    with pytest.raises(InvalidInputError, match="TUMBLE needs a TIMESTAMP"):
        lake.sql("SELECT * FROM TABLE(TUMBLE(TABLE w, DESCRIPTOR(id), INTERVAL '1' HOUR))")


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("SELECT prise FROM orders", InvalidInputError, r"column `prise`\. Did you mean 'price'"),
        ("SELECT o.prise FROM orders o", InvalidInputError, r"Did you mean 'price'"),
        ("SELECT wholly FROM orders", InvalidInputError, r"There are: id, item, price, day"),
        ("SELECT * FROM ordres", NotFoundError, r"'ordres' .* Did you mean 'orders'"),
        ("SELECT * FROM nowhere.t", NotFoundError, r"nowhere"),
        ("SELECT * FROM spork.nowhere.t", NotFoundError, r"no catalog 'spork'"),
        ("SELECT foo(id) FROM orders", InvalidInputError, r"`foo`"),
        ("SELECT id, count(*) FROM orders", InvalidInputError, r"GROUP BY"),
        ("SELECT id FROM orders o JOIN items i", InvalidInputError, r"(?i)ambiguous"),
        ("SELECT * FROM orders /*+ OPTIONS('scan.snapshto-id'='1') */", InvalidInputError,
         r"Did you mean 'scan\.snapshot-id'"),
        ("SELECT * FROM orders VERSION AS OF 99", NotFoundError, r"99"),
        ("SELECT * FROM orders VERSION AS OF 'tagg'", NotFoundError, r"tagg"),
        ("SELECT * FROM orders TIMESTAMP AS OF 'noon'", InvalidInputError, r"'noon' is not a time"),
        ("SELECT * FROM orders$fils", NotFoundError, r"Did you mean 'files'"),
        ("SELECT * FROM orders /*+ OPTIONS('incremental-between'='1') */", InvalidInputError,
         r"two snapshots"),
        ("SELECT FROM orders WHERE", InvalidInputError, r"cannot be parsed"),
        ("INSERT INTO ordres SELECT 1", NotFoundError, r"Did you mean 'orders'.* column 13:"),
        ("DROP TABLE ordres", NotFoundError, r"Did you mean 'orders'.* line 1, column 12:"),
        ("INSERT INTO orders (idd) SELECT 1", InvalidInputError, r"Did you mean 'id'"),
        ("INSERT INTO orders PARTITION (item='x') SELECT 1", InvalidInputError, r"it has none"),
        ("INSERT INTO orders$files SELECT 1", InvalidInputError, r"system table"),
        ("SELECT * FROM paimon_incremental_query('orders$audit_log', 1, 2)", UnsupportedError,
         r"do not support a system table"),
        ("CREATE TABLE kf WITH ('connector'='kafka') AS SELECT 1", UnsupportedError, r"'kafka'"),
        ("MERGE INTO orders USING items ON true", InvalidInputError, r"MERGE needs a clause"),
        ("SET 'spark.sql.shuffle.partitions' = 'many'", InvalidInputError, r"many"),
    ],
)  # fmt: skip
def test_mistakes_get_an_error_of_ours(shop, text, error, message, capfd):
    with pytest.raises(error, match=message) as raised:
        shop.sql(text)
    assert isinstance(raised.value, TidelakeError)
    said = str(raised.value)
    assert "_pyspark_" not in said
    assert "SQLSTATE" not in said
    assert "org.apache" not in said
    assert "org.apache.spark" not in capfd.readouterr().err


def test_settings_are_sparks_and_ours(shop, spark):
    shop.sql("SET 'spark.tidelake.default.orders.scan.snapshot-id' = '1'")
    try:
        assert rows(shop, "SELECT price FROM orders WHERE id = 2") == [(4.0,)]
        assert rows(shop, "SELECT count(*) FROM orders") == [(3,)]
    finally:
        shop.sql("RESET 'spark.tidelake.default.orders.scan.snapshot-id'")
    assert rows(shop, "SELECT price FROM orders WHERE id = 2") == [(9.0,)]
    assert rows(shop, "SET 'a.b' = 'c'") == [("a.b", "c")]
    assert spark.conf.get("a.b") == "c"
    shop.sql("RESET 'a.b'")


def test_several_statements_answer_with_the_last(lake):
    text = "CREATE TABLE t (a INT); INSERT INTO t VALUES (1); SELECT a FROM t;"
    assert rows(lake, text) == [(1,)]
    assert lake.sql("TRUNCATE TABLE t").columns == []
    with pytest.raises(InvalidInputError, match="args="):
        lake.sql(text, {"a": 1})


def test_an_error_of_spark_after_one_of_ours_is_still_spark_s(spark, shop):
    """Both log under one name, and whoever asks first for a logger decides of which class it is."""
    with pytest.raises(InvalidInputError, match="no column"):
        shop.sql("SELECT itm FROM orders")
    with pytest.raises(AnalysisException, match="nothing_of_this_name"):
        spark.range(1).select("nothing_of_this_name")


def test_errors_of_spark_s_own_are_told_to_the_log_while_a_thread_runs_ours(shop):
    """PySpark's logger is one for all threads."""
    logger, entered, left = PySparkLogger.getLogger("SQLQueryContextLogger"), Event(), Event()
    told = []
    handler = logging.Handler()
    handler.emit = told.append
    logger.addHandler(handler)
    level = logger.level
    logger.setLevel(logging.ERROR)

    def other():
        with translate_analysis_errors(parse("SELECT 1")[0]):
            entered.set()
            left.wait(60)
            logger.error("ours")

    thread = Thread(target=other)
    thread.start()
    try:
        entered.wait(60)
        logger.error("theirs")
    finally:
        left.set()
        thread.join()
        logger.removeHandler(handler)
        logger.setLevel(level)
    assert [record.msg for record in told] == ["theirs"]


def test_whole_partitions_are_deleted_by_dates(lake):
    lake.sql("CREATE TABLE p (id INT, dt DATE) PARTITIONED BY (dt)")
    lake.sql("INSERT INTO p VALUES (1, DATE '2026-01-01'), (2, DATE '2026-01-02')")
    lake.sql("DELETE FROM p WHERE dt = DATE '2026-01-01'")
    assert rows(lake, "SELECT id FROM p") == [(2,)]


def test_the_audit_log_shows_changes_between_two_moments(lake):
    lake.sql("CREATE TABLE t (k INT, v STRING, PRIMARY KEY (k) NOT ENFORCED) WITH ('bucket' = '1')")
    lake.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    lake.sql("INSERT INTO t VALUES (1, 'A')")
    lake.sql("DELETE FROM t WHERE k = 2")
    between = "t$audit_log /*+ OPTIONS('incremental-between' = '1,3') */"
    assert rows(lake, f"SELECT * FROM {between} ORDER BY k") == [("+I", 1, "A"), ("-D", 2, "b")]
    assert rows(lake, f"SELECT rowkind FROM {between} WHERE k = 2") == [("-D",)]
    assert rows(lake, f"SELECT count(*) FROM {between}") == [(2,)]
    with pytest.raises(UnsupportedError, match="incremental-between"):
        lake.sql("SELECT * FROM t$binlog /*+ OPTIONS('incremental-between' = '1,3') */")


def test_settings_in_paimons_words(lake):
    lake.sql("CREATE TABLE t (a INT)")
    for number in (1, 2):
        lake.sql(f"INSERT INTO t VALUES ({number})")
    setting = "spark.paimon.*.default.t.scan.snapshot-id"
    lake.sql(f"SET {setting} = 1")
    try:
        assert rows(lake, "SELECT a FROM t") == [(1,)]
    finally:
        lake.sql(f"RESET {setting}")
    assert rows(lake, "SELECT count(*) FROM t") == [(2,)]
    with pytest.raises(InvalidInputError, match="is no table option"):
        lake.sql("SET spark.paimon.scan.snapshto-id = 1")


def test_a_default_is_kept_as_paimon_keeps_it_and_is_written(lake):
    lake.sql("CREATE TABLE t (a INT, b STRING DEFAULT 'it''s', c INT DEFAULT 5)")
    fields = lake.catalog.table("default.t").table_schema.fields
    assert [f.default_value for f in fields] == [None, "'it's'", "5"]
    lake.sql("INSERT INTO t (a) VALUES (1)")
    assert rows(lake, "SELECT * FROM t") == [(1, "it's", 5)]
    (shown,) = lake.sql("SHOW CREATE TABLE t").collect()[0]
    assert "`b` STRING DEFAULT 'it''s'" in shown
    assert "`c` INT DEFAULT 5" in shown


def test_a_value_that_does_not_fit_is_refused_in_our_words(lake):
    lake.sql("CREATE TABLE t (a TINYINT, d DATE)")
    for values in ("SELECT 300, NULL", "SELECT 300 + id, NULL FROM range(2)"):
        with pytest.raises(InvalidInputError, match="TINYINT") as raised:
            lake.sql(f"INSERT INTO t {values}")
        assert "SQLSTATE" not in str(raised.value)
    with pytest.raises(InvalidInputError, match="Division by zero"):
        lake.sql("CREATE TABLE u AS SELECT 1 / (id - id) AS x FROM range(2)")
    assert rows(lake, "SELECT count(*) FROM t") == [(0,)]
    assert lake.catalog.list_tables("default") == ["t"]


def test_columns_of_a_new_table_may_be_null_inside_too(lake):
    lake.sql("CREATE TABLE t AS SELECT array(1) AS a, map('k', 1) AS m, named_struct('x', 1) AS s")
    types = [str(f.type) for f in lake.catalog.table("default.t").table_schema.fields]
    assert types == ["ARRAY<INT>", "MAP<STRING NOT NULL, INT>", "ROW<`x` INT>"]


def test_sparks_setting_says_what_an_overwrite_replaces(lake):
    lake.sql("CREATE TABLE p (id INT, dt STRING) PARTITIONED BY (dt)")
    lake.sql("INSERT INTO p VALUES (1, 'a'), (2, 'b')")
    lake.sql("INSERT OVERWRITE p VALUES (3, 'a')")
    assert rows(lake, "SELECT id FROM p ORDER BY 1") == [(2,), (3,)]
    for mode, left in (("dynamic", [(2,), (4,)]), ("static", [(4,)])):
        lake.sql(f"SET spark.sql.sources.partitionOverwriteMode = {mode}")
        try:
            lake.sql("INSERT OVERWRITE p VALUES (4, 'a')")
        finally:
            lake.sql("RESET spark.sql.sources.partitionOverwriteMode")
        assert rows(lake, "SELECT id FROM p ORDER BY 1") == left


def test_hints_that_nobody_knows_are_refused_and_those_of_spark_pass(lake):
    lake.sql("CREATE TABLE t (id INT); INSERT INTO t VALUES (1), (2); INSERT INTO t VALUES (3)")
    both = "SELECT /*+ REPARTITION(3) */ id FROM t /*+ OPTIONS('scan.snapshot-id' = '1') */"
    assert sorted(rows(lake, both)) == [(1,), (2,)]
    with pytest.raises(InvalidInputError, match=r"no hint 'OPTION'\. Did you mean 'OPTIONS'"):
        lake.sql("SELECT * FROM t /*+ OPTION('scan.snapshot-id' = '1') */")


def test_long_statements(shop, lake):
    half = 450 if SIZE is FULL else 60
    many = " OR ".join(f"o.id = {n}" for n in range(2 * half))
    assert rows(shop, f"SELECT count(*) FROM orders o WHERE {many}") == [(3,)]
    mixed = " OR ".join(f"o.id = {n} OR o.price = {n}" for n in range(10, 10 + half))
    assert rows(shop, f"SELECT count(*) FROM orders o WHERE {mixed}") == [(0,)]
    # more than the stack of Java's threads holds by itself
    every = " AND ".join(f"o.id <> {n}" for n in range(2, 1400))
    assert rows(shop, f"SELECT id FROM orders o WHERE {every}") == [(1,)]
    lake.sql("CREATE TABLE many (id INT, v STRING)")
    lake.sql("INSERT INTO many VALUES " + ", ".join(f"({n}, 'FROM {n}')" for n in range(2000)))
    assert rows(lake, "SELECT count(*), max(id) FROM many") == [(2000, 1999)]


def test_each_procedure_by_position_and_by_name(lake):
    lake.sql("CREATE TABLE t (k INT, v INT, PRIMARY KEY (k) NOT ENFORCED) WITH ('bucket' = '1')")
    table = lake.catalog.table("default.t")
    for v in (1, 2, 3):
        table.write([{"k": 1, "v": v}])
    lake.sql("CREATE TABLE days (k INT, day STRING) PARTITIONED BY (day)")
    lake.sql("CREATE TABLE ice (k INT) WITH ('metadata.iceberg.storage' = 'table-location')")
    lake.catalog.table("default.ice").write([{"k": 1}])
    lake.sql("CREATE TABLE forked (k INT)")
    lake.catalog.table("default.forked").write([{"k": 1}])
    days = lake.catalog.table("default.days")
    days.write([{"k": n, "day": f"2024-01-0{n}"} for n in (1, 2, 3, 4)])
    first_ms = round(table.history().column("commit_time")[0].as_py().timestamp() * 1000)
    done, success = [(True,)], [("Success",)]
    calls = {
        "create_tag('t', 'v1', 1)": done,
        "create_tag(`table` => 'default.t', tag => 'v2', snapshot => 2)": done,
        f"create_tag_from_timestamp('t', 'v0', {first_ms})": [("v0", 1, first_ms, "null")],
        f"create_tag_from_timestamp(tag => 'v', `table` => 't', `timestamp` => {first_ms})": [
            ("v", 1, first_ms, "null")
        ],
        "rename_tag('t', 'v', 'w')": done,
        "rename_tag(`table` => 't', tag => 'w', target_tag => 'x')": done,
        "replace_tag('t', 'x', 2)": done,
        "replace_tag(`table` => 't', tag => 'x', snapshot => 3)": done,
        "expire_tags('t', '2000-01-01 00:00:00')": None,
        "expire_tags(`table` => 't', older_than => '2000-01-01 00:00:00')": None,
        "trigger_tag_automatic_creation('t')": done,
        "trigger_tag_automatic_creation(`table` => 't')": done,
        "delete_tag('t', 'x')": done,
        "delete_tag(tag => 'v0', `table` => 't')": done,
        "create_branch('forked', 'b')": done,
        "create_branch(`table` => 'forked', branch => 'c', snapshot => 1)": done,
        "rename_branch('forked', 'b', 'd')": done,
        "rename_branch(`table` => 'forked', from_branch => 'd', to_branch => 'b')": done,
        "fast_forward('forked', 'c')": done,
        "fast_forward(branch => 'c', `table` => 'forked')": done,
        "delete_branch('forked', 'b')": done,
        "delete_branch(`table` => 'forked', branch => 'c')": done,
        "compact('t')": done,
        "compact(`table` => 't', compact_strategy => 'full')": done,
        "compact_manifest('t')": done,
        "compact_manifest(`table` => 'tidelake.default.t')": done,
        "drop_partition('days', 'day=2024-01-01')": success,
        "drop_partition(partitions => 'day=2024-01-02', `table` => 'days')": success,
        "mark_partition_done('days', 'day=2024-01-03')": done,
        "mark_partition_done(`table` => 'days', partitions => 'day=2024-01-04')": done,
        "rescale('t', 2)": done,
        "rescale(`table` => 't', bucket_num => 3)": done,
        "expire_snapshots('t', 99, 99)": [(0,)],
        "expire_snapshots(`table` => 't', older_than => '2000-01-01 00:00:00')": [(0,)],
        "expire_changelogs('t', 99, 99)": [(0,)],
        "expire_changelogs(`table` => 't', delete_all => true)": [(0,)],
        "reset_consumer('t', 'reader', 3)": None,
        "reset_consumer(`table` => 't', consumerId => 'reader')": None,
        "clear_consumers('t')": None,
        "clear_consumers(`table` => 't', includingConsumers => 'r.*')": None,
        "expire_partitions(`table` => 'days', expiration_time => '9000 d')": None,
        "remove_orphan_files(`table` => 't', dry_run => true)": None,
        "remove_unexisting_files('t', true)": [],
        "remove_unexisting_files(`table` => 't', dry_run => true)": [],
        "rewrite_file_index('t')": None,
        "rewrite_file_index(`table` => 't', dry_run => true)": None,
        "purge_files(`table` => 'days', dry_run => true)": None,
        "purge_files('days')": success,
        "sync_iceberg('ice')": None,
        "sync_iceberg(`table` => 'ice', from_scratch => true)": None,
    }
    for text, answer in calls.items():
        found = rows(lake, f"CALL sys.{text}")
        assert answer is None or found == answer, text
    assert rows(lake, "CALL sys.sync_iceberg('ice')")[0][0].endswith(
        "/ice/metadata/v1.metadata.json"
    )
    assert [name for (name,) in rows(lake, "SHOW TAGS t")] == ["v1", "v2"]
    assert rows(lake, "SELECT v FROM t") == [(3,)]
    assert rows(lake, "SELECT count(*) FROM days") == [(0,)]
    latest = table.latest_snapshot_id
    later_ms = 4102444800000
    at_last = [(latest, latest)]
    assert rows(lake, f"CALL sys.rollback_to_timestamp('t', {later_ms})") == at_last
    back = f"CALL sys.rollback_to_timestamp(`table` => 't', `timestamp` => '{later_ms}')"
    assert rows(lake, back) == at_last
    for text in ("'t', 5", "`table` => 't', watermark => 5"):
        with pytest.raises(NotFoundError, match="no snapshot with a watermark of 5"):
            lake.sql(f"CALL sys.rollback_to_watermark({text})")
    assert rows(lake, "CALL sys.rollback('t', '2')") == [(latest, 2)]
    assert rows(lake, "CALL sys.rollback(`table` => 't', tag => 'v1')") == [(2, 1)]
    assert rows(lake, "SELECT v FROM t") == [(1,)]
    named = {text.partition("(")[0] for text in calls}
    others = {"rollback", "rollback_to_timestamp", "rollback_to_watermark"}
    assert named | others == set(OF_TABLES)


@pytest.mark.parametrize("name", OF_TABLES)
def test_wrong_arguments_of_a_procedure_are_refused(shop, name):
    required = [p for p in PROCEDURES[name].parameters if p.is_required]
    for arguments, message in (
        ("", f"'{name}' needs 'table'"),
        ("tabel => 'orders'", r"no parameter 'tabel'\. Did you mean 'table'"),
        ("'orders', `table` => 'orders'", "'table' given twice"),
        (", ".join(["'orders'"] * 12), "arguments, but got 12"),
        ("7", "needs '" if len(required) > 1 else "'table' as table name, not 7"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            shop.sql(f"CALL sys.{name}({arguments})")
    with pytest.raises(InvalidInputError, match="Positional arguments come before"):
        shop.sql(f"CALL sys.{name}(`table` => 'orders', 1)")


def test_a_procedure_that_is_none_is_refused(shop):
    with pytest.raises(NotFoundError, match="Did you mean 'compact'"):
        shop.sql("CALL sys.compct('orders')")
    with pytest.raises(UnsupportedError, match="there is no Hive metastore"):
        shop.sql("CALL sys.migrate_table('hive', 'orders')")
