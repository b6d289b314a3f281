"""The standard library's HTTP server around a site: one process, a thread for each connection.

Connections and the sizes of requests are bounded, and so is the time for a request to arrive and
for an answer to be taken. Callers who hold all connections keep others out, and take no more than
these threads.
"""

from __future__ import annotations

import io
import logging
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import AF_INET6, socket
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tidelake.errors import StorageError
from tidelake.ui.server.exchange import PageRequest, PageResponse
from tidelake.ui.server.site import WarehouseSite

CONNECTIONS_MAX = 64
SILENCE_S = 30
BODY_BYTES_MAX = 16 << 10
FIELDS_MAX = 32
LENGTH_DIGITS_MAX = 9
_LOG = logging.getLogger("tidelake")


class PageServer(ThreadingHTTPServer):
    """Listens on an address; :meth:`serve_forever` answers until :meth:`shutdown`.

    Parameters
    ----------
    host, port : str, int
        Port 0 takes a free one.
    token : str, optional
        What callers must know, for whoever started it.

    Raises
    ------
    StorageError
        The port is taken, or the address is not this machine's.
    """

    daemon_threads = True
    request_queue_size = 32

    def __init__(
        self, site: WarehouseSite, *, host: str, port: int, token: str | None = None
    ) -> None:
        self.site = site
        self.token = token
        self._free = threading.BoundedSemaphore(CONNECTIONS_MAX)
        if ":" in host:
            self.address_family = AF_INET6
        try:
            super().__init__((host, port), _Handler)
        except OSError as error:
            message = (
                f"Pages cannot be served on {host}:{port} ({error.strerror}): choose another"
                " address with --bind."
            )
            raise StorageError(message, kind="port_taken", port=port) from error

    def server_bind(self) -> None:
        """Take the address; the name of the machine is not looked up."""
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread, unless there are too many."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer one connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a caller that went away."""


class _TimedReader(io.RawIOBase):
    """What a caller sends, until a time by which the whole request must be there."""

    def __init__(self, connection: socket) -> None:
        self._connection = connection
        self._until_s = 0.0
        self.begin()

    def begin(self) -> None:
        """A request begins now."""
        self._until_s = time.monotonic() + SILENCE_S

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read what is there, within the time that is left."""
        left_s = self._until_s - time.monotonic()
        if left_s <= 0:
            message = "The request took too long."
            raise TimeoutError(message)
        self._connection.settimeout(left_s)
        return self._connection.recv_into(buffer)


class _Handler(BaseHTTPRequestHandler):
    server: PageServer
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "tidelake", ""

    def setup(self) -> None:
        """Take what the caller sends within its time."""
        super().setup()
        self._timed = _TimedReader(self.connection)
        self.rfile = io.BufferedReader(self._timed)

    def handle_one_request(self) -> None:
        """Answer one request of the connection."""
        self._timed.begin()
        super().handle_one_request()

    def do_GET(self) -> None:
        if self._has_body():  # it would be taken for the next request of the connection
            self._refuse(HTTPStatus.BAD_REQUEST)
        else:
            self._answer({})

    do_HEAD = do_GET

    def do_POST(self) -> None:
        lengths = self.headers.get_all("Content-Length", [])
        if "Transfer-Encoding" in self.headers or len(lengths) != 1 or not _is_length(lengths[0]):
            self._refuse(HTTPStatus.BAD_REQUEST)
            return
        if int(lengths[0]) > BODY_BYTES_MAX:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            return
        body = self.rfile.read(int(lengths[0])).decode(errors="replace")
        try:
            form = dict(parse_qsl(body, keep_blank_values=True, max_num_fields=FIELDS_MAX))
        except ValueError:
            self._refuse(HTTPStatus.BAD_REQUEST)
        else:
            self._answer(form)

    def _has_body(self) -> bool:
        lengths = self.headers.get_all("Content-Length", [])
        return "Transfer-Encoding" in self.headers or any(one.strip() != "0" for one in lengths)

    def _refuse(self, status: HTTPStatus) -> None:
        """Answer, and read nothing more of the connection."""
        self.close_connection = True
        self._send(PageResponse(status, headers={"Connection": "close"}))

    def _answer(self, form: dict[str, str]) -> None:
        parts = urlsplit(self.path)
        query = dict(parse_qsl(parts.query[:BODY_BYTES_MAX]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = PageRequest(self.command, parts.path, query, headers, form)
        try:
            response = self.server.site.answer(request)
        except Exception:
            _LOG.exception("The page %s could not be made.", parts.path)
            text = b"This page could not be made: the log of the server says why.\n"
            status = HTTPStatus.INTERNAL_SERVER_ERROR
            self.close_connection = True
            self._send(PageResponse(status, text, "text/plain; charset=utf-8"))
            raise  # it ends this connection alone
        self._send(response)

    def _send(self, response: PageResponse) -> None:
        self.connection.settimeout(SILENCE_S)
        self.send_response(response.status)
        for name, value in response.all_headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(response.body)

    def log_message(self, format: str, *args: Any) -> None:
        """No line for each request: a page asks every few seconds."""


def _is_length(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= LENGTH_DIGITS_MAX
