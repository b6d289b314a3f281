"""The program's entry point: command line in, exit code out."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Sequence

from tidelake.cli._optional import load
from tidelake.cli.arguments import (
    Arguments,
    CdcArguments,
    DoctorArguments,
    GetArguments,
    ServeArguments,
    TailArguments,
    UsageError,
    read_arguments,
)
from tidelake.cli.declaration import PROGRAM
from tidelake.errors import UnsupportedError

USAGE = 2
INTERRUPTED = 130
READER_GONE = 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments without the program's name; this process's by default.

    Returns
    -------
    int
        The exit code: see :data:`tidelake.cli.declaration.EXIT_CODES`.
    """
    if not sys.warnoptions:
        warnings.simplefilter("ignore")  # libraries warn of what a user of SQL cannot change
        warnings.filterwarnings("default", module=r"tidelake\.spark\.jvm\.")  # what is slower
    # libraries also log the errors they raise; without a handler Python prints the log
    logging.getLogger().addHandler(logging.NullHandler())
    try:
        given = read_arguments(sys.argv[1:] if argv is None else argv)
        name = _name(given)
        command = load(f"tidelake.cli.{name}_command", what=f"tidelake {name}", extra="cli")
    except (UsageError, UnsupportedError) as error:
        sys.stderr.write(f"{PROGRAM}: {error}\n")
        return USAGE
    try:
        return int(command.run(given))
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # flushing the buffer at exit would raise again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return READER_GONE


def _name(given: Arguments) -> str:
    """The command that arguments are of."""
    match given:
        case TailArguments():
            return "tail"
        case ServeArguments():
            return "serve"
        case GetArguments():
            return "get"
        case DoctorArguments():
            return "doctor"
        case CdcArguments():
            return "cdc"
    return "sql"
