"""Tells a server that a partition is done: one POST of JSON, over plain HTTP or TLS.

The request is ``{"params": ..., "table": ..., "path": ..., "partition": "dt=2024-01-31/"}``, and
the answer must be ``{"result": "SUCCESS"}``, in any case of letters. Source: Paimon's
``HttpReportMarkDoneAction`` (2.1).

No redirect is followed: the report would go to whoever it names. A server that is busy or away is
asked again, so it may hear of a partition more than once.
"""

from __future__ import annotations

import base64
import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping

from tidelake.errors import StorageError, StorageRefusedError, TidelakeError, shortened
from tidelake.table.schema.partition_done_options import shown_url
from tidelake.telemetry import Backoff, Clock, Env

SUCCESS = "SUCCESS"
KIND = "done_report"
SILENCE_S_MAX = 10
"""The longest wait for a connection, and for each part of an answer."""
ANSWER_S_MAX = 30
ANSWER_BYTES_MAX = 1 << 20
READ_BYTES = 1 << 16
TRIES_MAX = 3
WAITS = Backoff(500, 5_000, longer=0.5)
_BUSY = frozenset({408, 429, 500, 502, 503, 504})
_UNSAID = (OSError, http.client.HTTPException)
"""No answer came, or half of one."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        """Follow nothing: the status of the redirect is the answer."""


_OPENER = urllib.request.build_opener(_NoRedirect())


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
    for attempt in range(TRIES_MAX):
        if attempt:
            env.clock.sleep_ms(WAITS.wait_ms(attempt - 1, env.rng))
        try:
            data = _posted(_request(url, document), env.clock)
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


def _posted(request: urllib.request.Request, clock: Clock) -> bytes:
    """Send a request, once, and read the answer.

    Raises
    ------
    OSError
        Also of an answer that comes in drops, or is too long.
    """
    began_s = clock.monotonic_seconds()
    data = b""
    with _OPENER.open(request, timeout=SILENCE_S_MAX) as answer:
        while part := answer.read1(READ_BYTES):
            data += part
            if clock.monotonic_seconds() - began_s > ANSWER_S_MAX or len(data) > ANSWER_BYTES_MAX:
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
