"""Catalogs in a metastore and in Glue on Spark: statements by both doors."""

import pytest
from servers.fake_metastore import fake_metastore
from servers.glue import glue

import tidelake
import tidelake.spark
from tidelake.errors import InvalidInputError, NotFoundError


def test_a_metastore_is_used_like_any_other_catalog(spark, tmp_path):
    with fake_metastore() as metastore:
        catalog = tidelake.open(tmp_path / "w", catalog=metastore.options())
        tl = tidelake.spark.attach(spark, catalog, catalog="hives")
        tl.sql("CREATE TABLE air.t (k BIGINT, v STRING, PRIMARY KEY (k) NOT ENFORCED)"
               " WITH ('bucket' = '1')")  # fmt: skip
        spark.sql("INSERT INTO hives.air.t VALUES (1, 'a'), (2, 'b')")
        tl.sql("UPDATE air.t SET v = 'c' WHERE k = 2")
        spark.sql("ALTER TABLE hives.air.t ADD COLUMNS (w INT)")
        assert [c.name for c in metastore.tables["air", "t"].sd.cols] == ["k", "v", "w"]
        spark.sql("CREATE TABLE hives.air.copied AS SELECT k, v FROM hives.air.t")
        spark.sql("ALTER TABLE hives.air.copied RENAME TO air.kept")
        assert sorted(map(tuple, spark.table("hives.air.kept").collect())) == [(1, "a"), (2, "c")]
        assert [row.tableName for row in spark.sql("SHOW TABLES IN hives.air").collect()] == [
            "kept",
            "t",
        ]


def test_a_metastore_of_create_catalog_is_known_to_plain_spark_sql(spark, lake, tmp_path):
    with fake_metastore() as metastore:
        given = f"'metastore'='hive', 'uri'='{metastore.uri}', 'warehouse'='{tmp_path}/h'"
        lake.sql(f"CREATE CATALOG hive2 WITH ('type'='paimon', {given})")
        lake.sql(f"CREATE CATALOG IF NOT EXISTS hive2 WITH ('type'='paimon', {given})")
        spark.sql("CREATE DATABASE hive2.air")
        spark.sql("CREATE TABLE hive2.air.t (k BIGINT) TBLPROPERTIES ('primary-key' = 'k')")
        spark.sql("INSERT INTO hive2.air.t VALUES (1), (2)")
        spark.sql("DELETE FROM hive2.air.t WHERE k = 1")
        assert [tuple(row) for row in lake.sql("SELECT * FROM hive2.air.t").collect()] == [(2,)]
        spark.sql("CALL hive2.sys.compact('air.t')")
        assert list(metastore.tables) == [("air", "t")]
        with pytest.raises(InvalidInputError, match="already has a catalog 'system'"):
            lake.sql(f"CREATE CATALOG system WITH ('type'='paimon', {given})")
        with pytest.raises(NotFoundError):
            lake.sql("USE CATALOG system")


def test_glue_is_used_like_any_other_catalog(spark, tmp_path):
    with glue() as options:
        catalog = tidelake.open(tmp_path / "w", catalog=options)
        tl = tidelake.spark.attach(spark, catalog, catalog="glues")
        tl.sql("CREATE TABLE air.t (k BIGINT, v STRING)")
        spark.sql("INSERT INTO glues.air.t VALUES (1, 'a')")
        assert [tuple(row) for row in spark.table("glues.air.t").collect()] == [(1, "a")]
        spark.sql("DROP TABLE glues.air.t")
        assert catalog.list_tables("air") == []
