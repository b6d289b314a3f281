"""Partitions that Spark leaves out, by filters and by what a join finds, in the list of files."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest

import tidelake.spark

pytestmark = pytest.mark.usefixtures("production_conf")

REGIONS = ["a b+c%&=~é\n", "", None, "x"]
DAY = datetime.date(2026, 1, 30)
FACTS = pa.table(
    {
        "k": pa.array(range(64), pa.int64()),
        "day": [DAY + datetime.timedelta(days=k % 4) for k in range(64)],
        "hour": pa.array([-(k % 2) for k in range(64)], pa.int16()),
        "v": [f"v{k}" for k in range(64)],
    }
)


@pytest.fixture(scope="module")
def lake(spark, tmp_path_factory):
    place = tmp_path_factory.mktemp("partitions")
    lake = tidelake.spark.attach(spark, place / "warehouse", catalog="parted")
    lake.sql(
        "CREATE TABLE db.facts_p (k BIGINT, day DATE, hour SMALLINT, v STRING,"
        " PRIMARY KEY (k, day, hour) NOT ENFORCED) PARTITIONED BY (day, hour)"
        " WITH ('bucket' = '1', 'write-only' = 'true');"
        "CREATE TABLE db.texts_p (k BIGINT, region STRING) PARTITIONED BY (region);"
        "CREATE TABLE db.days_p (day DATE, name STRING);"
        "CREATE TABLE db.hours_p (h SMALLINT, name STRING)"
    )
    facts = lake.catalog.table("db.facts_p")
    facts.write(FACTS)
    facts.write(FACTS.slice(8, 24))  # replaces rows: they are read under masks
    numbers = pa.array(range(8), pa.int64())
    lake.catalog.table("db.texts_p").write(pa.table({"k": numbers, "region": REGIONS * 2}))
    days = [DAY + datetime.timedelta(days=n) for n in range(4)]
    lake.catalog.table("db.days_p").write(pa.table({"day": days, "name": list("abcd")}))
    hours = pa.array([0, -1], pa.int16())
    lake.catalog.table("db.hours_p").write(pa.table({"h": hours, "name": ["even", "odd"]}))
    lake.sql("USE db")
    spark.sql("USE parted.db")
    yield lake
    spark.sql("USE spark_catalog.default")


def both(lake, query):
    """Rows by each way, and the plans that ran."""
    found = []
    for frame in (lake.sql(query), lake.spark.sql(query)):
        rows = sorted(map(tuple, frame.collect()), key=repr)
        found.append((rows, frame._jdf.queryExecution().executedPlan()))
    (ours, plan), (rows, by_rule) = found
    assert ours == rows
    return rows, [plan, by_rule]


def files_read(plan):
    """The number of files of each scan, by Spark's own metric."""
    text = plan.toString()
    nodes, found = [plan], []
    while nodes:
        node = nodes.pop()
        name = node.getClass().getSimpleName()
        if name == "AdaptiveSparkPlanExec":
            nodes.append(node.executedPlan())
        elif name.endswith("QueryStageExec"):
            nodes.append(node.plan())
        elif name == "FileSourceScanExec":
            found.append(node.metrics().apply("numFiles").value())
        children = node.children()
        nodes += [children.apply(n) for n in range(children.size())]
    assert found, text
    return sorted(found)


def expected(wanted):
    rows = FACTS.to_pylist()
    return sorted(((r["k"], r["v"]) for r in rows if wanted(r)), key=repr)


JOIN = (
    "SELECT /*+ BROADCAST(d) */ f.k, f.v FROM facts_p f JOIN days_p d ON f.day = d.day"
    " WHERE d.name = 'c'"
)


def test_a_join_leaves_out_the_partitions_that_it_finds_no_row_for(lake):
    rows, plans = both(lake, JOIN)
    assert rows == expected(lambda r: (r["day"] - DAY).days == 2)
    assert [files_read(plan) for plan in plans] == [[1, 2], [1, 2]]  # of two commits; days


def test_a_join_of_joined_tables_does_too(lake):
    rows, plans = both(
        lake,
        "SELECT /*+ BROADCAST(d), BROADCAST(t) */ f.k, f.v"
        " FROM facts_p f JOIN texts_p t ON f.k = t.k"
        " JOIN days_p d ON f.day = d.day WHERE d.name = 'b'",
    )
    assert rows == [(1, "v1"), (5, "v5")]
    assert [sum(files_read(plan)) for plan in plans] == [2 + 4 + 1] * 2


def test_a_join_by_an_expression_of_a_partition_does_too(lake):
    rows, plans = both(
        lake,
        "SELECT /*+ BROADCAST(h) */ f.k, f.v"
        " FROM facts_p f JOIN hours_p h ON f.hour + 1 = h.h + 1"
        " WHERE h.name = 'odd' AND f.day < DATE '2026-01-31' + 1",
    )
    assert rows == expected(lambda r: r["hour"] == -1 and (r["day"] - DAY).days < 2)
    assert [files_read(plan)[0] for plan in plans] == [1, 1]


def test_a_table_under_masks_prunes_another(lake):
    lake.sql(
        "CREATE TABLE db.marks_p (day DATE, mark INT, PRIMARY KEY (day) NOT ENFORCED)"
        " WITH ('bucket' = '1', 'write-only' = 'true')"
    )
    marks = lake.catalog.table("db.marks_p")
    days = [DAY + datetime.timedelta(days=n) for n in range(4)]
    for mark in ([1, 2, 3, 4], [4, 3, 2, 1]):
        marks.write(pa.table({"day": days, "mark": pa.array(mark, pa.int32())}))
    marks.write(pa.table({"day": days[:1], "mark": pa.array([4], pa.int32())}))
    query = (
        "SELECT /*+ BROADCAST(m) */ f.k, f.v FROM facts_p f JOIN marks_p m ON f.day = m.day"
        " WHERE m.mark * 2 > 7"
    )
    rows, plans = both(lake, query)
    assert rows == expected(lambda r: r["day"] == DAY)
    assert [max(files_read(plan)) for plan in plans] == [2, 2]  # of eight


def test_a_union_with_a_table_without_the_partition_column_gives_its_rows(lake):
    query = (
        "SELECT /*+ BROADCAST(d) */ f.k, f.v FROM (SELECT k, v, day FROM facts_p UNION ALL"
        " SELECT day(day), name, day FROM days_p) f"
        " JOIN days_p d ON f.day = d.day WHERE d.name = 'c'"
    )
    spark, key = lake.spark, "spark.sql.codegen.wholeStage"
    wanted = sorted([*expected(lambda r: (r["day"] - DAY).days == 2), (1, "c")], key=repr)
    for generated in ("true", "false"):
        spark.conf.set(key, generated)
        try:
            assert both(lake, query)[0] == wanted
        finally:
            spark.conf.unset(key)


def test_rows_that_are_gone_do_not_fail_for_their_partition(lake):
    for name, options in (
        ("gone", "'write-only' = 'true'"),
        ("vectors", "'deletion-vectors.enabled' = 'true'"),
    ):
        lake.sql(
            f"CREATE TABLE db.{name}_p (k INT, region STRING, PRIMARY KEY (k, region) NOT ENFORCED)"
            f" PARTITIONED BY (region) WITH ('bucket' = '1', {options})"
        )
        table = lake.catalog.table(f"db.{name}_p")
        numbers = pa.array([1, 2], pa.int32())
        table.write(pa.table({"k": numbers, "region": ["7", "none"]}))
        lake.sql(f"DELETE FROM db.{name}_p WHERE region = 'none'")
        query = f"SELECT k FROM {name}_p WHERE CAST(region AS INT) > 3"
        assert both(lake, query)[0] == [(1,)]


def test_buckets_without_files_are_empty_ones(lake):
    lake.sql(
        "CREATE TABLE db.wide_p"
        " (k BIGINT, p TINYINT, flag BOOLEAN, old DATE, c CHAR(3), n BIGINT,"
        " PRIMARY KEY (k, p, flag, old, c, n) NOT ENFORCED) PARTITIONED BY (p, flag, old, c, n)"
        " WITH ('bucket' = '4', 'bucket-key' = 'k')"
    )
    old = [datetime.date(1969, 12, 30), datetime.date(1900, 1, 1)]
    count = 40
    rows = pa.table(
        {
            "k": pa.array(range(count), pa.int64()),
            "p": pa.array([k % 2 - 1 for k in range(count)], pa.int8()),
            "flag": [k % 2 == 0 for k in range(count)],
            "old": [old[k % 2] for k in range(count)],
            "c": ["a" if k % 2 else "abc" for k in range(count)],
            "n": pa.array([-(2**40) * (k % 2) for k in range(count)], pa.int64()),
        }
    )
    lake.catalog.table("db.wide_p").write(rows)
    joined = "SELECT l.k, r.old, r.c FROM wide_p l JOIN wide_p r ON l.k = r.k WHERE "
    spark = lake.spark
    keys = ("spark.sql.autoBroadcastJoinThreshold", "spark.sql.shuffle.partitions")
    before = {key: spark.conf.get(key) for key in keys}
    spark.conf.set(keys[0], "-1")
    spark.conf.set(keys[1], "4")
    try:
        for condition, wanted in (
            ("l.flag AND r.p = -1", 0),
            ("NOT l.flag AND r.old = DATE '1900-01-01' AND r.n < 0", 1),
            ("l.old = DATE '1969-12-30' AND r.c LIKE 'abc%'", 0),
            ("l.old = DATE '2000-01-01'", None),
            ("l.old = (SELECT max(old) FROM wide_p)", 0),
        ):
            found, _ = both(lake, joined + condition)
            assert [k for k, *_ in found] == sorted(
                (k for k in range(count) if k % 2 == wanted), key=lambda k: repr((k,))
            ), condition
    finally:
        for key, value in before.items():
            spark.conf.set(key, value)


def test_columns_of_a_partition_are_not_read_from_files(lake):
    query = (
        "SELECT day, hour, count(*) FROM facts_p WHERE hour < 0 OR day IS NULL GROUP BY day, hour"
    )
    rows, plans = both(lake, query)
    assert [count for *_, count in rows] == [16, 16]
    for plan in plans:
        assert "PartitionFilters: [((hour" in plan.toString()
        assert "ReadSchema: struct<_tmp_metadata_row_index:bigint>" in plan.toString()


def test_texts_come_as_they_are(lake):
    rows, _ = both(lake, "SELECT region, sum(k) FROM texts_p GROUP BY region")
    totals = {region: n + n + 4 for n, region in enumerate(REGIONS)}
    assert rows == sorted(totals.items(), key=repr)
    for region, total in totals.items():
        text = "IS NULL" if region is None else f"= '{region}'".replace("\n", "\\n")
        rows, _ = both(lake, f"SELECT sum(k) FROM texts_p WHERE region {text}")
        assert rows == [(total,)]


def test_filters_of_joins_reach_the_files(lake):
    """Spark's filter of keys that a join cannot have (``might_contain``), by each way."""
    conf = {
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.sql.adaptive.autoBroadcastJoinThreshold": "-1",
        "spark.sql.optimizer.runtime.bloomFilter.enabled": "true",
        "spark.sql.optimizer.runtime.bloomFilter.applicationSideScanSizeThreshold": "0",
    }
    spark = lake.spark
    before = {key: spark.conf.get(key, None) for key in conf}
    for key, value in conf.items():
        spark.conf.set(key, value)
    try:
        rows, plans = both(
            lake,
            "SELECT f.k, f.v FROM facts_p f JOIN texts_p t ON f.k = t.k WHERE t.k > 5",
        )
    finally:
        for key, value in before.items():
            spark.conf.unset(key) if value is None else spark.conf.set(key, value)
    assert rows == [(6, "v6"), (7, "v7")]
    for plan in plans:
        assert "might_contain" in plan.toString()
