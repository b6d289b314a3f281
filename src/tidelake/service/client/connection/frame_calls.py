"""Calls by frames to one address: :mod:`tidelake.service.protocol.framing`.

A call takes an idle connection, or opens one, and gives it back. Nobody else uses it meanwhile, so
the next frame is the reply. Where the server has no place, or the connection breaks before a reply,
the caller uses gRPC, which tells what is wrong. How a caller waits is the business of its
:class:`Connector`: a thread blocks in its own socket, a coroutine lets its event loop read. A call
by gRPC costs 0.4 ms of CPU, a frame a tenth of that.
"""

from __future__ import annotations

import itertools
import logging
import ssl
from typing import Protocol

import grpc
from google.protobuf.message import DecodeError

from tidelake.engine.env import Clock
from tidelake.service.client.connection.failures import Failure, failure_of_status
from tidelake.service.client.connection.idle_connections import IdleConnections
from tidelake.service.client.connection.tls import advice_of
from tidelake.service.protocol import tidelake_query_v1_pb2 as pb
from tidelake.service.protocol.framing import MAGIC, framed

_LOG = logging.getLogger("tidelake.service")

AVOIDED_SECONDS = 5.0
"""How long gRPC alone is used after the server had no place or did not answer."""
NO_PLACE = grpc.StatusCode.RESOURCE_EXHAUSTED.value[0]
CODES = {code.value[0]: code for code in grpc.StatusCode}


class FrameConnection(Protocol):
    """One connection: a frame goes, and the next that comes is its answer."""

    @property
    def is_open(self) -> bool:
        """Whether it can be asked; True where nobody can tell before."""
        ...

    async def ask(self, message: bytes, seconds: float) -> bytes:
        """Send a frame and give the next.

        Raises
        ------
        TimeoutError
            None came in time.
        EOFError
            The connection broke, or what came is no frame.
        """
        ...


class Connector(Protocol):
    """Opens connections for callers of one kind."""

    @property
    def is_usable(self) -> bool:
        """Whether this caller may use the connections."""
        ...

    async def open(self, host: str, port: int, hello: bytes) -> FrameConnection:
        """Open a connection and send its first bytes.

        Raises
        ------
        OSError, ValueError
            Nobody is there, or the handshake of TLS failed.
        """
        ...

    def drop(self, connection: FrameConnection) -> None:
        """Close a connection."""
        ...

    def close(self, idle: IdleConnections[FrameConnection]) -> None:
        """Close what is idle; may be called from any thread."""
        ...


class FrameCalls:
    """The connections of one client to one address. Shared by those who share the client."""

    def __init__(self, address: str, token: str | None, clock: Clock, connector: Connector) -> None:
        host, _, port = address.rpartition(":")
        self._host, self._port = host.strip("[]"), int(port)
        self._address = address
        self._now = clock.monotonic_seconds
        self._hello = MAGIC + framed((token or "").encode())
        self._connector = connector
        self._idle = IdleConnections(connector.drop, clock.monotonic_seconds)
        self._avoided_until = 0.0
        self._has_told = False
        self._numbers = itertools.count(1)
        self._is_closed = False

    async def call(
        self, request: pb.LookupRequest, seconds: float
    ) -> pb.LookupReply | Failure | None:
        """Ask; None where the caller has to use gRPC.

        Parameters
        ----------
        request : LookupRequest
            Gets a number, and how long it may take.
        """
        connector = self._connector
        if (self._avoided_until and self._now() < self._avoided_until) or not connector.is_usable:
            return None
        request.id = next(self._numbers)
        request.wait_ms = max(int(seconds * 1000), 1)
        message = framed(request.SerializeToString())
        while True:
            idle = self._idle_one()
            if idle is None and self._is_closed:
                return None  # closed while it waited; gRPC tells why
            try:
                connection = idle or await connector.open(self._host, self._port, self._hello)
            except (OSError, ValueError) as error:
                self._avoid()
                self._tell(error)
                return None
            try:
                reply = pb.LookupReply.FromString(await connection.ask(message, seconds))
            except TimeoutError:
                connector.drop(connection)
                said = f"no answer within {seconds:.1f} seconds"
                code = grpc.StatusCode.DEADLINE_EXCEEDED
                return failure_of_status(code, "", said, address=self._address)
            except (EOFError, DecodeError):
                connector.drop(connection)
                if idle is None:
                    self._avoid()
                    return None
            except BaseException:  # interrupted: the reply would be taken for the next one's
                connector.drop(connection)
                raise
            else:
                break
        outcome, is_whole = self._outcome(reply, request.id)
        if is_whole and connector.is_usable:
            self._idle.give_back(connection)
        else:
            connector.drop(connection)
        return outcome

    def _idle_one(self) -> FrameConnection | None:
        while (connection := self._idle.take()) is not None:
            if connection.is_open:
                return connection
            self._connector.drop(connection)
        return None

    def _avoid(self) -> None:
        """Use gRPC alone for a while: the server had no place, or did not answer."""
        self._avoided_until = self._now() + AVOIDED_SECONDS

    def _tell(self, error: Exception) -> None:
        """Say once why TLS fails: where gRPC answers nevertheless, nothing else would.

        A server without a place closes within the handshake, which is no failure of TLS.
        """
        if self._has_told or isinstance(error, ssl.SSLEOFError):
            return
        if isinstance(error, (ssl.SSLError, ValueError)):
            self._has_told = True
            _LOG.warning(
                "lookups from %s go by gRPC, which is slower: TLS for frames failed (%s). %s",
                self._address,
                error,
                advice_of(str(error)) or "The service's own log may tell more.",
            )

    def _outcome(
        self, reply: pb.LookupReply, number: int
    ) -> tuple[pb.LookupReply | Failure | None, bool]:
        """What a reply to a request means (None: use gRPC); whether the connection is kept."""
        if not reply.HasField("problem"):
            if reply.id == number:
                return reply, True
            self._avoid()
            return None, False
        problem = reply.problem
        is_of_request = reply.id == number
        if not is_of_request and problem.code == NO_PLACE:
            self._avoid()  # the server refused the session, and has closed it
            return None, False
        failure = failure_of_status(
            CODES.get(problem.code, grpc.StatusCode.UNKNOWN),
            problem.reason,
            problem.message,
            address=self._address,
            bucket_counts={one.slice: one.buckets for one in problem.buckets},
        )
        return failure, is_of_request

    def close(self) -> None:
        """Close what is idle; what is in use is closed when it comes back."""
        self._is_closed = True
        self._connector.close(self._idle)
