"""Declares every command and option once, for the parser and the page ``docs/cli.md``."""

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
        Spellings, the long one last.
    what : str
        A sentence for the help.
    value : str, optional
        Name of its value; None for a flag without value.
    repeats : bool
        May be given several times.
    choices : tuple of str
        Allowed values; empty for any.
    default : str, optional
        Its default, for the help only.
    """

    names: tuple[str, ...]
    what: str
    value: str | None = None
    repeats: bool = False
    choices: tuple[str, ...] = ()
    default: str | None = None

    @property
    def dest(self) -> str:
        """Attribute name of its value."""
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
            "The warehouse's directory. The first table creates it.",
            value="PATH",
            default=f"the variable {WAREHOUSE_VARIABLE}",
        ),
        Flag(
            ("-c", "--command"),
            "Run these statements and exit. Several run in order, then the files.",
            value="SQL",
            repeats=True,
        ),
        Flag(
            ("-f", "--file"),
            "Run the statements of a file and exit; `-` is the standard input.",
            value="FILE",
            repeats=True,
        ),
        Flag(
            ("--format",),
            "Output format.",
            value="FORMAT",
            choices=("table", "json", "csv", "vertical"),
            default="table",
        ),
        Flag(
            ("--catalog",),
            "Name of the warehouse's catalog in statements.",
            value="NAME",
            default="tidelake",
        ),
        Flag(
            ("-d", "--database"),
            "The current database.",
            value="NAME",
            default="default",
        ),
        Flag(
            ("--no-spark",),
            "Never start Spark; refuse statements that need it.",
        ),
        Flag(
            ("--master",),
            "Spark's master, such as `local[4]` or `spark://host:7077`.",
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
            "Memory limit of this process for reads, writes and compactions, such as `512 mb`.",
            value="SIZE",
            default="no limit",
        ),
        Flag(
            ("--echo",),
            "Show each statement on the standard error before it runs.",
        ),
        Flag(
            ("--timing",),
            "Show the rows and seconds of each statement on the standard error.",
        ),
        Flag(
            ("--no-pager",),
            "Write long answers without a pager.",
        ),
        Flag(
            ("--history",),
            "History file of the prompt.",
            value="FILE",
            default="`~/.local/state/tidelake/history`",
        ),
    ),
)
COMMANDS = (SQL,)
EXIT_CODES = (
    (0, "All statements ran."),
    (1, "A statement failed; later ones did not run."),
    (2, "The command line is wrong, or a library is missing; nothing ran."),
    (130, "Interrupted by Ctrl-C."),
    (141, "The reader of the output closed it."),
)
