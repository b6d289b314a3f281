"""A command and its options, as values; and the options that many commands share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

PROGRAM = "tidelake"
WAREHOUSE_VARIABLE = "TIDELAKE_WAREHOUSE"


@dataclass(frozen=True, slots=True)
class Flag:
    """An option of a command, or an operand: what is given without a name.

    Parameters
    ----------
    names : tuple of str
        Spellings, the long one last; of an operand its word, without dashes.
    value : str, optional
        Name of its value; None for a flag without value.
    repeats : bool
        May be given several times.
    choices : tuple of str
        Allowed values; empty for any.
    default : str, optional
        Its default, for the help only.
    may_lack : bool
        Of an operand: whether it may be left out.
    """

    names: tuple[str, ...]
    what: str
    value: str | None = None
    repeats: bool = False
    choices: tuple[str, ...] = ()
    default: str | None = None
    may_lack: bool = False

    @property
    def is_operand(self) -> bool:
        """True where the value stands alone."""
        return not self.names[0].startswith("-")

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


WAREHOUSE = Flag(
    ("-w", "--warehouse"),
    "The warehouse's directory. The first table creates it.",
    value="PATH",
    default=f"the variable {WAREHOUSE_VARIABLE}",
)
CATALOG_OPTION = Flag(
    ("--catalog-option",),
    "An option of the catalog by Paimon's name, such as `metastore=jdbc`.",
    value="KEY=VALUE",
    repeats=True,
)
CATALOG_FILE = Flag(
    ("--catalog-file",),
    "A file with options of the catalog, a line each. Passwords belong here.",
    value="FILE",
)
DATABASE = Flag(("-d", "--database"), "The current database.", value="NAME", default="default")
MASTER = Flag(
    ("--master",),
    "Spark's master, such as `local[4]` or `spark://host:7077`.",
    value="URL",
    default="all cores of this machine",
)
CONF = Flag(
    ("--conf",),
    "A setting of Spark's session.",
    value="KEY=VALUE",
    repeats=True,
)
FORMAT = Flag(
    ("--format",),
    "Output format.",
    value="FORMAT",
    choices=("table", "json", "csv", "vertical"),
    default="table",
)
MEMORY = Flag(
    ("--memory",),
    "Memory limit of this process for reads, writes and compactions, such as `512 mb`.",
    value="SIZE",
    default="no limit",
)
ONE_TABLE = Flag(("table",), "The table: `database.table`, or one of `--database`.", value="TABLE")
