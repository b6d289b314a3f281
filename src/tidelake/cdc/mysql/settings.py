"""Settings of the source: Flink CDC's keys, as Paimon's ``--mysql_conf`` takes them.

Source of the names: org.apache.flink.cdc.connectors.mysql.source.config.MySqlSourceOptions. Keys
that only steer Flink's own machinery are taken and have no effect; every other key that is not
known is refused.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tidelake.cdc.source.source import no_snapshot_mode
from tidelake.errors import InvalidInputError, UnsupportedError, near_names

PORT_DEFAULT = 3306
SERVER_ID_LEAST = 5400  # Flink CDC draws from 5400 on
SERVER_IDS_COUNT = 1_000_000
SERVER_ID_MAX = 2**32 - 1

Mode = TypeVar("Mode", bound=StrEnum)

_WITHOUT_EFFECT = frozenset({
    "connection.pool.size",
    "chunk-meta.group.size",
    "chunk-key.even-distribution.factor.lower-bound",
    "chunk-key.even-distribution.factor.upper-bound",
    "scan.incremental.close-idle-reader.enabled",
    "scan.incremental.snapshot.backfill.skip",
    "scan.incremental.snapshot.enabled",
    "scan.incremental.snapshot.unbounded-chunk-first.enabled",
    "scan.newly-added-table.enabled",
    "scan.parse.online.schema.changes.enabled",
    "scan.snapshot.fetch.size",
    "use.legacy.json.format",
})  # fmt: skip
_KNOWN = frozenset({
    "hostname", "port", "username", "password", "database-name", "table-name", "server-id",
    "server-time-zone", "connect.timeout", "connect.max-retries", "heartbeat.interval",
    "scan.startup.mode", "scan.startup.specific-offset.file", "scan.startup.specific-offset.pos",
    "scan.startup.specific-offset.gtid-set", "scan.startup.specific-offset.skip-events",
    "scan.startup.specific-offset.skip-rows", "scan.startup.timestamp-millis",
    "scan.incremental.snapshot.chunk.size", "ssl.ca", "ssl.cert", "ssl.key", "ssl.mode",
})  # fmt: skip
_DURATION = re.compile(r"\s*(\d+)\s*(ms|s|sec|seconds?|m|min|minutes?|h|hours?)?\s*")
_UNITS_MS = {"": 1, "ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}


class StartupMode(StrEnum):
    """Where a job begins that has no position yet."""

    INITIAL = "initial"
    EARLIEST = "earliest-offset"
    LATEST = "latest-offset"
    SPECIFIC = "specific-offset"
    TIMESTAMP = "timestamp"


class SslMode(StrEnum):
    """Whether a connection is encrypted, in the words of MySQL's clients."""

    PREFERRED = "preferred"
    DISABLED = "disabled"
    REQUIRED = "required"
    VERIFY_CA = "verify-ca"
    VERIFY_IDENTITY = "verify-identity"


@dataclass(frozen=True, slots=True)
class MySqlSettings:
    """The settings of one source.

    Parameters
    ----------
    databases, tables : str
        Regular expressions that a whole name fits.
    server_id : int
        The id under which the log is read. No other reader of the server may have it.
    time_zone : str
        The zone in which TIMESTAMP columns become wall-clock times; empty for the server's.
    chunk_rows : int
        Rows of a part of a first copy; 0 leaves it to the job.
    """

    hostname: str
    databases: str
    port: int = PORT_DEFAULT
    username: str = ""
    password: str = field(default="", repr=False)
    tables: str = ".*"
    server_id: int = SERVER_ID_LEAST
    time_zone: str = ""
    connect_timeout_ms: int = 30_000
    retries_max: int = 3
    heartbeat_ms: int = 30_000
    startup: StartupMode = StartupMode.INITIAL
    startup_file: str = ""
    startup_pos: int = 4
    startup_gtids: str = ""
    startup_ms: int = 0
    chunk_rows: int = 0
    ssl_mode: SslMode = SslMode.PREFERRED
    ssl_ca: str = ""
    ssl_cert: str = ""
    ssl_key: str = ""

    @classmethod
    def of(cls, conf: Mapping[str, str]) -> MySqlSettings:
        """Read Flink CDC's keys.

        Raises
        ------
        InvalidInputError
            A key is unknown or missing, or a value is wrong.
        UnsupportedError
            The key asks for what we do not do: ``debezium.*``, ``jdbc.properties.*``.
        """
        _check_keys(conf)
        values = {key: value.strip() for key, value in conf.items()}
        for key in ("hostname", "database-name"):
            if not values.get(key):
                message = f"The source needs '{key}': add {key}=... to its settings."
                raise InvalidInputError(message, kind="option_missing", option=key)
        for key in ("database-name", "table-name"):
            _check_pattern(key, values.get(key, ""))
        return cls(
            hostname=values["hostname"],
            databases=values["database-name"],
            port=_integer(values, "port", PORT_DEFAULT, 1, 65_535),
            username=values.get("username", ""),
            password=conf.get("password", ""),
            tables=values.get("table-name") or ".*",
            server_id=_server_id(values),
            time_zone=_zone(values.get("server-time-zone", "")),
            connect_timeout_ms=_duration_ms(values, "connect.timeout", 30_000),
            retries_max=_integer(values, "connect.max-retries", 3, 0, 1_000),
            heartbeat_ms=_duration_ms(values, "heartbeat.interval", 30_000),
            startup=_one_of(values, "scan.startup.mode", StartupMode.INITIAL),
            startup_file=values.get("scan.startup.specific-offset.file", ""),
            startup_pos=_integer(values, "scan.startup.specific-offset.pos", 4, 4, 2**63),
            startup_gtids=values.get("scan.startup.specific-offset.gtid-set", ""),
            startup_ms=_integer(values, "scan.startup.timestamp-millis", 0, 0, 2**62),
            chunk_rows=_integer(values, "scan.incremental.snapshot.chunk.size", 0, 1, 2**31),
            ssl_mode=_one_of(values, "ssl.mode", SslMode.PREFERRED),
            ssl_ca=values.get("ssl.ca", ""),
            ssl_cert=values.get("ssl.cert", ""),
            ssl_key=values.get("ssl.key", ""),
        )


def _check_keys(conf: Mapping[str, str]) -> None:
    for key in conf:
        if key in _KNOWN or key in _WITHOUT_EFFECT:
            continue
        if key.startswith(("debezium.", "jdbc.properties.")):
            message = (
                f"'{key}' steers Debezium or Java's driver, which do not read here: remove it."
                " Type mapping switches take the place of 'tinyInt1isBit'."
            )
            raise UnsupportedError(message, kind="option_unsupported", option=key)
        message = f"There is no setting '{key}' of a MySQL source.{near_names(key, _KNOWN)}"
        raise InvalidInputError(message, kind="option_unknown", option=key)
    for key in ("skip-events", "skip-rows"):
        full = f"scan.startup.specific-offset.{key}"
        if conf.get(full, "0").strip() != "0":
            message = f"'{full}' is not supported: name a position between transactions."
            raise UnsupportedError(message, kind="option_unsupported", option=full)


def _check_pattern(key: str, pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        message = f"'{key}' is not a regular expression: {error}."
        raise InvalidInputError(message, kind="option_value", option=key) from error


def _server_id(values: Mapping[str, str]) -> int:
    """Take the first id of a range; without one, an id that the same settings give again."""
    text = values.get("server-id", "")
    if not text:
        names = "\0".join(values.get(k, "") for k in ("username", "database-name", "table-name"))
        return SERVER_ID_LEAST + zlib.crc32(names.encode()) % SERVER_IDS_COUNT
    found = re.fullmatch(r"(\d+)(?:\s*-\s*\d+)?", text)
    if not found or not 1 <= int(found[1]) <= SERVER_ID_MAX:
        message = f"'server-id' is '{text}'; write a number, or a range as 5400-5408."
        raise InvalidInputError(message, kind="option_value", option="server-id")
    return int(found[1])


def _zone(name: str) -> str:
    if name and not re.fullmatch(r"[+-]\d\d:\d\d", name):
        try:
            ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError) as error:
            message = f"'server-time-zone' is '{name}', which is no zone; write Europe/Berlin."
            raise InvalidInputError(
                message, kind="option_value", option="server-time-zone"
            ) from error
    return name


def _integer(values: Mapping[str, str], key: str, default: int, least: int, most: int) -> int:
    text = values.get(key, "")
    if not text:
        return default
    if not re.fullmatch(r"\d+", text) or not least <= int(text) <= most:
        message = f"'{key}' is '{text}'; write a number from {least} to {most}."
        raise InvalidInputError(message, kind="option_value", option=key)
    return int(text)


def _duration_ms(values: Mapping[str, str], key: str, default: int) -> int:
    text = values.get(key, "")
    if not text:
        return default
    found = _DURATION.fullmatch(text.lower())
    if not found:
        message = f"'{key}' is '{text}'; write a duration as '30 s'."
        raise InvalidInputError(message, kind="option_value", option=key)
    unit = found[2] or ""
    return int(found[1]) * _UNITS_MS["ms" if unit == "ms" else unit[:1]]


def _one_of(values: Mapping[str, str], key: str, default: Mode) -> Mode:
    text = values.get(key, "").lower()
    if not text:
        return default
    kind = type(default)
    known = [str(one) for one in kind]
    if kind is StartupMode and text == "snapshot":
        raise no_snapshot_mode()
    if text not in known:
        hint = near_names(text, known) or f" Known: {', '.join(known)}."
        message = f"'{key}' is '{text}', which is no such mode.{hint}"
        raise InvalidInputError(message, kind="option_value", option=key)
    return kind(text)
