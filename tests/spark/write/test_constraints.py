"""Constraints on Spark: every writer refuses a row that violates one, and writes nothing."""

from __future__ import annotations

import pytest

import tidelake.spark
from tidelake.errors import AlreadyExistsError, NotFoundError

GOOD = [(1, 1), (2, 2), (3, None)]


@pytest.fixture(scope="module")
def lake(spark, tmp_path_factory):
    lake = tidelake.spark.attach(spark, tmp_path_factory.mktemp("checked"), catalog="checked")
    lake.sql(
        "CREATE TABLE keyed (k INT, v INT, PRIMARY KEY (k) NOT ENFORCED)"
        " WITH ('bucket' = '2', 'constraint.positive' = 'v >= 0');"
        "CREATE TABLE spread (k INT, v INT, PRIMARY KEY (k) NOT ENFORCED)"
        " WITH ('constraint.positive' = 'v >= 0');"
        "CREATE TABLE plain (k INT, v INT) WITH ('constraint.positive' = 'v >= 0');"
        "CREATE TABLE marked (k INT, v INT)"
        " WITH ('constraint.positive' = 'v >= 0', 'deletion-vectors.enabled' = 'true')"
    )
    for name in ("keyed", "spread", "plain", "marked"):
        lake.sql(f"INSERT INTO {name} VALUES (1, 1), (2, 2), (3, NULL)")
    return lake


STATEMENTS = [
    "INSERT INTO {t} VALUES (4, 4), (5, -5)",
    "INSERT OVERWRITE {t} VALUES (4, 4), (5, -5)",
    "UPDATE {t} SET v = -1 WHERE k = 2",
    "MERGE INTO {t} USING (SELECT 2 AS k, -7 AS v) s ON {t}.k = s.k"
    " WHEN MATCHED THEN UPDATE SET v = s.v",
    "MERGE INTO {t} USING (SELECT 9 AS k, -7 AS v) s ON {t}.k = s.k"
    " WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, s.v)",
]


@pytest.mark.parametrize("name", ["keyed", "spread", "plain", "marked"])
def test_no_statement_writes_a_row_that_violates(spark, lake, name):
    for statement in STATEMENTS:
        with pytest.raises(Exception, match="constraint 'positive'"):
            lake.sql(statement.replace("{t}", name))
    for statement in STATEMENTS[:2]:  # plain spark.sql does not take the others
        with pytest.raises(Exception, match="constraint 'positive'"):
            spark.sql(statement.replace("{t}", f"checked.default.{name}"))
    assert sorted(map(tuple, lake.table(f"default.{name}").collect())) == GOOD


def test_a_stream_fails_at_a_row_that_violates(spark, lake, tmp_path):
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 4).load()
    query = lake.write_stream(
        rows.selectExpr("int(value) AS k", "int(2 - value) AS v"),
        "default.keyed",
        checkpoint=tmp_path / "checkpoint",
    )
    with pytest.raises(Exception, match="constraint 'positive'"):
        query.awaitTermination(60)
    query.stop()
    assert sorted(map(tuple, lake.table("default.keyed").collect())) == GOOD


def test_alter_table_looks_at_the_rows(spark, lake):
    with pytest.raises(Exception, match="1 row of it violates"):
        spark.sql(
            "ALTER TABLE checked.default.plain SET TBLPROPERTIES"
            " ('constraint.there' = 'v IS NOT NULL')"
        )
    with pytest.raises(Exception, match="1 row of it violates"):
        lake.sql("ALTER TABLE plain ADD CONSTRAINT there CHECK (v IS NOT NULL)")
    lake.sql("ALTER TABLE plain ADD CONSTRAINT small CHECK (v < 100)")
    with pytest.raises(AlreadyExistsError, match="v < 100"):
        lake.sql("ALTER TABLE plain ADD CONSTRAINT small CHECK (v < 1000)")
    with pytest.raises(NotFoundError, match="no constraint 'nope'"):
        lake.sql("ALTER TABLE plain DROP CONSTRAINT nope")
    lake.sql("ALTER TABLE plain DROP CONSTRAINT IF EXISTS nope")
    with pytest.raises(Exception, match="constraint 'small'"):
        lake.sql("INSERT INTO plain VALUES (7, 700)")
    lake.sql("ALTER TABLE plain DROP CONSTRAINT small")
    spark.sql("ALTER TABLE checked.default.plain UNSET TBLPROPERTIES ('constraint.positive')")
    lake.sql("INSERT INTO plain VALUES (7, -700)")
    assert lake.table("default.plain").count() == 4
