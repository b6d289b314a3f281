"""The parser of the command line: it raises, and knows near names."""

from __future__ import annotations

import argparse
import re
from importlib import metadata
from typing import Any, NoReturn

from tidelake.cli.command_line.flag import PROGRAM, Command, Flag
from tidelake.cli.command_line.usage_error import UsageError
from tidelake.cli.declaration import CDC, CDC_WHAT, COMMANDS, EXIT_CODES
from tidelake.errors import near_names

_VALUE = re.compile(r"-\.?\d")
"""How a value begins that is no flag: a negative number, alone or in a key of several columns."""
_CHOICE = re.compile(r"invalid choice: '(?P<given>[^']*)' \(choose from (?P<known>[^)]*)\)")
"""How argparse refuses a choice."""


class _Parser(argparse.ArgumentParser):
    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._negative_number_matcher = _VALUE

    def error(self, message: str) -> NoReturn:
        """Raise instead of ending the process; a misspelt choice gets the near ones."""
        choice = _CHOICE.search(message)
        if choice is not None:
            known = [name.strip().strip("'") for name in choice["known"].split(",")]
            message += f".{near_names(choice['given'], known)}".rstrip(".")
        raise UsageError(f"{message}\nTry '{self.prog} --help'.")


def command_parser() -> argparse.ArgumentParser:
    """Make the parser of all commands but those of a database sync."""
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
    commands.add_parser(CDC, help=CDC_WHAT, add_help=False)
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
    if flag.is_operand:
        many = "+" if flag.repeats else "?" if flag.may_lack else None
        parser.add_argument(flag.dest, metavar=flag.value, help=words, nargs=many)
        return
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
