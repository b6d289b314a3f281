"""The calls of an executor: Lookup, Session for many of them on one stream, and its health."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from grpc_health.v1 import health, health_pb2

from tidelake.errors import TidelakeError
from tidelake.service.address.access import Access
from tidelake.service.address.listener import answer
from tidelake.service.address.refusal import Refusal, refusal_of
from tidelake.service.executor.in_flight import Flight, InFlight
from tidelake.service.executor.lookup import Lookups
from tidelake.service.observe.spans import span
from tidelake.service.protocol import tidelake_query_v1_pb2 as pb
from tidelake.service.protocol import tidelake_query_v1_pb2_grpc as rpc
from tidelake.service.protocol.reasons import BUCKETS_KEY, buckets_from_text

MARGIN_SECONDS = 0.05
"""A call is refused so long before its deadline, so that the caller learns why."""
WAIT_SECONDS_MAX = 60.0
"""How long a call waits for a snapshot, whatever its deadline: it holds a thread."""


class ExecutorHealth(health.HealthServicer):  # type: ignore[misc]  # it has no types
    """The standard health service; it keeps no names that callers make up."""

    def __init__(self) -> None:
        super().__init__()
        self._names = {""}

    def set(self, service: str, status: int) -> None:
        """Say how a service is: a table, or ``""`` for all."""
        self._names.add(service)
        super().set(service, status)

    def Watch(
        self,
        request: health_pb2.HealthCheckRequest,
        context: Any,
        send_response_callback: Callable[[Any], None] | None = None,
    ) -> Any:
        """Follow a service; answer that it is unknown, and end, if it is."""
        if request.service in self._names or send_response_callback is None:
            return super().Watch(request, context, send_response_callback)
        unknown = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
        send_response_callback(health_pb2.HealthCheckResponse(status=unknown))
        send_response_callback(None)
        return None


class TableQueryServicer(rpc.TableQueryServicer):
    """Answers for one executor."""

    def __init__(self, lookups: Lookups, in_flight: InFlight, access: Access) -> None:
        self._lookups = lookups
        self._in_flight = in_flight
        self._access = access

    def Lookup(self, request: pb.LookupRequest, context: Any) -> pb.LookupReply:
        """Answer one request."""
        return answer(context, lambda: self._lookup(request, context))

    def Session(
        self, requests: Iterator[pb.LookupRequest], context: Any
    ) -> Iterator[pb.LookupReply]:
        """Answer requests in the order of their arrival."""
        flight = answer(context, lambda: self._begin(context))
        try:
            for request in requests:
                self._in_flight.took(flight)
                reply = answer(context, partial(self._reply, request, context, flight))
                yield reply
                self._in_flight.taken(flight)
        finally:
            self._in_flight.leave(flight)

    def _lookup(self, request: pb.LookupRequest, context: Any) -> pb.LookupReply:
        flight = self._in_flight.enter(context, is_session=False)
        if not context.add_callback(lambda: self._in_flight.leave(flight)):
            self._in_flight.leave(flight)  # the caller has gone already
        caller = self._access.caller(context.invocation_metadata())
        with _span(request, context):
            reply = self._lookups.answer(request, caller, self._end(context.time_remaining()))
        reply.id = request.id
        self._in_flight.hold(flight, reply.ByteSize())
        return reply

    def _begin(self, context: Any) -> Flight:
        self._access.caller(context.invocation_metadata())
        return self._in_flight.enter(context, is_session=True)

    def _reply(self, request: pb.LookupRequest, context: Any, flight: Flight) -> pb.LookupReply:
        wait_seconds = request.wait_ms / 1000 if request.wait_ms else None
        try:
            # with each request: a token may expire, or be revoked, while a session lasts
            caller = self._access.caller(context.invocation_metadata())
            with _span(request, context):
                reply = self._lookups.answer(request, caller, self._end(wait_seconds))
            self._in_flight.hold(flight, reply.ByteSize())
        except (Refusal, TidelakeError) as error:
            reply = pb.LookupReply(problem=_problem(error))
        reply.id = request.id
        return reply

    def _end(self, seconds: float | None) -> float:
        wait = self._lookups.limits.wait_seconds
        left = wait if seconds is None else max(0.0, seconds - MARGIN_SECONDS)
        return self._lookups.clock.monotonic_seconds() + min(left, WAIT_SECONDS_MAX)


def _span(request: pb.LookupRequest, context: Any) -> AbstractContextManager[Any]:
    """A span around an answer; the caller's is its parent."""
    metadata = context.invocation_metadata()
    return span("query.lookup", request.table, request.keys.count, metadata=metadata)


def _problem(error: Refusal | TidelakeError) -> pb.Problem:
    refusal = refusal_of(error)
    text = str(dict(refusal.metadata).get(BUCKETS_KEY, ""))
    buckets = [
        pb.SliceBuckets(slice=number, buckets=count)
        for number, count in buckets_from_text(text).items()
    ]
    return pb.Problem(
        code=int(refusal.status), reason=refusal.reason, message=refusal.message, buckets=buckets
    )
