"""Keys that another gives out for a while: what they are, and who is asked for them.

A catalog's server may give keys for a table's storage. The storage asks a :class:`CredentialSource`
before each request, and for other keys once the store says that the ones it used have expired.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tidelake.errors import TidelakeError, UnsupportedError
from tidelake.fileio.object_store.settings import known_settings

__all__ = ["CredentialSource", "Credentials", "NoKeysError"]


@dataclass(frozen=True, slots=True)
class Credentials:
    """Keys of a storage. Not shown.

    Parameters
    ----------
    options : mapping
        By Paimon's names, such as ``s3.access-key``; they may say more of the storage, such as
        ``s3.endpoint``.
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
        known = known_settings("s3", self.options)
        access, secret = known.text("access-key"), known.text("secret-key")
        if access is None or secret is None:
            message = (
                "The catalog's server gives keys of a storage that this version does not read"
                f" ({', '.join(sorted(self.options))}): it reads those of S3."
            )
            raise UnsupportedError(message, kind="vended_keys")
        return access, secret, known.text("session-token")


class CredentialSource(Protocol):
    """What a storage asks for keys. Thread-safe.

    Picklable: a copy begins with the keys of its moment, if secrets are carried to its process
    (:mod:`tidelake.fileio.secret`). They are not in the pickle.
    """

    def current(self) -> Credentials:
        """Keys that are valid now, for a while."""
        ...

    def renewed(self, old: Credentials) -> Credentials:
        """Other keys than `old`, which the store calls expired."""
        ...

    @property
    def secrets(self) -> tuple[str, ...]:
        """Texts of the keys given last, which are in no message."""
        ...


class NoKeysError(OSError):
    """No keys could be had, so nothing was sent.

    Parameters
    ----------
    failure : TidelakeError
        What the source said.
    """

    def __init__(self, failure: TidelakeError) -> None:
        super().__init__(failure.message)
        self.failure = failure
