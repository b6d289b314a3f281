"""A job of topics on a real broker."""

from __future__ import annotations

import json
import time

import pytest
from unit.cdc.kafka.change_stream import Tables, debezium

from tidelake.cdc.columns.metadata_columns import MetadataColumns
from tidelake.cdc.routing.routing import Routing
from tidelake.cdc.source.source import EpochLimits
from tidelake.cdc.target.row_maker import AddedColumns
from tidelake.errors import NotFoundError

ROW = [
    {"type": "int64", "optional": False, "field": "id"},
    {"type": "string", "optional": True, "field": "name"},
]


def send(topics, topic, sent, partition=0):
    topics.send(topic, *[m.value for m in sent], partition=partition, keys=[m.key for m in sent])


@pytest.fixture
def changes():
    made = Tables(schemas={"items": ROW, "orders": ROW})
    made.put("items", {"id": 1, "name": "a"})
    made.put("items", {"id": 2, "name": "b"})
    made.put("items", {"id": 1, "name": "c"})
    made.delete("items", 2)
    made.move("items", 1, {"id": 3, "name": "c"})
    return made


def test_a_table_of_a_topic_is_kept_equal(bench, topics, changes):
    topic = topics.make(partitions=2)
    send(topics, topic, changes.sent)
    job = bench.run(source=bench.source(topic=topic))
    assert bench.content("items") == changes.rows["items"]
    changes.put("items", {"id": 4, "name": None})
    send(topics, topic, changes.sent[-1:], partition=1)
    job.run_once()
    job.close()
    assert bench.content("items") == changes.rows["items"]


def test_a_table_that_shows_later_joins_before_its_first_row(bench, topics, changes):
    topic = topics.make()
    send(topics, topic, changes.sent)
    job = bench.run(source=bench.source(topic=topic))
    count = len(changes.sent)
    changes.put("items", {"id": 9, "name": "x"})
    changes.put("orders", {"id": 1, "name": "new"})
    changes.put("items", {"id": 9, "name": "y"})
    send(topics, topic, changes.sent[count:])
    job.run_once()
    assert bench.content("items") == changes.rows["items"]
    assert bench.content("orders") == changes.rows["orders"]


def test_a_range_that_is_read_again_is_the_same(bench, topics, changes):
    topic = topics.make(partitions=3)
    for number, one in enumerate(changes.sent):
        send(topics, topic, [one], partition=number % 3)
    source = bench.source(topic=topic)
    names = [one.name for one in source.tables()]
    start = source.first_copy(names).position
    limits = EpochLimits(rows_max=2, wait_ms=2_000, gather_ms=100)
    first = source.read(start, names, limits)
    assert 0 < first.rows_count < len(changes.sent)
    rest = source.read(first.end, names, EpochLimits(wait_ms=2_000, gather_ms=300))
    again = bench.source(topic=topic)
    for one in (first, rest):
        same = again.read(one.start, names, limits, end=one.end)
        assert same.end == one.end
        assert [p.rows.to_pylist() for p in same.parts] == [p.rows.to_pylist() for p in one.parts]
        assert [p.order.tolist() for p in same.parts] == [p.order.tolist() for p in one.parts]
    assert source.is_before(start, rest.end)
    assert not source.is_before(rest.end, source.newest())


def test_messages_that_cannot_be_read_go_to_the_quarantine(bench, topics, changes):
    topic = topics.make()
    bad = debezium("items", "c", None, {"id": "x", "name": "b"}, 9_000, schema=ROW)
    send(topics, topic, changes.sent)
    topics.send(topic, b'{"op":', b"7", bad, None)
    job = bench.run(source=bench.source(topic=topic))
    assert bench.content("items") == changes.rows["items"]
    found = bench.quarantine()
    assert [table for table, *_ in found] == ["shop.public.items"] * 3
    assert sorted(reason.partition(":")[0] for _, reason, _ in found) == [
        "column 'id'",
        f"message 6 of partition 0 of topic '{topic}'",
        f"message 7 of partition 0 of topic '{topic}'",
    ]
    assert {payload for *_, payload in found} >= {'{"op":', "7"}
    # a life that knows no table yet finds one for a bad message
    topics.send(topic, b"{")
    job.close()
    bench.run(source=bench.source(topic=topic))
    assert len(bench.quarantine()) == 4


def test_new_partitions_and_topics_of_a_pattern_join(bench, topics, changes):
    prefix = topics.make()
    send(topics, prefix, changes.sent)
    source = bench.source(**{"topic-pattern": f"{prefix}.*"})
    job = bench.run(source=source)
    count = len(changes.sent)
    changes.put("items", {"id": 7, "name": "new partition"})
    changes.put("orders", {"id": 8, "name": "new topic"})
    topics.grow(prefix, 2)
    send(topics, prefix, changes.sent[count : count + 1], partition=1)
    other = topics.make(name=f"{prefix}-other")
    send(topics, other, changes.sent[count + 1 :])
    source._looked_ms = 0  # five seconds later
    job.run_once()
    assert bench.content("items") == changes.rows["items"]
    assert bench.content("orders") == changes.rows["orders"]


def test_many_topics_go_into_one_table(bench, topics):
    made = Tables(schemas={"items_1": ROW, "items_2": ROW})
    made.put("items_1", {"id": 1, "name": "a"})
    made.put("items_2", {"id": 2, "name": "b"})
    one, two = topics.make(), topics.make()
    send(topics, one, made.sent[:1])
    send(topics, two, made.sent[1:])
    source = bench.source(topic=f"{one};{two}")
    bench.run(source=source, routing=Routing("ods", "all"))
    assert sorted(bench.content("all")) == [1, 2]


def test_metadata_columns_have_the_place_of_each_message(bench, topics, changes):
    topic = topics.make()
    send(topics, topic, changes.sent)
    names = ["topic", "partition", "offset", "timestamp", "timestamp_type"]
    metadata = MetadataColumns.of("kafka", names, prefix="_")
    bench.run(source=bench.source(topic=topic), columns=AddedColumns(metadata=metadata))
    (row,) = bench.content("items").values()
    assert (row["_topic"], row["_partition"], row["_offset"]) == (topic, 0, 5)
    assert row["_timestamp_type"] == "CreateTime"
    assert abs(row["_timestamp"].timestamp() - time.time()) < 600


def test_a_truncation_stands_alone(bench, topics, changes):
    topic = topics.make()
    job_source = bench.source(topic=topic)
    lsn = changes.lsn
    later = debezium("items", "c", None, {"id": 50, "name": "z"}, lsn + 99, schema=ROW)
    send(topics, topic, changes.sent)
    topics.send(topic, debezium("items", "t", None, None, lsn + 90, schema=ROW), later)
    bench.run(source=job_source)
    assert bench.content("items") == {50: {"id": 50, "name": "z"}}


def test_a_column_that_comes_later_is_added(bench, topics, changes):
    topic = topics.make()
    send(topics, topic, changes.sent)
    job = bench.run(source=bench.source(topic=topic))
    wider = [*ROW, {"type": "int32", "optional": True, "field": "age"}]
    changes.schemas["items"] = wider
    changes.put("items", {"id": 8, "name": "n", "age": 5})
    send(topics, topic, changes.sent[-1:])
    job.run_once()
    assert bench.content("items")[8] == {"id": 8, "name": "n", "age": 5}
    assert bench.content("items")[3] == {"id": 3, "name": "c", "age": None}


# ---- where a job begins


@pytest.mark.parametrize(
    ("conf", "wanted"),
    [
        ({"scan.startup.mode": "earliest-offset"}, [3, 4]),
        ({"scan.startup.mode": "latest-offset"}, [4]),
        (
            {
                "scan.startup.mode": "specific-offsets",
                "scan.startup.specific-offsets": "partition:0,offset:6",
            },
            [4],
        ),
        ({"scan.startup.mode": "timestamp", "scan.startup.timestamp-millis": "1"}, [3, 4]),
        ({"scan.startup.mode": None}, [3, 4]),
        (
            {
                "scan.startup.mode": "group-offsets",
                "properties.group.id": "none-yet",
                "properties.auto.offset.reset": "latest",
            },
            [4],
        ),
    ],
)
def test_a_job_begins_where_it_is_told(bench, topics, changes, conf, wanted):
    topic = topics.make()
    send(topics, topic, changes.sent)
    job = bench.job(source=bench.source(topic=topic, **conf))
    job.start()
    changes.put("items", {"id": 4, "name": "d"})
    send(topics, topic, changes.sent[-1:])
    job.run_once()
    assert sorted(bench.content("items")) == wanted


def test_a_group_shows_how_far_a_job_is(bench, topics, changes):
    topic = topics.make()
    send(topics, topic, changes.sent)
    group = f"group-{topic}"
    source = bench.source(topic=topic, **{"properties.group.id": group})
    bench.run(source=source).close()
    bench.open.remove(source)
    again = bench.source(
        topic=topic, **{"properties.group.id": group, "scan.startup.mode": "group-offsets"}
    )
    place = json.loads(again.first_copy([]).position)["offsets"]
    assert place == {topic: {"0": len(changes.sent)}}


# ---- what is lost


def test_messages_that_kafka_deleted_are_a_lost_position(bench, topics, changes):
    topic = topics.make()
    send(topics, topic, changes.sent[:2])
    bench.run(source=bench.source(topic=topic)).close()
    bench.open.clear()
    send(topics, topic, changes.sent[2:])
    topics.forget(topic, 0, 4)
    with pytest.raises(NotFoundError, match="is lost") as caught:
        bench.run(source=bench.source(topic=topic))
    assert caught.value.kind == "cdc_position_lost"
    bench.run(source=bench.source(topic=topic), resnapshots_if_lost=True)
    assert bench.content("items")[3] == {"id": 3, "name": "c"}


def test_a_topic_that_was_made_again_is_a_lost_position(bench, topics, changes):
    topic = topics.make()
    send(topics, topic, changes.sent)
    source = bench.source(topic=topic)
    job = bench.run(source=source)
    topics.drop(topic)
    remade(topics, topic)
    send(topics, topic, changes.sent)
    source._looked_ms = 0
    with pytest.raises(NotFoundError, match=r"deleted and created again|no longer") as caught:
        job.step(wait_ms=3_000)
    assert caught.value.kind == "cdc_position_lost"


def test_a_topic_that_was_made_again_is_read_on_request(bench, topics, changes):
    topic = topics.make()
    send(topics, topic, changes.sent)
    bench.run(source=bench.source(topic=topic)).close()
    bench.open.clear()
    topics.drop(topic)
    remade(topics, topic)
    changes.put("items", {"id": 9, "name": "again"})
    send(topics, topic, changes.sent[-1:])
    bench.run(source=bench.source(topic=topic, **{"scan.fail-on-data-loss": "false"}))
    assert sorted(bench.content("items")) == [3, 9]


def remade(topics, topic):
    """Make a topic of a name that is just being deleted."""
    for _ in range(1_200):
        try:
            topics.make(name=topic)
        except Exception:  # noqa: BLE001
            time.sleep(0.05)
        else:
            return


def test_another_cluster_is_another_source(bench, topics, changes):
    topic = topics.make()
    send(topics, topic, changes.sent)
    source = bench.source(topic=topic)
    assert source.identity() == "kafka:MkU3OEVBNTcwNTJENDM2Qg"
    assert source.status() == {"topics": 1, "partitions": 1, "group": None}
    assert source.check(source.tables()) == []
    assert source.drop() == []


def test_messages_of_tables_that_are_not_wanted_are_passed_over(bench, topics):
    made = Tables(schemas={"items": ROW, "orders": ROW})
    for number in range(30):
        made.put("orders", {"id": number, "name": "x"})
    made.put("items", {"id": 1, "name": "a"})
    topic = topics.make()
    send(topics, topic, made.sent)
    source = bench.source(topic=topic)
    items = [one.name for one in source.tables() if one.name.table == "items"]
    start = source.first_copy(items).position
    limits = EpochLimits(rows_max=4, wait_ms=3_000, gather_ms=50)
    found = source.read(start, items, limits)
    assert [part.rows.to_pylist() for part in found.parts] == [[{"id": 1, "name": "a"}]]
    again = bench.source(topic=topic).read(start, items, limits, end=found.end)
    assert [part.rows.to_pylist() for part in again.parts] == [[{"id": 1, "name": "a"}]]
