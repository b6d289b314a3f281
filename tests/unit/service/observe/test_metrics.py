"""Metrics for Prometheus: what a scrape gives."""

from __future__ import annotations

import socket
import urllib.request
from pathlib import Path

import pytest
from unit.service.observe.statuses import executor, report, status, table

from tidelake.errors import StorageError
from tidelake.service.observe.metrics import METRICS, MetricsServer

pytest.importorskip("prometheus_client")


def scraped(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    pairs = (line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))
    return {name: float(value) for name, value in pairs}


def test_a_scrape_shows_the_status_of_that_moment():
    now = [status([executor(0, report(100, 40)), executor(1, report(7, 7), ready=False)])]
    server = MetricsServer(lambda: now[0], port=0)
    try:
        found = scraped(server.port)
        of_first = 'tidelake_query_{}{{executor="0",table="shop.orders"}}'
        assert found[of_first.format("keys_total")] == 100.0
        assert found[of_first.format("keys_found_total")] == 40.0
        assert found[of_first.format("requests_total")] == 10.0
        assert found[of_first.format("mapped_bytes")] == 1 << 20
        assert found[of_first.format("request_p99_seconds")] == 0.003
        assert found[of_first.format("snapshot_served")] == 3.0
        assert found["tidelake_query_executors"] == 2.0
        assert found["tidelake_query_executors_ready"] == 1.0
        names = {name.partition("{")[0] for name in found}
        assert {f"tidelake_query_{metric.name}" for metric in METRICS} <= names
        now[0] = status([executor(0, report(150, 41))], [table(snapshot=9)])
        found = scraped(server.port)
        assert found[of_first.format("keys_total")] == 150.0
        assert found['tidelake_query_snapshot{table="shop.orders"}'] == 9.0
    finally:
        server.close()
    with pytest.raises(OSError, match=r"refused|reset"):
        scraped(server.port)


def test_a_port_that_is_taken_is_said():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(StorageError, match=f"127.0.0.1:{port}"):
            MetricsServer(lambda: status([]), port=port)


def test_the_page_names_all_metrics():
    page = Path(__file__).parents[4] / "docs" / "query-service.md"
    text = page.read_text(encoding="utf-8")
    assert [
        metric.name for metric in METRICS if f"`tidelake_query_{metric.name}`" not in text
    ] == []
