"""Tables of Kafka on Spark, with a real broker: declared, read, written."""

import datetime as dt

import pytest

from tidelake.errors import InvalidInputError, NotFoundError, UnsupportedError


def rows(frame):
    return [tuple(row) for row in frame.collect()]


def messages(*numbers):
    return [b'{"id":%d,"name":"n%d","at":"2026-11-24 12:00:00.%03d"}' % (n, n, n) for n in numbers]


COLUMNS = "id BIGINT, name STRING, at TIMESTAMP(3)"


def test_a_topic_is_read_in_sql_with_metadata_and_options(lake, topics, declare):
    topic = topics.make(partitions=2)
    topics.send(topic, *messages(1, 2), partition=0)
    topics.send(topic, *messages(3), partition=1)
    declare("events", f"{COLUMNS}, part INT METADATA FROM 'partition' VIRTUAL,"
            " `offset` BIGINT METADATA VIRTUAL", topic)  # fmt: skip
    found = lake.sql("SELECT * FROM events ORDER BY id")
    assert found.columns == ["id", "name", "at", "part", "offset"]
    assert rows(found) == [
        (n, f"n{n}", dt.datetime(2026, 11, 24, 12, 0, 0, 1000 * n), part, offset)
        for n, part, offset in ((1, 0, 0), (2, 0, 1), (3, 1, 0))
    ]
    assert rows(lake.sql("SELECT count(*) FROM events")) == [(3,)]
    hint = "/*+ OPTIONS('scan.startup.mode'='latest-offset') */"
    assert rows(lake.sql(f"SELECT id FROM events {hint}")) == []
    joined = lake.sql("SELECT e.name FROM events e JOIN events f ON e.id = f.id + 1 ORDER BY e.id")
    assert rows(joined) == [("n2",), ("n3",)]


def test_a_topic_is_read_by_tl_table_and_written_into_a_table(lake, topics, declare):
    topic = topics.make()
    topics.send(topic, *messages(1, 2))
    declare("events", COLUMNS, topic)
    assert rows(lake.table("events", columns=["name"], where="id > 1")) == [("n2",)]
    lake.sql("CREATE TABLE sink (id BIGINT, name STRING, at TIMESTAMP(3))")
    lake.sql("INSERT INTO sink SELECT * FROM events")
    assert lake.catalog.table("default.sink").to_arrow().num_rows == 2
    with pytest.raises(InvalidInputError, match="no snapshots"):
        lake.table("events", snapshot_id=1)
    with pytest.raises(UnsupportedError, match="no system tables"):
        lake.table("events$snapshots")


def test_rows_inserted_are_messages_that_are_read(lake, topics, declare):
    topic = topics.make(partitions=2)
    declare(
        "events", f"{COLUMNS}, ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL", topic,
        **{"key.format": "raw", "key.fields": "name"},
    )  # fmt: skip
    lake.sql(
        "INSERT INTO events VALUES (1, 'a', TIMESTAMP '2026-11-24 12:00:00.5'), (2, 'b', NULL)"
    )
    lake.sql("INSERT INTO events (name, id) SELECT 'c', 3")
    found = {m.key(): m.value() for m in topics.read(topic)}
    assert found == {
        b"a": b'{"id":1,"name":"a","at":"2026-11-24 12:00:00.5"}',
        b"b": b'{"id":2,"name":"b","at":null}',
        b"c": b'{"id":3,"name":"c","at":null}',
    }
    assert rows(lake.sql("SELECT id FROM events WHERE ts IS NOT NULL ORDER BY id")) == [
        (1,), (2,), (3,),
    ]  # fmt: skip
    with pytest.raises(UnsupportedError, match="only appends"):
        lake.sql("INSERT OVERWRITE events SELECT 1, 'a', NULL")


def test_changes_go_to_an_upsert_topic_and_from_there_into_a_table(lake, spark, topics, declare):
    topic = topics.make(partitions=2)
    declare(
        "board", "id BIGINT, name STRING, PRIMARY KEY (id) NOT ENFORCED", topic,
        **{"connector": "upsert-kafka", "key.format": "json", "scan.startup.mode": None},
    )  # fmt: skip
    changes = [("+I", 1, "a"), ("+I", 2, "b"), ("-U", 1, "a"), ("+U", 1, "c"), ("-D", 2, "b")]
    frame = spark.createDataFrame(changes, "_row_kind string, id bigint, name string").coalesce(1)
    assert lake.write(frame, "board").rows == 4
    assert sorted((m.key(), m.value()) for m in topics.read(topic) if m.value() is None) == [
        (b'{"id":2}', None)
    ]
    with pytest.raises(UnsupportedError, match="_row_kind"):
        lake.sql("SELECT * FROM board").collect()
    kinds = rows(lake.sql("SELECT _row_kind, id FROM board"))
    assert sorted(kinds) == [("+U", 1), ("+U", 1), ("+U", 2), ("-D", 2)]
    lake.create_table("default.state", "id bigint, name string", primary_keys=["id"])
    lake.write(lake.table("board"), "default.state")
    assert rows(lake.table("default.state")) == [(1, "c")]


def test_bad_messages_fail_are_skipped_or_put_into_a_table(lake, topics, declare):
    topic = topics.make()
    topics.send(topic, *messages(1), b"{", b'{"id":"x"}')
    declare("events", COLUMNS, topic)
    with pytest.raises(Exception, match="offset 1 of partition 0") as refusal:
        lake.table("events").collect()
    assert "scan.bad-record" in str(refusal.value)
    skip = "/*+ OPTIONS('scan.bad-record'='skip') */"
    assert rows(lake.sql(f"SELECT id FROM events {skip}")) == [(1,)]
    letters = {"scan.bad-record": "dead-letter", "scan.dead-letter-table": "ops.letters"}
    for _ in range(2):
        assert lake.table("events", options=letters).count() == 1
    found = rows(lake.sql("SELECT `offset`, value FROM ops.letters ORDER BY `offset`"))
    assert found == [(1, b"{"), (2, b'{"id":"x"}')]


def test_a_wrong_declaration_is_refused_when_it_is_made(lake, topics, declare):
    with pytest.raises(InvalidInputError, match="Did you mean 'json'"):
        declare("events", COLUMNS, "t", format="jsn")
    with pytest.raises(InvalidInputError, match=r"Did you mean 'scan\.startup\.mode'"):
        declare("events", COLUMNS, "t", **{"scan.startup.mod": "x"})
    with pytest.raises(UnsupportedError, match="connector 'jdbc'"):
        declare("events", COLUMNS, "t", connector="jdbc")
    with pytest.raises(UnsupportedError, match="METADATA"):
        lake.sql("CREATE TABLE plain (id INT, o BIGINT METADATA FROM 'offset' VIRTUAL)")
    declare("events", COLUMNS, "no-such-topic")
    with pytest.raises(NotFoundError, match="no-such-topic"):
        lake.sql("SELECT * FROM events")


def test_messages_too_large_are_an_error_of_ours(lake, topics, declare):
    declare("events", COLUMNS, topics.make())
    with pytest.raises(InvalidInputError, match="larger than the limit"):
        lake.sql("INSERT INTO events SELECT 1, repeat('x', 200000), NULL")
