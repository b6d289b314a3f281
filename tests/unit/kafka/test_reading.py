"""Batches of topics, from a real broker: offsets, gaps, transactions, keys, metadata."""

import contextlib
import datetime as dt
import pickle
import time

import pytest
from confluent_kafka import KafkaException
from unit.kafka.conftest import columns

from tidelake.errors import ConflictError, InvalidInputError, NotFoundError, StorageError
from tidelake.kafka.client import Client
from tidelake.kafka.definition import MetadataColumn
from tidelake.kafka.offsets import KafkaOffsets, KafkaSlice
from tidelake.kafka.read_range import (
    bounded_end,
    checked_start,
    current_end,
    initial_offsets,
)
from tidelake.kafka.slice_reader import SliceReader, all_blocks

NOW = 1000 * int(time.time())  # a topic's retention deletes what is older
TWO = columns(id="BIGINT", name="STRING")


def message(n):
    return b'{"id":%d,"name":"n%d"}' % (n, n)


def ids(found):
    return [row["id"] for row in found.rows]


def test_all_messages_of_all_partitions_are_read(topics, table_on, read):
    topic = topics.make(partitions=3)
    for partition in range(3):
        topics.send(
            topic, *map(message, range(10 * partition, 10 * partition + 5)), partition=partition
        )
    table = pickle.loads(pickle.dumps(table_on(topic, TWO)))
    assert ids(read(table)) == [*range(5), *range(10, 15), *range(20, 25)]
    cut = read(table, tasks=6)
    assert len(cut.parts) == 6
    assert ids(cut) == ids(read(table))


def test_blocks_grow_and_hold_every_message_once(topics, table_on, read):
    topic = topics.make()
    topics.send(topic, *map(message, range(3_000)))
    assert ids(read(table_on(topic, TWO), ["id"])) == list(range(3_000))


def test_an_empty_topic_has_no_slices(topics, table_on, read):
    assert read(table_on(topics.make(), TWO)).parts == []


@pytest.mark.parametrize(
    ("mode", "more", "expected"),
    [
        ("earliest-offset", {}, [0, 1, 2, 3, 4, 5]),
        ("latest-offset", {}, []),
        ("specific-offsets", {"scan__startup__specific-offsets": "partition:0,offset:4"}, [4, 5]),
        ("group-offsets", {"properties__group__id": "g"}, [2, 3, 4, 5]),
        ("timestamp", {"scan__startup__timestamp-millis": str(NOW + 3000)}, [3, 4, 5]),
        ("timestamp", {"scan__startup__timestamp-millis": str(NOW + 9000)}, []),
    ],
)
def test_a_read_begins_where_its_mode_says(topics, table_on, read, mode, more, expected):
    topic = topics.make()
    for n in range(6):
        topics.send(topic, message(n), timestamp=NOW + 1000 * n)
    commit(topics, topic, 2)
    table = table_on(topic, TWO, **{"scan__startup__mode": mode, **more})
    assert ids(read(table)) == expected


def commit(topics, topic, offset):
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    consumer = Consumer({"bootstrap.servers": topics.servers, "group.id": "g"})
    for _ in range(600):
        try:
            consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
            break
        except KafkaException:
            time.sleep(0.1)  # the broker elects the group's coordinator
    consumer.close()


@pytest.mark.parametrize(
    ("mode", "more", "expected"),
    [
        ("unbounded", {}, [0, 1, 2, 3, 4, 5]),
        ("latest-offset", {}, [0, 1, 2, 3, 4, 5]),
        ("specific-offsets", {"scan__bounded__specific-offsets": "partition:0,offset:2"}, [0, 1]),
        ("group-offsets", {"properties__group__id": "g"}, [0, 1]),
        ("timestamp", {"scan__bounded__timestamp-millis": str(NOW + 3000)}, [0, 1, 2]),
    ],
)  # fmt: skip
def test_a_read_ends_where_its_mode_says(topics, table_on, read, mode, more, expected):
    topic = topics.make()
    for n in range(6):
        topics.send(topic, message(n), timestamp=NOW + 1000 * n)
    commit(topics, topic, 2)
    table = table_on(topic, TWO, **{"scan__bounded__mode": mode, **more})
    assert ids(read(table)) == expected
    with Client(table) as client:
        bound = bounded_end(client)
    assert (bound is None) == (mode == "unbounded")


def test_group_offsets_without_a_commit_or_a_group_say_what_to_do(topics, table_on, read):
    topic = topics.make()
    topics.send(topic, message(1))
    given = {"scan__startup__mode": "group-offsets", "properties__group__id": "never"}
    with pytest.raises(NotFoundError, match=r"auto\.offset\.reset"):
        read(table_on(topic, TWO, **given))
    given["properties__auto__offset__reset"] = "earliest"
    assert ids(read(table_on(topic, TWO, **given))) == [1]
    with pytest.raises(InvalidInputError, match=r"properties\.group\.id"):
        read(table_on(topic, TWO, scan__startup__mode=None))


def test_a_transaction_that_is_open_or_aborted_is_not_read(topics, table_on, read):
    topic = topics.make()
    producer = topics.producer(**{"transactional.id": "tx"})
    producer.init_transactions(20)
    for value, ends in ((1, "commit"), (2, "abort"), (3, "commit"), (4, None)):
        producer.begin_transaction()
        producer.produce(topic, message(value))
        producer.flush(20)
        if ends:
            getattr(producer, f"{ends}_transaction")(20)
    table = table_on(topic, TWO)
    assert ids(read(table)) == [1, 3]  # ends at a mark: no message has the last offset
    producer.abort_transaction(20)
    assert ids(read(table)) == [1, 3]
    dirty = table_on(topic, TWO, properties__isolation__level="read_uncommitted")
    assert ids(read(dirty)) == [1, 2, 3, 4]


def test_a_compacted_topic_has_gaps(topics, table_on, read):
    topic = topics.make(
        cleanup_policy="compact", segment_ms=100, min_cleanable_dirty_ratio=0.01,
        min_compaction_lag_ms=0, max_compaction_lag_ms=100, delete_retention_ms=100,
    )  # fmt: skip
    topics.send(topic, *map(message, range(50)), keys=[b"a"] * 50)
    time.sleep(0.3)
    topics.send(topic, message(50), keys=[b"b"])
    table = table_on(topic, TWO)
    deadline = time.monotonic() + 120
    while 0 in (found := ids(read(table))):
        assert time.monotonic() < deadline, f"never compacted: {found}"
        time.sleep(0.3)
    assert found == [49, 50]


def test_offsets_that_kafka_deleted_are_refused_or_skipped_by_option(topics, table_on, read):
    topic = topics.make()
    topics.send(topic, *map(message, range(6)))
    topics.forget(topic, 0, 4)
    given = {
        "scan__startup__mode": "specific-offsets",
        "scan__startup__specific-offsets": "partition:0,offset:1",
    }
    with pytest.raises(NotFoundError, match=r"Offset 1 .* is lost: Kafka has 4 to 6") as refusal:
        read(table_on(topic, TWO, **given))
    assert refusal.value.kind == "kafka_offset_lost"
    given["properties__auto__offset__reset"] = "earliest"  # of a group without an offset alone
    with pytest.raises(NotFoundError, match=r"scan\.fail-on-data-loss"):
        read(table_on(topic, TWO, **given))
    given["scan__fail-on-data-loss"] = "false"
    assert ids(read(table_on(topic, TWO, **given))) == [4, 5]
    assert ids(read(table_on(topic, TWO))) == [4, 5]


def test_messages_deleted_after_the_plan_fail_the_task(topics, table_on):
    topic = topics.make()
    topics.send(topic, *map(message, range(6)))
    topics.forget(topic, 0, 4)
    part = KafkaSlice(topic, 0, 0, 6)
    with pytest.raises(NotFoundError, match="is lost: Kafka deleted"):
        list(all_blocks(table_on(topic, TWO), [part]))
    goes_on = {"scan__fail-on-data-loss": "false"}
    kept = table_on(topic, TWO, **goes_on)
    assert [b.offsets() for b in all_blocks(kept, [part])] == [[4, 5]]
    newest = table_on(topic, TWO, properties__auto__offset__reset="latest", **goes_on)
    assert list(all_blocks(newest, [part])) == []


def told(call):
    """What a call answers once all of the broker has heard of a topic."""
    for _ in range(600):
        try:
            return call()
        except (NotFoundError, KafkaException):
            time.sleep(0.1)
    return call()


def told_gone(call):
    """What a call answers once all of the broker has heard that a topic is gone."""
    for _ in range(600):
        with contextlib.suppress(ConflictError):
            call()
        time.sleep(0.1)


def test_a_checkpoint_behind_the_end_or_of_another_topic_is_refused(topics, table_on):
    topic = topics.make()
    topics.send(topic, *map(message, range(3)))
    with Client(table_on(topic, TWO)) as client:
        end = current_end(client)
        with pytest.raises(NotFoundError, match="Offset 9"):
            checked_start(client, KafkaOffsets({(topic, 0): 9}, end.topic_ids), end)
        topics.drop(topic)
        told(lambda: topics.make(name=topic))
        again = told(lambda: current_end(client))
        with pytest.raises(ConflictError, match="created again"):
            checked_start(client, KafkaOffsets({(topic, 0): 0}, end.topic_ids), again)


def test_a_topic_made_anew_between_plan_and_read_is_refused(topics, table_on):
    topic = topics.make()
    table = table_on(topic, TWO)
    goes_on = table_on(topic, TWO, **{"scan__fail-on-data-loss": "false"})
    topics.send(topic, *map(message, range(3)))
    with Client(table) as client:
        parts = initial_offsets(client).slices_to(current_end(client))

        def make_anew():
            topics.drop(topic)
            told(lambda: topics.make(name=topic))
            told(lambda: client.topic_id(topic) or client.partitions())
            topics.send(topic, *map(message, range(7, 10)))

        with SliceReader(table) as reader:  # while it is read
            blocks = reader.blocks(parts[0])
            assert next(blocks).offsets() == [0, 1, 2]
            make_anew()
            with pytest.raises(ConflictError, match="created again after this read was planned"):
                next(blocks)
    with pytest.raises(ConflictError, match="hold other messages now"):  # before it is read
        list(all_blocks(table, parts))
    assert list(all_blocks(goes_on, parts)) == []
    topics.drop(topic)
    with pytest.raises(NotFoundError, match="was deleted after this read was planned"):
        told_gone(lambda: list(all_blocks(table, parts)))


def test_a_new_partition_is_read_from_its_beginning(topics, table_on):
    topic = topics.make()
    topics.send(topic, message(1))
    with Client(table_on(topic, TWO)) as client:
        before = current_end(client)
        topics.grow(topic, 2)
        topics.send(topic, message(2), message(3), partition=1)
        for _ in range(600):
            after = current_end(client)
            if (topic, 1) in after.offsets:
                break
            time.sleep(0.1)
        assert before.slices_to(after) == [KafkaSlice(topic, 1, 0, 2, after.topic_ids[topic])]


def test_columns_of_the_key_are_read_where_the_value_has_none(topics, table_on, read):
    topic = topics.make()
    topics.send(
        topic, b'{"name":"a"}', b'{"name":"b"}', b'{"name":"c"}', keys=[b'{"id":1}', None, b"{"]
    )
    fields = columns(k_id="BIGINT", name="STRING")
    table = table_on(
        topic, fields,
        **{"key.format": "json", "key.fields": "k_id", "key.fields-prefix": "k_",
           "value.fields-include": "EXCEPT_KEY"},
    )  # fmt: skip
    found = read(table)
    assert found.rows == [{"k_id": 1, "name": "a"}, {"k_id": None, "name": "b"}]
    assert [offset for offset, _ in found.bad] == [2]
    assert found.bad[0][1].startswith("key: ")
    assert [r["name"] for r in read(table, ["name"]).rows] == ["a", "b", "c"]


def test_metadata_columns_are_what_kafka_knows(topics, table_on, read):
    topic = topics.make(partitions=2)
    topics.send(topic, message(1), message(2), partition=1, timestamp=1500, headers=[("h", b"x")])
    fields = columns(
        id="BIGINT", topic="STRING", part="BIGINT", off="BIGINT", ts="TIMESTAMP_LTZ(3)",
        local="TIMESTAMP(3)", kind="STRING", heads="MAP<STRING, BYTES>", epoch="INT",
    )  # fmt: skip
    keys = ["topic", "partition", "offset", "timestamp", "timestamp", "timestamp-type", "headers",
            "leader-epoch"]  # fmt: skip
    metadata = {
        f.name: MetadataColumn(key, is_virtual=True)
        for f, key in zip(fields[1:], keys, strict=True)
    }
    table = table_on(topic, fields, metadata)
    at = dt.datetime(1970, 1, 1, 0, 0, 1, 500_000)
    assert read(table, zone="Asia/Tokyo").rows[1] == {
        "id": 2, "topic": topic, "part": 1, "off": 1, "ts": at.replace(tzinfo=dt.UTC),
        "local": at + dt.timedelta(hours=9), "kind": "CreateTime", "heads": [("h", b"x")],
        "epoch": 0,
    }  # fmt: skip
    assert read(table, ["off"]).rows == [{"off": 0}, {"off": 1}]


def test_bad_messages_are_told_with_their_offsets_and_the_others_read(topics, table_on, read):
    topic = topics.make()
    topics.send(topic, message(1), b"{", message(3), b'{"id":"x"}')
    found = read(table_on(topic, TWO))
    assert ids(found) == [1, 3]
    assert [offset for offset, _ in found.bad] == [1, 3]


def test_an_upsert_gives_its_kind_and_a_null_value_deletes(topics, table_on, read):
    topic = topics.make()
    keys = [b'{"id":1}', b'{"id":2}', b'{"id":1}', None, b"{"]
    topics.send(topic, message(1), message(2), None, message(4), message(5), keys=keys)
    table = table_on(
        topic, TWO, primary_keys=["id"],
        **{"connector": "upsert-kafka", "key.format": "json", "scan.startup.mode": None},
    )  # fmt: skip
    found = read(table, ["_row_kind", "id", "name", "_offset", "_index"])
    assert [tuple(row.values()) for row in found.rows] == [
        ("+U", 1, "n1", 0, 0), ("+U", 2, "n2", 1, 0), ("-D", 1, None, 2, 0),
    ]  # fmt: skip
    assert [offset for offset, _ in found.bad] == [3, 4]
    assert read(table, ["name"]).rows == [{"name": "n1"}, {"name": "n2"}, {"name": None}]


def test_rows_of_a_change_log_know_their_message(topics, table_on, read):
    topic = topics.make()
    topics.send(
        topic,
        b'{"op":"c","after":{"id":1}}',
        b'{"op":"u","before":{"id":1},"after":{"id":2}}',
    )
    table = table_on(topic, TWO, format="debezium-json")
    found = read(table, ["_row_kind", "id", "_offset", "_index"])
    assert [tuple(row.values()) for row in found.rows] == [
        ("+I", 1, 0, 0), ("-U", 1, 1, 0), ("+U", 2, 1, 1),
    ]  # fmt: skip


def test_topics_by_pattern_and_by_list(topics, table_on, read):
    first, second = topics.make(name="many-a"), topics.make(name="many-b")
    topics.send(first, message(1))
    topics.send(second, message(2))
    assert ids(read(table_on(f"{first};{second}", TWO))) == [1, 2]
    pattern = table_on(None, TWO, **{"topic-pattern": "many-[ab]"})
    assert ids(read(pattern)) == [1, 2]
    with pytest.raises(NotFoundError, match="No topic"):
        read(table_on(None, TWO, **{"topic-pattern": "none-.*"}))


def test_an_unknown_topic_is_told_with_near_names(topics, table_on, read):
    topics.make(name="orders")
    with pytest.raises(NotFoundError, match="Did you mean 'orders'") as refusal:
        read(table_on("order", TWO))
    assert refusal.value.kind == "kafka_topic_not_found"


def test_a_broker_that_is_down_is_told_in_seconds(topics, table_on, read):
    topic = topics.make()
    down = table_on(topic, TWO, **{"properties.bootstrap.servers": "127.0.0.1:1"})
    begin = time.monotonic()
    with pytest.raises(StorageError, match=r"No broker .* answers at 127\.0\.0\.1:1") as refusal:
        read(down)
    assert refusal.value.kind == "kafka_unreachable"
    with pytest.raises(StorageError, match="No broker"):
        list(all_blocks(down, [KafkaSlice(topic, 0, 0, 1)]))
    assert time.monotonic() - begin < 15


def test_a_setting_that_the_client_does_not_know_is_named(topics, table_on):
    table = table_on(topics.make(), TWO, **{"properties.fetch.max.byte": "1"})
    with pytest.raises(InvalidInputError, match=r"properties\.fetch\.max\.byte"), Client(table):
        pass


def test_a_new_read_of_a_stream_begins_by_its_mode(topics, table_on):
    topic = topics.make()
    topics.send(topic, message(1), message(2))
    with Client(table_on(topic, TWO, scan__startup__mode="latest-offset")) as client:
        assert initial_offsets(client).offsets == {(topic, 0): 2}
