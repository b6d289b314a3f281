"""The command ``tidelake connect``: serves Spark Connect, until Ctrl-C or SIGTERM."""

from __future__ import annotations

import sys
import threading

from tidelake.cli._optional import load
from tidelake.cli.arguments import ConnectArguments
from tidelake.cli.command_line.token_file import token_in
from tidelake.cli.signals import Terminated, ended_by_sigterm
from tidelake.engine.tables import open_catalog
from tidelake.errors import TidelakeError

FAILED, INTERRUPTED, TERMINATED = 1, 130, 143
LOOK_S = 1.0
"""How often the command looks whether Spark still runs."""


def run(given: ConnectArguments) -> int:
    """Run the command and return the exit code."""
    try:
        token = None if given.token is None else token_in(given.token)
        module = load("tidelake.cli.on_spark.connect", what="tidelake connect", extra="spark")
        catalog = open_catalog(given.warehouse, catalog=given.catalog_options, memory=given.memory)
        with ended_by_sigterm(), module.connect(given, catalog, token=token) as server:
            if token is None:
                _say(f"Spark Connect at {server.url}")
            else:
                _say(f"Spark Connect at sc://localhost:{server.port}/;token=... of {given.token}")
            _say(f"The warehouse {catalog.uri} is the catalog {given.catalog}. Ctrl-C ends it.")
            waits = threading.Event()
            while server.is_running:
                waits.wait(LOOK_S)
            sys.stderr.write("error: Spark has ended.\n")
            return FAILED
    except TidelakeError as error:
        sys.stderr.write(f"error: {error.message}\n")
        return FAILED
    except Terminated:
        return TERMINATED
    except KeyboardInterrupt:
        return INTERRUPTED


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
