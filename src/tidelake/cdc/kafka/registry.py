"""A client of a schema registry: schemas of Avro by their number, over plain HTTP.

The protocol is Confluent's: ``GET /schemas/ids/7`` answers ``{"schema": "..."}``. A number never
changes its schema, so that answers are kept.
"""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from tidelake.errors import NotFoundError, StorageError, StorageRefusedError

SECONDS_MAX = 10
TRIES_MAX = 3
ANSWER_BYTES_MAX = 16 << 20
_REFUSED = (401, 403)
_BUSY = frozenset({408, 429, 500, 502, 503, 504})


class SchemaRegistry:
    """Finds schemas. For one thread; picklable with what it knows.

    Parameters
    ----------
    url : str
        ``http://host:8081``, several with commas between, perhaps with ``user:password@``.
    """

    def __init__(self, url: str) -> None:
        self._urls = [one.strip().rstrip("/") for one in url.split(",") if one.strip()]
        self._known: dict[int, str] = {}

    def __call__(self, number: int) -> str:
        """Give the schema of a number, as JSON.

        Raises
        ------
        NotFoundError
            There is none.
        StorageRefusedError
            User or password are wrong.
        StorageError
            The registry does not answer.
        """
        found = self._known.get(number)
        if found is None:
            found = self._known[number] = self._asked(number)
        return found

    def _asked(self, number: int) -> str:
        failure: Exception | None = None
        for _ in range(TRIES_MAX):
            for url in self._urls:
                try:
                    return str(self._get(f"{url}/schemas/ids/{number}")["schema"])
                except urllib.error.HTTPError as error:
                    if error.code not in _BUSY:
                        raise self._refusal(error, number) from error
                    failure = error
                except (OSError, ValueError, KeyError, TypeError) as error:
                    failure = error
        message = (
            f"The schema registry at {self._shown()} does not answer: {failure}. Check"
            " 'schema.registry.url', and that it runs."
        )
        raise StorageError(message, kind="schema_registry") from failure

    def _get(self, url: str) -> Any:
        parts = urllib.parse.urlsplit(url)
        headers = {"Accept": "application/vnd.schemaregistry.v1+json"}
        if parts.username is not None:
            given = f"{urllib.parse.unquote(parts.username)}:{parts.password or ''}"
            headers["Authorization"] = f"Basic {base64.b64encode(given.encode()).decode()}"
            url = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        request = urllib.request.Request(url, headers=headers)
        with urllib.request.urlopen(request, timeout=SECONDS_MAX) as answer:
            return json.loads(answer.read(ANSWER_BYTES_MAX))

    def _refusal(self, error: urllib.error.HTTPError, number: int) -> Exception:
        where = f"the schema registry at {self._shown()}"
        if error.code in _REFUSED:
            message = f"{where[0].upper()}{where[1:]} refuses: check user and password in the URL."
            return StorageRefusedError(message, kind="schema_registry")
        message = (
            f"Schema {number} is not in {where} ({error.code}): check 'schema.registry.url', or"
            " 'value.format' if messages have no number of a schema."
        )
        return NotFoundError(message, kind="registry_schema_not_found", schema=number)

    def _shown(self) -> str:
        """The addresses, without users and passwords."""
        return ", ".join(
            urllib.parse.urlsplit(one)
            ._replace(netloc=urllib.parse.urlsplit(one).netloc.rpartition("@")[2])
            .geturl()
            for one in self._urls
        )
