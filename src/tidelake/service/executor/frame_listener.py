"""The port for frames of one executor: each connection is a session of its servicer.

A connection has a thread while it lasts, so there are at most :data:`CONNECTIONS_MAX`; a client
beyond them is hung up on and uses gRPC. The thread does the handshake of TLS too, so a slow one
keeps nobody else waiting. Who has not said within :data:`HELLO_SECONDS` who it is, handshake and
all, is hung up on, and after :data:`LATE_SECONDS` already where its place is needed. Limits,
tokens, idle and slow clients are those of sessions
(:class:`~tidelake.service.executor.in_flight.InFlight`). Bytes that are not a frame end their own
connection and nothing else. :mod:`tidelake.service.protocol.framing` has the bytes.
"""

from __future__ import annotations

import logging
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NoReturn

import grpc
from google.protobuf.message import DecodeError

from tidelake.service.executor.config import Limits
from tidelake.service.executor.servicer import TableQueryServicer
from tidelake.service.protocol import tidelake_query_v1_pb2 as pb
from tidelake.service.protocol.framing import (
    MAGIC,
    TOKEN_BYTES_MAX,
    WAITED_TOO_LONG,
    FrameReader,
    framed,
    limit_waits,
    read_exactly,
    read_frame,
)
from tidelake.service.protocol.reasons import REASON_KEY, TOKEN_KEY, bearer

_LOG = logging.getLogger("tidelake.service")

CONNECTIONS_MAX = 64
HELLO_SECONDS = 5.0
"""How long a connection may take to say who it is."""
LATE_SECONDS = 1.0
"""One that takes longer makes room for another."""
FRAME_SECONDS = 30.0
"""How long a request may take to arrive once it has begun."""
BACKLOG = 128
ACCEPT_PAUSE_SECONDS = 0.05
"""How long to wait after the system gave no connection."""


class FrameListener:
    """Listens for frames; must be stopped.

    Parameters
    ----------
    host : str
        Where, an IPv6 address perhaps in brackets; the port is any free one.
    limits : Limits
        What the executor takes on.
    now : callable
        A monotonic clock, in seconds.
    context : SSLContext, optional
        Of a server that takes connections by TLS only.
    """

    def __init__(
        self,
        host: str,
        servicer: TableQueryServicer,
        limits: Limits,
        *,
        now: Callable[[], float],
        context: ssl.SSLContext | None = None,
    ) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        place = (host.strip("[]"), 0)  # brackets are for addresses with a port
        self._socket = socket.create_server(place, family=family, backlog=BACKLOG)
        self._servicer = servicer
        self._limits = limits
        self._now = now
        self._context = context
        self._open: set[socket.socket] = set()
        self._unknown: dict[socket.socket, float] = {}  # since when, oldest first
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self.port: int = self._socket.getsockname()[1]

    def start(self) -> None:
        """Answer from now on."""
        threading.Thread(target=self._accept, name="tidelake-frames", daemon=True).start()

    def stop(self) -> None:
        """Take no new connections, and end all."""
        self._stopped.set()
        with suppress(OSError):  # wakes the thread that accepts
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        with self._lock:
            connections = list(self._open)
        for connection in connections:
            _hang_up(connection)

    def end_late(self) -> None:
        """Hang up on all who have not said in time who they are; to be called again and again."""
        while (late := self._late(HELLO_SECONDS)) is not None:
            _hang_up(late)

    def _late(self, seconds: float) -> socket.socket | None:
        """Give up on the one that has not said who it is for the longest time, if for so long."""
        with self._lock:
            found, since = next(iter(self._unknown.items()), (None, 0.0))
            if found is None or self._now() - since < seconds:
                return None
            del self._unknown[found]
            self._open.discard(found)
            return found

    def _accept(self) -> None:
        while not self._stopped.is_set():
            try:
                connection, _ = self._socket.accept()
            except OSError as error:  # stopped; or no more files may be open, or it has gone
                if not self._stopped.wait(ACCEPT_PAUSE_SECONDS):
                    _LOG.debug("no connection for frames was taken: %s", error)
                continue
            self._take(connection)

    def _take(self, connection: socket.socket) -> None:
        """Give a connection a thread; hang up if there is no place for it."""
        if len(self._open) >= CONNECTIONS_MAX:  # only this thread adds to them
            late = self._late(LATE_SECONDS)
            if late is None:
                connection.close()
                return
            _hang_up(late)
        if self._context is not None:
            try:  # nothing is waited for: the thread of the connection does the handshake
                connection = self._context.wrap_socket(
                    connection, server_side=True, do_handshake_on_connect=False
                )
            except (OSError, ValueError) as error:  # the client has gone already
                _LOG.debug("a connection for frames ended at once: %s", error)
                return
        with self._lock:
            self._open.add(connection)
            self._unknown[connection] = self._now()
        thread = threading.Thread(
            target=self._serve, args=(connection,), name="tidelake-frame", daemon=True
        )
        try:
            thread.start()
        except RuntimeError as error:  # the system has no more threads
            _LOG.warning("no thread for a connection for frames: %s", error)
            self._forget(connection)
            connection.close()

    def _forget(self, connection: socket.socket) -> None:
        with self._lock:
            self._open.discard(connection)
            self._unknown.pop(connection, None)

    def _serve(self, connection: socket.socket) -> None:
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._session(connection)
        except (OSError, EOFError) as error:
            _LOG.debug("a connection for frames ended: %s", error)
        finally:
            self._forget(connection)
            connection.close()

    def _session(self, connection: socket.socket) -> None:
        limit_waits(connection, HELLO_SECONDS, HELLO_SECONDS)
        if isinstance(connection, ssl.SSLSocket):
            connection.do_handshake()
        if read_exactly(connection, len(MAGIC)) != MAGIC:
            return
        try:
            token = read_frame(connection, TOKEN_BYTES_MAX) or b""
            context = _Context(connection, token.decode("ascii"))
            with self._lock:
                self._unknown.pop(connection, None)
            limit_waits(connection, FRAME_SECONDS, self._limits.slow_reader_seconds)
            replies = self._servicer.Session(self._requests(connection), context)
            for reply in replies:
                connection.sendall(framed(reply.SerializeToString()))
        except _Aborted as aborted:
            connection.sendall(framed(aborted.reply.SerializeToString()))
        except (ValueError, DecodeError) as error:
            said = grpc.StatusCode.RESOURCE_EXHAUSTED
            reason = "request-too-large"
            if not str(error).startswith("a message of"):
                said, reason = grpc.StatusCode.INVALID_ARGUMENT, "no-message"
            reply = _problem(said, reason, f"The frame is refused: {error}.")
            connection.sendall(framed(reply.SerializeToString()))

    def _requests(self, connection: socket.socket) -> Iterator[pb.LookupRequest]:
        reader = FrameReader(connection, self._limits.request_bytes)
        while True:
            try:
                message = reader.read()
            except WAITED_TOO_LONG:
                if reader.is_within:
                    raise  # a request that does not end
                continue  # an idle session is ended where its place is needed
            if message is None:
                return
            yield pb.LookupRequest.FromString(message)


class _Aborted(Exception):
    """A session that is refused."""

    def __init__(self, reply: pb.LookupReply) -> None:
        super().__init__(reply.problem.message)
        self.reply = reply


class _Context:
    """What a servicer asks of the context of a call."""

    def __init__(self, connection: socket.socket, token: str) -> None:
        self._connection = connection
        self._metadata = ((TOKEN_KEY, bearer(token)),) if token else ()
        self._trailing: tuple[tuple[str, Any], ...] = ()

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        """What the client said besides its messages."""
        return self._metadata

    def set_trailing_metadata(self, metadata: tuple[tuple[str, Any], ...]) -> None:
        """Keep the reason of an abort."""
        self._trailing = tuple(metadata)

    def abort(self, code: grpc.StatusCode, details: str) -> NoReturn:
        """End the session with a problem."""
        reason = str(dict(self._trailing).get(REASON_KEY, ""))
        raise _Aborted(_problem(code, reason, details))

    def set_code(self, code: grpc.StatusCode) -> None:
        """Nothing: an unexpected error ends the connection."""

    def set_details(self, details: str) -> None:
        """Nothing, as above."""

    def cancel(self) -> None:
        """End the session: its place is needed, or its client does not read."""
        _hang_up(self._connection)


def _problem(code: grpc.StatusCode, reason: str, message: str) -> pb.LookupReply:
    number: int = code.value[0]
    return pb.LookupReply(problem=pb.Problem(code=number, reason=reason, message=message))


def _hang_up(connection: socket.socket) -> None:
    with suppress(OSError):
        # not that of TLS, after which its own thread would read and send unencrypted bytes
        socket.socket.shutdown(connection, socket.SHUT_RDWR)
