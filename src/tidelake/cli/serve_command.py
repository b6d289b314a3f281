"""The command ``tidelake serve``: runs a query service and shows what it does, until Ctrl-C.

1. The service starts: processes of this machine, or tasks of a Spark session.
2. Every few seconds its status is asked for. A terminal shows a table that is drawn again in
   place, with the newest log lines under it; a pipe or a file gets a line for each look. Log lines
   go to the standard error where that is not the same terminal.
3. Ctrl-C, or SIGTERM, sets a flag. Executors finish what they answer, service files are removed,
   and the exit code is 0. A second one ends the program at once.
"""

from __future__ import annotations

import collections
import contextlib
import io
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol, TextIO

import tidelake
from tidelake.cli._optional import load
from tidelake.cli.arguments import ServeArguments
from tidelake.cli.output.service_view import json_line, redrawn, table_lines, text_line
from tidelake.engine.env import SystemClock
from tidelake.errors import TidelakeError
from tidelake.service.observe.events import EventLog
from tidelake.service.observe.figures import ServiceFigures, figures
from tidelake.service.observe.json_logs import LOG_VARIABLE, log_to
from tidelake.service.observe.metrics import MetricsServer

if TYPE_CHECKING:
    from tidelake.service.protocol.tidelake_query_v1_pb2 import ServiceStatus

FAILED = 1
LOGGER = "tidelake.service"
LOG_LINES_SHOWN = 6
LOG_LINE = "%(asctime)s %(message)s"
SIGNALS = (signal.SIGINT, signal.SIGTERM)
_CLOCK = SystemClock()


class Service(Protocol):
    """What is asked of a service, wherever it runs."""

    @property
    def address(self) -> str:
        """Where its address server is."""

    @property
    def is_running(self) -> bool:
        """False once it has ended, by itself or not."""

    def status(self) -> ServiceStatus:
        """Its newest status."""

    def wait(self, timeout_seconds: float | None = None) -> bool:
        """Whether an operator asked it to stop, within so many seconds."""

    def stop(self) -> None:
        """Stop it. Does nothing twice."""


def run(arguments: ServeArguments) -> int:
    """Run the command and return the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8")
    shown = _Shown(arguments, sys.stdout, sys.stderr)
    os.environ[LOG_VARIABLE] = shown.log_of_processes
    try:
        with contextlib.ExitStack() as stack:
            stack.callback(shown.close)
            service = stack.enter_context(_started(arguments))
            stopping = stack.enter_context(_stop_signals())
            if arguments.metrics_port is not None:
                metrics = MetricsServer(service.status, port=arguments.metrics_port)
                stack.callback(metrics.close)
                shown.metrics_port = metrics.port
            return _watch(service, arguments, shown, stopping)
    except TidelakeError as error:
        sys.stderr.write(f"error: {error.message}\n")
        return FAILED


@contextlib.contextmanager
def _started(arguments: ServeArguments) -> Iterator[Service]:
    """The service; stopped where the block is left."""
    with contextlib.ExitStack() as stack:
        if arguments.on == "spark":
            module = load("tidelake.cli.on_spark.service", what="--on spark", extra="spark")
            service: Service = stack.enter_context(module.service(arguments))
        else:
            service = tidelake.serve(
                arguments.warehouse,
                arguments.tables,
                catalog=arguments.catalog_options,
                parallelism=arguments.parallelism,
                memory=arguments.memory,
                **connection(arguments),
            )
        stack.callback(service.stop)
        yield service


def connection(arguments: ServeArguments) -> dict[str, Any]:
    """The arguments of ``serve`` that say where and how clients connect."""
    return {
        "bind": arguments.bind,
        "tls_cert": arguments.tls_cert,
        "tls_key": arguments.tls_key,
        "tls_ca": arguments.tls_ca,
        "tokens": arguments.tokens,
        "insecure": arguments.insecure,
    }


@contextlib.contextmanager
def _stop_signals() -> Iterator[threading.Event]:
    """A flag that the first signal sets; a second one ends the program as usual.

    Spark's own handler of Ctrl-C would cancel the executors, which then could not end as they
    should: so it is replaced while the service runs.
    """
    stop = threading.Event()
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def take(number: int, frame: FrameType | None) -> None:
        del frame
        stop.set()
        signal.signal(number, signal.default_int_handler)

    for number in SIGNALS:
        signal.signal(number, take)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _watch(
    service: Service, arguments: ServeArguments, shown: _Shown, stopping: threading.Event
) -> int:
    """Show the service until a signal comes, or it has ended."""
    log, before, looked = EventLog(), None, time.monotonic()
    shown.begin(service)
    while True:
        status = service.status()
        now = time.monotonic()
        log.take(status)
        shown.draw(
            figures(status, before, now_ms=_CLOCK.now_ms(), seconds=now - looked),
        )
        before, looked = status, now
        if stopping.wait(arguments.interval) or service.wait(0):
            shown.say("Stopping ...")
            service.stop()
            shown.say("Stopped.")
            return 0
        if not service.is_running:
            shown.say("The service has ended: see the log.")
            return FAILED


class _Shown:
    """Writes figures and log lines where they belong."""

    def __init__(self, arguments: ServeArguments, out: TextIO, err: TextIO) -> None:
        self._out, self._err = out, err
        self._as_json = arguments.log_format == "json"
        self._redraws = out.isatty() and not self._as_json
        self._lines_count = 0
        self._recent: collections.deque[str] = collections.deque(maxlen=LOG_LINES_SHOWN)
        self.metrics_port: int | None = None
        if self._redraws and err.isatty():
            self._handler: logging.Handler = _Recent(self._recent)
            logging.getLogger(LOGGER).addHandler(self._handler)
            logging.getLogger(LOGGER).setLevel(logging.INFO)
        else:
            self._handler = log_to(err, as_json=self._as_json)

    @property
    def log_of_processes(self) -> str:
        """How executors log; not at all where their lines would stand in the middle of a table."""
        if self._redraws and self._err.isatty():
            return "off"
        return "json" if self._as_json else "text"

    def begin(self, service: Service) -> None:
        """Say where it is."""
        if self.metrics_port is not None:
            self.say(f"Metrics: http://127.0.0.1:{self.metrics_port}/metrics")
        if not self._redraws:
            self.say(f"Query service at {service.address}. Ctrl-C stops it.")

    def say(self, words: str) -> None:
        """Write a line for the user, in the log's form."""
        if self._as_json:
            logging.getLogger(LOGGER).info("%s", words)
        else:
            self._err.write(f"{words}\n")
            self._err.flush()

    def draw(self, found: ServiceFigures) -> None:
        """Show figures."""
        now_ms = _CLOCK.now_ms()
        if not self._redraws:
            line = json_line if self._as_json else text_line
            self._out.write(line(found, now_ms=now_ms) + "\n")
            self._out.flush()
            return
        size = os.get_terminal_size(self._out.fileno())
        lines = table_lines(found)
        lines += ["", *self._recent] if self._recent else []
        # what scrolled off cannot be drawn again
        lines = lines[: max(1, size.lines - 1)]
        self._out.write(redrawn(lines, before_count=self._lines_count, columns=size.columns))
        self._out.flush()
        self._lines_count = len(lines)

    def close(self) -> None:
        """Let go of the log."""
        logging.getLogger(LOGGER).removeHandler(self._handler)


class _Recent(logging.Handler):
    """Keeps the newest log lines, for under the table."""

    def __init__(self, lines: collections.deque[str]) -> None:
        super().__init__()
        self._lines = lines
        self.setFormatter(logging.Formatter(LOG_LINE, datefmt="%H:%M:%S"))

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one."""
        self._lines.append(self.format(record).partition("\n")[0])
