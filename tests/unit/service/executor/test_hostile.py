"""Strangers: random bytes, other protocols, requests without measure, readers that do not read."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import socket
import struct
import subprocess
import sys
import threading

import grpc
import psutil
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from sizes import VARIABLE
from unit.service.service_kit import Asked, made_table, refusal, request_of, running, with_limits
from waiting import until

from tidelake.service.address.security import Security
from tidelake.service.executor.in_flight import InFlight
from tidelake.service.protocol import tidelake_query_v1_pb2 as pb

IS_FULL = os.environ.get(VARIABLE) == "full"
FRAMES = 100_000 if IS_FULL else 2_000
CONNECTIONS = 10_000 if IS_FULL else 300
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
FRAME_KINDS = 12
ANSWER_BYTES = 3 << 20
"""More than 100 values of 20,000 bytes, as one answer."""
METHODS = (
    "/tidelake.query.v1.TableQuery/Lookup",
    "/tidelake.query.v1.TableQuery/Session",
    "/tidelake.query.v1.Address/Locate",
    "/tidelake.query.v1.Address/Register",
    "/tidelake.query.v1.Address/Changes",
    "/tidelake.query.v1.Address/Status",
    "/tidelake.query.v1.Address/Serve",
    "/grpc.health.v1.Health/Check",
)


def place(address):
    host, port = address.rsplit(":", 1)
    return host, int(port)


def memory_bytes():
    return psutil.Process().memory_info().rss


def send(address, data):
    """Send bytes on a connection of their own, and wait shortly for an answer or the end."""
    with contextlib.suppress(OSError), socket.create_connection(place(address), 5) as stranger:
        stranger.sendall(data)
        stranger.settimeout(0.01)
        stranger.recv(4096)


def random_frames(rng, count):
    """HTTP/2 frames with a whole head and anything behind it."""
    out = [PREFACE]
    for _ in range(count):
        body = rng.randbytes(rng.choice([0, 1, 5, 8, 40, 300]))
        size = len(body) if rng.random() < 0.8 else rng.randrange(1 << 24)
        kind, flags = rng.randrange(FRAME_KINDS), rng.randrange(256)
        stream = rng.choice([0, 1, 2, 3, rng.randrange(1 << 31)])
        out.append(struct.pack(">I", size)[1:] + bytes([kind, flags]) + struct.pack(">I", stream))
        out.append(body)
    return b"".join(out)


def damaged(rng, message):
    """A message with bytes changed, cut off or put in."""
    data = bytearray(message)
    for _ in range(rng.randrange(1, 6)):
        place = rng.randrange(len(data) + 1)
        match rng.randrange(3):
            case 0 if place < len(data):
                data[place] = rng.randrange(256)
            case 1:
                del data[place : place + rng.randrange(9)]
            case _:
                data[place:place] = rng.randbytes(rng.randrange(1, 9))
    return bytes(data)


def test_random_bytes_and_frames_end_their_own_connection_only(shared):
    table, service = shared
    rng = random.Random(25)
    addresses = (service.server.address, service.executors[0].address)
    with Asked(addresses[1]) as asked:
        asked.lookup(request_of(table, [1]))
        before = memory_bytes()
        per_connection = 50
        for number in range(FRAMES // per_connection):
            data = rng.randbytes(600) if number % 4 == 0 else random_frames(rng, per_connection)
            send(addresses[number % 2], data)
            if number % 50 == 0:
                asked.lookup(request_of(table, [1]))
        assert asked.lookup(request_of(table, [1])).version.snapshot == 1
        assert memory_bytes() - before < 64 << 20


def test_damaged_messages_are_refused_with_a_status(shared):
    table, service = shared
    rng = random.Random(25)
    whole = request_of(table, list(range(20)), columns=["v"], at_least=pb.Version(snapshot=1))
    messages = [
        whole.SerializeToString(),
        pb.LocateRequest(protocol=1, table="db.t").SerializeToString(),
        pb.ExecutorReport(protocol=1, index=1, instance="x", address="y").SerializeToString(),
    ]
    statuses = set()
    for address in (service.server.address, service.executors[0].address):
        with Asked(address) as asked:
            calls = [
                asked.channel.unary_unary(method) for method in METHODS if "Session" not in method
            ]
            for number in range(FRAMES // 4):
                data = damaged(rng, messages[number % len(messages)])
                try:
                    calls[number % len(calls)](data, timeout=0.3)
                except grpc.RpcError as error:
                    statuses.add(error.code().name)
    assert statuses <= {
        "INVALID_ARGUMENT",
        "NOT_FOUND",
        "FAILED_PRECONDITION",
        "PERMISSION_DENIED",
        "UNAUTHENTICATED",
        "RESOURCE_EXHAUSTED",
        "UNAVAILABLE",
        "UNIMPLEMENTED",
        "DEADLINE_EXCEEDED",
    }
    with Asked(service.executors[0].address) as asked:
        assert asked.lookup(request_of(table, [1])).version.snapshot == 1


@pytest.mark.parametrize("method", METHODS)
def test_bytes_that_are_no_message_are_an_invalid_argument(shared, method):
    _, service = shared
    own = service.server if "Address" in method else service.executors[0]
    with Asked(own.address) as asked:
        if "Session" in method:
            call = asked.channel.stream_stream(method)
            ask = lambda: list(call(iter([b"\xff" * 9]), timeout=10))  # noqa: E731
        else:
            call = asked.channel.unary_unary(method)
            ask = lambda: call(b"\xff" * 9, timeout=10)  # noqa: E731
        with pytest.raises(grpc.RpcError) as raised:
            ask()
    assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_a_client_of_paimon_s_netty_protocol_is_hung_up_on(shared):
    _, service = shared
    # length, then version, kind and id of a request, partition and keys: KvRequest of 1.3.1
    body = struct.pack(">IIQ", 0x79A1B710, 0, 1) + bytes(40)
    with socket.create_connection(place(service.executors[0].address), 5) as netty:
        netty.sendall(struct.pack(">I", len(body)) + body)
        netty.settimeout(15)
        answer = b""
        while part := netty.recv(4096):
            answer += part
    assert b"KvResponse" not in answer


def test_many_connections_that_say_nothing_leave_the_service_up(shared):
    table, service = shared
    address = service.executors[1].address
    # from a process of its own: both ends of all of them would be too many files for one
    code = (
        "import resource, socket, sys\n"
        "hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))\n"
        "place = (sys.argv[1], int(sys.argv[2]))\n"
        "held = [socket.create_connection(place, 60) for _ in range(int(sys.argv[3]))]\n"
        "print(len(held), flush=True)\n"
        "sys.stdin.read()\n"
    )
    host, port = place(address)
    arguments = [sys.executable, "-c", code, host, str(port), str(CONNECTIONS)]
    pipe = subprocess.PIPE
    with (
        subprocess.Popen(arguments, stdin=pipe, stdout=pipe) as stranger,
        Asked(address) as asked,
    ):
        assert int(stranger.stdout.readline()) == CONNECTIONS
        assert asked.lookup(request_of(table, [1]), timeout=30).version.snapshot == 1
        stranger.stdin.close()


def test_a_request_without_measure_is_refused_and_the_next_one_answered(catalog, serve):
    table = made_table(catalog)
    limits = with_limits(request_bytes=10_000, keys=100, answer_bytes=500)
    service = serve(count=1, limits=limits)
    with Asked(service.executors[0].address) as asked:
        for request, reason in (
            (request_of(table, list(range(5_000))), ""),
            (request_of(table, list(range(101))), "too-many-keys"),
            (request_of(table, list(range(99)), body=pb.BODY_ARROW), "answer-too-large"),
        ):
            assert refusal(lambda r=request: asked.lookup(r))[:2] == ("RESOURCE_EXHAUSTED", reason)
        assert asked.lookup(request_of(table, [1])).found == b"\1"
        # in a session the stream goes on behind what is refused by us
        requests = [request_of(table, list(range(101)), id=1), request_of(table, [1], id=2)]
        replies = list(asked.query_stub.Session(iter(requests), timeout=60))
        assert [r.problem.reason for r in replies] == ["too-many-keys", ""]


def test_more_calls_than_the_limit_are_refused_while_others_wait(catalog, serve):
    table = made_table(catalog)
    service = serve(count=1, limits=with_limits(calls=4))
    waits = request_of(table, [1], at_least=pb.Version(snapshot=50))
    with Asked(service.executors[0].address) as asked:
        held = [asked.query_stub.Lookup.future(waits, timeout=60) for _ in range(4)]
        until(lambda: service.executors[0].in_flight.counts()[0] == 4)
        found = refusal(lambda: asked.lookup(request_of(table, [1])))
        assert found[:2] == ("RESOURCE_EXHAUSTED", "too-many-calls")
        for call in held:
            call.cancel()
        until(lambda: service.executors[0].in_flight.counts()[0] == 0)
        assert asked.lookup(request_of(table, [1])).found == b"\1"


def test_a_slow_reader_is_ended_and_holds_little(catalog, serve, monkeypatch):
    table = made_table(catalog, rows=0)
    table.write([{"id": i, "v": "x" * 20_000} for i in range(100)])
    limits = with_limits(slow_reader_seconds=0.5)
    service = serve(count=1, limits=limits)
    in_flight = service.executors[0].in_flight
    stop = threading.Event()
    held = []
    original = InFlight.hold

    def hold(self, flight, size_bytes):
        original(self, flight, size_bytes)
        held.append((id(flight), size_bytes, self.waiting_bytes))

    monkeypatch.setattr(InFlight, "hold", hold)

    def endless():
        while not stop.is_set():
            yield request_of(table, list(range(100)))

    # A client's window for unread bytes grows with the time that an answer takes, by up to 32 MiB
    # of each call on a busy machine. These bytes are the client's; here its window does not grow.
    options = [("grpc.max_receive_message_length", -1), ("grpc.http2.lookahead_bytes", 65_536)]
    options.append(("grpc.http2.bdp_probe", 0))
    address = service.executors[0].address
    with Asked(address, channel=grpc.insecure_channel(address, options=options)) as slow:
        calls = [slow.query_stub.Session(endless()) for _ in range(4)]
        try:
            until(lambda: len(held) >= len(calls))
            # by the executor: the client leaves its calls open
            until(lambda: in_flight.counts() == (0, 0), seconds=30)
        finally:
            stop.set()
        assert in_flight.ended_slow >= len(calls)
    # all that the executor can hold for a call is what it made for it: one answer, never the next
    assert len({flight for flight, _, _ in held}) == len(held) == len(calls)
    assert max(waiting for _, _, waiting in held) <= len(calls) * ANSWER_BYTES
    assert in_flight.waiting_bytes == 0
    with Asked(address) as asked:
        assert asked.lookup(request_of(table, [1])).version.snapshot == 1


@pytest.mark.parametrize("leaves", ["cancel", "hang up"])
def test_a_caller_that_goes_away_frees_its_place(catalog, serve, leaves):
    table = made_table(catalog)
    service = serve(count=1)
    in_flight = service.executors[0].in_flight
    waits = request_of(table, [1], at_least=pb.Version(snapshot=50))
    with Asked(service.executors[0].address) as asked:
        call = asked.query_stub.Lookup.future(waits, timeout=30)
        until(lambda: in_flight.counts()[0] == 1)
        if leaves == "cancel":
            call.cancel()
    until(lambda: in_flight.counts()[0] == 0)


def unfinished(channel, method, count, release):
    """Calls whose message does not come."""

    def nothing():
        release.wait(20)
        yield from ()

    call = channel.stream_unary(method)
    return [call.future(nothing(), timeout=20) for _ in range(count)]


def test_calls_whose_message_does_not_come_hold_nobody_up(catalog):
    table = made_table(catalog)
    release = threading.Event()
    own = "/tidelake.query.v1."
    with running(catalog, count=1) as service:
        service.wait_ready()
        (executor,) = service.executors
        with Asked(executor.address) as silent, Asked(service.server.address) as other:
            calls = unfinished(silent.channel, f"{own}TableQuery/Lookup", 120, release)
            calls += unfinished(silent.channel, "/grpc.health.v1.Health/Watch", 120, release)
            calls += unfinished(other.channel, f"{own}Address/Locate", 100, release)
            # all but those that have a place are refused at once
            until(lambda: sum(not call.done() for call in calls) == 64 + 16)
            # and those make room for a call with a message when they waited for a second
            with Asked(executor.address) as asked:
                until(lambda: is_answered(lambda: asked.lookup(request_of(table, [7]))))
                assert list(asked.query_stub.Session(iter([request_of(table, [7])]), timeout=60))
            with Asked(service.server.address) as asked:
                until(lambda: is_answered(asked.locate))
            assert service.server.registry.live()
            release.set()
            codes = {call.exception(60).code().name for call in calls}
            assert codes <= {"RESOURCE_EXHAUSTED", "INVALID_ARGUMENT", "CANCELLED"}


def is_answered(call):
    """Whether there was a place for a call."""
    try:
        call()
    except grpc.RpcError as error:
        if error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED:
            return False
        raise
    return True


def test_calls_without_a_token_hold_no_place_though_no_message_comes(catalog, tmp_path):
    table = made_table(catalog)
    tokens, token = tmp_path / "tokens.json", "a token of 16 characters"
    digest = hashlib.sha256(token.encode()).hexdigest()
    tokens.write_text(json.dumps({"tokens": [{"name": "a", "sha256": digest}]}))
    release = threading.Event()
    own = "/tidelake.query.v1."
    with running(catalog, count=1, security=Security(tokens=str(tokens))) as service:
        service.wait_ready()
        (executor,) = service.executors
        with Asked(executor.address) as stranger, Asked(service.server.address) as other:
            calls = unfinished(stranger.channel, f"{own}TableQuery/Lookup", 200, release)
            calls += unfinished(other.channel, f"{own}Address/Locate", 20, release)
            codes = {call.exception(60).code().name for call in calls}
            checks = unfinished(stranger.channel, "/grpc.health.v1.Health/Check", 20, release)
            until(lambda: sum(check.done() for check in checks) >= 16)
            with Asked(executor.address, token=token) as asked:
                assert asked.lookup(request_of(table, [7])).found
            with Asked(service.server.address, token=token) as asked:
                assert asked.locate().executors_count == 1
            release.set()
            codes |= {check.exception(60).code().name for check in checks}
            assert codes == {"UNAUTHENTICATED", "RESOURCE_EXHAUSTED", "INVALID_ARGUMENT"}
            serving = health_pb2.HealthCheckResponse.SERVING
            stub = health_pb2_grpc.HealthStub(stranger.channel)
            assert stub.Check(health_pb2.HealthCheckRequest(), timeout=60).status == serving
