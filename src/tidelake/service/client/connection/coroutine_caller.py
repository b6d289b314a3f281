"""How the coroutines of one event loop wait for the query service: the loop goes on."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, ParamSpec, TypeVar

from tidelake.service.client.connection.caller import CONNECT_SECONDS
from tidelake.service.client.connection.frame_calls import FrameConnection
from tidelake.service.client.connection.idle_connections import IdleConnections
from tidelake.service.client.connection.tls import TlsTarget
from tidelake.service.protocol.framing import HEAD

R = TypeVar("R")
P = ParamSpec("P")


class CoroutineCaller:
    """Coroutines of one event loop."""

    gathers = True
    """Gets that are begun in one turn of the loop are sent together."""

    def waiter(self) -> asyncio.Future[bool]:
        """Make what a get waits on."""
        return asyncio.get_running_loop().create_future()

    def wait(self, waiter: asyncio.Future[bool], seconds: float | None) -> asyncio.Future[bool]:
        """Wait; the calls under way end by their own deadlines, and no timer is set."""
        del seconds
        return waiter

    def wake(self, waiters: Iterable[asyncio.Future[bool]]) -> None:
        """End waits."""
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(True)

    def connector(self, answer_bytes_max: int, tls: TlsTarget | None) -> LoopConnector:
        """Make what opens connections to an address."""
        return LoopConnector(answer_bytes_max, tls)

    async def turn(self) -> None:
        """Let the others of this turn of the loop begin."""
        await asyncio.sleep(0)

    async def pause(self, ms: float) -> None:
        """Wait."""
        await asyncio.sleep(ms / 1000)

    async def aside(self, work: Callable[P, R], *given: P.args, **named: P.kwargs) -> R:
        """Do what reads files, in a thread."""
        return await asyncio.to_thread(work, *given, **named)

    async def ended(self, call: Any) -> None:
        """Wait for the end of a call by gRPC."""
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        call.add_done_callback(_LoopSignal(loop, done))
        await done


class _LoopSignal:
    """What gRPC calls, in a thread of its own, when a call has ended."""

    __slots__ = ("_done", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, done: asyncio.Future[None]) -> None:
        self._loop, self._done = loop, done

    def __call__(self, _: Any) -> None:
        with suppress(RuntimeError):  # the loop was closed before its call ended: nobody waits
            self._loop.call_soon_threadsafe(self._set)

    def _set(self) -> None:
        if not self._done.done():
            self._done.set_result(None)


class LoopConnector:
    """Opens connections that one event loop reads.

    Parameters
    ----------
    answer_bytes_max : int
        The largest answer that is taken.
    tls : TlsTarget, optional
        None for plain connections.
    """

    def __init__(self, answer_bytes_max: int, tls: TlsTarget | None = None) -> None:
        self._answer_bytes_max = answer_bytes_max
        self._context = None if tls is None else tls.context
        self._server_name = None if tls is None else tls.server_name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._open: set[LoopConnection] = set()
        self._is_closed = False

    @property
    def is_usable(self) -> bool:
        """Whether the running loop is that of the connections."""
        return not self._is_closed and self._loop in (None, asyncio.get_running_loop())

    async def open(self, host: str, port: int, hello: bytes) -> LoopConnection:
        """Open a connection and send its first bytes."""
        loop = self._loop = asyncio.get_running_loop()
        async with asyncio.timeout(CONNECT_SECONDS):  # what it raises is an OSError
            _, opened = await loop.create_connection(
                lambda: LoopConnection(loop, self._answer_bytes_max),
                host,
                port,
                ssl=self._context,
                server_hostname=self._server_name,
            )
        self._open.add(opened)
        opened.send(hello)
        return opened

    def drop(self, connection: FrameConnection) -> None:
        """Close a connection."""
        assert isinstance(connection, LoopConnection)
        self._open.discard(connection)
        connection.close()

    def close(self, idle: IdleConnections[FrameConnection]) -> None:
        """Close all connections; may be called from another thread than the loop's."""
        self._is_closed = True
        loop = self._loop
        if loop is None:
            return
        with suppress(RuntimeError):
            if asyncio.get_running_loop() is loop:
                self._close_all(idle)
                return
        with suppress(RuntimeError):  # the loop has ended: its connections are closed
            loop.call_soon_threadsafe(self._close_all, idle)

    def _close_all(self, idle: IdleConnections[FrameConnection]) -> None:
        for opened in list(self._open):
            self.drop(opened)
        idle.close()


class LoopConnection(asyncio.Protocol):
    """One connection. For one call at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, size_max: int) -> None:
        self._loop = loop
        self._size_max = size_max
        self._transport: asyncio.Transport | None = None
        self._waiting: asyncio.Future[bytes] | None = None
        self._rest = b""
        self._parts: bytearray | None = None

    @property
    def is_open(self) -> bool:
        """Whether it can be asked."""
        return self._transport is not None and not self._transport.is_closing()

    def send(self, data: bytes) -> None:
        """Send bytes."""
        if self._transport is not None:
            self._transport.write(data)

    async def ask(self, message: bytes, seconds: float) -> bytes:
        """Send a frame and wait for the next."""
        if not self.is_open:
            raise EOFError
        waiting: asyncio.Future[bytes] = self._loop.create_future()
        self._waiting = waiting
        self.send(message)
        timer = self._loop.call_later(seconds, self._end, TimeoutError())
        try:
            return await waiting
        finally:
            timer.cancel()

    def close(self) -> None:
        """Close it, and end the wait of a caller."""
        if self._transport is not None:
            # nobody waits for what was not sent, nor for the other side's farewell by TLS
            self._transport.abort()
        self._end(EOFError())

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        own = transport.get_extra_info("socket")
        own.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the wait of a caller."""
        del exc  # whatever it was, the call is repeated
        self._transport = None
        self._end(EOFError())

    def data_received(self, data: bytes) -> None:
        """Give a whole frame to the caller that waits; an unexpected one closes the connection."""
        if self._parts is None and not self._rest:
            whole = data
        elif self._parts is None:
            whole = self._rest + data
        else:
            self._parts += data
            if len(self._parts) < HEAD.unpack_from(self._parts)[0] + HEAD.size:
                return
            whole = bytes(self._parts)
        self._rest, self._parts = b"", None
        if len(whole) < HEAD.size:
            self._rest = whole
            return
        size = HEAD.unpack_from(whole)[0]
        if size > self._size_max or len(whole) > HEAD.size + size:
            self.close()
        elif len(whole) < HEAD.size + size:
            self._parts = bytearray(whole)
        elif self._waiting is None or self._waiting.done():
            self.close()  # nobody asked
        else:
            self._waiting.set_result(whole[HEAD.size :])
            self._waiting = None

    def _end(self, error: Exception) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None and not waiting.done():
            waiting.set_exception(error)
