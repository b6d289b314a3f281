"""The command ``tidelake sql``: texts and files in turn, or a session with a person."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tidelake.cli._optional import load
from tidelake.cli.arguments import SqlArguments
from tidelake.cli.engine import Engine
from tidelake.cli.shell.pager import Pager
from tidelake.cli.shell.session_commands import carry_out
from tidelake.cli.shell.shell import Shell
from tidelake.cli.shell.statement_text import holds_statement
from tidelake.errors import InvalidInputError, TidelakeError

if TYPE_CHECKING:
    from tidelake.cli.shell.terminal import Terminal

__all__ = ["run"]

FAILED = 1
USAGE = 2
STANDARD_INPUT = "-"
GREETING = "Statements end with a semicolon; Tab completes, \\help tells more, Ctrl-D leaves."


def run(given: SqlArguments) -> int:
    """Carry out the command; gives the exit code."""
    for stream in (sys.stdout, sys.stdin):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8")
    try:
        engine = _engine(given)
    except TidelakeError as error:
        sys.stderr.write(f"error: {error.message}\n")
        return FAILED
    try:
        return _run(given, engine)
    finally:
        engine.close()


def _engine(given: SqlArguments) -> Engine:
    def notify(line: str) -> None:
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()

    return Engine(
        given.warehouse,
        catalog=given.catalog,
        database=given.database,
        spark=given.spark,
        master=given.master,
        conf=given.conf,
        memory=given.memory,
        notify=notify,
    )


def _run(given: SqlArguments, engine: Engine) -> int:
    texts = bool(given.texts or given.files)
    talks = not texts and sys.stdin.isatty() and sys.stdout.isatty()
    shell = Shell(
        engine,
        out=sys.stdout,
        err=sys.stderr,
        format=given.format,
        echo=given.echo,
        timing=given.timing or talks,
        pager=Pager() if given.pager and talks else None,
    )
    if talks:
        return _talk(given, shell)
    try:
        for text in _texts(given) if texts else [sys.stdin.read()]:
            if holds_statement(text) and not shell.run(text):
                return FAILED
    except TidelakeError as error:
        shell.complain(error)
        return FAILED
    return 0


def _texts(given: SqlArguments) -> Iterator[str]:
    yield from given.texts
    for name in given.files:
        try:
            yield sys.stdin.read() if name == STANDARD_INPUT else Path(name).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            message = f"{name} cannot be read: {error}."
            raise InvalidInputError(message, kind="sql_file", path=name) from error


def _talk(given: SqlArguments, shell: Shell) -> int:
    try:
        what = "The prompt (-c, -f and pipes do without)"
        module = load("tidelake.cli.shell.terminal", what=what, extra="cli")
    except TidelakeError as error:
        shell.complain(error)
        return USAGE
    history = Path(given.history) if given.history else None
    prompt: Terminal = module.Terminal(shell.engine.session, history=history)
    shell.say(f"Warehouse {given.warehouse}\n{GREETING}")
    while True:
        try:
            text = prompt.read()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return 0
        try:
            if carry_out(text, shell):
                return 0
        except KeyboardInterrupt:
            shell.say("cancelled")
