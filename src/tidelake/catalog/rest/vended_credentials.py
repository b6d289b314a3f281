"""Keys of a table's storage that the catalog's server gives out for a while, and renews.

1. Keys are asked for at their first use, and again when the last fifth of their life begins, an
   hour before their end at most. So a long job never meets keys that end in the middle of a file.
2. If new keys cannot be had while the old ones are valid, the old ones go on for a while.
3. Whoever is told by the storage that the keys have expired asks for others: clocks may differ. Of
   several threads one asks the server.
4. A copy in another process begins with the keys of its moment, if secrets are carried there, and
   asks the server itself for the next ones. All copies of a process for one table are one, so a
   job of many tasks asks once for each process and each life of keys.

The storage gives this object to its client, which calls it before requests. Source: Paimon's
``RESTTokenFileIO`` (1.3.1), which renews an hour before the end, and so at every call if the server
gives keys for less.
"""

from __future__ import annotations

import threading
from collections import deque

from tidelake.catalog.rest.client import RestClient
from tidelake.catalog.rest.models import ServerToken
from tidelake.errors import NotFoundError, StorageRefusedError, TidelakeError
from tidelake.fileio.location import SCHEMES
from tidelake.fileio.object_store import NEEDED, Credentials
from tidelake.fileio.secret import SentSecrets, forget_ended
from tidelake.telemetry import Env, PerProcess, RecentlyUsed

RENEW_BEFORE_MS_MAX = 3_600_000
RENEW_SHARE = 5
"""Keys are renewed when this part of their life is left: a fifth."""
RENEW_AGAIN_MS = 10_000
"""After the server gave none: requests with the old keys should not all wait for it."""
COPIES_MAX = 256
"""Tables whose keys the copies in this process share."""
REMEMBERED_MAX = 3
"""Keys given last whose texts are kept out of messages: requests with them may be on their way."""


class VendedCredentials:
    """The keys of one table's storage. Thread-safe; picklable, without the keys.

    Parameters
    ----------
    place : str
        The table's path: another table of the same name has another one.
    """

    def __init__(
        self, client: RestClient, database: str, name: str, *, env: Env, place: str = ""
    ) -> None:
        self._client = client
        self._database = database
        self._name = name
        self._env = env
        self._place = place
        scheme = SCHEMES.get(place.partition("://")[0].lower(), "")
        self._scheme = scheme if scheme in NEEDED else "s3"
        self._lock = threading.Lock()
        self._keys: Credentials | None = None
        self._renew_at_ms = 0
        self._given: deque[Credentials] = deque(maxlen=REMEMBERED_MAX)

    def __repr__(self) -> str:
        return f"VendedCredentials({self._database}.{self._name})"

    def __reduce__(self) -> tuple[object, ...]:
        keys = self.current()
        forget_ended(self._env.clock.now_ms())
        sent = SentSecrets(keys.options, ends_ms=keys.expires_at_ms)
        ends = (keys.expires_at_ms, self._renew_at_ms)
        table = (self._database, self._name, self._place)
        return (_arrived, (self._client, *table, self._env, sent, *ends))

    @property
    def scheme(self) -> str:
        """Of the table's storage."""
        return self._scheme

    def take(self, keys: Credentials, renew_at_ms: int) -> None:
        """Use keys that came along, if they last longer than those that are known."""
        with self._lock:
            if self._keys is None or keys.expires_at_ms > self._keys.expires_at_ms:
                self._keys, self._renew_at_ms = keys, renew_at_ms
                self._given.append(keys)

    def current(self) -> Credentials:
        """Keys that are valid now.

        Raises
        ------
        StorageError
            There are none, and the server gives none.
        UnsupportedError
            They are keys of another storage than the table's.
        """
        with self._lock:
            now_ms = self._env.clock.now_ms()
            if self._keys is None or now_ms >= self._renew_at_ms:
                try:
                    self._renew()
                except TidelakeError:
                    if self._keys is None or now_ms >= self._keys.expires_at_ms:
                        raise
                    again_ms = now_ms + RENEW_AGAIN_MS
                    self._renew_at_ms = min(again_ms, self._keys.expires_at_ms)
            assert self._keys is not None
            return self._keys

    def renewed(self, old: Credentials) -> Credentials:
        """Other keys than `old`, whatever the clock says.

        Raises
        ------
        StorageError
            The server gives none.
        """
        with self._lock:
            if self._keys is not None and self._keys is not old:
                return self._keys  # another thread has asked
            return self._renew()

    @property
    def secrets(self) -> tuple[str, ...]:
        """Texts of the keys given last."""
        with self._lock:
            return tuple(text for keys in self._given for text in keys.secrets)

    def _renew(self) -> Credentials:
        try:
            token: ServerToken = self._client.token(self._database, self._name)
        except NotFoundError as error:
            message = (
                f"The catalog's server gives no keys for table '{self._database}.{self._name}',"
                " because it does not know it any more: it was dropped or renamed. Open it again."
            )
            raise StorageRefusedError(message, kind="vended_keys") from error
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
        keys = Credentials(token.token, token.expires_at_millis, self._scheme)
        keys.check()
        self._keys = keys
        self._given.append(keys)
        return keys


_COPIES: PerProcess[RecentlyUsed[tuple[object, ...], VendedCredentials]] = PerProcess(
    lambda: RecentlyUsed(entries_max=COPIES_MAX)
)


def _arrived(
    client: RestClient,
    database: str,
    name: str,
    place: str,
    env: Env,
    sent: SentSecrets,
    expires_at_ms: int,
    renew_at_ms: int,
) -> VendedCredentials:
    """The source of keys of a copy: one for all copies of this process."""
    copies, key = _COPIES.value, (client, database, name, place)
    source = copies.get(key)
    if source is None:
        source = VendedCredentials(client, database, name, env=env, place=place)
    options = sent.found
    if options is not None:
        source.take(Credentials(options, expires_at_ms, source.scheme), renew_at_ms)
    copies.keep(key, source)
    return source
