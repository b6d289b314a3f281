"""Ports of the loopback interface that no other server of a test run has, or had before.

What a process remembers of a server, it remembers by its address: that its store was checked, that
a catalog's client is open. A later server on the same port would be taken for the earlier one. And
a port that is only looked for may be another's by the time its program starts: another test's, or
that of a connection, for which the system takes any port of its own range.
"""

from __future__ import annotations

import random
import socket
from http.server import ThreadingHTTPServer

FREE = range(15_000, 32_000)
"""Below the ports that Linux gives to connections."""
TRIES_MAX = 1_000
_had: set[int] = set()
"""Ports that servers of this process had."""
_marks: list[socket.socket] = []
"""One for each port that was found free, until the process ends."""


def listening() -> socket.socket:
    """A socket that listens, on a port that no server of this process had."""
    passed_over = []
    try:
        for _ in range(TRIES_MAX):
            made = socket.create_server(("127.0.0.1", 0), backlog=512)
            port = made.getsockname()[1]
            if port not in _had:
                _had.add(port)
                return made
            passed_over.append(made)  # held, so that another one is found
    finally:
        for held in passed_over:
            held.close()
    message = f"{len(_had)} ports were used"
    raise AssertionError(message)


def free_port() -> int:
    """A port for a program that is started later; no other test process finds the same one."""
    draw = random.Random()
    for _ in range(TRIES_MAX):
        port = draw.choice(FREE)
        mark = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)  # its ports are others than TCP's
        try:
            mark.bind(("127.0.0.1", port))
            with socket.create_server(("127.0.0.1", port)):
                pass
        except OSError:
            mark.close()
            continue
        _marks.append(mark)
        return port
    message = f"no free port in {FREE}"
    raise AssertionError(message)


class HttpServer(ThreadingHTTPServer):
    """Python's own server, on a port that no server of this process had."""

    daemon_threads = True

    def server_bind(self) -> None:
        self.socket.close()
        self.socket = listening()
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]
