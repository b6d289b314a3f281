"""Catalogs in a metastore and in Glue on Spark: statements by both doors."""

from servers.fake_metastore import fake_metastore
from servers.glue import glue

import tidelake
import tidelake.spark


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


def test_glue_is_used_like_any_other_catalog(spark, tmp_path):
    with glue() as options:
        catalog = tidelake.open(tmp_path / "w", catalog=options)
        tl = tidelake.spark.attach(spark, catalog, catalog="glues")
        tl.sql("CREATE TABLE air.t (k BIGINT, v STRING)")
        spark.sql("INSERT INTO glues.air.t VALUES (1, 'a')")
        assert [tuple(row) for row in spark.table("glues.air.t").collect()] == [(1, "a")]
        spark.sql("DROP TABLE glues.air.t")
        assert catalog.list_tables("air") == []
