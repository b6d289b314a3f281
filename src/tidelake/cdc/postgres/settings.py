"""How a PostgreSQL is reached and what is read of it: Flink CDC's keys of ``--postgres_conf``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from tidelake.cdc.source.source import no_snapshot_mode
from tidelake.cdc.source.source_table import SourceName
from tidelake.errors import InvalidInputError, near_names

_T = TypeVar("_T")
PORT = 5432
CHUNK_ROWS = 200_000
TLS_KEYS = ("sslmode", "sslrootcert", "sslcert", "sslkey")
_SLOT_NAME = re.compile(r"[a-z0-9_]{1,63}")
_REQUIRED = ("hostname", "username", "database-name", "slot.name")
_KNOWN = (
    *_REQUIRED,
    "port",
    "password",
    "schema-name",
    "table-name",
    "decoding.plugin.name",
    "publication.name",
    "slot.failover",
    "scan.startup.mode",
    "scan.incremental.snapshot.chunk.size",
    *TLS_KEYS,
)


class PostgresStartupMode(StrEnum):
    """How a job begins that has no position yet."""

    INITIAL = "initial"
    """By a copy of the tables."""
    LATEST = "latest-offset"
    """With the changes that come from now on."""


@dataclass(frozen=True, slots=True)
class PostgresSettings:
    """One database of a server, and which of its tables.

    Parameters
    ----------
    hostname, username : str
        Where, and as which role.
    database : str
        One name; a connection reaches no other database.
    slot : str
        Name of the replication slot, which keeps our position in the server.
    password : str
        Never shown: not in a text of this value, not in an error.
    port : int
        Of TCP.
    schemas, tables : re.Pattern
        Whole names that are read.
    publication : str
        Name of the publication, which says whose changes the slot sends; by default the slot's.
    failover : bool
        Whether standbys keep the slot too, so that the job goes on after a fail-over;
        PostgreSQL 17 and later.
    startup_mode : PostgresStartupMode
        How a new job begins.
    chunk_rows : int
        Rows of one part of a first copy.
    tls : mapping
        libpq's own words: ``sslmode`` and the files.
    """

    hostname: str
    username: str
    database: str
    slot: str
    password: str = field(default="", repr=False)
    port: int = PORT
    schemas: re.Pattern[str] = re.compile("public")
    tables: re.Pattern[str] = re.compile(".*")
    publication: str = ""
    failover: bool = False
    startup_mode: PostgresStartupMode = PostgresStartupMode.INITIAL
    chunk_rows: int = CHUNK_ROWS
    tls: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, conf: Mapping[str, str]) -> PostgresSettings:
        """Read the keys.

        Raises
        ------
        InvalidInputError
            A key is unknown or missing, or a value is none of its key.

        Examples
        --------
        >>> conf = {"hostname": "db", "username": "u", "password": "p", "database-name": "d"}
        >>> settings = PostgresSettings.of({**conf, "slot.name": "s", "table-name": "t_.*"})
        >>> settings.publication, "'p'" in repr(settings)
        ('s', False)
        """
        for key in conf:
            if key not in _KNOWN:
                hint = near_names(key, _KNOWN) or f" Known: {', '.join(sorted(_KNOWN))}."
                message = f"PostgreSQL's settings have no '{key}'.{hint}"
                raise InvalidInputError(message, kind="option_key", option=key)
        for key in _REQUIRED:
            if not conf.get(key):
                message = f"PostgreSQL's settings need '{key}'."
                raise InvalidInputError(message, kind="option_value", option=key)
        plugin = conf.get("decoding.plugin.name", "pgoutput")
        if plugin != "pgoutput":
            message = (
                f"The decoding plugin '{plugin}' is not read; every PostgreSQL has pgoutput:"
                " leave decoding.plugin.name out."
            )
            raise InvalidInputError(message, kind="option_value", option="decoding.plugin.name")
        slot = conf["slot.name"]
        if not _SLOT_NAME.fullmatch(slot):
            message = f"'{slot}' cannot be a slot's name: 1 to 63 of a-z, 0-9 and _."
            raise InvalidInputError(message, kind="option_value", option="slot.name")
        return cls(
            hostname=conf["hostname"],
            username=conf["username"],
            database=conf["database-name"],
            slot=slot,
            password=conf.get("password", ""),
            port=_number(conf, "port", PORT, 65_535),
            schemas=_value(conf, "schema-name", "public", re.compile, "a regular expression"),
            tables=_value(conf, "table-name", ".*", re.compile, "a regular expression"),
            publication=conf.get("publication.name", slot),
            failover=_value(conf, "slot.failover", "false", _truth, "true or false"),
            startup_mode=_startup_mode(conf),
            chunk_rows=_number(
                conf, "scan.incremental.snapshot.chunk.size", CHUNK_ROWS, 1_000_000_000
            ),
            tls={key: conf[key] for key in TLS_KEYS if key in conf},
        )

    def reads(self, name: SourceName) -> bool:
        """Whether a table is one of those to read."""
        wanted = self.schemas.fullmatch(name.schema) and self.tables.fullmatch(name.table)
        return wanted is not None


def _startup_mode(conf: Mapping[str, str]) -> PostgresStartupMode:
    text = conf.get("scan.startup.mode", "initial").lower()
    if text == "snapshot":
        raise no_snapshot_mode()
    if text not in list(PostgresStartupMode):
        message = f"'{text}' is no scan.startup.mode: use {', '.join(PostgresStartupMode)}."
        raise InvalidInputError(message, kind="option_value", option="scan.startup.mode")
    return PostgresStartupMode(text)


def _value(
    conf: Mapping[str, str], key: str, default: str, parse: Callable[[str], _T], what: str
) -> _T:
    text = conf.get(key, default)
    try:
        return parse(text)
    except (ValueError, re.error) as error:
        message = f"'{text}' of '{key}' is not {what}: {error}."
        raise InvalidInputError(message, kind="option_value", option=key) from error


def _number(conf: Mapping[str, str], key: str, default: int, most: int) -> int:
    number = _value(conf, key, str(default), int, "a whole number")
    if not 1 <= number <= most:
        message = f"'{key}' is {number}; it must be 1 to {most}."
        raise InvalidInputError(message, kind="option_value", option=key)
    return number


def _truth(text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise ValueError("no such value")
    return text.lower() == "true"
