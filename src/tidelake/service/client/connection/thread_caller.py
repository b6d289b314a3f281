"""How threads wait for the query service: they block."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, ParamSpec, TypeVar

from tidelake.engine.env import Clock
from tidelake.service.client.connection.caller import CONNECT_SECONDS
from tidelake.service.client.connection.frame_calls import FrameConnection
from tidelake.service.client.connection.idle_connections import IdleConnections
from tidelake.service.client.connection.tls import TlsTarget
from tidelake.service.protocol.framing import WAITED_TOO_LONG, FrameReader, limit_waits

R = TypeVar("R")
P = ParamSpec("P")
SLACK = 1.05
"""The time for a call may be so much longer than was said: it is not set again for each."""


def finished(work: Coroutine[Any, Any, R]) -> R:
    """Run a coroutine of a :class:`ThreadCaller` in this thread; it blocks and never suspends."""
    try:
        work.send(None)
    except StopIteration as end:
        result: R = end.value
        return result
    work.close()
    raise AssertionError("a thread's caller suspended")


class ThreadCaller:
    """Threads: a call blocks its own thread, and no other takes part."""

    gathers = False
    """A lone caller never waits for others."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def waiter(self) -> threading.Lock:
        """Make what a get waits on: a lock that is held until another wakes it."""
        made = threading.Lock()
        made.acquire()
        return made

    async def wait(self, waiter: threading.Lock, seconds: float | None) -> bool:
        """Wait; False where nobody woke it in time."""
        return waiter.acquire(timeout=-1 if seconds is None else seconds)

    def wake(self, waiters: Iterable[threading.Lock]) -> None:
        """End waits."""
        for waiter in waiters:
            waiter.release()

    def connector(self, answer_bytes_max: int, tls: TlsTarget | None) -> BlockingConnector:
        """Make what opens connections to an address."""
        return BlockingConnector(answer_bytes_max, tls)

    async def turn(self) -> None:
        """Do nothing: each thread goes on by itself."""

    async def pause(self, ms: float) -> None:
        """Wait."""
        self._clock.sleep_ms(ms)

    async def aside(self, work: Callable[P, R], *given: P.args, **named: P.kwargs) -> R:
        """Do what reads files."""
        return work(*given, **named)

    async def ended(self, call: Any) -> None:
        """Do nothing: the result of a call by gRPC is waited for when it is taken."""


class BlockingConnector:
    """Opens sockets that block.

    Parameters
    ----------
    answer_bytes_max : int
        The largest answer that is taken.
    tls : TlsTarget, optional
        None for plain sockets.
    """

    is_usable = True

    def __init__(self, answer_bytes_max: int, tls: TlsTarget | None = None) -> None:
        self._answer_bytes_max = answer_bytes_max
        self._tls = tls

    async def open(self, host: str, port: int, hello: bytes) -> BlockingConnection:
        """Open a socket and send its first bytes."""
        opened = socket.create_connection((host, port), CONNECT_SECONDS)
        try:
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:  # its timeout is one for the whole handshake
                context, name = self._tls.context, self._tls.server_name
                opened = context.wrap_socket(opened, server_hostname=name)
            opened.sendall(hello)
        except (OSError, ValueError):
            opened.close()
            raise
        return BlockingConnection(opened, self._answer_bytes_max)

    def drop(self, connection: FrameConnection) -> None:
        """Close a socket."""
        assert isinstance(connection, BlockingConnection)
        connection.close()

    def close(self, idle: IdleConnections[FrameConnection]) -> None:
        """Close what is idle."""
        idle.close()


class BlockingConnection:
    """A socket on which its thread blocks."""

    __slots__ = ("_limit_seconds", "_reader", "_socket")

    is_open = True

    def __init__(self, opened: socket.socket, answer_bytes_max: int) -> None:
        self._socket = opened
        self._reader = FrameReader(opened, answer_bytes_max)
        self._limit_seconds = 0.0

    async def ask(self, message: bytes, seconds: float) -> bytes:
        """Send a frame and read the next."""
        if not seconds <= self._limit_seconds <= seconds * SLACK:
            self._limit_seconds = seconds * SLACK
            limit_waits(self._socket, self._limit_seconds, self._limit_seconds)
        try:
            self._socket.sendall(message)
            found = self._reader.read()
        except WAITED_TOO_LONG as error:
            raise TimeoutError from error
        except (OSError, ValueError) as error:
            raise EOFError from error
        if found is None:
            raise EOFError
        return found

    def close(self) -> None:
        """Close it."""
        self._socket.close()
