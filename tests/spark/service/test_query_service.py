"""A query service whose executor is a task of the session: its answers, and what it survives."""

from __future__ import annotations

import os
import signal
import threading
import time
from datetime import date

import pytest

import tidelake
import tidelake.spark
from tidelake.errors import InvalidInputError, TidelakeError
from tidelake.service.protocol.service_file import read_service_file
from tidelake.spark.service import slots

ROWS = 300
DEADLINE_S = 30


@pytest.fixture(scope="module")
def lake(spark, tmp_path_factory):
    """Two tables: of fixed buckets, merged; of partitions, with buckets that grow."""
    lake = tidelake.spark.attach(spark, tmp_path_factory.mktemp("served") / "warehouse")
    orders = lake.create_table(
        "shop.orders",
        "id bigint, item string, price decimal(10,2)",
        primary_keys=["id"],
        options={"bucket": 3},
    )
    orders.write([{"id": i, "item": f"item {i}", "price": None} for i in range(ROWS)])
    orders.write([{"id": i, "item": f"new {i}", "price": None} for i in range(0, ROWS, 3)])
    days = lake.create_table(
        "shop.days",
        "day date, hour int, sold int",
        primary_keys=["day", "hour"],
        partition_keys=["day"],
    )
    days.write([{"day": date(2026, 11, 25 + i % 3), "hour": i, "sold": i * 2} for i in range(60)])
    return lake


@pytest.fixture(scope="module")
def service(lake):
    with lake.serve(["shop.orders", "shop.days"], parallelism=1) as service:
        service.wait_ready(DEADLINE_S)
        yield service


@pytest.fixture(scope="module")
def query(lake, service):
    """Make clients, which end with the module."""
    made = []

    def open_query(table):
        made.append(
            tidelake.lookup_client(lake.catalog.warehouse, table, deadline_seconds=DEADLINE_S)
        )
        return made[-1]

    yield open_query
    for client in made:
        client.close()


def test_gets_are_what_sql_says_while_other_jobs_run(lake, query):
    orders, days = query("shop.orders"), query("shop.days")
    by_sql = {row["id"]: row.asDict() for row in lake.sql("SELECT * FROM shop.orders").collect()}
    assert len(by_sql) == ROWS
    for key in (0, 1, 2, ROWS - 1, ROWS, -7):
        assert orders.get(key) == by_sql.get(key)
    keys = [*range(0, ROWS + 50, 7), 3, 3]
    assert orders.get_many(keys) == [by_sql.get(key) for key in keys]
    sold = {
        (row["day"], row["hour"]): row["sold"]
        for row in lake.sql("SELECT * FROM shop.days").collect()
    }
    found = days.get_many(list(sold), columns=["sold"])
    assert [row["sold"] for row in found] == list(sold.values())


def test_a_commit_is_seen_and_an_executor_that_is_killed_comes_back(lake, service, query):
    orders = query("shop.orders")
    stop, wrong, slowest, gets = threading.Event(), [], [0.0], [0]

    def ask():
        seen = 0
        while not stop.is_set():
            began = time.monotonic()
            row = orders.get(5)
            slowest[0] = max(slowest[0], time.monotonic() - began)
            version = 0 if row["item"] == "item 5" else int(row["item"])
            if version < seen:
                wrong.append((seen, version))
            seen, gets[0] = version, gets[0] + 1

    client = threading.Thread(target=ask)
    client.start()
    try:
        table = lake.catalog.table("shop.orders")
        table.write([{"id": 5, "item": "1", "price": None}])
        before = service.executor_pids[0]
        os.kill(before, signal.SIGKILL)
        table.write([{"id": 5, "item": "2", "price": None}])
        newest = table.latest_snapshot_id
        assert orders.get(5, min_snapshot=newest)["item"] == "2"
        assert service.executor_pids[0] != before
        assert lake.sql("SELECT count(*) AS n FROM shop.orders").first()["n"] == ROWS
    finally:
        stop.set()
        client.join()
    assert not wrong
    assert gets[0] > 10
    assert service.restarts_count == 1
    print(f"slowest get while the executor was killed: {slowest[0]:.2f} s")
    assert slowest[0] < DEADLINE_S / 2


def test_tables_come_and_go_while_it_runs(lake, service, query):
    more = lake.create_table("shop.more", "k int, v string", primary_keys=["k"])
    more.write([{"k": 1, "v": "one"}])
    service.add("shop.more")
    client = query("shop.more")
    assert client.get(1) == {"k": 1, "v": "one"}
    service.remove("shop.more")
    assert service.tables == ["shop.days", "shop.orders"]
    assert read_service_file(more.fileio, more.handle.paths.location) is None


def test_what_leaves_no_slot_is_refused_beside_it(lake, service):
    with pytest.raises(InvalidInputError, match=r"other services hold 1\. Start .*local\[3\]"):
        lake.serve(["shop.more"], parallelism=1)


def test_a_session_of_connect_is_refused(lake, monkeypatch):
    monkeypatch.setattr(slots, "is_remote", lambda: True)
    with pytest.raises(TidelakeError, match=r"Spark Connect.*tidelake\.serve"):
        lake.serve(["shop.more"], parallelism=1)


def test_when_it_stops_nothing_of_it_is_left(lake, service):
    (before,) = service.executor_pids.values()
    began = time.monotonic()
    service.stop()
    took = time.monotonic() - began
    assert not service.is_running
    orders = lake.catalog.table("shop.orders")
    assert read_service_file(orders.fileio, orders.handle.paths.location) is None
    tracker = lake.spark.sparkContext.statusTracker()
    assert not tracker.getActiveJobsIds()
    assert before
    print(f"stopped in {took:.2f} s")
    assert took < 5
