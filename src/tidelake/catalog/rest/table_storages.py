"""Opens the storage of a table that its server places outside local files.

1. How to reach the storage is said by the server's configuration and the catalog's options, as with
   all other options; the keys that the server gives for a table come on top, and take the place of
   all other credentials.
2. What a server says of a storage and is unknown here is left out: it serves other clients too.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidelake.catalog.rest.client import RestClient
from tidelake.errors import StorageRefusedError, UnsupportedError, shortened
from tidelake.fileio import FileIO
from tidelake.fileio.location import SCHEMES, parse_location
from tidelake.fileio.object_store import NEEDED, CredentialSource, known_settings
from tidelake.fileio.opening import open_storage
from tidelake.fileio.secret import SentSecrets
from tidelake.options import option_texts
from tidelake.telemetry import Env


class TableStorages:
    """See :data:`tidelake.catalog.rest.metastore.StorageOpener`.

    Parameters
    ----------
    client : RestClient
        The server, whose configuration may say how to reach a storage.
    given : mapping or SentSecrets
        What the user says of it; may hold secrets. Those that did not come along to this process
        are asked for when a storage is opened.
    """

    def __init__(
        self, client: RestClient, given: Mapping[str, object] | SentSecrets, *, env: Env
    ) -> None:
        self._client = client
        self._given: SentSecrets | dict[str, object]
        self._given = given if isinstance(given, SentSecrets) else dict(given)
        self._env = env

    def __repr__(self) -> str:
        return f"TableStorages({self._client!r})"

    def __reduce__(self) -> tuple[object, ...]:
        sent: SentSecrets | None = None
        if isinstance(self._given, SentSecrets):
            sent = self._given
        elif self._given:
            sent = SentSecrets(option_texts(self._given))
        return (_arrived, (self._client, sent, self._env))

    def __call__(self, path: str, keys: CredentialSource | None) -> tuple[FileIO, str]:
        """Open the storage of a table's path.

        Raises
        ------
        UnsupportedError
            It is none that is known here, or the server's keys are not for it.
        StorageError
            The server gives no keys, or the user's did not come along to this process.
        """
        if path.partition("://")[0].lower() not in SCHEMES:
            message = (
                f"The catalog's server has the table at {shortened(path)}: its storage is not known"
                f" here. Known are: {', '.join(SCHEMES)}, and paths of local files."
            )
            raise UnsupportedError(message, kind="table_storage", path=path)
        location = parse_location(path, what="The table's path")
        reached = self._client.storage_options(self._options())
        if keys is None:
            return open_storage(location, reached, self._env), location.path
        if location.scheme not in NEEDED:
            message = (
                f"The catalog's server gives keys for {location}: this version reads those of S3"
                " and GCS."
            )
            raise UnsupportedError(message, kind="vended_keys", path=path)
        scheme = location.scheme
        said = known_settings(scheme, keys.current().options).without_credentials().values
        reached |= {f"{scheme}.{name}": value for name, value in said.items()}
        fileio = open_storage(location, reached, self._env, credentials=keys)
        return fileio, location.path

    def _options(self) -> Mapping[str, object]:
        """What the user says of the storage."""
        given = self._given
        found: Mapping[str, object] | None
        found = given.found if isinstance(given, SentSecrets) else given
        if found is None:
            settings = self._client.settings
            message = (
                f"The catalog '{settings.warehouse}' at {settings.uri} was copied into another"
                " process, and the options of its storage did not come along, since they may hold"
                " secrets: open the catalog there. On Spark they come along in a session with a"
                " JVM of its own."
            )
            raise StorageRefusedError(message, kind="catalog_elsewhere")
        return found


def _arrived(client: RestClient, sent: SentSecrets | None, env: Env) -> TableStorages:
    if sent is None:
        return TableStorages(client, {}, env=env)
    found = sent.found  # kept: a process forgets the secrets that came first
    return TableStorages(client, sent if found is None else found, env=env)
