"""Who asks the query service: threads or coroutines.

All of the client is written once, as coroutines over a :class:`ClientCaller`. With that of threads
they block and never suspend (:func:`tidelake.service.client.connection.thread_caller.finished`);
with that of coroutines the event loop goes on while they wait.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, ParamSpec, Protocol, TypeVar

from tidelake.service.client.connection.frame_calls import Connector
from tidelake.service.client.connection.tls import TlsTarget

R = TypeVar("R")
P = ParamSpec("P")
CONNECT_SECONDS = 1.0
"""How long a connection may take to open; a handshake of threads as long again."""
Waiter = Any
"""What one caller waits on and another wakes: a lock of threads, a future of coroutines."""


class ClientCaller(Protocol):
    """How a client waits."""

    @property
    def gathers(self) -> bool:
        """Whether a get lets others begin before it is sent."""
        ...

    def waiter(self) -> Waiter:
        """Make what a get waits on."""
        ...

    def wait(self, waiter: Waiter, seconds: float | None) -> Awaitable[bool]:
        """Wait; False where nobody woke it in time."""
        ...

    def wake(self, waiters: Iterable[Waiter]) -> None:
        """End waits, which may begin later."""
        ...

    def connector(self, answer_bytes_max: int, tls: TlsTarget | None) -> Connector:
        """Make what opens connections for frames, by TLS or plain ones."""
        ...

    async def turn(self) -> None:
        """Let others begin."""
        ...

    async def pause(self, ms: float) -> None:
        """Wait."""
        ...

    async def aside(self, work: Callable[P, R], *given: P.args, **named: P.kwargs) -> R:
        """Do what reads files, where nobody is kept from going on."""
        ...

    async def ended(self, call: Any) -> None:
        """Wait for the end of a call by gRPC, if its result is not to be waited for."""
        ...
