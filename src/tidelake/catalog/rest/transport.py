"""Sends one request to a catalog's server, once; says whether it may have taken effect.

A process that was forked makes connections of its own. No redirect is followed: the token would go
to whoever it names. The HTTP library limits each read alone, so headers that come in drops would be
waited for without end: each request has a thread of its own, which is left behind after a while.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from functools import partial
from typing import Any

from tidelake.catalog.rest._optional import load_httpx
from tidelake.catalog.rest.failures import AnswerLostError, ServerAnswer, ServerUnreachableError
from tidelake.catalog.rest.settings import RestSettings
from tidelake.errors import InvalidInputError, TidelakeError, shortened
from tidelake.telemetry import Env
from tidelake.telemetry.fork import PerProcess

CONNECT_TIMEOUT_S = 10.0
ANSWER_TIMEOUT_S = 60.0
CONNECTIONS_MAX = 16
ANSWER_BYTES_MAX = 64 << 20
EXCHANGE_TIME_MAX_S = 200.0
"""Longest time from the wait for a connection to the end of the answer."""
ANSWER_TIME_MAX_S = 120
"""From the request to the end of the answer: one that comes in drops meets no other limit."""


class _Exchange:
    """A request in a thread of its own, which ends with the process at the latest."""

    def __init__(
        self, exchange: Callable[[], tuple[Any, bytes]], failures: tuple[type[Exception], ...]
    ) -> None:
        self._future: Future[tuple[Any, bytes]] = Future()
        self._exchange = exchange
        self._failures = failures
        threading.Thread(target=self._run, name="tidelake-rest", daemon=True).start()

    def _run(self) -> None:
        try:
            self._future.set_result(self._exchange())
        except self._failures as error:
            self._future.set_exception(error)
        finally:
            if not self._future.done():  # this thread says why
                message = "A request to the catalog's server ended for no known reason."
                self._future.set_exception(AnswerLostError(message))

    def has_ended(self, timeout_s: float) -> bool:
        """Whether it ends within so many seconds."""
        return bool(wait([self._future], timeout_s).done)

    def outcome(self) -> tuple[Any, bytes]:
        """The answer and its body; raises what was raised."""
        return self._future.result()


class Transport:
    """Connections to one server. Thread-safe."""

    def __init__(
        self, settings: RestSettings, *, env: Env, answer_timeout_s: float = ANSWER_TIMEOUT_S
    ) -> None:
        self._settings = settings
        self._clock = env.clock
        self._timeout_s = answer_timeout_s
        self._client: PerProcess[Any] = PerProcess(self._connect)

    @property
    def _httpx(self) -> Any:
        """The library, loaded at the first request: most copies on executors send none."""
        return load_httpx()

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

        Raises
        ------
        ServerUnreachableError
            Nothing was sent.
        InvalidInputError
            Nothing was sent: it is no request, such as one with a name that is too long.
        AnswerLostError
            The request may have been taken.
        """
        httpx, uri = self._httpx, self._settings.uri
        request = self._request(method, path, query=query, body=body, headers=headers or {})
        what = f"{method} {path}"
        failures = (httpx.HTTPError, TidelakeError, OSError, ValueError, RuntimeError)
        exchange = _Exchange(partial(self._exchanged, request, what), failures)
        try:
            if not exchange.has_ended(EXCHANGE_TIME_MAX_S):
                message = (
                    f"The catalog's server {uri} did not answer {what} in"
                    f" {EXCHANGE_TIME_MAX_S:g} s, although it sends something."
                )
                raise AnswerLostError(message)
            answer, content = exchange.outcome()
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

    def _exchanged(self, request: Any, what: str) -> tuple[Any, bytes]:
        """The answer to a request, and its body."""
        began_s = self._clock.monotonic_seconds()
        answer = self._client.value.send(request, stream=True)
        try:
            return answer, self._content(answer, what, began_s)
        finally:
            answer.close()

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
