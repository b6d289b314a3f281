"""The settings of a REST catalog, by Paimon's names; secrets are kept out of texts and pickles.

A pickle has a number in their place (:mod:`tidelake.fileio.secret`). Where they do not come along,
the copy is one without them, and its client says so.

Source: Paimon's ``RESTCatalogOptions`` and ``RESTTokenFileIO`` (1.3.1).
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from tidelake.errors import InvalidInputError, UnsupportedError, shortened
from tidelake.fileio.object_store import is_storage_key, known_keys
from tidelake.fileio.secret import Secret, SentSecrets
from tidelake.options import Kind, Option

HEADER_PREFIX = "header."
TOKEN = "token"
DATA_TOKEN_ENABLED = "data-token.enabled"
PREFIX = "prefix"
DLF_PREFIX = "dlf."
PREFIXES = (HEADER_PREFIX, DLF_PREFIX)
"""Beginnings of further keys; those of DLF are refused with the reason."""
OPTIONS: tuple[Option[str | None], ...] = tuple(
    Option(key, Kind.STRING, None, what)
    for key, what in (
        ("uri", "The address of the catalog's server."),
        ("token", "The bearer token."),
        ("token.provider", "How requests are signed: 'bear'."),
        (DATA_TOKEN_ENABLED, "Whether the server gives keys for the storage; it says so itself."),
        (PREFIX, "The prefix of the server's paths; it says so itself."),
    )
)
"""The options of the kind ``rest``, beside ``header.*``."""
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_SECRET_KEY = re.compile(
    r"passw|secret|token|credential|(access|account|sas|private)[._-]?key|authorization|signature",
    re.IGNORECASE,
)
_HOW_TO_REACH = frozenset({"uri", "warehouse", "token", "token.provider"})


@dataclass(frozen=True, slots=True)
class RestSettings:
    """How to reach a catalog's server.

    Parameters
    ----------
    uri : str
        The server, ``http`` or ``https``, without a slash at the end.
    headers : mapping
        Headers of each request; they may hold secrets, and are not shown.
    options : mapping
        The other options of the catalog, without those that may hold secrets: none is needed here.
    lost_secrets : bool
        Whether this is a copy in a process to which token and headers did not come along.
    """

    uri: str
    warehouse: str
    token: Secret | None = None
    headers: Mapping[str, Secret] = field(default_factory=lambda: MappingProxyType({}))
    options: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    lost_secrets: bool = False

    def __reduce__(self) -> tuple[object, ...]:
        secrets = {f"{HEADER_PREFIX}{name}": value.reveal() for name, value in self.headers.items()}
        if self.token is not None:
            secrets[TOKEN] = self.token.reveal()
        sent = SentSecrets(secrets) if secrets else None
        return (_arrived, (self.uri, self.warehouse, dict(self.options), sent, self.lost_secrets))

    @classmethod
    def of(cls, options: Mapping[str, object]) -> RestSettings:
        """Read the options of a catalog.

        Parameters
        ----------
        options : mapping
            By Paimon's names: ``uri``, ``warehouse``, ``token.provider``, ``token``, ``header.*``.

        Raises
        ------
        InvalidInputError
            One is missing or malformed.
        UnsupportedError
            The token provider is another than ``bear``.
        """
        given = {str(k): str(v) for k, v in options.items() if v is not None}
        provider = given.get("token.provider")
        if provider == "dlf" or any(key.startswith(DLF_PREFIX) for key in given):
            message = (
                "A REST catalog with 'token.provider' = 'dlf' signs each request for Alibaba's DLF,"
                " which this version cannot: use a server with a bearer token ('token.provider' ="
                " 'bear')."
            )
            raise UnsupportedError(message, kind="token_provider", provider="dlf")
        if provider not in {None, "bear"}:
            message = (
                f"'token.provider' = '{shortened(str(provider))}' is unknown: the REST catalog"
                " takes 'bear', with the option 'token'."
            )
            raise InvalidInputError(message, kind="token_provider", provider=provider)
        token = given.get("token")
        if provider == "bear" and not token:
            message = "'token.provider' = 'bear' needs the bearer token: set the option 'token'."
            raise InvalidInputError(message, kind="catalog_option", option="token")
        if "warehouse" not in given:
            message = "A REST catalog needs the option 'warehouse': the name at its server."
            raise InvalidInputError(message, kind="catalog_option", option="warehouse")
        return cls(
            uri=_checked_uri(given.get("uri")),
            warehouse=given["warehouse"],
            token=None if token is None else Secret(_checked_token(token)),
            headers=MappingProxyType(
                {name: Secret(value) for name, value in header_map(given).items()}
            ),
            options=MappingProxyType(shown_options(option_map(given))),
        )

    def hidden_in(self, text: str) -> str:
        """Replace the secrets where a text, such as a server's answer, repeats them."""
        for secret in (self.token, *self.headers.values()):
            if secret is not None and secret.reveal():
                text = text.replace(secret.reveal(), str(secret))
        return text


def _arrived(
    uri: str,
    warehouse: str,
    options: Mapping[str, str],
    sent: SentSecrets | None,
    lost_secrets: bool,  # noqa: FBT001 - a pickle names no arguments
) -> RestSettings:
    found = {} if sent is None else sent.found
    secrets = found or {}
    return RestSettings(
        uri,
        warehouse,
        token=Secret(secrets[TOKEN]) if TOKEN in secrets else None,
        headers=MappingProxyType({n: Secret(v) for n, v in header_map(secrets).items()}),
        options=MappingProxyType(dict(options)),
        lost_secrets=lost_secrets or found is None,
    )


def option_map(options: Mapping[str, str]) -> dict[str, str]:
    """Give the options without those that say how to reach the server."""
    return {
        key: value
        for key, value in options.items()
        if key not in _HOW_TO_REACH and not key.startswith(PREFIXES)
    }


def storage_map(options: Mapping[str, str]) -> dict[str, str]:
    """Give the options of a storage that are known here: a server serves other clients too."""
    return {
        key: value
        for scheme in ("s3", "gs", "az")
        for key, value in known_keys(scheme, options).items()
    }


def shown_options(options: Mapping[str, str]) -> dict[str, str]:
    """Give the options that may be shown: not those of a storage, nor what looks like a secret."""
    return {
        key: value
        for key, value in options.items()
        if key == DATA_TOKEN_ENABLED or not (is_storage_key(key) or _SECRET_KEY.search(key))
    }


def header_map(options: Mapping[str, str]) -> dict[str, str]:
    """Give the headers among options, without the prefix of their keys.

    Raises
    ------
    InvalidInputError
        One is no header; its value is not shown.
    """
    found = {}
    for key, value in options.items():
        if not key.startswith(HEADER_PREFIX):
            continue
        name = key.removeprefix(HEADER_PREFIX)
        if not _HEADER_NAME.fullmatch(name):
            message = (
                f"The option '{shortened(key)}' of the REST catalog holds no name of a header: it"
                " has letters, digits and '-', such as 'header.X-Tenant'."
            )
            raise InvalidInputError(message, kind="catalog_option", option=key)
        if not _is_header_value(value):
            message = (
                f"The option '{shortened(key)}' of the REST catalog holds characters that no header"
                " has, such as a line break: look at how it is read."
            )
            raise InvalidInputError(message, kind="catalog_option", option=key)
        found[name] = value
    return found


def _is_header_value(text: str) -> bool:
    return text.isascii() and text.isprintable() and text == text.strip()


def _checked_uri(given: str | None) -> str:
    if not given:
        message = "A REST catalog needs the option 'uri', such as 'https://catalog.example.com'."
        raise InvalidInputError(message, kind="catalog_option", option="uri")
    parts = _parts_of(given)
    if parts is not None and (parts.username or parts.password):
        message = (
            "The 'uri' of the REST catalog holds a user or a password: give a bearer token by the"
            " option 'token' instead."
        )
        raise InvalidInputError(message, kind="catalog_option", option="uri")
    if parts is None:
        message = (
            "The 'uri' of the REST catalog has a wrong host or port, or characters that no address"
            " has: give the server's address, such as 'http://localhost:8080'."
        )
        raise InvalidInputError(message, kind="catalog_option", option="uri")
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
        message = (
            f"The 'uri' of the REST catalog is '{shortened(given)}': give the server's address,"
            " such as 'https://catalog.example.com' or 'http://localhost:8080'."
        )
        raise InvalidInputError(message, kind="catalog_option", option="uri")
    return given.rstrip("/")


def _parts_of(uri: str) -> urllib.parse.SplitResult | None:
    """The parts of an address; None if it is none."""
    if not uri.isprintable() or " " in uri:
        return None
    try:
        parts = urllib.parse.urlsplit(uri)
        if not (parts.username or parts.password):  # else that is what is wrong
            _ = parts.port
            (parts.hostname or "").encode("idna")
    except ValueError:  # UnicodeError too
        return None
    return parts


def _checked_token(token: str) -> str:
    if not _is_header_value(token):
        message = (
            "The option 'token' of the REST catalog holds characters that no bearer token has, such"
            " as a line break: look at how it is read."
        )
        raise InvalidInputError(message, kind="catalog_option", option="token")
    return token
