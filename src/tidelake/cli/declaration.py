"""What the program takes: every command and option, declared once.

The parser is built from it, and so is the page ``docs/cli.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["COMMANDS", "EXIT_CODES", "PROGRAM", "SQL", "WAREHOUSE_VARIABLE", "Command", "Flag"]

PROGRAM = "tidelake"
WAREHOUSE_VARIABLE = "TIDELAKE_WAREHOUSE"


@dataclass(frozen=True, slots=True)
class Flag:
    """An option of a command.

    Parameters
    ----------
    names : tuple of str
        As they are written, the long one last.
    what : str
        What it does, as a sentence.
    value : str, optional
        What its value is called; None for an option without one.
    repeats : bool
        Whether it may be given several times.
    choices : tuple of str
        The values that there are, where there are few.
    default : str, optional
        Its value where it is not given, for reading; the program knows what to do with none.
    """

    names: tuple[str, ...]
    what: str
    value: str | None = None
    repeats: bool = False
    choices: tuple[str, ...] = ()
    default: str | None = None

    @property
    def dest(self) -> str:
        """The name of its value in a program."""
        return self.names[-1].lstrip("-").replace("-", "_")


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the program."""

    name: str
    what: str
    flags: Sequence[Flag]


SQL = Command(
    "sql",
    "Run SQL statements on a warehouse, from the terminal, a file, a pipe or the command line.",
    (
        Flag(
            ("-w", "--warehouse"),
            "The warehouse's directory. It comes into being with its first table.",
            value="PATH",
            default=f"the variable {WAREHOUSE_VARIABLE}",
        ),
        Flag(
            ("-c", "--command"),
            "Run these statements and end. Several are run in their order, then the files.",
            value="SQL",
            repeats=True,
        ),
        Flag(
            ("-f", "--file"),
            "Run the statements of a file and end; `-` is the standard input.",
            value="FILE",
            repeats=True,
        ),
        Flag(
            ("--format",),
            "How answers are written.",
            value="FORMAT",
            choices=("table", "json", "csv", "vertical"),
            default="table",
        ),
        Flag(
            ("--catalog",),
            "What statements call the warehouse.",
            value="NAME",
            default="tidelake",
        ),
        Flag(
            ("-d", "--database"),
            "The database that names without one are of.",
            value="NAME",
            default="default",
        ),
        Flag(
            ("--no-spark",),
            "Never start Spark: a statement that needs it is refused.",
        ),
        Flag(
            ("--master",),
            "Where Spark runs, such as `local[4]` or `spark://host:7077`.",
            value="URL",
            default="all cores of this machine",
        ),
        Flag(
            ("--conf",),
            "A setting of Spark's session.",
            value="KEY=VALUE",
            repeats=True,
        ),
        Flag(
            ("--memory",),
            "What this process may take for reading, writing and compacting, such as `512 mb`.",
            value="SIZE",
            default="no limit",
        ),
        Flag(
            ("--echo",),
            "Show each statement on the standard error before it runs.",
        ),
        Flag(
            ("--timing",),
            "Show rows and seconds of each statement on the standard error, as in the terminal.",
        ),
        Flag(
            ("--no-pager",),
            "Write long answers to the terminal as they are, without a pager.",
        ),
        Flag(
            ("--history",),
            "Where the lines of the terminal are kept.",
            value="FILE",
            default="`~/.local/state/tidelake/history`",
        ),
    ),
)
COMMANDS = (SQL,)
EXIT_CODES = (
    (0, "All statements ran."),
    (1, "A statement failed; those behind it did not run."),
    (2, "The command line is wrong, or a library is missing; nothing ran."),
    (130, "Ctrl-C ended it."),
    (141, "Whoever read its output went away."),
)
