"""The server on a socket."""

import http.client
import socket
import threading
import time

import pytest

from tidelake.errors import StorageError
from tidelake.ui.server import http_server
from tidelake.ui.serving import page_server

PATIENCE_S = 60


@pytest.fixture
def server(lake, orders):
    with page_server(lake, port=0) as found:
        yield found


def ask(server, method="GET", path="/table/shop.orders", body=None, headers=None):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=PATIENCE_S)
    connection.request(method, path, body, headers or {})
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    return answer, text


def test_pages_come_over_http(server):
    answer, text = ask(server)
    assert answer.status == 200
    assert b"shop.orders" in text
    assert answer.headers["X-Frame-Options"] == "DENY"
    assert "Python" not in answer.headers["Server"]
    head, nothing = ask(server, "HEAD")
    assert (head.status, nothing) == (200, b"")
    assert int(head.headers["Content-Length"]) > 1000
    style, _ = ask(server, path="/static/ui.css")
    assert style.headers["Content-Type"] == "text/css; charset=utf-8"


def test_one_connection_takes_many_requests(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=PATIENCE_S)
    for _ in range(3):
        connection.request("GET", "/static/ui.js")
        assert connection.getresponse().read()
    connection.close()


def test_a_body_without_end_is_not_read(server):
    answer, _ = ask(server, "POST", "/login", headers={"Content-Length": "99999999"})
    assert answer.status == 413
    answer, _ = ask(server, "POST", "/login", body=b"&".join(b"a%d=1" % n for n in range(99)))
    assert answer.status == 400


@pytest.mark.parametrize(
    "head",
    [
        b"GET /static/ui.css HTTP/1.1\r\nContent-Length: %d\r\n",
        b"HEAD /static/ui.css HTTP/1.1\r\nContent-Length: %d\r\n",
        b"GET /static/ui.css HTTP/1.1\r\nTransfer-Encoding: chunked\r\nX: %d\r\n",
        b"POST /login HTTP/1.1\r\nTransfer-Encoding: chunked\r\nX: %d\r\n",
        b"POST /login HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: %d\r\n",
        b"POST /login HTTP/1.1\r\nContent-Length: 0\r\nContent-Length: %d\r\n",
        b"POST /login HTTP/1.1\r\nContent-Length: +%d\r\n",
        b"POST /login HTTP/1.1\r\nX: %d\r\n",
    ],
)
def test_a_body_is_never_taken_for_the_next_request(server, head):
    hidden = b"GET /table/shop.orders HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.server_port), PATIENCE_S) as sent:
        sent.sendall(head % len(hidden) + b"Host: localhost\r\n\r\n" + hidden)
        answers = b""
        while more := sent.recv(65_536):
            answers += more
    assert answers.startswith(b"HTTP/1.1 400 ")
    assert answers.count(b"HTTP/1.1 ") == 1


def test_a_length_of_many_digits_is_refused(server):
    answer, _ = ask(server, "POST", "/login", headers={"Content-Length": "9" * 5_000})
    assert answer.status == 400


def test_a_request_that_trickles_in_is_ended(lake, orders, monkeypatch):
    monkeypatch.setattr(http_server, "SILENCE_S", 0.2)
    with page_server(lake, port=0) as server:
        address = ("127.0.0.1", server.server_port)
        with socket.create_connection(address, PATIENCE_S) as slow:
            slow.sendall(b"GET / HTTP/1.1\r\nHost: local")
            assert slow.recv(64) == b""


def test_an_error_that_nobody_expects_is_an_answer(server, monkeypatch, caplog):
    def odd(*_):
        raise ZeroDivisionError("hush")

    monkeypatch.setattr(server.site, "_known", odd)
    answer, text = ask(server)
    assert answer.status == 500
    assert b"hush" not in text
    assert "The page /table/shop.orders could not be made." in caplog.text


def test_actions_need_a_token_that_is_made_where_none_is_given(lake, orders):
    with page_server(lake, port=0, allow_actions=True) as server:
        assert ask(server)[0].status == 401
        known = {"Authorization": f"Bearer {server.token}"}
        assert ask(server, headers=known)[0].status == 200


def test_connections_are_bounded(lake, orders, monkeypatch):
    monkeypatch.setattr(http_server, "CONNECTIONS_MAX", 1)
    with page_server(lake, port=0) as server:
        address = ("127.0.0.1", server.server_port)
        with socket.create_connection(address, PATIENCE_S) as held:
            held.sendall(b"GET /static/ui.css HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert held.recv(64).startswith(b"HTTP/1.1 200")
            with socket.create_connection(address, PATIENCE_S) as other:
                other.settimeout(PATIENCE_S)
                assert other.recv(64) == b""  # closed
        deadline = time.monotonic() + PATIENCE_S
        while True:  # until the server has noticed that the first one left
            try:
                assert ask(server, path="/static/ui.css")[0].status == 200
                break
            except (ConnectionError, http.client.HTTPException):
                assert time.monotonic() < deadline
                time.sleep(0.01)


def test_a_port_that_is_taken_is_an_error(lake, server):
    taken = page_server(lake, port=server.server_port)
    with pytest.raises(StorageError, match="choose another address with --bind") as failed, taken:
        pass
    assert failed.value.kind == "port_taken"


def test_the_server_ends_with_its_block(lake):
    before = {one.name for one in threading.enumerate()}
    with page_server(lake, port=0):
        pass
    after = {one.name for one in threading.enumerate()} - before
    assert not [name for name in after if name.startswith("tidelake-ui")]
