"""Sends one request to a catalog's server, once; says whether it may have taken effect.

A process that was forked makes connections of its own. No redirect is followed: the token would go
to whoever it names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidelake.catalog.rest._optional import load_httpx
from tidelake.catalog.rest.failures import AnswerLostError, ServerAnswer, ServerUnreachableError
from tidelake.catalog.rest.settings import RestSettings
from tidelake.errors import InvalidInputError, shortened
from tidelake.telemetry import Env
from tidelake.telemetry.fork import PerProcess

__all__ = ["Transport"]

CONNECT_TIMEOUT_S = 10.0
ANSWER_TIMEOUT_S = 60.0
CONNECTIONS_MAX = 16
ANSWER_BYTES_MAX = 64 << 20
ANSWER_TIME_MAX_S = 120
"""From the request to the end of the answer: one that comes in drops meets no other limit."""


class Transport:
    """Connections to one server. Thread-safe.

    Parameters
    ----------
    settings : RestSettings
        The server and the token.
    env : Env
        The clock.
    answer_timeout_s : float
        Seconds to wait for an answer.
    """

    def __init__(
        self, settings: RestSettings, *, env: Env, answer_timeout_s: float = ANSWER_TIMEOUT_S
    ) -> None:
        self._settings = settings
        self._clock = env.clock
        self._httpx: Any = load_httpx()
        self._timeout_s = answer_timeout_s
        self._client: PerProcess[Any] = PerProcess(self._connect)

    def _connect(self) -> Any:
        httpx = self._httpx
        return httpx.Client(
            timeout=httpx.Timeout(self._timeout_s, connect=CONNECT_TIMEOUT_S),
            limits=httpx.Limits(max_connections=CONNECTIONS_MAX),
            follow_redirects=False,
        )

    def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> ServerAnswer:
        """Send one request, once.

        Parameters
        ----------
        method, path, query, body, headers
            The request; the body is sent as JSON.

        Raises
        ------
        ServerUnreachableError
            Nothing was sent.
        InvalidInputError
            Nothing was sent: it is no request, such as one with a name that is too long.
        AnswerLostError
            The request may have been taken.
        """
        httpx, uri, client = self._httpx, self._settings.uri, self._client.value
        request = self._request(method, path, query=query, body=body, headers=headers or {})
        began_s = self._clock.monotonic_seconds()
        try:
            answer = client.send(request, stream=True)
            try:
                content = self._content(answer, f"{method} {path}", began_s)
            finally:
                answer.close()
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            message = (
                f"The catalog's server {uri} cannot be reached ({self._reason(error)}): look at the"
                " option 'uri', and whether the server runs."
            )
            raise ServerUnreachableError(message) from self._shown(error)
        except (httpx.HTTPError, UnicodeError) as error:
            message = (
                f"The catalog's server {uri} gave no answer to {method} {path}"
                f" ({self._reason(error)})."
            )
            raise AnswerLostError(message) from self._shown(error)
        return ServerAnswer(
            answer.status_code,
            content,
            answer.headers.get("location", ""),
            answer.headers.get("retry-after", ""),
        )

    def _request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None,
        body: object,
        headers: Mapping[str, str],
    ) -> Any:
        uri = self._settings.uri
        try:
            return self._client.value.build_request(
                method,
                f"{uri}{path}",
                params=dict(query) if query else None,
                json=body,
                headers=self._headers(headers),
            )
        except (self._httpx.InvalidURL, ValueError) as error:  # UnicodeError too
            message = (
                f"{method} {shortened(path)} cannot be put into a request to the catalog's server"
                f" {uri} ({self._reason(error)}): look at the names, and at the option 'uri'."
            )
            raise InvalidInputError(message, kind="rest_request") from self._shown(error)

    def _content(self, answer: Any, what: str, began_s: float) -> bytes:
        """The body of an answer, up to a size and a time."""
        content = bytearray()
        for part in answer.iter_bytes():
            content += part
            if len(content) > ANSWER_BYTES_MAX:
                message = (
                    f"The catalog's server answered {what} with more than {ANSWER_BYTES_MAX} bytes,"
                    " as no catalog does: look at the option 'uri'."
                )
                raise AnswerLostError(message)
            if self._clock.monotonic_seconds() - began_s > ANSWER_TIME_MAX_S:
                message = (
                    f"The catalog's server did not end its answer to {what} in"
                    f" {ANSWER_TIME_MAX_S} s: {len(content)} bytes came."
                )
                raise AnswerLostError(message)
        return bytes(content)

    def _headers(self, more: Mapping[str, str]) -> Any:
        """All headers; `more` stand above the settings', whatever the case of their names."""
        settings = self._settings
        headers = self._httpx.Headers(
            {n: secret.reveal() for n, secret in settings.headers.items()}
        )
        if settings.token is not None:
            headers["Authorization"] = f"Bearer {settings.token.reveal()}"
        for name, value in more.items():
            headers[name] = value
        return headers

    def _reason(self, error: Exception) -> str:
        return self._settings.hidden_in(f"{type(error).__name__}: {error}".rstrip(": "))

    def _shown(self, error: Exception) -> Exception | None:
        """A failure as the cause of ours; None if it repeats a secret."""
        return error if self._settings.hidden_in(str(error)) == str(error) else None

    def close(self) -> None:
        """Close the connections."""
        self._client.value.close()
