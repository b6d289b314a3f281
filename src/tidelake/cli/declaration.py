"""Declares every command and option once, for the parser and the page ``docs/cli.md``."""

from __future__ import annotations

from tidelake.cli.command_line.flag import (
    CATALOG_FILE,
    CATALOG_OPTION,
    CONF,
    DATABASE,
    FORMAT,
    MASTER,
    MEMORY,
    ONE_TABLE,
    WAREHOUSE,
    Command,
    Flag,
)
from tidelake.cli.copies.declaration import CLONE, MIGRATE
from tidelake.cli.health.declaration import FSCK, REPAIR
from tidelake.cli.indexing.declaration import INDEX
from tidelake.cli.pages.declaration import REPORT, UI

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
CONNECT = Command(
    "connect",
    "Serve Spark Connect on this machine, with the warehouse as a catalog, until Ctrl-C.",
    (
        WAREHOUSE,
        Flag(("--port",), "Where clients connect.", value="PORT", default="15002"),
        Flag(
            ("--token",),
            "File with the token that clients must know, of 16 characters or more.",
            value="FILE",
            default="a new one, which is shown",
        ),
        Flag(
            ("--catalog",),
            "Name of the warehouse's catalog in statements.",
            value="NAME",
            default="tidelake",
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
SLOTS = "slots"
TABLE = "table"
DOCTOR = Command(
    "doctor",
    "Examine a table, the object store of a warehouse, or the replication slots of a database that"
    " is synced.",
    (
        Flag(
            ("what",),
            "What to examine. `slots` takes a job as `tidelake cdc` does, a file or a command with"
            " its arguments, and none of the options here.",
            value="WHAT",
            choices=(TABLE, "storage", SLOTS),
        ),
        Flag(
            ("name",),
            "Of `table`: `database.table`, or one of `--database`.",
            value="TABLE",
            may_lack=True,
        ),
        WAREHOUSE,
        DATABASE,
        Flag(("--orphans",), "Of a table: look for orphan files too, in all its directories."),
        Flag(
            ("--parallelism",),
            "Of a table: the tasks that write it at once.",
            value="N",
            default="`sink.parallelism`, or 1",
        ),
        Flag(("--json",), "Of a table: print one JSON object."),
        Flag(
            ("--processes",), "Of a store: processes that race for names.", value="N", default="4"
        ),
        Flag(("--names",), "Of a store: names that they race for.", value="N", default="200"),
        CATALOG_OPTION,
        CATALOG_FILE,
    ),
)
ORPHANS = Command(
    "orphans",
    "Find files that nothing names, and remove those that were found a day before. Spark does not"
    " start.",
    (
        Flag(
            ("table",),
            "The table: `database.table`, or one of `--database`; `database.*` for all of them.",
            value="TABLE",
        ),
        WAREHOUSE,
        DATABASE,
        Flag(("--dry-run",), "Show what would be done, and change nothing."),
        Flag(
            ("--older-than",),
            "Only files that were changed, and found, before this time, such as"
            " `2026-11-25T08:00Z`.",
            value="TIME",
            default="a day ago",
        ),
        Flag(("--list",), "Show the files in quarantine, and do nothing else."),
        Flag(
            ("--undelete",),
            "Take this file out of quarantine for good, and do nothing else.",
            value="PATH",
            repeats=True,
        ),
        Flag(
            ("--parallelism",),
            "Threads that list and delete in an object store.",
            value="N",
            default="those of the process",
        ),
        Flag(("--json",), "Print a JSON object for each table, or for each file of `--list`."),
        CATALOG_OPTION,
        CATALOG_FILE,
    ),
)
EXPIRE = Command(
    "expire",
    "Remove what a table's options no longer keep: snapshots, partitions or tags. Spark does not"
    " start.",
    (
        Flag(
            ("what",),
            "What to remove.",
            value="WHAT",
            choices=("snapshots", "partitions", "tags"),
        ),
        Flag(("table",), "The table: `database.table`, or one of `--database`.", value="TABLE"),
        WAREHOUSE,
        DATABASE,
        Flag(("--dry-run",), "Show what would be removed, and change nothing."),
        Flag(
            ("--older-than",),
            "Of snapshots and tags: those before this time, such as `2026-11-25T08:00Z`.",
            value="TIME",
        ),
        Flag(
            ("--expiration-time",),
            "Of partitions: their age, such as `30 d`.",
            value="AGE",
            default="the table's",
        ),
        Flag(("--json",), "Print a JSON object for each thing that is removed."),
        CATALOG_OPTION,
        CATALOG_FILE,
    ),
)
DIFF = Command(
    "diff",
    "Print the rows that differ between two versions of a table. Only files that differ are read.",
    (
        ONE_TABLE,
        Flag(
            ("versions",),
            "One or two versions: a snapshot, a tag, a time, or `branch:NAME`. The second is the"
            " newest snapshot by default.",
            value="VERSION",
            repeats=True,
        ),
        WAREHOUSE,
        DATABASE,
        Flag(("--counts",), "Print how many rows and columns differ, and not the rows."),
        Flag(("--json",), "Print a JSON object for each row, or for the counts."),
        CATALOG_OPTION,
        CATALOG_FILE,
    ),
)
BLAME = Command(
    "blame",
    "Print the commits that changed the row of a key.",
    (
        ONE_TABLE,
        Flag(
            ("key",),
            "The key. Of several columns: their values with commas between.",
            value="KEY",
        ),
        WAREHOUSE,
        DATABASE,
        Flag(("--json",), "Print a JSON object for each commit."),
        CATALOG_OPTION,
        CATALOG_FILE,
    ),
)
BISECT = Command(
    "bisect",
    "Find the first snapshot in which a row contradicts a condition.",
    (
        ONE_TABLE,
        Flag(
            ("--where",),
            "The condition that all rows shall satisfy, such as `amount >= 0`.",
            value="CONDITION",
        ),
        WAREHOUSE,
        DATABASE,
        Flag(
            ("--good",),
            "A version for which it holds.",
            value="VERSION",
            default="the oldest snapshot",
        ),
        Flag(
            ("--bad",),
            "A later one for which it fails.",
            value="VERSION",
            default="the newest snapshot",
        ),
        Flag(("--json",), "Print one JSON object."),
        CATALOG_OPTION,
        CATALOG_FILE,
    ),
)
CLUSTER = Command(
    "cluster",
    "Sort the rows of an append table, so that filters skip files. Spark does not start.",
    (
        Flag(("table",), "The table: `database.table`, or one of `--database`.", value="TABLE"),
        WAREHOUSE,
        DATABASE,
        Flag(
            ("--order-strategy",),
            "The order of the columns, `auto` by their number.",
            value="ORDER",
            choices=("auto", "order", "zorder", "hilbert"),
            default="as the options say",
        ),
        Flag(
            ("--order-by",),
            "The columns: `a,b`.",
            value="COLUMNS",
            default="those of `clustering.columns`",
        ),
        Flag(("--where",), "Only partitions of this condition: `dt > '2026-01-01'`.", value="TEXT"),
        Flag(("--full",), "Take all files, of an incremental clustering."),
        Flag(("--dry-run",), "Show what would be rewritten, and change nothing."),
        Flag(("--json",), "Print JSON objects."),
        CATALOG_OPTION,
        CATALOG_FILE,
        MEMORY,
    ),
)
_TABLE = Flag(("table",), "The table: `database.table`, or one of `--database`.", value="TABLE")
_SNAPSHOT = Flag(("--snapshot",), "A snapshot, by its id.", value="ID")
_AT = Flag(
    ("--at",), "The newest snapshot of this time, such as `2026-11-25T08:00Z`.", value="TIME"
)
LS = Command(
    "ls",
    "List the databases of a warehouse, or the tables of one: rows, bytes, last commit. Spark does"
    " not start.",
    (
        Flag(
            ("name",),
            "A database. Without it all databases are listed.",
            value="NAME",
            may_lack=True,
        ),
        WAREHOUSE,
        FORMAT,
        CATALOG_OPTION,
        CATALOG_FILE,
    ),
)
SHOW = Command(
    "show",
    "Show what a table is, or one of its system tables, such as partitions, buckets, schemas,"
    " options or consumers. Spark does not start.",
    (
        _TABLE,
        Flag(("what",), "A system table, by the name behind its `$`.", value="WHAT", may_lack=True),
        WAREHOUSE,
        DATABASE,
        FORMAT,
        CATALOG_OPTION,
        CATALOG_FILE,
    ),
)
FILES = Command(
    "files",
    "List the data files of a table: partition, bucket, level, rows, bytes, keys. Spark does not"
    " start.",
    (_TABLE, WAREHOUSE, DATABASE, FORMAT, CATALOG_OPTION, CATALOG_FILE),
)
SNAPSHOTS = Command(
    "snapshots",
    "List the snapshots of a table: time, kind of commit, rows, tags. Spark does not start.",
    (_TABLE, WAREHOUSE, DATABASE, FORMAT, CATALOG_OPTION, CATALOG_FILE),
)
HISTORY = Command(
    "history",
    "List what happened to a table, the newest first: commits, tags and schemas. Spark does not"
    " start.",
    (_TABLE, WAREHOUSE, DATABASE, FORMAT, CATALOG_OPTION, CATALOG_FILE),
)
TAG = Command(
    "tag",
    "List, create, delete or rename tags, which keep a snapshot. Spark does not start.",
    (
        Flag(
            ("verb",), "What to do.", value="VERB", choices=("list", "create", "delete", "rename")
        ),
        _TABLE,
        Flag(("name",), "The tag.", value="NAME", may_lack=True),
        Flag(("new_name",), "Its new name.", value="NEW_NAME", may_lack=True),
        WAREHOUSE,
        DATABASE,
        _SNAPSHOT,
        _AT,
        Flag(("--time-retained",), "Of a new tag: how long it stays, such as `7 d`.", value="AGE"),
        FORMAT,
        CATALOG_OPTION,
        CATALOG_FILE,
    ),
)
BRANCH = Command(
    "branch",
    "List, create, delete, rename or fast-forward branches. Spark does not start.",
    (
        Flag(
            ("verb",),
            "What to do.",
            value="VERB",
            choices=("list", "create", "delete", "rename", "fast-forward"),
        ),
        _TABLE,
        Flag(("name",), "The branch.", value="NAME", may_lack=True),
        Flag(("new_name",), "Its new name.", value="NEW_NAME", may_lack=True),
        WAREHOUSE,
        DATABASE,
        _SNAPSHOT,
        Flag(("--tag",), "Of a new branch: the tag to begin at.", value="TAG"),
        Flag(("--dry-run",), "Of a fast-forward: show what it would do."),
        FORMAT,
        CATALOG_OPTION,
        CATALOG_FILE,
    ),
)
ROLLBACK = Command(
    "rollback",
    "Set a table back to a snapshot or a tag: later snapshots go for good. Spark does not start.",
    (
        _TABLE,
        WAREHOUSE,
        DATABASE,
        _SNAPSHOT,
        Flag(("--tag",), "A tag, by its name.", value="TAG"),
        _AT,
        Flag(("--dry-run",), "Show what would go, and change nothing."),
        Flag(("--json",), "Print a JSON object."),
        CATALOG_OPTION,
        CATALOG_FILE,
    ),
)
COMPACT = Command(
    "compact",
    "Compact tables; with `--watch` keep them healthy until Ctrl-C: compaction, tags, old"
    " partitions, snapshots and orphan files.",
    (
        Flag(
            ("tables",),
            "The tables: `database.table`, or those of `--database`; `database.*` and `*.*` for all"
            " of them.",
            value="TABLE",
            repeats=True,
        ),
        WAREHOUSE,
        DATABASE,
        Flag(("--watch",), "Do what is due in the tables, round after round, until Ctrl-C."),
        Flag(("--once",), "Do what is due in the tables, once."),
        Flag(("--full",), "Merge everything. Not with `--watch` or `--once`."),
        Flag(("--dry-run",), "Show what is due, and change nothing."),
        Flag(
            ("--interval",),
            "Seconds from the begin of a round to that of the next.",
            value="N",
            default="10",
        ),
        Flag(
            ("-o", "--option"),
            "An option of the tables for this command, such as `target-file-size=64 mb`.",
            value="KEY=VALUE",
            repeats=True,
        ),
        Flag(
            ("--metrics-port",),
            "With `--watch`: answer `GET /metrics` of Prometheus on this port of this machine.",
            value="N",
            default="no metrics",
        ),
        Flag(("--json",), "Print a JSON object for each table in which something was done."),
        Flag(
            ("--on",),
            "Where compactions run: in this process, or on the executors of a Spark session.",
            value="WHERE",
            choices=("local", "spark"),
            default="local",
        ),
        MASTER,
        CONF,
        CATALOG_OPTION,
        CATALOG_FILE,
        MEMORY,
    ),
)
COMMANDS = (
    SQL,
    TAIL,
    SERVE,
    CONNECT,
    GET,
    LS,
    SHOW,
    FILES,
    SNAPSHOTS,
    HISTORY,
    DIFF,
    BLAME,
    BISECT,
    TAG,
    BRANCH,
    ROLLBACK,
    CLONE,
    MIGRATE,
    COMPACT,
    CLUSTER,
    INDEX,
    EXPIRE,
    ORPHANS,
    DOCTOR,
    FSCK,
    REPAIR,
    UI,
    REPORT,
)
CDC = "cdc"
CDC_WHAT = "Keep tables equal to those of a database."
CDC_VERBS = {
    "run": "Run a job until it is stopped, or once with --once.",
    "plan": "Show what a job would do, and what is wrong with the source; nothing is changed.",
    "status": "Show how far a job is, and what the source holds for it.",
    "slots": "Show the server's replication slots, and how much log each one holds.",
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
    (143, "A database sync, `compact --watch` or `ui` was stopped by SIGTERM."),
)
