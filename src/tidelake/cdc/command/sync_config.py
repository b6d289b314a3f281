"""Everything that a user asks of a job, as one value: from arguments, checked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from tidelake.cdc.columns.computed_columns import ComputedColumns
from tidelake.cdc.columns.definition import parse_definition
from tidelake.cdc.columns.expression import DefinitionError
from tidelake.cdc.columns.metadata_columns import MetadataColumns
from tidelake.cdc.columns.order_columns import ORDER_FIELDS
from tidelake.cdc.command.argument import DATABASE, KAFKA, SYNC_COMMANDS, arguments_of
from tidelake.cdc.command.given import Given, check_required, checked, wrong
from tidelake.cdc.command.secret_text import PASSWORD, SecretWays, is_reference, resolved
from tidelake.cdc.evolution.new_table import TargetOptions
from tidelake.cdc.evolution.plan import EvolutionRules, Policy
from tidelake.cdc.routing.name_filter import ALL, NameFilter
from tidelake.cdc.routing.routing import Mode, Routing
from tidelake.cdc.routing.table_names import TableNames
from tidelake.cdc.source.type_mapping import TypeMapping
from tidelake.errors import near_names

CASE_SENSITIVE = "case-sensitive"
WAREHOUSE = "warehouse"
TABLE_NAME = "table-name"
_INTERVAL = re.compile(r"(?P<number>\d+)\s*(?P<unit>ms|s|sec|min|h|)")
_UNITS_MS = {"ms": 1, "s": 1_000, "sec": 1_000, "": 1_000, "min": 60_000, "h": 3_600_000}
_JOB_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_COUNT_MAX = 2**62


@dataclass(frozen=True, slots=True)
class SyncConfig:
    """What a user asks of a job.

    Parameters
    ----------
    command : str
        ``postgres_sync_database``.
    given : mapping
        The arguments as they were given, for display; with secrets.
    job : str
        Name of the job.
    source_conf : mapping
        Settings of the source, by Flink CDC's names; a password may be a reference.
    catalog_conf : mapping
        Options of the catalog, without the warehouse.
    computed : tuple of str
        Definitions, whose columns of the source are not known yet.
    evolution : EvolutionRules
        With the names of metadata, order and computed columns as reserved.
    interval_ms : int
        How long changes are gathered for an epoch.
    reread_max : int
        Rows of the largest table that is copied again by itself.
    """

    command: str
    given: Given = field(repr=False)
    job: str
    warehouse: str | None = field(repr=False)
    source_conf: Mapping[str, str] = field(repr=False)
    catalog_conf: Mapping[str, str] = field(repr=False)
    routing: Routing
    computed: tuple[str, ...]
    metadata: MetadataColumns
    target: TargetOptions
    evolution: EvolutionRules
    is_once: bool = False
    interval_ms: int = 1_000
    resnapshots_if_lost: bool = False
    ignores_incompatible: bool = False
    reread_max: int = 10_000_000
    quarantine_max: int = 1_000
    rows_max: int = 200_000

    @property
    def source(self) -> str:
        """Kind of the source: ``postgres``."""
        return SYNC_COMMANDS[self.command][0]

    @property
    def has_order(self) -> bool:
        """Whether targets have the order columns."""
        return bool(self.target.order)

    @property
    def case_sensitive(self) -> bool:
        """Whether names keep their case in the lake."""
        return self.target.case_sensitive

    def source_settings(self, ways: SecretWays) -> dict[str, str]:
        """Settings of the source with its password.

        Raises
        ------
        InvalidInputError
            The password is not where it is said to be.
        """
        return resolved(self.source_conf, ways)

    def catalog_options(self, ways: SecretWays) -> dict[str, str]:
        """Options of the catalog with their secrets, as :meth:`source_settings`."""
        return resolved(self.catalog_conf, ways)


def config_of(command: str, given: Given) -> SyncConfig:
    """Make the value of a command's arguments.

    Raises
    ------
    InvalidInputError
        An argument is missing, or its value is wrong.
    """
    check_required(command, checked(command, given))
    return _Reading(command, given).config()


def interval_ms(text: str) -> int:
    """Read a time between epochs: ``"500 ms"``.

    Raises
    ------
    InvalidInputError
        It is none.
    """
    found = _INTERVAL.fullmatch(text.strip().lower())
    if found is None or not int(found["number"]):
        raise wrong("interval", f"'{text}' is no --interval: write 1 s, 500 ms or 5 min.")
    return int(found["number"]) * _UNITS_MS[found["unit"]]


class _Reading:
    """Reads the values of one command."""

    def __init__(self, command: str, given: Given) -> None:
        self.command = command
        self.source, self.what = SYNC_COMMANDS[command]
        self.given = given
        self.known = arguments_of(command)

    def config(self) -> SyncConfig:
        self._truth("eager_init", default=False)  # has no effect here, and must be sound
        source_conf = self._source_conf()
        catalog_conf = self._pairs("catalog_conf")
        warehouse = self._warehouse(catalog_conf)
        case_sensitive = _truth(CASE_SENSITIVE, catalog_conf.pop(CASE_SENSITIVE, "true"))
        computed = self.given.get("computed_column", ())
        metadata = MetadataColumns.of(
            self.source,
            self._names("metadata_column"),
            prefix=self._text("metadata_column_prefix", ""),
            case_sensitive=case_sensitive,
        )
        order = ORDER_FIELDS if self._choice("sequence", "source") == "source" else ()
        keyless = "append" if (self.source, self.what) == (KAFKA, DATABASE) else "refuse"
        reserved = {field.name for field in (*metadata.fields, *order)}
        names, references = _names_and_references(computed, case_sensitive=case_sensitive)
        return SyncConfig(
            command=self.command,
            given=self.given,
            job=self._job(),
            warehouse=warehouse,
            source_conf=source_conf,
            catalog_conf=catalog_conf,
            routing=self._routing(case_sensitive=case_sensitive),
            computed=computed,
            metadata=metadata,
            target=TargetOptions(
                partition_keys=self._names("partition_keys"),
                primary_keys=self._names("primary_keys"),
                table_conf=self._pairs("table_conf"),
                order=order,
                keys_from_source=self._truth("sync_primary_keys_from_source_schema", default=True),
                requires_key=self._choice("keyless", keyless) == "refuse",
                is_strict=self.what != DATABASE,
                case_sensitive=case_sensitive,
            ),
            evolution=EvolutionRules(
                policy=self._policy(),
                mapping=TypeMapping.of(self._names("type_mapping")),
                reserved=frozenset(reserved | names),
                needed=frozenset(references - names),
                case_sensitive=case_sensitive,
            ),
            is_once="once" in self.given,
            interval_ms=interval_ms(self._text("interval", "1 s")),
            resnapshots_if_lost=self._choice("on_lost_position", "fail") == "resnapshot",
            ignores_incompatible=self._truth("ignore_incompatible", default=False),
            reread_max=self._count("reread_max", 10_000_000, least=0),
            quarantine_max=self._count("quarantine_max", 1_000, least=0),
            rows_max=self._count("max_rows", 200_000, least=1),
        )

    # ---- parts

    def _source_conf(self) -> dict[str, str]:
        name = f"{self.source}_conf"
        conf = self._pairs(name)
        password = self._text("password", "")
        if password and PASSWORD in conf:
            raise wrong(PASSWORD, f"--password and {name} both give the password: give one.")
        if password and not is_reference(password):
            # whoever lists processes sees the command line
            message = "--password takes env:NAME, file:PATH or prompt, not the password itself."
            raise wrong(PASSWORD, message)
        if password:
            conf[PASSWORD] = password
        if self.what == DATABASE and TABLE_NAME in conf:
            message = (
                f"{self.command} takes no '{TABLE_NAME}': choose tables by --including_tables, or"
                f" put several into one by {self.source}_sync_table."
            )
            raise wrong(name, message)
        return conf

    def _warehouse(self, catalog_conf: dict[str, str]) -> str | None:
        own = catalog_conf.pop(WAREHOUSE, None)
        given = self._asked(WAREHOUSE)
        if own is not None and given is not None and own != given:
            raise wrong(WAREHOUSE, f"The warehouse is '{given}' and by catalog_conf '{own}'.")
        return given if own is None else own

    def _policy(self) -> Policy:
        """How far targets follow: of topics without what reads a table again, which is gone."""
        policy = Policy(self._choice("evolve", Policy.ADDITIVE))
        if self.source == KAFKA and policy is not Policy.STRICT:
            return Policy.PAIMON
        return policy

    def _routing(self, *, case_sensitive: bool) -> Routing:
        # tables of Kafka appear as messages name them
        mode = Mode(self._choice("mode", Mode.DIVIDED))
        if self.source == KAFKA:
            if self._asked("mode") == Mode.DIVIDED:
                said = (
                    "--mode divided would lose the first rows of a new table: topics have no copy"
                )
                raise wrong("mode", f"{said}. Leave it out.")
            mode = Mode.COMBINED
        return Routing(
            database=self._text("database", ""),
            table=self._asked("table"),
            names=TableNames(
                case_sensitive=case_sensitive,
                merge_shards=self._truth("merge_shards", default=True),
                prefix=self._text("table_prefix", ""),
                suffix=self._text("table_suffix", ""),
                db_prefixes=self._pairs("table_prefix_db"),
                db_suffixes=self._pairs("table_suffix_db"),
                mapping=self._pairs("table_mapping"),
            ),
            filter=NameFilter(
                including_tables=self._text("including_tables", ALL),
                excluding_tables=self._asked("excluding_tables"),
                including_dbs=self._text("including_dbs", ALL),
                excluding_dbs=self._asked("excluding_dbs"),
            ),
            mode=mode,
            partition_keys=self._names("partition_keys"),
            partition_keys_of={
                key: _split(names)
                for key, names in self._pairs("multiple_table_partition_keys").items()
            },
        )

    def _job(self) -> str:
        table = self.given.get("table", ())
        name = self._text("job", "-".join((*self.given["database"], *table)))
        if not _JOB_NAME.fullmatch(name):
            message = (
                f"'{name}' cannot name a job, nor a directory: give --job with letters, digits,"
                " '_', '.' and '-'."
            )
            raise wrong("job", message)
        return name

    # ---- shapes

    def _asked(self, name: str) -> str | None:
        texts = self.given.get(name)
        return texts[0] if texts else None

    def _text(self, name: str, default: str) -> str:
        asked = self._asked(name)
        return default if asked is None else asked

    def _names(self, name: str) -> tuple[str, ...]:
        return tuple(part for text in self.given.get(name, ()) for part in _split(text))

    def _pairs(self, name: str) -> dict[str, str]:
        pairs: dict[str, str] = {}
        for text in self.given.get(name, ()):
            key, sign, value = (part.strip() for part in text.partition("="))
            if not sign or not key:
                # what has no '=' may be a password whose key was forgotten
                raise wrong(name, f"A {name} is not of the form key=value.")
            if key in pairs:
                raise wrong(name, f"{name} gives '{key}' more than once: give it once.")
            pairs[key] = value
        return pairs

    def _truth(self, name: str, *, default: bool) -> bool:
        return _truth(name, self._text(name, str(default)))

    def _choice(self, name: str, default: str) -> str:
        text = self._text(name, default)
        choices = self.known[name].choices if name in self.known else (default,)
        if text not in choices:
            hint = near_names(text, choices)
            raise wrong(name, f"'{text}' is no --{name}: give {' or '.join(choices)}.{hint}")
        return text

    def _count(self, name: str, default: int, *, least: int) -> int:
        text = self._text(name, str(default)).replace("_", "")
        if not text.isdecimal() or not least <= int(text) <= _COUNT_MAX:
            raise wrong(name, f"'{text}' is no number of rows from {least} on, for --{name}.")
        return int(text)


def _split(text: str) -> tuple[str, ...]:
    return tuple(part for part in map(str.strip, text.split(",")) if part)


def _truth(name: str, text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise wrong(name, f"'{text}' of {name} is neither true nor false.")
    return text.lower() == "true"


def _names_and_references(
    definitions: tuple[str, ...], *, case_sensitive: bool
) -> tuple[set[str], set[str]]:
    """Names of computed columns, and of the columns that they read.

    What a definition has wrong by itself is refused here; the columns of the source are known
    later, with its tables.
    """
    names, references = set(), set()
    for text in definitions:
        try:
            definition = parse_definition(text)
        except DefinitionError:
            ComputedColumns.of(definitions, ())  # says it with the definition's place
            raise
        names.add(definition.column)
        references.add(definition.reference)
    found = names, {name for name in references if name is not None}
    return found if case_sensitive else _lower(*found)


def _lower(names: set[str], references: set[str]) -> tuple[set[str], set[str]]:
    return {name.lower() for name in names}, {name.lower() for name in references}
