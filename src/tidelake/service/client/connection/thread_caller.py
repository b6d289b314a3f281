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
from tidelake.service.protocol.framing import FrameReader, wait_at_most

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

    def connector(self, answer_bytes_max: int) -> BlockingConnector:
        """Make what opens connections to an address."""
        return BlockingConnector(answer_bytes_max)

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
    """

    is_usable = True

    def __init__(self, answer_bytes_max: int) -> None:
        self._answer_bytes_max = answer_bytes_max

    async def open(self, host: str, port: int, hello: bytes) -> BlockingConnection:
        """Open a socket and send its first bytes."""
        opened = socket.create_connection((host, port), CONNECT_SECONDS)
        try:
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            opened.sendall(hello)
        except OSError:
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
    """A blocking socket; the system itself ends what waits too long.

    A timeout of Python's costs four calls of the system for each request.
    """

    __slots__ = ("_limit_seconds", "_reader", "_socket")

    is_open = True

    def __init__(self, opened: socket.socket, answer_bytes_max: int) -> None:
        opened.settimeout(None)
        self._socket = opened
        self._reader = FrameReader(opened, answer_bytes_max)
        self._limit_seconds = 0.0

    async def ask(self, message: bytes, seconds: float) -> bytes:
        """Send a frame and read the next."""
        if not seconds <= self._limit_seconds <= seconds * SLACK:
            self._limit_seconds = seconds * SLACK
            for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
                wait_at_most(self._socket, option, self._limit_seconds)
        try:
            self._socket.sendall(message)
            found = self._reader.read()
        except BlockingIOError as error:
            raise TimeoutError from error
        except TimeoutError:
            raise
        except (OSError, ValueError) as error:
            raise EOFError from error
        if found is None:
            raise EOFError
        return found

    def close(self) -> None:
        """Close it."""
        self._socket.close()
