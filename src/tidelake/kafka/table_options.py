"""The options of a table of Kafka: Flink's names and defaults, and a few of our own."""

from __future__ import annotations

from typing import Any

from tidelake.options.option import Option, boolean, duration, enumeration, integer, text

KAFKA, UPSERT = "kafka", "upsert-kafka"
CONNECTORS = frozenset({KAFKA, UPSERT})
PROPERTIES = "properties."
"""Prefix of settings of Kafka's client."""

TOPIC = text("topic", None, "The topic; for a source also several, with ; between.")
TOPIC_PATTERN = text("topic-pattern", None, "Regular expression of the topics of a source.")
FORMAT = text("format", None, "The format of values; the same as 'value.format'.")
VALUE_FORMAT = text("value.format", None, "The format of values.")
KEY_FORMAT = text("key.format", None, "The format of keys.")
KEY_FIELDS = text("key.fields", None, "Columns in the key, with ; between.")
KEY_FIELDS_PREFIX = text("key.fields-prefix", "", "Prefix of those columns' names.")
FIELDS_INCLUDE = enumeration(
    "value.fields-include",
    "ALL",
    ("ALL", "EXCEPT_KEY"),
    "Whether the value has the key's columns, too.",
)
STARTUP_MODE = enumeration(
    "scan.startup.mode",
    "group-offsets",
    ("earliest-offset", "latest-offset", "group-offsets", "timestamp", "specific-offsets"),
    "Where a read begins.",
)
STARTUP_OFFSETS = text(
    "scan.startup.specific-offsets", None, "'partition:0,offset:42;partition:1,offset:300'."
)
STARTUP_TIMESTAMP = integer(
    "scan.startup.timestamp-millis",
    None,
    "Milliseconds since the epoch of the first message.",
    long=True,
)
BOUNDED_MODE = enumeration(
    "scan.bounded.mode",
    "unbounded",
    ("unbounded", "latest-offset", "group-offsets", "timestamp", "specific-offsets"),
    "Where a read ends; an unbounded batch ends at the latest offset.",
)
BOUNDED_OFFSETS = text("scan.bounded.specific-offsets", None, "The first offsets not to read.")
BOUNDED_TIMESTAMP = integer(
    "scan.bounded.timestamp-millis", None, "The time of the first message not to read.", long=True
)
DISCOVERY = duration(
    "scan.topic-partition-discovery.interval",
    300_000,
    "No effect here: a stream looks for new partitions in each batch.",
)
SCAN_PARALLELISM = integer(
    "scan.parallelism",
    None,
    "The least number of tasks of a read: partitions are cut into slices of offsets.",
    minimum=1,
)
MAX_ROWS = integer(
    "read.stream.maxRowsPerTrigger",
    None,
    "The most messages of one batch of a stream, shared among partitions in proportion to their"
    " lag; rounding may add one for each partition.",
    long=True,
    minimum=1,
)
FAIL_ON_DATA_LOSS = boolean(
    "scan.fail-on-data-loss",
    True,
    "Stop if unread messages are lost; 'false' logs a warning and goes on at the oldest message"
    " that Kafka has, or with 'properties.auto.offset.reset' = 'latest' at the newest.",
)
BAD_RECORD = enumeration(
    "scan.bad-record",
    "fail",
    ("fail", "skip", "dead-letter"),
    "What to do with a message that the format cannot read.",
)
DEAD_LETTER_TABLE = text(
    "scan.dead-letter-table",
    None,
    "The table, 'database.table', that gets such messages; it is created if it is missing.",
)
PARTITIONER = enumeration(
    "sink.partitioner",
    "default",
    ("default", "fixed", "round-robin"),
    "The partition of a message: by its key, one for each task, or in turn.",
)
GUARANTEE = enumeration(
    "sink.delivery-guarantee",
    "at-least-once",
    ("at-least-once", "exactly-once", "none"),
    "The guarantee of a write that fails and is repeated; exactly-once is refused.",
)
SINK_PARALLELISM = integer("sink.parallelism", None, "Number of tasks that write.", minimum=1)
FLUSH_ROWS = integer(
    "sink.buffer-flush.max-rows", 0, "Of Flink's upsert sink; without effect here.", minimum=0
)
FLUSH_INTERVAL = duration(
    "sink.buffer-flush.interval", 0, "Of Flink's upsert sink; without effect here."
)

DECLARED: tuple[Option[Any], ...] = (
    TOPIC, TOPIC_PATTERN, FORMAT, VALUE_FORMAT, KEY_FORMAT, KEY_FIELDS, KEY_FIELDS_PREFIX,
    FIELDS_INCLUDE, STARTUP_MODE, STARTUP_OFFSETS, STARTUP_TIMESTAMP, BOUNDED_MODE,
    BOUNDED_OFFSETS, BOUNDED_TIMESTAMP, DISCOVERY, SCAN_PARALLELISM, MAX_ROWS,
    FAIL_ON_DATA_LOSS, BAD_RECORD, DEAD_LETTER_TABLE, PARTITIONER, GUARANTEE, SINK_PARALLELISM,
    FLUSH_ROWS, FLUSH_INTERVAL,
)  # fmt: skip
"""All options except the settings of the client and the options of the formats."""
