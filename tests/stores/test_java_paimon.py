"""Java Paimon on Spark, by ``s3a``, and we share tables on MinIO."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from interop.readers import SPARK_JAR, AbsentError, JavaOnSpark, environment
from servers.hadoop_aws import s3a_jars
from stores.chosen import BY_MAKE_STORES
from stores.spark_settings import LOOPBACK, s3a_settings

import tidelake

pytestmark = [BY_MAKE_STORES, pytest.mark.oracle]


class JavaPaimon:
    """A session of it."""

    def __init__(self, python, settings):
        program = Path(__file__).with_name("paimon_on_spark.py")
        self._process = subprocess.Popen(
            [str(python), str(program)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment(),
        )
        self._say(settings)

    def _say(self, what):
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()

    def sql(self, statement):
        self._say(statement)
        said = json.loads(self._process.stdout.readline())
        assert "error" not in said, f"{statement}: {said.get('error')}"
        return sorted(tuple(row) for row in said["rows"])

    def close(self):
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()


@pytest.fixture
def java(minio, uri):
    try:
        reader = JavaOnSpark()
        reader.prepare()
        jars = [SPARK_JAR, *s3a_jars("4.1")]
    except AbsentError as reason:
        pytest.skip(f"Java Paimon on Spark is absent: {reason}")
    settings = {
        **LOOPBACK,
        **s3a_settings(minio, jars),
        "spark.sql.extensions": "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions",
        "spark.sql.catalog.p": "org.apache.paimon.spark.SparkCatalog",
        "spark.sql.catalog.p.warehouse": uri.replace("s3://", "s3a://"),
        "spark.sql.catalog.p.cache-enabled": "false",
    }
    session = JavaPaimon(reader.python, settings)
    yield session
    session.close()


@pytest.fixture
def uri(minio):
    return minio.fresh()


@pytest.fixture
def ours(minio, uri):
    return tidelake.open(uri, storage=minio.storage())


def rows(catalog, name):
    return sorted(tuple(row.values()) for row in catalog.table(name).to_arrow().to_pylist())


def test_each_reads_and_writes_tables_that_the_other_made(java, ours):
    """One session: starting it takes longer than all that it is asked."""
    keyed = {"bucket": "2", "changelog-producer": "input"}
    ours.create_table("db.k", {"k": "BIGINT NOT NULL", "v": "STRING"}, primary_keys=["k"],
                      options=keyed)  # fmt: skip
    ours.create_table("db.a", {"day": "STRING", "n": "INT"}, partition_keys=["day"])
    ours.table("db.k").write([{"k": k, "v": f"v{k}"} for k in range(5)])
    ours.table("db.k").write([{"k": 1, "v": "upserted"}])
    ours.table("db.a").write([{"day": "a b/ü", "n": 1}, {"day": "x", "n": 2}])

    assert ("db",) in java.sql("SHOW DATABASES IN p")
    assert java.sql("SELECT * FROM p.db.k") == [
        (0, "v0"), (1, "upserted"), (2, "v2"), (3, "v3"), (4, "v4"),
    ]  # fmt: skip
    assert java.sql("SELECT day, n FROM p.db.a") == [("a b/ü", 1), ("x", 2)]

    java.sql("INSERT INTO p.db.k VALUES (2, 'java'), (9, 'java')")
    java.sql("DELETE FROM p.db.k WHERE k = 0")
    java.sql("INSERT INTO p.db.a VALUES ('x', 3), ('y', 4)")
    expected = [(1, "upserted"), (2, "java"), (3, "v3"), (4, "v4"), (9, "java")]
    assert rows(ours, "db.k") == expected
    assert rows(ours, "db.a") == [("a b/ü", 1), ("x", 2), ("x", 3), ("y", 4)]

    options = "'primary-key' = 'k', 'bucket' = '1', 'deletion-vectors.enabled' = 'true'"
    java.sql(f"CREATE TABLE p.db.t (k INT NOT NULL, v STRING) TBLPROPERTIES ({options})")
    java.sql("INSERT INTO p.db.t VALUES (1, 'a'), (2, 'b')")
    java.sql("UPDATE p.db.t SET v = 'c' WHERE k = 2")
    assert ours.list_tables("db") == ["a", "k", "t"]
    assert rows(ours, "db.t") == [(1, "a"), (2, "c")]
    ours.table("db.t").write([{"k": 1, "v": "ours"}, {"k": 3, "v": "ours"}])
    ours.table("db.t").compact(full=True)
    assert java.sql("SELECT * FROM p.db.t") == [(1, "ours"), (2, "c"), (3, "ours")]

    java.sql("CALL p.sys.compact(table => 'db.k', compact_strategy => 'full')")
    ours.table("db.k").write([{"k": 9, "v": "last"}])
    assert rows(ours, "db.k") == [*expected[:-1], (9, "last")]
    java.sql("ALTER TABLE p.db.a ADD COLUMN s STRING")
    assert rows(ours, "db.a")[0] == ("a b/ü", 1, None)
    java.sql("CREATE DATABASE p.empty")
    assert ours.list_databases() == ["db", "default", "empty"]  # its Spark catalog made one
    java.sql("DROP TABLE p.db.t")
    assert ours.list_tables("db") == ["a", "k"]
    ours.drop_table("db.a")
    assert java.sql("SHOW TABLES IN p.db") == [("db", "k", False)]
