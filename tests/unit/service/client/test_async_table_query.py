"""Coroutines against servers that fail as told."""

import asyncio
import pickle
import threading

import grpc
import pyarrow as pa
import pytest
from unit.service.client.conftest import COUNT, rows_of
from unit.service.client.scripted_service import fails, serving, slow, then
from unit.service.client.test_table_query import KEYS, row, rows
from waiting import SECONDS_MAX

import tidelake
from tidelake.errors import ClosedError, InvalidInputError, StorageError

Code = grpc.StatusCode


def run(catalog, act, **options):
    """Run a coroutine function with a client."""

    async def whole():
        async with tidelake.lookup_client_async(catalog, "db.t", **options) as query:
            return await act(query)

    return asyncio.run(whole())


def held(service, *, calls=1):
    """The next calls of each executor wait for what is returned."""
    answering = threading.Event()
    for executor in service.executors:
        executor.script.extend([then(lambda: answering.wait(SECONDS_MAX))] * calls)
    return answering


async def asked_since(service, count):
    """Wait until a call has come to each executor."""
    while len(service.requests) < count + len(service.executors):
        await asyncio.sleep(0.001)


def test_the_methods_are_those_of_threads(catalog, service):
    async def act(query):
        assert await query.get((7,)) == row(7)
        assert await query.get(COUNT) is None
        assert await query.get(7, columns=["n"]) == {"n": 3.5}
        assert await query.get_many(KEYS) == rows(KEYS)
        assert await query.get_many([]) == []
        found = await query.get_many(pa.array([1, 2]))
        assert found.to_pylist() == rows([1, 2])
        assert (await query.get_many(pa.array([], pa.int64()))).num_rows == 0
        assert query.snapshot_id == 1
        with pytest.raises(InvalidInputError):
            await query.get((1, 2))

    run(catalog, act)


def test_gets_that_are_begun_together_are_one_call(catalog, service):
    async def act(query):
        await query.get(1)
        asked = len(service.requests)
        assert await asyncio.gather(*map(query.get, range(COUNT))) == rows(range(COUNT))
        assert len(service.requests) - asked == len(service.executors)
        mixed = await asyncio.gather(query.get(1), query.get(2, columns=["k"]), query.get(COUNT))
        assert mixed == [row(1), {"k": 2}, None]

    run(catalog, act)


def test_gets_come_through_failures_each_with_its_own_answer(catalog, service):
    odd = [fails(Code.UNAVAILABLE), slow(0.01), fails(Code.FAILED_PRECONDITION, "stale-epoch")]

    async def act(query):
        await query.get(1)
        for executor in service.executors:
            executor.script.extend(odd * 3)

        async def caller(n):
            return [await query.get((n + k) % (COUNT + 20)) for k in range(10)]

        for n, found in enumerate(await asyncio.gather(*map(caller, range(64)))):
            assert found == rows([(n + k) % (COUNT + 20) for k in range(10)])
        assert max(e.running_max for e in service.executors) <= 2

    run(catalog, act)


def test_a_cancelled_get_leaves_the_others_their_answers(catalog, service):
    async def act(query):
        await query.get(1)
        answering, asked = held(service), len(service.requests)
        gets = [asyncio.ensure_future(query.get(k)) for k in range(20)]
        await asked_since(service, asked)
        for one in gets[::2]:
            one.cancel()
        answering.set()
        found = await asyncio.gather(*gets, return_exceptions=True)
        assert found[1::2] == rows(range(1, 20, 2))
        assert all(isinstance(e, asyncio.CancelledError) for e in found[::2])

    run(catalog, act)


def test_gets_in_flight_end_when_the_client_is_closed(catalog, service):
    async def act(query):
        await query.get(1)
        answering, asked = held(service, calls=9), len(service.requests)
        gets = [asyncio.ensure_future(query.get(k)) for k in range(8)]
        await asked_since(service, asked)
        await query.close()
        answering.set()
        found = await asyncio.gather(*gets, return_exceptions=True)
        assert {type(e) for e in found} == {ClosedError}

    run(catalog, act)


def test_a_get_that_was_cancelled_in_a_request_is_not_waited_for(catalog, service):
    async def act(query):
        await query.get(1)
        answering, asked = held(service, calls=2), len(service.requests)
        gets = [asyncio.ensure_future(query.get(k)) for k in range(40)]
        await asked_since(service, asked)
        for one in reversed(gets[:-1]):  # those whose coroutines send come last
            one.cancel()
        answering.set()
        assert await gets[-1] == rows([39])[0]
        assert await query.get(7) == rows([7])[0]

    run(catalog, act)


def test_an_error_reaches_every_coroutine_that_waits(catalog, service):
    async def act(query):
        await query.get(1)
        for executor in service.executors:
            executor.script.extend([fails(Code.UNAVAILABLE)] * 1000)
        found = await asyncio.gather(*map(query.get, range(30)), return_exceptions=True)
        assert {type(e) for e in found} == {StorageError}
        assert len({id(e) for e in found}) == 30

    run(catalog, act, deadline_seconds=2.5)


def test_a_closed_client_says_so_and_a_pickled_one_connects(catalog, service):
    async def act(query):
        copy = pickle.loads(pickle.dumps(query))
        assert await copy.get(1) == row(1)
        await copy.close()
        with pytest.raises(ClosedError):
            await copy.get(1)

    run(catalog, act)


def test_many_loops_one_after_the_other(catalog, table):
    with serving(table, rows_of("first")):
        for _ in range(3):
            run(catalog, lambda query: asyncio.gather(*map(query.get, range(10))))
