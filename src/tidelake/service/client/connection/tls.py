"""How a client proves who it is, and whom it trusts: TLS files and a token."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tidelake.errors import InvalidInputError, shortened

__all__ = ["Tls", "tls_of"]


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
