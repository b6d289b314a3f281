"""Requests, repeats, pages and errors of the client, over sockets and without."""

from __future__ import annotations

import json
import pickle
import socket
import threading
import traceback
from contextlib import suppress

import httpx
import pytest
from servers.rest_catalog import TOKEN, RestCatalogServer
from unit.catalog.rest.rest_world import Direct, client_of

from tidelake.catalog.rest import transport
from tidelake.catalog.rest.client import RestClient
from tidelake.catalog.rest.failures import (
    AnswerLostError,
    ServerAnswer,
    ServerBusyError,
    ServerUnreachableError,
)
from tidelake.catalog.rest.settings import RestSettings
from tidelake.catalog.rest.transport import Transport
from tidelake.errors import (
    TEXT_SHOWN_MAX,
    AlreadyExistsError,
    CorruptError,
    InvalidInputError,
    NotFoundError,
    StorageError,
    StorageRefusedError,
    TidelakeError,
    UnsupportedError,
)
from tidelake.fileio import MemoryFileIO
from tidelake.telemetry import Env


@pytest.fixture
def server():
    return RestCatalogServer("/wh", fileio=MemoryFileIO())


@pytest.fixture
def client(server):
    return client_of(server)


class Scripted:
    """Gives these answers in turn; an exception is raised."""

    def __init__(self, *answers):
        self.answers, self.sent = list(answers), []

    def send(self, method, path, **more):
        self.sent.append((method, path, more))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


CONFIG = ServerAnswer(200, b'{"defaults": {"prefix": "p"}, "overrides": {}}')


def scripted(*answers):
    transport = Scripted(CONFIG, *answers)
    settings = RestSettings.of({"uri": "http://c", "warehouse": "w", "token": "s3cret-t"})
    return RestClient(settings, env=Env.seeded(1), transport=transport), transport


def test_overrides_stand_above_the_users_options_and_defaults_below():
    config = b'{"defaults": {"prefix": "a", "x": "d"}, "overrides": {"x": "o", "header.H": "v"}}'
    settings = RestSettings.of({"uri": "http://c", "warehouse": "w", "prefix": "mine"})
    transport = Scripted(ServerAnswer(200, config), ServerAnswer(200, b'{"databases": []}'))
    client = RestClient(settings, env=Env.seeded(1), transport=transport)
    assert dict(client.options) == {"prefix": "mine", "x": "o"}
    client.databases()
    assert transport.sent[1][1] == "/v1/mine/databases"
    assert transport.sent[1][2]["headers"] == {"H": "v"}


def test_the_users_headers_stand_above_the_servers_defaults():
    config = b"""{"defaults": {"header.x-team": "d", "header.Y": "d", "header.authorization": "d"},
                  "overrides": {"header.Y": "o", "header.x-tenant": "o"}}"""
    given = {"header.X-Team": "mine", "header.X-Tenant": "mine", "token": "t"}
    settings = RestSettings.of({"uri": "http://c", "warehouse": "w", **given})
    transport, sent = Transport(settings, env=Env.seeded(1)), []

    def answer(request):
        sent.append(request.headers)
        return httpx.Response(200, content=b'{"databases": []}' if sent[1:] else config)

    transport._client.value._transport = httpx.MockTransport(answer)
    RestClient(settings, env=Env.seeded(1), transport=transport).databases()
    names = ("x-team", "y", "x-tenant", "authorization")
    assert [sent[1].get_list(name) for name in names] == [["mine"], ["o"], ["o"], ["Bearer t"]]


def test_lists_come_in_pages(server, client):
    for number in range(5):
        client.create_database(f"d{number}")
    assert client.databases() == [f"d{number}" for number in range(5)]
    assert server.count("GET /v1/tide+lake/databases") == 3


def test_a_list_without_end_is_an_error():
    page = ServerAnswer(200, b'{"databases": ["a"], "nextPageToken": "a"}')
    client, _ = scripted(page, page, page)
    with pytest.raises(CorruptError, match="has no end"):
        client.databases()


def test_names_are_encoded_in_paths(server, client):
    client.create_database("a b+%ü")
    assert client.database("a b+%ü").name == "a b+%ü"
    client.alter_database("a b+%ü", updates={"x": "1", "y": "2"})
    client.alter_database("a b+%ü", updates={}, removals=["x"])
    assert client.database("a b+%ü").options == {"y": "2"}
    client.drop_database("a b+%ü")
    assert client.databases() == []


@pytest.mark.parametrize(
    ("status", "body", "error", "kind"),
    [
        (400, b'{"message": "bad"}', InvalidInputError, "rest_bad_request"),
        (401, b"", StorageRefusedError, "rest_unauthorized"),
        (403, b'{"message": "not yours"}', StorageRefusedError, "rest_forbidden"),
        (404, b'{"resourceType": "DATABASE"}', NotFoundError, "database_not_found"),
        (404, b"<html>nginx</html>", StorageRefusedError, "rest_answer"),
        (409, b'{"resourceType": "TABLE"}', AlreadyExistsError, "table_exists"),
        (413, b"<html>nginx</html>", StorageRefusedError, "rest_answer"),
        (301, b"", StorageRefusedError, "rest_answer"),
        (501, b"", UnsupportedError, "rest_unsupported"),
    ],
)
def test_what_the_server_refuses_is_an_error_at_once(status, body, error, kind):
    client, transport = scripted(ServerAnswer(status, body, location="http://other"))
    with pytest.raises(error) as raised:
        client.database("d")
    assert raised.value.kind == kind
    assert len(transport.sent) == 2
    pickle.loads(pickle.dumps(raised.value))


def test_a_read_is_repeated_until_it_is_answered():
    lost = (
        ServerAnswer(500, b""),
        ServerAnswer(503, b"", retry_after="7"),
        ServerAnswer(200, b"<html>"),
    )
    client, transport = scripted(*lost, ServerAnswer(200, b'{"databases": ["d"]}'))
    before = client._env.clock.now_ms()
    assert client.databases() == ["d"]
    assert len(transport.sent) == 5
    assert client._env.clock.now_ms() - before >= 7_000


def test_a_read_ends_after_its_time():
    client, transport = scripted(*[ServerAnswer(503, b"", retry_after="100")] * 9)
    with pytest.raises(StorageError, match="503"):
        client.databases()
    assert len(transport.sent) == 3  # 100 s twice are more than the deadline


@pytest.mark.parametrize("status", [408, 422, 425, 499, 500, 502, 503, 504])
def test_a_change_is_not_repeated_if_it_may_have_taken_effect(status):
    client, transport = scripted(ServerAnswer(status, b""), ServerAnswer(200, b""))
    with pytest.raises(StorageError, match=str(status)) as raised:
        client.create_database("d")
    assert raised.value.kind == "rest_answer_lost"
    assert len(transport.sent) == 2


def test_a_change_is_repeated_if_the_server_took_nothing():
    errors = (ServerUnreachableError("no route"), ServerAnswer(429, b""))
    client, transport = scripted(*errors, ServerAnswer(200, b""))
    client.create_database("d")
    assert len(transport.sent) == 4
    client, _ = scripted(*[ServerAnswer(429, b"")] * 8)
    with pytest.raises(ServerBusyError, match="too much to do"):
        client.create_database("d")


def test_an_answer_that_repeats_the_token_does_not_show_it():
    client, _ = scripted(ServerAnswer(403, b'{"message": "Bearer s3cret-t may not"}'))
    with pytest.raises(StorageRefusedError, match=r"Bearer \*\*\* may not") as raised:
        client.database("d")
    assert "s3cret" not in repr(raised.value)
    assert "s3cret" not in repr(client) + repr(client.settings) + str(client.settings)
    assert b"s3cret" not in pickle.dumps(client.settings)


def test_options_that_may_hold_secrets_are_neither_shown_nor_sent():
    """Those of a storage, and whatever is named like a secret."""
    options = {"s3.secret-key": "s3cret-k", "proxy.password": "s3cret-p", "prefix": "mine"}
    settings = RestSettings.of({"uri": "http://c", "warehouse": "w", **options})
    assert "s3cret" not in repr(settings)
    assert b"s3cret" not in pickle.dumps(settings)
    assert pickle.loads(pickle.dumps(settings)) == settings
    assert settings.options == {"prefix": "mine"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "needs the option 'warehouse'"),
        ({"warehouse": "w"}, "needs the option 'uri'"),
        ({"warehouse": "w", "uri": "catalog.example.com"}, "give the server's address"),
        ({"warehouse": "w", "uri": "ftp://c"}, "give the server's address"),
        ({"warehouse": "w", "uri": "http://c?x=1"}, "give the server's address"),
        ({"warehouse": "w", "uri": "http://[s3cret"}, "wrong host or port"),
        ({"warehouse": "w", "uri": "http://c:s3cret"}, "wrong host or port"),
        ({"warehouse": "w", "uri": "http://c:99999"}, "wrong host or port"),
        ({"warehouse": "w", "uri": "http://c\x01d"}, "wrong host or port"),
        ({"warehouse": "w", "uri": "http://a..b"}, "wrong host or port"),
        ({"warehouse": "w", "uri": "http://c", "token.provider": "bear"}, "set the option 'token'"),
        ({"warehouse": "w", "uri": "http://c", "token.provider": "oauth"}, "takes 'bear'"),
        ({"warehouse": "w", "uri": "http://c", "token": "a\nb"}, "line break"),
        (
            {"warehouse": "w", "uri": "http://c", "header.X-Key": "s3cret\n"},
            "'header.X-Key'.*break",
        ),
        ({"warehouse": "w", "uri": "http://c", "header.X-Key": "s3crét"}, "no header has"),
        ({"warehouse": "w", "uri": "http://c", "header.X Key": "s3cret"}, "no name of a header"),
        ({"warehouse": "w", "uri": "http://c", "header.": "s3cret"}, "no name of a header"),
    ],
)
def test_wrong_settings_are_refused(options, words):
    with pytest.raises(InvalidInputError, match=words) as raised:
        RestSettings.of(options)
    assert "s3cr" not in "".join(traceback.format_exception(raised.value))


def test_a_name_that_no_request_can_hold_is_refused():
    settings = RestSettings.of({"warehouse": "w", "uri": "http://127.0.0.1:1"})
    transport = Transport(settings, env=Env.seeded(1))
    wrong = RestSettings.of({"warehouse": "w", "uri": "http://xn--a"})
    with pytest.raises(InvalidInputError, match="cannot be put into a request"):
        Transport(wrong, env=Env.seeded(1)).send("GET", "/x")
    with pytest.raises(InvalidInputError, match="URL too long") as raised:
        transport.send("GET", "/" + "x" * 70_000)
    assert len(str(raised.value)) < 500
    with pytest.raises(InvalidInputError, match="cannot be put into a request"):
        transport.send("POST", "/x", body={"comment": "\ud800"})


def test_a_redirect_that_leads_nowhere_is_no_refusal_of_what_was_sent():
    settings = RestSettings.of({"warehouse": "w", "uri": "http://c"})
    transport = Transport(settings, env=Env.seeded(1))
    transport._client.value._transport = httpx.MockTransport(
        lambda _: httpx.Response(302, headers={"location": "http://xn--a/"})
    )
    with pytest.raises(AnswerLostError, match="gave no answer to POST"):
        transport.send("POST", "/x")


@pytest.mark.parametrize(
    ("ask", "body"),
    [
        ("databases", b'["a"]'),
        ("databases", b'"a"'),
        ("databases", b'{"databases": {"a": 1}}'),
        ("databases", b'{"databases": ["a"], "nextPageToken": ["a"]}'),
        ("branches", b'["a"]'),
        ("branches", b'{"branches": 7}'),
        ("snapshot", b'["a"]'),
        ("table", b'["a"]'),
        ("table", b'{"id": "1", "name": "t", "path": "/t", "schemaId": 0, "schema": []}'),
        ("table", b'{"name": "t", "path": "/t", "schemaId": 0, "schema": {"options": []}}'),
        ("table", b'{"id": "1", "name": "t", "path": "/t", "schemaId": 0}'),
        ("token", b'{"token": []}'),
        ("partitions", b'{"partitions": [{"spec": []}]}'),
    ],
)
def test_an_answer_of_another_form_is_the_servers_error(ask, body):
    client, _ = scripted(ServerAnswer(200, body))
    with pytest.raises(CorruptError, match="server"):
        getattr(client, ask)(*() if ask == "databases" else ("d", "t"))


@pytest.mark.parametrize("body", [b'{"defaults": ["a"]}', b'{"overrides": "a"}', b"[]", b""])
def test_a_configuration_of_another_form_is_the_servers_error(body):
    settings = RestSettings.of({"uri": "http://c", "warehouse": "w"})
    transport = Scripted(ServerAnswer(200, body))
    with pytest.raises(CorruptError, match="server"):
        RestClient(settings, env=Env.seeded(1), transport=transport).databases()


@pytest.mark.parametrize("status", [200, 400])
def test_an_answer_that_is_too_deep_is_none(status):
    client, _ = scripted(*[ServerAnswer(status, b"[" * 200_000)] * 8)
    with pytest.raises(TidelakeError, match="server"):
        client.databases()


def test_an_answer_without_end_is_lost(monkeypatch):
    env = Env.seeded(1)
    transport = Transport(RestSettings.of({"uri": "http://c", "warehouse": "w"}), env=env)

    def drip(request):
        while True:
            env.clock.sleep_ms(1_000 if request.url.path == "/slow" else 0)
            yield b"x" * 100

    transport._client.value._transport = httpx.MockTransport(
        lambda request: httpx.Response(200, content=drip(request))
    )
    started_ms = env.clock.now_ms()
    with pytest.raises(AnswerLostError, match="in 120 s"):
        transport.send("GET", "/slow")
    assert 120_000 <= env.clock.now_ms() - started_ms < 125_000
    monkeypatch.setattr("tidelake.catalog.rest.transport.ANSWER_BYTES_MAX", 1_000)
    with pytest.raises(AnswerLostError, match="more than 1000 bytes"):
        transport.send("GET", "/large")


@pytest.mark.parametrize(
    "asked", ["9" * 5_000, "Mon, 01 Jan 0001 00:00:00 -0000", "Fri, 31 Dec 9999 23:59:59 GMT", "-1"]
)
def test_a_wait_that_is_none_is_no_other_error(asked):
    client, _ = scripted(*[ServerAnswer(503, b"", retry_after=asked)] * 8)
    with pytest.raises(AnswerLostError, match="503"):
        client.databases()


def test_a_header_of_the_server_that_is_none_is_its_error():
    config = b'{"overrides": {"header.X": "s3cret\\nh"}}'
    settings = RestSettings.of({"uri": "http://c", "warehouse": "w"})
    transport = Scripted(ServerAnswer(200, config))
    with pytest.raises(CorruptError, match=r"'header\.X'") as raised:
        RestClient(settings, env=Env.seeded(1), transport=transport).databases()
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize("failure", ["ConnectError", "ReadError"])
def test_a_failure_that_repeats_a_secret_is_not_chained(monkeypatch, failure):
    settings = RestSettings.of({"uri": "http://c", "warehouse": "w", "header.X": "s3cret"})
    transport = Transport(settings, env=Env.seeded(1))

    def fail(request):
        error = getattr(httpx, failure)
        raise error(f"no {request.headers['x']} here" if "s" in request.url.path else "no")

    transport._client.value._transport = httpx.MockTransport(fail)
    with pytest.raises(StorageError, match=r"no \*\*\* here") as raised:
        transport.send("GET", "/s")
    assert "s3cret" not in "".join(traceback.format_exception(raised.value))
    with pytest.raises(StorageError, match="no") as raised:
        transport.send("GET", "/x")
    assert isinstance(raised.value.__cause__, httpx.HTTPError)


@pytest.mark.parametrize("status", [302, 400, 404])
def test_an_answer_that_is_cut_where_the_token_stands_does_not_show_its_beginning(status):
    words = "x" * (TEXT_SHOWN_MAX - 6)
    body = {"message": f"{words}s3cret-t", "resourceType": "TABLE", "resourceName": "s3cret-t"}
    answer = ServerAnswer(status, json.dumps(body).encode(), location=f"{words}s3cret-t")
    client, _ = scripted(answer)
    with pytest.raises(TidelakeError) as raised:
        client.database("d")
    assert "s3c" not in repr(raised.value) + str(raised.value.context)


def test_a_password_in_the_uri_is_refused_and_not_shown():
    with pytest.raises(InvalidInputError, match="bearer token") as raised:
        RestSettings.of({"warehouse": "w", "uri": "http://me:hunter2@c"})
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize("options", [{"token.provider": "dlf"}, {"dlf.region": "cn"}])
def test_dlf_is_refused_clearly(options):
    with pytest.raises(UnsupportedError, match="DLF"):
        RestSettings.of({"warehouse": "w", "uri": "http://c", **options})


def test_over_sockets_a_server_answers_dies_and_breaks_off(tmp_path):
    with RestCatalogServer(tmp_path) as server:
        env = Env.seeded(1)
        client = RestClient(RestSettings.of(server.options()), env=env)
        client.create_database("d")
        server.fault("drop", "GET", "/databases")
        server.fault("cut", "GET", "/databases", nth=2)
        assert client.databases() == ["d"]
        server.fault("lost", "POST", "/databases")
        with pytest.raises(StorageError, match="gave no answer to POST"):
            client.create_database("e")
        assert client.databases() == ["d", "e"]
        assert TOKEN not in "".join(server.requests)
        wrong = RestClient(RestSettings.of(server.options(token="wrong")), env=env)
        with pytest.raises(StorageRefusedError, match="401"):
            wrong.databases()
    client.close()
    late = RestClient(RestSettings.of(server.options()), env=env)
    with pytest.raises(ServerUnreachableError, match="cannot be reached"):
        late.databases()


def test_a_direct_transport_asks_the_same_server(server):
    assert Direct(server).send("GET", "/v1/config", query={"warehouse": "lake"}).status == 200


def test_headers_that_come_in_drops_have_an_end(monkeypatch):
    """Each drop comes in time, so the limit of a read does not help."""
    monkeypatch.setattr(transport, "EXCHANGE_TIME_MAX_S", 0.3)
    stop = threading.Event()

    def drip(listening):
        connection, _ = listening.accept()
        with connection, suppress(OSError):
            connection.recv(65_536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nX-Long: ")
            while not stop.wait(0.02):
                connection.sendall(b"x")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        dripping = threading.Thread(target=drip, args=(listening,), daemon=True)
        dripping.start()
        uri = f"http://127.0.0.1:{listening.getsockname()[1]}"
        settings = RestSettings.of({"uri": uri, "warehouse": "lake"})
        sender = transport.Transport(settings, env=Env.system(), answer_timeout_s=5.0)
        with pytest.raises(AnswerLostError, match="although it sends something"):
            sender.send("GET", "/v1/config")
        stop.set()
        dripping.join(5)
