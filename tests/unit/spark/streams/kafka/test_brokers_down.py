"""A running stream of a topic waits for brokers that are down, and not for ever."""

import concurrent.futures
import logging

import pytest
from confluent_kafka import KafkaError, KafkaException
from unit.kafka.conftest import columns

from tidelake.errors import StorageError
from tidelake.kafka import KafkaOffsets
from tidelake.kafka.definition import KafkaTable
from tidelake.spark.streams.kafka.stream_cursor import DOWN_MS_MAX, TopicCursor
from tidelake.telemetry import ManualClock

NOBODY = "127.0.0.1:1"
AT = KafkaOffsets({("t", 0): 5}, {"t": "id"}).to_json()


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def unreached(clock):
    options = {
        "connector": "kafka",
        "topic": "t",
        "properties.bootstrap.servers": NOBODY,
        "format": "json",
        "scan.startup.mode": "earliest-offset",
    }
    made = TopicCursor(KafkaTable.of("events", columns(id="BIGINT"), options), clock)
    made._client._patience_s = 0.1
    yield made
    made.close()


def test_it_has_nothing_new_until_they_were_down_for_long(unreached, clock, caplog):
    with pytest.raises(StorageError, match="No broker of table 'events' answers"):
        unreached.next(None)  # of a new stream nothing is known
    with caplog.at_level(logging.WARNING, logger="tidelake"):
        assert unreached.next(AT) == AT
        clock.sleep_ms(DOWN_MS_MAX - 1)
        assert unreached.next(AT) == AT
    (said,) = (one.getMessage() for one in caplog.records if one.name == "tidelake")
    assert said.startswith("The stream of table 'events' waits up to 120 s for Kafka: No broker")
    clock.sleep_ms(1)
    with pytest.raises(StorageError, match="No broker of table 'events' answers"):
        unreached.next(AT)


def test_a_stream_with_an_end_does_not_take_silence_for_its_end(unreached):
    unreached._fixed = KafkaOffsets({("t", 0): 9})
    with pytest.raises(StorageError, match="No broker of table 'events' answers"):
        unreached.next(AT)


class Leaderless:
    """An admin client of a broker that answers, but leads no partition yet."""

    def __init__(self, admin, times):
        self._admin, self.times = admin, times

    def __getattr__(self, name):
        return getattr(self._admin, name)

    def poll(self, seconds):
        pass

    def list_offsets(self, wanted, **more):
        if self.times == 0:
            return self._admin.list_offsets(wanted, **more)
        self.times -= 1
        answer = concurrent.futures.Future()
        answer.set_exception(KafkaException(KafkaError(KafkaError._NOENT)))
        return dict.fromkeys(wanted, answer)


def test_a_read_waits_for_brokers_that_elect_leaders(topics, cursor):
    topic = topics.make()
    topics.send(topic, b'{"id":1}')
    made = cursor(topic)
    made._client._admin = Leaderless(made._client._admin, times=3)
    assert KafkaOffsets.from_json(made.next(None)).offsets == {(topic, 0): 1}


def test_a_stream_goes_on_after_brokers_without_leaders(topics, cursor):
    topic = topics.make()
    topics.send(topic, b'{"id":1}')
    made = cursor(topic)
    at = made.next(None)
    real = made._client._admin
    made._client._admin = Leaderless(real, times=1_000)
    assert made.next(at) == at
    made._client._admin = real
    topics.send(topic, b'{"id":2}')
    assert KafkaOffsets.from_json(made.next(at)).offsets == {(topic, 0): 2}
    made._client._admin = Leaderless(real, times=1_000)
    made._fixed = KafkaOffsets({(topic, 0): 9})
    with pytest.raises(StorageError, match="have no leader") as refusal:
        made.next(at)
    assert refusal.value.kind == "kafka_no_leader"
