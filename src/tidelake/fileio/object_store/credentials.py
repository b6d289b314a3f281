"""Keys that another gives out for a while: what they are, and who is asked for them.

A catalog's server may give keys for a table's storage. The storage asks a :class:`CredentialSource`
before each request, and for other keys once the store says that the ones it used have expired.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from tidelake.errors import TidelakeError, UnsupportedError
from tidelake.fileio.object_store.settings import known_settings

NEEDED = {"s3": ("access-key", "secret-key"), "gs": ("access-token",)}
"""By storage, the keys without which nobody can ask it; of others none are read."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Keys of a storage. Not shown.

    Parameters
    ----------
    options : mapping
        By Paimon's names, such as ``s3.access-key`` and ``gcs.access-token``; they may say more of
        the storage, such as ``s3.endpoint``.
    expires_at_ms : int
        When they end, ms since the epoch.
    scheme : str
        Of the storage: ``"s3"`` or ``"gs"``.
    """

    options: Mapping[str, str] = field(repr=False)
    expires_at_ms: int
    scheme: str = "s3"

    def check(self) -> None:
        """Refuse keys that are of another storage.

        Raises
        ------
        UnsupportedError
            They are.
        """
        known = known_settings(self.scheme, self.options)
        if any(known.text(name) is None for name in NEEDED[self.scheme]):
            read = {"s3": "S3", "gs": "GCS ('gcs.access-token')"}[self.scheme]
            message = (
                "The catalog's server gives keys of a storage that this version does not read"
                f" ({', '.join(sorted(self.options))}): for this table it reads those of {read}."
            )
            raise UnsupportedError(message, kind="vended_keys")

    def s3_keys(self) -> tuple[str, str, str | None]:
        """Access key, secret key and session token of an S3 store.

        Raises
        ------
        UnsupportedError
            They are keys of another storage.
        """
        self.check()
        known = known_settings("s3", self.options)
        access, secret = known.text("access-key"), known.text("secret-key")
        assert access is not None
        assert secret is not None
        return access, secret, known.text("session-token")

    @property
    def secrets(self) -> tuple[str, ...]:
        """The texts that are in no message."""
        known = known_settings(self.scheme, self.options)
        return tuple(secret.reveal() for secret in known.secrets.values())

    def for_client(self) -> dict[str, Any]:
        """The keys as obstore takes them, without their end."""
        if self.scheme == "s3":
            access, secret, session = self.s3_keys()
            return {"access_key_id": access, "secret_access_key": secret, "token": session}
        self.check()
        return {"token": known_settings(self.scheme, self.options).text("access-token")}


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
    """No keys could be had, so nothing was sent."""

    def __init__(self, failure: TidelakeError) -> None:
        super().__init__(failure.message)
        self.failure = failure
