"""Keys of a table's storage that the catalog's server gives out for a while, and renews.

1. Keys are asked for at their first use, and again when the last fifth of their life begins, an
   hour before their end at most. So a long job never meets keys that end in the middle of a file.
2. If new keys cannot be had while the old ones are valid, the old ones go on.
3. Whoever is told by the storage that the keys have expired asks with `renew`: clocks may differ.

The storage gives this object to its client, which calls it before requests. Source: Paimon's
``RESTTokenFileIO`` (1.3.1), which renews an hour before the end, and so at every call if the server
gives keys for less.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tidelake.catalog.rest.client import RestClient
from tidelake.catalog.rest.models import ServerToken
from tidelake.errors import StorageRefusedError, TidelakeError, UnsupportedError
from tidelake.telemetry import Env

__all__ = ["CredentialSource", "Credentials", "VendedCredentials"]

RENEW_BEFORE_MS_MAX = 3_600_000
RENEW_SHARE = 5
"""Keys are renewed when this part of their life is left: a fifth."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Keys of a storage. Not shown.

    Parameters
    ----------
    options : mapping
        By Paimon's names, such as ``s3.access-key``.
    expires_at_ms : int
        When they end, ms since the epoch.
    """

    options: Mapping[str, str] = field(repr=False)
    expires_at_ms: int

    def s3_keys(self) -> tuple[str, str, str | None]:
        """Access key, secret key and session token of an S3 store.

        Raises
        ------
        UnsupportedError
            They are keys of another storage.
        """
        access = self._first("s3.access-key", "s3.access.key", "fs.s3a.access.key")
        secret = self._first("s3.secret-key", "s3.secret.key", "fs.s3a.secret.key")
        session = self._first("s3.session-token", "s3.session.token", "fs.s3a.session.token")
        if access is None or secret is None:
            message = (
                "The catalog's server gives keys of a storage that this version does not read"
                f" ({', '.join(sorted(self.options))}): it reads those of S3."
            )
            raise UnsupportedError(message, kind="vended_keys")
        return access, secret, session

    def _first(self, *names: str) -> str | None:
        return next((self.options[n] for n in names if self.options.get(n)), None)


class CredentialSource(Protocol):
    """What a storage asks for keys before each of its requests."""

    def current(self) -> Credentials:
        """Keys that are valid now, for a while."""
        ...

    def renew(self) -> Credentials:
        """New keys: the storage says that the last ones have expired."""
        ...


class VendedCredentials:
    """The keys of one table's storage. Thread-safe; stays in its process.

    Parameters
    ----------
    client : RestClient
        The server.
    database, name : str
        The table.
    env : Env
        The clock.
    """

    def __init__(self, client: RestClient, database: str, name: str, *, env: Env) -> None:
        self._client = client
        self._database = database
        self._name = name
        self._env = env
        self._lock = threading.Lock()
        self._keys: Credentials | None = None
        self._renew_at_ms = 0

    def __repr__(self) -> str:
        return f"VendedCredentials({self._database}.{self._name})"

    def __reduce__(self) -> tuple[object, ...]:
        message = (
            f"The keys of table '{self._database}.{self._name}' were given to this process by the"
            " catalog's server and cannot be copied into another one: open the table there."
        )
        raise UnsupportedError(message, kind="secret_copied")

    def current(self) -> Credentials:
        """Keys that are valid now.

        Raises
        ------
        StorageError
            There are none, and the server gives none.
        """
        with self._lock:
            now_ms = self._env.clock.now_ms()
            if self._keys is None or now_ms >= self._renew_at_ms:
                try:
                    self._renew()
                except TidelakeError:
                    if self._keys is None or now_ms >= self._keys.expires_at_ms:
                        raise
            assert self._keys is not None
            return self._keys

    def renew(self) -> Credentials:
        """New keys, whatever the clock says.

        Raises
        ------
        StorageError
            The server gives none.
        """
        with self._lock:
            return self._renew()

    def _renew(self) -> Credentials:
        token: ServerToken = self._client.token(self._database, self._name)
        now_ms = self._env.clock.now_ms()
        life_ms = token.expires_at_millis - now_ms
        if life_ms <= 0:
            message = (
                f"The catalog's server gave keys for table '{self._database}.{self._name}' that"
                " have expired already: compare its clock with this machine's."
            )
            raise StorageRefusedError(message, kind="vended_keys_expired")
        self._renew_at_ms = token.expires_at_millis - min(
            RENEW_BEFORE_MS_MAX, life_ms // RENEW_SHARE
        )
        self._keys = Credentials(token.token, token.expires_at_millis)
        return self._keys
