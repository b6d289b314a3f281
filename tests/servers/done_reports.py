"""A server that hears which partitions are done, and says what a test wants it to say."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler

from servers.ports import HttpServer


class DoneReports:
    """Answers on a port of the loopback interface until it is closed."""

    def __init__(self):
        self.reports: list[dict] = []
        self.logins: list[str | None] = []
        self.answers: list[tuple[int, bytes, dict[str, str]]] = []
        """Given one after the other; then each report succeeds."""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                outer.answer(self)

            do_GET = do_POST

            def log_message(self, *_):
                return

        self._server = HttpServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def address(self):
        return f"127.0.0.1:{self._server.server_port}"

    def says(self, status, body=b"", **headers):
        self.answers.append((status, body, headers))

    def answer(self, handler):
        length = int(handler.headers.get("Content-Length") or 0)
        self.reports.append(json.loads(handler.rfile.read(length) or b"{}"))
        self.logins.append(handler.headers.get("Authorization"))
        done = (200, b'{"result": "success", "more": 1}', {})
        status, body, headers = self.answers.pop(0) if self.answers else done
        handler.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)

    def close(self):
        self._server.shutdown()
        self._server.server_close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
