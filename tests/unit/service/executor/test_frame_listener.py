"""Frames: the short way of a call, and what is no frame."""

import errno
import hashlib
import json
import os
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from unit.service.service_kit import made_table, running
from waiting import until

import tidelake
from tidelake.service.address.security import Security
from tidelake.service.executor import frame_listener
from tidelake.service.executor.config import Limits
from tidelake.service.protocol import tidelake_query_v1_pb2 as pb
from tidelake.service.protocol.framing import MAGIC, framed, read_frame


@pytest.fixture
def catalog(tmp_path):
    return tidelake.open(tmp_path / "warehouse")


def place_of(executor):
    host, _, port = executor.frames_address.rpartition(":")
    return host, int(port)


def connected(executor):
    connection = socket.create_connection(place_of(executor), 5)
    connection.settimeout(5)
    return connection


def problem_of(connection):
    reply = pb.LookupReply.FromString(read_frame(connection, 1 << 20))
    assert connection.recv(1) == b"", "and the server closes"
    return reply.problem


def frames_open(executor):
    return len(executor._frames._open)


def test_single_gets_and_batches_go_by_frames(catalog):
    made_table(catalog, rows=50)
    with running(catalog, count=1) as service, tidelake.lookup_client(catalog, "db.t") as query:
        (executor,) = service.executors
        assert query.get(3) == {"id": 3, "v": "v3"}
        assert frames_open(executor) == 1
        keys = list(range(60))
        wanted = [{"id": k, "v": f"v{k}"} if k < 50 else None for k in keys]
        assert [query.get(k) for k in keys] == wanted
        assert query.get_many(keys) == wanted
        assert frames_open(executor) == 1, "one connection, kept"
        with ThreadPoolExecutor(16) as pool:
            assert list(pool.map(query.get, keys * 5)) == wanted * 5
    assert frames_open(executor) == 0, "a service that stops ends its connections"


def test_what_is_no_frame_ends_its_own_connection(catalog):
    made_table(catalog, rows=5)
    with running(catalog, count=1) as service, tidelake.lookup_client(catalog, "db.t") as query:
        (executor,) = service.executors
        query.get(1)
        for sent in (b"GET / HTTP/1.1\r\n\r\n", os.urandom(64), b"TLQ1" + b"\xff" * 4, b"TL"):
            # the server may have closed already
            with connected(executor) as connection, suppress(OSError):
                connection.sendall(sent)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(4096):
                    pass
        hello = MAGIC + framed(b"")
        with connected(executor) as connection:
            connection.sendall(hello + b"\xff\xff\xff\x7f")
            assert problem_of(connection).reason == "request-too-large"
        with connected(executor) as connection:
            connection.sendall(hello + framed(b"\xff\xff\xff"))
            assert problem_of(connection).reason == "no-message"
        with connected(executor) as connection:
            connection.sendall(hello + b"\x10\0\0\0half")
        until(lambda: frames_open(executor) == 1)
        assert query.get(2) == {"id": 2, "v": "v2"}


def test_a_request_that_is_wrong_leaves_the_session(catalog):
    made_table(catalog, rows=5)
    with running(catalog, count=1) as service, tidelake.lookup_client(catalog, "db.t") as query:
        query.get(1)
        with connected(service.executors[0]) as connection:
            connection.sendall(MAGIC + framed(b""))
            for number in (7, 8):
                bad = pb.LookupRequest(protocol=1, table="db.t", id=number, columns=["w"])
                connection.sendall(framed(bad.SerializeToString()))
                reply = pb.LookupReply.FromString(read_frame(connection, 1 << 20))
                assert (reply.id, reply.problem.reason) == (number, "unknown-column")


def test_a_client_that_finds_no_place_uses_grpc(catalog, monkeypatch):
    monkeypatch.setattr(frame_listener, "CONNECTIONS_MAX", 0)
    made_table(catalog, rows=5)
    with running(catalog, count=1) as service, tidelake.lookup_client(catalog, "db.t") as query:
        assert query.get(2) == query.get(2) == {"id": 2, "v": "v2"}
        assert frames_open(service.executors[0]) == 0


def test_a_client_whose_session_finds_no_place_uses_grpc(catalog):
    made_table(catalog, rows=5)
    with running(catalog, count=1, limits=Limits(calls=1)) as service:
        hello = MAGIC + framed(b"")
        wait = pb.LookupRequest(
            protocol=1, table="db.t", wait_ms=5000, at_least=pb.Version(generation=2**60)
        )
        with (
            connected(service.executors[0]) as busy,
            tidelake.lookup_client(catalog, "db.t") as query,
        ):
            busy.sendall(hello + framed(wait.SerializeToString()))
            until(lambda: service.executors[0].in_flight.counts()[1] == 1)
            assert query.get(2) == {"id": 2, "v": "v2"}


class _Servicer:
    """Answers each request with its number."""

    def Session(self, requests, _):
        for request in requests:
            yield pb.LookupReply(id=request.id)


class _Scarce:
    """A socket of a process that may open no more files for a while."""

    def __init__(self, own, failures):
        self._own, self._failures = own, failures

    def accept(self):
        if self._failures:
            raise OSError(self._failures.pop(), "none left")
        return self._own.accept()

    def __getattr__(self, name):
        return getattr(self._own, name)


def asked_for(port, host="127.0.0.1"):
    with socket.create_connection((host, port), 5) as connection:
        connection.sendall(MAGIC + framed(b"") + framed(pb.LookupRequest(id=7).SerializeToString()))
        return pb.LookupReply.FromString(read_frame(connection, 1 << 20)).id


def test_connections_are_taken_again_when_files_may_be_opened_again():
    listener = frame_listener.FrameListener("127.0.0.1", _Servicer(), Limits(), now=time.monotonic)
    failures = [errno.EMFILE, errno.ECONNABORTED]
    listener._socket = _Scarce(listener._socket, failures)
    listener.start()
    try:
        assert asked_for(listener.port) == 7
        assert not failures
    finally:
        listener.stop()


@pytest.mark.parametrize("host", ["::1", "[::1]"])
def test_it_listens_at_an_ipv6_address(host):
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError as error:
        pytest.skip(f"no IPv6 here: {error}")
    listener = frame_listener.FrameListener(host, _Servicer(), Limits(), now=time.monotonic)
    listener.start()
    try:
        assert asked_for(listener.port, "::1") == 7
    finally:
        listener.stop()


def test_a_token_is_asked_for_by_frames_too(catalog, tmp_path):
    made_table(catalog, rows=5)
    tokens = tmp_path / "tokens.json"
    digest = hashlib.sha256(b"a token of 16 characters").hexdigest()
    tokens.write_text(json.dumps({"tokens": [{"name": "a", "sha256": digest, "tables": ["db.*"]}]}))
    with running(catalog, count=1, security=Security(tokens=str(tokens))) as service:
        with tidelake.lookup_client(catalog, "db.t", token="a token of 16 characters") as query:
            assert query.get(2) == {"id": 2, "v": "v2"}
            assert frames_open(service.executors[0]) == 1
        for hello in (MAGIC + framed(b""), MAGIC + framed(b"another token of 16")):
            with connected(service.executors[0]) as connection:
                connection.sendall(hello)
                assert problem_of(connection).code == 16


def test_connections_that_break_are_begun_again(catalog):
    made_table(catalog, rows=50)
    with running(catalog, count=1) as service, tidelake.lookup_client(catalog, "db.t") as query:
        (executor,) = service.executors
        query.get(1)
        stop = threading.Event()

        def breaks():
            while not stop.wait(0.01):
                with executor._frames._lock:
                    connections = list(executor._frames._open)
                for connection in connections:
                    frame_listener._hang_up(connection)

        breaker = threading.Thread(target=breaks)
        breaker.start()
        try:
            for k in range(200):
                assert query.get(k % 50) == {"id": k % 50, "v": f"v{k % 50}"}
        finally:
            stop.set()
            breaker.join()
