"""The address server: its service file, two services for one table, who may call what."""

from __future__ import annotations

import json
import socket
import threading

import pytest
from unit.service.service_kit import SECRET, Asked, made_table, refusal
from waiting import until

import tidelake
from tidelake.errors import ConflictError, InvalidInputError, NotFoundError, StorageError
from tidelake.service.address import address_server, servicer
from tidelake.service.address.address_server import AddressServer
from tidelake.service.protocol import tidelake_query_v1_pb2 as pb
from tidelake.service.protocol.service_file import (
    ServiceFile,
    read_service_file,
    service_file_path,
    write_service_file,
)


@pytest.fixture
def catalog(tmp_path):
    return tidelake.open(tmp_path)


@pytest.fixture
def serve(catalog):
    made = []

    def start(*tables, **fields):
        fields = {"executors_count": 1, "secret": SECRET} | fields
        server = AddressServer(catalog, tables or ["db.t"], **fields)
        made.append(server)
        return server

    yield start
    for server in made:
        server.stop(wait_seconds=0)


def file_of(table):
    return read_service_file(table.fileio, table.paths.location)


def test_the_file_names_the_server_while_it_runs(catalog, serve):
    table = made_table(catalog)
    server = serve()
    assert file_of(table) == ServiceFile(server.address, server.service_id)
    server.stop(wait_seconds=0)
    assert file_of(table) is None


def test_a_second_service_is_refused_while_the_first_answers(catalog, serve):
    table = made_table(catalog)
    first = serve()
    with pytest.raises(ConflictError, match=first.address):
        serve()
    assert file_of(table).service_id == first.service_id
    first.stop(wait_seconds=0)
    serve()


def test_a_stale_file_is_taken_over_and_a_foreign_one_is_not_removed(catalog, serve):
    table = made_table(catalog)
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    write_service_file(table.fileio, table.paths.location, ServiceFile(f"127.0.0.1:{port}", "dead"))
    server = serve()
    assert file_of(table).service_id == server.service_id
    # somebody listens there, so the server's own look at the file leaves it, too
    with socket.create_server(("127.0.0.1", 0)) as held:
        foreign = ServiceFile(f"127.0.0.1:{held.getsockname()[1]}", "other", True)
        write_service_file(table.fileio, table.paths.location, foreign)
        server.stop(wait_seconds=0)
        assert file_of(table).service_id == "other"


@pytest.mark.parametrize("content", [b"\x00\xff", b"{}", b'{"protocol": 99, "address": "x"}'])
def test_garbage_in_the_place_of_the_file_is_replaced(catalog, serve, content):
    table = made_table(catalog)
    path = service_file_path(table.paths.location)
    table.fileio.make_dirs(path.rpartition("/")[0])
    table.fileio.replace(path, content)
    server = serve()
    assert file_of(table).service_id == server.service_id


def test_a_file_that_cannot_be_read_now_is_not_replaced(catalog, serve, monkeypatch):
    table = made_table(catalog)
    live = serve()

    def away(self, path, **more):
        if path.endswith("/service-tidelake-query"):
            message = "The storage is away."
            raise StorageError(message)
        return read_bytes(self, path, **more)

    kind = type(catalog.fileio)
    read_bytes = kind.read_bytes
    with monkeypatch.context() as patched:
        patched.setattr(kind, "read_bytes", away)
        with pytest.raises(StorageError, match="is away"):
            serve()
    assert file_of(table).service_id == live.service_id


def test_another_service_on_the_same_port_is_not_mistaken_for_a_live_one(catalog, serve):
    first, second = made_table(catalog), made_table(catalog, "db.u")
    server = serve("db.t")
    stale = ServiceFile(server.address, "dead")
    write_service_file(second.fileio, second.paths.location, stale)
    other = serve("db.u")
    assert file_of(second).service_id == other.service_id
    assert file_of(first).service_id == server.service_id


def test_who_loses_the_file_to_a_live_service_gives_the_table_up(catalog, serve):
    made_table(catalog, "db.u")
    table = made_table(catalog)
    one, two = serve("db.t"), serve("db.u")
    # as if both had started in the same moment, and `two` had written last
    two._tables["db.t"] = one._tables["db.t"]
    winner = ServiceFile(two.address, two.service_id)
    write_service_file(table.fileio, table.paths.location, winner)
    until(lambda: "is served by" in one.status().tables[0].problem)
    assert file_of(table) == winner
    del two._tables["db.t"]


def test_a_table_that_is_made_anew_gets_the_file_again(catalog, serve):
    made_table(catalog)
    server = serve()
    catalog.drop_table("db.t")
    until(lambda: server._tables["db.t"].scanner.state is None)
    with Asked(server.address) as asked:
        assert refusal(asked.locate)[:2] == ("NOT_FOUND", "table-gone")
        table = made_table(catalog, buckets=3)
        until(lambda: file_of(table) is not None)
        assert file_of(table).service_id == server.service_id
        until(lambda: asked.locate().version.snapshot == 1)


def test_tables_are_added_and_removed_while_it_runs(catalog, serve):
    made_table(catalog)
    other = made_table(catalog, "db.u")
    server = serve()
    with Asked(server.address) as asked:
        assert refusal(lambda: asked.locate("db.u"))[:2] == ("NOT_FOUND", "table-not-served")
        before = asked.locate().epoch
        server.add("db.u")
        assert asked.locate("db.u").epoch > before
        assert file_of(other).service_id == server.service_id
        server.remove("db.u")
        assert refusal(lambda: asked.locate("db.u"))[:2] == ("NOT_FOUND", "table-not-served")
    assert file_of(other) is None
    with pytest.raises(NotFoundError, match="not served"):
        server.remove("db.u")
    with pytest.raises(NotFoundError):
        server.add("db.none")


def test_a_server_that_cannot_serve_leaves_nothing_behind(catalog, serve):
    table = made_table(catalog)
    with pytest.raises(NotFoundError):
        serve("db.t", "db.none")
    assert file_of(table) is None
    with pytest.raises(InvalidInputError, match="port is taken"):
        serve("db.t", bind=serve("db.t").address)


def test_calls_of_executors_and_operators_need_the_secret(catalog, serve):
    made_table(catalog)
    server = serve()
    report = pb.ExecutorReport(protocol=1, index=0, instance="a", address="x:1")
    changes = pb.ChangesRequest(protocol=1, table="db.t")
    stop = pb.ServeRequest(protocol=1, stop=True)
    with Asked(server.address, token="guess") as asked:
        stub, metadata = asked.address_stub, asked.metadata
        for call in (
            lambda: stub.Register(report, metadata=metadata),
            lambda: stub.Changes(changes, metadata=metadata),
            lambda: stub.Serve(stop, metadata=metadata),
        ):
            assert refusal(call)[0] == "PERMISSION_DENIED"
        assert not server.stop_asked.is_set()
    with Asked(server.address, token=SECRET) as asked:
        stub, metadata = asked.address_stub, asked.metadata
        directive = stub.Register(report, metadata=metadata)
        assert [t.table for t in directive.tables] == ["db.t"]
        assert not directive.stop
        assert stub.Changes(changes, metadata=metadata).whole
        stub.Serve(stop, metadata=metadata)
        assert server.stop_asked.is_set()
        server.tell_stop()
        assert stub.Register(report, metadata=metadata).stop


@pytest.mark.parametrize("spoken", [0, 2])
def test_another_protocol_is_distinguished(catalog, serve, spoken):
    made_table(catalog)
    server = serve()
    request = pb.LocateRequest(protocol=spoken, table="db.t")
    with Asked(server.address) as asked:
        status, reason, said = refusal(lambda: asked.address_stub.Locate(request))
    assert (status, reason) == ("FAILED_PRECONDITION", "protocol")
    assert ("newer" if spoken else "older") in said


def test_a_file_says_what_java_paimon_never_reads(catalog, serve):
    table = made_table(catalog)
    serve()
    names = [f.name for f in table.fileio.list_dir(f"{table.paths.location}/service")]
    assert names == ["service-tidelake-query"]
    path = service_file_path(table.paths.location)
    assert json.loads(table.fileio.read_bytes(path))["protocol"] == 1


class Hanging:
    """The storage of one table of a server, which does not answer until it is let go."""

    def __init__(self, server, name):
        self.began, self.let_go = threading.Event(), threading.Event()
        served = server.find(name)
        self._look, self._scanner = served.scanner._look, served.scanner
        served.scanner._look = self._hang
        assert self.began.wait(5)

    def _hang(self):
        self.began.set()
        self.let_go.wait(30)
        self._look()


def test_a_storage_that_hangs_holds_its_own_table_only(catalog, serve, monkeypatch):
    made_table(catalog)
    other = made_table(catalog, "db.u")
    monkeypatch.setattr(address_server, "LATE_SECONDS", 0.2)
    monkeypatch.setattr(address_server, "LEAVE_SECONDS", 0.1)
    monkeypatch.setattr(servicer, "POLL_WAIT_SECONDS", 0.1)
    server = serve("db.t", "db.u")
    before = server.find("db.t").scanner.state
    hanging = Hanging(server, "db.t")
    other.write([{"id": 1, "v": "new"}])
    until(lambda: server.find("db.u").scanner.state.version.snapshot == 2)
    until(lambda: "has not answered" in server.status().tables[0].problem)
    assert server.status().tables[1].problem == ""
    with Asked(server.address, token=SECRET) as asked:
        changes = pb.ChangesRequest(protocol=1, table="db.t")
        found = asked.address_stub.Changes(changes, metadata=asked.metadata, timeout=3)
    assert found.version.snapshot == before.version.snapshot
    server.stop(wait_seconds=0)
    assert file_of(other) is None
    hanging.let_go.set()


def test_a_look_that_comes_late_does_not_register_a_removed_table_again(
    catalog, serve, monkeypatch
):
    table, other = made_table(catalog), made_table(catalog, "db.u")
    monkeypatch.setattr(address_server, "LEAVE_SECONDS", 0.05)
    server = serve("db.t", "db.u")
    late = server.find("db.u")
    assert late.scanner._lease is not None
    late.looked_ms = 1e-12
    hanging = Hanging(server, "db.u")
    server.remove("db.u")  # while a look is under way
    hanging.let_go.set()
    late.thread.join(5)
    late.scanner.poll()  # and so had an executor
    assert file_of(other) is None
    assert late.scanner._lease is None
    assert file_of(table).service_id == server.service_id


DEAD = b'{"protocol": 1, "address": "127.0.0.1:1", "serviceId": "dead", "tls": false}'


@pytest.mark.parametrize(
    "content", [None, DEAD, b"garbage", bytes(100_000)], ids=["none", "dead", "garbage", "large"]
)
def test_of_two_services_that_start_at_once_one_gets_the_table(
    catalog, serve, monkeypatch, content
):
    """Both see the same, no file or a dead one; the second one's put is refused, and it asks."""
    table = made_table(catalog)
    if content is not None:
        table.fileio.make_dirs(f"{table.paths.location}/service")
        table.fileio.replace(service_file_path(table.paths.location), content)
    put, begun = address_server.put_service_file, []

    def late(fileio, location, value, *, over=None):
        if not begun:
            begun.append(value)
            begun.append(serve())
        return put(fileio, location, value, over=over)

    monkeypatch.setattr(address_server, "put_service_file", late)
    with pytest.raises(ConflictError, match="is served by the service"):
        serve()
    assert file_of(table).service_id == begun[1].service_id
