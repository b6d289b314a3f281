"""When an executor stops, and which address server it works for."""

from __future__ import annotations

import threading

import pytest
from unit.service.service_kit import (
    SECRET,
    Asked,
    as_killed,
    asked_everywhere,
    made_table,
    refusal,
    request_of,
    running,
)
from waiting import until

from tidelake.service.address.address_server import AddressServer
from tidelake.service.executor import executor as module
from tidelake.service.executor.config import ExecutorConfig
from tidelake.service.executor.executor import QueryExecutor


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(module, "LOST_SECONDS", 0.3)
    monkeypatch.setattr(module, "HEARTBEAT_TIMEOUT_SECONDS", 0.2)


def started(catalog, server, tmp_path, **fields):
    given = {
        "address": server.address,
        "service_id": server.service_id,
        "secret": SECRET,
        "warehouse": catalog.warehouse,
        "index": 0,
        "executors_count": 1,
        "directory": str(tmp_path),
    }
    executor = QueryExecutor(ExecutorConfig(**(given | fields)), catalog)
    ended = []
    thread = threading.Thread(target=lambda: ended.append(executor.run()), daemon=True)
    thread.start()
    return executor, thread, ended


def test_executors_go_over_to_a_new_address_server_of_their_service(catalog, tmp_path):
    table = made_table(catalog)
    with running(catalog, count=2, directory=str(tmp_path)) as service:
        service.wait_ready()
        first = service.server
        first._stopping.clear()
        # as if it were killed: nobody is told, no file is removed
        as_killed(first)
        second = AddressServer(
            catalog, ["db.t"], executors_count=2, secret=SECRET, service_id=first.service_id
        )
        try:
            assert second.address != first.address
            until(lambda: len(second.registry.live()) == 2)
            table.write([{"id": 7, "v": "after"}])
            service.server = second
            service.wait_ready_at(table)
            assert asked_everywhere(second, table, [7]) == {7: {"id": 7, "v": "after"}}
        finally:
            second.tell_stop()
            for thread in service.threads:
                thread.join(60)
            second.stop(wait_seconds=0)
            service.server = first


def test_an_executor_without_an_address_server_stops_by_itself(catalog, tmp_path, quick):
    made_table(catalog)
    server = AddressServer(catalog, ["db.t"], executors_count=1, secret=SECRET)
    executor, thread, ended = started(catalog, server, tmp_path)
    until(lambda: executor.tables.all() and executor.tables.all()[0].version)
    as_killed(server)
    thread.join(60)
    assert [summary.reason for summary in ended] == ["lost"]
    server.stop(wait_seconds=0)


def test_an_executor_that_knows_no_table_yet_is_not_ready(catalog, tmp_path, quick):
    table = made_table(catalog)
    server = AddressServer(catalog, ["db.t"], executors_count=1, secret=SECRET)
    server.stop(wait_seconds=0)
    executor, thread, _ = started(catalog, server, tmp_path)
    with Asked(executor.address) as asked:
        request = request_of(table, [1])
        assert refusal(lambda: asked.lookup(request))[:2] == ("UNAVAILABLE", "not-ready")
    thread.join(60)


def test_a_newer_instance_of_an_index_ends_the_older_one(catalog, tmp_path):
    made_table(catalog)
    with AddressServer(catalog, ["db.t"], executors_count=1, secret=SECRET) as server:
        _, old_thread, old_ended = started(catalog, server, tmp_path)
        until(lambda: server.registry.live())
        new, new_thread, new_ended = started(catalog, server, tmp_path, attempt=1)
        old_thread.join(60)
        assert [summary.reason for summary in old_ended] == ["superseded"]
        assert [r.report.instance for r in server.registry.live()] == [new.instance]
        server.tell_stop()
        new_thread.join(60)
        assert [(s.reason, s.attempt) for s in new_ended] == [("stopped", 1)]


def test_an_executor_with_a_wrong_secret_is_not_let_in(catalog, tmp_path, quick):
    made_table(catalog)
    with AddressServer(catalog, ["db.t"], executors_count=1, secret=SECRET) as server:
        _, thread, ended = started(catalog, server, tmp_path, secret="stranger")
        thread.join(60)
        assert [summary.reason for summary in ended] == ["lost"]
        assert server.registry.all() == []


def test_a_failed_update_is_tried_again_and_says_why(catalog, tmp_path, serve, monkeypatch):
    table = made_table(catalog)
    service = serve(count=1)
    owned = service.executors[0].tables.find("db.t")
    whole = type(owned._open).apply
    failures = [OSError("the disk is full"), OSError("the disk is full")]

    def failing(self, *arguments):
        if failures:
            raise failures.pop()
        whole(self, *arguments)

    monkeypatch.setattr(type(owned._open), "apply", failing)
    table.write([{"id": 7, "v": "after"}])
    until(lambda: "disk is full" in owned.problem)
    assert asked_everywhere(service.server, table, [7]) == {7: {"id": 7, "v": "v7"}}
    service.wait_ready_at(table)
    assert owned.problem == ""
    assert asked_everywhere(service.server, table, [7]) == {7: {"id": 7, "v": "after"}}


def test_a_table_that_is_opened_anew_asks_for_all_its_files(catalog, serve):
    table = made_table(catalog)
    service = serve(count=1)
    (executor,) = service.executors
    before = executor.tables.find("db.t")
    executor.tables.keep(set(), executor._table)  # removed, and added again between two updates
    executor.tables.keep({"db.t"}, executor._table)
    until(lambda: (owned := executor.tables.find("db.t")) is not before and owned.version)
    assert asked_everywhere(service.server, table, [7]) == {7: {"id": 7, "v": "v7"}}
