"""The command ``tidelake ui``: a warehouse as pages, until Ctrl-C or SIGTERM."""

from __future__ import annotations

import sys
import threading

from tidelake.cli.command_line.token_file import token_in
from tidelake.cli.pages.arguments import UiArguments
from tidelake.cli.signals import Terminated, ended_by_sigterm
from tidelake.engine.tables import open_catalog
from tidelake.errors import InvalidInputError, TidelakeError
from tidelake.options.masked import masked_text
from tidelake.ui.serving import page_server

FAILED, INTERRUPTED, TERMINATED = 1, 130, 143
IPV6 = ":"


def run(given: UiArguments) -> int:
    """Run the command and return the exit code."""
    try:
        token = None if given.token is None else token_in(given.token)
        catalog = open_catalog(given.warehouse, catalog=given.catalog_options, memory=given.memory)
        with (
            ended_by_sigterm(),
            page_server(
                catalog,
                host=given.host,
                port=given.port,
                token=token,
                allow_actions=given.allow_actions,
            ) as server,
        ):
            host = f"[{given.host}]" if IPV6 in given.host else given.host
            where = masked_text(catalog.uri)
            _say(f"http://{host}:{server.server_port}/ shows {where}. Ctrl-C ends it.")
            if token is None and server.token is not None:
                _say(f"Whoever may look and act knows this token: {server.token}")
            threading.Event().wait()
    except InvalidInputError as error:
        hint = " (--token FILE)" if error.kind in ("token_needed", "token_too_short") else ""
        sys.stderr.write(f"error: {error.message}{hint}\n")
        return FAILED
    except TidelakeError as error:
        sys.stderr.write(f"error: {error.message}\n")
        return FAILED
    except Terminated:
        return TERMINATED
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
