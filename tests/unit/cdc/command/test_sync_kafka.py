"""A job of topics as people use it, on a real broker: planned, run, asked."""

from __future__ import annotations

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


def test_a_setting_that_is_not_known_is_refused(job):
    with pytest.raises(InvalidInputError, match=r"value\.format"):
        job("kafka_sync_table", "t", table="t", kafka_conf={"value.form": "x"}).plan()
