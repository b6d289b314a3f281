"""A proxy of HTTP that remembers PUTs, and delivers them again when it is told to.

Networks and proxies do that: a request is held on its way, its client sends it again and goes on,
and the one that was held arrives long after. What is delivered again is what was sent, byte for
byte, with its signature.
"""

from __future__ import annotations

import http.client
from collections.abc import Callable
from typing import Self

from servers.threaded_http import HttpAnswer, HttpRequest, ThreadedHttpServer

SECONDS_MAX = 30.0
OF_A_HOP = {"connection", "transfer-encoding", "keep-alive", "content-length"}
"""Headers of an answer that each hop says anew."""


class LateProxy:
    """Forwards to a port of this machine; closes at the end of a ``with`` block.

    Parameters
    ----------
    port : int
        Of the server behind it.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self.wants: Callable[[str], bool] = lambda target: False
        """Whether a PUT to this target, encoded, is remembered."""
        self.sent: list[Callable[[], object]] = []
        """Deliver one of the remembered PUTs again."""
        self._http = ThreadedHttpServer(self._answer)
        self.url = self._http.url

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def _answer(self, request: HttpRequest) -> HttpAnswer:
        if request.method == "PUT" and self.wants(request.target):
            self.sent.append(lambda: self._forwarded(request))
        return self._forwarded(request)

    def _forwarded(self, request: HttpRequest) -> HttpAnswer:
        behind = http.client.HTTPConnection("127.0.0.1", self._port, timeout=SECONDS_MAX)
        try:
            behind.putrequest(
                request.method, request.target, skip_host=True, skip_accept_encoding=True
            )
            for name, value in request.headers.items():  # the signature covers the host
                behind.putheader(name, value)
            behind.endheaders(request.body or None)
            answer = behind.getresponse()
            body = answer.read()
        finally:
            behind.close()
        headers = {k: v for k, v in answer.getheaders() if k.lower() not in OF_A_HOP}
        if request.method == "HEAD":
            headers["Content-Length"] = answer.headers.get("content-length", "0")
        return HttpAnswer(answer.status, headers, body)
