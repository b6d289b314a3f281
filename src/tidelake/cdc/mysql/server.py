"""What the server is and how it is set, and what of it stands in the way of a job."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tidelake.cdc.mysql.connection import ServerSession
from tidelake.cdc.mysql.grants import Grants
from tidelake.cdc.mysql.log_reader import ServerFlavour
from tidelake.cdc.mysql.position import BinlogPosition
from tidelake.cdc.mysql.settings import MySqlSettings
from tidelake.cdc.source.finding import SourceFinding
from tidelake.cdc.source.source_table import SourceTable
from tidelake.errors import InvalidInputError, StorageRefusedError, TidelakeError

NAMES_SINCE = {True: (10, 5), False: (8, 0, 1)}
"""Versions of MariaDB and of MySQL that can log names of columns."""
LOG_STATUS_SINCE = (8, 2)
_VARIABLES = (
    "version", "log_bin", "binlog_format", "binlog_row_image", "binlog_row_metadata",
    "binlog_row_value_options", "server_id", "server_uuid", "gtid_mode", "gtid_domain_id",
    "time_zone", "system_time_zone", "lower_case_table_names", "expire_logs_days",
    "binlog_expire_logs_seconds", "log_slave_updates", "log_replica_updates",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """A server's global variables, in small letters; those that it does not have are missing."""

    variables: dict[str, str]

    @classmethod
    def ask(cls, session: ServerSession) -> ServerFacts:
        """Read them."""
        names = ", ".join(f"'{name}'" for name in _VARIABLES)
        rows = session.rows(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})")
        return cls({name.lower(): str(value) for name, value in rows})

    def __getitem__(self, name: str) -> str:
        return self.variables.get(name, "")

    @property
    def is_maria(self) -> bool:
        """Whether it is MariaDB."""
        return "mariadb" in self["version"].lower()

    @property
    def version(self) -> tuple[int, ...]:
        """Numbers of its version."""
        return tuple(map(int, re.findall(r"\d+", self["version"].split("-")[0])[:3]))

    @property
    def has_names(self) -> bool:
        """Whether it can log names of columns."""
        return self.version >= NAMES_SINCE[self.is_maria]

    @property
    def has_gtids(self) -> bool:
        """Whether each transaction has a GTID."""
        return self.is_maria or self["gtid_mode"].upper() == "ON"

    @property
    def folds_names(self) -> bool:
        """Whether names of tables have no case."""
        return self["lower_case_table_names"] not in {"", "0"}

    @property
    def identity(self) -> str:
        """What tells it from another server."""
        if self.is_maria:
            return f"mariadb:server_id={self['server_id']},domain={self['gtid_domain_id']}"
        return f"mysql:{self['server_uuid']}"

    def zone(self, settings: MySqlSettings) -> str:
        """The zone of TIMESTAMP columns: the setting's, else the server's.

        Raises
        ------
        InvalidInputError
            The server's is no name that can be relied on: ``CET``, ``EDT``.
        """
        if settings.time_zone:
            return settings.time_zone
        name = self["time_zone"]
        if name.upper() == "SYSTEM":
            name = self["system_time_zone"]
        if re.fullmatch(r"[+-]\d\d:\d\d", name) or name.upper() in {"UTC", "GMT"}:
            return name.upper()
        if "/" in name:
            try:
                ZoneInfo(name)
            except (ZoneInfoNotFoundError, ValueError):
                pass
            else:
                return name
        message = (
            f"The server's time zone is '{name}', which is no full name of a zone: set"
            " 'server-time-zone', as server-time-zone=Europe/Berlin."
        )
        raise InvalidInputError(message, kind="cdc_time_zone", option="server-time-zone")

    def flavour(self, session: ServerSession) -> ServerFlavour:
        """What the reader of the log must know."""
        return ServerFlavour(self.is_maria, self.has_names, self.folds_names, charsets(session))


def charsets(session: ServerSession) -> dict[int, str]:
    """Charset of each collation, by its number."""
    found = {}
    for view in ("COLLATION_CHARACTER_SET_APPLICABILITY", "COLLATIONS"):
        try:
            rows = session.rows(f"SELECT ID, CHARACTER_SET_NAME FROM information_schema.{view}")
        except StorageRefusedError:
            continue  # only MariaDB has numbers in the first, those of its newer collations too
        found.update({int(number): name for number, name in rows if number is not None})
    return found


def newest(session: ServerSession, facts: ServerFacts) -> BinlogPosition:
    """The position behind the last transaction.

    Raises
    ------
    StorageRefusedError
        The server logs nothing, or the user may not ask.
    """
    word = "MASTER" if facts.is_maria or facts.version < LOG_STATUS_SINCE else "BINARY LOG"
    rows = session.rows(f"SHOW {word} STATUS")
    if not rows:
        message = "The server has no binlog: start it with log_bin, binlog_format=ROW."
        raise StorageRefusedError(message, kind="log_bin")
    file, offset = str(rows[0][0]), int(rows[0][1])
    if facts.is_maria:
        gtids = str(session.rows("SELECT BINLOG_GTID_POS(%s, %s)", [file, offset])[0][0] or "")
    elif facts.has_gtids:
        gtids = str(rows[0][4]).replace("\n", "")
    else:
        gtids = ""
    return BinlogPosition(file, offset, 0, gtids)


_HEADS = frozenset({"Format_desc", "Previous_gtids"})
_HEADS_MAX = 5


def new_file(session: ServerSession, facts: ServerFacts) -> BinlogPosition:
    """Begin a new file of MySQL's log, and give the position of its first transaction.

    The server ends a file only when InnoDB has committed all transactions in it. So whatever is
    before the position shows in each SELECT that begins later. ``SHOW MASTER STATUS`` does not
    promise this: a transaction is in the log before its rows are seen, for as long as the disk or
    a replica that must answer takes.

    Raises
    ------
    StorageRefusedError
        The user lacks RELOAD.
    """
    session.rows("FLUSH LOCAL BINARY LOGS")
    now = newest(session, facts)
    rows = session.rows(f"SHOW BINLOG EVENTS IN '{now.file}' LIMIT {_HEADS_MAX}")
    offset, gtids = 0, ""
    for _, begin, kind, _, end, info in rows:
        if kind not in _HEADS:
            offset = int(begin)
            break
        offset = int(end)
        if kind == "Previous_gtids" and facts.has_gtids:
            gtids = str(info).replace("\n", "")
    return BinlogPosition(now.file, offset, 0, gtids)


def check_server(
    session: ServerSession,
    settings: MySqlSettings,
    facts: ServerFacts,
    tables: Sequence[SourceTable],
) -> list[SourceFinding]:
    """Look at settings and rights."""
    found = [
        *_log_findings(facts),
        *_right_findings(session, settings, facts, tables),
        *_id_findings(session, settings, facts),
    ]
    try:
        facts.zone(settings)
    except InvalidInputError as error:
        found.append(
            SourceFinding("server_time_zone", error.message, "server-time-zone=Europe/Berlin")
        )
    for table in tables:
        if not table.keys:
            text = f"{table.name} has no primary key: name one in --primary_keys."
            found.append(
                SourceFinding("no_primary_key", text, is_error=False, table=str(table.name))
            )
        found += [
            SourceFinding(
                "column_type",
                f"Column '{column.name}' of {table.name} has type {column.native_type}, which has"
                " no type in the lake.",
                "--type_mapping unknown-to-string" if "inet" in column.native_type else "",
                table=str(table.name),
            )
            for column in table.columns
            if column.type is None
        ]
    return found


def _log_findings(facts: ServerFacts) -> list[SourceFinding]:
    if facts["log_bin"].upper() not in {"ON", "1"}:
        text = "The server writes no binlog."
        return [SourceFinding("log_bin", text, "[mysqld] log_bin=bin server_id=1, and a restart")]
    wanted = {"binlog_format": "ROW", "binlog_row_image": "FULL"}
    if facts.has_names:
        wanted["binlog_row_metadata"] = "FULL"
    found = [
        SourceFinding(name, f"{name} is {facts[name]}; a job needs {value}.",
                f"SET GLOBAL {name} = '{value}'")
        for name, value in wanted.items()
        if name in facts.variables and facts[name].upper() != value
    ]  # fmt: skip
    if facts["binlog_row_value_options"]:
        text = "Updates are logged with parts of JSON alone; a job needs whole values."
        mend = "SET GLOBAL binlog_row_value_options = ''"
        found.append(SourceFinding("binlog_row_value_options", text, mend))
    if not facts.has_names:
        text = (
            f"{facts['version']} logs no names of columns: they are taken from information_schema"
            " where number and types fit, and each ALTER TABLE makes its table be copied again."
        )
        found.append(SourceFinding("binlog_row_metadata", text, is_error=False))
    return found


def _right_findings(
    session: ServerSession,
    settings: MySqlSettings,
    facts: ServerFacts,
    tables: Sequence[SourceTable],
) -> list[SourceFinding]:
    """Try what a job will do: grants by roles and wildcards are hard to read and easy to try."""
    user = settings.username
    found = []
    try:
        newest(session, facts)
    except TidelakeError as error:
        if error.kind == "cdc_rights":
            right = "BINLOG MONITOR" if facts.is_maria and facts.version >= (10, 5) else (
                "REPLICATION CLIENT"
            )  # fmt: skip
            mend = f"GRANT {right} ON *.* TO '{user}'"
            found.append(SourceFinding("right_replication_client", error.message, mend))
    grants = Grants.ask(session)
    if not (grants.allow("REPLICATION SLAVE") or grants.allow("REPLICATION REPLICA")):
        text = f"The user '{user}' may not read the log: it lacks REPLICATION SLAVE."
        mend = f"GRANT REPLICATION SLAVE ON *.* TO '{user}'"
        found.append(SourceFinding("right_replication_slave", text, mend))
    if not facts.is_maria and not grants.allow("RELOAD"):
        text = f"The user '{user}' may not begin a new file of the log, as a copy does: RELOAD."
        mend = f"GRANT RELOAD ON *.* TO '{user}'"
        # no error: a job beyond its copies does not need it, and a role may give it
        found.append(SourceFinding("right_reload", text, mend, is_error=False))
    keyless = sorted({table.name.database for table in tables if not table.keys})
    for database in [] if facts.is_maria else keyless:
        if not grants.allow("LOCK TABLES", database):
            text = (
                f"The user '{user}' may not lock tables of {database}, as the copy of one without a"
                " key does for a moment: LOCK TABLES."
            )
            mend = f"GRANT LOCK TABLES ON {quoted_name(database)}.* TO '{user}'"
            found.append(
                SourceFinding("right_lock_tables", text, mend, is_error=False, table=database)
            )
    for table in tables:
        name = quoted_name(table.name.database, table.name.table)
        try:
            session.rows(f"SELECT 1 FROM {name} LIMIT 0")
        except TidelakeError as error:
            mend = f"GRANT SELECT ON {name} TO '{user}'" if error.kind == "cdc_rights" else ""
            found.append(SourceFinding("right_select", error.message, mend, table=str(table.name)))
    return found


def _id_findings(
    session: ServerSession, settings: MySqlSettings, facts: ServerFacts
) -> list[SourceFinding]:
    mend = "server-id=<a number that no other reader or replica has>"
    if str(settings.server_id) == facts["server_id"]:
        text = f"'server-id' {settings.server_id} is that of the server itself."
        return [SourceFinding("server_id", text, mend)]
    try:
        hosts = session.rows("SHOW SLAVE HOSTS" if facts.version < (8, 4) or facts.is_maria
                             else "SHOW REPLICAS")  # fmt: skip
    except TidelakeError:
        return []  # the missing right is told above
    if any(str(row[0]) == str(settings.server_id) for row in hosts):
        text = f"Another reader has the 'server-id' {settings.server_id} now."
        return [SourceFinding("server_id_in_use", text, mend, is_error=False)]
    return []


def quoted_name(*parts: str) -> str:
    """Names as SQL has them.

    Examples
    --------
    >>> quoted_name("shop", "a`b")
    '`shop`.`a``b`'
    """
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)
