"""What executors answer, and what they say to requests that they cannot answer."""

from __future__ import annotations

import grpc
import pyarrow as pa
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from unit.service.service_kit import (
    EMPTY_ROW,
    Asked,
    asked_everywhere,
    refusal,
    request_of,
    rows_of,
)

from tidelake.service.executor.lookup import FEW_KEYS_MAX
from tidelake.service.protocol import tidelake_query_v1_pb2 as pb
from tidelake.service.protocol.packed_columns import rows_of_arrow_body


@pytest.fixture(scope="module")
def asked(shared):
    with Asked(shared[1].executors[0].address) as asked:
        yield asked


def test_all_keys_are_found_once_and_missing_ones_never(shared):
    table, service = shared
    found = asked_everywhere(service.server, table, list(range(-20, 150)))
    assert found == {row["id"]: row for row in table.to_arrow().to_pylist()}


def test_a_projection_and_an_arrow_body_hold_what_was_asked_for(shared, asked):
    table, _ = shared
    keys = list(range(100))
    packed = asked.lookup(request_of(table, keys, columns=["v"]))
    values = [row["v"] for row in rows_of(packed, table, ["v"]) if row]
    assert 20 < len(values) < 80
    body = asked.lookup(request_of(table, keys, columns=["v"], body=pb.BODY_ARROW))
    assert rows_of_arrow_body(body.arrow).column("v").to_pylist() == values
    assert body.version.snapshot == 1


def test_few_keys_have_the_rows_that_many_have(shared, asked):
    table, _ = shared
    many = rows_of(asked.lookup(request_of(table, list(range(-4, FEW_KEYS_MAX + 4)))), table)
    few = [rows_of(asked.lookup(request_of(table, [key])), table)[0] for key in range(-4, 20)]
    assert few == many[: len(few)]
    some = asked.lookup(request_of(table, list(range(8)), columns=["v", "id"]))
    assert rows_of(some, table, ["v", "id"]) == many[4:12]


def test_an_empty_request_is_answered(shared, asked):
    reply = asked.lookup(request_of(shared[0], []))
    assert reply.found == b""
    assert reply.version.snapshot == 1


def test_slices_that_are_routed_find_the_keys_of_their_bucket(shared, asked):
    table, service = shared
    own = service.executors[0].tables.find("db.t")._open.own
    (bucket,) = [b.bucket for b in own]
    routed = asked.lookup(request_of(table, list(range(100)), bucket=bucket))
    anywhere = asked.lookup(request_of(table, list(range(100))))
    assert routed.found == anywhere.found
    other = request_of(table, [1], bucket=1 - bucket)
    assert refusal(lambda: asked.lookup(other))[:2] == ("FAILED_PRECONDITION", "wrong-owner")


def test_another_number_of_buckets_is_told_with_the_right_one(shared, asked):
    request = request_of(shared[0], [1, 2])
    del request.slices[:]
    request.slices.add(partition=EMPTY_ROW, bucket=7, count=2, buckets=8)
    try:
        asked.lookup(request)
    except grpc.RpcError as error:
        trailing = dict(error.trailing_metadata())
    assert trailing["tidelake-reason"] == "bucket-count"
    assert trailing["tidelake-buckets"] == "0=2"


def wrong(request, **fields):
    for name, value in fields.items():
        setattr(request, name, value)
    return request


def with_keys(request, *columns, count=1):
    request.keys.CopyFrom(pb.PackedRows(count=count, columns=columns))
    return request


def sliced(request, **fields):
    del request.slices[:]
    request.slices.add(**fields)
    return request


WRONG = {
    "unknown table": (lambda r: wrong(r, table="db.none"), "NOT_FOUND", "table-not-served"),
    "no table": (lambda r: wrong(r, table=""), "NOT_FOUND", "table-not-served"),
    "older protocol": (lambda r: wrong(r, protocol=0), "FAILED_PRECONDITION", "protocol"),
    "newer protocol": (lambda r: wrong(r, protocol=9), "FAILED_PRECONDITION", "protocol"),
    "key of two columns": (
        lambda r: with_keys(r, pb.Column(values=bytes(8)), pb.Column(values=bytes(8))),
        "INVALID_ARGUMENT",
        "key-columns",
    ),
    "key of no column": (lambda r: with_keys(r), "INVALID_ARGUMENT", "key-columns"),
    "key of four bytes": (
        lambda r: with_keys(r, pb.Column(values=bytes(4))),
        "INVALID_ARGUMENT",
        "packed-rows",
    ),
    "key as text": (
        lambda r: with_keys(r, pb.Column(values=b"a", offsets=bytes(8))),
        "INVALID_ARGUMENT",
        "packed-rows",
    ),
    "null key": (
        lambda r: with_keys(r, pb.Column(values=bytes(8), valid=b"\0")),
        "INVALID_ARGUMENT",
        "null-key",
    ),
    "slices of more keys": (
        lambda r: sliced(r, bucket=-1, count=5),
        "INVALID_ARGUMENT",
        "slices",
    ),
    "a bucket below all": (lambda r: sliced(r, bucket=-2, count=1), "INVALID_ARGUMENT", "slices"),
    "a partition that is no row": (
        lambda r: sliced(r, partition=b"abc", bucket=-1, count=1),
        "INVALID_ARGUMENT",
        "slices",
    ),
    "schema that never was": (
        lambda r: r.MergeFrom(pb.LookupRequest(at_least=pb.Version(schema=7))) or r,
        "FAILED_PRECONDITION",
        "schema-changed",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_request_is_told_what_is_wrong_and_harms_nobody(shared, asked, case):
    change, status, reason = WRONG[case]
    found = refusal(lambda: asked.lookup(change(request_of(shared[0], [1]))))
    assert found[:2] == (status, reason)
    assert found[2]
    assert asked.lookup(request_of(shared[0], [1])).version.snapshot == 1


@pytest.mark.parametrize("names", [["nope"], ["v", "v"], [""]])
def test_columns_that_are_not_there_are_refused(shared, asked, names):
    request = request_of(shared[0], [1], columns=names)
    assert refusal(lambda: asked.lookup(request))[0] == "INVALID_ARGUMENT"


def test_a_partition_that_is_not_there_has_no_rows(shared, asked):
    request = sliced(request_of(shared[0], [1]), partition=bytes(20), bucket=-1, count=1)
    assert asked.lookup(request).found == b"\0"


def test_a_snapshot_that_is_not_there_in_time_is_unavailable(shared, asked):
    request = request_of(shared[0], [1], at_least=pb.Version(snapshot=99))
    found = refusal(lambda: asked.lookup(request, timeout=0.4))
    assert found[:2] == ("UNAVAILABLE", "not-ready")
    assert "snapshot 99" in found[2]


def test_a_session_answers_in_order_and_goes_on_behind_a_wrong_request(shared, asked):
    table, _ = shared
    requests = [request_of(table, [i], id=i) for i in range(1, 20)]
    requests[4].columns.append("nope")
    requests[5].at_least.CopyFrom(pb.Version(snapshot=99))
    requests[5].wait_ms = 100
    replies = list(asked.query_stub.Session(iter(requests), timeout=60))
    assert [reply.id for reply in replies] == list(range(1, 20))
    problems = {r.id: (r.problem.code, r.problem.reason) for r in replies if r.problem.code}
    assert problems == {5: (3, "unknown-column"), 6: (14, "not-ready")}
    assert all(reply.version.snapshot == 1 for reply in replies if not reply.problem.code)


def test_a_session_is_told_the_right_number_of_buckets(shared, asked):
    request = request_of(shared[0], [1])
    del request.slices[:]
    request.slices.add(partition=EMPTY_ROW, bucket=7, count=1, buckets=8)
    (reply,) = asked.query_stub.Session(iter([request]), timeout=60)
    assert reply.problem.reason == "bucket-count"
    assert [(b.slice, b.buckets) for b in reply.problem.buckets] == [(0, 2)]


def test_the_health_service_knows_the_tables(asked):
    stub = health_pb2_grpc.HealthStub(asked.channel)

    def status(name):
        return stub.Check(health_pb2.HealthCheckRequest(service=name), timeout=60).status

    serving = health_pb2.HealthCheckResponse.SERVING
    assert (status(""), status("db.t")) == (serving, serving)
    with pytest.raises(grpc.RpcError, match="NOT_FOUND"):
        status("db.none")


def test_who_watches_the_health_of_made_up_names_costs_no_memory(shared, asked):
    stub = health_pb2_grpc.HealthStub(asked.channel)
    watched = stub.Watch(health_pb2.HealthCheckRequest(service="db.t"), timeout=60)
    assert next(watched).status == health_pb2.HealthCheckResponse.SERVING
    watched.cancel()
    unknown = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
    for number in range(20):
        request = health_pb2.HealthCheckRequest(service=f"db.none{number}")
        assert [reply.status for reply in stub.Watch(request, timeout=60)] == [unknown]
    _, service = shared
    names = set(service.executors[0]._health._send_response_callbacks)
    assert names <= {"", "db.t"}


def test_counts_say_what_was_asked_and_found(shared, asked):
    table, service = shared
    meter = service.executors[0].tables.find("db.t").meter
    before = (meter.requests, meter.keys, meter.found, meter.refused)
    reply = asked.lookup(request_of(table, list(range(90, 110))))
    refusal(lambda: asked.lookup(request_of(table, [1], columns=["nope"])))
    found = sum(bin(byte).count("1") for byte in reply.found)
    after = (meter.requests, meter.keys, meter.found, meter.refused)
    assert [a - b for a, b in zip(after, before, strict=True)] == [2, 20, found, 1]
    assert meter.rates().p50_us > 0


def test_rows_of_nested_columns_go_by_an_arrow_body(catalog, serve):
    schema = pa.schema({"id": pa.int64(), "tags": pa.list_(pa.string())})
    table = catalog.create_table("db.n", schema, primary_keys=["id"], options={"bucket": 1})
    table.write([{"id": 1, "tags": ["a", None]}])
    service = serve("db.n", count=1)
    with Asked(service.executors[0].address) as asked:
        request = request_of(table, [1, 2])
        assert refusal(lambda: asked.lookup(request))[:2] == ("INVALID_ARGUMENT", "nested-column")
        request.body = pb.BODY_ARROW
        rows = rows_of_arrow_body(asked.lookup(request).arrow).to_pylist()
    assert rows == table.to_arrow().to_pylist()
