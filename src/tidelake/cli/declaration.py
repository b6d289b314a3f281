"""Declares every command and option once, for the parser and the page ``docs/cli.md``."""

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
    """

    names: tuple[str, ...]
    what: str
    value: str | None = None
    repeats: bool = False
    choices: tuple[str, ...] = ()
    default: str | None = None

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
SQL = Command(
    "sql",
    "Run SQL statements on a warehouse, from the terminal, a file, a pipe or the command line.",
    (
        WAREHOUSE,
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
        FORMAT,
        Flag(
            ("--catalog",),
            "Name of the warehouse's catalog in statements.",
            value="NAME",
            default="tidelake",
        ),
        DATABASE,
        Flag(
            ("--no-spark",),
            "Never start Spark; refuse statements that need it.",
        ),
        MASTER,
        CONF,
        CATALOG_OPTION,
        CATALOG_FILE,
        MEMORY,
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
TAIL = Command(
    "tail",
    "Print the changes of a table as they are committed, until Ctrl-C. Spark does not start.",
    (
        Flag(("table",), "The table: `database.table`, or one of `--database`.", value="TABLE"),
        WAREHOUSE,
        DATABASE,
        Flag(
            ("--from",),
            "Where it begins: `latest`, `full`, a snapshot or a time, as below.",
            value="START",
            default="latest",
        ),
        Flag(("--columns",), "The columns to show, as `a,b`.", value="NAMES", default="all"),
        Flag(
            ("--where",), "The rows to show, as `price > 10 AND item = 'tea'`.", value="CONDITION"
        ),
        FORMAT,
        Flag(("-n", "--limit"), "End after this many rows.", value="N", default="no limit"),
        Flag(
            ("--timeout",),
            "End after this many seconds without a change; `0` ends when no change is left.",
            value="SECONDS",
            default="never",
        ),
        Flag(
            ("--consumer-id",),
            "Record the progress under this name: the next run goes on from there.",
            value="NAME",
        ),
        Flag(
            ("-o", "--option"),
            "An option of the table for this stream, such as `streaming-read-overwrite=skip`.",
            value="KEY=VALUE",
            repeats=True,
        ),
        CATALOG_OPTION,
        CATALOG_FILE,
        MEMORY,
    ),
)
SERVE = Command(
    "serve",
    "Answer point reads of tables as a query service, until Ctrl-C.",
    (
        Flag(
            ("tables",),
            "The tables: `database.table`, or those of `--database`.",
            value="TABLE",
            repeats=True,
        ),
        WAREHOUSE,
        DATABASE,
        Flag(
            ("--on",),
            "Where executors run: processes of this machine, or tasks of a Spark session.",
            value="WHERE",
            choices=("local", "spark"),
            default="local",
        ),
        Flag(("--parallelism",), "Number of executors.", value="N", default="2"),
        Flag(
            ("--bind",),
            "Where clients connect, as `host` or `host:port`. Any but this machine's own address"
            " needs TLS and tokens.",
            value="ADDRESS",
            default="127.0.0.1",
        ),
        Flag(("--tls-cert",), "The server's certificate, as PEM.", value="FILE"),
        Flag(("--tls-key",), "Its private key, as PEM.", value="FILE"),
        Flag(
            ("--tls-ca",),
            "Certificates of those who sign clients' certificates, as PEM: clients need one then.",
            value="FILE",
        ),
        Flag(
            ("--tokens",),
            "The file of tokens: who may read which tables. It is read again when it changes.",
            value="FILE",
        ),
        Flag(
            ("--insecure",), "Allow another address than this machine's own without TLS and tokens."
        ),
        Flag(
            ("--metrics-port",),
            "Answer `GET /metrics` of Prometheus on this port of this machine.",
            value="N",
            default="no metrics",
        ),
        Flag(("--interval",), "Seconds between two looks at the service.", value="N", default="2"),
        Flag(
            ("--log-format",),
            "How log lines, and figures outside of a terminal, are written.",
            value="FORMAT",
            choices=("text", "json"),
            default="text",
        ),
        MASTER,
        CONF,
        CATALOG_OPTION,
        CATALOG_FILE,
        MEMORY,
    ),
)
GET = Command(
    "get",
    "Print rows by their keys: by the table's query service if one runs, else from its files.",
    (
        Flag(("table",), "The table: `database.table`, or one of `--database`.", value="TABLE"),
        Flag(
            ("keys",),
            "Keys. Of several columns: their values with commas between, as `2026-11-25,7`.",
            value="KEY",
            repeats=True,
        ),
        WAREHOUSE,
        DATABASE,
        Flag(("--columns",), "The columns to show, as `a,b`.", value="NAMES", default="all"),
        Flag(("--json",), "Print a JSON object for each key; `null` for a key that is missing."),
        Flag(("--local",), "Read the files, and ask no service."),
        Flag(
            ("--token",),
            "File with the token for the service.",
            value="FILE",
        ),
        Flag(("--tls-ca",), "Certificates of those who sign the service's, as PEM.", value="FILE"),
        Flag(
            ("--timeout",), "Seconds until the service must have answered.", value="N", default="30"
        ),
        CATALOG_OPTION,
        CATALOG_FILE,
        MEMORY,
    ),
)
DOCTOR = Command(
    "doctor",
    "Examine the object store of a warehouse, with a line for each thing that it must do.",
    (
        Flag(("what",), "What to examine.", value="WHAT", choices=("storage",)),
        WAREHOUSE,
        Flag(("--processes",), "Processes that race for names.", value="N", default="4"),
        Flag(("--names",), "Names that they race for.", value="N", default="200"),
        CATALOG_OPTION,
        CATALOG_FILE,
    ),
)
COMMANDS = (SQL, TAIL, SERVE, GET, DOCTOR)
CDC = "cdc"
CDC_WHAT = "Keep tables equal to those of a database."
CDC_VERBS = {
    "run": "Run a job until it is stopped, or once with --once.",
    "plan": "Show what a job would do, and what is wrong with the source; nothing is changed.",
    "status": "Show how far a job is, and what the source holds for it.",
    "epochs": "List the complete epochs with the snapshot of each table.",
    "resnapshot": "Copy one table again: resnapshot TABLE, then the job.",
    "replay": "Try rows of the quarantine again: replay [TABLE], then the job.",
    "drop": "End a job for good: its slot, publication and journal go, the tables stay.",
}
"""Verbs of ``tidelake cdc``; its commands are declared in :mod:`tidelake.cdc.command.argument`."""
EXIT_CODES = (
    (0, "All statements ran; a tail reached its limit or timeout; a service was stopped."),
    (1, "A statement, a tail, a service or a get failed; later statements did not run."),
    (2, "The command line is wrong, or a library is missing; nothing ran."),
    (130, "Interrupted by Ctrl-C."),
    (141, "The reader of the output closed it."),
)
