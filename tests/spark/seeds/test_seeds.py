"""The statements of the documents that this project begins with, as they stand there.

Where a document writes ``...`` for what it leaves out, the statement is refused with a word about
it, and runs when that is filled in.
"""

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

import tidelake.spark
from tidelake.errors import InvalidInputError, NotFoundError
from tidelake.spark.streams.jobs.live_rows import LiveRows

SEEDS = Path(__file__).parents[4] / "shared" / "seeds"

IN_CATALOG = """\
CREATE TABLE `<your-paimon-catalog>`.`<your-db>`.paimon_table (
id BIGINT,
data STRING,
PRIMARY KEY (id) NOT ENFORCED
) WITH (
...
);"""
TEMPORARY = """\
CREATE TEMPORARY TABLE paimon_table (
id BIGINT,
data STRING,
PRIMARY KEY (id) NOT ENFORCED
) WITH (
'connector' = 'paimon',
'path' = '<path-to-paimon-table-files>',
'auto-create'='true' -- If no Apache Paimon table file exists in the specified path, a file is \
automatically created.
);"""
AGGREGATION = """\
CREATE TABLE MyTable (
product_id BIGINT,
price DOUBLE,
sales BIGINT,
PRIMARY KEY (product_id) NOT ENFORCED
) WITH (
'merge-engine' = 'aggregation',
'fields.price.aggregate-function' = 'max',
'fields.sales.aggregate-function' = 'sum'
);"""
SCALABLE = """\
CREATE TABLE MyTable (
    product_id BIGINT,
    price DOUBLE,
    sales BIGINT
) WITH (
    'bucket' = '-1'
);"""
QUEUE = """\
CREATE TABLE MyTable (
    product_id BIGINT,
    price DOUBLE,
    sales BIGINT
) WITH (
    'bucket' = '8',
    'bucket-key' = 'product_id'
);"""
WATERMARKED = """\
CREATE TABLE T (
    `user` BIGINT,
    product STRING,
    order_time TIMESTAMP(3),
    WATERMARK FOR order_time AS order_time - INTERVAL '5' SECOND
) WITH (...);"""
TUMBLE = """\
SELECT window_start, window_end, COUNT(`user`) FROM TABLE(
 TUMBLE(TABLE T, DESCRIPTOR(order_time), INTERVAL '10' MINUTES)) \
GROUP BY window_start, window_end;"""
KAFKA = """\
CREATE TABLE kafka_table (
    `user` BIGINT,
    product STRING,
    order_time TIMESTAMP(3),
    WATERMARK FOR order_time AS order_time - INTERVAL '5' SECOND
) WITH ('connector' = 'kafka'...);"""
FROM_KAFKA = "INSERT INTO paimon_table SELECT * FROM kakfa_table;"
BOUNDED = "SELECT * FROM paimon_table /*+ OPTIONS('scan.bounded.watermark'='...') */;"

ALL = (
    IN_CATALOG,
    TEMPORARY,
    AGGREGATION,
    SCALABLE,
    QUEUE,
    WATERMARKED,
    TUMBLE,
    KAFKA,
    FROM_KAFKA,
    BOUNDED,
)


def rows(lake, text):
    return [tuple(row) for row in lake.sql(text).collect()]


@pytest.mark.skipif(not SEEDS.is_dir(), reason="the documents are not beside the checkout")
def test_these_are_all_the_statements_of_the_documents_word_for_word():
    text = "\n".join(path.read_text(encoding="utf-8") for path in sorted(SEEDS.glob("*.txt")))
    for statement in ALL:
        assert statement in text
        text = text.replace(statement, "")
    left = re.findall(r"^(?:CREATE|INSERT|SELECT|ALTER|DROP)\b.*$", text, re.MULTILINE)
    assert left == []


def test_a_table_in_a_catalog_by_its_three_names(lake, tmp_path):
    with pytest.raises(InvalidInputError, match="write it out") as raised:
        lake.sql(IN_CATALOG)
    assert raised.value.kind == "sql_ellipsis"
    filled = IN_CATALOG.replace("...", "'bucket' = '1'")
    with pytest.raises(NotFoundError, match="no catalog '<your-paimon-catalog>'"):
        lake.sql(filled)
    lake.sql(
        "CREATE CATALOG `<your-paimon-catalog>` WITH ('type'='paimon',"
        f" 'warehouse'='{tmp_path / 'other'}')"
    )
    lake.sql(filled)
    name = "`<your-paimon-catalog>`.`<your-db>`.paimon_table"
    lake.sql(f"INSERT INTO {name} VALUES (1, 'a'), (2, 'b')")
    lake.sql(f"INSERT INTO {name} VALUES (2, 'c')")
    assert rows(lake, f"SELECT * FROM {name} ORDER BY id") == [(1, "a"), (2, "c")]


def test_a_temporary_table_is_made_at_its_path(lake, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lake.sql(TEMPORARY)
    lake.sql("INSERT INTO paimon_table VALUES (1, 'a'), (1, 'b')")
    assert rows(lake, "SELECT id, data FROM paimon_table") == [(1, "b")]
    # a bounded stream's end does nothing to a batch; it is checked to be a number
    with pytest.raises(InvalidInputError, match=r"'scan\.bounded\.watermark' is '\.\.\.'"):
        lake.sql(BOUNDED)
    filled = BOUNDED.replace("...", "1767225600000")
    assert rows(lake, filled) == [(1, "b")]
    other = tidelake.spark.attach(lake.spark, lake.catalog.warehouse)
    other.sql(TEMPORARY)
    assert rows(other, "SELECT data FROM paimon_table WHERE id = 1") == [("b",)]


def test_the_example_of_aggregation(lake):
    lake.sql(AGGREGATION)
    lake.sql("INSERT INTO MyTable VALUES (1, 23.0, 15)")
    lake.sql("INSERT INTO MyTable VALUES (1, 30.2, 20)")
    assert rows(lake, "SELECT * FROM MyTable") == [(1, 30.2, 35)]


@pytest.mark.parametrize("at_once", [False, True])
def test_the_example_of_partial_update(lake, at_once):
    lake.sql(
        "CREATE TABLE t (k INT, a DOUBLE, b INT, c STRING, PRIMARY KEY (k) NOT ENFORCED)"
        " WITH ('merge-engine' = 'partial-update')"
    )
    values = ["(1, 23.0, 10, NULL)", "(1, NULL, NULL, 'This is a book')", "(1, 25.2, NULL, NULL)"]
    for given in [", ".join(values)] if at_once else values:
        lake.sql(f"INSERT INTO t VALUES {given}")
    assert rows(lake, "SELECT * FROM t") == [(1, 25.2, 10, "This is a book")]


def test_append_tables(lake):
    lake.sql(SCALABLE)
    schema = lake.catalog.table("default.MyTable").table_schema
    assert (schema.primary_keys, dict(schema.options)) == ((), {"bucket": "-1"})
    lake.sql("INSERT INTO MyTable VALUES (1, 1.5, 2), (1, 1.5, 2)")
    assert rows(lake, "SELECT count(*) FROM MyTable") == [(2,)]
    lake.sql("DROP TABLE MyTable")
    lake.sql(QUEUE)
    lake.sql("INSERT INTO MyTable SELECT id, id / 2, id * 2 FROM range(20)")
    assert rows(lake, "SELECT sum(sales) FROM MyTable WHERE product_id < 4") == [(12,)]
    buckets = rows(lake, "SELECT bucket FROM MyTable$files")
    assert len({bucket for (bucket,) in buckets}) > 1


def test_windows_over_a_table_with_a_watermark(lake):
    with pytest.raises(InvalidInputError, match="write it out"):
        lake.sql(WATERMARKED)
    lake.sql(WATERMARKED.replace("...", "'bucket' = '-1'"))
    options = lake.catalog.table("default.T").table_schema.options
    assert options["schema.watermark.0.strategy.expr"] == "`order_time` - INTERVAL '5' SECOND"
    lake.sql(
        "INSERT INTO T VALUES (1, 'a', TIMESTAMP_NTZ '2026-01-01 00:03:00'),"
        " (2, 'b', TIMESTAMP_NTZ '2026-01-01 00:09:59.999'),"
        " (3, 'c', TIMESTAMP_NTZ '2026-01-01 00:10:00'), (4, 'd', NULL)"
    )
    assert sorted(rows(lake, TUMBLE)) == [
        (datetime(2026, 1, 1, 0, 0), datetime(2026, 1, 1, 0, 10), 2),
        (datetime(2026, 1, 1, 0, 10), datetime(2026, 1, 1, 0, 20), 1),
    ]


def test_a_job_copies_a_topic_and_a_bounded_job_follows_its_watermark(lake, topics, tmp_path):
    """The document's three statements on bounded streams, in turn."""
    with pytest.raises(InvalidInputError, match="write it out"):
        lake.sql(KAFKA)
    topic = topics.make()
    options = {
        "topic": topic,
        "properties.bootstrap.servers": topics.servers,
        "format": "json",
        "scan.startup.mode": "earliest-offset",
    }
    lake.sql(KAFKA.replace("...", "".join(f", '{k}' = '{v}'" for k, v in options.items())))
    assert [r[0] for r in rows(lake, "DESCRIBE kafka_table")] == ["user", "product", "order_time"]
    lake.sql(
        "CREATE TABLE paimon_table (`user` BIGINT, product STRING, t TIMESTAMP_NTZ)"
        " WITH ('bucket' = '-1')"
    )
    lake.sql("SET 'execution.runtime-mode' = 'streaming'")
    lake.sql(f"SET 'execution.checkpointing.dir' = '{tmp_path / 'checkpoints'}'")
    # the document misspells its own table
    with pytest.raises(NotFoundError, match=r"'kakfa_table'.* Did you mean 'kafka_table'"):
        lake.sql(FROM_KAFKA)
    ((job_id, _),) = rows(lake, FROM_KAFKA.replace("kakfa", "kafka"))
    job = lake.job(job_id)
    for hour in (10, 11, 12):
        time = f"2026-01-01 {hour}:00:00"
        topics.send(topic, f'{{"user":{hour},"product":"x","order_time":"{time}"}}'.encode())
        job.query.processAllAvailable()
    bound = int(datetime(2026, 1, 1, 11, 30, tzinfo=UTC).timestamp() * 1000)
    start = "'scan.mode' = 'from-snapshot', 'scan.snapshot-id' = '1', 'scan.bounded.watermark'"
    bounded = BOUNDED.replace("...", str(bound)).replace("'scan.bounded.watermark'", start)
    with LiveRows(lake.sql(bounded)) as found:
        assert [row["user"] for batch in found for row in batch.to_pylist()] == [10, 11]
    job.stop()


def test_numbers_of_tasks_by_options_of_the_with_clause(lake, spark):
    """The parallelism of Flink's sources and sinks is a number of Spark's tasks."""

    def parts(hint):
        return lake.sql(f"SELECT * FROM t /*+ OPTIONS({hint}) */").rdd.getNumPartitions()

    lake.sql(
        "CREATE TABLE t (k INT, v STRING, PRIMARY KEY (k) NOT ENFORCED)"
        " WITH ('bucket'='5', 'merge-engine'='partial-update')"
    )
    for _ in range(2):  # two runs in each bucket, so that each is merged, and no mask will do
        lake.sql("INSERT INTO t SELECT CAST(id AS INT), 'x' FROM range(100)")
    assert spark.sparkContext.defaultParallelism == 2
    assert parts("'source.split.target-size' = '1 b'") == 5
    assert parts("'source.split.target-size' = '1 b', 'scan.infer-parallelism' = 'false'") == 2
    assert parts("'scan.infer-parallelism' = 'true'") == 5
    assert parts("'scan.infer-parallelism' = 'true', 'scan.parallelism' = '3'") == 3
    assert parts("'scan.parallelism' = '1'") == 1
    lake.sql("CREATE TABLE a (k BIGINT) WITH ('bucket' = '-1')")
    lake.sql("INSERT INTO a SELECT id FROM range(0, 100, 1, 3)")
    native = "SELECT * FROM a /*+ OPTIONS('scan.parallelism' = '1') */"
    assert lake.sql("SELECT * FROM a").rdd.getNumPartitions() > 1
    assert lake.sql(native).rdd.getNumPartitions() == 1
    assert rows(lake, native.replace("*", "count(k)", 1)) == [(100,)]
    assert rows(lake, "SELECT count(*) FROM a$files") == [(3,)]
    for tasks in (1, 4):
        lake.sql(f"CREATE TABLE a{tasks} (k BIGINT) WITH ('sink.parallelism' = '{tasks}')")
        lake.sql(f"INSERT INTO a{tasks} SELECT id FROM range(0, 100, 1, 3)")
        assert rows(lake, f"SELECT count(*), sum(record_count) FROM a{tasks}$files") == [
            (tasks, 100)
        ]
    lake.sql("INSERT INTO a /*+ OPTIONS('sink.parallelism' = '2') */ SELECT id FROM range(50)")
    assert rows(lake, "SELECT count(*) FROM a$files") == [(5,)]
