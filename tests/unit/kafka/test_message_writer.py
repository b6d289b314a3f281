"""Rows as messages of a topic, on a real broker; and bad messages in a table."""

import datetime as dt
import time

import kafka_broker
import numpy as np
import pytest
from unit.kafka.conftest import columns

import tidelake
from tidelake.errors import InvalidInputError, NotFoundError, StorageError, UnsupportedError
from tidelake.kafka.client import Client
from tidelake.kafka.dead_letters import BadMessages, dead_letter_table
from tidelake.kafka.definition import MetadataColumn
from tidelake.kafka.message_writer import MessageWriter, check_writable
from tidelake.kafka.read_range import batch_range
from tidelake.kafka.rows import RowDecoder
from tidelake.kafka.slice_reader import all_blocks
from tidelake.types import RowKind

TWO = columns(id="BIGINT", name="STRING")
ROWS = [{"id": n, "name": f"n{n}"} for n in range(20)]


def write(table, rows, kinds=None, *, partitions=1, task=0):
    check_writable(table)
    with MessageWriter(table, task=task, partitions_count=partitions) as writer:
        return writer.write(rows, None if kinds is None else np.array(kinds, np.int8))


def test_rows_that_were_written_are_read(topics, table_on, read, batch):
    table = table_on(topics.make(), TWO)
    assert write(table, batch(TWO, *ROWS)) == 20
    assert read(table).rows == ROWS


def test_keys_go_where_javas_client_puts_them(topics, table_on, batch):
    topic = topics.make(partitions=4)
    keyed = {"key.format": "raw", "key.fields": "name"}
    write(table_on(topic, TWO, **keyed), batch(TWO, *ROWS), partitions=4)
    found = {m.key().decode(): m.partition() for m in topics.read(topic)}
    assert {name: murmur2(name.encode()) % 4 for name in found} == found
    assert len(set(found.values())) > 1


def murmur2(data):
    """The hash of Kafka's default partitioner, by its definition in ``Utils.murmur2``."""
    seed, m, mask = 0x9747B28C, 0x5BD1E995, 0xFFFFFFFF
    h = seed ^ len(data)
    whole = len(data) // 4 * 4
    for place in range(0, whole, 4):
        k = int.from_bytes(data[place : place + 4], "little") * m & mask
        k = (k ^ (k >> 24)) * m & mask
        h = (h * m & mask) ^ k
    rest = data[whole:]
    if rest:
        h = (h ^ int.from_bytes(rest, "little")) * m & mask
    h = (h ^ (h >> 13)) * m & mask
    return (h ^ (h >> 15)) & 0x7FFFFFFF


def test_partitioners_of_a_task_and_in_turn(topics, table_on, batch):
    for name, expected in (("fixed", {1}), ("round-robin", {0, 1, 2})):
        topic = topics.make(partitions=3)
        table = table_on(topic, TWO, **{"sink.partitioner": name})
        write(table, batch(TWO, *ROWS), partitions=3, task=4)
        assert {m.partition() for m in topics.read(topic)} == expected


def test_headers_and_time_are_written(topics, table_on, batch):
    fields = columns(id="BIGINT", at="TIMESTAMP_LTZ(3)", heads="MAP<STRING, BYTES>")
    metadata = {"at": MetadataColumn("timestamp"), "heads": MetadataColumn("headers")}
    table = table_on(topics.make(), fields, metadata)
    at = dt.datetime.fromtimestamp(int(time.time()), dt.UTC)
    write(
        table,
        batch(fields, {"id": 1, "at": at, "heads": [("a", b"x")]}, {"id": 2}),
    )
    first, second = topics.read(table.topics[0])
    assert first.timestamp()[1] == int(at.timestamp() * 1000)
    assert first.headers() == [("a", b"x")]
    assert first.value() == b'{"id":1}'
    assert second.timestamp()[1] >= first.timestamp()[1]


def test_an_upsert_writes_tombstones_and_no_rows_before_updates(topics, table_on, read, batch):
    table = table_on(
        topics.make(), TWO, primary_keys=["id"],
        **{"connector": "upsert-kafka", "key.format": "json", "scan.startup.mode": None},
    )  # fmt: skip
    kinds = [RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER, RowKind.DELETE]
    rows = [ROWS[0], ROWS[2] | {"name": "old"}, *ROWS[2:4]]
    assert write(table, batch(TWO, *rows), kinds) == 3
    messages = [(m.key(), m.value()) for m in topics.read(table.topics[0])]
    assert messages == [
        (b'{"id":0}', b'{"id":0,"name":"n0"}'), (b'{"id":2}', b'{"id":2,"name":"n2"}'),
        (b'{"id":3}', None),
    ]  # fmt: skip


def test_issue_36_an_old_row_whose_new_row_a_filter_left_out_is_a_tombstone(
    topics, table_on, batch
):
    table = table_on(
        topics.make(), TWO, primary_keys=["id"],
        **{"connector": "upsert-kafka", "key.format": "json", "scan.startup.mode": None},
    )  # fmt: skip
    before, after = RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER
    kinds = [before, before, after, before, after, before]
    rows = [ROWS[n] for n in (0, 1, 1, 2, 3, 4)]
    assert write(table, batch(TWO, *rows), kinds) == 5
    assert [(m.key(), m.value() is None) for m in topics.read(table.topics[0])] == [
        *((b'{"id":0}', True), (b'{"id":1}', False)),
        *((b'{"id":2}', True), (b'{"id":3}', False), (b'{"id":4}', True)),
    ]


def test_a_message_too_large_for_client_or_broker_is_told(topics, table_on, batch):
    table = table_on(topics.make(), TWO)
    for size in (kafka_broker.LARGEST_MESSAGE + 10_000, 2_000_000):
        with pytest.raises(InvalidInputError, match="larger than the limit") as refusal:
            write(table, batch(TWO, {"id": 1, "name": "x" * size}))
        assert refusal.value.kind == "kafka_message_too_large"


def test_a_write_to_a_broker_that_is_down_fails_in_seconds(topics, table_on, batch):
    table = table_on("t", TWO, **{"properties.bootstrap.servers": "127.0.0.1:1"})
    begin = time.monotonic()
    with pytest.raises(StorageError, match="No broker"):
        write(table, batch(TWO, *ROWS))
    assert time.monotonic() - begin < 15


def test_a_write_to_an_unknown_topic_fails(topics, table_on, batch):
    with pytest.raises(NotFoundError, match="does not exist"):
        write(table_on("unknown", TWO), batch(TWO, *ROWS))


def test_tables_that_cannot_be_written_are_refused_at_once(table_on):
    with pytest.raises(InvalidInputError, match="give it one 'topic'"):
        check_writable(table_on("a;b", TWO))
    with pytest.raises(UnsupportedError, match="read-only"):
        check_writable(table_on("a", TWO, format="canal-json"))


@pytest.fixture
def bad_topic(topics):
    topic = topics.make()
    topics.send(topic, b'{"id":1}', b"{", b'{"id":"x"}', keys=[None, b"k", None])
    return topic


def take(table, letters):
    with Client(table) as client:
        start, end = batch_range(client)
    decoder = RowDecoder(table, ["id"], zone=None)
    rows = []
    for block in all_blocks(table, start.slices_to(end)):
        found = decoder.rows(block)
        BadMessages(table, letters).take(block, found.bad)
        rows += found.rows.to_pylist()
    return rows


def test_a_bad_message_fails_by_default_with_its_place_and_reason(table_on, bad_topic):
    with pytest.raises(InvalidInputError, match=r"offset 1 of partition 0 .*truncated") as refusal:
        take(table_on(bad_topic, TWO), None)
    assert refusal.value.context["offset"] == 1


def test_a_bad_message_is_skipped_by_option(table_on, bad_topic):
    assert take(table_on(bad_topic, TWO, **{"scan.bad-record": "skip"}), None) == [{"id": 1}]


def test_bad_messages_go_to_their_table_once(table_on, bad_topic, tmp_path):
    catalog = tidelake.open(tmp_path)
    given = {"scan.bad-record": "dead-letter", "scan.dead-letter-table": "ops.letters"}
    table = table_on(bad_topic, TWO, **given)
    for _ in range(2):  # a task that is repeated
        assert take(table, dead_letter_table(table, catalog)) == [{"id": 1}]
    letters = catalog.table("ops.letters").to_arrow().sort_by("offset").to_pylist()
    assert [(row["offset"], row["key"], row["value"]) for row in letters] == [
        (1, b"k", b"{"), (2, None, b'{"id":"x"}'),
    ]  # fmt: skip
    assert letters[1]["reason"] == "column 'id': 'x' is not a value of type BIGINT"
    assert letters[1]["topic"] == bad_topic


def test_another_table_is_no_dead_letter_table(table_on, tmp_path):
    catalog = tidelake.open(tmp_path)
    catalog.create_table("ops.letters", {"id": "INT"})
    given = {"scan.bad-record": "dead-letter", "scan.dead-letter-table": "ops.letters"}
    with pytest.raises(InvalidInputError):
        dead_letter_table(table_on("t", TWO, **given), catalog)
