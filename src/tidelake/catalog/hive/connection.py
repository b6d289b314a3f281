"""Connections to a Hive Metastore by Thrift: one for each thread, and a new one for each change.

A connection that was idle may be closed at the other end, which shows only when it is used. A read
is then asked once more. A change goes over a connection of its own, so one that fails before it is
sent has no effect, and only a lost answer is unknown.

Several addresses are tried in order. Kerberos, TLS and HTTP are not spoken.
"""

from __future__ import annotations

import functools
import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from tidelake.catalog.hive._optional import load
from tidelake.errors import InvalidInputError, OutcomeUnknownError, StorageRefusedError, shortened

IDL = Path(__file__).with_name("metastore.thrift")
SCHEME = "thrift://"
PORT = 9083
CONNECT_MS_MAX = 20_000
PORT_MAX = 65_535


@functools.cache
def protocol() -> Any:
    """The metastore's structs and service, of ``metastore.thrift``."""
    return load("thriftpy2").load(str(IDL), module_name="tidelake_metastore_thrift")


def parse_addresses(uri: str) -> tuple[tuple[str, int], ...]:
    """Hosts and ports of ``thrift://host:port``, with commas between.

    Raises
    ------
    InvalidInputError
        It is none.

    Examples
    --------
    >>> parse_addresses("thrift://a:9083,thrift://b")
    (('a', 9083), ('b', 9083))
    """
    found = []
    for part in uri.split(","):
        host, _, port = part.strip().removeprefix(SCHEME).rstrip("/").rpartition(":")
        if not host:
            host, port = port, str(PORT)
        is_port = port.isdecimal() and 0 < int(port) <= PORT_MAX
        if not (part.strip().startswith(SCHEME) and host and is_port) or "@" in host or "/" in host:
            message = (
                f"Catalog option 'uri' has {shortened(repr(part.strip()))}: a metastore's address"
                f" is '{SCHEME}host:{PORT}', several with commas between."
            )
            raise InvalidInputError(message, kind="catalog_option", option="uri")
        found.append((host, int(port)))
    return tuple(found)


class MetastoreConnection:
    """Calls a metastore. Thread-safe; a copy in another process connects itself.

    Parameters
    ----------
    addresses : tuple of (str, int)
        Tried in order.
    timeout_ms : int
        Longest wait for an answer.
    user : str
        Whom the metastore takes the caller for.
    """

    def __init__(
        self, addresses: tuple[tuple[str, int], ...], *, timeout_ms: int, user: str
    ) -> None:
        self.addresses = addresses
        self.timeout_ms = timeout_ms
        self.user = user
        self._local = threading.local()

    def __reduce__(self) -> tuple[object, ...]:
        return (_arrived, (self.addresses, self.timeout_ms, self.user))

    @property
    def shown(self) -> str:
        """The addresses, as users write them."""
        return ",".join(f"{SCHEME}{host}:{port}" for host, port in self.addresses)

    def read(self, method: str, *arguments: object) -> Any:
        """Ask; once more on a new connection if the old one was lost.

        Raises
        ------
        StorageRefusedError
            The metastore cannot be reached, or gave no answer.
        """
        held = getattr(self._local, "held", None)
        if held is not None and held[0] == os.getpid():
            try:
                return getattr(held[1], method)(*arguments)
            except _lost() as error:
                self._close()
                if _is_timeout(error):
                    raise self._unreachable(error) from error
        client = self._connected()
        self._local.held = (os.getpid(), client)
        try:
            return getattr(client, method)(*arguments)
        except _lost() as error:
            self._close()
            raise self._unreachable(error) from error

    def change(self, what: str, method: str, *arguments: object) -> Any:
        """Change something.

        Parameters
        ----------
        what : str
            What happens, for a message: ``"table 'db.t' was created"``.

        Raises
        ------
        StorageRefusedError
            The metastore cannot be reached. Nothing was done.
        OutcomeUnknownError
            It gave no answer.
        """
        client = self._connected()
        try:
            return getattr(client, method)(*arguments)
        except _lost() as error:
            message = (
                f"It is unknown whether {what}: the metastore {self.shown} gave no answer"
                f" ({_why(error)}). Look at it before you try again."
            )
            raise OutcomeUnknownError(message, kind="catalog_lost", path=self.shown) from error
        finally:
            client.close()

    def _connected(self) -> Any:
        """Open a connection to the first address that answers."""
        failures = []
        for host, port in self.addresses:
            client = None
            try:
                client = self._client(host, port)
                client.set_ugi(self.user, [])
            except _lost() as error:
                failures.append(error)
                if client is not None:
                    client.close()
            else:
                return client
        raise self._unreachable(failures[-1]) from failures[-1]

    def _client(self, host: str, port: int) -> Any:
        socket = load("thriftpy2.transport").TSocket(
            host,
            port,
            connect_timeout=min(self.timeout_ms, CONNECT_MS_MAX),
            socket_timeout=self.timeout_ms,
        )
        buffered = load("thriftpy2.transport").TBufferedTransportFactory().get_transport(socket)
        binary = load("thriftpy2.protocol").TBinaryProtocolFactory().get_protocol(buffered)
        buffered.open()
        return load("thriftpy2.rpc").TClient(protocol().ThriftHiveMetastore, binary)

    def _unreachable(self, error: Exception) -> StorageRefusedError:
        message = (
            f"The metastore {self.shown} does not answer: {_why(error)}. Check its address, and"
            " that it is a Hive Metastore without Kerberos, TLS and HTTP, which are not supported."
        )
        return StorageRefusedError(message, kind="catalog_unreachable", path=self.shown)

    def _close(self) -> None:
        held, self._local.held = getattr(self._local, "held", None), None
        if held is not None and held[0] == os.getpid():
            with suppress(OSError):
                held[1].close()


def _arrived(
    addresses: tuple[tuple[str, int], ...], timeout_ms: int, user: str
) -> MetastoreConnection:
    return MetastoreConnection(addresses, timeout_ms=timeout_ms, user=user)


@functools.cache
def _lost() -> tuple[type[Exception], ...]:
    """Errors of a connection, not of the metastore.

    An answer that is no Thrift ends as any error of the decoder.
    """
    errors = load("thriftpy2.thrift")
    transport = load("thriftpy2.transport").TTransportException
    decoder = load("thriftpy2.protocol.exc").TProtocolException
    return (OSError, transport, decoder, errors.TApplicationException, *_OF_DECODER)


_OF_DECODER = (EOFError, ValueError, MemoryError, AssertionError)


def _is_timeout(error: Exception) -> bool:
    return isinstance(error, TimeoutError)


def _why(error: Exception) -> str:
    said = getattr(error, "message", None) or str(error) or type(error).__name__
    return shortened(" ".join(str(said).split()).removesuffix("."))
