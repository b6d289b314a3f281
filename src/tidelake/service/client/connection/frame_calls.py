"""Calls by frames, for blocking callers: :mod:`tidelake.service.protocol.framing`.

A call takes an idle socket, or opens one, and gives it back. Nobody else uses it meanwhile, so the
reply is read by the caller's own thread. Where the server has no place, or the connection breaks
before a reply, the caller uses gRPC, which tells what is wrong.
"""

from __future__ import annotations

import itertools
import socket
import time
from collections import deque

import grpc
from google.protobuf.message import DecodeError

from tidelake.service.client.connection.failures import Failure, failure_of_status
from tidelake.service.protocol import tidelake_query_v1_pb2 as pb
from tidelake.service.protocol.framing import MAGIC, framed, read_frame

__all__ = ["FrameCalls"]

CONNECT_SECONDS = 1.0
AVOIDED_SECONDS = 5.0
"""How long gRPC alone is used after the server had no place or did not answer."""
NO_PLACE = grpc.StatusCode.RESOURCE_EXHAUSTED.value[0]
CODES = {code.value[0]: code for code in grpc.StatusCode}


class FrameCalls:
    """The sockets to one address. Threads share it.

    Parameters
    ----------
    address : str
        ``host:port``.
    token : str, optional
        Says who the caller is.
    answer_bytes_max : int
        The largest answer that is taken.
    """

    def __init__(self, address: str, token: str | None, *, answer_bytes_max: int) -> None:
        host, _, port = address.rpartition(":")
        self._place = (host.strip("[]"), int(port))
        self._address = address
        self._token = (token or "").encode()
        self._answer_bytes_max = answer_bytes_max
        self._idle: deque[socket.socket] = deque()
        self._avoided_until = 0.0
        self._numbers = itertools.count(1)
        self._is_closed = False

    def call(self, request: pb.LookupRequest, seconds: float) -> pb.LookupReply | Failure | None:
        """Ask; None where the caller has to use gRPC.

        Parameters
        ----------
        request : LookupRequest
            Gets a number, and how long it may take.
        seconds : float
            How long to wait.
        """
        if self._avoided_until and time.monotonic() < self._avoided_until:
            return None
        request.id = next(self._numbers)
        request.wait_ms = max(int(seconds * 1000), 1)
        message = framed(request.SerializeToString())
        while True:
            try:
                connection, is_new = self._idle.pop(), False
            except IndexError:
                opened = self._opened()
                if opened is None:
                    return None
                connection, is_new = opened, True
            reply = self._asked(connection, message, seconds)
            if isinstance(reply, Failure):
                return reply
            if reply is not None:
                break
            if is_new:
                self._avoid()
                return None
        if reply.HasField("problem"):
            return self._failed(connection, reply, request.id)
        if reply.id != request.id:
            connection.close()
            self._avoid()
            return None
        self._give_back(connection)
        return reply

    def _asked(
        self, connection: socket.socket, message: bytes, seconds: float
    ) -> pb.LookupReply | Failure | None:
        """The reply; None, and the socket closed, where the connection breaks."""
        try:
            connection.settimeout(seconds)
            connection.sendall(message)
            found = read_frame(connection, self._answer_bytes_max)
            if found is not None:
                return pb.LookupReply.FromString(found)
        except TimeoutError:
            connection.close()
            said = f"no answer within {seconds:.1f} seconds"
            return failure_of_status(
                grpc.StatusCode.DEADLINE_EXCEEDED, "", said, address=self._address
            )
        except (OSError, EOFError, ValueError, DecodeError):
            connection.close()
            return None
        except BaseException:  # an interrupt: the reply would be taken for the next one's
            connection.close()
            raise
        connection.close()
        return None

    def _failed(
        self, connection: socket.socket, reply: pb.LookupReply, number: int
    ) -> Failure | None:
        problem = reply.problem
        if reply.id == number:
            self._give_back(connection)
        else:
            connection.close()  # the server refused the session, and has closed it
            if problem.code == NO_PLACE:
                self._avoid()
                return None
        return failure_of_status(
            CODES.get(problem.code, grpc.StatusCode.UNKNOWN),
            problem.reason,
            problem.message,
            address=self._address,
            bucket_counts={one.slice: one.buckets for one in problem.buckets},
        )

    def _opened(self) -> socket.socket | None:
        try:
            connection = socket.create_connection(self._place, CONNECT_SECONDS)
        except OSError:
            self._avoid()
            return None
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            connection.sendall(MAGIC + framed(self._token))
        except OSError:
            connection.close()
            self._avoid()
            return None
        return connection

    def _avoid(self) -> None:
        self._avoided_until = time.monotonic() + AVOIDED_SECONDS

    def _give_back(self, connection: socket.socket) -> None:
        self._idle.append(connection)
        if self._is_closed:
            self.close()

    def close(self) -> None:
        """Close what is idle; what is in use is closed when it comes back."""
        self._is_closed = True
        while True:
            try:
                self._idle.pop().close()
            except IndexError:
                return
