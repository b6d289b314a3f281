"""A job of topics as a query of Spark, on a real broker."""

from __future__ import annotations

import time

import pytest
from unit.cdc.kafka.change_stream import Tables

PASSWORD = "canary of the broker's password"


@pytest.fixture
def job(topics, lake):
    def make(topic, **more):
        conf = {
            "properties.bootstrap.servers": topics.servers,
            "properties.ssl.key.password": "env:KAFKA_KEY",
            "topic": topic,
            "value.format": "maxwell-json",
        }
        given = {"database": "ods", "kafka_conf": conf, "interval": "200 ms"}
        return lake.cdc("kafka_sync_database", **{**given, **more})

    return make


def send(topics, topic, changes):
    sent, changes.sent = changes.sent, []
    topics.send(topic, *[one.value for one in sent], keys=[one.key for one in sent])


def content(lake, table):
    rows = lake.catalog.table(f"ods.{table}").to_arrow(columns=["id", "name"]).to_pylist()
    return sorted((row["id"], row["name"]) for row in rows)


def becomes(lake, table, wanted, seconds=60):
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        if lake.catalog.table_exists(f"ods.{table}") and content(lake, table) == wanted:
            return True
        time.sleep(0.2)
    return False


def test_a_query_follows_topics_and_new_tables_join(topics, lake, job, monkeypatch):
    monkeypatch.setenv("KAFKA_KEY", PASSWORD)
    topic = topics.make()
    changes = Tables(form="maxwell")
    changes.put("items", {"id": 1, "name": "a"})
    changes.put("items", {"id": 2, "name": "b"})
    changes.delete("items", 1)
    send(topics, topic, changes)
    lake.catalog.create_table(
        "ods.users",
        {"id": "INT NOT NULL", "name": "STRING", "_cdc_lsn": "BIGINT", "_cdc_seq": "BIGINT"},
        primary_keys=["id"],
        options={"bucket": 1, "sequence.field": "_cdc_lsn,_cdc_seq"},
    )
    made = job(topic, mode="combined")
    assert [one.target for one in made.plan().tables] == ["ods.items"]
    made.run(once=True)
    assert content(lake, "items") == [("2", "b")]

    started = made.start()
    changes.put("items", {"id": 3, "name": "c"})
    changes.put("users", {"id": 7, "name": "u"})
    send(topics, topic, changes)
    assert becomes(lake, "items", [("2", "b"), ("3", "c")])
    assert becomes(lake, "users", [(7, "u")])
    [source] = started.progress["sources"]
    assert source["description"] == "cdc[ods]"
    started.stop()
    status = made.status()
    assert {one.target: one.phase for one in status.tables} == {
        "ods.items": "live",
        "ods.users": "live",
    }
    assert not status.is_behind
    shown = [repr(made), str(made.plan()), str(status), str(source)]
    assert not any(PASSWORD in text for text in shown)
