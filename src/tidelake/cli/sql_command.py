"""The command ``tidelake sql``: runs texts and files, or an interactive prompt."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tidelake.cli._optional import load
from tidelake.cli.arguments import SqlArguments
from tidelake.cli.engine import Engine
from tidelake.cli.output.shown_warnings import shown_warnings
from tidelake.cli.shell.pager import Pager
from tidelake.cli.shell.session_commands import run_input
from tidelake.cli.shell.shell import Shell
from tidelake.cli.shell.statement_text import holds_statement
from tidelake.engine.tables import open_catalog
from tidelake.errors import InvalidInputError, TidelakeError

if TYPE_CHECKING:
    from tidelake.cli.shell.terminal import Terminal

FAILED = 1
USAGE = 2
STANDARD_INPUT = "-"
GREETING = "Statements end with a semicolon; Tab completes, \\help shows help, Ctrl-D exits."


def run(arguments: SqlArguments) -> int:
    """Run the command and return the exit code."""
    for stream in (sys.stdout, sys.stdin):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8")
    try:
        engine = _engine(arguments)
    except TidelakeError as error:
        sys.stderr.write(f"error: {error.message}\n")
        return FAILED
    try:
        with shown_warnings():
            return _run(arguments, engine)
    finally:
        engine.close()


def _engine(arguments: SqlArguments) -> Engine:
    def notify(line: str) -> None:
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()

    return Engine(
        open_catalog(
            arguments.warehouse, catalog=arguments.catalog_options, memory=arguments.memory
        ),
        catalog=arguments.catalog,
        database=arguments.database,
        spark=arguments.spark,
        master=arguments.master,
        conf=arguments.conf,
        notify=notify,
    )


def _run(arguments: SqlArguments, engine: Engine) -> int:
    texts = bool(arguments.texts or arguments.files)
    is_interactive = not texts and sys.stdin.isatty() and sys.stdout.isatty()
    shell = Shell(
        engine,
        out=sys.stdout,
        err=sys.stderr,
        format=arguments.format,
        echo=arguments.echo,
        timing=arguments.timing or is_interactive,
        pager=Pager() if arguments.pager and is_interactive else None,
    )
    if is_interactive:
        return _interact(arguments, shell)
    try:
        for text in _texts(arguments) if texts else [sys.stdin.read()]:
            if holds_statement(text) and not shell.run(text):
                return FAILED
        engine.wait_for_jobs()
    except TidelakeError as error:
        shell.show_error(error)
        return FAILED
    return 0


def _texts(arguments: SqlArguments) -> Iterator[str]:
    yield from arguments.texts
    for name in arguments.files:
        try:
            yield sys.stdin.read() if name == STANDARD_INPUT else Path(name).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            message = f"{name} cannot be read: {error}."
            raise InvalidInputError(message, kind="sql_file", path=name) from error


def _interact(arguments: SqlArguments, shell: Shell) -> int:
    try:
        what = "The prompt (not -c, -f or a pipe)"
        module = load("tidelake.cli.shell.terminal", what=what, extra="cli")
    except TidelakeError as error:
        shell.show_error(error)
        return USAGE
    history = Path(arguments.history) if arguments.history else None
    prompt: Terminal = module.Terminal(shell.engine.session, history=history)
    shell.say(f"Warehouse {arguments.warehouse}\n{GREETING}")
    while True:
        try:
            text = prompt.read()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return 0
        try:
            if run_input(text, shell):
                return 0
        except KeyboardInterrupt:
            shell.say("cancelled")
