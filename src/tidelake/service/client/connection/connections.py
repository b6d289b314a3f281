"""Connections of one client: a gRPC channel per address, made at first use and kept.

Channels share nothing with those of other users of gRPC in the process (Spark Connect is one): each
has its own connections, and no setting is global. A channel connects again by itself within 200 ms;
gRPC's own default, many seconds, would decide how long a restart is felt.
"""

from __future__ import annotations

import ipaddress
import ssl
import threading
from collections.abc import Collection
from dataclasses import dataclass, field, replace

import grpc

from tidelake.engine.env import Clock
from tidelake.errors import ClosedError, InvalidInputError
from tidelake.service.client.connection.caller import ClientCaller
from tidelake.service.client.connection.frame_calls import FrameCalls
from tidelake.service.client.connection.tls import Tls, TlsTarget
from tidelake.service.protocol.reasons import TOKEN_KEY, bearer
from tidelake.service.protocol.tidelake_query_v1_pb2_grpc import AddressStub, TableQueryStub

ANSWER_BYTES_MAX = 72 << 20
"""Above the largest answer that a server gives by default, 64 MiB."""

OPTIONS = (
    ("grpc.initial_reconnect_backoff_ms", 20),
    ("grpc.min_reconnect_backoff_ms", 20),
    ("grpc.max_reconnect_backoff_ms", 200),
    ("grpc.max_receive_message_length", ANSWER_BYTES_MAX),
    ("grpc.max_send_message_length", -1),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),
)


@dataclass(frozen=True, slots=True)
class Connection:
    """One address: its channel and calls."""

    address: str
    channel: grpc.Channel
    table_query: TableQueryStub
    address_server: AddressStub
    frames: FrameCalls | None = None


@dataclass(slots=True)
class Connections:
    """The channels of one client. Threads share it."""

    tls: Tls | None
    token: str | None
    clock: Clock
    caller: ClientCaller
    _made: dict[tuple[str, bool, str, str], Connection] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _context: ssl.SSLContext | None = None
    _is_closed: bool = False

    def to(
        self, address: str, *, secure: bool, server_name: str = "", frames: str = ""
    ) -> Connection:
        """The connection to an address.

        Parameters
        ----------
        secure : bool
            Whether it answers by TLS.
        server_name : str
            The name in its certificate, if it is not the host's.
        frames : str
            Where it takes frames, if anywhere.

        Raises
        ------
        ClosedError
            The client was closed.
        InvalidInputError
            The token would go over the network unencrypted, or a file of TLS cannot be read.
        """
        secure = secure or self.tls is not None  # a service that claims less is not believed
        place = (address, secure, server_name, frames)
        found = self._made.get(place)
        if found is not None:
            return found
        if self.token is not None and not secure and not is_loopback(address):
            message = (
                f"The service at {address} does not use TLS, so the token would be sent in the"
                " clear: start the service with TLS, or leave out the token."
            )
            raise InvalidInputError(message, kind="service_access", address=address)
        with self._lock:
            if self._is_closed:
                message = "The client was closed while it asked: open another."
                raise ClosedError(message, address=address)
            if place not in self._made:
                tls, target = None, None
                if secure:
                    tls = self.tls or Tls()
                    tls = replace(tls, server_name=tls.server_name or server_name or None)
                    self._context = self._context or tls.context()
                    target = TlsTarget(self._context, tls.server_name or host_of(address))
                channel = _channel(address, tls)
                self._made[place] = Connection(
                    address,
                    channel,
                    TableQueryStub(channel),  # type: ignore[no-untyped-call]
                    AddressStub(channel),  # type: ignore[no-untyped-call]
                    self._frames(frames, target) if frames else None,
                )
            return self._made[place]

    def _frames(self, address: str, tls: TlsTarget | None) -> FrameCalls:
        """Calls by frames."""
        connector = self.caller.connector(ANSWER_BYTES_MAX, tls)
        return FrameCalls(address, self.token, self.clock, connector)

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """What each call says besides its message."""
        return () if self.token is None else ((TOKEN_KEY, bearer(self.token)),)

    def keep_only(self, addresses: Collection[str]) -> None:
        """Close the channels to all other addresses; calls on them fail and are repeated."""
        with self._lock:
            gone = [place for place in self._made if place[0] not in addresses]
            closed = [self._made.pop(place) for place in gone]
        for connection in closed:
            connection.channel.close()
            if connection.frames is not None:
                connection.frames.close()

    def close(self) -> None:
        """Close all; who asks for another gets an error."""
        self._is_closed = True
        self.keep_only(())


def _channel(address: str, tls: Tls | None) -> grpc.Channel:
    if tls is None:
        return grpc.insecure_channel(address, options=OPTIONS)
    name = tls.server_name
    named = (("grpc.ssl_target_name_override", name),) if name else ()
    credentials = grpc.ssl_channel_credentials(*tls.files())
    return grpc.secure_channel(address, credentials, options=(*OPTIONS, *named))


def host_of(address: str) -> str:
    """The host of an address with a port.

    Examples
    --------
    >>> host_of("127.0.0.1:80"), host_of("[::1]:80")
    ('127.0.0.1', '::1')
    """
    return address.rpartition(":")[0].strip("[]")


def is_loopback(address: str) -> bool:
    """Whether an address is on this machine only.

    Examples
    --------
    >>> is_loopback("127.0.0.1:80"), is_loopback("[::1]:80"), is_loopback("10.0.0.7:80")
    (True, True, False)
    """
    host = host_of(address)
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
