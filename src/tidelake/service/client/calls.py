"""Calls to executors: one by frames where the executor takes them, several together by gRPC."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import grpc

from tidelake.errors import StorageError
from tidelake.service.client.connection.failures import Failure, Remedy, failure_of_call
from tidelake.service.client.session import ServiceView, Session
from tidelake.service.protocol import tidelake_query_v1_pb2 as pb

Outcome = pb.LookupReply | Failure


async def called(
    session: Session,
    view: ServiceView,
    requests: Sequence[tuple[int, pb.LookupRequest]],
    seconds: float,
) -> list[Outcome]:
    """Ask executors; a reply or a failure of each.

    Parameters
    ----------
    requests : sequence of (int, LookupRequest)
        The executor of each request.
    """
    metadata = session.metadata
    # frames carry a token but no span
    if len(requests) == 1 and not session.is_traced(metadata):
        ((executor, request),) = requests
        frames = view.executors[executor].frames
        found = None if frames is None else await frames.call(request, seconds)
        if found is not None:
            return [found]
    calls: list[Any] = []
    try:
        for executor, request in requests:
            stub = view.executors[executor].table_query
            try:
                calls.append(stub.Lookup.future(request, timeout=seconds, metadata=metadata))
            except ValueError as error:  # what grpc raises on a channel that was closed
                calls.append(_closed(error, view, executor))
        for call in calls:
            if not isinstance(call, Failure):
                await session.caller.ended(call)
        return [
            _result(call, view, executor)
            for call, (executor, _) in zip(calls, requests, strict=True)
        ]
    except BaseException:
        for call in calls:
            if not isinstance(call, Failure):
                call.cancel()
        raise


def _result(call: Any, view: ServiceView, executor: int) -> Outcome:
    if isinstance(call, Failure):
        return call
    try:
        return call.result()
    except grpc.RpcError as error:
        return failure_of_call(error, address=view.executors[executor].address)
    except grpc.FutureCancelledError as error:
        return _closed(error, view, executor)


def _closed(error: Exception, view: ServiceView, executor: int) -> Failure:
    """Of a call on a connection that another thread closed: its executor has moved."""
    address = view.executors[executor].address
    message = f"The connection to {address} was closed ({error})."
    unavailable = StorageError(message, kind="service_unavailable", address=address)
    unavailable.__cause__ = error
    return Failure(Remedy.LOCATE, unavailable)
