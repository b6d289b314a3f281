"""Where the records of the second act wait for the streams that read them.

A topic is one of Kafka's (:class:`KafkaTopics`), at a broker that runs as long as the demo
(:func:`running`). Where no broker can run a topic is an append table (:class:`TableTopics`). Both
have one face: they are made, records are sent to them, and a stream of records is read.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Protocol

import pyarrow as pa
import streams
from pyspark.sql import DataFrame
from streams import Delivery

from tidelake.spark import Lake

AT_ONCE = {"read.stream.maxFilesPerTrigger": 3}
"""Files that one batch reads: so that a batch stays small where much is waiting."""
MESSAGES_AT_ONCE = 100_000
PARTITIONS, PREFIX = 2, "flights-"
BATCH_BYTES_MAX = 2_000_000
"""Of messages that a producer sends together."""
_TESTS = Path(__file__).parents[2] / "tests"


class Topics(Protocol):
    """One topic for each stream of the act."""

    arguments: tuple[str, ...]
    """By which a program finds the same topics."""

    def create(self, lake: Lake) -> None:
        """Make them."""
        ...

    def open(self, lake: Lake) -> None:
        """Have a session know them."""
        ...

    def send(self, lake: Lake, delivery: Delivery) -> None:
        """Add records to their topic."""
        ...

    def stream(self, lake: Lake, name: str) -> DataFrame:
        """The records of a topic as a stream."""
        ...


class TableTopics:
    """Topics that are append tables."""

    arguments: tuple[str, ...] = ()

    def create(self, lake: Lake) -> None:
        """Make the tables."""
        for name in streams.STREAMS:
            columns = [streams.BOARD.field(c) for c in streams.topic_columns(name)]
            lake.catalog.create_table(_table(name), pa.schema(columns))

    def open(self, lake: Lake) -> None:
        """A warehouse knows its tables."""

    def send(self, lake: Lake, delivery: Delivery) -> None:
        """Add records in one commit."""
        columns = streams.topic_columns(delivery.stream)
        lake.write(delivery.rows.select(columns), _table(delivery.stream))

    def stream(self, lake: Lake, name: str) -> DataFrame:
        """The records as a stream."""
        return lake.read_stream(_table(name), options=AT_ONCE)


class KafkaTopics:
    """Topics of Kafka; records are messages of JSON.

    Parameters
    ----------
    servers : str
        The broker.
    prefix : str
        What the names of the topics begin with.
    """

    def __init__(self, servers: str, prefix: str) -> None:
        self.servers, self.prefix = servers, prefix
        self.arguments = ("--kafka", servers, "--prefix", prefix)

    def create(self, lake: Lake) -> None:
        """Make the topics, and have the session know them."""
        from confluent_kafka.admin import AdminClient, NewTopic

        config = {"max.message.bytes": str(BATCH_BYTES_MAX)}
        new = [
            NewTopic(self.prefix + name, PARTITIONS, 1, config=config) for name in streams.STREAMS
        ]
        admin = AdminClient({"bootstrap.servers": self.servers})  # lives until it has answered
        for made in admin.create_topics(new).values():
            made.result(30)
        self.open(lake)

    def open(self, lake: Lake) -> None:
        """Declare a table for each topic."""
        types = {f.name: f.type for f in lake.catalog.table("air.board").table_schema.fields}
        for name in streams.STREAMS:
            columns = ", ".join(f"{c} {types[c]}" for c in streams.topic_columns(name))
            lake.sql(f"""
                CREATE TABLE {name} ({columns}) WITH (
                    'connector' = 'kafka', 'topic' = '{self.prefix}{name}', 'format' = 'json',
                    'properties.bootstrap.servers' = '{self.servers}',
                    'scan.startup.mode' = 'earliest-offset',
                    'read.stream.maxRowsPerTrigger' = '{MESSAGES_AT_ONCE}'
                )
            """)

    def send(self, lake: Lake, delivery: Delivery) -> None:
        """Send each record as a message."""
        lake.write(delivery.rows.select(streams.topic_columns(delivery.stream)), delivery.stream)

    def stream(self, lake: Lake, name: str) -> DataFrame:
        """The messages as a stream of rows."""
        return lake.read_kafka_stream(name)


@contextmanager
def running(place: Path, say: Callable[[str], None]) -> Iterator[Topics]:
    """Run a broker and give topics of it; without one give tables, and say why.

    Parameters
    ----------
    place : Path
        A directory for the broker's files, which go with it.
    say : callable
        Takes what the topics are.
    """
    kafka_broker = _kafka_broker()
    with ExitStack() as stack:
        topics: Topics = TableTopics()
        if importlib.util.find_spec("confluent_kafka") is None:
            say("Topics are tables: Kafka needs the library confluent-kafka, which is not there.")
        else:
            try:
                broker = stack.enter_context(kafka_broker.broker(place.resolve()))
                topics = KafkaTopics(broker.servers, PREFIX)
                say(f"Topics are those of a Kafka broker at {broker.servers}.")
            except (kafka_broker.AbsentError, RuntimeError, OSError) as error:
                say(f"Topics are tables, without Kafka: {' '.join(str(error).split())}.")
        yield topics


def _table(name: str) -> str:
    return f"air.{name}_events"


def _kafka_broker() -> ModuleType:
    """The broker of the tests, with the modules beside it: one program starts it for both."""
    if str(_TESTS) not in sys.path:
        sys.path.append(str(_TESTS))
    return importlib.import_module("kafka_broker")
