"""Where a stream of topics goes on, with a real broker: no message is left out without a word."""

import json
import logging
import time

import pytest
from confluent_kafka import KafkaException
from unit.kafka.conftest import columns

from tidelake.errors import ConflictError, NotFoundError
from tidelake.kafka.client import Client
from tidelake.kafka.slice_reader import all_blocks
from tidelake.spark.streams.kafka.stream_cursor import between

GOES_ON = {"scan.fail-on-data-loss": "false"}


def message(n):
    return b'{"id":%d}' % n


def told(call):
    """What a call answers once all of the broker has heard of a topic."""
    for _ in range(600):
        try:
            return call()
        except (NotFoundError, KafkaException, AssertionError):
            time.sleep(0.1)
    return call()


def slices(start, end):
    first, last = between(start, end)
    return [(s.topic, s.first, s.end) for s in first.slices_to(last)]


def named(topics, name, *numbers):
    topics.make(name=name)
    topics.send(name, *map(message, numbers))
    return name


def gone(topics, name):
    topics.drop(name)
    told(lambda: _assert_gone(topics, name))


def _assert_gone(topics, name):
    assert name not in topics.admin.list_topics(timeout=20).topics


def test_a_first_batch_without_messages_keeps_its_place(topics, cursor):
    topic = topics.make()
    topics.send(topic, message(1))
    own = cursor(topic, **{"scan.startup.mode": "latest-offset"})
    first = own.next(None)
    topics.send(topic, message(2))
    second = own.next(first)
    assert slices(first, second) == [(topic, 1, 2)]
    assert between(None, first)[0].offsets == {(topic, 0): 1}
    assert json.loads(first)["from"]["offsets"] == {topic: {"0": 1}}
    assert own.next(second) == second
    assert own.behind(first) == 1


def test_a_trigger_asks_once_for_the_latest_offsets(topics, cursor, monkeypatch):
    topic = topics.make()
    topics.send(topic, message(1))
    own = cursor(topic)
    at, asked = own.next(None), []
    for name in ("partitions", "latest", "earliest"):
        _count(monkeypatch, name, asked)
    own.next(at)
    assert own.behind(at) == 0
    assert own.latest() is not None
    assert sorted(asked) == ["earliest", "latest", "partitions"]


def _count(monkeypatch, name, asked):
    whole = getattr(Client, name)

    def counted(self, *given):
        asked.append(name)
        return whole(self, *given)

    monkeypatch.setattr(Client, name, counted)


def test_a_topic_of_a_pattern_that_is_gone_or_made_anew_stops_the_stream(topics, cursor):
    first, second = named(topics, "gone-a", 1, 2, 3), named(topics, "gone-b", 1)
    own = cursor(None, **{"topic-pattern": "gone-[ab]"})
    at = own.next(None)
    assert slices(None, at) == [(first, 0, 3), (second, 0, 1)]
    gone(topics, first)
    with pytest.raises(NotFoundError, match=r"Topic 'gone-a' .* was deleted") as refusal:
        own.next(at)
    assert "scan.fail-on-data-loss" in str(refusal.value)
    told(lambda: named(topics, first, 4))
    with pytest.raises(ConflictError, match=r"'gone-a' .* created again"):
        told(lambda: own.next(at))


def test_a_stream_that_may_go_on_reads_a_topic_made_anew_from_its_beginning(topics, cursor, caplog):
    first, second = named(topics, "anew-a", 1, 2, 3), named(topics, "anew-b", 1)
    own = cursor(None, **{"topic-pattern": "anew-[ab]"}, **GOES_ON)
    at = own.next(None)
    gone(topics, first)
    topics.send(second, message(2))
    with caplog.at_level(logging.WARNING, "tidelake"):
        without = own.next(at)
    assert slices(at, without) == [(second, 1, 2)]
    assert "anew-a" in caplog.text
    told(lambda: named(topics, first, 4, 5))
    made = told(lambda: _other(own.next(without), without))
    assert slices(without, made) == [(first, 0, 2)]
    # and from a checkpoint that never saw it gone, whose offset is behind the new end
    straight = own.next(at)
    assert slices(at, straight) == [(first, 0, 2), (second, 1, 2)]
    assert own.next(straight) == straight


def _other(found, than):
    assert found != than
    return found


def test_a_topic_that_was_truncated_is_refused_whatever_a_group_resets_to(topics, cursor):
    topic = topics.make()
    topics.send(topic, *map(message, range(3)))
    given = {"properties.auto.offset.reset": "earliest"}
    own = cursor(topic, **given)
    at = own.next(None)
    topics.send(topic, *map(message, range(3, 9)))
    topics.forget(topic, 0, 5)
    with pytest.raises(NotFoundError, match=r"Offset 3 .* is lost: Kafka has 5 to 9"):
        own.next(at)
    end = cursor(topic, **given, **GOES_ON).next(at)
    assert slices(at, end) == [(topic, 5, 9)]
    latest = cursor(topic, **GOES_ON, **{"properties.auto.offset.reset": "latest"})
    end = latest.next(at)
    assert slices(at, end) == []
    topics.send(topic, message(9))
    assert slices(end, latest.next(end)) == [(topic, 9, 10)]


def test_a_partition_that_comes_while_a_stream_runs_is_read_from_its_beginning(topics, cursor):
    topic = topics.make()
    topics.send(topic, message(1))
    own = cursor(topic, **{"scan.startup.mode": "latest-offset"})
    at = own.next(None)
    topics.grow(topic, 2)
    topics.send(topic, message(2), message(3), partition=1)
    # a new partition may show before its messages do
    assert told(lambda: slices(at, own.next(at))) == [(topic, 0, 2)]


def test_aborted_messages_are_neither_read_nor_counted_as_lost(topics, cursor, table_on):
    topic = topics.make()
    topics.send(topic, message(1))
    own = cursor(topic)
    at = own.next(None)
    producer = topics.producer(**{"transactional.id": topic})
    producer.init_transactions(20)
    producer.begin_transaction()
    for n in (2, 3):
        producer.produce(topic, message(n))
    producer.flush(20)
    assert own.next(at) == at  # nothing is there before the transaction ends
    producer.abort_transaction(20)
    end = told(lambda: _other(own.next(at), at))
    first, last = between(at, end)
    parts = first.slices_to(last)
    assert [(s.first, s.end) for s in parts] == [(1, 4)]  # two messages and a mark
    assert list(all_blocks(table_on(topic, columns(id="BIGINT")), parts)) == []
    assert own.next(end) == end
    assert own.behind(end) == 0
    topics.send(topic, message(4))
    assert slices(end, told(lambda: _other(own.next(end), end))) == [(topic, 4, 5)]
