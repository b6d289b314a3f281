"""Who may connect: addresses to listen at, TLS, and the file of tokens.

1. On the loopback interface nothing is needed.
2. Anywhere else it takes a certificate with its key and a file of tokens, unless `insecure` says
   that everybody on the network may read the tables.
3. With `tls_ca` clients show certificates that it signed (mutual TLS). Executors and the address
   server show the service's own.

Paths are read by each process of the service, on its own machine.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path

import grpc

from tidelake.errors import InvalidInputError

LOOPBACK = "127.0.0.1"
PORT_MAX = 65_535
_EVERYWHERE = frozenset({"", "*", "0.0.0.0", "::"})


@dataclass(frozen=True, slots=True)
class Security:
    """How connections are protected. Picklable: paths, no keys.

    Parameters
    ----------
    tls_ca : str, optional
        Path of the certificates that sign clients' certificates, as PEM: mutual TLS.
    tls_server_name : str, optional
        The name in the certificate, if it is not the host's.
    insecure : bool
        Whether other addresses than loopback need neither TLS nor tokens.
    """

    tls_cert: str | None = None
    tls_key: str | None = None
    tls_ca: str | None = None
    tls_server_name: str | None = None
    tokens: str | None = None
    insecure: bool = False

    @property
    def has_tls(self) -> bool:
        """Whether connections are by TLS."""
        return self.tls_cert is not None

    def check(self, host: str) -> None:
        """Refuse to listen at a host without what it takes.

        Raises
        ------
        InvalidInputError
            A certificate without its key, or a host that others reach without TLS or tokens.

        Examples
        --------
        >>> Security().check("127.0.0.1")
        >>> Security(insecure=True).check("0.0.0.0")
        """
        if (self.tls_cert is None) != (self.tls_key is None):
            message = "TLS takes both a certificate and its key: give tls_cert and tls_key."
            raise InvalidInputError(message, kind="service_security")
        if self.tls_ca is not None and self.tls_cert is None:
            message = "Mutual TLS takes a certificate of the service too: give tls_cert, tls_key."
            raise InvalidInputError(message, kind="service_security")
        if self.insecure or _is_loopback(host):
            return
        missing = []
        if self.tls_cert is None:
            missing.append("TLS (tls_cert, tls_key)")
        if self.tokens is None:
            missing.append("a file of tokens (tokens)")
        if missing:
            message = (
                f"To listen at '{host or '*'}', where others connect, takes"
                f" {' and '.join(missing)}. Give them, listen at 127.0.0.1, or say insecure=True"
                " (--insecure) to let everybody on the network read the tables."
            )
            raise InvalidInputError(message, kind="service_security", host=host)

    def server_credentials(self) -> grpc.ServerCredentials | None:
        """What a server listens with; None without TLS.

        Raises
        ------
        InvalidInputError
            A file cannot be read, or the key is not the certificate's.
        """
        if self.tls_cert is None or self.tls_key is None:
            return None
        pair = (_pem(self.tls_key, "key"), _pem(self.tls_cert, "certificate"))
        _pair_context(self.tls_cert, self.tls_key)  # gRPC does not say why it cannot listen
        roots = None if self.tls_ca is None else self._roots()
        return grpc.ssl_server_credentials(
            [pair], root_certificates=roots, require_client_auth=roots is not None
        )

    def server_context(self) -> ssl.SSLContext | None:
        """What a socket of frames is wrapped by; None without TLS. It believes whom gRPC believes.

        Raises
        ------
        InvalidInputError
            A file cannot be read, or the key is not the certificate's.
        """
        if self.tls_cert is None or self.tls_key is None:
            return None
        context = _pair_context(self.tls_cert, self.tls_key)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION
        context.num_tickets = 0  # connections are kept, so nobody would come back with one
        if self.tls_ca is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            # as gRPC does: a certificate of the file is believed, whether it signed itself or not
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
            for path, what in ((self.tls_ca, "CA"), (self.tls_cert, "certificate")):
                _trust(context, path, what)
        return context

    def channel(self, address: str) -> grpc.Channel:
        """A channel from one process of the service to another."""
        options: list[tuple[str, object]] = [
            ("grpc.enable_http_proxy", 0),
            ("grpc.max_reconnect_backoff_ms", 500),
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.max_receive_message_length", -1),
        ]
        if self.tls_cert is None or self.tls_key is None:
            return grpc.insecure_channel(address, options=options)
        if self.tls_server_name is not None:
            options.append(("grpc.ssl_target_name_override", self.tls_server_name))
        own = (_pem(self.tls_key, "key"), _pem(self.tls_cert, "certificate"))
        credentials = grpc.ssl_channel_credentials(self._roots(), *own)
        return grpc.secure_channel(address, credentials, options=options)

    def _roots(self) -> bytes:
        """Certificates that are believed: the CA's, and the service's own if it signed itself."""
        assert self.tls_cert is not None
        roots = _pem(self.tls_cert, "certificate")
        return roots if self.tls_ca is None else _pem(self.tls_ca, "CA") + b"\n" + roots


def split_address(text: str) -> tuple[str, int]:
    """Host and port of ``host``, ``host:port`` or ``[v6]:port``; port 0 lets the system choose.

    Raises
    ------
    InvalidInputError
        It is no such text.

    Examples
    --------
    >>> split_address("127.0.0.1"), split_address("[::1]:9000"), split_address("0.0.0.0:80")
    (('127.0.0.1', 0), ('::1', 9000), ('0.0.0.0', 80))
    """
    host, port = text, ""
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        port = rest.removeprefix(":")
    elif text.count(":") == 1:
        host, port = text.split(":")
    if (
        (port and not port.isdecimal())
        or (port and int(port) > PORT_MAX)
        or any(c in host for c in " /")
    ):
        message = f"'{text}' is no address: give host or host:port, as 127.0.0.1:9090."
        raise InvalidInputError(message, kind="service_address")
    return host, int(port or 0)


def host_of(bind: str) -> str:
    """The host of an address, as an address whose port the system chooses.

    Examples
    --------
    >>> host_of("127.0.0.1:9090"), host_of("[::1]:9090")
    ('127.0.0.1', '[::1]')
    """
    host = split_address(bind)[0]
    return f"[{host}]" if ":" in host else host


def advertised_host(host: str) -> str:
    """The host by which others reach a server that listens at `host`."""
    return socket.gethostname() if host in _EVERYWHERE else host


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _pair_context(certificate: str, key: str) -> ssl.SSLContext:
    """A context of a server with this certificate; refuses files that are no pair."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(certificate, key, password=lambda: "")
    except (OSError, ValueError) as error:  # SSLError is an OSError; no password: ValueError
        message = (
            f"The certificate {certificate} and the key {key} do not make a pair: {error}. Give the"
            " key of that very certificate, both as PEM and without a password."
        )
        raise InvalidInputError(message, kind="service_security", path=key) from error
    return context


def _trust(context: ssl.SSLContext, path: str, what: str) -> None:
    """Believe those whom the certificates of a file signed."""
    try:
        context.load_verify_locations(path)
    except OSError as error:
        message = f"The {what} {path} cannot be used: {error}. Give certificates as PEM."
        raise InvalidInputError(message, kind="service_security", path=path) from error


def _pem(path: str, what: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        message = f"The {what} {path} cannot be read: {error.strerror}."
        raise InvalidInputError(message, kind="service_security", path=path) from error
