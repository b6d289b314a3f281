"""Carries out the steps of a lookup: by blocking calls, or as coroutines.

A call to one executor goes by frames where the executor takes them: blocking in the caller's own
thread, or awaited on the caller's event loop. Else it goes by gRPC. Calls to several executors are
under way together, by gRPC.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import suppress
from typing import Any, TypeVar

import grpc

from tidelake.errors import StorageError
from tidelake.service.client.connection.failures import Failure, Remedy, failure_of_call
from tidelake.service.client.session import ServiceView, Session
from tidelake.service.client.steps import Calls, Locate, Pause, ReadSchema, Step
from tidelake.service.protocol import tidelake_query_v1_pb2 as pb

R = TypeVar("R")
Outcome = pb.LookupReply | Failure


def carry_out(session: Session, steps: Generator[Step, Any, R]) -> R:
    """Carry out steps in this thread; their result."""
    outcome: Any = None
    while True:
        try:
            step = steps.send(outcome)
        except StopIteration as end:
            result: R = end.value
            return result
        if isinstance(step, Calls):
            outcome = _called(session, step)
        elif isinstance(step, Pause):
            session.catalog.env.clock.sleep_ms(step.ms)
            outcome = None
        else:
            outcome = _looked_up(session, step)


async def carry_out_async(session: Session, steps: Generator[Step, Any, R]) -> R:
    """Carry out steps as a coroutine; what reads files runs in a thread."""
    outcome: Any = None
    while True:
        try:
            step = steps.send(outcome)
        except StopIteration as end:
            result: R = end.value
            return result
        if isinstance(step, Calls):
            outcome = await _called_async(session, step)
        elif isinstance(step, Pause):
            await asyncio.sleep(step.ms / 1000)
            outcome = None
        else:
            outcome = await asyncio.to_thread(_looked_up, session, step)


def _looked_up(session: Session, step: Locate | ReadSchema) -> Failure | None:
    if isinstance(step, Locate):
        return session.locate(step.old, reopen=step.reopen)
    session.read_schema(step.version)
    return None


def _called(session: Session, step: Calls) -> list[Outcome]:
    if len(step.requests) == 1:
        ((executor, request),) = step.requests
        connection = step.view.executors[executor]
        metadata = session.metadata
        # frames carry a token but no span
        if connection.frames is not None and not session.is_traced(metadata):
            found = connection.frames.call(request, step.seconds)
            if found is not None:
                return [found]
        stub = connection.table_query
        try:
            return [stub.Lookup(request, timeout=step.seconds, metadata=metadata)]
        except grpc.RpcError as error:
            return [_failure(error, step.view, executor)]
        except ValueError as error:  # what grpc raises on a channel that was closed
            return [_closed(error, step.view, executor)]
    calls = [_started(session, step, executor, request) for executor, request in step.requests]
    return [
        call if isinstance(call, Failure) else _result(call, step.view, executor)
        for call, (executor, _) in zip(calls, step.requests, strict=True)
    ]


def _started(session: Session, step: Calls, executor: int, request: pb.LookupRequest) -> Any:
    stub = step.view.executors[executor].table_query
    try:
        return stub.Lookup.future(request, timeout=step.seconds, metadata=session.metadata)
    except ValueError as error:
        return _closed(error, step.view, executor)


def _result(call: Any, view: ServiceView, executor: int) -> Outcome:
    try:
        return call.result()
    except grpc.RpcError as error:
        return _failure(error, view, executor)
    except grpc.FutureCancelledError as error:
        return _closed(error, view, executor)


async def _called_async(session: Session, step: Calls) -> list[Outcome]:
    if len(step.requests) == 1 and not session.is_traced(session.metadata):
        ((executor, request),) = step.requests
        frames = step.view.executors[executor].async_frames
        found = None if frames is None else await frames.call(request, step.seconds)
        if found is not None:
            return [found]
    loop = asyncio.get_running_loop()
    waits: list[Any] = []
    calls: list[Any] = []
    for executor, request in step.requests:
        call = _started(session, step, executor, request)
        calls.append(call)
        if not isinstance(call, Failure):
            waits.append(_done(call, loop))
    try:
        for wait in waits:
            await wait
    except asyncio.CancelledError:
        for call in calls:
            if not isinstance(call, Failure):
                call.cancel()
        raise
    return [
        call if isinstance(call, Failure) else _result(call, step.view, executor)
        for call, (executor, _) in zip(calls, step.requests, strict=True)
    ]


def _done(call: Any, loop: asyncio.AbstractEventLoop) -> asyncio.Future[None]:
    done = loop.create_future()

    def tell(_: Any) -> None:
        with suppress(RuntimeError):  # the loop was closed before its call ended: nobody waits
            loop.call_soon_threadsafe(_set, done)

    call.add_done_callback(tell)
    return done


def _set(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)


def _failure(error: Any, view: ServiceView, executor: int) -> Failure:
    return failure_of_call(error, address=view.executors[executor].address)


def _closed(error: Exception, view: ServiceView, executor: int) -> Failure:
    """Of a call on a connection that another thread closed: its executor has moved."""
    address = view.executors[executor].address
    message = f"The connection to {address} was closed ({error})."
    unavailable = StorageError(message, kind="service_unavailable", address=address)
    unavailable.__cause__ = error
    return Failure(Remedy.LOCATE, unavailable)
