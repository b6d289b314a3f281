"""Columns of any name are written, changed, read and filtered on Spark, as by the kernel."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyspark.sql import functions as F
from sizes import FULL, SIZE

import tidelake.spark
from tidelake import InvalidInputError

NAMES = ("a.b", "we`ird", "sp ace", "Ünï")
QUOTED = tuple("`" + name.replace("`", "``") + "`" for name in NAMES)
A, WEIRD, SPACE, UNI = QUOTED
COLUMNS = ", ".join(f"{name} INT" for name in QUOTED)
STRUCT = "`st.r` STRUCT<`x.y`: INT, `we``ird`: STRING>"
LAYOUTS = {
    "keys that move": f"(`k.1` INT, {COLUMNS}, {STRUCT}, PRIMARY KEY (`k.1`) NOT ENFORCED)"
    f" PARTITIONED BY ({WEIRD}) WITH ('bucket' = '-1')",
    "fixed buckets": f"(`k.1` INT, {COLUMNS}, {STRUCT}, PRIMARY KEY (`k.1`) NOT ENFORCED)"
    " WITH ('bucket' = '2', 'sequence.field' = 'we`ird')",
    "append": f"(`k.1` INT, {COLUMNS}, {STRUCT}) WITH ('bucket' = '-1')",
    "dynamic buckets": f"(`k.1` INT, {COLUMNS}, {STRUCT}, PRIMARY KEY (`k.1`) NOT ENFORCED)"
    " WITH ('bucket' = '-1')",
}
"""A landing runs the first and the third: all ways of a key's rows, and rows without a key."""


@pytest.fixture(scope="module")
def here(spark, tmp_path_factory):
    return tidelake.spark.attach(spark, tmp_path_factory.mktemp("names"), catalog="names")


def rows(frame):
    return sorted(tuple(row) for row in frame.collect())


@pytest.mark.share(2)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_statement_takes_columns_of_any_name(spark, here, layout):
    table = layout.replace(" ", "_")
    whole = f"names.default.{table}"
    here.sql(f"CREATE TABLE {table} {LAYOUTS[layout]}")
    here.sql(f"INSERT INTO {table} SELECT 1, 10, 20, 30, 40, named_struct('x.y', 5, 'we`ird', 'q')")
    spark.sql(f"INSERT INTO {whole} SELECT 2, 11, 21, 31, 41, NULL")
    here.sql(f"INSERT INTO {table} (`k.1`, {', '.join(QUOTED)}) SELECT 3, 12, 22, 32, 42")
    here.write(here.sql(f"SELECT `k.1` + 3 AS `k.1`, {', '.join(QUOTED)}, `st.r` FROM {table}"),
               f"default.{table}")  # fmt: skip
    assert rows(here.sql(f"SELECT `k.1`, {', '.join(QUOTED)} FROM {table}")) == [
        (k, *(n + (k - 1) % 3 for n in (10, 20, 30, 40))) for k in range(1, 7)
    ]
    for number, name in enumerate(QUOTED):
        where = f"{name} IN (SELECT {name} FROM {table} WHERE `k.1` = 2) AND {name} > 10"
        doors = (here.sql, spark.sql)
        for read in doors if SIZE is FULL else doors[number % 2 :][:1]:
            found = read(f"SELECT `k.1` FROM {whole} WHERE {where.replace(table, whole, 1)}")
            assert rows(found) == [(2,), (5,)]
        assert rows(spark.table(whole).where(F.col(name) > 0).select("`k.1`"))[-1] == (6,)
    here.sql(f"UPDATE {table} SET {A} = {A} + {WEIRD}, {UNI} = 0 WHERE {SPACE} = 30 AND `k.1` = 1")
    here.sql(f"UPDATE {table} SET `st.r`.`x.y` = 7 WHERE `st.r`.`x.y` = 5 AND `k.1` = 1")
    here.sql(f"DELETE FROM {table} WHERE {UNI} = 41 AND abs({A}) = 11")
    here.sql(
        f"MERGE INTO {table} t USING (SELECT 3 AS `k.1`, 70 AS {A}, 22 AS {WEIRD} UNION ALL"
        f" SELECT 9, 90, 23) s ON t.`k.1` = s.`k.1` WHEN MATCHED AND t.{WEIRD} > 0 THEN UPDATE SET"
        f" t.{A} = s.{A} WHEN NOT MATCHED THEN INSERT (`k.1`, {A}, {WEIRD}) VALUES (s.`k.1`, s.{A},"
        f" s.{WEIRD})"
    )
    here.sql(f"MERGE INTO {table} t USING (SELECT * FROM {table} WHERE `k.1` = 4) s ON t.`k.1` ="
             " s.`k.1` WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *")  # fmt: skip
    assert rows(here.sql(f"SELECT `k.1`, {A}, {WEIRD}, {UNI}, `st.r`.`x.y` FROM {table}")) == [
        (1, 30, 20, 0, 7),
        (3, 70, 22, 42, None),
        (4, 10, 20, 40, 5),
        (6, 12, 22, 42, None),
        (9, 90, 23, None, None),
    ]
    assert here.table(f"default.{table}", where=f"{A} = 90").count() == 1


def test_partitions_of_any_name_are_overwritten(spark, here):
    here.sql(
        "CREATE TABLE parts (`a.b` INT, `p``q.r` STRING,"
        " PRIMARY KEY (`a.b`, `p``q.r`) NOT ENFORCED)"
        " PARTITIONED BY (`p``q.r`) WITH ('bucket' = '1')"
    )
    here.sql("INSERT INTO parts SELECT 1, 'x'")
    here.sql("INSERT OVERWRITE parts PARTITION (`p``q.r` = 'x') SELECT 2")
    assert rows(here.sql("SELECT * FROM parts")) == [(2, "x")]
    spark.sql("INSERT OVERWRITE names.default.parts PARTITION (`p``q.r` = 'x') SELECT 3")
    spark.sql("INSERT INTO names.default.parts PARTITION (`p``q.r` = 'y') SELECT 4")
    assert rows(spark.sql("SELECT * FROM names.default.parts")) == [(3, "x"), (4, "y")]
    read = spark.sql("SELECT `a.b` FROM names.default.parts WHERE `p``q.r` = 'y' AND `a.b` > 0")
    assert rows(read) == [(4,)]


def test_a_table_is_made_of_a_query_with_any_names(spark, here):
    here.sql("CREATE TABLE made AS SELECT 1 AS `a.b`, 'x' AS `we``ird`")
    spark.sql(
        "CREATE TABLE names.default.made_too AS SELECT `we``ird`, `a.b` FROM names.default.made"
    )
    assert rows(here.sql("SELECT * FROM made_too")) == [("x", 1)]
    source = spark.createDataFrame([(1, "y"), (2, "z")], "k int, v string").toDF("a.b", "we`ird")
    here.update("default.made", {"we`ird": F.concat("`we``ird`", F.lit("!"))}, where="`a.b` = 1")
    merge = here.merge("default.made", source, ["a.b"])
    merge.when_matched_update().when_not_matched_insert().execute()
    assert rows(here.sql("SELECT * FROM made")) == [(1, "y"), (2, "z")]


def test_names_alike_of_another_engine_are_read_where_case_counts(spark, here):
    here.sql("CREATE TABLE alike (a INT, b INT)")
    here.sql("INSERT INTO alike VALUES (1, 2)")
    table = here.catalog.table("default.alike")
    first, second = table.table_schema.fields
    fields = (first, replace(second, name="A"))
    assert table.handle.schemas.create(replace(table.table_schema, id=1, fields=fields))
    with pytest.raises(InvalidInputError, match="ambiguous"):
        here.sql("SELECT a FROM alike").collect()
    spark.conf.set("spark.sql.caseSensitive", True)
    try:
        here.sql("INSERT INTO alike (A, a) SELECT abs(-4), 3")
        assert rows(here.sql("SELECT a, A FROM alike WHERE A > 1")) == [(1, 2), (3, 4)]
        assert rows(spark.sql("SELECT A FROM names.default.alike WHERE a = 3")) == [(4,)]
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
