"""Topics on the broker of the test run, and tables on them."""

import uuid
from types import SimpleNamespace

import pyarrow as pa
import pytest

from tidelake.kafka.client import Client
from tidelake.kafka.definition import KafkaTable
from tidelake.kafka.read_range import batch_range
from tidelake.kafka.rows import RowDecoder
from tidelake.kafka.slice_reader import all_blocks
from tidelake.types import DataField
from tidelake.types.data_type import parse_type_text


def columns(**types):
    return tuple(
        DataField(n, name, parse_type_text(t)) for n, (name, t) in enumerate(types.items())
    )


class Topics:
    """Makes topics, and writes messages without any code of ours."""

    def __init__(self, servers):
        from confluent_kafka.admin import AdminClient

        self.servers = servers
        self.admin = AdminClient({"bootstrap.servers": servers})

    def make(self, partitions=1, name=None, **config):
        from confluent_kafka.admin import NewTopic

        name = name or f"topic-{uuid.uuid4()}"  # workers and folders share the broker
        config = {key.replace("_", "."): str(value) for key, value in config.items()}
        new = NewTopic(name, partitions, 1, config=config)
        for future in self.admin.create_topics([new]).values():
            future.result(20)
        return name

    def drop(self, name):
        for future in self.admin.delete_topics([name]).values():
            future.result(20)

    def grow(self, name, partitions):
        from confluent_kafka.admin import NewPartitions

        for future in self.admin.create_partitions([NewPartitions(name, partitions)]).values():
            future.result(20)

    def forget(self, name, partition, offset):
        """Delete the messages before an offset, as a topic's retention does."""
        from confluent_kafka import TopicPartition

        places = [TopicPartition(name, partition, offset)]
        for future in self.admin.delete_records(places).values():
            future.result(20)

    def producer(self, **more):
        from confluent_kafka import Producer

        return Producer({"bootstrap.servers": self.servers, "linger.ms": 0, **more})

    def send(self, topic, *values, partition=0, keys=None, **more):
        producer = self.producer()
        for number, value in enumerate(values):
            key = None if keys is None else keys[number]
            producer.produce(topic, value, key, partition=partition, **more)
        assert producer.flush(20) == 0

    def read(self, topic):
        """All messages of a topic, by partition and offset."""
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer(
            {"bootstrap.servers": self.servers, "group.id": "seen", "enable.partition.eof": True}
        )
        partitions = consumer.list_topics(topic, 20).topics[topic].partitions
        consumer.assign([TopicPartition(topic, p, 0) for p in partitions])
        found, ends = [], 0
        while ends < len(partitions):
            for message in consumer.consume(1000, 0.3):
                if message.error() is None:
                    found.append(message)
                else:
                    ends += 1
        consumer.close()
        return sorted(found, key=lambda m: (m.partition(), m.offset()))


@pytest.fixture(scope="session")
def topics(broker):
    return Topics(broker.servers)


@pytest.fixture
def table_on(topics):
    """A declared table on a topic, by its columns and options."""

    def make(topic, fields, metadata=None, primary_keys=(), **given):
        options = {
            "connector": "kafka",
            "topic": topic,
            "properties.bootstrap.servers": topics.servers,
            "format": "json",
            "scan.startup.mode": "earliest-offset",
            **{key.replace("__", "."): value for key, value in given.items()},
        }
        options = {key: value for key, value in options.items() if value is not None}
        return KafkaTable.of("t", fields, options, metadata=metadata, primary_keys=primary_keys)

    return make


@pytest.fixture
def read():
    """The rows of a batch, and its bad messages."""

    def run(table, names=None, *, zone="UTC", tasks=1):
        names = [f.name for f in table.fields] if names is None else names
        with Client(table) as client:
            start, end = batch_range(client)
        parts = start.slices_to(end, tasks_min=tasks)
        decoder = RowDecoder(table, names, zone=zone)
        found = [(b, decoder.rows(b)) for b in all_blocks(table, parts)]
        rows = [row for _, one in found for row in one.rows.to_pylist()]
        bad = [(b.messages[m.position].offset(), m.reason) for b, one in found for m in one.bad]
        return SimpleNamespace(rows=rows, bad=bad, parts=parts)

    return run


@pytest.fixture
def batch():
    def make(fields, *rows):
        from tidelake.types.arrow import to_arrow_schema

        return pa.RecordBatch.from_pylist(list(rows), schema=to_arrow_schema(fields))

    return make
