"""A running stream of a topic waits for brokers that are down, and not for ever."""

import logging

import pytest
from unit.kafka.conftest import columns

from tidelake.errors import StorageError
from tidelake.kafka import KafkaOffsets
from tidelake.kafka.definition import KafkaTable
from tidelake.spark.kafka.stream_cursor import DOWN_MS_MAX, TopicCursor
from tidelake.telemetry import ManualClock

NOBODY = "127.0.0.1:1"
AT = KafkaOffsets({("t", 0): 5}, {"t": "id"}).to_json()


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def cursor(clock):
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


def test_it_has_nothing_new_until_they_were_down_for_long(cursor, clock, caplog):
    with pytest.raises(StorageError, match="No broker of table 'events' answers"):
        cursor.next(None)  # of a new stream nothing is known
    with caplog.at_level(logging.WARNING, logger="tidelake"):
        assert cursor.next(AT) == AT
        clock.sleep_ms(DOWN_MS_MAX - 1)
        assert cursor.next(AT) == AT
    (said,) = (one.getMessage() for one in caplog.records if one.name == "tidelake")
    assert said.startswith("The stream of table 'events' waits up to 120 s for Kafka: No broker")
    clock.sleep_ms(1)
    with pytest.raises(StorageError, match="No broker of table 'events' answers"):
        cursor.next(AT)


def test_a_stream_with_an_end_does_not_take_silence_for_its_end(cursor):
    cursor._fixed = KafkaOffsets({("t", 0): 9})
    with pytest.raises(StorageError, match="No broker of table 'events' answers"):
        cursor.next(AT)
