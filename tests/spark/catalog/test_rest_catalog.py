"""A REST catalog on Spark whose server gives keys for its tables' store: they end in long jobs."""

from __future__ import annotations

import pickle
import time

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from servers.rest_catalog import TOKEN, RestCatalogServer
from servers.s3 import KEY_ID, S3Server

import tidelake
import tidelake.spark
from tidelake.fileio.location import parse_location
from tidelake.fileio.opening import open_storage
from tidelake.telemetry import Env


class KnownKeys:
    """The server's own key, and those that it gives."""

    def __contains__(self, key_id):
        return key_id == KEY_ID or key_id.startswith("key-")


@pytest.fixture(scope="module")
def store():
    with S3Server() as server:
        server.key_ids = KnownKeys()
        yield server


@pytest.fixture(scope="module")
def server(store):
    files = open_storage(parse_location("s3://lake/house"), store.storage(), Env.system())
    made = RestCatalogServer("/house", vends=True, fileio=files, shown_as="s3://lake")
    made.now_ms = int(time.time() * 1000)
    made.vends_sessions = True
    made.defaults |= {"s3.endpoint": store.url}
    with made as started:
        yield started


@pytest.fixture(scope="module")
def lake(spark, server):
    catalog = tidelake.open(catalog=server.options())
    return tidelake.spark.attach(spark, catalog, catalog="served")


@pytest.fixture(scope="module")
def source(spark, lake):
    """``format("tidelake")`` for a table of the catalog."""

    def of(name, made=spark.read):
        return made.format("tidelake").option("warehouse", lake.catalog.uri).option("table", name)

    return of


def rows(frame):
    return sorted(map(tuple, frame.collect()))


def test_tables_are_read_and_written_with_keys_that_the_server_gives(spark, lake):
    lake.sql("CREATE TABLE db.t (k BIGINT, v STRING, PRIMARY KEY (k) NOT ENFORCED)"
             " WITH ('bucket' = '2')")  # fmt: skip
    lake.write(spark.range(5).selectExpr("id AS k", "'a' AS v"), "db.t")
    spark.sql("INSERT INTO served.db.t VALUES (2, 'b'), (9, 'b')")
    wanted = [(0, "a"), (1, "a"), (2, "b"), (3, "a"), (4, "a"), (9, "b")]
    assert rows(lake.table("db.t")) == wanted
    lake.compact("db.t", full=True)
    assert rows(spark.table("served.db.t")) == wanted
    sent = pickle.dumps(lake.catalog.table("db.t").handle)
    assert not [text for text in (b"secret-1", b"session-1", TOKEN.encode()) if text in sent]


def test_keys_that_end_before_the_tasks_run_are_renewed_there(spark, store, server, lake):
    lake.create_table("db.ends", "k bigint, v string", primary_keys=["k"], options={"bucket": 1})
    table = lake.catalog.table("db.ends")
    for value in "ab":
        table.write([{"k": k, "v": value} for k in range(3)])
    frame = lake.table("db.ends")
    tokens = server.count("/token")
    try:
        store.expired_tokens = {f"session-{number}" for number in range(1, tokens + 1)}
        assert rows(frame) == [(k, "b") for k in range(3)]
        assert server.count("/token") > tokens
    finally:
        store.expired_tokens = set()


def test_the_data_source_reads_writes_and_streams_by_the_server(
    spark, lake, server, source, tmp_path
):
    for name in ("db.f", "db.g"):
        lake.create_table(name, "k bigint", options={"bucket": -1})
    commits = server.count("POST /v1/tide+lake/databases/db/tables/f/commit")
    source("db.f", spark.range(3).toDF("k").write).mode("append").save()
    assert server.count("POST /v1/tide+lake/databases/db/tables/f/commit") == commits + 1
    assert rows(source("db.f").load()) == rows(lake.table("db.f")) == [(0,), (1,), (2,)]
    stream = source("db.f", spark.readStream).load()
    into = source("db.g", stream.writeStream).option("checkpointLocation", str(tmp_path / "c"))
    into.trigger(availableNow=True).start().awaitTermination()
    assert rows(lake.table("db.g")) == [(0,), (1,), (2,)]
    elsewhere = spark.read.format("tidelake").option("table", "db.f")
    with pytest.raises(PySparkException, match=r"No REST catalog http://127\.9:1/lake is"):
        elsewhere.option("warehouse", "http://127.9:1/lake").load()


def test_rows_are_looked_up_in_files_and_by_a_service(spark, lake):
    lake.create_table("db.d", "k bigint, v string", primary_keys=["k"], options={"bucket": 1})
    lake.catalog.table("db.d").write([{"k": k, "v": f"v{k}"} for k in range(5)])
    asked = spark.range(3, 7).toDF("k")
    wanted = [(3, "v3"), (4, "v4"), (5, None), (6, None)]
    assert rows(lake.lookup_join(asked, "db.d", on="k", via="local")) == wanted
    with lake.serve(["db.d"], parallelism=1) as service:
        service.wait_ready(30)
        with tidelake.lookup_client(lake.catalog, "db.d", deadline_seconds=30) as client:
            assert client.get(4) == {"k": 4, "v": "v4"}
        assert rows(lake.lookup_join(asked, "db.d", on="k", via="service")) == wanted
        joined = lake.lookup_join(asked, "db.d", on="k", via="service").select(F.max("v"))
        assert TOKEN not in joined._jdf.queryExecution().toString()
