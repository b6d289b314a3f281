"""Calls by frames, for blocking callers: :mod:`tidelake.service.protocol.framing`.

A call takes an idle socket, or opens one, and gives it back. Nobody else uses it meanwhile, so the
reply is read by the caller's own thread. Where the server has no place, or the connection breaks
before a reply, the caller uses gRPC, which tells what is wrong.
"""

from __future__ import annotations

import itertools
import socket

import grpc
from google.protobuf.message import DecodeError

from tidelake.engine.env import Clock
from tidelake.service.client.connection.failures import Failure, failure_of_status
from tidelake.service.client.connection.idle_connections import IdleConnections
from tidelake.service.protocol import tidelake_query_v1_pb2 as pb
from tidelake.service.protocol.framing import (
    MAGIC,
    FrameReader,
    framed,
    wait_at_most,
)

CONNECT_SECONDS = 1.0
SLACK = 1.05
"""The time for a call may be so much longer than was said: it is not set again for each."""
AVOIDED_SECONDS = 5.0
"""How long gRPC alone is used after the server had no place or did not answer."""
NO_PLACE = grpc.StatusCode.RESOURCE_EXHAUSTED.value[0]
CODES = {code.value[0]: code for code in grpc.StatusCode}


class FrameState:
    """What the calls to one address share, those of threads and those of coroutines."""

    def __init__(self, address: str, token: str | None, clock: Clock) -> None:
        host, _, port = address.rpartition(":")
        self.place = (host.strip("[]"), int(port))
        self.address = address
        self.now = clock.monotonic_seconds
        self.token = (token or "").encode()
        self._avoided_until = 0.0
        self._numbers = itertools.count(1)

    @property
    def is_avoided(self) -> bool:
        """Whether gRPC alone is to be used for a while."""
        return bool(self._avoided_until) and self.now() < self._avoided_until

    def avoid(self) -> None:
        """Use gRPC alone for a while: the server had no place, or did not answer."""
        self._avoided_until = self.now() + AVOIDED_SECONDS

    def message(self, request: pb.LookupRequest, seconds: float) -> bytes:
        """A request as a frame, with a number, and how long it may take."""
        request.id = next(self._numbers)
        request.wait_ms = max(int(seconds * 1000), 1)
        return framed(request.SerializeToString())

    def outcome(
        self, reply: pb.LookupReply, number: int
    ) -> tuple[pb.LookupReply | Failure | None, bool]:
        """What a reply to a request means (None: use gRPC); whether the connection is kept."""
        if not reply.HasField("problem"):
            if reply.id == number:
                return reply, True
            self.avoid()
            return None, False
        problem = reply.problem
        is_of_request = reply.id == number
        if not is_of_request and problem.code == NO_PLACE:
            self.avoid()  # the server refused the session, and has closed it
            return None, False
        failure = failure_of_status(
            CODES.get(problem.code, grpc.StatusCode.UNKNOWN),
            problem.reason,
            problem.message,
            address=self.address,
            bucket_counts={one.slice: one.buckets for one in problem.buckets},
        )
        return failure, is_of_request


class _Socket:
    """A blocking socket; the system itself ends what waits too long.

    A timeout of Python's costs four calls of the system for each request.
    """

    __slots__ = ("_connection", "_limit_seconds", "_reader")

    def __init__(self, connection: socket.socket, answer_bytes_max: int) -> None:
        connection.settimeout(None)
        self._connection = connection
        self._reader = FrameReader(connection, answer_bytes_max)
        self._limit_seconds = 0.0

    def asked(self, message: bytes, seconds: float) -> bytes | None:
        """Send a frame and read the next."""
        if not seconds <= self._limit_seconds <= seconds * SLACK:
            self._limit_seconds = seconds * SLACK
            for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
                wait_at_most(self._connection, option, self._limit_seconds)
        self._connection.sendall(message)
        return self._reader.read()

    def close(self) -> None:
        """Close it."""
        self._connection.close()


class FrameCalls:
    """The sockets to one address. Threads share it.

    Parameters
    ----------
    answer_bytes_max : int
        The largest answer that is taken.
    """

    def __init__(
        self, address: str, token: str | None, clock: Clock, *, answer_bytes_max: int
    ) -> None:
        self._state = FrameState(address, token, clock)
        self._answer_bytes_max = answer_bytes_max
        self._idle = IdleConnections(_Socket.close, clock.monotonic_seconds)

    def call(self, request: pb.LookupRequest, seconds: float) -> pb.LookupReply | Failure | None:
        """Ask; None where the caller has to use gRPC.

        Parameters
        ----------
        request : LookupRequest
            Gets a number, and how long it may take.
        """
        if self._state.is_avoided:
            return None
        message = self._state.message(request, seconds)
        while True:
            idle = self._idle.take()
            connection = idle or self._opened()
            if connection is None:
                return None
            reply = self._asked(connection, message, seconds)
            if isinstance(reply, Failure):
                return reply
            if reply is not None:
                break
            if idle is None:
                self._state.avoid()
                return None
        outcome, is_whole = self._state.outcome(reply, request.id)
        if is_whole:
            self._idle.give_back(connection)
        else:
            connection.close()
        return outcome

    def _asked(
        self, connection: _Socket, message: bytes, seconds: float
    ) -> pb.LookupReply | Failure | None:
        """The reply; None, and the socket closed, where the connection breaks."""
        try:
            found = connection.asked(message, seconds)
            if found is not None:
                return pb.LookupReply.FromString(found)
        except (TimeoutError, BlockingIOError):
            connection.close()
            said = f"no answer within {seconds:.1f} seconds"
            return failure_of_status(
                grpc.StatusCode.DEADLINE_EXCEEDED, "", said, address=self._state.address
            )
        except (OSError, EOFError, ValueError, DecodeError):
            connection.close()
            return None
        except BaseException:  # an interrupt: the reply would be taken for the next one's
            connection.close()
            raise
        connection.close()
        return None

    def _opened(self) -> _Socket | None:
        try:
            connection = socket.create_connection(self._state.place, CONNECT_SECONDS)
        except OSError:
            self._state.avoid()
            return None
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            connection.sendall(MAGIC + framed(self._state.token))
        except OSError:
            connection.close()
            self._state.avoid()
            return None
        return _Socket(connection, self._answer_bytes_max)

    def close(self) -> None:
        """Close what is idle; what is in use is closed when it comes back."""
        self._idle.close()
