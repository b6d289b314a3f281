"""Frames by TLS: answers, who is believed, and strangers at the port."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import socket
import ssl
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress

import pytest
from unit.service.certificates import Authority
from unit.service.service_kit import SECRET, made_table, request_of, running, with_limits
from waiting import until

import tidelake
from tidelake.errors import InvalidInputError, StorageError
from tidelake.service.address.address_server import AddressServer
from tidelake.service.address.security import Security
from tidelake.service.client.connection.coroutine_caller import LoopConnector
from tidelake.service.client.connection.frame_calls import FrameCalls
from tidelake.service.client.connection.thread_caller import BlockingConnector, finished
from tidelake.service.client.connection.tls import Tls, TlsTarget
from tidelake.service.executor import frame_listener
from tidelake.service.executor.config import Limits
from tidelake.service.executor.servicer import TableQueryServicer
from tidelake.service.protocol import tidelake_query_v1_pb2 as pb
from tidelake.service.protocol.framing import MAGIC, framed, read_frame
from tidelake.telemetry import SystemClock

WAYS = ["threads", "coroutines"]
HELLO = MAGIC + framed(b"")
CLIENT_HELLO = bytes.fromhex("16030100c8010000c40303")
"""How a handshake begins: a record of 200 bytes of which 6 are there."""


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def stranger(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("stranger"))


@pytest.fixture(scope="module")
def server(authority):
    return authority.signed("server")


@pytest.fixture
def catalog(tmp_path):
    return tidelake.open(tmp_path / "warehouse")


class _Servicer:
    """Answers each request with its number."""

    def Session(self, requests, _):
        for request in requests:
            yield pb.LookupReply(id=request.id)


@contextmanager
def listening(pair, ca=None, now=time.monotonic, limits=None):
    security = Security(*pair, tls_ca=ca) if pair else Security()
    context = security.server_context()
    listener = frame_listener.FrameListener(
        "127.0.0.1", _Servicer(), limits or Limits(), now=now, context=context
    )
    listener.start()
    try:
        yield listener
    finally:
        listener.stop()
        until(lambda: not listener._open)


def asked(way, listener, tls, times=1):
    """What calls of one client get: replies, or None for those that have to use gRPC."""
    target = TlsTarget(tls.context(), tls.server_name or "127.0.0.1")
    connector = (BlockingConnector if way == "threads" else LoopConnector)(1 << 20, target)
    calls = FrameCalls(f"127.0.0.1:{listener.port}", None, SystemClock(), connector)

    async def act():
        try:
            return [await calls.call(pb.LookupRequest(), 5) for _ in range(times)]
        finally:
            calls.close()

    return finished(act()) if way == "threads" else asyncio.run(act())


@pytest.mark.parametrize("way", WAYS)
def test_requests_are_answered_on_one_connection(authority, server, way):
    with listening(server) as listener:
        replies = asked(way, listener, Tls(authority.ca), times=5)
        assert [reply.id for reply in replies] == [1, 2, 3, 4, 5]
        until(lambda: not listener._open)


def test_older_versions_than_tls_1_2_are_refused(authority, server):
    contexts = [Security(*server).server_context(), Tls(authority.ca).context()]
    assert {context.minimum_version for context in contexts} == {ssl.TLSVersion.TLSv1_2}
    own = Tls(authority.ca).context()
    own.maximum_version = ssl.TLSVersion.TLSv1_2
    with listening(server) as listener, connected(listener, own) as connection:
        connection.sendall(HELLO + framed(pb.LookupRequest(id=7).SerializeToString()))
        assert pb.LookupReply.FromString(read_frame(connection, 1 << 20)).id == 7
        assert connection.version() == "TLSv1.2"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", ["authority", "expired", "name"])
def test_who_is_not_believed_is_named_with_what_to_do(
    authority, stranger, server, way, case, caplog
):
    pair, tls, advice = {
        "authority": (server, Tls(stranger.ca), "give the PEM file of the one that signed it"),
        "expired": (
            authority.signed("expired", days=-1),
            Tls(authority.ca),
            "has expired: start it again with a new one",
        ),
        "name": (
            authority.signed("named", names="DNS:tide.example"),
            Tls(authority.ca),
            "for another name: give that name",
        ),
    }[case]
    with listening(pair) as listener, caplog.at_level(logging.WARNING, "tidelake.service"):
        assert asked(way, listener, tls, times=3) == [None] * 3
        (said,) = caplog.messages
        assert f"lookups from 127.0.0.1:{listener.port} go by gRPC" in said
        assert advice in said


@pytest.mark.parametrize("way", WAYS)
def test_the_name_in_the_certificate_may_be_given(authority, way):
    named = authority.signed("named", names="DNS:tide.example")
    with listening(named) as listener:
        (reply,) = asked(way, listener, Tls(authority.ca, server_name="tide.example"))
        assert reply.id == 1


@pytest.mark.parametrize("way", WAYS)
def test_a_certificate_that_signed_itself_may_be_the_authority(tmp_path, way):
    own = Authority(tmp_path)
    pair = (own.ca, str(tmp_path / "ca.key"))
    with listening(pair, ca=own.ca) as listener:
        (reply,) = asked(way, listener, Tls(own.ca, *pair, server_name="ca"))
        assert reply.id == 1


@pytest.mark.parametrize("way", WAYS)
def test_mutual_tls_answers_whom_the_authority_signed(authority, stranger, server, way):
    with listening(server, ca=authority.ca) as listener:
        (reply,) = asked(way, listener, Tls(authority.ca, *authority.signed("client")))
        assert reply.id == 1
        for pair in ((), stranger.signed("client"), authority.signed("old", days=-1)):
            assert asked(way, listener, Tls(authority.ca, *pair)) == [None]


@pytest.mark.parametrize("way", WAYS)
def test_tls_at_a_plain_port_and_no_place_are_left_to_grpc(
    authority, server, way, caplog, monkeypatch
):
    with caplog.at_level(logging.WARNING, "tidelake.service"):
        with listening(None) as listener:
            assert asked(way, listener, Tls(authority.ca), times=2) == [None, None]
        monkeypatch.setattr(frame_listener, "CONNECTIONS_MAX", 0)
        with listening(server) as listener:
            assert asked(way, listener, Tls(authority.ca)) == [None]
    assert not caplog.messages


# ---- strangers


@contextmanager
def connected(listener, context=None):
    """A connection of one's own, by TLS where there is a context."""
    with socket.create_connection(("127.0.0.1", listener.port), 5) as plain:
        if context is None:
            yield plain
            return
        with context.wrap_socket(plain, server_hostname="127.0.0.1") as secure:
            yield secure


def is_closed(connection):
    with suppress(ConnectionError):
        while connection.recv(4096):
            pass
    return True


def test_half_a_handshake_keeps_nobody_waiting(authority, server):
    with listening(server) as listener, ExitStack() as held:
        for begun in (b"", b"\x16", CLIENT_HELLO) * 5:
            held.enter_context(connected(listener)).sendall(begun)
        began = time.monotonic()
        (reply,) = asked("threads", listener, Tls(authority.ca))
        assert reply.id == 1
        assert time.monotonic() - began < frame_listener.HELLO_SECONDS / 2


def test_late_ones_make_room_and_are_hung_up_on_in_the_end(authority, server, monkeypatch):
    monkeypatch.setattr(frame_listener, "CONNECTIONS_MAX", 4)
    now = [0.0]
    tls = Tls(authority.ca)
    with listening(server, now=lambda: now[0]) as listener, ExitStack() as held:
        silent = [held.enter_context(connected(listener)) for _ in range(3)]
        silent.append(held.enter_context(connected(listener, tls.context())))  # and no token
        until(lambda: len(listener._open) == 4)
        for connection in silent[:3]:
            connection.sendall(CLIENT_HELLO)
        assert asked("threads", listener, tls) == [None], "all places are taken"
        now[0] = frame_listener.LATE_SECONDS
        (reply,) = asked("threads", listener, tls)
        assert reply.id == 1
        assert is_closed(silent[0]), "the one that waited longest"
        until(lambda: len(listener._open) == 3)
        now[0] = frame_listener.HELLO_SECONDS
        listener.end_late()
        assert all(map(is_closed, silent))
        until(lambda: not listener._open)


@pytest.mark.parametrize("is_secure", [False, True], ids=["plain", "tls"])
def test_one_byte_after_the_other_does_not_hold_a_place(catalog, server, is_secure, monkeypatch):
    monkeypatch.setattr(frame_listener, "HELLO_SECONDS", 0.3)
    made_table(catalog, rows=1)
    begun = CLIENT_HELLO if is_secure else MAGIC + b"\0\1\0\0"
    security = Security(*server) if is_secure else None
    with running(catalog, count=1, security=security) as service:
        frames = service.executors[0]._frames
        with connected(frames) as connection:
            for byte in begun + bytes(180):
                try:
                    connection.sendall(bytes([byte]))
                except ConnectionError:
                    break
                time.sleep(0.02)
            else:
                pytest.fail("it was listened to for 3 seconds")
        until(lambda: not frames._open)


def test_what_is_no_handshake_ends_its_own_connection(authority, server):
    sent = [
        b"GET / HTTP/1.1\r\n\r\n",
        HELLO + framed(pb.LookupRequest(id=7).SerializeToString()),
        CLIENT_HELLO + os.urandom(189),
        b"\x16\x03\x01\xff\xff" + os.urandom(70_000),
        *(os.urandom(size) for size in (1, 5, 64, 600) * 5),
    ]
    with listening(server) as listener:
        for data in sent:
            with connected(listener) as connection, suppress(OSError):
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
                is_closed(connection)
        until(lambda: not listener._open)
        (reply,) = asked("threads", listener, Tls(authority.ca))
        assert reply.id == 1


def test_what_is_no_frame_behind_a_handshake_ends_its_connection(authority, server):
    context = Tls(authority.ca).context()
    with listening(server) as listener:
        for data in (b"GET / HTTP/1.1\r\n\r\n", os.urandom(64), MAGIC + b"\xff" * 4, b"TL"):
            with connected(listener, context) as connection, suppress(OSError):
                connection.sendall(data)
                socket.socket.shutdown(connection, socket.SHUT_WR)
                is_closed(connection)
        with connected(listener, context) as connection:
            connection.sendall(HELLO + b"\xff\xff\xff\x7f")
            reply = pb.LookupReply.FromString(read_frame(connection, 1 << 20))
            assert reply.problem.reason == "request-too-large"
        with connected(listener, context) as connection:
            # raw bytes where a record of TLS should be
            socket.socket.sendall(connection, HELLO)
            with suppress(OSError):
                is_closed(connection)
        until(lambda: not listener._open)


# ---- the whole service


def refused(catalog, way, **options):
    """What a client is told that is not answered."""
    options = {"deadline_seconds": 1.2, **options}

    async def of_coroutine():
        async with tidelake.lookup_client_async(catalog, "db.t", **options) as query:
            await query.get(3)

    def of_thread():
        with tidelake.lookup_client(catalog, "db.t", **options) as query:
            query.get(3)

    with pytest.raises(StorageError) as raised:
        of_thread() if way == "threads" else asyncio.run(of_coroutine())
    assert raised.value.kind == "service_unavailable"
    return raised.value.message


@pytest.mark.parametrize("way", WAYS)
def test_all_of_one_executor_goes_by_frames_and_equals_a_read(
    catalog, authority, server, way, monkeypatch
):
    monkeypatch.setattr(TableQueryServicer, "Lookup", None)
    table = made_table(catalog, rows=50)
    table.write([{"id": 50, "v": "x" * 200_000}])
    keys = list(range(60))
    held = {row["id"]: row for row in table.to_arrow().to_pylist()}
    wanted = [held.get(key) for key in keys]
    options = {"tls": Tls(authority.ca, *authority.signed("client")), "deadline_seconds": 10}

    async def act(executor):
        async with tidelake.lookup_client_async(catalog, "db.t", **options) as query:
            assert await query.get(3) == {"id": 3, "v": "v3"}
            assert await asyncio.gather(*map(query.get, keys * 5)) == wanted * 5
            assert await query.get(3, columns=["v"]) == {"v": "v3"}
            assert await query.get_many(keys) == wanted
            assert 1 <= len(executor._frames._open) <= 2, "a connection for each flight, kept"

    security = Security(*server, tls_ca=authority.ca)
    with running(catalog, count=1, security=security) as service:
        (executor,) = service.executors
        if way == "coroutines":
            asyncio.run(act(executor))
        else:
            with (
                tidelake.lookup_client(catalog, "db.t", **options) as query,
                ThreadPoolExecutor(16) as pool,
            ):
                assert [query.get(key) for key in keys] == wanted
                assert len(executor._frames._open) == 1, "one connection, kept"
                assert query.get_many(keys) == wanted
                assert list(pool.map(query.get, keys * 5)) == wanted * 5
        until(lambda: not executor._frames._open)


@pytest.mark.parametrize("way", WAYS)
def test_a_client_is_told_what_is_wrong(catalog, authority, stranger, server, way):
    made_table(catalog, rows=5)
    signed = authority.signed
    cases = [
        (server, None, stranger.ca, "give the PEM file of the one that signed it"),
        (server, None, None, "give the PEM file of the one that signed it"),
        (signed("expired", days=-1), None, authority.ca, "has expired"),
        (signed("named", names="DNS:tide.example"), None, authority.ca, "for another name"),
        (server, authority.ca, authority.ca, "perhaps it asks for a client's certificate"),
        (None, None, authority.ca, "does not use TLS: leave out tls"),
    ]
    for pair, ca, tls, advice in cases:
        security = Security(*(pair or ()), tls_ca=ca)
        address_server = AddressServer(
            catalog, ["db.t"], executors_count=1, secret=SECRET, security=security
        )
        try:
            said = refused(catalog, way, tls=tls)
        finally:
            address_server.stop(wait_seconds=0)
        assert f"The service at {address_server.address} did not answer" in said
        assert advice in said


@pytest.mark.parametrize("way", WAYS)
def test_an_executor_with_an_expired_certificate_is_named(catalog, authority, server, way, caplog):
    made_table(catalog, rows=5)
    address_server = AddressServer(
        catalog, ["db.t"], executors_count=1, secret=SECRET, security=Security(*server)
    )
    security = Security(*authority.signed("expired", days=-1), tls_ca=authority.ca)
    client = Tls(authority.ca, *authority.signed("client"))
    try:
        with running(catalog, count=1, security=security, server=address_server) as service:
            service.wait_ready()
            said = refused(catalog, way, tls=client, deadline_seconds=1)
            (executor,) = service.executors
    finally:
        address_server.stop(wait_seconds=0)
    assert f"The service at {executor.address} did not answer" in said
    assert "Its certificate has expired" in said
    assert any(f"lookups from {executor.frames_address} go" in told for told in caplog.messages)


def test_files_that_tls_cannot_use_are_named_before_anybody_is_asked(
    catalog, authority, server, tmp_path
):
    made_table(catalog, rows=5)
    garbage = tmp_path / "garbage.pem"
    garbage.write_text("no certificate")
    certificate, key = authority.signed("client")
    other_key = authority.signed("other")[1]
    with running(catalog, count=1, security=Security(*server)):
        for tls, said in (
            (str(garbage), f"{garbage} has no certificates"),
            (Tls(authority.ca, certificate, other_key), "do not make a pair"),
            (Tls(authority.ca, str(garbage), key), "do not make a pair"),
        ):
            with (
                tidelake.lookup_client(catalog, "db.t", tls=tls) as query,
                pytest.raises(InvalidInputError, match=said) as raised,
            ):
                query.get(3)
            assert raised.value.kind == "tls"
    with pytest.raises(InvalidInputError, match=r"garbage\.pem cannot be used") as raised:
        Security(*server, tls_ca=str(garbage)).server_context()
    assert raised.value.kind == "service_security"


def test_a_token_is_asked_for_and_stays_out_of_the_log(
    catalog, authority, server, tmp_path, caplog
):
    made_table(catalog, rows=5)
    tokens, token = tmp_path / "tokens.json", "a token of 16 characters"
    digest = hashlib.sha256(token.encode()).hexdigest()
    tokens.write_text(json.dumps({"tokens": [{"name": "a", "sha256": digest, "tables": ["db.*"]}]}))
    tls = Tls(authority.ca)
    security = Security(*server, tokens=str(tokens))
    with (
        caplog.at_level(logging.DEBUG, "tidelake.service"),
        running(catalog, count=1, security=security) as service,
    ):
        (executor,) = service.executors
        with tidelake.lookup_client(catalog, "db.t", tls=tls, token=token) as query:
            assert query.get(2) == {"id": 2, "v": "v2"}
            assert len(executor._frames._open) == 1
        for hello in (HELLO, MAGIC + framed(b"another token of 16")):
            with connected(executor._frames, tls.context()) as connection:
                connection.sendall(hello)
                reply = pb.LookupReply.FromString(read_frame(connection, 1 << 20))
                assert reply.problem.code == 16
        with connected(executor._frames) as plain:
            plain.sendall(MAGIC + framed(token.encode()))
            is_closed(plain)
    assert token not in caplog.text


def test_connections_that_break_are_begun_again(catalog, authority, server):
    made_table(catalog, rows=50)
    with (
        running(catalog, count=1, security=Security(*server)) as service,
        tidelake.lookup_client(catalog, "db.t", tls=authority.ca) as query,
    ):
        frames = service.executors[0]._frames
        query.get(1)
        stop = threading.Event()

        def breaks():
            while not stop.wait(0.02):
                with frames._lock:
                    connections = list(frames._open)
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


def test_who_does_not_read_is_cut_off(catalog, authority, server):
    table = made_table(catalog, rows=0)
    table.write([{"id": i, "v": "x" * 20_000} for i in range(100)])
    limits = with_limits(slow_reader_seconds=0.5)
    with running(catalog, count=1, security=Security(*server), limits=limits) as service:
        service.wait_ready()
        (executor,) = service.executors
        message = framed(request_of(table, list(range(100))).SerializeToString())
        with connected(executor._frames, Tls(authority.ca).context()) as connection:
            connection.settimeout(0.2)
            connection.sendall(HELLO)
            with suppress(OSError):
                while True:
                    connection.sendall(message)
            until(lambda: executor.in_flight.ended_slow == 1)
            until(lambda: not executor._frames._open)
        assert executor.in_flight.waiting_bytes == 0
