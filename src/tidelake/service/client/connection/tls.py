"""How a client proves who it is, and whom it trusts: TLS files, and what their failures mean."""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass
from pathlib import Path

from tidelake.errors import InvalidInputError, shortened

__all__ = ["Tls", "TlsTarget", "advice_of", "tls_of"]

_OTHER_NAME = (
    "Its certificate is for another name: give that name, tls=Tls(ca, server_name=...), or start"
    " the service with tls_server_name."
)
_ADVICE = (
    # the first pattern that is found counts; the words are OpenSSL's and those of gRPC's BoringSSL
    ("Hostname mismatch", _OTHER_NAME),
    ("IP address mismatch", _OTHER_NAME),
    ("Hostname Verification Check failed", _OTHER_NAME),
    ("certificate has expired", "Its certificate has expired: start it again with a new one."),
    ("certificate is not yet valid", "Its certificate is not valid yet: compare the clocks."),
    (
        "CERTIFICATE_VERIFY_FAILED",
        "Its certificate is of another authority: give the PEM file of the one that signed it,"
        " tls='ca.pem'.",
    ),
    (
        "WRONG_VERSION_NUMBER",
        "It does not use TLS: leave out tls, or start it with tls_cert and tls_key.",
    ),
    (
        "failed to connect.*Socket closed",
        "It closed the connection at once: perhaps it asks for a client's certificate,"
        " tls=Tls(ca, certificate, key), or it answers by TLS only, tls='ca.pem'.",
    ),
)


@dataclass(frozen=True, slots=True)
class Tls:
    """Certificates of the client's side. Picklable: the files are read when a connection is made.

    Parameters
    ----------
    ca : str or Path, optional
        PEM file of the authority that signed the servers' certificates; the system's authorities
        by default.
    certificate, key : str or Path, optional
        PEM files by which the client proves who it is (mutual TLS).
    server_name : str, optional
        The name in the servers' certificates, if it is not their host's.
    """

    ca: str | Path | None = None
    certificate: str | Path | None = None
    key: str | Path | None = None
    server_name: str | None = None

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            message = "A client's certificate and its key go together: give both or neither."
            raise InvalidInputError(message, kind="tls")

    def files(self) -> tuple[bytes | None, bytes | None, bytes | None]:
        """The contents of authority, key and certificate.

        Raises
        ------
        InvalidInputError
            A file cannot be read.
        """
        return _content(self.ca), _content(self.key), _content(self.certificate)

    def context(self) -> ssl.SSLContext:
        """What a socket of frames is wrapped by. It believes whom gRPC believes.

        Raises
        ------
        InvalidInputError
            A file cannot be read, has no certificates, or the key is not the certificate's.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # host names are checked
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # as gRPC does: a certificate of the file is believed, whether it signed itself or not
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        self.files()
        try:
            if self.ca is None:
                context.load_default_certs()
            else:
                context.load_verify_locations(self.ca)
        except OSError as error:
            message = f"The PEM file {self.ca} has no certificates of an authority: {error}."
            raise InvalidInputError(message, kind="tls", path=str(self.ca)) from error
        if self.certificate is None or self.key is None:
            return context
        try:
            context.load_cert_chain(self.certificate, self.key, password=lambda: "")
        except (OSError, ValueError) as error:  # ValueError: the key has a password
            message = (
                f"The certificate {self.certificate} and the key {self.key} do not make a pair:"
                f" {error}. Give the key of that very certificate, both as PEM and without a"
                " password."
            )
            raise InvalidInputError(message, kind="tls", path=str(self.key)) from error
        return context


@dataclass(frozen=True, slots=True)
class TlsTarget:
    """What connections to one server are wrapped by.

    Parameters
    ----------
    server_name : str
        The name that its certificate must have.
    """

    context: ssl.SSLContext
    server_name: str


def advice_of(said: str) -> str:
    """What to do about a connection that failed; nothing where its message tells too little.

    Examples
    --------
    >>> advice_of("certificate verify failed: certificate has expired")
    'Its certificate has expired: start it again with a new one.'
    """
    return next((advice for words, advice in _ADVICE if re.search(words, said)), "")


def tls_of(given: object) -> Tls | None:
    """Give what a caller means: a PEM file of the authority, True for the system's, or None.

    Examples
    --------
    >>> tls_of("ca.pem")
    Tls(ca='ca.pem', certificate=None, key=None, server_name=None)
    """
    if given is None or given is False:
        return None
    if given is True:
        return Tls()
    if isinstance(given, (str, Path)):
        return Tls(ca=given)
    if isinstance(given, Tls):
        return given
    message = (
        f"tls is {shortened(repr(given))}: give the PEM file of the servers' authority, True for"
        " the system's authorities, or tidelake.service.client.connection.tls.Tls(...)."
    )
    raise InvalidInputError(message, kind="tls")


def _content(path: str | Path | None) -> bytes | None:
    if path is None:
        return None
    try:
        return Path(path).read_bytes()
    except OSError as error:
        message = f"The PEM file {path} cannot be read: {error.strerror}."
        raise InvalidInputError(message, kind="tls", path=str(path)) from error
