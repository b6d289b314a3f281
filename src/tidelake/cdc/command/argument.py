"""The arguments of the sync commands, declared once: for the parsers, and for pages of help.

Names, shapes and defaults are Paimon's (``SyncTableActionFactoryBase``,
``SyncDatabaseActionFactoryBase`` and the factories of each source), which has no
``postgres_sync_database``: ours takes what ``mysql_sync_database`` takes. Those with ``is_ours``
are not Paimon's. A name may be written with dashes in place of underscores, as there.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tidelake.errors import InvalidInputError, near_names


class Shape(Enum):
    """The form of an argument's value."""

    TEXT = "one text"
    NAMES = "names with commas between, perhaps in several arguments"
    TEXTS = "a text each time"
    PAIRS = "key=value each time"
    LISTS = "key=value,value each time"
    TRUTH = "true or false"
    FLAG = "no value"


MYSQL, POSTGRES, KAFKA = "mysql", "postgres", "kafka"
TABLE, DATABASE = "table", "database"
SYNC_COMMANDS = {
    f"{source}_sync_{what}": (source, what)
    for source in (MYSQL, POSTGRES, KAFKA)
    for what in (TABLE, DATABASE)
}
"""Kind of source, and what is kept equal, by the command's name."""


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument.

    Parameters
    ----------
    name : str
        With underscores, without dashes before it.
    what : str
        Help: sentences.
    value : str
        The value's word in help.
    default : str, optional
        For help.
    sources, scopes : tuple of str
        The commands that have it.
    """

    name: str
    what: str
    shape: Shape = Shape.TEXT
    value: str = "TEXT"
    choices: tuple[str, ...] = ()
    default: str | None = None
    sources: tuple[str, ...] = (MYSQL, POSTGRES, KAFKA)
    scopes: tuple[str, ...] = (TABLE, DATABASE)
    is_required: bool = False
    is_ours: bool = False

    @property
    def flag(self) -> str:
        """Its spelling on the command line: ours have dashes."""
        return "--" + (self.name.replace("_", "-") if self.is_ours else self.name)

    @property
    def repeats(self) -> bool:
        """Whether it may be given several times."""
        return self.shape in {Shape.NAMES, Shape.TEXTS, Shape.PAIRS, Shape.LISTS}


_TABLE_ONLY, _DATABASE_ONLY = (TABLE,), (DATABASE,)
_SHARDED = (MYSQL, POSTGRES)


def _source_conf(source: str, server: str, keys: str) -> Argument:
    return Argument(
        f"{source}_conf",
        f"A setting of the {server}, by Flink CDC's name: {keys}. A password may be `env:NAME`,"
        " `file:PATH` or `prompt`.",
        Shape.PAIRS,
        "KEY=VALUE",
        sources=(source,),
        is_required=True,
    )


ARGUMENTS = (
    Argument("warehouse", "The warehouse's directory.", value="PATH"),
    Argument("database", "The database of the lake.", value="NAME", is_required=True),
    Argument(
        "table", "The table of the lake.", value="NAME", scopes=_TABLE_ONLY, is_required=True
    ),
    _source_conf(MYSQL, "MySQL or MariaDB", "`hostname`, `username`, `database-name` and more"),
    _source_conf(
        POSTGRES, "PostgreSQL", "`hostname`, `username`, `database-name`, `slot.name` and more"
    ),
    _source_conf(KAFKA, "topics", "`properties.bootstrap.servers`, `topic`, `value.format`"),
    Argument(
        "catalog_conf", "An option of the catalog by Paimon's name.", Shape.PAIRS, "KEY=VALUE"
    ),
    Argument(
        "table_conf",
        "An option of the tables, such as `bucket=4`. Existing tables get those that may change.",
        Shape.PAIRS,
        "KEY=VALUE",
    ),
    Argument(
        "primary_keys", "The primary key, as `a,b`.", Shape.NAMES, "NAMES", default="the source's"
    ),
    Argument(
        "partition_keys", "The partition keys, as `a,b`.", Shape.NAMES, "NAMES", default="none"
    ),
    Argument(
        "multiple_table_partition_keys",
        "Partition keys of one table of the source, as `orders=dt,region`.",
        Shape.LISTS,
        "TABLE=NAMES",
        scopes=_DATABASE_ONLY,
    ),
    Argument(
        "sync_primary_keys_from_source_schema",
        "Whether the source's primary key is taken where none is given.",
        Shape.TRUTH,
        "BOOL",
        default="true",
    ),
    Argument(
        "type_mapping",
        "Switches of the mapping of types, as `to-nullable,char-to-string`.",
        Shape.NAMES,
        "SWITCHES",
    ),
    Argument(
        "computed_column",
        "A computed column, as `day=date_format(at, yyyy-MM-dd)`.",
        Shape.TEXTS,
        "DEFINITION",
    ),
    Argument(
        "metadata_column",
        "What the source says of each row, as columns: `op_ts,table_name`.",
        Shape.NAMES,
        "NAMES",
    ),
    Argument("metadata_column_prefix", "Begins the names of metadata columns."),
    Argument(
        "including_tables",
        "Which tables of the source, as a regular expression: `orders|item.*`.",
        value="PATTERN",
        default="all",
        scopes=_DATABASE_ONLY,
    ),
    Argument(
        "excluding_tables",
        "Which tables not; it wins over the tables that are included.",
        value="PATTERN",
        default="none",
        scopes=_DATABASE_ONLY,
    ),
    Argument(
        "including_dbs",
        "Which databases of the source, or schemas of PostgreSQL.",
        value="PATTERN",
        default="all",
        scopes=_DATABASE_ONLY,
    ),
    Argument(
        "excluding_dbs", "Which databases not.", value="PATTERN", default="none",
        scopes=_DATABASE_ONLY,
    ),
    Argument("table_prefix", "Begins the names of all tables.", scopes=_DATABASE_ONLY),
    Argument("table_suffix", "Ends the names of all tables.", scopes=_DATABASE_ONLY),
    Argument(
        "table_prefix_db", "A prefix for the tables of one database of the source.", Shape.PAIRS,
        "DB=TEXT", scopes=_DATABASE_ONLY,
    ),
    Argument(
        "table_suffix_db", "A suffix for the tables of one database of the source.", Shape.PAIRS,
        "DB=TEXT", scopes=_DATABASE_ONLY,
    ),
    Argument(
        "table_mapping",
        "The name of one table in the lake, as `orders=ods_orders`; before prefixes and suffixes.",
        Shape.PAIRS,
        "SOURCE=NAME",
        scopes=_DATABASE_ONLY,
    ),
    Argument(
        "merge_shards",
        "Whether tables of one name in several databases go to one table, else to `db_table`.",
        Shape.TRUTH,
        "BOOL",
        default="true",
        sources=_SHARDED,
        scopes=_DATABASE_ONLY,
    ),
    Argument(
        "ignore_incompatible",
        "Leave out tables that do not fit the existing table, in place of an error.",
        Shape.TRUTH,
        "BOOL",
        default="false",
        sources=_SHARDED,
        scopes=_DATABASE_ONLY,
    ),
    Argument(
        "mode",
        "`combined` takes new tables while the job runs, `divided` at its next start.",
        value="MODE",
        choices=("divided", "combined"),
        default="divided; of Kafka combined",
        sources=(MYSQL, POSTGRES, KAFKA),
        scopes=_DATABASE_ONLY,
    ),
    Argument(
        "eager_init",
        "Accepted for Flink; every table is looked at when the job starts.",
        Shape.TRUTH,
        "BOOL",
        default="false",
        scopes=_DATABASE_ONLY,
    ),
    Argument(
        "once",
        "End when all is applied that the source had at the start.",
        Shape.FLAG,
        is_ours=True,
    ),
    Argument(
        "interval",
        "How long changes are gathered before they are written, such as `1 s` or `500 ms`.",
        value="TIME",
        default="1 s",
        is_ours=True,
    ),
    Argument(
        "evolve",
        "How far tables follow their source: add and widen columns; as Paimon; also rename; not.",
        value="POLICY",
        choices=("additive", "paimon", "full", "strict"),
        default="additive",
        is_ours=True,
    ),
    Argument(
        "sequence",
        "Order columns `_cdc_lsn` and `_cdc_seq`, by which a late older row never wins.",
        value="COLUMNS",
        choices=("source", "none"),
        default="source",
        is_ours=True,
    ),
    Argument(
        "keyless",
        "What to do with tables without a key: refuse them, or append their new rows. One whose"
        " rows are updated or deleted is suspended then.",
        value="ACTION",
        choices=("refuse", "append"),
        default="refuse; of kafka_sync_database append",
        is_ours=True,
    ),
    Argument(
        "on_lost_position",
        "What to do if the source no longer has the job's position: stop, or copy all again.",
        value="ACTION",
        choices=("fail", "resnapshot"),
        default="fail",
        is_ours=True,
    ),
    Argument(
        "reread_max",
        "Rows of a table that is copied again by itself when a change of its schema asks for it."
        " A larger one is suspended.",
        value="ROWS",
        default="10000000",
        is_ours=True,
    ),
    Argument(
        "quarantine_max",
        "Rows in the quarantine before the job stops.",
        value="ROWS",
        default="1000",
        is_ours=True,
    ),
    Argument(
        "max_rows",
        "Changed rows that are written together; larger transactions are cut.",
        value="ROWS",
        default="200000",
        is_ours=True,
    ),
    Argument(
        "password",
        "The source's password: `env:NAME`, `file:PATH` or `prompt`.",
        value="FORM",
        sources=_SHARDED,
        is_ours=True,
    ),
    Argument(
        "job",
        "The job's name, under which its journal stands.",
        value="NAME",
        default="of database and table",
        is_ours=True,
    ),
)  # fmt: skip


def arguments_of(command: str) -> dict[str, Argument]:
    """The arguments of a command by name, in the order of help."""
    if command not in SYNC_COMMANDS:
        hint = near_names(command, SYNC_COMMANDS) or f" Known: {', '.join(SYNC_COMMANDS)}."
        raise InvalidInputError(f"There is no command '{command}'.{hint}", kind="cdc_command")
    source, what = SYNC_COMMANDS[command]
    return {a.name: a for a in ARGUMENTS if source in a.sources and what in a.scopes}
