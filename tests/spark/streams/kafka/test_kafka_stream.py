"""Streams from and to topics, with a real broker."""

import re
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from kafka_broker import mortal_broker
from pyspark.sql import functions as F
from spark.streams.kafka.test_kafka import COLUMNS, messages, rows
from unit.kafka.conftest import Topics

from tidelake.errors import InvalidInputError, NotFoundError, StorageError, UnsupportedError


@pytest.fixture
def pour(lake, tmp_path):
    """Run a stream of a topic into a table until all is read."""

    def run(name="events", table="default.sink", *, select=None, options=None, to="checkpoint"):
        frame = lake.read_kafka_stream(name, options=options)
        if select is not None:
            frame = frame.select(*select)
        query = lake.write_stream(frame, table, checkpoint=tmp_path / to, trigger="availableNow")
        query.awaitTermination(60)
        return query

    return run


def sink_ids(lake):
    return sorted(lake.catalog.table("default.sink").to_arrow().column("id").to_pylist())


def test_a_stream_goes_on_where_it_was_each_message_once(lake, topics, declare, pour):
    topic = topics.make()
    topics.send(topic, *messages(*range(5)))
    declare("events", COLUMNS, topic, **{"read.stream.maxRowsPerTrigger": "2"})
    lake.create_table("default.sink", "id bigint, name string")
    query = pour(select=["id", "name"])
    assert len(query.recentProgress) >= 3
    assert query.recentProgress[0]["numInputRows"] == 2
    topics.grow(topic, 2)
    topics.send(topic, *messages(5, 6), partition=0)
    topics.send(topic, *messages(7), partition=1)
    pour(select=["id", "name"])
    assert sink_ids(lake) == list(range(8))
    pour(select=["id", "name"])
    assert sink_ids(lake) == list(range(8))


def test_a_batch_that_spark_had_not_noted_is_given_and_written_once(
    lake,
    topics,
    declare,
    pour,
    tmp_path,
):
    topic = topics.make()
    topics.send(topic, *messages(1, 2))
    declare("events", COLUMNS, topic)
    lake.create_table("default.sink", "id bigint")
    pour(select=["id"])
    # as if the driver had died between our commit and Spark's
    for log in (tmp_path / "checkpoint" / "commits").glob("*0*"):
        log.unlink()
    topics.send(topic, *messages(3))
    pour(select=["id"])
    assert sink_ids(lake) == [1, 2, 3]


def test_changes_of_a_topic_are_applied_to_a_table(lake, topics, declare, pour):
    topic = topics.make()
    topics.send(
        topic,
        b'{"op":"c","after":{"id":1,"name":"a"}}',
        b'{"op":"c","after":{"id":2,"name":"b"}}',
        b'{"op":"u","before":{"id":1,"name":"a"},"after":{"id":1,"name":"c"}}',
        b'{"op":"d","before":{"id":2,"name":"b"}}',
    )
    declare("events", "id BIGINT, name STRING", topic, format="debezium-json")
    lake.create_table("default.sink", "id bigint, name string", primary_keys=["id"])
    assert lake.read_kafka_stream("events").columns == ["_row_kind", "id", "name"]
    pour()
    assert rows(lake.table("default.sink")) == [(1, "c")]


def test_a_stream_into_a_topic_and_its_bad_messages_into_a_table(
    lake,
    topics,
    declare,
    tmp_path,
):
    source, target = topics.make(), topics.make()
    topics.send(source, *messages(1), b"{", *messages(2))
    declare(
        "events", COLUMNS, source,
        **{"scan.bad-record": "dead-letter", "scan.dead-letter-table": "ops.letters"},
    )  # fmt: skip
    declare("copy", "id BIGINT, name STRING", target)
    frame = lake.read_kafka_stream("events").select("id", "name")
    query = lake.write_stream(frame, "copy", checkpoint=tmp_path / "c", trigger="availableNow")
    query.awaitTermination(60)
    assert [m.value() for m in topics.read(target)] == [
        b'{"id":1,"name":"n1"}', b'{"id":2,"name":"n2"}',
    ]  # fmt: skip
    assert rows(lake.sql("SELECT `offset`, value FROM ops.letters")) == [(1, b"{")]
    with pytest.raises(InvalidInputError, match="must be one of append"):
        lake.write_stream(frame, "copy", checkpoint=tmp_path / "d", mode="complete")
    with pytest.raises(InvalidInputError, match="checkpoint"):
        lake.write_stream(frame, "copy")
    (tmp_path / "file").write_text("")
    for more, said in (
        ({"checkpoint": tmp_path / "file"}, "is a file"),
        ({"checkpoint": tmp_path / "file" / "below"}, "is a file"),
        ({"trigger": {"every": "1 s"}}, "Spark refuses the stream"),
    ):
        with pytest.raises(InvalidInputError, match=said) as refused:
            lake.write_stream(frame, "copy", **{"checkpoint": tmp_path / "d", **more})
        assert "\n" not in refused.value.message
    large = frame.withColumn("name", F.repeat("name", 80_000))
    query = lake.write_stream(large, "copy", checkpoint=tmp_path / "e", trigger="availableNow")
    with pytest.raises(InvalidInputError, match="larger than the limit"):
        query.awaitTermination(60)


def test_a_topic_that_lost_messages_stops_the_stream(lake, topics, declare, pour):
    topic = topics.make()
    topics.send(topic, *messages(1, 2))
    declare("events", COLUMNS, topic)
    lake.create_table("default.sink", "id bigint")
    pour(select=["id"])
    topics.send(topic, *messages(3, 4))
    topics.forget(topic, 0, 3)
    with pytest.raises(Exception, match=r"Offset 2 of partition 0.*is lost"):
        pour(select=["id"])
    pour(select=["id"], options={"scan.fail-on-data-loss": "false"})
    assert sink_ids(lake) == [1, 2, 4]


def awaited(look, seconds=60):
    """Wait until a look finds something."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, "it does not come"
        time.sleep(0.1)
    return found


@pytest.mark.full
def test_a_broker_that_dies_in_the_middle_of_a_stream_and_comes_back(lake, tmp_path):
    with mortal_broker(tmp_path / "kafka") as broker:
        topics = Topics(broker.servers)
        topic = topics.make(partitions=2)
        topics.send(topic, *messages(*range(100)))
        lake.sql(
            f"CREATE TEMPORARY TABLE events (id BIGINT) WITH ('connector'='kafka',"
            f" 'topic'='{topic}', 'properties.bootstrap.servers'='{broker.servers}',"
            " 'format'='json', 'scan.startup.mode'='earliest-offset',"
            " 'read.stream.maxRowsPerTrigger'='10')"
        )
        lake.create_table("default.sink", "id bigint")

        def start(trigger=None):
            frame = lake.read_stream("events")
            return lake.write_stream(
                frame, "default.sink", checkpoint=tmp_path / "c", trigger=trigger
            )

        query = start()
        awaited(lambda: len(sink_ids(lake)) >= 20)
        broker.kill()
        time.sleep(3)  # longer than a batch waits for brokers
        assert query.isActive, query.exception()
        broker.start()
        topics.send(topic, *messages(*range(100, 105)), partition=1)
        awaited(lambda: len(sink_ids(lake)) >= 105)
        broker.kill()
        query.stop()
        # a stream with an end does not take silence for its end
        with pytest.raises(StorageError, match="No broker of table 'events' answers"):
            start("availableNow").awaitTermination(60)
    assert sink_ids(lake) == list(range(105))


def test_a_table_that_is_not_declared_is_not_found(lake):
    with pytest.raises(NotFoundError, match="is declared"):
        lake.read_kafka_stream("nothing")


def test_the_code_of_the_page_runs(topics, spark, tmp_path, capsys):
    page = (Path(__file__).parents[4] / "docs" / "kafka.md").read_text(encoding="utf-8")
    topic = topics.make(name="flights")
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    code = "\n".join(blocks).replace("/tmp/", f"{tmp_path}/")
    code = code.replace("127.0.0.1:9092", topics.servers)
    exec(compile(code, "docs/kafka.md", "exec"), {})
    expected = re.findall(r"^print\(.*\)  # (.*)$", code, re.MULTILINE)
    assert capsys.readouterr().out.split() == expected
    assert len(topics.read(topic)) == 2


def test_a_topic_is_a_stream_of_sql_with_its_watermark(lake, topics, declare, tmp_path):
    topic = topics.make()
    topics.send(topic, *[b'{"id":%d,"at":"2026-11-24 12:0%d:00"}' % (n, n) for n in (1, 2)])
    declare("clicks", "id BIGINT, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '5' SECOND",
            topic, **{"scan.startup.mode": "earliest-offset"})  # fmt: skip
    lake.sql("CREATE TABLE copy (id BIGINT, at TIMESTAMP(3)) WITH ('bucket' = '-1')")
    lake.sql("SET 'execution.runtime-mode' = 'streaming'")
    lake.sql(f"SET 'execution.checkpointing.dir' = '{tmp_path / 'checkpoints'}'")
    ((job_id, _),) = lake.sql("INSERT INTO copy SELECT * FROM clicks").collect()
    job = lake.job(job_id)
    job.query.processAllAvailable()
    job.stop()
    table = lake.catalog.table("default.copy")
    assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 2]
    late = table.handle.snapshots.latest().watermark
    assert late == int(datetime(2026, 11, 24, 12, 1, 55, tzinfo=UTC).timestamp() * 1000)


@pytest.fixture
def streaming(lake, tmp_path):
    """Streaming mode; jobs are stopped at the end."""
    lake.sql("SET 'execution.runtime-mode' = 'streaming'")
    lake.sql(f"SET 'execution.checkpointing.dir' = '{tmp_path / 'checkpoints'}'")
    yield lake
    for job in lake.jobs():
        job.stop()


def test_a_statement_set_sends_nothing_before_all_of_it_is_analysed(streaming, topics, declare):
    topic = topics.make()
    declare("out", "id BIGINT", topic)
    with pytest.raises(NotFoundError):
        streaming.sql(
            "EXECUTE STATEMENT SET BEGIN INSERT INTO out VALUES (1);"
            " INSERT INTO nowhere VALUES (2); END"
        )
    assert topics.read(topic) == []


def test_jobs_of_sql_write_rows_and_changes_into_topics(streaming, topics, declare):
    """From a topic into a topic, and from a primary-key table into one of upserts."""
    lake, source, plain, upserts = streaming, topics.make(), topics.make(), topics.make()
    topics.send(source, *messages(1, 2))
    declare("events", COLUMNS, source)
    declare("copy", "id BIGINT, name STRING", plain)
    declare(
        "board", "id BIGINT, name STRING, PRIMARY KEY (id) NOT ENFORCED", upserts,
        **{"connector": "upsert-kafka", "key.format": "json", "scan.startup.mode": None},
    )  # fmt: skip
    lake.sql(
        "CREATE TABLE state (name STRING, id BIGINT, PRIMARY KEY (id) NOT ENFORCED)"
        " WITH ('bucket' = '1', 'changelog-producer' = 'input')"
    )
    for wrong, words in [
        ("copy SELECT id, name FROM state", "messages of the format 'json' cannot take"),
        ("copy SELECT count(*), name FROM events GROUP BY name", "'upsert-kafka'"),
        ("copy SELECT id FROM events", "column"),
    ]:
        with pytest.raises((UnsupportedError, InvalidInputError), match=words):
            lake.sql(f"INSERT INTO {wrong}")
    lake.sql("INSERT INTO state VALUES ('a', 1), ('b', 2)")
    found = lake.sql(
        "EXECUTE STATEMENT SET BEGIN INSERT INTO copy (name, id) SELECT name, id + 10 FROM events;"
        " INSERT INTO board SELECT id, upper(name) FROM state; END"
    ).collect()
    assert [row["job name"] for row in found] == ["copy", "board"]
    for job in lake.jobs():
        job.query.processAllAvailable()
    lake.write([{"id": 2, "name": "b", "_row_kind": "-D"}], "default.state")
    lake.job("board").query.processAllAvailable()
    assert [m.value() for m in topics.read(plain)] == [
        b'{"id":11,"name":"n1"}', b'{"id":12,"name":"n2"}',
    ]  # fmt: skip
    latest = {m.key(): m.value() for m in topics.read(upserts)}
    assert latest == {b'{"id":1}': b'{"id":1,"name":"A"}', b'{"id":2}': None}


def test_a_topic_is_a_stream_by_its_name_with_its_watermark(lake, spark, topics, declare, tmp_path):
    topic = topics.make()
    topics.send(topic, *messages(1, 2, 3))
    declare("events", f"{COLUMNS}, WATERMARK FOR at AS at - INTERVAL '2' SECOND", topic)
    found = lake.read_stream("events", ["name", "at"], "id > 1")
    assert found.isStreaming
    assert found.columns == ["name", "at"]
    named = lake.sql("SELECT name, at FROM STREAM events WHERE id > 1")
    assert named.isStreaming
    assert lake.sql("SELECT name FROM events").collect()  # a batch, as before
    lake.create_table("default.sink", "name string, at timestamp_ntz")
    query = lake.write_stream(
        found.union(named), "default.sink", checkpoint=tmp_path / "c", trigger="availableNow"
    )
    query.awaitTermination(60)
    sink = lake.catalog.table("default.sink")
    assert sorted(sink.to_arrow().column("name").to_pylist()) == ["n2", "n2", "n3", "n3"]
    (found,) = lake.sql("SELECT watermark FROM sink$snapshots").collect()
    assert found[0] == 1_795_521_598_003  # 12:00:00.003, less two seconds
