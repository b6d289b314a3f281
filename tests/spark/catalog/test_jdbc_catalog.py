"""A JDBC catalog on Spark: statements, DataFrames, streams and a second one by CREATE CATALOG."""

import sqlite3

import pytest

import tidelake
import tidelake.spark
from tidelake.errors import InvalidInputError


@pytest.fixture
def names(tmp_path):
    """The tables that a database lists."""

    def listed(file="c.db"):
        with sqlite3.connect(tmp_path / file) as connection:
            rows = connection.execute("SELECT database_name, table_name FROM paimon_tables")
            return sorted(".".join(row) for row in rows)

    return listed


def test_a_jdbc_catalog_is_used_like_any_other(spark, tmp_path, names):
    options = {"type": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/c.db", "lock.enabled": "true"}
    catalog = tidelake.open(tmp_path / "w", catalog=options)
    tl = tidelake.spark.attach(spark, catalog, catalog="lakes")
    tl.sql("CREATE TABLE air.t (k BIGINT, v STRING, PRIMARY KEY (k) NOT ENFORCED)"
           " WITH ('bucket' = '1')")  # fmt: skip
    spark.sql("INSERT INTO lakes.air.t VALUES (1, 'a'), (2, 'b')")
    tl.sql("MERGE INTO air.t USING (SELECT CAST(2 AS BIGINT) AS k, 'c' AS v) AS s ON t.k = s.k"
           " WHEN MATCHED THEN UPDATE SET v = s.v")  # fmt: skip
    spark.sql("CREATE TABLE lakes.air.copied AS SELECT * FROM lakes.air.t")
    spark.sql("ALTER TABLE lakes.air.copied RENAME TO air.kept")
    assert names() == ["air.kept", "air.t"]
    assert sorted(map(tuple, spark.table("lakes.air.kept").collect())) == [(1, "a"), (2, "c")]
    rows = tl.read_stream("air.t", options={"read.changelog": False})
    query = tl.write_stream(rows, "air.kept", checkpoint=f"{tmp_path}/check",
                            trigger="availableNow")  # fmt: skip
    query.awaitTermination()
    assert tl.table("air.kept").count() == 4  # it has no primary key
    where = f"'uri'='jdbc:sqlite:{tmp_path}/d.db', 'warehouse'='{tmp_path}/v'"
    tl.sql(f"CREATE CATALOG other WITH ('type'='paimon', 'metastore'='jdbc', {where})")
    tl.sql("CREATE TABLE other.air.u AS SELECT k FROM air.kept")
    assert names("d.db") == ["air.u"]
    with pytest.raises(InvalidInputError, match="Did you mean 'metastore'"):
        tl.sql(f"CREATE CATALOG third WITH ('type'='paimon', 'metastor'='jdbc', {where})")
    tl.sql("DROP TABLE other.air.u")
    spark.sql("DROP TABLE lakes.air.kept")
    assert names("d.db") == []
    assert names() == ["air.t"]
    with pytest.raises(InvalidInputError, match="was given an opened catalog"):
        tidelake.spark.attach(spark, catalog, memory="512 mb")
