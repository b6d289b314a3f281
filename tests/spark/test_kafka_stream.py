"""Streams from and to topics, with a real broker."""

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from spark.test_kafka import COLUMNS, messages, rows

from tidelake.errors import InvalidInputError, NotFoundError


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
    with pytest.raises(InvalidInputError, match="none of append"):
        lake.write_stream(frame, "copy", checkpoint=tmp_path / "d", mode="complete")
    with pytest.raises(InvalidInputError, match="checkpoint"):
        lake.write_stream(frame, "copy")


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


def test_a_table_that_is_not_declared_is_not_found(lake):
    with pytest.raises(NotFoundError, match="is declared"):
        lake.read_kafka_stream("nothing")


def test_the_code_of_the_page_runs(topics, spark, tmp_path, capsys):
    page = (Path(__file__).parents[2] / "docs" / "kafka.md").read_text(encoding="utf-8")
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
