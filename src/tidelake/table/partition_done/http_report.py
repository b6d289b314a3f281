"""Tells a server that a partition is done: one POST of JSON, over plain HTTP or TLS.

The request is ``{"params": ..., "table": ..., "path": ..., "partition": "dt=2024-01-31/"}``, and
the answer must be ``{"result": "SUCCESS"}``, in any case of letters. Source: Paimon's
``HttpReportMarkDoneAction`` (2.1).

No redirect is followed: the report would go to whoever it names. A server that is busy or away is
asked again, so it may hear of a partition more than once. All attempts share one time, however
slowly an answer comes.
"""

from __future__ import annotations

import base64
import http.client
import io
import json
import socket
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from tidelake.errors import StorageError, StorageRefusedError, TidelakeError, shortened
from tidelake.table.schema.partition_done_options import shown_url
from tidelake.telemetry import Backoff, Env

SUCCESS = "SUCCESS"
KIND = "done_report"
SILENCE_S_MAX = 10
"""The longest wait for a connection, and for each part of an answer."""
REPORT_S_MAX = 20
"""The longest time of a report, from which on nothing more is asked or read."""
ANSWER_BYTES_MAX = 1 << 20
TRIES_MAX = 3
WAITS = Backoff(500, 5_000, longer=0.5)
_BUSY = frozenset({408, 429, 500, 502, 503, 504})
_UNSAID = (OSError, http.client.HTTPException, ValueError)
"""No answer came, or half of one; or the host's name cannot be looked up (UnicodeError)."""


_LeftS = Callable[[], float]
"""How many seconds are left."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        """Follow nothing: the status of the redirect is the answer."""


class _Reader(io.RawIOBase):
    """What a server sends, as long as time is left."""

    def __init__(self, sock: socket.socket, left_s: _LeftS) -> None:
        self._raw = sock.makefile("rb", 0)
        self._sock = sock
        self._left_s = left_s

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read what is there; the timeout of a socket alone begins again with each byte."""
        left_s = self._left_s()
        if left_s <= 0:
            message = "its answer has no end"
            raise TimeoutError(message)
        self._sock.settimeout(min(left_s, SILENCE_S_MAX))
        return self._raw.readinto(buffer) or 0

    def close(self) -> None:
        """Close the file, by which the socket knows that it is read no more."""
        self._raw.close()
        super().close()


class _Answer(http.client.HTTPResponse):
    def __init__(self, sock: socket.socket, *args: Any, left_s: _LeftS, **how: Any) -> None:
        super().__init__(sock, *args, **how)
        self.fp.close()
        self.fp = io.BufferedReader(_Reader(sock, left_s))


class _Http(urllib.request.HTTPHandler):
    def __init__(self, left_s: _LeftS) -> None:
        super().__init__()
        self._connect = partial(_connection, http.client.HTTPConnection, left_s)

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        """Answer a request."""
        return self.do_open(self._connect, req)


class _Https(urllib.request.HTTPSHandler):
    def __init__(self, left_s: _LeftS) -> None:
        super().__init__()
        self._connect = partial(_connection, http.client.HTTPSConnection, left_s)

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        """Answer a request."""
        return self.do_open(self._connect, req)


def _connection(
    kind: type[http.client.HTTPConnection], left_s: _LeftS, host: str, **how: Any
) -> http.client.HTTPConnection:
    made = kind(host, **how)
    made.response_class = partial(_Answer, left_s=left_s)  # type: ignore[assignment]
    return made


def report(url: str, document: Mapping[str, str | None], *, env: Env, table: str) -> None:
    """Post a document, and read whether the server took it.

    Parameters
    ----------
    url : str
        As checked; ``user:password@`` in it goes as a header.

    Raises
    ------
    StorageRefusedError
        The server answered, and did not take it.
    StorageError
        It cannot be reached, or is busy, after some attempts.
    """
    where = f"the server of table '{table}' at {shown_url(url)}"
    why = ""
    clock = env.clock
    until_s = clock.monotonic_seconds() + REPORT_S_MAX
    for attempt in range(TRIES_MAX):
        if attempt:
            clock.sleep_ms(WAITS.wait_ms(attempt - 1, env.rng))
            if clock.monotonic_seconds() >= until_s:
                break
        try:
            data = _posted(_request(url, document), lambda: until_s - clock.monotonic_seconds())
        except urllib.error.HTTPError as error:
            if error.code not in _BUSY:
                raise _refusal(where, f"status {error.code}") from None
            why = f"status {error.code}"
        except _UNSAID as error:
            why = _reason(error)
        else:
            result = _result(data)
            if result.upper() == SUCCESS:
                return
            raise _refusal(where, f"the result {shortened(result)!r}" if result else "no result")
    message = (
        f"{where[0].upper()}{where[1:]} does not take the report that a partition is done: {why}."
        " Check 'partition.mark-done-action.http.url', and that the server runs."
    )
    raise StorageError(message, kind=KIND, table=table)


def _request(url: str, document: Mapping[str, str | None]) -> urllib.request.Request:
    parts = urllib.parse.urlsplit(url)
    headers = {"Content-Type": "application/json"}
    login, at, host = parts.netloc.rpartition("@")
    if at:
        given = urllib.parse.unquote(login).encode()
        headers["Authorization"] = f"Basic {base64.b64encode(given).decode()}"
    target = parts._replace(netloc=host, fragment="").geturl()
    data = json.dumps(dict(document), ensure_ascii=False).encode()
    return urllib.request.Request(target, data=data, headers=headers, method="POST")


def _posted(request: urllib.request.Request, left_s: _LeftS) -> bytes:
    """Send a request, once, and read the answer.

    Raises
    ------
    OSError
        Also of an answer that comes in drops, or is too long.
    """
    opener = urllib.request.build_opener(_NoRedirect(), _Http(left_s), _Https(left_s))
    with opener.open(request, timeout=min(SILENCE_S_MAX, max(left_s(), 1))) as answer:
        data: bytes = answer.read(ANSWER_BYTES_MAX + 1)
    if len(data) > ANSWER_BYTES_MAX:
        message = "its answer has no end"
        raise TimeoutError(message)
    return data


def _result(data: bytes) -> str:
    """What an answer says; empty if it is another document."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return ""
    found = document.get("result") if isinstance(document, dict) else None
    return found if isinstance(found, str) else ""


def _reason(error: Exception) -> str:
    """Why no answer came; Python's text of a failed lookup or connection has no URL in it."""
    reason = getattr(error, "reason", None) or error
    return shortened(str(reason) or type(reason).__name__)


def _refusal(where: str, what: str) -> TidelakeError:
    message = (
        f"{where[0].upper()}{where[1:]} refused the report that a partition is done, with {what}:"
        ' it must answer {"result": "SUCCESS"}. Check \'partition.mark-done-action.http.url\''
        " and the server."
    )
    return StorageRefusedError(message, kind=KIND)
