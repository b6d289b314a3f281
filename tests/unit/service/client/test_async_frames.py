"""Frames of coroutines: the short way of a call, and what breaks it."""

import asyncio
import threading
from contextlib import asynccontextmanager

import grpc
from unit.service.service_kit import made_table, running

import tidelake
from tidelake.service.client.connection.coroutine_caller import LoopConnector
from tidelake.service.client.connection.failures import Failure
from tidelake.service.client.connection.frame_calls import FrameCalls
from tidelake.service.protocol import tidelake_query_v1_pb2 as pb
from tidelake.service.protocol.framing import HEAD, MAGIC, framed
from tidelake.telemetry import SystemClock


def test_gets_and_batches_of_coroutines_go_by_frames(tmp_path):
    catalog = tidelake.open(tmp_path / "warehouse")
    made_table(catalog, rows=50)
    keys = list(range(60))
    wanted = [{"id": k, "v": f"v{k}"} if k < 50 else None for k in keys]

    async def act(executor):
        async with tidelake.lookup_client_async(catalog, "db.t") as query:
            assert await query.get(3) == {"id": 3, "v": "v3"}
            assert await query.get(3, columns=["v"]) == {"v": "v3"}
            assert await asyncio.gather(*map(query.get, keys * 5)) == wanted * 5
            assert await query.get_many(keys) == wanted
            assert 1 <= len(executor._frames._open) <= 2, "a connection for each flight, kept"

    with running(catalog, count=1) as service:
        (executor,) = service.executors
        asyncio.run(act(executor))
    assert not executor._frames._open


def reply_to(message, **more):
    request = pb.LookupRequest.FromString(message)
    return framed(pb.LookupReply(id=request.id, found=b"\1", **more).SerializeToString())


@asynccontextmanager
async def serving(respond):
    """Calls to a server whose connections `respond(message, writer)` to each frame."""
    asked, tasks = [], []

    async def serve(reader, writer):
        tasks.append(asyncio.current_task())
        try:
            assert await reader.readexactly(8) == MAGIC + framed(b"")
            while True:
                (size,) = HEAD.unpack(await reader.readexactly(4))
                asked.append(writer)
                await respond(await reader.readexactly(size), writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    calls = FrameCalls(f"127.0.0.1:{port}", None, SystemClock(), LoopConnector(1 << 20))
    try:
        yield calls, asked
    finally:
        calls.close()
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def test_an_answer_in_many_pieces_is_whole():
    async def respond(message, writer):
        for byte in reply_to(message, arrow=b"x" * 40):
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0)

    async def act():
        async with serving(respond) as (calls, asked):
            for _ in range(3):
                reply = await calls.call(pb.LookupRequest(table="db.t"), 5)
                assert reply.arrow == b"x" * 40
            assert len(set(map(id, asked))) == 1, "one connection"

    asyncio.run(act())


def test_a_cancelled_call_leaves_no_answer_for_the_next():
    late = None

    async def respond(message, writer):
        nonlocal late
        if late is None:
            late = (message, writer)
            return
        late[1].write(reply_to(late[0], arrow=b"late"))
        writer.write(reply_to(message, arrow=b"own"))

    async def act():
        async with serving(respond) as (calls, asked):
            first = asyncio.create_task(calls.call(pb.LookupRequest(), 5))
            while not asked:
                await asyncio.sleep(0.001)
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
            reply = await calls.call(pb.LookupRequest(), 5)
            assert reply.arrow == b"own"
            assert len(set(map(id, asked))) == 2

    asyncio.run(act())


def test_what_breaks_a_connection_sends_the_caller_to_grpc():
    async def closes(_, writer):
        writer.close()

    async def says_too_much(message, writer):
        writer.write(reply_to(message) * 2)

    async def says_what_is_none(_, writer):
        writer.write(framed(b"\xff\xff"))

    async def answers_another(_, writer):
        writer.write(framed(pb.LookupReply(id=10**6).SerializeToString()))

    async def is_too_large(_, writer):
        writer.write(HEAD.pack(1 << 30))

    async def act(respond):
        async with serving(respond) as (calls, asked):
            assert await calls.call(pb.LookupRequest(), 5) is None
            assert await calls.call(pb.LookupRequest(), 5) is None, "and keeps to it for a while"
            assert len(asked) == 1

    for respond in (closes, says_too_much, says_what_is_none, answers_another, is_too_large):
        asyncio.run(act(respond))


def test_nobody_there_is_told_from_no_answer_in_time():
    async def never(*_):
        pass

    async def act():
        async with serving(never) as (calls, _):
            outcome = await calls.call(pb.LookupRequest(), 0.05)
            assert isinstance(outcome, Failure)
            assert "no answer within" in outcome.error.message
        nobody = FrameCalls("127.0.0.1:1", None, SystemClock(), LoopConnector(1 << 20))
        assert await nobody.call(pb.LookupRequest(), 5) is None

    asyncio.run(act())


def test_a_problem_of_one_request_keeps_the_connection():
    async def respond(message, writer):
        code = grpc.StatusCode.UNAVAILABLE.value[0]
        problem = pb.Problem(code=code, reason="not-ready", message="wait")
        writer.write(reply_to(message, problem=problem))

    async def act():
        async with serving(respond) as (calls, asked):
            for _ in range(2):
                outcome = await calls.call(pb.LookupRequest(), 5)
                assert isinstance(outcome, Failure)
            assert len(set(map(id, asked))) == 1

    asyncio.run(act())


def test_another_thread_may_close_the_connections():
    async def respond(message, writer):
        writer.write(reply_to(message))

    async def act():
        async with serving(respond) as (calls, asked):
            await calls.call(pb.LookupRequest(), 5)
            closing = threading.Thread(target=calls.close)
            closing.start()
            closing.join()
            while not asked[0].transport.is_closing():
                await asyncio.sleep(0.001)
            assert await calls.call(pb.LookupRequest(), 5) is None

    asyncio.run(act())


def test_a_call_that_a_close_ends_opens_no_connection_behind_it():
    async def respond(message, writer):
        if not is_silent:
            writer.write(reply_to(message))

    is_silent = False

    async def act():
        nonlocal is_silent
        async with serving(respond) as (calls, asked):
            await calls.call(pb.LookupRequest(), 5)
            is_silent = True
            second = asyncio.create_task(calls.call(pb.LookupRequest(), 1))
            while len(asked) < 2:
                await asyncio.sleep(0.001)
            calls.close()
            assert await second is None
            assert len(set(map(id, asked))) == 1, "no connection behind the close"

    asyncio.run(act())
