"""A schema registry in small: schemas by number over HTTP, as Confluent's answers."""

from __future__ import annotations

import base64
import io
import json
import threading
from http.server import BaseHTTPRequestHandler

import fastavro

from servers.ports import HttpServer

FRAME = b"\0"


class SchemaRegistry:
    """Serves schemas that a test registers."""

    def __init__(self, login=None):
        self.schemas: list = []
        self.login = login
        self.asked: list[int] = []
        self.failures = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                outer.answer(self)

            def log_message(self, *_):
                return

        self._server = HttpServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self):
        login = f"{self.login}@" if self.login else ""
        return f"http://{login}127.0.0.1:{self._server.server_port}"

    def answer(self, handler):
        number = int(handler.path.rpartition("/")[2])
        self.asked.append(number)
        code, body = 200, {}
        if self.failures:
            self.failures -= 1
            code = 503
        elif self.login is not None:
            wanted = f"Basic {base64.b64encode(self.login.encode()).decode()}"
            code = 200 if handler.headers.get("Authorization") == wanted else 401
        if code == 200:
            if number > len(self.schemas):
                code, body = 404, {"error_code": 40403}
            else:
                body = {"schema": json.dumps(self.schemas[number - 1])}
        data = json.dumps(body).encode()
        handler.send_response(code)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    def register(self, schema):
        self.schemas.append(schema)
        return len(self.schemas)

    def message(self, number, record):
        """A record with the number of its schema."""
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, self.schemas[number - 1], record)
        return FRAME + number.to_bytes(4, "big") + stream.getvalue()

    def close(self):
        self._server.shutdown()
        self._server.server_close()
