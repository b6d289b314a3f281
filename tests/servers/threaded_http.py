"""A small HTTP/1.1 server: a thread per connection, keep-alive, answers given by a function.

Python's own server parses headers with the mail parser, which costs more than all of an object
store's work on a small object. Here a request costs about 0.1 ms.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import BinaryIO

from servers.ports import listening

REASONS = {200: "OK", 204: "No Content", 206: "Partial Content", 404: "Not Found"}
HEADERS_MAX = 100
LINE_BYTES_MAX = 64 << 10


@dataclass(slots=True)
class HttpRequest:
    """One request: headers have lower-case names, path and query are decoded."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    target: str
    """As it was sent: path and query, encoded."""


@dataclass(slots=True)
class HttpAnswer:
    """One answer.

    `bytes_sent` cuts the body: so many bytes are sent, then the connection ends. With
    `hangs_up` nothing is sent at all.
    """

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | memoryview = b""
    bytes_sent: int | None = None
    hangs_up: bool = False


class ThreadedHttpServer:
    """Answers on a port of the loopback interface until it is closed.

    Parameters
    ----------
    answer : callable
        Takes an :class:`HttpRequest`, returns an :class:`HttpAnswer`; called by many threads.
    port : int
        0 takes one that no server of this process had.
    tls : ssl.SSLContext, optional
        Speak HTTPS.
    """

    def __init__(
        self,
        answer: Callable[[HttpRequest], HttpAnswer],
        port: int = 0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._answer = answer
        self._tls = tls
        own = socket.create_server(("127.0.0.1", port), backlog=512) if port else listening()
        self._socket = own
        self.port: int = self._socket.getsockname()[1]
        self.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{self.port}"
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._is_closed = False
        threading.Thread(target=self._accept, name="http-accept", daemon=True).start()

    def close(self) -> None:
        """End all connections; may be called several times."""
        self._is_closed = True
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        with self._lock:
            still_open = list(self._open)
        for connection in still_open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _accept(self) -> None:
        while not self._is_closed:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection, server_side=True)
            with self._lock:
                self._open.add(connection)
            with connection.makefile("rb", 1 << 16) as stream:
                while not self._is_closed:
                    request = _read(stream, connection)
                    if request is None or not _send(connection, request, self._answer(request)):
                        return
        except (OSError, ValueError):
            return  # the client went away, or the test closed the server
        finally:
            with self._lock:
                self._open.discard(connection)
            connection.close()


def _read(stream: BinaryIO, connection: socket.socket) -> HttpRequest | None:
    line = stream.readline(LINE_BYTES_MAX)
    if not line.strip():
        return None
    method, target, _ = line.decode("latin-1").split(" ", 2)
    headers: dict[str, str] = {}
    for _ in range(HEADERS_MAX):
        line = stream.readline(LINE_BYTES_MAX)
        if line in (b"\r\n", b"\n", b""):
            break
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip()
    if headers.get("expect", "").lower() == "100-continue":
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    if headers.get("transfer-encoding", "").lower() == "chunked":
        body = _read_chunks(stream)
    else:
        body = stream.read(int(headers.get("content-length") or 0))
    if headers.get("x-amz-content-sha256", "").startswith("STREAMING"):
        body = _without_signatures(body)
    absolute = target.partition("://")[2]  # sent to a proxy
    plain = "/" + absolute.partition("/")[2] if absolute else target
    path, _, query = plain.partition("?")
    pairs = urllib.parse.parse_qsl(query, keep_blank_values=True)
    return HttpRequest(method, urllib.parse.unquote(path), dict(pairs), headers, body, target)


def _read_chunks(stream: BinaryIO) -> bytes:
    body = bytearray()
    while length := int(stream.readline(LINE_BYTES_MAX).split(b";")[0], 16):
        body += stream.read(length)
        stream.readline(LINE_BYTES_MAX)
    while stream.readline(LINE_BYTES_MAX).strip():
        pass
    return bytes(body)


def _without_signatures(body: bytes) -> bytes:
    """The content of a body whose chunks are signed one by one."""
    content, at = bytearray(), 0
    while True:
        end = body.index(b"\r\n", at)
        length = int(body[at:end].split(b";")[0], 16)
        if length == 0:
            return bytes(content)
        content += body[end + 2 : end + 2 + length]
        at = end + 2 + length + 2


def _send(connection: socket.socket, request: HttpRequest, answer: HttpAnswer) -> bool:
    """Send an answer; False if the connection is to end."""
    if answer.hangs_up:
        # a reset rather than an orderly end, as when a machine on the way fails
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return False
    lines = [f"HTTP/1.1 {answer.status} {REASONS.get(answer.status, 'Said')}"]
    lines += [f"{name}: {value}" for name, value in answer.headers.items()]
    if "Content-Length" not in answer.headers and answer.status != 204:
        lines.append(f"Content-Length: {len(answer.body)}")
    head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
    body = b"" if request.method == "HEAD" else answer.body
    if answer.bytes_sent is not None:
        connection.sendall(head + bytes(body[: answer.bytes_sent]))
        return False
    if len(body) < 1 << 16:
        connection.sendall(head + bytes(body))
    else:
        connection.sendall(head)
        connection.sendall(body)
    return request.headers.get("connection", "").lower() != "close"
