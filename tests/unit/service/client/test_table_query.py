"""The client against servers that fail as told."""

import os
import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import grpc
import pyarrow as pa
import pytest
from unit.service.client.conftest import COUNT, rows_of
from unit.service.client.scripted_service import Service, fails, serving, slow, then

import tidelake
from tidelake.codec.binary_row import serialize_row
from tidelake.errors import (
    ClosedError,
    InvalidInputError,
    NotFoundError,
    StorageError,
    UnsupportedError,
)
from tidelake.service.client.session import Floor

Code = grpc.StatusCode
KEYS = [3, COUNT + 5, 0, 77, 3]


def row(k, word="first"):
    return {"k": k, "v": f"{word} {k}", "n": k / 2}


def rows(keys, word="first"):
    return [row(k, word) if k < COUNT else None for k in keys]


# ---- answers


def test_a_key_as_value_tuple_and_dict(client):
    assert client.get(7) == client.get((7,)) == client.get({"k": 7}) == row(7)
    assert client.get(COUNT + 1) is None
    assert client.get(7, columns=["n", "k"]) == {"n": 3.5, "k": 7}
    assert list(client.get(7, columns=["n", "k"])) == ["n", "k"]
    assert client.snapshot_id == 1


def test_many_keys_come_back_in_their_order(client, service):
    assert client.get_many(KEYS) == rows(KEYS)
    assert client.get_many([]) == []
    assert {len(e.requests) for e in service.executors} == {1}, "one call to each executor"


def test_arrow_keys_give_an_arrow_table(client):
    for keys in (pa.array(KEYS), pa.table({"k": KEYS}), pa.record_batch({"k": KEYS})):
        found = client.get_many(keys, columns=["v", "n"])
        assert found.schema.names == ["v", "n"]
        wanted = [r and {"v": r["v"], "n": r["n"]} for r in rows(KEYS)]
        nothing = {"v": None, "n": None}
        assert found.to_pylist() == [r or nothing for r in wanted]
    every = client.get_many(pa.array([1, 2]))
    assert every.to_pylist() == rows([1, 2])
    assert client.get_many(pa.array([], pa.int64())).schema.names == ["k", "v", "n"]


def test_a_large_batch_is_cut_into_calls(client, service, monkeypatch):
    monkeypatch.setattr("tidelake.service.client.lookup.CALL_KEYS_MAX", 16)
    keys = list(range(COUNT))
    assert client.get_many(keys) == rows(keys)


def test_keys_that_do_not_fit_are_refused_before_they_are_sent(client, service):
    for key, kind in [
        ((1, 2), "arity"),
        ({"x": 1}, "key_"),
        ("a", "type"),
        (None, "null"),
        (2**63, "type"),
    ]:
        with pytest.raises(InvalidInputError, match=r"db\.t") as caught:
            client.get(key)
        assert kind in caught.value.kind
    for keys in ([1, None], [1, "a"], [(1, 2)], pa.array(["a"]), 5, "ab"):
        with pytest.raises(InvalidInputError):
            client.get_many(keys)
    with pytest.raises(NotFoundError, match="Column 'w'"):
        client.get(1, columns=["w"])
    with pytest.raises(InvalidInputError):
        client.get(1, columns=[])
    assert not service.requests


# ---- failures


REPEATED = {
    "unavailable": fails(Code.UNAVAILABLE),
    "not ready": fails(Code.UNAVAILABLE, "not-ready"),
    "wrong owner": fails(Code.FAILED_PRECONDITION, "wrong-owner"),
    "stale epoch": fails(Code.FAILED_PRECONDITION, "stale-epoch"),
    "schema changed": fails(Code.FAILED_PRECONDITION, "schema-changed"),
    "cancelled": fails(Code.CANCELLED),
    "too many calls": fails(Code.RESOURCE_EXHAUSTED, "too-many-calls"),
    "internal": fails(Code.INTERNAL),
    "not found for a moment": fails(Code.NOT_FOUND, "table-not-served"),
}


@pytest.mark.parametrize("failure", REPEATED.values(), ids=REPEATED)
def test_what_a_repetition_may_mend_is_repeated(client, service, failure):
    for executor in service.executors:
        executor.script.extend([failure, failure])
    assert client.get(5) == row(5)
    assert client.get_many(KEYS) == rows(KEYS)


def test_only_the_failed_parts_are_asked_again(client, service):
    client.get_many(KEYS)
    first, second = service.executors
    before = len(first.requests), len(second.requests)
    second.script.extend([fails(Code.UNAVAILABLE)] * 3)
    assert client.get_many(list(range(50))) == rows(range(50))
    assert (len(first.requests) - before[0], len(second.requests) - before[1]) == (1, 4)


def test_a_batch_that_is_too_large_for_the_server_is_halved(client, service):
    for executor in service.executors:
        executor.script.extend([fails(Code.RESOURCE_EXHAUSTED, "answer-too-large")] * 2)
    keys = list(range(COUNT))
    assert client.get_many(keys) == rows(keys)
    assert max(r.keys.count for r in service.requests[-1:]) < COUNT / 2


def test_what_is_final_is_an_error_at_once(client, service):
    client.get(1)
    cases = [
        (Code.INVALID_ARGUMENT, InvalidInputError, "service_request"),
        (Code.PERMISSION_DENIED, InvalidInputError, "service_access"),
        (Code.UNIMPLEMENTED, UnsupportedError, "service_protocol"),
    ]
    for code, error, kind in cases:
        for executor in service.executors:
            executor.script.append(fails(code))
        asked = len(service.requests)
        with pytest.raises(error) as caught:
            client.get_many(list(range(20)))
        assert caught.value.kind == kind
        assert len(service.requests) - asked <= len(service.executors), "none is asked again"


def test_an_odd_failure_is_repeated_a_few_times_only(client, service):
    for executor in service.executors:
        executor.script.extend([fails(Code.INTERNAL)] * 20)
    with pytest.raises(StorageError):
        client.get(1)
    assert 2 <= len(service.requests) <= 6


def test_a_restart_on_other_ports_is_followed(client, service):
    assert client.get_many(KEYS) == rows(KEYS)
    for executor in service.executors:
        executor.kill()
        executor.start()
    service.server.stop(0)
    service.start()
    assert client.get_many(KEYS) == rows(KEYS)
    assert client.get(9) == row(9)


def test_a_stream_that_is_cut_is_begun_again(client, service):
    client.get(1)
    killed = threading.Event()

    def cut():
        killed.set()
        time.sleep(0.2)

    for executor in service.executors:
        executor.script.append(then(cut))

    def kill():
        killed.wait()
        for executor in service.executors:
            executor.kill()
            executor.start()

    killer = threading.Thread(target=kill)
    killer.start()
    assert client.get_many(KEYS) == rows(KEYS)
    killer.join()


def test_the_deadline_ends_it(catalog, service):
    service.hidden = {0, 1}
    with tidelake.lookup_client(catalog, "db.t", deadline_seconds=2.5) as query:
        begin = time.monotonic()
        with pytest.raises(StorageError, match=r"within 2\.5 seconds") as caught:
            query.get(1)
        assert 2.4 < time.monotonic() - begin < 30
        assert caught.value.kind == "service_unavailable"
        service.hidden = set()
        assert query.get(1) == row(1)


def test_a_slow_server_is_not_waited_for_beyond_the_deadline(catalog, service):
    with tidelake.lookup_client(catalog, "db.t", deadline_seconds=2.5) as query:
        query.get(1)
        for executor in service.executors:
            executor.script.append(slow(5))
        with pytest.raises(StorageError, match=r"within 2\.5 seconds"):
            query.get(1)
        assert query.get(1) == row(1)


def test_a_table_that_is_never_served_is_an_error_before_the_deadline(client, service, monkeypatch):
    monkeypatch.setattr("tidelake.service.client.lookup.MISSING_SECONDS_MAX", 0.3)
    service.script.extend([fails(Code.NOT_FOUND, "table-not-served")] * 1000)
    with pytest.raises(NotFoundError, match="does not know"):
        client.get(1)


# ---- versions


def test_an_answer_is_never_older_than_one_shown(client, service):
    client.get(1)
    service.commit(rows_of("second"))
    first, second = service.executors
    first.snapshot = second.snapshot = 1
    assert client.get(1) == row(1), "not yet seen anywhere"
    first.snapshot = second.snapshot = 2
    assert client.get(1) == row(1, "second")
    first.snapshot = second.snapshot = 1
    for k in range(20):
        assert client.get(k) == row(k, "second")
    assert client.get_many(KEYS) == rows(KEYS, "second")
    assert client.snapshot_id == 2


def test_a_server_that_ignores_the_least_version_is_asked_again(client, service):
    service.commit(rows_of("second"))
    client.get_many(KEYS)
    old = service.version(1)

    def lie(self, request, context):
        reply = self.answer(request, context)
        reply.version.CopyFrom(old)
        return reply

    for executor in service.executors:
        executor.script.extend([lie, lie])
    assert client.get(1) == row(1, "second")


def test_an_executor_that_has_not_heard_of_a_new_schema_is_waited_for(client, service, table):
    table.add_column("extra", "INT")
    heard = time.monotonic() + 0.4

    def of_schema(number):
        def answer(self, request, context):
            reply = self.answer(request, context)
            reply.version.schema = number if time.monotonic() < heard else 1
            return reply

        return answer

    ahead, behind = service.executors
    ahead.script.extend([of_schema(1)] * 100)
    behind.script.extend([of_schema(0)] * 100)
    columns = ["k", "v", "n"]
    assert client.get_many(KEYS, columns=columns) == rows(KEYS)
    assert time.monotonic() > heard
    assert len(service.requests) < 30, "with pauses"


def test_a_batch_is_of_one_snapshot(client, service):
    client.get(1)
    service.commit(rows_of("second"))
    service.executors[0].snapshot = 1
    assert client.get_many(list(range(30))) == rows(range(30), "second")


def test_a_batch_may_be_of_several_snapshots_if_the_caller_says_so(catalog, service):
    with tidelake.lookup_client(catalog, "db.t", consistent=False) as query:
        service.commit(rows_of("second"))
        service.executors[0].snapshot = 1
        words = {r["v"].split()[0] for r in query.get_many(list(range(50)))}
        assert words == {"first", "second"}
        assert query.snapshot_id == 2


@pytest.mark.parametrize("given", ["x", 1.5, True])
def test_a_snapshot_to_wait_for_is_a_number(client, given):
    with pytest.raises(InvalidInputError, match="must be the id of a snapshot"):
        client.get(1, min_snapshot=given)
    with pytest.raises(InvalidInputError, match="must be the id of a snapshot"):
        client.get_many([1], min_snapshot=given)


def test_a_write_is_seen_by_its_snapshot(client, service):
    client.get(1)
    waiting = threading.Timer(0.3, lambda: service.commit(rows_of("second")))
    waiting.start()
    assert client.get(1, min_snapshot=2) == row(1, "second")
    assert client.get_many([1], min_snapshot=2) == [row(1, "second")]
    waiting.join()


def test_a_table_rolled_back_is_followed_with_the_next_generation(client, service):
    service.commit(rows_of("second"), snapshot=5)
    assert client.get(1) == row(1, "second")
    service.commit(rows_of("third"), snapshot=3)
    del service.history[5]
    service.generation = 2
    assert client.get(1) == row(1, "third")
    assert client.snapshot_id == 3


def test_a_new_service_counts_its_own_generations(client, service):
    service.commit(rows_of("second"), snapshot=5)
    client.get(1)
    service.generation, service.epoch = 9, 9
    for executor in service.executors:
        executor.script.append(fails(Code.FAILED_PRECONDITION, "stale-epoch"))
        executor.snapshot = 1
    assert client.get_many(KEYS) == rows(KEYS, "second"), "still not older than shown"


def test_a_service_that_lags_behind_the_files_that_were_read_is_waited_for(client, service, table):
    for _ in range(3):
        table.write([{"k": 1, "v": "real", "n": 0.5}])
    newest, session = table.latest_snapshot_id, client._client.session
    assert service.snapshot < newest
    session.show(Floor(0, newest))  # read from the table's files, while no service answered
    assert session.locate(None) is None
    assert session.shown == Floor(service.generation, newest)
    session.shown = Floor(0, newest + 9)  # and then the table was rolled back
    assert session.locate(session.view) is None
    assert session.shown == Floor(service.generation, newest)


def test_a_partition_with_another_number_of_buckets_is_learnt(client, service):
    service.counts[serialize_row((), ())] = 7
    assert client.get_many(KEYS) == rows(KEYS)
    asked = len(service.requests)
    assert client.get(5) == row(5)
    assert len(service.requests) == asked + 1, "known from now on"


def test_more_executors_are_found(client, service):
    from unit.service.client.scripted_service import Executor

    client.get_many(KEYS)
    service.executors.append(Executor(service, 2))
    service.epoch += 1
    keys = list(range(COUNT))
    assert client.get_many(keys) == rows(keys)
    assert service.executors[2].requests
    service.executors[2].server.stop(0)


# ---- threads, processes


def test_single_gets_of_threads_are_joined(client, service):
    client.get(1)
    for executor in service.executors:
        executor.script.extend([slow(0.05)] * 4)
    asked = len(service.requests)
    with ThreadPoolExecutor(64) as pool:
        assert list(pool.map(client.get, range(COUNT))) == rows(range(COUNT))
    assert len(service.requests) - asked < COUNT / 2
    assert max(e.running_max for e in service.executors) <= 2


def test_threads_each_get_their_own_answer_through_failures(client, service):
    client.get(1)
    odd = [fails(Code.UNAVAILABLE), slow(0.01), fails(Code.FAILED_PRECONDITION, "stale-epoch")]
    for executor in service.executors:
        executor.script.extend(odd * 4)
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(client.get, [k % (COUNT + 20) for k in range(400)]))
    assert found == rows([k % (COUNT + 20) for k in range(400)])


def test_an_error_reaches_every_thread_that_waits(catalog, service):
    with tidelake.lookup_client(catalog, "db.t", deadline_seconds=2.5) as query:
        query.get(1)
        for executor in service.executors:
            executor.script.extend([slow(0.05), slow(0.05)])
            executor.script.extend([fails(Code.UNAVAILABLE)] * 10_000)

        def attempt(k):
            try:
                query.get(k)
            except StorageError as error:
                return error.kind
            return "answered"

        with ThreadPoolExecutor(32) as pool:
            kinds = list(pool.map(attempt, range(64)))
    assert "service_unavailable" in kinds
    assert set(kinds) <= {"service_unavailable", "answered"}


def test_a_pickled_client_connects_again(client):
    assert client.get(1) == row(1)
    with pickle.loads(pickle.dumps(client)) as copy:
        assert copy.get(2) == row(2)
        assert copy.snapshot_id == 1


def test_a_forked_child_is_refused(client):
    client.get(1)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            client.get(1)
            said = b"answered"
        except ClosedError as error:
            said = error.kind.encode()
        finally:
            os.write(write, said)
            os._exit(0)
    assert os.read(read, 100) == b"forked"
    os.waitpid(child, 0)
    assert client.get(2) == row(2)


def test_a_closed_client_says_so(client):
    client.close()
    client.close()
    with pytest.raises(ClosedError, match="closed"):
        client.get(1)


# ---- finding the service


def test_no_service_is_said_at_once(catalog, table):
    with pytest.raises(NotFoundError, match=r"tidelake serve db\.t") as caught:
        tidelake.lookup_client(catalog, "db.t")
    assert caught.value.kind == "service_not_found"


def test_tables_without_keys_are_refused(catalog):
    log = catalog.create_table("db.log", pa.schema({"a": pa.int64()}))
    service = Service.__new__(Service)
    service.table, service.port, service.service_id, service.credentials = log, 1, "x", None
    service.register()
    with pytest.raises((UnsupportedError, InvalidInputError), match="no primary key"):
        tidelake.lookup_client(catalog, "db.log")


def test_a_token_is_sent_with_each_call(catalog, table):
    with serving(table, rows_of("first"), token="s3cret") as service:
        with tidelake.lookup_client(catalog, "db.t", token="s3cret") as query:
            assert query.get_many(KEYS) == rows(KEYS)
        for token in (None, "other"):
            with (
                tidelake.lookup_client(catalog, "db.t", token=token) as query,
                pytest.raises(InvalidInputError, match="refused the token"),
            ):
                query.get(1)
        assert service.locates


@pytest.mark.parametrize("token", ["s3cret\n", "a\nb", "\u00fc", " a"])
def test_a_token_that_no_request_can_carry_is_refused_at_once(tmp_path, token):
    for opened in (tidelake.lookup_client, tidelake.lookup_client_async):
        with pytest.raises(InvalidInputError, match="token of the query service holds") as caught:
            opened(tmp_path, "db.t", token=token)
        assert "s3cret" not in caught.value.message


def test_a_key_that_may_be_in_any_partition_is_asked_of_all(catalog):
    table = catalog.create_table(
        "db.moves",
        pa.schema({"k": pa.int64(), "v": pa.string()}),
        primary_keys=["k"],
        partition_keys=["v"],
        options={"bucket": -1, "dynamic-bucket.target-row-num": 100},
    )
    held = {(k,): {"k": k, "v": f"p{k}"} for k in range(40)}
    running = serving(table, held, cross=True)
    with running as service, tidelake.lookup_client(catalog, "db.moves") as query:
        assert query.get(3) == held[3,]
        assert query.get(99) is None
        service.executors[1].script.append(fails(Code.UNAVAILABLE))
        keys = list(range(45))
        assert query.get_many(keys) == [held.get((k,)) for k in keys]
        assert {s.bucket for r in service.requests for s in r.slices} == {-1}
