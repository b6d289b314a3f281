"""A job of topics as people use it, on a real broker: planned, run, asked."""

from __future__ import annotations

import datetime as dt
import time
from decimal import Decimal

import pytest
from unit.cdc.kafka.change_stream import Tables
from unit.kafka.conftest import Topics

import tidelake
import tidelake.cdc
from tidelake.errors import InvalidInputError

ROW = [
    {"type": "int64", "optional": False, "field": "id"},
    {"type": "string", "optional": True, "field": "name"},
]


@pytest.fixture(scope="module")
def topics(broker):
    return Topics(broker.servers)


@pytest.fixture
def job(topics, tmp_path):
    def make(command, topic, **more):
        conf = {
            "properties.bootstrap.servers": topics.servers,
            "topic": topic,
            "value.format": "debezium-json",
            "scan.startup.mode": "earliest-offset",
        }
        given = {"warehouse": str(tmp_path), "database": "ods", "kafka_conf": conf}
        return tidelake.cdc.sync(command, **{**given, **more})

    return make


@pytest.fixture
def changes():
    made = Tables(schemas={"items": ROW, "orders": ROW})
    made.put("items", {"id": 1, "name": "a"})
    made.put("orders", {"id": 7, "name": "o"})
    made.put("items", {"id": 2, "name": "b"})
    made.delete("items", 1)
    return made


def send(topics, topic, sent):
    topics.send(topic, *[m.value for m in sent], keys=[m.key for m in sent])


def content(lake, table, *columns):
    rows = tidelake.open(lake).table(f"ods.{table}").to_arrow(columns=list(columns)).to_pylist()
    return sorted(tuple(row.values()) for row in rows)


def test_a_database_of_a_topic_is_planned_and_run(topics, job, changes, tmp_path):
    topic = topics.make()
    send(topics, topic, changes.sent)
    made = job("kafka_sync_database", topic, table_prefix="k_")
    plan = made.plan()
    assert plan.can_run
    assert [one.target for one in plan.tables] == ["ods.k_items", "ods.k_orders"]
    made.run(once=True)
    assert content(tmp_path, "k_items", "id", "name") == [(2, "b")]
    assert content(tmp_path, "k_orders", "id", "name") == [(7, "o")]


def test_the_lag_is_said_in_seconds_and_messages(topics, job, changes):
    topic = topics.make()
    send(topics, topic, changes.sent)
    made = job("kafka_sync_database", topic)
    made.run(once=True)
    assert (made.status().lag.seconds, made.status().lag.messages_count) == (0, 0)
    time.sleep(0.3)
    ran = time.monotonic()
    changes.put("items", {"id": 3, "name": "c"})
    send(topics, topic, changes.sent[-1:])
    lag = made.status().lag
    assert 0.3 <= lag.seconds <= time.monotonic() - ran + 10
    assert (lag.messages_count, lag.bytes_count, lag.is_bound) == (1, None, False)
    made.run(once=True)
    assert made.status().lag.seconds == 0


def test_a_table_of_a_topic_with_a_key_and_metadata(topics, job, changes, tmp_path):
    topic = topics.make()
    items = [one for one in changes.sent if one.table == "items"]
    topics.send(topic, *[one.value for one in items])  # no key in Kafka
    made = job(
        "kafka_sync_table",
        topic,
        table="t",
        primary_keys="id",
        metadata_column="offset,topic",
        metadata_column_prefix="_",
        computed_column=["big=upper(name)"],
    )
    made.run(once=True)
    found = content(tmp_path, "t", "id", "name", "big", "_offset", "_topic")
    assert found == [(2, "b", "B", 1, topic)]


def test_messages_without_types_are_read_as_the_types_of_a_table_that_exists(topics, job, tmp_path):
    lake = tidelake.open(tmp_path)
    table = lake.create_table(
        "ods.orders",
        {
            "id": "INT NOT NULL",
            "price": "DECIMAL(8, 2)",
            "at": "TIMESTAMP(3)",
            "_cdc_lsn": "BIGINT",
            "_cdc_seq": "BIGINT",
        },
        primary_keys=["id"],
        options={"bucket": 1, "sequence.field": "_cdc_lsn,_cdc_seq"},
    )
    made = Tables(form="maxwell")
    made.put("orders", {"id": 1, "price": "12.50", "at": "2026-01-02 03:04:05.678"})
    made.put("orders", {"id": 2, "price": 7, "at": None})
    made.put("orders", {"id": 3, "price": "much", "at": None})
    topic = topics.make()
    send(topics, topic, made.sent)
    conf = {
        "properties.bootstrap.servers": topics.servers,
        "topic": topic,
        "value.format": "maxwell-json",
    }
    synced = job("kafka_sync_database", topic, kafka_conf=conf)
    assert synced.plan().can_run
    synced.run(once=True)
    at = dt.datetime(2026, 1, 2, 3, 4, 5, 678_000)
    rows = [(1, Decimal("12.50"), at), (2, Decimal("7.00"), None)]
    assert content(tmp_path, "orders", "id", "price", "at") == rows
    [[reason]] = content(tmp_path, "cdc_quarantine", "reason")
    assert "'much' is not a value of DECIMAL(8,2)" in reason.replace(", ", ",")

    made.sent.clear()
    made.put("orders", {"id": 4, "price": 1, "at": None, "note": 3})
    send(topics, topic, made.sent)
    job("kafka_sync_database", topic, kafka_conf=conf).run(once=True)
    rows = [(1, Decimal("12.50"), None), (2, Decimal("7.00"), None), (4, Decimal("1.00"), "3")]
    assert content(tmp_path, "orders", "id", "price", "note") == rows
    kept = [str(field) for field in lake.table("ods.orders").table_schema.fields[:3]]
    assert kept == [str(field) for field in table.table_schema.fields[:3]]


def test_a_setting_that_is_not_known_is_refused(job):
    with pytest.raises(InvalidInputError, match=r"value\.format"):
        job("kafka_sync_table", "t", table="t", kafka_conf={"value.form": "x"}).plan()
