"""How a partition is marked as done: files, reports to a server, and what is refused."""

from __future__ import annotations

import base64
import json
from dataclasses import replace

import pyarrow as pa
import pytest
from servers.done_reports import DoneReports
from servers.ports import free_port

import tidelake
from tidelake.errors import InvalidInputError, StorageError, StorageRefusedError, UnsupportedError
from tidelake.fileio import MemoryFileIO
from tidelake.maintenance import call
from tidelake.table.partition_done.http_report import report
from tidelake.telemetry import Env, ManualClock

COLUMNS = pa.schema({"day": pa.string(), "hh": pa.int32(), "k": pa.int64()})
REPORT = {"partition.mark-done-action": "http-report"}
URL = "partition.mark-done-action.http.url"


@pytest.fixture
def catalog():
    clock = ManualClock()
    env = replace(Env.seeded(1), clock=clock)
    return tidelake.open("/lake", fileio=MemoryFileIO(clock=clock), env=env)


@pytest.fixture
def server():
    with DoneReports() as started:
        yield started


def make(catalog, options):
    return catalog.create_table("db.t", COLUMNS, partition_keys=["day", "hh"], options=options)


def mark(catalog, partitions="day=2024-01-31,hh=8"):
    call(catalog, "mark_partition_done", ("db.t", partitions), {})


def success_files(table):
    folder = f"{table.location}/day=2024-01-31/hh=8"
    return [status.name for status in table.fileio.list_dir(folder)]


def test_a_server_hears_of_each_partition(catalog, server):
    params = {"partition.mark-done-action.http.params": "team=a"}
    url = f"http://me:pass%40word@{server.address}/done?token=1"
    table = make(catalog, {**REPORT, **params, URL: url})
    mark(catalog, "day=2024-01-31,hh=8;hh=9,day=a b")
    first = {"table": "db.t", "path": table.handle.uri, "params": "team=a"}
    assert server.reports == [
        {**first, "partition": "day=2024-01-31/hh=8/"},
        {**first, "partition": "day=a b/hh=9/"},
    ]
    assert set(server.logins) == {f"Basic {base64.b64encode(b'me:pass@word').decode()}"}
    assert success_files(table) == []


def test_several_actions_are_done_in_turn(catalog, server):
    both = {"partition.mark-done-action": "HTTP-REPORT, success-file"}
    table = make(catalog, {**both, URL: f"http://{server.address}"})
    mark(catalog)
    assert [one["partition"] for one in server.reports] == ["day=2024-01-31/hh=8/"]
    assert server.reports[0]["params"] is None
    assert success_files(table) == ["_SUCCESS"]


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [
        (200, b'{"result": "FAILED"}', "with the result 'FAILED'"),
        (200, b'{"other": 1}', "with no result"),
        (200, b"<html>", "with no result"),
        (200, b"", "with no result"),
        (200, b"[" * 100_000, "with no result"),
        (403, b"secret", "with status 403"),
        (302, b"", "with status 302"),
    ],
)
def test_a_server_that_refuses_is_an_error_without_secrets(catalog, server, status, body, says):
    make(catalog, {**REPORT, URL: f"http://me:pass@{server.address}/done?token=secret"})
    server.says(status, body, Location=f"http://{server.address}/elsewhere")
    with pytest.raises(StorageRefusedError, match=says) as refused:
        mark(catalog)
    text = str(refused.value)
    assert f"http://{server.address}/... refused" in text
    assert "secret" not in text
    assert "pass" not in text
    assert len(server.reports) == 1


def test_a_busy_server_is_asked_again(catalog, server):
    make(catalog, {**REPORT, URL: f"http://{server.address}"})
    server.says(503)
    server.says(500)
    mark(catalog)
    assert len(server.reports) == 3
    for _ in range(3):
        server.says(429)
    with pytest.raises(StorageError, match=r"does not take the report .*: status 429"):
        mark(catalog)


def test_a_server_that_is_away_is_an_error(catalog):
    make(catalog, {**REPORT, URL: f"http://me:pass@127.0.0.1:{free_port()}/done"})
    with pytest.raises(StorageError, match="that the server runs") as away:
        mark(catalog)
    assert "pass" not in str(away.value)


@pytest.mark.parametrize(
    "url",
    [
        "", "ftp://host/done", "host:80/done", "http://", "http://host:x/", "http://host:99999/",
        "http://ho st/", "http://host/a\nb", "http://hö/", "http://host:0/",
        "http://my..host/done", f"http://{'a' * 64}.org/done",
    ],
)  # fmt: skip
def test_a_url_is_checked_before_the_table_is_created(catalog, url):
    with pytest.raises(InvalidInputError, match=r"set it to a URL such as 'http://host:8080/done'"):
        make(catalog, {**REPORT, URL: url})
    assert catalog.list_databases() == []
    table = make(catalog, {})
    with pytest.raises(InvalidInputError, match="set it to a URL"):
        table.set_options({**REPORT, URL: url})


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("ftp://me:secret@host/done?token=secret", "ftp://host/..."),
        ("ftp://host:80/hooks/secret", "ftp://host:80/..."),
        ("ftp://host#secret", "ftp://host/..."),
        ("http://me:sec/secret@host/done", "http://..."),
        ("me:secret@host", "host"),
        ("secret/secret@host", "..."),
    ],
)
def test_a_url_in_an_error_shows_no_secret(catalog, url, shown):
    with pytest.raises(InvalidInputError) as wrong:
        make(catalog, {**REPORT, URL: url})
    assert f"is '{shown}': set it" in str(wrong.value)
    assert "sec" not in str(wrong.value)


def test_a_name_that_cannot_be_looked_up_is_a_server_that_is_away():
    env = replace(Env.seeded(1), clock=ManualClock())
    with pytest.raises(StorageError, match="that the server runs"):
        report("http://my..host/done", {}, env=env, table="db.t")


def test_a_report_ends_although_each_line_of_the_answer_comes_in_time(server, monkeypatch):
    clock = ManualClock()

    def drip(handler):
        try:
            handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
            while True:
                clock.sleep_ms(1_000)
                handler.wfile.write(b"x")
        except OSError:
            handler.close_connection = True

    monkeypatch.setattr(server, "answer", drip)
    env = replace(Env.seeded(1), clock=clock)
    with pytest.raises(StorageError, match="its answer has no end"):
        report(f"http://{server.address}", {}, env=env, table="db.t")


@pytest.mark.parametrize(
    ("action", "says"),
    [
        ("done-partition", "adds a partition '<value>.done' to Hive's metastore"),
        ("success-file,custom", "calls a class of Java"),
        ("mark-event", "needs a REST catalog"),
    ],
)
def test_what_cannot_be_done_here_is_refused_before_anything_is(catalog, action, says):
    table = make(catalog, {"partition.mark-done-action": action})
    with pytest.raises(
        UnsupportedError, match=f"{says}.*set it to 'success-file' or 'http-report'"
    ):
        mark(catalog)
    assert success_files(table) == []


def test_an_unknown_action_is_refused_at_creation(catalog):
    with pytest.raises(InvalidInputError, match="Did you mean 'success-file'"):
        make(catalog, {"partition.mark-done-action": "succes-file"})


def test_a_table_without_partitions_has_none_to_mark(catalog):
    catalog.create_table("db.t", COLUMNS)
    with pytest.raises(InvalidInputError, match="is not a partition column"):
        mark(catalog)


def test_a_mark_that_is_made_again_keeps_the_time_of_the_first(catalog):
    table = make(catalog, {})
    path = f"{table.location}/day=2024-01-31/hh=8/_SUCCESS"
    mark(catalog)
    first = json.loads(table.fileio.read_bytes(path))
    catalog.env.clock.sleep_ms(5)
    mark(catalog)
    again = json.loads(table.fileio.read_bytes(path))
    assert again["creationTime"] == first["creationTime"]
    assert again["modificationTime"] == first["modificationTime"] + 5
