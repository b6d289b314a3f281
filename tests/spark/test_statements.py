"""Drawn statements by spark.sql, tl.sql and the kernel, against plain Python rows."""

from __future__ import annotations

import pytest
from proving.statement_doors import Doors
from proving.statement_mutants import PLANTED
from proving.statements import LAYOUTS
from sizes import SIZE

import tidelake.spark


@pytest.fixture(scope="module")
def lake(spark, tmp_path_factory):
    return tidelake.spark.attach(spark, tmp_path_factory.mktemp("statements"), catalog="drawn")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("seed", SIZE.statement_seeds)
def test_a_statement_gives_the_same_by_every_door(lake, layout, seed):
    doors = Doors(lake, "drawn", layout, seed)
    assert doors.run(SIZE.statements) == SIZE.statements


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_of_statements_is_caught(lake, name):
    plant, (layout, seed, count) = PLANTED[name]
    assert Doors(lake, "drawn", layout, seed, tables="right").run(count) == count
    with plant(), pytest.raises(AssertionError, match="statement"):
        Doors(lake, "drawn", layout, seed, tables="planted").run(count)


def test_plain_sql_overwrites_the_partition_without_a_value(spark, lake):
    lake.sql(
        "CREATE TABLE db.nulls (a INT, p STRING, q DATE) PARTITIONED BY (p, q);"
        "INSERT INTO db.nulls VALUES (1, NULL, NULL), (2, '', NULL), (3, 'x', NULL),"
        " (4, NULL, DATE '2026-01-01')"
    )
    spark.sql("INSERT OVERWRITE drawn.db.nulls PARTITION (p = NULL, q = NULL) SELECT 9")
    assert rows_of(lake) == [
        (2, "", None),
        (3, "x", None),
        (4, None, "2026-01-01"),
        (9, None, None),
    ]
    spark.sql("INSERT OVERWRITE drawn.db.nulls PARTITION (p = NULL) SELECT 8, DATE '2026-01-02'")
    assert rows_of(lake) == [(2, "", None), (3, "x", None), (8, None, "2026-01-02")]


def rows_of(lake):
    found = lake.catalog.table("db.nulls").to_arrow().sort_by("a").to_pylist()
    return [(r["a"], r["p"], None if r["q"] is None else str(r["q"])) for r in found]
