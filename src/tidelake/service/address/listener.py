"""A gRPC server of this package: one way to listen, to limit, and to answer errors.

The synchronous server with threads: it costs two thirds of the asynchronous one for each call (ADR
67). More calls than `concurrent_max` are refused with RESOURCE_EXHAUSTED before a thread sees them.
What is no HTTP/2 (a client of another protocol, random bytes) ends its own connection and nothing
else.

A call takes a thread before its message has arrived. So calls whose message does not come have a
few places of their own, and the one that waits longest makes room (:class:`MessageGate`). Where
callers need a token, one without a valid one is refused by the head of the call alone
(:class:`TokenGate`). Bytes that are not the message of their call are INVALID_ARGUMENT.
"""

from __future__ import annotations

import contextlib
import resource
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn, TypeVar

import grpc
from google.protobuf.message import DecodeError

from tidelake.engine.env import Clock
from tidelake.errors import InvalidInputError, TidelakeError
from tidelake.service.address.access import Access
from tidelake.service.address.refusal import Refusal, Status, internal, refusal_of
from tidelake.service.address.security import Security, advertised_host, split_address
from tidelake.service.protocol.reasons import PROTOCOL, Reason

T = TypeVar("T")

METADATA_BYTES_MAX = 16 << 10
KEEPALIVE_MS = 30_000
"""A peer that is silent so long is asked whether it is there."""
KEEPALIVE_TIMEOUT_MS = 10_000
HANDSHAKE_MS = 10_000
"""A connection that says nothing sensible is closed after so long."""
STOP_WAIT_SECONDS = 2.0
HEALTH_CHECK = "/grpc.health.v1.Health/Check"
"""May be called without a token, because tools that watch processes have none."""
HEALTH_CHECKS_MAX = 4
"""Health checks at a time; each holds a thread."""
HEALTH_SECONDS = 5.0
"""How long the message of one may take."""
LATE_SECONDS = 1.0
"""A call whose message takes longer makes room for another one."""
WATCHES_MAX = 16
"""Calls that follow something for as long as they like: the health of an executor."""
_CODES = {code.value[0]: code for code in grpc.StatusCode}


class Listener:
    """A server that is made, given its servicers, started and stopped.

    Parameters
    ----------
    bind : str
        Host, or ``host:port``; port 0 or none lets the system choose.
    threads, concurrent_max, waiting_max : int
        Threads that answer, calls in flight, and those of them whose message has not come.

    Raises
    ------
    InvalidInputError
        It may not, or cannot, listen there.
    """

    def __init__(
        self,
        bind: str,
        security: Security,
        *,
        threads: int,
        concurrent_max: int,
        waiting_max: int,
        clock: Clock,
        access: Access,
        request_bytes_max: int,
    ) -> None:
        host, port = split_address(bind)
        security.check(host)
        _allow_many_connections()
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="tidelake-service")
        gates = [TokenGate(access)] if access.needs_token else []
        self.server = grpc.server(
            self._threads,
            options=[
                ("grpc.so_reuseport", 0),
                ("grpc.max_receive_message_length", request_bytes_max),
                ("grpc.max_send_message_length", -1),  # answers have limits of their own
                ("grpc.max_metadata_size", METADATA_BYTES_MAX),
                ("grpc.keepalive_time_ms", KEEPALIVE_MS),
                ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_MS),
                ("grpc.server_handshake_timeout_ms", HANDSHAKE_MS),
            ],
            # the first one is outermost: it gets what the second one lets through
            interceptors=[MessageGate(waiting_max, clock.monotonic_seconds), *gates],
            maximum_concurrent_rpcs=concurrent_max,
        )
        at = f"[{host}]:{port}" if ":" in host else f"{host or '[::]'}:{port}"
        credentials = security.server_credentials()
        try:
            if credentials is None:
                found = self.server.add_insecure_port(at)
            else:
                found = self.server.add_secure_port(at, credentials)
        except RuntimeError as error:
            message = (
                f"The service cannot listen at {at}: the port is taken, or is not this host's."
            )
            raise InvalidInputError(message, kind="service_address", address=at) from error
        shown = advertised_host(host)
        self.address = f"[{shown}]:{found}" if ":" in shown else f"{shown}:{found}"

    def start(self) -> None:
        """Answer calls from now on."""
        self.server.start()

    def stop(self, grace_seconds: float) -> None:
        """Take no new calls, and end those that run after a while."""
        # not for ever: at the end of the interpreter gRPC's own thread may have died before
        self.server.stop(grace_seconds).wait(grace_seconds + STOP_WAIT_SECONDS)
        self._threads.shutdown(wait=False)


class MessageGate(grpc.ServerInterceptor):  # type: ignore[misc]  # it has no types
    """Bounds the calls that hold a thread while their only message has not come.

    Parameters
    ----------
    waiting_max : int
        How many there may be. One more ends the one that waited longest, if that waited for
        :data:`LATE_SECONDS`; else it is refused.
    now : callable
        A monotonic clock, in seconds.
    """

    def __init__(self, waiting_max: int, now: Callable[[], float]) -> None:
        self._waiting_max = waiting_max
        self._now = now
        self._lock = threading.Lock()
        self._waiting: dict[Any, float] = {}  # since when, by context; oldest first
        self._watches = threading.BoundedSemaphore(WATCHES_MAX)

    def intercept_service(self, continuation: Callable[[Any], Any], details: Any) -> Any:
        """The handler of a call, which first waits for its message in a bounded place."""
        handler = continuation(details)
        if handler is None:
            return None
        coders = (_decoder(handler.request_deserializer), handler.response_serializer)
        if handler.request_streaming:
            return _of_stream(handler, coders)
        if not handler.response_streaming:

            def one(requests: Iterator[Any], context: Any) -> Any:
                return handler.unary_unary(self.first(requests, context), context)

            return grpc.stream_unary_rpc_method_handler(one, *coders)

        def many(requests: Iterator[Any], context: Any, *send: Any, **sends: Any) -> Any:
            request = self.first(requests, context)
            self._watch(context)
            return handler.unary_stream(request, context, *send, **sends)

        # gRPC's mark of a handler that gives its answers to a function, and holds no thread
        many.experimental_non_blocking = getattr(  # type: ignore[attr-defined]
            handler.unary_stream, "experimental_non_blocking", False
        )
        return grpc.stream_stream_rpc_method_handler(many, *coders)

    def first(self, requests: Iterator[Any], context: Any) -> Any:
        """The message of a call."""
        late = self._enter(context)
        if late is not None:
            late.cancel()
        try:
            return next(_whole(requests, context))
        except StopIteration:
            message = "The call has one message, and this had none."
            abort(context, Refusal(Status.INVALID_ARGUMENT, "no-message", message))
        finally:
            with self._lock:
                self._waiting.pop(context, None)

    def _enter(self, context: Any) -> Any:
        """Take a place; the call that has to make room for it."""
        now = self._now()
        late = None
        with self._lock:
            has_place = len(self._waiting) < self._waiting_max
            if not has_place:
                late, began = next(iter(self._waiting.items()))
                has_place = now - began >= LATE_SECONDS
            if has_place:
                self._waiting.pop(late, None)
                self._waiting[context] = now
        if not has_place:
            message = (
                f"{self._waiting_max} calls wait for their message, as many as this server takes:"
                " try again later."
            )
            abort(context, Refusal(Status.RESOURCE_EXHAUSTED, "too-many-calls", message))
        return late

    def _watch(self, context: Any) -> None:
        if not self._watches.acquire(blocking=False):
            message = f"{WATCHES_MAX} calls follow the health already: ask for it instead."
            abort(context, Refusal(Status.RESOURCE_EXHAUSTED, "too-many-calls", message))
        if not context.add_callback(self._watches.release):
            self._watches.release()  # the caller has gone already


class TokenGate(grpc.ServerInterceptor):  # type: ignore[misc]  # it has no types
    """Refuses calls without a valid token before they take a place or read a message."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._health_checks = threading.BoundedSemaphore(HEALTH_CHECKS_MAX)

    def intercept_service(self, continuation: Callable[[Any], Any], details: Any) -> Any:
        """The handler of a call, or one that refuses it."""
        if details.method == HEALTH_CHECK:
            return self._bounded(continuation(details))
        try:
            self._access.caller(details.invocation_metadata)
        except Refusal as refusal:
            return _refusing(refusal)
        return continuation(details)

    def _bounded(self, handler: Any) -> Any:
        """A health check that holds one of a few places, whether its message comes or not."""
        if handler is None:
            return None

        def check(requests: Iterator[Any], context: Any) -> Any:
            if not self._health_checks.acquire(blocking=False):
                message = f"{HEALTH_CHECKS_MAX} health checks are under way: try again later."
                abort(context, Refusal(Status.RESOURCE_EXHAUSTED, "too-many-calls", message))
            timer = threading.Timer(HEALTH_SECONDS, context.cancel)
            timer.start()
            try:
                return handler.unary_unary(next(requests), context)
            except StopIteration:
                message = "A health check has one message, and this had none."
                abort(context, Refusal(Status.INVALID_ARGUMENT, "no-message", message))
            finally:
                timer.cancel()
                self._health_checks.release()

        return grpc.stream_unary_rpc_method_handler(
            check, handler.request_deserializer, handler.response_serializer
        )


_MALFORMED = object()
"""In the place of a message that could not be decoded."""


def _decoder(decode: Callable[[bytes], Any] | None) -> Callable[[bytes], Any] | None:
    """Decodes messages; gRPC itself would answer INTERNAL to malformed ones."""
    if decode is None:
        return None

    def decoded(data: bytes) -> Any:
        try:
            return decode(data)
        except DecodeError:
            return _MALFORMED

    return decoded


def _whole(requests: Iterator[Any], context: Any) -> Iterator[Any]:
    """The messages of a call, which ends with the first that is malformed."""
    for request in requests:
        if request is _MALFORMED:
            message = "The bytes are not the message of this call."
            abort(context, Refusal(Status.INVALID_ARGUMENT, "malformed", message))
        yield request


def _of_stream(handler: Any, coders: tuple[Any, Any]) -> Any:
    """A handler of many messages that gets whole ones only."""
    if handler.response_streaming:

        def many(requests: Iterator[Any], context: Any) -> Any:
            return handler.stream_stream(_whole(requests, context), context)

        return grpc.stream_stream_rpc_method_handler(many, *coders)

    def one(requests: Iterator[Any], context: Any) -> Any:
        return handler.stream_unary(_whole(requests, context), context)

    return grpc.stream_unary_rpc_method_handler(one, *coders)


def _refusing(refusal: Refusal) -> Any:
    """A handler that reads nothing."""

    def refuse(_: Iterator[bytes], context: Any) -> Iterator[bytes]:
        abort(context, refusal)

    return grpc.stream_stream_rpc_method_handler(refuse)


def answer(context: Any, work: Callable[[], T]) -> T:
    """Do the work of a call; an error becomes the call's status.

    One that nobody expected is INTERNAL, and gRPC logs it with its lines.
    """
    try:
        return work()
    except (Refusal, TidelakeError) as error:
        abort(context, refusal_of(error))
    except Exception as error:
        failed = internal(error)
        context.set_trailing_metadata(failed.metadata)
        context.set_code(_CODES[int(failed.status)])
        context.set_details(failed.message)
        raise


def abort(context: Any, refusal: Refusal) -> NoReturn:
    """End a call with a status."""
    context.set_trailing_metadata(refusal.metadata)
    context.abort(_CODES[int(refusal.status)], refusal.message)
    raise AssertionError("abort raises")


def check_protocol(spoken: int) -> None:
    """Refuse a caller of another version of the protocol."""
    if spoken != PROTOCOL:
        who = "client is newer" if spoken > PROTOCOL else "client is older"
        message = (
            f"The call speaks version {spoken} of the protocol, and this service version"
            f" {PROTOCOL}: the {who}. Use the same version of Tidelake on both sides."
        )
        raise Refusal(Status.FAILED_PRECONDITION, Reason.PROTOCOL, message)


def _allow_many_connections() -> None:
    """Let this process have as many open files as the system allows it to ask for."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
