"""Parses the command line."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import NoReturn

from tidelake.cli.declaration import (
    COMMANDS,
    EXIT_CODES,
    PROGRAM,
    SQL,
    WAREHOUSE_VARIABLE,
    Command,
    Flag,
)

__all__ = ["SqlArguments", "UsageError", "read_arguments"]


class UsageError(Exception):
    """The command line is wrong."""


@dataclass(frozen=True, slots=True)
class SqlArguments:
    """Arguments of ``tidelake sql``.

    Parameters
    ----------
    warehouse : str
        The directory.
    texts : tuple of str
        Statements of ``--command``.
    files : tuple of str
        Names of ``--file``; ``-`` is the standard input.
    format : str
        Output format.
    catalog, database : str
        Their names.
    spark : bool
        Spark may start.
    master : str, optional
        Spark's master.
    conf : mapping
        Spark's settings.
    memory : str, optional
        Memory limit of this process.
    echo, timing, pager : bool
        Show statements, show times, page long answers.
    history : str, optional
        History file.
    """

    warehouse: str
    texts: tuple[str, ...]
    files: tuple[str, ...]
    format: str
    catalog: str
    database: str
    spark: bool
    master: str | None
    conf: Mapping[str, str]
    memory: str | None
    echo: bool
    timing: bool
    pager: bool
    history: str | None


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Raise instead of ending the process."""
        raise UsageError(f"{message}\nTry '{self.prog} --help'.")


def read_arguments(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> SqlArguments:
    """Parse the command line.

    Parameters
    ----------
    argv : sequence of str
        Arguments without the program's name.
    environ : mapping
        May set the warehouse.

    Raises
    ------
    UsageError
        The command line is wrong.
    SystemExit
        After ``--help`` or ``--version``.

    Examples
    --------
    >>> given = read_arguments(["sql", "-w", "lake", "-c", "SHOW TABLES", "--format=json"], {})
    >>> given.warehouse, given.texts, given.format
    ('lake', ('SHOW TABLES',), 'json')
    """
    given = vars(_parser().parse_args(list(argv)))
    if given["command_name"] is None:
        message = f"a command is missing; there is: {SQL.name}"
        raise UsageError(f"{message}\nTry '{PROGRAM} --help'.")
    warehouse = given["warehouse"] or environ.get(WAREHOUSE_VARIABLE)
    if not warehouse:
        message = (
            f"the warehouse is missing: give --warehouse PATH, or set {WAREHOUSE_VARIABLE}; the"
            " first table creates the directory"
        )
        raise UsageError(message)
    files = tuple(given["file"] or ())
    for name in files:
        if name != "-" and not Path(name).is_file():
            message = f"there is no file {name}"
            raise UsageError(message)
    if files.count("-") > 1:
        message = "the standard input (-f -) can be read only once"
        raise UsageError(message)
    return SqlArguments(
        warehouse=warehouse,
        texts=tuple(given["command"] or ()),
        files=files,
        format=given["format"] or "table",
        catalog=given["catalog"] or "tidelake",
        database=given["database"] or "default",
        spark=not given["no_spark"],
        master=given["master"],
        conf=dict(map(_pair, given["conf"] or ())),
        memory=given["memory"],
        echo=given["echo"],
        timing=given["timing"],
        pager=not given["no_pager"],
        history=given["history"],
    )


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        message = f"--conf takes KEY=VALUE, not '{text}'"
        raise UsageError(message)
    return key.strip(), value.strip()


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog=PROGRAM,
        description="A streaming lakehouse in Python on Spark, on Apache Paimon's file format.",
        allow_abbrev=False,
    )
    version = f"{PROGRAM} {metadata.version(PROGRAM)}"
    parser.add_argument("--version", action="version", version=version, help="Show the version.")
    commands = parser.add_subparsers(dest="command_name", metavar="COMMAND", title="commands")
    for command in COMMANDS:
        _add_command(commands, command)
    return parser


def _add_command(commands: argparse._SubParsersAction[_Parser], command: Command) -> None:
    codes = "  ".join(f"{code}: {words}" for code, words in EXIT_CODES)
    parser = commands.add_parser(
        command.name,
        help=command.what,
        description=command.what,
        epilog=f"Exit codes: {codes}",
        allow_abbrev=False,
    )
    for flag in command.flags:
        _add_flag(parser, flag)


def _add_flag(parser: argparse.ArgumentParser, flag: Flag) -> None:
    words = flag.what.replace("`", "").replace("%", "%%")
    if flag.choices:
        words += f" One of {', '.join(flag.choices)}."
    if flag.default is not None:
        words += f" Default: {flag.default.replace('`', '')}."
    if flag.value is None:
        parser.add_argument(*flag.names, action="store_true", help=words, dest=flag.dest)
        return
    parser.add_argument(
        *flag.names,
        action="append" if flag.repeats else "store",
        choices=flag.choices or None,
        metavar=flag.value,
        help=words,
        dest=flag.dest,
    )
